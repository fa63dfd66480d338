//! Configuration of the cluster's servers, and the ports on them.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use stemma_adapters::rabbit::{Probe, RabbitQueue, RabbitSettings};
use stemma_adapters::redis::{RedisClient, RedisLedger, RedisLimiter, RedisSettings};
use stemma_adapters::s3::{self, S3Blobs, S3Credentials, S3Settings};
use stemma_engine::queue::{Message, Queue};
use stemma_engine::{MessageKeys, Ports, ledger};
use stemma_store::blobs::Blobs;
use stemma_store::limit::{Limiter, MemoryLimiter};
use stemma_store::time_limit::TimeLimit;
use stemma_store::{Env, PortError, PortResult, Secret};

use crate::location::Location;

/// How long a command that only looks waits for each server. People wait for it, and it is asked for when servers are unavailable.
pub const LOOK_TIMEOUT: Duration = Duration::from_millis(1_500);

/// Addresses and credentials; they do not change results. Broker and Redis are configured together, or not at all: then
/// everything runs in one process.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct BackendConfig {
    pub broker: BrokerConfig,
    pub redis: RedisConfig,
    /// Object storage of `s3://…` stores and documents.
    pub s3: S3Config,
}

/// RabbitMQ.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct BrokerConfig {
    /// `amqp://user:password@host:5672/%2f`, or `amqps://…`.
    pub url: Secret,
    /// Prefix of all queue names; clusters that share a broker need different ones.
    pub prefix: String,
    /// Key of coordinators, workers and assemblers, by which they sign and check tasks and messages to coordinators (ADR 0037);
    /// empty: neither.
    pub message_key: Secret,
    /// Accepted as well, while the key is replaced.
    pub previous_message_key: Secret,
    /// Accept unsigned messages although there is a key, while a fleet gets its first key.
    pub accept_unsigned: bool,
}

