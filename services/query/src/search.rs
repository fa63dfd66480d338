//! Search: sections that fit a question, with the pages and words that speak for them.

use std::collections::BTreeMap;

use serde::Serialize;
use stemma_document::{PageNo, Section, SectionSpan, text};
use stemma_search::catalogue::Listed;
use stemma_search::lexical::Terms;
use stemma_search::locator::{Fragment, page_locator, section_locator};
use stemma_search::rank::{self, Coverage, Excerpt, Found, Opened, Request};

use crate::documents::rounded;
use crate::grep::page_label;
use crate::{Reader, Refusal};

/// Pages named per hit.
const PAGES_PER_HIT: usize = 3;

/// How to search.
#[derive(Debug, Clone)]
pub struct SearchOptions {
    /// Only in these scopes (documents, folders, axis paths); empty for all.
    pub scopes: Vec<String>,
    /// Only in this Item: `1A`, `II.1A`.
    pub item: Option<String>,
    /// Hits returned.
    pub limit: usize,
    /// Documents read at most; 0 for all.
    pub max_documents: usize,
    /// Documents read at once.
    pub threads: usize,
}

impl Default for SearchOptions {
    fn default() -> Self {
        Self { scopes: Vec::new(), item: None, limit: 10, max_documents: 500, threads: 2 }
    }
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SearchView {
    /// The question.
    pub query: String,
    /// Its words as they are compared.
    pub terms: Vec<String>,
    /// Best first.
    pub hits: Vec<HitView>,
    /// What was looked at.
    pub searched: Coverage,
}

/// A section that fits.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HitView {
    /// From 1.
    pub rank: usize,
    /// 0–1: share of the best score the words allow.
    pub score: f64,
    /// The document.
    pub doc_id: String,
    /// Its file name.
    pub name: String,
    /// The section, to paste back.
    pub locator: String,
    /// The section.
    pub section_id: String,
    /// Its title.
    pub title: String,
    /// Titles from the top down to it.
    pub path: Vec<String>,
    /// First and last physical page of the section.
    pub pages: Option<(u32, u32)>,
    /// First and last line of the section, in a text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lines: Option<(u32, u32)>,
    /// The pages of its own text that fit best, best first.
    pub best_pages: Vec<PageHit>,
    /// The words that fit, where they stand.
    pub excerpt: Excerpt,
}

/// A page that fits.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PageHit {
    /// Physical page.
    pub page: u32,
    /// What it is called, where that differs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// To paste back.
    pub locator: String,
    /// Larger is better; comparable within one answer.
    pub score: f64,
}

impl Reader {
    /// Sections that fit `query`, best first; the same question gives the same answer.
    ///
    /// # Errors
    /// [`Refusal`] when the query has no words, a scope names nothing, or the store cannot be read.
    pub async fn search(&self, query: &str, options: &SearchOptions) -> Result<SearchView, Refusal> {
        let terms = Terms::of(query);
        if terms.as_slice().is_empty() {
            let message = format!("`{query}` has no words to search for");
            return Err(Refusal::new("search.no_words", message, "stemma grep finds any characters"));
        }
        let documents = self.searchable(&options.scopes)?;
        let max_documents = if options.max_documents == 0 { usize::MAX } else { options.max_documents };
        let item = options.item.as_deref().map(item_of).transpose()?;
        let (limit, threads) = (options.limit.clamp(1, 1_000), options.threads);
        let request = Request { query: query.into(), limit, item, max_documents, threads };
        let found = rank::search(self, &documents, &request).await?;
        let hits = self.views(&documents, &found, &terms).await?;
        Ok(SearchView { query: query.into(), terms: terms.as_slice().to_vec(), hits, searched: found.coverage })
    }

    /// Documents with trees in the scopes, each once, in order of the catalogue.
    fn searchable(&self, scopes: &[String]) -> Result<Vec<&Listed>, Refusal> {
        let mut documents = Vec::new();
        match scopes {
            [] => documents.extend(self.catalogue.documents()),
            scopes => {
                for scope in scopes {
                    documents.extend(self.in_scope(scope)?);
                }
                documents.sort_by(|a, b| (&a.version().path, a.doc()).cmp(&(&b.version().path, b.doc())));
                documents.dedup_by_key(|listed| listed.doc());
            }
        }
        documents.retain(|listed| listed.entry().is_some());
        Ok(documents)
    }

    /// Opens each document once, whatever hits it has.
    async fn views(&self, documents: &[&Listed], found: &Found, terms: &Terms) -> Result<Vec<HitView>, Refusal> {
        let mut by_document: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (at, hit) in found.hits.iter().enumerate() {
            by_document.entry(hit.document).or_default().push(at);
        }
        let mut views: Vec<Option<HitView>> = found.hits.iter().map(|_| None).collect();
        for (document, hits) in by_document {
            let listed = documents[document];
            let Some(opened) = self.open_for_search(listed).await? else { continue };
            for at in hits {
                let path = opened.tree.path_to(found.hits[at].section);
                views[at] = view(listed, &opened, &path, found, at, terms);
            }
        }
        Ok(views.into_iter().flatten().collect())
    }
}

fn item_of(text: &str) -> Result<(Option<String>, String), Refusal> {
    match format!("item-{}", text.trim()).parse::<Fragment>() {
        Ok(Fragment::Item { part, number }) => Ok((part, number)),
        _ => Err(Refusal::new("search.item", format!("`{text}` is no Item"), "stemma search … --item 1A")),
    }
}

fn view(
    listed: &Listed,
    opened: &Opened,
    path: &[&Section],
    found: &Found,
    at: usize,
    terms: &Terms,
) -> Option<HitView> {
    let section = path.last()?;
    let lines = opened.body.as_ref().map(|body| text::own_lines(section, body)).unwrap_or_default();
    let page = |page: rank::PageScore| {
        let number = PageNo::new(page.page)?;
        let label = opened.body.as_ref().and_then(|body| page_label(body, number));
        let locator = page_locator(&listed.label, number);
        Some(PageHit { page: page.page, label, locator, score: rounded(page.score) })
    };
    let (pages, line_span) = match section.span {
        SectionSpan::Pages { pages, .. } => (Some((pages.start().get(), pages.end().get())), None),
        SectionSpan::Lines { start, end } => (None, Some((start, end))),
    };
    Some(HitView {
        rank: at + 1,
        score: rounded(found.hits[at].score),
        doc_id: listed.doc().to_string(),
        name: listed.version().name.clone(),
        locator: section_locator(&listed.label, section.id),
        section_id: section.id.to_string(),
        title: section.title.clone(),
        path: path.iter().map(|section| section.title.clone()).collect(),
        pages,
        lines: line_span,
        best_pages: rank::best_pages(&lines, terms, &found.weights, PAGES_PER_HIT)
            .into_iter()
            .filter_map(page)
            .collect(),
        excerpt: rank::excerpt(&lines, terms, &found.weights),
    })
}
