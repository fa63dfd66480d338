//! `stemma doctor`: checks the installation.

use std::time::Duration;

use bytes::Bytes;
use futures::future::{join, join3};
use stemma_boot::backends::{Cluster, LOOK_TIMEOUT};
use stemma_engine::diagnosis::Server;
use stemma_engine::heartbeat::Heartbeat;
use stemma_engine::ledger::{Ledger, StatusTopic};
use stemma_extract::{ExtractJob, Extractor, Limits, PackageManager, tesseract_advice};
use stemma_operations::{HealthCheck, InstallationChecks};
use stemma_store::blobs::PutOutcome;
use stemma_store::port_monitor::TroubleKind;
use stemma_store::time_limit::TimeLimit;
use stemma_store::{Env, PortError, PortErrorKind, PortResult};

use crate::children;
use crate::config::Config;
use crate::context::Context;
use crate::embedded;
use crate::error::{CommandError, Exit};
use crate::model_clients::preflight_error;
use crate::output::clean;

/// Check the store, configuration, servers, models and document extraction.
#[derive(Debug, clap::Args)]
pub struct DoctorArgs {}

// Time limit of a check in a server, where nobody waits; a child process starts slowly on a busy machine.
const SERVER_LIMIT: Duration = Duration::from_secs(30);

// How a check is made.
#[derive(Clone, Copy)]
struct CheckTerms {
    // How long it may take.
    limit: Duration,
    // Whether it may write to the store.
    may_write: bool,
}

pub async fn run(_args: DoctorArgs, context: &Context) -> Result<Exit, CommandError> {
    let terms = CheckTerms {
        limit: Duration::MAX,
        may_write: true,
    };
    let checks = checks(context, terms).await;
    let output = &context.output;
    output.show(&checks, || {
        for check in &checks {
            let mark = match check.result {
                "ok" => "ok",
                "attention" => "--",
                _ => "!!",
            };
            output.line(&format!("{mark}  {}", clean(&check.what)));
            if let Some(next) = &check.next {
                output.line(&format!("    next: {next}"));
            }
        }
    });
    Ok(match checks.iter().any(|check| check.result == "failed") {
        true => Exit::CheckFailed,
        false => Exit::Done,
    })
}

/// The checks of a server that runs. To write, it would keep other processes out of the store, so it only reads.
pub fn server_checks(context: &Context) -> InstallationChecks {
    let context = context.clone();
    let terms = CheckTerms {
        limit: SERVER_LIMIT,
        may_write: false,
    };
    InstallationChecks::new(Env::system(), move || {
        let context = context.clone();
        Box::pin(async move { checks(&context, terms).await })
    })
}

async fn checks(context: &Context, terms: CheckTerms) -> Vec<HealthCheck> {
    let configuration = configuration(context);
    let is_configured = configuration.result != "failed";
    let version = HealthCheck::ok(format!("version {}", env!("CARGO_PKG_VERSION")));
    let mut checks = vec![version, configuration];
    // With an invalid configuration, all other checks would fail for the same reason.
    if is_configured {
        let store = async { vec![store(context, terms.may_write).await] };
        let reading = async {
            let mut checks = vec![reading(context).await, recognition(context).await];
            checks.extend(second_reader(context));
            checks
        };
        let servers = join(
            within(terms.limit, "store", store),
            within(terms.limit, "servers", cluster(context)),
        );
        let work = join(
            within(terms.limit, "document extraction", reading),
            within(terms.limit, "models", models(context)),
        );
        let ((store, cluster), (reading, models)) = join(servers, work).await;
        checks.extend([store, reading, cluster, models].concat());
    }
    checks
}

async fn within(
    limit: Duration,
    what: &str,
    checks: impl Future<Output = Vec<HealthCheck>>,
) -> Vec<HealthCheck> {
    let checked = tokio::time::timeout(limit, checks).await;
    checked.unwrap_or_else(|_| {
        let what = format!("{what}: no result within {limit:?}");
        vec![HealthCheck::attention(what, "`stemma doctor` waits longer")]
    })
}

