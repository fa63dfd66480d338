//! The method: how the outline of a document is found with a model beside the rules. It reads top to bottom, asks
//! questions, and stops where answers are missing; the next round walks it again with those. Pure (I-12): the same text,
//! settings and answers give the same outline, or the same questions.
//!
//! `llm` asks about every front page and every title. `auto` asks about what the rules leave open. Either way a title
//! counts only where it can be read on the page, and where a model contradicts too much of what can be read there the
//! outline is that of rules.

use stemma_document::{
    Body, Method, ModelAnswers, OutlineError, PageNo, PageSpan, Place, Source, Verdict,
    VerifiedEntry, Witness,
};

use super::asks::{Ask, QuestionId};
use super::desk::{Desk, Named, Step};
use super::entries::{self, Entry, Missed};
use super::known::Known;
use super::reading::{self, Front};
use super::{checking, splitting};
use crate::settings::{Settings, StructureMode};
use stemma_outline::structure::paper::Paper;
use stemma_outline::structure::{self, Draft};

/// Contradictions from which on, and share of what was said above which, a model is not trusted.
const DISPUTES: usize = 3;
const DISPUTED: f32 = 0.15;
/// The share above which it is trusted for what it names, and not for what it leaves out.
const DOUBTED: f32 = 0.05;
/// Entries that make a table of contents.
const LISTED: usize = 3;

/// What one walk of the method comes to.
pub(crate) enum Outlined {
    /// Answers are missing.
    Asks(Vec<(QuestionId, Ask)>),
    /// The outline, and the numbers of the answers it was found with.
    Done(Box<Draft>, ModelAnswers),
}

/// Walks the method over `source` as far as the answers in `known` go.
///
/// # Errors
/// [`OutlineError`] when an entry would lie outside the document; this does not happen for a `Source` whose headings lie
/// inside its lines.
pub(crate) fn outline(
    source: &Source,
    settings: &Settings,
    known: &Known,
) -> Result<Outlined, OutlineError> {
    let rules = structure::outline(source, &settings.outline)?;
    let mut desk = Desk::of(&source.body, known);
    let found = match &source.body {
        Body::Pages(pages) => {
            let most_tokens = settings
                .model
                .as_ref()
                .map_or(u32::MAX, |model| model.max_prompt_tokens / 4 * 3);
            let paper = Paper::of(source, pages, &settings.outline, most_tokens);
            Outliner {
                desk: &mut desk,
                paper,
                rules,
                settings,
                contents: Vec::new(),
                gave_up: false,
            }
            .outline()
        }
        Body::Lines(_) if settings.structure == StructureMode::Llm => reviewed(&mut desk, rules)
            .map(|draft| Found {
                draft: Ok(draft),
                contents: Vec::new(),
            }),
        Body::Lines(_) => Ok(Found {
            draft: Ok(rules),
            contents: Vec::new(),
        }),
    };
    let Ok(Found { draft, contents }) = found else {
        return Ok(Outlined::Asks(desk.wanted()));
    };
    let mut draft = draft?;
    draft.gaps.extend(desk.into_gaps());
    Ok(Outlined::Done(
        Box::new(draft),
        ModelAnswers {
            contents_pages: contents,
            ..known.summed()
        },
    ))
}

/// The outline at the end of a walk, and the pages that are contents.
struct Found {
    draft: Result<Draft, OutlineError>,
    contents: Vec<PageNo>,
}

/// A way to the sections, strongest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// A table of contents with page numbers.
    Labels,
    /// A table of contents, its page numbers not followed.
    Titles,
    /// Stretches of pages.
    Windows,
}

/// How far a model is trusted that said things which do not stand on paper.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trust {
    Full,
    /// What it names is taken, what it leaves out comes from the rules.
    Half,
    None,
}

struct Outliner<'d, 'k, 'a> {
    desk: &'d mut Desk<'k>,
    paper: Paper<'a>,
    /// What rules find alone.
    rules: Draft,
    settings: &'a Settings,
    /// The pages that are contents.
    contents: Vec<PageNo>,
    /// Whether a stronger way did not hold.
    gave_up: bool,
}

