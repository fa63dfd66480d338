//! The summaries of a document: which sections are asked about, in which order, each by the digest of exactly what its
//! question will hold. The flow reads it; no text is in it.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use stemma_document::{Digest, Section, SectionTree, Source, text};
use stemma_engine::replay::{FlowStop, Replay};
use stemma_engine::stage::Stage;
use stemma_engine::{TaskKey, TaskKeyBuilder};
use stemma_llm::tokens;

use super::prompt_text::{stretches, title_digest};
use super::section_answers::{ReplyResult, SummaryRef};
use crate::FilingFlow;
use crate::settings::{Purpose, RunSettings};
use crate::stages::{Describe, Summarize};

/// Parts of a section whose summaries its own summary is made from; of more it reads the titles alone. A message has no room
/// for the names of more artifacts.
pub(crate) const MAX_PART_SUMMARIES: usize = 60;
/// Tokens of a prompt that are kept for what stands around a text: instructions, marks, the titles of parts.
pub(crate) const PROMPT_OVERHEAD_TOKENS: u32 = 1_000;

/// A section to be summarized.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SectionPlan {
    /// 1 for top sections.
    pub depth: u16,
    /// Whether it is so short that it is its own summary.
    pub small: bool,
    /// Digest of its title and its own text; of its whole text where it is small; of its title alone where its own text is
    /// asked about in stretches.
    pub text: Digest,
    /// Digests of its title and each stretch of its own text, where that is too long for one prompt.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub stretches: Vec<Digest>,
}

/// The summaries there are to be of a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SummaryTree {
    /// The artifact that holds the tree.
    draft: TaskKey,
    /// The artifact that holds the text.
    source: TaskKey,
    sections: Vec<SectionPlan>,
    /// Per section, the indices of its sub-sections.
    children: Vec<Vec<usize>>,
    /// Per section, how many levels are below it.
    heights: Vec<usize>,
    /// The stretches of all sections that have some, in order, with the index of their section and their number in it.
    stretches: Vec<(usize, usize)>,
}

/// What each section says, by its index, and behind them what each stretch says, with the task that made it; `None`: not
/// asked.
pub(crate) type SummaryAnswers = Vec<SummaryAnswer>;

/// What one of them says, or the code of the failure.
pub(crate) type SummaryAnswer = Option<(TaskKey, ReplyResult<SummaryRef>)>;

/// What is to be asked about the sections of a measured tree, in pre-order.
pub(crate) fn plan_summaries(
    source: &Source,
    tree: &SectionTree,
    settings: &RunSettings,
) -> Vec<SectionPlan> {
    let limit = settings.sections.summary_tokens_verbatim;
    tree.walk()
        .map(|(depth, section): (usize, &Section)| {
            let depth = u16::try_from(depth).unwrap_or(u16::MAX);
            let title = &section.title;
            if section.tokens < limit {
                let text = title_digest(title, &text::full_text(section, &source.body));
                return SectionPlan {
                    depth,
                    small: true,
                    text,
                    stretches: Vec::new(),
                };
            }
            let own = text::own_text(section, &source.body);
            let stretches: Vec<_> = own_stretches(&own, settings)
                .iter()
                .map(|some| title_digest(title, some))
                .collect();
            let text = title_digest(title, if stretches.is_empty() { &own } else { "" });
            SectionPlan {
                depth,
                small: false,
                text,
                stretches,
            }
        })
        .collect()
}

/// The stretches in which a section's own text is asked about; none, where it fits into one prompt.
pub(crate) fn own_stretches<'a>(own: &'a str, settings: &RunSettings) -> Vec<&'a str> {
    let most = settings.model.as_ref().map_or(u32::MAX, |model| {
        model.max_prompt_tokens_for(Purpose::Summaries)
    });
    let room = most
        .saturating_sub(PROMPT_OVERHEAD_TOKENS)
        .max(PROMPT_OVERHEAD_TOKENS);
    // A token is a byte or more, so that the tokens of most texts need not be counted.
    if own.len() <= room as usize || tokens::count(own) <= room {
        Vec::new()
    } else {
        stretches(own, room)
    }
}

