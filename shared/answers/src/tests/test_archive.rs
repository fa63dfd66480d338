//! `CachedAnswerer` over a small archive in memory, with a scripted model.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use async_trait::async_trait;
use serde_json::{Value, json};
use stemma_document::{
    Collection, DocId, DraftEntry, EntryVerdict, EvidenceSource, Extent, Fact, FactSource, Line,
    LocatedEntry, Method, Page, PageNo, Position, Pt, Rect, SectionStart, SectionTree, SourceBody,
    VerifiedOutline,
};
use stemma_engine::blobs::{Blobs, MemoryBlobs};
use stemma_engine::{Env, PortResult};
use stemma_llm::request::{LlmError, LlmRequest};

use super::*;
use crate::tree_search::knowledge::Knowledge;
use crate::tree_search::scripted::ScriptedModel as Model;
use crate::tree_search::{LlmClient, TreeSearchSettings, TreeSearchSources, TreeSearcher};
use stemma_catalog::catalog::{Catalog, CatalogDocument};
use stemma_catalog::document_store::{DocumentStore, OpenDocument};
use stemma_catalog::fixtures::of_company;
use stemma_retrieval::search::{
    AppliedFilter, DocumentScope, Query, SearchHit, SearchHitPage, SearchResults,
};
use stemma_retrieval::usage::CallAccount;
use stemma_retrieval::{SearchError, SearchService};

const CAPEX: &str = "Consolidated Statement of Cash Flows\n(Millions) 2022 2021\nPurchases of property, plant and equipment (1,749) (1,603)";

// Two filings of one company, with a section on the first page and one on the two others.
struct TestArchive {
    catalog: Catalog,
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
    let zorbs = "We lease zorbs to others.\nZorbs are not insured.";
    vec![page(CAPEX), page(&risks), page(zorbs)]
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
            evidence: EvidenceSource::Layout,
        };
        let place = SectionStart::Page(Position {
            page: PageNo::new(page).unwrap(),
            line: 0,
            y: Pt(0),
        });
        (
            LocatedEntry { entry, place },
            EntryVerdict::Confirmed { starts_page: true },
        )
    };
    let entries = vec![
        entry("Consolidated Statement of Cash Flows", 1),
        entry("Risk Factors", 2),
    ];
    SectionTree::build(
        &VerifiedOutline::new(Extent::Pages(3), entries).unwrap(),
        Method::Layout,
        Vec::new(),
    )
}

#[async_trait]
impl DocumentStore for TestArchive {
    async fn open(&self, document: &CatalogDocument) -> PortResult<Option<OpenDocument>> {
        Ok(Some(OpenDocument {
            tree: tree(),
            body: Some(SourceBody::Pages(pages(&document.version().name))),
        }))
    }
}

#[async_trait]
impl SearchService for TestArchive {
    async fn search(
        &self,
        query: &Query,
        _: Option<&dyn CallAccount>,
    ) -> Result<SearchResults, SearchError> {
        let inside = |doc: &DocId| match &query.within {
            DocumentScope::All => true,
            DocumentScope::Documents(docs) => docs.contains(doc),
        };
        let tree = tree();
        let mut hits = Vec::new();
        for document in self
            .catalog
            .documents()
            .iter()
            .filter(|document| inside(&document.doc()))
        {
            for (page, section) in (1..).zip(&tree.sections) {
                let wanted_documents =
                    query.text.to_lowercase().contains("risk") == section.title.contains("Risk");
                if wanted_documents {
                    hits.push(SearchHit {
                        pages: Some((page, page)),
                        best_pages: vec![SearchHitPage::new(page, None, 1.0)],
                        score: 1.0,
                        why: "words".into(),
                        ..SearchHit::new(
                            document.doc(),
                            document.version().name.as_str(),
                            1,
                            section.id,
                            vec![section.title.clone()],
                        )
                    });
                }
            }
        }
        hits.truncate(query.limit);
        let applied_filters = vec![AppliedFilter {
            facet: "company".into(),
            value: "3M".into(),
            from: "3M".into(),
            documents: 2,
            ..AppliedFilter::default()
        }];
        Ok(SearchResults {
            hits,
            applied_filters,
            ..SearchResults::default()
        })
    }
}