fn failed(error: CommandError) -> HealthCheck {
    HealthCheck {
        result: "failed",
        what: error.message,
        next: error.next,
    }
}

fn configuration(context: &Context) -> HealthCheck {
    match context.loaded_config() {
        Ok(loaded) => {
            let all = loaded.settings.len();
            let defaults = loaded
                .settings
                .iter()
                .filter(|setting| setting.source == "default");
            let changed = all - defaults.count();
            let file = match &context.config_file {
                Some(file) => file.path().display().to_string(),
                None => "no file".into(),
            };
            HealthCheck::ok(format!(
                "configuration: {file}, {all} settings, {changed} changed from the default"
            ))
        }
        Err(error) => failed(error),
    }
}

async fn store(context: &Context, may_write: bool) -> HealthCheck {
    let path = &context.store;
    let reader = match context.open_store().await {
        Ok(reader) => reader,
        Err(error) if error.code == "store.missing" => {
            return HealthCheck {
                result: "attention",
                ..failed(error)
            };
        }
        Err(error) => return failed(error),
    };
    if let Some(writer) = reader.writer() {
        return HealthCheck::ok(format!(
            "store {path}: being written to by process {} (stemma {})",
            writer.pid, writer.command
        ));
    }
    if !may_write {
        return HealthCheck::ok(format!("store {path}: readable"));
    }
    match probe(context).await {
        Ok(()) => HealthCheck::ok(format!("store {path}: writable, create-only writes work")),
        // Only a cluster has a store behind a server; other commands say to run this one.
        Err(error) => failed(error.with_next(Server::S3.check())),
    }
}

// Writes an object twice. The second write must fail, because publishing relies on create-only writes.
async fn probe(context: &Context) -> Result<(), CommandError> {
    let env = Env::system();
    let store = context.open_writable_store(&env, "doctor").await?;
    let blobs = TimeLimit::on_blobs(store.ports.blobs.raw().clone(), LOOK_TIMEOUT);
    let key = format!("doctor/{:016x}", env.random());
    let first = blobs.put(&key, Bytes::from_static(b"1")).await?;
    let second = blobs.put(&key, Bytes::from_static(b"2")).await?;
    blobs.delete(&key).await?;
    if (first, second) == (PutOutcome::Created, PutOutcome::Exists) {
        return Ok(());
    }
    let message = "the store overwrites existing objects";
    Err(CommandError::new("store.not_create_only", message)
        .with_next("use a local file system that supports hard links"))
}

// Checks the broker and Redis, if they are configured.
async fn cluster(context: &Context) -> Vec<HealthCheck> {
    let env = Env::system();
    let cluster = match context.observed_cluster(&env, "doctor").await {
        Ok(Some(cluster)) => cluster,
        Ok(None) => {
            let what = "no broker configured; everything runs in one process";
            return vec![HealthCheck::ok(what)];
        }
        Err(error) => return vec![failed(error)],
    };
    let workers = workers(context, &env, &cluster);
    let (broker, redis, workers) = join3(broker(&cluster), redis(&cluster), workers).await;
    let checks = [vec![broker, redis], workers].concat();
    cluster.close().await;
    checks
}

// Whether as many processes call a model as its settings say. Redis answers for itself.
async fn workers(context: &Context, env: &Env, cluster: &Cluster) -> Vec<HealthCheck> {
    let ledger = &cluster.ports.ledger;
    let records = ledger.status_records(StatusTopic::Processes, env.now_ms());
    let records = answered("ledger.status_records", records).await;
    let processes: Vec<Heartbeat> = (records.unwrap_or_default().iter())
        .filter_map(|record| serde_json::from_slice(&record.body).ok())
        .collect();
    let providers = context.config().map(Config::providers).unwrap_or_default();
    let checks = providers.into_iter().filter_map(|(model, provider)| {
        expected_workers(&model, provider.endpoint.expected_workers, &processes)
    });
    checks.collect()
}

