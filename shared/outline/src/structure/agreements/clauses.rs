//! Finds the ARTICLEs, Sections and clauses of an agreement.

use std::ops::Range;

use super::{TITLE_WORDS, clause_number, is_listed, is_titled, plain_number, starts_title};
use crate::structure::line_features::{LineFeatures, LineTable};
use crate::structure::numbering::{self, NumberClass, TitleNumber};
use crate::structure::titles;
use crate::structure::weights::TITLE_GAP;

// Fewer plain numbers are a list.
const PLAIN_CLAUSES: usize = 5;

#[derive(Debug, Clone, PartialEq)]
pub(in crate::structure) struct AgreementClause {
    /// First and last row of its heading.
    pub(in crate::structure) rows: (usize, usize),
    pub(in crate::structure) title: String,
    /// 0 for an annex (`EXHIBIT A`, `SCHEDULE 1.01`), 1 for an ARTICLE, 2 for a Section.
    pub(in crate::structure) depth: u32,
}

/// The sections of the agreement in `rows`, except in `excluded` rows (its contents). Annexes restart the count.
// Agreements cite their own sections all the time, often at the start of a line. The numbering tells the difference: a
// heading continues the count, a citation almost never does.
pub(in crate::structure) fn find_clauses(
    lines: &LineTable<'_>,
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
        if is_listed(lines, at) {
            continue;
        }
        let row = &lines.rows[at];
        let clause = if is_annex(lines, at) {
            count = ClauseCounter::default();
            Some(read_annex(lines, at, rows.end))
        } else {
            clause_number(row)
                .or_else(|| plain_number(row).filter(|number| is_titled(row, number)))
                .filter(|number| count.accept(row, number))
                .map(|number| read_clause(lines, at, rows.end, &number))
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
        find_plain_clauses(lines, rows, excluded)
    }
}

/// The clauses `1. Term`, `2. Fees` of an agreement without ARTICLEs and Sections.
// Lists inside a clause begin again at 1 and are indented. Clauses that are numbered without titles are paragraphs.
fn find_plain_clauses(
    lines: &LineTable<'_>,
    rows: Range<usize>,
    excluded: &[bool],
) -> Vec<AgreementClause> {
    let mut clauses = Vec::new();
    let mut titled = 0;
    let mut last: Option<(u32, f32)> = None;
    for at in rows.clone().filter(|at| !excluded[*at]) {
        let row = &lines.rows[at];
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
        let clause = read_clause(lines, at, rows.end, &number);
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
fn is_annex(lines: &LineTable<'_>, at: usize) -> bool {
    let row = &lines.rows[at];
    if row.running || row.words > 12 || row.prose || row.table {
        return false;
    }
    let number = numbering::first_number(row.text);
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
    stands_out && titled && !row.text.ends_with('.') && lines.starts_page(at)
}

fn read_annex(lines: &LineTable<'_>, at: usize, end: usize) -> AgreementClause {
    let is_titled = numbering::after_number(lines.rows[at].text).is_some();
    let below = title_below(lines, at, end).filter(|_| !is_titled);
    clause_of_rows(lines, (at, below.unwrap_or(at)), 0)
}

fn clause_of_rows(lines: &LineTable<'_>, rows: (usize, usize), depth: u32) -> AgreementClause {
    AgreementClause {
        rows,
        title: lines.title(rows),
        depth,
    }
}

/// The row below a number alone on its line, if it is the title.
fn title_below(lines: &LineTable<'_>, at: usize, end: usize) -> Option<usize> {
    let row = &lines.rows[at];
    let next = lines.rows.get(at + 1)?;
    let near = at + 1 < end && next.page == row.page && next.gap < TITLE_GAP && !next.running;
    let title =
        next.words <= 14 && !next.prose && next.words > 0 && starts_title(next.text) && !next.table;
    let alike = next.centered == row.centered || next.caps;
    (near && title && alike && clause_number(next).is_none() && !next.text.ends_with('.'))
        .then_some(at + 1)
}

/// The heading of a section; a run-in title ends at its full stop.
fn read_clause(
    lines: &LineTable<'_>,
    at: usize,
    end: usize,
    number: &TitleNumber<'_>,
) -> AgreementClause {
    let row = &lines.rows[at];
    let depth = if number.class == NumberClass::Article {
        1
    } else {
        2
    };
    if number.rest.is_empty() {
        let last = title_below(lines, at, end).unwrap_or(at);
        return clause_of_rows(lines, (at, last), depth);
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
