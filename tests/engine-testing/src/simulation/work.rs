//! The work of the simulation: small documents whose flow has everything real flows have. A fan-out, joins, loops,
//! sub-flows, a task requested in two places, a stage that fails at first, one that always fails (a gap), an unreadable
//! document, and a stage that outlasts its lease.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use stemma_engine::flow::{ClaimOutcome, Flow, FlowOutput, JobEntry, JobManifest};
use stemma_engine::message::RunOutcome;
use stemma_engine::ports::Ports;
use stemma_engine::queue::Lane;
use stemma_engine::replay::{FlowStop, Replay};
use stemma_engine::stage::{Stage, StageOutput, StageRegistry, StageResult, TaskContext, Work};
use stemma_store::artifact;
use stemma_store::blobs::{Blobs, MemoryBlobs, PutOutcome};
use stemma_store::env::Millis;
use stemma_store::failure::{Failure, FailureRecord};
use stemma_store::key::{
    RunHeader, RunId, RunRef, TaskKey, TaskKeyBuilder, artifact_key, run_failure_key,
};
use stemma_store::port_error::{PortError, PortResult};

use super::spending::{CallPayer, SharedSpending};
use crate::fault::Stall;

pub struct SimulatedWork;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SimulatedSettings {
    /// Part of every task key; changes nothing else.
    pub salt: u64,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SimulatedDocument {
    pub name: u32,
    /// Equal content gives equal tasks.
    pub content: u64,
    /// Number of parts; a document without parts is unreadable.
    pub parts: u32,
}

/// Shared by all simulated workers: what they did, and the store without fault injection.
pub struct SimulatedTools {
    store: Arc<MemoryBlobs>,
    history: Arc<Mutex<WorkHistory>>,
    // `None` if calls cost nothing.
    payer: Option<CallPayer>,
    // How long the slowest calls take.
    slowest_call_ms: Millis,
    // Stall of the process.
    stall: Stall,
}

// A part takes as long as most calls of models, but for one in five, which takes as long as the slowest.
const USUAL_CALL_MS: Millis = 5_000;
const SLOW_CALL_MS: Millis = 150_000;

// A process that was suspended after it had looked for an artifact cannot know what others stored meanwhile. Nor can another,
// which took over the task and has looked, know that the suspended one went on and stored it. By then each has begun what it
// was about to begin, also what waits for a reservation.
const BEGINS_WITHIN: Duration = Duration::from_secs(60);

/// Executions so far.
#[derive(Default)]
pub struct WorkHistory {
    /// Started executions, by document scope and task.
    pub starts: BTreeMap<(String, TaskKey), u32>,
    /// When which scope's tasks were started.
    pub start_times: Vec<(Millis, String)>,
    /// Failed executions, by document scope and task.
    pub failures: BTreeMap<(String, TaskKey), u32>,
    /// Tasks that were started although their artifact existed, where neither the process nor an earlier one that had started
    /// the task was suspended.
    pub redundant_starts: Vec<String>,
    // The processes that started each task.
    starters: BTreeMap<(String, TaskKey), Vec<Stall>>,
}

impl SimulatedTools {
    /// Tools over the store below the fault injection.
    pub fn new(store: Arc<MemoryBlobs>, no_slow_calls: bool) -> Self {
        Self {
            store,
            history: Arc::default(),
            payer: None,
            slowest_call_ms: if no_slow_calls {
                USUAL_CALL_MS
            } else {
                SLOW_CALL_MS
            },
            stall: Stall::default(),
        }
    }

    /// The tools of another process, which pays for its calls if there is `spending`.
    pub(super) fn for_process(&self, stall: &Stall, spending: Option<&SharedSpending>) -> Self {
        Self {
            slowest_call_ms: self.slowest_call_ms,
            stall: stall.clone(),
            store: Arc::clone(&self.store),
            history: Arc::clone(&self.history),
            payer: spending.map(|spending| CallPayer {
                spending: spending.clone(),
                budgets: Default::default(),
            }),
        }
    }

