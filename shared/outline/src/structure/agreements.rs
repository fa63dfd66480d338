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
// Fewer plain numbers are a list.
const PLAIN_CLAUSES: usize = 5;

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
    let mut candidates: Vec<usize> = rows.clone().filter(|at| is_title(sheet, *at)).collect();
    let mut openings: Vec<(usize, bool)> = rows
        .clone()
        .filter_map(|at| Some((at, clause_opening(sheet, at)?)))
        .collect();
    if openings.is_empty() {
        // Short contracts number their clauses `1.`, `2.`; plans and letters do so without being agreements.
        candidates.retain(|at| names_contract(&sheet.rows[*at]));
        openings.extend(
            rows.filter(|_| !candidates.is_empty())
                .filter_map(|at| Some((at, plain_number(&sheet.rows[at])?.value == 1))),
        );
    }
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

/// The number of a clause that has no word before it: `3. Term`.
fn plain_number<'a>(row: &LineFeatures<'a>) -> Option<TitleNumber<'a>> {
    let number = numbering::parse_numbers(row.text).into_iter().next()?;
    let fit = number.class == NumberClass::Decimal(1) && !number.bare && starts_title(number.rest);
    (fit && !row.running && !row.table).then_some(number)
}

/// Whether the row and one beside it are numbered titles with a page number: contents that were not recognized.
fn is_listed(sheet: &LineTable<'_>, at: usize) -> bool {
    let lists = |at: usize| {
        let row = &sheet.rows[at];
        let number = clause_number(row).filter(|number| !number.rest.is_empty());
        let label = row.text.rsplit(' ').next().unwrap_or_default();
        number.is_some() && label.bytes().all(|b| b.is_ascii_digit())
    };
    let page = sheet.rows_on(sheet.rows[at].page as usize);
    let mut beside = page.filter(|other| other.abs_diff(at) == 1);
    lists(at) && beside.any(lists)
}

/// Whether the row is `3. Term`, or begins with `3. Term.`; a numbered paragraph has no title.
fn is_titled(row: &LineFeatures<'_>, number: &TitleNumber<'_>) -> bool {
    let title = number.rest.split_once(". ").map(|(title, _)| title);
    let is_alone = !row.prose && row.words as usize <= TITLE_WORDS;
    is_alone || title.is_some_and(|title| titles::word_count(title) <= TITLE_WORDS)
}

fn names_contract(title: &LineFeatures<'_>) -> bool {
    const CONTRACTS: [&str; 5] = ["agreement", "amendment", "lease", "contract", "deed"];
    CONTRACTS.iter().any(|name| title.key.ends_with(name))
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
        if is_listed(sheet, at) {
            continue;
        }
        let row = &sheet.rows[at];
        let clause = if is_annex(sheet, at) {
            count = ClauseCounter::default();
            Some(read_annex(sheet, at, rows.end))
        } else {
            clause_number(row)
                .or_else(|| plain_number(row).filter(|number| is_titled(row, number)))
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
        find_plain_clauses(sheet, rows, excluded)
    }
}

