//! Index lifecycle tests, with a schema of three fields.

use std::collections::HashSet;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use stemma_document::{
    CatalogEntry, Change, ChangeKind, Collection, Extent, Method, SectionTree, VerifiedOutline,
    blob_keys,
};
use stemma_store::blobs::{Blobs, MemoryBlobs, list_all};
use stemma_store::{Env, PortError, PortResult};
use tantivy::collector::Count;
use tantivy::query::TermQuery;
use tantivy::schema::{FAST, IndexRecordOption, STRING, Schema, TEXT};
use tantivy::tokenizer::TokenizerManager;
use tantivy::{TantivyDocument, Term};
use tempfile::TempDir;

use super::builder::{BuildOutcome, build};
use super::commit::{IndexCommit, MissingDocuments};
use super::doc_mapper::DocMapper;
use super::local_index::{IndexSettings, LocalIndex, SyncReport};
use super::shard::ShardCount;
use super::shard_index::ShardIndex;
use super::snapshot::{GRACE_MS, Snapshots, superseded_keys};
use stemma_catalog::catalog::{Catalog, CatalogDocument};
use stemma_catalog::document_store::{DocumentStore, OpenDocument};
use stemma_catalog::fixtures::entry;
use stemma_catalog::watcher::CatalogWatcher;

mod shards;
mod small_disk;
mod unreadable;

// Index entries per document.
const ENTRIES: u64 = 3;

fn doc_mapper(revision: u32) -> Arc<DocMapper> {
    let mut schema = Schema::builder();
    let doc = schema.add_text_field("doc", STRING);
    let seq = schema.add_u64_field("seq", FAST);
    schema.add_text_field("body", TEXT);
    let schema = schema.build();
    let tokenizers = TokenizerManager::default();
    Arc::new(DocMapper {
        revision,
        schema,
        doc,
        seq,
        tokenizers,
        map: map_words,
    })
}

// The words of an entry are the path, and the version as `v2`.
fn map_words(entry: &CatalogEntry, _: &OpenDocument, add: &mut dyn FnMut(TantivyDocument)) {
    let fields = doc_mapper(1);
    let body = fields.schema.get_field("body").unwrap();
    for _ in 0..ENTRIES {
        let mut document = TantivyDocument::default();
        document.add_text(fields.doc, entry.version.doc.to_string());
        document.add_u64(fields.seq, entry.version.seq);
        document.add_text(
            body,
            format!("{} v{}", entry.version.path, entry.version.seq),
        );
        add(document);
    }
}

// Opens every document and counts. The document `gone` has no tree; `away` fails while `is_unavailable` is set.
#[derive(Default)]
struct CountingStore {
    opened: AtomicUsize,
    is_unavailable: AtomicBool,
}

#[async_trait]
impl DocumentStore for CountingStore {
    async fn open(&self, document: &CatalogDocument) -> PortResult<Option<OpenDocument>> {
        self.opened.fetch_add(1, Ordering::Relaxed);
        if document.version().path == "away" && self.is_unavailable.load(Ordering::Relaxed) {
            return Err(PortError::transient("blobs.get", "away"));
        }
        let outline = VerifiedOutline::new(Extent::Lines(3), Vec::new()).unwrap();
        let tree = SectionTree::build(&outline, Method::Markup, Vec::new());
        Ok((document.version().path != "gone").then_some(OpenDocument::new(tree, None, None)))
    }
}

// A machine with its own cache folder.
struct Machine {
    cache: TempDir,
    store: Arc<CountingStore>,
    index: LocalIndex,
    blobs: Arc<dyn Blobs>,
}

impl Machine {
    fn new(blobs: &Arc<dyn Blobs>) -> Self {
        Self::with_cache(tempfile::tempdir().unwrap(), blobs)
    }

    fn with_cache(cache: TempDir, blobs: &Arc<dyn Blobs>) -> Self {
        Self::with_shards(cache, blobs, ShardCount::default())
    }

    fn with_shards(cache: TempDir, blobs: &Arc<dyn Blobs>, shards: ShardCount) -> Self {
        let store = Arc::new(CountingStore::default());
        let documents = Arc::clone(&store) as Arc<dyn DocumentStore>;
        let folder = cache.path().to_owned();
        let index = LocalIndex::new(
            &IndexSettings { folder, shards },
            blobs,
            &Collection::default(),
            &documents,
            &doc_mapper(1),
        );
        Self {
            cache,
            store,
            index,
            blobs: Arc::clone(blobs),
        }
    }