    pub fn history(&self) -> MutexGuard<'_, WorkHistory> {
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the start of a task; returns how often it was started before.
    fn begin(&self, task: &TaskContext<'_, SimulatedWork>, stage: &str) -> u32 {
        let exists = self.store.has(&artifact_key(&task.run.scope, &task.key));
        let started = (task.run.scope.clone(), task.key);
        let mut history = self.history();
        let starters = history.starters.entry(started.clone()).or_default();
        starters.push(self.stall.clone());
        let was_suspended = starters
            .iter()
            .any(|stall| stall.was_suspended(task.ports.env.now_ms(), BEGINS_WITHIN));
        if exists && !was_suspended {
            history.redundant_starts.push(format!(
                "{stage} {} of {} at {}",
                task.key,
                task.run.run,
                task.ports.env.now_ms()
            ));
        }
        let start_time = (task.ports.env.now_ms(), task.run.scope.clone());
        history.start_times.push(start_time);
        let starts = history.starts.entry(started).or_default();
        *starts += 1;
        *starts - 1
    }

    fn failed(&self, task: &TaskContext<'_, SimulatedWork>) {
        *self
            .history()
            .failures
            .entry((task.run.scope.clone(), task.key))
            .or_default() += 1;
    }
}

pub(super) fn registry() -> StageRegistry<SimulatedWork> {
    StageRegistry::default()
        .with_stage::<Split>()
        .with_stage::<Weigh>()
        .with_stage::<Refine>()
        .with_stage::<SumParts>()
        .with_stage::<PublishSum>()
}

impl Work for SimulatedWork {
    type Settings = SimulatedSettings;
    type Tools = SimulatedTools;

    fn run_ref(run: &RunId, scope: &str) -> Option<RunRef> {
        let (subject, seq) = run.0.rsplit_once('-')?;
        let (collection, document) = subject.rsplit_once('-')?;
        let seq: u64 = seq.parse().ok()?;
        let own = format!("c/{collection}/d/{document}");
        (own == scope).then(|| RunRef {
            run: run.clone(),
            header: format!("{scope}/versions/{seq:012}"),
            scope: own,
        })
    }
}

/// A pseudorandom number.
fn scramble(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// Sleeps as long as real work would take, up to `longest` milliseconds.
async fn simulate_delay(task: &TaskContext<'_, SimulatedWork>, longest: u64) {
    let millis = task.ports.env.random() % longest;
    task.ports.env.sleep(Duration::from_millis(millis)).await;
}

/// Splits a document into parts.
#[derive(Serialize, Deserialize)]
struct Split {
    content: u64,
    parts: u32,
}

#[async_trait]
impl Stage for Split {
    type Work = SimulatedWork;
    type Outcome = Vec<u64>;
    const NAME: &'static str = "split";
    const REVISION: u32 = 1;
    const LANE: Lane = Lane::Cpu;

    fn identity(&self, settings: &SimulatedSettings, identity: &mut TaskKeyBuilder) {
        identity
            .number(settings.salt)
            .number(self.content)
            .number(self.parts.into());
    }

    async fn run(&self, task: &TaskContext<'_, SimulatedWork>) -> StageResult<Vec<u64>> {
        task.tools.begin(task, "split");
        simulate_delay(task, 2_000).await;
        if self.parts == 0 {
            task.tools.failed(task);
            return Err(Failure::permanent(
                "rehearsal.unreadable",
                "the document has no parts",
            ));
        }
        // The fifth part repeats the first: one task, requested by two groups.
        let parts: Vec<u64> = (0..self.parts)
            .map(|n| scramble(self.content + u64::from(n % 4)))
            .collect();
        let text = parts
            .iter()
            .flat_map(|part| part.to_le_bytes())
            .collect::<Vec<u8>>();
        Ok(StageOutput::new(parts, vec![("text", text.into())]))
    }
}

/// Weighs one part, like an LLM call.
#[derive(Serialize, Deserialize)]
struct Weigh {
    source: TaskKey,
    part: u64,
}

#[async_trait]
impl Stage for Weigh {
    type Work = SimulatedWork;
    type Outcome = u64;
    const NAME: &'static str = "weigh";
    const REVISION: u32 = 1;
    const LANE: Lane = Lane::Llm;

    fn identity(&self, settings: &SimulatedSettings, identity: &mut TaskKeyBuilder) {
        identity.number(settings.salt).number(self.part);
    }

    async fn run(&self, task: &TaskContext<'_, SimulatedWork>) -> StageResult<u64> {
        let paid = match &task.tools.payer {
            Some(payer) => Some((payer, payer.begin(task).await?)),
            None => None,
        };
        let before = task.tools.begin(task, "weigh");
        let text = task
            .blob(&self.source, "text")
            .await
            .inspect_err(|_| task.tools.failed(task))?;
        let longest_ms = match self.part % 5 {
            1 => task.tools.slowest_call_ms,
            _ => USUAL_CALL_MS,
        };
        simulate_delay(task, longest_ms).await;
        if let Some((payer, paid)) = paid {
            let ended = payer.end(task, paid).await;
            ended.inspect_err(|_| task.tools.failed(task))?;
        }
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
            _ => Ok(scramble(self.part).into()),
        }
    }
}

/// Improves a value in rounds.
#[derive(Serialize, Deserialize)]
struct Refine {
    value: u64,
    round: u64,
}

#[async_trait]
impl Stage for Refine {
    type Work = SimulatedWork;
    type Outcome = u64;
    const NAME: &'static str = "refine";
    const REVISION: u32 = 1;
    const LANE: Lane = Lane::Cpu;

