//! Tree search over about a hundred sections with a scripted model that knows which one holds the answer.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};
use stemma_document::{SectionTree, pageindex};
use stemma_llm::request::{LlmError, LlmRequest};
use stemma_store::PortResult;

use super::llm_session::LlmClient;
use super::result::{TreeSearchResult, TreeSearchStrategy};
use super::scripted::ScriptedModel;
use super::{Knowledge, QuestionBudget, TreeSearchSettings, TreeSearchSources, TreeSearcher};
use stemma_catalog::catalog::{Catalog, CatalogDocument};
use stemma_catalog::document_store::{DocumentStore, OpenDocument};
use stemma_catalog::fixtures::entry;
use stemma_retrieval::search::{
    DocumentScope, Query, SearchError, SearchHit, SearchResults, SearchService,
};
use stemma_retrieval::usage::CallAccount;

// Five parts of five chapters of three sections; the needle is in the last section of 3.2.
const NEEDLE: &str = "0050";

fn tree() -> SectionTree {
    filled_tree(0, 0)
}

// With further sections below the last part, and at the top.
fn filled_tree(below: usize, at_top: usize) -> SectionTree {
    let mut page = 0;
    let mut part = |p: usize| {
        let chapters: Vec<Value> = (1..=5)
            .map(|c| {
                let first = page + 1;
                let sections: Vec<Value> = (1..=3)
                    .map(|s| {
                        page += 2;
                        json!({ "title": format!("Section {p}.{c}.{s}"), "start_index": page - 1, "end_index": page, "summary": "of things" })
                    })
                    .collect();
                json!({ "title": format!("Chapter {p}.{c}"), "start_index": first, "end_index": page, "summary": "of things", "nodes": sections })
            })
            .collect();
        let first = chapters[0]["start_index"].clone();
        let last = page;
        json!({ "title": format!("Part {p}"), "start_index": first, "end_index": last, "nodes": chapters })
    };
    let mut parts: Vec<Value> = (1..=5).map(&mut part).collect();
    let filler = json!({ "title": "Filler", "start_index": page, "end_index": page, "summary": "of things ".repeat(24) });
    parts[4]["nodes"][4]["nodes"][2]["nodes"] = vec![filler.clone(); below].into();
    parts.extend(vec![filler; at_top]);
    let mut tree =
        pageindex::import(&json!({ "doc_name": "hay", "structure": parts }), "hay").unwrap();
    // A chapter is short enough to be read whole, a part is not.
    for part in &mut tree.sections {
        part.tokens = 5_000;
        part.children
            .iter_mut()
            .for_each(|chapter| chapter.tokens = 300);
    }
    tree
}

// Finds sections from 1.1.1 on, with even scores that do not point to the needle.
struct UniformSearch(Vec<(Arc<SectionTree>, CatalogDocument)>);

#[async_trait]
impl SearchService for UniformSearch {
    async fn search(
        &self,
        query: &Query,
        _: Option<&dyn CallAccount>,
    ) -> Result<SearchResults, SearchError> {
        let hit =
            |document: &CatalogDocument, at: usize, section: &stemma_document::Section| SearchHit {
                pages: section
                    .span
                    .pages()
                    .map(|pages| (pages.start().get(), pages.end().get())),
                score: 10.0 - at as f64 / 10.0,
                ..SearchHit::new(
                    document.doc(),
                    document.version().name.as_str(),
                    1,
                    section.id,
                    vec![section.title.clone()],
                )
            };
        let is_within = |document: &CatalogDocument| match &query.within {
            DocumentScope::All => true,
            DocumentScope::Documents(docs) => docs.contains(&document.doc()),
        };
        let mut hits = Vec::new();
        for (tree, document) in self.0.iter().filter(|(_, document)| is_within(document)) {
            let sections = tree
                .walk()
                .filter(|(depth, _)| *depth == 3)
                .map(|(_, section)| section)
                .take(12);
            hits.extend(
                sections
                    .enumerate()
                    .map(|(at, section)| hit(document, at, section)),
            );
        }
        hits.truncate(query.limit);
        Ok(SearchResults {
            hits,
            ..SearchResults::default()
        })
    }
}

