//! Plans the summaries of a document: which sections to ask about, in which order, each by the digest of its
//! prompt. Holds no text, because the flow reads it.

use serde::{Deserialize, Serialize};
use stemma_document::{Digest, Section, SectionTree, Source, text};
use stemma_llm::tokens;
use stemma_store::TaskKey;

use super::prompt_text::{InputDigest, PROMPT_OVERHEAD_TOKENS, stretches, title_digest};
use super::section_answers::{ReplyResult, SummaryRef};
use crate::settings::{Purpose, RunSettings};

/// Most children whose summaries a section reads; of others it reads the titles. A message has no room for
/// more artifact keys.
pub(crate) const MAX_PART_SUMMARIES: usize = 60;

/// A section to be summarized.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SectionPlan {
    /// 1 for top sections.
    pub depth: u16,
    /// Whether its text is short enough to be its own summary.
    pub small: bool,
    /// Digest of title and own text; of the whole text if it is short; of the title alone if the own text is
    /// split.
    pub text: Digest,
    /// Digests of title and stretch, if the own text is too long for one prompt.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub stretches: Vec<Digest>,
}

/// The summaries of a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SummaryTree {
    // The artifact that holds the tree.
    draft: TaskKey,
    // The artifact that holds the text.
    source: TaskKey,
    sections: Vec<SectionPlan>,
    // Per section, the indices of its children.
    children: Vec<Vec<usize>>,
    // Per section, the number of levels below it.
    heights: Vec<usize>,
    // All stretches in order: the index of their section, and their number in it.
    stretches: Vec<(usize, usize)>,
}

/// Summaries by section index, then summaries of the stretches.
pub(crate) type SummaryAnswers = Vec<SummaryAnswer>;

/// The task, and its summary or the code of its failure; `None` if it was not asked.
pub(crate) type SummaryAnswer = Option<(TaskKey, ReplyResult<SummaryRef>)>;

/// One summary to ask for: the payload of `summarize`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct SummaryTask {
    /// Digest of the prompt.
    pub(crate) reads: Digest,
    /// The artifact that holds the sections.
    pub(crate) draft: TaskKey,
    /// The artifact that holds the text.
    pub(crate) source: TaskKey,
    pub(crate) section: u32,
    /// Summarizes this stretch of the own text alone.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) stretch: Option<u32>,
    /// Artifacts of the summaries of all stretches, which replace the own text; `None` for a stretch without
    /// a summary.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub(crate) own: Vec<Option<TaskKey>>,
    /// Artifacts of the summaries of children, by child index. Of other children the text is read if it is
    /// short, else the title.
    pub(crate) parts: Vec<(u32, TaskKey)>,
}

/// The description to ask for: the payload of `describe`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct DescriptionTask {
    /// Digest of the prompt.
    pub(crate) reads: Digest,
    /// The artifact that holds the sections.
    pub(crate) draft: TaskKey,
    /// The artifact that holds the text.
    pub(crate) source: TaskKey,
    /// Artifacts of the summaries of top sections, by index. Of others the title is read.
    pub(crate) parts: Vec<(u32, TaskKey)>,
}

/// The sections of a measured tree, in pre-order.
pub(crate) fn plan_summaries(
    source: &Source,
    tree: &SectionTree,
    settings: &RunSettings,
) -> Vec<SectionPlan> {
    let limit = settings.sections.summary_tokens_verbatim;
    let plans = tree.walk().map(|(depth, section): (usize, &Section)| {
        let title = &section.title;
        let small = section.tokens < limit;
        let text = match small {
            true => text::full_text(section, &source.body),
            false => text::own_text(section, &source.body),
        };
        let stretches = match small {
            true => Vec::new(),
            false => own_stretches(&text, settings),
        };
        SectionPlan {
            depth: u16::try_from(depth).unwrap_or(u16::MAX),
            small,
            text: title_digest(title, if stretches.is_empty() { &text } else { "" }),
            stretches: stretches
                .iter()
                .map(|some| title_digest(title, some))
                .collect(),
        }
    });
    plans.collect()
}

