//! Tagged facts of HTML filings, from the file to the commands.

use std::fs::File;
use std::path::Path;

use parquet::file::reader::{FileReader, SerializedFileReader};
use serde_json::{Value, json};

use crate::support::TestEnv;

/// A filing that tags its revenues of two years, in millions; those in parentheses are tagged as negative.
pub fn filing(year: i32, revenues: &str, before: &str) -> String {
    let context = |id: &str, year: i32| {
        format!(
            r#"<xbrli:context id="{id}"><xbrli:entity><xbrli:identifier scheme="http://www.sec.gov/CIK">0000000007</xbrli:identifier>
</xbrli:entity><xbrli:period><xbrli:startDate>{year}-01-01</xbrli:startDate><xbrli:endDate>{year}-12-31</xbrli:endDate></xbrli:period></xbrli:context>"#
        )
    };
    let figure = |id: &str, text: &str| {
        let number = text.trim_matches(['(', ')']);
        let sign = match number.len() < text.len() {
            true => r#"sign="-" "#,
            false => "",
        };
        let tag = format!(
            r#"<ix:nonFraction name="us-gaap:Revenues" contextRef="{id}" unitRef="usd" decimals="-6" scale="6" {sign}format="ixt:num-dot-decimal">{number}</ix:nonFraction>"#
        );
        format!("<td>$</td><td>{}</td>", text.replace(number, &tag))
    };
    format!(
        r#"<html xmlns:ix="http://www.xbrl.org/2013/inlineXBRL" xmlns:xbrli="http://www.xbrl.org/2003/instance"
 xmlns:ixt="http://www.xbrl.org/inlineXBRL/transformation/2020-02-12"><body><div style="display:none"><ix:header>
<ix:hidden><ix:nonNumeric name="dei:DocumentPeriodEndDate" contextRef="now">{year}-12-31</ix:nonNumeric></ix:hidden>
<ix:resources>{}{}<xbrli:unit id="usd"><xbrli:measure>iso4217:USD</xbrli:measure></xbrli:unit></ix:resources></ix:header></div>
<p><b>FORM 10-K</b></p><p>For the fiscal year ended December 31, {year}</p>
<p><ix:nonNumeric name="dei:EntityRegistrantName" contextRef="now">Seven Corp.</ix:nonNumeric></p>
<p><b>Item 8. Financial Statements and Supplementary Data</b></p>
<table><tr><td>(in millions)</td><td></td><td>{year}</td><td></td><td>{}</td></tr>
<tr><td>Revenues</td>{}{}</tr></table></body></html>"#,
        context("now", year),
        context("then", year - 1),
        year - 1,
        figure("now", revenues),
        figure("then", before),
    )
}

