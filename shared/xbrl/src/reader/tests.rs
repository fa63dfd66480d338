use rust_decimal::Decimal;

use super::*;
use crate::{Decimals, FactValue, Period, TaggedFact, decode_facts, encode_facts};

const ROOT: &str = r#"<html xmlns="http://www.w3.org/1999/xhtml" xmlns:ix="http://www.xbrl.org/2013/inlineXBRL"
 xmlns:xbrli="http://www.xbrl.org/2003/instance" xmlns:xbrldi="http://xbrl.org/2006/xbrldi"
 xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
 xmlns:ixt="http://www.xbrl.org/inlineXBRL/transformation/2020-02-12"
 xmlns:ixt-sec="http://www.sec.gov/inlineXBRL/transformation/2015-08-31"
 xmlns:gaap="http://fasb.org/us-gaap/2024">"#;

const HEADER: &str = r#"<div style="display:none"><ix:header><ix:hidden>
<ix:nonNumeric contextRef="year" name="dei:AmendmentFlag" id="f1">false</ix:nonNumeric></ix:hidden>
<ix:resources><xbrli:context id="year"><xbrli:entity>
<xbrli:identifier scheme="http://www.sec.gov/CIK">0000012345</xbrli:identifier></xbrli:entity>
<xbrli:period><xbrli:startDate>2024-01-01</xbrli:startDate><xbrli:endDate>2024-12-31</xbrli:endDate></xbrli:period>
</xbrli:context>
<xbrli:context id="europe"><xbrli:entity><xbrli:identifier scheme="c">0000012345</xbrli:identifier><xbrli:segment>
<xbrldi:explicitMember dimension="x:RegionAxis">x:EuropeMember</xbrldi:explicitMember>
<xbrldi:typedMember dimension="x:LoanAxis"><x:Loan>No. 7</x:Loan></xbrldi:typedMember></xbrli:segment></xbrli:entity>
<xbrli:period><xbrli:instant>2024-12-31</xbrli:instant></xbrli:period></xbrli:context>
<xbrli:unit id="usd"><xbrli:measure>iso4217:USD</xbrli:measure></xbrli:unit>
<xbrli:unit id="eps"><xbrli:divide><xbrli:unitNumerator><xbrli:measure>iso4217:USD</xbrli:measure>
</xbrli:unitNumerator><xbrli:unitDenominator><xbrli:measure>xbrli:shares</xbrli:measure></xbrli:unitDenominator>
</xbrli:divide></xbrli:unit></ix:resources></ix:header></div>"#;

fn read(body: &str) -> FactTable {
    read_facts(format!("{ROOT}{HEADER}{body}</html>").as_bytes())
}

// The facts of the body, without the one of the header.
fn facts(table: &FactTable) -> Vec<TaggedFact<'_>> {
    table.facts().skip(1).collect()
}

fn figure(attributes: &str, content: &str) -> String {
    format!(
        r#"<ix:nonFraction contextRef="year" unitRef="usd" name="gaap:Revenues" {attributes}>{content}</ix:nonFraction>"#
    )
}

fn number(text: &str) -> Option<Decimal> {
    Some(text.parse().unwrap())
}

#[test]
fn a_figure_has_everything_that_is_declared() {
    let body = figure(
        r#"decimals="-6" scale="6" sign="-" format="ixt:num-dot-decimal""#,
        "<span>1,394</span>&#160;",
    );
    let table = read(&format!("<p>({body})</p>"));
    assert_eq!(table.defects, []);
    let fact = facts(&table)[0];
    assert_eq!(
        fact.concept, "us-gaap:Revenues",
        "the usual prefix of the taxonomy"
    );
    assert_eq!((fact.label, fact.entity), ("Revenues", "0000012345"));
    assert_eq!(fact.period.to_string(), "2024-01-01/2024-12-31");
    assert_eq!(fact.period.days(), Some(366));
    assert_eq!(
        (fact.unit, fact.scale, fact.is_negated),
        (Some("iso4217:USD"), 6, true)
    );
    assert_eq!(fact.decimals, Some(Decimals::Places(-6)));
    assert_eq!(
        (fact.number(), fact.displayed),
        (number("-1394000000"), "1,394")
    );
    let file = format!("{ROOT}{HEADER}<p>({body})</p></html>");
    assert!(file[fact.byte as usize..].starts_with("<ix:nonFraction"));
    assert!(file[..fact.end as usize].ends_with("</ix:nonFraction>"));
    assert!(table.facts().next().unwrap().is_hidden && !fact.is_hidden);
}