// While Redis is unavailable, each process that calls a model keeps to its part of the limits: too few parts exceed them.
fn expected_workers(model: &str, expected: u32, processes: &[Heartbeat]) -> Option<HealthCheck> {
    let bucket = format!("{model}@");
    let calls_model =
        |process: &&Heartbeat| process.models.keys().any(|key| key.starts_with(&bucket));
    let running = processes.iter().filter(calls_model).count();
    (running > expected.max(1) as usize).then(|| {
        let what = format!(
            "{running} processes call model {model}, but model.expected_workers is {expected}: while Redis is unavailable, together \
             they would exceed its limits"
        );
        let next = format!("set model.expected_workers = {running} for all of them");
        HealthCheck::attention(what, next)
    })
}

async fn broker(cluster: &Cluster) -> HealthCheck {
    let info = match answered("queue.probe", cluster.broker()).await {
        Ok(info) => info,
        Err(error) => return unreachable(Server::Broker, &error),
    };
    let product = info.product;
    let version = info.version;
    let queues = info.queues;
    // The broker says only to those who publish that it blocks publishers.
    let published = answered("queue.announce", cluster.try_publishing()).await;
    match (published, cluster.broker_blocks()) {
        (_, Some(reason)) => HealthCheck {
            result: "failed",
            what: format!("broker: {product} {version} blocks publishers: {reason}"),
            next: Some("free memory or disk of RabbitMQ: no task is published meanwhile".into()),
        },
        (Err(error), None) => unreachable(Server::Broker, &error),
        (Ok(()), None) => HealthCheck::ok(format!(
            "broker: {product} {version}, {queues} queues as expected"
        )),
    }
}

async fn redis(cluster: &Cluster) -> HealthCheck {
    match answered("ledger.ping", cluster.redis()).await {
        Ok(()) => HealthCheck::ok("redis: reachable and writable"),
        Err(error) => unreachable(Server::Redis, &error),
    }
}

// The servers are checked at the same time, and each has this long for the next answer.
async fn answered<T>(
    operation: &'static str,
    call: impl Future<Output = PortResult<T>>,
) -> PortResult<T> {
    const LIMIT: Duration = LOOK_TIMEOUT;
    let reply = tokio::time::timeout(LIMIT, call).await;
    reply.unwrap_or_else(|_| {
        let message = format!("no answer within {LIMIT:?}");
        Err(PortError::transient(operation, message))
    })
}

fn unreachable(server: Server, error: &PortError) -> HealthCheck {
    let kind = match error.kind {
        PortErrorKind::Refused => TroubleKind::Refused,
        _ => TroubleKind::Away,
    };
    HealthCheck {
        result: "failed",
        what: format!("{}: {}", server.name(), error.message),
        next: Some(server.remedy(kind).into()),
    }
}

// Checks every configured model without calling it.
async fn models(context: &Context) -> Vec<HealthCheck> {
    let providers = context.config().map(Config::providers).unwrap_or_default();
    if providers.is_empty() {
        let what = "no model configured; rules create structure and summaries, at no cost";
        return vec![HealthCheck::ok(what)];
    }
    let mut checks = Vec::new();
    for (name, provider) in providers {
        let place = format!("model {name} at {}", provider.endpoint.base_url);
        checks.push(match provider.list_models(&Env::system()).await {
            Err(error) => failed(error),
            Ok(Err(error)) => failed(preflight_error(&name, &error)),
            Ok(Ok(names)) if names.is_empty() => {
                HealthCheck::ok(format!("{place}: reachable, but does not list its models"))
            }
            Ok(Ok(names)) if names.contains(&name) => {
                HealthCheck::ok(format!("{place}: key accepted, model available"))
            }
            Ok(Ok(_)) => HealthCheck::attention(
                format!("{place}: key accepted, but {name} is not in its list of models"),
                "check the spelling of model.name",
            ),
        });
    }
    checks
}

