//! The work of the rehearsal: small documents whose flow has everything real ones have. A fan-out, joins, loops,
//! sub-flows, a task asked for in two places, a stage that fails at first, one that always fails (a gap), a document
//! that cannot be read at all, and a stage that outlasts its lease.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use stemma_engine::blobs::{MemoryBlobs, Put};
use stemma_engine::coordinate::run_failure_key;
use stemma_engine::env::Env;
use stemma_engine::failure::{Failure, FailureRecord};
use stemma_engine::flow::{Claim, Finish, Flow, JobEntry, Manifest};
use stemma_engine::key::{Identity, RunHeader, RunId, RunRef, TaskKey, artifact_key};
use stemma_engine::message::Ending;
use stemma_engine::port::{PortError, ask};
use stemma_engine::ports::Ports;
use stemma_engine::queue::Lane;
use stemma_engine::replay::{Replay, Stop};
use stemma_engine::stage::{Output, Registry, Stage, Task, Work};

/// The kind of work.
pub struct Rehearsal;

/// Changes nothing but keys.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Settings {
    /// Part of every key.
    pub salt: u64,
}

/// What is submitted.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Document {
    /// Its name in its collection.
    pub name: u32,
    /// What it says; equal content gives equal tasks.
    pub content: u64,
    /// How many parts it has; none: it cannot be read.
    pub parts: u32,
}

/// What all simulated workers share: a count of what they did, and a view of the store that no fault disturbs.
pub struct Tools {
    store: Arc<MemoryBlobs>,
    book: Mutex<Book>,
}

/// What happened.
#[derive(Default)]
pub struct Book {
    /// How often the task of a document was begun.
    pub starts: BTreeMap<(String, TaskKey), u32>,
    /// Of these, how often it ended with a failure.
    pub failures: BTreeMap<(String, TaskKey), u32>,
    /// Tasks begun although their artifact existed.
    pub needless: Vec<String>,
}

impl Tools {
    /// Tools over the store below all faults.
    pub fn new(store: Arc<MemoryBlobs>) -> Self {
        Self {
            store,
            book: Mutex::default(),
        }
    }

    /// What happened so far.
    pub fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a task begins; returns how often it has begun before.
    fn begin(&self, task: &Task<'_, Rehearsal>, stage: &str) -> u32 {
        let exists = self.store.has(&artifact_key(&task.run.scope, &task.key));
        let mut book = self.book();
        if exists {
            book.needless.push(format!(
                "{stage} {} of {} at {}",
                task.key,
                task.run.run,
                task.env.now_ms()
            ));
        }
        let starts = book
            .starts
            .entry((task.run.scope.clone(), task.key))
            .or_default();
        *starts += 1;
        *starts - 1
    }

    fn failed(&self, task: &Task<'_, Rehearsal>) {
        *self
            .book()
            .failures
            .entry((task.run.scope.clone(), task.key))
            .or_default() += 1;
    }
}

/// All stages.
pub(super) fn registry() -> Registry<Rehearsal> {
    Registry::default()
        .with::<Split>()
        .with::<Weigh>()
        .with::<Refine>()
        .with::<Sum>()
        .with::<Publish>()
}

impl Work for Rehearsal {
    type Settings = Settings;
    type Tools = Tools;
}

