//! Outlines that a person corrected: their text form, the search for their titles in the document, and the draft of the tree.
//!
//! A person is a witness like others: a title counts as verified only where it is found. A heading that is not printed as
//! such must be marked, and stays unverified.

mod outline_text;
mod places;

use serde::{Deserialize, Serialize};
use stemma_document::{Extent, Section, SectionKind, SectionSpan, SectionTree, Source};

pub use outline_text::{LineError, OutlineText, parse, print};
pub use places::{check, draft};

use places::PlaceFinder;

/// The headings that a person gave a document, in reading order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Correction {
    pub headings: Vec<CorrectedHeading>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CorrectedHeading {
    /// 1 is the top level.
    pub level: u16,
    /// Page, or line of a text without pages; from 1.
    pub at: u32,
    /// Line of the page, from 1. Needed only where the title alone does not tell the line.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub line: Option<u32>,
    pub claim: HeadingClaim,
    pub title: String,
}

/// What a person says about a heading.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HeadingClaim {
    /// The document prints the title there.
    Printed,
    /// The section begins there, but its title is not printed as written here.
    Unverified,
    /// Text before a first heading.
    Preface,
    /// Pages, or a part of a text, without a heading.
    Window,
}

impl Correction {
    /// The sections of a tree as a person may edit them. A title that is not found where the tree has it is marked as
    /// unverified.
    pub fn from_tree(tree: &SectionTree, source: &Source) -> Self {
        let finder = PlaceFinder::new(source);
        let sections: Vec<(usize, &Section)> = tree.walk().collect();
        let mut headings: Vec<CorrectedHeading> = sections
            .iter()
            .map(|(depth, section)| heading(*depth, section))
            .collect();
        let found = finder.find_all(&headings);
        for ((heading, place), (_, section)) in headings.iter_mut().zip(found).zip(&sections) {
            let SectionSpan::Pages { from, .. } = section.span else {
                if heading.claim == HeadingClaim::Printed && place.is_none() {
                    heading.claim = HeadingClaim::Unverified;
                }
                continue;
            };
            // The first section of a document begins at the very top, even if its heading is further down.
            let is_first = section.id.0 == 0 && from.line == 0;
            if place.is_some_and(|place| place.line == from.line || is_first) {
                continue;
            }
            heading.line = Some(from.line + 1);
            if finder.find_all(std::slice::from_ref(heading))[0].is_none() {
                heading.claim = match heading.claim {
                    HeadingClaim::Printed => HeadingClaim::Unverified,
                    other => other,
                };
            }
        }
        Self { headings }
    }
}

fn heading(depth: usize, section: &Section) -> CorrectedHeading {
    let at = match section.span {
        SectionSpan::Pages { from, .. } => from.page.get(),
        SectionSpan::Lines { start, .. } => start,
    };
    let claim = match section.kind {
        SectionKind::Preface => HeadingClaim::Preface,
        SectionKind::Window => HeadingClaim::Window,
        SectionKind::Heading if section.verified => HeadingClaim::Printed,
        SectionKind::Heading => HeadingClaim::Unverified,
    };
    CorrectedHeading {
        level: u16::try_from(depth).unwrap_or(u16::MAX),
        at,
        line: None,
        claim,
        title: outline_text::clean_title(&section.title),
    }
}

fn unit(extent: Extent) -> &'static str {
    match extent {
        Extent::Pages(_) => "page",
        Extent::Lines(_) => "line",
    }
}

#[cfg(test)]
mod tests;
