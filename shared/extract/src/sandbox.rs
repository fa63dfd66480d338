//! The child side of the pool: a process that confines itself and then extracts documents.

use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;
use std::time::Duration;

use crate::ExtractError;
use crate::ipc::{self, ExtractJob, Handshake};

// Parsers recurse; the default of 2 MB is not enough.
const STACK_BYTES: usize = 64 << 20;
// A child needs three open files.
#[cfg(target_os = "linux")]
const MAX_FILES: u64 = 64;
// Added to the parent's `nice(2)` value.
#[cfg(target_os = "linux")]
const NICE_INCREMENT: i32 = 10;
#[cfg(unix)]
const PARENT_CHECK: Duration = Duration::from_millis(200);

/// Restrictions in effect. [`serve`] fails without `limits`; the others are best effort.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Confinement {
    /// Memory, CPU time, file size (0), core dumps (0) and open files.
    pub limits: bool,
    /// `no_new_privs` is set.
    pub no_new_privileges: bool,
    /// The process has an empty network namespace.
    pub no_network: bool,
    /// The process runs at low priority.
    pub low_priority: bool,
}

/// Serves extraction jobs from standard input to standard output until the input ends.
///
/// The process confines itself before it reads a document. Call this before starting threads: only a single-threaded
/// process can leave its network namespace. Each document runs on a thread with a 64 MB stack. If `handler` panics, the
/// parent gets an error and the process exits, since its state is unknown.
///
/// # Errors
///
/// If standard input or output fails, a limit cannot be set, or `handler` panicked.
pub fn serve(
    mut handler: impl FnMut(ExtractJob) -> Result<Vec<u8>, ExtractError> + Send,
) -> io::Result<()> {
    let mut input = io::stdin().lock();
    let mut output = io::stdout().lock();
    let Some(handshake) = Handshake::read(&mut input)? else {
        return Ok(());
    };
    let confinement = confine(&handshake)?;
    tracing::debug!(?confinement, "extraction child confined");
    watch_parent()?;
    while let Some(job) = ipc::read_job(&mut input)? {
        let result = run_on_large_stack(&mut handler, job);
        let panicked = result.is_err();
        let reply = result.unwrap_or_else(|what| Err(ipc::crash_error(what)));
        ipc::write_reply(&mut output, &reply)?;
        output.flush()?;
        if panicked {
            return Err(io::Error::other("a document made extraction panic"));
        }
    }
    Ok(())
}

/// Runs `handler` on its own thread. `Err` is the panic message.
pub(crate) fn run_on_large_stack<H>(
    handler: &mut H,
    job: ExtractJob,
) -> Result<Result<Vec<u8>, ExtractError>, String>
where
    H: FnMut(ExtractJob) -> Result<Vec<u8>, ExtractError> + Send,
{
    thread::scope(|scope| {
        let started = thread::Builder::new()
            .name("document".into())
            .stack_size(STACK_BYTES)
            .spawn_scoped(scope, || catch_unwind(AssertUnwindSafe(|| handler(job))));
        let ended = started
            .map_err(|error| format!("no thread could be started: {error}"))?
            .join();
        ended
            .and_then(|result| result)
            .map_err(|panic| panic_text(&*panic))
    })
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!(
        "extraction panicked: {}",
        text.unwrap_or("no message")
            .chars()
            .take(200)
            .collect::<String>()
    )
}

#[cfg(target_os = "linux")]
fn confine(handshake: &Handshake) -> io::Result<Confinement> {
    use rustix::process::{Resource, Rlimit, setrlimit};

    let no_network = leave_network();
    let low_priority = rustix::process::nice(NICE_INCREMENT).is_ok();
    let no_new_privileges = rustix::thread::set_no_new_privs(true).is_ok();
    for (resource, value) in [
        (Resource::Core, 0),
        (Resource::Fsize, 0),
        (Resource::Nofile, MAX_FILES),
        (Resource::Cpu, handshake.cpu_seconds),
        (Resource::As, handshake.memory_bytes),
    ] {
        let limit = Rlimit {
            current: Some(value),
            maximum: Some(value),
        };
        setrlimit(resource, limit)?;
    }
    Ok(Confinement {
        limits: true,
        no_new_privileges,
        no_network,
        low_priority,
    })
}

#[cfg(target_os = "linux")]
#[expect(
    deprecated,
    reason = "its successor is unsafe because of UnshareFlags::FILES, which is not used here"
)]
fn leave_network() -> bool {
    use rustix::thread::{UnshareFlags, unshare};
    unshare(UnshareFlags::NEWNET)
        .or_else(|_| unshare(UnshareFlags::NEWUSER | UnshareFlags::NEWNET))
        .is_ok()
}

#[cfg(not(target_os = "linux"))]
fn confine(_: &Handshake) -> io::Result<Confinement> {
    Ok(Confinement::default())
}

// Exits when the parent exits. `PR_SET_PDEATHSIG` would fire at the end of the *thread* that spawned the child, and
// threads of an async runtime come and go. An idle child sees the end of its input anyway.
#[cfg(unix)]
fn watch_parent() -> io::Result<()> {
    let parent = rustix::process::getppid();
    thread::Builder::new()
        .name("parent-watch".into())
        .stack_size(64 << 10)
        .spawn(move || {
            while rustix::process::getppid() == parent {
                thread::sleep(PARENT_CHECK);
            }
            end_group();
            std::process::exit(1)
        })
        .map(|_| ())
}

// Ends this process and what it started, such as text recognition. The pool starts each child as the leader of a group.
#[cfg(unix)]
fn end_group() {
    use rustix::process::{Signal, getpgrp, getpid, kill_current_process_group};
    if getpgrp() == getpid() {
        let _ = kill_current_process_group(Signal::KILL);
    }
}

#[cfg(not(unix))]
fn watch_parent() -> io::Result<()> {
    Ok(())
}
