//! The registrants of a combined filing: several names on one cover.
//!
//! Covers list them in a table of file numbers, repeat the caption of the name for each, or stack the names above one caption.
//! In each case the first name is the registrant of the filing.

use stemma_document::CoRegistrant;
use stemma_document::text::normalize_key;
use stemma_reading::vocabulary::{INDEFINITE_ARTICLES, KINDS_OF_COMPANIES};

use super::cover_page::{file_number, irs_number, parse_place, state};
use super::front_page::FrontPage;
use super::identifiers::{parse_file_number, parse_irs_number};
use super::registrant::{
    clean_name, ends_with_legal_form, is_caption, is_name, name_by_caption, registrant_in_row,
};

const MAX_REGISTRANTS: usize = 40;
// Lines of a name, its file number, state and tax number.
const BLOCK_LINES: usize = 12;

/// The registrants of a cover that names several, the first one included; else empty.
pub(super) fn registrants(cover: &FrontPage<'_>) -> Vec<CoRegistrant> {
    let captions: Vec<usize> = (0..cover.keys.len())
        .filter(|at| is_caption(&cover.keys[*at]))
        .collect();
    let Some(&first) = captions.first() else {
        return Vec::new();
    };
    let mut registrants = in_table(cover, first);
    if registrants.len() < 2 {
        registrants = with_own_captions(cover, &captions);
    }
    if registrants.len() < 2 {
        registrants = stacked(cover, first);
    }
    let mut names: Vec<String> = Vec::new();
    registrants.retain(|registrant| {
        let name = normalize_key(&registrant.name.value);
        let new = !names.contains(&name);
        names.push(name);
        new
    });
    registrants.truncate(MAX_REGISTRANTS);
    if registrants.len() < 2 {
        registrants.clear();
    }
    registrants
}

/// Rows `1-3526  The Example Company (A Delaware Corporation)  58-0690070`.
fn in_table(cover: &FrontPage<'_>, caption: usize) -> Vec<CoRegistrant> {
    let rows = cover.lines.iter().enumerate().skip(caption + 1);
    rows.filter_map(|(at, line)| {
        let (number, name) = registrant_in_row(line)?;
        let below = cover.lines.get(at + 1).copied().unwrap_or_default();
        Some(CoRegistrant {
            name: cover.fact(clean_name(&name)).with_evidence(line),
            file_number: Some(number),
            irs_number: line.split_whitespace().rev().find_map(parse_irs_number),
            state: [line, below].into_iter().find_map(state_in_brackets),
        })
    })
    .collect()
}

/// `Delaware` of `(A Delaware Corporation)`.
fn state_in_brackets(line: &str) -> Option<String> {
    let (_, behind) = line.split_once('(')?;
    let (inside, _) = behind.split_once(')')?;
    let inside = inside.trim();
    let (_, place) = inside
        .split_once(' ')
        .filter(|(article, _)| INDEFINITE_ARTICLES.contains(&article.to_lowercase()))?;
    let words: Vec<&str> = place.split_whitespace().collect();
    let kind = words
        .iter()
        .position(|word| KINDS_OF_COMPANIES.contains(&normalize_key(word)))?;
    parse_place(&words[..kind].join(" "))
}

/// Each name has its own caption and its own numbers.
fn with_own_captions(cover: &FrontPage<'_>, captions: &[usize]) -> Vec<CoRegistrant> {
    let names: Vec<Option<String>> = captions
        .iter()
        .map(|caption| name_by_caption(cover, *caption, None))
        .collect();
    captions
        .iter()
        .zip(names)
        .enumerate()
        .filter_map(|(index, (caption, name))| {
            let name = clean_name(&name?);
            let next = captions
                .get(index + 1)
                .map_or(cover.lines.len(), |next| next - 1);
            let end = next.min(caption + BLOCK_LINES);
            let lines = cover.lines[*caption..end.max(*caption)].to_vec();
            let block = FrontPage::new(cover.page, lines, Vec::new());
            Some(CoRegistrant {
                name: cover.fact(name.clone()).with_evidence(&name),
                file_number: file_number(&block),
                irs_number: irs_number(&block),
                state: state(&block),
            })
        })
        .collect()
}

