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

/// Summaries by section index, then those of the stretches.
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

/// The stretches of a section's own text; empty if it fits in one prompt.
pub(crate) fn own_stretches<'a>(own: &'a str, settings: &RunSettings) -> Vec<&'a str> {
    let most = settings.model.as_ref().map_or(u32::MAX, |model| {
        model.max_prompt_tokens_for(Purpose::Summaries)
    });
    let room = most
        .saturating_sub(PROMPT_OVERHEAD_TOKENS)
        .max(PROMPT_OVERHEAD_TOKENS);
    // A token has at least one byte, so most texts need no counting.
    if own.len() <= room as usize || tokens::count(own) <= room {
        Vec::new()
    } else {
        stretches(own, room)
    }
}

impl SummaryTree {
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

    /// Number of possible summaries: sections, then stretches.
    pub(crate) fn len(&self) -> usize {
        self.sections.len() + self.stretches.len()
    }

    /// Sections with an unanswered stretch, and the code of the failure.
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
        let stretches = self.stretches.iter().enumerate().filter(|_| round == 0);
        let stretches =
            stretches.map(|(at, (section, stretch))| (at, self.stretch_task(*section, *stretch)));
        let stretches = stretches.map(|(at, is_due)| (self.sections.len() + at, is_due));
        sections
            .map(|index| (index, self.section_task(index, answers)))
            .chain(stretches)
            .collect()
    }

    /// `None` if the document has no sections.
    pub(crate) fn description_task(&self, answers: &[SummaryAnswer]) -> Option<DescriptionTask> {
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
        Some(DescriptionTask {
            reads: input.finish(),
            draft: self.draft,
            source: self.source,
            parts,
        })
    }

    // A section whose own text is split is summarized only if a stretch or a child was.
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

    fn stretch_task(&self, section: usize, stretch: usize) -> SummaryTask {
        let reads = InputDigest::new(self.sections[section].stretches[stretch], 0).finish();
        let draft = self.draft;
        let source = self.source;
        let section = u32::try_from(section).unwrap_or(u32::MAX);
        let stretch = u32::try_from(stretch).ok();
        SummaryTask {
            reads,
            draft,
            source,
            section,
            stretch,
            own: Vec::new(),
            parts: Vec::new(),
        }
    }

    fn section_task(&self, index: usize, answers: &[SummaryAnswer]) -> SummaryTask {
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
        SummaryTask {
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
        // The stretches of a section are summarized in round 0, so the section itself comes later.
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
