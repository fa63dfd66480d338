//! Runs tesseract.

use std::ffi::OsStr;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use stemma_extract::{ExtractError, RecognizeRequest};

use crate::gray::Gray;

// A dense page takes two to three seconds of CPU time. The wall clock has room for a busy machine.
const MAX_CPU_SECONDS: u64 = 20;
const MAX_WAIT: Duration = Duration::from_secs(120);
// Address space. A page of 20 million pixels takes some 400 MB.
const MAX_MEMORY_BYTES: u64 = 1 << 30;
// Markup is some 150 bytes for a word.
const MAX_OUTPUT_BYTES: u64 = 32 << 20;
const MAX_STDERR_BYTES: u64 = 4 << 10;
const POLL: Duration = Duration::from_millis(10);

/// Recognizes the text of an image, as hOCR.
pub(crate) fn recognize(
    image: &Gray,
    dpi: u32,
    request: &RecognizeRequest,
) -> Result<String, ExtractError> {
    let languages = request.languages.join("+");
    let dpi = dpi.to_string();
    // Fully automatic layout, without looking for the orientation.
    let arguments = [
        "-", "-", "-l", &languages, "--psm", "3", "--dpi", &dpi, "hocr",
    ];
    run(&request.program, &arguments, Some(image)).map_err(|failure| failure.into_error(request))
}

/// By how many degrees an image has to be turned clockwise to be upright; `None` if that cannot be seen.
pub(crate) fn upright_turn(image: &Gray, request: &RecognizeRequest) -> Option<u16> {
    let output = run(&request.program, &["-", "-", "--psm", "0"], Some(image)).ok()?;
    let line = output.lines().find_map(|line| line.strip_prefix("Rotate:"));
    line?.trim().parse().ok()
}

/// The absolute path of tesseract in a search path such as `$PATH`.
pub fn find_program(search_path: Option<&OsStr>) -> Option<PathBuf> {
    let mut candidates = std::env::split_paths(search_path?).map(|folder| folder.join("tesseract"));
    candidates.find(|path| path.is_absolute() && path.is_file())
}

/// The version of a program, and the languages that it reads.
///
/// # Errors
///
/// A sentence that says why it does not run.
pub fn installed(program: &Path) -> Result<(String, Vec<String>), String> {
    let output = |argument| {
        run(program, &[argument], None).map_err(|failure| match failure {
            RunFailure::NotStarted(error) => error.to_string(),
            RunFailure::TimedOut => "it does not answer".into(),
            RunFailure::Failed(stderr) => stderr,
        })
    };
    let version = output("--version")?;
    let version = version.lines().next().unwrap_or_default();
    let languages = output("--list-langs")?;
    let languages = languages.lines().skip(1).map(str::trim);
    // `osd` finds the orientation of pages, it is no language.
    let languages = languages.filter(|name| !matches!(*name, "" | "osd"));
    let version = version.trim_start_matches("tesseract ").to_owned();
    Ok((version, languages.map(str::to_owned).collect()))
}

enum RunFailure {
    NotStarted(io::Error),
    TimedOut,
    // What it wrote to standard error.
    Failed(String),
}

impl RunFailure {
    fn into_error(self, request: &RecognizeRequest) -> ExtractError {
        match self {
            Self::NotStarted(error) => ExtractError::new(
                "ocr.no_engine",
                format!("{} cannot be started: {error}", request.program.display()),
                NO_ENGINE_NEXT,
            ),
            Self::TimedOut => ExtractError::new(
                "ocr.timeout",
                format!("recognizing the text takes more than {MAX_CPU_SECONDS} s of CPU time"),
                "look at the page: it may be a photograph",
            ),
            Self::Failed(stderr) if stderr.contains("Failed loading language") => {
                ExtractError::new(
                    "ocr.language_missing",
                    format!(
                        "tesseract has no data for {}",
                        request.languages.join(" or ")
                    ),
                    "install it, as the package tesseract-ocr-LANGUAGE, or set ocr.languages to what `stemma doctor` lists",
                )
            }
            Self::Failed(stderr) => failed(stderr),
        }
    }
}

