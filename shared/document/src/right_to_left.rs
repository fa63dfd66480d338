//! Pages of text that runs from right to left, mirrored. Rules about indents, labels and columns are written for text that runs to
//! the right, and read such pages in a mirror.

use std::borrow::Cow;

use crate::{Line, Link, Page, Pt, Rect, Source, SourceBody};

/// Whether it is a letter of a script that runs from right to left.
///
/// ```
/// use stemma_document::runs_left;
/// assert!(['מ', 'م', 'ޕ'].into_iter().all(runs_left));
/// assert!(!['m', '5', '٥', '،'].into_iter().any(runs_left));
/// ```
pub fn runs_left(c: char) -> bool {
    matches!(c, '\u{590}'..='\u{8FF}' | '\u{FB1D}'..='\u{FDFF}' | '\u{FE70}'..='\u{FEFC}' | '\u{10800}'..='\u{10FFF}'
        | '\u{1E800}'..='\u{1EFFF}')
        && c.is_alphabetic()
}

impl Page {
    /// Whether most of its letters run to the left, and its words are where the file shows them: words of HTML are placed as if
    /// they ran to the right.
    fn is_right_to_left(&self) -> bool {
        let mut left = 0_usize;
        let mut right = 0_usize;
        for line in &self.lines {
            if line.bytes.is_some() {
                return false;
            }
            if line.text.is_ascii() {
                right += line.text.len();
                continue;
            }
            for c in line.text.chars() {
                left += usize::from(runs_left(c));
                right += usize::from(c.is_alphabetic() && !runs_left(c));
            }
        }
        left > right
    }

    fn mirrored(&self) -> Self {
        let lines = self.lines.iter().map(|line| {
            let mut line = Line {
                rect: mirrored(line.rect, self.width),
                ..line.clone()
            };
            for word in &mut line.words {
                (word.x0, word.x1) = (within(self.width, word.x1), within(self.width, word.x0));
            }
            line
        });
        Self {
            lines: lines.collect(),
            ..self.clone()
        }
    }

    /// The pages, with those of text that runs to the left mirrored.
    pub fn all_to_the_right(pages: &[Self]) -> Cow<'_, [Self]> {
        if !pages.iter().any(Self::is_right_to_left) {
            return Cow::Borrowed(pages);
        }
        let pages = pages.iter().map(|page| match page.is_right_to_left() {
            true => page.mirrored(),
            false => page.clone(),
        });
        Cow::Owned(pages.collect())
    }
}

impl Source {
    /// The source, with its pages of text that runs to the left mirrored, and the links on them.
    pub fn to_the_right(&self) -> Cow<'_, Self> {
        let SourceBody::Pages(pages) = &self.body else {
            return Cow::Borrowed(self);
        };
        let Cow::Owned(mirrored_pages) = Page::all_to_the_right(pages) else {
            return Cow::Borrowed(self);
        };
        let links = self.links.iter().map(|link| {
            let page = pages.get(link.page.index());
            let width = page
                .filter(|page| page.is_right_to_left())
                .map(|page| page.width);
            Link {
                rect: width.map_or(link.rect, |width| mirrored(link.rect, width)),
                ..link.clone()
            }
        });
        let links = links.collect();
        Cow::Owned(Self {
            body: SourceBody::Pages(mirrored_pages),
            links,
            ..self.clone()
        })
    }
}

fn mirrored(rect: Rect, width: Pt) -> Rect {
    Rect {
        x0: within(width, rect.x1),
        x1: within(width, rect.x0),
        ..rect
    }
}

fn within(width: Pt, x: Pt) -> Pt {
    Pt(width.0.saturating_sub(x.0))
}

#[cfg(test)]
mod tests {
    use crate::Word;

    use super::*;

    fn page(text: &str) -> Page {
        let word = Word {
            start: 0,
            end: text.len() as u32,
            x0: Pt(50_000),
            x1: Pt(54_000),
        };
        let line = Line {
            text: text.into(),
            rect: Rect::new(500.0, 10.0, 540.0, 20.0),
            words: vec![word],
            ..Line::default()
        };
        Page {
            width: Pt(61_200),
            lines: vec![line],
            ..Page::default()
        }
    }

    #[test]
    fn pages_that_run_to_the_left_are_mirrored() {
        let pages = [page("Revenue"), page("הכנסות")];
        let seen = Page::all_to_the_right(&pages);
        assert_eq!(seen[0], pages[0]);
        assert_eq!(seen[1].lines[0].rect, Rect::new(72.0, 10.0, 112.0, 20.0));
        assert_eq!(seen[1].lines[0].words[0].x0, Pt(7_200));
        let latin = [page("Revenue הון")];
        assert!(matches!(Page::all_to_the_right(&latin), Cow::Borrowed(_)));
    }
}