#[async_trait]
impl DocumentStore for UniformSearch {
    async fn open(&self, document: &CatalogDocument) -> PortResult<Option<OpenDocument>> {
        let (tree, _) = self
            .0
            .iter()
            .find(|(_, tree_document)| tree_document.doc() == document.doc())
            .unwrap();
        Ok(Some(OpenDocument::new(
            SectionTree::clone(tree),
            None,
            None,
        )))
    }
}

// Highest score for the needle, a lower one for its ancestors, the lowest for the rest.
fn oracle_reply(request: &LlmRequest) -> Result<Value, LlmError> {
    let above = ["0042", "0047", NEEDLE];
    let listing = request.user.rsplit("Listing:").next().unwrap();
    let ids = listing
        .lines()
        .filter_map(|line| line.trim().split_once(" | "))
        .map(|(id, _)| id.to_owned());
    let score = |id: &str| {
        if id == NEEDLE {
            0.95
        } else if above.contains(&id) {
            0.6
        } else {
            0.1
        }
    };
    let all = ids.map(|id| json!({ "id": id, "score": score(&id), "reason": "as it is" }));
    let scores: Vec<Value> = all
        .filter(|one| {
            request.schema.name != "select_sections" || one["score"].as_f64().unwrap() > 0.5
        })
        .collect();
    Ok(json!({ "thinking": "deep", "sections": scores }))
}

async fn search(
    client: LlmClient,
    strategy: TreeSearchStrategy,
    budget: QuestionBudget,
) -> TreeSearchResult {
    search_in([("hay", tree())], client, strategy, budget).await
}

async fn search_in(
    documents: impl IntoIterator<Item = (&str, SectionTree)>,
    client: LlmClient,
    strategy: TreeSearchStrategy,
    budget: QuestionBudget,
) -> TreeSearchResult {
    let settings = TreeSearchSettings {
        analysis: false,
        ..TreeSearchSettings::default()
    };
    let (names, trees): (Vec<&str>, Vec<SectionTree>) = documents.into_iter().unzip();
    let catalog = Catalog::from_entries(names.iter().map(|name| entry(name)));
    let words = UniformSearch(
        trees
            .into_iter()
            .map(Arc::new)
            .zip(
                names
                    .iter()
                    .map(|name| CatalogDocument::clone(&catalog.resolve(name).unwrap())),
            )
            .collect(),
    );
    let searcher = TreeSearcher::new(Arc::new(client), settings, Knowledge::default());
    let session = searcher
        .client()
        .start_session(searcher.client().new_run_id("s"), budget);
    let sources = TreeSearchSources {
        search: &words,
        store: &words,
        catalog: &catalog,
    };
    let result = searcher
        .search(
            sources,
            &Query::new("where is the needle"),
            strategy,
            &session,
        )
        .await
        .unwrap();
    assert!(result.report.usage.calls <= budget.calls && !result.results.hits.is_empty());
    result
}

fn notes(result: &TreeSearchResult) -> Vec<&str> {
    result
        .report
        .notes
        .iter()
        .map(|note| note.code.as_str())
        .collect()
}

#[tokio::test(start_paused = true)]
async fn every_strategy_finds_the_needle() {
    for strategy in TreeSearchStrategy::ALL {
        let result = search(
            ScriptedModel::new(oracle_reply).1,
            strategy,
            QuestionBudget::default(),
        )
        .await;
        let best = &result.results.hits[0];
        assert_eq!(best.section_id.to_string(), NEEDLE, "{}", strategy.as_str());
        assert_eq!(
            best.path,
            ["Part 3", "Chapter 3.2", "Section 3.2.3"],
            "{}",
            strategy.as_str()
        );
        assert!(notes(&result).is_empty(), "{:?}", result.report.notes);
        let chosen = result
            .report
            .visited
            .iter()
            .find(|visited| visited.path == best.path)
            .unwrap();
        assert!(
            chosen.chosen && chosen.reason == "as it is" && !result.report.steps[0].why.is_empty()
        );
    }
}