impl Outliner<'_, '_, '_> {
    fn outline(mut self) -> Step<Found> {
        if self.settings.structure == StructureMode::Auto && self.rules_hold() {
            let draft = splitting::mended(self.desk, &self.paper, &self.rules)?;
            return Ok(self.found(draft));
        }
        if self.rules.method == Method::Outline && self.rules_hold() {
            let draft = reviewed(self.desk, self.rules.clone())?;
            if draft.outline.accuracy() >= self.settings.outline.min_accuracy {
                return Ok(self.found(Ok(draft)));
            }
            self.given_up("the embedded outline", draft.outline.accuracy());
        }
        let Front { pages, table } =
            reading::front(self.desk, &self.paper, self.settings.structure)?;
        self.contents = pages;
        let ways = [Way::Labels, Way::Titles, Way::Windows];
        for way in ways
            .into_iter()
            .filter(|way| table.is_some() || *way == Way::Windows)
        {
            self.desk.begin();
            let (mut entries, unheard) = self.entries(way, table)?;
            let bare = entries.iter().all(|entry| entry.entry.label.is_none());
            let is_table = way == Way::Windows || entries.len() >= LISTED;
            if way == Way::Labels && (bare || !is_table) {
                continue; // the next way is the same table
            }
            if !is_table {
                self.given_up(
                    "a table of contents of so few entries",
                    entries::accuracy(&entries),
                );
                continue;
            }
            checking::checked(self.desk, &self.paper, &mut entries)?;
            match self.fault(way, &entries) {
                None => return self.settled(way, entries, &unheard),
                Some((what, accuracy)) => self.given_up(what, accuracy),
            }
        }
        let draft = self.rules.clone();
        let code = "model.structure_by_rules";
        self.desk.gap(
            code,
            None,
            "no method with the model held; the sections are those that rules find".into(),
        );
        let draft = reviewed(self.desk, draft)?;
        Ok(self.found(Ok(draft)))
    }

    fn found(self, draft: Result<Draft, OutlineError>) -> Found {
        Found {
            draft,
            contents: self.contents,
        }
    }

    /// Whether what rules find alone is an outline: sections, most of them confirmed.
    fn rules_hold(&self) -> bool {
        let Draft {
            method, outline, ..
        } = &self.rules;
        *method != Method::Windows && outline.accuracy() >= self.settings.outline.min_accuracy
    }

    fn given_up(&mut self, what: &str, accuracy: f32) {
        self.gave_up = true;
        let share = (accuracy * 100.0).round();
        let detail = format!(
            "{what} was not followed: {share} % of its titles were found where they should stand"
        );
        self.desk.gap("model.method_failed", None, detail);
    }

    /// The entries that one way leads to, located; and the pages it had no answer about.
    fn entries(&mut self, way: Way, table: Option<PageSpan>) -> Step<(Vec<Entry>, Vec<PageSpan>)> {
        let desk = &mut *self.desk;
        let paper = &self.paper;
        let Some(table) = table.filter(|_| way != Way::Windows) else {
            let Some(whole) = paper.whole() else {
                return Ok((Vec::new(), Vec::new()));
            };
            let (entries, unheard) = reading::begun(desk, paper, whole)?;
            return Ok((
                reading::without_listings(&entries, &self.contents, paper),
                unheard,
            ));
        };
        let mut entries = reading::listed(desk, paper, table)?;
        let wanted: Vec<_> = entries.iter().map(|entry| entry.wanted(true)).collect();
        let places = paper.locate(&wanted, Some(table), way == Way::Labels);
        for (entry, (spot, expected)) in entries.iter_mut().zip(places) {
            entry.expected = expected;
            if let Some(spot) = spot {
                entry.see(spot, paper);
            }
        }
        checking::located(desk, paper, &mut entries)?;
        Ok((entries, Vec::new()))
    }

    /// Why entries are no outline: too few stand where they should, or they end in the first half of the document.
    fn fault(&self, way: Way, entries: &[Entry]) -> Option<(&'static str, f32)> {
        let accuracy = entries::accuracy(entries);
        let last = entries
            .iter()
            .filter_map(|entry| entry.spot)
            .max()
            .map_or(0, |spot| self.paper.page(spot).get());
        let ends_early = way != Way::Windows && last as usize * 2 < self.paper.len();
        match way {
            _ if accuracy < self.settings.outline.min_accuracy => Some((way.name(), accuracy)),
            _ if ends_early => Some((
                "a table of contents that ends in the first half of the document",
                accuracy,
            )),
            _ => None,
        }
    }

    /// The outline that entries come to: with what rules see beside them, large sections split.
    fn settled(self, way: Way, entries: Vec<Entry>, unheard: &[PageSpan]) -> Step<Found> {
        let trust = self.trust(&entries);
        if self.rules_hold() && trust == Trust::None {
            let detail = "the model contradicts too much of what stands on the pages; the sections are those that rules find";
            self.desk.gap("model.not_trusted", None, detail.into());
            let rules = self.rules.clone();
            return Ok(self.found(Ok(rules)));
        }
        let believed = entries::believed(&entries);
        let rules = of_rules(&self.paper, &self.rules);
        let dropped = entries
            .iter()
            .filter(|entry| entry.settled(&self.paper, believed).is_none());
        let dropped: Vec<_> = dropped.map(|entry| entry.entry.clone()).collect();
        let kept = entries
            .into_iter()
            .filter(|entry| entry.settled(&self.paper, believed).is_some());
        let missed = if trust == Trust::Full {
            Missed::Vouched
        } else {
            Missed::All
        };
        let entries = entries::completed(
            kept.collect(),
            &rules,
            &self.paper,
            missed,
            |page: PageNo| unheard.iter().any(|pages| pages.contains(page)),
        );
        let entries = splitting::split(self.desk, &self.paper, entries, &rules)?;
        let settled = entries
            .iter()
            .filter_map(|entry| entry.settled(&self.paper, believed))
            .collect();
        let method = if way == Way::Windows {
            Method::Model
        } else {
            Method::PrintedContents
        };
        let draft = self
            .paper
            .draft(settled, dropped, Vec::new(), method, &self.rules);
        Ok(self.found(draft))
    }

    /// How much of what the model said on the way that is gone agrees with what can be read.
    fn trust(&self, entries: &[Entry]) -> Trust {
        let share = |part: usize, all: usize| part as f32 / all.max(1) as f32;
        let looked = entries
            .iter()
            .filter(|entry| entry.looked.is_some())
            .count();
        let disputed = entries.iter().filter(|entry| entry.is_disputed()).count();
        let Named { named, astray } = self.desk.here;
        let against = share(disputed, looked) + share(astray, named);
        match disputed + astray {
            disputes if disputes >= DISPUTES && against > DISPUTED => Trust::None,
            _ if against > DOUBTED || self.gave_up => Trust::Half,
            _ => Trust::Full,
        }
    }
}

