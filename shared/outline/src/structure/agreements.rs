//! Finds agreements, and the ARTICLEs and Sections inside them. One file may bind several, each numbered from 1.

use std::ops::Range;

use super::line_features::{LineFeatures, LineTable};
use super::numbering::{self, NumberClass, TitleNumber};
use super::titles;

/// Last words in titles of legal instruments, normalized.
const INSTRUMENTS: [&str; 22] = [
    "agreement",
    "amendment",
    "indenture",
    "note",
    "notes",
    "guaranty",
    "guarantee",
    "lease",
    "plan",
    "warrant",
    "deed",
    "mortgage",
    "bylaws",
    "incorporation",
    "supplement",
    "waiver",
    "consent",
    "joinder",
    "contract",
    "trust",
    "letter",
    "settlement",
];
// The title of an instrument stands among the first lines of a page; the same words further down are a mention.
const TOP_LINES: usize = 14;
// A run-in title has at most this many words before its text begins.
const TITLE_WORDS: usize = 18;

/// A section of an agreement.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct AgreementClause {
    /// First and last row of its heading.
    pub(super) rows: (usize, usize),
    pub(super) title: String,
    /// 0 for an annex (`EXHIBIT A`, `SCHEDULE 1.01`), 1 for an ARTICLE, 2 for a Section.
    pub(super) depth: u32,
}

/// The rows of titles where agreements begin.
// Centered capitals such as `CREDIT AGREEMENT` also stand on covers, above contents and in page headers. An agreement
// begins only where the next numbered section is the first one. Copies of the title before any section with text are part
// of the same agreement, so only the first copy counts.
pub(super) fn agreement_titles(sheet: &LineTable<'_>, rows: Range<usize>) -> Vec<usize> {
    let mut starts: Vec<usize> = Vec::new();
    let candidates: Vec<usize> = rows.clone().filter(|at| is_title(sheet, *at)).collect();
    let openings: Vec<(usize, bool)> = rows
        .filter_map(|at| Some((at, clause_opening(sheet, at)?)))
        .collect();
    let with_text: Vec<usize> = openings
        .iter()
        .map(|(row, _)| *row)
        .filter(|row| has_text(sheet, *row))
        .collect();
    for at in candidates {
        // Without a section with text since the previous title, this is a copy of it or a line of its cover.
        let is_copy = starts.last().is_some_and(|last| {
            let next = with_text.get(with_text.partition_point(|row| row <= last));
            next.is_none_or(|row| *row >= at)
        });
        if is_copy {
            continue;
        }
        let first = openings.get(openings.partition_point(|(row, _)| *row <= at));
        if first.is_some_and(|(_, one)| *one) {
            starts.push(at);
        }
    }
    starts
}

/// The rows of a title that ends at `at`: a line of the same style right above belongs to it.
pub(super) fn title_rows(sheet: &LineTable<'_>, at: usize) -> (usize, usize) {
    let row = &sheet.rows[at];
    let above = at
        .checked_sub(1)
        .filter(|above| sheet.rows[*above].page == row.page);
    let joins = above.filter(|above| {
        let above = &sheet.rows[*above];
        let close = row.gap < 0.8
            && above.centered
            && LineTable::same_style(above, row)
            && above.caps == row.caps;
        let words =
            above.words <= 8 && !above.running && numbering::parse_numbers(above.text).is_empty();
        close && words && !above.text.ends_with([',', '.', ':', ';'])
    });
    (joins.unwrap_or(at), at)
}

/// `Some` if the row begins a section (in contents or text): whether it is the first of its agreement.
fn clause_opening(sheet: &LineTable<'_>, at: usize) -> Option<bool> {
    let row = &sheet.rows[at];
    let number = clause_number(row)?;
    let one = number.value == 1 && (number.stem == 0 || number.text.starts_with('1'));
    matches!(number.class, NumberClass::Article | NumberClass::Section).then_some(one)
}

/// Whether a paragraph follows within a few lines on the page.
fn has_text(sheet: &LineTable<'_>, at: usize) -> bool {
    let row = &sheet.rows[at];
    row.prose
        || sheet.rows[at + 1..]
            .iter()
            .take(5)
            .take_while(|next| next.page == row.page)
            .any(|next| next.prose)
}

fn is_title(sheet: &LineTable<'_>, at: usize) -> bool {
    let row = &sheet.rows[at];
    if row.running || row.table || row.words > 14 || row.words == 0 || row.prose || !row.centered {
        return false;
    }
    let stands_out = row.caps || row.bold || row.size > sheet.body + 0.8;
    let near_top = at - sheet.rows_on(row.page as usize).start < TOP_LINES;
    let sentence = row.text.ends_with(['.', ',', ';', ':']) || row.text.contains('.');
    let last = row
        .text
        .split_whitespace()
        .next_back()
        .map(titles::normalize_key)
        .unwrap_or_default();
    let form_of = row.key.starts_with("formof");
    let amends = row.key.contains("amendmentto") || row.key.contains("amendmentno");
    let names_instrument = INSTRUMENTS.contains(&last.as_str()) || amends;
    stands_out
        && near_top
        && !sentence
        && names_instrument
        && !form_of
        && clause_number(row).is_none()
}