#[test]
fn dimensions_and_quotients_of_units_are_read() {
    let body = r#"<ix:nonFraction contextRef="europe" unitRef="eps" name="x:Eps" decimals="INF" scale="-2">125</ix:nonFraction>"#;
    let table = read(body);
    let fact = facts(&table)[0];
    let loan = ("x:LoanAxis".to_owned(), "No. 7".to_owned());
    let region = ("x:RegionAxis".to_owned(), "x:EuropeMember".to_owned());
    assert_eq!(fact.dimensions, [loan, region]);
    assert_eq!(
        (fact.unit, fact.decimals),
        (Some("iso4217:USD/xbrli:shares"), Some(Decimals::Exact))
    );
    assert_eq!(fact.number(), number("1.25"));
    assert!(matches!(fact.period, Period::Instant(_)));
}

#[test]
fn nested_facts_share_their_text() {
    let inner = figure(r#"scale="3""#, "12");
    let table = read(&figure(r#"scale="6""#, &inner));
    let numbers: Vec<_> = facts(&table).iter().map(TaggedFact::number).collect();
    assert_eq!(numbers, [number("12000000"), number("12000")]);
}

#[test]
fn nil_facts_and_dashes_differ() {
    let table = read(&format!(
        "{}{}{}",
        figure(r#"xsi:nil="true""#, ""),
        figure(r#"format="ixt:fixed-zero""#, "&#8212;"),
        r#"<ix:nonFraction contextRef="year" unitRef="usd" name="gaap:Other" xsi:nil="true"/>"#,
    ));
    let values: Vec<_> = facts(&table).iter().map(|fact| fact.value).collect();
    assert_eq!(
        values,
        [
            FactValue::Nil,
            FactValue::Number(Decimal::ZERO),
            FactValue::Nil
        ]
    );
}

#[test]
fn unknown_formats_and_misfits_are_defects_without_a_value() {
    let table = read(&format!(
        "{}{}{}{}",
        figure(r#"format="ixt:num-new""#, "12"),
        figure(r#"format="other:num-dot-decimal""#, "12"),
        figure(r#"format="ixt:num-dot-decimal""#, "twelve"),
        figure(r#"scale="many""#, "12"),
    ));
    assert!(
        facts(&table)
            .iter()
            .all(|fact| fact.value == FactValue::Unreadable)
    );
    let codes: Vec<_> = table
        .defects
        .iter()
        .map(|defect| defect.code.as_str())
        .collect();
    assert_eq!(
        codes,
        [
            "xbrl.format_unknown",
            "xbrl.format_unknown",
            "xbrl.format_unknown",
            "xbrl.value"
        ]
    );
}

#[test]
fn texts_go_on_in_continuations_and_leave_out_what_is_excluded() {
    let table = read(
        r#"<ix:nonNumeric contextRef="year" name="x:PolicyTextBlock" continuedAt="c1" escape="true"><p>One<b>s</b></p>
        <ix:exclude><p>page 7</p></ix:exclude><p>two</p></ix:nonNumeric><hr/>
        <ix:continuation id="c2">four</ix:continuation><ix:continuation id="c1" continuedAt="c2">three</ix:continuation>"#,
    );
    assert_eq!(table.defects, []);
    let fact = facts(&table)[0];
    assert_eq!(fact.value, FactValue::Text("Ones two three four"));
    let parts: Vec<u32> = table.parts().iter().map(|part| part.fact).collect();
    assert_eq!(parts, [1, 1]);
}

#[test]
fn loops_of_continuations_end() {
    let table = read(
        r#"<ix:nonNumeric contextRef="year" name="x:A" continuedAt="c1">a</ix:nonNumeric>
        <ix:continuation id="c1" continuedAt="c2">b</ix:continuation>
        <ix:continuation id="c2" continuedAt="c1">c</ix:continuation>"#,
    );
    assert_eq!(facts(&table)[0].displayed, "a b c");
    assert_eq!(table.defects[0].code, "xbrl.continuation");
}

#[test]
fn continuations_of_footnotes_are_no_defects() {
    let table = read(
        r#"<ix:footnote id="n" continuedAt="c">a</ix:footnote><ix:continuation id="c">b</ix:continuation>"#,
    );
    assert_eq!(table.defects, []);
    let unused = read(r#"<ix:continuation id="c">b</ix:continuation>"#);
    assert_eq!(unused.defects[0].code, "xbrl.continuation");
}

#[test]
fn facts_in_excluded_parts_are_facts() {
    let excluded = figure("", "7");
    let table = read(&format!(
        r#"<ix:nonNumeric contextRef="year" name="x:A">text <ix:exclude>page {excluded}</ix:exclude></ix:nonNumeric>"#
    ));
    assert_eq!(facts(&table)[0].displayed, "text");
    assert_eq!(facts(&table)[1].number(), number("7"));
}

#[test]
fn several_headers_add_up() {
    let second = r#"<ix:header><ix:resources><xbrli:unit id="pure"><xbrli:measure>xbrli:pure</xbrli:measure></xbrli:unit>
        <xbrli:context id="ever"><xbrli:entity><xbrli:identifier scheme="c">1</xbrli:identifier></xbrli:entity>
        <xbrli:period><xbrli:forever/></xbrli:period></xbrli:context></ix:resources></ix:header>"#;
    let body = r#"<ix:nonFraction contextRef="ever" unitRef="pure" name="x:Rate" scale="-2">5.5</ix:nonFraction>"#;
    let table = read(&format!("{body}{second}"));
    let fact = facts(&table)[0];
    assert_eq!(
        (fact.period, fact.unit, fact.number()),
        (Period::Forever, Some("xbrli:pure"), number("0.055"))
    );
}

#[test]
fn facts_without_a_context_are_left_out_and_recorded() {
    let table =
        read(r#"<ix:nonFraction contextRef="none" unitRef="usd" name="x:A">1</ix:nonFraction>"#);
    assert!(facts(&table).is_empty());
    assert_eq!(table.defects[0].code, "xbrl.context");
}

#[test]
fn html_may_lack_end_tags() {
    let table = read(&format!(
        "<p>a<br><td>{}<p></div></b>{}",
        figure("", "1"),
        figure("", "2")
    ));
    assert_eq!(facts(&table).len(), 2);
    assert_eq!(table.defects, []);
}

#[test]
fn a_file_that_is_no_xml_gives_the_facts_before() {
    let table = read(&format!("{}<p x='", figure("", "1")));
    assert_eq!(facts(&table).len(), 1);
    assert_eq!(table.defects[0].code, "xbrl.not_well_formed");
    let unclosed = read(r#"<ix:nonFraction contextRef="year" unitRef="usd" name="x:A">1"#);
    assert!(facts(&unclosed).is_empty());
    assert_eq!(unclosed.defects[0].code, "xbrl.not_well_formed");
}

#[test]
fn offsets_count_bytes_of_the_file() {
    let body = format!("Caf\u{e9} {}", figure("", "1"));
    let file = format!("\u{FEFF}{ROOT}{HEADER}{body}</html>");
    let table = read_facts(file.as_bytes());
    assert!(file[facts(&table)[0].byte as usize..].starts_with("<ix:nonFraction"));
    let mut latin: Vec<u8> = format!("{ROOT}{HEADER}Caf").into_bytes();
    latin.extend(b"\xE9 ");
    latin.extend(
        figure(r#"format="ixt:num-dot-decimal""#, "1\u{1}234")
            .bytes()
            .map(|byte| if byte == 1 { 0xA0 } else { byte }),
    );
    let table = read_facts(&latin);
    let fact = facts(&table)[0];
    assert!(latin[fact.byte as usize..].starts_with(b"<ix:nonFraction"));
    assert_eq!(fact.number(), number("1234"));
    assert_eq!(table.defects[0].code, "xbrl.encoding");
}

#[test]
fn files_without_inline_xbrl_have_no_facts() {
    for bytes in [
        &b"<html><p>Revenues 12</p></html>"[..],
        b"",
        b"\xFF\xFE<\0",
        b"%PDF-1.7",
    ] {
        assert_eq!(read_facts(bytes), FactTable::default());
    }
}

#[test]
fn deep_and_endless_files_are_bounded() {
    let deep = format!(
        "{ROOT}{}",
        "<ix:nonNumeric name='x' contextRef='year'>x".repeat(100_000)
    );
    let table = read_facts(deep.as_bytes());
    assert!(
        table
            .defects
            .iter()
            .any(|defect| defect.code == "xbrl.limit")
    );
    let open = format!("{ROOT}{}", "<b>".repeat(1_100_000));
    assert_eq!(read_facts(open.as_bytes()).defects[0].code, "xbrl.limit");
    let entities = format!(
        "<!DOCTYPE html [<!ENTITY a \"{}\"><!ENTITY b \"{}\">]>{ROOT}{HEADER}{}",
        "x".repeat(1_000),
        "&a;".repeat(1_000),
        figure("", "&b;")
    );
    let table = read_facts(entities.as_bytes());
    assert_eq!(facts(&table)[0].displayed, "&b;");
}

#[test]
fn tables_are_stored_and_damaged_ones_are_refused() {
    let mut table = read(&format!(
        "{}{}",
        figure(r#"scale="6""#, "12"),
        figure(r#"format="ixt:x""#, "-")
    ));
    let place = |byte: u32| (stemma_document::PageNo::new(byte / 2_000 + 1), byte % 7);
    table.place(|fact| Some(place(fact.byte)));
    let bytes = encode_facts(&table).unwrap();
    assert_eq!(bytes, encode_facts(&table).unwrap());
    assert_eq!(decode_facts(&bytes).unwrap(), table);
    assert_eq!(
        facts(&table)[0].page.map(|page| page.get()),
        Some(facts(&table)[0].byte / 2_000 + 1)
    );
    for end in 0..bytes.len() {
        assert!(decode_facts(&bytes[..end]).is_err(), "cut at {end}");
    }
    let mut newer = bytes;
    newer[0] = 99;
    assert!(decode_facts(&newer).is_err());
}

proptest::proptest! {
    #[test]
    fn no_input_panics(parts in proptest::collection::vec(0_usize..16, 0..40)) {
        let pieces = [
            ROOT, HEADER, "<ix:nonFraction name='a' contextRef='year' unitRef='usd'>", "</ix:nonFraction>",
            "<ix:nonNumeric name='b' contextRef='year' continuedAt='c'>", "</ix:nonNumeric>", "<ix:continuation id='c'>",
            "</ix:continuation>", "<ix:exclude>", "</ix:exclude>", "1,2", "&amp;", "<", "\u{A0}", "</ix:hidden>", "<ix:hidden>",
        ];
        let file: String = parts.iter().map(|part| pieces[*part]).collect();
        let table = read_facts(format!("{ROOT}{file}").as_bytes());
        let bytes = encode_facts(&table).unwrap();
        proptest::prop_assert_eq!(decode_facts(&bytes).unwrap(), table);
    }
}