/// A number that looks like noise.
fn mix(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// Waits as long as work would take, up to `longest` milliseconds.
async fn labor(task: &Task<'_, Rehearsal>, longest: u64) {
    let millis = task.env.random() % longest;
    task.env.sleep(Duration::from_millis(millis)).await;
}

/// Takes a document apart.
#[derive(Serialize, Deserialize)]
struct Split {
    content: u64,
    parts: u32,
}

#[async_trait]
impl Stage for Split {
    type Work = Rehearsal;
    type Outcome = Vec<u64>;
    const NAME: &'static str = "split";
    const REVISION: u32 = 1;
    const LANE: Lane = Lane::Cpu;

    fn identity(&self, settings: &Settings, identity: &mut Identity) {
        identity
            .number(settings.salt)
            .number(self.content)
            .number(self.parts.into());
    }

    async fn run(&self, task: &Task<'_, Rehearsal>) -> Result<Output<Vec<u64>>, Failure> {
        task.tools.begin(task, "split");
        labor(task, 2_000).await;
        if self.parts == 0 {
            task.tools.failed(task);
            return Err(Failure::permanent(
                "rehearsal.unreadable",
                "the document has no parts",
            ));
        }
        // The fifth part repeats the first: one task, wanted by two groups.
        let parts: Vec<u64> = (0..self.parts)
            .map(|n| mix(self.content + u64::from(n % 4)))
            .collect();
        let text = parts
            .iter()
            .flat_map(|part| part.to_le_bytes())
            .collect::<Vec<u8>>();
        Ok(Output::new(parts, vec![("text", text.into())]))
    }
}

/// Weighs one part: what a model would be asked.
#[derive(Serialize, Deserialize)]
struct Weigh {
    source: TaskKey,
    part: u64,
}

#[async_trait]
impl Stage for Weigh {
    type Work = Rehearsal;
    type Outcome = u64;
    const NAME: &'static str = "weigh";
    const REVISION: u32 = 1;
    const LANE: Lane = Lane::Llm;

    fn identity(&self, settings: &Settings, identity: &mut Identity) {
        identity.number(settings.salt).number(self.part);
    }

    async fn run(&self, task: &Task<'_, Rehearsal>) -> Result<Output<u64>, Failure> {
        let before = task.tools.begin(task, "weigh");
        let text = task
            .blob(&self.source, "text")
            .await
            .inspect_err(|_| task.tools.failed(task))?;
        labor(task, if self.part % 5 == 1 { 150_000 } else { 5_000 }).await;
        let failed = |failure| {
            task.tools.failed(task);
            Err(failure)
        };
        if !text.chunks(8).any(|part| part == self.part.to_le_bytes()) {
            return failed(Failure::permanent(
                "rehearsal.part",
                "the part is not in the text",
            ));
        }
        match self.part % 8 {
            0 => failed(Failure::permanent("rehearsal.heavy", "too heavy to weigh")),
            1 if before < 2 => failed(Failure::transient("rehearsal.busy", "the scales are busy")),
            _ => Ok(mix(self.part).into()),
        }
    }
}

/// Makes a value better, round after round.
#[derive(Serialize, Deserialize)]
struct Refine {
    value: u64,
    round: u64,
}

#[async_trait]
impl Stage for Refine {
    type Work = Rehearsal;
    type Outcome = u64;
    const NAME: &'static str = "refine";
    const REVISION: u32 = 1;
    const LANE: Lane = Lane::Cpu;

    fn identity(&self, settings: &Settings, identity: &mut Identity) {
        identity
            .number(settings.salt)
            .number(self.value)
            .number(self.round);
    }

    async fn run(&self, task: &Task<'_, Rehearsal>) -> Result<Output<u64>, Failure> {
        task.tools.begin(task, "refine");
        labor(task, 500).await;
        Ok(mix(self.value ^ self.round).into())
    }
}

/// Joins what the groups came to.
#[derive(Serialize, Deserialize)]
struct Sum {
    values: Vec<u64>,
}

#[async_trait]
impl Stage for Sum {
    type Work = Rehearsal;
    type Outcome = u64;
    const NAME: &'static str = "sum";
    const REVISION: u32 = 1;
    const LANE: Lane = Lane::Cpu;

    fn identity(&self, settings: &Settings, identity: &mut Identity) {
        identity.number(settings.salt);
        self.values.iter().for_each(|value| {
            identity.number(*value);
        });
    }

    async fn run(&self, task: &Task<'_, Rehearsal>) -> Result<Output<u64>, Failure> {
        task.tools.begin(task, "sum");
        Ok(self
            .values
            .iter()
            .fold(0, |sum, value| mix(sum ^ value))
            .into())
    }
}

/// Makes the result visible, create-only.
#[derive(Serialize, Deserialize)]
struct Publish {
    sum: u64,
    gaps: u32,
}

#[async_trait]
impl Stage for Publish {
    type Work = Rehearsal;
    type Outcome = bool;
    const NAME: &'static str = "publish";
    const REVISION: u32 = 1;
    const LANE: Lane = Lane::Publish;

    fn identity(&self, settings: &Settings, identity: &mut Identity) {
        identity
            .number(settings.salt)
            .number(self.sum)
            .number(self.gaps.into());
    }

    async fn run(&self, task: &Task<'_, Rehearsal>) -> Result<Output<bool>, Failure> {
        task.tools.begin(task, "publish");
        let published = async {
            ask(task.env, || task.ports.blobs.barrier()).await?;
            let tree = serde_json::json!({ "sum": self.sum, "gaps": self.gaps }).to_string();
            let key = tree_key(&task.run.scope);
            ask(task.env, || task.ports.blobs.put(&key, tree.clone().into())).await
        };
        published.await.inspect_err(|_| task.tools.failed(task))?;
        Ok(true.into())
    }
}

fn tree_key(scope: &str) -> String {
    format!("{scope}/trees/000000000001.json")
}

fn refused(message: String) -> Stop {
    Stop::Failed(FailureRecord::of(
        Failure::permanent("rehearsal.input", message),
        "flow",
        1,
        0,
    ))
}

#[async_trait]
impl Flow for Rehearsal {
    const REVISION: u32 = 1;

    fn flow(replay: &mut Replay<'_, Self>, run: &RunHeader) -> Result<Finish, Stop> {
        let document =
            Document::deserialize(&run.input).map_err(|error| refused(error.to_string()))?;
        let split = Split {
            content: document.content,
            parts: document.parts,
        };
        let source = split.key(replay.settings());
        let parts = replay.one(&split)?;
        let groups: Vec<_> = parts
            .chunks(3)
            .map(|parts: &[u64]| {
                replay.sub(
                    "group",
                    |identity: &mut Identity| {
                        for part in parts {
                            identity.number(*part);
                        }
                    },
                    |replay| group(replay, source, parts),
                )
            })
            .collect();
        let groups = groups
            .into_iter()
            .collect::<Result<Vec<(u64, u32)>, Stop>>()?;
        let gaps = groups.iter().map(|(_, gaps)| gaps).sum();
        let sum = replay.one(&Sum {
            values: groups.into_iter().map(|(value, _)| value).collect(),
        })?;
        replay.one(&Publish { sum, gaps })?;
        Ok(Finish { gaps })
    }

    async fn claim(
        env: &Env,
        ports: &Ports,
        job: &Manifest,
        entry: &JobEntry,
    ) -> Result<Claim, PortError> {
        let invalid =
            |error: serde_json::Error| PortError::lasting("blobs", "claim", error.to_string());
        let document = Document::deserialize(&entry.input).map_err(invalid)?;
        let scope = format!("c/{}/d/{}", job.collection, document.name);
        for seq in 1.. {
            let at = RunRef {
                run: RunId(format!("{}-{}-{seq}", job.collection, document.name)),
                header: format!("{scope}/versions/{seq:012}"),
                scope: scope.clone(),
            };
            let header = RunHeader {
                at: at.clone(),
                settings: job.settings.clone(),
                flow_revision: Self::REVISION,
                class: job.class,
                opened_by: job.job.clone(),
                input: entry.input.clone(),
            };
            let json = serde_json::to_vec(&header).map_err(invalid)?;
            if ask(env, || ports.blobs.put(&at.header, json.clone().into())).await? == Put::Created
            {
                return Ok(Claim::Run(header));
            }
            let first = ask(env, || ports.blobs.get(&at.header))
                .await?
                .unwrap_or_default();
            let first: RunHeader = serde_json::from_slice(&first).map_err(invalid)?;
            match Self::ending(env, ports, &first).await? {
                Some(Ending::Cancelled) => {}
                Some(_) if first.opened_by != job.job => {
                    return Ok(Claim::Ended(Ending::Unchanged));
                }
                _ => return Ok(Claim::Run(first)),
            }
        }
        Err(PortError::lasting("blobs", "claim", "no version is left"))
    }

    async fn ending(
        env: &Env,
        ports: &Ports,
        run: &RunHeader,
    ) -> Result<Option<Ending>, PortError> {
        let failure = run_failure_key(&run.at.run);
        if let Some(json) = ask(env, || ports.blobs.get(&failure)).await? {
            return Ok(serde_json::from_slice(&json).ok().map(Ending::of_record));
        }
        let tree = tree_key(&run.at.scope);
        let Some(json) = ask(env, || ports.blobs.get(&tree)).await? else {
            return Ok(None);
        };
        let tree: serde_json::Value = serde_json::from_slice(&json).unwrap_or_default();
        let gaps = tree["gaps"]
            .as_u64()
            .and_then(|gaps| u32::try_from(gaps).ok())
            .unwrap_or_default();
        Ok(Some(if gaps == 0 {
            Ending::Done
        } else {
            Ending::DoneWithGaps(gaps)
        }))
    }
}

/// Weighs some parts, then refines what they came to until it will do.
fn group(
    replay: &mut Replay<'_, Rehearsal>,
    source: TaskKey,
    parts: &[u64],
) -> Result<(u64, u32), Stop> {
    let weights = replay.all(parts.iter().map(|part| Weigh {
        source,
        part: *part,
    }))?;
    let gaps = weights.iter().filter(|weight| weight.is_err()).count();
    let mut value = weights.into_iter().flatten().fold(0, u64::wrapping_add);
    for round in 0..3 {
        value = replay.one(&Refine { value, round })?;
        if value % 3 == 0 {
            break;
        }
    }
    Ok((value, u32::try_from(gaps).unwrap_or(u32::MAX)))
}
