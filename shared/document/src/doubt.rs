//! How far a section tree should be doubted, and why.

use serde::{Deserialize, Serialize};

use crate::{PageSpan, SectionId};

/// The doubt about a tree: 0 if nothing speaks against it, 1 if it says nothing about the document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Doubt {
    /// 0–1, rounded to 0.01. Documents compare by it; it is not a probability.
    pub score: f32,
    /// Strongest first; empty if nothing is doubtful.
    pub reasons: Vec<DoubtReason>,
}

/// One reason to doubt a tree.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DoubtReason {
    pub code: DoubtCode,
    /// Share of the document, of its sections, or of the lines that look like headings that it concerns (0–1, rounded to
    /// 0.01).
    pub share: f32,
    /// The worst place.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub section: Option<SectionId>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub pages: Option<PageSpan>,
    /// One sentence, lower case, no full stop.
    pub detail: String,
}

/// Kind of a [`DoubtReason`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DoubtCode {
    /// Lines that look like headings are not in the tree.
    PassedOver,
    /// Headings of one level look different.
    MixedLooks,
    /// Windows of pages replace sections.
    Windows,
    /// Sections without sub-sections are larger than a prompt should be.
    LargeLeaf,
    /// A heading known only by its layout holds most of the document.
    DominantSection,
    /// Numbers of siblings are missing.
    NumberingGap,
    /// Sections consist of little more than their heading.
    TinySections,
    /// There are few sections for so many pages.
    FewSections,
    /// Titles that the document announces were not found.
    TitlesNotFound,
    /// Pages could not be read fully.
    PageDefects,
}

impl DoubtCode {
    pub const ALL: [DoubtCode; 10] = [
        DoubtCode::PassedOver,
        DoubtCode::MixedLooks,
        DoubtCode::Windows,
        DoubtCode::LargeLeaf,
        DoubtCode::DominantSection,
        DoubtCode::NumberingGap,
        DoubtCode::TinySections,
        DoubtCode::FewSections,
        DoubtCode::TitlesNotFound,
        DoubtCode::PageDefects,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            DoubtCode::PassedOver => "passed_over",
            DoubtCode::MixedLooks => "mixed_looks",
            DoubtCode::Windows => "windows",
            DoubtCode::LargeLeaf => "large_leaf",
            DoubtCode::DominantSection => "dominant_section",
            DoubtCode::NumberingGap => "numbering_gap",
            DoubtCode::TinySections => "tiny_sections",
            DoubtCode::FewSections => "few_sections",
            DoubtCode::TitlesNotFound => "titles_not_found",
            DoubtCode::PageDefects => "page_defects",
        }
    }
}
