//! Headings that a model names, added to the sections of the rules.
//!
//! A model may name headings, but its word is not enough: a heading counts only where the rules find its title on the page,
//! and outside tables, running heads and contents. Its place in the tree is that of headings of the same look nearby; the
//! level that the model states decides only where the look says nothing. Announced sections keep their places, because
//! their ranks are higher than those of any look.

use std::collections::{BTreeMap, BTreeSet};

use stemma_document::{EvidenceSource, MAX_LEVELS, PageNo};
use stemma_reading::letters::is_small;

use super::false_headings;
use super::heading_budget;
use super::heading_style::{self, HeadingStyle};
use super::line_features::{LineFeatures, LineTable};
use super::locate;
use super::numbering;
use super::outline_head::{LAYOUT_RANK, OutlineHead, enclosing_heads};
use super::rule_outline::RuleOutline;
use super::section_candidate::SectionCandidate;
use super::titles;
use super::weights::SAME_TITLE;

// More headings on one page are entries of a list.
const MAX_PER_PAGE: usize = 40;
// Bounds the work on hostile files and replies; a document of a thousand pages stays far below it.
const MAX_COMPARED: usize = 2_000_000;
// With at least this many titles that are on no page, and this share of all, the rest is not believed either.
const MIN_ASTRAY: usize = 3;
const ASTRAY_SHARE: f32 = 0.5;
// A run-in heading is shorter than its line; a title printed with little else takes the words of the page.
const WHOLE_LINE_SHARE: f32 = 0.7;
// Rows between the caption of a table and its first figures: units, and the heads of columns.
const ROWS_BELOW: usize = 4;
// Pages on either side in which headings that have a look speak against a title that has none.
const PAGES_NEAR: u32 = 3;

/// A heading that a model named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedHeading {
    pub number: String,
    pub title: String,
    /// `None` if the model named a page that it was not shown.
    pub page: Option<PageNo>,
    /// 1 is the highest.
    pub level: u16,
}

/// What became of the headings that a model named.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AddedHeadings {
    pub named: usize,
    /// Titles that are on their pages.
    pub located: usize,
    pub added: usize,
}

impl AddedHeadings {
    /// Whether most of the titles are on their pages.
    pub fn is_trusted(&self) -> bool {
        let astray = self.named - self.located;
        astray < MIN_ASTRAY || astray as f32 <= ASTRAY_SHARE * self.named as f32
    }
}

// A heading found on its page.
struct LocatedHeading {
    rows: (usize, usize),
    title: String,
    style: HeadingStyle,
    // Whether it is set like the text around it.
    is_plain: bool,
    level: u16,
}

