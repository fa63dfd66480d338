//! Recognizes pages of financial statements by titles and rows, and tables of contents.

use std::sync::LazyLock;

use stemma_document::text::normalize_key;

use crate::tokenizer::content_words;
use crate::vocabulary::{
    self, CONTENTS_LINKS, CONTENTS_TITLES, LOOK_ALIKES, STATEMENT_ADJECTIVES, WordList,
};

/// One of the four financial statements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StatementKind {
    Balance,
    Income,
    CashFlow,
    /// Statement of changes in equity.
    Equity,
}

impl StatementKind {
    /// All kinds, each with its code in the lexicon and index, and its display name.
    pub const ALL: [(StatementKind, &str, &str); 4] = [
        (StatementKind::Balance, "BS", "balance sheet"),
        (StatementKind::Income, "IS", "income statement"),
        (StatementKind::CashFlow, "CF", "cash flow statement"),
        (StatementKind::Equity, "EQ", "equity statement"),
    ];

    pub fn from_code(code: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|(_, known, _)| *known == code)
            .map(|(kind, ..)| kind)
    }

    pub fn code(self) -> &'static str {
        Self::ALL
            .into_iter()
            .find(|(kind, ..)| *kind == self)
            .map_or("", |(_, code, _)| code)
    }

    pub fn display_name(self) -> &'static str {
        Self::ALL
            .into_iter()
            .find(|(kind, ..)| *kind == self)
            .map_or("", |(.., words)| words)
    }
}

/// How reliable a classification is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Confidence {
    /// A look-alike such as parent-only, pro forma or schedule.
    Weak,
    /// Has the title and the rows of a statement.
    Strong,
}

// Fewer rows or numbers mean a page that only mentions the statement.
const MIN_ROWS: usize = 4;
const MIN_NUMBERS: usize = 15;
// The title is among the first lines of the page.
const TITLE_LINES: usize = 8;

// Longer lines are text that mentions the title.
const TITLE_WORDS: usize = 14;

// A normalized phrase.
struct WordPattern(Vec<String>);

impl WordPattern {
    fn new(text: &&str) -> Self {
        Self(content_words(text))
    }

    fn matches(&self, line: &[&str]) -> bool {
        let Self(words) = self;
        !words.is_empty()
            && line
                .windows(words.len())
                .any(|part| part == words.as_slice())
    }
}

// A statement by its titles, rows and totals.
struct StatementRule {
    kind: StatementKind,
    titles: Vec<WordPattern>,
    rows: Vec<WordPattern>,
    totals: Vec<WordPattern>,
}

impl StatementRule {
    fn new(kind: StatementKind, titles: &WordList, rows: &WordList, totals: &WordList) -> Self {
        Self {
            kind,
            titles: compile(titles),
            rows: compile(rows),
            totals: compile(totals),
        }
    }
}

static RULES: LazyLock<[StatementRule; 4]> = LazyLock::new(|| {
    use StatementKind::{Balance, CashFlow, Equity, Income};
    use vocabulary as words;
    [
        StatementRule::new(
            Balance,
            &words::BALANCE_TITLES,
            &words::BALANCE_ROWS,
            &words::BALANCE_TOTALS,
        ),
        StatementRule::new(
            Income,
            &words::INCOME_TITLES,
            &words::INCOME_ROWS,
            &words::INCOME_TOTALS,
        ),
        StatementRule::new(
            CashFlow,
            &words::CASH_FLOW_TITLES,
            &words::CASH_FLOW_ROWS,
            &words::CASH_FLOW_TOTALS,
        ),
        StatementRule::new(
            Equity,
            &words::EQUITY_TITLES,
            &words::EQUITY_ROWS,
            &words::EQUITY_TOTALS,
        ),
    ]
});
static LOOK_ALIKE_PATTERNS: LazyLock<Vec<WordPattern>> = LazyLock::new(|| compile(&LOOK_ALIKES));

fn compile(texts: &[&str]) -> Vec<WordPattern> {
    texts.iter().map(WordPattern::new).collect()
}

/// The first lines of a page that [`classify_statements`] looks at.
pub const STATEMENT_LINES: usize = TITLE_LINES + 4;

/// Classifies a page by its first [`STATEMENT_LINES`] without running heads, the labels of its rows, and the count of its
/// `numbers`: a title among the first lines, enough rows, and enough numbers. Lines and labels are content words.
pub fn classify_statements(
    lines: &[Vec<&str>],
    labels: &[Vec<&str>],
    numbers: usize,
) -> Vec<(StatementKind, Confidence)> {
    if numbers < MIN_NUMBERS {
        return Vec::new();
    }
    let head = title_candidates(&lines[..lines.len().min(TITLE_LINES)]);
    let weak = LOOK_ALIKE_PATTERNS.iter().any(|like| any_line(lines, like));
    let confidence = if weak {
        Confidence::Weak
    } else {
        Confidence::Strong
    };
    RULES
        .iter()
        .filter(|rule| {
            rule.titles.iter().any(|title| any_line(&head, title))
                && rule.rows.iter().filter(|row| any_line(labels, row)).count() >= MIN_ROWS
                && rule.totals.iter().any(|total| any_line(labels, total))
        })
        .map(|rule| (rule.kind, confidence))
        .collect()
}