/// The number at the start of a section heading: `ARTICLE IV`, `SECTION 2.07`, `Section 3.`, or `2.07` alone.
fn clause_number<'a>(row: &LineFeatures<'a>) -> Option<TitleNumber<'a>> {
    if row.running || row.key.is_empty() {
        return None;
    }
    let number = numbering::parse_numbers(row.text).into_iter().next()?;
    let fit = match number.class {
        NumberClass::Article => {
            number.rest.is_empty() || (starts_title(number.rest) && row.words <= TITLE_WORDS as u16)
        }
        NumberClass::Section => number.rest.is_empty() || starts_title(number.rest),
        NumberClass::Decimal(2) => starts_title(number.rest),
        _ => false,
    };
    fit.then_some(number)
}

fn starts_title(text: &str) -> bool {
    text.starts_with(|c: char| c.is_uppercase() || matches!(c, '[' | '“' | '"'))
}

/// The sections of the agreement in `rows`, except in `excluded` rows (its contents). Annexes restart the count.
// Agreements cite their own sections all the time, often at the start of a line. The numbering tells the difference: a
// heading continues the count, a citation almost never does.
pub(super) fn find_clauses(
    sheet: &LineTable<'_>,
    rows: Range<usize>,
    excluded: &[bool],
) -> Vec<AgreementClause> {
    let mut clauses = Vec::new();
    let mut count = ClauseCounter::default();
    let mut skip = 0;
    for at in rows.clone().filter(|at| !excluded[*at]) {
        if at < skip {
            continue;
        }
        let row = &sheet.rows[at];
        let clause = if is_annex(sheet, at) {
            count = ClauseCounter::default();
            Some(read_annex(sheet, at, rows.end))
        } else {
            clause_number(row)
                .filter(|number| count.accept(row, number))
                .map(|number| read_clause(sheet, at, rows.end, &number))
        };
        if let Some(clause) = clause {
            skip = clause.rows.1 + 1;
            clauses.push(clause);
        }
    }
    // One or two numbered lines do not make an agreement.
    if clauses.iter().filter(|clause| clause.depth > 0).count() >= 3 {
        clauses
    } else {
        Vec::new()
    }
}

/// Numbers of the last ARTICLE and Section.
#[derive(Default)]
struct ClauseCounter {
    article: u32,
    /// First and last component of the previous section's number.
    section: (u32, u32),
}

impl ClauseCounter {
    /// Whether the heading continues the count; if so, records it.
    fn accept(&mut self, row: &LineFeatures<'_>, number: &TitleNumber<'_>) -> bool {
        match number.class {
            NumberClass::Article => {
                let next = number.value == self.article + 1;
                if next {
                    (self.article, self.section) = (number.value, (number.value, 0));
                }
                next
            }
            class => {
                let first = number
                    .text
                    .split('.')
                    .next()
                    .and_then(|first| first.parse().ok())
                    .unwrap_or(0);
                let own = if number.text.contains('.') { first } else { 0 };
                let (above, before) = self.section;
                // One missing number is tolerated inside an ARTICLE: a heading may be unreadable or reserved.
                let counts = match (own == above, self.article) {
                    (true, _) => number.value > before && number.value <= before + 2,
                    (false, 0) => number.value == 1 && (own == above + 1 || own <= 1),
                    (false, article) => own == article && number.value <= 2,
                };
                // A bare `2.07` is a section only inside ARTICLE II, and never a row with figures.
                let sure = class == NumberClass::Section
                    || (self.article == own && own > 0 && !row.figures);
                if counts && sure {
                    self.section = (own, number.value);
                }
                counts && sure
            }
        }
    }
}

/// `EXHIBIT A`, `SCHEDULE 1.01`, `ANNEX I` at the top of a page.
fn is_annex(sheet: &LineTable<'_>, at: usize) -> bool {
    let row = &sheet.rows[at];
    if row.running || row.words > 12 || row.prose || row.table {
        return false;
    }
    let number = numbering::parse_numbers(row.text).into_iter().next();
    let classes = [
        NumberClass::Exhibit,
        NumberClass::Schedule,
        NumberClass::Appendix,
    ];
    let Some(number) = number.filter(|number| classes.contains(&number.class)) else {
        return false;
    };
    let stands_out = row.caps || row.bold || row.centered || number.rest.is_empty();
    let titled = number.rest.is_empty()
        || starts_title(number.rest.trim_start_matches(['(', '[']))
        || row.caps;
    stands_out && titled && !row.text.ends_with('.') && sheet.starts_page(at)
}

