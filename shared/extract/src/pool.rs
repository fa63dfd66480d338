//! Extraction in child processes, so that a crash affects one document only.

use std::ffi::OsString;
use std::io;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};
use tracing::Instrument;

use crate::ipc::{self, ExtractJob, Handshake, Task};
use crate::{CpuTime, ExtractError, RecognizeRequest, sandbox};

// Limit for captured standard error.
const MAX_STDERR_BYTES: usize = 16 * 1024;
// Time for a child that closed its pipe to exit.
const EXIT_GRACE: Duration = Duration::from_secs(2);
// A child may wait for a busy machine this many times longer than its limit of CPU time.
const WALL_CLOCK_FACTOR: u32 = 10;
// How often the CPU time of a child is read.
const CPU_POLL: Duration = Duration::from_millis(250);

/// Extracts documents, and draws their pages.
#[async_trait]
pub trait Extractor: Send + Sync {
    /// Extracts a document into an encoded source (see [`crate::EncodedSource`]), or draws a page of it as PNG.
    ///
    /// # Errors
    ///
    /// Those of the format; `limits.time`, `limits.memory`, `limits.output`, and those of [`is_transient_code`].
    async fn extract(&self, job: ExtractJob) -> Result<Vec<u8>, ExtractError>;
}

/// Whether another attempt may succeed, because something else may have ended the process.
pub fn is_transient_code(code: &str) -> bool {
    matches!(
        code,
        "extract.crashed" | "extract.killed" | "extract.stalled"
    )
}

/// Extracts documents in this process, for tests and programs without a child binary. Memory and time are not limited,
/// and a stack overflow ends the program. A panic becomes `extract.crashed`.
#[derive(Debug, Clone, Copy, Default)]
pub struct InProcess;

#[async_trait]
impl Extractor for InProcess {
    async fn extract(&self, job: ExtractJob) -> Result<Vec<u8>, ExtractError> {
        let joined = tokio::task::spawn_blocking(|| {
            sandbox::run_on_large_stack(&mut extract_and_encode, job)
                .unwrap_or_else(|what| Err(ipc::crash_error(what)))
        })
        .await;
        joined.unwrap_or_else(|_| Err(ipc::crash_error("extraction was cut off")))
    }
}

/// Extracts and encodes a document: the handler for [`crate::serve`].
///
/// # Errors
///
/// As [`crate::extract`].
pub fn extract_and_encode(job: ExtractJob) -> Result<Vec<u8>, ExtractError> {
    let source = crate::extract(job)?;
    crate::encode_source(&source).map_err(|error: crate::CodecError| {
        ExtractError::new("limits.output", error.to_string(), "split the document")
    })
}

#[derive(Debug, Clone)]
pub struct PoolSettings {
    /// The program and its arguments. The path must be absolute: children start in `/` with an empty environment. The
    /// program must only call [`crate::serve`].
    pub command: Vec<OsString>,
    /// Maximum number of children. Default: one per core.
    pub size: usize,
    /// Documents after which a child is replaced. Default 200.
    pub recycle_after_documents: u32,
    /// Resident memory above which a child is replaced. Default 200 MB.
    pub recycle_above_bytes: u64,
    /// Address space of a child. Default 1 GiB.
    pub memory_limit_bytes: u64,
    /// CPU time per document, unless the document's own limit is shorter. Default 30. A child that does not get it within ten
    /// times as long is killed, and its document counts as `extract.stalled`.
    pub max_seconds: u32,
    /// Maximum size of an encoded source. Default 256 MiB.
    pub max_reply_bytes: u64,
}

impl PoolSettings {
    pub fn new(command: Vec<OsString>) -> Self {
        Self {
            command,
            size: std::thread::available_parallelism().map_or(1, usize::from),
            recycle_after_documents: 200,
            recycle_above_bytes: 200_000_000,
            memory_limit_bytes: 1 << 30,
            max_seconds: 30,
            max_reply_bytes: 256 << 20,
        }
    }
}

/// A pool of child processes, which are started on demand, reused, and killed with the pool.
#[derive(Debug)]
pub struct Pool {
    settings: PoolSettings,
    permits: Semaphore,
    idle: Mutex<Vec<ChildProcess>>,
}

