//! Starts, watches, stops and kills Stemma's services as processes.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio::time::{sleep, timeout};

use crate::duplicate_calls::ProcessOutage;
use stemma_sim::http::get;

/// Interval between two polls of a process.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Lines of a log that an error shows.
const LOG_TAIL_LINES: usize = 15;

/// A service that a process runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ServiceRole {
    Coordinator,
    Worker,
    Assembler,
    Query,
}

impl ServiceRole {
    /// The subcommand of the binary.
    pub fn command(self) -> &'static str {
        match self {
            Self::Coordinator => "coordinator",
            Self::Worker => "worker",
            Self::Assembler => "assembler",
            Self::Query => "query",
        }
    }
}

/// Processes of one binary on one store. Dropping this kills them.
pub struct ServiceFleet {
    binary: PathBuf,
    store: String,
    settings: Vec<(String, String)>,
    model: Option<SocketAddr>,
    folder: TempDir,
    processes: BTreeMap<String, ServiceProcess>,
    started: usize,
}

struct ServiceProcess {
    role: ServiceRole,
    child: Child,
    listen: SocketAddr,
}

impl ServiceFleet {
    /// An empty fleet. All processes get the environment variables `settings`, and no other `STEMMA_…`.
    ///
    /// # Errors
    /// If the folder of logs cannot be created.
    pub fn new(binary: PathBuf, store: &str, settings: Vec<(String, String)>) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("stemma-fleet.").tempdir()?;
        let store = store.to_string();
        let processes = BTreeMap::new();
        Ok(Self {
            binary,
            store,
            settings,
            model: None,
            folder,
            processes,
            started: 0,
        })
    }

    /// Sets the provider for processes started from now on. Each uses its own URL, so that requests can be attributed.
    pub fn use_provider(&mut self, provider: SocketAddr) {
        self.model = Some(provider);
    }

    /// Sets an environment variable for processes started from now on.
    pub fn set(&mut self, name: &str, value: &str) {
        self.settings.retain(|(known, _)| known != name);
        self.settings.push((name.into(), value.into()));
    }

    /// Sets the binary for processes started from now on.
    pub fn use_binary(&mut self, binary: PathBuf) {
        self.binary = binary;
    }

    /// Starts a process and returns its name, which is never reused.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn spawn(&mut self, role: ServiceRole, arguments: &[&str]) -> Result<String> {
        self.started += 1;
        let name = format!("{}-{}", role.command(), self.started);
        let listen = free_address()?;
        let log = File::create(self.log_path(&name))?;
        let mut command = self.command(&name, &[role.command()]);
        command
            .args(["--listen", &listen.to_string()])
            .args(arguments);
        command.stdout(log.try_clone()?).stderr(log);
        let child = command
            .spawn()
            .with_context(|| format!("starting {}", self.binary.display()))?;
        self.processes.insert(
            name.clone(),
            ServiceProcess {
                role,
                child,
                listen,
            },
        );
        Ok(name)
    }

    /// A command of the binary on the fleet's store, as `process`.
    pub(crate) fn command(&self, process: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.binary);
        command
            .args(arguments)
            .args(["--store", &self.store])
            .current_dir(self.folder.path())
            .stdin(Stdio::null());
        for (name, _) in
            std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("STEMMA_"))
        {
            command.env_remove(name);
        }
        command.envs(self.settings.iter().map(|(name, value)| (name, value)));
        if let Some(address) = self.model {
            command.env(
                "STEMMA_MODEL__BASE_URL",
                format!("http://{address}/{process}/v1"),
            );
        }
        command
    }

    /// Runs a command such as `submit` or `status`.
    ///
    /// # Errors
    /// If it does not end within `limit`. It is killed in this case.
    pub async fn run(&self, arguments: &[&str], limit: Duration) -> Result<Output> {
        let output = self.launch("cli", arguments)?.wait_with_output();
        Ok(timeout(limit, output)
            .await
            .with_context(|| format!("stemma {} timed out", arguments.join(" ")))??)
    }

    /// Starts a command under a name by which the provider identifies it. Dropping the process kills it.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn launch(&self, name: &str, arguments: &[&str]) -> Result<tokio::process::Child> {
        let mut command = tokio::process::Command::from(self.command(name, arguments));
        command
            .kill_on_drop(true)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
            .spawn()
            .with_context(|| format!("starting {}", self.binary.display()))
    }

    /// Waits until a process reports that it is ready.
    ///
    /// # Errors
    /// If it ends first, or is not ready within `limit`.
    pub async fn wait_until_ready(&mut self, name: &str, limit: Duration) -> Result<()> {
        let started = Instant::now();
        loop {
            let process = self.process(name)?;
            if let Some(status) = process.child.try_wait()? {
                bail!(
                    "{name} ended before it was ready: {status}\n{}",
                    self.log_end(name)
                );
            }
            if matches!(
                get(process.listen, "/readyz", Duration::from_secs(2)).await,
                Ok((200, _))
            ) {
                return Ok(());
            }
            ensure!(
                started.elapsed() < limit,
                "{name} is not ready after {limit:?}\n{}",
                self.log_end(name)
            );
            sleep(POLL_INTERVAL).await;
        }
    }

    /// `kill -9`.
    ///
    /// # Errors
    /// If there is no such process.
    pub fn kill(&mut self, name: &str) -> Result<ProcessOutage> {
        let mut process = self
            .processes
            .remove(name)
            .with_context(|| format!("{name} is not running"))?;
        let from = Instant::now();
        process.child.kill()?;
        process.child.wait()?;
        Ok(ProcessOutage {
            process: name.into(),
            from,
            until: None,
        })
    }

    /// Sends SIGTERM. A second call sends a second signal.
    ///
    /// # Errors
    /// If there is no such process.
    pub fn signal(&mut self, name: &str) -> Result<()> {
        send(self.process(name)?.child.id(), Signal::TERM)
    }

    /// Stops a process and its children (SIGSTOP), as if their machine were suspended.
    ///
    /// # Errors
    /// If there is no such process.
    pub fn freeze(&mut self, name: &str) -> Result<()> {
        self.signal_tree(name, Signal::STOP)
    }

    /// Continues a frozen process and its children (SIGCONT).
    ///
    /// # Errors
    /// If there is no such process.
    pub fn thaw(&mut self, name: &str) -> Result<()> {
        self.signal_tree(name, Signal::CONT)
    }

    /// The parent goes first: a stopped parent starts no more children.
    fn signal_tree(&mut self, name: &str, signal: Signal) -> Result<()> {
        let pid = self.process(name)?.child.id();
        send(pid, signal)?;
        let mut children = String::new();
        for task in fs::read_dir(format!("/proc/{pid}/task"))? {
            children += &fs::read_to_string(task?.path().join("children")).unwrap_or_default();
            children.push(' ');
        }
        for child in children.split_whitespace() {
            // A child may have ended meanwhile.
            if let Err(error) = send(child.parse()?, signal)
                && Path::new(&format!("/proc/{child}")).exists()
            {
                return Err(error);
            }
        }
        Ok(())
    }

    /// Sends SIGTERM and waits for the exit.
    ///
    /// # Errors
    /// If it has not ended after `grace`. It is killed in this case.
    pub async fn terminate(&mut self, name: &str, grace: Duration) -> Result<ExitStatus> {
        self.signal(name)?;
        let started = Instant::now();
        while started.elapsed() < grace {
            if let Some(status) = self.process(name)?.child.try_wait()? {
                self.processes.remove(name);
                return Ok(status);
            }
            sleep(POLL_INTERVAL).await;
        }
        let end = self.log_end(name);
        self.kill(name)?;
        bail!("{name} had not ended {grace:?} after SIGTERM\n{end}")
    }

    /// Names of the running processes of a role, in start order.
    pub fn running(&self, role: ServiceRole) -> Vec<String> {
        let of_role = self
            .processes
            .iter()
            .filter(|(_, process)| process.role == role);
        let mut names: Vec<_> = of_role.map(|(name, _)| name.clone()).collect();
        names.sort_by_key(|name| {
            name.rsplit('-')
                .next()
                .and_then(|number| number.parse::<usize>().ok())
        });
        names
    }

    /// Removes processes that ended by themselves and returns them, each with the end of its log.
    ///
    /// # Errors
    /// If the system does not report it.
    pub fn take_ended(&mut self) -> Result<Vec<String>> {
        let mut ended = Vec::new();
        for (name, process) in &mut self.processes {
            if let Some(status) = process.child.try_wait()? {
                ended.push((name.clone(), status));
            }
        }
        let reports = ended.into_iter().map(|(name, status)| {
            self.processes.remove(&name);
            format!("{name} ended by itself: {status}\n{}", self.log_end(&name))
        });
        Ok(reports.collect())
    }

    /// The address of a running process.
    ///
    /// # Errors
    /// If there is no such process.
    pub fn address(&mut self, name: &str) -> Result<SocketAddr> {
        Ok(self.process(name)?.listen)
    }

    /// The process id of a running process.
    ///
    /// # Errors
    /// If there is no such process.
    pub fn pid(&mut self, name: &str) -> Result<u32> {
        Ok(self.process(name)?.child.id())
    }

    /// The log of a process.
    ///
    /// # Errors
    /// If there was no such process.
    pub fn log(&self, name: &str) -> Result<String> {
        let bytes = fs::read(self.log_path(name)).with_context(|| format!("the log of {name}"))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn process(&mut self, name: &str) -> Result<&mut ServiceProcess> {
        self.processes
            .get_mut(name)
            .with_context(|| format!("{name} is not running"))
    }

    fn log_path(&self, name: &str) -> PathBuf {
        self.folder.path().join(format!("{name}.log"))
    }

    fn log_end(&self, name: &str) -> String {
        let log = self.log(name).unwrap_or_default();
        let lines: Vec<_> = log.lines().collect();
        lines[lines.len().saturating_sub(LOG_TAIL_LINES)..].join("\n")
    }
}

