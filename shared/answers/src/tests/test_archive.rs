//! A small archive in memory: two filings of one company, answered from by a scripted model.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use async_trait::async_trait;
use serde_json::{Value, json};
use stemma_document::{
    Collection, DocId, DraftEntry, EntryVerdict, EvidenceSource, Extent, Fact, FactSource,
    LocatedEntry, Method, Page, PageNo, PageOrigin, Position, Pt, Recognition, SectionStart,
    SectionTree, SourceBody, TextLines, VerifiedOutline, WordReading,
};
use stemma_filings::monospaced_page;
use stemma_llm::request::LlmRequest;
use stemma_store::blobs::MemoryBlobs;
use stemma_store::{Env, PortResult};

use crate::cached::CachedAnswerer;
use crate::tree_search::knowledge::Knowledge;
use crate::tree_search::scripted::ScriptedModel as Model;
use crate::tree_search::{LlmClient, TreeSearchSettings, TreeSearchSources, TreeSearcher};
use crate::{
    Answer, AnswerError, AnswerEvent, AnswerLimits, AnswerStore, AskRequest, EventSink,
    SectionRequest, ToolCall, ToolReply, ToolSet,
};
use stemma_catalog::catalog::{Catalog, CatalogDocument};
use stemma_catalog::document_store::{DocumentStore, OpenDocument};
use stemma_catalog::fixtures::{self, company_entry};
use stemma_retrieval::search::{
    AppliedFilter, DocumentScope, MissingTerm, Query, SearchHit, SearchHitPage, SearchResults,
};
use stemma_retrieval::usage::CallAccount;
use stemma_retrieval::{SearchError, SearchService};

const CAPEX: &str = "
Consolidated Statement of Cash Flows
(Millions)                                        2022      2021
Net cash provided by operating activities       5,591     7,454
Purchases of property, plant and equipment     (1,749)   (1,603)
Proceeds from sale of businesses                   13        51
Dividends paid                                 (3,369)   (3,420)
";
/// The row of the statement, and its label.
pub(super) const CAPEX_ROW: &str = "Purchases of property, plant and equipment (1,749) (1,603)";
pub(super) const CAPEX_LABEL: &str = "Purchases of property, plant and equipment";

// Two filings of one company, with a section on the first page and one on the two others.
pub(super) struct TestArchive {
    pub(super) catalog: Catalog,
    pub(super) blobs: Arc<MemoryBlobs>,
    collection: Collection,
    /// What searches say that no document has.
    pub(super) missing_terms: Vec<MissingTerm>,
    pub(super) evidence: Option<f32>,
    /// Documents that the index of searches lacks.
    pub(super) documents_not_indexed: usize,
    /// Documents that no search can read.
    pub(super) documents_unreadable: usize,
    /// Follows the risk factors of each filing.
    pub(super) sentence: String,
    /// The cash flows are a scan. Two readers read this word of it differently.
    pub(super) disputed: Option<(&'static str, &'static str)>,
    /// The filings have no pages.
    pub(super) is_text: bool,
}

fn page(text: &str) -> Page {
    let mut page = monospaced_page(text);
    for line in &mut page.lines {
        line.tokens = 12;
    }
    page
}

fn make_scan(page: &mut Page, text: &str, other: &str) {
    let words = page.lines.iter().flat_map(|line| {
        let words = line.words.iter();
        words.filter_map(|word| line.text.get(word.start as usize..word.end as usize))
    });
    let readings: Vec<WordReading> = words
        .map(|word| WordReading {
            confidence: if word == text { 79 } else { 99 },
            other: (word == text).then(|| other.to_owned()),
        })
        .collect();
    page.origin = PageOrigin::Recognized(Box::new(Recognition::new(0, readings)));
}

fn pages(name: &str, sentence: &str) -> Vec<Page> {
    let risks = format!(
        "Risk Factors\nWe may fail to retain people in {}.\n{sentence}",
        if name.contains("2022") {
            "2022"
        } else {
            "2023"
        }
    );
    let zorbs = "We lease zorbs to others.\nZorbs are not insured.";
    [CAPEX, &risks, zorbs].map(page).into()
}

// The lines of a filing without pages, and the one with which the second section begins.
fn lines(sentence: &str) -> (TextLines, u32) {
    let lines = CAPEX.lines().chain(["", "Risk Factors", sentence]);
    let lines: Vec<String> = lines.map(str::to_owned).collect();
    let second = lines.len() as u32 - 1;
    let text = TextLines {
        tokens: vec![12; lines.len()],
        lines,
        headings: Vec::new(),
    };
    (text, second)
}

