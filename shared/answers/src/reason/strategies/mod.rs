//! The strategies, one file each. All walk one document, judge sections into a [`Trail`], and stop where the model or the
//! budget does; what is judged by then counts.

pub(super) mod auto;
pub(super) mod beam;
pub(super) mod best_first;
pub(super) mod mcts;
pub(super) mod single;

use std::collections::BTreeMap;

use stemma_document::SectionId;

use super::asker::{AskError, Consultation};
use super::judge::{Asked, Kind, Said, Verdict};
use super::outline::{Outline, cut, one_line};
use super::settings::ReasonSettings;
use super::verdicts::Verdicts;
use super::walked::Note;
use stemma_catalog::catalogue::Listed;
use stemma_catalog::shelf::Shelf;

/// Characters of the title above a section, where a listing shows it out of its place.
const ABOVE_CHARS: usize = 40;

/// What strategies stand on.
pub(super) struct Ground<'a> {
    pub(super) outline: &'a Outline,
    pub(super) consultation: &'a Consultation,
    pub(super) settings: &'a ReasonSettings,
    pub(super) asked: &'a Asked,
    pub(super) shelf: &'a dyn Shelf,
    pub(super) listed: &'a Listed,
    pub(super) verdicts: &'a Verdicts,
}

/// What a strategy learned.
#[derive(Debug, Default)]
pub(super) struct Trail {
    /// Sections that were judged.
    pub(super) judged: BTreeMap<usize, Judged>,
    /// What the model said that it thinks, call by call.
    pub(super) thinking: Vec<String>,
    pub(super) notes: Vec<Note>,
    pub(super) unknown: u32,
}

/// A section that was judged.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Judged {
    /// The sum of the values that count, and how many those are.
    sum: f32,
    pub(super) visits: u32,
    pub(super) reason: String,
    /// No model said so: it stands in by what its words say.
    pub(super) by_words: bool,
}

impl Judged {
    /// 0–1.
    pub(super) fn score(&self) -> f32 {
        if self.visits == 0 {
            0.0
        } else {
            self.sum / self.visits as f32
        }
    }
}

impl Trail {
    /// Adds what a call said; a further value of a section counts as much as those before.
    pub(super) fn add(&mut self, said: &Said) {
        self.unknown += said.unknown;
        if !said.thinking.is_empty() {
            self.thinking.push(said.thinking.clone());
        }
        for verdict in &said.verdicts {
            let judged = self.judged.entry(verdict.at).or_default();
            judged.sum += verdict.score;
            judged.visits += 1;
            judged.reason.clone_from(&verdict.reason);
        }
    }

    /// Puts a score in the place of all before.
    pub(super) fn set(&mut self, at: usize, score: f32, reason: &str) {
        let judged = self.judged.entry(at).or_default();
        *judged = Judged {
            sum: score,
            visits: 1,
            reason: reason.into(),
            by_words: false,
        };
    }

    /// Lets a section stand in by its words alone, behind whatever a model judged good.
    pub(super) fn stand_in(
        &mut self,
        settings: &ReasonSettings,
        at: usize,
        lexical: f32,
        reason: &str,
    ) {
        self.set(at, settings.threshold * lexical, reason);
        if let Some(judged) = self.judged.get_mut(&at) {
            judged.by_words = true;
        }
    }

    /// The score of a section; `None` where it was not judged.
    pub(super) fn score(&self, at: usize) -> Option<f32> {
        self.judged.get(&at).map(Judged::score)
    }

    /// Sections that a model judged at `threshold` or better.
    pub(super) fn at_least(&self, threshold: f32) -> usize {
        self.judged
            .values()
            .filter(|judged| !judged.by_words && judged.score() >= threshold)
            .count()
    }
}

/// What a section is judged by beside title and summary: at most so many characters for each.
type Excerpts<'a> = (usize, &'a (dyn Fn(usize) -> String + Send + Sync));

