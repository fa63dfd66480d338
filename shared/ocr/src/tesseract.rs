//! Runs tesseract.

use std::ffi::OsStr;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use stemma_extract::{ExtractError, RecognizeRequest};

use crate::cpu_budget::CpuBudget;
use crate::gray::Gray;
use crate::program_processes::ProgramProcesses;

// The wall clock has room for a busy machine.
const MAX_WAIT: Duration = Duration::from_secs(120);
// Of all its processes; also the address space of each. A page of 20 million pixels of noise takes less than 400 MB.
const MAX_MEMORY_BYTES: u64 = 500_000_000;
// Markup is some 150 bytes for a word.
const MAX_OUTPUT_BYTES: u64 = 32 << 20;
const MAX_STDERR_BYTES: u64 = 4 << 10;
const POLL: Duration = Duration::from_millis(10);
// How often the system is asked what all processes use. Asking takes some milliseconds.
const USAGE_POLL: Duration = Duration::from_millis(250);

/// An image with what was found out about it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TextImage<'i> {
    pub(crate) pixels: &'i Gray,
    pub(crate) dpi: u32,
    pub(crate) segmentation: Segmentation,
    pub(crate) is_blurred: bool,
}

/// Where lines of text are searched for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Segmentation {
    /// Across the image.
    Lines,
    /// In blocks of text, as columns and captions.
    Blocks,
    /// Anywhere.
    Sparse,
}

impl Segmentation {
    // The mode of tesseract. None of these looks for the orientation.
    fn mode(self) -> &'static str {
        match self {
            Self::Lines => "6",
            Self::Blocks => "3",
            Self::Sparse => "11",
        }
    }
}

/// Recognizes the text of an image, as hOCR.
pub(crate) fn recognize(
    image: TextImage<'_>,
    request: &RecognizeRequest,
    budget: &CpuBudget,
) -> Result<String, ExtractError> {
    let languages = request.languages.join("+");
    let dpi = image.dpi.to_string();
    let mut arguments = vec!["-", "-"];
    if image.is_blurred {
        // By Sauvola. One bound for the whole page, which is better where letters have sharp edges, loses the fine strokes.
        arguments.extend(["-c", "thresholding_method=2"]);
    }
    let mode = image.segmentation.mode();
    arguments.extend(["-l", &languages, "--psm", mode, "--dpi", &dpi, "hocr"]);
    run(&request.program, &arguments, Some(image.pixels), budget)
        .map_err(|failure| failure.into_error(request))
}

/// By how many degrees an image has to be turned clockwise to be upright; `None` if that cannot be seen.
pub(crate) fn upright_turn(
    image: &Gray,
    request: &RecognizeRequest,
    budget: &CpuBudget,
) -> Result<Option<u16>, ExtractError> {
    let arguments = ["-", "-", "--psm", "0"];
    let output = match run(&request.program, &arguments, Some(image), budget) {
        Ok(output) => output,
        // The status of tesseract says that a page has few letters.
        Err(RunFailure::Failed(_)) => return Ok(None),
        Err(failure) => return Err(failure.into_error(request)),
    };
    let line = output.lines().find_map(|line| line.strip_prefix("Rotate:"));
    Ok(line.and_then(|degrees| degrees.trim().parse().ok()))
}

/// The absolute path of tesseract in a search path such as `$PATH`.
pub fn find_program(search_path: Option<&OsStr>) -> Option<PathBuf> {
    let mut candidates = std::env::split_paths(search_path?).map(|folder| folder.join("tesseract"));
    candidates.find(|path| path.is_absolute() && path.is_file())
}

/// The version of a program, and the names of its data: languages, and `osd`, which finds the orientation of pages.
///
/// # Errors
///
/// A sentence that says why it does not run.
pub fn installed(program: &Path) -> Result<(String, Vec<String>), String> {
    let output = |argument| {
        let budget = CpuBudget::start();
        run(program, &[argument], None, &budget).map_err(|failure| match failure {
            RunFailure::NotStarted(error) => error.to_string(),
            RunFailure::TimedOut | RunFailure::Stalled => "it does not answer".into(),
            RunFailure::Killed => "the system killed it".into(),
            RunFailure::TooLarge => "it takes too much memory".into(),
            RunFailure::Failed(stderr) => stderr,
        })
    };
    let version = output("--version")?;
    let version = version.lines().next().unwrap_or_default();
    let languages = output("--list-langs")?;
    let languages = languages.lines().skip(1).map(str::trim);
    let languages = languages.filter(|name| !name.is_empty());
    let version = version.trim_start_matches("tesseract ").to_owned();
    Ok((version, languages.map(str::to_owned).collect()))
}

