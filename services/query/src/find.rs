//! A reader as a finder: its index answers, and its texts say where words stand on pages.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use async_trait::async_trait;
use stemma_document::{DocId, PageNo, PageSpan};
use stemma_engine::PortError;
use stemma_retrieval::excerpt::{Weights, rectangles};
use stemma_retrieval::meaning::route::Routed;
use stemma_retrieval::{Chip, FindError, Finder, Found, Query, Within};

use crate::reader::aside;
use crate::{Kept, Reader};

/// Pages of one answer on which words are looked for.
const PLACED_PAGES: usize = 30;

#[async_trait]
impl Finder for Reader {
    async fn find(&self, query: &Query) -> Result<Found, FindError> {
        let Some(kept) = &self.kept else {
            return Err(PortError::lasting(
                "index",
                "search",
                "this reader was opened without an index",
            )
            .into());
        };
        let narrowed = self.only.as_ref().map(|only| narrowed(query, only));
        let query = narrowed.as_ref().unwrap_or(query);
        let mut found = self.routed(kept, query).await?;
        if query.rectangles {
            self.place(&mut found).await?;
        }
        Ok(found)
    }
}

impl Reader {
    /// Asks the index; where no name in the question says which documents it is for, and there are many, of those that are
    /// near it by meaning. Where that cannot be said, or nothing may be paid for it, all are searched, and a chip tells.
    async fn routed(&self, kept: &Kept, query: &Query) -> Result<Found, FindError> {
        let mut found = kept.find(&self.catalogue, query).await?;
        let Some(meaning) = kept.meaning() else {
            return Ok(found);
        };
        let among = self.among(query);
        if !meaning.narrows(among.len()) || found.routed.iter().any(|chip| chip.facet == "company")
        {
            return Ok(found);
        }
        let chip = |value: &str, documents| Chip {
            facet: "meaning".into(),
            value: value.into(),
            from: query.text.chars().take(80).collect(),
            documents,
        };
        if query.for_nothing {
            found.routed.push(chip("not_paid_for", among.len()));
            return Ok(found);
        }
        match meaning
            .route(&query.text, &among, query.on_behalf.as_ref())
            .await
        {
            Ok(Routed {
                documents: routed,
                paid,
            }) => {
                let documents = routed.len();
                let all = found.searched.documents_in_scope;
                let nearest = Query {
                    within: Within::Documents(routed),
                    ..query.clone()
                };
                found = Found {
                    paid,
                    ..kept.find(&self.catalogue, &nearest).await?
                };
                (found.searched.documents, found.searched.documents_in_scope) = (documents, all);
                found.routed.push(chip("nearest", documents));
            }
            Err(error) => {
                tracing::warn!(%error, "a question is not routed by meaning");
                found.routed.push(chip("unavailable", among.len()));
            }
        }
        Ok(found)
    }

    /// The documents a question is for, each with the version of its tree.
    fn among(&self, query: &Query) -> HashMap<DocId, u64> {
        let inside = |doc: DocId| match &query.within {
            Within::All => true,
            Within::Documents(docs) => docs.contains(&doc),
        };
        let documents = self.catalogue.documents().iter();
        let fits = documents.filter(|listed| inside(listed.doc()) && query.filter.holds(listed));
        fits.filter_map(|listed| Some((listed.doc(), listed.entry()?.version.seq)))
            .collect()
    }

    /// Says where the words of the question stand on the best pages; texts that are not in the store have no places.
    async fn place(&self, found: &mut Found) -> Result<(), PortError> {
        let weights: Weights = found.terms.iter().map(|term| (term.clone(), 1.0)).collect();
        let mut by_document: BTreeMap<DocId, Vec<(usize, usize)>> = BTreeMap::new();
        let pages = found
            .hits
            .iter()
            .enumerate()
            .flat_map(|(at, hit)| (0..hit.best_pages.len()).map(move |page| (at, page)));
        for (at, page) in pages.take(PLACED_PAGES) {
            by_document
                .entry(found.hits[at].doc)
                .or_default()
                .push((at, page));
        }
        for (doc, places) in by_document {
            let Some(listed) = self.catalogue.get(doc) else {
                continue;
            };
            let Some(published) = self.tree_of(listed).await? else {
                continue;
            };
            let Some(packed) = self.packed(&published).await? else {
                continue;
            };
            let numbers: Vec<u32> = places
                .iter()
                .map(|(at, page)| found.hits[*at].best_pages[*page].page)
                .collect();
            let weights = weights.clone();
            for ((at, page), rectangles) in places.into_iter().zip(
                aside(move || {
                    numbers
                        .into_iter()
                        .map(|number| on_page(&packed, number, &weights))
                        .collect::<Vec<_>>()
                })
                .await?,
            ) {
                found.hits[at].best_pages[page].rectangles = rectangles;
            }
        }
        Ok(())
    }
}

/// The same question for no more than these documents.
fn narrowed(query: &Query, only: &BTreeSet<DocId>) -> Query {
    let docs = match &query.within {
        Within::All => only.iter().copied().collect(),
        Within::Documents(docs) => docs
            .iter()
            .copied()
            .filter(|doc| only.contains(doc))
            .collect(),
    };
    Query {
        within: Within::Documents(docs),
        ..query.clone()
    }
}

/// Where the words stand on one page; nowhere where it cannot be read.
fn on_page(
    packed: &stemma_extract::Packed,
    number: u32,
    weights: &Weights,
) -> Vec<stemma_retrieval::find::PageRect> {
    let Some(number) = PageNo::new(number) else {
        return Vec::new();
    };
    match packed.pages(PageSpan::between(number, number)) {
        Ok(pages) => pages
            .first()
            .map(|page| rectangles(page, weights))
            .unwrap_or_default(),
        Err(error) => {
            tracing::debug!(%error, %number, "words of a page have no places");
            Vec::new()
        }
    }
}
