//! Documents in buckets, named by `s3://BUCKET/KEY` with a percent-encoded key.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use stemma_document::{DocumentVersion, Origin};
use stemma_engine::objects::{FetchOutcome, ObjectReader, ObjectRequest};
use stemma_store::{Failure, PortError, PortErrorKind};

use super::denials::Denials;
use super::{SourceStore, percent_decode, percent_encode};

// Delay before a refused bucket is read again: a person has to act first.
const REFUSAL_RETRY_DELAY: Duration = Duration::from_secs(30);

/// Objects in buckets.
pub struct BucketObjects {
    buckets: Box<dyn ObjectReader>,
    denials: Denials,
}

impl BucketObjects {
    pub fn new(buckets: impl ObjectReader + 'static) -> Self {
        Self {
            buckets: Box::new(buckets),
            denials: Denials::default(),
        }
    }

    // Neither an unavailable server nor a bucket that refuses everything counts as an attempt.
    fn read_error(&self, error: PortError, bucket: &str, key: &str) -> Failure {
        let denied = match error.kind {
            PortErrorKind::Transient => return error.into(),
            PortErrorKind::Refused if self.denials.concerns_object(bucket, key) => {
                Failure::transient("input.denied", error.message)
            }
            PortErrorKind::Refused => {
                Failure::throttled("input.denied", error.message, REFUSAL_RETRY_DELAY)
            }
            PortErrorKind::Permanent => Failure::permanent("input.denied", error.message),
        };
        denied.with_next(
            "see what the worker's S3 settings and rights allow, then run the failed documents again",
        )
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
        let fetched = self.buckets.get(&request).await;
        if fetched.is_ok() {
            self.denials.note_read(&bucket, &key);
        }
        match fetched.map_err(|error| self.read_error(error, &bucket, &key))? {
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
    use stemma_store::FailureKind;

    use super::super::tests::NoBuckets;
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
    fn an_unavailable_or_refusing_bucket_is_not_counted_as_attempt() {
        let objects = BucketObjects::new(NoBuckets);
        for error in [
            PortError::transient("bucket.get", "x in bucket y: no answer"),
            PortError::refused("bucket.get", "x in bucket y: access is denied"),
        ] {
            let failure = objects.read_error(error, "y", "x");
            let is_counted = !matches!(failure.kind, FailureKind::Throttled { .. });
            assert!(!is_counted, "{failure}");
        }
        let error = PortError::permanent("bucket.get", "denied");
        assert_eq!(objects.read_error(error, "y", "x").code, "input.denied");
    }
}
