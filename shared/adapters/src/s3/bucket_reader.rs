//! Read access to documents in external buckets.

use async_trait::async_trait;
use aws_sdk_s3::operation::head_object::HeadObjectOutput;
use aws_sdk_s3::primitives::DateTime;
use aws_sdk_s3::types::{EncodingType, Object};
use bytes::Bytes;
use futures::stream::{self, Stream, TryStreamExt};
use stemma_engine::objects::{FetchOutcome, ObjectLookup, ObjectMeta, ObjectReader, ObjectRequest};
use stemma_store::env::{Env, Millis};
use stemma_store::port_error::{PortError, PortResult};
use stemma_store::port_retry::with_retry;

use super::{S3, S3Error, check_bucket};

/// Reads and lists objects of any bucket that the credentials can access.
#[derive(Clone)]
pub struct BucketReader(S3);

impl BucketReader {
    pub fn new(s3: S3) -> Self {
        Self(s3)
    }

    async fn read(&self, object: &ObjectRequest<'_>) -> Result<FetchOutcome, S3Error> {
        let request = self
            .0
            .client
            .get_object()
            .bucket(object.bucket)
            .key(object.key);
        let request = request.set_version_id(object.version.map(Into::into));
        let reply = match self.0.call(0, request.send()).await {
            Err(error) if matches!(error.code(), "NoSuchKey" | "NoSuchVersion") => {
                return Ok(FetchOutcome::Missing);
            }
            reply => reply?,
        };
        let etag = unquote(reply.e_tag());
        if object.etag.is_some_and(|object| object != etag) {
            return Ok(FetchOutcome::Changed);
        }
        let size_bytes = super::content_length(reply.content_length())?;
        if size_bytes > object.max_bytes {
            return Ok(FetchOutcome::TooLarge { size_bytes });
        }
        let bytes = self.0.body(reply.body, size_bytes).await?;
        Ok(FetchOutcome::Read { bytes, etag })
    }

    // A 404 response to HEAD does not say whether the key or the bucket is missing.
    async fn check_bucket_exists(&self, bucket: &str) -> PortResult<()> {
        let request = self.0.client.head_bucket().bucket(bucket);
        match self.0.call(0, request.send()).await {
            Ok(_) => Ok(()),
            Err(error) if error.status() == 404 => {
                let missing = S3Error::Rejected {
                    status: 404,
                    code: "NoSuchBucket".into(),
                };
                Err(missing.into_port_error("bucket.head", bucket, ""))
            }
            Err(error) => Err(error.into_port_error("bucket.head", bucket, "")),
        }
    }

    /// The next objects whose keys start with `prefix` and sort after `after`, in byte order of keys: up to 1,000, none
    /// at the end. Includes folder markers (empty objects whose keys end with `/`).
    pub async fn list_page(
        &self,
        bucket: &str,
        prefix: &str,
        after: Option<&str>,
    ) -> PortResult<Vec<ObjectMeta>> {
        check_bucket(bucket)?;
        let mut token = None;
        loop {
            let request = self
                .0
                .client
                .list_objects_v2()
                .bucket(bucket)
                .prefix(prefix);
            let request = request
                .encoding_type(EncodingType::Url)
                .set_start_after(after.map(Into::into));
            let page = self
                .0
                .call(0, request.set_continuation_token(token).send())
                .await;
            let page =
                page.map_err(|error| error.into_port_error("bucket.list", bucket, prefix))?;
            let encoded = page.encoding_type() == Some(&EncodingType::Url);
            let entries: Vec<ObjectMeta> = page
                .contents()
                .iter()
                .filter_map(|object| meta_from_listing(object, encoded))
                .collect();
            token = page.next_continuation_token;
            if !entries.is_empty() || token.is_none() {
                return Ok(entries);
            }
        }
    }

    /// Streams all objects whose keys start with `prefix` and sort after `after`, page by page, with retries.
    pub fn list<'a>(
        &'a self,
        env: &'a Env,
        bucket: &'a str,
        prefix: &'a str,
        after: Option<String>,
    ) -> impl Stream<Item = PortResult<ObjectMeta>> + 'a {
        let pages = stream::try_unfold(after, move |after| async move {
            let page = with_retry(env, || self.list_page(bucket, prefix, after.as_deref())).await?;
            let Some(last) = page.last() else {
                return Ok::<_, PortError>(None);
            };
            let last = Some(last.key.clone());
            Ok(Some((stream::iter(page.into_iter().map(Ok)), last)))
        });
        pages.try_flatten()
    }
}

#[async_trait]
impl ObjectReader for BucketReader {
    async fn get(&self, request: &ObjectRequest<'_>) -> PortResult<FetchOutcome> {
        check_bucket(request.bucket)?;
        self.read(request)
            .await
            .map_err(|error| error.into_port_error("bucket.get", request.bucket, request.key))
    }
}

