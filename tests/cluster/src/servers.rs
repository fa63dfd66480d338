//! RabbitMQ, Redis and S3: started for one test by `tests/services`, or named in the environment and shared.

use std::env;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command as Blocking, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use aws_sdk_s3::Client;
use aws_sdk_s3::config::{BehaviorVersion, Credentials, Region};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::process::Command;
use tokio::time::timeout;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../services");
const RABBITMQ: &str = "STEMMA_TEST_RABBITMQ";
const REDIS: &str = "STEMMA_TEST_REDIS";
const S3: &str = "STEMMA_TEST_S3";
/// User of the started RabbitMQ, and its password.
const BROKER_USER: &str = "guest";
pub(crate) const BROKER_PASSWORD: &str = "guest";
/// User of a started S3 server.
const S3_USER: &str = "stemma";
/// Region of all buckets. Ceph accepts any name.
const REGION: &str = "us-east-1";
/// Time limit for a server and for `tests/services`.
const TIMEOUT: Duration = Duration::from_secs(120);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ServerKind {
    RabbitMq,
    Redis,
    S3,
}

impl ServerKind {
    fn name(self) -> &'static str {
        match self {
            Self::RabbitMq => "rabbitmq",
            Self::Redis => "redis",
            Self::S3 => "s3",
        }
    }
}

/// A user of broker and Redis, and an access key of the user of S3.
pub struct Login {
    name: &'static str,
    password: &'static str,
}

impl Login {
    pub const fn new(name: &'static str, password: &'static str) -> Self {
        Self { name, password }
    }
}

/// Running servers. Dropping this stops the servers that it started.
pub struct TestServers {
    rabbitmq: String,
    redis: String,
    endpoint: String,
    access_key: String,
    secret_key: String,
    /// Data of started servers; `None` if the environment names the servers.
    folder: Option<TempDir>,
}

impl TestServers {
    /// The servers named by `STEMMA_TEST_RABBITMQ`, `_REDIS` and `_S3`; `None` if one is not set and
    /// `STEMMA_TEST_EMBEDDED_ONLY=1` allows tests to be skipped.
    ///
    /// # Errors
    /// If a variable is missing without that permission, or malformed.
    pub fn from_env() -> Result<Option<Self>> {
        let (Ok(rabbitmq), Ok(redis), Ok(s3)) = (env::var(RABBITMQ), env::var(REDIS), env::var(S3))
        else {
            ensure!(
                env::var("STEMMA_TEST_EMBEDDED_ONLY").is_ok_and(|value| value == "1"),
                "set {RABBITMQ}, {REDIS} and {S3} or run tests/run; STEMMA_TEST_EMBEDDED_ONLY=1 skips tests that need servers"
            );
            println!(
                "skipped: {RABBITMQ}, {REDIS} or {S3} is not set (STEMMA_TEST_EMBEDDED_ONLY=1)"
            );
            return Ok(None);
        };
        Self::new(&rabbitmq, &redis, &s3, None).map(Some)
    }

    /// The servers that the environment names; without them, new servers.
    ///
    /// # Errors
    /// See [`TestServers::from_env`] and [`TestServers::start`].
    pub async fn from_env_or_start() -> Result<Self> {
        match (env::var(RABBITMQ), env::var(REDIS), env::var(S3)) {
            (Ok(rabbitmq), Ok(redis), Ok(s3)) => Self::new(&rabbitmq, &redis, &s3, None),
            _ => Self::start().await,
        }
    }

    /// Name and process id of each started server. Each process leads a session.
    ///
    /// # Errors
    /// If their process id files cannot be read.
    pub fn processes(&self) -> Result<Vec<(String, u32)>> {
        let Some(folder) = &self.folder else {
            return Ok(Vec::new());
        };
        let mut processes = Vec::new();
        for entry in std::fs::read_dir(folder.path().join("run"))? {
            let path = entry?.path();
            let (Some(name), Some("pid")) = (
                path.file_stem(),
                path.extension().and_then(|end| end.to_str()),
            ) else {
                continue;
            };
            let text = std::fs::read_to_string(&path)?;
            let pid = text.split(' ').next().unwrap_or_default();
            let pid = pid
                .parse()
                .with_context(|| format!("{} holds no process id", path.display()))?;
            processes.push((name.to_string_lossy().into_owned(), pid));
        }
        Ok(processes)
    }