/// The clauses `1. Term`, `2. Fees` of an agreement without ARTICLEs and Sections.
// Lists inside a clause begin again at 1 and are indented. Clauses that are numbered without titles are paragraphs.
fn find_plain_clauses(
    sheet: &LineTable<'_>,
    rows: Range<usize>,
    excluded: &[bool],
) -> Vec<AgreementClause> {
    let mut clauses = Vec::new();
    let mut titled = 0;
    let mut last: Option<(u32, f32)> = None;
    for at in rows.clone().filter(|at| !excluded[*at]) {
        let row = &sheet.rows[at];
        let Some(number) = plain_number(row) else {
            continue;
        };
        let counts = match last {
            None => number.value == 1,
            Some((before, x0)) => {
                (before + 1..=before + 2).contains(&number.value) && (row.x0 - x0).abs() < row.size
            }
        };
        if !counts {
            continue;
        }
        last = Some((number.value, last.map_or(row.x0, |(_, x0)| x0)));
        let clause = read_clause(sheet, at, rows.end, &number);
        titled += usize::from(is_titled(row, &number));
        clauses.push(clause);
    }
    if clauses.len() >= PLAIN_CLAUSES && titled * 5 >= clauses.len() * 4 {
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
    /// The left edge of plain numbers that count in ARTICLEs.
    edge: Option<f32>,
    /// Whether the sections have the word `Section` or two numbers; then plain numbers are lists.
    has_sections: bool,
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
            // By-laws count `1. Offices` anew in each ARTICLE. Lists inside a section are indented.
            NumberClass::Decimal(1) if self.article == 0 => false,
            NumberClass::Decimal(1) => {
                let (article, before) = self.section;
                let follows = (before + 1..=before + 2).contains(&number.value);
                let edge = *self.edge.get_or_insert(row.x0);
                let is_aligned = (row.x0 - edge).abs() < row.size;
                let counts = article == self.article && !self.has_sections && follows && is_aligned;
                if counts {
                    self.section = (article, number.value);
                }
                counts
            }
            class => {
                let first = number
                    .text
                    .split('.')
                    .next()
                    .and_then(|first| first.parse().ok())
                    .unwrap_or(0);
                // `Section 203` is the third of ARTICLE TWO, as in indentures.
                let hundreds = self.article > 0 && number.value / 100 == self.article;
                let (own, value) = if hundreds && number.stem == 0 {
                    (self.article, number.value % 100)
                } else if number.text.contains('.') {
                    (first, number.value)
                } else {
                    (0, number.value)
                };
                let (above, before) = self.section;
                // One missing number is tolerated inside an ARTICLE: a heading may be unreadable or reserved.
                let counts = match (own == above, self.article) {
                    (true, _) => value > before && value <= before + 2,
                    (false, 0) => value == 1 && (own == above + 1 || own <= 1),
                    (false, article) => own == article && value <= 2,
                };
                // A bare `2.07` is a section only inside ARTICLE II, and never a row with figures.
                let sure = class == NumberClass::Section
                    || (self.article == own && own > 0 && !row.figures);
                if counts && sure {
                    self.section = (own, value);
                    self.has_sections = true;
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

    fn clauses_of(doc: &Doc) -> Vec<String> {
        let source = doc.source();
        let sheet = LineTable::new(doc.pages(&source));
        let none = vec![false; sheet.rows.len()];
        find_clauses(&sheet, 0..sheet.rows.len(), &none)
            .into_iter()
            .map(|clause| format!("{} {}", clause.depth, clause.title))
            .collect()
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

    #[test]
    fn sections_of_an_indenture_count_by_hundreds() {
        let mut doc = Doc::new(1);
        for text in [
            "ARTICLE ONE",
            "Section 101. Terms. The parties agree as follows and",
            "Section 103. Rates. The rates are those of the schedule and",
            "Section 501 of the other agreement",
            "ARTICLE TWO",
            "Section 201. Law. The law of the state applies to it and",
        ] {
            doc.add(0, line(text));
            doc.prose(0, 10.0, 2);
        }
        let source = doc.source();
        let sheet = LineTable::new(doc.pages(&source));
        let none = vec![false; sheet.rows.len()];
        let clauses = find_clauses(&sheet, 0..sheet.rows.len(), &none);
        let titles: Vec<&str> = clauses.iter().map(|clause| clause.title.as_str()).collect();
        assert_eq!(
            titles,
            [
                "ARTICLE ONE",
                "Section 101. Terms",
                "Section 103. Rates",
                "ARTICLE TWO",
                "Section 201. Law"
            ]
        );
    }

    #[test]
    fn plain_numbers_begin_anew_in_each_article_of_by_laws() {
        let mut doc = Doc::new(2);
        doc.add(0, line("BY-LAWS").bold().at(280.0, 80.0));
        for (page, article) in ["ARTICLE I OFFICES", "ARTICLE II MEETINGS"]
            .iter()
            .enumerate()
        {
            doc.add(page, line(article).bold());
            for (at, name) in ["Place", "Notice", "Quorum"].iter().enumerate() {
                let text = format!(
                    "{}. {name}. The board may decide on the following matters and",
                    at + 1
                );
                doc.add(page, line(&text));
                doc.prose(page, 10.0, 3);
                doc.add(page, line("4. A list inside the section").indent(30.0));
            }
            // A numbered paragraph without a title.
            doc.add(page, line("4. the board may from time to time decide on all other matters that it sees fit to"));
            doc.prose(page, 10.0, 3);
        }
        let wanted = ["Place", "Notice", "Quorum"]
            .iter()
            .zip(1..)
            .map(|(name, at)| format!("2 {at}. {name}"));
        let mut expected: Vec<String> = Vec::new();
        for article in ["1 ARTICLE I OFFICES", "1 ARTICLE II MEETINGS"] {
            expected.push(article.to_string());
            expected.extend(wanted.clone());
        }
        assert_eq!(clauses_of(&doc), expected);
    }

    #[test]
    fn contents_with_two_page_numbers_are_no_clauses() {
        let sections = [
            "ARTICLE I TERMS",
            "Section 1.01 Rates",
            "Section 1.02 Payments",
        ];
        let mut doc = Doc::new(2);
        for (at, text) in sections.iter().enumerate() {
            doc.add(0, line(&format!("{text} {}{}", at + 13, at + 16)));
            doc.add(1, line(text));
            doc.prose(1, 10.0, 3);
        }
        assert_eq!(
            clauses_of(&doc),
            [
                "1 ARTICLE I TERMS",
                "2 Section 1.01 Rates",
                "2 Section 1.02 Payments"
            ]
        );
        let source = doc.source();
        let sheet = LineTable::new(doc.pages(&source));
        let none = vec![false; sheet.rows.len()];
        let clauses = find_clauses(&sheet, 0..sheet.rows.len(), &none);
        assert!(
            clauses
                .iter()
                .all(|clause| sheet.rows[clause.rows.0].page == 1)
        );
    }

    #[test]
    fn lists_in_numbered_sections_are_no_clauses() {
        let mut doc = Doc::new(1);
        for text in [
            "ARTICLE I",
            "Section 1.01 Terms",
            "2. First part",
            "Section 1.02 Rates",
            "3. Second part",
        ] {
            doc.add(0, line(text));
            doc.prose(0, 10.0, 2);
        }
        assert_eq!(
            clauses_of(&doc),
            [
                "1 ARTICLE I",
                "2 Section 1.01 Terms",
                "2 Section 1.02 Rates"
            ]
        );
    }

    /// Agreements without contents, as filers number them; at least nine of ten clauses are found in each.
    #[test]
    fn clauses_of_agreements_without_contents_are_found() {
        const NAMES: [&str; 12] = [
            "Definitions",
            "Services",
            "Term",
            "Fees",
            "Expenses",
            "Confidential Information",
            "Intellectual Property",
            "Indemnification",
            "Limitation of Liability",
            "Notices",
            "Governing Law",
            "Counterparts",
        ];
        // How each style prints the number of a clause, and whether the title is followed by its text on the same line.
        type Number = fn(usize) -> String;
        let styles: [(&str, Number, bool); 6] = [
            ("plain, run-in", |at| format!("{}.", at + 1), true),
            ("plain, alone", |at| format!("{}.", at + 1), false),
            ("section, run-in", |at| format!("Section {}.", at + 1), true),
            (
                "section, capitals",
                |at| format!("SECTION {}.", at + 1),
                false,
            ),
            (
                "by article",
                |at| format!("{}.{:02}", at / 4 + 1, at % 4 + 1),
                true,
            ),
            ("plain in articles", |at| format!("{}.", at % 4 + 1), true),
        ];
        for (style, number, is_run_in) in styles {
            let mut doc = Doc::new(6);
            doc.add(0, line("SERVICES AGREEMENT").bold().at(250.0, 80.0));
            for (at, name) in NAMES.iter().enumerate() {
                let page = at / 2;
                if style.ends_with("article") || style.ends_with("articles") {
                    let article = ["ARTICLE I", "ARTICLE II", "ARTICLE III"];
                    if at % 4 == 0 {
                        doc.add(page, line(article[at / 4]).bold());
                    }
                }
                let text = if is_run_in {
                    ". Subject to the terms of this agreement the parties agree that"
                } else {
                    ""
                };
                doc.add(page, line(&format!("{} {name}{text}", number(at))));
                doc.prose(page, 10.0, 3);
                // A citation and a list.
                doc.add(page, line("Section 7 of the other agreement does not apply to the services of the company"));
                doc.add(page, line("1. first part of a list").indent(36.0));
                doc.prose(page, 10.0, 2);
            }
            let clauses = clauses_of(&doc);
            let found = NAMES
                .iter()
                .filter(|name| clauses.iter().any(|clause| clause.ends_with(*name)));
            assert!(
                found.count() * 10 >= NAMES.len() * 9,
                "{style}: {clauses:?}"
            );
            assert!(clauses.len() <= NAMES.len() + 4, "{style}: {clauses:?}");
        }
    }

    #[test]
    fn plain_numbers_of_a_contract_are_clauses() {
        let names = ["Services", "Term", "Fees", "Notices", "Law", "Counterparts"];
        let mut doc = Doc::new(2);
        doc.add(0, line("CONSULTING AGREEMENT").bold().at(257.0, 80.0));
        for (at, name) in names.iter().enumerate() {
            let text = format!(
                "{}. {name}. The parties agree on the following terms of",
                at + 1
            );
            doc.add(at / 3, line(&text));
            doc.prose(at / 3, 10.0, 3);
            // A list inside the clause counts for itself.
            doc.add(at / 3, line("1. First part").indent(30.0));
            doc.add(at / 3, line("2. Second part").indent(30.0));
            doc.prose(at / 3, 10.0, 2);
        }
        let source = doc.source();
        let sheet = LineTable::new(doc.pages(&source));
        assert_eq!(agreement_titles(&sheet, 0..sheet.rows.len()), [0]);
        let none = vec![false; sheet.rows.len()];
        let clauses = find_clauses(&sheet, 0..sheet.rows.len(), &none);
        let titles: Vec<String> = clauses.into_iter().map(|clause| clause.title).collect();
        let wanted = names
            .iter()
            .zip(1..)
            .map(|(name, at)| format!("{at}. {name}"));
        assert_eq!(titles, wanted.collect::<Vec<_>>());
    }
}
