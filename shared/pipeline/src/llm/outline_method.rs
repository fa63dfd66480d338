//! The outline method: finds the outline of a document with rules and a model. It reads top to bottom, asks
//! questions, and stops where answers are missing; the next round starts again with the new answers. Pure
//! (I-12): the same text, settings and answers give the same outline, or the same questions.
//!
//! `llm` asks about every front page and every title. `auto` asks about what the rules leave open. In both
//! modes a title counts only if the rules can find it on the page. A model that contradicts too many pages is
//! ignored, and the rules decide.

use stemma_document::{
    EntryVerdict, Method, ModelAnswers, OutlineError, PageNo, PageSpan, SectionStart, Source,
    SourceBody,
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

// With this many contradictions, and this share of all statements, a model is not trusted.
const MIN_DISPUTES: usize = 3;
const DISTRUST_SHARE: f32 = 0.15;
// Above this share, a model is trusted for what it names but not for what it omits.
const DOUBT_SHARE: f32 = 0.05;
// A shorter list is not a table of contents.
const MIN_TOC_ENTRIES: usize = 3;

pub(crate) enum OutlineRound {
    Pending(Vec<(QuestionId, StructureQuestion)>),
    /// The outline, and the statistics of its answers.
    Done(Box<Draft>, ModelAnswers),
}

/// Runs the method over `source` as far as the answers go.
///
/// # Errors
/// [`OutlineError`] if an entry lies outside the document, which cannot happen for a `Source` whose headings
/// lie inside its lines.
pub(crate) fn outline_round(
    source: &Source,
    settings: &RunSettings,
    answers: &AnswerSet,
) -> Result<OutlineRound, OutlineError> {
    let rules = structure::outline(source, &settings.outline)?;
    let mut queries = StructureQueries::new(&source.body, answers);
    let result = match &source.body {
        SourceBody::Pages(pages) => {
            // A quarter of the prompt is left for instructions and delimiters.
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

struct OutlineResult {
    draft: Result<Draft, OutlineError>,
    toc_pages: Vec<PageNo>,
}

// Strategies to find the sections, best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OutlineStrategy {
    // A table of contents with page numbers.
    Labels,
    // A table of contents, ignoring its page numbers.
    Titles,
    // All pages, window by window.
    Windows,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ModelTrust {
    Full,
    // Trusted for what it names; the rules add what it omits.
    Half,
    None,
}

struct Outliner<'d, 'k, 'a> {
    queries: &'d mut StructureQueries<'k>,
    analysis: PageAnalysis<'a>,
    // The result without a model.
    rules: Draft,
    settings: &'a RunSettings,
    toc_pages: Vec<PageNo>,
    // Whether a better strategy failed.
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
            // Titles of an abandoned strategy say nothing about this one: `start_strategy` has reset the counts.
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

    // Whether the rules alone give an outline, most of it confirmed.
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

    // The located entries of a strategy, and the pages without an answer.
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

    // Rejects entries if too few were found, or if they end in the first half of the document.
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

    // Merges the entries with those of the rules, and splits long sections.
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
        let rules = entries::entries_from_rules(&self.analysis, &self.rules);
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
        // A model that is not fully trusted may have omitted sections, so all sections of the rules are added.
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

    // Compares the model's statements of the current strategy with the pages.
    fn model_trust(&self, entries: &[OutlineEntry]) -> ModelTrust {
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

fn share(part: usize, all: usize) -> f32 {
    part as f32 / all.max(1) as f32
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

// Asks the model about each title of a draft made by rules. A rejected title stays, as unconfirmed.
fn review_rules(queries: &mut StructureQueries<'_>, rules: Draft) -> QueryResult<Draft> {
    let all = rules.outline.entries();
    let indices: Vec<usize> = (0..all.len())
        .filter(|at| {
            matches!(
                all[*at].verdict,
                EntryVerdict::Confirmed { .. } | EntryVerdict::Unconfirmed { .. }
            )
        })
        .collect();
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
