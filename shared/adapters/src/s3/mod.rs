//! The S3 connection, shared by [`S3Blobs`] and [`BucketReader`].
//!
//! Every call has a timeout and no retry; callers of the port retry ([`stemma_store::port_retry::with_retry`]). Multipart
//! uploads and `If-Match` are not supported, and no environment variable is read while a key is configured.

mod blobs;
mod bucket_reader;
mod error;
mod http_client;
mod lazy_reader;

use std::time::Duration;

use aws_sdk_s3::config::retry::RetryConfig;
use aws_sdk_s3::config::timeout::TimeoutConfig;
use aws_sdk_s3::config::{
    BehaviorVersion, Builder, Credentials, IdentityCache, ProvideCredentials, Region,
    RequestChecksumCalculation, ResponseChecksumValidation, SharedCredentialsProvider,
    StalledStreamProtectionConfig,
};
use aws_sdk_s3::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_s3::primitives::ByteStream;
use aws_sdk_s3::{Client, Config};
use bytes::{Bytes, BytesMut};
use stemma_store::port_error::{PortError, PortResult};
use stemma_store::secret::Secret;

pub use blobs::S3Blobs;
pub use bucket_reader::BucketReader;
use error::S3Error;
pub use http_client::http_client;
pub use lazy_reader::LazyBucketReader;

// Timeout for opening a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
// Timeout for loading the first credentials: metadata services respond within seconds or not at all.
const CREDENTIALS_TIMEOUT: Duration = Duration::from_secs(30);
// Additional timeout per MiB of payload: a server below 8 Mbit/s counts as unavailable.
const TIMEOUT_PER_MIB: Duration = Duration::from_secs(1);
// The region that servers without regions expect.
const DEFAULT_REGION: &str = "us-east-1";

/// Connection settings.
#[derive(Clone)]
pub struct S3Settings {
    /// `http://…` or `https://…`; `None` for the AWS endpoint of the region.
    pub endpoint: Option<String>,
    /// `None` for the region of the AWS configuration if credentials come from there, else `us-east-1`.
    pub region: Option<String>,
    pub access: S3Credentials,
    /// `http://server/bucket/key` instead of `http://bucket.server/key`; most servers other than AWS need it.
    pub force_path_style: bool,
    /// Sends checksums only where S3 requires them: servers older than 2025 refuse or ignore the newer ones.
    pub checksums_when_required: bool,
    /// Timeout of a call, plus one second per MiB of payload.
    pub call_timeout: Duration,
}

impl Default for S3Settings {
    /// AWS with the standard credential chain.
    fn default() -> Self {
        Self {
            endpoint: None,
            region: None,
            access: S3Credentials::Chain,
            force_path_style: false,
            checksums_when_required: false,
            call_timeout: Duration::from_secs(15),
        }
    }
}

/// Credentials.
#[derive(Clone)]
pub enum S3Credentials {
    /// The standard AWS credential chain: environment, profile, web identity of a Kubernetes service account, container
    /// and machine roles. The only place where a library may read environment variables (I-7, ADR 0010).
    Chain,
    /// A configured key.
    Key { id: Secret, secret: Secret },
}

/// A connection to an S3 server. Cheap to clone; clones share the connection pool.
#[derive(Clone)]
pub struct S3 {
    client: Client,
    call_timeout: Duration,
}

impl S3 {
    /// Prepares a connection. The first request is sent by the first call, but credentials of the chain are loaded
    /// here, so that a process without credentials fails at startup.
    ///
    /// # Errors
    /// A permanent [`PortError`] for an invalid endpoint or missing credentials.
    pub async fn connect(settings: &S3Settings) -> PortResult<Self> {
        if let Some(endpoint) = &settings.endpoint {
            check_endpoint(endpoint)?;
        }
        let config = config(settings).await?;
        Ok(Self {
            client: Client::from_conf(config),
            call_timeout: settings.call_timeout,
        })
    }

    /// Creates a bucket; succeeds if we own it already.
    ///
    /// # Errors
    /// [`PortError`] naming the bucket.
    pub async fn create_bucket(&self, bucket: &str) -> PortResult<()> {
        check_bucket(bucket)?;
        match self
            .call(0, self.client.create_bucket().bucket(bucket).send())
            .await
        {
            Ok(_) => Ok(()),
            Err(trouble) if trouble.code() == "BucketAlreadyOwnedByYou" => Ok(()),
            Err(trouble) => Err(trouble.into_port_error("blobs.create", bucket, "")),
        }
    }

    /// Sends a request that carries `bytes`, with a timeout.
    async fn call<T, E, F>(&self, bytes: u64, sent: F) -> Result<T, S3Error>
    where
        E: ProvideErrorMetadata + std::error::Error + 'static,
        F: Future<Output = Result<T, SdkError<E>>>,
    {
        match tokio::time::timeout(self.timeout_for(bytes), sent).await {
            Ok(result) => result.map_err(|error| S3Error::from_sdk(&error)),
            Err(_) => Err(self.too_slow(bytes)),
        }
    }

    /// Reads a body of `length` bytes, with a timeout. A body of another length is an error.
    async fn body(&self, mut stream: ByteStream, length: u64) -> Result<Bytes, S3Error> {
        let read = async {
            let mut bytes = BytesMut::with_capacity(usize::try_from(length).unwrap_or(0));
            while let Some(chunk) = stream.next().await {
                bytes.extend_from_slice(&chunk.map_err(|error| S3Error::no_response(&error))?);
                if bytes.len() as u64 > length {
                    break;
                }
            }
            match bytes.len() as u64 {
                read if read == length => Ok(bytes.freeze()),
                read => Err(S3Error::NoResponse(format!(
                    "{read} bytes of a body of {length}"
                ))),
            }
        };
        tokio::time::timeout(self.timeout_for(length), read)
            .await
            .unwrap_or_else(|_| Err(self.too_slow(length)))
    }

