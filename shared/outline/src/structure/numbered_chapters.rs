//! Makes headings siblings of the numbered chapters of a paper, manual or guide.
//!
//! Papers number their chapters and leave the abstract, the references and the acknowledgements without a number; the
//! appendices have letters. All of them are on one level. Between two chapters, everything belongs to the first.

use std::collections::BTreeMap;

use stemma_document::EvidenceSource;
use stemma_reading::vocabulary::{REFERENCE_LISTS, UNNUMBERED_CHAPTERS};

use super::counts::counts;
use super::heading_candidate::Document;
use super::heading_style::{HeadingStyle, style_of};
use super::line_features::LineTable;
use super::numbering::{self, NumberClass};
use super::outline_head::{LAYOUT_RANK, OutlineHead};
use super::titles;
use super::weights::{CHAPTERS_SHARE, MIN_CHAPTERS};

/// The longest run of chapters 1, 2, 3 of one look.
struct Chapters {
    /// Indices of the heads.
    heads: Vec<usize>,
    style: HeadingStyle,
    rank: u32,
}

/// Unnumbered headings inside the list of references: names of journals and conferences in italics.
pub(super) fn reference_entries(heads: &[OutlineHead], document: &Document<'_>) -> Vec<usize> {
    let mut entries = Vec::new();
    let mut list: Option<u32> = None;
    for (at, head) in heads.iter().enumerate() {
        let row = &document.lines.rows[head.rows.0];
        let is_entry = list.is_some_and(|rank| head.rank > rank)
            && head.evidence == EvidenceSource::Layout
            && !style_of(document.lines, row).is_numbered()
            && numbering::bare_letter(row.text).is_none();
        if is_entry {
            entries.push(at);
            continue;
        }
        let key = titles::normalize_key(&head.title);
        let key = key.trim_start_matches(|c: char| c.is_ascii_digit());
        list = REFERENCE_LISTS.contains(key).then_some(head.rank);
    }
    entries
}

/// Gives unnumbered headings and appendices between numbered chapters the rank of the chapters.
pub(super) fn align_with_chapters(heads: &mut [OutlineHead], document: &Document<'_>) {
    let lines = document.lines;
    let Some(chapters) = find_chapters(lines, heads) else {
        return;
    };
    let first = chapters.heads[0];
    let last = chapters.heads[chapters.heads.len() - 1];
    // Parts above the chapters recur; a single large word belongs to a figure.
    let looks = counts(
        heads
            .iter()
            .map(|head| style_of(lines, &lines.rows[head.rows.0]).unplaced()),
    );
    let mut letters = 0;
    for (at, head) in heads.iter_mut().enumerate() {
        let row = &lines.rows[head.rows.0];
        let style = style_of(lines, row);
        if head.rank < LAYOUT_RANK || style.is_numbered() {
            continue;
        }
        let alike = style.unplaced() == chapters.style;
        // `A Datasets` is an appendix if it has the look of the chapters, or follows the appendix before.
        let letter = numbering::bare_letter(row.text).map_or(0, |(value, _)| value);
        let is_appendix = at > last && letter == letters + 1 && (alike || letters > 0);
        letters += u32::from(is_appendix);
        if at < first || at > last {
            let is_named =
                is_end_matter(&head.title) && (row.bold || row.size >= lines.body.size());
            if alike || is_appendix || is_named {
                head.rank = chapters.rank;
            }
        } else if alike || looks.get(&style.unplaced()) == Some(&1) {
            head.rank = head.rank.max(chapters.rank + 1);
        }
    }
}

fn find_chapters(lines: &LineTable<'_>, heads: &[OutlineHead]) -> Option<Chapters> {
    let mut runs: BTreeMap<(NumberClass, HeadingStyle), (u32, Vec<usize>)> = BTreeMap::new();
    for (at, head) in heads
        .iter()
        .enumerate()
        .filter(|(_, head)| !head.unconfirmed)
    {
        let row = &lines.rows[head.rows.0];
        let style = style_of(lines, row);
        let number = numbering::first_number(row.text);
        let Some(number) =
            number.filter(|number| style.is_numbered() && counts_chapters(number.class))
        else {
            continue;
        };
        let (value, run) = runs.entry((number.class, style.unplaced())).or_default();
        // One heading of a run may be lost in a column or a table.
        let follows = *value > 0 && (number.value == *value + 1 || number.value == *value + 2);
        if number.value == 1 && run.len() < MIN_CHAPTERS {
            run.clear();
        }
        if follows || run.is_empty() && number.value <= 2 {
            *value = number.value;
            run.push(at);
        }
    }
    let total = lines.rows.len() as f32;
    let ((_, style), (_, run)) = runs
        .into_iter()
        .filter(|(_, (_, run))| {
            let rows = |at: usize| heads[run[at]].rows.0 as f32;
            run.len() >= MIN_CHAPTERS && rows(run.len() - 1) - rows(0) > CHAPTERS_SHARE * total
        })
        .max_by_key(|(_, (_, run))| run.len())?;
    let ranks = counts(run.iter().map(|at| heads[*at].rank));
    let (rank, _) = ranks.into_iter().max_by_key(|(_, count)| *count)?;
    Some(Chapters {
        heads: run,
        style,
        rank,
    })
}

