//! Packs: sections of one document travel to their model together (architecture §4 rule 9).
//!
//! A pack is transport and nothing else: each section keeps its key, its answer and its failure. Sections of one run
//! that are asked about at the same time share calls of at most [`SEATS`] sections and [`TOKENS`] tokens; whoever is left
//! without a sound answer asks again alone. A pack is under way by itself, so that a task that is cut off holds up no
//! other.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Deserialize;
use stemma_engine::stage::Task;
use stemma_engine::{Class, Env, Failure, RunId};
use stemma_llm::fence::fenced;
use stemma_llm::gate::Gate;
use stemma_llm::inquiry::inquire;
use stemma_llm::request::Request;
use stemma_llm::tokens;
use tokio::sync::oneshot;

use super::Question;
use super::log::Log;
use super::summaries::AROUND_TOKENS;
use crate::Filings;

/// Sections in one call at most.
const SEATS: usize = 8;
/// Tokens of their blocks at most; a section that has more travels alone.
const TOKENS: u32 = 8_000;
/// Tokens from which on a pack is full: hardly a section is so small that it would still find room.
const FULL: u32 = 7_600;
/// How long a pack waits for others, counted from the last that came.
const LINGER: Duration = Duration::from_millis(80);
/// How many times as long it waits for those that were announced.
const PATIENCE: u32 = 50;

/// Sections that may travel together: those of one run for which someone waits alike. Nothing of one document is ever
/// shown beside another.
type Kind = (RunId, Class);

/// The packs that are being filled. One per worker.
#[derive(Clone, Default)]
pub struct Packs(Arc<Mutex<HashMap<Kind, Filling>>>);

/// The packs of one kind.
#[derive(Default)]
struct Filling {
    /// Tasks that were announced and have not come yet.
    announced: usize,
    packs: Vec<Vec<Seat>>,
    /// How many came, ever.
    came: u64,
    /// Whether someone waits for the packs to fill.
    attended: bool,
}

/// A section in a pack.
struct Seat {
    /// Its place in the document.
    place: u32,
    block: String,
    tokens: u32,
    told: oneshot::Sender<Reply>,
}

/// What a section in a pack is told.
enum Reply {
    Summary(String),
    /// Nothing sound: it asks again alone.
    Nothing,
    Failed(Failure),
}

/// Answers to a pack, and to one section alone.
#[derive(Deserialize)]
pub(crate) struct Written {
    summaries: Vec<Line>,
}

#[derive(Deserialize)]
struct Line {
    section: u32,
    summary: String,
}

impl Written {
    /// What was written about section `number` (from 1); nothing, where that is not one thing.
    pub(crate) fn of(&self, number: usize) -> Option<&str> {
        let mut lines = self
            .summaries
            .iter()
            .filter(|line| line.section as usize == number);
        let line = lines.next()?;
        lines
            .all(|other| other.summary == line.summary)
            .then_some(line.summary.as_str())
    }
}

/// What one call is made with; it borrows nothing of a task.
#[derive(Clone)]
struct Way {
    env: Env,
    gate: Arc<Gate>,
    /// The question, about nothing yet.
    question: Request,
    class: Class,
    /// Tokens that its pack may have.
    room: u32,
    log: Log,
}

/// A task that will come; it has gone when this is dropped.
pub(crate) struct Announced {
    packs: Packs,
    kind: Kind,
}

impl Drop for Announced {
    fn drop(&mut self) {
        let mut all = self.packs.all();
        if let Some(filling) = all.get_mut(&self.kind) {
            filling.announced -= 1;
            if filling.announced == 0 && !filling.attended {
                all.remove(&self.kind);
            }
        }
    }
}

/// What stands before a model for `blocks`.
pub(crate) fn shown<'a>(blocks: impl Iterator<Item = &'a str>) -> String {
    let fenced: Vec<_> = blocks
        .enumerate()
        .map(|(at, text)| fenced(&format!("Section {}", at + 1), text))
        .collect();
    fenced.join("\n\n")
}

