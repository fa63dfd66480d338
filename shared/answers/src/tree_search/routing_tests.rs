//! Routing over twenty documents with a scripted model.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::json;
use stemma_document::{Fact, SectionTree, pageindex};
use stemma_store::PortResult;

use super::result::{TreeSearchResult, TreeSearchStrategy};
use super::scripted::ScriptedModel;
use super::{Knowledge, QuestionBudget, TreeSearchSettings, TreeSearchSources, TreeSearcher};
use stemma_catalog::catalog::{Catalog, CatalogDocument};
use stemma_catalog::document_store::{DocumentStore, OpenDocument};
use stemma_catalog::fixtures::company_entry;
use stemma_retrieval::search::{
    DocumentScope, Query, SearchError, SearchHit, SearchResults, SearchService,
};
use stemma_retrieval::usage::CallAccount;

// Documents of two sections each, in order of their lexical scores.
struct ManyDocuments {
    documents: Vec<CatalogDocument>,
    tree: SectionTree,
    has_hits: bool,
}

#[async_trait]
impl SearchService for ManyDocuments {
    async fn search(
        &self,
        query: &Query,
        _: Option<&dyn CallAccount>,
    ) -> Result<SearchResults, SearchError> {
        let inside = |document: &CatalogDocument| match &query.within {
            DocumentScope::All => true,
            DocumentScope::Documents(docs) => docs.contains(&document.doc()),
        };
        let all_hits = self
            .documents
            .iter()
            .enumerate()
            .filter(|(_, document)| inside(document));
        let hits = all_hits.flat_map(|(at, document)| {
            self.tree.walk().map(move |(_, section)| SearchHit {
                score: 10.0 - at as f64 / 10.0,
                ..SearchHit::new(
                    document.doc(),
                    document.version().name.as_str(),
                    1,
                    section.id,
                    vec![section.title.clone()],
                )
            })
        });
        Ok(SearchResults {
            hits: hits
                .take(if self.has_hits { query.limit } else { 0 })
                .collect(),
            ..SearchResults::default()
        })
    }
}

#[async_trait]
impl DocumentStore for ManyDocuments {
    async fn open(&self, _: &CatalogDocument) -> PortResult<Option<OpenDocument>> {
        Ok(Some(OpenDocument::new(self.tree.clone(), None, None)))
    }
}

// The walked documents in order (by lexical rank), the result, and the requests.
// Search without a model finds hits in all documents, or in none.
async fn routed(
    has_hits: bool,
    replies: &[&str],
) -> (Vec<usize>, TreeSearchResult, Arc<ScriptedModel>) {
    let catalog = Catalog::from_entries((0..20).map(|n: u32| {
        let mut entry = company_entry(
            &format!("d{n:02}"),
            if n.is_multiple_of(2) {
                "Even Corp"
            } else {
                "Odd Corp"
            },
        );
        entry.facts.fiscal_year = Some(Fact::from_text((2001 + n / 2).to_string(), None));
        entry
    }));
    let documents: Vec<CatalogDocument> = (0..20)
        .map(|n| CatalogDocument::clone(&catalog.resolve(&format!("d{n:02}")).unwrap()))
        .collect();
    let section = |title: &str| json!({ "title": title, "start_index": 1, "end_index": 1 });
    let structure = json!({ "doc_name": "d", "structure": [section("One"), section("Two")] });
    let many = ManyDocuments {
        documents,
        tree: pageindex::import(&structure, "d").unwrap(),
        has_hits,
    };
    let settings = TreeSearchSettings {
        analysis: false,
        ..TreeSearchSettings::default()
    };
    let (script, client) = ScriptedModel::with_replies(replies);
    let searcher = TreeSearcher::new(Arc::new(client), settings, Knowledge::default());
    let session = searcher.client().start_session(
        searcher.client().new_run_id("s"),
        QuestionBudget {
            calls: replies.len() as u32,
            ..QuestionBudget::default()
        },
    );
    let sources = TreeSearchSources {
        search: &many,
        store: &many,
        catalog: &catalog,
    };
    let query = Query::new("where is the needle");
    let result = searcher
        .search(sources, &query, TreeSearchStrategy::BestFirst, &session)
        .await
        .unwrap();
    let order = result
        .report
        .steps
        .iter()
        .filter_map(|step| step.document.as_ref())
        .map(|label| {
            let mut documents = many.documents.iter();
            documents
                .position(|document| document.label == *label)
                .unwrap()
        })
        .collect();
    (order, result, script)
}

#[tokio::test(start_paused = true)]
async fn model_chooses_among_described_documents_and_best_match_stays() {
    let reply = r#"{"documents":[{"document":5,"score":0.9,"reason":"r"},{"document":2,"score":0.1,"reason":"r"},{"document":999,"score":1,"reason":"r"},{"document":13,"score":1,"reason":"r"}]}"#;
    let (order, result, script) = routed(true, &[reply]).await;
    assert_eq!(order, [4, 0], "{:?}", result.report.notes);
    let prompt = &script.requests()[0].user;
    let is_cut = prompt.contains("Document 12:") && !prompt.contains("Document 13:");
    assert!(is_cut && prompt.contains("even, 2001"), "{prompt}");
    let none = r#"{"documents":[]}"#;
    let (order, ..) = routed(true, &[none]).await;
    assert_eq!(order, [0, 1, 2], "nothing fits: as without a model");
    let (order, result, _) = routed(true, &[]).await;
    assert!(
        order == [0, 1, 2] && !result.report.notes.is_empty(),
        "the model is unavailable"
    );
}

#[tokio::test(start_paused = true)]
async fn without_hits_the_first_documents_are_described() {
    let reply = r#"{"documents":[{"document":5,"score":0.9,"reason":"r"}]}"#;
    let (order, result, script) = routed(false, &[reply]).await;
    assert_eq!(order, [4], "{:?}", result.report.notes);
    let prompt = &script.requests()[0].user;
    assert!(prompt.contains("Document 12:") && !prompt.contains("Document 13:"));
}