impl Pool {
    pub fn new(settings: PoolSettings) -> Self {
        let permits = Semaphore::new(settings.size.max(1));
        Self {
            settings,
            permits,
            idle: Mutex::new(Vec::new()),
        }
    }

    /// Extracts a document in a child, waiting for a free one. Cancelling the call kills the child.
    ///
    /// # Errors
    ///
    /// See [`Extractor::extract`].
    pub async fn run(&self, job: ExtractJob) -> Result<Vec<u8>, ExtractError> {
        let permits = if job.alone {
            self.settings.size.max(1)
        } else {
            1
        };
        let permits = u32::try_from(permits).unwrap_or(u32::MAX);
        let _permits = self
            .permits
            .acquire_many(permits)
            .await
            .map_err(|_| ipc::crash_error("the pool is closed"))?;
        // Idle slots of the pool are used as threads for this document.
        let job = ExtractJob {
            threads: 1 + self.permits.available_permits(),
            ..job
        };
        let mut worker = match self.idle_worker() {
            Some(worker) => worker,
            None => ChildProcess::start(&self.settings)
                .map_err(|e| ipc::crash_error(format!("no process could be started: {e}")))?,
        };
        let limit = TimeLimit::new(&job, self.settings.max_seconds);
        let overdue = wait_until_overdue(worker.child.id(), limit);
        let outcome = tokio::select! {
            outcome = worker.request(&job, &self.settings).instrument(tracing::trace_span!("child")) => outcome,
            used = overdue => Err(ChildFailure::TimedOut { limit, used }),
        };
        let failure = match outcome {
            Ok(reply) => {
                self.release(worker);
                return reply;
            }
            Err(failure) => failure,
        };
        let (error, stderr) = worker.terminate(failure, &job).await;
        tracing::warn!(document = ?job.name, code = error.code, error = ?error.message, ?stderr, "extraction child replaced");
        Err(error)
    }

    fn idle_worker(&self) -> Option<ChildProcess> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        // A child killed while idle must not fail the next document.
        while let Some(mut worker) = idle.pop() {
            if matches!(worker.child.try_wait(), Ok(None)) {
                return Some(worker);
            }
        }
        None
    }

    fn release(&self, worker: ChildProcess) {
        let is_worn_out = worker.documents >= self.settings.recycle_after_documents
            || worker.resident_bytes() > self.settings.recycle_above_bytes
            || worker.is_exiting;
        if !is_worn_out {
            self.idle
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(worker);
        }
    }
}

#[async_trait]
impl Extractor for Pool {
    async fn extract(&self, job: ExtractJob) -> Result<Vec<u8>, ExtractError> {
        self.run(job).await
    }
}

// How long a child may work on a job.
#[derive(Clone, Copy)]
struct TimeLimit {
    cpu: Duration,
    // On a machine busy with other work the same CPU time takes longer than on a quiet one, which is not a fault of the document.
    wall_clock: Duration,
}

impl TimeLimit {
    fn new(job: &ExtractJob, max_seconds: u32) -> Self {
        let of_document = max_seconds.min(job.limits.max_seconds).max(1);
        let cpu = match job.task {
            Task::Recognize(_) => of_document.min(RecognizeRequest::MAX_SECONDS),
            Task::Text | Task::TextAndPictures | Task::Image(_) => of_document,
        };
        Self {
            cpu: Duration::from_secs(cpu.into()),
            wall_clock: Duration::from_secs(of_document.into()) * WALL_CLOCK_FACTOR,
        }
    }
}

// Returns once the process has used `limit` of CPU time from now on, or only waits. Returns the CPU time that was used.
async fn wait_until_overdue(process: Option<u32>, limit: TimeLimit) -> Duration {
    let started = Instant::now();
    let before = process.and_then(CpuTime::for_process);
    loop {
        sleep(CPU_POLL.min(limit.cpu)).await;
        let used = match (before, process.and_then(CpuTime::for_process)) {
            (Some(before), Some(now)) => now.own.saturating_sub(before.own),
            _ => started.elapsed(),
        };
        if used >= limit.cpu || started.elapsed() >= limit.wall_clock {
            return used;
        }
    }
}

enum ChildFailure {
    // The limit, and the CPU time used.
    TimedOut { limit: TimeLimit, used: Duration },
    OutputTooLarge(u64),
    InvalidReply,
    // The child closed its pipes.
    Exited(io::Error),
}