    // The same machine after a crash.
    fn restarted(self) -> Self {
        Self::with_cache(self.cache, &self.blobs)
    }

    async fn sync(&self, catalog: &Catalog) -> SyncReport {
        self.index.sync(catalog, &|_| {}).await.unwrap()
    }

    async fn build(&self, env: &Env, catalog: &Catalog) -> BuildOutcome {
        build(env, self.blobs.as_ref(), self.shard(), catalog, &|_| {})
            .await
            .unwrap()
    }

    // The only shard, or the first one.
    fn shard(&self) -> &ShardIndex {
        &self.index.shards()[0]
    }

    fn count_matches(&self, word: &str) -> u64 {
        count_matches(&self.index, word)
    }

    fn opened(&self) -> usize {
        self.store.opened.swap(0, Ordering::Relaxed)
    }

    // Files of the current generation.
    fn files(&self) -> Vec<std::path::PathBuf> {
        let folder = self.shard().folder().path();
        let current = folder.join(fs::read_to_string(folder.join("current")).unwrap());
        fs::read_dir(current)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect()
    }
}

// Number of entries with `word`.
fn count_matches(index: &LocalIndex, word: &str) -> u64 {
    let commit = index.current_commit().unwrap();
    let term = Term::from_field_text(doc_mapper(1).schema.get_field("body").unwrap(), word);
    let query = TermQuery::new(term, IndexRecordOption::Basic);
    commit.searcher.search(&query, &Count).unwrap() as u64 / ENTRIES
}

fn missing_by_walk(commit: &IndexCommit, catalog: &Catalog) -> MissingDocuments {
    let only_shard = commit.shards[0].as_ref().unwrap();
    let documents = catalog.with_tree().unwrap();
    only_shard.missing_in(catalog, &documents).unwrap()
}

fn memory_blobs() -> Arc<dyn Blobs> {
    Arc::new(MemoryBlobs::default())
}

// A catalog of documents by path and version.
fn catalog(documents: &[(&str, u64)]) -> Catalog {
    let versions = documents.iter().map(|(path, seq)| {
        let mut entry = entry(path);
        entry.version.seq = *seq;
        entry
    });
    Catalog::from_entries(versions)
}

fn catalog_of(count: usize) -> Catalog {
    Catalog::from_entries((0..count).map(|number| entry(&format!("d{number:05}"))))
}

fn damage(path: &Path, at: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes.truncate(at);
    fs::write(path, bytes).unwrap();
}

#[tokio::test]
async fn index_follows_its_catalog_and_survives_restart() {
    let machine = Machine::new(&memory_blobs());
    let report = machine
        .sync(&catalog(&[("a", 1), ("b", 1), ("gone", 1)]))
        .await;
    assert_eq!(
        (report.indexed, report.entries, report.unreadable),
        (2, 2 * ENTRIES, 1)
    );
    assert_eq!(
        (
            machine.count_matches("a"),
            machine.count_matches("b"),
            machine.count_matches("v1"),
            machine.opened()
        ),
        (1, 1, 2, 3)
    );
    let before = machine.index.current_commit().unwrap();
    // One document has a new version, one is removed and one is new: nothing else is read again.
    let newer = catalog(&[("a", 2), ("c", 1), ("gone", 1)]);
    let report = machine.sync(&newer).await;
    assert_eq!(
        (report.indexed, report.removed, machine.opened()),
        (2, 1, 2)
    );
    assert_eq!(
        (
            machine.count_matches("a"),
            machine.count_matches("b"),
            machine.count_matches("c"),
            machine.count_matches("v1")
        ),
        (1, 0, 1, 1)
    );
    // The previous commit stays readable.
    let commit = machine.index.current_commit().unwrap();
    assert_eq!(
        (before.entries(), before.documents(), commit.entries()),
        (2 * ENTRIES, 2, 2 * ENTRIES)
    );
    assert_eq!(commit.version(entry("a").version.doc), Some(2));
    assert_eq!(commit.version(entry("b").version.doc), None);
    let machine = machine.restarted();
    assert_eq!(
        machine.sync(&catalog(&[("a", 2), ("c", 1)])).await,
        SyncReport::default()
    );
    assert_eq!((machine.count_matches("v2"), machine.opened()), (1, 0));
}