impl Packs {
    /// Says that a task will ask soon: packs wait for it a little.
    pub(crate) fn announce(&self, task: &Task<'_, Filings>) -> Announced {
        let kind = (task.run.run.clone(), task.class);
        self.all().entry(kind.clone()).or_default().announced += 1;
        Announced {
            packs: self.clone(),
            kind,
        }
    }

    /// Asks `question` about `block`, the section at `place`, together with others; `None` where it is to be asked alone:
    /// it is too large, or there was no sound answer.
    ///
    /// # Errors
    /// What the call of its pack came to.
    pub(crate) async fn ask(
        &self,
        task: &Task<'_, Filings>,
        announced: Announced,
        question: &Question,
        place: u32,
        block: String,
    ) -> Result<Option<String>, Failure> {
        let (model, gate) = question.way(task)?;
        let tokens = tokens::count(&block);
        let room = TOKENS.min(
            model
                .max_prompt_tokens_for(question.purpose)
                .saturating_sub(AROUND_TOKENS),
        );
        if tokens > room {
            return Ok(None);
        }
        let env = task.env.clone();
        let gate = Arc::clone(gate);
        let log = Log::of(task, question.stage);
        let question = question.request(task.settings, model, String::new());
        let way = Way {
            env,
            gate,
            question,
            class: task.class,
            room,
            log,
        };
        let (told, answer) = oneshot::channel();
        self.seat(
            &announced.kind,
            Seat {
                place,
                block,
                tokens,
                told,
            },
            &way,
        );
        drop(announced);
        match answer.await {
            Ok(Reply::Summary(summary)) => Ok(Some(summary)),
            Ok(Reply::Nothing) => Ok(None),
            Ok(Reply::Failed(failure)) => Err(failure),
            Err(_) => Err(Failure::transient(
                "engine.panic",
                "the call of a pack ended without a word",
            )),
        }
    }

    /// Puts a section into the fullest pack that has room for it.
    fn seat(&self, kind: &Kind, seat: Seat, way: &Way) {
        let mut all = self.all();
        let Some(filling) = all.get_mut(kind) else {
            return;
        };
        filling.came += 1;
        match filling
            .packs
            .iter_mut()
            .filter(|pack: &&mut Vec<Seat>| {
                pack.len() < SEATS && weight(pack) + seat.tokens <= way.room
            })
            .max_by_key(|pack| weight(pack))
        {
            Some(pack) => pack.push(seat),
            None => filling.packs.push(vec![seat]),
        }
        for pack in filling.packs.extract_if(.., |pack: &mut Vec<Seat>| {
            pack.len() == SEATS || weight(pack) >= FULL.min(way.room)
        }) {
            way.env.spawn(way.clone().carry(pack));
        }
        if !filling.packs.is_empty() && !filling.attended {
            filling.attended = true;
            way.env
                .spawn(self.clone().attend(kind.clone(), way.clone()));
        }
    }

    /// Sends the packs of a kind on their way when no one comes any more.
    async fn attend(self, kind: Kind, way: Way) {
        let mut came = 0;
        for _ in 0..PATIENCE {
            way.env.sleep(LINGER).await;
            let all = self.all();
            let Some(filling) = all.get(&kind) else {
                return;
            };
            if filling.announced == 0 && filling.came == came {
                break;
            }
            came = filling.came;
        }
        let packs = {
            let mut all = self.all();
            let Some(filling) = all.get_mut(&kind) else {
                return;
            };
            filling.attended = false;
            let packs = std::mem::take(&mut filling.packs);
            if filling.announced == 0 {
                all.remove(&kind);
            }
            packs
        };
        for pack in packs {
            way.env.spawn(way.clone().carry(pack));
        }
    }

    fn all(&self) -> MutexGuard<'_, HashMap<Kind, Filling>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn weight(pack: &[Seat]) -> u32 {
    pack.iter().map(|seat| seat.tokens).sum()
}