#[tokio::test(start_paused = true)]
async fn interrupted_search_returns_partial_results_with_a_note() {
    for strategy in TreeSearchStrategy::ALL {
        let result = search(
            ScriptedModel::new(oracle_reply).1,
            strategy,
            QuestionBudget {
                calls: 0,
                tokens: 9,
                nanodollars: None,
            },
        )
        .await;
        let codes = notes(&result);
        assert!(
            codes.contains(&"fallback.lexical"),
            "{}: {codes:?}",
            strategy.as_str()
        );
        let result = search(
            ScriptedModel::new(|_: &LlmRequest| {
                Err(LlmError::Server {
                    status: 500,
                    message: String::new(),
                })
            })
            .1,
            strategy,
            QuestionBudget::default(),
        )
        .await;
        assert_eq!(
            notes(&result),
            ["model.unavailable", "fallback.lexical"],
            "{}",
            strategy.as_str()
        );
        let result = search(
            ScriptedModel::new(|_: &LlmRequest| Ok(json!({ "poem": 1 }))).1,
            strategy,
            QuestionBudget::default(),
        )
        .await;
        assert_eq!(
            notes(&result),
            ["model.unusable", "fallback.lexical"],
            "{}",
            strategy.as_str()
        );
    }
    let two = QuestionBudget {
        calls: 2,
        ..QuestionBudget::default()
    };
    let result = search(
        ScriptedModel::new(oracle_reply).1,
        TreeSearchStrategy::BestFirst,
        two,
    )
    .await;
    assert_eq!(notes(&result)[0], "budget.used_up");
    assert_eq!(result.report.usage.calls, 2);
    assert!(
        result
            .report
            .visited
            .iter()
            .any(|looked| looked.score > 0.5),
        "what was learned counts"
    );
}

#[tokio::test(start_paused = true)]
async fn large_trees_are_cut_at_a_depth_then_beam_searched() {
    let single = |tree: SectionTree| {
        search_in(
            [("hay", tree)],
            ScriptedModel::new(oracle_reply).1,
            TreeSearchStrategy::Single,
            QuestionBudget::default(),
        )
    };
    // No prompt holds so many sections.
    let limited = single(filled_tree(1_500, 0)).await;
    assert_eq!(notes(&limited), ["single.depth_limited"]);
    assert_eq!(limited.results.hits[0].section_id.to_string(), NEEDLE);
    let beam = single(filled_tree(0, 1_500)).await;
    assert_eq!(notes(&beam), ["single.too_large"]);
    assert_eq!(beam.report.steps[0].what, "beam");
    assert_eq!(beam.results.hits[0].section_id.to_string(), NEEDLE);
}

#[tokio::test(start_paused = true)]
async fn unknown_ids_are_dropped() {
    let reply = r#"{"thinking":"","sections":[{"id":"0001","score":0.7,"reason":"r"},{"id":"9999","score":1,"reason":"r"},{"id":"x","score":1,"reason":"r"}]}"#;
    let result = search(
        ScriptedModel::with_replies(&[reply]).1,
        TreeSearchStrategy::Single,
        QuestionBudget::default(),
    )
    .await;
    assert_eq!(sections(&result), ["0001"]);
}

#[tokio::test(start_paused = true)]
async fn descendants_of_a_fully_read_section_are_not_selected() {
    let both = r#"{"thinking":"","sections":[{"id":"0047","score":0.9,"reason":"r"},{"id":"0050","score":0.85,"reason":"r"},{"id":"0001","score":0.9,"reason":"r"}]}"#;
    let result = search(
        ScriptedModel::with_replies(&[both]).1,
        TreeSearchStrategy::Single,
        QuestionBudget::default(),
    )
    .await;
    assert_eq!(sections(&result), ["0001", "0047"]);
    assert!(notes(&result).is_empty());
}

