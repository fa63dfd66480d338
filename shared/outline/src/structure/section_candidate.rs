//! A section that the contents or the embedded outline announce.

use stemma_document::{Destination, EvidenceSource};

use super::numbering;
use super::titles::{self, TitleKeys};

/// An announced section that has not been located yet.
#[derive(Debug, Clone)]
pub(crate) struct SectionCandidate {
    pub(crate) title: String,
    pub(crate) prepared: TitleKeys,
    pub(crate) number: Option<String>,
    /// 1 is the highest.
    pub(crate) level: u16,
    pub(crate) printed: Option<String>,
    pub(crate) target: Option<Destination>,
    /// Page (from 0) with the printed label.
    pub(crate) predicted: Option<u32>,
    pub(crate) evidence: EvidenceSource,
    /// First and last index in the list of the form, for a PART or an Item.
    pub(crate) keys: Option<(usize, usize)>,
}

impl SectionCandidate {
    pub(crate) fn new(title: &str, evidence: EvidenceSource) -> Self {
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

    pub(crate) fn target_page(&self) -> Option<u32> {
        self.target.map(|target| target.page.get() - 1)
    }

    /// The announced page (from 0): the page of the link, otherwise of the label.
    pub(crate) fn page(&self) -> Option<u32> {
        self.target_page().or(self.predicted)
    }
}