#[derive(Debug)]
enum RunFailure {
    NotStarted(io::Error),
    TimedOut,
    // The machine did not let it run.
    Stalled,
    Killed,
    TooLarge,
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
            Self::TimedOut => RecognizeRequest::timeout_error(),
            // As of the process that reads documents: another attempt may succeed.
            Self::Stalled => ExtractError::new(
                "extract.stalled",
                format!("tesseract did not end in {} s", MAX_WAIT.as_secs()),
                "see whether the machine is overloaded or was suspended",
            ),
            Self::Killed => ExtractError::new(
                "extract.killed",
                "tesseract was killed by the system",
                "give the worker more memory, or lower local.concurrency",
            ),
            Self::TooLarge => ExtractError::new(
                "limits.memory",
                format!(
                    "tesseract takes more than {} MB",
                    MAX_MEMORY_BYTES / 1_000_000
                ),
                "look at the page: its image may be of unusual size",
            ),
            Self::Failed(stderr) if stderr.contains(NO_LANGUAGE) => ExtractError::new(
                "ocr.language_missing",
                format!(
                    "tesseract has no data for {}",
                    request.languages.join(" or ")
                ),
                "install it, as the package tesseract-ocr-LANGUAGE, or set ocr.languages to what `stemma doctor` lists",
            ),
            Self::Failed(stderr) => failed(stderr),
        }
    }
}

// It says so on standard error, and goes on if it has another language.
const NO_LANGUAGE: &str = "Failed loading language";
const NO_ENGINE_NEXT: &str =
    "install tesseract, as the package tesseract-ocr, or ingest with `--ocr never`";

pub(crate) fn failed(why: impl Into<String>) -> ExtractError {
    ExtractError::new(
        "ocr.failed",
        why,
        "try again, or look at the page: its image may be damaged",
    )
}

// Limits of a program with all that it starts.
#[derive(Debug, Clone, Copy)]
struct Limits {
    cpu_seconds: u64,
    memory_bytes: u64,
}

fn run(
    program: &Path,
    arguments: &[&str],
    input: Option<&Gray>,
    budget: &CpuBudget,
) -> Result<String, RunFailure> {
    let limits = Limits {
        cpu_seconds: budget.seconds_left().ok_or(RunFailure::TimedOut)?,
        memory_bytes: MAX_MEMORY_BYTES,
    };
    run_within(limits, program, arguments, input)
}

fn run_within(
    limits: Limits,
    program: &Path,
    arguments: &[&str],
    input: Option<&Gray>,
) -> Result<String, RunFailure> {
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
    // Its processes are told from others by their group. An extraction child leads one, which ends with it.
    #[cfg(unix)]
    if rustix::process::getpgrp() != rustix::process::getpid() {
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
    }
    let mut child = command.spawn().map_err(RunFailure::NotStarted)?;
    limit(&child, limits);
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
        let status = wait(&mut child, limits);
        let output = output.join().unwrap_or_default();
        let errors = errors.join().unwrap_or_default();
        let status = status?;
        match signal(status) {
            Some(CPU_TIME_EXCEEDED) => Err(RunFailure::TimedOut),
            Some(KILLED) => Err(RunFailure::Killed),
            _ if status.success() && !errors.contains(NO_LANGUAGE) => Ok(output),
            _ => Err(RunFailure::Failed(format!(
                "tesseract failed ({status}): {}",
                errors.trim()
            ))),
        }
    })
}

// The confinement of the process that calls is inherited; these are narrower, and there also without it. A program that
// ended already has nothing to limit.
#[cfg(target_os = "linux")]
fn limit(child: &Child, limits: Limits) {
    use rustix::process::{Pid, Resource, Rlimit, prlimit};
    // Linux sends SIGXCPU at the first limit and SIGKILL at the second, which must not be the same, because SIGKILL has other
    // causes. Both are above the limit of all processes together: one that the system ends may be missed by the others, which
    // then wait for it.
    let Limits {
        cpu_seconds,
        memory_bytes,
    } = limits;
    for (resource, current, maximum) in [
        (Resource::Cpu, cpu_seconds + 1, cpu_seconds + 2),
        (Resource::As, memory_bytes, memory_bytes),
    ] {
        let bound = Rlimit {
            current: Some(current),
            maximum: Some(maximum),
        };
        let _ = prlimit(Some(Pid::from_child(child)), resource, bound);
    }
}

#[cfg(not(target_os = "linux"))]
fn limit(_: &Child, _: Limits) {}

// Reads to the end, so that the writer does not block, and keeps the beginning.
fn read_up_to(pipe: Option<impl Read>, bytes: u64) -> String {
    let mut beginning = Vec::new();
    if let Some(mut pipe) = pipe {
        let _ = pipe.by_ref().take(bytes).read_to_end(&mut beginning);
        let _ = io::copy(&mut pipe, &mut io::sink());
    }
    String::from_utf8_lossy(&beginning).into_owned()
}

// Kills a program that takes too much, and in any case what it started.
fn wait(child: &mut Child, limits: Limits) -> Result<ExitStatus, RunFailure> {
    let processes = ProgramProcesses::new(child.id());
    let ended = wait_within(child, limits, processes);
    if ended.is_err() {
        let _ = child.kill();
        let _ = child.wait();
    }
    if let Some(processes) = processes {
        processes.kill();
    }
    ended
}