    /// Starts new servers, which a test may kill.
    ///
    /// # Errors
    /// If they cannot be started, with what `tests/services` says.
    pub async fn start() -> Result<Self> {
        // Below /tmp, because the paths of sockets must be short.
        let folder = tempfile::Builder::new()
            .prefix("stemma-servers.")
            .tempdir_in("/tmp")?;
        let run = folder.path().join("run");
        let mut command = Command::new(SCRIPT);
        command
            .arg("start")
            .arg(&run)
            .env_remove(RABBITMQ)
            .env_remove(REDIS)
            .env_remove(S3);
        let output = command.stdin(Stdio::null()).output().await?;
        if !output.status.success() {
            stop(&run);
            let reason = String::from_utf8_lossy(&output.stderr);
            bail!("tests/services could not start the servers: {reason}");
        }
        let text = String::from_utf8_lossy(&output.stdout);
        let value = |name: &str| {
            let lines = text.lines().filter_map(|line| line.split_once('='));
            let matched = lines
                .filter(|(key, _)| *key == name)
                .map(|(_, value)| value.trim_matches('\''))
                .next();
            matched.with_context(|| format!("tests/services did not print {name}"))
        };
        Self::new(value(RABBITMQ)?, value(REDIS)?, value(S3)?, Some(folder))
    }

    fn new(rabbitmq: &str, redis: &str, s3: &str, folder: Option<TempDir>) -> Result<Self> {
        let mut words = s3.split_whitespace().map(str::to_string);
        let (Some(endpoint), Some(access_key), Some(secret_key)) =
            (words.next(), words.next(), words.next())
        else {
            bail!("{S3} is `http://HOST:PORT ACCESS SECRET`");
        };
        Ok(Self {
            rabbitmq: rabbitmq.into(),
            redis: redis.into(),
            endpoint,
            access_key,
            secret_key,
            folder,
        })
    }

    /// The address of a server.
    ///
    /// # Errors
    /// If its URL has no numeric address.
    pub fn address(&self, server: ServerKind) -> Result<SocketAddr> {
        let url = match server {
            ServerKind::RabbitMq => &self.rabbitmq,
            ServerKind::Redis => &self.redis,
            ServerKind::S3 => &self.endpoint,
        };
        let host = authority(url).with_context(|| format!("{} has no host", server.name()))?;
        host.parse()
            .with_context(|| format!("{} at `{host}` is not an address and port", server.name()))
    }

    /// Settings for the services, as environment variables. `through` replaces the addresses of some servers by those of
    /// proxies.
    ///
    /// # Errors
    /// See [`TestServers::address`].
    pub fn settings(&self, through: &[(ServerKind, SocketAddr)]) -> Result<Vec<(String, String)>> {
        let url = |server, url: &str| -> Result<String> {
            let proxy = through.iter().find(|(proxied, _)| *proxied == server);
            let own = self.address(server)?.to_string();
            Ok(proxy.map_or_else(
                || url.to_string(),
                |(_, address)| url.replacen(&own, &address.to_string(), 1),
            ))
        };
        let settings = [
            ("BROKER__URL", url(ServerKind::RabbitMq, &self.rabbitmq)?),
            ("REDIS__URL", url(ServerKind::Redis, &self.redis)?),
            ("S3__ENDPOINT", url(ServerKind::S3, &self.endpoint)?),
            ("S3__ACCESS_KEY", self.access_key.clone()),
            ("S3__SECRET_KEY", self.secret_key.clone()),
            ("S3__PATH_STYLE", "true".into()),
            ("S3__REGION", REGION.into()),
        ];
        Ok(settings
            .into_iter()
            .map(|(name, value)| (format!("STEMMA_{name}"), value))
            .collect())
    }

    /// Settings of a login that [`TestServers::add_login`] made.
    pub fn login_settings(&self, login: &Login) -> [(String, String); 4] {
        let user = format!("{}:{}", login.name, login.password);
        let url = |url: &String| url_with_user(url, &user).unwrap_or_else(|| url.clone());
        [
            ("BROKER__URL", url(&self.rabbitmq)),
            ("REDIS__URL", url(&self.redis)),
            ("S3__ACCESS_KEY", login.name.into()),
            ("S3__SECRET_KEY", login.password.into()),
        ]
        .map(|(name, value)| (format!("STEMMA_{name}"), value))
    }

    /// A client of the S3 server.
    pub fn s3(&self) -> Client {
        self.s3_with_key(&self.access_key, &self.secret_key)
    }

    /// A client of the S3 server with the access key of a login.
    pub fn s3_with_login(&self, login: &Login) -> Client {
        self.s3_with_key(login.name, login.password)
    }

    fn s3_with_key(&self, access_key: &str, secret_key: &str) -> Client {
        let credentials = Credentials::new(access_key, secret_key, None, None, "tests");
        let config = aws_sdk_s3::Config::builder()
            .http_client(stemma_adapters::s3::http_client())
            .behavior_version(BehaviorVersion::latest())
            .endpoint_url(&self.endpoint)
            .region(Region::from_static(REGION))
            .credentials_provider(credentials)
            .force_path_style(true);
        Client::from_conf(config.build())
    }

