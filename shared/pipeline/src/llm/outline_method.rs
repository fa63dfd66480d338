//! The method: how the outline of a document is found with a model beside the rules. It reads top to bottom, asks
//! questions, and stops where answers are missing; the next round walks it again with those. Pure (I-12): the same text,
//! settings and answers give the same outline, or the same questions.
//!
//! `llm` asks about every front page and every title. `auto` asks about what the rules leave open. Either way a title
//! counts only where it can be read on the page, and where a model contradicts too much of what can be read there the
//! outline is that of rules.

use stemma_document::{
    EntryVerdict, EvidenceSource, Method, ModelAnswers, OutlineError, PageNo, PageSpan,
    SectionStart, Source, SourceBody, VerifiedEntry,
};

use super::answer_set::AnswerSet;
use super::entries::{self, MergePolicy, OutlineEntry};
use super::questions::{QuestionId, StructureQuestion};
use super::structure_queries::{QueryResult, StructureQueries, TitleStats};
use super::toc::{self, FrontToc};
use super::{split, verify};
use crate::settings::{RunSettings, StructureMode};
use stemma_outline::structure::verify_titles::PageAnalysis;
use stemma_outline::structure::{self, Draft};

/// Contradictions from which on, and share of what was said above which, a model is not trusted.
const MIN_DISPUTES: usize = 3;
const DISTRUST_SHARE: f32 = 0.15;
/// The share above which it is trusted for what it names, and not for what it leaves out.
const DOUBT_SHARE: f32 = 0.05;
/// Entries that make a table of contents.
const MIN_TOC_ENTRIES: usize = 3;

/// What one walk of the method comes to.
pub(crate) enum OutlineRound {
    /// Answers are missing.
    Pending(Vec<(QuestionId, StructureQuestion)>),
    /// The outline, and the numbers of the answers it was found with.
    Done(Box<Draft>, ModelAnswers),
}

/// Walks the method over `source` as far as the answers in `answer_set` go.
///
/// # Errors
/// [`OutlineError`] when an entry would lie outside the document; this does not happen for a `Source` whose headings lie
/// inside its lines.
pub(crate) fn outline_round(
    source: &Source,
    settings: &RunSettings,
    answers: &AnswerSet,
) -> Result<OutlineRound, OutlineError> {
    let rules = structure::outline(source, &settings.outline)?;
    let mut queries = StructureQueries::new(&source.body, answers);
    let result = match &source.body {
        SourceBody::Pages(pages) => {
            let most_tokens = settings
                .model
                .as_ref()
                .map_or(u32::MAX, |model| model.max_prompt_tokens / 4 * 3);
            let analysis = PageAnalysis::new(source, pages, &settings.outline, most_tokens);
            Outliner {
                queries: &mut queries,
                analysis,
                rules,
                settings,
                toc_pages: Vec::new(),
                gave_up: false,
            }
            .outline()
        }
        SourceBody::Lines(_) if settings.structure == StructureMode::Llm => {
            review_rules(&mut queries, rules).map(|draft| OutlineResult {
                draft: Ok(draft),
                toc_pages: Vec::new(),
            })
        }
        SourceBody::Lines(_) => Ok(OutlineResult {
            draft: Ok(rules),
            toc_pages: Vec::new(),
        }),
    };
    let Ok(OutlineResult {
        draft,
        toc_pages: contents,
    }) = result
    else {
        return Ok(OutlineRound::Pending(queries.into_pending()));
    };
    let mut draft = draft?;
    draft.gaps.extend(queries.into_gaps());
    Ok(OutlineRound::Done(
        Box::new(draft),
        ModelAnswers {
            contents_pages: contents,
            ..answers.totals()
        },
    ))
}

/// The outline at the end of a walk, and the pages that are contents.
struct OutlineResult {
    draft: Result<Draft, OutlineError>,
    toc_pages: Vec<PageNo>,
}

/// A way to the sections, strongest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OutlineStrategy {
    /// A table of contents with page numbers.
    Labels,
    /// A table of contents, its page numbers not followed.
    Titles,
    /// Stretches of pages.
    Windows,
}

/// How far a model is trusted that said things which do not stand on paper.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ModelTrust {
    Full,
    /// What it names is taken, what it leaves out comes from the rules.
    Half,
    None,
}

struct Outliner<'d, 'k, 'a> {
    queries: &'d mut StructureQueries<'k>,
    analysis: PageAnalysis<'a>,
    /// What rules find alone.
    rules: Draft,
    settings: &'a RunSettings,
    /// The pages that are contents.
    toc_pages: Vec<PageNo>,
    /// Whether a stronger way did not hold.
    gave_up: bool,
}