    fn timeout_for(&self, bytes: u64) -> Duration {
        self.call_timeout + TIMEOUT_PER_MIB * u32::try_from(bytes >> 20).unwrap_or(u32::MAX)
    }

    fn too_slow(&self, bytes: u64) -> S3Error {
        S3Error::NoResponse(format!(
            "no response within {} s",
            self.timeout_for(bytes).as_secs_f32()
        ))
    }
}

async fn config(settings: &S3Settings) -> PortResult<Config> {
    let (credentials, region) = match &settings.access {
        S3Credentials::Key { id, secret } => {
            let key = Credentials::new(id.reveal(), secret.reveal(), None, None, "configuration");
            (
                SharedCredentialsProvider::new(key),
                settings.region.clone().map(Region::new),
            )
        }
        S3Credentials::Chain => {
            load_credential_chain(settings.region.clone().map(Region::new)).await?
        }
    };
    let timeouts = TimeoutConfig::builder()
        .connect_timeout(CONNECT_TIMEOUT)
        .build();
    let mut config = Builder::new()
        .behavior_version(BehaviorVersion::latest())
        .http_client(http_client())
        .region(region.unwrap_or(Region::from_static(DEFAULT_REGION)))
        .credentials_provider(credentials)
        .identity_cache(
            IdentityCache::lazy()
                .load_timeout(settings.call_timeout)
                .build(),
        )
        .retry_config(RetryConfig::disabled())
        .timeout_config(timeouts)
        .stalled_stream_protection(StalledStreamProtectionConfig::disabled())
        .force_path_style(settings.force_path_style);
    if settings.checksums_when_required {
        config = config
            .request_checksum_calculation(RequestChecksumCalculation::WhenRequired)
            .response_checksum_validation(ResponseChecksumValidation::WhenRequired);
    }
    config.set_endpoint_url(settings.endpoint.clone());
    Ok(config.build())
}

/// Credentials from the standard AWS chain, refreshed before they expire.
async fn load_credential_chain(
    region: Option<Region>,
) -> PortResult<(SharedCredentialsProvider, Option<Region>)> {
    let mut standard = aws_config::defaults(BehaviorVersion::latest()).http_client(http_client());
    if let Some(region) = region {
        standard = standard.region(region);
    }
    let loaded = standard.load().await;
    let region = loaded.region().cloned();
    let Some(chain) = loaded.credentials_provider() else {
        return Err(missing_credentials("there is no chain"));
    };
    match tokio::time::timeout(CREDENTIALS_TIMEOUT, chain.provide_credentials()).await {
        Ok(Ok(_)) => Ok((chain, region)),
        Ok(Err(error)) => Err(missing_credentials(&error::error_chain(&error))),
        Err(_) => Err(missing_credentials(&format!(
            "nothing found within {} s",
            CREDENTIALS_TIMEOUT.as_secs()
        ))),
    }
}

fn missing_credentials(message: &str) -> PortError {
    let next =
        "configure a key, or give this process a role (AWS_WEB_IDENTITY_TOKEN_FILE, a profile, …)";
    PortError::permanent(
        "blobs.connect",
        format!("no S3 credentials: {message}; {next}"),
    )
}

fn content_length(header: Option<i64>) -> Result<u64, S3Error> {
    let length = header.and_then(|length| u64::try_from(length).ok());
    length.ok_or_else(|| S3Error::NoResponse("an answer without a length".into()))
}

// A URL with a password would be repeated in messages.
fn check_endpoint(endpoint: &str) -> PortResult<()> {
    let host = endpoint
        .strip_prefix("http://")
        .or_else(|| endpoint.strip_prefix("https://"));
    match host {
        Some(host) if !host.is_empty() && !host.contains('@') => Ok(()),
        _ => Err(PortError::permanent(
            "blobs.connect",
            "the S3 endpoint is not `http(s)://HOST[:PORT]`",
        )),
    }
}

// Rejects invalid bucket names, so that no name changes the host or path (S3 user guide, "General purpose bucket naming
// rules"; older buckets may have capitals and `_`).
fn check_bucket(bucket: &str) -> PortResult<()> {
    if (3..=255).contains(&bucket.len())
        && bucket
            .bytes()
            .all(|b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_'))
        && bucket.as_bytes()[0].is_ascii_alphanumeric()
    {
        Ok(())
    } else {
        let excerpt: String = bucket.chars().take(80).collect();
        Err(PortError::permanent(
            "blobs.bucket",
            format!("`{}` is not a bucket name", excerpt.escape_debug()),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsafe_bucket_names_and_endpoints_are_rejected() {
        for bad in [
            "", "ab", "a/b", "../x", "a b c", "-abc", "a\nb", "bucket?x", "b@host",
        ] {
            assert!(check_bucket(bad).is_err(), "{bad:?}");
        }
        for bad in [
            "",
            "localhost:9000",
            "ftp://x",
            "http://",
            "http://key:secret@host",
        ] {
            let error = check_endpoint(bad).unwrap_err();
            assert!(
                !error.is_transient() && !error.to_string().contains("secret"),
                "{error}"
            );
        }
        assert!(
            check_bucket("filings-2026.archive").is_ok()
                && check_endpoint("http://127.0.0.1:9000").is_ok()
        );
    }
}
