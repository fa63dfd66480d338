//! Scores the pages, captions and the table of contents that a query names.

use tantivy::Term;

use crate::index::passage_set::PassageSet;
use crate::index::schema::Fields;
use crate::references::QueryReferences;

// Shares of the best word score for a named caption, and for a named page or the table of contents.
const CAPTION_WEIGHT: f32 = 0.5;
const PAGE_WEIGHT: f32 = 0.7;

/// How well each passage matches the references. `unit` is the best word score.
pub(super) fn score_references(
    references: &QueryReferences,
    passages: &PassageSet<'_>,
    fields: &Fields,
    unit: f32,
) -> tantivy::Result<Vec<f32>> {
    let mut scores = vec![0.0_f32; passages.len()];
    for caption in &references.captions {
        let term = Term::from_field_text(fields.captions, caption);
        for (score, found) in scores.iter_mut().zip(passages.having(&term)?) {
            *score += if found { unit * CAPTION_WEIGHT } else { 0.0 };
        }
    }
    let pages = passages.column("page")?;
    let counts = passages.column("pages")?;
    let contents = passages.column("contents")?;
    let mut add_page = |page: Option<u64>, weight: f32| {
        for (at, score) in scores.iter_mut().enumerate() {
            let is_named = pages[at] > 0 && pages[at] == page.unwrap_or(counts[at]);
            *score += if is_named { unit * weight } else { 0.0 };
        }
    };
    if references.last_page {
        add_page(None, PAGE_WEIGHT);
    }
    for page in references
        .pages
        .iter()
        .copied()
        .chain(references.cover.then_some(1))
    {
        add_page(Some(u64::from(page)), PAGE_WEIGHT);
    }
    for page in &references.pages {
        let term = Term::from_field_text(fields.label, &page.to_string());
        for (score, found) in scores.iter_mut().zip(passages.having(&term)?) {
            *score += if found { unit * PAGE_WEIGHT } else { 0.0 };
        }
    }
    if references.contents {
        for (score, contents) in scores.iter_mut().zip(contents) {
            *score += if contents > 0 {
                unit * PAGE_WEIGHT
            } else {
                0.0
            };
        }
    }
    Ok(scores)
}
