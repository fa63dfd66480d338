//! Listing and reading tables.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use stemma_document::{FilingFacts, Heading, SourceBody, TextLines};
use stemma_filings::monospaced_page;
use stemma_sample_store as store;
use stemma_store::Env;

use super::{TestClient, text};
use crate::Preset;

const BALANCE: &str = "\
Item 8. Balance
  (Dollars in millions)
                             2023        2022
  Cash                     $ 1,749     $ 1,603
  Receivables                  820         (31)
  Total assets             $ 2,569     $ 1,572";
const SEGMENTS: &str = "\
Item 9. Segments
                             2023        2022
  Anvils                     1,700       1,100
  Rockets                      869         472
  Total                      2,569       1,572";

async fn client_with_tables() -> TestClient {
    client_with(SourceBody::Pages(
        [BALANCE, SEGMENTS].map(monospaced_page).into(),
    ))
    .await
}

async fn client_with(body: SourceBody) -> TestClient {
    let mut client = TestClient::start(Preset::All).await;
    let blobs = client.blobs.clone();
    let path = "10-K/TABLES_2023.pdf";
    store::publish(blobs.as_ref(), path, body, FilingFacts::default()).await;
    store::announce(blobs.as_ref(), path, Env::system().now_ms()).await;
    let began = Instant::now();
    loop {
        let arguments = json!({ "doc_name": "TABLES_2023" });
        let result = client.call("get_document_structure", arguments).await;
        if result["isError"] != true {
            return client;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "{result}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn tables(client: &mut TestClient, arguments: Value) -> Vec<Value> {
    let data = client.data("get_document_structure", arguments).await;
    data["structure"].as_array().cloned().unwrap()
}

#[tokio::test]
async fn tables_of_a_document_or_a_section_are_listed() {
    let mut client = client_with_tables().await;
    let all = json!({ "doc_name": "TABLES_2023", "format": "tables" });
    let listed = tables(&mut client, all.clone()).await;
    let ids: Vec<&Value> = listed.iter().map(|table| &table["id"]).collect();
    assert_eq!(ids, ["TABLES_2023#t1", "TABLES_2023#t2"]);
    assert_eq!(listed[0]["unit"], "(Dollars in millions)");
    assert_eq!(
        (&listed[1]["start_index"], &listed[1]["rows"]),
        (&2.into(), &3.into())
    );
    let shown = client.call("get_document_structure", all).await;
    assert!(text(&shown).contains("TABLES_2023#t1 "), "{shown}");
    let section = json!({ "doc_name": "TABLES_2023", "format": "tables", "node_id": "item-9" });
    let listed = tables(&mut client, section).await;
    assert_eq!(listed.len(), 1, "{listed:?}");
    assert_eq!(listed[0]["id"], "TABLES_2023#t2");
}

#[tokio::test]
async fn a_table_is_fetched_with_its_rows() {
    let mut client = client_with_tables().await;
    let id = json!({ "id": "TABLES_2023#t1" });
    let table = client.data("fetch", id).await;
    let rows = table["text"].as_str().unwrap();
    assert!(rows.contains("| Receivables | 820 | (31) |"), "{rows}");
    assert_eq!(table["metadata"]["scale"], 1_000_000);
    assert_eq!(
        (&table["metadata"]["pages"], &table["truncated"]),
        (&"1".into(), &false.into())
    );
    let missing = json!({ "id": "TABLES_2023#t7" });
    let error = client.call_error("fetch", missing).await;
    assert_eq!(error["code"], "locator.no_table");
}

#[tokio::test]
async fn tables_of_a_text_have_lines() {
    let lines = format!("# Balance\n{BALANCE}\n\n# Segments\n{SEGMENTS}");
    let heading = |line: u32, title: &str| Heading {
        line,
        level: 1,
        title: title.to_owned(),
    };
    let text = TextLines {
        lines: lines.lines().map(str::to_owned).collect(),
        headings: vec![heading(1, "Balance"), heading(9, "Segments")],
        ..TextLines::default()
    };
    let mut client = client_with(SourceBody::Lines(text)).await;
    let all = json!({ "doc_name": "TABLES_2023", "format": "tables" });
    let listed = tables(&mut client, all).await;
    let places = listed
        .iter()
        .map(|table| (&table["start_index"], &table["end_index"]));
    assert_eq!(
        places.collect::<Vec<_>>(),
        [(&5.into(), &7.into()), (&12.into(), &14.into())]
    );
    let section = json!({
        "doc_name": "TABLES_2023",
        "format": "tables",
        "node_id": listed[1]["node_id"],
    });
    assert_eq!(tables(&mut client, section).await, listed[1..]);
    let table = client.data("fetch", json!({ "id": listed[0]["id"] })).await;
    assert_eq!(table["metadata"]["lines"], "5-7");
    assert_eq!(table["metadata"].get("pages"), None);
}