    fn identity(&self, settings: &SimulatedSettings, identity: &mut TaskKeyBuilder) {
        identity
            .number(settings.salt)
            .number(self.value)
            .number(self.round);
    }

    async fn run(&self, task: &TaskContext<'_, SimulatedWork>) -> StageResult<u64> {
        task.tools.begin(task, "refine");
        simulate_delay(task, 500).await;
        Ok(scramble(self.value ^ self.round).into())
    }
}

/// Adds up the results of the groups.
#[derive(Serialize, Deserialize)]
struct SumParts {
    values: Vec<u64>,
}

#[async_trait]
impl Stage for SumParts {
    type Work = SimulatedWork;
    type Outcome = u64;
    const NAME: &'static str = "sum";
    const REVISION: u32 = 1;
    const LANE: Lane = Lane::Cpu;

    fn identity(&self, settings: &SimulatedSettings, identity: &mut TaskKeyBuilder) {
        identity.number(settings.salt);
        self.values.iter().for_each(|value| {
            identity.number(*value);
        });
    }

    async fn run(&self, task: &TaskContext<'_, SimulatedWork>) -> StageResult<u64> {
        task.tools.begin(task, "sum");
        Ok(self
            .values
            .iter()
            .fold(0, |sum, value| scramble(sum ^ value))
            .into())
    }
}

/// Publishes the result, create-only, and then announces it. Its artifact says that both were done.
#[derive(Serialize, Deserialize)]
struct PublishSum {
    document: u32,
    sum: u64,
    gaps: u32,
}

#[async_trait]
impl Stage for PublishSum {
    type Work = SimulatedWork;
    type Outcome = u32;
    const NAME: &'static str = PUBLISH.0;
    const REVISION: u32 = PUBLISH.1;
    const LANE: Lane = Lane::Publish;

    fn identity(&self, _: &SimulatedSettings, identity: &mut TaskKeyBuilder) {
        identity.number(self.document.into());
    }

    async fn run(&self, task: &TaskContext<'_, SimulatedWork>) -> StageResult<u32> {
        task.tools.begin(task, "publish");
        let published = async {
            task.ports.blobs.barrier().await?;
            let tree = serde_json::json!({ "sum": self.sum, "gaps": self.gaps }).to_string();
            let scope = &task.run.scope;
            for kind in ["trees", "changes"] {
                let key = format!("{scope}/{kind}/000000000001.json");
                task.ports.blobs.put(&key, tree.clone().into()).await?;
            }
            Ok(())
        };
        let published: PortResult<()> = published.await;
        published.inspect_err(|_| task.tools.failed(task))?;
        Ok(self.gaps.into())
    }
}

// Name and revision of the stage: a run is looked up by its task.
const PUBLISH: (&str, u32) = ("publish", 1);

fn refused(message: String) -> FlowStop {
    FlowStop::Failed(FailureRecord::new(
        Failure::permanent("rehearsal.input", message),
        "flow",
        1,
        0,
    ))
}

#[async_trait]
impl Flow for SimulatedWork {
    const REVISION: u32 = 1;