/// The stretches of a section's own text; empty if it fits in one prompt.
pub(crate) fn own_stretches<'a>(own: &'a str, settings: &RunSettings) -> Vec<&'a str> {
    let most = settings.model.as_ref().map_or(u32::MAX, |model| {
        model.max_prompt_tokens_for(Purpose::Summaries)
    });
    let room = most
        .saturating_sub(PROMPT_OVERHEAD_TOKENS)
        .max(PROMPT_OVERHEAD_TOKENS);
    // A token has at least one byte, so most texts need no counting.
    match own.len() <= room as usize || tokens::count(own) <= room {
        true => Vec::new(),
        false => stretches(own, room),
    }
}

impl SummaryTree {
    pub(crate) fn new(draft: TaskKey, source: TaskKey, sections: Vec<SectionPlan>) -> Self {
        let (children, heights) = children_and_heights(&sections);
        let counts = sections
            .iter()
            .map(|section| section.stretches.len())
            .enumerate();
        let stretches = counts.flat_map(|(index, count)| (0..count).map(move |at| (index, at)));
        Self {
            draft,
            source,
            stretches: stretches.collect(),
            sections,
            children,
            heights,
        }
    }

    /// Number of possible summaries: sections, then stretches.
    pub(crate) fn len(&self) -> usize {
        self.sections.len() + self.stretches.len()
    }

    /// Sections with an unanswered stretch, and the code of the failure.
    pub(crate) fn unanswered_stretches(&self, answers: &[SummaryAnswer]) -> Vec<(usize, String)> {
        let behind = answers.get(self.sections.len()..).unwrap_or_default();
        let answered = self.stretches.iter().zip(behind);
        let unanswered = answered.filter_map(|((section, _), answer)| {
            let (_, answer) = answer.as_ref()?;
            Some((*section, answer.as_ref().err()?.clone()))
        });
        unanswered.collect()
    }

    /// Number of rounds. A round needs the summaries of the rounds before it.
    pub(crate) fn rounds(&self) -> usize {
        self.heights.iter().max().map_or(0, |height| height + 1)
    }

    /// The summaries of one round with their indices, given the answers of the rounds before it.
    pub(crate) fn round_tasks(
        &self,
        round: usize,
        answers: &[SummaryAnswer],
    ) -> Vec<(usize, SummaryTask)> {
        let sections = (0..self.sections.len()).filter(|index| {
            let section = &self.sections[*index];
            self.heights[*index] == round
                && !section.small
                && (section.stretches.is_empty() || self.has_answer_below(*index, answers))
        });
        let stretches = self
            .stretches
            .iter()
            .zip(self.sections.len()..)
            .filter(|_| round == 0)
            .map(|((section, stretch), index)| (index, self.stretch_task(*section, *stretch)));
        let sections = sections.map(|index| (index, self.section_task(index, answers)));
        sections.chain(stretches).collect()
    }

    /// `None` if the document has no sections.
    pub(crate) fn description_task(&self, answers: &[SummaryAnswer]) -> Option<DescriptionTask> {
        let first = self.sections.first()?;
        let mut top: Vec<usize> = (0..self.sections.len()).collect();
        top.retain(|index| self.sections[*index].depth == 1);
        let begins = first.stretches.first().copied().unwrap_or(first.text);
        let mut input = InputDigest::new(begins, top.len());
        top.truncate(MAX_PART_SUMMARIES);
        let parts = self.add_parts(&mut input, &top, answers, MAX_PART_SUMMARIES);
        Some(DescriptionTask {
            reads: input.finish(),
            draft: self.draft,
            source: self.source,
            parts,
        })
    }

    // Adds to `input` what is read of sections: the summaries of at most `most`, by their position, and the texts of others.
    fn add_parts(
        &self,
        input: &mut InputDigest,
        sections: &[usize],
        answers: &[SummaryAnswer],
        most: usize,
    ) -> Vec<(u32, TaskKey)> {
        let mut parts = Vec::new();
        for (section, at) in sections.iter().zip(0..) {
            match successful_answer(answers, *section).filter(|_| parts.len() < most) {
                Some((key, digest)) => {
                    input.add_part(digest);
                    parts.push((at, key));
                }
                None => input.add_part(self.sections[*section].text),
            }
        }
        parts
    }