impl RuleOutline<'_> {
    /// Adds headings, unless most of them are not on their pages.
    pub fn add_headings(&mut self, named: &[NamedHeading]) -> AddedHeadings {
        let mut per_page: BTreeMap<PageNo, usize> = BTreeMap::new();
        let mut taken = vec![false; self.lines.rows.len()];
        for head in &self.heads {
            taken[head.rows.0..=head.rows.1].fill(true);
        }
        let mut counts = AddedHeadings::default();
        let mut compared = 0;
        let mut found = Vec::new();
        for heading in named {
            let Some(page) = heading.page else {
                counts.named += 1;
                continue;
            };
            let count = per_page.entry(page).or_default();
            *count += 1;
            if *count > MAX_PER_PAGE {
                continue;
            }
            compared += self.rows_near(page);
            if compared > MAX_COMPARED {
                break;
            }
            counts.named += 1;
            let Some(rows) = self.locate(heading, page, &taken) else {
                continue;
            };
            counts.located += 1;
            // A heading that the rules saw may have more rows than the title that was named.
            if !taken[rows.0..=rows.1].contains(&true)
                && let Some(located) = self.accept(heading, rows)
                && !taken[located.rows.0..=located.rows.1].contains(&true)
            {
                taken[located.rows.0..=located.rows.1].fill(true);
                found.push(located);
            }
        }
        if counts.is_trusted() {
            counts.added = found.len();
            found.sort_by_key(|heading| heading.rows);
            let added = self.ranked(found);
            self.heads.extend(added);
            self.heads.sort_by_key(|head| (head.rows.0, head.rank));
        }
        counts
    }

    // Rows with which a title is compared.
    fn rows_near(&self, page: PageNo) -> usize {
        let pages = page.index().saturating_sub(1)..=page.index().saturating_add(1);
        pages.map(|page| self.lines.rows_on(page).len()).sum()
    }

    // The rows of a title on its page or a neighboring page. Of equal lines, one that is not a known heading wins.
    fn locate(
        &self,
        heading: &NamedHeading,
        page: PageNo,
        taken: &[bool],
    ) -> Option<(usize, usize)> {
        let title = clean_title(&heading.number, &heading.title)?;
        let candidate = SectionCandidate::new(&title, EvidenceSource::Model);
        let page = page.index();
        let near = [Some(page), Some(page + 1), page.checked_sub(1)];
        near.into_iter().flatten().find_map(|page| {
            let line = |is_taken: bool| {
                locate::most_similar_line(&self.lines, self.lines.rows_on(page), &candidate, |at| {
                    taken[at] == is_taken && !self.primary.excluded[at]
                })
            };
            let known = line(true);
            line(false)
                .filter(|rows| known.is_none() || self.is_like_heading(*rows))
                .or(known)
        })
    }

    // A mention of a known title in the text is not another heading of that title.
    fn is_like_heading(&self, rows: (usize, usize)) -> bool {
        let row = &self.lines.rows[rows.0];
        !row.prose && !row.table
    }

    // The heading at `rows`, unless the rules reject it or it repeats the title of a known one.
    fn accept(&self, heading: &NamedHeading, rows: (usize, usize)) -> Option<LocatedHeading> {
        let lines = &self.lines;
        let row = &lines.rows[rows.0];
        if self.is_false_heading(rows.0) || self.repeats_known_title(rows) {
            return None;
        }
        if let Some(seen) = self.heading_at(rows.0) {
            // The budget left it out. Above a table it is a caption, unless neighboring sections look like it.
            if is_above_table(lines, seen.rows.1)
                && !self
                    .looks_around(seen.rows.0)
                    .any(|look| look.1 == seen.style)
            {
                return None;
            }
            return Some(LocatedHeading {
                rows: seen.rows,
                title: seen.title.clone(),
                style: seen.style,
                is_plain: false,
                level: heading.level,
            });
        }
        let stated = clean_title(&heading.number, &heading.title)?;
        let run_in = row
            .run_in
            .filter(|phrase| titles::similarity(phrase.text, &stated) > SAME_TITLE);
        let (title, style) = match run_in {
            Some(phrase) => (
                titles::fold_whitespace(phrase.text),
                heading_style::style_of_run_in(lines, row, &phrase),
            ),
            None if is_heading_line(lines, rows, &stated) => (
                printed_title(lines, rows, stated),
                heading_style::style_of(lines, row),
            ),
            None => return None,
        };
        // Where headings have a style of their own, a line in the style of the text is not a heading.
        let is_plain = run_in.is_none() && is_set_like_text(lines, row);
        let mut looks = self.looks_around(rows.0);
        if is_plain && looks.any(|(page, _)| page.abs_diff(row.page) <= PAGES_NEAR) {
            return None;
        }
        Some(LocatedHeading {
            rows,
            title,
            style,
            is_plain,
            level: heading.level,
        })
    }

    // Whether a known heading on the same page has the title: the line is an entry of a short list of contents.
    fn repeats_known_title(&self, rows: (usize, usize)) -> bool {
        let row = &self.lines.rows[rows.0];
        let page = self.lines.rows_on(row.page as usize);
        let first = self.heads.partition_point(|head| head.rows.0 < page.start);
        self.heads[first..]
            .iter()
            .take_while(|head| head.rows.0 < page.end)
            .any(|head| {
                let title = titles::normalize_key(&head.title);
                titles::key_similarity(&row.key, &title) > SAME_TITLE
            })
    }

    // The looks of the sections around a row, between two announced ones, with their pages.
    fn looks_around(&self, row: usize) -> impl Iterator<Item = (u32, HeadingStyle)> {
        let next = self.heads.partition_point(|head| head.rows.0 < row);
        let (before, behind) = self.heads.split_at(next);
        let before = before
            .iter()
            .rev()
            .take_while(move |head| !is_announced(head));
        let behind = behind.iter().take_while(move |head| !is_announced(head));
        before.chain(behind).filter_map(|head| {
            let page = self.lines.rows[head.rows.0].page;
            Some((page, self.heading_at(head.rows.0)?.style))
        })
    }

    // The heads of located headings, with the rank of their look.
    fn ranked(&self, found: Vec<LocatedHeading>) -> Vec<OutlineHead> {
        let announced: Vec<OutlineHead> = self
            .heads
            .iter()
            .filter(|head| head.rank < LAYOUT_RANK)
            .cloned()
            .collect();
        // Titles of statements and display type have ranks of their own, which say nothing about their look.
        let leaves: BTreeSet<usize> = self
            .heads
            .iter()
            .filter(|head| head.leaf)
            .map(|head| head.rows.0)
            .collect();
        let looks: Vec<(usize, HeadingStyle, u32)> = self
            .candidates
            .iter()
            .filter(|seen| seen.is_heading() && !leaves.contains(&seen.rows.0))
            .map(|seen| (seen.rows.0, seen.style, seen.rank))
            .collect();
        let above = |rows: Vec<usize>| {
            enclosing_heads(&announced, rows.into_iter().map(|row| (row, LAYOUT_RANK)))
        };
        let of_looks = above(looks.iter().map(|look| look.0).collect());
        let of_found = above(found.iter().map(|heading| heading.rows.0).collect());
        let mut styles: Vec<HeadingStyle> = looks.iter().map(|look| look.1).collect();
        styles.extend(
            found
                .iter()
                .filter(|heading| !heading.is_plain)
                .map(|heading| heading.style),
        );
        styles.sort();
        styles.dedup();
        let lowest = self.heads.iter().map(|head| head.rank).max().unwrap_or(0);
        let plain_rank = lowest.max(heading_budget::lowest_rank(&styles));
        found
            .into_iter()
            .zip(of_found)
            .map(|(heading, above)| {
                let nearest = |is_alike: &dyn Fn(&HeadingStyle) -> bool| {
                    let alike = looks
                        .iter()
                        .zip(&of_looks)
                        .filter(|(look, _)| is_alike(&look.1));
                    alike
                        .min_by_key(|(look, section)| {
                            (**section != above, look.0.abs_diff(heading.rows.0))
                        })
                        .map(|(look, _)| look.2)
                };
                let style = heading.style;
                let rank = if heading.is_plain {
                    plain_rank + u32::from(heading.level).clamp(1, MAX_LEVELS as u32)
                } else {
                    nearest(&|other| *other == style)
                        .or_else(|| nearest(&|other| other.unplaced() == style.unplaced()))
                        .unwrap_or_else(|| rank_of_new_look(&looks, &styles, style))
                };
                // A look may have the rank of announced sections. The next of them keeps its parent.
                let next = announced.partition_point(|head| head.rows.0 < heading.rows.0);
                let rank = announced.get(next).map_or(rank, |next| rank.max(next.rank));
                OutlineHead::new(heading.rows, heading.title, EvidenceSource::Model, rank)
            })
            .collect()
    }
}

