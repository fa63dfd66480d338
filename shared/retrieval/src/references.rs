//! Parts of a document that a question names by number or place: `page 14`, `the last page`, `Table 3`, `Section 4.2`.

use stemma_document::english_words::parse_number_word;
use stemma_reading::text_words::says;
use stemma_reading::vocabulary::{
    BEFORE_DOCUMENTS, CONTENTS_PHRASES, COVER_NAMES, DOCUMENT_NAMES, FRONT_MATTER, FRONT_QUESTIONS,
    FRONTS, LAST_PAGE_WORDS, LIST_JOINTS, NUMBER_NAMES, ORDINAL_ENDS, ORDINALS, PAGE_NAMES,
    PART_SPELLINGS, REFERENCE_PARTS,
};

/// What a question refers to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct QueryReferences {
    /// Pages by number: a physical page, or the printed label.
    pub pages: Vec<u32>,
    /// Whether the last page is named.
    pub last_page: bool,
    /// Whether the cover, front or title page is named.
    pub cover: bool,
    /// Whether the table of contents is named.
    pub contents: bool,
    /// Captions and numbered headings, as index terms.
    pub captions: Vec<String>,
}

// Longer numbered lines are text or table rows.
const HEADING_WORDS: usize = 12;

impl QueryReferences {
    pub fn parse(text: &str) -> Self {
        let words: Vec<&str> = text
            .split_whitespace()
            .map(|word| {
                let word = word.trim_matches(|c: char| !c.is_alphanumeric());
                word.strip_suffix("'s").unwrap_or(word)
            })
            .collect();
        let lower: Vec<String> = words.iter().map(|word| word.to_lowercase()).collect();
        let mut references = Self {
            contents: says(text, &CONTENTS_PHRASES),
            ..Self::default()
        };
        for (at, word) in lower.iter().enumerate() {
            let before = at.checked_sub(1).map_or("", |at| lower[at].as_str());
            if PAGE_NAMES.contains(word) {
                references.last_page |= LAST_PAGE_WORDS.contains(before);
                references.cover |= FRONTS.contains(before);
                references.pages.extend(ordinal(before));
                references.add_pages(&lower[at + 1..]);
            } else if COVER_NAMES.contains(word)
                || FRONT_QUESTIONS.contains(word) && names_front_matter(&lower[at + 1..])
            {
                references.cover = true;
            } else {
                references.add_captions(word, &words[at + 1..]);
            }
        }
        references.pages.dedup();
        references.captions.sort_unstable();
        references.captions.dedup();
        references
    }

    // `14`, `two`, `3 and 4`, `7-9`.
    fn add_pages(&mut self, after: &[String]) {
        for word in after {
            let numbers: Vec<u32> = word.split(['-', '–']).filter_map(page_number).collect();
            if numbers.is_empty() && !is_joiner(word) {
                break;
            }
            self.pages.extend(numbers);
        }
    }

    // `3`, `B`, `4.2`, and of several `1 and 2`.
    fn add_captions(&mut self, word: &str, after: &[&str]) {
        let Some(part) = part_name(word) else { return };
        let mut last_is_number = false;
        for number in after {
            match part_number(number) {
                Some(number) if !last_is_number => {
                    self.captions.push(format!("{part} {number}"));
                    last_is_number = true;
                }
                None if word.ends_with('s') && is_joiner(number) => last_is_number = false,
                _ => break,
            }
        }
    }

    /// Whether nothing is named.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The part that a line starts, as an index term: `table 3` for `Table 3: Results`, `section 4.2` for `4.2 Data`.
/// Sentences that only mention a part start none.
pub fn caption(line: &str) -> Option<String> {
    let (first, rest) = line.trim_start().split_once(char::is_whitespace)?;
    if let Some(part) = part_name(&first.to_lowercase()) {
        let (number, title) = rest
            .trim_start()
            .split_once(char::is_whitespace)
            .unwrap_or((rest, ""));
        let closed = number.ends_with([':', '.', ')', '|', '-', '–', '—']);
        let begins = title
            .trim_start()
            .chars()
            .next()
            .is_none_or(|c| !c.is_lowercase());
        return (closed || begins)
            .then(|| part_number(number.trim_matches(|c: char| !c.is_alphanumeric())))
            .flatten()
            .map(|number| format!("{part} {number}"));
    }
    let number = first.trim_end_matches('.');
    let title = rest.trim_start();
    let is_section = !number.is_empty()
        && number.split('.').all(|part| {
            (1..=2).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit())
        })
        && title.starts_with(char::is_uppercase)
        && !title.contains(|c: char| c.is_ascii_digit())
        && title.split_whitespace().count() <= HEADING_WORDS;
    is_section.then(|| format!("section {number}"))
}