impl SummaryTree {
    /// The summaries of the tree in `draft`, of the text in `source`.
    pub(crate) fn new(draft: TaskKey, source: TaskKey, sections: Vec<SectionPlan>) -> Self {
        let (children, heights) = children_and_heights(&sections);
        let stretches = sections
            .iter()
            .enumerate()
            .flat_map(|(index, section): (usize, &SectionPlan)| {
                (0..section.stretches.len()).map(move |at| (index, at))
            })
            .collect();
        Self {
            draft,
            source,
            sections,
            children,
            heights,
            stretches,
        }
    }

    /// Number of things that may be summarized: sections, and behind them stretches of such as are long.
    pub(crate) fn len(&self) -> usize {
        self.sections.len() + self.stretches.len()
    }

    /// Sections of whose own text a stretch was not answered about, with the code of the failure.
    pub(crate) fn unanswered_stretches(&self, answers: &[SummaryAnswer]) -> Vec<(usize, String)> {
        let behind = answers.get(self.sections.len()..).unwrap_or_default();
        self.stretches
            .iter()
            .zip(behind)
            .filter_map(
                |((section, _), answers): (&(usize, usize), &SummaryAnswer)| {
                    Some((*section, answers.as_ref()?.1.as_ref().err()?.clone()))
                },
            )
            .collect()
    }

    /// Asks about all of them, leaves first.
    pub(crate) fn ask_all(
        &self,
        replay: &mut Replay<'_, FilingFlow>,
    ) -> Result<Arc<SummaryAnswers>, FlowStop> {
        let mut results: Arc<SummaryAnswers> = Arc::new(vec![None; self.len()]);
        for wave in 0..self.waves() {
            let below = Arc::clone(&results);
            results = replay.sub_flow(
                "summaries",
                |identity: &mut TaskKeyBuilder| {
                    identity.text(&self.draft.to_string()).number(wave as u64);
                },
                |replay| {
                    let stages = self.wave_stages(wave, &below);
                    let keys: Vec<_> = stages
                        .iter()
                        .map(|(index, stage)| (*index, stage.key(replay.settings())))
                        .collect();
                    let answers = replay.results(stages.into_iter().map(|(_, stage)| stage))?;
                    let mut results = below.to_vec();
                    for ((index, key), answer) in keys.into_iter().zip(answers) {
                        results[index] = Some((key, answer.map_err(|record| record.code)));
                    }
                    Ok(Arc::new(results))
                },
            )?;
        }
        Ok(results)
    }

    /// Asks about the document as a whole, when all summaries are there.
    pub(crate) fn ask_description(
        &self,
        replay: &mut Replay<'_, FilingFlow>,
        answers: &[SummaryAnswer],
    ) -> Result<SummaryAnswer, FlowStop> {
        let Some(describe) = self.description_stage(answers) else {
            return Ok(None);
        };
        let answer = replay.result(&describe)?;
        Ok(Some((
            describe.key(replay.settings()),
            answer.map_err(|record| record.code),
        )))
    }

    /// The waves of summaries there are, leaves first.
    pub(crate) fn waves(&self) -> usize {
        self.heights.iter().max().map_or(0, |height| height + 1)
    }

    /// The summaries of one wave, with the indices of what they are of; what is below them is told in `said`.
    pub(crate) fn wave_stages(
        &self,
        wave: usize,
        answers: &[SummaryAnswer],
    ) -> Vec<(usize, Summarize)> {
        let is_due = |index: &usize| {
            let section = &self.sections[*index];
            self.heights[*index] == wave
                && !section.small
                && (section.stretches.is_empty() || self.has_answer_below(*index, answers))
        };
        let sections = (0..self.sections.len()).filter(is_due);
        let stretches = self.stretches.iter().enumerate().filter(|_| wave == 0);
        let stretches =
            stretches.map(|(at, (section, stretch))| (at, self.stretch_stage(*section, *stretch)));
        let stretches = stretches.map(|(at, is_due)| (self.sections.len() + at, is_due));
        sections
            .map(|index| (index, self.section_stage(index, answers)))
            .chain(stretches)
            .collect()
    }

