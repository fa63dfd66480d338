//! Renders answers as plain chat text.
//!
//! Chat clients show only the text, so it must carry the verification status: [`NOT_VERIFIED`] follows each unverified
//! claim. Without a model the text says so and why, and lists the sections found. Messages and streams use the same text.

use stemma_answers::{
    Answer, AnswerOutcome, Citation, Claim, FinalAnswer, ReadSection, missing_sentence, text_chunks,
};
use stemma_catalog::short_path::short_path;

// Inserted before the full stop of an unverified claim.
pub(crate) const NOT_VERIFIED: &str = " (not verified)";
const MAX_SECTIONS: usize = 10;

pub(crate) struct RenderedAnswer<'a> {
    pub(crate) text: String,
    /// In the order of the text.
    pub(crate) marks: Vec<CitationMark<'a>>,
}

pub(crate) struct CitationMark<'a> {
    pub(crate) citation: &'a Citation,
    pub(crate) verified: bool,
    // Character range of the mark, 0-based, end exclusive.
    pub(crate) start: usize,
    pub(crate) end: usize,
}

impl<'a> RenderedAnswer<'a> {
    pub(crate) fn new(answer: &'a Answer) -> Self {
        Self::with_marks(answer, |citation, _| format!("[{}]", citation.id))
    }

    // `mark` formats a citation, given whether its claim is verified; empty marks are omitted.
    pub(crate) fn with_marks(answer: &'a Answer, mark: impl Fn(&Citation, bool) -> String) -> Self {
        let mut rendered = Self {
            text: String::new(),
            marks: Vec::new(),
        };
        match answer.outcome {
            AnswerOutcome::SearchOnly => rendered.text = search_only_text(answer),
            _ if answer.claims.is_empty() => rendered.text.clone_from(&answer.text),
            _ => {
                if let Some(stated) = &answer.final_answer {
                    rendered.push_final_answer(stated);
                }
                for claim in &answer.claims {
                    rendered.push_claim(answer, claim, &mark);
                }
                if let Some(missing) = missing_sentence(&answer.missing) {
                    rendered.text.push(' ');
                    rendered.text.push_str(&missing.replace("<doc=", "(doc="));
                }
            }
        }
        rendered
    }

    pub(crate) fn pieces(&self) -> impl Iterator<Item = &str> {
        text_chunks(&self.text)
    }

    fn push_final_answer(&mut self, stated: &FinalAnswer) {
        self.text
            .push_str(&stated.sentence().replace("<doc=", "(doc="));
        if !stated.verified {
            self.text.push_str(NOT_VERIFIED);
        }
        self.text.push('.');
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
        // Document and model text must not look like a citation mark.
        self.text.push_str(&statement.replace("<doc=", "(doc="));
        let mut gap = " ";
        for citation in claim.citations.iter().filter_map(|id| answer.citation(id)) {
            let mark = mark(citation, claim.is_supported());
            if mark.is_empty() {
                continue;
            }
            self.text.push_str(std::mem::take(&mut gap));
            let start = self.text.chars().count();
            self.text.push_str(&mark);
            let end = self.text.chars().count();
            self.marks.push(CitationMark {
                citation,
                verified: claim.is_supported(),
                start,
                end,
            });
        }
        match claim.image_note() {
            Some(note) => {
                let note = note.replace("<doc=", "(doc=");
                self.text.push_str(&format!(" ({note}, not verified)"));
            }
            None if !claim.is_supported() => self.text.push_str(NOT_VERIFIED),
            None => {}
        }
        self.text.push_str(stop);
    }
}

fn search_only_text(answer: &Answer) -> String {
    let why = match &answer.degradation {
        Some(degraded) => format!(": {} ({})", degraded.message, degraded.code),
        None => String::new(),
    };
    let mut text = format!("No model answered this question{why}.");
    if answer.sections.is_empty() {
        return text + " Search found nothing, either.";
    }
    text.push_str(" Search found these sections:\n");
    for (at, section) in answer.sections.iter().take(MAX_SECTIONS).enumerate() {
        text.push_str(&format!("\n{}. {}", at + 1, section_reference(section)));
    }
    if let Some(more @ 1..) = answer.sections.len().checked_sub(MAX_SECTIONS) {
        text.push_str(&format!("\n\nand {more} more."));
    }
    text
}

/// `Item 8 › Cash Flows, 3M_2022_10K.pdf, p 58, 60`.
fn section_reference(section: &ReadSection) -> String {
    let path = sanitized(&short_path(&section.path));
    let pages: Vec<String> = section.pages.iter().map(u32::to_string).collect();
    let place = match (pages.is_empty(), section.lines) {
        (false, _) => format!(", p {}", pages.join(", ")),
        (true, Some((first, last))) => format!(", lines {first}–{last}"),
        (true, None) => String::new(),
    };
    format!("{path}, {}{place}", sanitized(&section.name))
}

// One line without markup that a chat client could render as a link or image.
fn sanitized(words: &str) -> String {
    let line = words.replace(|c: char| c.is_whitespace() || c.is_control(), " ");
    line.replace(['[', '<'], "(").replace([']', '>'], ")")
}