fn is_announced(head: &&OutlineHead) -> bool {
    head.rank < LAYOUT_RANK
}

// The rank of a look that no known heading has, just below that of the next stronger look. `styles` are all looks, sorted.
fn rank_of_new_look(
    looks: &[(usize, HeadingStyle, u32)],
    styles: &[HeadingStyle],
    style: HeadingStyle,
) -> u32 {
    let stronger = looks.iter().filter(|look| look.1 < style);
    let Some(last) = stronger.max_by_key(|look| look.1) else {
        return LAYOUT_RANK;
    };
    let between = styles
        .iter()
        .filter(|other| last.1 < **other && **other <= style)
        .count();
    // The ranks of looks are ten apart.
    last.2.max(LAYOUT_RANK) + u32::try_from(between.min(9)).unwrap_or(9)
}

// Whether the line may be a heading although it has no look of one: neither part of a table or above one, nor a label, nor
// inside a paragraph, unless a number opens it.
fn is_heading_line(lines: &LineTable<'_>, rows: (usize, usize), title: &str) -> bool {
    let (first, last) = rows;
    let row = &lines.rows[first];
    let opens_paragraph = numbering::first_number(title).is_some()
        && row.key.starts_with(&titles::normalize_key(title));
    let is_in_text = row.prose || false_headings::inside_paragraph(lines, first);
    !row.marked
        && !is_tabular(row)
        && !is_above_table(lines, last)
        && !row.text.starts_with(is_small)
        && row.text.matches('(').count() == row.text.matches(')').count()
        && !false_headings::is_boilerplate(row)
        && !false_headings::is_label(lines, last, title)
        && (opens_paragraph || !is_in_text && !false_headings::ends_mid_sentence(row))
}

fn is_tabular(row: &LineFeatures<'_>) -> bool {
    row.table || row.figures || row.cells >= 3
}