impl BrokerConfig {
    fn message_keys(&self) -> PortResult<MessageKeys> {
        MessageKeys::new(
            &self.message_key,
            &self.previous_message_key,
            self.accept_unsigned,
        )
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RedisConfig {
    /// `redis://user:password@host:6379/`, or `rediss://…`.
    pub url: Secret,
    /// Prefix of all keys.
    pub prefix: String,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct S3Config {
    /// Server URL; empty for AWS.
    pub endpoint: String,
    /// Empty to use the region of the AWS credential chain.
    pub region: String,
    /// Empty (with the secret key) to use the AWS credential chain, e.g. a role of the Kubernetes pod.
    pub access_key: Secret,
    pub secret_key: Secret,
    /// Put the bucket into the path instead of the host name; most servers other than AWS need it.
    pub path_style: bool,
    /// Send checksums only where S3 requires them; some servers other than AWS need it.
    pub plain_checksums: bool,
}

impl S3Config {
    pub fn settings(&self) -> S3Settings {
        let access = if self.access_key.is_empty() && self.secret_key.is_empty() {
            S3Credentials::Chain
        } else {
            S3Credentials::Key {
                id: self.access_key.clone(),
                secret: self.secret_key.clone(),
            }
        };
        S3Settings {
            endpoint: Some(self.endpoint.clone()).filter(|url| !url.is_empty()),
            region: Some(self.region.clone()).filter(|region| !region.is_empty()),
            access,
            force_path_style: self.path_style,
            checksums_when_required: self.plain_checksums,
            ..S3Settings::default()
        }
    }
}

impl Default for BrokerConfig {
    fn default() -> Self {
        Self {
            url: Secret::default(),
            prefix: "stemma".into(),
            message_key: Secret::default(),
            previous_message_key: Secret::default(),
            accept_unsigned: false,
        }
    }
}

impl Default for RedisConfig {
    fn default() -> Self {
        Self {
            url: Secret::default(),
            prefix: "stemma".into(),
        }
    }
}

impl BackendConfig {
    /// Whether a broker is configured, so that other processes do the work.
    pub fn is_cluster(&self) -> bool {
        !self.broker.url.is_empty()
    }

    /// The blobs of a store in a bucket.
    ///
    /// # Errors
    /// [`PortError`] when the settings are invalid.
    pub async fn bucket(&self, bucket: &str, prefix: &str) -> PortResult<Arc<dyn Blobs>> {
        let s3 = s3::S3::connect(&self.s3.settings()).await?;
        Ok(Arc::new(S3Blobs::new(s3, bucket, prefix)?))
    }

    /// The rate limiter: shared through Redis if one is configured, else local to this process. Sends no request.
    ///
    /// # Errors
    /// [`PortError`] when the Redis URL is invalid.
    pub fn limiter(&self, env: &Env) -> PortResult<Arc<dyn Limiter>> {
        if self.redis.url.is_empty() {
            return Ok(Arc::new(MemoryLimiter::default()));
        }
        Ok(Arc::new(RedisLimiter::new(
            self.redis_client()?,
            env.clone(),
        )))
    }

    fn redis_client(&self) -> PortResult<RedisClient> {
        RedisClient::open(&self.redis_settings())
    }

    fn redis_settings(&self) -> RedisSettings {
        RedisSettings {
            prefix: self.redis.prefix.clone(),
            ..RedisSettings::new(self.redis.url.clone())
        }
    }

    fn rabbit_settings(&self, name: &str) -> RabbitSettings {
        RabbitSettings {
            url: self.broker.url.clone(),
            prefix: self.broker.prefix.clone(),
            name: name.into(),
        }
    }

    /// Connects to the cluster whose store is at `location`. `name` identifies this process to the broker.
    ///
    /// # Errors
    /// [`PortError`]: transient when a server is unavailable, permanent when it refuses or a setting is missing.
    pub async fn connect(&self, location: &Location, name: &str, env: &Env) -> PortResult<Cluster> {
        let message_keys = self.broker.message_keys()?;
        let blobs = self.cluster_blobs(location).await?;
        let redis = self.redis_client()?;
        redis.ping().await?;
        let broker = RabbitQueue::connect(&self.rabbit_settings(name), env).await?;
        let mut cluster = Cluster::new(env, broker, redis, blobs);
        cluster.ports.message_keys = message_keys;
        Ok(cluster)
    }

    /// The cluster whose store is at `location`, to look at. Returns at once, whether the servers respond or not; each
    /// call waits for a response up to [`LOOK_TIMEOUT`].
    ///
    /// # Errors
    /// A permanent [`PortError`] when a setting is missing or invalid.
    pub async fn observe(&self, location: &Location, name: &str, env: &Env) -> PortResult<Cluster> {
        let blobs = self.cluster_blobs(location).await?;
        let redis = RedisClient::open(&RedisSettings {
            timeout: LOOK_TIMEOUT,
            ..self.redis_settings()
        })?;
        let broker = RabbitQueue::observe(&self.rabbit_settings(name), LOOK_TIMEOUT, env)?;
        let blobs = TimeLimit::on_blobs(blobs, LOOK_TIMEOUT);
        Ok(Cluster::new(env, broker, redis, blobs))
    }

    async fn cluster_blobs(&self, location: &Location) -> PortResult<Arc<dyn Blobs>> {
        let (bucket, prefix) = self
            .cluster_store(location)
            .map_err(|missing| PortError::permanent("cluster.connect", missing.to_string()))?;
        self.bucket(bucket, prefix).await
    }

    /// Bucket and prefix of a cluster's store.
    ///
    /// # Errors
    /// Which setting a cluster lacks.
    pub fn cluster_store<'a>(
        &self,
        location: &'a Location,
    ) -> Result<(&'a str, &'a str), &'static str> {
        let Location::Bucket { bucket, prefix } = location else {
            return Err(
                "a cluster needs a store that all its processes reach: --store s3://bucket/prefix",
            );
        };
        if self.broker.url.is_empty() {
            return Err("a cluster needs a broker: set broker.url");
        }
        if self.redis.url.is_empty() {
            return Err("a cluster needs a Redis: set redis.url");
        }
        Ok((bucket, prefix))
    }
}

/// A connected cluster.
pub struct Cluster {
    pub ports: Ports,
    broker: Arc<RabbitQueue>,
    redis: RedisClient,
}

impl Cluster {
    fn new(env: &Env, broker: RabbitQueue, redis: RedisClient, blobs: Arc<dyn Blobs>) -> Self {
        let broker = Arc::new(broker);
        let ports = Ports::new(
            env,
            Arc::clone(&broker) as Arc<dyn Queue>,
            Arc::new(RedisLedger::new(redis.clone())),
            blobs,
            Arc::new(RedisLimiter::new(redis.clone(), env.clone())),
        );
        Self {
            ports,
            broker,
            redis,
        }
    }

    /// Version of the broker, and whether its queues are declared as this version expects.
    ///
    /// # Errors
    /// [`PortError`] when it is unavailable, or a queue is declared differently.
    pub async fn broker(&self) -> PortResult<Probe> {
        self.broker.probe().await
    }

    /// Publishes an event that nobody listens to.
    ///
    /// # Errors
    /// [`PortError`] when the broker does not confirm it.
    pub async fn try_publishing(&self) -> PortResult<()> {
        let event = Message::new(&b"doctor"[..]);
        self.broker.announce("doctor.check", event).await
    }

    /// Why the broker blocks publishers, while it does. It tells only those that have tried to publish.
    pub fn broker_blocks(&self) -> Option<String> {
        self.broker.blocked()
    }

    /// Checks that Redis responds and accepts writes, which it refuses when its memory is full.
    pub async fn redis(&self) -> PortResult<()> {
        self.redis.ping().await?;
        ledger::check_writable(self.ports.ledger.raw().as_ref()).await
    }

    /// Closes the connections gracefully; unacknowledged messages are requeued at once.
    pub async fn close(self) {
        self.broker.close().await;
    }
}
