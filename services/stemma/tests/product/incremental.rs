//! A second ingest only processes changes.

use std::collections::BTreeSet;

use serde_json::Value;
use stemma_filings::{FilingKind, Spec, generate};

use crate::support::{TestEnv, objects, started_tasks, trees};

/// All objects of documents: those below `c/`.
fn document_objects(lab: &TestEnv) -> BTreeSet<String> {
    objects(&lab.path("store"))
        .into_keys()
        .filter(|key| key.starts_with("c/"))
        .collect()
}

/// Ingests again; returns the answer, the stages that began, and the objects of documents that came to be.
fn reingest(lab: &TestEnv) -> (Value, Vec<String>, BTreeSet<String>) {
    let before = document_objects(lab);
    let answer = lab
        .stemma("store", ["--json", "ingest", "filings"])
        .env("STEMMA_LOG", "stemma_engine=debug")
        .run();
    assert_eq!(answer.code, Some(0), "{answer:?}");
    let stages = started_tasks(&answer)
        .into_iter()
        .map(|(stage, _)| stage)
        .collect();
    (
        answer.json(),
        stages,
        document_objects(lab).difference(&before).cloned().collect(),
    )
}

#[test]
fn unchanged_documents_are_not_reprocessed() {
    let lab = TestEnv::new();
    lab.put_twelve();
    let first = lab.ingest("store", &[]);
    assert_eq!(first["counts"]["unchanged"], 0);
    let (second, stages, new) = reingest(&lab);
    assert_eq!(second["counts"]["unchanged"], 12);
    assert_eq!(second["documents"], Value::Array(Vec::new()));
    assert_eq!((stages, new), (Vec::new(), BTreeSet::new()));
}

#[test]
fn only_changed_documents_are_reprocessed() {
    let lab = TestEnv::new();
    let spec = Spec {
        pages: 8,
        ..Spec::new(FilingKind::TenQ, 1)
    };
    for (name, seed) in [("a.pdf", 1), ("b.pdf", 2), ("c.pdf", 3), ("d.pdf", 4)] {
        lab.put(
            name,
            generate(&Spec {
                seed,
                ..spec.clone()
            })
            .pdf,
        );
    }
    lab.ingest("store", &[]);

    // One page of one document changes.
    lab.put("a.pdf", generate(&spec.clone().with_page_changed(3)).pdf);
    let (changed, stages, new) = reingest(&lab);
    assert_eq!(
        (
            changed["counts"]["done"].as_u64(),
            changed["counts"]["unchanged"].as_u64()
        ),
        (Some(1), Some(3))
    );
    assert_eq!(stages, ["paginate", "outline", "publish"]);
    let of: BTreeSet<_> = new
        .iter()
        .filter_map(|key| key.split("/d/").nth(1)?.split('/').next())
        .collect();
    assert_eq!(of.len(), 1, "{new:#?}");
    assert_eq!(trees(&lab.path("store"))["a.pdf"].version.seq, 2);

    // Only the file's time changes: the same bytes are the same version.
    lab.put("b.pdf", std::fs::read(lab.filings().join("b.pdf")).unwrap());
    let (touched, stages, new) = reingest(&lab);
    assert_eq!(touched["counts"]["unchanged"], 4);
    assert_eq!((stages, new), (Vec::new(), BTreeSet::new()));

    // A deleted file is reported, but its tree is kept.
    std::fs::remove_file(lab.filings().join("c.pdf")).unwrap();
    let (gone, stages, new) = reingest(&lab);
    assert_eq!(
        (
            gone["counts"]["total"].as_u64(),
            gone["counts"]["unchanged"].as_u64()
        ),
        (Some(3), Some(3))
    );
    assert_eq!(
        gone["removed"].as_array().map(Vec::len),
        Some(1),
        "{gone:#}"
    );
    assert!(
        gone["removed"][0].as_str().unwrap().starts_with('c'),
        "{gone:#}"
    );
    assert_eq!((stages, new), (Vec::new(), BTreeSet::new()));
    assert!(trees(&lab.path("store")).contains_key("c.pdf"));

    // A renamed file is a new document, because documents are identified by location.
    std::fs::rename(lab.filings().join("d.pdf"), lab.filings().join("e.pdf")).unwrap();
    lab.put("f.pdf", generate(&Spec { seed: 6, ..spec }).pdf);
    let (renamed, stages, _) = reingest(&lab);
    assert_eq!(
        (
            renamed["counts"]["done"].as_u64(),
            renamed["counts"]["unchanged"].as_u64()
        ),
        (Some(2), Some(2))
    );
    assert_eq!(stages.len(), 6, "{stages:?}");
    assert_eq!(
        renamed["removed"].as_array().map(Vec::len),
        Some(2),
        "{renamed:#}"
    );
    let copy = &renamed["duplicates"][0];
    assert!(
        copy["path"] == "e.pdf" && copy["of"].as_str().unwrap().starts_with('d'),
        "{renamed:#}"
    );
}
