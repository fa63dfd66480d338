//! Generated filings with known truth: fixtures for tests and benchmarks.
//!
//! A [`Spec`] names a kind of document, a size, a seed and its contents mode; [`generate`] makes the PDF, its
//! section truth, the text of each page, the facts on its cover, and questions whose answer is on one page.
//! Everything depends on the specification alone. [`markdown`] and [`plain_text`] do the same for text;
//! [`typeset`] lays out a [`Manuscript`] with its own text.
//!
//! The documents copy habits of real filings that hide structure: a back-link "Table of Contents" on every
//! page, printed numbers that drift from physical pages, several Items on a page, combined and by-reference
//! Items, wrapped titles, mentions that look like headings. They contain no text of any real filing.
//!
//! Out of scope: damaged files (tests damage the bytes themselves) and anything but text.
//!
//! ```
//! use stemma_filings::{Encryption, FilingKind, Spec, generate};
//! let spec = Spec { encryption: Some(Encryption::EmptyUserRc4), pages: 8, ..Spec::new(FilingKind::EarningsRelease, 1) };
//! assert_eq!(generate(&spec), generate(&spec));
//! ```

mod assemble;
mod contents;
pub mod edgar;
mod encrypt;
mod fonts;
mod kinds;
mod line_model;
mod manuscript;
mod monospaced;
mod pdf;
mod plan;
mod random;
mod spec;
mod text;
mod truth;
mod typeset;
mod words;
mod years;

pub use assemble::typeset;
pub use fonts::{Face, Family};
pub use line_model::line_model;
pub use manuscript::{
    Block, FigureTable, Manuscript, ManuscriptHeading, Numbering, PageFooter, Paragraph, TextStyle,
    Typography,
};
pub use monospaced::{monospaced_page, spaced_page};
pub use spec::{ContentsMode, Edit, Encryption, FilingKind, Spec};
pub use text::{GeneratedTextTruth, HeadingLine, TextKind, markdown, plain_text};
pub use truth::{CoverFacts, Filing, HeadingTruth, PlantedAnswer, ReferenceTruth, Truth};
pub use years::{YearChange, YearPair, year_pair};

/// Generates the filing of a specification. Pure: the same bytes every time.
pub fn generate(spec: &Spec) -> Filing {
    typeset(&kinds::manuscript(spec), spec)
}

#[cfg(test)]
mod tests;
