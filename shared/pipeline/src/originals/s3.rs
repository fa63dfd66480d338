//! Documents in buckets, named by `s3://BUCKET/KEY` with the key percent-encoded.

use async_trait::async_trait;
use bytes::Bytes;
use stemma_document::{DocumentVersion, Origin};
use stemma_engine::s3::{Buckets, Fetched, S3, S3Settings, Wanted};
use stemma_engine::{Failure, PortError};
use tokio::sync::OnceCell;

use super::{Originals, decoded, encoded};

/// Objects in buckets. The connection is made for the first of them: most laptops have no S3, and should not look for it.
pub struct Objects {
    settings: S3Settings,
    buckets: OnceCell<Buckets>,
}

impl Objects {
    /// Reads what these settings may read.
    pub fn new(settings: S3Settings) -> Self {
        Self {
            settings,
            buckets: OnceCell::new(),
        }
    }

    async fn buckets(&self) -> Result<&Buckets, PortError> {
        self.buckets
            .get_or_try_init(async || S3::connect(&self.settings).await.map(Buckets::new))
            .await
    }
}

#[async_trait]
impl Originals for Objects {
    async fn read(&self, version: &DocumentVersion, max_bytes: u64) -> Result<Bytes, Failure> {
        let gone = |what: &str| {
            Failure::permanent("input.unreadable", format!("{}: {what}", version.uri))
                .with_next("check that it is still there, then submit it again")
        };
        let (bucket, key) = object_of(&version.uri).ok_or_else(|| {
            Failure::permanent(
                "input.unreachable",
                format!("{} is no object in a bucket", version.uri),
            )
            .with_next("submit `s3://BUCKET/KEY`")
        })?;
        let (etag, of_version) = match &version.origin {
            Origin::Content | Origin::Removed => (None, None),
            Origin::Object { etag, version } => (Some(etag.as_str()), version.as_deref()),
        };
        let wanted = Wanted {
            bucket: &bucket,
            key: &key,
            version: of_version,
            etag,
            max_bytes,
        };
        match self
            .buckets()
            .await
            .map_err(refused)?
            .get(&wanted)
            .await
            .map_err(refused)?
        {
            Fetched::Read { bytes, .. } => Ok(bytes),
            Fetched::Missing => Err(gone("there is no such object")),
            Fetched::Changed => Err(super::changed("object")),
            Fetched::TooLarge { size_bytes } => {
                Err(super::too_large("object", size_bytes, max_bytes))
            }
        }
    }
}

/// A server that is away is no one's attempt; one that refuses will refuse again.
fn refused(error: PortError) -> Failure {
    if error.passing {
        return error.into();
    }
    Failure::permanent("input.denied", error.message).with_next(
        "see what the worker's S3 settings and rights allow, then run the failed documents again",
    )
}

/// The URI of an object; `key` is the key itself, not yet encoded.
pub fn object_uri(bucket: &str, key: &str) -> String {
    format!("s3://{bucket}/{}", encoded(key.as_bytes()))
}

/// Bucket and key in an `s3://` URI.
pub fn object_of(uri: &str) -> Option<(String, String)> {
    let (bucket, key) = uri.strip_prefix("s3://")?.split_once('/')?;
    let key = String::from_utf8(decoded(key)?).ok()?;
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
            assert_eq!(object_of(&uri), Some(("filings".into(), key.into())));
        }
        for bad in [
            "s3://filings",
            "s3://filings/",
            "s3:///x",
            "s3://filings/%zz",
            "s3://filings/%ff",
            "file:///x",
        ] {
            assert_eq!(object_of(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_server_that_is_away_is_no_attempt() {
        let away = refused(PortError::passing(
            "bucket",
            "get",
            "x in bucket y: no answer",
        ));
        assert!(
            matches!(away.kind, stemma_engine::FailureKind::Throttled { .. }),
            "{away}"
        );
        assert_eq!(
            refused(PortError::lasting("bucket", "get", "denied")).code,
            "input.denied"
        );
    }
}
