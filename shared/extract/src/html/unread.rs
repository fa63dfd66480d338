//! What of a file is not read: pictures, and text that is not displayed.

use stemma_document::{Defect, PageNo};

use super::encoding::defect;
use super::hidden::HiddenPart;

// Square points. Smaller pictures keep a place free, or are marks of a list and lines.
const MIN_AREA: f32 = 1_200.0;
// Smaller pictures are logos and signatures, and not a page.
const MIN_LARGE_AREA: f32 = 12_000.0;
// Words of a page that a picture may hold the rest of.
const FEW_WORDS: usize = 40;
// Pages that are named one by one.
const MAX_PAGES: usize = 100;

/// What was not read before a line.
#[derive(Debug, Clone, Default)]
pub(super) struct Unread {
    pub(super) hidden: Vec<HiddenPart>,
    pictures: u32,
    // Those that may be as large as a page.
    large: u32,
}

impl Unread {
    /// Adds a picture, with its size in points if the file says it.
    pub(super) fn add_picture(&mut self, width: Option<f32>, height: Option<f32>) {
        // A picture with one known side may be a square, or large.
        let area = width
            .or(height)
            .zip(height.or(width))
            .map(|(width, height)| width * height);
        let is_whole = width.is_some() && height.is_some();
        let is_large =
            area.is_none_or(|area| area >= MIN_LARGE_AREA || area >= MIN_AREA && !is_whole);
        self.pictures += u32::from(area.is_none_or(|area| area >= MIN_AREA));
        self.large += u32::from(is_large);
    }

    pub(super) fn append(&mut self, other: &mut Self) {
        self.hidden.append(&mut other.hidden);
        self.pictures += std::mem::take(&mut other.pictures);
        self.large += std::mem::take(&mut other.large);
    }
}

/// What was not read, by page.
#[derive(Debug, Default)]
pub(super) struct UnreadByPage {
    pub(super) hidden: Vec<(PageNo, HiddenPart)>,
    pictures: u32,
    // Large pictures where there are few words.
    bare: Vec<(Option<PageNo>, u32)>,
}

impl UnreadByPage {
    /// Adds what was not read on a page with a number of words; hidden text of a page without any is left in `unread`.
    pub(super) fn add(&mut self, page: Option<PageNo>, unread: &mut Unread, words: usize) {
        self.pictures += std::mem::take(&mut unread.pictures);
        let large = std::mem::take(&mut unread.large);
        if large > 0 && words < FEW_WORDS {
            self.bare.push((page, large));
        }
        if let Some(page) = page {
            let hidden = std::mem::take(&mut unread.hidden).into_iter();
            self.hidden.extend(hidden.map(|text| (page, text)));
        }
    }

    /// Gaps for pictures.
    pub(super) fn picture_defects(&self) -> Vec<Defect> {
        let mut defects = Vec::new();
        if self.pictures > 0 {
            defects.push(defect("html.pictures", count(self.pictures)));
        }
        let around = |pictures| {
            let them = if pictures == 1 { "it" } else { "them" };
            let count = count(pictures);
            let detail = format!("{count}, and there are hardly any words around {them}");
            defect("html.little_text", detail)
        };
        let is_paged = self.bare.iter().all(|(page, _)| page.is_some());
        if is_paged && self.bare.len() <= MAX_PAGES {
            defects.extend(self.bare.iter().map(|(page, pictures)| Defect {
                page: *page,
                ..around(*pictures)
            }));
        } else {
            defects.push(around(self.bare.iter().map(|(_, pictures)| pictures).sum()));
        }
        defects
    }
}

fn count(pictures: u32) -> String {
    match pictures {
        1 => "1 picture was not read".to_owned(),
        _ => format!("{pictures} pictures were not read"),
    }
}
