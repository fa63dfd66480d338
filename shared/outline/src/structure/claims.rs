//! Claims of the witnesses that name sections: contents rows and entries of the embedded outline, with their levels.

use std::ops::Range;

use stemma_document::{OutlineItem, Target, Witness};

use super::contents::{Contents, Entry};
use super::forms::Form;
use super::labels::Labels;
use super::numbering::{self, Class, Number};
use super::titles::{self, Prepared};
use super::{grammar, lookalikes};

/// Entries of an embedded outline that are looked at; larger outlines list figures or words.
const OUTLINE_ENTRIES: usize = 5_000;

/// A section that a witness names, before anyone looked for it.
#[derive(Debug, Clone)]
pub(super) struct Claim {
    pub(super) title: String,
    pub(super) prepared: Prepared,
    pub(super) number: Option<String>,
    /// 1 is the highest.
    pub(super) level: u16,
    pub(super) printed: Option<String>,
    pub(super) target: Option<Target>,
    /// Page (from 0) that the printed label stands for.
    pub(super) predicted: Option<u32>,
    pub(super) witness: Witness,
    /// First and last key in the form, for a PART or an Item.
    pub(super) keys: Option<(usize, usize)>,
}

impl Claim {
    pub(super) fn new(title: &str, witness: Witness) -> Self {
        let title = titles::tidy(titles::cut(title, 400));
        let number = numbering::readings(&title)
            .first()
            .map(|number| number.text.to_string());
        let prepared = Prepared::new(&title);
        Self {
            prepared,
            number,
            level: 1,
            printed: None,
            target: None,
            predicted: None,
            witness,
            keys: None,
            title,
        }
    }

    pub(super) fn target_page(&self) -> Option<u32> {
        self.target.map(|target| target.page.get() - 1)
    }

    /// The page its witness puts it on, link before label.
    pub(super) fn page(&self) -> Option<u32> {
        self.target_page().or(self.predicted)
    }
}

/// The date of a statement on a line of its own, and the company whose contents these are, are no sections.
fn is_caption(entry: &Entry) -> bool {
    let placed = entry.label.is_some() || entry.target.is_some();
    lookalikes::is_date(&entry.title) || (!placed && titles::names_company(&entry.title))
}

/// The claims of a table of contents whose labels count inside `pages` (from 0).
pub(super) fn of_contents(
    contents: &Contents,
    form: Option<Form>,
    labels: &Labels,
    pages: Range<u32>,
) -> Vec<Claim> {
    let mut part = None;
    let mut claims: Vec<Claim> = Vec::with_capacity(contents.entries.len());
    let entries: Vec<_> = contents
        .entries
        .iter()
        .filter(|entry| !is_caption(entry))
        .collect();
    for entry in &entries {
        let witness = if entry.target.is_some() {
            Witness::ContentsLinks
        } else {
            Witness::PrintedContents
        };
        let mut claim = Claim::new(&entry.title, witness);
        claim.printed = entry.printed.clone();
        claim.target = entry.target;
        claim.predicted = entry.label.as_ref().and_then(|label| {
            let found = labels.page_of(label, pages.clone());
            // Without printed labels the number itself is the best guess.
            let own = (labels.is_empty() && label.series.is_empty())
                .then(|| label.number.saturating_sub(1));
            found.or(own).filter(|page| pages.contains(page))
        });
        claim.keys = form.and_then(|form| grammar::keys_of(form, &entry.title, part));
        if let (Some(form), Some((key, _))) = (form, claim.keys) {
            part = Some(form.items()[key].part);
        }
        claims.push(claim);
    }
    inherit_places(&mut claims);
    let mut kinds: Vec<Kind<'_>> = entries
        .iter()
        .zip(&claims)
        .map(|(entry, claim)| kind(entry, claim, form))
        .collect();
    raise_behind_closing(&mut kinds);
    let levels = levels(&kinds);
    claims
        .iter_mut()
        .zip(levels)
        .for_each(|(claim, level)| claim.level = level);
    claims
}

/// A row without label and link (a group, an Item with sub-entries) starts where the next row starts.
fn inherit_places(claims: &mut [Claim]) {
    for at in (0..claims.len().saturating_sub(1)).rev() {
        if claims[at].target.is_none() && claims[at].predicted.is_none() {
            claims[at].predicted = claims[at + 1].page();
        }
    }
}

