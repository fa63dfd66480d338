//! Finds mentions of other places in the document and resolves them to sections: `Note 15`, `Item 7`, `Appendix A`,
//! `Exhibit 10.1`, `Article VI`, `Section 2.07`, `page 12`.

use std::collections::{HashMap, HashSet};

use stemma_document::text::{normalize_key, own_lines};
use stemma_document::{
    PageLabel, PageNo, Reference, ReferenceTarget, Section, SectionId, SectionSpan, SectionTree,
    Source,
};
use stemma_reading::numerals::parse_roman;
use stemma_reading::vocabulary::{
    FOREIGN_WORDS, LIST_JOINTS, MENTION_WORDS, OWN_WORDS, OWNER_PREPOSITIONS,
};

use crate::structure::numbering::NumberClass;

const MAX_SECTION_WORDS: usize = 400_000;
// Another document is named within this many words after a mention (`Item 7 of our Form 10-K`).
const OWNER_WORDS: usize = 12;
// Greater ones are letters or words: `C`, `MIX`.
const MAX_ROMAN: u32 = 89;

/// All mentions in the own texts of sections, in reading order, each once per section, at most `limit`.
///
/// Left out are mentions of other documents (`Item 7 of our 2021 Form 10-K`), headings and rows of contents, mentions of the
/// section itself, and `Section 16`, `Article V` or `note 5` if no section has that name: laws have sections and articles,
/// too, and a lower-case word may not be a name at all.
pub(super) fn references(
    tree: &SectionTree,
    source: &Source,
    labels: &[Option<PageLabel>],
    limit: usize,
) -> Vec<Reference> {
    let index = MentionIndex::new(tree, labels);
    let mut references = Vec::new();
    for (_, section) in tree.walk() {
        if references.len() >= limit {
            break;
        }
        let mut unique = HashSet::new();
        for mention in mentions(section, source) {
            if references.len() >= limit {
                break;
            }
            let to = index.resolve(&mention, section.id);
            let leads_nowhere = to == ReferenceTarget::Unresolved && mention.may_be_foreign();
            if to != ReferenceTarget::Section(section.id)
                && !leads_nowhere
                && unique.insert(mention.text.to_lowercase())
            {
                references.push(Reference {
                    from: section.id,
                    text: mention.text,
                    to,
                });
            }
        }
    }
    references
}

#[derive(Debug)]
struct Mention {
    kind: NumberClass,
    /// In upper case, without brackets after it.
    number: String,
    /// As written, with single spaces.
    text: String,
    /// `II` in `Part II, Item 7`.
    part: Option<String>,
}

impl Mention {
    /// Whether it counts as a mention only if a section has that name.
    fn may_be_foreign(&self) -> bool {
        let small = self.text.starts_with(|c: char| c.is_lowercase());
        matches!(self.kind, NumberClass::Section | NumberClass::Article)
            || small && self.kind != NumberClass::Page
    }
}

fn mention_class(word: &str) -> Option<NumberClass> {
    NumberClass::from_name(MENTION_WORDS.get(word)?)
}

/// A word, and whether it starts a line.
type Word<'a> = (&'a str, bool);

fn mentions(section: &Section, source: &Source) -> Vec<Mention> {
    let lines = own_lines(section, &source.body);
    let words = lines.iter().flat_map(|line| {
        line.text
            .split_whitespace()
            .enumerate()
            .map(|(index, word)| (word, index == 0))
    });
    let words: Vec<Word<'_>> = words.take(MAX_SECTION_WORDS).collect();
    let mut mentions = Vec::new();
    for at in 0..words.len() {
        let bare = words[at]
            .0
            .trim_start_matches(|c: char| !c.is_alphanumeric());
        if let Some(kind) = mention_class(bare)
            && !is_heading(&words, at)
        {
            mentions_at(&words, at, bare, kind, &mut mentions);
        }
    }
    mentions
}