// Dropping the process kills it, and what it started.
#[derive(Debug)]
struct ChildProcess {
    child: Child,
    input: ChildStdin,
    output: ChildStdout,
    stderr: Arc<Mutex<Vec<u8>>>,
    documents: u32,
    // The child announced that it will exit.
    is_exiting: bool,
}

impl ChildProcess {
    fn start(settings: &PoolSettings) -> io::Result<Self> {
        let (program, arguments) = settings
            .command
            .split_first()
            .ok_or(io::ErrorKind::InvalidInput)?;
        let mut command = Command::new(program);
        command
            .args(arguments)
            .env_clear()
            .current_dir("/")
            .kill_on_drop(true);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        // Ctrl-C is sent to the whole process group. In their own group, children finish or stop as the parent decides.
        #[cfg(unix)]
        command.process_group(0);
        let mut child = command.spawn()?;
        let input = child.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?;
        let output = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
        let errors = child.stderr.take().ok_or(io::ErrorKind::BrokenPipe)?;
        let stderr = Arc::new(Mutex::new(Vec::new()));
        tokio::spawn(drain(errors, Arc::clone(&stderr)));
        Ok(Self {
            child,
            input,
            output,
            stderr,
            documents: 0,
            is_exiting: false,
        })
    }

    async fn request(
        &mut self,
        job: &ExtractJob,
        settings: &PoolSettings,
    ) -> Result<Result<Vec<u8>, ExtractError>, ChildFailure> {
        self.send(job, settings)
            .await
            .map_err(ChildFailure::Exited)?;
        self.documents += 1;
        let tag = self.output.read_u8().await.map_err(ChildFailure::Exited)?;
        let size = self
            .output
            .read_u64_le()
            .await
            .map_err(ChildFailure::Exited)?;
        if !matches!(tag, ipc::DONE | ipc::FAILED) {
            return Err(ChildFailure::InvalidReply);
        }
        if size > settings.max_reply_bytes {
            return Err(ChildFailure::OutputTooLarge(settings.max_reply_bytes));
        }
        let mut body = Vec::new();
        let read = (&mut self.output)
            .take(size)
            .read_to_end(&mut body)
            .await
            .map_err(ChildFailure::Exited)?;
        if read as u64 != size {
            return Err(ChildFailure::Exited(io::ErrorKind::UnexpectedEof.into()));
        }
        if tag == ipc::DONE {
            return Ok(Ok(body));
        }
        let error = ipc::read_error(&body).ok_or(ChildFailure::InvalidReply)?;
        self.is_exiting = error.code == "extract.crashed";
        Ok(Err(error))
    }

    async fn send(&mut self, job: &ExtractJob, settings: &PoolSettings) -> io::Result<()> {
        if self.documents == 0 {
            // A backstop for the limit that the parent watches: the total time of all documents of a child.
            let cpu_seconds = u64::from(settings.max_seconds + 1)
                * u64::from(settings.recycle_after_documents.max(1));
            let handshake = Handshake {
                memory_bytes: settings.memory_limit_bytes,
                cpu_seconds,
            };
            self.input.write_all(&handshake.to_bytes()).await?;
        }
        self.input.write_all(&ipc::encode_job_header(job)?).await?;
        self.input.write_all(&job.bytes).await?;
        self.input.flush().await
    }

    // Kills the child, and returns the error and the captured standard error.
    async fn terminate(
        mut self,
        failure: ChildFailure,
        job: &ExtractJob,
    ) -> (ExtractError, String) {
        let grace = if matches!(failure, ChildFailure::Exited(_)) {
            EXIT_GRACE
        } else {
            Duration::ZERO
        };
        let status = timeout(grace, self.child.wait())
            .await
            .ok()
            .and_then(Result::ok);
        if status.is_none() {
            self.kill_group();
            let _ = self.child.kill().await;
        }
        let stderr = self
            .stderr
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let stderr = String::from_utf8_lossy(&stderr).into_owned();
        let error = match failure {
            ChildFailure::TimedOut { limit, used } if used < limit.cpu => {
                stall_error(used, limit.wall_clock)
            }
            ChildFailure::TimedOut { .. } if matches!(job.task, Task::Recognize(_)) => {
                RecognizeRequest::timeout_error()
            }
            ChildFailure::TimedOut { limit, .. } => timeout_error(format!(
                "reading the document took more than {} s of CPU time",
                limit.cpu.as_secs()
            )),
            ChildFailure::OutputTooLarge(limit) => {
                let message =
                    format!("the text read from the document is larger than {limit} bytes");
                ExtractError::new(
                    "limits.output",
                    message,
                    "split the document, or raise local.max_reply_bytes",
                )
            }
            ChildFailure::InvalidReply => {
                ipc::crash_error("the extraction process sent an unreadable reply")
            }
            ChildFailure::Exited(error) => exit_error(status, &stderr, &error, job.alone),
        };
        (error, stderr)
    }