    /// The question about the document as a whole; `None`: it has no sections.
    pub(crate) fn description_stage(&self, answers: &[SummaryAnswer]) -> Option<Describe> {
        let first = self.sections.first()?;
        let top: Vec<usize> = (0..self.sections.len())
            .filter(|index| self.sections[*index].depth == 1)
            .collect();
        let mut input = InputDigest::new(
            first.stretches.first().copied().unwrap_or(first.text),
            top.len(),
        );
        let mut parts = Vec::new();
        for (at, index) in top.into_iter().take(MAX_PART_SUMMARIES).enumerate() {
            match successful_answer(answers, index) {
                Some((key, digest)) => {
                    input.add_part(digest);
                    parts.push((u32::try_from(at).unwrap_or(u32::MAX), key));
                }
                None => input.add_part(self.sections[index].text),
            }
        }
        Some(Describe {
            reads: input.finish(),
            draft: self.draft,
            source: self.source,
            parts,
        })
    }

    /// Whether anything is known about a section whose own text is asked about in stretches.
    fn has_answer_below(&self, index: usize, answers: &[SummaryAnswer]) -> bool {
        let stretches = self
            .stretches
            .iter()
            .enumerate()
            .filter(|(_, (section, _))| *section == index);
        let below = stretches
            .map(|(at, _)| self.sections.len() + at)
            .chain(self.children[index].iter().copied());
        below.into_iter().any(|below| {
            answers[below]
                .as_ref()
                .is_some_and(|(_, answer)| answer.is_ok())
        })
    }

    fn stretch_stage(&self, section: usize, stretch: usize) -> Summarize {
        let reads = InputDigest::new(self.sections[section].stretches[stretch], 0).finish();
        let draft = self.draft;
        let source = self.source;
        let section = u32::try_from(section).unwrap_or(u32::MAX);
        let stretch = u32::try_from(stretch).ok();
        Summarize {
            reads,
            draft,
            source,
            section,
            stretch,
            own: Vec::new(),
            parts: Vec::new(),
        }
    }

    fn section_stage(&self, index: usize, answers: &[SummaryAnswer]) -> Summarize {
        let children = &self.children[index];
        let mut input = InputDigest::new(self.sections[index].text, children.len());
        let mut own = Vec::new();
        for (at, _) in self
            .stretches
            .iter()
            .enumerate()
            .filter(|(_, (section, _))| *section == index)
        {
            let answer = successful_answer(answers, self.sections.len() + at);
            input.add_part(answer.map_or(Digest::from_content(b""), |(_, digest)| digest));
            own.push(answer.map(|(key, _)| key));
        }
        let mut parts = Vec::new();
        for (at, child) in children.iter().enumerate() {
            match successful_answer(answers, *child)
                .filter(|_| parts.len() + own.len() < MAX_PART_SUMMARIES)
            {
                Some((key, digest)) => {
                    input.add_part(digest);
                    parts.push((u32::try_from(at).unwrap_or(u32::MAX), key));
                }
                None => input.add_part(self.sections[*child].text),
            }
        }
        let section = u32::try_from(index).unwrap_or(u32::MAX);
        let draft = self.draft;
        let source = self.source;
        Summarize {
            reads: input.finish(),
            draft,
            source,
            section,
            stretch: None,
            own,
            parts,
        }
    }
}

/// What is said at an index, and by which task; `None`: nothing.
fn successful_answer(answers: &[SummaryAnswer], index: usize) -> Option<(TaskKey, Digest)> {
    let (key, answer) = answers[index].as_ref()?;
    Some((*key, answer.as_ref().ok()?.digest))
}