/// Names on consecutive lines above one caption, each with a legal form at its end. Numbers belong to them in their order
/// if there is one for each.
fn stacked(cover: &FrontPage<'_>, caption: usize) -> Vec<CoRegistrant> {
    let lines = &cover.lines[..caption];
    let count = lines
        .iter()
        .rev()
        .take_while(|line| is_name(line) && ends_with_legal_form(line))
        .count();
    let names = &lines[lines.len() - count..];
    let words = || cover.lines.iter().flat_map(|line| line.split_whitespace());
    let in_order = |numbers: Vec<String>| {
        let fits = numbers.len() == names.len();
        move |at: usize| numbers.get(at).filter(|_| fits).cloned()
    };
    let file_numbers = in_order(words().filter_map(parse_file_number).collect());
    let irs_numbers = in_order(words().filter_map(parse_irs_number).collect());
    names
        .iter()
        .enumerate()
        .map(|(at, line)| CoRegistrant {
            name: cover.fact(clean_name(line)).with_evidence(line),
            file_number: file_numbers(at),
            irs_number: irs_numbers(at),
            state: None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::facts::extract_facts;
    use super::super::fixture::paged;

    const TOP: &str = "UNITED STATES\nSECURITIES AND EXCHANGE COMMISSION\nWashington, D.C. 20549\nFORM 10-Q\n\
                       For the quarterly period ended September 30, 2020\n";

    fn render(cover: &str) -> String {
        let facts = extract_facts(&paged(&[&format!("{TOP}{cover}")]));
        let first = [
            &facts.issuer,
            &facts.file_number,
            &facts.irs_number,
            &facts.state,
        ]
        .map(|fact| fact.as_ref().map_or("-", |fact| fact.value.as_str()))
        .join(" | ");
        let others = facts.co_registrants.iter().map(|other| {
            let number = |value: &Option<String>| value.clone().unwrap_or_else(|| "-".into());
            format!(
                "\n{} | {} | {} | {}",
                other.name.value,
                number(&other.file_number),
                number(&other.irs_number),
                number(&other.state)
            )
        });
        first + &others.collect::<String>()
    }

    #[test]
    fn registrants_of_a_table() {
        let cover = "Commission Exact name of registrant as specified in its charter; I.R.S. Employer\n\
             File Number State or other jurisdiction of incorporation Identification No.\n\
             1-3526 The Example Power Company (A Delaware Corporation) 58-0690070\n1 Anvil Street\n\
             1-3164 Example Light Company (An Alabama Corporation) 63-0004250";
        insta::assert_snapshot!(render(cover), @r"
        The Example Power Company | 1-3526 | 58-0690070 | Delaware
        Example Light Company | 1-3164 | 63-0004250 | Alabama
        ");
    }

    #[test]
    fn registrants_with_own_captions() {
        let cover = "EXAMPLE HOLDINGS, INC.\n(Exact name of registrant as specified in its charter)\nMaryland 001-10001 12-3456789\n\
             (State or other jurisdiction (Commission (I.R.S. Employer\nof incorporation) File Number) Identification No.)\n\
             EXAMPLE OPERATING, L.P.\n(Exact name of registrant as specified in its charter)\nDelaware 001-10002 12-3456780\n\
             (State or other jurisdiction (Commission (I.R.S. Employer\nof incorporation) File Number) Identification No.)";
        insta::assert_snapshot!(render(cover), @r"
        EXAMPLE HOLDINGS, INC. | 001-10001 | 12-3456789 | Maryland
        EXAMPLE OPERATING, L.P. | 001-10002 | 12-3456780 | Delaware
        ");
    }

    #[test]
    fn stacked_registrants_are_not_melted() {
        let cover = "Commission file number 001-10001\nCommission file number 001-10002\nEXAMPLE TRUST, INC.\nEXAMPLE OPERATING, L.P.\n\
             (Exact name of registrants as specified in their charters)";
        insta::assert_snapshot!(render(cover), @r"
        EXAMPLE TRUST, INC. | 001-10001 | - | -
        EXAMPLE OPERATING, L.P. | 001-10002 | - | -
        ");
    }

    #[test]
    fn name_on_two_lines_is_one_registrant() {
        let cover = "THE EXAMPLE ANVIL\nCOMPANY, INC.\n(Exact name of registrant as specified in its charter)";
        insta::assert_snapshot!(render(cover), @"THE EXAMPLE ANVIL COMPANY, INC. | - | - | -");
    }
}
