//! Originals in the blob store. Submission puts them there if workers cannot reach the files.

use bytes::Bytes;
use stemma_document::{Collection, Digest, DocumentVersion, blob_keys};
use stemma_engine::blobs::{Blobs, PutOutcome};
use stemma_engine::{Failure, PortError, PortResult, RetryingBlobs};

/// Stores the bytes of a document under their digest. A second submission of the same bytes stores nothing.
///
/// # Errors
/// [`PortError`] if the store is unavailable; a permanent one if `bytes` do not have this digest.
pub async fn store_source(
    blobs: &RetryingBlobs,
    collection: &Collection,
    digest: Digest,
    bytes: Bytes,
) -> PortResult<PutOutcome> {
    if Digest::from_content(&bytes) != digest {
        return Err(PortError::permanent(
            "blobs.put",
            "the document changed while it was submitted",
        ));
    }
    let key = blob_keys::original_key(collection, digest);
    // A size lookup is cheaper than another upload.
    if blobs.size(&key).await? == Some(bytes.len() as u64) {
        return Ok(PutOutcome::Exists);
    }
    blobs.put(&key, bytes).await
}

/// The stored bytes of a version, if any. A file torn by a power loss counts as missing, and is deleted where the role
/// may: objects in buckets are not torn.
pub(super) async fn read_stored(
    blobs: &RetryingBlobs,
    collection: &Collection,
    version: &DocumentVersion,
    max_bytes: u64,
) -> Result<Option<Bytes>, Failure> {
    let key = blob_keys::original_key(collection, version.source);
    match blobs.size(&key).await? {
        None => return Ok(None),
        Some(size_bytes) if size_bytes > max_bytes => {
            return Err(super::too_large_error("document", size_bytes, max_bytes));
        }
        Some(_) => {}
    }
    let bytes = blobs.get(&key).await?;
    if bytes
        .as_ref()
        .is_some_and(|bytes| Digest::from_content(bytes) != version.source)
    {
        tracing::warn!(original = key, "torn original; submit its document again");
        if let Err(error) = blobs.delete(&key).await {
            tracing::warn!(original = key, %error, "cannot remove a torn original");
        }
        return Ok(None);
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use stemma_engine::Env;
    use stemma_engine::blobs::MemoryBlobs;

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
        let put = || store_source(&blobs, &collection, version.source, bytes.clone());
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
        let wrong = store_source(
            &blobs,
            &collection,
            Digest::from_content(b"another text"),
            bytes,
        )
        .await;
        assert!(wrong.is_err_and(|error| !error.is_transient()));
    }

    #[tokio::test]
    async fn torn_source_is_removed() {
        let env = Env::system();
        let blobs = RetryingBlobs::new(&env, Arc::new(MemoryBlobs::default()));
        let collection = Collection::default();
        let version = version("file:///elsewhere/a.md", b"the text");
        let key = blob_keys::original_key(&collection, version.source);
        blobs.put(&key, Bytes::from_static(b"the")).await.unwrap();
        assert_eq!(
            read_stored(&blobs, &collection, &version, 100)
                .await
                .unwrap(),
            None
        );
        let bytes = Bytes::from_static(b"the text");
        assert_eq!(
            store_source(&blobs, &collection, version.source, bytes)
                .await
                .unwrap(),
            PutOutcome::Created
        );
    }
}