/// Digest of what a summary is made from: the section's own text, how many parts it has, and of each part its summary,
/// or its text where it is small, or its title alone where it has no summary.
pub(crate) struct InputDigest(Vec<u8>);

impl InputDigest {
    pub(crate) fn new(own: Digest, parts: usize) -> Self {
        Self([own.as_bytes(), &(parts as u64).to_le_bytes()].concat())
    }

    pub(crate) fn add_part(&mut self, digest: Digest) {
        self.0.extend_from_slice(digest.as_bytes());
    }

    pub(crate) fn finish(self) -> Digest {
        Digest::from_content(&self.0)
    }
}

/// Children and heights of sections in pre-order.
fn children_and_heights(sections: &[SectionPlan]) -> (Vec<Vec<usize>>, Vec<usize>) {
    let mut children: Vec<Vec<usize>> = vec![Vec::new(); sections.len()];
    let mut path: Vec<usize> = Vec::new();
    for (index, section) in sections.iter().enumerate() {
        path.truncate(usize::from(section.depth.saturating_sub(1)));
        if let Some(parent) = path.last() {
            children[*parent].push(index);
        }
        path.push(index);
    }
    let mut heights = vec![0; sections.len()];
    for index in (0..sections.len()).rev() {
        // A small section is asked about nothing, and neither is what is in it.
        let summarized = children[index]
            .iter()
            .filter(|child| !sections[**child].small);
        let above_stretches = usize::from(!sections[index].stretches.is_empty());
        heights[index] = summarized
            .map(|child| heights[*child] + 1)
            .max()
            .unwrap_or(0)
            .max(above_stretches);
    }
    (children, heights)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan_summaries(depths: &[(u16, bool)]) -> SummaryTree {
        let sections = depths
            .iter()
            .enumerate()
            .map(
                |(index, (depth, small)): (usize, &(u16, bool))| SectionPlan {
                    depth: *depth,
                    small: *small,
                    text: Digest::from_content(&[u8::try_from(index).unwrap()]),
                    stretches: Vec::new(),
                },
            )
            .collect();
        let key = TaskKey::builder("draft", 1).finish();
        SummaryTree::new(key, key, sections)
    }

    #[test]
    fn leaves_first_and_small_sections_skipped() {
        let plan = plan_summaries(&[
            (1, false),
            (2, false),
            (3, false),
            (3, true),
            (2, true),
            (1, false),
        ]);
        let wave = |wave| {
            plan.wave_stages(wave, &vec![None; 6])
                .into_iter()
                .map(|(index, _)| index)
                .collect::<Vec<_>>()
        };
        assert_eq!(
            (plan.waves(), wave(0), wave(1), wave(2)),
            (3, vec![2, 5], vec![1], vec![0])
        );
    }

    #[test]
    fn summary_depends_on_part_summaries_only() {
        let plan = plan_summaries(&[(1, false), (2, false)]);
        let answers = |text: &str| {
            let answers = SummaryRef {
                digest: Digest::from_content(text.as_bytes()),
                usage: super::super::StageUsage::default(),
            };
            vec![None, Some((plan.draft, Ok(answers)))]
        };
        let reads = |answers: &[_]| plan.wave_stages(1, answers).remove(0).1.reads;
        assert_eq!(reads(&answers("a")), reads(&answers("a")));
        assert_ne!(reads(&answers("a")), reads(&answers("b")));
    }

    #[test]
    fn stage_with_many_parts_fits_in_a_message() {
        let mut depths = vec![(1, false)];
        depths.extend(vec![(2, false); 200]);
        let plan = plan_summaries(&depths);
        let answers = SummaryRef {
            digest: Digest::from_content(b"x"),
            usage: super::super::StageUsage::default(),
        };
        let answers = vec![Some((plan.draft, Ok(answers))); 201];
        let payload = serde_json::to_vec(&plan.wave_stages(1, &answers).remove(0).1).unwrap();
        assert!(payload.len() < 3_000, "{}", payload.len());
    }
}
