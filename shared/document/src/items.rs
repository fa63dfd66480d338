//! The Item map of a filing: each Item of its form, where its content stands, and how sure that is.

use serde::{Deserialize, Serialize};

use crate::{PageNo, PageSpan, SectionId};

/// One Item of the form a filing is on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilingItem {
    /// Form, Part and number: `10-K.II.7A`, `10-Q.I.2`, `8-K.5.02`. Unique in the map.
    pub id: String,
    /// The Part, in roman numerals; `None` on forms without Parts.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub part: Option<String>,
    /// The number: `1A`, `7`, `5.02`.
    pub number: String,
    /// Its title: as the document has it behind the number, else as the form has it.
    pub title: String,
    /// How the document answers the Item.
    pub status: ItemStatus,
    /// What stands there instead of an answer, where the filer says that there is none to give.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[serde(rename = "nothing")]
    pub empty_reason: Option<EmptyReason>,
    /// The section under its heading; `None` when absent or when only an index names it.
    pub section: Option<SectionId>,
    /// First and last page of that section; `None` in texts without pages.
    pub pages: Option<PageSpan>,
    /// Tokens under its heading, sub-sections included (o200k).
    pub tokens: u32,
    /// Whether the document does not bear out where the Item starts or ends: its heading, or the heading that ends it,
    /// was not found on paper. The section is then the best there is, not an answer.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub boundary_unverifiable: bool,
    /// What bears its boundary out.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub boundary: Option<Boundary>,
    /// Where the content is, when it is not under the heading: in the order the text names them.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub content: Vec<ItemLink>,
}

/// How a document answers an Item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ItemStatus {
    /// Under its own heading, also when the answer is short or that there is none (see [`FilingItem::empty_reason`]).
    Full,
    /// Its heading is there, the content one expects is not, and nothing says where it is.
    Stub,
    /// Its text sends the reader to another place: another section, an exhibit, another document.
    ByReference,
    /// One heading stands for several Items.
    Combined,
    /// No heading of its own: a cross-reference index says on which pages it is answered.
    CrossIndex,
    /// The form asks for it and the document does not have it.
    Absent,
}

/// What a filer says who has nothing to say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EmptyReason {
    /// `None.`
    None,
    /// `Not applicable.`, `Not required for smaller reporting companies.`
    NotApplicable,
    /// `[Reserved]`
    Reserved,
    /// `Omitted pursuant to General Instruction I(2).`
    Omitted,
}

/// The two headings between which an Item stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Boundary {
    /// Its heading.
    pub heading: BoundaryEvidence,
    /// The heading that ends it; `None` at the end of the document.
    pub next: Option<BoundaryEvidence>,
}

/// A heading on paper.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BoundaryEvidence {
    /// The line as printed, white space folded, at most 120 characters.
    pub text: String,
    /// The page; `None` in texts without pages.
    pub page: Option<PageNo>,
    /// Number of the line on its page, or in the text, from 1.
    pub line: u32,
    /// Whether that line is the heading: its number or its title stands there.
    pub verified: bool,
}

/// Where content of an Item is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ItemLink {
    /// The words that say so, white space folded, at most 120 characters.
    pub text: String,
    /// What they lead to.
    pub target: ItemTarget,
}

/// What a reference of an Item leads to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ItemTarget {
    /// A section of this document.
    Section(SectionId),
    /// Pages of this document, physical.
    Pages(PageSpan),
    /// Something this document does not have: `proxy statement`, `Exhibit 13`.
    Outside(String),
    /// A place of this document that was not found.
    Unresolved,
}

impl FilingItem {
    /// Form, Part and number as one name.
    pub fn format_id(form: &str, part: Option<&str>, number: &str) -> String {
        match part {
            Some(part) => format!("{form}.{part}.{number}"),
            None => format!("{form}.{number}"),
        }
    }
}