/// The mentions after one word; several if a list such as `3, 4 and 15` follows.
fn mentions_at(
    words: &[Word<'_>],
    at: usize,
    word: &str,
    kind: NumberClass,
    mentions: &mut Vec<Mention>,
) {
    let before = mentions.len();
    let mut next = at + 1;
    while let Some(number) = words
        .get(next)
        .and_then(|(word, _)| parse_number(word, kind))
    {
        let part = part_before(words, at);
        let text = format!("{word} {}", mention_number(words[next].0));
        mentions.push(Mention {
            kind,
            number,
            text,
            part,
        });
        let closed = words[next].0.ends_with(['.', ';', ':', ')']);
        let joined = words
            .get(next + 1)
            .is_some_and(|(word, _)| LIST_JOINTS.contains(word));
        let comma = words[next].0.ends_with(',');
        next += if joined { 2 } else { 1 };
        if closed || !(joined || comma) {
            break;
        }
    }
    if is_foreign(words, next) {
        mentions.truncate(before);
    }
}

fn mention_number(word: &str) -> &str {
    let word = word.trim_start_matches(|c: char| !c.is_alphanumeric());
    word.split(['(', '’', '\'', '”', '"'])
        .next()
        .unwrap_or(word)
        .trim_end_matches(|c: char| !c.is_alphanumeric())
}

/// The number in a word, in upper case.
fn parse_number(word: &str, kind: NumberClass) -> Option<String> {
    let number = mention_number(word);
    if number.is_empty() || number.len() > 10 || !number.is_ascii() {
        return None;
    }
    let digits = number.starts_with(|c: char| c.is_ascii_digit());
    let legal = number
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-'));
    let letters = number.chars().filter(|c| c.is_ascii_alphabetic()).count();
    let lettered = number.len() <= 5 && number.starts_with(|c: char| c.is_ascii_uppercase());
    let fits = match kind {
        NumberClass::Appendix | NumberClass::Exhibit => {
            digits || (lettered && (letters == 1 || is_roman(number)))
        }
        NumberClass::Page => {
            digits
                || (lettered && number.contains('-'))
                || parse_roman(number).is_some_and(|number| number <= MAX_ROMAN)
        }
        // `Item 601` belongs to a regulation, and `Notes 650` is an amount.
        NumberClass::Note | NumberClass::Item => {
            digits && number.bytes().take_while(u8::is_ascii_digit).count() <= 2
        }
        NumberClass::Article => digits || is_roman(number),
        _ => digits,
    };
    (fits && legal && (letters <= 4 || is_roman(number))).then(|| number.to_uppercase())
}

fn is_roman(number: &str) -> bool {
    parse_roman(number).is_some_and(|number| number <= MAX_ROMAN)
        && number.starts_with(char::is_uppercase)
}

/// Whether the word begins a heading or a row of contents: at the start of a line, with a capital, punctuation or nothing
/// after the number.
fn is_heading(words: &[Word<'_>], at: usize) -> bool {
    if !words[at].1 {
        return false;
    }
    let number_ends = words
        .get(at + 1)
        .is_some_and(|(word, _)| word.ends_with(['.', ':', '–', '—', '-']));
    let behind = words.get(at + 2);
    let new_line = behind.is_none_or(|(_, starts)| *starts);
    let capital = behind.is_some_and(|(word, _)| {
        word.starts_with(|c: char| c.is_uppercase() || "–—-([“".contains(c))
    });
    number_ends || new_line || capital
}

/// `II` if `Part II, ` is right before.
fn part_before(words: &[Word<'_>], at: usize) -> Option<String> {
    let part = words
        .get(at.checked_sub(2)?)?
        .0
        .trim_start_matches(|c: char| !c.is_alphanumeric());
    let number = words[at - 1]
        .0
        .trim_end_matches(|c: char| !c.is_alphanumeric());
    (part.eq_ignore_ascii_case("part") && is_roman(number)).then(|| number.to_owned())
}

/// Whether the words after a mention assign it to another document: `of Regulation S-K`, `of our 2021 Annual Report`.
fn is_foreign(words: &[Word<'_>], at: usize) -> bool {
    let mut behind = words[at.min(words.len())..]
        .iter()
        .take(OWNER_WORDS)
        .map(|(word, _)| *word)
        .peekable();
    let previous_closes = at > 0
        && words
            .get(at - 1)
            .is_some_and(|(word, _)| word.ends_with(['.', ';', ')']));
    if previous_closes
        || !behind
            .peek()
            .is_some_and(|word| OWNER_PREPOSITIONS.contains(word))
    {
        return false;
    }
    for word in behind {
        let bare = word.trim_matches(|c: char| !c.is_alphanumeric());
        if FOREIGN_WORDS.contains(bare) {
            return true;
        }
        if OWN_WORDS.contains(bare) || word.ends_with(['.', ';']) {
            return false;
        }
    }
    false
}

/// Sections by name, and pages by printed label.
struct MentionIndex {
    by_name: HashMap<(NumberClass, String), Vec<SectionId>>,
    pages: HashMap<String, PageNo>,
    /// Start of each section in pre-order: page, line, and whether it starts its page.
    starts: Vec<(PageNo, u32, bool)>,
    /// For each section, its top section and the number of its PART.
    ancestors: Vec<(SectionId, Option<String>)>,
}

impl MentionIndex {
    fn new(tree: &SectionTree, labels: &[Option<PageLabel>]) -> Self {
        let mut index = Self {
            by_name: HashMap::new(),
            pages: HashMap::new(),
            starts: Vec::new(),
            ancestors: Vec::new(),
        };
        let mut notes = false;
        for top in &tree.sections {
            notes = behind_notes(top, notes);
            index.add(top, top.id, None, notes);
        }
        for (page, label) in labels.iter().enumerate() {
            if let Some(PageLabel(label)) = label {
                index
                    .pages
                    .entry(label.trim().to_uppercase())
                    .or_insert(PageNo::from_index(page));
            }
        }
        index
    }

    fn add(&mut self, section: &Section, top: SectionId, part: Option<&str>, in_notes: bool) {
        let own_part = roman_part(&section.title);
        let part = own_part.as_deref().or(part);
        for name in names(section, in_notes) {
            self.by_name.entry(name).or_default().push(section.id);
        }
        if let SectionSpan::Pages { from, .. } = section.span {
            self.starts
                .push((from.page, from.line, section.starts_page));
        }
        self.ancestors.push((top, part.map(Into::into)));
        let inside = in_notes || heads_notes(section);
        let mut behind = false;
        for child in &section.children {
            behind = behind_notes(child, behind);
            self.add(child, top, part, inside || behind);
        }
    }

    fn resolve(&self, mention: &Mention, from: SectionId) -> ReferenceTarget {
        let to = match mention.kind {
            NumberClass::Page => self
                .pages
                .get(&mention.number)
                .and_then(|page| self.section_at(*page)),
            kind => self
                .by_name
                .get(&(kind, mention.number.clone()))
                .and_then(|ids| self.choose(ids, mention, from)),
        };
        to.map_or(ReferenceTarget::Unresolved, ReferenceTarget::Section)
    }

    /// The section that a mention means, if exactly one fits.
    // Item numbers recur in each PART and note numbers in each exhibit. A named PART decides; otherwise the mention means a
    // section under its own top section. If that leaves several, any choice would be a guess.
    fn choose(&self, ids: &[SectionId], mention: &Mention, from: SectionId) -> Option<SectionId> {
        if ids.len() == 1 {
            return ids.first().copied();
        }
        // A name that many sections share says nothing, and searching all of them for each mention would be quadratic.
        let ids = ids.get(..ids.len().min(64))?;
        let top = self.ancestors_of(from).map(|(top, _)| *top);
        // An exhibit of a submission may begin with its own name.
        let exhibit = ids.first().filter(|_| mention.kind == NumberClass::Exhibit);
        if let Some(exhibit) = exhibit {
            let mut tops = ids.iter().map(|id| self.ancestors_of(*id));
            if tops.all(|top| top.is_some_and(|(top, _)| top == exhibit)) {
                return Some(*exhibit);
            }
        }
        let mut fitting = ids.iter().copied().filter(|id| {
            self.ancestors_of(*id)
                .is_some_and(|(own_top, own_part)| match &mention.part {
                    Some(part) => own_part.as_ref() == Some(part),
                    None => Some(*own_top) == top,
                })
        });
        let only = fitting.next()?;
        fitting.next().is_none().then_some(only)
    }

    fn ancestors_of(&self, id: SectionId) -> Option<&(SectionId, Option<String>)> {
        self.ancestors.get(id.0 as usize)
    }

    /// The first section that starts the page, otherwise the one that continues at its top.
    fn section_at(&self, page: PageNo) -> Option<SectionId> {
        let on_page = self.starts.partition_point(|(start, _, _)| *start < page);
        let starts_it = self
            .starts
            .get(on_page)
            .is_some_and(|(start, line, starts)| *start == page && (*line == 0 || *starts));
        let at = if starts_it {
            on_page
        } else {
            on_page.checked_sub(1)?
        };
        u32::try_from(at).ok().map(SectionId)
    }
}

/// Whether the title is `Notes to … Statements`.
fn heads_notes(section: &Section) -> bool {
    let title = normalize_key(&section.title);
    title.starts_with("notesto") || (title.contains("notesto") && title.contains("statements"))
}

// Some trees have notes on the level of their heading instead of below it. After a heading of notes without children, sections belong
// to it as long as their titles begin with numbers.
fn behind_notes(section: &Section, behind: bool) -> bool {
    let numbered = section
        .title
        .starts_with(|c: char| c == '(' || c.is_ascii_digit());
    (behind && numbered) || (section.children.is_empty() && heads_notes(section))
}

/// `II` of `PART II. …`.
fn roman_part(title: &str) -> Option<String> {
    let (part, rest) = title.trim_start().split_once(char::is_whitespace)?;
    let number = rest
        .split_whitespace()
        .next()?
        .trim_matches(|c: char| !c.is_alphanumeric())
        .to_uppercase();
    (part.eq_ignore_ascii_case("part") && is_roman(&number)).then_some(number)
}

/// Names of a section in mentions: the word and number at the start of its title, the number of an exhibit in a submission
/// (`EX-99.1`), or its number among the notes.
fn names(section: &Section, in_notes: bool) -> Vec<(NumberClass, String)> {
    let words: Vec<&str> = section.title.split_whitespace().take(10).collect();
    let mut names = Vec::new();
    let bare = words
        .first()
        .map(|word| word.to_lowercase())
        .unwrap_or_default();
    let exhibit = bare
        .strip_prefix("ex-")
        .and_then(|number| parse_number(number, NumberClass::Exhibit));
    let titled = MENTION_WORDS
        .iter()
        .find(|(word, _)| word.eq_ignore_ascii_case(&bare))
        .and_then(|(word, _)| mention_class(word))
        .filter(|kind| *kind != NumberClass::Page);
    match titled {
        // `ITEMS 10, 11, 12 and 13` has one name per number.
        Some(kind) => names.extend(
            words[1..]
                .iter()
                .filter(|word| **word != "and")
                .map_while(|word| parse_number(word, kind))
                .map(|number| (kind, number)),
        ),
        None if exhibit.is_some() => {
            names.extend(exhibit.map(|number| (NumberClass::Exhibit, number)));
        }
        None => {
            let kind = if in_notes {
                NumberClass::Note
            } else {
                NumberClass::Section
            };
            let own_number = section
                .number
                .as_deref()
                .or(words.first().copied())
                .and_then(|word| parse_number(word, kind));
            names.extend(own_number.map(|number| (kind, number)));
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{paged, tree};
    use super::*;

    fn render(pages: &[&str], entries: &[(u32, u32, u16, &str)], labels: &[&str]) -> String {
        let source = paged(pages);
        let tree = tree(&source, entries);
        let labels: Vec<_> = labels
            .iter()
            .map(|label| Some(PageLabel((*label).into())))
            .collect();
        let title = |id: SectionId| {
            tree.section(id)
                .map(|section| section.title.clone())
                .unwrap_or_default()
        };
        references(&tree, &source, &labels, 100)
            .iter()
            .map(|reference: &Reference| match reference.to {
                ReferenceTarget::Section(id) => format!(
                    "{}: {} -> {}\n",
                    title(reference.from),
                    reference.text,
                    title(id)
                ),
                ReferenceTarget::Unresolved => {
                    format!("{}: {} -> ?\n", title(reference.from), reference.text)
                }
            })
            .collect()
    }

    #[test]
    fn mentions_resolve_by_name_number_and_page() {
        let pages = [
            "Item 7. Discussion\nSee Note 2, Note 2 and Item 1A, and\nNotes 1 and 3 on page F-2 or page 9.\nItem 7 again; Exhibit 10.1",
            "Item 1A. Risk\nAs Section 16 of the Exchange Act and Item 303 of Regulation S-K say, Appendix A is here.",
            "Notes to Consolidated Financial Statements\n1. Basis\ntext\n2. Leases\ntext (see Note 1)",
            "Appendix A\nend",
        ];
        let entries = [
            (1, 0, 1, "Item 7. Discussion"),
            (2, 0, 1, "Item 1A. Risk"),
            (3, 0, 1, "Notes to Consolidated Financial Statements"),
            (3, 1, 2, "1. Basis"),
            (3, 3, 2, "2. Leases"),
            (4, 0, 1, "Appendix A"),
        ];
        insta::assert_snapshot!(render(&pages, &entries, &["F-1", "F-2", "F-3", "F-4"]), @r"
        Item 7. Discussion: Note 2 -> 2. Leases
        Item 7. Discussion: Item 1A -> Item 1A. Risk
        Item 7. Discussion: Notes 1 -> 1. Basis
        Item 7. Discussion: Notes 3 -> ?
        Item 7. Discussion: page F-2 -> Item 1A. Risk
        Item 7. Discussion: page 9 -> ?
        Item 7. Discussion: Exhibit 10.1 -> ?
        Item 1A. Risk: Appendix A -> Appendix A
        2. Leases: Note 1 -> 1. Basis
        ");
    }

    #[test]
    fn exhibits_of_submissions_are_named_by_their_type() {
        let pages = [
            "Report\nSee Exhibit 99.1, Exhibit 10.1 and Exhibit 5.1.",
            "EX-99.1\nExhibit 99.1\nSales rose. This Exhibit 99.1 is not audited.",
            "EX-10.1 Agreement\ntext",
        ];
        let entries = [
            (1, 0, 1, "Report"),
            (2, 0, 1, "EX-99.1"),
            (2, 1, 2, "Exhibit 99.1"),
            (3, 0, 1, "EX-10.1 Agreement"),
        ];
        insta::assert_snapshot!(render(&pages, &entries, &[]), @r"
        Report: Exhibit 99.1 -> EX-99.1
        Report: Exhibit 10.1 -> EX-10.1 Agreement
        Report: Exhibit 5.1 -> ?
        Exhibit 99.1: Exhibit 99.1 -> EX-99.1
        ");
    }

    #[test]
    fn part_disambiguates_item_numbers() {
        let pages = [
            "PART I\nItem 1. Statements\nsee Part II, Item 1 and Item 2 here and Item 1 too",
            "PART II\nItem 1. Legal\nas in Item 1 above",
            "Other\nsee Item 1 there",
        ];
        let entries = [
            (1, 0, 1, "PART I"),
            (1, 1, 2, "Item 1. Statements"),
            (2, 0, 1, "PART II"),
            (2, 1, 2, "Item 1. Legal"),
            (3, 0, 1, "Other"),
        ];
        insta::assert_snapshot!(render(&pages, &entries, &[]), @r"
        Item 1. Statements: Item 1 -> Item 1. Legal
        Item 1. Statements: Item 2 -> ?
        Other: Item 1 -> ?
        ");
    }

    #[test]
    fn foreign_references_and_headings_are_skipped() {
        let text = "Item 7 Discussion\nsee Item 7 of our Annual Report on Form 10-K for 2021\nbut Item 8 of this Form 10-K";
        insta::assert_snapshot!(render(&[text], &[(1, 0, 1, "Start")], &[]), @"Start: Item 8 -> ?");
    }

    #[test]
    fn notes_articles_and_lowercase_mentions_resolve() {
        let pages = [
            "Discussion\nsee note 10, note 11, section 4 and section 9, and Article VIII or Article IX there",
            "Notes to Combined Financial Statements\n10. Contingencies\ntext",
            "Terms\nARTICLE VIII Remedies\n4. Planning",
        ];
        let entries = [
            (1, 0, 1, "Discussion"),
            (2, 0, 1, "Notes to Combined Financial Statements"),
            (2, 1, 1, "10. Contingencies"),
            (3, 0, 1, "Terms"),
            (3, 1, 1, "ARTICLE VIII Remedies"),
            (3, 2, 1, "4. Planning"),
        ];
        insta::assert_snapshot!(render(&pages, &entries, &[]), @r"
        Discussion: note 10 -> 10. Contingencies
        Discussion: section 4 -> 4. Planning
        Discussion: Article VIII -> ARTICLE VIII Remedies
        ");
    }

    #[test]
    fn references_are_capped() {
        let text: String = (0..500)
            .map(|n| format!("see Exhibit {n} there "))
            .collect();
        let source = paged(&[&text]);
        let tree = tree(&source, &[(1, 0, 1, "A")]);
        assert_eq!(references(&tree, &source, &[], 100).len(), 100);
    }
}
