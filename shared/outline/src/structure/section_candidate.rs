//! A section that the contents or the embedded outline announce.

use stemma_document::{Destination, EvidenceSource};

use super::numbering;
use super::titles::{self, TitleKeys};

/// An announced section that has not been located yet.
#[derive(Debug, Clone)]
pub(super) struct SectionCandidate {
    pub(super) title: String,
    pub(super) prepared: TitleKeys,
    pub(super) number: Option<String>,
    /// 1 is the highest.
    pub(super) level: u16,
    pub(super) printed: Option<String>,
    pub(super) target: Option<Destination>,
    /// Page (from 0) with the printed label.
    pub(super) predicted: Option<u32>,
    pub(super) evidence: EvidenceSource,
    /// First and last index in the list of the form, for a PART or an Item.
    pub(super) keys: Option<(usize, usize)>,
}

impl SectionCandidate {
    pub(super) fn new(title: &str, evidence: EvidenceSource) -> Self {
        let title = titles::fold_whitespace(titles::truncate_bytes(title, 400));
        let number = numbering::leading_number(&title);
        let prepared = TitleKeys::new(&title);
        Self {
            prepared,
            number,
            level: 1,
            printed: None,
            target: None,
            predicted: None,
            evidence,
            keys: None,
            title,
        }
    }

    pub(super) fn target_page(&self) -> Option<u32> {
        self.target.map(|target| target.page.get() - 1)
    }

    /// The announced page (from 0): that of the link, otherwise that of the label.
    pub(super) fn page(&self) -> Option<u32> {
        self.target_page().or(self.predicted)
    }
}
