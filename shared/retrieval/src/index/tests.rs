//! The life of an index, over a shape of three fields.

use std::collections::HashSet;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use stemma_document::{CatalogueEntry, Collection, Extent, Method, SectionTree, VerifiedOutline};
use stemma_engine::blobs::{Blobs, MemoryBlobs, list_all};
use stemma_engine::{Env, PortError};
use tantivy::collector::Count;
use tantivy::query::TermQuery;
use tantivy::schema::{FAST, IndexRecordOption, STRING, Schema, TEXT};
use tantivy::tokenizer::TokenizerManager;
use tantivy::{TantivyDocument, Term};
use tempfile::TempDir;

use super::builder::{Built, build};
use super::corpus::{Brought, Corpus};
use super::shape::Shape;
use super::snapshot::{GRACE_MS, Snapshots, superseded};
use stemma_catalog::catalogue::{Catalogue, Listed};
use stemma_catalog::fixtures::entry;
use stemma_catalog::shelf::{Opened, Shelf};

/// Entries that one document becomes.
const ENTRIES: u64 = 3;

fn shape(revision: u32) -> Arc<Shape> {
    let mut schema = Schema::builder();
    let doc = schema.add_text_field("doc", STRING);
    let seq = schema.add_u64_field("seq", FAST);
    schema.add_text_field("body", TEXT);
    let schema = schema.build();
    let tokenizers = TokenizerManager::default();
    Arc::new(Shape {
        revision,
        schema,
        doc,
        seq,
        tokenizers,
        enter,
    })
}

/// Words: the path, and the version as `v2`.
fn enter(entry: &CatalogueEntry, _: &Opened) -> Vec<TantivyDocument> {
    let fields = shape(1);
    let body = fields.schema.get_field("body").unwrap();
    (0..ENTRIES)
        .map(|_| {
            let mut document = TantivyDocument::default();
            document.add_text(fields.doc, entry.version.doc.to_string());
            document.add_u64(fields.seq, entry.version.seq);
            document.add_text(
                body,
                format!("{} v{}", entry.version.path, entry.version.seq),
            );
            document
        })
        .collect()
}

/// Opens every document, and counts; those called `gone` have no tree any more, `away` cannot be read while that is so.
#[derive(Default)]
struct Trees {
    opened: AtomicUsize,
    away: AtomicBool,
}

#[async_trait]
impl Shelf for Trees {
    async fn open(&self, listed: &Listed) -> Result<Option<Opened>, PortError> {
        self.opened.fetch_add(1, Ordering::Relaxed);
        if listed.version().path == "away" && self.away.load(Ordering::Relaxed) {
            return Err(PortError::passing("blobs", "get", "away"));
        }
        let outline = VerifiedOutline::new(Extent::Lines(3), Vec::new()).unwrap();
        let tree = SectionTree::build(&outline, Method::Markup, Vec::new());
        Ok((listed.version().path != "gone").then_some(Opened { tree, body: None }))
    }
}

/// A machine: its cache, and what it read.
struct Machine {
    cache: TempDir,
    trees: Arc<Trees>,
    corpus: Corpus,
    blobs: Arc<dyn Blobs>,
}

impl Machine {
    fn new(blobs: &Arc<dyn Blobs>) -> Self {
        Self::at(tempfile::tempdir().unwrap(), blobs)
    }

    fn at(cache: TempDir, blobs: &Arc<dyn Blobs>) -> Self {
        let trees = Arc::new(Trees::default());
        let shelf = Arc::clone(&trees) as Arc<dyn Shelf>;
        let corpus = Corpus::new(
            cache.path(),
            Arc::clone(blobs),
            &Collection::default(),
            shelf,
            shape(1),
        );
        Self {
            cache,
            trees,
            corpus,
            blobs: Arc::clone(blobs),
        }
    }

    /// The same machine after a kill.
    fn restarted(self) -> Self {
        Self::at(self.cache, &self.blobs)
    }

