//! `stemma doctor`: checks the installation.

use bytes::Bytes;
use serde::Serialize;
use stemma_engine::Env;
use stemma_engine::blobs::PutOutcome;
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

#[derive(Debug, Serialize)]
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
        checks.push(store(context).await);
        checks.push(reading(context).await);
        checks.extend(cluster(context).await);
        checks.extend(models(context).await);
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
        Err(error) => Check::failed(error),
    }
}

// Writes an object twice. The second write must fail, because publishing relies on create-only writes.
async fn probe(context: &Context) -> Result<(), CommandError> {
    let env = Env::system();
    let store = context.open_writable_store(&env, "doctor").await?;
    let blobs = store.ports.blobs.raw();
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
    let cluster = match context.cluster(&env, "doctor").await {
        Ok(Some(cluster)) => cluster,
        Ok(None) => {
            return vec![Check::ok(
                "no broker configured; everything runs in one process",
            )];
        }
        Err(error) => return vec![Check::failed(error)],
    };
    let broker = match cluster.broker().await {
        Ok(info) => {
            let product = info.product;
            let version = info.version;
            let queues = info.queues;
            Check::ok(format!(
                "broker: {product} {version}, {queues} queues as expected"
            ))
        }
        Err(error) => Check::failed(error.into()),
    };
    let redis = match cluster.redis().await {
        Ok(()) => Check::ok("redis: reachable"),
        Err(error) => Check::failed(error.into()),
    };
    cluster.close().await;
    vec![broker, redis]
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
