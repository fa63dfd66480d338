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
/// Object size in bytes, about the size of an artifact.
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

/// Calls to Redis since its start.
#[derive(Debug, Clone, Copy)]
pub(super) struct RedisCalls {
    /// Commands, including those called by scripts.
    pub(super) commands: u64,
    /// Scripts: one round trip each.
    pub(super) scripts: u64,
}

impl std::ops::Sub for RedisCalls {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self {
            commands: self.commands - before.commands,
            scripts: self.scripts - before.scripts,
        }
    }
}

/// Reads the counters of the Redis server.
pub(super) async fn redis_calls(lab: &BenchEnv) -> Result<RedisCalls> {
    let mut stream = TcpStream::connect(lab.servers.address(ServerKind::Redis)?).await?;
    stream
        .write_all(b"INFO stats\r\nINFO commandstats\r\nQUIT\r\n")
        .await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    let commands = counter(&answer, "total_commands_processed:")
        .context("redis does not count its commands")?;
    // The command is missing from the list before its first call.
    let scripts = counter(&answer, "cmdstat_evalsha:calls=").unwrap_or_default();
    Ok(RedisCalls { commands, scripts })
}

fn counter(answer: &str, name: &str) -> Option<u64> {
    let rest = answer.lines().find_map(|line| line.strip_prefix(name))?;
    rest.split(',').next()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redis_counters_are_parsed() {
        let answer = "total_commands_processed:42\r\n\r\ncmdstat_evalsha:calls=7,usec=9\r\n";
        assert_eq!(counter(answer, "total_commands_processed:"), Some(42));
        assert_eq!(counter(answer, "cmdstat_evalsha:calls="), Some(7));
        assert_eq!(counter(answer, "cmdstat_get:calls="), None);
    }
}
