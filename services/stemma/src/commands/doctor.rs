//! `stemma doctor`: checks the installation.

use std::time::Duration;

use bytes::Bytes;
use futures::future::{join, join3};
use serde::Serialize;
use stemma_boot::backends::{Cluster, LOOK_TIMEOUT};
use stemma_engine::blobs::PutOutcome;
use stemma_engine::diagnosis::Server;
use stemma_engine::heartbeat::Heartbeat;
use stemma_engine::ledger::{Ledger, StatusTopic};
use stemma_engine::ports::TimeLimit;
use stemma_engine::{Env, PortError, PortResult};
use stemma_extract::{ExtractJob, Extractor, Limits};

use crate::config::Config;
use crate::context::Context;
use crate::embedded;
use crate::error::{CommandError, Exit};
use crate::model_clients::preflight_error;
use crate::output::clean;

/// Check the store, configuration, servers, models and document extraction.
#[derive(Debug, clap::Args)]
pub struct DoctorArgs {}

#[derive(Debug, Clone, Serialize)]
struct Check {
    // `ok`, `attention` or `failed`.
    result: &'static str,
    what: String,
    next: Option<String>,
}

impl Check {
    fn ok(what: impl Into<String>) -> Self {
        Self {
            result: "ok",
            what: what.into(),
            next: None,
        }
    }

    fn failed(error: CommandError) -> Self {
        Self {
            result: "failed",
            what: error.message,
            next: error.next,
        }
    }
}

pub async fn run(_args: DoctorArgs, context: &Context) -> Result<Exit, CommandError> {
    let configuration = configuration(context);
    let configured = configuration.result != "failed";
    let mut checks = vec![
        Check::ok(format!("version {}", env!("CARGO_PKG_VERSION"))),
        configuration,
    ];
    // With an invalid configuration, all other checks would fail for the same reason.
    if configured {
        let servers = join(store(context), cluster(context));
        let work = join(reading(context), models(context));
        let ((store, cluster), (reading, models)) = join(servers, work).await;
        checks.extend([store, reading, recognition(context)]);
        checks.extend(cluster);
        checks.extend(models);
    }
    let failed = checks.iter().any(|check| check.result == "failed");
    if context.output.is_text() {
        for check in &checks {
            let mark = match check.result {
                "ok" => "ok",
                "attention" => "--",
                _ => "!!",
            };
            context
                .output
                .line(&format!("{mark}  {}", clean(&check.what)));
            if let Some(next) = &check.next {
                context.output.line(&format!("    next: {next}"));
            }
        }
    } else {
        context.output.json(&checks);
    }
    Ok(if failed {
        Exit::CheckFailed
    } else {
        Exit::Done
    })
}

fn configuration(context: &Context) -> Check {
    match context.loaded_config() {
        Ok(loaded) => {
            let changed = loaded
                .settings
                .iter()
                .filter(|setting| setting.source != "default")
                .count();
            Check::ok(format!(
                "configuration: {} settings, {changed} changed from the default",
                loaded.settings.len()
            ))
        }
        Err(error) => Check::failed(error),
    }
}

async fn store(context: &Context) -> Check {
    let path = &context.store;
    let reader = match context.open_store().await {
        Ok(reader) => reader,
        Err(error) if error.code == "store.missing" => {
            return Check {
                result: "attention",
                what: error.message,
                next: error.next,
            };
        }
        Err(error) => return Check::failed(error),
    };
    if let Some(writer) = reader.writer() {
        return Check::ok(format!(
            "store {path}: being written to by process {} (stemma {})",
            writer.pid, writer.command
        ));
    }
    match probe(context).await {
        Ok(()) => Check::ok(format!("store {path}: writable, create-only writes work")),
        // Only a cluster has a store behind a server; other commands say to run this one.
        Err(error) => Check::failed(error.with_next(Server::S3.check())),
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
        Ok(())
    } else {
        Err(CommandError::new(
            "store.not_create_only",
            "the store overwrites existing objects",
        )
        .with_next("use a local file system that supports hard links"))
    }
}

// Checks the broker and Redis, if they are configured.
async fn cluster(context: &Context) -> Vec<Check> {
    let env = Env::system();
    let cluster = match context.observed_cluster(&env, "doctor").await {
        Ok(Some(cluster)) => cluster,
        Ok(None) => {
            return vec![Check::ok(
                "no broker configured; everything runs in one process",
            )];
        }
        Err(error) => return vec![Check::failed(error)],
    };
    let (broker, redis, workers) = join3(
        broker(&cluster),
        redis(&cluster),
        workers(context, &env, &cluster),
    )
    .await;
    let checks = [vec![broker, redis], workers].concat();
    cluster.close().await;
    checks
}

// Whether as many processes call a model as its settings say. Redis answers for itself.
async fn workers(context: &Context, env: &Env, cluster: &Cluster) -> Vec<Check> {
    let processes = cluster
        .ports
        .ledger
        .status_records(StatusTopic::Processes, env.now_ms());
    let records = answered("ledger.status_records", processes)
        .await
        .unwrap_or_default();
    let processes: Vec<Heartbeat> = records
        .iter()
        .filter_map(|record| serde_json::from_slice(&record.body).ok())
        .collect();
    let providers = context.config().map(Config::providers).unwrap_or_default();
    let checks = providers.into_iter().filter_map(|(model, provider)| {
        expected_workers(&model, provider.endpoint.expected_workers, &processes)
    });
    checks.collect()
}