/// What decides the level of a contents row.
struct Kind<'a> {
    rank: u8,
    indent: f32,
    bold: bool,
    number: Option<Number<'a>>,
    /// Nothing lies in it: statements behind the signatures stand beside them.
    leaf: bool,
}

/// Ranks: PART 0, Item 1, what closes a filing 0, other rows 2.
fn kind<'a>(entry: &'a Entry, claim: &Claim, form: Option<Form>) -> Kind<'a> {
    let number = numbering::readings(&entry.title).first().copied();
    let closing = is_closing(&claim.prepared.full);
    let rank = match (form, claim.keys) {
        (Some(form), Some((key, _))) if form.items()[key].tag.is_none() => 0,
        (Some(_), Some(_)) => 1,
        (Some(_), None) if closing => 0,
        _ => 2,
    };
    // Where a centered row starts says nothing about its depth.
    let indent = if entry.centered && entry.label.is_none() && rank == 2 && number.is_none() {
        0.0
    } else {
        entry.indent
    };
    Kind {
        rank,
        indent,
        bold: entry.bold,
        number,
        leaf: closing && form.is_some(),
    }
}

/// `Signatures`, `Exhibit Index`: they stand beside the PARTs of a filing.
pub(super) fn is_closing(key: &str) -> bool {
    matches!(
        key,
        "signature"
            | "signatures"
            | "exhibitindex"
            | "indextoexhibits"
            | "exhibitsindex"
            | "powerofattorney"
    )
}

