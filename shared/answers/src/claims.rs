//! From what a model says to what is shown: citations of passages it was shown, quotes and numbers compared with pages.

use std::collections::BTreeSet;

use stemma_document::{Collection, PageNo};

use super::citation::{Citation, Verified};
use super::compose::{Draft, DraftCitation};
use super::numbers::{Number, Quoted, Role, numbers, speaks_of_gain};
use super::passages::{Ground, Passage};
use super::question::Citations;
use super::quote::{Checked, check};
use super::record::{Claim, Dropped};
use super::sheet::Lines;
use super::support::{Evidence, carries};
use stemma_catalog::locator::page_locator;

/// Citations of one claim; more are left out.
const MAX_CITATIONS: usize = 12;

/// What is shown of an answer.
#[derive(Debug, Default)]
pub(super) struct Composed {
    pub(super) claims: Vec<Claim>,
    pub(super) citations: Vec<Citation>,
    pub(super) text: String,
    pub(super) dropped: Dropped,
    pub(super) confidence: f64,
}

/// A citation with what a claim's numbers are compared with.
struct Cited<'a> {
    citation: Citation,
    passage: &'a Passage,
    quoted: Quoted,
    /// The lines the quote stands on.
    lines: String,
    page_text: String,
}

/// Compares all that a draft claims with the pages it was made from.
pub(super) fn compose(
    draft: &Draft,
    ground: &Ground,
    collection: &Collection,
    keep: Citations,
) -> Composed {
    let mut composed = Composed::default();
    for claim in &draft.claims {
        let mut cited: Vec<Cited<'_>> = Vec::new();
        for one in claim.citations.iter().take(MAX_CITATIONS) {
            match cite(one, ground, collection) {
                Ok(one)
                    if keep == Citations::Verified && one.citation.verified == Verified::None =>
                {
                    composed.dropped.unverified += 1;
                }
                Ok(one)
                    if cited
                        .iter()
                        .any(|known| is_same(&known.citation, &one.citation)) =>
                {
                    composed.dropped.empty_quotes += 1;
                }
                Ok(one) => cited.push(one),
                Err(Uncitable::Unknown) => composed.dropped.unknown_passages += 1,
                Err(Uncitable::Empty) => composed.dropped.empty_quotes += 1,
            }
        }
        let statement = one_line(&claim.statement);
        let unfounded = unfounded(&statement, &cited, ground);
        let stands = !cited.is_empty() && cited.iter().all(|one| one.citation.verified.stands());
        let figures = numbers(&statement)
            .iter()
            .any(|number| number.role == Role::Amount);
        let verified = stands
            && unfounded.is_empty()
            && carries(&statement, figures, &evidence(&cited, ground));
        let ids = cited
            .into_iter()
            .map(|one| composed.number(one.citation))
            .collect();
        composed.claims.push(Claim {
            text: statement,
            citations: ids,
            verified,
            unfounded,
        });
    }
    composed.text = composed
        .claims
        .iter()
        .map(with_marks)
        .collect::<Vec<_>>()
        .join(" ");
    let verified = composed
        .claims
        .iter()
        .filter(|claim| claim.verified)
        .count();
    let share = verified as f64 / composed.claims.len().max(1) as f64;
    let said = if draft.confidence.is_finite() {
        draft.confidence.clamp(0.0, 1.0)
    } else {
        0.0
    };
    composed.confidence = (said.min(share) * 100.0).round() / 100.0;
    composed
}

impl Composed {
    /// The id of a citation: that of the same one before, or the next number.
    fn number(&mut self, citation: Citation) -> String {
        if let Some(known) = self
            .citations
            .iter()
            .find(|known| is_same(known, &citation))
        {
            return known.id.clone();
        }
        let id = (self.citations.len() + 1).to_string();
        self.citations.push(Citation {
            id: id.clone(),
            ..citation
        });
        id
    }
}

fn is_same(one: &Citation, other: &Citation) -> bool {
    let key = |citation: &Citation| {
        (
            citation.doc_id.clone(),
            citation.page,
            citation.line,
            citation.quote.clone(),
        )
    };
    key(one) == key(other)
}

/// Why a citation is not shown.
enum Uncitable {
    Unknown,
    Empty,
}

/// The citation a model makes, checked. One that names a passage it was not shown is none; a quote that does not stand in the passage
/// it names, and does in another of the same document that was shown, is cited from there.
fn cite<'a>(
    said: &DraftCitation,
    ground: &'a Ground,
    collection: &Collection,
) -> Result<Cited<'a>, Uncitable> {
    let at = usize::try_from(said.passage)
        .ok()
        .and_then(|number| number.checked_sub(1));
    let named = at
        .and_then(|at| ground.passages.get(at))
        .ok_or(Uncitable::Unknown)?;
    if !said.quote.chars().any(char::is_alphanumeric) {
        return Err(Uncitable::Empty);
    }
    let mut best = (named, check(&said.quote, &ground.sheets(named)));
    if !best.1.verified.stands() {
        let others = ground
            .passages
            .iter()
            .filter(|other| other.doc == named.doc && other.number != named.number);
        let elsewhere = others.map(|other| (other, check(&said.quote, &ground.sheets(other))));
        let mut elsewhere = elsewhere.filter(|(_, checked)| checked.verified.stands());
        best = elsewhere.next().unwrap_or(best);
    }
    let (passage, checked) = best;
    Ok(cited(passage, checked, ground, collection))
}