fn counts_chapters(class: NumberClass) -> bool {
    matches!(
        class,
        NumberClass::Decimal(1) | NumberClass::UpperRoman | NumberClass::Chapter
    )
}

/// Whether a title is usual before the first chapter or after the last.
fn is_end_matter(title: &str) -> bool {
    UNNUMBERED_CHAPTERS.contains(titles::normalize_key(title).as_str())
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{Doc, line, outline_of};

    #[test]
    fn unnumbered_headings_beside_chapters_are_siblings() {
        let mut doc = Doc::new(9);
        doc.section(0, "Abstract");
        for (page, title) in [
            (1, "1 Introduction"),
            (2, "2 Method"),
            (3, "3 Results"),
            (4, "4 Conclusion"),
            (5, "Limitations"),
            (6, "References"),
            (7, "A Datasets"),
            (8, "B Settings"),
        ] {
            doc.section(page, title);
            if page == 2 {
                doc.section(page, "Sampling");
            }
        }
        doc.add(8, line("B.1 Hardware").bold());
        doc.prose(8, 10.0, 4);
        let levels: Vec<(u16, String)> = outline_of(&doc)
            .into_iter()
            .map(|entry| (entry.1, entry.2))
            .collect();
        let expected = [
            (1, "Abstract"),
            (1, "1 Introduction"),
            (1, "2 Method"),
            (2, "Sampling"),
            (1, "3 Results"),
            (1, "4 Conclusion"),
            (1, "Limitations"),
            (1, "References"),
            (1, "A Datasets"),
            (1, "B Settings"),
            (2, "B.1 Hardware"),
        ];
        assert_eq!(
            levels,
            expected.map(|(level, title)| (level, title.to_string()))
        );
    }

    #[test]
    fn conference_in_references_is_no_section() {
        let mut doc = Doc::new(5);
        for (page, title) in [
            "1 Introduction",
            "2 Method",
            "3 Results",
            "References",
            "A Datasets",
        ]
        .iter()
        .enumerate()
        {
            doc.section(page, title);
        }
        doc.add(3, line("Conference on Trees, Lyon, France").italic());
        doc.prose(3, 10.0, 4);
        assert_eq!(outline_of(&doc).len(), 5);
    }

    #[test]
    fn outline_without_appendix_letters_is_followed() {
        let mut doc = Doc::new(6);
        let bookmarks = [
            "Introduction",
            "Method",
            "Results",
            "Datasets",
            "Settings",
            "Prompts",
        ];
        let printed = [
            "1 Introduction",
            "2 Method",
            "3 Results",
            "A Datasets",
            "B Settings",
            "C Prompts",
        ];
        for (page, (bookmark, title)) in bookmarks.iter().zip(printed).enumerate() {
            doc.section(page, title);
            doc.bookmark(bookmark, 1, page as u32 + 1);
        }
        doc.section(2, "References");
        let levels: Vec<u16> = outline_of(&doc).into_iter().map(|entry| entry.1).collect();
        assert_eq!(levels, [1; 7]);
    }

    #[test]
    fn word_of_a_figure_does_not_hold_chapters() {
        let mut doc = Doc::new(5);
        for (page, title) in ["1 Introduction", "2 Method", "3 Results", "4 Conclusion"]
            .iter()
            .enumerate()
        {
            doc.section(page, title);
        }
        doc.add(1, line("Filter").size(20.0).bold());
        doc.prose(1, 10.0, 4);
        let levels: Vec<u16> = outline_of(&doc).into_iter().map(|entry| entry.1).collect();
        assert_eq!(levels, [1, 1, 2, 1, 1]);
    }
}