    /// Creates a bucket unless it exists.
    ///
    /// # Errors
    /// If the server refuses.
    pub async fn make_bucket(&self, name: &str) -> Result<()> {
        let created = self.s3().create_bucket().bucket(name).send().await;
        let owned = created
            .as_ref()
            .err()
            .and_then(|error| error.as_service_error());
        if owned.is_some_and(|error| error.is_bucket_already_owned_by_you()) {
            return Ok(());
        }
        created
            .with_context(|| format!("creating bucket {name}"))
            .map(drop)
    }

    /// `FLUSHALL`: deletes all data in Redis.
    ///
    /// # Errors
    /// If it does not answer.
    pub async fn flush_redis(&self) -> Result<()> {
        self.redis_commands(&["FLUSHALL"]).await
    }

    /// Requires a password of new connections to Redis. Existing ones stay authenticated.
    ///
    /// # Errors
    /// If it does not answer.
    pub async fn require_redis_password(&self, password: &str) -> Result<()> {
        self.redis_commands(&[&format!("CONFIG SET requirepass {password}")])
            .await
    }

    /// Removes the password again.
    ///
    /// # Errors
    /// If it does not answer, or the password is another.
    pub async fn remove_redis_password(&self, password: &str) -> Result<()> {
        let auth = format!("AUTH {password}");
        self.redis_commands(&[&auth, "CONFIG SET requirepass \"\""])
            .await
    }

    /// Takes all memory from Redis, so that it refuses what needs more, or gives it back.
    ///
    /// # Errors
    /// If it does not answer.
    pub async fn set_redis_full(&self, full: bool) -> Result<()> {
        let bytes = if full { 1 } else { 0 };
        self.redis_commands(&[&format!("CONFIG SET maxmemory {bytes}")])
            .await
    }

    /// Sends commands that answer `OK`, or a count of one, past any proxy.
    async fn redis_commands(&self, commands: &[&str]) -> Result<()> {
        let address = self.address(ServerKind::Redis)?;
        let send = async {
            let mut stream = BufReader::new(TcpStream::connect(address).await?);
            for command in commands {
                stream
                    .write_all(format!("{command}\r\n").as_bytes())
                    .await?;
                let mut reply = String::new();
                stream.read_line(&mut reply).await?;
                let reply = reply.trim_end();
                ensure!(["+OK", ":1"].contains(&reply), "redis answered {reply:?}");
            }
            Ok(())
        };
        timeout(TIMEOUT, send)
            .await
            .context("redis does not answer")?
    }

    /// Raises or clears the memory alarm of a started RabbitMQ, which blocks all publishers.
    ///
    /// # Errors
    /// If the server was not started by this value.
    pub async fn set_memory_alarm(&self, raised: bool) -> Result<()> {
        // Shares of the memory: the lowest that the broker takes, and its default.
        let watermark = if raised { "0.0001" } else { "0.4" };
        self.rabbitmqctl(&["set_vm_memory_high_watermark", watermark])
            .await
    }

    /// Changes the password of the broker's user. Open connections stay authenticated.
    ///
    /// # Errors
    /// See [`TestServers::set_memory_alarm`].
    pub async fn change_broker_password(&self, password: &str) -> Result<()> {
        self.rabbitmqctl(&["change_password", BROKER_USER, password])
            .await
    }

    /// Adds a user to a started RabbitMQ and to Redis, and an access key to the user of S3.
    ///
    /// # Errors
    /// See [`TestServers::set_memory_alarm`].
    pub async fn add_login(&self, login: &Login) -> Result<()> {
        let Login { name, password } = login;
        self.rabbitmqctl(&["add_user", name, password]).await?;
        self.rabbitmqctl(&["set_permissions", name, ".*", ".*", ".*"])
            .await?;
        let user = format!("ACL SETUSER {name} on >{password} ~* &* +@all");
        self.redis_commands(&[&user]).await?;
        let access = format!("--access-key={name}");
        let secret = format!("--secret-key={password}");
        self.s3_key("create", &[&access, &secret]).await
    }

    /// Removes a user and its access key again, and closes its connections.
    ///
    /// # Errors
    /// See [`TestServers::set_memory_alarm`].
    pub async fn remove_login(&self, login: &Login) -> Result<()> {
        self.rabbitmqctl(&["delete_user", login.name]).await?;
        self.rabbitmqctl(&["close_all_user_connections", login.name, "removed"])
            .await?;
        let user = format!("ACL DELUSER {}", login.name);
        self.redis_commands(&[&user]).await?;
        let access = format!("--access-key={}", login.name);
        self.s3_key("rm", &[&access]).await
    }

    async fn s3_key(&self, command: &str, arguments: &[&str]) -> Result<()> {
        let user = format!("--uid={S3_USER}");
        let command = ["key", command, &user, "--key-type=s3"];
        self.administer("radosgw-admin", &[&command, arguments].concat())
            .await
    }