fn any_line(lines: &[Vec<&str>], pattern: &WordPattern) -> bool {
    lines.iter().any(|line| pattern.matches(line))
}

// Short lines and pairs of neighbors, because a title may wrap. "Consolidated" and "condensed" appear in all titles.
fn title_candidates<'w>(lines: &[Vec<&'w str>]) -> Vec<Vec<&'w str>> {
    let short: Vec<Vec<&str>> = lines
        .iter()
        .filter(|line| line.len() <= TITLE_WORDS)
        .map(|line: &Vec<&str>| {
            line.iter()
                .copied()
                .filter(|word| !STATEMENT_ADJECTIVES.contains(word))
                .collect::<Vec<_>>()
        })
        .collect();
    let pairs: Vec<Vec<&str>> = short.windows(2).map(|pair| pair.concat()).collect();
    [short, pairs].concat()
}

/// Whether a page is a table of contents: most lines end in rising page numbers.
pub fn is_toc(lines: &[&str]) -> bool {
    let titled = lines.iter().take(TITLE_LINES).any(|line| {
        let key = normalize_key(line);
        CONTENTS_TITLES.contains(&key) || CONTENTS_LINKS.occurs_in(&key)
    });
    let numbers: Vec<u32> = lines
        .iter()
        .filter_map(|line: &&str| -> Option<u32> {
            let (text, last) = line.trim_end().rsplit_once(char::is_whitespace)?;
            let digits = line.bytes().filter(u8::is_ascii_digit).count();
            (last.len() <= 4 && digits <= 8 && text.contains(char::is_alphabetic))
                .then(|| last.parse().ok())?
        })
        .collect();
    let rising = numbers.windows(2).filter(|pair| pair[0] <= pair[1]).count();
    let ordered = rising * 5 >= numbers.len().saturating_sub(1) * 4;
    numbers.len() >= 6
        && ordered
        && (numbers.len() * 2 > lines.len() || titled && numbers.len() * 3 > lines.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokenizer::TokenizedText;

    const SHEET: [&str; 12] = [
        "ACME Company and Subsidiaries",
        "Consolidated Balance Sheets",
        "(in millions)",
        "2022 2021",
        "Cash and cash equivalents $ 10 $ 11",
        "Inventories 3 4",
        "Total current assets 20 22",
        "Total assets 90 95",
        "Accounts payable 5 6",
        "Total current liabilities 9 8",
        "Total liabilities 40 41",
        "Total equity 50 54",
    ];

    fn classify(lines: &[&str], numbers: usize) -> Vec<(StatementKind, Confidence)> {
        let tokens: Vec<_> = lines.iter().map(|line| TokenizedText::new(line)).collect();
        let words: Vec<_> = tokens
            .iter()
            .map(|line| line.content_words(&(0..99)))
            .collect();
        classify_statements(&words, &words, numbers)
    }

    #[test]
    fn a_statement_has_a_title_rows_and_numbers() {
        assert_eq!(
            classify(&SHEET, 18),
            [(StatementKind::Balance, Confidence::Strong)]
        );
        assert!(classify(&SHEET, 3).is_empty());
        assert!(classify(&SHEET[2..], 18).is_empty());
        let mut parent = SHEET.to_vec();
        parent[0] = "ACME Company (Parent Company Only)";
        assert_eq!(
            classify(&parent, 18),
            [(StatementKind::Balance, Confidence::Weak)]
        );
    }

    #[test]
    fn a_table_that_breaks_down_a_line_is_no_statement() {
        let note = [
            "Effects on the Consolidated Statements of Income",
            "(in millions) 2022 2021",
            "Cost of sales $ 14 $ 20",
            "Selling, general and administrative 8 9",
            "Research and development 3 4",
            "Operating income 25 33",
        ];
        assert!(classify(&note, 18).is_empty());
        let whole = [&note[..], &["Net income 20 26"]].concat();
        assert_eq!(
            classify(&whole, 18),
            [(StatementKind::Income, Confidence::Strong)]
        );
    }

    #[test]
    fn toc_pages_are_recognized_by_rising_page_numbers() {
        let contents: Vec<String> = (1..10)
            .map(|n| format!("Item {n}. Something {n}"))
            .collect();
        let lines: Vec<&str> = contents.iter().map(String::as_str).collect();
        assert!(is_toc(&lines) && !is_toc(&SHEET));
    }
}