    fn flow(replay: &mut Replay<'_, Self>, run: &RunHeader) -> Result<FlowOutput, FlowStop> {
        let document = SimulatedDocument::deserialize(&run.input)
            .map_err(|error| refused(error.to_string()))?;
        let split = Split {
            content: document.content,
            parts: document.parts,
        };
        let source = split.key(replay.settings());
        let parts = replay.outcome(&split)?;
        let groups: Vec<_> = parts
            .chunks(3)
            .map(|parts: &[u64]| {
                replay.sub_flow(
                    "group",
                    |identity: &mut TaskKeyBuilder| {
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
            .collect::<Result<Vec<(u64, u32)>, FlowStop>>()?;
        let gaps = groups.iter().map(|(_, gaps)| gaps).sum();
        let sum = replay.outcome(&SumParts {
            values: groups.into_iter().map(|(value, _)| value).collect(),
        })?;
        replay.outcome(&PublishSum {
            document: document.name,
            sum,
            gaps,
        })?;
        Ok(FlowOutput { gaps })
    }

    async fn claim(ports: &Ports, job: &JobManifest, entry: &JobEntry) -> PortResult<ClaimOutcome> {
        let invalid =
            |error: serde_json::Error| PortError::permanent("blobs.claim", error.to_string());
        let document = SimulatedDocument::deserialize(&entry.input).map_err(invalid)?;
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
                priority: job.priority,
                opened_by: job.job.clone(),
                input: entry.input.clone(),
            };
            let json = serde_json::to_vec(&header).map_err(invalid)?;
            if ports.blobs.put(&at.header, json.into()).await? == PutOutcome::Created {
                return Ok(ClaimOutcome::Run(header));
            }
            let first = ports.blobs.get(&at.header).await?.unwrap_or_default();
            let first: RunHeader = serde_json::from_slice(&first).map_err(invalid)?;
            match Self::run_outcome(ports, &first).await? {
                Some(RunOutcome::Cancelled) => {}
                Some(_) if first.opened_by != job.job => {
                    return Ok(ClaimOutcome::Ended(RunOutcome::Unchanged));
                }
                _ => return Ok(ClaimOutcome::Run(first)),
            }
        }
        Err(PortError::permanent("blobs.claim", "no version is left"))
    }

    async fn run_outcome(ports: &Ports, run: &RunHeader) -> PortResult<Option<RunOutcome>> {
        let failure = run_failure_key(&run.at.run);
        if let Some(json) = ports.blobs.get(&failure).await? {
            return Ok(serde_json::from_slice(&json)
                .ok()
                .map(RunOutcome::from_record));
        }
        let Ok(document) = SimulatedDocument::deserialize(&run.input) else {
            return Ok(None);
        };
        let mut identity = TaskKey::builder(PUBLISH.0, PUBLISH.1);
        identity.number(document.name.into());
        let key = identity.finish();
        let outcome = artifact::outcome(&ports.blobs, &run.at.scope, &key).await?;
        let gaps: Option<u32> = outcome.and_then(|outcome| serde_json::from_slice(&outcome).ok());
        Ok(gaps.map(|gaps| match gaps {
            0 => RunOutcome::Done,
            gaps => RunOutcome::DoneWithGaps(gaps),
        }))
    }
}

/// Weighs some parts, then refines the sum until it is good enough.
fn group(
    replay: &mut Replay<'_, SimulatedWork>,
    source: TaskKey,
    parts: &[u64],
) -> Result<(u64, u32), FlowStop> {
    let weights = replay.results(parts.iter().map(|part| Weigh {
        source,
        part: *part,
    }))?;
    let gaps = weights.iter().filter(|weight| weight.is_err()).count();
    let mut value = weights.into_iter().flatten().fold(0, u64::wrapping_add);
    for round in 0..3 {
        value = replay.outcome(&Refine { value, round })?;
        if value % 3 == 0 {
            break;
        }
    }
    Ok((value, u32::try_from(gaps).unwrap_or(u32::MAX)))
}
