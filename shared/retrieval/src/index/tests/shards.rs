//! Indexes of several shards.

use super::*;

fn four() -> ShardCount {
    ShardCount::try_from(4).unwrap()
}

fn machine_of_four(blobs: &Arc<dyn Blobs>) -> Machine {
    Machine::with_shards(tempfile::tempdir().unwrap(), blobs, four())
}

// Builds all shards, and returns how each ended.
async fn build_all(machine: &Machine, env: &Env, catalog: &Catalog) -> Vec<BuildOutcome> {
    let mut outcomes = Vec::new();
    for shard in machine.index.shards() {
        let built = build(env, machine.blobs.as_ref(), shard, catalog, &|_| {}).await;
        outcomes.push(built.unwrap());
    }
    outcomes
}

fn generation_numbers(machine: &Machine) -> Vec<Option<u64>> {
    let shards = machine.index.shards().iter();
    shards
        .map(|shard| Some(shard.open_generation()?.opstamp().unwrap()))
        .collect()
}

#[tokio::test]
async fn shards_have_all_documents_between_them() {
    let machine = machine_of_four(&memory_blobs());
    let listed = catalog_of(100);
    let left = std::sync::Mutex::new(Vec::new());
    let note_left = |count| left.lock().unwrap().push(count);
    let report = machine.index.sync(&listed, &note_left).await;
    assert_eq!(report.unwrap().indexed, 100);
    let left = left.into_inner().unwrap();
    assert!(
        left.is_sorted_by(|before, after| before >= after),
        "{left:?}"
    );
    assert_eq!(left.last(), Some(&0));
    assert_eq!(machine.count_matches("v1"), 100);
    let commit = machine.index.current_commit().unwrap();
    assert_eq!((commit.documents(), commit.entries()), (100, 100 * ENTRIES));
    for version in listed.tree_versions(&listed.with_tree().unwrap()) {
        let (doc, seq) = version.unwrap();
        assert_eq!(commit.version(doc), Some(seq));
    }
    for shard in machine.index.shards() {
        let documents = shard.open_generation().unwrap();
        let documents = documents.versions(&documents.searcher().unwrap()).unwrap();
        assert!(documents.len() > 10, "{}", documents.len());
        assert!(documents.docs().all(|doc| shard.id().has(doc)));
    }
}

#[tokio::test]
async fn stored_entries_are_read_from_their_shards() {
    let machine = machine_of_four(&memory_blobs());
    machine.sync(&catalog_of(40)).await;
    let commit = machine.index.current_commit().unwrap();
    let all = tantivy::collector::DocSetCollector;
    let found = commit
        .searcher
        .search(&tantivy::query::AllQuery, &all)
        .unwrap();
    assert_eq!(found.len() as u64, 40 * ENTRIES);
    for address in found {
        let stored: TantivyDocument = commit.searcher.doc(address).unwrap();
        let segment = commit.searcher.segment_reader(address.segment_ord);
        let expected = segment.get_store_reader(1).unwrap();
        let expected: TantivyDocument = expected.get(address.doc_id).unwrap();
        assert_eq!(stored.len(), expected.len());
    }
}

#[tokio::test]
async fn a_publication_changes_one_shard() {
    let machine = machine_of_four(&memory_blobs());
    machine.sync(&catalog_of(40)).await;
    let before = generation_numbers(&machine);
    let number = machine.index.current_commit().unwrap().number();
    let report = machine.sync(&catalog_of(41)).await;
    assert_eq!((report.indexed, report.removed), (1, 0));
    let after = generation_numbers(&machine);
    let changed = before
        .iter()
        .zip(&after)
        .filter(|(before, after)| before != after);
    assert_eq!(changed.count(), 1);
    assert!(machine.index.current_commit().unwrap().number() > number);
}

