//! Originals in the store: put there at submission, where workers run on other machines than the files.

use bytes::Bytes;
use stemma_document::{Collection, Digest, DocumentVersion, layout};
use stemma_engine::blobs::{Blobs, Put};
use stemma_engine::port::ask;
use stemma_engine::{Env, Failure, PortError};

/// Puts the bytes of a document into the store, under their digest and so once, however often they are submitted.
///
/// # Errors
/// [`PortError`] when the store is away, and a lasting one when `bytes` are not what `digest` says.
pub async fn store(
    env: &Env,
    blobs: &dyn Blobs,
    collection: &Collection,
    digest: Digest,
    bytes: Bytes,
) -> Result<Put, PortError> {
    if Digest::of(&bytes) != digest {
        return Err(PortError::lasting(
            "blobs",
            "put",
            "the document changed while it was submitted",
        ));
    }
    let key = layout::original_key(collection, digest);
    // Looking costs less than sending it all again.
    if ask(env, || blobs.size(&key)).await? == Some(bytes.len() as u64) {
        return Ok(Put::Exists);
    }
    ask(env, || blobs.put(&key, bytes.clone())).await
}

/// The stored bytes of a version; `None` where there are none. What a power loss tore is removed, and counts as none.
pub(super) async fn read(
    env: &Env,
    blobs: &dyn Blobs,
    collection: &Collection,
    version: &DocumentVersion,
    max_bytes: u64,
) -> Result<Option<Bytes>, Failure> {
    let key = layout::original_key(collection, version.source);
    match ask(env, || blobs.size(&key)).await? {
        None => return Ok(None),
        Some(size_bytes) if size_bytes > max_bytes => {
            return Err(super::too_large("document", size_bytes, max_bytes));
        }
        Some(_) => {}
    }
    let bytes = ask(env, || blobs.get(&key)).await?;
    if bytes
        .as_ref()
        .is_some_and(|bytes| Digest::of(bytes) != version.source)
    {
        tracing::warn!(
            original = key,
            "torn original removed; submit its document again"
        );
        ask(env, || blobs.delete(&key)).await?;
        return Ok(None);
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use stemma_engine::blobs::MemoryBlobs;

    use super::super::tests::version;
    use super::*;

    #[tokio::test]
    async fn what_was_submitted_is_read_wherever_its_file_is() {
        let env = Env::system();
        let blobs = MemoryBlobs::default();
        let collection = Collection::default();
        let bytes = Bytes::from_static(b"the text");
        let other = "tenant".parse().unwrap();
        let version = version("file:///elsewhere/a.md", &bytes);
        assert_eq!(
            read(&env, &blobs, &collection, &version, 100)
                .await
                .unwrap(),
            None
        );
        let put = || store(&env, &blobs, &collection, version.source, bytes.clone());
        assert_eq!(put().await.unwrap(), Put::Created);
        assert_eq!(put().await.unwrap(), Put::Exists);
        assert_eq!(
            read(&env, &blobs, &collection, &version, 100)
                .await
                .unwrap(),
            Some(bytes.clone())
        );
        assert_eq!(
            read(&env, &blobs, &other, &version, 100).await.unwrap(),
            None,
            "nothing crosses collections"
        );
        assert_eq!(
            read(&env, &blobs, &collection, &version, 7)
                .await
                .unwrap_err()
                .code,
            "limits.bytes"
        );
        let wrong = store(
            &env,
            &blobs,
            &collection,
            Digest::of(b"another text"),
            bytes,
        )
        .await;
        assert!(wrong.is_err_and(|error| !error.passing));
    }

    #[tokio::test]
    async fn a_torn_original_makes_room() {
        let env = Env::system();
        let blobs = MemoryBlobs::default();
        let collection = Collection::default();
        let version = version("file:///elsewhere/a.md", b"the text");
        let key = layout::original_key(&collection, version.source);
        blobs.put(&key, Bytes::from_static(b"the")).await.unwrap();
        assert_eq!(
            read(&env, &blobs, &collection, &version, 100)
                .await
                .unwrap(),
            None
        );
        let bytes = Bytes::from_static(b"the text");
        assert_eq!(
            store(&env, &blobs, &collection, version.source, bytes)
                .await
                .unwrap(),
            Put::Created
        );
    }
}