impl Drop for ServiceFleet {
    fn drop(&mut self) {
        for name in self.processes.keys().cloned().collect::<Vec<_>>() {
            if let Err(error) = self.kill(&name) {
                eprintln!("{name}: {error}");
            }
        }
    }
}

fn send(pid: u32, signal: Signal) -> Result<()> {
    let pid = Pid::from_raw(i32::try_from(pid)?).context("a process id")?;
    Ok(kill_process(pid, signal)?)
}

/// The binary to test: `STEMMA_TEST_BIN`, or one built with the profile of this program.
///
/// # Errors
/// If it cannot be built.
pub fn binary() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os("STEMMA_TEST_BIN") {
        return Ok(path.into());
    }
    let own = std::env::current_exe()?;
    let mut folders = own.ancestors();
    let profile = folders.find(|folder| folder.ends_with("debug") || folder.ends_with("release"));
    let profile = profile.context("set STEMMA_TEST_BIN: this program is not in a target folder")?;
    let target = profile.parent().context("a target folder")?;
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    // With the features of the tests. Other features would recompile half of the dependencies.
    cargo.args([
        "build",
        "--locked",
        "--quiet",
        "--workspace",
        "--all-features",
        "--bin",
        "stemma",
        "--target-dir",
    ]);
    cargo.arg(target);
    if profile.ends_with("release") {
        cargo.arg("--release");
    }
    let status = cargo.current_dir(env!("CARGO_MANIFEST_DIR")).status()?;
    ensure!(status.success(), "cargo build --bin stemma: {status}");
    Ok(profile.join("stemma"))
}