fn wait_within(
    child: &mut Child,
    limits: Limits,
    processes: Option<ProgramProcesses>,
) -> Result<ExitStatus, RunFailure> {
    let started = Instant::now();
    let mut last_poll = started;
    while started.elapsed() < MAX_WAIT {
        match child.try_wait() {
            Ok(Some(status)) => return Ok(status),
            Ok(None) => thread::sleep(POLL),
            Err(_) => break,
        }
        if let Some(processes) = processes.filter(|_| last_poll.elapsed() >= USAGE_POLL) {
            let usage = processes.usage();
            if usage.cpu_seconds >= limits.cpu_seconds as f64 {
                return Err(RunFailure::TimedOut);
            }
            if usage.bytes > limits.memory_bytes {
                return Err(RunFailure::TooLarge);
            }
            last_poll = Instant::now();
        }
    }
    Err(RunFailure::Stalled)
}

const KILLED: i32 = 9;
const CPU_TIME_EXCEEDED: i32 = 24;

// A shell that waited for a program which a signal ended exits with 128 and its number.
#[cfg(unix)]
fn signal(status: ExitStatus) -> Option<i32> {
    std::os::unix::process::ExitStatusExt::signal(&status)
        .or_else(|| status.code()?.checked_sub(128).filter(|number| *number > 0))
}

#[cfg(not(unix))]
fn signal(_: ExitStatus) -> Option<i32> {
    None
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;

    fn shell(script: &str, budget: &CpuBudget) -> Result<String, RunFailure> {
        let image = Gray::new(2, 2, vec![255; 4]).unwrap();
        run(Path::new("/bin/sh"), &["-c", script], Some(&image), budget)
    }

    fn code(script: &str, budget: &CpuBudget) -> &'static str {
        let request = RecognizeRequest {
            page: stemma_document::PageNo::FIRST,
            program: "/bin/sh".into(),
            languages: vec!["eng".into(), "deu".into()],
            second_reader: None,
        };
        let failure = shell(script, budget).unwrap_err();
        failure.into_error(&request).code
    }

    #[test]
    fn programs_get_the_image_and_nothing_else() {
        let budget = CpuBudget::start();
        let output = shell("head -n 3 | tr '\\n' ' '; pwd; env", &budget).unwrap();
        assert!(output.starts_with("P5 2 2 255 /\n"), "{output}");
        assert!(!output.contains("PATH="), "{output}");
    }

    #[test]
    fn failures_of_the_program_have_codes() {
        let budget = CpuBudget::start();
        for (script, expected) in [
            ("exit 1", "ocr.failed"),
            ("kill -ABRT $$", "ocr.failed"),
            ("kill -KILL $$", "extract.killed"),
            (
                "echo \"Failed loading language 'deu'\" >&2; exit 1",
                "ocr.language_missing",
            ),
            // It reads with the other language then, which is not what was asked for.
            (
                "echo \"Failed loading language 'deu'\" >&2",
                "ocr.language_missing",
            ),
        ] {
            assert_eq!(code(script, &budget), expected, "{script}");
        }
        let missing = run(Path::new("/no/tesseract"), &[], None, &budget);
        assert!(matches!(missing, Err(RunFailure::NotStarted(_))));
    }

    #[test]
    fn endless_programs_end_when_their_cpu_time_is_used_up() {
        let budget = CpuBudget::for_seconds(1);
        assert_eq!(code("while :; do :; done", &budget), "ocr.timeout");
        assert_eq!(code("exit 0", &budget), "ocr.timeout", "nothing is left");
    }

    #[test]
    fn processes_that_a_script_starts_share_its_limits_and_end_with_it() {
        let spin = "while :; do :; done";
        for script in [
            format!("({spin}) & ({spin}) & wait"),
            format!("/bin/sh -c '{spin}'; exit $?"),
            format!("({spin}) & sleep 600"),
        ] {
            let budget = CpuBudget::for_seconds(1);
            assert_eq!(code(&script, &budget), "ocr.timeout", "{script}");
        }
        // It would otherwise hold its output open for longer than a test may take.
        let output = shell("sleep 600 & echo read", &CpuBudget::start()).unwrap();
        assert_eq!(output, "read\n");
    }

    #[test]
    fn memory_of_all_processes_counts() {
        let limits = |memory_bytes| Limits {
            cpu_seconds: 10,
            memory_bytes,
        };
        let run = |limits, seconds: u32| {
            // `tail` keeps its input, which has one line.
            let hold =
                format!("(head -c 30000000 /dev/zero; sleep {seconds}) | tail -n 1 > /dev/null");
            let script = format!("{hold} & {hold} & {hold} & wait");
            run_within(limits, Path::new("/bin/sh"), &["-c", &script], None)
        };
        // Each waits for the others: only their end stops it.
        let failure = run(limits(60_000_000), 600).unwrap_err();
        assert!(matches!(failure, RunFailure::TooLarge), "{failure:?}");
        run(limits(400_000_000), 1).unwrap();
    }

    #[test]
    fn endless_output_is_cut() {
        let budget = CpuBudget::for_seconds(1);
        assert_eq!(code("exec yes", &budget), "ocr.timeout");
        let output = read_up_to(Some(&[b'a'; 100][..]), 10);
        assert_eq!(output, "aaaaaaaaaa");
    }
}
