//! Classifies pages as financial statements and kinds of sections, by titles, rows and headings.

use std::collections::HashMap;
use std::sync::OnceLock;

use foldhash::fast::RandomState;

use crate::tokenizer::content_words;

/// A financial statement, or a kind of section.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PageClass {
    Balance,
    Income,
    CashFlow,
    /// Statement of changes in equity.
    Equity,
    Segments,
    Geography,
    Taxes,
    Legal,
    /// Acquisitions and divestitures.
    Deals,
    Restructuring,
    Debt,
    Leases,
    /// Management's discussion and analysis (MD&A).
    Discussion,
    Outlook,
    /// Reconciliation of non-GAAP figures.
    Reconciliation,
    Business,
    Risks,
    /// Cover page of a form.
    Cover,
    /// Shareholder votes.
    Votes,
    /// Changes of directors and officers.
    Officers,
}

impl PageClass {
    /// All classes, each with its code in the lexicon and index, and its display name.
    pub const ALL: [(PageClass, &str, &str); 20] = [
        (PageClass::Balance, "BS", "balance sheet"),
        (PageClass::Income, "IS", "income statement"),
        (PageClass::CashFlow, "CF", "cash flow statement"),
        (PageClass::Equity, "EQ", "equity statement"),
        (PageClass::Segments, "SEG", "segments"),
        (PageClass::Geography, "GEO", "geographic areas"),
        (PageClass::Taxes, "TAX", "income taxes"),
        (PageClass::Legal, "LEGAL", "legal proceedings"),
        (PageClass::Deals, "ACQ", "acquisitions"),
        (PageClass::Restructuring, "RESTR", "restructuring"),
        (PageClass::Debt, "DEBT", "debt"),
        (PageClass::Leases, "LEASE", "leases"),
        (PageClass::Discussion, "MDA", "discussion of results"),
        (PageClass::Outlook, "GUIDE", "outlook"),
        (PageClass::Reconciliation, "RECON", "reconciliation"),
        (PageClass::Business, "BUS", "business"),
        (PageClass::Risks, "RISK", "risk factors"),
        (PageClass::Cover, "COVER", "cover page"),
        (PageClass::Votes, "VOTE", "votes"),
        (PageClass::Officers, "OFFICER", "directors and officers"),
    ];

    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|(_, code, _)| *code == name)
            .map(|(class, ..)| class)
    }

    pub fn code(self) -> &'static str {
        Self::ALL
            .into_iter()
            .find(|(class, ..)| *class == self)
            .map_or("", |(_, code, _)| code)
    }

    pub fn display_name(self) -> &'static str {
        Self::ALL
            .into_iter()
            .find(|(class, ..)| *class == self)
            .map_or("", |(.., words)| words)
    }

    /// Whether it is one of the four financial statements.
    pub fn is_statement(self) -> bool {
        matches!(
            self,
            PageClass::Balance | PageClass::Income | PageClass::CashFlow | PageClass::Equity
        )
    }
}

/// How reliable a classification is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Confidence {
    /// Based on the section titles above the page only, or on a look-alike such as parent-only, pro forma or schedule.
    Weak,
    /// Based on title and rows of a statement, or on a heading on the page.
    Strong,
}

// A statement by its titles and row labels, matched after normalization.
struct StatementRule {
    class: PageClass,
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
        class: PageClass::Balance,
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
        class: PageClass::Income,
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
        class: PageClass::CashFlow,
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
        class: PageClass::Equity,
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

// Headings that announce a kind of section; `=` requires the whole line.
const HEADINGS: [(PageClass, &[&str]); 15] = [
    (PageClass::Segments, &["segment", "line of business"]),
    (
        PageClass::Geography,
        &["geographic", "by region", "geography"],
    ),
    (
        PageClass::Taxes,
        &["income tax", "tax rate", "provision for taxes"],
    ),
    (
        PageClass::Legal,
        &[
            "legal proceeding",
            "contingency",
            "litigation",
            "legal matter",
        ],
    ),
    (
        PageClass::Deals,
        &[
            "acquisition",
            "business combination",
            "divestiture",
            "held for sale",
            "discontinued operation",
            "merger",
        ],
    ),
    (PageClass::Restructuring, &["restructuring", "exit cost"]),
    (
        PageClass::Debt,
        &[
            "debt",
            "borrowing",
            "credit facility",
            "indebtedness",
            "credit agreement",
        ],
    ),
    (PageClass::Leases, &["lease"]),
    (
        PageClass::Discussion,
        &[
            "results of operations",
            "management's discussion",
            "operating results",
            "financial results",
            "consolidated results",
        ],
    ),
    (PageClass::Outlook, &["outlook", "guidance"]),
    (PageClass::Reconciliation, &["reconciliation", "non-gaap"]),
    (
        PageClass::Business,
        &[
            "item 1 business",
            "=overview",
            "=general",
            "=business",
            "description of business",
            "company overview",
        ],
    ),
    (PageClass::Risks, &["risk factors", "risks related"]),
    (
        PageClass::Votes,
        &[
            "submission of matters to a vote",
            "annual meeting",
            "results of voting",
        ],
    ),
    (
        PageClass::Officers,
        &[
            "departure of directors",
            "appointment of",
            "election of directors",
            "executive officers",
            "succession",
        ],
    ),
];

// A normalized phrase.
struct WordPattern {
    words: Vec<String>,
    is_whole_line: bool,
}

impl WordPattern {
    // `=general` matches a whole line only.
    fn new(text: &&str) -> Self {
        let (is_whole_line, text) = text
            .strip_prefix('=')
            .map_or((false, *text), |text| (true, text));
        Self {
            words: content_words(text),
            is_whole_line,
        }
    }

