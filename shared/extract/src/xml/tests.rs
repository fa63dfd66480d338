use stemma_document::{Line, Page};

use super::*;

fn read_xml(bytes: &[u8]) -> Result<Source, ExtractError> {
    read(bytes, &Limits::default(), crate::html::read_made)
}

fn source(xml: &str) -> Source {
    read_xml(xml.as_bytes()).expect("it is a document")
}

fn pages(source: &Source) -> &[Page] {
    let stemma_document::SourceBody::Pages(pages) = &source.body else {
        panic!("XML has pages");
    };
    pages
}

fn lines(source: &Source) -> Vec<&Line> {
    pages(source).iter().flat_map(|page| &page.lines).collect()
}

fn texts(xml: &str) -> Vec<String> {
    let source = source(xml);
    lines(&source)
        .iter()
        .map(|line| line.text.to_string())
        .collect()
}

fn transaction(date: &str, shares: u32, mark: &str) -> String {
    format!(
        "<nonDerivativeTransaction><securityTitle><value>Common Stock</value></securityTitle>\
         <transactionDate><value>{date}</value></transactionDate>\
         <transactionAmounts><transactionShares><value>{shares}</value>{mark}</transactionShares>\
         <transactionPricePerShare><value>12.50</value></transactionPricePerShare></transactionAmounts></nonDerivativeTransaction>"
    )
}

fn ownership_report(transactions: &str) -> String {
    format!(
        "<?xml version=\"1.0\"?><ownershipDocument><schemaVersion>X0306</schemaVersion><documentType>4/A</documentType>\
         <periodOfReport>2023-01-24</periodOfReport><issuer><issuerCik>0000077777</issuerCik><issuerName>ACME ANVILS INC</issuerName>\
         <issuerTradingSymbol>ACME</issuerTradingSymbol></issuer><reportingOwner><reportingOwnerId><rptOwnerCik>0001</rptOwnerCik>\
         <rptOwnerName>COYOTE WILE E</rptOwnerName></reportingOwnerId><reportingOwnerRelationship><isDirector>1</isDirector>\
         </reportingOwnerRelationship></reportingOwner><nonDerivativeTable>{transactions}</nonDerivativeTable>\
         <footnotes><footnote id=\"F1\">Granted under the plan &amp; vests in a year.</footnote></footnotes></ownershipDocument>"
    )
}

#[test]
fn an_ownership_report_has_fields_tables_and_facts() {
    let two = transaction("2023-01-24", 519, "<footnoteId id=\"F1\"/>")
        + &transaction("2023-01-25", 100, "");
    let source = source(&ownership_report(&two));
    assert_eq!(source.format, SourceFormat::Xml);
    let facts = ["edgar.type", "company", "cik", "period"].map(|key| source.metadata[key].as_str());
    assert_eq!(facts, ["4/A", "ACME ANVILS INC", "77777", "2023-01-24"]);
    let lines = lines(&source);
    let text: Vec<&str> = lines.iter().map(|line| line.text.as_str()).collect();
    for expected in [
        "Form 4. Statement of Changes in Beneficial Ownership of Securities",
        "Trading Symbol ACME",
        "Reporting Owners",
        "Table I. Non-Derivative Securities",
        "Common Stock 2023-01-25 100 12.50",
        "Footnote 1 Granted under the plan & vests in a year.",
    ] {
        assert!(text.contains(&expected), "{expected} in {text:#?}");
    }
    let outline: Vec<&str> = source
        .outline
        .iter()
        .map(|item| item.title.as_str())
        .collect();
    assert_eq!(
        outline[1..],
        [
            "Issuer",
            "Reporting Owners",
            "Table I. Non-Derivative Securities",
            "Footnotes"
        ]
    );
    let row = lines
        .iter()
        .find(|line| line.text.contains("2023-01-25"))
        .unwrap();
    let cells = &row
        .grid
        .as_ref()
        .expect("rows are of a declared table")
        .cells;
    assert_eq!(cells.len(), 4);
    assert!(row.bytes.is_none(), "the lines are not those of the file");
}

#[test]
fn one_transaction_is_a_table_too() {
    let text = texts(&ownership_report(&transaction("2023-01-24", 519, "")));
    assert!(
        text.contains(&"Title of Security Transaction Date Shares Price per Share".to_owned()),
        "{text:#?}"
    );
}

