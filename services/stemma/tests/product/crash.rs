//! An ingest killed or interrupted at any moment resumes with the same command, without repeating work.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use rustix::process::Signal;

use crate::gate::Gate;
use crate::support::{
    CommandOutput, RunningCommand, StemmaCommand, TestEnv, assert_same, files, objects, results,
    started_tasks,
};

/// Number of new stores, and of kills for each.
const STORES: u64 = 3;
const KILLS_PER_STORE: u64 = 4;
// No more objects come after so long, or the machine is busy: both are moments to kill a process.
const NO_MORE: Duration = Duration::from_secs(1);

/// A number between 0 and 1 that looks like noise; the same for the same seed.
fn noise(seed: u64) -> f64 {
    let mixed = seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    ((mixed ^ (mixed >> 32)) >> 11) as f64 / (1_u64 << 53) as f64
}

/// Inode and time of every artifact and tree of a store.
pub fn stored_files(store: &Path) -> BTreeMap<String, (u64, SystemTime)> {
    let objects = files(&store.join("objects")).into_iter();
    objects
        .filter(|(key, _)| key.contains("/a/") || key.contains("/trees/"))
        .map(|(key, path): (String, std::path::PathBuf)| {
            let metadata = std::fs::metadata(path).unwrap();
            (key, (metadata.ino(), metadata.modified().unwrap()))
        })
        .collect()
}

/// Nothing that was kept is touched, and no stage begins whose artifact was there.
pub fn assert_untouched(
    before: &BTreeMap<String, (u64, SystemTime)>,
    store: &Path,
    answer: &CommandOutput,
    what: &str,
) {
    let now = stored_files(store);
    for (key, stamp) in before {
        assert_eq!(now.get(key), Some(stamp), "{what}: {key} was made again");
    }
    let done: BTreeSet<&str> = before
        .keys()
        .filter_map(|key| Some(key.split_once("/a/")?.1))
        .collect();
    for (stage, task) in started_tasks(answer) {
        assert!(
            !done.contains(task.as_str()),
            "{what}: {stage} {task} began although its artifact was there"
        );
    }
}

/// An ingest that says which stages it begins.
fn ingest(lab: &TestEnv, store: &str) -> StemmaCommand {
    lab.stemma(store, ["--json", "ingest", "filings"])
        .env("STEMMA_LOG", "stemma_engine=debug")
}

/// A moment that depends on the seed: so many objects later, and a little; every fourth right at the start. Behind the gate there
/// may not be so many: then it is when no more come.
fn wait(running: &mut RunningCommand, store: &Path, seed: u64) {
    let more = if seed.is_multiple_of(4) {
        0
    } else {
        (12.0 * noise(seed)) as usize
    };
    let mut count = stored_files(store).len();
    let wanted = count + more;
    let mut grew = Instant::now();
    while count < wanted && grew.elapsed() < NO_MORE {
        assert!(!running.has_ended());
        std::thread::sleep(Duration::from_millis(1));
        let now = stored_files(store).len();
        if now > count {
            grew = Instant::now();
        }
        count = now;
    }
    std::thread::sleep(Duration::from_secs_f64(0.03 * noise(seed + 1000)));
}

#[test]
fn documents_are_finished_one_after_another() {
    let lab = TestEnv::new();
    lab.put_twelve();
    let whole = ingest(&lab, "store").args(&["--jobs", "1"]).run();
    let mut open = 0;
    for (stage, _) in started_tasks(&whole) {
        match stage.as_str() {
            "paginate" => open += 1,
            "publish" => open -= 1,
            _ => {}
        }
        // One document in work, one that waits, and one that is being published.
        assert!(open <= 3, "{:?}", started_tasks(&whole));
    }
    assert_eq!(whole.json()["counts"]["done"], 12);
}

#[test]
fn killed_ingest_resumes_to_identical_bytes() {
    let lab = TestEnv::new();
    lab.put_twelve();
    let twelve = ingest(&lab, "twelve").run();
    assert_eq!(
        started_tasks(&twelve).len(),
        36,
        "twelve documents, three stages each"
    );
    let gate = Gate::close(&lab);
    let ingest = |store: &str| gate.before(ingest(&lab, store));

    for round in 0..STORES {
        let store = format!("store-{round}");
        for blow in 0..KILLS_PER_STORE {
            let before = stored_files(&lab.path(&store));
            let mut running = ingest(&store).start();
            let seed = round * KILLS_PER_STORE + blow;
            wait(&mut running, &lab.path(&store), seed);
            assert!(!running.has_ended());
            running.signal(Signal::KILL);
            assert_untouched(
                &before,
                &lab.path(&store),
                &running.end(),
                &format!("round {round}, blow {blow}"),
            );
        }
    }

    gate.open();
    let whole = ingest("whole").run();
    assert_eq!(whole.json()["counts"]["failed"], 0);
    let expected = results(&lab.path("whole"));
    for round in 0..STORES {
        let store = format!("store-{round}");
        let before = stored_files(&lab.path(&store));
        let last = ingest(&store).run();
        assert_eq!(last.code, Some(0), "{last:?}");
        assert_untouched(
            &before,
            &lab.path(&store),
            &last,
            &format!("round {round}, the end"),
        );
        assert_same(
            &results(&lab.path(&store)),
            &expected,
            &format!("round {round}"),
        );
        assert_eq!(
            files(&lab.path(&store).join("tmp")).len(),
            0,
            "round {round}: left unfinished"
        );
    }
}

