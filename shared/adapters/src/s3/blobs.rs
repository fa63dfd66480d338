//! Blobs in an S3 bucket: the store of a cluster.
//!
//! A put is one request with `If-None-Match: *`, so it is atomic and create-only (ADR 0010). A retry after a lost
//! response may find our own object and return [`PutOutcome::Exists`]; the caller then reads the object, whoever wrote
//! it (I-2). Listings are in byte order, which S3 guarantees for general purpose buckets. Directory buckets (S3
//! Express) do not guarantee it and are refused.

use std::ops::Range;

use async_trait::async_trait;
use aws_sdk_s3::primitives::ByteStream;
use bytes::Bytes;
use stemma_store::blobs::{Blobs, PutOutcome, check_key, check_prefix};
use stemma_store::port_error::{PortError, PortErrorKind, PortResult};

use super::{S3, S3Error, check_bucket, content_length};

// Maximum number of entries that S3 returns per page.
const MAX_PAGE: usize = 1_000;
// Maximum length of the store prefix in bytes: with a key of 512 it stays below the 1,024 of S3.
const MAX_PREFIX: usize = 255;

// Suffix of directory bucket names (S3 user guide, "Directory bucket naming rules").
const DIRECTORY_BUCKET: &str = "--x-s3";

/// Object storage in a bucket, below a prefix.
#[derive(Clone)]
pub struct S3Blobs {
    s3: S3,
    bucket: String,
    // Prefix of all keys: empty, or ending with `/`.
    prefix: String,
}

impl S3Blobs {
    /// The store in `bucket` below `prefix` (segments of a key; empty for the whole bucket). Sends no request; a
    /// listing of one key checks whether the bucket can be reached.
    ///
    /// # Errors
    /// A permanent [`PortError`] for an invalid bucket or prefix.
    pub fn new(s3: S3, bucket: &str, prefix: &str) -> PortResult<Self> {
        let refused = |why: &str| {
            PortError::permanent("blobs.connect", format!("s3://{bucket}/{prefix}: {why}"))
        };
        check_bucket(bucket)?;
        if bucket.ends_with(DIRECTORY_BUCKET) {
            return Err(refused(
                "directory buckets cannot be used as a store: they do not list in key order",
            ));
        }
        let prefix = match prefix.trim_matches('/') {
            "" => String::new(),
            prefix if prefix.len() <= MAX_PREFIX && check_key(prefix).is_ok() => {
                format!("{prefix}/")
            }
            _ => {
                return Err(refused(
                    "a store prefix consists of `A-Z a-z 0-9 - _ . ~ = /`, at most 255 bytes",
                ));
            }
        };
        Ok(Self {
            s3,
            bucket: bucket.into(),
            prefix,
        })
    }

    fn full_key(&self, key: &str) -> String {
        format!("{}{key}", self.prefix)
    }

    fn port_error(&self, operation: &'static str, key: &str, error: S3Error) -> PortError {
        error.into_port_error(operation, &self.bucket, key)
    }

    async fn read(&self, key: &str, range: Option<String>) -> Result<Option<Bytes>, S3Error> {
        let ranged = range.is_some();
        let request = self
            .s3
            .client
            .get_object()
            .bucket(&self.bucket)
            .key(self.full_key(key))
            .set_range(range);
        let reply = match self.s3.call(0, request.send()).await {
            Err(error) if error.code() == "NoSuchKey" => return Ok(None),
            // The range begins after the end of the object.
            Err(error) if ranged && error.status() == 416 => return Ok(Some(Bytes::new())),
            reply => reply?,
        };
        if ranged && reply.content_range().is_none() {
            return Err(S3Error::NotSent(
                "the server does not support range requests".into(),
            ));
        }
        let length = content_length(reply.content_length())?;
        self.s3.body(reply.body, length).await.map(Some)
    }