#[tokio::test]
async fn temporarily_unreadable_documents_are_indexed_later() {
    let machine = Machine::new(&memory_blobs());
    machine.sync(&catalog(&[("a", 1), ("away", 1)])).await;
    machine.store.is_unavailable.store(true, Ordering::Relaxed);
    let newer = catalog(&[("a", 2), ("away", 2)]);
    let report = machine.sync(&newer).await;
    assert_eq!(
        (
            report.indexed,
            report.missing,
            machine.count_matches("v2"),
            machine.count_matches("v1")
        ),
        (1, 1, 1, 1)
    );
    machine.store.is_unavailable.store(false, Ordering::Relaxed);
    assert_eq!(
        (
            machine.sync(&newer).await.indexed,
            machine.count_matches("v2")
        ),
        (1, 2)
    );
}

#[tokio::test]
async fn older_catalog_does_not_restore_older_versions() {
    let machine = Machine::new(&memory_blobs());
    machine.sync(&catalog(&[("a", 2)])).await;
    assert_eq!(
        machine.sync(&catalog(&[("a", 1)])).await,
        SyncReport::default()
    );
    assert_eq!(machine.count_matches("v2"), 1);
}

#[tokio::test]
async fn damaged_index_is_rebuilt() {
    let everything = catalog_of(40);
    let blobs = memory_blobs();
    for ending in ["meta.json", ".idx", ".term", ".fast", ".store", "current"] {
        let machine = Machine::new(&blobs);
        machine.sync(&everything).await;
        let files = machine.files().into_iter().chain([machine
            .shard()
            .folder()
            .path()
            .join("current")]);
        let damaged = files
            .filter(|path| path.to_string_lossy().ends_with(ending))
            .collect::<Vec<_>>();
        assert!(!damaged.is_empty(), "{ending}");
        damaged.iter().for_each(|path| damage(path, 2));
        let machine = machine.restarted();
        let report = machine.sync(&everything).await;
        assert_eq!(
            (
                report.is_rebuilt,
                report.indexed,
                machine.count_matches("v1")
            ),
            (true, 40, 40),
            "{ending}"
        );
        assert_eq!(
            machine
                .shard()
                .open_generation()
                .unwrap()
                .corrupt_files()
                .unwrap(),
            [""; 0]
        );
    }
}

#[tokio::test]
async fn altered_files_are_listed_and_a_corrupt_index_is_rebuilt() {
    let machine = Machine::new(&memory_blobs());
    machine.sync(&catalog_of(40)).await;
    let store = machine
        .files()
        .into_iter()
        .find(|path| path.extension().is_some_and(|ending| ending == "store"));
    let path = store.unwrap();
    let mut bytes = fs::read(&path).unwrap();
    bytes[5] ^= 0xff;
    fs::remove_file(&path).unwrap();
    fs::write(&path, bytes).unwrap();
    let machine = machine.restarted();
    machine.index.open().await.unwrap();
    assert_eq!(
        machine
            .shard()
            .open_generation()
            .unwrap()
            .corrupt_files()
            .unwrap()
            .len(),
        1
    );
    // A panic may come of it: the files are checked.
    let commit = machine.index.current_commit().unwrap();
    machine.index.report_failure(&commit);
    assert!(machine.sync(&catalog_of(40)).await.is_rebuilt);
    // Searches that began before report a generation that is gone.
    machine.index.report_damage(&commit);
    assert!(!machine.sync(&catalog_of(40)).await.is_rebuilt);
    let commit = machine.index.current_commit().unwrap();
    machine.index.report_failure(&commit);
    assert!(!machine.sync(&catalog_of(40)).await.is_rebuilt);
    machine.index.report_damage(&commit);
    assert!(machine.sync(&catalog_of(40)).await.is_rebuilt);
    assert_eq!(
        machine
            .shard()
            .open_generation()
            .unwrap()
            .corrupt_files()
            .unwrap(),
        [""; 0]
    );
    assert_eq!(machine.sync(&catalog_of(40)).await, SyncReport::default());
}

