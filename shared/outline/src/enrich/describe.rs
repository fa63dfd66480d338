//! The description of a document in one sentence: what it is, its length, and its largest sections.

use stemma_document::{Extent, FilingFacts, Section, SectionKind, SectionTree, Source, SourceBody};
use stemma_reading::numerals::parse_roman;
use stemma_reading::vocabulary::{COMMON_TITLES, FILE_ENDINGS, PROGRAM_NAMES};

use super::SectionSettings;
use super::fiscal::is_annual;
use super::front_page::front_pages;
use crate::structure::numbering::{NumberClass, first_number};
use crate::structure::titles;

const TITLE_CHARS: usize = 120;
// Sections of the two top levels that may be named.
const MAX_CANDIDATES: usize = 2_000;
// Lines of the first non-blank page that can be its title.
const TITLE_LINES: usize = 40;

/// The description of a tree with facts and token counts.
pub(super) fn describe(tree: &SectionTree, source: &Source, settings: &SectionSettings) -> String {
    let what = describe_filing(&tree.facts)
        .or_else(|| title(tree, source))
        .unwrap_or_else(|| "Document".into());
    let length = match tree.extent {
        Extent::Pages(1) => "1 page".into(),
        Extent::Pages(n) => format!("{n} pages"),
        Extent::Lines(1) => "1 line".into(),
        Extent::Lines(n) => format!("{n} lines"),
    };
    let topics = topics(tree, settings.described_sections as usize, &what);
    if topics.is_empty() {
        format!("{what}, {length}.")
    } else {
        format!("{what}, {length}: {}.", topics.join(", "))
    }
}

/// `ACME INC annual report on Form 10-K for fiscal year 2022 (ended 2022-12-31)`.
fn describe_filing(facts: &FilingFacts) -> Option<String> {
    let form = facts.form.as_ref()?.value.as_str();
    let kind = match form.split('/').next().unwrap_or(form) {
        "earnings_release" => "earnings release".into(),
        "annual_report" => "annual report".into(),
        "10-Q" | "10-QT" => format!("quarterly report on Form {form}"),
        "8-K" | "6-K" => format!("current report on Form {form}"),
        plain if plain == "10-KT" || is_annual(plain) => format!("annual report on Form {form}"),
        _ => format!("filing on Form {form}"),
    };
    // Without an issuer this would fit thousands of filings; the title is more specific.
    let issuer = facts.issuer.as_ref()?;
    let quarter = facts
        .fiscal_period
        .as_ref()
        .filter(|period| period.value != "FY");
    let of_quarter = quarter.map_or_else(String::new, |quarter| format!("{} of ", quarter.value));
    let period = facts.fiscal_year.as_ref().map_or_else(String::new, |year| {
        format!(" for {of_quarter}fiscal year {}", year.value)
    });
    let is_dated = form.starts_with("8-K") || form.starts_with("6-K");
    let end = facts
        .period_end
        .as_ref()
        .map_or_else(String::new, |end| match is_dated {
            true => format!(" dated {}", end.value),
            false => format!(" (ended {})", end.value),
        });
    Some(format!("{} {kind}{period}{end}", issuer.value))
}

/// The title in the metadata, otherwise the largest lines of the first non-blank page, otherwise the first heading.
fn title(tree: &SectionTree, source: &Source) -> Option<String> {
    let declared = source
        .metadata
        .get("title")
        .map(|title| fold_title(title))
        .filter(|title| is_title(title));
    declared.or_else(|| printed_title(source)).or_else(|| {
        let first = tree
            .sections
            .iter()
            .find(|section| section.kind == SectionKind::Heading)?;
        Some(fold_title(&first.title)).filter(|title| is_title(title))
    })
}

fn fold_title(text: &str) -> String {
    titles::fold_whitespace(text)
        .trim_end_matches(['.', ',', ':', ';'])
        .chars()
        .take(TITLE_CHARS)
        .collect()
}

// Programs write file names and their own names into the title field of the metadata.
fn is_title(title: &str) -> bool {
    let lower = title.to_lowercase();
    let words = title
        .split(|c: char| !c.is_alphabetic())
        .filter(|word| word.len() > 1)
        .count();
    words >= 2 && !FILE_ENDINGS.ends(&lower) && !PROGRAM_NAMES.starts(&lower)
}

/// The largest lines of the first non-blank page, if they are at least 10 % larger than its median line.
fn printed_title(source: &Source) -> Option<String> {
    let SourceBody::Pages(_) = &source.body else {
        return None;
    };
    let front = front_pages(source);
    let page = front.iter().find(|page| !page.lines.is_empty())?;
    let lines: Vec<_> = page
        .layout
        .iter()
        .take(TITLE_LINES)
        .filter(|line| line.text.chars().any(char::is_alphabetic))
        .collect();
    let mut sizes: Vec<_> = lines.iter().map(|line| line.style().size).collect();
    sizes.sort_unstable();
    let largest = *sizes.last()?;
    let middle = *sizes.get(sizes.len() / 2)?;
    if lines.len() > 3 && i64::from(largest.0) * 10 < i64::from(middle.0) * 11 {
        return None;
    }
    // Half a point (sizes are in hundredths) absorbs rounding between the lines of one title.
    let min = largest.0 - 50;
    let start = lines.iter().position(|line| line.style().size.0 >= min)?;
    let run = lines[start..]
        .iter()
        .take_while(|line| line.style().size.0 >= min)
        .take(4);
    let text = fold_title(
        &run.map(|line| line.text.as_str())
            .collect::<Vec<_>>()
            .join(" "),
    );
    Some(text).filter(|text| is_title(text))
}

