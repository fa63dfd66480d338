//! Submissions of plain text: documents on the lines of the file.

use stemma_document::{Defect, Heading, Source, SourceFormat};
use stemma_edgar::{FullSubmission, SubmissionPart};
use stemma_reading::text_headings::find_headings;
use stemma_reading::title;

use super::tags::PartCleaner;
use crate::decode::{DecodedText, check_lines};
use crate::{ExtractError, Limits};

/// Lines keep their numbers in the file, and each document is a level-1 heading.
pub(super) fn read(
    bytes: &[u8],
    submission: &FullSubmission,
    limits: &Limits,
) -> Result<Source, ExtractError> {
    let mut lines = LinesOfParts::new(bytes, limits)?;
    for part in submission.documents() {
        lines.add(part, limits)?;
    }
    let mut defects = submission.defects.clone();
    defects.append(&mut lines.defects);
    let headings = find_headings(
        &lines.lines,
        |index| lines.is_prose.get(index).copied().unwrap_or(true),
        &lines.documents,
    );
    Ok(limits.source_of_lines(
        SourceFormat::Text,
        lines.lines,
        headings,
        submission.facts(),
        defects,
    ))
}

// Documents on the lines of the file; all other lines are blank.
struct LinesOfParts<'a> {
    bytes: &'a [u8],
    lines: Vec<String>,
    is_prose: Vec<bool>,
    documents: Vec<Heading>,
    defects: Vec<Defect>,
    // A position, and the number of line ends before it.
    counted: (usize, usize),
}

impl<'a> LinesOfParts<'a> {
    fn new(bytes: &'a [u8], limits: &Limits) -> Result<Self, ExtractError> {
        let without_last = bytes
            .strip_suffix(b"\r\n")
            .or_else(|| bytes.strip_suffix(b"\n"))
            .or_else(|| bytes.strip_suffix(b"\r"))
            .unwrap_or(bytes);
        let line_ends = line_ends(without_last);
        check_lines(line_ends, limits)?;
        Ok(Self {
            bytes,
            lines: vec![String::new(); line_ends + 1],
            is_prose: vec![false; line_ends + 1],
            documents: Vec::new(),
            defects: Vec::new(),
            counted: (0, 0),
        })
    }

    // Parts come in file order.
    fn add(&mut self, part: &SubmissionPart, limits: &Limits) -> Result<(), ExtractError> {
        let heading = title::clean(&part.entry.title());
        // The first document begins with the file: a tree covers all lines, and those of the header are blank.
        let line = match self.documents.is_empty() {
            true => 1,
            false => self.line_at(part.bytes.start) + 1,
        };
        self.documents.push(Heading {
            line: u32::try_from(line).unwrap_or(u32::MAX),
            level: 1,
            title: if heading.is_empty() {
                "Document".into()
            } else {
                heading
            },
        });
        let first = self.line_at(part.content.start);
        let decoded = DecodedText::read(self.bytes[part.content.clone()].to_vec(), limits)?;
        let mut cleaner = PartCleaner::default();
        for (at, mut line) in (first..).zip(decoded.lines()) {
            let is_prose = cleaner.clean(&mut line);
            if let (Some(place), Some(prose)) = (self.lines.get_mut(at), self.is_prose.get_mut(at))
            {
                *place = line;
                *prose = is_prose;
            }
        }
        self.defects.extend(decoded.defects);
        Ok(())
    }

    // Index of the line with this byte.
    fn line_at(&mut self, position: usize) -> usize {
        let (from, before) = self.counted;
        let count = before + line_ends(&self.bytes[from..position.max(from)]);
        self.counted = (position.max(from), count);
        count
    }
}

// LF, CR and CR LF end a line. A CR at the end of `bytes` counts, so a position between the two is behind a line end.
fn line_ends(bytes: &[u8]) -> usize {
    let line_feeds = memchr::memchr_iter(b'\n', bytes).count();
    let returns = memchr::memchr_iter(b'\r', bytes);
    line_feeds
        + returns
            .filter(|at| bytes.get(at + 1) != Some(&b'\n'))
            .count()
}