    async fn rabbitmqctl(&self, arguments: &[&str]) -> Result<()> {
        self.administer("rabbitmqctl", arguments).await
    }

    async fn administer(&self, program: &str, arguments: &[&str]) -> Result<()> {
        let folder = self.folder.as_ref();
        let folder = folder.with_context(|| format!("{program}: this test started no servers"))?;
        let mut process = Command::new(SCRIPT);
        process.arg(program).arg(folder.path().join("run"));
        process.args(arguments);
        complete(program, process).await
    }

    /// Raises or ends the disk alarm of a started RabbitMQ, while which it blocks publishers.
    ///
    /// # Errors
    /// See [`TestServers::set_memory_alarm`].
    pub async fn set_disk_alarm(&self, raised: bool) -> Result<()> {
        // More than any disk has (3.10 knows no larger unit), and the default of the broker.
        let limit = if raised { "1000000GB" } else { "50MB" };
        self.rabbitmqctl(&["set_disk_free_limit", limit]).await
    }

    /// `kill -9` of a started server.
    ///
    /// # Errors
    /// If the server was not started by this value.
    pub async fn kill(&self, server: ServerKind) -> Result<()> {
        self.command("kill", server).await
    }

    /// `kill -9` of a started server, and deletes its data. Not for S3, which holds the authoritative data.
    ///
    /// # Errors
    /// If the server was not started by this value.
    pub async fn destroy(&self, server: ServerKind) -> Result<()> {
        self.command("lose", server).await
    }

    /// Restarts a started server on the same port and data, and waits until it answers.
    ///
    /// # Errors
    /// If the server was not started by this value, or does not come up.
    pub async fn restart(&self, server: ServerKind) -> Result<()> {
        self.command("restart", server).await
    }

    async fn command(&self, command: &str, server: ServerKind) -> Result<()> {
        let run = self.run_folder(command, server)?;
        let mut process = Command::new(SCRIPT);
        process.arg(command).arg(server.name()).arg(run);
        complete(command, process).await
    }

    fn run_folder(&self, command: &str, server: ServerKind) -> Result<PathBuf> {
        let folder = self.folder.as_ref().with_context(|| {
            format!(
                "cannot {command} {}, which this test did not start",
                server.name()
            )
        })?;
        Ok(folder.path().join("run"))
    }
}

async fn complete(name: &str, mut process: Command) -> Result<()> {
    process.stdin(Stdio::null()).stdout(Stdio::null());
    let status = timeout(TIMEOUT, process.status())
        .await
        .with_context(|| format!("{name} timed out"))??;
    ensure!(status.success(), "tests/services {name}: {status}");
    Ok(())
}

impl Drop for TestServers {
    fn drop(&mut self) {
        if let Some(folder) = &self.folder {
            stop(&folder.path().join("run"));
        }
    }
}

/// Called on drop, so an error can only be printed.
fn stop(run: &Path) {
    let mut command = Blocking::new(SCRIPT);
    if let Err(error) = command.arg("stop").arg(run).stdin(Stdio::null()).status() {
        eprintln!("tests/services stop: {error}");
    }
}

/// The URL with another user and password, `user:password`.
fn url_with_user(url: &str, user: &str) -> Option<String> {
    let host = authority(url)?;
    let (scheme, rest) = url.split_once("://")?;
    let path = rest.split_once(host)?.1;
    Some(format!("{scheme}://{user}@{host}{path}"))
}

/// `host:port` of `scheme://user:password@host:port/path`.
fn authority(url: &str) -> Option<&str> {
    let rest = url.split_once("://")?.1;
    let authority = rest.split(['/', '?']).next()?;
    authority.rsplit('@').next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn url_addresses_are_parsed_and_replaced() {
        let rabbitmq = "amqp://guest:guest@127.0.0.1:20000/%2f";
        let redis = "redis://127.0.0.1:20004/";
        let servers =
            TestServers::new(rabbitmq, redis, "http://127.0.0.1:20008 a s", None).unwrap();
        assert_eq!(
            servers.address(ServerKind::RabbitMq).unwrap(),
            ([127, 0, 0, 1], 20000).into()
        );
        let settings = servers
            .settings(&[(ServerKind::RabbitMq, ([127, 0, 0, 1], 5).into())])
            .unwrap();
        let of = |name: &str| {
            settings
                .iter()
                .find(|(key, _)| key == name)
                .map(|(_, value)| value.as_str())
                .unwrap()
        };
        assert_eq!(
            of("STEMMA_BROKER__URL"),
            "amqp://guest:guest@127.0.0.1:5/%2f"
        );
        assert_eq!(of("STEMMA_S3__ENDPOINT"), "http://127.0.0.1:20008");
        assert!(TestServers::new("amqp://x", "redis://y", "http://z", None).is_err());
    }
}