    async fn bring(&self, catalogue: &Catalogue) -> Brought {
        self.corpus.bring_up_to(catalogue, &|_| {}).await.unwrap()
    }

    async fn build(&self, env: &Env, catalogue: &Catalogue) -> Built {
        build(env, self.blobs.as_ref(), &self.corpus, catalogue, &|_| {})
            .await
            .unwrap()
    }

    fn found(&self, word: &str) -> u64 {
        found(&self.corpus, word)
    }

    fn opened(&self) -> usize {
        self.trees.opened.swap(0, Ordering::Relaxed)
    }

    /// The files of the generation that is read.
    fn files(&self) -> Vec<std::path::PathBuf> {
        let folder = self.corpus.folder().path();
        let current = folder.join(fs::read_to_string(folder.join("current")).unwrap());
        fs::read_dir(current)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect()
    }
}

/// Documents that have `word`.
fn found(corpus: &Corpus, word: &str) -> u64 {
    let edition = corpus.edition().unwrap();
    let term = Term::from_field_text(shape(1).schema.get_field("body").unwrap(), word);
    let query = TermQuery::new(term, IndexRecordOption::Basic);
    edition.searcher.search(&query, &Count).unwrap() as u64 / ENTRIES
}

fn memory() -> Arc<dyn Blobs> {
    Arc::new(MemoryBlobs::default())
}

/// A catalogue of documents in their versions.
fn catalogue(documents: &[(&str, u64)]) -> Catalogue {
    let versions = documents.iter().map(|(path, seq)| {
        let mut entry = entry(path);
        entry.version.seq = *seq;
        entry
    });
    Catalogue::of_entries(versions)
}

fn many(count: usize) -> Catalogue {
    Catalogue::of_entries((0..count).map(|number| entry(&format!("d{number:05}"))))
}

fn damage(path: &Path, at: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes.truncate(at);
    fs::write(path, bytes).unwrap();
}

#[tokio::test]
async fn an_index_follows_its_catalogue_and_survives_a_restart() {
    let machine = Machine::new(&memory());
    let brought = machine
        .bring(&catalogue(&[("a", 1), ("b", 1), ("gone", 1)]))
        .await;
    assert_eq!(
        (brought.entered, brought.entries, brought.unreadable),
        (2, 2 * ENTRIES, 1)
    );
    assert_eq!(
        (
            machine.found("a"),
            machine.found("b"),
            machine.found("v1"),
            machine.opened()
        ),
        (1, 1, 2, 3)
    );
    let before = machine.corpus.edition().unwrap();
    // A new version in place of the old one, one removed, one new: together, and nothing else is read again.
    let newer = catalogue(&[("a", 2), ("c", 1), ("gone", 1)]);
    let brought = machine.bring(&newer).await;
    assert_eq!(
        (brought.entered, brought.removed, machine.opened()),
        (2, 1, 2)
    );
    assert_eq!(
        (
            machine.found("a"),
            machine.found("b"),
            machine.found("c"),
            machine.found("v1")
        ),
        (1, 0, 1, 1)
    );
    // Who held the commit before reads it on.
    let edition = machine.corpus.edition().unwrap();
    assert_eq!(
        (before.entries(), before.documents(), edition.entries()),
        (2 * ENTRIES, 2, 2 * ENTRIES)
    );
    assert_eq!(edition.version(entry("a").version.doc), Some(2));
    assert_eq!(edition.version(entry("b").version.doc), None);
    let machine = machine.restarted();
    assert_eq!(
        machine.bring(&catalogue(&[("a", 2), ("c", 1)])).await,
        Brought::default()
    );
    assert_eq!((machine.found("v2"), machine.opened()), (1, 0));
}