/// The titles of the largest sections in reading order, without numbers such as `Item 1.`.
fn topics(tree: &SectionTree, count: usize, what: &str) -> Vec<String> {
    let mut candidates: Vec<&Section> = Vec::new();
    let lone = tree
        .sections
        .iter()
        .filter(|section| section.kind == SectionKind::Heading)
        .count()
        == 1;
    for section in &tree.sections {
        // A PART, or a single title above everything, says less than its sub-sections.
        let opened = !section.children.is_empty() && (lone || is_part(&section.title));
        if opened {
            candidates.extend(&section.children);
        } else {
            candidates.push(section);
        }
        if candidates.len() > MAX_CANDIDATES {
            break;
        }
    }
    candidates
        .retain(|section| section.kind == SectionKind::Heading && is_distinctive(&section.title));
    let mut largest: Vec<&Section> = candidates.clone();
    largest.sort_by_key(|section| (std::cmp::Reverse(section.tokens), section.id));
    largest.truncate(count);
    largest.sort_by_key(|section| section.id);
    let mut titles: Vec<String> = largest
        .iter()
        .map(|section| topic(&section.title))
        .collect();
    titles.retain(|title| !title.is_empty() && !what.contains(title.as_str()));
    titles.dedup();
    titles
}

fn is_part(title: &str) -> bool {
    title
        .split_whitespace()
        .next()
        .is_some_and(|word| word.eq_ignore_ascii_case("part"))
}

// Titles that nearly every document has do not describe it.
fn is_distinctive(title: &str) -> bool {
    let lower = title.to_lowercase();
    !COMMON_TITLES.starts(&lower) && !lower.contains("exhibits")
}

/// The title after `Item 1A.` or `2.3`, with all capitals changed to title case.
fn topic(title: &str) -> String {
    let number = first_number(title).filter(|number| {
        matches!(
            number.class,
            NumberClass::Item
                | NumberClass::Section
                | NumberClass::Article
                | NumberClass::Chapter
                | NumberClass::Note
                | NumberClass::Decimal(_)
        )
    });
    let rest = number.map_or("", |number| number.rest);
    let title = fold_title(if rest.is_empty() { title } else { rest });
    if title.chars().any(|c| c.is_lowercase()) {
        title
    } else {
        title_case(&title)
    }
}

/// `RISK FACTORS, PARTS II-III` → `Risk Factors, Parts II-III`.
fn title_case(title: &str) -> String {
    title
        .split(' ')
        .map(|word| {
            if is_numeral(word) {
                return word.to_owned();
            }
            let first = word.chars().next().map_or(0, char::len_utf8);
            format!("{}{}", &word[..first], word[first..].to_lowercase())
        })
        .collect::<Vec<_>>()
        .join(" ")
}

/// Whether a word in capitals has roman numerals only, such as `(II)` or `II-IV`.
// A numeral that titles number with; `MIX`, `CD` and `LI` are words.
fn is_numeral(word: &str) -> bool {
    const HIGHEST: u32 = 39;
    let mut runs = word
        .split(|c: char| !c.is_alphabetic())
        .filter(|run| !run.is_empty())
        .peekable();
    runs.peek().is_some()
        && runs.all(|run| parse_roman(run).is_some_and(|number| number <= HIGHEST))
}

#[cfg(test)]
mod tests {
    use super::super::fixture::finish;
    use super::super::fixture::{paged, text_tree, tree};
    use super::*;

    #[test]
    fn filing_description_uses_facts_and_largest_items() {
        let source = paged(&[
            "UNITED STATES\nSECURITIES AND EXCHANGE COMMISSION\nFORM 10-K\nFor the fiscal year ended December 31, 2022\n\
             Commission File Number 1-98765\nACME ANVILS\n(Exact name of registrant as specified in its charter)",
            "PART I\nITEM 1. BUSINESS\nWe make many anvils.\nItem 1A. Risk Factors\nThey fall on people.\nSIGNATURES\nSigned by me",
        ]);
        let entries = [
            (2, 0, 1, "PART I"),
            (2, 1, 2, "ITEM 1. BUSINESS"),
            (2, 3, 2, "Item 1A. Risk Factors"),
            (2, 5, 1, "SIGNATURES"),
        ];
        let tree = finish(
            tree(&source, &entries),
            &source,
            &SectionSettings::default(),
            &[],
        );
        insta::assert_snapshot!(tree.description.unwrap_or_default(), @"ACME ANVILS annual report on Form 10-K for fiscal year 2022 (ended 2022-12-31), 2 pages: Business, Risk Factors.");
    }

    #[test]
    fn roman_numerals_stay_in_capitals() {
        for (title, shown) in [
            ("RISK FACTORS", "Risk Factors"),
            (
                "SERIES III NOTES, (II) AND IV-VI",
                "Series III Notes, (II) And IV-VI",
            ),
            ("ITEM 7. PRODUCT MIX XIX", "Product Mix XIX"),
            ("CIVIL XXXX IIII", "Civil Xxxx Iiii"),
        ] {
            assert_eq!(topic(title), shown);
        }
    }

    #[test]
    fn document_description_uses_title() {
        let (mut source, tree) = text_tree(
            "# Anvil guide\n## Care\nOil it.\n## Use\nDrop it.",
            &[(1, 1, "Anvil guide"), (2, 2, "Care"), (4, 2, "Use")],
        );
        let described = |source: &Source| describe(&tree, source, &SectionSettings::default());
        assert_eq!(described(&source), "Anvil guide, 5 lines: Care, Use.");
        source
            .metadata
            .insert("title".into(), "Microsoft Word - guide.doc".into());
        assert_eq!(described(&source), "Anvil guide, 5 lines: Care, Use.");
        source
            .metadata
            .insert("title".into(), "The Complete Anvil".into());
        assert_eq!(
            described(&source),
            "The Complete Anvil, 5 lines: Care, Use."
        );
    }
}
