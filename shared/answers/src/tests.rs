//! The librarian over a small archive in memory, before a model that follows a script.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use async_trait::async_trait;
use serde_json::{Value, json};
use stemma_document::{
    Body, Collection, DocId, DraftEntry, Extent, Fact, FactSource, Line, LocatedEntry, Method,
    Page, PageNo, Place, Position, Pt, Rect, SectionTree, Verdict, VerifiedOutline, Witness,
};
use stemma_engine::blobs::{Blobs, MemoryBlobs};
use stemma_engine::{Env, PortError};
use stemma_llm::request::{LlmError, Request};

use super::*;
use crate::reason::knowledge::Knowledge;
use crate::reason::scripted::Scripted as Model;
use crate::reason::{Asker, ReasonSettings, Reasoner, Sources};
use stemma_catalog::catalogue::{Catalogue, Listed};
use stemma_catalog::fixtures::of_company;
use stemma_catalog::shelf::{Opened, Shelf};
use stemma_retrieval::find::{Chip, Excerpt, Found, Hit, PageHit, Query, Within};
use stemma_retrieval::{FindError, Finder};

const CAPEX: &str = "Consolidated Statement of Cash Flows\n(Millions)\nPurchases of property, plant and equipment (1,749) (1,603)";

/// Two filings of one company; each has a section on each of two pages.
struct Shop {
    catalogue: Catalogue,
    blobs: Arc<MemoryBlobs>,
}

fn page(text: &str) -> Page {
    let lines = text
        .lines()
        .enumerate()
        .map(|(at, text): (usize, &str)| {
            let y = 20.0 * (at as f32 + 1.0);
            Line {
                text: text.to_owned(),
                rect: Rect::new(50.0, y, 400.0, y + 10.0),
                tokens: 12,
                ..Line::default()
            }
        })
        .collect();
    Page {
        width: Pt::new(600.0),
        height: Pt::new(800.0),
        lines,
        ..Page::default()
    }
}

fn pages(name: &str) -> Vec<Page> {
    let risks = format!(
        "Risk Factors\nWe may fail to retain people in {}.",
        if name.contains("2022") {
            "2022"
        } else {
            "2023"
        }
    );
    vec![page(CAPEX), page(&risks)]
}

fn tree() -> SectionTree {
    let entry = |title: &str, page: u32| {
        let number = None;
        let label = None;
        let target = None;
        let entry = DraftEntry {
            number,
            title: title.into(),
            label,
            target,
            level: 1,
            witness: Witness::Layout,
        };
        let place = Place::Page(Position {
            page: PageNo::new(page).unwrap(),
            line: 0,
            y: Pt(0),
        });
        (
            LocatedEntry { entry, place },
            Verdict::Found { starts_page: true },
        )
    };
    let entries = vec![
        entry("Consolidated Statement of Cash Flows", 1),
        entry("Risk Factors", 2),
    ];
    SectionTree::build(
        &VerifiedOutline::new(Extent::Pages(2), entries).unwrap(),
        Method::Layout,
        Vec::new(),
    )
}

#[async_trait]
impl Shelf for Shop {
    async fn open(&self, listed: &Listed) -> Result<Option<Opened>, PortError> {
        Ok(Some(Opened {
            tree: tree(),
            body: Some(Body::Pages(pages(&listed.version().name))),
        }))
    }
}

#[async_trait]
impl Finder for Shop {
    async fn find(&self, query: &Query) -> Result<Found, FindError> {
        let inside = |doc: &DocId| match &query.within {
            Within::All => true,
            Within::Documents(docs) => docs.contains(doc),
        };
        let tree = tree();
        let mut hits = Vec::new();
        for listed in self
            .catalogue
            .documents()
            .iter()
            .filter(|listed| inside(&listed.doc()))
        {
            for (page, section) in (1..).zip(&tree.sections) {
                let wanted =
                    query.text.to_lowercase().contains("risk") == section.title.contains("Risk");
                if wanted {
                    hits.push(Hit {
                        doc: listed.doc(),
                        name: listed.version().name.clone(),
                        version: 1,
                        section: section.id,
                        path: vec![section.title.clone()],
                        pages: Some((page, page)),
                        lines: None,
                        best_pages: vec![PageHit {
                            page,
                            label: None,
                            score: 1.0,
                            rectangles: vec![],
                        }],
                        score: 1.0,
                        parts: Default::default(),
                        why: "words".into(),
                        excerpt: Excerpt::default(),
                    });
                }
            }
        }
        hits.truncate(query.limit);
        let routed = vec![Chip {
            facet: "company".into(),
            value: "3M".into(),
            from: "3M".into(),
            documents: 2,
        }];
        Ok(Found {
            hits,
            routed,
            ..Found::default()
        })
    }
}