// While Redis is away, each process that calls a model keeps to its part of the limits: too few parts exceed them.
fn expected_workers(model: &str, expected: u32, processes: &[Heartbeat]) -> Option<Check> {
    let bucket = format!("{model}@");
    let calls_model =
        |process: &&Heartbeat| process.models.keys().any(|key| key.starts_with(&bucket));
    let running = processes.iter().filter(calls_model).count();
    (running > expected.max(1) as usize).then(|| Check {
        result: "attention",
        what: format!(
            "{running} processes call model {model}, but model.expected_workers is {expected}: while Redis is away, together \
             they would exceed its limits"
        ),
        next: Some(format!("set model.expected_workers = {running} for all of them")),
    })
}

async fn broker(cluster: &Cluster) -> Check {
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
        (_, Some(reason)) => Check {
            result: "failed",
            what: format!("broker: {product} {version} blocks publishers: {reason}"),
            next: Some("free memory or disk of RabbitMQ: no task is published meanwhile".into()),
        },
        (Err(error), None) => unreachable(Server::Broker, &error),
        (Ok(()), None) => Check::ok(format!(
            "broker: {product} {version}, {queues} queues as expected"
        )),
    }
}

async fn redis(cluster: &Cluster) -> Check {
    match answered("ledger.ping", cluster.redis()).await {
        Ok(()) => Check::ok("redis: reachable and writable"),
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

fn unreachable(server: Server, error: &PortError) -> Check {
    Check {
        result: "failed",
        what: format!("{}: {}", server.name(), error.message),
        next: Some(server.check().into()),
    }
}

// Checks every configured model without calling it.
async fn models(context: &Context) -> Vec<Check> {
    let providers = context.config().map(Config::providers).unwrap_or_default();
    if providers.is_empty() {
        return vec![Check::ok(
            "no model configured; rules create structure and summaries, at no cost",
        )];
    }
    let mut checks = Vec::new();
    for (name, provider) in providers {
        let place = format!("model {name} at {}", provider.endpoint.base_url);
        checks.push(match provider.list_models(&Env::system()).await {
            Err(error) => Check::failed(error),
            Ok(Err(error)) => Check::failed(preflight_error(&name, &error)),
            Ok(Ok(names)) if names.is_empty() => {
                Check::ok(format!("{place}: reachable, but does not list its models"))
            }
            Ok(Ok(names)) if names.contains(&name) => {
                Check::ok(format!("{place}: key accepted, model available"))
            }
            Ok(Ok(_)) => Check {
                result: "attention",
                what: format!("{place}: key accepted, but {name} is not in its list of models"),
                next: Some("check the spelling of model.name".into()),
            },
        });
    }
    checks
}

// Extracts a small document in a child process, as ingest does.
async fn reading(context: &Context) -> Check {
    let local = match context.config() {
        Ok(config) => config.local.clone(),
        Err(_) => crate::config::LocalConfig::default(),
    };
    let job = ExtractJob::new(
        "probe.md".into(),
        b"# Probe\n".to_vec(),
        None,
        Limits::default(),
    );
    let pool = match embedded::extraction_pool(&local) {
        Ok(pool) => pool,
        Err(error) => {
            return Check::failed(CommandError::new("extract.no_child", error.to_string()));
        }
    };
    match pool.extract(job).await {
        Ok(_) => Check::ok("document extraction in sandboxed child processes works"),
        Err(error) => {
            Check::failed(CommandError::new(error.code, error.message).with_next(error.next))
        }
    }
}

// Whether pages that are pictures can be read.
fn recognition(context: &Context) -> Check {
    let attention = |what: String, next: &str| Check {
        result: "attention",
        what,
        next: Some(next.into()),
    };
    let Some(program) = embedded::tesseract() else {
        return attention(
            "text recognition: tesseract is not installed, so pages that are pictures cannot be read".into(),
            "install it, as the package tesseract-ocr",
        );
    };
    let (version, languages) = match stemma_ocr::installed(&program) {
        Ok(found) => found,
        Err(why) => {
            let what = format!(
                "text recognition: {} does not run: {why}",
                program.display()
            );
            return attention(what, "install it again, as the package tesseract-ocr");
        }
    };
    let configured = context
        .config()
        .map(|config| config.settings.ocr.languages.clone());
    let missing = configured
        .unwrap_or_default()
        .into_iter()
        .find(|name| !languages.contains(name));
    let what = format!(
        "text recognition: tesseract {version}, languages {}",
        languages.join(", ")
    );
    match missing {
        None => Check::ok(what),
        Some(name) => attention(
            format!("{what}, but not {name} of ocr.languages"),
            "install it, as the package tesseract-ocr-LANGUAGE",
        ),
    }
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