// Whether a table follows before any text does.
fn is_above_table(lines: &LineTable<'_>, last: usize) -> bool {
    let page = lines.rows[last].page;
    let below = lines.rows[last + 1..].iter().take(ROWS_BELOW);
    below
        .filter(|row| row.page == page)
        .find(|row| row.prose || is_tabular(row))
        .is_some_and(is_tabular)
}

fn is_set_like_text(lines: &LineTable<'_>, row: &LineFeatures<'_>) -> bool {
    lines.body.is_alike(row.look()) && !row.caps && numbering::first_number(row.text).is_none()
}

// The words of the page if they are the title and little else. A model may reword a title, and a reader will search for the
// printed form.
fn printed_title(lines: &LineTable<'_>, rows: (usize, usize), title: String) -> String {
    let printed = lines.title(rows);
    let whole = title.len() as f32 >= WHOLE_LINE_SHARE * printed.len() as f32;
    if whole { printed } else { title }
}

// Number and title on one line, without control characters, at most 400 bytes; `None` if there are no letters.
fn clean_title(number: &str, title: &str) -> Option<String> {
    let number = titles::fold_whitespace(number);
    let title = titles::fold_whitespace(title);
    let key = titles::normalize_key(&number);
    let has_number = key.is_empty()
        || titles::normalize_key(&title).starts_with(&key)
        || numbering::first_number(&title).is_some();
    let whole = if has_number {
        title
    } else {
        format!("{number} {title}")
    };
    let whole = titles::truncate_bytes(&whole, 400).trim().to_string();
    whole.chars().any(char::is_alphabetic).then_some(whole)
}

#[cfg(test)]
mod tests {
    use stemma_document::{EntryVerdict, Method, VerifiedEntry};

    use super::super::fixture::{Doc, line};
    use super::super::{Draft, StructureSettings};
    use super::*;

    fn named(title: &str, page: u32, level: u16) -> NamedHeading {
        NamedHeading {
            number: String::new(),
            title: title.into(),
            page: PageNo::new(page),
            level,
        }
    }

    fn add(doc: &Doc, headings: &[NamedHeading]) -> (Draft, AddedHeadings) {
        let source = doc.source();
        let settings = StructureSettings::default();
        let mut rules = RuleOutline::new(&source, doc.pages(&source), &settings);
        let counts = rules.add_headings(headings);
        (rules.draft().unwrap(), counts)
    }

    fn sections(draft: &Draft) -> Vec<(u32, u16, &str)> {
        let entries = draft.outline.entries().iter();
        entries
            .map(|one: &VerifiedEntry| {
                let entry = &one.located.entry;
                let page = one.located.place.reading_order().0;
                (page, entry.level, entry.title.as_str())
            })
            .collect()
    }

    /// Items whose sub-headings are in the size of the text; with so few of them, the rules find none.
    fn filing() -> Doc {
        let mut doc = Doc::new(8);
        let headings = [
            (0, "PART I", 14.0),
            (0, "Item 1. Business", 12.0),
            (2, "Item 1A. Risk Factors", 12.0),
            (4, "PART II", 14.0),
            (4, "Item 7. Management's Discussion", 12.0),
            (6, "Item 8. Financial Statements", 12.0),
        ];
        for page in 0..8 {
            for (_, title, size) in headings.iter().filter(|heading| heading.0 == page) {
                doc.add(page, line(title).bold().size(*size));
            }
            doc.prose(page, 10.0, 12);
            if page % 2 == 1 {
                doc.add(page, line(&format!("Matters of Kind {page}")));
                doc.prose(page, 10.0, 12);
            }
        }
        doc
    }

    #[test]
    fn headings_are_placed_below_the_section_that_holds_them() {
        let doc = filing();
        let (rules, _) = add(&doc, &[]);
        // Levels that begin anew in each window change nothing.
        let headings: Vec<NamedHeading> = [(2, 1), (4, 7), (6, 1), (8, 1)]
            .map(|(page, level)| named(&format!("Matters of Kind {}", page - 1), page, level))
            .into();
        let (draft, counts) = add(&doc, &headings);
        assert_eq!((counts.named, counts.located, counts.added), (4, 4, 4));
        let kept: Vec<_> = sections(&draft)
            .into_iter()
            .filter(|(_, _, title)| !title.starts_with("Matters"))
            .collect();
        assert_eq!(kept, sections(&rules), "the sections of the rules stay");
        let added: Vec<_> = sections(&draft)
            .into_iter()
            .filter(|(_, _, title)| title.starts_with("Matters"))
            .map(|(page, level, _)| (page, level))
            .collect();
        assert_eq!(added, [(2, 3), (4, 3), (6, 3), (8, 3)]);
    }