// Extracts a small document in a child process, as ingest does.
async fn reading(context: &Context) -> HealthCheck {
    let local = context
        .config()
        .map(|config| config.local.clone())
        .unwrap_or_default();
    let text = b"# Probe\n".to_vec();
    let job = ExtractJob::new("probe.md".into(), text, None, Limits::default());
    let pool = match children::extraction_pool(&local) {
        Ok(pool) => pool,
        Err(error) => return failed(CommandError::new("extract.no_child", error.to_string())),
    };
    match pool.extract(job).await {
        Ok(_) => HealthCheck::ok("document extraction in sandboxed child processes works"),
        Err(error) => failed(CommandError::new(error.code, error.message).with_next(error.next)),
    }
}

// Tesseract's data that finds the orientation of pages.
const ORIENTATION: &str = "osd";

// Whether pages that are pictures can be read.
async fn recognition(context: &Context) -> HealthCheck {
    let Some(program) = embedded::tesseract() else {
        return HealthCheck::attention(
            "text recognition: tesseract is not installed, so pages that are pictures cannot be read",
            tesseract_advice(PackageManager::detect()),
        );
    };
    let name = program.display().to_string();
    let found = tokio::task::spawn_blocking(move || stemma_ocr::installed(&program)).await;
    let found = found.unwrap_or_else(|error| Err(error.to_string()));
    let (version, languages) = match found {
        Ok(found) => found,
        Err(why) => {
            let what = format!("text recognition: {name} does not run: {why}");
            return HealthCheck::attention(what, "install it again, as the package tesseract-ocr");
        }
    };
    let listed = languages.join(", ");
    let what = format!("text recognition: tesseract {version}, languages {listed}");
    let configured = context
        .config()
        .map(|config| config.settings.ocr.languages.clone());
    let has = |name: &String| languages.contains(name);
    match configured
        .unwrap_or_default()
        .iter()
        .find(|name| !has(name))
    {
        Some(name) => HealthCheck::attention(
            format!("{what}, but not {name} of ocr.languages"),
            "install it, as the package tesseract-ocr-LANGUAGE",
        ),
        None if !has(&ORIENTATION.into()) => HealthCheck::attention(
            format!("{what}, but not {ORIENTATION}, so pages that are upside down cannot be read"),
            "install it, as the package tesseract-ocr-osd",
        ),
        None => HealthCheck::ok(what),
    }
}

// Whether the model is there that reads the numbers of scans again; `None` if nothing names one.
fn second_reader(context: &Context) -> Option<HealthCheck> {
    let config = context.config().ok()?;
    let digest = &config.settings.ocr.second_reader;
    Some(match embedded::second_reader(config) {
        Err(error) => failed(error),
        Ok(None) if digest.is_empty() => return None,
        Ok(None) => HealthCheck::attention(
            "second reader: ocr.second_reader names a model, but local.second_reader is empty, so this machine cannot read scans",
            "set local.second_reader to the path of the model",
        ),
        Ok(Some(model)) if digest.is_empty() => HealthCheck::attention(
            format!(
                "second reader: the model {} is there, but ocr.second_reader is empty, so nothing reads the numbers of scans again",
                model.path.display()
            ),
            format!("set ocr.second_reader to {}", model.sha256),
        ),
        Ok(Some(model)) => HealthCheck::ok(format!(
            "second reader: the model {} has the digest of ocr.second_reader",
            model.path.display()
        )),
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn process(model: &str) -> Heartbeat {
        Heartbeat {
            process: String::new(),
            service: "worker".into(),
            version: String::new(),
            since_ms: 0,
            at_ms: 0,
            draining: false,
            lanes: Vec::new(),
            tasks: Vec::new(),
            stages: BTreeMap::new(),
            models: BTreeMap::from([(format!("{model}@host"), Default::default())]),
            troubles: Vec::new(),
            unfinished: Vec::new(),
        }
    }

    #[test]
    fn more_workers_than_expected_need_attention() {
        let processes = ["big", "big", "big", "small"].map(process);
        let check = expected_workers("big", 2, &processes).unwrap();
        assert_eq!(check.result, "attention");
        assert!(check.what.starts_with("3 processes call model big"));
        assert!(expected_workers("big", 3, &processes).is_none());
        assert!(expected_workers("small", 1, &processes).is_none());
        assert!(expected_workers("none", 0, &processes).is_none());
    }
}
