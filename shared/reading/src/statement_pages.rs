//! Recognizes pages of financial statements by titles and rows, and tables of contents.

use std::sync::OnceLock;

use crate::tokenizer::content_words;

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

// A statement by its titles and row labels, matched after normalization.
struct StatementRule {
    kind: StatementKind,
    titles: &'static [&'static str],
    rows: &'static [&'static str],
    // One of them closes the statement, or a page of it: a note that breaks a line down has the title and other rows.
    totals: &'static [&'static str],
}

// Fewer rows or numbers mean a page that only mentions the statement.
const MIN_ROWS: usize = 4;
const MIN_NUMBERS: usize = 15;
// The title is among the first lines of the page.
const TITLE_LINES: usize = 8;

const STATEMENTS: [StatementRule; 4] = [
    StatementRule {
        kind: StatementKind::Balance,
        titles: &[
            "balance sheet",
            "statement of financial position",
            "statement of financial condition",
            "statement of condition",
        ],
        rows: &[
            "total current assets",
            "total assets",
            "total current liabilities",
            "total liabilities",
            "retained earnings",
            "accounts payable",
            "total stockholders equity",
            "total shareholders equity",
            "total equity",
            "receivables",
            "inventories",
            "cash and cash equivalents",
            "goodwill",
            "long-term debt",
            "deposits",
            "accumulated other comprehensive",
        ],
        totals: &[
            "total assets",
            "total liabilities",
            "total equity",
            "total stockholders equity",
            "total shareholders equity",
            "total shareowners equity",
            "total liabilities and",
        ],
    },
    StatementRule {
        kind: StatementKind::Income,
        titles: &[
            "statement of income",
            "statement of operations",
            "statement of earnings",
            "income statement",
            "statement of consolidated income",
            "statement of consolidated operations",
            "statement of consolidated earnings",
            "statement of loss",
            "statement of comprehensive income",
            "statement of profit",
            "results of operations and comprehensive",
        ],
        rows: &[
            "net sales",
            "total revenue",
            "revenue",
            "total net revenue",
            "cost of sales",
            "cost of revenue",
            "cost of goods sold",
            "gross profit",
            "gross margin",
            "operating income",
            "income from operations",
            "earnings from operations",
            "operating profit",
            "interest expense",
            "income before",
            "earnings before",
            "provision for income taxes",
            "income tax expense",
            "net income",
            "net earnings",
            "net loss",
            "selling general administrative",
            "research development",
            "basic",
            "diluted",
            "total operating expenses",
            "total expenses",
        ],
        totals: &[
            "net income",
            "net earnings",
            "net loss",
            "net profit",
            "profit for the",
            "loss for the",
            "comprehensive income",
            "comprehensive loss",
        ],
    },
    StatementRule {
        kind: StatementKind::CashFlow,
        titles: &[
            "statement of cash flow",
            "cash flow statement",
            "statement of consolidated cash flow",
        ],
        rows: &[
            "operating activities",
            "investing activities",
            "financing activities",
            "depreciation",
            "purchases of property",
            "capital expenditures",
            "expenditures for property",
            "additions to property",
            "dividends",
            "repurchase",
            "purchase of treasury",
            "increase decrease in cash",
            "net change in cash",
            "effect of exchange",
            "cash and cash equivalents at",
            "proceeds",
        ],
        totals: &[
            "operating activities",
            "investing activities",
            "financing activities",
        ],
    },
    StatementRule {
        kind: StatementKind::Equity,
        titles: &[
            "statement of stockholders equity",
            "statement of shareholders equity",
            "statement of changes in stockholders equity",
            "statement of changes in shareholders equity",
            "statement of equity",
            "statement of changes in equity",
            "statement of shareholders investment",
        ],
        rows: &[
            "balance at",
            "balance december",
            "balance as of",
            "net income",
            "other comprehensive",
            "dividends",
            "repurchase",
            "stock-based compensation",
            "issuance of",
            "treasury",
            "noncontrolling",
        ],
        totals: &["balance"],
    },
];

// Longer lines are text that mentions the title.
const TITLE_WORDS: usize = 14;

// Words above statements that are not the filer's own for the period.
const LOOK_ALIKES: [&str; 12] = [
    "parent company",
    "parent only",
    "schedule",
    "guarantor",
    "guarantee",
    "pro forma",
    "condensed consolidating",
    "supplemental",
    "selected",
    "segment",
    "obligor",
    "deconsolidated",
];

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

// Patterns of titles, rows and totals.
type StatementPatterns = (
    StatementKind,
    Vec<WordPattern>,
    Vec<WordPattern>,
    Vec<WordPattern>,
);

// The tables above, tokenized once.
struct PatternTable {
    statements: Vec<StatementPatterns>,
    look_alikes: Vec<WordPattern>,
}

fn patterns() -> &'static PatternTable {
    static PATTERNS: OnceLock<PatternTable> = OnceLock::new();
    PATTERNS.get_or_init(|| PatternTable {
        statements: STATEMENTS
            .iter()
            .map(|one| {
                let [titles, rows, totals] = [one.titles, one.rows, one.totals].map(compile);
                (one.kind, titles, rows, totals)
            })
            .collect(),
        look_alikes: compile(&LOOK_ALIKES),
    })
}

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
    let weak = patterns()
        .look_alikes
        .iter()
        .any(|like| any_line(lines, like));
    let confidence = if weak {
        Confidence::Weak
    } else {
        Confidence::Strong
    };
    patterns()
        .statements
        .iter()
        .filter(|(_, titles, rows, totals): &&StatementPatterns| {
            titles.iter().any(|title| any_line(&head, title))
                && rows.iter().filter(|row| any_line(labels, row)).count() >= MIN_ROWS
                && totals.iter().any(|total| any_line(labels, total))
        })
        .map(|(kind, ..)| (*kind, confidence))
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
                .filter(|word| !matches!(*word, "consolid" | "condens"))
                .collect::<Vec<_>>()
        })
        .collect();
    let pairs: Vec<Vec<&str>> = short.windows(2).map(|pair| pair.concat()).collect();
    [short, pairs].concat()
}

/// Whether a page is a table of contents: most lines end in rising page numbers.
pub fn is_toc(lines: &[&str]) -> bool {
    let titled = lines.iter().take(TITLE_LINES).any(|line| {
        let lower = line.to_lowercase();
        lower.contains("table of contents") || matches!(lower.trim(), "contents" | "index")
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
