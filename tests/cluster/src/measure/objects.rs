//! Measures the throughput of an idle object store, and counts Redis commands.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use aws_sdk_s3::primitives::ByteStream;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::{BUCKET, BenchEnv};
use crate::ServerKind;

/// Concurrent writes.
const CONCURRENT_WRITES: usize = 16;
/// Object size in bytes, about that of an artifact.
const OBJECT_BYTES: usize = 2_000;

/// New objects per second, written with `If-None-Match` as Stemma does.
pub(super) async fn bare_rate(lab: &BenchEnv, name: &str, over: Duration) -> Result<f64> {
    let client = lab.servers.s3();
    let started = Instant::now();
    let mut writers = JoinSet::new();
    for writer in 0..CONCURRENT_WRITES {
        let client = client.clone();
        let name = name.to_string();
        writers.spawn(async move {
            let mut written = 0;
            while started.elapsed() < over {
                let key = format!("{name}/{writer}/{written}");
                let body = ByteStream::from(vec![b'x'; OBJECT_BYTES]);
                client
                    .put_object()
                    .bucket(BUCKET)
                    .key(key)
                    .if_none_match("*")
                    .body(body)
                    .send()
                    .await?;
                written += 1;
            }
            anyhow::Ok(written)
        });
    }
    let mut written = 0;
    while let Some(writer) = writers.join_next().await {
        written += writer??;
    }
    Ok(f64::from(written) / started.elapsed().as_secs_f64())
}

/// Commands that Redis executed since its start, including those called by scripts.
pub(super) async fn redis_commands(lab: &BenchEnv) -> Result<u64> {
    let mut stream = TcpStream::connect(lab.servers.address(ServerKind::Redis)?).await?;
    stream.write_all(b"INFO stats\r\nQUIT\r\n").await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    let line = answer
        .lines()
        .find_map(|line| line.strip_prefix("total_commands_processed:"));
    line.context("redis does not count its commands")?
        .trim()
        .parse()
        .context("a number of commands")
}