#[async_trait]
impl ObjectLookup for BucketReader {
    async fn head(&self, bucket: &str, key: &str) -> PortResult<Option<ObjectMeta>> {
        check_bucket(bucket)?;
        let request = self.0.client.head_object().bucket(bucket).key(key);
        let to_port_error = |error: S3Error| error.into_port_error("bucket.head", bucket, key);
        match self.0.call(0, request.send()).await {
            Ok(reply) => meta_from_head(key, &reply).map(Some).map_err(to_port_error),
            Err(error) if error.status() == 404 => {
                self.check_bucket_exists(bucket).await.map(|()| None)
            }
            Err(error) => Err(to_port_error(error)),
        }
    }

    async fn list(&self, bucket: &str, prefix: &str) -> PortResult<Vec<ObjectMeta>> {
        let mut found: Vec<ObjectMeta> = Vec::new();
        loop {
            let after = found.last().map(|object| object.key.as_str());
            let page = self.list_page(bucket, prefix, after).await?;
            if page.is_empty() {
                return Ok(found);
            }
            found.extend(page);
        }
    }

    async fn read(&self, bucket: &str, key: &str, max_bytes: u64) -> PortResult<Option<Bytes>> {
        let request = ObjectRequest {
            bucket,
            key,
            version: None,
            etag: None,
            max_bytes,
        };
        Ok(match self.get(&request).await? {
            FetchOutcome::Read { bytes, .. } => Some(bytes),
            FetchOutcome::Missing | FetchOutcome::Changed | FetchOutcome::TooLarge { .. } => None,
        })
    }

    async fn read_start(&self, bucket: &str, key: &str, bytes: u64) -> PortResult<Bytes> {
        check_bucket(bucket)?;
        let range = format!("bytes=0-{}", bytes.saturating_sub(1));
        let request = self.0.client.get_object().bucket(bucket).key(key);
        let read = async {
            let reply = match self.0.call(0, request.range(range).send()).await {
                // An empty object has no first byte.
                Err(error) if error.code() == "NoSuchKey" || error.status() == 416 => {
                    return Ok(Bytes::new());
                }
                reply => reply?,
            };
            let size_bytes = super::content_length(reply.content_length())?;
            self.0.body(reply.body, size_bytes).await
        };
        read.await
            .map_err(|error: S3Error| error.into_port_error("bucket.get", bucket, key))
    }
}

// Some servers send the ETag without quotes.
fn unquote(etag: Option<&str>) -> String {
    etag.unwrap_or_default()
        .trim_start_matches("W/")
        .trim_matches('"')
        .to_string()
}

fn meta_from_head(key: &str, reply: &HeadObjectOutput) -> Result<ObjectMeta, S3Error> {
    Ok(ObjectMeta {
        key: key.into(),
        size_bytes: super::content_length(reply.content_length())?,
        etag: unquote(reply.e_tag()),
        modified_ms: millis(reply.last_modified()),
        version: reply.version_id().map(Into::into),
    })
}

fn meta_from_listing(object: &Object, encoded: bool) -> Option<ObjectMeta> {
    let key = object.key()?;
    Some(ObjectMeta {
        key: if encoded { decode_key(key) } else { key.into() },
        size_bytes: u64::try_from(object.size()?).ok()?,
        etag: unquote(object.e_tag()),
        modified_ms: millis(object.last_modified()),
        version: None,
    })
}

fn millis(at: Option<&DateTime>) -> Millis {
    at.and_then(|at| at.to_millis().ok())
        .and_then(|millis| Millis::try_from(millis).ok())
        .unwrap_or(0)
}

// Listings percent-encode keys, with `+` for a space, because XML cannot hold every character.
fn decode_key(key: &str) -> String {
    let mut bytes = Vec::with_capacity(key.len());
    let mut rest = key.as_bytes();
    while let [first, after @ ..] = rest {
        let escaped = hex_digit(after, 0)
            .zip(hex_digit(after, 1))
            .and_then(|(high, low)| u8::try_from(high * 16 + low).ok());
        match (first, escaped) {
            (b'%', Some(byte)) => {
                bytes.push(byte);
                rest = &after[2..];
                continue;
            }
            (b'+', _) => bytes.push(b' '),
            (byte, _) => bytes.push(*byte),
        }
        rest = after;
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn hex_digit(bytes: &[u8], at: usize) -> Option<u32> {
    bytes
        .get(at)
        .and_then(|digit| char::from(*digit).to_digit(16))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listing_keys_are_decoded_once() {
        for (listed, key) in [
            ("a/b.pdf", "a/b.pdf"),
            ("a+b%2Bc", "a b+c"),
            ("%E7%AC%AC.pdf", "第.pdf"),
            ("100%2525", "100%25"),
            ("%zz%4", "%zz%4"),
        ] {
            assert_eq!(decode_key(listed), key);
        }
        assert_eq!(unquote(Some("\"abc-2\"")), "abc-2");
        assert_eq!(unquote(Some("W/\"abc\"")), "abc");
    }
}