#[tokio::test]
async fn what_cannot_be_read_for_now_is_entered_later_and_keeps_no_one_waiting() {
    let machine = Machine::new(&memory());
    machine.bring(&catalogue(&[("a", 1), ("away", 1)])).await;
    machine.trees.away.store(true, Ordering::Relaxed);
    let newer = catalogue(&[("a", 2), ("away", 2)]);
    let brought = machine.bring(&newer).await;
    assert_eq!(
        (
            brought.entered,
            brought.behind,
            machine.found("v2"),
            machine.found("v1")
        ),
        (1, 1, 1, 1)
    );
    machine.trees.away.store(false, Ordering::Relaxed);
    assert_eq!(
        (machine.bring(&newer).await.entered, machine.found("v2")),
        (1, 2)
    );
}

#[tokio::test]
async fn an_older_catalogue_brings_no_older_version_back() {
    let machine = Machine::new(&memory());
    machine.bring(&catalogue(&[("a", 2)])).await;
    assert_eq!(
        machine.bring(&catalogue(&[("a", 1)])).await,
        Brought::default()
    );
    assert_eq!(machine.found("v2"), 1);
}

#[tokio::test]
async fn a_damaged_index_is_made_again() {
    let everything = many(40);
    let blobs = memory();
    for ending in ["meta.json", ".idx", ".term", ".fast", ".store", "current"] {
        let machine = Machine::new(&blobs);
        machine.bring(&everything).await;
        let files = machine.files().into_iter().chain([machine
            .corpus
            .folder()
            .path()
            .join("current")]);
        let damaged = files
            .filter(|path| path.to_string_lossy().ends_with(ending))
            .collect::<Vec<_>>();
        assert!(!damaged.is_empty(), "{ending}");
        damaged.iter().for_each(|path| damage(path, 2));
        let machine = machine.restarted();
        let brought = machine.bring(&everything).await;
        assert_eq!(
            (brought.remade, brought.entered, machine.found("v1")),
            (true, 40, 40),
            "{ending}"
        );
        assert_eq!(
            machine.corpus.generation().unwrap().altered().unwrap(),
            [""; 0]
        );
    }
}

#[tokio::test]
async fn what_was_altered_is_named_and_a_doubted_index_is_made_again() {
    let machine = Machine::new(&memory());
    machine.bring(&many(40)).await;
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
    machine.corpus.open().await.unwrap();
    assert_eq!(
        machine
            .corpus
            .generation()
            .unwrap()
            .altered()
            .unwrap()
            .len(),
        1
    );
    machine.corpus.doubt();
    assert!(machine.bring(&many(40)).await.remade);
    assert_eq!(
        machine.corpus.generation().unwrap().altered().unwrap(),
        [""; 0]
    );
    assert_eq!(machine.bring(&many(40)).await, Brought::default());
}

#[tokio::test]
async fn two_processes_on_one_cache_do_not_disturb_each_other() {
    let blobs = memory();
    let first = Machine::new(&memory());
    first.bring(&catalogue(&[("a", 1)])).await;
    let shelf = Arc::clone(&first.trees) as Arc<dyn Shelf>;
    let second = Corpus::new(
        first.cache.path(),
        blobs,
        &Collection::default(),
        shelf,
        shape(1),
    );
    let newer = catalogue(&[("a", 1), ("b", 1)]);
    let lock = first.corpus.folder().lock().unwrap().unwrap();
    let brought = second.bring_up_to(&newer, &|_| {}).await.unwrap();
    assert_eq!(
        (brought.behind, brought.entered, found(&second, "a")),
        (1, 0, 1)
    );
    drop(lock);
    assert_eq!(
        second.bring_up_to(&newer, &|_| {}).await.unwrap().entered,
        1
    );
    // What one entered the other need not.
    let brought = first.bring(&newer).await;
    assert_eq!(
        (brought.entered, first.found("b"), first.found("v1")),
        (0, 1, 2)
    );
}