impl Ground<'_> {
    /// Asks about sections in a listing of the caller's.
    async fn judge(&self, kind: Kind, shown: &[usize], listing: &str) -> Result<Said, AskError> {
        self.asked
            .judge(self.consultation, kind, self.outline, listing, shown)
            .await
    }

    /// Values sections by title and summary, each under the title above it. What was valued for the same question before
    /// is not asked again.
    async fn value(
        &self,
        kind: Kind,
        shown: &[usize],
        summary_chars: usize,
        trail: &mut Trail,
    ) -> Result<Vec<(usize, f32)>, AskError> {
        self.value_with(kind, shown, summary_chars, (0, &|_| String::new()), trail)
            .await
    }

    /// The same with an excerpt below each section.
    async fn value_with(
        &self,
        kind: Kind,
        shown: &[usize],
        summary_chars: usize,
        (excerpt_chars, excerpt): Excerpts<'_>,
        trail: &mut Trail,
    ) -> Result<Vec<(usize, f32)>, AskError> {
        let known: Vec<Verdict> = shown
            .iter()
            .filter_map(|at| self.verdicts.get(self, kind, *at))
            .collect();
        let left: Vec<usize> = shown
            .iter()
            .copied()
            .filter(|at| !known.iter().any(|verdict| verdict.at == *at))
            .collect();
        let mut said = Said {
            verdicts: known,
            ..Said::default()
        };
        if !left.is_empty() {
            let listing = left
                .iter()
                .map(|at: &usize| {
                    let excerpt = cut(&one_line(&excerpt(*at)), excerpt_chars);
                    let below = if excerpt.is_empty() {
                        String::new()
                    } else {
                        format!("\n    “{excerpt}”")
                    };
                    format!("{}{below}", self.entry(*at, summary_chars))
                })
                .collect::<Vec<_>>()
                .join("\n");
            let fresh = self.judge(kind, &left, &listing).await?;
            fresh
                .verdicts
                .iter()
                .for_each(|verdict| self.verdicts.put(self, kind, verdict));
            (said.thinking, said.unknown) = (fresh.thinking, fresh.unknown);
            said.verdicts.extend(fresh.verdicts);
        }
        trail.add(&said);
        Ok(said
            .verdicts
            .into_iter()
            .map(|verdict| (verdict.at, verdict.score))
            .collect())
    }

    /// A line of a listing, with the title above.
    fn entry(&self, at: usize, summary_chars: usize) -> String {
        let above = self.outline.nodes[at]
            .parent
            .map(|above| cut(&self.outline.nodes[above].title, ABOVE_CHARS));
        self.outline.entry(at, above.as_deref(), summary_chars)
    }

    /// The beginnings of the own texts of sections; where the store does not say, the words that search found.
    async fn texts(&self, shown: &[usize], most_chars: usize) -> Vec<String> {
        let ids: Vec<SectionId> = shown.iter().map(|at| self.outline.nodes[*at].id).collect();
        let texts = self
            .shelf
            .own_texts(self.listed, &ids, 4 * most_chars)
            .await
            .unwrap_or_default();
        let found = |id: &SectionId| {
            self.outline
                .hits
                .get(id)
                .map(|hit| hit.excerpt.text.clone())
                .unwrap_or_default()
        };
        ids.iter()
            .enumerate()
            .map(|(n, id): (usize, &SectionId)| {
                texts
                    .get(n)
                    .filter(|text| !text.is_empty())
                    .cloned()
                    .unwrap_or_else(|| found(id))
            })
            .collect()
    }
}

/// What stands in the place of a walk that brought nothing: the sections that fit best without a model.
pub(super) fn lexical(outline: &Outline, settings: &ReasonSettings, trail: &mut Trail) {
    for at in outline.lexical(settings.sections) {
        trail.stand_in(
            settings,
            at,
            outline.nodes[at].lexical,
            "by its words, without a model",
        );
    }
}