    fn matches(&self, line: &[&str]) -> bool {
        (0..line.len()).any(|at| self.matches_at(line, at))
    }

    fn matches_at(&self, line: &[&str], at: usize) -> bool {
        if self.is_whole_line {
            at == 0 && line == self.words
        } else {
            !self.words.is_empty()
                && line
                    .get(at..at + self.words.len())
                    .is_some_and(|part| part == self.words)
        }
    }
}

// Patterns of titles, rows and totals.
type StatementPatterns = (
    PageClass,
    Vec<WordPattern>,
    Vec<WordPattern>,
    Vec<WordPattern>,
);

// The tables above, tokenized once.
struct PatternTable {
    statements: Vec<StatementPatterns>,
    look_alikes: Vec<WordPattern>,
    // By first word; a page has many headings.
    headings: HashMap<String, Vec<(PageClass, WordPattern)>, RandomState>,
}

fn patterns() -> &'static PatternTable {
    static PATTERNS: OnceLock<PatternTable> = OnceLock::new();
    PATTERNS.get_or_init(|| PatternTable {
        statements: STATEMENTS
            .iter()
            .map(|one| {
                let [titles, rows, totals] = [one.titles, one.rows, one.totals].map(compile);
                (one.class, titles, rows, totals)
            })
            .collect(),
        look_alikes: compile(&LOOK_ALIKES),
        headings: heading_patterns(),
    })
}

fn heading_patterns() -> HashMap<String, Vec<(PageClass, WordPattern)>, RandomState> {
    let mut by_first: HashMap<String, Vec<(PageClass, WordPattern)>, RandomState> =
        HashMap::default();
    for (class, texts) in HEADINGS {
        for pattern in compile(texts) {
            if let Some(first) = pattern.words.first() {
                by_first
                    .entry(first.clone())
                    .or_default()
                    .push((class, pattern));
            }
        }
    }
    by_first
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
) -> Vec<(PageClass, Confidence)> {
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
        .map(|(class, ..)| (*class, confidence))
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

/// The classes that a heading or title announces, by its content words, in the order of [`PageClass`].
pub fn classes_of_heading(words: &[&str]) -> Vec<PageClass> {
    let mut classes: Vec<PageClass> = words
        .iter()
        .enumerate()
        .flat_map(|(at, word)| {
            let patterns = patterns().headings.get(*word).into_iter().flatten();
            patterns
                .filter(move |(_, pattern)| pattern.matches_at(words, at))
                .map(|(class, _)| *class)
        })
        .collect();
    classes.sort_unstable();
    classes.dedup();
    classes
}

/// Whether a page is the cover page of a form. `page` is 1-based.
pub fn is_cover(lines: &[&str], page: u32) -> bool {
    page <= 3
        && lines.iter().any(|line| {
            let line = line.to_lowercase();
            line.contains("securities registered pursuant to section 12")
                || line.contains("exact name of registrant")
        })
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

    fn classify(lines: &[&str], numbers: usize) -> Vec<(PageClass, Confidence)> {
        let tokens: Vec<_> = lines.iter().map(|line| TokenizedText::new(line)).collect();
        let words: Vec<_> = tokens
            .iter()
            .map(|line| line.content_words(&(0..99)))
            .collect();
        classify_statements(&words, &words, numbers)
    }

    fn announced(heading: &str) -> Vec<PageClass> {
        classes_of_heading(&TokenizedText::new(heading).content_words(&(0..heading.len())))
    }

    #[test]
    fn a_statement_has_a_title_rows_and_numbers() {
        assert_eq!(
            classify(&SHEET, 18),
            [(PageClass::Balance, Confidence::Strong)]
        );
        assert!(classify(&SHEET, 3).is_empty());
        assert!(classify(&SHEET[2..], 18).is_empty());
        let mut parent = SHEET.to_vec();
        parent[0] = "ACME Company (Parent Company Only)";
        assert_eq!(
            classify(&parent, 18),
            [(PageClass::Balance, Confidence::Weak)]
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
            [(PageClass::Income, Confidence::Strong)]
        );
    }

    #[test]
    fn headings_name_section_classes() {
        assert_eq!(
            announced("Note 17. Business Segments"),
            [PageClass::Segments]
        );
        assert_eq!(announced("NOTE 8 – Income Taxes"), [PageClass::Taxes]);
        assert!(announced("Signatures").is_empty());
    }

    #[test]
    fn toc_pages_are_recognized_by_rising_page_numbers() {
        let contents: Vec<String> = (1..10)
            .map(|n| format!("Item {n}. Something {n}"))
            .collect();
        let lines: Vec<&str> = contents.iter().map(String::as_str).collect();
        assert!(is_toc(&lines) && !is_toc(&SHEET));
        assert!(
            is_cover(&["Securities registered pursuant to Section 12(b)"], 1)
                && !is_cover(&["x"], 1)
        );
    }
}