impl Way {
    fn name(self) -> &'static str {
        match self {
            Self::Labels => "the table of contents with its page numbers",
            Self::Titles => "the table of contents without its page numbers",
            Self::Windows => "the reading of all pages",
        }
    }
}

/// A draft of rules, each title looked at by the model: what it does not confirm is unconfirmed and stays.
fn reviewed(desk: &mut Desk<'_>, rules: Draft) -> Step<Draft> {
    let claims = |entry: &VerifiedEntry| {
        matches!(
            entry.verdict,
            Verdict::Found { .. } | Verdict::Unconfirmed { .. }
        )
    };
    let all = rules.outline.entries();
    let asked: Vec<usize> = (0..all.len()).filter(|at| claims(&all[*at])).collect();
    let looked = desk.looked(
        asked
            .iter()
            .map(|at: &usize| -> (String, Place) {
                (all[*at].located.entry.title.clone(), all[*at].located.place)
            })
            .collect(),
    )?;
    let mut said = vec![None; all.len()];
    asked
        .into_iter()
        .zip(looked)
        .for_each(|(at, looked)| said[at] = looked);
    let outline = rules
        .outline
        .clone()
        .reviewed(|at, verdict| match (said[at], verdict) {
            (Some(looked), Verdict::Unconfirmed { .. }) if looked.stands => Verdict::Found {
                starts_page: looked.starts_page,
            },
            (Some(looked), Verdict::Found { starts_page }) if !looked.stands => {
                Verdict::Unconfirmed { starts_page }
            }
            _ => verdict,
        });
    Ok(Draft { outline, ..rules })
}

/// The sections that rules found and read, as entries.
pub(super) fn of_rules(paper: &Paper<'_>, rules: &Draft) -> Vec<Entry> {
    rules
        .outline
        .entries()
        .iter()
        .filter_map(|one: &VerifiedEntry| {
            let entry = one.located.entry.clone();
            let spot = paper.at(one.located.place)?;
            let claims = entry.witness != Witness::Window && one.verdict != Verdict::Declared;
            let seen = matches!(one.verdict, Verdict::Found { .. });
            claims.then_some(Entry {
                entry,
                expected: Some(paper.page(spot)),
                spot: Some(spot),
                seen,
                looked: None,
            })
        })
        .collect()
}
