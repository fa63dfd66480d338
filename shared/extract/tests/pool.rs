//! Tests the pool with real children: this program, started again as `pool child`. It has no test harness, because a
//! child must only call `serve`.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "test code, which clippy cannot detect without a harness"
)]

use std::cell::Cell;
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use stemma_extract::{
    EncodedSource, ExtractError, ExtractJob, Extractor, InProcess, Limits, Pool, PoolSettings,
    extract_and_encode, serve,
};

const WRITE_TARGET: &str = "/tmp/stemma-extract-pool-test";

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let has = |name: &str| arguments.iter().any(|argument| argument == name);
    match arguments.first().map(String::as_str) {
        Some("child") => serve(child).unwrap_or_else(|_| std::process::exit(1)),
        Some("garbage") => garbage(),
        Some("parent") => runtime().block_on(parent()),
        // The protocol of test runners that list first.
        _ if has("--list") && has("--ignored") => {}
        _ if has("--list") => println!("pool: test"),
        _ => {
            runtime().block_on(run_all());
            println!("test pool ... ok");
        }
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
}

// The name of the document selects the child's behavior.
fn child(job: ExtractJob) -> Result<Vec<u8>, ExtractError> {
    match job.name.as_str() {
        "pid" => Ok(std::process::id().to_string().into_bytes()),
        "abort" => std::process::abort(),
        "exit" => std::process::exit(7),
        "panic" => panic!("on purpose"),
        "hang" => loop {
            std::thread::sleep(Duration::from_secs(1));
        },
        // On eight threads, because one of low priority gets next to nothing on a busy machine.
        "spin" => std::thread::scope(|threads| {
            (1..8).for_each(|_| drop(threads.spawn(spin)));
            spin()
        }),
        "wait" => {
            std::thread::sleep(Duration::from_secs(2));
            Ok(b"waited".to_vec())
        }
        "hog" => Ok(vec![1; 4 << 30]),
        "recurse" => Ok(vec![recurse(1)]),
        "large" => Ok(vec![0; 2 << 20]),
        "error" => Err(ExtractError::new("pdf.damaged", "it is broken", "mend it")),
        "environment" => Ok(std::env::vars_os().count().to_string().into_bytes()),
        "write" => Ok(format!("{:?}", std::fs::write(WRITE_TARGET, b"x")).into_bytes()),
        "noise" => {
            (0..10_000).for_each(|_| eprintln!("noise noise noise noise"));
            Ok(Vec::new())
        }
        _ => extract_and_encode(job),
    }
}

#[expect(unconditional_recursion, reason = "the test wants a stack overflow")]
fn recurse(depth: u8) -> u8 {
    let room = std::hint::black_box([depth; 4_096]);
    recurse(room[9]).wrapping_add(room[1])
}

fn spin() -> Result<Vec<u8>, ExtractError> {
    loop {
        std::hint::spin_loop();
    }
}

fn garbage() {
    let _ = std::io::stdout().write_all(&[0x7F; 64]);
    std::thread::sleep(Duration::from_secs(5));
}

fn settings(mode: &str) -> PoolSettings {
    let program = std::env::current_exe().unwrap().into_os_string();
    PoolSettings {
        size: 2,
        max_seconds: 20,
        max_reply_bytes: 1 << 20,
        ..PoolSettings::new(vec![program, OsString::from(mode)])
    }
}

fn job(name: &str) -> ExtractJob {
    ExtractJob::new(name.into(), b"# Title\n".to_vec(), None, Limits::default())
}

async fn text(pool: &Pool, name: &str) -> String {
    String::from_utf8(pool.run(job(name)).await.unwrap()).unwrap()
}

async fn code(pool: &Pool, name: &str) -> String {
    let error = pool.run(job(name)).await.unwrap_err();
    format!("{}: {}", error.code, error.message)
}

async fn run_all() {
    child_output_equals_in_process_output().await;
    crashes_are_isolated_per_document().await;
    the_time_limit_is_cpu_time().await;
    a_killed_child_is_final_only_if_it_was_alone().await;
    a_document_is_read_alone_where_the_job_says_so().await;
    children_are_confined_and_replaced().await;
    children_die_with_their_parent();
}

async fn child_output_equals_in_process_output() {
    let pool = Pool::new(settings("child"));
    let packed = pool.extract(job("a.md")).await.unwrap();
    assert_eq!(packed, InProcess.extract(job("a.md")).await.unwrap());
    assert_eq!(
        EncodedSource::open(packed).unwrap().header().headings[0].title,
        "Title"
    );
    assert_eq!(
        pool.run(job("a.pdf")).await,
        InProcess.extract(job("a.pdf")).await
    );
    assert_eq!(code(&pool, "error").await, "pdf.damaged: it is broken");
}

async fn the_time_limit_is_cpu_time() {
    let pool = Pool::new(settings("child"));
    let run = |name: &str| {
        pool.run(ExtractJob {
            limits: Limits {
                max_seconds: 1,
                ..Limits::default()
            },
            ..job(name)
        })
    };
    // A process that hardly runs says nothing of its document: the machine may be suspended, or very busy.
    let is_stalled = |ended: &Result<_, ExtractError>| {
        let error = ended.as_ref().err();
        error.is_some_and(|error| error.code == "extract.stalled")
    };
    let run_unless_stalled = async |name: &str| loop {
        let ended = run(name).await;
        if !is_stalled(&ended) {
            return ended;
        }
    };
    assert!(is_stalled(&run("hang").await));
    // As on a machine that does other work for twice the limit.
    assert_eq!(run_unless_stalled("wait").await.unwrap(), b"waited");
    let late = run_unless_stalled("spin").await.unwrap_err();
    assert_eq!(late.code, "limits.time");
}

