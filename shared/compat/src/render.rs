//! What a chat window shows of an answer: the text alone, so all that matters of the answer has to stand in it.
//!
//! One rule for whole messages and streams of each dialect: the text is that of the stored answer, with [`NOT_VERIFIED`] behind each claim
//! that is not verified. Where no model answered, it says so and why, and lists what was found.

use stemma_answers::{Answer, AnswerOutcome, Citation, Claim, ReadSection, text_chunks};

/// What stands behind a claim that is not verified, before the stop that ends it.
pub(super) const NOT_VERIFIED: &str = " (not verified)";
/// Sections that are listed where no model answered.
const MAX_SECTIONS: usize = 10;

/// A text for a chat window.
pub(super) struct RenderedAnswer<'a> {
    pub(super) text: String,
    /// In the order of the text.
    pub(super) marks: Vec<CitationMark<'a>>,
}

/// What a claim rests on, where that is marked in the text.
pub(super) struct CitationMark<'a> {
    pub(super) citation: &'a Citation,
    /// Whether the claim is verified.
    pub(super) verified: bool,
    /// The first character of the mark, from 0, and the one behind it.
    pub(super) start: usize,
    pub(super) end: usize,
}

impl<'a> RenderedAnswer<'a> {
    /// An answer with marks `[1]`.
    pub(super) fn new(answer: &'a Answer) -> Self {
        Self::with_marks(answer, |citation, _| format!("[{}]", citation.id))
    }

    /// An answer whose marks are written so, by citation and whether its claim is verified; an empty one is left out.
    pub(super) fn with_marks(answer: &'a Answer, mark: impl Fn(&Citation, bool) -> String) -> Self {
        let mut rendered = Self {
            text: String::new(),
            marks: Vec::new(),
        };
        match answer.outcome {
            AnswerOutcome::SearchOnly => rendered.text = search_only_text(answer),
            _ if answer.claims.is_empty() => rendered.text.clone_from(&answer.text),
            _ => answer
                .claims
                .iter()
                .for_each(|claim| rendered.push_claim(answer, claim, &mark)),
        }
        rendered
    }

    /// The text as it is told, piece by piece.
    pub(super) fn pieces(&self) -> impl Iterator<Item = &str> {
        text_chunks(&self.text)
    }

    fn push_claim(
        &mut self,
        answer: &'a Answer,
        claim: &Claim,
        mark: &impl Fn(&Citation, bool) -> String,
    ) {
        let (statement, stop) = claim.split_final_stop();
        if !self.text.is_empty() {
            self.text.push(' ');
        }
        // No model writes a mark of a dialect.
        self.text.push_str(&statement.replace("<doc=", "(doc="));
        let mut gap = " ";
        for citation in claim.citations.iter().filter_map(|id| answer.citation(id)) {
            let mark = mark(citation, claim.verified);
            if mark.is_empty() {
                continue;
            }
            self.text.push_str(std::mem::take(&mut gap));
            let start = self.text.chars().count();
            self.text.push_str(&mark);
            let end = self.text.chars().count();
            self.marks.push(CitationMark {
                citation,
                verified: claim.verified,
                start,
                end,
            });
        }
        if !claim.verified {
            self.text.push_str(NOT_VERIFIED);
        }
        self.text.push_str(stop);
    }
}

/// That no model answered, why, and where a search would read.
fn search_only_text(answer: &Answer) -> String {
    let why = answer
        .degradation
        .as_ref()
        .map(|degraded| format!(": {} ({})", degraded.message, degraded.code));
    let mut text = format!(
        "No model answered this question{}.",
        why.unwrap_or_default()
    );
    let lines: Vec<String> = answer
        .sections
        .iter()
        .take(MAX_SECTIONS)
        .map(section_reference)
        .collect();
    if lines.is_empty() {
        text.push_str(" Search found nothing, either.");
        return text;
    }
    text.push_str(" Search found these sections:\n");
    for (at, line) in lines.iter().enumerate() {
        text.push_str(&format!("\n{}. {line}", at + 1));
    }
    if answer.sections.len() > MAX_SECTIONS {
        text.push_str(&format!(
            "\n\nand {} more.",
            answer.sections.len() - MAX_SECTIONS
        ));
    }
    text
}

/// `Item 8 › Cash Flows, 3M_2022_10K.pdf, p 58, 60`.
fn section_reference(section: &ReadSection) -> String {
    let path: Vec<String> = section.path.iter().map(|title| sanitized(title)).collect();
    let pages: Vec<String> = section.pages.iter().map(u32::to_string).collect();
    let place = match (pages.is_empty(), section.lines) {
        (false, _) => format!(", p {}", pages.join(", ")),
        (true, Some((first, last))) => format!(", lines {first}–{last}"),
        (true, None) => String::new(),
    };
    format!("{}, {}{place}", path.join(" › "), sanitized(&section.name))
}

/// Words of a document on one line, in which nothing is left that a chat window would follow or load.
fn sanitized(words: &str) -> String {
    let words: Vec<&str> = words
        .split(|c: char| c.is_whitespace() || c.is_control())
        .collect();
    words
        .join(" ")
        .replace(['[', '<'], "(")
        .replace([']', '>'], ")")
}