impl Way {
    /// Asks about a pack, and about its halves where the pack as a whole gets no answer.
    async fn carry(self, pack: Vec<Seat>) {
        let mut packs = vec![pack];
        while let Some(mut pack) = packs.pop() {
            // In the order of the document, whoever came first; those that were cut off no one waits for.
            pack.retain(|seat| !seat.told.is_closed());
            pack.sort_by_key(|seat| seat.place);
            match self.call(&pack).await {
                Ok(replies) => pack.into_iter().zip(replies).for_each(tell),
                Err(Refused::These) => {
                    let other = pack.split_off(pack.len() / 2);
                    packs.extend([other, pack]);
                }
                Err(Refused::All(failure)) => {
                    pack.into_iter()
                        .for_each(|seat| tell((seat, Reply::Failed(failure.clone()))));
                }
            }
        }
    }

    /// One call: what each section of the pack is told.
    async fn call(&self, pack: &[Seat]) -> Result<Vec<Reply>, Refused> {
        if pack.len() < 2 {
            return Ok(pack.iter().map(|_| Reply::Nothing).collect());
        }
        let user = shown(pack.iter().map(|seat| seat.block.as_str()));
        let answers = u32::try_from(pack.len()).unwrap_or(u32::MAX);
        let max_output_tokens = self.question.max_output_tokens.saturating_mul(answers);
        let request = Request {
            user,
            max_output_tokens,
            ..self.question.clone()
        };
        let answer = match inquire(
            &self.gate,
            &request,
            self.class,
            &self.log,
            |written: Written| match (1..=pack.len()).any(|number| written.of(number).is_some()) {
                true => Ok(written),
                false => Err("it holds no summary of any of the sections".into()),
            },
        )
        .await
        {
            Ok(answer) => answer,
            Err(failure) => return Err(refused(self.log.failed(failure).await)),
        };
        for reply in &answer.replies {
            self.log
                .write(&request, reply, true)
                .await
                .map_err(Refused::All)?;
        }
        let summaries: Vec<_> = (1..=pack.len())
            .map(|number| answer.value.of(number))
            .collect();
        Ok(summaries
            .into_iter()
            .map(|summary: Option<&str>| {
                summary.map_or(Reply::Nothing, |summary| Reply::Summary(summary.into()))
            })
            .collect())
    }
}

/// Why a pack has no answer.
enum Refused {
    /// Something about these sections together, or about one of them.
    These,
    /// Something that holds for all calls.
    All(Failure),
}

fn refused(failure: Failure) -> Refused {
    match failure.code.as_str() {
        "model.refused" | "model.request_too_large" | "model.reply_unreadable" => Refused::These,
        _ => Refused::All(failure),
    }
}