#[tokio::test(start_paused = true)]
async fn only_descendants_share_the_topic_of_a_large_section() {
    // Chapter 3.2, a section of it and one of another chapter, all with the same topic.
    let three = r#"{"thinking":"","sections":[{"id":"0047","score":0.7,"reason":"r"},{"id":"0050","score":0.6,"reason":"r"},{"id":"0051","score":0.5,"reason":"r"}]}"#;
    let choose = |chapter_tokens: u32| {
        let mut tree = tree();
        tree.sections[2].children[1].tokens = chapter_tokens;
        search_in(
            [("hay", tree)],
            ScriptedModel::with_replies(&[three]).1,
            TreeSearchStrategy::Single,
            QuestionBudget::default(),
        )
    };
    let apart = choose(5_000).await;
    let whole = choose(300).await;
    assert_eq!(sections(&apart), ["0047", "0050"]);
    assert_eq!(sections(&whole), ["0047"]);
}

#[tokio::test(start_paused = true)]
async fn lexical_only_sections_rank_after_scored_ones() {
    // Two documents with the same sections; the model finds something in one only.
    let both = [("hay", tree()), ("straw", tree())];
    let result = search_in(
        both,
        ScriptedModel::new(|request: &LlmRequest| {
            let factor = if request.user.contains("straw") {
                0.1
            } else {
                0.55
            };
            let mut reply = oracle_reply(request)?;
            for one in reply["sections"].as_array_mut().unwrap() {
                one["score"] = json!(one["score"].as_f64().unwrap() * factor);
            }
            Ok(reply)
        })
        .1,
        TreeSearchStrategy::BestFirst,
        QuestionBudget::default(),
    )
    .await;
    assert!(notes(&result).is_empty(), "{:?}", result.report.notes);
    assert!(
        result
            .results
            .hits
            .iter()
            .all(|hit| hit.name == "hay" && hit.parts.contains_key("model"))
    );
    let result = search(
        ScriptedModel::new(|_: &LlmRequest| {
            Err(LlmError::Server {
                status: 500,
                message: String::new(),
            })
        })
        .1,
        TreeSearchStrategy::Beam,
        QuestionBudget::default(),
    )
    .await;
    let by_words = |hit: &SearchHit| hit.score as f32 <= 0.3 && !hit.parts.contains_key("model");
    assert!(
        result.results.hits.iter().all(by_words),
        "{:?}",
        result.results.hits
    );
}

#[tokio::test(start_paused = true)]
async fn large_and_small_documents_are_selected_together() {
    let leaf = json!([{ "title": "Part", "start_index": 1, "end_index": 1, "nodes": [{ "title": "Chapter", "start_index": 1,
        "end_index": 1, "nodes": [{ "title": "Section", "start_index": 1, "end_index": 1 }] }] }]);
    let small =
        pageindex::import(&json!({ "doc_name": "leaf", "structure": leaf }), "leaf").unwrap();
    // The better section has an index beyond the end of the smaller document.
    let both = [("hay", tree()), ("leaf", small)];
    let result = search_in(
        both,
        ScriptedModel::new(|request: &LlmRequest| {
            let (id, score) = if request.user.contains("Chapter 3.2") {
                (NEEDLE, 0.95)
            } else {
                ("0002", 0.5)
            };
            Ok(json!({ "thinking": "", "sections": [{ "id": id, "score": score, "reason": "r" }] }))
        })
        .1,
        TreeSearchStrategy::Single,
        QuestionBudget::default(),
    )
    .await;
    assert_eq!(sections(&result), [NEEDLE, "0002"]);
}

fn sections(result: &TreeSearchResult) -> Vec<String> {
    result
        .results
        .hits
        .iter()
        .map(|hit| hit.section_id.to_string())
        .collect()
}
