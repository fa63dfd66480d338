//! `stemma worker`.

use std::sync::Arc;
use std::time::Duration;

use stemma_engine::queue::Lane;
use stemma_roles::worker::WorkerSettings;

use super::ServiceArgs;
use super::host::ServiceHost;
use crate::context::Context;
use crate::embedded;
use crate::error::{CommandError, Exit};

// A task of a small document holds its slot for a quarter of a second of round trips to a bucket and some ms of work.
const TASKS_PER_CORE: u16 = 8;

/// Run a worker: extracts documents, finds their structure, calls the model.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
A worker takes tasks of its lanes: `cpu` and `ocr` use the cores, `llm` mostly waits for a model. All
workers share the limits of the model. On SIGTERM, tasks that end within local.grace_seconds are
finished and the others handed back; a second SIGTERM stops it at once.

Examples:
  stemma worker --store s3://filings/stemma
  stemma worker --store s3://filings/stemma --lanes llm --concurrency 32 --listen 0.0.0.0:8080")]
pub struct WorkerArgs {
    #[command(flatten)]
    service: ServiceArgs,
    /// Lanes to take tasks from [default: cpu, ocr, and llm if a model is configured].
    #[arg(long, value_delimiter = ',', value_name = "LANE,…")]
    lanes: Vec<WorkerLane>,
    /// Tasks of each lane at once [default: 8 for each of local.concurrency for cpu, local.concurrency of them computing;
    /// local.concurrency for ocr; 8 for each call of model.concurrency for llm].
    #[arg(long, value_name = "N")]
    concurrency: Option<u16>,
}

/// A lane that workers serve.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum WorkerLane {
    /// Extraction and structure.
    Cpu,
    /// Text recognition of pages that are pictures.
    Ocr,
    /// Model calls.
    Llm,
}

pub async fn run(args: WorkerArgs, context: &Context) -> Result<Exit, CommandError> {
    let running = ServiceHost::start("worker", args.service.listen, context).await?;
    let (ports, stop) = running.parts();
    let tools = Arc::new(
        embedded::cluster_deps(&running.config)?
            .with_models(running.model_clients.clone())
            .with_second_reader(embedded::second_reader(&running.config)?),
    );
    let lanes = lanes(&args, &running)?;
    let settings = WorkerSettings {
        lanes,
        grace: Duration::from_secs(running.config.local.grace_seconds),
        heartbeat: running.heartbeat(),
        batches: running.config.model.provider.batch.settings(),
    };
    stemma_roles::worker::run(ports, tools, settings, stop).await;
    Ok(running.end().await)
}

fn takes(args: &WorkerArgs, lane: Lane) -> bool {
    match lane {
        _ if args.lanes.is_empty() => true,
        Lane::Cpu => args.lanes.contains(&WorkerLane::Cpu),
        Lane::Ocr => args.lanes.contains(&WorkerLane::Ocr),
        Lane::Llm => args.lanes.contains(&WorkerLane::Llm),
        Lane::Publish => false,
    }
}

fn lanes(args: &WorkerArgs, running: &ServiceHost) -> Result<Vec<(Lane, u16)>, CommandError> {
    if args.lanes.contains(&WorkerLane::Llm) && running.config.providers().is_empty() {
        let message = "lane llm needs a model, but none is configured";
        return Err(CommandError::new("config.no_model", message)
            .with_next("set model.name and model.base_url (see `stemma config model`)"));
    }
    let mut lanes = embedded::lanes(&running.config);
    lanes.retain(|(lane, _)| takes(args, *lane));
    for (lane, tasks) in &mut lanes {
        if *lane == Lane::Cpu {
            *tasks = tasks.saturating_mul(TASKS_PER_CORE);
        }
        *tasks = args.concurrency.unwrap_or(*tasks);
    }
    Ok(lanes)
}
