//! What one document costs: requests to S3 by kind, messages, calls to Redis, and CPU time by role. Extrapolates to ten
//! million documents from the measured parts.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use aws_sdk_s3::primitives::ByteStream;
use stemma_sim::{Behavior, Provider};
use tokio::time::sleep;

use super::broker::MessageTap;
use super::cpu_time::{CpuTimes, CpuUsage, process_kinds};
use super::objects::{RedisCalls, redis_calls};
use super::{BUCKET, BenchEnv, MeasurementTable, READY_TIMEOUT, TIMEOUT};
use crate::{Proxy, RequestCounts, ServerKind, ServiceFleet, ServiceRole, documents};

/// Pages of a generated document.
const PAGES: u32 = 40;
/// How long an idle fleet is observed.
const IDLE: Duration = Duration::from_secs(20);
/// List prices of S3 in us-east-1, dollars per million requests: PUT and LIST, GET and HEAD.
const WRITE_PRICE: f64 = 5.0;
const READ_PRICE: f64 = 0.4;
/// Documents of the extrapolation.
const MANY: f64 = 10_000_000.0;

/// What a phase used.
struct Usage {
    requests: RequestCounts,
    redis: RedisCalls,
    messages: usize,
    cpu: CpuUsage,
    seconds: f64,
}

/// Processes `documents` filings from S3 on an otherwise idle fleet, then submits them again unchanged.
///
/// # Errors
/// If a server or process fails, or a document does.
pub async fn costs(lab: &BenchEnv, count: u64) -> Result<MeasurementTable> {
    let mut table = MeasurementTable::new(format!(
        "costs: {count} generated filings of about {PAGES} pages in S3, no model"
    ));
    let name = lab.name("costs");
    upload(lab, &name, count).await?;
    let proxy = Proxy::http(lab.servers.address(ServerKind::S3)?, 1).await?;
    let provider = Provider::start(Behavior::default()).await?;
    let settings = [("STEMMA_STRUCTURE", "layout")];
    let through = [(ServerKind::S3, proxy.address())];
    let mut fleet = lab.fleet(&name, &settings, &through, &provider)?;
    for role in [
        ServiceRole::Coordinator,
        ServiceRole::Assembler,
        ServiceRole::Worker,
    ] {
        let process = fleet.spawn(role, &[])?;
        fleet.wait_until_ready(&process, READY_TIMEOUT).await?;
    }
    let tap = MessageTap::connect(&lab.broker()?, &name).await?;
    let mut meter = Meter {
        lab,
        proxy: &proxy,
        tap: &tap,
        kinds: process_kinds(lab, &mut fleet)?,
    };

    let idle = async {
        sleep(IDLE).await;
        Ok(())
    };
    let idle = meter.during(idle).await?;
    let first = meter.during(job(lab, &fleet, &name, 1)).await?;
    let again = meter.during(job(lab, &fleet, &name, 2)).await?;

    let rates: Vec<_> = idle
        .requests
        .iter()
        .map(|(kind, requests)| format!("{kind} {:.2}", *requests as f64 / idle.seconds))
        .collect();
    table.note("idle fleet, S3 requests per second", rates.join(", "));
    table.note(
        "idle fleet, calls to Redis per second",
        format!("{:.1}", idle.redis.scripts as f64 / idle.seconds),
    );
    for (what, usage) in [("first time", &first), ("unchanged", &again)] {
        note_unit_costs(&mut table, what, usage, count as f64);
    }
    Ok(table)
}

/// Takes readings before and after a phase.
struct Meter<'a> {
    lab: &'a BenchEnv,
    proxy: &'a Proxy,
    tap: &'a MessageTap,
    kinds: Vec<(String, u32)>,
}

