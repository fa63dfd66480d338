//! Helpers of these tests: generated filings, the binary with a time limit, and reading stores.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use stemma_document::{Gap, PublishedTree, Section, TreeObject};
use stemma_engine_testing::processes::wait_until_stopped;
use stemma_engine_testing::wait::block_until;
use stemma_filings::{ContentsMode, FilingKind, Spec, generate};
use tempfile::TempDir;

/// How long one command may take, on a machine that does much else.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(240);

/// A folder with documents in `filings/` and any number of stores next to it.
pub struct TestEnv(TempDir);

impl TestEnv {
    pub fn new() -> Self {
        let lab = Self(tempfile::tempdir().unwrap());
        fs::create_dir(lab.filings()).unwrap();
        lab
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn filings(&self) -> PathBuf {
        self.path("filings")
    }

    /// Writes a document, or writes over it.
    pub fn put(&self, name: &str, bytes: impl AsRef<[u8]>) {
        let path = self.filings().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    /// Twelve small filings of all kinds, in two folders.
    pub fn put_twelve(&self) {
        for n in 0..12_u64 {
            let kind = FilingKind::ALL[n as usize % 7];
            let contents = ContentsMode::ALL[n as usize % 5];
            let spec = Spec {
                pages: 3 + n as u32 % 4,
                contents,
                ..Spec::new(kind, 40 + n)
            };
            self.put(
                &format!("{}/{}-{n}.pdf", n % 2, kind.name()),
                generate(&spec).pdf,
            );
        }
    }

    /// A command on the store of this name.
    pub fn stemma<I: AsRef<std::ffi::OsStr>>(
        &self,
        store: &str,
        arguments: impl IntoIterator<Item = I>,
    ) -> StemmaCommand {
        let store_path = self.path(store);
        let named = [std::ffi::OsStr::new("--store"), store_path.as_os_str()];
        let arguments: Vec<I> = arguments.into_iter().collect();
        let arguments = arguments.iter().map(AsRef::as_ref);
        self.stemma_in(".", named.into_iter().chain(arguments))
    }

    /// A command in a folder, on the store that it finds there.
    pub fn stemma_in<I: AsRef<std::ffi::OsStr>>(
        &self,
        folder: &str,
        arguments: impl IntoIterator<Item = I>,
    ) -> StemmaCommand {
        let mut command = Command::new(env!("CARGO_BIN_EXE_stemma"));
        command.current_dir(self.path(folder)).args(arguments);
        for (name, _) in
            std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("STEMMA_"))
        {
            command.env_remove(name);
        }
        command
            .env_remove("NO_COLOR")
            .env_remove("COLUMNS")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        StemmaCommand(command)
    }

    /// A script for `sh`, with its arguments from `$0` on.
    pub fn shell<'a>(
        &self,
        script: &str,
        arguments: impl IntoIterator<Item = &'a str>,
    ) -> CommandOutput {
        let mut command = Command::new("sh");
        command
            .current_dir(self.0.path())
            .arg("-c")
            .arg(script)
            .args(arguments);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        StemmaCommand(command).run()
    }

    /// Ingests all documents; returns the JSON of the answer.
    pub fn ingest(&self, store: &str, more: &[&str]) -> Value {
        let answer = self
            .stemma(store, ["--json", "ingest", "filings"])
            .args(more)
            .run();
        assert!(matches!(answer.code, Some(0 | 3)), "{answer:?}");
        answer.json()
    }
}

/// A command about to run.
pub struct StemmaCommand(Command);

impl From<StemmaCommand> for Command {
    fn from(command: StemmaCommand) -> Self {
        command.0
    }
}

impl StemmaCommand {
    pub fn args(mut self, arguments: &[&str]) -> Self {
        self.0.args(arguments);
        self
    }

    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.0.env(name, value);
        self
    }

    pub fn start(mut self) -> RunningCommand {
        let mut child = self.0.spawn().unwrap();
        let out = drain(child.stdout.take().unwrap());
        let err = drain(child.stderr.take().unwrap());
        RunningCommand {
            child,
            out,
            err,
            since: Instant::now(),
        }
    }

    pub fn run(self) -> CommandOutput {
        self.start().end()
    }
}

/// A command that runs.
pub struct RunningCommand {
    child: Child,
    out: JoinHandle<Vec<u8>>,
    err: JoinHandle<Vec<u8>>,
    since: Instant,
}

impl RunningCommand {
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Suspends it; it does nothing more once this returns.
    pub fn suspend(&mut self) {
        self.signal(Signal::STOP);
        wait_until_stopped(self.pid());
    }

    /// Sends a signal, unless it has ended.
    pub fn signal(&mut self, signal: Signal) {
        if self.has_ended() {
            return;
        }
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        // Even if it ends right now it is not reaped before this, so the number is still its own.
        kill_process(pid, signal).unwrap();
    }

    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Waits until `holds` is true, which a command that has ended does not reach.
    pub fn wait_until(&mut self, what: &str, mut holds: impl FnMut() -> bool) {
        block_until(what, || {
            let is_met = holds();
            assert!(is_met || !self.has_ended(), "it has ended, and not: {what}");
            is_met
        });
    }

