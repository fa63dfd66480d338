//! Disks that are full, or fail otherwise.

use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;

use tantivy::directory::error::{DeleteError, LockError, OpenReadError, OpenWriteError};
use tantivy::directory::{
    AntiCallToken, Directory, DirectoryLock, FileHandle, Lock, MmapDirectory, TerminatingWrite,
    WatchCallback, WatchHandle, WritePtr,
};
use tantivy::schema::STORED;

use super::*;
use crate::index::IndexError;
use crate::index::folder::IndexFolder;
use crate::index::open_shards::OpenShards;

const LIMIT: Duration = Duration::from_secs(60);
const DOCUMENTS: usize = 12;
// More than the queue of a writer holds, so that whoever adds them waits for the writer.
const ENTRIES_OF_DOCUMENT: usize = 60;

// Error codes of Linux.
const EIO: i32 = 5;
const EACCES: i32 = 13;
const EMFILE: i32 = 24;
const ENOSPC: i32 = 28;
const EROFS: i32 = 30;
const EDQUOT: i32 = 122;

// What all files of a disk may take.
#[derive(Debug)]
struct Space {
    free: Mutex<u64>,
    // The least that was ever free.
    least: AtomicU64,
    error: i32,
}

impl Space {
    fn new(free: u64, error: i32) -> Arc<Self> {
        Arc::new(Self {
            free: Mutex::new(free),
            least: AtomicU64::new(free),
            error,
        })
    }

    // As many of `bytes` as there is room for.
    fn take(&self, bytes: u64) -> io::Result<u64> {
        let mut free = self.free.lock().unwrap();
        let taken = bytes.min(*free);
        *free -= taken;
        self.least.fetch_min(*free, Ordering::Relaxed);
        if taken == 0 && bytes > 0 {
            return Err(io::Error::from_raw_os_error(self.error));
        }
        Ok(taken)
    }

    fn give_back(&self, bytes: u64) {
        *self.free.lock().unwrap() += bytes;
    }
}

#[derive(Debug, Clone)]
struct SmallDisk {
    files: MmapDirectory,
    folder: PathBuf,
    space: Arc<Space>,
}

impl SmallDisk {
    fn size(&self, path: &Path) -> u64 {
        fs::metadata(self.folder.join(path)).map_or(0, |metadata| metadata.len())
    }
}

struct SmallFile(WritePtr, Arc<Space>);

impl Write for SmallFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = self.1.take(bytes.len() as u64)? as usize;
        self.0.write_all(&bytes[..room])?;
        Ok(room)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl TerminatingWrite for SmallFile {
    fn terminate_ref(&mut self, token: AntiCallToken) -> io::Result<()> {
        self.0.terminate_ref(token)
    }
}

impl Directory for SmallDisk {
    fn get_file_handle(&self, path: &Path) -> Result<Arc<dyn FileHandle>, OpenReadError> {
        self.files.get_file_handle(path)
    }

    fn delete(&self, path: &Path) -> Result<(), DeleteError> {
        let bytes = self.size(path);
        self.files.delete(path)?;
        self.space.give_back(bytes);
        Ok(())
    }

    fn exists(&self, path: &Path) -> Result<bool, OpenReadError> {
        self.files.exists(path)
    }

    fn open_write(&self, path: &Path) -> Result<WritePtr, OpenWriteError> {
        if *self.space.free.lock().unwrap() == 0 {
            let error = io::Error::from_raw_os_error(self.space.error);
            return Err(OpenWriteError::wrap_io_error(error, path.into()));
        }
        let file = self.files.open_write(path)?;
        Ok(BufWriter::new(Box::new(SmallFile(
            file,
            Arc::clone(&self.space),
        ))))
    }

    fn atomic_read(&self, path: &Path) -> Result<Vec<u8>, OpenReadError> {
        self.files.atomic_read(path)
    }

    fn atomic_write(&self, path: &Path, data: &[u8]) -> io::Result<()> {
        let bytes = data.len() as u64;
        let taken = self.space.take(bytes)?;
        if taken < bytes {
            self.space.give_back(taken);
            return Err(io::Error::from_raw_os_error(self.space.error));
        }
        let before = self.size(path);
        self.files.atomic_write(path, data)?;
        self.space.give_back(before);
        Ok(())
    }

    fn sync_directory(&self) -> io::Result<()> {
        self.files.sync_directory()
    }

    fn acquire_lock(&self, lock: &Lock) -> Result<DirectoryLock, LockError> {
        self.files.acquire_lock(lock)
    }

    fn watch(&self, callback: WatchCallback) -> tantivy::Result<WatchHandle> {
        self.files.watch(callback)
    }
}

fn large_doc_mapper() -> Arc<DocMapper> {
    let mut schema = Schema::builder();
    let doc = schema.add_text_field("doc", STRING);
    let seq = schema.add_u64_field("seq", FAST);
    schema.add_text_field("body", TEXT | STORED);
    Arc::new(DocMapper {
        revision: 1,
        schema: schema.build(),
        doc,
        seq,
        tokenizers: TokenizerManager::default(),
        map: map_many_words,
    })
}

fn map_many_words(entry: &CatalogEntry, _: &OpenDocument, add: &mut dyn FnMut(TantivyDocument)) {
    let fields = large_doc_mapper();
    let body = fields.schema.get_field("body").unwrap();
    let mut word = entry.version.seq;
    for _ in 0..ENTRIES_OF_DOCUMENT {
        let mut document = TantivyDocument::default();
        document.add_text(fields.doc, entry.version.doc.to_string());
        document.add_u64(fields.seq, entry.version.seq);
        let words = (0..30).map(|_| {
            word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            format!("{word:x} ")
        });
        document.add_text(body, words.collect::<String>());
        add(document);
    }
}

