use super::*;
use crate::blobs::MemoryBlobs;

fn key() -> TaskKey {
    TaskKey::builder("test", 1).finish()
}

fn artifact() -> Artifact {
    Artifact::new(
        br#"{"n":1}"#,
        &[
            ("a", Bytes::from_static(b"first")),
            ("b", Bytes::from_static(b"second")),
        ],
    )
    .unwrap()
}

#[tokio::test]
async fn stored_artifact_can_be_read() {
    let blobs = MemoryBlobs::default();
    artifact().store(&blobs, "c/d", &key()).await.unwrap();
    assert_eq!(
        outcome(&blobs, "c/d", &key())
            .await
            .unwrap()
            .unwrap()
            .as_ref(),
        br#"{"n":1}"#
    );
    assert_eq!(
        blob(&blobs, "c/d", &key(), "b")
            .await
            .unwrap()
            .unwrap()
            .as_ref(),
        b"second"
    );
    assert_eq!(blob(&blobs, "c/d", &key(), "c").await.unwrap(), None);
}

#[test]
fn artifact_survives_as_bytes() {
    let records = vec![("calls/one".into(), Bytes::from_static(b"1"))];
    let artifact = artifact().with_records(records);
    let bytes = artifact.to_bytes();
    let read = Artifact::from_bytes(&bytes).unwrap();
    assert_eq!(
        (read.outcome, read.object, read.records),
        (artifact.outcome, artifact.object, artifact.records)
    );
    assert!(Artifact::from_bytes(&bytes.slice(..40)).is_none());
    assert!(Artifact::from_bytes(&Bytes::new()).is_none());
}

#[tokio::test]
async fn losing_writer_gets_the_stored_outcome() {
    let blobs = MemoryBlobs::default();
    artifact().store(&blobs, "s", &key()).await.unwrap();
    let second = Artifact::new(br#"{"n":2}"#, &[]).unwrap();
    assert_eq!(
        second.store(&blobs, "s", &key()).await.unwrap().as_ref(),
        br#"{"n":1}"#
    );
}

#[tokio::test]
async fn torn_artifact_counts_as_missing_and_is_written_again() {
    let mut flipped = artifact().object.to_vec();
    flipped[PREFIX_BYTES + 3] ^= 1;
    for torn in [
        &b""[..],
        b"STA1",
        &[0u8; 100],
        b"STA1\xff\xff\xff\xff",
        &flipped,
    ] {
        let blobs = MemoryBlobs::default();
        blobs
            .put(&artifact_key("s", &key()), Bytes::from(torn.to_vec()))
            .await
            .unwrap();
        assert_eq!(outcome(&blobs, "s", &key()).await.unwrap(), None);
        assert_eq!(
            artifact()
                .store(&blobs, "s", &key())
                .await
                .unwrap()
                .as_ref(),
            br#"{"n":1}"#
        );
        let stored = blobs.get(&artifact_key("s", &key())).await.unwrap();
        assert_eq!(stored.unwrap(), torn, "nothing is deleted");
        let second = blob(&blobs, "s", &key(), "b").await.unwrap();
        assert_eq!(second.unwrap().as_ref(), b"second");
    }
}

#[tokio::test]
async fn artifact_with_a_torn_blob_counts_as_missing_once_the_blob_was_read() {
    let blobs = MemoryBlobs::default();
    let mut torn = artifact().object.to_vec();
    *torn.last_mut().unwrap() ^= 1;
    let name = artifact_key("s", &key());
    blobs.put(&name, torn.into()).await.unwrap();
    assert!(outcome(&blobs, "s", &key()).await.unwrap().is_some());
    assert_eq!(blob(&blobs, "s", &key(), "b").await.unwrap(), None);
    assert_eq!(outcome(&blobs, "s", &key()).await.unwrap(), None);
    artifact().store(&blobs, "s", &key()).await.unwrap();
    assert!(outcome(&blobs, "s", &key()).await.unwrap().is_some());
    let second = blob(&blobs, "s", &key(), "b").await.unwrap();
    assert_eq!(second.unwrap().as_ref(), b"second");
}

#[tokio::test]
async fn artifact_of_a_newer_program_is_neither_torn_nor_replaced() {
    let head = br#"{"outcome":1,"blobs":{"a":1}}"#;
    let mut other_header = b"STA1".to_vec();
    other_header.extend_from_slice(&(head.len() as u32).to_le_bytes());
    other_header.extend_from_slice(blake3::hash(head).as_bytes());
    other_header.extend_from_slice(head);
    for newer in [b"STA2 whatever".to_vec(), other_header] {
        let blobs = MemoryBlobs::default();
        let name = artifact_key("s", &key());
        blobs.put(&name, newer.clone().into()).await.unwrap();
        let error = outcome(&blobs, "s", &key()).await.unwrap_err();
        assert!(error.is_permanent() && error.message.contains("upgrade"));
        assert!(artifact().store(&blobs, "s", &key()).await.is_err());
        assert_eq!(blobs.snapshot().len(), 1);
    }
}

#[tokio::test]
async fn records_are_written_once() {
    let blobs = MemoryBlobs::default();
    let recorded = artifact().with_records(vec![("calls/one".into(), Bytes::from_static(b"1"))]);
    for _ in 0..2 {
        recorded.store(&blobs, "s", &key()).await.unwrap();
    }
    assert_eq!(
        blobs.get("calls/one").await.unwrap().unwrap().as_ref(),
        b"1"
    );
    assert_eq!(blobs.snapshot().len(), 2);
}

#[tokio::test]
async fn large_header_is_read_in_two_requests() {
    let blobs = MemoryBlobs::default();
    let large = format!("\"{}\"", "x".repeat(60_000));
    Artifact::new(large.as_bytes(), &[])
        .unwrap()
        .store(&blobs, "s", &key())
        .await
        .unwrap();
    assert_eq!(
        outcome(&blobs, "s", &key()).await.unwrap().unwrap().len(),
        large.len()
    );
    assert!(Artifact::new(format!("\"{}\"", "x".repeat(70_000)).as_bytes(), &[]).is_err());
}