#[tokio::test]
async fn documents_are_missing_until_their_shard_is_built() {
    let machine = machine_of_four(&memory_blobs());
    let listed = catalog_of(40);
    machine.index.shards()[0]
        .sync(&listed, &|_| {})
        .await
        .unwrap();
    let commit = machine.index.current_commit().unwrap();
    let missing = machine.index.missing_documents(&commit, &listed).unwrap();
    assert_eq!(missing.not_indexed.len() + commit.documents(), 40);
    assert!(
        missing
            .not_indexed
            .iter()
            .all(|doc| commit.version(*doc).is_none())
    );
    machine.sync(&listed).await;
    let commit = machine.index.current_commit().unwrap();
    let missing = machine.index.missing_documents(&commit, &listed).unwrap();
    assert_eq!(missing.not_indexed, []);
}

#[tokio::test]
async fn several_builders_share_the_shards() {
    let env = Env::system();
    let blobs = memory_blobs();
    let machines = [machine_of_four(&blobs), machine_of_four(&blobs)];
    let listed = catalog_of(40);
    // The first builder has claimed the first shard.
    let claims = machines[0].shard().snapshots().folder_key("claims");
    let claimed = super::super::claim::acquire(&env, blobs.as_ref(), &claims, 1).await;
    assert_eq!(claimed.unwrap(), Some(1));
    let outcomes = build_all(&machines[1], &env, &listed).await;
    assert_eq!(outcomes[0], BuildOutcome::InProgress(1));
    for outcome in &outcomes[1..] {
        assert!(matches!(outcome, BuildOutcome::Uploaded(..)), "{outcome:?}");
    }
}

#[tokio::test]
async fn a_replica_fetches_the_snapshots_of_all_shards() {
    let env = Env::system();
    let blobs = memory_blobs();
    let listed = catalog_of(2_400);
    build_all(&machine_of_four(&blobs), &env, &listed).await;
    let replica = machine_of_four(&blobs);
    let report = replica.sync(&listed).await;
    assert_eq!((report.indexed, replica.opened()), (0, 0));
    assert!(report.fetched_bytes > 0);
    assert_eq!(replica.count_matches("v1"), 2_400);
}

#[tokio::test]
async fn only_the_shard_with_altered_files_is_rebuilt() {
    let machine = machine_of_four(&memory_blobs());
    let listed = catalog_of(40);
    machine.sync(&listed).await;
    let before = machine.index.shards()[2].open_generation().unwrap();
    let files = fs::read_dir(&before.path)
        .unwrap()
        .map(|file| file.unwrap().path());
    let mut stores = files.filter(|path| path.extension().is_some_and(|ending| ending == "store"));
    let path = stores.next().unwrap();
    let mut bytes = fs::read(&path).unwrap();
    bytes[5] ^= 0xff;
    fs::remove_file(&path).unwrap();
    fs::write(&path, bytes).unwrap();
    let machine = Machine::with_shards(machine.cache, &machine.blobs, four());
    let commit = machine.index.open().await.unwrap().unwrap();
    machine.index.report_damage(&commit);
    let report = machine.sync(&listed).await;
    assert!(report.is_rebuilt);
    assert!((1..30).contains(&report.indexed), "{}", report.indexed);
    assert_eq!(machine.opened(), report.indexed);
    assert_eq!(machine.index.corrupt_files().await.unwrap(), [""; 0]);
    assert_eq!(machine.count_matches("v1"), 40);
}

#[tokio::test]
async fn an_index_of_another_number_of_shards_is_collected_after_a_day() {
    let env = Env::system();
    let blobs = memory_blobs();
    let collection = Collection::default();
    let listed = catalog_of(40);
    let only = Machine::new(&blobs);
    only.build(&env, &listed).await;
    let machine = machine_of_four(&blobs);
    let outcomes = build_all(&machine, &env, &listed).await;
    assert_eq!(outcomes.len(), 4);
    let later_ms = env.now_ms() + GRACE_MS + 60_000;
    let gone = superseded_keys(&blobs, &collection, 1, four(), later_ms)
        .await
        .unwrap();
    let expected = list_all(blobs.as_ref(), "c/default/index/00000001/")
        .await
        .unwrap();
    assert_eq!(gone, expected);
    // The newer index is not collected by who has the older number of shards.
    let count = ShardCount::default();
    let gone = superseded_keys(&blobs, &collection, 1, count, later_ms)
        .await
        .unwrap();
    assert_eq!(gone, [""; 0]);
}