#[tokio::test]
async fn two_processes_can_share_one_cache() {
    let blobs = memory_blobs();
    let first = Machine::new(&memory_blobs());
    first.sync(&catalog(&[("a", 1)])).await;
    let store = Arc::clone(&first.store) as Arc<dyn DocumentStore>;
    let second = LocalIndex::new(
        &IndexSettings::for_folder(first.cache.path()),
        &blobs,
        &Collection::default(),
        &store,
        &doc_mapper(1),
    );
    let newer = catalog(&[("a", 1), ("b", 1)]);
    let lock = first.shard().folder().lock().unwrap().unwrap();
    let report = second.sync(&newer, &|_| {}).await.unwrap();
    assert_eq!(
        (report.missing, report.indexed, count_matches(&second, "a")),
        (1, 0, 1)
    );
    drop(lock);
    assert_eq!(second.sync(&newer, &|_| {}).await.unwrap().indexed, 1);
    // Documents indexed by one process are not indexed again by the other.
    let report = first.sync(&newer).await;
    assert_eq!(
        (
            report.indexed,
            first.count_matches("b"),
            first.count_matches("v1")
        ),
        (0, 1, 2)
    );
}

#[tokio::test]
async fn interrupted_update_keeps_the_last_commit() {
    let machine = Machine::new(&memory_blobs());
    machine.sync(&catalog(&[("a", 1)])).await;
    for millis in [0, 1, 3, 9, 27] {
        let everything = catalog_of(400);
        let update = machine.index.sync(&everything, &|_| {});
        let cut = tokio::time::timeout(Duration::from_millis(millis), update).await;
        let whole = cut.is_ok();
        let documents = machine.index.current_commit().unwrap().documents();
        assert!(documents == 1 || (whole && documents == 400), "{documents}");
    }
    let machine = machine.restarted();
    // A dropped writer may release its lock a little later.
    let mut report = machine.index.sync(&catalog_of(400), &|_| {}).await;
    for _ in 0..3_000 {
        if report.is_ok() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
        report = machine.index.sync(&catalog_of(400), &|_| {}).await;
    }
    assert_eq!(
        (report.unwrap().missing, machine.count_matches("v1")),
        (0, 400)
    );
}

#[tokio::test]
async fn new_machine_fetches_snapshot_and_uploads_only_new_parts() {
    let env = Env::system();
    let blobs = memory_blobs();
    let builder = Machine::new(&blobs);
    let BuildOutcome::Uploaded(report, first) = builder.build(&env, &catalog_of(1_500)).await
    else {
        panic!("no snapshot")
    };
    assert_eq!(
        (report.indexed, first.seq, first.new_bytes),
        (1_500, 1, first.bytes)
    );
    assert_eq!(
        builder.build(&env, &catalog_of(1_500)).await,
        BuildOutcome::UpToDate
    );
    let replica = Machine::new(&blobs);
    let report = replica.sync(&catalog_of(1_501)).await;
    assert_eq!(
        (report.fetched_bytes, report.indexed, replica.opened()),
        (first.bytes, 1, 1)
    );
    assert_eq!(
        (replica.count_matches("v1"), replica.count_matches("d01500")),
        (1_501, 1)
    );
    let BuildOutcome::Uploaded(report, second) = builder.build(&env, &catalog_of(1_502)).await
    else {
        panic!("no snapshot")
    };
    assert_eq!((report.indexed, second.seq), (2, 2));
    assert!(second.new_bytes * 4 < second.bytes, "{second:?}");
    let manifest = builder
        .shard()
        .snapshots()
        .newest()
        .await
        .unwrap()
        .unwrap()
        .1;
    assert_eq!(
        (manifest.documents, manifest.bytes()),
        (1_502, second.bytes)
    );
    assert_eq!(
        builder
            .shard()
            .snapshots()
            .missing_parts(&manifest, true)
            .await
            .unwrap(),
        []
    );
    // An outdated index continues from the newest snapshot, and fetches only the missing files.
    let report = replica.restarted();
    let replica = report;
    let report = replica.sync(&catalog_of(2_600)).await;
    assert!(report.fetched_bytes < second.bytes / 2, "{report:?}");
    assert_eq!(
        (report.indexed, replica.count_matches("v1")),
        (2_600 - 1_502, 2_600)
    );
}