/// A free port outside the range of outgoing connections and the ports of `tests/services`. No port is
/// returned twice, because its user needs a while until it listens.
fn free_address() -> Result<SocketAddr> {
    const FIRST: usize = 10_000;
    const COUNT: usize = 10_000;
    static GIVEN: AtomicUsize = AtomicUsize::new(0);
    let begin = std::process::id() as usize * 131;
    let next = || (FIRST + (begin + GIVEN.fetch_add(1, Ordering::Relaxed)) % COUNT) as u16;
    let mut tried = (0..COUNT).map(|_| SocketAddr::from(([127, 0, 0, 1], next())));
    tried
        .find(|address| TcpListener::bind(address).is_ok())
        .context("no free port")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(60);

    /// A fleet that runs a script instead of the binary.
    fn fleet(script: &str) -> (TempDir, ServiceFleet) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("script");
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        let settings = vec![("STEMMA_REDIS__URL".to_string(), "redis://x".to_string())];
        (
            folder,
            ServiceFleet::new(path, "s3://bucket/run", settings).unwrap(),
        )
    }

    #[tokio::test]
    async fn processes_receive_settings_and_provider_url() {
        let (_folder, mut fleet) = fleet("echo \"$@\"; env | grep STEMMA_ | sort");
        fleet.use_provider(([127, 0, 0, 1], 9).into());
        let output = fleet.run(&["status", "--json"], PATIENCE).await.unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let expected = "status --json --store s3://bucket/run\n\
            STEMMA_MODEL__BASE_URL=http://127.0.0.1:9/cli/v1\nSTEMMA_REDIS__URL=redis://x\n";
        assert_eq!(text, expected);
    }

    #[tokio::test]
    async fn processes_can_be_terminated_and_killed() {
        let script = "trap 'exit 0' TERM; touch \"$(dirname \"$0\")/trapped-$$\"; while :; do sleep 0.1; done";
        let (folder, mut fleet) = fleet(script);
        let first = fleet.spawn(ServiceRole::Worker, &[]).unwrap();
        let second = fleet.spawn(ServiceRole::Worker, &[]).unwrap();
        assert_eq!(
            fleet.running(ServiceRole::Worker),
            [first.clone(), second.clone()]
        );
        assert_ne!(
            fleet.address(&first).unwrap(),
            fleet.address(&second).unwrap()
        );
        let trapped = || {
            let names = fs::read_dir(folder.path()).unwrap();
            let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
            names.filter(|name| name.starts_with("trapped-")).count()
        };
        while trapped() < 2 {
            sleep(Duration::from_millis(10)).await;
        }
        assert!(fleet.terminate(&first, PATIENCE).await.unwrap().success());
        assert_eq!(fleet.kill(&second).unwrap().process, second);
        assert!(fleet.kill(&second).is_err());
        assert_eq!(fleet.running(ServiceRole::Worker), [""; 0]);
    }

    #[tokio::test]
    async fn frozen_processes_go_on_with_their_children_when_thawed() {
        let (folder, mut fleet) = fleet(&format!(
            "cd {}; (for i in $(seq 6000); do echo $i > tick || exit; sleep 0.05; done) & wait",
            "$(dirname \"$0\")"
        ));
        let name = fleet.spawn(ServiceRole::Worker, &[]).unwrap();
        let tick = || fs::read_to_string(folder.path().join("tick")).unwrap_or_default();
        let changed = async |last: &str| {
            while tick() == last {
                sleep(POLL_INTERVAL).await;
            }
        };
        timeout(PATIENCE, changed("")).await.unwrap();
        fleet.freeze(&name).unwrap();
        let mut frozen = String::new();
        let unchanged = async {
            while tick() != frozen {
                frozen = tick();
                sleep(Duration::from_millis(400)).await;
            }
        };
        timeout(PATIENCE, unchanged).await.unwrap();
        fleet.thaw(&name).unwrap();
        timeout(PATIENCE, changed(&frozen)).await.unwrap();
    }

    #[tokio::test]
    async fn crashed_processes_are_reported_with_their_log() {
        let (_folder, mut fleet) = fleet("echo ouch; exit 3");
        let name = fleet.spawn(ServiceRole::Assembler, &[]).unwrap();
        let error = fleet
            .wait_until_ready(&name, PATIENCE)
            .await
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("ended before it was ready") && error.contains("ouch"),
            "{error}"
        );
        let ended = fleet.take_ended().unwrap();
        assert!(
            ended.len() == 1 && ended[0].contains("assembler-1 ended by itself"),
            "{ended:?}"
        );
        assert_eq!(fleet.take_ended().unwrap(), [""; 0]);
    }
}