// A shard whose generations are on a small disk.
struct SmallMachine {
    shard: ShardIndex,
    _cache: TempDir,
}

impl SmallMachine {
    fn new(space: &Arc<Space>) -> Self {
        let cache = tempfile::tempdir().unwrap();
        let count = ShardCount::default();
        let id = count.shards().next().unwrap();
        let mapper = large_doc_mapper();
        let collection = Collection::default();
        let space = Arc::clone(space);
        let folder = IndexFolder::new(cache.path(), &collection, id, Arc::clone(&mapper));
        let folder = folder.with_directories(Arc::new(move |path| {
            Ok(Box::new(SmallDisk {
                files: MmapDirectory::open(path)?,
                folder: path.into(),
                space: Arc::clone(&space),
            }))
        }));
        let schema = mapper.schema.clone();
        let shard = ShardIndex::new(
            id,
            folder,
            Snapshots::new(memory_blobs(), &collection, 1, id),
            Arc::new(CountingStore::default()),
            mapper,
            Arc::new(OpenShards::new(count, schema)),
        );
        Self {
            shard,
            _cache: cache,
        }
    }

    async fn sync(&self, catalog: &Catalog) -> Result<SyncReport, IndexError> {
        let synced = tokio::time::timeout(LIMIT, self.shard.sync(catalog, &|_| {})).await;
        synced.expect("an update ends, also on a full disk")
    }

    fn indexed(&self) -> usize {
        let generation = self.shard.open_generation().unwrap();
        let searcher = generation.searcher().unwrap();
        generation.versions(&searcher).unwrap().len()
    }

    // Generations on the disk, with the one in use.
    fn generations(&self) -> usize {
        let entries = fs::read_dir(self.shard.folder().path()).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.starts_with('g')).count()
    }
}

// Bytes that an index of `documents` takes at most while it is written. The number of its segments differs a little.
async fn bytes_needed(documents: &Catalog) -> u64 {
    let plenty = Space::new(u64::MAX / 2, ENOSPC);
    let machine = SmallMachine::new(&plenty);
    machine.sync(documents).await.unwrap();
    u64::MAX / 2 - plenty.least.load(Ordering::Relaxed)
}

fn assert_disk_error(updated: &Result<SyncReport, IndexError>, error: i32, context: &str) {
    let expected = io::Error::from_raw_os_error(error);
    match updated {
        Err(IndexError::Disk { error, path }) => {
            assert_eq!(error.to_string(), expected.to_string(), "{context}");
            assert!(path.is_absolute(), "{context}: {}", path.display());
        }
        other => panic!("{context}: {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_ends_each_update_and_the_next_one_with_space_succeeds() {
    let documents = catalog_of(DOCUMENTS);
    let needed = bytes_needed(&documents).await;
    let steps = (0..needed * 9 / 10).step_by(needed as usize / 24);
    'sizes: for free in [1, 100, 2_000].into_iter().chain(steps) {
        let context = format!("{free} of {needed} bytes");
        let space = Space::new(free, ENOSPC);
        let machine = SmallMachine::new(&space);
        for _ in 0..2 {
            let failed = machine.sync(&documents).await;
            // Fewer and larger segments, as on a busy machine, take less, and a commit does not need its merges.
            if failed.is_ok() && free > needed / 2 {
                assert_eq!(machine.indexed(), DOCUMENTS, "{context}");
                continue 'sizes;
            }
            assert_disk_error(&failed, ENOSPC, &context);
        }
        assert!(machine.generations() <= 1, "{context}");
        space.give_back(2 * needed);
        let report = machine.sync(&documents).await;
        let report = report.unwrap_or_else(|error| panic!("{context}: {error}"));
        assert_eq!(
            (report.is_rebuilt, report.indexed, machine.indexed()),
            (false, DOCUMENTS, DOCUMENTS),
            "{context}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_leaves_the_last_commit_as_it_is() {
    let few = catalog_of(4);
    let all = catalog_of(DOCUMENTS);
    let space = Space::new(bytes_needed(&few).await + 40_000, ENOSPC);
    let machine = SmallMachine::new(&space);
    machine.sync(&few).await.unwrap();
    let free = *space.free.lock().unwrap();
    for _ in 0..3 {
        assert_disk_error(&machine.sync(&all).await, ENOSPC, "the second update");
        assert_eq!(machine.indexed(), 4);
    }
    // What the failed updates wrote is gone again, but for lists of files.
    assert!(free - *space.free.lock().unwrap() < 4_000);
    space.give_back(1 << 20);
    let report = machine.sync(&all).await.unwrap();
    assert_eq!((report.is_rebuilt, machine.indexed()), (false, DOCUMENTS));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn errors_of_the_system_are_not_taken_for_damage() {
    let documents = catalog_of(DOCUMENTS);
    let needed = bytes_needed(&documents).await;
    for error in [EIO, EACCES, EMFILE, EROFS, EDQUOT] {
        for free in [0, needed / 3, needed / 2] {
            let machine = SmallMachine::new(&Space::new(free, error));
            let failed = machine.sync(&documents).await;
            assert_disk_error(&failed, error, &format!("{free} of {needed} bytes"));
        }
    }
}