impl Shop {
    fn new() -> Self {
        let filing = |year: &str| {
            let mut entry = of_company(&format!("3M_{year}_10K.pdf"), "3M");
            entry.facts.form = Some(Fact::text("10-K", None));
            entry.facts.fiscal_year = Some(Fact::stated(year, FactSource::Derived));
            entry
        };
        Self {
            catalogue: Catalogue::of_entries([filing("2022"), filing("2023")]),
            blobs: Arc::default(),
        }
    }

    async fn ask_with(
        &self,
        asker: Option<Asker>,
        tools: Option<&dyn Tools>,
        question: &Question,
        heard: &mut Vec<Event>,
    ) -> Answer {
        let answers = Answers::new(
            Env::system(),
            Arc::<MemoryBlobs>::clone(&self.blobs),
            &Collection::default(),
        );
        let librarian = Librarian {
            collection: &Collection::default(),
            sources: Sources {
                finder: self,
                shelf: self,
                catalogue: &self.catalogue,
            },
            reasoner: asker.map(|asker| {
                Arc::new(Reasoner::new(
                    Arc::new(asker),
                    ReasonSettings::default(),
                    Knowledge::default(),
                ))
            }),
            tools,
            answers: &answers,
            most: Limits::MOST,
        };
        let answer = librarian.answer(question, heard).await.unwrap();
        assert_eq!(
            librarian
                .stored(&answer.id)
                .await
                .unwrap()
                .map(|stored| stored.citations),
            Some(answer.citations.clone())
        );
        answer
    }

    async fn ask(&self, asker: Asker, question: &Question) -> Answer {
        self.ask_with(Some(asker), None, question, &mut Vec::new())
            .await
    }

    fn doc(&self, name: &str) -> DocId {
        self.catalogue.resolve(name).unwrap().doc()
    }
}

fn says(claims: &Value) -> (Arc<Model>, Asker) {
    let claims = claims.clone();
    Model::asker(move |_| Ok(json!({ "answerable": true, "claims": claims, "confidence": 0.9 })))
}

fn claim(statement: &str, citations: &[(i64, &str)]) -> Value {
    let citations: Vec<Value> = citations
        .iter()
        .map(|(passage, quote)| json!({ "passage": passage, "quote": quote }))
        .collect();
    json!({ "statement": statement, "citations": citations })
}

fn capex() -> Question {
    Question::of("3M capex 2022?")
}