impl TestArchive {
    fn new() -> Self {
        let filing = |year: &str| {
            let mut entry = of_company(&format!("3M_{year}_10K.pdf"), "3M");
            entry.facts.form = Some(Fact::from_text("10-K", None));
            entry.facts.fiscal_year = Some(Fact::from_source(year, FactSource::Derived));
            entry
        };
        Self {
            catalog: Catalog::from_entries([filing("2022"), filing("2023")]),
            blobs: Arc::default(),
        }
    }

    async fn ask_with_tools(
        &self,
        client: LlmClient,
        tools: &dyn ToolSet,
        question: &AskRequest,
    ) -> Answer {
        self.ask_with(Some(client), Some(tools), question, &mut Vec::new())
            .await
    }

    async fn ask_with(
        &self,
        client: Option<LlmClient>,
        tools: Option<&dyn ToolSet>,
        question: &AskRequest,
        events: &mut Vec<AnswerEvent>,
    ) -> Answer {
        let answers = AnswerStore::new(
            Env::system(),
            Arc::<MemoryBlobs>::clone(&self.blobs),
            &Collection::default(),
        );
        let answerer = CachedAnswerer {
            collection: &Collection::default(),
            sources: TreeSearchSources {
                search: self,
                store: self,
                catalog: &self.catalog,
            },
            tree_searcher: client.map(|client| {
                Arc::new(TreeSearcher::new(
                    Arc::new(client),
                    TreeSearchSettings::default(),
                    Knowledge::default(),
                ))
            }),
            tools,
            store: &answers,
            max_limits: AnswerLimits::MAX,
        };
        let answer = answerer.answer(question, events).await.unwrap();
        assert_eq!(
            answerer
                .stored(&answer.id)
                .await
                .unwrap()
                .map(|stored| stored.citations),
            Some(answer.citations.clone())
        );
        answer
    }

    async fn ask(&self, client: LlmClient, question: &AskRequest) -> Answer {
        self.ask_with(Some(client), None, question, &mut Vec::new())
            .await
    }

    fn doc(&self, name: &str) -> DocId {
        self.catalog.resolve(name).unwrap().doc()
    }
}

fn scripted_client(claims: &Value) -> (Arc<Model>, LlmClient) {
    let claims = claims.clone();
    Model::new(move |_| Ok(json!({ "answerable": true, "claims": claims, "confidence": 0.9 })))
}

fn claim(statement: &str, citations: &[(i64, &str)]) -> Value {
    let citations: Vec<Value> = citations
        .iter()
        .map(|(passage, quote)| json!({ "passage": passage, "quote": quote }))
        .collect();
    json!({ "statement": statement, "citations": citations })
}

fn capex_question() -> AskRequest {
    AskRequest::new("3M capex 2022?")
}

