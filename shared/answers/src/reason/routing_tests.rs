//! Which of twenty documents are walked, by a model that says what it is told to.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::json;
use stemma_document::{Fact, SectionTree, pageindex};
use stemma_engine::PortError;

use super::routing::Routing;
use super::scripted::Scripted;
use super::walked::{Strategy, Walked};
use super::{Budget, Knowledge, ReasonSettings, Reasoner, Sources};
use stemma_catalog::catalogue::{Catalogue, Listed};
use stemma_catalog::fixtures::of_company;
use stemma_catalog::shelf::{Opened, Shelf};
use stemma_retrieval::find::{FindError, Finder, Found, Hit, Query, Within};

/// Documents of two sections each, the first best by words.
struct Many {
    documents: Vec<Listed>,
    tree: SectionTree,
}

#[async_trait]
impl Finder for Many {
    async fn find(&self, query: &Query) -> Result<Found, FindError> {
        let inside = |listed: &Listed| match &query.within {
            Within::All => true,
            Within::Documents(docs) => docs.contains(&listed.doc()),
        };
        let found = self
            .documents
            .iter()
            .enumerate()
            .filter(|(_, listed)| inside(listed));
        let hits = found.flat_map(|(at, listed)| {
            self.tree.walk().map(move |(_, section)| Hit {
                doc: listed.doc(),
                name: listed.version().name.clone(),
                version: 1,
                section: section.id,
                path: vec![section.title.clone()],
                pages: None,
                lines: None,
                best_pages: Vec::new(),
                score: 10.0 - at as f32 / 10.0,
                parts: Default::default(),
                why: String::new(),
                excerpt: Default::default(),
            })
        });
        Ok(Found {
            hits: hits.take(query.limit).collect(),
            ..Found::default()
        })
    }
}

#[async_trait]
impl Shelf for Many {
    async fn open(&self, _: &Listed) -> Result<Option<Opened>, PortError> {
        Ok(Some(Opened {
            tree: self.tree.clone(),
            body: None,
        }))
    }
}

/// Numbers of the documents that are walked, in order (numbers are those by words), the walk, and what was asked.
async fn routed(routing: Routing, says: &[&str]) -> (Vec<usize>, Walked, Arc<Scripted>) {
    let catalogue = Catalogue::of_entries((0..20).map(|n: u32| {
        let mut entry = of_company(
            &format!("d{n:02}"),
            if n.is_multiple_of(2) {
                "Even Corp"
            } else {
                "Odd Corp"
            },
        );
        entry.facts.fiscal_year = Some(Fact::text((2001 + n / 2).to_string(), None));
        entry
    }));
    let documents: Vec<Listed> = (0..20)
        .map(|n| catalogue.resolve(&format!("d{n:02}")).unwrap().clone())
        .collect();
    let section = |title: &str| json!({ "title": title, "start_index": 1, "end_index": 1 });
    let structure = json!({ "doc_name": "d", "structure": [section("One"), section("Two")] });
    let many = Many {
        documents,
        tree: pageindex::import(&structure, "d").unwrap(),
    };
    let settings = ReasonSettings {
        analysis: false,
        routing,
        routing_described: 12,
        ..ReasonSettings::default()
    };
    let (script, asker) = Scripted::lines(says);
    let reasoner = Reasoner::new(Arc::new(asker), settings, Knowledge::default());
    let consultation = reasoner.asker().begin(
        reasoner.asker().name("s"),
        Budget {
            calls: says.len() as u32,
            ..Budget::default()
        },
    );
    let sources = Sources {
        finder: &many,
        shelf: &many,
        catalogue: &catalogue,
    };
    let query = Query::of("where is the needle");
    let walked = reasoner
        .walk(sources, &query, Strategy::BestFirst, &consultation)
        .await
        .unwrap();
    let order = walked
        .reasoning
        .steps
        .iter()
        .filter_map(|step| step.doc)
        .map(|doc| {
            many.documents
                .iter()
                .position(|listed| listed.doc() == doc)
                .unwrap()
        })
        .collect();
    (order, walked, script)
}

#[tokio::test(start_paused = true)]
async fn a_model_chooses_documents_among_those_described_and_words_keep_a_place() {
    let says = r#"{"documents":[{"document":5,"score":0.9,"reason":"r"},{"document":2,"score":0.1,"reason":"r"},{"document":999,"score":1,"reason":"r"},{"document":13,"score":1,"reason":"r"}]}"#;
    let (order, walked, script) = routed(Routing::Auto, &[says]).await;
    assert_eq!(order, [4, 0], "{:?}", walked.reasoning.notes);
    let shown = &script.asked()[0].user;
    let is_cut = shown.contains("Document 12:") && !shown.contains("Document 13:");
    assert!(is_cut && shown.contains("even, 2001"), "{shown}");
    let none = r#"{"documents":[]}"#;
    let (order, _, script) = routed(Routing::Auto, &[none, says]).await;
    assert_eq!(order, [16, 0], "nothing fits: the next are looked at, once");
    assert!(script.asked()[1].user.contains("d12") && !script.asked()[1].user.contains("d11"));
    let (order, ..) = routed(Routing::Auto, &[none, none]).await;
    assert_eq!(order, [0, 1, 2], "nothing fits: as without a model");
    let (order, walked, _) = routed(Routing::Auto, &[]).await;
    assert!(
        order == [0, 1, 2] && !walked.reasoning.notes.is_empty(),
        "the model is away"
    );
}

#[tokio::test(start_paused = true)]
async fn a_model_chooses_facts_that_documents_have_and_never_widens() {
    let says = r#"{"conditions":[{"facet":"company","value":"odd"},{"facet":"fiscal_year","value":"2003"}]}"#;
    let (order, ..) = routed(Routing::Metadata, &[says]).await;
    assert_eq!(
        order,
        [5, 7, 0],
        "of that year and the next; what words put first keeps a place"
    );
    let wrong = r#"{"conditions":[{"facet":"company","value":"PWNED"},{"facet":"name","value":"d01"},{"facet":"*","value":"*"}]}"#;
    let (order, walked, _) = routed(Routing::Metadata, &[wrong]).await;
    assert_eq!((order, walked.reasoning.unknown_ids), (vec![0, 1, 2], 3));
    let partly = r#"{"conditions":[{"facet":"company","value":"odd"},{"facet":"form","value":"10-K"},{"facet":"fiscal_year","value":"2002"}]}"#;
    let (order, walked, _) = routed(Routing::Metadata, &[partly]).await;
    assert_eq!(
        (order, walked.reasoning.unknown_ids),
        (vec![3, 5, 0], 1),
        "{:?}",
        walked.reasoning.notes
    );
}