impl Outliner<'_, '_, '_> {
    fn outline(mut self) -> QueryResult<OutlineResult> {
        if self.settings.structure == StructureMode::Auto && self.rules_are_reliable() {
            let draft = split::fill_open_entries(self.queries, &self.analysis, &self.rules)?;
            return Ok(self.finish(draft));
        }
        if self.rules.method == Method::Outline && self.rules_are_reliable() {
            let draft = review_rules(self.queries, self.rules.clone())?;
            if draft.outline.accuracy() >= self.settings.outline.min_accuracy {
                return Ok(self.finish(Ok(draft)));
            }
            self.record_rejected("the embedded outline", draft.outline.accuracy());
        }
        let FrontToc { pages, table } =
            toc::find_toc(self.queries, &self.analysis, self.settings.structure)?;
        self.toc_pages = pages;
        let strategies = [
            OutlineStrategy::Labels,
            OutlineStrategy::Titles,
            OutlineStrategy::Windows,
        ];
        for strategy in strategies
            .into_iter()
            .filter(|strategy| table.is_some() || *strategy == OutlineStrategy::Windows)
        {
            self.queries.start_strategy();
            let (mut entries, unanswered) = self.collect_entries(strategy, table)?;
            let bare = entries.iter().all(|entry| entry.entry.label.is_none());
            let is_table = strategy == OutlineStrategy::Windows || entries.len() >= MIN_TOC_ENTRIES;
            if strategy == OutlineStrategy::Labels && (bare || !is_table) {
                continue; // the next way is the same table
            }
            if !is_table {
                self.record_rejected(
                    "a table of contents of so few entries",
                    entries::accuracy(&entries),
                );
                continue;
            }
            verify::verify_and_repair(self.queries, &self.analysis, &mut entries)?;
            match self.reject_reason(strategy, &entries) {
                None => return self.build_draft(strategy, entries, &unanswered),
                Some((what, accuracy)) => self.record_rejected(what, accuracy),
            }
        }
        let draft = self.rules.clone();
        let code = "model.structure_by_rules";
        self.queries.add_gap(
            code,
            None,
            "no method with the model held; the sections are those that rules find".into(),
        );
        let draft = review_rules(self.queries, draft)?;
        Ok(self.finish(Ok(draft)))
    }

    fn finish(self, draft: Result<Draft, OutlineError>) -> OutlineResult {
        OutlineResult {
            draft,
            toc_pages: self.toc_pages,
        }
    }

    /// Whether what rules find alone is an outline: sections, most of them confirmed.
    fn rules_are_reliable(&self) -> bool {
        let Draft {
            method, outline, ..
        } = &self.rules;
        *method != Method::Windows && outline.accuracy() >= self.settings.outline.min_accuracy
    }

    fn record_rejected(&mut self, what: &str, accuracy: f32) {
        self.gave_up = true;
        let share = (accuracy * 100.0).round();
        let detail = format!(
            "{what} was not followed: {share} % of its titles were found where they should stand"
        );
        self.queries.add_gap("model.method_failed", None, detail);
    }

    /// The entries that one way leads to, located; and the pages it had no answer about.
    fn collect_entries(
        &mut self,
        strategy: OutlineStrategy,
        table: Option<PageSpan>,
    ) -> QueryResult<(Vec<OutlineEntry>, Vec<PageSpan>)> {
        let queries = &mut *self.queries;
        let analysis = &self.analysis;
        let Some(table) = table.filter(|_| strategy != OutlineStrategy::Windows) else {
            let Some(whole) = analysis.all_pages() else {
                return Ok((Vec::new(), Vec::new()));
            };
            let (entries, unanswered) = toc::read_windows(queries, analysis, whole)?;
            return Ok((
                toc::drop_toc_copies(&entries, &self.toc_pages, analysis),
                unanswered,
            ));
        };
        let mut entries = toc::read_toc(queries, analysis, table)?;
        let proposed: Vec<_> = entries
            .iter()
            .map(|entry| entry.to_proposed(true))
            .collect();
        let places = analysis.locate(&proposed, Some(table), strategy == OutlineStrategy::Labels);
        for (entry, (spot, expected)) in entries.iter_mut().zip(places) {
            entry.expected = expected;
            if let Some(spot) = spot {
                entry.place_at(spot, analysis);
            }
        }
        verify::locate_missing(queries, analysis, &mut entries)?;
        Ok((entries, Vec::new()))
    }

    /// Why entries are no outline: too few stand where they should, or they end in the first half of the document.
    fn reject_reason(
        &self,
        strategy: OutlineStrategy,
        entries: &[OutlineEntry],
    ) -> Option<(&'static str, f32)> {
        let accuracy = entries::accuracy(entries);
        let last = entries
            .iter()
            .filter_map(|entry| entry.spot)
            .max()
            .map_or(0, |spot| self.analysis.page(spot).get());
        let ends_early =
            strategy != OutlineStrategy::Windows && last as usize * 2 < self.analysis.len();
        match strategy {
            _ if accuracy < self.settings.outline.min_accuracy => Some((strategy.name(), accuracy)),
            _ if ends_early => Some((
                "a table of contents that ends in the first half of the document",
                accuracy,
            )),
            _ => None,
        }
    }

    /// The outline that entries come to: with what rules see beside them, large sections split.
    fn build_draft(
        self,
        strategy: OutlineStrategy,
        entries: Vec<OutlineEntry>,
        unanswered: &[PageSpan],
    ) -> QueryResult<OutlineResult> {
        let trust = self.model_trust(&entries);
        if self.rules_are_reliable() && trust == ModelTrust::None {
            let detail = "the model contradicts too much of what stands on the pages; the sections are those that rules find";
            self.queries
                .add_gap("model.not_trusted", None, detail.into());
            let rules = self.rules.clone();
            return Ok(self.finish(Ok(rules)));
        }
        let trusts_rejections = entries::trusts_rejections(&entries);
        let rules = entries_from_rules(&self.analysis, &self.rules);
        let dropped = entries.iter().filter(|entry| {
            entry
                .to_located(&self.analysis, trusts_rejections)
                .is_none()
        });
        let dropped: Vec<_> = dropped.map(|entry| entry.entry.clone()).collect();
        let located = entries.into_iter().filter(|entry| {
            entry
                .to_located(&self.analysis, trusts_rejections)
                .is_some()
        });
        let missed = if trust == ModelTrust::Full {
            MergePolicy::Corroborated
        } else {
            MergePolicy::All
        };
        let entries = entries::merge_rule_sections(
            located.collect(),
            &rules,
            &self.analysis,
            missed,
            |page: PageNo| unanswered.iter().any(|pages| pages.contains(page)),
        );
        let entries = split::split_long_sections(self.queries, &self.analysis, entries, &rules)?;
        let settled = entries
            .iter()
            .filter_map(|entry| entry.to_located(&self.analysis, trusts_rejections))
            .collect();
        let method = if strategy == OutlineStrategy::Windows {
            Method::Model
        } else {
            Method::PrintedContents
        };
        let draft = self
            .analysis
            .draft(settled, dropped, Vec::new(), method, &self.rules);
        Ok(self.finish(draft))
    }

    /// How much of what the model said on the way that is gone agrees with what can be read.
    fn model_trust(&self, entries: &[OutlineEntry]) -> ModelTrust {
        let share = |part: usize, all: usize| part as f32 / all.max(1) as f32;
        let checked = entries.iter().filter(|entry| entry.check.is_some()).count();
        let disputed = entries.iter().filter(|entry| entry.is_disputed()).count();
        let TitleStats { total, misplaced } = self.queries.current;
        let against = share(disputed, checked) + share(misplaced, total);
        match disputed + misplaced {
            disputes if disputes >= MIN_DISPUTES && against > DISTRUST_SHARE => ModelTrust::None,
            _ if against > DOUBT_SHARE || self.gave_up => ModelTrust::Half,
            _ => ModelTrust::Full,
        }
    }
}