#[tokio::test]
async fn answers_are_verified_stored_and_replayed_identically() {
    let archive = TestArchive::new();
    let (model, client) = scripted_client(&json!([claim(
        "Purchases of property, plant and equipment were $1,749 million in 2022.",
        &[(1, "plant and equipment (1,749)")]
    )]));
    let mut streamed = Vec::new();
    let answer = archive
        .ask_with(Some(client), None, &capex_question(), &mut streamed)
        .await;
    assert_eq!(
        answer.text,
        "Purchases of property, plant and equipment were $1,749 million in 2022 [1]."
    );
    assert_eq!(answer.outcome, AnswerOutcome::Answered);
    assert!(answer.claims[0].verified);
    assert_eq!(answer.usage.calls, 1);
    let citation = &answer.citations[0];
    assert_eq!(citation.verified, QuoteMatch::Exact);
    assert_eq!(citation.page, Some(1));
    assert_eq!(citation.locator.as_str(), "3M_2022_10K#p=1");
    assert_eq!(citation.path, ["Consolidated Statement of Cash Flows"]);
    assert!(!citation.rects.is_empty() && citation.url.contains("/pages?range=1"));
    let streamed_text: String = streamed
        .iter()
        .filter_map(|event| {
            if let AnswerEvent::Delta { text } = event {
                Some(text.as_str())
            } else {
                None
            }
        })
        .collect();
    assert_eq!(streamed_text, answer.text);
    assert_eq!(
        streamed.last(),
        Some(&AnswerEvent::Done(Box::new(answer.clone())))
    );
    // The same question over the same trees: no call, the same id, the same events.
    let (_, silent) = Model::with_replies(&[]);
    let mut again = Vec::new();
    let second = archive
        .ask_with(Some(silent), None, &capex_question(), &mut again)
        .await;
    assert!(second.is_replay);
    assert_eq!(&second.id, &answer.id);
    assert_eq!(&second.citations, &answer.citations);
    let but_last = |events: &[AnswerEvent]| {
        events[..events.len() - 1]
            .iter()
            .filter(|event| event.name() != "usage")
            .cloned()
            .collect::<Vec<_>>()
    };
    assert_eq!(but_last(&again), but_last(&streamed));
    assert_eq!(model.requests().len(), 1);
    // Another scope is another question.
    let narrow = AskRequest {
        mode: AnswerMode::Search,
        within: DocumentScope::Documents(vec![archive.doc("3M_2023_10K")]),
        ..capex_question()
    };
    let (_, client) =
        Model::with_replies(&[r#"{"answerable": false, "claims": [], "confidence": 0}"#]);
    let none = archive.ask(client, &narrow).await;
    assert_ne!(none.id, answer.id);
    assert_eq!(none.outcome, AnswerOutcome::NotInDocuments);
    assert!(
        none.text.starts_with("Not in these documents") && none.text.contains("3M_2023_10K.pdf"),
        "{}",
        none.text
    );
}

#[tokio::test]
async fn false_claims_are_never_marked_verified() {
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
        let (_, client) = scripted_client(&json!([claim(statement, &citations)]));
        let answer = TestArchive::new().ask(client, &capex_question()).await;
        assert!(
            !answer.claims[0].verified,
            "{statement} {citations:?} {answer:?}"
        );
        assert_eq!(answer.confidence, Some(0.0));
    }
    let (_, client) = scripted_client(&json!([claim(
        "It was 5.",
        &[(99, "x"), (-3, "x"), (1, "nobody wrote this"), (1, "")]
    )]));
    let question = AskRequest {
        citations: CitationPolicy::Verified,
        ..capex_question()
    };
    let answer = TestArchive::new().ask(client, &question).await;
    assert_eq!(answer.citations, []);
    let dropped = RejectedCounts {
        unknown_passages: 2,
        empty_quotes: 1,
        unverified: 1,
        tool_calls: 0,
    };
    assert_eq!(answer.rejected, dropped);
    assert_eq!(answer.text.as_str(), "It was 5.");
}

#[tokio::test]
async fn without_a_model_the_answer_is_search_only() {
    let archive = TestArchive::new();
    let none = archive
        .ask_with(None, None, &capex_question(), &mut Vec::new())
        .await;
    assert_eq!(none.outcome, AnswerOutcome::SearchOnly);
    assert_eq!(none.degradation.unwrap().code.as_str(), "model.absent");
    assert!(!none.sections.is_empty() && none.model.is_none());
    let (_, away) = Model::new(|_| {
        Err(LlmError::Server {
            status: 500,
            message: String::new(),
        })
    });
    let lost = archive.ask(away, &capex_question()).await;
    assert_eq!(lost.outcome, AnswerOutcome::SearchOnly);
    // When the model is back, the same question is answered.
    let (_, back) = scripted_client(&json!([claim("It was (1,749).", &[(1, "(1,749)")])]));
    let answer = archive.ask(back, &capex_question()).await;
    assert_eq!(answer.outcome, AnswerOutcome::Answered);
    assert!(!answer.is_replay);
    let (_, client) = scripted_client(&json!([claim("It was 5.", &[])]));
    let capped = AskRequest {
        limits: AnswerLimits {
            calls: 0,
            ..AnswerLimits::default()
        },
        ..capex_question()
    };
    assert_eq!(
        archive.ask(client, &capped).await.degradation.unwrap().code,
        "answer.limit"
    );
}

#[tokio::test]
async fn each_year_is_read_from_its_own_filing() {
    let archive = TestArchive::new();
    let (model, client) = scripted_client(&json!([
        claim(
            "In 2022 it was about people.",
            &[(1, "retain people in 2022")]
        ),
        claim(
            "In 2023 it was about people.",
            &[(2, "retain people in 2023")]
        ),
    ]));
    let answer = archive
        .ask(client, &AskRequest::new("3M risk factors 2022 vs 2023"))
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
    let prompt = &model.requests()[0].user;
    assert!(
        prompt.contains("Passage 1:")
            && prompt.contains("Passage 2:")
            && !prompt.contains("Passage 3:"),
        "{prompt}"
    );
}

#[tokio::test]
async fn follow_up_questions_use_conversation_history() {
    let archive = TestArchive::new();
    let (model, client) = Model::new(|request: &LlmRequest| {
        Ok(match request.schema.name {
            "restate_question" => json!({ "standalone": "What were the risk factors of 3M?" }),
            _ => {
                json!({ "answerable": true, "confidence": 1, "claims": [claim("We may fail to retain people.", &[(1, "We may fail to retain people")])] })
            }
        })
    });
    let earlier = vec![ConversationTurn {
        question: "3M capex?".into(),
        answer: "It was 5 [1].".into(),
    }];
    let answer = archive
        .ask(
            client,
            &AskRequest {
                earlier,
                ..AskRequest::new("And the risks?")
            },
        )
        .await;
    assert_eq!(
        answer.searched.queries,
        ["What were the risk factors of 3M?"]
    );
    assert!(answer.claims[0].verified);
    assert_eq!(model.requests().len(), 2);
    assert!(model.requests()[1].user.contains("Earlier 1:"));
}

// One tool that reads the requested pages and counts its calls.
#[derive(Default)]
struct StubTools {
    docs: Vec<DocId>,
    calls: AtomicU32,
}

#[async_trait]
impl ToolSet for StubTools {
    fn descriptions(&self) -> Vec<(&'static str, &'static str)> {
        vec![("get_page_content", "document, pages")]
    }

    async fn call(&self, call: &ToolCall) -> ToolReply {
        self.calls.fetch_add(1, Ordering::SeqCst);
        ToolReply {
            summary: "read".into(),
            sections: self
                .docs
                .iter()
                .map(|doc: &DocId| SectionRequest {
                    doc: *doc,
                    section: None,
                    pages: call.pages.parse().into_iter().collect(),
                    score: 1.0,
                    why: "asked for".into(),
                    excerpt: None,
                })
                .collect(),
            ..ToolReply::default()
        }
    }
}

#[tokio::test]
async fn agent_reads_until_answered_and_planner_sees_no_page_text() {
    let archive = TestArchive::new();
    let turn = Arc::new(AtomicU32::new(0));
    let turns = Arc::clone(&turn);
    let (model, client) = Model::new(move |request: &LlmRequest| {
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
    let tools = StubTools {
        docs: vec![archive.doc("3M_2022_10K")],
        ..StubTools::default()
    };
    let question = AskRequest {
        mode: AnswerMode::Agent,
        ..capex_question()
    };
    let answer = archive.ask_with_tools(client, &tools, &question).await;
    assert_eq!(answer.outcome, AnswerOutcome::Answered);
    assert_eq!(answer.rejected.tool_calls, 1);
    assert_eq!(tools.calls.load(Ordering::SeqCst), 1);
    assert!(answer.claims[0].verified, "{answer:?}");
    assert_eq!(answer.citations[0].page, Some(2));
    for request in model
        .requests()
        .iter()
        .filter(|request| request.schema.name == "choose_tool")
    {
        assert!(
            !request.user.contains("1,749") && !request.user.contains("retain people"),
            "{}",
            request.user
        );
    }
    // The number of turns is bounded.
    let (endless, client) = Model::new(|request: &LlmRequest| {
        Ok(match request.schema.name {
            "choose_tool" => json!({ "tool": "get_page_content", "pages": "1" }),
            _ => json!({ "answerable": false, "claims": [], "confidence": 0 }),
        })
    });
    let question = AskRequest {
        mode: AnswerMode::Agent,
        limits: AnswerLimits {
            turns: 3,
            ..AnswerLimits::default()
        },
        ..AskRequest::new("3M revenue?")
    };
    let answer = archive.ask_with_tools(client, &tools, &question).await;
    assert_eq!(answer.outcome, AnswerOutcome::NotInDocuments);
    assert_eq!(endless.requests().len(), 4);
}

// Answers only from a page with `words`, and reads page 3 when it is asked for a tool.
fn reader_of(words: &'static str) -> (Arc<Model>, LlmClient) {
    Model::new(move |request: &LlmRequest| {
        if request.schema.name == "choose_tool" {
            return Ok(json!({ "tool": "get_page_content", "pages": "3", "last": true }));
        }
        let numbers = (1..9).filter(|number| {
            let passage = request.user.split(&format!("Passage {number}:")).nth(1);
            passage.is_some_and(|text| {
                text.split("Passage ")
                    .next()
                    .unwrap_or_default()
                    .contains(words)
            })
        });
        let claims: Vec<Value> = numbers
            .map(|number| claim(words, &[(number, words)]))
            .collect();
        Ok(json!({ "answerable": !claims.is_empty(), "confidence": 1, "claims": claims }))
    })
}

#[tokio::test]
async fn open_questions_are_searched_once_more_and_then_left_to_the_agent() {
    for (words, page, calls, mode) in [
        ("We may fail to retain people", 2, 2, AnswerMode::Search),
        ("We lease zorbs to others", 3, 4, AnswerMode::Agent),
    ] {
        let archive = TestArchive::new();
        let (model, client) = reader_of(words);
        let tools = StubTools {
            docs: vec![archive.doc("3M_2022_10K")],
            ..StubTools::default()
        };
        let answer = archive
            .ask_with_tools(client, &tools, &capex_question())
            .await;
        assert_eq!(answer.outcome, AnswerOutcome::Answered, "{answer:?}");
        assert_eq!(answer.mode, mode);
        assert_eq!(answer.citations[0].page, Some(page));
        assert!(answer.claims[0].verified, "{answer:?}");
        assert_eq!(model.requests().len(), calls);
        assert!(
            answer
                .steps
                .iter()
                .any(|step| step.what.contains("looked further"))
        );
    }
}

#[tokio::test]
async fn further_calls_are_bounded_and_a_refusal_is_stored() {
    let archive = TestArchive::new();
    let turn = Arc::new(AtomicU32::new(0));
    let (model, client) = Model::new(move |request: &LlmRequest| {
        let pages = turn.fetch_add(1, Ordering::SeqCst).to_string();
        Ok(match request.schema.name {
            "choose_tool" => json!({ "tool": "get_page_content", "pages": pages, "last": false }),
            _ => json!({ "answerable": false, "claims": [], "confidence": 0 }),
        })
    });
    let tools = StubTools {
        docs: vec![archive.doc("3M_2022_10K")],
        ..StubTools::default()
    };
    let refused = archive
        .ask_with_tools(client, &tools, &capex_question())
        .await;
    assert_eq!(refused.outcome, AnswerOutcome::NotInDocuments);
    assert_eq!(refused.degradation, None);
    assert!(model.requests().len() <= 1 + FURTHER_CALLS as usize);
    let (silent, client) = Model::with_replies(&[]);
    let again = archive
        .ask_with_tools(client, &tools, &capex_question())
        .await;
    assert!(again.is_replay && silent.requests().is_empty());
    // Only one call where the mode says so.
    let (model, client) = reader_of("nobody wrote this");
    let question = AskRequest {
        mode: AnswerMode::Search,
        ..capex_question()
    };
    archive.ask_with_tools(client, &tools, &question).await;
    assert_eq!(model.requests().len(), 1);
    // Limits that forbid another call also forbid to say that the documents do not tell.
    let (_, client) = reader_of("nobody wrote this");
    let limits = AnswerLimits {
        calls: 1,
        ..AnswerLimits::default()
    };
    let question = AskRequest {
        limits,
        ..capex_question()
    };
    let limited = archive.ask(client, &question).await;
    assert_eq!(limited.outcome, AnswerOutcome::SearchOnly);
    let code = limited.degradation.map(|degraded| degraded.code);
    assert_eq!(code.as_deref(), Some("answer.limit"));
}

#[tokio::test]
async fn agent_outage_is_not_reported_as_not_in_documents() {
    // A tool call, a draft that does not answer, then one of: model unreachable, unusable replies, exhausted budget.
    for (broken, calls, code) in [
        (Some(401), 16, "model.configuration"),
        (None, 16, "model.reply_unreadable"),
        (None, 2, "answer.limit"),
    ] {
        let archive = TestArchive::new();
        let turn = Arc::new(AtomicU32::new(0));
        let (_, client) = Model::new(move |request: &LlmRequest| {
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
        let tools = StubTools {
            docs: vec![archive.doc("3M_2022_10K")],
            ..StubTools::default()
        };
        let question = AskRequest {
            mode: AnswerMode::Agent,
            limits: AnswerLimits {
                calls,
                ..AnswerLimits::default()
            },
            ..capex_question()
        };
        let answer = archive.ask_with_tools(client, &tools, &question).await;
        let why = answer
            .degradation
            .as_ref()
            .map(|degraded| degraded.code.as_str());
        assert_eq!(answer.outcome, AnswerOutcome::SearchOnly, "{answer:?}");
        assert_eq!(why, Some(code), "{answer:?}");
        // When the model is back, the same question is answered under its own id.
        let (_, client) = Model::new(|request: &LlmRequest| {
            Ok(match request.schema.name {
                "choose_tool" => json!({ "tool": "answer" }),
                _ => {
                    json!({ "answerable": true, "confidence": 1, "claims": [claim("Purchases were (1,749).", &[(1, "Purchases of property, plant and equipment (1,749)")])] })
                }
            })
        });
        let again = archive.ask_with_tools(client, &tools, &question).await;
        assert!(
            again.outcome == AnswerOutcome::Answered && !again.is_replay && again.id != answer.id,
            "{again:?}"
        );
        assert_eq!(again.degradation, None);
    }
}

#[tokio::test]
async fn failed_tree_search_calls_degrade_and_are_not_stored() {
    let archive = TestArchive::new();
    let claims = json!([claim(
        "Purchases were (1,749).",
        &[(1, "Purchases of property, plant and equipment (1,749)")]
    )]);
    let (_, client) = Model::new(move |request: &LlmRequest| match request.schema.name {
        "answer" => Ok(json!({ "answerable": true, "confidence": 1, "claims": claims })),
        _ => Ok(json!({ "garbage": true })),
    });
    let question = AskRequest {
        strategy: RetrievalStrategy::TreeSearch(crate::tree_search::TreeSearchStrategy::Beam),
        ..capex_question()
    };
    let question = AskRequest {
        limits: AnswerLimits {
            calls: 100,
            ..AnswerLimits::default()
        },
        ..question
    };
    let answer = archive.ask(client, &question).await;
    assert_eq!(answer.outcome, AnswerOutcome::Answered, "{answer:?}");
    assert_eq!(
        answer.degradation.map(|degraded| degraded.code).as_deref(),
        Some("model.unusable")
    );
    let answers = AnswerStore::new(
        Env::system(),
        Arc::<MemoryBlobs>::clone(&archive.blobs),
        &Collection::default(),
    );
    assert_eq!(
        answers
            .get(&answer.id)
            .await
            .unwrap()
            .map(|stored| stored.id),
        Some(answer.id)
    );
}

#[tokio::test]
async fn unreadable_documents_are_reported_and_nothing_is_stored() {
    let archive = TestArchive::new();
    let refused = async |archive: &TestArchive, question: AskRequest| {
        let answers = AnswerStore::new(
            Env::system(),
            Arc::<MemoryBlobs>::clone(&archive.blobs),
            &Collection::default(),
        );
        let answerer = CachedAnswerer {
            collection: &Collection::default(),
            sources: TreeSearchSources {
                search: archive,
                store: archive,
                catalog: &archive.catalog,
            },
            tree_searcher: None,
            tools: None,
            store: &answers,
            max_limits: AnswerLimits::MAX,
        };
        let mut events: Vec<AnswerEvent> = Vec::new();
        let error = answerer.answer(&question, &mut events).await.unwrap_err();
        assert!(
            matches!(events.last(), Some(AnswerEvent::Error { .. })),
            "{events:?}"
        );
        assert!(
            archive.blobs.list("", None, 1).await.unwrap().is_empty(),
            "nothing is stored"
        );
        (error.code(), error.to_string())
    };
    let mut bare = TestArchive::new();
    bare.catalog = stemma_catalog::fixtures::claimed(&["scan.pdf"]);
    let (code, message) = refused(&bare, AskRequest::new("scan text?")).await;
    assert!(
        code == "document.no_tree" && message.contains("scan"),
        "{code} {message}"
    );
    let mut empty = TestArchive::new();
    empty.catalog = Catalog::from_entries([]);
    assert_eq!(
        refused(&empty, AskRequest::new("capex?")).await.0,
        "answer.no_documents"
    );
    let item = AskRequest {
        item: "99".parse().ok(),
        within: DocumentScope::Documents(vec![]),
        ..capex_question()
    };
    assert_eq!(refused(&archive, item).await.0, "answer.no_documents");
    let long = AskRequest::new("Background. ".repeat(400) + "QUESTION: revenue?");
    assert_eq!(refused(&archive, long).await.0, "answer.too_long");
}