    // The child leads a group of its own. Its id is known only until it is waited for, so no other process can have it.
    #[cfg(unix)]
    fn kill_group(&self) {
        use rustix::process::{Pid, Signal, kill_process_group};
        let id = self.child.id().and_then(|id| i32::try_from(id).ok());
        if let Some(group) = id.and_then(Pid::from_raw) {
            // A group that ended meanwhile is what is wanted.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }

    #[cfg(not(unix))]
    fn kill_group(&self) {}

    fn resident_bytes(&self) -> u64 {
        let bytes = self.child.id().and_then(crate::resident_bytes);
        bytes.unwrap_or_default()
    }
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        self.kill_group();
    }
}

// Classifies the exit of a child. Rust aborts on a failed allocation and on a stack overflow, with a message on
// standard error.
fn exit_error(
    status: Option<ExitStatus>,
    stderr: &str,
    error: &io::Error,
    alone: bool,
) -> ExtractError {
    #[cfg(unix)]
    let signal = status.and_then(|status| std::os::unix::process::ExitStatusExt::signal(&status));
    #[cfg(not(unix))]
    let signal: Option<i32> = None;
    const SIGKILL: i32 = 9;
    const SIGXCPU: i32 = 24;
    let out_of_memory = stderr.contains("memory allocation of") || stderr.contains("out of memory");
    if signal == Some(SIGXCPU) {
        return timeout_error("reading the document took too much CPU time".into());
    }
    if out_of_memory {
        return ExtractError::new(
            "limits.memory",
            "reading the document needs more memory than allowed",
            "split the document, or raise local.memory_limit_bytes",
        );
    }
    // SIGKILL comes from the system's out-of-memory killer, which chooses by what all processes of the machine use, or from
    // a person: the pool kills only children that are overdue. It says something of the document only if it was alone.
    if signal == Some(SIGKILL) && alone {
        return ExtractError::new(
            "limits.memory",
            "the system killed the extraction process although it read nothing else",
            "give the worker more memory, lower local.memory_limit_bytes, or split the document",
        );
    }
    if signal == Some(SIGKILL) {
        return ExtractError::new(
            "extract.killed",
            "the extraction process was killed by the system",
            "give the worker more memory, or lower local.concurrency",
        );
    }
    let how = match (status, signal) {
        _ if stderr.contains("overflowed its stack") => "overflowed its stack".into(),
        (_, Some(signal)) => format!("was ended by signal {signal}"),
        (Some(status), None) => format!("ended early ({status})"),
        (None, None) => format!("closed its output ({error})"),
    };
    ipc::crash_error(format!("the extraction process {how}"))
}

fn timeout_error(message: String) -> ExtractError {
    ExtractError::new(
        "limits.time",
        message,
        "split the document, or raise limits.max_seconds",
    )
}

fn stall_error(used: Duration, waited: Duration) -> ExtractError {
    let message = format!(
        "the extraction process used {:.1} s of CPU time in {} s",
        used.as_secs_f64(),
        waited.as_secs()
    );
    let next = "see whether the machine is overloaded or was suspended";
    ExtractError::new("extract.stalled", message, next)
}

// Drains the pipe so that the child never blocks, but keeps only the beginning.
async fn drain(mut from: impl AsyncRead + Unpin, into: Arc<Mutex<Vec<u8>>>) {
    let mut buffer = [0; 4_096];
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        let mut captured = into.lock().unwrap_or_else(PoisonError::into_inner);
        let room = MAX_STDERR_BYTES.saturating_sub(captured.len());
        captured.extend_from_slice(&buffer[..read.min(room)]);
    }
}