// The singular of a part's name.
fn part_name(word: &str) -> Option<&'static str> {
    let word = word.trim_end_matches('.');
    let word = PART_SPELLINGS.get(word).unwrap_or(word);
    let singular = word.strip_suffix('s').unwrap_or(word);
    REFERENCE_PARTS
        .iter()
        .copied()
        .find(|part| *part == word || *part == singular)
}

// Whether the rest of a question is about the document as a whole, and what its front says: `is the defendant of this case`.
fn names_front_matter(after: &[String]) -> bool {
    after
        .iter()
        .any(|word| FRONT_MATTER.contains(word.as_str()))
        && after
            .windows(2)
            .any(|two| BEFORE_DOCUMENTS.contains(&two[0]) && DOCUMENT_NAMES.contains(&two[1]))
}

// `3`, `4.2`, `B`, `A.1`, `IV`; a letter is a capital, since `a` is a word.
fn part_number(word: &str) -> Option<String> {
    let mut parts = word.split('.');
    let first = parts.next()?;
    let is_roman = !first.is_empty() && first.bytes().all(|byte| b"IVX".contains(&byte));
    let is_letter = first.len() == 1 && first.bytes().all(|byte| byte.is_ascii_uppercase());
    let first_is_number = is_short_number(first) || is_letter || is_roman;
    (first_is_number && parts.all(is_short_number)).then(|| word.to_lowercase())
}

fn is_short_number(part: &str) -> bool {
    (1..=3).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit())
}

fn page_number(word: &str) -> Option<u32> {
    parse_number_word(word).or_else(|| word.parse().ok())
}

// `first`, `2nd`.
fn ordinal(word: &str) -> Option<u32> {
    ORDINALS
        .get(word)
        .or_else(|| ORDINAL_ENDS.iter().find_map(|end| word.strip_suffix(end)))?
        .parse()
        .ok()
}

fn is_joiner(word: &str) -> bool {
    word.is_empty() || LIST_JOINTS.contains(word) || NUMBER_NAMES.contains(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_named_by_number_order_and_place() {
        let pages = |text| QueryReferences::parse(text).pages;
        assert_eq!(pages("In the table at page 28, which signal"), [28]);
        assert_eq!(
            pages("the second page, and pages 4 and 6-7 too"),
            [2, 4, 6, 7]
        );
        assert_eq!(pages("the top of the page two?"), [2]);
        assert!(pages("How many pages have a logo?").is_empty());
        let last =
            QueryReferences::parse("Who signs on the last page, and whom does the cover show?");
        assert!(last.last_page && last.cover);
        assert!(QueryReferences::parse("What lists the table of contents?").contents);
    }

    #[test]
    fn what_the_front_says_is_looked_for_there() {
        for (text, expected) in [
            ("Who is the defendant of this case?", true),
            ("When was this report published?", true),
            ("Who are the authors of the paper?", true),
            ("What does the plaintiff claim?", false),
            ("What is the title of Table 3?", false),
            ("Who audits the company according to the report?", false),
        ] {
            assert_eq!(QueryReferences::parse(text).cover, expected, "{text}");
        }
    }

    #[test]
    fn parts_are_named_by_number_or_letter() {
        let captions = |text| QueryReferences::parse(text).captions;
        assert_eq!(
            captions("papers of Table 1 and Table 2 not in Section 3.4"),
            ["section 3.4", "table 1", "table 2"]
        );
        assert_eq!(
            captions("Tables 1 and 2, Fig. 3"),
            ["figure 3", "table 1", "table 2"]
        );
        assert_eq!(captions("strengths in Appendix C?"), ["appendix c"]);
        assert!(
            captions("which section a reader needs, and the table I like")
                .contains(&"table i".to_owned())
        );
        assert!(captions("the note a reader wrote").is_empty());
    }

    #[test]
    fn captions_start_a_line() {
        assert_eq!(
            caption("Table 3: Results of the survey").as_deref(),
            Some("table 3")
        );
        assert_eq!(caption("APPENDIX B").as_deref(), Some("appendix b"));
        assert_eq!(caption("NOTE 7. Income Taxes").as_deref(), Some("note 7"));
        assert_eq!(
            caption("4.2 Data collection").as_deref(),
            Some("section 4.2")
        );
        assert_eq!(caption("Table 3 shows the results"), None);
        assert_eq!(caption("12 Months 2022"), None);
        assert_eq!(caption("a table"), None);
    }
}