const NO_ENGINE_NEXT: &str =
    "install tesseract, as the package tesseract-ocr, or ingest with `--ocr never`";

pub(crate) fn failed(why: impl Into<String>) -> ExtractError {
    ExtractError::new(
        "ocr.failed",
        why,
        "try again, or look at the page: its image may be damaged",
    )
}

fn run(program: &Path, arguments: &[&str], input: Option<&Gray>) -> Result<String, RunFailure> {
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env_clear()
        // One page is one task; more threads slow each other down.
        .env("OMP_THREAD_LIMIT", "1")
        .current_dir("/")
        .stdin(if input.is_some() {
            Stdio::piped()
        } else {
            Stdio::null()
        })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().map_err(RunFailure::NotStarted)?;
    limit(&child);
    let stdin = child.stdin.take();
    let stdout = child.stdout.take();
    let stderr = child.stderr.take();
    thread::scope(|scope| {
        scope.spawn(|| {
            // A program that ends early closes its input; its status says why.
            if let (Some(mut stdin), Some(image)) = (stdin, input) {
                let _ = image.write_pgm(&mut stdin);
            }
        });
        let output = scope.spawn(|| read_up_to(stdout, MAX_OUTPUT_BYTES));
        let errors = scope.spawn(|| read_up_to(stderr, MAX_STDERR_BYTES));
        let status = wait(&mut child);
        let output = output.join().unwrap_or_default();
        let errors = errors.join().unwrap_or_default();
        match status {
            None => Err(RunFailure::TimedOut),
            Some(status) if status.success() => Ok(output),
            Some(status) => Err(RunFailure::Failed(format!(
                "tesseract failed ({status}): {}",
                errors.trim()
            ))),
        }
    })
}

// The confinement of the process that calls is inherited; these are narrower, and there also without it. A program that
// ended already has nothing to limit.
#[cfg(target_os = "linux")]
fn limit(child: &Child) {
    use rustix::process::{Pid, Resource, Rlimit, prlimit};
    for (resource, value) in [
        (Resource::Cpu, MAX_CPU_SECONDS),
        (Resource::As, MAX_MEMORY_BYTES),
    ] {
        let bound = Rlimit {
            current: Some(value),
            maximum: Some(value),
        };
        let _ = prlimit(Some(Pid::from_child(child)), resource, bound);
    }
}

#[cfg(not(target_os = "linux"))]
fn limit(_: &Child) {}

// Reads to the end, so that the writer does not block, and keeps the beginning.
fn read_up_to(pipe: Option<impl Read>, bytes: u64) -> String {
    let mut beginning = Vec::new();
    if let Some(mut pipe) = pipe {
        let _ = pipe.by_ref().take(bytes).read_to_end(&mut beginning);
        let _ = io::copy(&mut pipe, &mut io::sink());
    }
    String::from_utf8_lossy(&beginning).into_owned()
}

// `None` if the program took too long and was killed.
fn wait(child: &mut Child) -> Option<std::process::ExitStatus> {
    let started = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(status)) if is_out_of_time(status) => return None,
            Ok(Some(status)) => return Some(status),
            Ok(None) if started.elapsed() < MAX_WAIT => thread::sleep(POLL),
            _ => {
                let _ = child.kill();
                let _ = child.wait();
                return None;
            }
        }
    }
}

#[cfg(unix)]
fn is_out_of_time(status: std::process::ExitStatus) -> bool {
    use std::os::unix::process::ExitStatusExt;
    // At the limit of CPU time, where both limits are the same, Linux sends SIGKILL instead of SIGXCPU.
    let signals = [
        rustix::process::Signal::XCPU.as_raw(),
        rustix::process::Signal::KILL.as_raw(),
    ];
    status
        .signal()
        .is_some_and(|signal| signals.contains(&signal))
}

#[cfg(not(unix))]
fn is_out_of_time(_: std::process::ExitStatus) -> bool {
    false
}
