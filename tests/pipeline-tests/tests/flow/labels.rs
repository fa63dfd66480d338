//! Label linkbases next to filings: even if they cannot be read, the filings are published.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use stemma_document::{
    Collection, CompanionFile, Digest, DocId, DocumentVersion, Origin, TreeObject, blob_keys,
};
use stemma_engine::Ports;
use stemma_engine::flow::JobOptions;
use stemma_engine::queue::Lane;
use stemma_pipeline::sources::{MAX_COMPANION_BYTES, SourceStore, SourceWriter};
use stemma_pipeline::{RunSettings, Submission, WorkerDeps};
use stemma_pipeline_tests::{InProcessExtractor, Services, report, simulate, submission};
use stemma_roles::coordinator::{SubmitRequest, submit};
use stemma_store::blobs::{Blobs, MemoryBlobs};
use stemma_store::{Env, Failure, Priority};

const FILING: &str = r#"<html xmlns:ix="http://www.xbrl.org/2013/inlineXBRL" xmlns:xbrli="http://www.xbrl.org/2003/instance">
<body><div style="display:none"><ix:header><ix:resources><xbrli:context id="c"><xbrli:entity><xbrli:identifier scheme="x">77</xbrli:identifier>
</xbrli:entity><xbrli:period><xbrli:instant>2024-12-31</xbrli:instant></xbrli:period></xbrli:context><xbrli:unit id="usd">
<xbrli:measure>iso4217:USD</xbrli:measure></xbrli:unit></ix:resources></ix:header></div><p><b>Item 2. Properties</b></p><p>It has
<ix:nonFraction name="us-gaap:Assets" contextRef="c" unitRef="usd" scale="3">1234</ix:nonFraction></p></body></html>"#;
const LABELS: &str = r##"<linkbase><labelLink><loc href="a.xsd#us-gaap_Assets" label="l"/><labelArc from="l" to="t"/>
<label label="t">Total assets</label></labelLink></linkbase>"##;

/// Has the filings, and no other file.
struct Filings;

#[async_trait]
impl SourceStore for Filings {
    async fn read(&self, version: &DocumentVersion, _: u64) -> Result<Bytes, Failure> {
        if version.name.ends_with(".htm") {
            return Ok(FILING.into());
        }
        let message = format!("there is no {}", version.uri);
        Err(Failure::permanent("input.unreadable", message))
    }
}

fn filing(name: &str, labels: Option<(&str, u64)>) -> Submission {
    Submission {
        labels: labels.map(|(text, size_bytes)| {
            Box::new(CompanionFile {
                name: format!("{name}_lab.xml"),
                source: Digest::from_content(text.as_bytes()),
                origin: Origin::Content,
                size_bytes,
            })
        }),
        ..submission(&format!("{name}.htm"), FILING.as_bytes())
    }
}

#[test]
fn labels_that_cannot_be_read_are_a_gap_of_their_filing() {
    simulate(async {
        let env = Env::simulated(1);
        let store = Arc::new(MemoryBlobs::default());
        let ports = Ports::embedded(&env, Arc::<MemoryBlobs>::clone(&store));
        let collection = Collection::default();
        let writer = SourceWriter::start(&ports.blobs, &collection)
            .await
            .unwrap();
        for stored in [LABELS, "<html>not found</html>"] {
            let digest = Digest::from_content(stored.as_bytes());
            writer.store(digest, stored.into()).await.unwrap();
        }
        let cases = [
            ("none", None, ""),
            ("good", Some((LABELS, 200)), ""),
            (
                "damaged",
                Some(("<html>not found</html>", 22)),
                "not a linkbase",
            ),
            ("gone", Some(("never stored", 12)), "gone_lab.xml"),
            (
                "large",
                Some((LABELS, MAX_COMPANION_BYTES + 1)),
                "over the limit",
            ),
        ];
        let documents = cases.map(|(name, labels, _)| filing(name, labels));
        let order = SubmitRequest {
            collection: &collection,
            settings: &RunSettings::default(),
            priority: Priority::Bulk,
            options: JobOptions::default(),
        };
        let job = submit(&ports, order, &documents).await.unwrap().job;
        let deps = WorkerDeps::new(Arc::new(Filings), Arc::new(InProcessExtractor));
        let services = Services::start(&ports, deps, [(Lane::Cpu, 2)]);
        let counts = report(&env, &store, &job).await.unwrap().counts;
        services.stop().await.unwrap();
        assert_eq!(counts.failed, 0, "{counts:?}");
        for (document, (name, _, expected)) in documents.iter().zip(cases) {
            let doc = DocId::new(&collection, &document.uri);
            let key = blob_keys::tree_key(&collection, doc, 1);
            let json = store.get(&key).await.unwrap().unwrap();
            let TreeObject::Published(published) = serde_json::from_slice(&json).unwrap() else {
                panic!("{name} has no tree");
            };
            let gap = published
                .tree
                .gaps
                .iter()
                .find(|gap| gap.code == "xbrl.labels");
            let detail = gap.map_or("", |gap| gap.detail.as_str());
            assert!(
                detail.contains(expected) && detail.is_empty() == expected.is_empty(),
                "{name}: {detail}"
            );
        }
    })
    .unwrap();
}