    async fn object_size(&self, key: &str) -> Result<Option<u64>, S3Error> {
        let request = self
            .s3
            .client
            .head_object()
            .bucket(&self.bucket)
            .key(self.full_key(key));
        match self.s3.call(0, request.send()).await {
            Ok(reply) => content_length(reply.content_length()).map(Some),
            // A response to HEAD has no body and therefore no code.
            Err(error) if error.status() == 404 => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Lists names below `folder`, relative to it, that sort after `after`, in byte order, at most `limit`. With
    /// `nested` whole keys, else only their next segment.
    async fn list_names(
        &self,
        folder: &str,
        after: Option<&str>,
        limit: usize,
        nested: bool,
    ) -> Result<Vec<String>, S3Error> {
        let folder = self.full_key(folder);
        let mut results = Vec::new();
        let mut token = None;
        while results.len() < limit {
            let entries = i32::try_from((limit - results.len()).min(MAX_PAGE)).unwrap_or(i32::MAX);
            let request = self
                .s3
                .client
                .list_objects_v2()
                .bucket(&self.bucket)
                .prefix(&folder)
                .max_keys(entries);
            let request = request.set_start_after(after.map(|after| format!("{folder}{after}")));
            let request = request
                .set_delimiter((!nested).then(|| "/".into()))
                .set_continuation_token(token);
            let page = self.s3.call(0, request.send()).await?;
            let keys = page.contents().iter().filter_map(|object| object.key());
            let folders = page
                .common_prefixes()
                .iter()
                .filter_map(|prefix| prefix.prefix());
            let names = keys
                .chain(folders)
                .filter_map(|key| key.strip_prefix(folder.as_str()));
            // Other objects in the bucket (such as folder markers of a console) are not ours. Servers differ in whether
            // a prefix named by `after` is listed again.
            let mut names: Vec<String> = names
                .filter(|name: &&str| match name.strip_suffix('/') {
                    Some(folder) => !nested && check_key(folder).is_ok(),
                    None => check_key(name).is_ok(),
                })
                .filter(|name| after.is_none_or(|after| *name > after))
                .map(Into::into)
                .collect();
            names.sort_unstable();
            results.append(&mut names);
            token = page.next_continuation_token;
            if token.is_none() {
                break;
            }
        }
        results.truncate(limit);
        Ok(results)
    }
}

#[async_trait]
impl Blobs for S3Blobs {
    async fn put(&self, key: &str, bytes: Bytes) -> PortResult<PutOutcome> {
        check_key(key)?;
        let size = bytes.len() as u64;
        let request = self
            .s3
            .client
            .put_object()
            .bucket(&self.bucket)
            .key(self.full_key(key))
            .if_none_match("*");
        match self
            .s3
            .call(size, request.body(ByteStream::from(bytes)).send())
            .await
        {
            Ok(_) => Ok(PutOutcome::Created),
            Err(error) if error.status() == 412 => Ok(PutOutcome::Exists),
            // A concurrent writer has created or removed the object; only the object itself can tell which.
            Err(error) if error.status() == 409 => match self.object_size(key).await {
                Ok(Some(_)) => Ok(PutOutcome::Exists),
                Ok(None) => Err(PortError {
                    kind: PortErrorKind::Transient,
                    ..self.port_error("blobs.put", key, error)
                }),
                Err(error) => Err(self.port_error("blobs.put", key, error)),
            },
            Err(error) => Err(self.port_error("blobs.put", key, error)),
        }
    }

    async fn get(&self, key: &str) -> PortResult<Option<Bytes>> {
        check_key(key)?;
        self.read(key, None)
            .await
            .map_err(|error| self.port_error("blobs.get", key, error))
    }

    async fn get_range(&self, key: &str, range: Range<u64>) -> PortResult<Option<Bytes>> {
        check_key(key)?;
        if range.is_empty() {
            return Ok(self.size(key).await?.map(|_| Bytes::new())); // S3 has no empty range
        }
        let bytes = format!("bytes={}-{}", range.start, range.end - 1);
        self.read(key, Some(bytes))
            .await
            .map_err(|error| self.port_error("blobs.get", key, error))
    }

    async fn size(&self, key: &str) -> PortResult<Option<u64>> {
        check_key(key)?;
        self.object_size(key)
            .await
            .map_err(|error| self.port_error("blobs.size", key, error))
    }

    async fn list(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> PortResult<Vec<String>> {
        check_prefix(prefix)?;
        let keys = match after {
            // `after` lies before, inside, or behind the listed prefix.
            Some(after) if after < prefix => self.list_names(prefix, None, limit, true).await,
            Some(after) => match after.strip_prefix(prefix) {
                Some(after) => self.list_names(prefix, Some(after), limit, true).await,
                None => return Ok(Vec::new()),
            },
            None => self.list_names(prefix, None, limit, true).await,
        };
        let keys = keys.map_err(|error| self.port_error("blobs.list", prefix, error))?;
        Ok(keys
            .into_iter()
            .map(|name| format!("{prefix}{name}"))
            .collect())
    }

    async fn children(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> PortResult<Vec<String>> {
        check_prefix(prefix)?;
        self.list_names(prefix, after, limit, false)
            .await
            .map_err(|error| self.port_error("blobs.list", prefix, error))
    }

    async fn delete(&self, key: &str) -> PortResult<()> {
        check_key(key)?;
        let request = self
            .s3
            .client
            .delete_object()
            .bucket(&self.bucket)
            .key(self.full_key(key));
        match self.s3.call(0, request.send()).await {
            Ok(_) => Ok(()),
            Err(error) if error.code() == "NoSuchKey" => Ok(()),
            Err(error) => Err(self.port_error("blobs.delete", key, error)),
        }
    }

    // S3 is durable once it has responded.
    async fn barrier(&self) -> PortResult<()> {
        Ok(())
    }
}