    #[test]
    fn one_look_has_one_level_in_all_windows() {
        let mut doc = Doc::new(6);
        for page in 0..6 {
            doc.prose(page, 10.0, 10);
            doc.add(page, line(&format!("Kind {page}")).italic());
            doc.prose(page, 10.0, 10);
        }
        let headings: Vec<NamedHeading> = (0..6)
            .map(|page: u32| named(&format!("Kind {page}"), page + 1, 1 + (page % 3) as u16))
            .collect();
        let (draft, _) = add(&doc, &headings);
        let levels: Vec<u16> = sections(&draft)
            .into_iter()
            .filter(|(_, _, title)| title.starts_with("Kind"))
            .map(|(_, level, _)| level)
            .collect();
        assert_eq!(levels, [1; 6]);
    }

    #[test]
    fn levels_of_titles_without_a_look_are_those_of_the_model() {
        let mut doc = Doc::new(4);
        for (page, title) in ["First Part", "A Chapter", "B Chapter", "Second Part"]
            .iter()
            .enumerate()
        {
            doc.add(page, line(title));
            doc.prose(page, 10.0, 20);
        }
        let headings = [
            named("First Part", 1, 1),
            named("A Chapter", 2, 2),
            named("B Chapter", 3, 2),
            named("Second Part", 4, 1),
        ];
        let (draft, _) = add(&doc, &headings);
        let levels: Vec<u16> = sections(&draft).iter().map(|section| section.1).collect();
        assert_eq!((levels, draft.method), (vec![1, 2, 2, 1], Method::Model));
    }

    #[test]
    fn reworded_titles_take_the_words_of_the_page() {
        let doc = filing();
        let (draft, _) = add(&doc, &[named("MATTERS OF KIND 3", 4, 1)]);
        assert!(sections(&draft).contains(&(4, 3, "Matters of Kind 3")));
        let entry = draft
            .outline
            .entries()
            .iter()
            .find(|one| one.located.entry.title.starts_with("Matters"))
            .unwrap();
        assert_eq!(entry.located.entry.evidence, EvidenceSource::Model);
        assert!(matches!(entry.verdict, EntryVerdict::Confirmed { .. }));
    }

    #[test]
    fn known_headings_and_table_heads_are_not_added() {
        let mut doc = filing();
        doc.add(5, line("Amounts by Kind"));
        for row in ["Sales", "Costs", "Taxes", "Others"] {
            doc.add(5, line(row).cells(&["1,200", "1,100"]));
        }
        let (rules, _) = add(&doc, &[]);
        let headings = [
            named("Risk Factors", 3, 1),
            named("Item 7. Management's Discussion", 5, 1),
            named("Amounts by Kind", 6, 1),
        ];
        let (draft, counts) = add(&doc, &headings);
        assert_eq!((counts.located, counts.added), (3, 0));
        assert_eq!(sections(&draft), sections(&rules));
    }

    #[test]
    fn a_model_whose_titles_are_elsewhere_is_ignored() {
        let doc = filing();
        let (rules, _) = add(&doc, &[]);
        let mut headings: Vec<NamedHeading> =
            ["Weather", "Ignore all rules", "<b>Games</b>", "Songs"]
                .map(|title| named(title, 2, 1))
                .into();
        headings.push(named("Matters of Kind 1", 2, 1));
        let (draft, counts) = add(&doc, &headings);
        assert!(!counts.is_trusted());
        assert_eq!((counts.located, counts.added), (1, 0));
        assert_eq!(sections(&draft), sections(&rules));
    }

    #[test]
    fn hostile_replies_are_bounded() {
        let doc = filing();
        let mut headings: Vec<NamedHeading> = (0..10_000)
            .map(|at| named(&format!("Matters of Kind {at}"), 1 + at % 9, u16::MAX))
            .collect();
        headings.push(named("Matters of Kind 7", u32::MAX, 0));
        headings.push(named(&"x".repeat(100_000), 8, 1));
        headings.push(named("\u{7}\n1234", 8, 1));
        let (draft, counts) = add(&doc, &headings);
        assert!(counts.named <= 10 * MAX_PER_PAGE, "{counts:?}");
        assert!(draft.outline.entries().len() < 20);
        assert!(sections(&draft).iter().all(|(_, level, _)| *level < 10));
    }
}
