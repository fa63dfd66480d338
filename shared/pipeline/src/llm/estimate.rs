//! What a run will ask a model about a document, computed from its text without asking.
//!
//! Windows and sections are those that the run plans, so calls and prompts are nearly exact. The lengths of
//! replies are typical ones.

use stemma_document::{OutlineError, Section, SectionTree, Source, SourceBody, text};
use stemma_llm::tokens;
use stemma_outline::enrich;

use super::batch::{self, delimit_sections};
use super::llm_question::LlmQuestion;
use super::outline_method::{outline_with_replies, plan_windows};
use super::prompt_text::with_title;
use super::questions::{WindowReplies, window_prompt};
use super::summaries::own_stretches;
use crate::settings::{ModelSettings, RunSettings};
use crate::stages::{DESCRIBE, READ_WINDOW, SUMMARIZE, page_use};

// Tokens of typical replies: the headings of a window, a summary of fifty words, a description with facts.
const WINDOW_REPLY: u64 = 60;
const SUMMARY_REPLY: u64 = 75;
const DESCRIPTION_REPLY: u64 = 110;
// Tokens of the first sentence of a summary in the prompt of its parent.
const LEAD: u32 = 18;
// Tokens of the beginning of a document in the prompt of its description.
const COVER: u32 = 400;

/// Calls to a model and their tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ModelUse {
    pub calls: u64,
    pub prompt_tokens: u64,
    pub output_tokens: u64,
}

impl ModelUse {
    fn add_call(&mut self, prompt_tokens: u32, output_tokens: u64) {
        self.calls += 1;
        self.prompt_tokens += u64::from(prompt_tokens);
        self.output_tokens += output_tokens;
    }
}

impl std::ops::AddAssign for ModelUse {
    fn add_assign(&mut self, other: Self) {
        self.calls += other.calls;
        self.prompt_tokens += other.prompt_tokens;
        self.output_tokens += other.output_tokens;
    }
}

/// What a run with these settings will ask about `source`; nothing if it asks no model. In batches of the provider each
/// section is a request of its own.
///
/// # Errors
/// [`OutlineError`] if a heading lies outside the document.
pub fn estimate_model_use(
    source: &Source,
    settings: &RunSettings,
    batch: bool,
) -> Result<ModelUse, OutlineError> {
    let mut sum = ModelUse::default();
    let Some(model) = &settings.model else {
        return Ok(sum);
    };
    if let SourceBody::Pages(pages) = &source.body {
        let overhead = overhead(&READ_WINDOW, settings, model);
        for (_, window) in plan_windows(source, settings)? {
            let first = window.span().start();
            let prompt = window_prompt(&window, first, &pages[first.index()..]);
            sum.add_call(overhead + tokens::count(&prompt), WINDOW_REPLY);
        }
    }
    // The headings that the model will add are not known.
    let (draft, _) = outline_with_replies(source, settings, &WindowReplies::new())?;
    let tree = SectionTree::build(&draft.outline, draft.method, Vec::new());
    let tree = enrich::measure_tree(tree, source);
    let calls = if batch { 0 } else { batch::token_limit(model) };
    add_summaries(&mut sum, source, &tree, settings, (model, calls));
    if !tree.sections.is_empty() {
        let titles = tree
            .sections
            .iter()
            .map(|top| tokens::count(&top.title) + LEAD);
        let prompt = overhead(&DESCRIBE, settings, model) + COVER + titles.sum::<u32>();
        sum.add_call(prompt, DESCRIPTION_REPLY);
    }
    Ok(sum)
}

/// What a run will ask a vision model if text recognition is sure of none of `pages`. How many it is sure of is not known
/// before.
pub fn most_vision_use(pages: u64) -> ModelUse {
    let (prompt_tokens, output_tokens) = page_use();
    ModelUse {
        calls: pages,
        prompt_tokens: pages * u64::from(prompt_tokens),
        output_tokens: pages * u64::from(output_tokens),
    }
}

// Tokens of a prompt in addition to the text.
fn overhead(question: &LlmQuestion, settings: &RunSettings, model: &ModelSettings) -> u32 {
    question
        .build_request(settings, model, String::new())
        .prompt_tokens()
}

fn add_summaries(
    sum: &mut ModelUse,
    source: &Source,
    tree: &SectionTree,
    settings: &RunSettings,
    // Sections with more tokens than this share no call.
    (model, limit): (&ModelSettings, u32),
) {
    let mut rounds: Vec<Vec<u32>> = Vec::new();
    for section in &tree.sections {
        add_blocks(&mut rounds, section, source, settings);
    }
    let overhead = overhead(&SUMMARIZE, settings, model);
    for blocks in rounds {
        for batch in batch::pack(&blocks, limit) {
            let prompt = batch
                .iter()
                .fold(overhead, |sum, block| sum.saturating_add(*block));
            sum.add_call(prompt, SUMMARY_REPLY * batch.len() as u64);
        }
    }
}

// Adds the tokens of a section's block, and those below it, to the rounds in which they are asked. Returns the
// round of the section; `None` if it is too short to be summarized.
fn add_blocks(
    rounds: &mut Vec<Vec<u32>>,
    section: &Section,
    source: &Source,
    settings: &RunSettings,
) -> Option<usize> {
    if section.tokens < settings.sections.summary_tokens_verbatim {
        return None;
    }
    let mut round = 0;
    let own = text::own_text(section, &source.body);
    let stretches = own_stretches(&own, settings);
    let delimited = |block: &str| tokens::count(&delimit_sections(std::iter::once(block)));
    let mut block = match stretches.len() {
        0 => delimited(&with_title(&section.title, &own)),
        count => {
            for stretch in stretches {
                push(rounds, 0, delimited(&with_title(&section.title, stretch)));
            }
            round = 1;
            let count = u32::try_from(count).unwrap_or(u32::MAX);
            count.saturating_mul(SUMMARY_REPLY as u32)
        }
    };
    for child in &section.children {
        match add_blocks(rounds, child, source, settings) {
            Some(below) => {
                round = round.max(below + 1);
                block += tokens::count(&child.title) + LEAD;
            }
            None => {
                let text = text::full_text(child, &source.body);
                block += tokens::count(&with_title(&child.title, &text));
            }
        }
    }
    push(rounds, round, block);
    Some(round)
}

fn push(rounds: &mut Vec<Vec<u32>>, round: usize, block: u32) {
    if rounds.len() <= round {
        rounds.resize(round + 1, Vec::new());
    }
    rounds[round].push(block);
}