    // The indices of the stretches of a section among all summaries.
    fn stretches_of(&self, section: usize) -> impl Iterator<Item = usize> {
        let stretches = self.stretches.iter().zip(self.sections.len()..);
        stretches
            .filter(move |((of, _), _)| *of == section)
            .map(|(_, index)| index)
    }

    // A section whose own text is split is summarized only if a stretch or a child was.
    fn has_answer_below(&self, index: usize, answers: &[SummaryAnswer]) -> bool {
        let mut below = self
            .stretches_of(index)
            .chain(self.children[index].iter().copied());
        below.any(|below| successful_answer(answers, below).is_some())
    }

    fn stretch_task(&self, section: usize, stretch: usize) -> SummaryTask {
        let reads = InputDigest::new(self.sections[section].stretches[stretch], 0).finish();
        SummaryTask {
            reads,
            draft: self.draft,
            source: self.source,
            section: u32::try_from(section).unwrap_or(u32::MAX),
            stretch: u32::try_from(stretch).ok(),
            own: Vec::new(),
            parts: Vec::new(),
        }
    }

    fn section_task(&self, index: usize, answers: &[SummaryAnswer]) -> SummaryTask {
        let children = &self.children[index];
        let mut input = InputDigest::new(self.sections[index].text, children.len());
        let mut own = Vec::new();
        for stretch in self.stretches_of(index) {
            let answer = successful_answer(answers, stretch);
            input.add_part(answer.map_or(Digest::from_content(b""), |(_, digest)| digest));
            own.push(answer.map(|(key, _)| key));
        }
        let most = MAX_PART_SUMMARIES.saturating_sub(own.len());
        let parts = self.add_parts(&mut input, children, answers, most);
        SummaryTask {
            reads: input.finish(),
            draft: self.draft,
            source: self.source,
            section: u32::try_from(index).unwrap_or(u32::MAX),
            stretch: None,
            own,
            parts,
        }
    }
}

// The task and digest of a successful summary.
fn successful_answer(answers: &[SummaryAnswer], index: usize) -> Option<(TaskKey, Digest)> {
    let (key, answer) = answers[index].as_ref()?;
    Some((*key, answer.as_ref().ok()?.digest))
}

// Children and heights of sections in pre-order.
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
        // A short section is not summarized, and neither are its children.
        let summarized = children[index]
            .iter()
            .filter(|child| !sections[**child].small);
        let above_children = summarized.map(|child| heights[*child] + 1).max();
        // The stretches of a section are summarized in round 0, so the section itself comes later.
        let above_stretches = usize::from(!sections[index].stretches.is_empty());
        heights[index] = above_children.unwrap_or(0).max(above_stretches);
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
        let round = |round| {
            plan.round_tasks(round, &vec![None; 6])
                .into_iter()
                .map(|(index, _)| index)
                .collect::<Vec<_>>()
        };
        assert_eq!(
            (plan.rounds(), round(0), round(1), round(2)),
            (3, vec![2, 5], vec![1], vec![0])
        );
    }

    #[test]
    fn summary_depends_on_part_summaries_only() {
        let plan = plan_summaries(&[(1, false), (2, false)]);
        let answers = |text: &str| {
            let answers = SummaryRef {
                digest: Digest::from_content(text.as_bytes()),
                usage: crate::llm::StageUsage::default(),
            };
            vec![None, Some((plan.draft, Ok(answers)))]
        };
        let reads = |answers: &[_]| plan.round_tasks(1, answers).remove(0).1.reads;
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
            usage: crate::llm::StageUsage::default(),
        };
        let answers = vec![Some((plan.draft, Ok(answers))); 201];
        let payload = serde_json::to_vec(&plan.round_tasks(1, &answers).remove(0).1).unwrap();
        assert!(payload.len() < 3_000, "{}", payload.len());
    }
}
