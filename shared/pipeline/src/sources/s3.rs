//! Documents in buckets, named by `s3://BUCKET/KEY` with a percent-encoded key.

use async_trait::async_trait;
use bytes::Bytes;
use stemma_document::{DocumentVersion, Origin};
use stemma_engine::s3::{BucketReader, FetchOutcome, ObjectRequest, S3, S3Settings};
use stemma_engine::{Failure, PortError, PortErrorKind, PortResult};
use tokio::sync::OnceCell;

use super::{SourceStore, percent_decode, percent_encode};

/// Objects in buckets. Connects at the first read: most laptops have no S3, and should not look for it.
pub struct BucketObjects {
    settings: S3Settings,
    buckets: OnceCell<BucketReader>,
}

impl BucketObjects {
    pub fn new(settings: S3Settings) -> Self {
        Self {
            settings,
            buckets: OnceCell::new(),
        }
    }

    async fn buckets(&self) -> PortResult<&BucketReader> {
        self.buckets
            .get_or_try_init(async || S3::connect(&self.settings).await.map(BucketReader::new))
            .await
    }
}

#[async_trait]
impl SourceStore for BucketObjects {
    async fn read(&self, version: &DocumentVersion, max_bytes: u64) -> Result<Bytes, Failure> {
        let (bucket, key) = parse_object_uri(&version.uri).ok_or_else(|| {
            Failure::permanent(
                "input.unreachable",
                format!("{} is not an object in a bucket", version.uri),
            )
            .with_next("submit `s3://BUCKET/KEY`")
        })?;
        let (etag, of_version) = match &version.origin {
            Origin::Content | Origin::Removed => (None, None),
            Origin::Object { etag, version } => (Some(etag.as_str()), version.as_deref()),
        };
        let request = ObjectRequest {
            bucket: &bucket,
            key: &key,
            version: of_version,
            etag,
            max_bytes,
        };
        match self
            .buckets()
            .await
            .map_err(read_error)?
            .get(&request)
            .await
            .map_err(read_error)?
        {
            FetchOutcome::Read { bytes, .. } => Ok(bytes),
            FetchOutcome::Missing => Err(Failure::permanent(
                "input.unreadable",
                format!("{}: there is no such object", version.uri),
            )
            .with_next("check that it still exists, then submit it again")),
            FetchOutcome::Changed => Err(super::changed_error("object")),
            FetchOutcome::TooLarge { size_bytes } => {
                Err(super::too_large_error("object", size_bytes, max_bytes))
            }
        }
    }
}

// An unavailable server does not count as an attempt. A refusal counts, because a bucket may deny single objects.
fn read_error(error: PortError) -> Failure {
    let denied = match error.kind {
        PortErrorKind::Transient => return error.into(),
        PortErrorKind::Refused => Failure::transient("input.denied", error.message),
        PortErrorKind::Permanent => Failure::permanent("input.denied", error.message),
    };
    denied.with_next(
        "see what the worker's S3 settings and rights allow, then run the failed documents again",
    )
}

/// The URI of an object. `key` is not encoded yet.
pub fn object_uri(bucket: &str, key: &str) -> String {
    format!("s3://{bucket}/{}", percent_encode(key.as_bytes()))
}

/// Bucket and key of an `s3://` URI.
pub fn parse_object_uri(uri: &str) -> Option<(String, String)> {
    let (bucket, key) = uri.strip_prefix("s3://")?.split_once('/')?;
    let key = String::from_utf8(percent_decode(key)?).ok()?;
    (!bucket.is_empty() && !key.is_empty()).then(|| (bucket.into(), key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_round_trip_through_uris() {
        for key in [
            "a/b c.pdf",
            "ä/第一.pdf",
            "100%/x#y?.pdf",
            "a%20b",
            "/leading//twice/../x",
        ] {
            let uri = object_uri("filings", key);
            assert!(uri.is_ascii() && !uri.contains([' ', '#', '?']), "{uri}");
            assert_eq!(parse_object_uri(&uri), Some(("filings".into(), key.into())));
        }
        for bad in [
            "s3://filings",
            "s3://filings/",
            "s3:///x",
            "s3://filings/%zz",
            "s3://filings/%ff",
            "file:///x",
        ] {
            assert_eq!(parse_object_uri(bad), None, "{bad}");
        }
    }

    #[test]
    fn transient_error_is_not_counted_as_attempt() {
        let away = read_error(PortError::transient(
            "bucket.get",
            "x in bucket y: no answer",
        ));
        assert!(
            matches!(away.kind, stemma_engine::FailureKind::Throttled { .. }),
            "{away}"
        );
        assert_eq!(
            read_error(PortError::permanent("bucket.get", "denied")).code,
            "input.denied"
        );
    }
}