fn read_annex(sheet: &LineTable<'_>, at: usize, end: usize) -> AgreementClause {
    let row = &sheet.rows[at];
    let rest = numbering::after_number(row.text);
    let title = if rest.is_some() {
        None
    } else {
        title_below(sheet, at, end)
    };
    let text = title.map_or_else(
        || row.text.to_string(),
        |below| format!("{} {}", row.text, sheet.rows[below].text),
    );
    AgreementClause {
        rows: (at, title.unwrap_or(at)),
        title: titles::fold_whitespace(&text),
        depth: 0,
    }
}

/// The row below a number alone on its line, if it is the title.
fn title_below(sheet: &LineTable<'_>, at: usize, end: usize) -> Option<usize> {
    let row = &sheet.rows[at];
    let next = sheet.rows.get(at + 1)?;
    let near = at + 1 < end && next.page == row.page && next.gap < 2.5 && !next.running;
    let title =
        next.words <= 14 && !next.prose && next.words > 0 && starts_title(next.text) && !next.table;
    let alike = next.centered == row.centered || next.caps;
    (near && title && alike && clause_number(next).is_none() && !next.text.ends_with('.'))
        .then_some(at + 1)
}

/// The heading of a section; a run-in title ends at its full stop.
fn read_clause(
    sheet: &LineTable<'_>,
    at: usize,
    end: usize,
    number: &TitleNumber<'_>,
) -> AgreementClause {
    let row = &sheet.rows[at];
    let depth = if number.class == NumberClass::Article {
        1
    } else {
        2
    };
    if number.rest.is_empty() {
        let below = title_below(sheet, at, end);
        let text = below.map_or_else(
            || row.text.to_string(),
            |below| format!("{} {}", row.text, sheet.rows[below].text),
        );
        return AgreementClause {
            rows: (at, below.unwrap_or(at)),
            title: titles::fold_whitespace(&text),
            depth,
        };
    }
    let front = row.text.len() - number.rest.len();
    let stop = number
        .rest
        .find(". ")
        .filter(|stop| titles::word_count(&number.rest[..*stop]) <= TITLE_WORDS);
    let text = stop.map_or(row.text, |stop| &row.text[..front + stop]);
    AgreementClause {
        rows: (at, at),
        title: titles::fold_whitespace(text.trim_end_matches('.')),
        depth,
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{Doc, line};
    use super::*;

    /// Two agreements, the second with its title repeated and an annex; page by page.
    fn bundle() -> Doc {
        let mut doc = Doc::new(4);
        let pages: [&[&str]; 4] = [
            &[
                "ARTICLE I",
                "Section 1.01 Terms",
                "Section 1.02 Rates",
                "Section 2.07 of the other agreement",
            ],
            &[
                "Section 1. Amendments. The parties agree as follows",
                "Section 2. Fees",
            ],
            &["Section 3. Law"],
            &["Section 1. Payment", "Section 2. Transfer"],
        ];
        let titles = [
            Some("CREDIT AGREEMENT"),
            Some("FIRST AMENDMENT"),
            Some("FIRST AMENDMENT"),
            Some("EXHIBIT A"),
        ];
        for (page, (lines, title)) in pages.iter().zip(titles).enumerate() {
            title.iter().for_each(|title| {
                doc.add(page, line(title).bold().at(264.0, 80.0));
            });
            for text in *lines {
                doc.add(page, line(text));
                doc.prose(page, 10.0, 4);
            }
        }
        doc
    }

    #[test]
    fn agreement_starts_where_numbering_restarts() {
        let doc = bundle();
        let source = doc.source();
        let sheet = LineTable::new(doc.pages(&source));
        let pages: Vec<u32> = agreement_titles(&sheet, 0..sheet.rows.len())
            .iter()
            .map(|at| sheet.rows[*at].page)
            .collect();
        assert_eq!(pages, [0, 1]);
    }

    #[test]
    fn mentions_do_not_continue_numbering() {
        let doc = bundle();
        let source = doc.source();
        let sheet = LineTable::new(doc.pages(&source));
        let none = vec![false; sheet.rows.len()];
        let read = |from: usize, to: usize| -> Vec<String> {
            let rows = sheet.rows_on(from).start..sheet.rows_on(to).end;
            find_clauses(&sheet, rows, &none)
                .into_iter()
                .map(|clause| format!("{} {}", clause.depth, clause.title))
                .collect()
        };
        assert_eq!(
            read(0, 0),
            [
                "1 ARTICLE I",
                "2 Section 1.01 Terms",
                "2 Section 1.02 Rates"
            ]
        );
        assert_eq!(
            read(1, 3),
            [
                "2 Section 1. Amendments",
                "2 Section 2. Fees",
                "2 Section 3. Law",
                "0 EXHIBIT A",
                "2 Section 1. Payment",
                "2 Section 2. Transfer"
            ]
        );
    }
}