#[tokio::test]
async fn an_answer_is_cited_checked_kept_and_told_as_it_is_kept() {
    let shop = Shop::new();
    let (model, asker) = says(&json!([claim(
        "Purchases of property, plant and equipment were $1,749 million in 2022.",
        &[(1, "plant and equipment (1,749)")]
    )]));
    let mut heard = Vec::new();
    let answer = shop.ask_with(Some(asker), None, &capex(), &mut heard).await;
    assert_eq!(
        answer.text,
        "Purchases of property, plant and equipment were $1,749 million in 2022 [1]."
    );
    assert_eq!(
        (
            answer.outcome,
            answer.claims[0].verified,
            answer.usage.calls
        ),
        (Outcome::Answered, true, 1)
    );
    let citation = &answer.citations[0];
    assert_eq!(
        (citation.verified, citation.page, citation.locator.as_str()),
        (Verified::Exact, Some(1), "3M_2022_10K#p=1")
    );
    assert_eq!(citation.path, ["Consolidated Statement of Cash Flows"]);
    assert!(!citation.rects.is_empty() && citation.url.contains("/pages?range=1"));
    let told: String = heard
        .iter()
        .filter_map(|event| {
            if let Event::Delta { text } = event {
                Some(text.as_str())
            } else {
                None
            }
        })
        .collect();
    assert_eq!(told, answer.text);
    assert_eq!(heard.last(), Some(&Event::Done(Box::new(answer.clone()))));
    // The same question over the same trees: no call, the same id, the same events.
    let (_, silent) = Model::lines(&[]);
    let mut again = Vec::new();
    let second = shop
        .ask_with(Some(silent), None, &capex(), &mut again)
        .await;
    assert!(second.replayed);
    assert_eq!(
        (&second.id, &second.citations),
        (&answer.id, &answer.citations)
    );
    let but_last = |events: &[Event]| {
        events[..events.len() - 1]
            .iter()
            .filter(|event| event.name() != "usage")
            .cloned()
            .collect::<Vec<_>>()
    };
    assert_eq!(but_last(&again), but_last(&heard));
    assert_eq!(model.asked().len(), 1);
    // Another scope is another question.
    let narrow = Question {
        within: Within::Documents(vec![shop.doc("3M_2023_10K")]),
        ..capex()
    };
    let (_, asker) = Model::lines(&[r#"{"answerable": false, "claims": [], "confidence": 0}"#]);
    let none = shop.ask(asker, &narrow).await;
    assert_ne!(none.id, answer.id);
    assert_eq!(none.outcome, Outcome::NotInDocuments);
    assert!(
        none.text.starts_with("Not in these documents") && none.text.contains("3M_2023_10K.pdf"),
        "{}",
        none.text
    );
}

#[tokio::test]
async fn no_false_claim_is_shown_as_verified() {
    for (statement, citations) in [
        (
            "Purchases of property were $1,849 million.",
            vec![(1, "plant and equipment (1,749)")],
        ),
        (
            "Purchases of property were $1,749 billion.",
            vec![(1, "plant and equipment (1,749)")],
        ),
        (
            "Purchases of property were $1,849 million.",
            vec![(1, "plant and equipment (1,849)")],
        ),
        (
            "Purchases of property were $1,749 million.",
            vec![(99, "plant and equipment (1,749)")],
        ),
        (
            "Purchases of property were $1,749 million.",
            vec![(0, "plant and equipment (1,749)")],
        ),
        ("Purchases of property were $1,749 million.", vec![(1, "")]),
        ("Purchases of property were $1,749 million.", vec![]),
        (
            "Purchases of property were $1,749 million in 1999.",
            vec![(1, "plant and equipment (1,749)")],
        ),
        (
            "Earnings from lunar mining tripled everywhere.",
            vec![(1, "Consolidated Statement of Cash Flows")],
        ),
        (
            "Purchases of property were $1,749 million.",
            vec![(1, "plant and equipment (1,749)"), (1, "nobody wrote this")],
        ),
    ] {
        let (_, asker) = says(&json!([claim(statement, &citations)]));
        let answer = Shop::new().ask(asker, &capex()).await;
        assert!(
            !answer.claims[0].verified,
            "{statement} {citations:?} {answer:?}"
        );
        assert_eq!(answer.confidence, Some(0.0));
    }
    let (_, asker) = says(&json!([claim(
        "It was 5.",
        &[(99, "x"), (-3, "x"), (1, "nobody wrote this"), (1, "")]
    )]));
    let question = Question {
        citations: Citations::Verified,
        ..capex()
    };
    let answer = Shop::new().ask(asker, &question).await;
    assert_eq!(answer.citations, []);
    let dropped = Dropped {
        unknown_passages: 2,
        empty_quotes: 1,
        unverified: 1,
        tool_calls: 0,
    };
    assert_eq!(
        (answer.dropped, answer.text.as_str()),
        (dropped, "It was 5.")
    );
}

#[tokio::test]
async fn without_a_model_search_answers_and_says_so() {
    let shop = Shop::new();
    let none = shop.ask_with(None, None, &capex(), &mut Vec::new()).await;
    assert_eq!(
        (none.outcome, none.degraded.unwrap().code.as_str()),
        (Outcome::SearchOnly, "model.absent")
    );
    assert!(!none.sections.is_empty() && none.model.is_none());
    let (_, away) = Model::asker(|_| {
        Err(LlmError::Server {
            status: 500,
            message: String::new(),
        })
    });
    let lost = shop.ask(away, &capex()).await;
    assert_eq!(lost.outcome, Outcome::SearchOnly);
    // When it is back, the same question is answered.
    let (_, back) = says(&json!([claim("It was (1,749).", &[(1, "(1,749)")])]));
    let answer = shop.ask(back, &capex()).await;
    assert_eq!(
        (answer.outcome, answer.replayed),
        (Outcome::Answered, false)
    );
    let (_, asker) = says(&json!([claim("It was 5.", &[])]));
    let poor = Question {
        limits: Limits {
            calls: 0,
            ..Limits::default()
        },
        ..capex()
    };
    assert_eq!(
        shop.ask(asker, &poor).await.degraded.unwrap().code,
        "answer.limit"
    );
}

#[tokio::test]
async fn years_are_read_each_in_its_filing() {
    let shop = Shop::new();
    let (model, asker) = says(&json!([
        claim(
            "In 2022 it was about people.",
            &[(1, "retain people in 2022")]
        ),
        claim(
            "In 2023 it was about people.",
            &[(2, "retain people in 2023")]
        ),
    ]));
    let answer = shop
        .ask(asker, &Question::of("3M risk factors 2022 vs 2023"))
        .await;
    let names: Vec<&str> = answer
        .citations
        .iter()
        .map(|citation| citation.name.as_str())
        .collect();
    assert_eq!(names, ["3M_2022_10K.pdf", "3M_2023_10K.pdf"]);
    assert!(
        answer.claims.iter().all(|claim| claim.verified),
        "{answer:?}"
    );
    assert_eq!(answer.steps[0].kind, StepKind::Plan);
    let asked = &model.asked()[0].user;
    assert!(
        asked.contains("Passage 1:")
            && asked.contains("Passage 2:")
            && !asked.contains("Passage 3:"),
        "{asked}"
    );
}

#[tokio::test]
async fn a_conversation_goes_on() {
    let shop = Shop::new();
    let (model, asker) = Model::asker(|request: &Request| {
        Ok(match request.schema.name {
            "restate_question" => json!({ "standalone": "What were the risk factors of 3M?" }),
            _ => {
                json!({ "answerable": true, "confidence": 1, "claims": [claim("We may fail to retain people.", &[(1, "We may fail to retain people")])] })
            }
        })
    });
    let earlier = vec![Turn {
        question: "3M capex?".into(),
        answer: "It was 5 [1].".into(),
    }];
    let answer = shop
        .ask(
            asker,
            &Question {
                earlier,
                ..Question::of("And the risks?")
            },
        )
        .await;
    assert_eq!(
        answer.searched.queries,
        ["What were the risk factors of 3M?"]
    );
    assert!(answer.claims[0].verified);
    assert_eq!(model.asked().len(), 2);
    assert!(model.asked()[1].user.contains("Earlier 1:"));
}

/// One tool, which reads what it is asked for; notes what was called.
#[derive(Default)]
struct Bench {
    docs: Vec<DocId>,
    called: AtomicU32,
}

#[async_trait]
impl Tools for Bench {
    fn described(&self) -> Vec<(&'static str, &'static str)> {
        vec![("get_page_content", "document, pages")]
    }

    async fn call(&self, call: &ToolCall) -> ToolReply {
        self.called.fetch_add(1, Ordering::SeqCst);
        ToolReply {
            told: "read".into(),
            wanted: self
                .docs
                .iter()
                .map(|doc: &DocId| Wanted {
                    doc: *doc,
                    section: None,
                    pages: call.pages.parse().into_iter().collect(),
                    score: 1.0,
                    why: "asked for".into(),
                })
                .collect(),
            ..ToolReply::default()
        }
    }
}

#[tokio::test]
async fn an_agent_reads_on_until_the_answer_is_there_and_whoever_chooses_never_sees_text() {
    let shop = Shop::new();
    let turn = Arc::new(AtomicU32::new(0));
    let turns = Arc::clone(&turn);
    let (model, asker) = Model::asker(move |request: &Request| {
        if request.schema.name == "choose_tool" {
            let call = |tool: &str, pages: &str| json!({ "tool": tool, "pages": pages, "query": "", "document": "3M_2022_10K", "section": "", "item": "", "pattern": "", "why": "w" });
            return Ok(match turns.fetch_add(1, Ordering::SeqCst) {
                0 => call("delete_everything", ""),
                1 => call("answer", ""),
                2 => call("get_page_content", "2"),
                _ => call("answer", ""),
            });
        }
        let there = request.user.contains("retain people");
        let claims = if there {
            json!([claim(
                "We may fail to retain people.",
                &[(3, "We may fail to retain people")]
            )])
        } else {
            json!([])
        };
        Ok(json!({ "answerable": there, "confidence": 1, "claims": claims }))
    });
    let bench = Bench {
        docs: vec![shop.doc("3M_2022_10K")],
        ..Bench::default()
    };
    let question = Question {
        mode: Mode::Agent,
        ..capex()
    };
    let answer = shop
        .ask_with(Some(asker), Some(&bench), &question, &mut Vec::new())
        .await;
    assert_eq!(
        (
            answer.outcome,
            answer.dropped.tool_calls,
            bench.called.load(Ordering::SeqCst)
        ),
        (Outcome::Answered, 1, 1)
    );
    assert!(answer.claims[0].verified, "{answer:?}");
    assert_eq!(answer.citations[0].page, Some(2));
    for request in model
        .asked()
        .iter()
        .filter(|request| request.schema.name == "choose_tool")
    {
        assert!(
            !request.user.contains("1,749") && !request.user.contains("retain people"),
            "{}",
            request.user
        );
    }
    // Turns are bounded.
    let (endless, asker) = Model::asker(|request: &Request| {
        Ok(match request.schema.name {
            "choose_tool" => json!({ "tool": "get_page_content", "pages": "1" }),
            _ => json!({ "answerable": false, "claims": [], "confidence": 0 }),
        })
    });
    let question = Question {
        mode: Mode::Agent,
        limits: Limits {
            turns: 3,
            ..Limits::default()
        },
        ..Question::of("3M revenue?")
    };
    let answer = shop
        .ask_with(Some(asker), Some(&bench), &question, &mut Vec::new())
        .await;
    assert_eq!(
        (answer.outcome, endless.asked().len()),
        (Outcome::NotInDocuments, 4)
    );
}

#[tokio::test]
async fn an_agent_whose_model_goes_away_knows_not_that_nothing_is_there() {
    // A tool, an answer that is none, and then: the model is gone, its replies are of no use, the budget is used up.
    for (broken, calls, code) in [
        (Some(401), 16, "model.configuration"),
        (None, 16, "model.reply_unreadable"),
        (None, 2, "answer.limit"),
    ] {
        let shop = Shop::new();
        let turn = Arc::new(AtomicU32::new(0));
        let (_, asker) = Model::asker(move |request: &Request| {
            let call = |tool: &str| json!({ "tool": tool, "pages": "2" });
            match (turn.fetch_add(1, Ordering::SeqCst), request.schema.name) {
                (0, _) => Ok(call("answer")),
                (_, "answer") if request.user.contains("retain people") => Err(LlmError::Server {
                    status: 500,
                    message: String::new(),
                }),
                (_, "answer") => Ok(json!({ "answerable": false, "claims": [], "confidence": 0 })),
                _ if broken.is_some() => Err(LlmError::Configuration {
                    status: 401,
                    message: "wrong key".into(),
                }),
                _ => Ok(json!({ "tool": "" })),
            }
        });
        let bench = Bench {
            docs: vec![shop.doc("3M_2022_10K")],
            ..Bench::default()
        };
        let question = Question {
            mode: Mode::Agent,
            limits: Limits {
                calls,
                ..Limits::default()
            },
            ..capex()
        };
        let answer = shop
            .ask_with(Some(asker), Some(&bench), &question, &mut Vec::new())
            .await;
        let why = answer
            .degraded
            .as_ref()
            .map(|degraded| degraded.code.as_str());
        assert_eq!(
            (answer.outcome, why),
            (Outcome::SearchOnly, Some(code)),
            "{answer:?}"
        );
        // Healthy again, the same question is answered under the id it was promised.
        let (_, asker) = Model::asker(|request: &Request| {
            Ok(match request.schema.name {
                "choose_tool" => json!({ "tool": "answer" }),
                _ => {
                    json!({ "answerable": true, "confidence": 1, "claims": [claim("Purchases were (1,749).", &[(1, "Purchases of property, plant and equipment (1,749)")])] })
                }
            })
        });
        let again = shop
            .ask_with(Some(asker), Some(&bench), &question, &mut Vec::new())
            .await;
        assert!(
            again.outcome == Outcome::Answered && !again.replayed && again.id != answer.id,
            "{again:?}"
        );
        assert_eq!(again.degraded, None);
    }
}

#[tokio::test]
async fn what_a_walk_could_not_ask_is_said_and_not_kept_for_the_answer() {
    let shop = Shop::new();
    let claims = json!([claim(
        "Purchases were (1,749).",
        &[(1, "Purchases of property, plant and equipment (1,749)")]
    )]);
    let (_, asker) = Model::asker(move |request: &Request| match request.schema.name {
        "answer" => Ok(json!({ "answerable": true, "confidence": 1, "claims": claims })),
        _ => Ok(json!({ "garbage": true })),
    });
    let question = Question {
        strategy: Finding::Walk(crate::reason::Strategy::Beam),
        ..capex()
    };
    let question = Question {
        limits: Limits {
            calls: 100,
            ..Limits::default()
        },
        ..question
    };
    let answer = shop.ask(asker, &question).await;
    assert_eq!(answer.outcome, Outcome::Answered, "{answer:?}");
    assert_eq!(
        answer.degraded.map(|degraded| degraded.code).as_deref(),
        Some("model.unusable")
    );
    let answers = Answers::new(
        Env::system(),
        Arc::<MemoryBlobs>::clone(&shop.blobs),
        &Collection::default(),
    );
    assert_eq!(
        answers.get(&answer.id).await.unwrap().map(|kept| kept.id),
        Some(answer.id)
    );
}

#[tokio::test]
async fn where_nothing_can_be_read_that_is_said_and_nothing_kept() {
    let shop = Shop::new();
    let refused = async |shop: &Shop, question: Question| {
        let answers = Answers::new(
            Env::system(),
            Arc::<MemoryBlobs>::clone(&shop.blobs),
            &Collection::default(),
        );
        let librarian = Librarian {
            collection: &Collection::default(),
            sources: Sources {
                finder: shop,
                shelf: shop,
                catalogue: &shop.catalogue,
            },
            reasoner: None,
            tools: None,
            answers: &answers,
            most: Limits::MOST,
        };
        let mut heard: Vec<Event> = Vec::new();
        let error = librarian.answer(&question, &mut heard).await.unwrap_err();
        assert!(
            matches!(heard.last(), Some(Event::Error { .. })),
            "{heard:?}"
        );
        assert!(
            shop.blobs.list("", None, 1).await.unwrap().is_empty(),
            "nothing is kept"
        );
        (error.code(), error.to_string())
    };
    let mut bare = Shop::new();
    bare.catalogue = stemma_catalog::fixtures::claimed(&["scan.pdf"]);
    let (code, said) = refused(&bare, Question::of("scan text?")).await;
    assert!(
        code == "document.no_tree" && said.contains("scan"),
        "{code} {said}"
    );
    let mut empty = Shop::new();
    empty.catalogue = Catalogue::of_entries([]);
    assert_eq!(
        refused(&empty, Question::of("capex?")).await.0,
        "answer.no_documents"
    );
    let item = Question {
        item: "99".parse().ok(),
        within: Within::Documents(vec![]),
        ..capex()
    };
    assert_eq!(refused(&shop, item).await.0, "answer.no_documents");
    let long = Question::of("Background. ".repeat(400) + "QUESTION: revenue?");
    assert_eq!(refused(&shop, long).await.0, "answer.too_long");
}