    /// Waits until it has ended; a command that takes too long is killed, and fails the test.
    pub fn end(mut self) -> CommandOutput {
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            if self.since.elapsed() > COMMAND_TIMEOUT {
                self.child.kill().unwrap();
                self.child.wait().unwrap();
                let err = String::from_utf8_lossy(&self.err.join().unwrap()).into_owned();
                panic!("not ended after {COMMAND_TIMEOUT:?}: {err}");
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        let text = |bytes: JoinHandle<Vec<u8>>| String::from_utf8(bytes.join().unwrap()).unwrap();
        CommandOutput {
            code: status.code(),
            out: text(self.out),
            err: text(self.err),
        }
    }
}

fn drain(mut pipe: impl Read + Send + 'static) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        pipe.read_to_end(&mut bytes).unwrap();
        bytes
    })
}

/// The result of a command.
#[derive(Debug)]
pub struct CommandOutput {
    /// `None`: ended by a signal.
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl CommandOutput {
    /// The one JSON value on standard output.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// Files below `folder` by their path relative to it, in order; none where there is no such folder (yet).
pub fn files(folder: &Path) -> BTreeMap<String, PathBuf> {
    let entries = walkdir::WalkDir::new(folder)
        .into_iter()
        .filter_map(Result::ok);
    let files = entries
        .filter(|entry| entry.file_type().is_file())
        .map(|entry| {
            let key = entry
                .path()
                .strip_prefix(folder)
                .unwrap()
                .to_str()
                .unwrap()
                .to_string();
            (key, entry.into_path())
        });
    files.collect()
}

/// The objects of a store by key.
pub fn objects(store: &Path) -> BTreeMap<String, Vec<u8>> {
    files(&store.join("objects"))
        .into_iter()
        .map(|(key, path): (String, PathBuf)| (key, fs::read(path).unwrap()))
        .collect()
}

/// Whether a store has an object with this in its key.
pub fn has_object(store: &Path, part: &str) -> bool {
    let keys = files(&store.join("objects"));
    keys.keys().any(|key| key.contains(part))
}

/// Trees, artifacts and versions of all documents: what every run over the same documents must come to. Of versions,
/// only which job claimed them first is the run's own.
pub fn results(store: &Path) -> BTreeMap<String, Vec<u8>> {
    let is_compared = |key: &str| {
        ["/a/", "/trees/", "/versions/"]
            .iter()
            .any(|part| key.contains(part))
    };
    let mut results = objects(store);
    results.retain(|key, _| key.starts_with("c/") && is_compared(key));
    for (_, bytes) in results
        .iter_mut()
        .filter(|(key, _)| key.contains("/versions/"))
    {
        let mut version: Value = serde_json::from_slice(bytes).unwrap();
        version["opened_by"] = Value::Null;
        *bytes = version.to_string().into_bytes();
    }
    results
}

/// Says which keys differ, and nothing of their megabytes.
pub fn assert_same(
    actual: &BTreeMap<String, Vec<u8>>,
    expected: &BTreeMap<String, Vec<u8>>,
    what: &str,
) {
    let differ = expected
        .keys()
        .chain(actual.keys())
        .filter(|key| actual.get(*key) != expected.get(*key));
    let differ: Vec<_> = differ
        .map(|key| (key, actual.contains_key(key), expected.contains_key(key)))
        .collect();
    assert!(
        differ.is_empty(),
        "{what}: differ (key, found, wanted): {differ:?}"
    );
}

/// The newest trees of a store by the paths of their documents.
pub fn trees(store: &Path) -> BTreeMap<String, PublishedTree> {
    let mut trees = BTreeMap::new();
    for (_, bytes) in objects(store)
        .into_iter()
        .filter(|(key, _)| key.contains("/trees/"))
    {
        if let TreeObject::Published(published) = serde_json::from_slice(&bytes).unwrap() {
            trees.insert(published.version.path.clone(), *published);
        }
    }
    trees
}

/// First page of a section; its first line in a text.
pub fn start_position(section: &Section) -> u32 {
    match section.span {
        stemma_document::SectionSpan::Pages { pages, .. } => pages.start().get(),
        stemma_document::SectionSpan::Lines { start, .. } => start,
    }
}

/// Codes of gaps with their first pages.
pub fn codes(gaps: &[Gap]) -> Vec<(&str, Option<u32>)> {
    gaps.iter()
        .map(|gap| {
            (
                gap.code.as_str(),
                gap.pages.map(|pages| pages.start().get()),
            )
        })
        .collect()
}

/// Stage and task of everything a command began, in order; it must have been run with `STEMMA_LOG=stemma_engine=debug`.
pub fn started_tasks(answer: &CommandOutput) -> Vec<(String, String)> {
    let field = |line: &str, name: &str| {
        let value = line.split_once(&format!(" {name}="))?.1.split(' ').next()?;
        Some(value.trim_matches('"').to_string())
    };
    let lines = answer
        .err
        .lines()
        .filter(|line| line.contains("stage started"));
    lines
        .filter_map(|line| Some((field(line, "stage")?, field(line, "task")?)))
        .collect()
}
