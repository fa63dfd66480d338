//! Documents that cannot be read, as several processes see them.

use super::*;

fn gone() -> Vec<stemma_document::DocId> {
    vec![entry("gone").version.doc]
}

#[tokio::test]
async fn documents_that_cannot_be_read_are_stored_with_the_commit() {
    let blobs = memory_blobs();
    let first = Machine::new(&blobs);
    let listed = catalog(&[("a", 1), ("gone", 1)]);
    assert_eq!(first.sync(&listed).await.unreadable, 1);
    let second = LocalIndex::new(
        &IndexSettings::for_folder(first.cache.path()),
        &blobs,
        &Collection::default(),
        &(Arc::clone(&first.store) as Arc<dyn DocumentStore>),
        &doc_mapper(1),
    );
    // It cannot write, so it relies on what the other process found.
    let lock = first.shard().folder().lock().unwrap().unwrap();
    assert_eq!(second.sync(&listed, &|_| {}).await.unwrap().missing, 0);
    let commit = second.current_commit().unwrap();
    let missing = second.missing_documents(&commit, &listed).unwrap();
    assert_eq!(missing.unreadable, gone());
    assert_eq!(missing.not_indexed, []);
    // Another version may be readable.
    let newer = catalog(&[("a", 1), ("gone", 2)]);
    let missing = second.missing_documents(&commit, &newer).unwrap();
    assert_eq!(missing.unreadable, []);
    assert_eq!(missing.not_indexed, gone());
    drop(lock);
    first.sync(&catalog(&[("a", 1), ("b", 1)])).await;
    let commit = first.index.current_commit().unwrap();
    let missing = first.index.missing_documents(&commit, &listed).unwrap();
    assert_eq!(missing.unreadable, []);
}

#[tokio::test]
async fn snapshots_say_which_documents_cannot_be_read() {
    let blobs = memory_blobs();
    let env = Env::system();
    let listed = catalog(&[("a", 1), ("gone", 1)]);
    Machine::new(&blobs).build(&env, &listed).await;
    let other = Machine::new(&blobs);
    other.sync(&catalog(&[("a", 1)])).await;
    let commit = other.index.current_commit().unwrap();
    assert_eq!(other.opened(), 0);
    let missing = other.index.missing_documents(&commit, &listed).unwrap();
    assert_eq!(missing.unreadable, gone());
}