#[test]
fn interrupted_ingest_can_be_resumed() {
    let lab = TestEnv::new();
    lab.put_twelve();
    let gate = Gate::close(&lab);
    let running = lab.stemma("store", ["ingest", "filings"]);
    let mut running = gate.before(running).start();
    // Interrupt while some work is done, but not all.
    running.wait_until("an artifact is stored", || {
        !stored_files(&lab.path("store")).is_empty()
    });
    running.signal(Signal::INT);
    gate.open();
    let answer = running.end();
    assert_eq!(answer.code, Some(130), "{answer:?}");
    assert!(
        answer.err.contains("run the same command to resume"),
        "{answer:?}"
    );
    assert!(answer.out.starts_with("stopped at "), "{answer:?}");

    let before = stored_files(&lab.path("store"));
    let second = gate.before(ingest(&lab, "store")).run();
    assert_eq!(second.code, Some(0), "{second:?}");
    assert_untouched(&before, &lab.path("store"), &second, "the second run");
    let third = gate.before(ingest(&lab, "store")).run();
    assert_eq!(third.json()["counts"]["unchanged"], 13);
}

#[test]
fn a_resumed_ingest_counts_the_documents_of_both_runs() {
    let lab = TestEnv::new();
    lab.put_twelve();
    let gate = Gate::close(&lab);
    let ingest = || gate.before(lab.stemma("store", ["ingest", "filings"]));
    let mut running = ingest().start();
    running.wait_until("a document is done", || {
        let mut stored = stored_files(&lab.path("store")).into_keys();
        stored.any(|key| key.contains("/trees/"))
    });
    running.signal(Signal::INT);
    gate.open();
    let first = running.end();
    assert_eq!(first.code, Some(130), "{first:?}");
    // `stopped at 4/13`
    let done = first.out.strip_prefix("stopped at ").unwrap();
    let done: usize = done.split('/').next().unwrap().parse().unwrap();
    assert!(done > 0, "{first:?}");

    let second = ingest().run();
    assert_eq!(second.code, Some(0), "{second:?}");
    let both = second
        .out
        .lines()
        .find(|line| line.contains("together with the run that was interrupted"))
        .unwrap_or_else(|| panic!("{second:?}"));
    let counts = both.split(|c: char| !c.is_ascii_digit());
    let all: usize = counts
        .filter_map(|digits| digits.parse::<usize>().ok())
        .sum();
    assert_eq!(all, 13, "{both}");
    // A run that was not interrupted counts its own.
    let third = ingest().run();
    assert!(!third.out.contains("interrupted"), "{third:?}");
}

#[test]
fn ingest_ends_when_its_store_is_deleted() {
    for is_replaced in [false, true] {
        let lab = TestEnv::new();
        lab.put_twelve();
        let gate = Gate::close(&lab);
        let running = lab.stemma("store", ["ingest", "filings", "--jobs", "1"]);
        let mut running = gate.before(running).start();
        running.wait_until("an artifact is stored", || {
            !stored_files(&lab.path("store")).is_empty()
        });
        std::fs::rename(lab.path("store"), lab.path("deleted")).unwrap();
        if is_replaced {
            std::fs::create_dir_all(lab.path("store/objects")).unwrap();
            std::fs::create_dir_all(lab.path("store/tmp")).unwrap();
        }
        gate.open();
        let answer = running.end();
        assert_eq!(answer.code, Some(2), "{answer:?}");
        assert!(answer.err.contains("was deleted, replaced"), "{answer:?}");
        assert!(
            answer.err.contains("run the same command again"),
            "{answer:?}"
        );
        assert_eq!(objects(&lab.path("store")).len(), 0, "{answer:?}");
        std::fs::remove_dir_all(lab.path("store")).ok();
        let again = lab.ingest("store", &["--ocr", "never"]);
        assert_eq!(again["counts"]["done"], 12);
    }
}

#[test]
fn ingest_ends_when_the_objects_of_its_job_are_deleted() {
    let lab = TestEnv::new();
    lab.put_twelve();
    let gate = Gate::close(&lab);
    let running = lab.stemma("store", ["ingest", "filings", "--jobs", "1"]);
    let mut running = gate.before(running).start();
    running.wait_until("an artifact is stored", || {
        !stored_files(&lab.path("store")).is_empty()
    });
    // What `rm` leaves of a store that is written to.
    for folder in ["jobs", "c"] {
        let moved = lab.path(&format!("deleted-{folder}"));
        std::fs::rename(lab.path("store/objects").join(folder), moved).unwrap();
    }
    gate.open();
    let answer = running.end();
    assert_eq!(answer.code, Some(2), "{answer:?}");
    assert!(answer.err.contains("was deleted, replaced"), "{answer:?}");
}