impl OutlineStrategy {
    fn name(self) -> &'static str {
        match self {
            Self::Labels => "the table of contents with its page numbers",
            Self::Titles => "the table of contents without its page numbers",
            Self::Windows => "the reading of all pages",
        }
    }
}

/// A draft of rules, each title looked at by the model: what it does not confirm is unconfirmed and stays.
fn review_rules(queries: &mut StructureQueries<'_>, rules: Draft) -> QueryResult<Draft> {
    let claims = |entry: &VerifiedEntry| {
        matches!(
            entry.verdict,
            EntryVerdict::Confirmed { .. } | EntryVerdict::Unconfirmed { .. }
        )
    };
    let all = rules.outline.entries();
    let indices: Vec<usize> = (0..all.len()).filter(|at| claims(&all[*at])).collect();
    let checks = queries.verify_titles(
        indices
            .iter()
            .map(|at: &usize| -> (String, SectionStart) {
                (all[*at].located.entry.title.clone(), all[*at].located.place)
            })
            .collect(),
    )?;
    let mut by_entry = vec![None; all.len()];
    indices
        .into_iter()
        .zip(checks)
        .for_each(|(at, checks)| by_entry[at] = checks);
    let outline =
        rules
            .outline
            .clone()
            .with_verdicts(|at, verdict| match (by_entry[at], verdict) {
                (Some(checks), EntryVerdict::Unconfirmed { .. }) if checks.stands => {
                    EntryVerdict::Confirmed {
                        starts_page: checks.starts_page,
                    }
                }
                (Some(checks), EntryVerdict::Confirmed { starts_page }) if !checks.stands => {
                    EntryVerdict::Unconfirmed { starts_page }
                }
                _ => verdict,
            });
    Ok(Draft { outline, ..rules })
}

/// The sections that rules found and read, as entries.
pub(super) fn entries_from_rules(analysis: &PageAnalysis<'_>, rules: &Draft) -> Vec<OutlineEntry> {
    rules
        .outline
        .entries()
        .iter()
        .filter_map(|one: &VerifiedEntry| {
            let entry = one.located.entry.clone();
            let spot = analysis.heading_at(one.located.place)?;
            let claims =
                entry.evidence != EvidenceSource::Window && one.verdict != EntryVerdict::Declared;
            let found_by_rules = matches!(one.verdict, EntryVerdict::Confirmed { .. });
            claims.then_some(OutlineEntry {
                entry,
                expected: Some(analysis.page(spot)),
                spot: Some(spot),
                found_by_rules,
                check: None,
            })
        })
        .collect()
}