#[tokio::test]
async fn one_builder_wins_and_the_other_rebases() {
    let env = Env::system();
    let blobs = memory_blobs();
    let one = Machine::new(&blobs);
    let other = Machine::new(&blobs);
    one.build(&env, &catalog_of(3)).await;
    assert_eq!(
        other.build(&env, &catalog_of(3)).await,
        BuildOutcome::UpToDate
    );
    // Two builders on the same base: the claim or else the manifest decides.
    other.index.sync(&catalog_of(5), &|_| {}).await.unwrap();
    let base = other.shard().snapshots().newest().await.unwrap();
    assert!(matches!(
        one.build(&env, &catalog_of(4)).await,
        BuildOutcome::Uploaded(..)
    ));
    assert_eq!(
        other
            .shard()
            .upload_snapshot(base.as_ref(), 0)
            .await
            .unwrap(),
        None
    );
    let BuildOutcome::Uploaded(report, third) = other.build(&env, &catalog_of(5)).await else {
        panic!("no snapshot")
    };
    assert_eq!(
        (report.indexed, third.seq, other.count_matches("v1")),
        (1, 3, 5)
    );
}

#[tokio::test(start_paused = true)]
async fn build_claim_blocks_others_until_it_expires() {
    let env = Env::simulated(1);
    let blobs = memory_blobs();
    let claims = "c/default/index/00000001/claims/";
    let dead = format!(r#"{{"at_ms":{}}}"#, env.now_ms());
    blobs
        .put(&format!("{claims}000000000001-000001.json"), dead.into())
        .await
        .unwrap();
    let machine = Machine::new(&blobs);
    assert_eq!(
        machine.build(&env, &catalog_of(2)).await,
        BuildOutcome::InProgress(1)
    );
    env.sleep(Duration::from_secs(121)).await;
    assert!(matches!(
        machine.build(&env, &catalog_of(2)).await,
        BuildOutcome::Uploaded(..)
    ));
    assert_eq!(list_all(blobs.as_ref(), claims).await.unwrap().len(), 2);
}

#[tokio::test]
async fn damaged_snapshot_falls_back_to_reindexing() {
    let env = Env::system();
    let blobs = memory_blobs();
    Machine::new(&blobs).build(&env, &catalog_of(20)).await;
    let parts = list_all(blobs.as_ref(), "c/default/index/00000001/parts/")
        .await
        .unwrap();
    blobs.delete(&parts[0]).await.unwrap();
    blobs.put(&parts[0], "torn".into()).await.unwrap();
    let replica = Machine::new(&blobs);
    let manifest = Snapshots::new(
        Arc::clone(&blobs),
        &Collection::default(),
        1,
        replica.shard().id(),
    )
    .newest()
    .await
    .unwrap()
    .unwrap()
    .1;
    assert_eq!(
        replica
            .shard()
            .snapshots()
            .missing_parts(&manifest, false)
            .await
            .unwrap(),
        []
    );
    assert_eq!(
        replica
            .shard()
            .snapshots()
            .missing_parts(&manifest, true)
            .await
            .unwrap()
            .len(),
        1
    );
    let report = replica.sync(&catalog_of(20)).await;
    assert_eq!(
        (
            report.fetched_bytes,
            report.indexed,
            replica.count_matches("v1")
        ),
        (0, 20, 20)
    );
}

#[tokio::test]
async fn revisions_use_separate_files() {
    let env = Env::system();
    let blobs = memory_blobs();
    let old = Machine::new(&blobs);
    old.build(&env, &catalog_of(3)).await;
    let store = Arc::clone(&old.store) as Arc<dyn DocumentStore>;
    let new = LocalIndex::new(
        &IndexSettings::for_folder(old.cache.path()),
        &blobs,
        &Collection::default(),
        &store,
        &doc_mapper(2),
    );
    let report = new.sync(&catalog_of(3), &|_| {}).await.unwrap();
    assert_eq!((report.indexed, report.fetched_bytes), (3, 0));
    assert_eq!(old.sync(&catalog_of(3)).await, SyncReport::default());
    let replaced = build(
        &env,
        blobs.as_ref(),
        &new.shards()[0],
        &catalog_of(4),
        &|_| {},
    )
    .await
    .unwrap();
    assert!(matches!(replaced, BuildOutcome::Uploaded(..)));
    // After the grace period, the whole other revision is garbage.
    let of = |revision, now_ms| {
        let blobs = Arc::clone(&blobs);
        async move {
            superseded_keys(
                &blobs,
                &Collection::default(),
                revision,
                ShardCount::default(),
                now_ms,
            )
            .await
            .unwrap()
        }
    };
    let now_ms = env.now_ms();
    let later_ms = env.now_ms() + GRACE_MS + 60_000;
    assert_eq!(
        (of(2, now_ms).await.len(), of(1, later_ms).await.len()),
        (0, 0)
    );
    assert_eq!(
        of(2, later_ms).await,
        list_all(blobs.as_ref(), "c/default/index/00000001/")
            .await
            .unwrap()
    );
}

#[tokio::test]
async fn superseded_snapshots_and_parts_are_collected_after_a_day() {
    let env = Env::system();
    let blobs = memory_blobs();
    let builder = Machine::new(&blobs);
    for count in [900, 901, 902, 903] {
        assert!(matches!(
            builder.build(&env, &catalog_of(count)).await,
            BuildOutcome::Uploaded(..)
        ));
    }
    let collection = Collection::default();
    assert_eq!(
        superseded_keys(&blobs, &collection, 1, ShardCount::default(), env.now_ms())
            .await
            .unwrap()
            .len(),
        3
    ); // old claims
    let gone = superseded_keys(
        &blobs,
        &collection,
        1,
        ShardCount::default(),
        env.now_ms() + GRACE_MS + 60_000,
    )
    .await
    .unwrap();
    let kinds: HashSet<&str> = gone
        .iter()
        .filter_map(|key| key.split('/').nth(4))
        .collect();
    assert_eq!(kinds, HashSet::from(["snapshots", "parts", "claims"]));
    for key in &gone {
        blobs.delete(key).await.unwrap();
    }
    let newest = builder.shard().snapshots().newest().await.unwrap().unwrap();
    assert_eq!(
        (
            newest.0,
            builder
                .shard()
                .snapshots()
                .missing_parts(&newest.1, true)
                .await
                .unwrap()
        ),
        (4, vec![])
    );
    let replica = Machine::new(&blobs);
    assert_eq!(
        (
            replica.sync(&catalog_of(903)).await.indexed,
            replica.count_matches("v1")
        ),
        (0, 903)
    );
}

// The catalogs of a watcher share their memory, so each update compares the documents that changed.
#[tokio::test]
async fn an_index_follows_the_catalogs_of_a_watcher() {
    let blobs = Arc::new(MemoryBlobs::default());
    let put = async |at_ms: u64, kind: ChangeKind| {
        let key = blob_keys::change_key(&Collection::default(), at_ms, at_ms);
        let json = serde_json::to_vec(&Change { at_ms, kind }).unwrap();
        blobs.put(&key, json.into()).await.unwrap();
    };
    let published = |path: &str, seq: u64| {
        let mut entry = entry(path);
        entry.version.seq = seq;
        ChangeKind::Published(Box::new(entry))
    };
    for n in 0..2_000 {
        put(n, published(&format!("d{n}"), 1)).await;
    }
    put(2_000, published("gone", 1)).await;
    let (mut watcher, catalog) =
        CatalogWatcher::start(None, &*blobs, Collection::default(), 60_000)
            .await
            .unwrap();
    let store: Arc<dyn Blobs> = blobs.clone();
    let machine = Machine::new(&store);
    assert_eq!(machine.sync(&catalog).await.indexed, 2_000);
    machine.opened();
    put(2_001, published("d7", 2)).await;
    put(2_002, published("new", 1)).await;
    let doc = entry("d8").version.doc;
    put(2_003, ChangeKind::Removed { doc, seq: 2 }).await;
    let catalog = watcher.poll(&*blobs).await.unwrap().unwrap();
    let commit = machine.index.current_commit().unwrap();
    let missing = machine.index.missing_documents(&commit, &catalog).unwrap();
    assert_eq!(missing, missing_by_walk(&commit, &catalog));
    assert_eq!(
        (missing.not_indexed.len(), missing.unreadable.len()),
        (2, 1)
    );
    let report = machine.sync(&catalog).await;
    assert_eq!(
        (report.indexed, report.removed, machine.opened()),
        (2, 1, 2)
    );
    assert_eq!(machine.count_matches("d8"), 0);
    assert_eq!(machine.count_matches("v2"), 1);
    let commit = machine.index.current_commit().unwrap();
    let missing = machine.index.missing_documents(&commit, &catalog).unwrap();
    assert_eq!(missing, missing_by_walk(&commit, &catalog));
    assert_eq!(missing.not_indexed, []);
    assert!(machine.sync(&catalog).await.indexed == 0 && machine.opened() == 0);
}