#[tokio::test]
async fn an_update_that_was_cut_off_leaves_the_last_commit() {
    let machine = Machine::new(&memory());
    machine.bring(&catalogue(&[("a", 1)])).await;
    for millis in [0, 1, 3, 9, 27] {
        let everything = many(400);
        let update = machine.corpus.bring_up_to(&everything, &|_| {});
        let cut = tokio::time::timeout(Duration::from_millis(millis), update).await;
        let whole = cut.is_ok();
        let documents = machine.corpus.edition().unwrap().documents();
        assert!(documents == 1 || (whole && documents == 400), "{documents}");
    }
    let machine = machine.restarted();
    // A writer that was dropped may still be letting go of its lock.
    let mut brought = machine.corpus.bring_up_to(&many(400), &|_| {}).await;
    for _ in 0..100 {
        if brought.is_ok() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
        brought = machine.corpus.bring_up_to(&many(400), &|_| {}).await;
    }
    assert_eq!((brought.unwrap().behind, machine.found("v1")), (0, 400));
}

#[tokio::test]
async fn a_new_machine_fetches_what_another_built_and_an_update_uploads_what_is_new() {
    let env = Env::system();
    let blobs = memory();
    let builder = Machine::new(&blobs);
    let Built::Uploaded(brought, first) = builder.build(&env, &many(1_500)).await else {
        panic!("no snapshot")
    };
    assert_eq!(
        (brought.entered, first.seq, first.new_bytes),
        (1_500, 1, first.bytes)
    );
    assert_eq!(builder.build(&env, &many(1_500)).await, Built::Nothing);
    let replica = Machine::new(&blobs);
    let brought = replica.bring(&many(1_501)).await;
    assert_eq!(
        (brought.fetched_bytes, brought.entered, replica.opened()),
        (first.bytes, 1, 1)
    );
    assert_eq!((replica.found("v1"), replica.found("d01500")), (1_501, 1));
    let Built::Uploaded(brought, second) = builder.build(&env, &many(1_502)).await else {
        panic!("no snapshot")
    };
    assert_eq!((brought.entered, second.seq), (2, 2));
    assert!(second.new_bytes * 4 < second.bytes, "{second:?}");
    let manifest = builder.corpus.snapshots.newest().await.unwrap().unwrap().1;
    assert_eq!(
        (manifest.documents, manifest.bytes()),
        (1_502, second.bytes)
    );
    assert_eq!(
        builder
            .corpus
            .snapshots
            .missing(&manifest, true)
            .await
            .unwrap(),
        []
    );
    // One that fell behind goes on from the newest, and fetches only what it has not.
    let brought = replica.restarted();
    let replica = brought;
    let brought = replica.bring(&many(2_600)).await;
    assert!(brought.fetched_bytes < second.bytes / 2, "{brought:?}");
    assert_eq!(
        (brought.entered, replica.found("v1")),
        (2_600 - 1_502, 2_600)
    );
}

#[tokio::test]
async fn of_two_builders_one_wins_and_the_other_goes_on_from_there() {
    let env = Env::system();
    let blobs = memory();
    let one = Machine::new(&blobs);
    let other = Machine::new(&blobs);
    one.build(&env, &many(3)).await;
    assert_eq!(other.build(&env, &many(3)).await, Built::Nothing);
    // Both at once on the same base: claims elect, and if they do not, the manifest does.
    other.corpus.bring_up_to(&many(5), &|_| {}).await.unwrap();
    let base = other.corpus.snapshots.newest().await.unwrap();
    assert!(matches!(
        one.build(&env, &many(4)).await,
        Built::Uploaded(..)
    ));
    assert_eq!(other.corpus.upload(base.as_ref(), 0).await.unwrap(), None);
    let Built::Uploaded(brought, third) = other.build(&env, &many(5)).await else {
        panic!("no snapshot")
    };
    assert_eq!((brought.entered, third.seq, other.found("v1")), (1, 3, 5));
}

