//! The Items of a filing: where the content of each Item of its form is, and how certain that is.

use serde::{Deserialize, Serialize};

use crate::{ByteSpan, PageNo, PageSpan, SectionId};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilingItem {
    /// Form, Part and number: `10-K.II.7A`, `10-Q.I.2`, `8-K.5.02`, `S-1.risk-factors`. Unique in a filing.
    pub id: String,
    /// Roman numeral; `None` on forms without Parts.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub part: Option<String>,
    /// `1A`, `7`, `5.02`; the name of a section that the form prescribes without a number: `risk-factors`.
    pub number: String,
    /// The title in the document, else the title of the form.
    pub title: String,
    pub status: ItemStatus,
    /// The section of its heading; `None` if absent or only named by an index.
    pub section: Option<SectionId>,
    /// The pages of that section; `None` in texts without pages.
    pub pages: Option<PageSpan>,
    /// The place of its text in the file; only in HTML.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub bytes: Option<ByteSpan>,
    /// o200k tokens of that section, including descendants.
    pub tokens: u32,
    /// Set if its heading, or the heading that ends it, was not found on the page. The section is then a best guess.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub boundary_unverifiable: bool,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub boundary: Option<Boundary>,
    /// Places of content outside of the section, in the order of their mention.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub content: Vec<ItemLink>,
}

/// How a document covers an Item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ItemStatus {
    /// Under its own heading, even if the content is short.
    Full,
    /// Heading without the expected content or a reference to it.
    Stub,
    /// Refers to another section, an exhibit or another document.
    ByReference,
    /// Shares a heading with other Items.
    Combined,
    /// Only listed in a cross-reference index with pages.
    CrossIndex,
    /// The filer has nothing to report: `None.`
    None,
    /// `Not applicable.`, `Not required for smaller reporting companies.`
    NotApplicable,
    /// `[Reserved]`
    Reserved,
    /// `Omitted pursuant to General Instruction I(2).`
    Omitted,
    Absent,
}

impl ItemStatus {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Stub => "stub",
            Self::ByReference => "by_reference",
            Self::Combined => "combined",
            Self::CrossIndex => "cross_index",
            Self::None => "none",
            Self::NotApplicable => "not_applicable",
            Self::Reserved => "reserved",
            Self::Omitted => "omitted",
            Self::Absent => "absent",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Boundary {
    pub heading: BoundaryEvidence,
    /// The next heading; `None` at the end of the document.
    pub next: Option<BoundaryEvidence>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BoundaryEvidence {
    /// White space collapsed, at most 120 characters.
    pub text: String,
    /// `None` in texts without pages.
    pub page: Option<PageNo>,
    /// 1-based line on the page or in the text.
    pub line: u32,
    /// Whether the line contains the number or the title.
    pub verified: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ItemLink {
    /// The reference as printed, white space collapsed, at most 120 characters.
    pub text: String,
    pub target: ItemTarget,
    /// The place referred to lies in the target and was not found itself.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub approximate: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ItemTarget {
    Section(SectionId),
    /// Physical pages.
    Pages(PageSpan),
    /// Outside of this document: `proxy statement`, `Exhibit 13`.
    Outside(String),
    /// A place in this document that was not found.
    Unresolved,
}

impl FilingItem {
    pub fn format_id(form: &str, part: Option<&str>, number: &str) -> String {
        match part {
            Some(part) => format!("{form}.{part}.{number}"),
            None => format!("{form}.{number}"),
        }
    }
}
