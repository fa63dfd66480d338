//! The truth about a generated filing, known by construction.

use serde_json::{Value, json};

/// A generated document with its truth.
#[derive(Debug, Clone, PartialEq)]
pub struct Filing {
    pub pdf: Vec<u8>,
    pub truth: Truth,
    pub facts: CoverFacts,
    /// Questions whose answer is on exactly one page.
    pub answers: Vec<PlantedAnswer>,
    /// The text of each page in reading order. Each printed line is a line (columns one after the other,
    /// cells of a table row joined by a space), with single spaces between words. Empty for a scanned page.
    pub page_texts: Vec<String>,
}

/// The structure of a generated document.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Truth {
    /// In reading order.
    pub nodes: Vec<HeadingTruth>,
    /// Number of physical pages.
    pub pages: u32,
    /// Printed number of each physical page; `None` if none is printed.
    pub printed: Vec<Option<String>>,
    /// Mentions of other sections, in reading order.
    pub references: Vec<ReferenceTruth>,
}

/// A heading.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeadingTruth {
    /// In one line, as printed.
    pub title: String,
    /// 1 is the highest.
    pub level: u16,
    /// Physical page (1-based) of its first line.
    pub page: u32,
    /// Whether only running heads precede it on its page.
    pub starts_page: bool,
    /// Distance of its first baseline from the top of the page, in hundredths of a point.
    pub baseline: u32,
}

/// A mention such as `Note 15` in running text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReferenceTruth {
    /// Physical page (1-based) on which it starts.
    pub page: u32,
    /// As written.
    pub text: String,
    /// Index of its target in [`Truth::nodes`].
    pub target: Option<usize>,
}

/// Facts on the first pages of a document.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CoverFacts {
    /// The registrant's name as printed.
    pub issuer: Option<String>,
    /// `10-K`, `10-Q`, `8-K`, `earnings_release`, `annual_report`.
    pub form: Option<String>,
    /// Four digits.
    pub fiscal_year: Option<String>,
    /// `FY`, `Q1` … `Q3`.
    pub fiscal_period: Option<String>,
    /// ISO 8601 date.
    pub period_end: Option<String>,
    /// Commission file number as printed.
    pub file_number: Option<String>,
    /// ISO 639-1.
    pub language: Option<String>,
}

/// A planted answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlantedAnswer {
    pub question: String,
    /// The words of the answer, as printed.
    pub answer: String,
    /// Physical page (1-based) on which the words start.
    pub page: u32,
    /// Index in [`Truth::nodes`] of the section that holds them.
    pub node: Option<usize>,
}

impl Truth {
    /// The truth in the format of the scoring tool: `{"doc","pages","source","scope","nodes":[{"title","level","page"}]}`.
    pub fn to_json(&self, doc: &str) -> Value {
        let nodes: Vec<Value> = self
            .nodes
            .iter()
            .map(|node| json!({"title": node.title, "level": node.level, "page": node.page}))
            .collect();
        json!({"doc": doc, "pages": self.pages, "source": "generated", "scope": "full", "nodes": nodes})
    }
}

impl CoverFacts {
    /// The facts that are known, by their stable names.
    pub fn to_json(&self) -> Value {
        let all = [
            ("company", &self.issuer),
            ("form", &self.form),
            ("fiscal_year", &self.fiscal_year),
            ("fiscal_period", &self.fiscal_period),
            ("period_end", &self.period_end),
            ("file_number", &self.file_number),
            ("language", &self.language),
        ];
        all.into_iter()
            .filter_map(|(name, fact)| fact.as_ref().map(|f| (name.to_owned(), json!(f))))
            .collect()
    }
}