#[test]
fn tagged_facts_are_listed_and_compared_after_an_ingest() {
    let lab = TestEnv::new();
    lab.put("seven-2023.htm", filing(2023, "1,200", "1,000"));
    lab.put("seven-2024.htm", filing(2024, "1,500", "1,150"));
    lab.ingest("store", &[]);
    let list = lab
        .stemma(
            "store",
            ["--json", "facts", "seven-2024", "--concept", "Revenues"],
        )
        .run()
        .json();
    let values: Vec<&Value> = list["facts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|fact| &fact["value"])
        .collect();
    assert_eq!(values, ["1500000000", "1150000000"]);
    assert_eq!(
        (&list["facts"][0]["page"], &list["facts"][0]["unit"]),
        (&1.into(), &"USD".into())
    );
    assert!(list["facts"][0]["section_id"].is_string());
    let csv = lab
        .stemma(
            "store",
            ["facts", "seven-2024", "--period", "2023", "--csv"],
        )
        .run();
    assert!(
        csv.out
            .contains("us-gaap:Revenues,Revenues,0000000007,2023-01-01,2023-12-31,USD,1150000000"),
        "{}",
        csv.out
    );
    let series = lab
        .stemma("store", ["--json", "series", "/", "Revenues"])
        .run()
        .json();
    let points = &series["series"][0]["points"];
    assert_eq!(
        (&points[1]["value"], &points[1]["restated"]),
        (&"1150000000".into(), &true.into())
    );
    assert_eq!(points[1]["earlier"][0]["value"], "1200000000");
    let text = lab.stemma("store", ["series", "/", "Revenues"]).run();
    assert!(
        text.out.contains("1,150,000,000") && text.out.contains("1,200,000,000 in seven-2023"),
        "{}",
        text.out
    );
    // They belong to the document, so that gc keeps them.
    let gc = lab.stemma("store", ["--json", "gc", "--yes"]).run();
    assert_eq!((gc.code, &gc.json()["objects"]), (Some(0), &0.into()));
    let again = lab
        .stemma("store", ["--json", "facts", "seven-2023"])
        .run()
        .json();
    assert_eq!(again["total"], 4);
}

#[test]
fn facts_have_the_sign_of_their_tag_and_the_cell_of_their_table() {
    let lab = TestEnv::new();
    lab.put("seven-2024.htm", filing(2024, "1,500", "(1,150)"));
    lab.ingest("store", &[]);
    let list = lab
        .stemma("store", ["--json", "facts", "seven-2024"])
        .run()
        .json();
    let found: Vec<(&Value, &Value)> = list["facts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|fact| (&fact["sign"], &fact["cell"]))
        .collect();
    let text = (&Value::Null, &Value::Null);
    let cell = |column: u32| json!({ "table": "seven-2024#t1", "row": 1, "column": column });
    assert_eq!(
        found,
        [
            text,
            text,
            (&Value::Null, &cell(1)),
            (&"-".into(), &cell(2))
        ]
    );
    let csv = lab.stemma("store", ["facts", "seven-2024", "--csv"]).run();
    assert!(
        csv.out
            .contains("USD,-1150000000,\"1,150\",-6,6,-,,false,1,seven-2024#t1,1,2,"),
        "{}",
        csv.out
    );
    let file = lab.path("facts.parquet");
    let arguments = ["facts", "seven-2024", "--parquet", file.to_str().unwrap()];
    assert_eq!(lab.stemma("store", arguments).run().code, Some(0));
    let rows = read_parquet(&file, &["sign", "table", "row", "column"]);
    let table = "\"seven-2024#t1\"";
    assert_eq!(
        rows[2..],
        [["null", table, "1", "1"], ["\"-\"", table, "1", "2"]]
    );
}

#[test]
fn documents_are_listed_filtered_sorted_and_searched_by_the_auditor_that_they_tag() {
    let lab = TestEnv::new();
    let audited = |year: i32, auditors: &[(&str, &str)]| {
        let tags = auditors.iter().map(|(context, name)| {
            format!(
                r#"<ix:nonNumeric name="dei:AuditorName" contextRef="{context}">{name}</ix:nonNumeric>"#
            )
        });
        let tags: String = tags.collect();
        filing(year, "1,200", "1,000").replace("</ix:hidden>", &format!("{tags}</ix:hidden>"))
    };
    lab.put(
        "a.htm",
        audited(2024, &[("then", "Ash &amp; Oak LLP"), ("now", "Elm LLP")]),
    );
    lab.put("b.htm", audited(2023, &[("now", "ASH &amp; OAK, LLP")]));
    lab.put("c.htm", audited(2022, &[("now", "Ash &amp; Oak LLP")]));
    lab.put("d.htm", filing(2021, "1,200", "1,000"));
    lab.ingest("store", &[]);
    let json = |arguments: &[&str]| {
        lab.stemma("store", [&["--json"], arguments].concat())
            .run()
            .json()
    };
    let fact = &json(&["stat", "a"])["document"]["facts"]["auditor"];
    assert_eq!(
        (&fact["value"], &fact["source"]),
        (&"Elm LLP".into(), &"tags".into())
    );
    let listed = |arguments: &[&str]| -> Vec<String> {
        let list = json(&[&["ls"], arguments].concat());
        let documents = list["documents"].as_array().unwrap().iter();
        documents
            .map(|document| document["locator"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(
        listed(&["/", "--where", "auditor = 'ash & oak'"]),
        ["b", "c"]
    );
    assert_eq!(listed(&["/@auditor/Elm LLP"]), ["a"]);
    assert_eq!(listed(&["-R", "--sort", "-auditor"]), ["a", "b", "c", "d"]);
    let folders = &json(&["ls", "/@auditor"])["folders"];
    assert_eq!(
        (&folders[0]["documents"], &folders[1]["documents"]),
        (&2.into(), &1.into())
    );
    let found = json(&["search", "revenues auditor:Elm"]);
    assert_eq!(found["hits"].as_array().unwrap().len(), 1);
    assert_eq!(found["hits"][0]["name"], "a.htm");
}

#[test]
fn pages_of_tagged_filings_are_estimated() {
    let lab = TestEnv::new();
    lab.put("seven.htm", filing(2024, "1,500", "1,150"));
    let list = lab
        .stemma("store", ["--json", "ingest", "filings", "--estimate"])
        .run()
        .json();
    let estimate = &list["estimate"];
    assert_eq!(
        (&estimate["unreadable"], &estimate["pages"]),
        (&0.into(), &1.into()),
        "{estimate}"
    );
}

// Each row of a Parquet file as its named columns.
fn read_parquet(path: &Path, columns: &[&str]) -> Vec<Vec<String>> {
    let reader = SerializedFileReader::new(File::open(path).unwrap()).unwrap();
    let rows = reader.get_row_iter(None).unwrap();
    let read = |row: parquet::record::Row| {
        let fields = row.get_column_iter();
        let named = fields.filter(|(name, _)| columns.contains(&name.as_str()));
        named.map(|(_, field)| field.to_string()).collect()
    };
    rows.map(|row| read(row.unwrap())).collect()
}

// A fact of seven-2024.htm for a year, as its columns are read.
fn parquet_row(concept: &str, year: &str, unit: &str, value: &str, text: &str) -> Vec<String> {
    let from = format!("{year}-01-01");
    let to = format!("{year}-12-31");
    ["\"seven-2024.htm\"", concept, &from, &to, unit, value, text]
        .map(str::to_owned)
        .to_vec()
}

#[test]
fn facts_are_written_to_a_parquet_file_with_types() {
    let lab = TestEnv::new();
    lab.put("seven-2024.htm", filing(2024, "1,500", "1,150"));
    lab.ingest("store", &[]);
    let file = lab.path("facts.parquet");
    let arguments = ["facts", "seven-2024", "--parquet", file.to_str().unwrap()];
    let written = lab.stemma("store", arguments).run();
    assert_eq!(written.code, Some(0), "{}", written.err);
    let columns = ["document", "concept", "from", "to", "unit", "value", "text"];
    let mut rows = read_parquet(&file, &columns);
    rows.sort();
    let texts = [
        ("\"dei:DocumentPeriodEndDate\"", "\"2024-12-31\""),
        ("\"dei:EntityRegistrantName\"", "\"Seven Corp.\""),
    ];
    let mut expected: Vec<Vec<String>> = texts
        .map(|(concept, text)| parquet_row(concept, "2024", "null", "null", text))
        .to_vec();
    for (year, value) in [("2023", "1150000000"), ("2024", "1500000000")] {
        let exact = format!("{value}.000000000");
        let text = format!("\"{value}\"");
        expected.push(parquet_row(
            "\"us-gaap:Revenues\"",
            year,
            "\"USD\"",
            &exact,
            &text,
        ));
    }
    assert_eq!(rows, expected);
    let missing = lab.path("nowhere/facts.parquet");
    let arguments = [
        "facts",
        "seven-2024",
        "--concept",
        "Assets",
        "--parquet",
        missing.to_str().unwrap(),
    ];
    // 1: no fact matches; the file has no rows.
    assert_eq!(lab.stemma("store", arguments).run().code, Some(1));
    assert!(read_parquet(&missing, &columns).is_empty());
}
