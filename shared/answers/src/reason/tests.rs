//! Walks through a tree of a hundred sections, by a model that knows where the needle is.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};
use stemma_document::{SectionTree, pageindex};
use stemma_engine::PortError;
use stemma_llm::request::{LlmError, Request};

use super::asker::Asker;
use super::routing::Routing;
use super::scripted::Scripted;
use super::walked::{Relation, Strategy, Walked};
use super::{Budget, Knowledge, ReasonSettings, Reasoner, Sources};
use stemma_catalog::catalogue::{Catalogue, Listed};
use stemma_catalog::fixtures::entry;
use stemma_catalog::shelf::{Opened, Shelf};
use stemma_retrieval::find::{FindError, Finder, Found, Hit, Query, Within};

/// Five parts of five chapters of three sections; the needle lies in the last section of 3.2.
const NEEDLE: &str = "0050";

fn tree() -> SectionTree {
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
    let parts: Vec<Value> = (1..=5).map(&mut part).collect();
    let mut tree =
        pageindex::import(&json!({ "doc_name": "hay", "structure": parts }), "hay").unwrap();
    // A chapter is read whole, a part is not.
    for part in &mut tree.sections {
        part.tokens = 5_000;
        part.children
            .iter_mut()
            .for_each(|chapter| chapter.tokens = 300);
    }
    tree
}

/// Finds sections 1.1.1 and on, evenly, and says nothing about the needle.
struct Words(Vec<(Arc<SectionTree>, Listed)>);

#[async_trait]
impl Finder for Words {
    async fn find(&self, query: &Query) -> Result<Found, FindError> {
        let hit = |listed: &Listed, at: usize, section: &stemma_document::Section| Hit {
            doc: listed.doc(),
            name: listed.version().name.clone(),
            version: 1,
            section: section.id,
            path: vec![section.title.clone()],
            pages: section
                .span
                .pages()
                .map(|pages| (pages.start().get(), pages.end().get())),
            lines: None,
            best_pages: Vec::new(),
            score: 10.0 - at as f32 / 10.0,
            parts: Default::default(),
            why: String::new(),
            excerpt: Default::default(),
        };
        let is_within = |listed: &Listed| match &query.within {
            Within::All => true,
            Within::Documents(docs) => docs.contains(&listed.doc()),
        };
        let mut hits = Vec::new();
        for (tree, listed) in self.0.iter().filter(|(_, listed)| is_within(listed)) {
            let sections = tree
                .walk()
                .filter(|(depth, _)| *depth == 3)
                .map(|(_, section)| section)
                .take(12);
            hits.extend(
                sections
                    .enumerate()
                    .map(|(at, section)| hit(listed, at, section)),
            );
        }
        hits.truncate(query.limit);
        Ok(Found {
            hits,
            ..Found::default()
        })
    }
}

#[async_trait]
impl Shelf for Words {
    async fn open(&self, listed: &Listed) -> Result<Option<Opened>, PortError> {
        let (tree, _) = self
            .0
            .iter()
            .find(|(_, known)| known.doc() == listed.doc())
            .unwrap();
        Ok(Some(Opened {
            tree: SectionTree::clone(tree),
            body: None,
        }))
    }
}

/// Scores of a model that knows: the needle, what stands above it, and the rest.
fn knows(request: &Request) -> Result<Value, LlmError> {
    let above = ["0042", "0047", NEEDLE];
    let properties = request.schema.json["properties"].as_object().unwrap();
    let name = properties.keys().find(|name| *name != "thinking").unwrap();
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
    let kept: Vec<Value> = all
        .filter(|one| name != "nodes" || one["score"].as_f64().unwrap() > 0.5)
        .collect();
    Ok(json!({ "thinking": "deep", name: kept }))
}

async fn walk(
    asker: Asker,
    strategy: Strategy,
    budget: Budget,
    change: impl FnOnce(&mut ReasonSettings),
) -> Walked {
    walk_in([("hay", tree())], asker, strategy, budget, change).await
}

async fn walk_in(
    documents: impl IntoIterator<Item = (&str, SectionTree)>,
    asker: Asker,
    strategy: Strategy,
    budget: Budget,
    change: impl FnOnce(&mut ReasonSettings),
) -> Walked {
    let mut settings = ReasonSettings {
        analysis: false,
        ..ReasonSettings::default()
    };
    change(&mut settings);
    let (names, trees): (Vec<&str>, Vec<SectionTree>) = documents.into_iter().unzip();
    let catalogue = Catalogue::of_entries(names.iter().map(|name| entry(name)));
    let words = Words(
        trees
            .into_iter()
            .map(Arc::new)
            .zip(
                names
                    .iter()
                    .map(|name: &&str| catalogue.resolve(name).unwrap().clone()),
            )
            .collect(),
    );
    let reasoner = Reasoner::new(Arc::new(asker), settings, Knowledge::default());
    let consultation = reasoner.asker().begin(reasoner.asker().name("s"), budget);
    let sources = Sources {
        finder: &words,
        shelf: &words,
        catalogue: &catalogue,
    };
    let walked = reasoner
        .walk(
            sources,
            &Query::of("where is the needle"),
            strategy,
            &consultation,
        )
        .await
        .unwrap();
    assert!(walked.reasoning.spent.calls <= budget.calls && !walked.found.hits.is_empty());
    walked
}