fn tree(is_text: bool) -> SectionTree {
    let (text, second) = lines("");
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
        let position = Position {
            page: PageNo::new(page).unwrap(),
            line: 0,
            y: Pt(0),
        };
        let place = match (is_text, page) {
            (false, _) => SectionStart::Page(position),
            (true, 1) => SectionStart::Line(1),
            (true, _) => SectionStart::Line(second),
        };
        (
            LocatedEntry { entry, place },
            EntryVerdict::Confirmed { starts_page: true },
        )
    };
    let entries = vec![
        entry("Consolidated Statement of Cash Flows", 1),
        entry("Risk Factors", 2),
    ];
    let extent = match is_text {
        true => Extent::Lines(text.lines.len() as u32),
        false => Extent::Pages(3),
    };
    SectionTree::build(
        &VerifiedOutline::new(extent, entries).unwrap(),
        Method::Layout,
        Vec::new(),
    )
}

#[async_trait]
impl DocumentStore for TestArchive {
    async fn open(&self, document: &CatalogDocument) -> PortResult<Option<OpenDocument>> {
        let mut pages = pages(&document.version().name, &self.sentence);
        if let Some((text, other)) = self.disputed {
            make_scan(&mut pages[0], text, other);
        }
        let body = match self.is_text {
            true => SourceBody::Lines(lines(&self.sentence).0),
            false => SourceBody::Pages(pages),
        };
        Ok(Some(OpenDocument::new(
            tree(self.is_text),
            Some(body),
            None,
        )))
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
        let tree = tree(self.is_text);
        let mut hits = Vec::new();
        let documents = fixtures::documents(&self.catalog).into_iter();
        for document in documents.filter(|document| inside(&document.doc())) {
            for (page, section) in (1..).zip(&tree.sections) {
                let wanted_documents =
                    query.text.to_lowercase().contains("risk") == section.title.contains("Risk");
                if wanted_documents {
                    hits.push(SearchHit {
                        pages: (!self.is_text).then_some((page, page)),
                        best_pages: match self.is_text {
                            true => Vec::new(),
                            false => vec![SearchHitPage::new(page, None, 1.0)],
                        },
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
        let company = AppliedFilter {
            facet: "company".into(),
            value: "3M".into(),
            from: "3M".into(),
            documents: Some(2),
            ..AppliedFilter::default()
        };
        let names_company = query.text.contains("3M");
        let applied_filters = names_company.then_some(company).into_iter().collect();
        let mut results = SearchResults {
            hits,
            applied_filters,
            missing_terms: self.missing_terms.clone(),
            evidence: self.evidence,
            ..SearchResults::default()
        };
        if self.documents_not_indexed > 0 {
            results.set_index_behind(self.documents_not_indexed);
        }
        if self.documents_unreadable > 0 {
            results.set_unreadable(self.documents_unreadable);
        }
        Ok(results)
    }
}

impl TestArchive {
    pub(super) fn new() -> Self {
        let filing = |year: &str| {
            let mut entry = company_entry(&format!("3M_{year}_10K.pdf"), "3M");
            entry.facts.form = Some(Fact::from_text("10-K", None));
            entry.facts.fiscal_year = Some(Fact::from_source(year, FactSource::Derived));
            entry
        };
        Self {
            catalog: Catalog::from_entries([filing("2022"), filing("2023")]),
            blobs: Arc::default(),
            collection: Collection::default(),
            missing_terms: Vec::new(),
            evidence: None,
            documents_not_indexed: 0,
            documents_unreadable: 0,
            sentence: String::new(),
            disputed: None,
            is_text: false,
        }
    }

    /// A filing that no search finds.
    pub(super) fn add_filing(&mut self, path: &str, company: &str) {
        let documents = fixtures::documents(&self.catalog);
        let documents = documents.iter();
        let entries: Vec<_> = documents.filter_map(|one| one.entry().cloned()).collect();
        self.catalog =
            Catalog::from_entries(entries.into_iter().chain([company_entry(path, company)]));
    }

    pub(super) fn answers(&self) -> AnswerStore {
        let blobs = Arc::<MemoryBlobs>::clone(&self.blobs);
        AnswerStore::new(Env::system(), blobs, &self.collection)
    }

    pub(super) fn answerer<'a>(
        &'a self,
        client: Option<LlmClient>,
        tools: Option<&'a dyn ToolSet>,
        store: &'a AnswerStore,
    ) -> CachedAnswerer<'a> {
        let searcher = |client| {
            let settings = TreeSearchSettings::default();
            TreeSearcher::new(Arc::new(client), settings, Knowledge::default())
        };
        CachedAnswerer {
            collection: &self.collection,
            sources: TreeSearchSources {
                search: self,
                store: self,
                catalog: &self.catalog,
            },
            tree_searcher: client.map(|client| Arc::new(searcher(client))),
            tools,
            store,
            vision: None,
            max_limits: AnswerLimits::MAX,
        }
    }

    /// A tool that reads pages of the filing of 2022.
    pub(super) fn tools(&self) -> StubTools {
        let docs = vec![self.doc("3M_2022_10K")];
        StubTools {
            docs,
            ..StubTools::default()
        }
    }

    pub(super) async fn ask_with_tools(
        &self,
        client: LlmClient,
        tools: &dyn ToolSet,
        question: &AskRequest,
    ) -> Answer {
        self.ask_with(Some(client), Some(tools), question, &mut Vec::new())
            .await
    }

    pub(super) async fn ask_with(
        &self,
        client: Option<LlmClient>,
        tools: Option<&dyn ToolSet>,
        question: &AskRequest,
        events: &mut Vec<AnswerEvent>,
    ) -> Answer {
        let answers = self.answers();
        let answerer = self.answerer(client, tools, &answers);
        let answer = answer(&answerer, question, events).await.unwrap();
        assert_eq!(
            answers
                .get_promised(&answer.id)
                .await
                .unwrap()
                .map(|stored| stored.citations),
            Some(answer.citations.clone())
        );
        answer
    }

    pub(super) async fn ask(&self, client: LlmClient, question: &AskRequest) -> Answer {
        self.ask_with(Some(client), None, question, &mut Vec::new())
            .await
    }

    pub(super) fn doc(&self, name: &str) -> DocId {
        self.catalog.resolve(name).unwrap().doc()
    }
}

pub(super) fn scripted_client(claims: &Value) -> (Arc<Model>, LlmClient) {
    let claims = claims.clone();
    Model::new(move |_| Ok(json!({ "answerable": true, "claims": claims, "confidence": 0.9 })))
}

pub(super) fn claim(statement: &str, citations: &[(i64, &str)]) -> Value {
    let citations: Vec<Value> = citations
        .iter()
        .map(|(passage, quote)| json!({ "passage": passage, "quote": quote }))
        .collect();
    json!({ "statement": statement, "citations": citations })
}

/// A claim with figures.
pub(super) fn claim_with_figures(
    statement: &str,
    citations: &[(i64, &str)],
    figures: &[Value],
) -> Value {
    let mut claim = claim(statement, citations);
    claim["figures"] = json!(figures);
    claim
}

/// A figure that is copied from the first citation of its claim: from a cell, or from a sentence without row and column.
pub(super) fn figure(name: &str, value: &str, row: &str, column: &str) -> Value {
    json!({ "name": name, "citation": 1, "value": value, "unit": "", "row": row, "column": column, "formula": "" })
}

pub(super) fn computed(name: &str, value: &str, unit: &str, formula: &str) -> Value {
    json!({ "name": name, "citation": 0, "value": value, "unit": unit, "row": "", "column": "", "formula": formula })
}

/// The purchases of 2022, verified.
pub(super) fn capex_claim() -> Value {
    claim_with_figures(
        "Purchases of property were {a} in {a.period}.",
        &[(1, CAPEX_ROW)],
        &[figure("a", "(1,749)", CAPEX_LABEL, "2022")],
    )
}

pub(super) fn capex_question() -> AskRequest {
    AskRequest::new("3M capex 2022?")
}

// One tool that reads the requested pages and counts its calls.
#[derive(Default)]
pub(super) struct StubTools {
    docs: Vec<DocId>,
    pub(super) calls: AtomicU32,
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

// Answers only from a page with `words`, and reads page 3 when it is asked for a tool.
pub(super) fn reader_of(words: &'static str) -> (Arc<Model>, LlmClient) {
    Model::new(move |request: &LlmRequest| Ok(reader_reply(words, request)))
}

pub(super) fn reader_reply(words: &str, request: &LlmRequest) -> Value {
    if request.schema.name == "choose_tool" {
        return json!({ "tool": "get_page_content", "pages": "3", "last": true });
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
    json!({ "answerable": !claims.is_empty(), "confidence": 1, "claims": claims })
}

/// Answers a question under its id.
pub(super) async fn answer(
    answerer: &CachedAnswerer<'_>,
    question: &AskRequest,
    events: &mut dyn EventSink,
) -> Result<Answer, AnswerError> {
    let id = answerer.answer_id(question)?;
    answerer.answer(&id, question, events).await
}