#[tokio::test(start_paused = true)]
async fn a_claim_keeps_others_off_until_its_owner_must_have_died() {
    let env = Env::simulated(1);
    let blobs = memory();
    let claims = "c/default/index/00000001/claims/";
    let dead = format!(r#"{{"at_ms":{}}}"#, env.now_ms());
    blobs
        .put(&format!("{claims}000000000001-000001.json"), dead.into())
        .await
        .unwrap();
    let machine = Machine::new(&blobs);
    assert_eq!(machine.build(&env, &many(2)).await, Built::Elsewhere(1));
    env.sleep(Duration::from_secs(121)).await;
    assert!(matches!(
        machine.build(&env, &many(2)).await,
        Built::Uploaded(..)
    ));
    assert_eq!(list_all(blobs.as_ref(), claims).await.unwrap().len(), 2);
}

#[tokio::test]
async fn a_snapshot_that_is_damaged_costs_time_only() {
    let env = Env::system();
    let blobs = memory();
    Machine::new(&blobs).build(&env, &many(20)).await;
    let parts = list_all(blobs.as_ref(), "c/default/index/00000001/parts/")
        .await
        .unwrap();
    blobs.delete(&parts[0]).await.unwrap();
    blobs.put(&parts[0], "torn".into()).await.unwrap();
    let manifest = Snapshots::new(Arc::clone(&blobs), &Collection::default(), 1)
        .newest()
        .await
        .unwrap()
        .unwrap()
        .1;
    let replica = Machine::new(&blobs);
    assert_eq!(
        replica
            .corpus
            .snapshots
            .missing(&manifest, false)
            .await
            .unwrap(),
        []
    );
    assert_eq!(
        replica
            .corpus
            .snapshots
            .missing(&manifest, true)
            .await
            .unwrap()
            .len(),
        1
    );
    let brought = replica.bring(&many(20)).await;
    assert_eq!(
        (brought.fetched_bytes, brought.entered, replica.found("v1")),
        (0, 20, 20)
    );
}

#[tokio::test]
async fn another_revision_has_its_own_files() {
    let env = Env::system();
    let blobs = memory();
    let old = Machine::new(&blobs);
    old.build(&env, &many(3)).await;
    let shelf = Arc::clone(&old.trees) as Arc<dyn Shelf>;
    let new = Corpus::new(
        old.cache.path(),
        Arc::clone(&blobs),
        &Collection::default(),
        shelf,
        shape(2),
    );
    let brought = new.bring_up_to(&many(3), &|_| {}).await.unwrap();
    assert_eq!((brought.entered, brought.fetched_bytes), (3, 0));
    assert_eq!(old.bring(&many(3)).await, Brought::default());
    let replaced = build(&env, blobs.as_ref(), &new, &many(4), &|_| {})
        .await
        .unwrap();
    assert!(matches!(replaced, Built::Uploaded(..)));
    // Once nothing of it is young, all of the other revision is garbage.
    let of = |revision, now_ms| {
        let blobs = Arc::clone(&blobs);
        async move {
            superseded(&blobs, &Collection::default(), revision, now_ms)
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
async fn superseded_snapshots_go_after_a_day_and_take_their_parts_along() {
    let env = Env::system();
    let blobs = memory();
    let builder = Machine::new(&blobs);
    for count in [900, 901, 902, 903] {
        assert!(matches!(
            builder.build(&env, &many(count)).await,
            Built::Uploaded(..)
        ));
    }
    let collection = Collection::default();
    assert_eq!(
        superseded(&blobs, &collection, 1, env.now_ms())
            .await
            .unwrap()
            .len(),
        3
    ); // old claims
    let gone = superseded(&blobs, &collection, 1, env.now_ms() + GRACE_MS + 60_000)
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
    let newest = builder.corpus.snapshots.newest().await.unwrap().unwrap();
    assert_eq!(
        (
            newest.0,
            builder
                .corpus
                .snapshots
                .missing(&newest.1, true)
                .await
                .unwrap()
        ),
        (4, vec![])
    );
    let replica = Machine::new(&blobs);
    assert_eq!(
        (replica.bring(&many(903)).await.entered, replica.found("v1")),
        (0, 903)
    );
}
