//! Originals in the blob store. Submission puts them there if workers cannot reach the files.

use std::collections::HashSet;
use std::sync::Arc;

use bytes::Bytes;
use stemma_document::{Collection, Digest, DocumentVersion, blob_keys};
use stemma_store::blobs::{Blobs, PutOutcome, list_all};
use stemma_store::{Failure, PortError, PortResult, RetryingBlobs};

/// Stores the documents of one submission. Garbage collection removes an original a week after it marked it as unused, so
/// that a submission must not rely on an object with a mark: its bytes are stored under the other key. The marks are read
/// once, because one that is written later spares what is submitted within its week.
#[derive(Clone)]
pub struct SourceWriter {
    blobs: RetryingBlobs,
    collection: Collection,
    // Digest and place of each original with a mark.
    marked: Arc<HashSet<(Digest, usize)>>,
}

impl SourceWriter {
    /// # Errors
    /// [`PortError`] if the store is unavailable.
    pub async fn start(blobs: &RetryingBlobs, collection: &Collection) -> PortResult<Self> {
        let marks = list_all(blobs, &blob_keys::unused_originals_prefix(collection)).await?;
        let marked = marks
            .iter()
            .filter_map(|key| blob_keys::parse_unused_original(key))
            .map(|(digest, place, _)| (digest, place))
            .collect();
        Ok(Self {
            blobs: blobs.clone(),
            collection: collection.clone(),
            marked: Arc::new(marked),
        })
    }

    /// Stores the bytes of a document under their digest. A second submission of the same bytes stores nothing.
    ///
    /// # Errors
    /// [`PortError`] if the store is unavailable; a permanent one if `bytes` do not have this digest.
    pub async fn store(&self, digest: Digest, bytes: Bytes) -> PortResult<PutOutcome> {
        if Digest::from_content(&bytes) != digest {
            return Err(PortError::permanent(
                "blobs.put",
                "the document changed while it was submitted",
            ));
        }
        let keys = blob_keys::original_keys(&self.collection, digest);
        // Garbage collection marks only one of two objects at a time.
        let is_marked = self.marked.contains(&(digest, 0)) && !self.marked.contains(&(digest, 1));
        let key = &keys[usize::from(is_marked)];
        // A size lookup is cheaper than another upload.
        if self.blobs.size(key).await? == Some(bytes.len() as u64) {
            return Ok(PutOutcome::Exists);
        }
        self.blobs.put(key, bytes).await
    }
}

/// The stored bytes of a version, if any. A file torn by a power loss counts as missing, and is deleted where the role
/// may: objects in buckets are not torn.
pub(super) async fn read_stored(
    blobs: &RetryingBlobs,
    collection: &Collection,
    version: &DocumentVersion,
    max_bytes: u64,
) -> Result<Option<Bytes>, Failure> {
    for key in blob_keys::original_keys(collection, version.source) {
        match blobs.size(&key).await? {
            None => continue,
            Some(size_bytes) if size_bytes > max_bytes => {
                return Err(super::too_large_error("document", size_bytes, max_bytes));
            }
            Some(_) => {}
        }
        let Some(bytes) = blobs.get(&key).await? else {
            continue;
        };
        if Digest::from_content(&bytes) == version.source {
            return Ok(Some(bytes));
        }
        tracing::warn!(original = key, "torn original; submit its document again");
        if let Err(error) = blobs.delete(&key).await {
            tracing::warn!(original = key, %error, "cannot remove a torn original");
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use stemma_store::Env;
    use stemma_store::blobs::MemoryBlobs;

    use super::super::tests::version;
    use super::*;

    #[tokio::test]
    async fn stored_source_is_read_without_its_file() {
        let env = Env::system();
        let blobs = RetryingBlobs::new(&env, Arc::new(MemoryBlobs::default()));
        let collection = Collection::default();
        let bytes = Bytes::from_static(b"the text");
        let other = "tenant".parse().unwrap();
        let version = version("file:///elsewhere/a.md", &bytes);
        assert_eq!(
            read_stored(&blobs, &collection, &version, 100)
                .await
                .unwrap(),
            None
        );
        let writer = SourceWriter::start(&blobs, &collection).await.unwrap();
        let put = || writer.store(version.source, bytes.clone());
        assert_eq!(put().await.unwrap(), PutOutcome::Created);
        assert_eq!(put().await.unwrap(), PutOutcome::Exists);
        assert_eq!(
            read_stored(&blobs, &collection, &version, 100)
                .await
                .unwrap(),
            Some(bytes.clone())
        );
        assert_eq!(
            read_stored(&blobs, &other, &version, 100).await.unwrap(),
            None,
            "nothing crosses collections"
        );
        assert_eq!(
            read_stored(&blobs, &collection, &version, 7)
                .await
                .unwrap_err()
                .code,
            "limits.bytes"
        );
        let wrong = writer
            .store(Digest::from_content(b"another text"), bytes)
            .await;
        assert!(wrong.is_err_and(|error| !error.is_transient()));
    }

    #[tokio::test]
    async fn torn_source_is_removed() {
        let env = Env::system();
        let blobs = RetryingBlobs::new(&env, Arc::new(MemoryBlobs::default()));
        let collection = Collection::default();
        let version = version("file:///elsewhere/a.md", b"the text");
        let [key, _] = blob_keys::original_keys(&collection, version.source);
        blobs.put(&key, Bytes::from_static(b"the")).await.unwrap();
        assert_eq!(
            read_stored(&blobs, &collection, &version, 100)
                .await
                .unwrap(),
            None
        );
        let bytes = Bytes::from_static(b"the text");
        let writer = SourceWriter::start(&blobs, &collection).await.unwrap();
        let stored = writer.store(version.source, bytes).await;
        assert_eq!(stored.unwrap(), PutOutcome::Created);
    }
}
