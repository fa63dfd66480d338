//! The servers a cluster stands on, and the ports over them.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use stemma_engine::blobs::{Blobs, S3Blobs};
use stemma_engine::ledger::RedisLedger;
use stemma_engine::limit::{Limiter, MemoryLimiter, RedisLimiter};
use stemma_engine::queue::{Probe, Queue, RabbitQueue, RabbitSettings};
use stemma_engine::redis_client::{RedisClient, RedisSettings};
use stemma_engine::s3::{self, S3Credentials, S3Settings};
use stemma_engine::{Env, PortError, Ports, Secret};

use crate::location::Location;

/// Addresses and keys; they change no result. Broker and Redis are given together, or not at all: then everything runs
/// in one process.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct BackendConfig {
    /// RabbitMQ.
    pub broker: BrokerConfig,
    /// Redis.
    pub redis: RedisConfig,
    /// The object storage behind `s3://…` stores and documents.
    pub s3: S3Config,
}

/// RabbitMQ.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct BrokerConfig {
    /// `amqp://user:password@host:5672/%2f`, or `amqps://…`.
    pub url: Secret,
    /// First part of all queue names: clusters that share a broker have different ones.
    pub prefix: String,
}

/// Redis.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RedisConfig {
    /// `redis://user:password@host:6379/`, or `rediss://…`.
    pub url: Secret,
    /// First part of all keys.
    pub prefix: String,
}

/// Object storage.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct S3Config {
    /// URL of the server; empty for AWS.
    pub endpoint: String,
    /// Region; empty to take it from the AWS credential chain.
    pub region: String,
    /// Access key; empty (with the secret key) to use the AWS credential chain, e.g. a role of the Kubernetes pod.
    pub access_key: Secret,
    /// Secret key.
    pub secret_key: Secret,
    /// Buckets in the path instead of the host name, as most servers but AWS want it.
    pub path_style: bool,
    /// Send checksums only where they are required, as some servers but AWS want it.
    pub plain_checksums: bool,
}

impl S3Config {
    /// What the engine needs to know of it.
    pub fn settings(&self) -> S3Settings {
        let non_empty = |text: &String| (!text.is_empty()).then(|| text.clone());
        let access = if self.access_key.is_empty() && self.secret_key.is_empty() {
            S3Credentials::Chain
        } else {
            S3Credentials::Key {
                id: self.access_key.clone(),
                secret: self.secret_key.clone(),
            }
        };
        S3Settings {
            endpoint: non_empty(&self.endpoint),
            region: non_empty(&self.region),
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
    /// Whether there is a broker: whether work is done by other processes.
    pub fn is_cluster(&self) -> bool {
        !self.broker.url.is_empty()
    }

    /// The objects of a store in a bucket.
    ///
    /// # Errors
    /// [`PortError`] when the settings make no client.
    pub async fn bucket(&self, bucket: &str, prefix: &str) -> Result<Arc<dyn Blobs>, PortError> {
        let s3 = s3::S3::connect(&self.s3.settings()).await?;
        Ok(Arc::new(S3Blobs::new(s3, bucket, prefix)?))
    }

    /// The limits of providers: shared through Redis where one is configured, else of this process alone.
    ///
    /// # Errors
    /// [`PortError`] when the address of the Redis is none. Nothing is asked of it yet.
    pub fn limiter(&self, env: &Env) -> Result<Arc<dyn Limiter>, PortError> {
        if self.redis.url.is_empty() {
            return Ok(Arc::new(MemoryLimiter::default()));
        }
        Ok(Arc::new(RedisLimiter::new(
            self.redis_client()?,
            env.clone(),
        )))
    }

    fn redis_client(&self) -> Result<RedisClient, PortError> {
        let settings = RedisSettings::new(self.redis.url.clone());
        RedisClient::open(&RedisSettings {
            prefix: self.redis.prefix.clone(),
            ..settings
        })
    }

    /// The cluster whose store is at `location`. `name` names this process to the broker.
    ///
    /// # Errors
    /// [`PortError`]: passing when a server is away, lasting when it refuses, or something is not configured.
    pub async fn connect(
        &self,
        location: &Location,
        name: &str,
        env: &Env,
    ) -> Result<Cluster, PortError> {
        let missing = |what: &str| PortError::permanent("cluster", "connect", what.to_string());
        let Location::Bucket { bucket, prefix } = location else {
            return Err(missing(
                "a cluster needs a store that all its processes reach: --store s3://bucket/prefix",
            ));
        };
        if self.broker.url.is_empty() || self.redis.url.is_empty() {
            return Err(missing(
                "a cluster needs a broker and a Redis: set broker.url and redis.url",
            ));
        }
        let blobs = self.bucket(bucket, prefix).await?;
        let redis = self.redis_client()?;
        redis.ping().await?;
        let url = self.broker.url.clone();
        let prefix = self.broker.prefix.clone();
        let broker = RabbitQueue::connect(
            &RabbitSettings {
                url,
                prefix,
                name: name.into(),
            },
            env,
        )
        .await?;
        let broker = Arc::new(broker);
        let ports = Ports {
            queue: Arc::clone(&broker) as Arc<dyn Queue>,
            ledger: Arc::new(RedisLedger::new(redis.clone())),
            blobs,
            limiter: Arc::new(RedisLimiter::new(redis.clone(), env.clone())),
        };
        Ok(Cluster {
            ports,
            broker,
            redis,
        })
    }
}

/// A cluster that this process is part of.
pub struct Cluster {
    /// The ports.
    pub ports: Ports,
    broker: Arc<RabbitQueue>,
    redis: RedisClient,
}

impl Cluster {
    /// What the broker is, and whether its queues are as this version expects them.
    ///
    /// # Errors
    /// [`PortError`] when it is away, or a queue was declared differently.
    pub async fn broker(&self) -> Result<Probe, PortError> {
        self.broker.probe().await
    }

    /// Whether Redis answers.
    ///
    /// # Errors
    /// [`PortError`] when it does not.
    pub async fn redis(&self) -> Result<(), PortError> {
        self.redis.ping().await
    }

    /// Ends the connections in good order: what this process still holds is handed back at once.
    pub async fn close(self) {
        self.broker.close().await;
    }
}