/// A task that was cut off hears nothing any more.
fn tell((seat, reply): (Seat, Reply)) {
    drop(seat.told.send(reply));
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;
    use bytes::Bytes;
    use stemma_document::DocumentVersion;
    use stemma_engine::{Ports, RunRef, TaskKey};
    use stemma_extract::{ExtractError, Extractor, Job};
    use stemma_llm::gate::GateSettings;
    use stemma_llm::request::{Llm, LlmError, Reply as LlmReply, Usage};

    use super::*;
    use crate::Tools;
    use crate::originals::Originals;
    use crate::settings::{ModelSettings, Purpose, Settings};

    /// Says of each section how many it saw beside it, after a second.
    #[derive(Default)]
    struct Counting(Mutex<Vec<usize>>);

    #[async_trait]
    impl Llm for Counting {
        async fn complete(&self, request: &Request) -> Result<LlmReply, LlmError> {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let sections = request.user.matches("Section ").count();
            self.0.lock().unwrap().push(sections);
            let one = |number| serde_json::json!({ "section": number, "summary": format!("one of {sections}") });
            let text =
                serde_json::json!({ "summaries": (1..=sections).map(one).collect::<Vec<_>>() })
                    .to_string();
            Ok(LlmReply::new(text, Usage::default()))
        }
    }

    struct Nothing;

    #[async_trait]
    impl Originals for Nothing {
        async fn read(&self, _: &DocumentVersion, _: u64) -> Result<Bytes, Failure> {
            Ok(Bytes::new())
        }
    }

    #[async_trait]
    impl Extractor for Nothing {
        async fn extract(&self, _: Job) -> Result<Vec<u8>, ExtractError> {
            Ok(Vec::new())
        }
    }

    static QUESTION: Question = Question {
        stage: "summarize",
        purpose: Purpose::Summaries,
        instructions: "Summarize.",
        properties: || serde_json::json!({}),
        max_tokens: |model| model.max_output_tokens,
    };

    /// A worker and what its model saw.
    struct World {
        env: Env,
        ports: Ports,
        tools: Tools,
        settings: Settings,
        seen: Arc<Counting>,
    }

    impl World {
        fn new() -> Self {
            let env = Env::simulated(1);
            let ports = Ports::memory();
            let seen = Arc::new(Counting::default());
            let settings = GateSettings::unlimited("m", "h");
            let gate = Gate::new(
                env.clone(),
                Arc::clone(&ports.limiter),
                Arc::<Counting>::clone(&seen),
                settings,
            );
            let tools =
                Tools::new(Arc::new(Nothing), Arc::new(Nothing)).with_models([Arc::new(gate)]);
            let model = Some(ModelSettings {
                name: "m".into(),
                ..ModelSettings::default()
            });
            Self {
                env,
                ports,
                tools,
                settings: Settings {
                    model,
                    ..Settings::default()
                },
                seen,
            }
        }

        /// A section of about `tokens` in the document `run`.
        async fn section(
            &self,
            run: &str,
            class: Class,
            place: u32,
            tokens: usize,
        ) -> Option<String> {
            let run = RunRef {
                run: RunId(run.into()),
                header: "c/a/d/b/versions/1".into(),
                scope: "c/a/d/b".into(),
            };
            let key = TaskKey::identity("t", place).finish();
            let Self {
                env,
                ports,
                tools,
                settings,
                ..
            } = self;
            let task = Task {
                run: &run,
                key,
                class,
                attempt: 1,
                settings,
                tools,
                ports,
                env,
            };
            let announced = tools.packs.announce(&task);
            env.sleep(Duration::from_millis(u64::from(place))).await;
            tools
                .packs
                .ask(&task, announced, &QUESTION, place, "word ".repeat(tokens))
                .await
                .unwrap()
        }

        fn seen(&self) -> Vec<usize> {
            let mut seen = self.seen.0.lock().unwrap().clone();
            seen.sort_unstable();
            seen
        }
    }

    #[tokio::test(start_paused = true)]
    async fn packs_are_of_one_document_and_class_and_of_eight_sections_at_most() {
        let world = World::new();
        let all = (0..20).map(|place| world.section("a", Class::Bulk, place, 10));
        let (a, b, c) = tokio::join!(
            futures::future::join_all(all),
            world.section("b", Class::Bulk, 0, 10),
            world.section("a", Class::Interactive, 0, 10),
        );
        assert!(
            a.iter().all(Option::is_some) && b.is_none() && c.is_none(),
            "alone in their kind"
        );
        assert_eq!(world.seen(), [4, 8, 8]);
        assert!(world.tools.packs.all().is_empty(), "nothing is left behind");
    }

    #[tokio::test(start_paused = true)]
    async fn packs_have_eight_thousand_tokens_at_most_and_what_is_larger_goes_alone() {
        let world = World::new();
        let sizes = [5_000, 9_000, 4_000, 2_500, 3_500];
        let all = (0..)
            .zip(sizes)
            .map(|(place, size)| world.section("a", Class::Bulk, place, size));
        let told = futures::future::join_all(all).await;
        assert_eq!(
            told.iter().map(Option::is_some).collect::<Vec<_>>(),
            [true, false, true, true, true]
        );
        assert_eq!(world.seen(), [2, 2]);
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_cut_off_holds_up_no_other() {
        let world = World::new();
        let cut = |after| {
            tokio::time::timeout(
                Duration::from_millis(after),
                world.section("a", Class::Bulk, 0, 10),
            )
        };
        let (first, early, late, last) = tokio::join!(
            world.section("a", Class::Bulk, 1, 10),
            cut(10),
            cut(500),
            world.section("a", Class::Bulk, 2, 10),
        );
        assert!(early.is_err() && late.is_err());
        assert_eq!(
            (first.as_deref(), last.as_deref()),
            (Some("one of 3"), Some("one of 3"))
        );
        assert!(world.tools.packs.all().is_empty());
    }
}