fn notes(walked: &Walked) -> Vec<&str> {
    walked
        .reasoning
        .notes
        .iter()
        .map(|note| note.code.as_str())
        .collect()
}

#[tokio::test(start_paused = true)]
async fn every_strategy_finds_what_the_model_knows() {
    for strategy in Strategy::ALL {
        let walked = walk(
            Scripted::asker(knows).1,
            strategy,
            Budget::default(),
            |_| {},
        )
        .await;
        let best = &walked.found.hits[0];
        assert_eq!(best.section.to_string(), NEEDLE, "{}", strategy.as_str());
        assert_eq!(
            best.path,
            ["Part 3", "Chapter 3.2", "Section 3.2.3"],
            "{}",
            strategy.as_str()
        );
        assert!(
            walked.reasoning.confidence > 0.7 && notes(&walked).is_empty(),
            "{:?}",
            walked.reasoning.notes
        );
        let chosen = walked
            .reasoning
            .looked_at
            .iter()
            .find(|looked| looked.section == best.section)
            .unwrap();
        assert!(
            chosen.chosen
                && chosen.reason == "as it is"
                && !walked.reasoning.steps[0].why.is_empty()
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_walk_that_is_cut_short_says_so_and_brings_what_it_has() {
    for strategy in Strategy::ALL {
        let walked = walk(
            Scripted::asker(knows).1,
            strategy,
            Budget {
                calls: 0,
                tokens: 9,
                nanodollars: None,
            },
            |_| {},
        )
        .await;
        let codes = notes(&walked);
        assert!(
            codes.contains(&"fallback.lexical"),
            "{}: {codes:?}",
            strategy.as_str()
        );
        let walked = walk(
            Scripted::asker(|_: &Request| {
                Err(LlmError::Server {
                    status: 500,
                    message: String::new(),
                })
            })
            .1,
            strategy,
            Budget::default(),
            |_| {},
        )
        .await;
        assert_eq!(
            notes(&walked),
            ["model.away", "fallback.lexical"],
            "{}",
            strategy.as_str()
        );
        let walked = walk(
            Scripted::asker(|_: &Request| Ok(json!({ "poem": 1 }))).1,
            strategy,
            Budget::default(),
            |_| {},
        )
        .await;
        assert_eq!(
            notes(&walked),
            ["model.unusable", "fallback.lexical"],
            "{}",
            strategy.as_str()
        );
    }
    let two = Budget {
        calls: 2,
        ..Budget::default()
    };
    let walked = walk(Scripted::asker(knows).1, Strategy::BestFirst, two, |_| {}).await;
    assert_eq!(
        (notes(&walked)[0], walked.reasoning.spent.calls),
        ("budget.used_up", 2)
    );
    assert!(
        walked
            .reasoning
            .looked_at
            .iter()
            .any(|looked| looked.score > 0.5),
        "what was learned counts"
    );
}

#[tokio::test(start_paused = true)]
async fn a_tree_too_large_for_one_prompt_is_cut_at_a_depth_and_then_walked_level_by_level() {
    let single = |tokens: u32| {
        walk(
            Scripted::asker(knows).1,
            Strategy::Single,
            Budget::default(),
            move |settings: &mut ReasonSettings| settings.single.listing_tokens = tokens,
        )
    };
    let limited = single(900).await;
    assert_eq!(
        (notes(&limited), limited.found.hits[0].section.to_string()),
        (vec!["single.depth_limited"], NEEDLE.into())
    );
    let beam = single(20).await;
    assert_eq!(
        (notes(&beam), beam.reasoning.steps[0].what),
        (vec!["single.too_large"], "beam")
    );
    assert_eq!(beam.found.hits[0].section.to_string(), NEEDLE);
}

#[tokio::test(start_paused = true)]
async fn sections_that_are_none_are_dropped_and_counted_and_nothing_is_asked_for_more_widely_once()
{
    let says = [
        r#"{"thinking":"","nodes":[]}"#,
        r#"{"thinking":"","nodes":[{"id":"0001","score":0.7,"reason":"r"},{"id":"9999","score":1,"reason":"r"},{"id":"x","score":1,"reason":"r"}]}"#,
    ];
    let walked = walk(
        Scripted::lines(&says).1,
        Strategy::Single,
        Budget::default(),
        |_| {},
    )
    .await;
    assert_eq!(
        (notes(&walked), walked.reasoning.unknown_ids),
        (vec!["single.wider"], 2)
    );
    assert_eq!(walked.found.hits[0].section.to_string(), "0001");
}

#[tokio::test(start_paused = true)]
async fn what_stands_below_a_chosen_section_that_is_read_whole_is_not_chosen_beside_it() {
    let both = r#"{"thinking":"","nodes":[{"id":"0047","score":0.9,"reason":"r"},{"id":"0050","score":0.85,"reason":"r"},{"id":"0001","score":0.9,"reason":"r"}]}"#;
    let walked = walk(
        Scripted::lines(&[both]).1,
        Strategy::Single,
        Budget::default(),
        |_| {},
    )
    .await;
    assert_eq!(
        (sections(&walked), notes(&walked)),
        (vec!["0001".into(), "0047".into()], vec!["choice.repeated"])
    );
    assert_eq!(
        walked.reasoning.relations[0].relation,
        Relation::Complementary
    );
}

#[tokio::test(start_paused = true)]
async fn what_stands_below_a_large_section_of_the_same_topic_is_chosen_beside_it_and_what_stands_elsewhere_is_not()
 {
    // Chapter 3.2, a section below it and one of another chapter, all of one topic.
    let three = r#"{"thinking":"","nodes":[{"id":"0047","score":0.7,"reason":"r"},{"id":"0050","score":0.6,"reason":"r"},{"id":"0051","score":0.5,"reason":"r"}]}"#;
    let choose = |whole: u32| {
        walk(
            Scripted::lines(&[three]).1,
            Strategy::Single,
            Budget::default(),
            move |settings: &mut ReasonSettings| settings.whole_tokens = whole,
        )
    };
    let apart = choose(100).await;
    let whole = choose(1_500).await;
    assert_eq!(
        (sections(&apart), sections(&whole)),
        (vec!["0047".into(), "0050".into()], vec!["0047".to_owned()])
    );
    assert_eq!(
        apart.reasoning.relations[0].relation,
        Relation::Hierarchical
    );
}

#[tokio::test(start_paused = true)]
async fn what_only_words_speak_for_comes_behind_what_a_model_judged_and_is_not_said_to_be_its_judgement()
 {
    // Of two documents with the same sections the model finds something in one.
    let both = [("hay", tree()), ("straw", tree())];
    let walked = walk_in(
        both,
        Scripted::asker(|request: &Request| {
            let factor = if request.user.contains("straw") {
                0.1
            } else {
                0.55
            };
            let mut said = knows(request)?;
            for one in said["values"].as_array_mut().unwrap() {
                one["score"] = json!(one["score"].as_f64().unwrap() * factor);
            }
            Ok(said)
        })
        .1,
        Strategy::BestFirst,
        Budget::default(),
        |_| {},
    )
    .await;
    assert!(notes(&walked).is_empty(), "{:?}", walked.reasoning.notes);
    assert!(
        walked
            .found
            .hits
            .iter()
            .all(|hit| hit.name == "hay" && hit.parts.contains_key("model"))
    );
    let walked = walk(
        Scripted::asker(|_: &Request| {
            Err(LlmError::Server {
                status: 500,
                message: String::new(),
            })
        })
        .1,
        Strategy::Beam,
        Budget::default(),
        |_| {},
    )
    .await;
    let by_words = |hit: &Hit| hit.score <= 0.3 && !hit.parts.contains_key("model");
    assert!(
        walked.found.hits.iter().all(by_words) && walked.reasoning.confidence <= 0.3,
        "{:?}",
        walked.found.hits
    );
}

#[tokio::test(start_paused = true)]
async fn sections_of_a_large_and_a_small_document_are_chosen_side_by_side() {
    let leaf = json!([{ "title": "Part", "start_index": 1, "end_index": 1, "nodes": [{ "title": "Chapter", "start_index": 1,
        "end_index": 1, "nodes": [{ "title": "Section", "start_index": 1, "end_index": 1 }] }] }]);
    let small =
        pageindex::import(&json!({ "doc_name": "leaf", "structure": leaf }), "leaf").unwrap();
    // The better one stands far behind where the smaller document ends.
    let both = [("hay", tree()), ("leaf", small)];
    let walked = walk_in(
        both,
        Scripted::asker(|request: &Request| {
            let (id, score) = if request.user.contains("Chapter 3.2") {
                (NEEDLE, 0.95)
            } else {
                ("0002", 0.5)
            };
            Ok(json!({ "thinking": "", "nodes": [{ "id": id, "score": score, "reason": "r" }] }))
        })
        .1,
        Strategy::Single,
        Budget::default(),
        |settings: &mut ReasonSettings| settings.routing = Routing::Content,
    )
    .await;
    assert_eq!(sections(&walked), [NEEDLE, "0002"]);
}

fn sections(walked: &Walked) -> Vec<String> {
    walked
        .found
        .hits
        .iter()
        .map(|hit| hit.section.to_string())
        .collect()
}