#[test]
fn holdings_of_a_manager_are_rows() {
    let holding = |name: &str, sole: u32| {
        format!(
            "<ns1:infoTable><ns1:nameOfIssuer>{name}</ns1:nameOfIssuer><ns1:cusip>000000100</ns1:cusip><ns1:value>1000</ns1:value>\
             <ns1:votingAuthority><ns1:Sole>{sole}</ns1:Sole><ns1:None>0</ns1:None></ns1:votingAuthority></ns1:infoTable>"
        )
    };
    let table: String = (0..3).map(|n| holding(&format!("ISSUER {n}"), n)).collect();
    let text = texts(&format!(
        "<ns1:informationTable xmlns:ns1=\"urn:x\">{table}</ns1:informationTable>"
    ));
    assert_eq!(text[0], "Form 13F. Information Table");
    assert_eq!(
        text[1],
        "Name of Issuer CUSIP Value Voting Authority, Sole Voting Authority, None"
    );
    assert_eq!(text[4], "ISSUER 2 000000100 1000 2 0");
}

#[test]
fn an_unknown_schema_is_read_by_its_names() {
    let text = texts(
        "<plantReport><plantName>North</plantName><ovenLog><reading><at>1</at><degrees>20</degrees></reading>\
         <reading><at>2</at><degrees unit=\"C\">30</degrees></reading></ovenLog><state code=\"idle\"/></plantReport>",
    );
    assert_eq!(
        text,
        [
            "Plant Report",
            "Plant Name North",
            "Oven Log",
            "At Degrees",
            "1 20",
            "2 30",
            "State idle"
        ]
    );
}

#[test]
fn files_for_machines_are_named() {
    for (xml, what) in [
        (
            "<xbrli:xbrl xmlns:xbrli='x'><a>1</a></xbrli:xbrl>",
            "an XBRL instance",
        ),
        ("<xsd:schema xmlns:xsd='x'/>", "an XML schema"),
        ("<link:linkbase/>", "an XBRL linkbase"),
        ("<xsl:stylesheet/>", "a style sheet"),
        ("<InstanceReport/>", "an R file"),
    ] {
        let error = read_xml(xml.as_bytes()).unwrap_err();
        assert_eq!(error.code, "xml.not_a_document");
        assert!(error.message.contains(what), "{}", error.message);
    }
    for empty in ["<?xml version='1.0'?>", "", "no markup", "<a/>"] {
        let error = read_xml(empty.as_bytes()).unwrap_err();
        assert_eq!(error.code, "xml.no_text", "{empty}");
    }
}

#[test]
fn damaged_and_encoded_files_are_read_as_far_as_they_go() {
    let cut = "<report><name>Acme</name><city>Tuc";
    let read_cut = source(cut);
    assert!(
        lines(&read_cut)
            .iter()
            .any(|line| line.text.contains("Acme"))
    );
    assert!(
        read_cut
            .defects
            .iter()
            .any(|defect| defect.code == "xml.damaged")
    );
    let latin = b"<?xml version=\"1.0\" encoding=\"ISO-8859-1\"?><a><name>Caf\xE9</name></a>";
    let latin = read_xml(latin).unwrap();
    assert!(lines(&latin).iter().any(|line| line.text.contains("Café")));
}

#[test]
fn entities_of_a_file_are_not_expanded() {
    let levels: String = (1..30)
        .map(|n| format!("<!ENTITY a{n} \"&a{};&a{};\">", n - 1, n - 1))
        .collect();
    let bomb = format!(
        "<!DOCTYPE r [<!ENTITY a0 \"boom\">{levels}<!ENTITY f SYSTEM \"file:///etc/passwd\">]><r><a>&a29;</a><b>&f;</b></r>"
    );
    assert_eq!(texts(&bomb)[1..], ["A &a29;", "B &f;"]);
}

#[test]
fn hostile_files_take_bounded_work() {
    let deep = format!("<r><a>1</a>{}</r>", "<b>".repeat(100_000));
    let deep = source(&deep);
    assert!(deep.defects.iter().any(|defect| defect.code == "xml.cut"));
    let wide: String = (0..300).map(|n| format!("<c{n}>1</c{n}>")).collect();
    let wide = source(&format!("<r><row>{wide}</row><row><c1>2</c1></row></r>"));
    assert!(wide.defects.iter().any(|defect| defect.code == "xml.cut"));
    // Groups of two of many names, and long names in deep paths.
    let pairs: String = (0..5_000)
        .map(|n| format!("<n{n}><a>1</a></n{n}>").repeat(2))
        .collect();
    assert!(!pages(&source(&format!("<r>{pairs}</r>"))).is_empty());
    let name = "n".repeat(100_000);
    let long = format!(
        "<r>{}1{}</r>",
        format!("<{name}>").repeat(20),
        format!("</{name}>").repeat(20)
    );
    assert!(!pages(&source(&long)).is_empty());
}