/// What a filing lists behind its signatures (statements on F-pages) stands beside the PARTs, not in the last of them.
fn raise_behind_closing(kinds: &mut [Kind<'_>]) {
    let mut closed: Option<f32> = None;
    for kind in kinds {
        match closed {
            _ if kind.leaf => closed = Some(kind.indent),
            _ if kind.rank < 2 => closed = None,
            Some(indent) if kind.indent <= indent + 3.0 => kind.rank = 0,
            _ => {}
        }
    }
}

/// Levels from rank, indent and numbering, with one stack.
fn levels(kinds: &[Kind<'_>]) -> Vec<u16> {
    let mut stack: Vec<usize> = Vec::new();
    let mut levels = Vec::with_capacity(kinds.len());
    for (at, kind) in kinds.iter().enumerate() {
        while let Some(top) = stack.last() {
            if is_under(kind, &kinds[*top]) {
                break;
            }
            stack.pop();
        }
        levels.push(u16::try_from(stack.len() + 1).unwrap_or(u16::MAX));
        stack.push(at);
    }
    levels
}

fn is_under(kind: &Kind<'_>, above: &Kind<'_>) -> bool {
    if above.leaf || kind.rank != above.rank {
        return !above.leaf && kind.rank > above.rank;
    }
    if kind.rank < 2 {
        return false;
    }
    if let (Some(own), Some(other)) = (kind.number, above.number) {
        match (own.class, other.class) {
            (Class::Decimal(a), Class::Decimal(b)) => return a > b,
            (a, b) if a == b => return false,
            (Class::Section, Class::Article | Class::Chapter | Class::Part) => return true,
            // A centered `ARTICLE II` stands further right than the sections of the article above it.
            (Class::Article | Class::Chapter | Class::Part, Class::Section | Class::Decimal(_)) => {
                return false;
            }
            (
                Class::Article
                | Class::Chapter
                | Class::Part
                | Class::Exhibit
                | Class::Schedule
                | Class::Appendix,
                _,
            ) => {
                return kind.indent > above.indent + 12.0;
            }
            (Class::Decimal(2..), Class::Chapter | Class::Appendix) => return true,
            (Class::CjkSection | Class::CjkList, Class::CjkChapter) => return true,
            (Class::CjkList, Class::CjkSection) => return true,
            _ => {}
        }
    }
    let deeper = kind.indent > above.indent + 3.0;
    let same_column = (kind.indent - above.indent).abs() <= 3.0;
    deeper
        || (same_column
            && above.bold
            && !kind.bold
            && kind.number.is_none() == above.number.is_none())
}

/// The claims of the embedded outline, junk titles left out; levels as claimed, and PARTs and Items by the form.
pub(super) fn of_outline(outline: &[OutlineItem], form: Option<Form>) -> Vec<Claim> {
    let mut part = None;
    let mut claims = Vec::new();
    for item in outline.iter().take(OUTLINE_ENTRIES) {
        let mut claim = Claim::new(&item.title, Witness::EmbeddedOutline);
        if is_junk(&claim) {
            continue;
        }
        claim.level = item.level.max(1);
        claim.target = item.target;
        claim.keys = form.and_then(|form| grammar::keys_of(form, &claim.title, part));
        if let (Some(form), Some((key, _))) = (form, claim.keys) {
            part = Some(form.items()[key].part);
        }
        claims.push(claim);
    }
    reorder(&mut claims);
    claims
}

/// Names of files and slides are no titles.
fn is_junk(claim: &Claim) -> bool {
    let key = claim.prepared.full.as_str();
    let extension = [
        ".pdf", ".doc", ".docx", ".htm", ".html", ".xls", ".xlsx", ".ppt", ".pptx", ".txt",
        ".indd", ".xml",
    ];
    let lower = claim.title.to_lowercase();
    let word = key.trim_end_matches(|c: char| c.is_ascii_digit());
    let counted = matches!(
        word,
        "slide" | "page" | "bookmark" | "untitled" | "document" | "blank" | "" | "sheet"
    );
    counted
        || extension.iter().any(|end| lower.ends_with(end))
        || !key.chars().any(char::is_alphabetic)
}

/// An outline listed mostly against the order of its own pages is put into their order and loses its levels.
fn reorder(claims: &mut [Claim]) {
    let pages: Vec<u32> = claims.iter().filter_map(Claim::target_page).collect();
    let falling = pages.windows(2).filter(|pair| pair[1] < pair[0]).count();
    if falling * 3 > pages.len() && pages.len() == claims.len() {
        claims.sort_by_key(|claim| claim.page());
        claims.iter_mut().for_each(|claim| claim.level = 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(title: &str, indent: f32, bold: bool) -> Entry {
        let title = title.to_string();
        Entry {
            title,
            label: None,
            printed: None,
            target: None,
            indent,
            bold,
            centered: false,
            rows: (0, 0),
        }
    }

    fn levels_of(rows: &[(&str, f32, bool)], form: Option<Form>) -> Vec<u16> {
        let entries = rows
            .iter()
            .map(|(title, indent, bold)| entry(title, *indent, *bold))
            .collect();
        let contents = Contents {
            title: None,
            entries,
            rows: (0, 0),
        };
        of_contents(&contents, form, &Labels::default(), 0..9)
            .iter()
            .map(|claim| claim.level)
            .collect()
    }

    #[test]
    fn a_filing_nests_by_its_form() {
        let rows = [
            ("PART I", 20.0, false),
            ("1. Business", 20.0, false),
            ("Competition", 40.0, false),
            ("1A. Risk Factors", 20.0, false),
            ("PART II", 20.0, false),
            (
                "Item 8. Financial Statements and Supplementary Data",
                20.0,
                false,
            ),
            ("Signatures", 20.0, false),
        ];
        assert_eq!(levels_of(&rows, Some(Form::Annual)), [1, 2, 3, 2, 1, 2, 1]);
    }

    #[test]
    fn other_contents_nest_by_indent_and_number() {
        let rows = [
            ("I. Introduction", 72.0, true),
            ("A. Scope", 90.0, false),
            ("1. Fees", 108.0, false),
            ("II. Costs", 72.0, true),
        ];
        assert_eq!(levels_of(&rows, None), [1, 2, 3, 1]);
        let flush = [
            ("1 Glance", 72.0, false),
            ("1.1 Types", 72.0, false),
            ("2 Modules", 72.0, false),
            ("Files", 72.0, false),
        ];
        assert_eq!(levels_of(&flush, None), [1, 2, 1, 1]);
        let articles = [
            ("ARTICLE I Definitions", 72.0, false),
            ("SECTION 1.01 Terms", 72.0, false),
            ("ARTICLE II Credits", 72.0, false),
        ];
        assert_eq!(levels_of(&articles, None), [1, 2, 1]);
    }

    #[test]
    fn slides_and_files_are_junk() {
        let junk = |title: &str| is_junk(&Claim::new(title, Witness::EmbeddedOutline));
        assert!(
            ["Slide 4", "Page 12", "report_v3.docx", "17", "Untitled"]
                .into_iter()
                .all(junk)
        );
        assert!(!junk("Risk Factors") && !junk("第一章 总则") && !junk("Page Industries"));
    }
}