impl Meter<'_> {
    async fn during(&mut self, phase: impl Future<Output = Result<()>>) -> Result<Usage> {
        let requests = self.proxy.requests();
        let redis = redis_calls(self.lab).await?;
        let messages = self.tap.snapshot().published();
        let cpu = CpuTimes::now()?;
        let started = Instant::now();
        phase.await?;
        let seconds = started.elapsed().as_secs_f64();
        let mut counts = self.proxy.requests();
        for (kind, before) in requests {
            *counts.entry(kind).or_default() -= before;
        }
        Ok(Usage {
            requests: counts,
            redis: redis_calls(self.lab).await? - redis,
            messages: self.tap.snapshot().published() - messages,
            cpu: CpuUsage::between(&cpu, &CpuTimes::now()?, &self.kinds),
            seconds,
        })
    }
}

/// Submits the documents as job number `number`, and waits for its report.
async fn job(lab: &BenchEnv, fleet: &ServiceFleet, name: &str, number: usize) -> Result<()> {
    let source = format!("s3://{BUCKET}/{name}-source/");
    let output = fleet.run(&["submit", &source], TIMEOUT).await?;
    ensure!(
        output.status.success(),
        "submit: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let started = Instant::now();
    while reports(lab, name).await? < number {
        ensure!(started.elapsed() < TIMEOUT, "job {number} did not end");
        // Asked directly, so that the proxy does not count it.
        sleep(Duration::from_secs(1)).await;
    }
    Ok(())
}

/// Jobs that have ended.
async fn reports(lab: &BenchEnv, name: &str) -> Result<usize> {
    let prefix = format!("{name}/jobs/");
    let client = lab.servers.s3();
    let listed = client.list_objects_v2().bucket(BUCKET).prefix(prefix);
    let listed = listed.send().await?;
    let keys = listed.contents().iter().filter_map(|object| object.key());
    Ok(keys.filter(|key| key.ends_with("/report.json")).count())
}

async fn upload(lab: &BenchEnv, name: &str, count: u64) -> Result<()> {
    let folder = tempfile::tempdir()?;
    documents::write(folder.path(), count, PAGES, 1)?;
    let client = lab.servers.s3();
    for entry in std::fs::read_dir(folder.path())? {
        let path = entry?.path();
        let file = path.file_name().context("a file name")?;
        let put = client.put_object().bucket(BUCKET);
        put.key(format!("{name}-source/{}", file.to_string_lossy()))
            .body(ByteStream::from(std::fs::read(&path)?))
            .send()
            .await?;
    }
    Ok(())
}

fn note_unit_costs(table: &mut MeasurementTable, what: &str, usage: &Usage, count: f64) {
    let by_kind: Vec<_> = usage
        .requests
        .iter()
        .map(|(kind, requests)| format!("{kind} {:.2}", *requests as f64 / count))
        .collect();
    table.note(
        &format!("{what}, S3 requests per document"),
        by_kind.join(", "),
    );
    let dollars: f64 = usage
        .requests
        .iter()
        .map(|(kind, requests)| {
            let price = match *kind {
                "PUT" | "LIST" | "POST" => WRITE_PRICE,
                _ => READ_PRICE,
            };
            *requests as f64 * price / 1e6
        })
        .sum();
    table.note(
        &format!("{what}, calls to Redis per document"),
        format!(
            "{:.1} ({:.0} commands)",
            usage.redis.scripts as f64 / count,
            usage.redis.commands as f64 / count
        ),
    );
    table.note(
        &format!("{what}, messages per document"),
        format!("{:.1}", usage.messages as f64 / count),
    );
    for (kind, seconds) in usage.cpu.seconds() {
        table.note(
            &format!("{what}, CPU of {kind} per document"),
            format!("{:.1} ms", 1_000.0 * seconds / count),
        );
    }
    let requests: usize = usage.requests.values().sum();
    let coordinator = usage.cpu.seconds().get("coordinator").copied();
    table.note(
        &format!("{what}, 10 million documents (computed)"),
        format!(
            "{:.0} million S3 requests, ${:.0}; {:.0} million messages; {:.0} core hours of coordinators",
            requests as f64 / count * MANY / 1e6,
            dollars / count * MANY,
            usage.messages as f64 / count * MANY / 1e6,
            coordinator.unwrap_or_default() / count * MANY / 3_600.0,
        ),
    );
}
