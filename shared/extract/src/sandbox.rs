//! The child's side of the pool: a process that confines itself and then reads documents for its parent.

use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;
use std::time::Duration;

use crate::ExtractError;
use crate::ipc::{self, ExtractJob, Handshake};

/// Stack of the thread that reads a document, in bytes; parsers recurse, and the default of 2 MB is soon used up.
const STACK_BYTES: usize = 64 << 20;
/// Open files a child may have; it needs three.
#[cfg(target_os = "linux")]
const MAX_FILES: u64 = 64;
/// By how much a child is nicer than its parent (`nice(2)`, of 19).
#[cfg(target_os = "linux")]
const NICE_INCREMENT: i32 = 10;
/// How often a child looks whether its parent is still there.
#[cfg(unix)]
const PARENT_CHECK: Duration = Duration::from_millis(200);

/// What the system let the child give up. Resource limits are not best effort: [`serve`] fails without them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Confinement {
    /// Memory, CPU time, file size (0), core dumps (0) and open files are limited.
    pub limits: bool,
    /// It can gain no privileges.
    pub no_new_privileges: bool,
    /// It has a network namespace of its own, with nothing in it.
    pub no_network: bool,
    /// It computes when others do not: whoever waits for an answer of its parent waits less.
    pub low_priority: bool,
}

/// Serves documents from standard input to standard output until the input ends: the whole life of a child process.
///
/// The process first confines itself, before it has read any document. Call it before other threads are started: the
/// network can only be given up by a process with a single thread. Each document is read in a thread with a 64 MB
/// stack; when `handler` panics the parent is told and the process ends, for nobody knows what it left behind.
///
/// # Errors
///
/// When standard input or output fail, a limit cannot be set, or `handler` panicked.
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

/// Runs `handler` in a thread of its own; `Err` says how it panicked.
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

    let limit = |resource, value| {
        setrlimit(
            resource,
            Rlimit {
                current: Some(value),
                maximum: Some(value),
            },
        )
    };
    let no_network = leave_network();
    let gives_way = rustix::process::nice(NICE_INCREMENT).is_ok();
    let no_new_privileges = rustix::thread::set_no_new_privs(true).is_ok();
    limit(Resource::Core, 0)?;
    limit(Resource::Fsize, 0)?;
    limit(Resource::Nofile, MAX_FILES)?;
    limit(Resource::Cpu, handshake.cpu_seconds)?;
    limit(Resource::As, handshake.memory_bytes)?;
    Ok(Confinement {
        limits: true,
        no_new_privileges,
        no_network,
        low_priority: gives_way,
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
fn confine(_hello: &Handshake) -> io::Result<Confinement> {
    Ok(Confinement::default())
}

/// Ends the process when its parent has ended. `PR_SET_PDEATHSIG` would do so at the end of the *thread* that started
/// the child, and threads of an async runtime come and go; a child that waits sees its input end anyway.
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
            std::process::exit(1)
        })
        .map(|_| ())
}

#[cfg(not(unix))]
fn watch_parent() -> io::Result<()> {
    Ok(())
}
