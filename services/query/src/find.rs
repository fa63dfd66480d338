//! A finder that reads documents one after the other: no index, and always up to date.

use std::collections::BTreeMap;
use std::time::Instant;

use async_trait::async_trait;
use stemma_document::{PageNo, Section, SectionSpan, text};
use stemma_search::catalogue::Listed;
use stemma_search::find::{self, MAX_LIMIT, MAX_SKIP, PageHit, Searched, Total};
use stemma_search::lexical::Terms;
use stemma_search::rank::{self, Opened, Request};
use stemma_search::{FindError, Finder, Found, Hit, Query, Within};

use crate::Reader;
use crate::grep::page_label;

/// Documents read at most.
const MAX_DOCUMENTS: usize = 500;
/// Documents read at once.
const THREADS: usize = 2;
/// Pages named per hit.
const PAGES_PER_HIT: usize = 3;

#[async_trait]
impl Finder for Reader {
    async fn find(&self, query: &Query) -> Result<Found, FindError> {
        if let Some(kept) = &self.kept {
            return kept.find(&self.catalogue, query).await;
        }
        let started = Instant::now();
        let terms = Terms::of(&query.text);
        if terms.as_slice().is_empty() {
            return Err(FindError::NoWords { text: query.text.chars().take(80).collect() });
        }
        if query.skip > MAX_SKIP {
            return Err(FindError::TooFar);
        }
        let documents: Vec<&Listed> =
            self.catalogue.documents().iter().filter(|listed| allowed(query, listed)).collect();
        let limit = query.limit.clamp(1, MAX_LIMIT);
        let request = Request {
            query: query.text.clone(),
            limit: query.skip + limit + 1,
            item: query.item.clone().map(|item| (item.part, item.number)),
            max_documents: MAX_DOCUMENTS,
            threads: THREADS,
        };
        let mut found = rank::search(self, &documents, &request).await?;
        let more = found.hits.len() > query.skip + limit;
        let total = if more { Total::AtLeast(found.hits.len()) } else { Total::Exact(found.hits.len()) };
        found.hits = found.hits.into_iter().skip(query.skip).take(limit).collect();
        Ok(Found {
            hits: hits(self, &documents, &found, &terms).await?,
            routed: Vec::new(),
            terms: terms.as_slice().to_vec(),
            total,
            next: more.then_some(query.skip + limit),
            searched: Searched {
                documents_in_scope: documents.len(),
                documents: found.coverage.documents_read,
                documents_without_text: found.coverage.documents_without_text,
                sections: found.coverage.sections,
                took_us: u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX),
            },
        })
    }
}

fn allowed(query: &Query, listed: &Listed) -> bool {
    let within = match &query.within {
        Within::All => true,
        Within::Documents(docs) => docs.contains(&listed.doc()),
    };
    within && listed.entry().is_some() && query.filter.holds(listed)
}

/// Opens each document once, whatever hits it has.
async fn hits(
    reader: &Reader,
    documents: &[&Listed],
    found: &rank::Found,
    terms: &Terms,
) -> Result<Vec<Hit>, FindError> {
    let mut by_document: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (at, hit) in found.hits.iter().enumerate() {
        by_document.entry(hit.document).or_default().push(at);
    }
    let mut hits: Vec<Option<Hit>> = found.hits.iter().map(|_| None).collect();
    for (document, indices) in by_document {
        let Some(opened) = reader.open_for_search(documents[document]).await? else { continue };
        for at in indices {
            let path = opened.tree.path_to(found.hits[at].section);
            hits[at] = hit(documents[document], &opened, &path, found, at, terms);
        }
    }
    Ok(hits.into_iter().flatten().collect())
}

fn hit(
    listed: &Listed,
    opened: &Opened,
    path: &[&Section],
    found: &rank::Found,
    at: usize,
    terms: &Terms,
) -> Option<Hit> {
    let section = path.last()?;
    let lines = opened.body.as_ref().map(|body| text::own_lines(section, body)).unwrap_or_default();
    let page = |page: rank::PageScore| {
        let label = opened.body.as_ref().and_then(|body| page_label(body, PageNo::new(page.page)?));
        PageHit { page: page.page, label, score: page.score, rectangles: Vec::new() }
    };
    let (pages, line_span) = match section.span {
        SectionSpan::Pages { pages, .. } => (Some((pages.start().get(), pages.end().get())), None),
        SectionSpan::Lines { start, end } => (None, Some((start, end))),
    };
    let excerpt = rank::excerpt(&lines, terms, &found.weights);
    let best_pages = rank::best_pages(&lines, terms, &found.weights, PAGES_PER_HIT);
    Some(Hit {
        doc: listed.doc(),
        name: listed.version().name.clone(),
        version: listed.version().seq,
        section: section.id,
        path: path.iter().map(|section| section.title.clone()).collect(),
        pages,
        lines: line_span,
        best_pages: best_pages.into_iter().map(page).collect(),
        score: found.hits[at].score,
        parts: BTreeMap::new(),
        why: "words of the question".into(),
        excerpt: find::Excerpt { text: excerpt.text, marks: excerpt.marks },
    })
}