// The out-of-memory killer of the system chooses by what all processes use.
async fn a_killed_child_is_final_only_if_it_was_alone() {
    let pool = Pool::new(PoolSettings {
        size: 2,
        ..settings("child")
    });
    for (alone, expected) in [(false, "extract.killed"), (true, "limits.memory")] {
        let pid = text(&pool, "pid").await;
        let spin = ExtractJob {
            alone,
            ..job("spin")
        };
        let idle = cpu_ticks(&pid);
        let kill = async {
            while cpu_ticks(&pid) < idle + 10 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            let killed = Command::new("kill").args(["-9", &pid]).status();
            assert!(killed.unwrap().success());
        };
        let (ended, ()) = tokio::join!(pool.run(spin), kill);
        assert_eq!(ended.unwrap_err().code, expected);
    }
}

// CPU time that a process has used, in hundredths of a second.
fn cpu_ticks(pid: &str) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let (_, fields) = stat.rsplit_once(')').unwrap();
    fields.split_whitespace().nth(11).unwrap().parse().unwrap()
}

async fn a_document_is_read_alone_where_the_job_says_so() {
    let pool = Pool::new(settings("child"));
    let alone = ExtractJob {
        alone: true,
        ..job("wait")
    };
    let is_read = Cell::new(false);
    let alone = async {
        pool.run(alone).await.unwrap();
        is_read.set(true);
    };
    // Polled second, so it comes when the other is admitted.
    let other = async {
        text(&pool, "pid").await;
        is_read.get()
    };
    let ((), was_read) = tokio::join!(alone, other);
    assert!(was_read);
}

async fn crashes_are_isolated_per_document() {
    let pool = Pool::new(settings("child"));
    let first = text(&pool, "pid").await;
    assert_eq!(first, text(&pool, "pid").await, "a child is reused");
    for (name, expected) in [
        (
            "abort",
            "extract.crashed: the extraction process was ended by signal 6",
        ),
        (
            "exit",
            "extract.crashed: the extraction process ended early (exit status: 7)",
        ),
        ("panic", "extract.crashed: extraction panicked: on purpose"),
        (
            "recurse",
            "extract.crashed: the extraction process overflowed its stack",
        ),
        ("hog", "limits.memory: "),
        ("large", "limits.output: "),
    ] {
        let (got, good) = tokio::join!(code(&pool, name), text(&pool, "environment"));
        assert!(got.starts_with(expected), "{name}: {got}");
        assert_eq!(good, "0", "the environment is empty");
    }
    assert!(
        code(&Pool::new(settings("garbage")), "a.md")
            .await
            .contains("unreadable reply")
    );
    assert!(
        code(&Pool::new(settings("--list")), "a.md")
            .await
            .starts_with("extract.crashed")
    );
    assert_eq!(text(&pool, "noise").await, "");
}

async fn children_are_confined_and_replaced() {
    let pool = Pool::new(PoolSettings {
        size: 1,
        recycle_after_documents: 3,
        ..settings("child")
    });
    assert!(
        code(&pool, "write").await.ends_with("signal 25"),
        "writing to a file raises SIGXFSZ"
    );
    let _ = std::fs::remove_file(WRITE_TARGET);
    let mut pids = Vec::new();
    for _ in 0..6 {
        pids.push(text(&pool, "pid").await);
    }
    assert!(
        pids[0] == pids[2] && pids[2] != pids[3] && pids[3] == pids[5],
        "{pids:?}"
    );
    let greedy = Pool::new(PoolSettings {
        recycle_above_bytes: 1,
        ..settings("child")
    });
    assert_ne!(text(&greedy, "pid").await, text(&greedy, "pid").await);
}

// Prints the pid of its child, then blocks on a document until killed.
async fn parent() {
    let pool = Pool::new(PoolSettings {
        size: 1,
        ..settings("child")
    });
    println!("{}", text(&pool, "pid").await);
    let _ = pool.run(job("hang")).await;
}

fn children_die_with_their_parent() {
    if !cfg!(target_os = "linux") {
        return;
    }
    let mut parent = Command::new(std::env::current_exe().unwrap())
        .arg("parent")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut child = String::new();
    BufReader::new(parent.stdout.take().unwrap())
        .read_line(&mut child)
        .unwrap();
    let path = format!("/proc/{}", child.trim());
    assert!(std::path::Path::new(&path).exists());
    parent.kill().unwrap();
    parent.wait().unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    // The process that adopts the child may be slow to reap it; a zombie counts as dead.
    let lives =
        || std::fs::read_to_string(format!("{path}/stat")).is_ok_and(|stat| !stat.contains(") Z "));
    while lives() {
        assert!(Instant::now() < deadline, "the child outlives its parent");
        std::thread::sleep(Duration::from_millis(50));
    }
}