fn cited<'a>(
    passage: &'a Passage,
    checked: Checked,
    ground: &'a Ground,
    collection: &Collection,
) -> Cited<'a> {
    let sheets = ground.sheets(passage);
    let until = checked
        .rects
        .iter()
        .map(|rect| rect.page)
        .max()
        .unwrap_or(passage.number);
    let used = sheets
        .iter()
        .filter(|sheet| passage.last_line.is_some() || sheet.number <= until);
    let page_text = used
        .map(|sheet| sheet.whole())
        .collect::<Vec<_>>()
        .join("\n");
    let volume = ground.volume(passage);
    let (name, label) = volume.map_or(("", ""), |volume| {
        (volume.name.as_str(), volume.label.as_str())
    });
    let page = passage.last_line.is_none().then_some(passage.number);
    let size = sheets.first().and_then(|sheet| match sheet.lines {
        Lines::Page(page) => Some([
            f64::from(page.width.points()),
            f64::from(page.height.points()),
        ]),
        Lines::Text(_) => None,
    });
    let line = passage
        .last_line
        .map(|_| passage.number + checked.begins.map_or(0, |(_, line)| line as u32));
    let page_label = page.and_then(|number| {
        let label = volume?.page(number)?.label.as_ref()?.0.clone();
        Some(label).filter(|label| *label != number.to_string())
    });
    let locator = match page.and_then(PageNo::new) {
        Some(page) => page_locator(label, page),
        None => stemma_catalog::locator::section_locator(label, passage.section),
    };
    let quoted = Quoted::of(&checked.quote, &page_text);
    let citation = Citation {
        id: String::new(),
        doc_id: passage.doc.to_string(),
        name: name.to_owned(),
        version: volume.map_or(0, |volume| volume.version),
        section_id: passage.section.to_string(),
        path: ground.path(passage),
        page,
        page_label,
        line,
        quote: checked.quote,
        rects: checked.rects,
        page_size: size,
        verified: checked.verified,
        url: url(passage, collection),
        locator,
    };
    Cited {
        citation,
        passage,
        quoted,
        lines: checked.lines,
        page_text,
    }
}

fn url(passage: &Passage, collection: &Collection) -> String {
    let doc = passage.doc;
    let section = passage.section;
    let place = match passage.last_line {
        None => format!("/v1/documents/{doc}/pages?range={}", passage.number),
        Some(_) => format!("/v1/documents/{doc}/sections/{section}?text=true"),
    };
    if *collection == Collection::default() {
        return place;
    }
    let joint = if place.contains('?') { '&' } else { '?' };
    format!("{place}{joint}collection={collection}")
}

/// Numbers of a statement that nothing cited bears out: what measures has to stand in a quote that does, what names (a year, a
/// note) on the page, in its path, or in what the document is.
fn unfounded(statement: &str, cited: &[Cited<'_>], ground: &Ground) -> Vec<String> {
    let gain = speaks_of_gain(statement);
    let around: String = cited
        .iter()
        .map(|one| context(one, ground))
        .collect::<Vec<_>>()
        .join("\n");
    let names: BTreeSet<String> = around
        .split(|c: char| !c.is_alphanumeric())
        .map(str::to_lowercase)
        .collect();
    let stands = |number: &Number| match number.names_only() {
        true => number.names().iter().any(|name| names.contains(name)),
        false => cited
            .iter()
            .filter(|one| one.citation.verified.stands())
            .any(|one| number.stands_in(&one.quoted, gain)),
    };
    let mut unfounded: Vec<String> = Vec::new();
    for number in numbers(statement)
        .into_iter()
        .filter(|number| !stands(number))
    {
        if !unfounded.contains(&number.text) {
            unfounded.push(number.text);
        }
    }
    unfounded
}

/// The page, where it is and of what.
fn context(cited: &Cited<'_>, ground: &Ground) -> String {
    format!("{}\n{}", cited.page_text, place(cited, ground))
}

/// Where a quote stands, and in what.
fn place(cited: &Cited<'_>, ground: &Ground) -> String {
    let what = ground
        .volume(cited.passage)
        .map(|volume| volume.what.replace("FY", ""))
        .unwrap_or_default();
    format!(
        "{}\n{}\n{what}",
        cited.citation.path.join(" "),
        cited.citation.name.replace('_', " ")
    )
}

/// What of the citations speaks for a statement: the quotes that stand.
fn evidence(cited: &[Cited<'_>], ground: &Ground) -> Evidence {
    let standing = || cited.iter().filter(|one| one.citation.verified.stands());
    let joined = |texts: Vec<String>| texts.join("\n");
    Evidence {
        quotes: standing().map(|one| one.citation.quote.clone()).collect(),
        lines: joined(standing().map(|one| one.lines.clone()).collect()),
        place: joined(standing().map(|one| place(one, ground)).collect()),
    }
}

/// `It was 5 [1][2].`
fn with_marks(claim: &Claim) -> String {
    if claim.citations.is_empty() {
        return claim.text.clone();
    }
    let marks: String = claim.citations.iter().map(|id| format!("[{id}]")).collect();
    let (statement, stop) = claim.halves();
    format!("{statement} {marks}{stop}")
}

/// White space and control characters folded; brackets that would look like marks of ours are round.
fn one_line(text: &str) -> String {
    let words = text
        .split(|c: char| c.is_whitespace() || c.is_control())
        .filter(|word| !word.is_empty());
    words
        .collect::<Vec<_>>()
        .join(" ")
        .replace('[', "(")
        .replace(']', ")")
}
