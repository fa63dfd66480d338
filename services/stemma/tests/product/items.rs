//! Items and facts of filings, as commands print them.

use serde_json::Value;
use stemma_filings::{FilingKind, Spec, generate};

use crate::support::TestEnv;

fn quarterly(lab: &TestEnv, name: &str) {
    lab.put(
        name,
        generate(&Spec {
            pages: 12,
            ..Spec::new(FilingKind::TenQ, 22)
        })
        .pdf,
    );
}

fn fact(lab: &TestEnv, document: &str, name: &str) -> (String, String) {
    let facts = lab
        .stemma("store", ["--json", "stat", document])
        .run()
        .json()["document"]["facts"][name]
        .clone();
    let text = |field: &str| facts[field].as_str().unwrap_or_default().to_owned();
    (text("value"), text("source"))
}

#[test]
fn sidecars_and_paths_supply_metadata() {
    let lab = TestEnv::new();
    quarterly(&lab, "320193/0000320193-22-000108/report.pdf");
    quarterly(&lab, "plain.pdf");
    lab.ingest("store", &[]);
    assert_eq!(
        fact(&lab, "report", "cik"),
        ("320193".into(), "path".into())
    );
    assert_eq!(
        fact(&lab, "report", "accession"),
        ("0000320193-22-000108".into(), "path".into())
    );
    assert_eq!(fact(&lab, "plain", "cik"), (String::new(), String::new()));

    lab.put(
        "metadata.csv",
        "file,cik,filed\nplain.pdf,0001065280,2022-10-28\n",
    );
    let count = |answer: &Value| answer["documents"].as_array().map_or(0, Vec::len);
    assert_eq!(
        count(&lab.ingest("store", &[])),
        1,
        "only what is stated anew is published again"
    );
    assert_eq!(
        fact(&lab, "plain", "cik"),
        ("1065280".into(), "sidecar".into())
    );
    assert_eq!(
        fact(&lab, "plain", "filed"),
        ("2022-10-28".into(), "sidecar".into())
    );
    let version = |document: &str| {
        lab.stemma("store", ["--json", "stat", document])
            .run()
            .json()["document"]["version"]
            .as_u64()
            .unwrap()
    };
    assert_eq!((version("plain"), version("report")), (2, 1));

    lab.put("metadata.csv", "file,acession\nplain.pdf,x\n");
    let answer = lab.stemma("store", ["--json", "ingest", "filings"]).run();
    assert_eq!(answer.code, Some(2));
    let error = answer.json()["error"].clone();
    assert_eq!(error["code"], "input.metadata_invalid");
    assert!(
        error["message"]
            .as_str()
            .unwrap()
            .ends_with("unknown column `acession`; did you mean `accession`?")
    );
}

#[test]
fn items_are_listed_and_ambiguous_items_rejected() {
    let lab = TestEnv::new();
    quarterly(&lab, "report.pdf");
    lab.ingest("store", &[]);
    let view = lab
        .stemma("store", ["--json", "items", "report"])
        .run()
        .json();
    let ids: Vec<&str> = view["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["id"].as_str().unwrap())
        .collect();
    assert!(
        ids.contains(&"10-Q.I.1") && ids.contains(&"10-Q.II.1A"),
        "{ids:?}"
    );
    assert!(
        view["items"]
            .as_array()
            .unwrap()
            .iter()
            .all(|item| item["status"].is_string())
    );

    let both = lab
        .stemma("store", ["--json", "cat", "report#item-1"])
        .run();
    assert_eq!(both.code, Some(2));
    let candidates = both.json()["error"]["candidates"].clone();
    assert_eq!(
        candidates,
        serde_json::json!(["report#item-I.1", "report#item-II.1"])
    );
    let one = lab
        .stemma("store", ["--json", "cat", "report#item-II.1A"])
        .run();
    assert_eq!(one.code, Some(0));
    let item = one.json()["item"].clone();
    assert_eq!(
        (item["id"].as_str(), item["locator"].as_str()),
        (Some("10-Q.II.1A"), Some("report#item-1A"))
    );
}
