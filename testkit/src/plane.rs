//! The real binary as a process: `lifesign apiserver` or `lifesign up` on a free port with a folder of its own.
//!
//! A plane can be stopped, killed and started again on the same data. It never outlives the value that holds it, and its
//! log is shown when it does not come up.

use std::ffi::OsStr;
use std::fs::Permissions;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::{OnceLock, mpsc};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// A plane that is not up by then will not come up.
const READY_WITHIN: Duration = Duration::from_secs(60);
/// A process that has been told to end and is still there by then hangs.
const END_WITHIN: Duration = Duration::from_secs(30);

/// A `lifesign apiserver` with a folder of its own.
pub struct Plane {
    binary: PathBuf,
    subcommand: &'static str,
    folder: TempDir,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
    /// A command that runs the server, its own command at the end.
    wrapper: Vec<String>,
    /// The latency profile that every start asks for.
    profile: Option<String>,
    running: Option<Running>,
}

struct Running {
    child: Child,
    url: String,
    /// Kept open, so that the process can go on writing.
    _stdout: mpsc::Receiver<String>,
}

impl Plane {
    /// Returns a plane that is not running yet; give it `env!("CARGO_BIN_EXE_lifesign")`.
    pub fn new(binary: impl AsRef<OsStr>) -> Plane {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        Plane {
            binary: PathBuf::from(binary.as_ref()),
            subcommand: "apiserver",
            folder,
            arguments: Vec::new(),
            environment: Vec::new(),
            wrapper: Vec::new(),
            profile: std::env::var("LIFESIGN_TEST_PROFILE").ok().filter(|profile| !profile.is_empty()),
            running: None,
        }
    }

    /// Returns this plane, run by `lifesign up`: with controllers and an agent.
    pub fn whole(mut self) -> Plane {
        self.subcommand = "up";
        self
    }

    /// Returns a plane that is running.
    pub fn started(binary: impl AsRef<OsStr>) -> Plane {
        let mut plane = Plane::new(binary);
        plane.start().expect("the plane starts");
        plane
    }

    /// Sets the arguments of the next start, besides the data directory and the port.
    pub fn set_arguments<'a>(&mut self, arguments: impl IntoIterator<Item = &'a str>) {
        self.arguments = arguments.into_iter().map(str::to_owned).collect();
    }

    /// Sets a variable of every process that is started from now on.
    pub fn set_environment(&mut self, name: &str, value: &str) {
        self.environment.push((name.to_owned(), value.to_owned()));
    }

    /// Lets another command run the server, such as one that makes namespaces for it.
    pub fn run_by(&mut self, wrapper: &[&str]) {
        self.wrapper = wrapper.iter().map(|word| (*word).to_owned()).collect();
    }

    /// Leaves the latency profile alone: the test is about profiles itself. Others run under `LIFESIGN_TEST_PROFILE`.
    pub fn choose_own_profile(&mut self) {
        self.profile = None;
    }

    /// Puts a profile in force, as a user would.
    fn set_profile(&self, profile: &str) -> Result<(), String> {
        let mut command = Command::new(&self.binary);
        command.args(["profile", "set", profile, "--wait", "--timeout", "5m", "--kubeconfig"]).arg(self.kubeconfig());
        let output = command.output().map_err(|error| format!("{}: {error}", self.binary.display()))?;
        let stderr = String::from_utf8_lossy(&output.stderr);
        if output.status.success() { Ok(()) } else { Err(format!("profile {profile}: {stderr}\nlog:\n{}", self.log())) }
    }

    /// Returns the data directory.
    pub fn data_dir(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// Returns a folder that tests may use; it goes with the plane.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Returns the path of the administrator's kubeconfig.
    pub fn kubeconfig(&self) -> PathBuf {
        self.data_dir().join("kubeconfig")
    }

    /// Returns where the plane listens.
    pub fn url(&self) -> &str {
        &self.running.as_ref().expect("the plane is running").url
    }

    /// Returns the id of the process.
    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.running.as_ref().expect("the plane is running").child)
    }

    /// Returns a command of the binary about this plane's data directory, for example `kubeconfig`.
    pub fn command(&self, subcommand: &str) -> Command {
        let mut command = Command::new(&self.binary);
        command.arg(subcommand).arg("--data-dir").arg(self.data_dir());
        // What the machine's user has set is not what is tested.
        for name in ["LIFESIGN_DATA_DIR", "LIFESIGN_LISTEN", "LIFESIGN_FEATURE_GATES"] {
            command.env_remove(name);
        }
        // A test that fails shows what happened.
        command.env("LIFESIGN_LOG", "info").env_remove("RUST_LOG");
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Returns the command that starts the server.
    pub fn server_command(&self) -> Command {
        let mut command = self.command(self.subcommand);
        command.args(["--listen", "127.0.0.1:0"]).args(&self.arguments);
        let Some((program, rest)) = self.wrapper.split_first() else { return command };
        let mut wrapped = Command::new(program);
        wrapped.args(rest).arg(command.get_program()).args(command.get_args());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => wrapped.env(name, value),
                None => wrapped.env_remove(name),
            };
        }
        wrapped
    }

    /// Starts the server and waits until it says that it is ready, and until the profile of the run is in force.
    pub fn start(&mut self) -> Result<(), String> {
        let profile = self.profile.clone().filter(|_| self.subcommand == "up");
        if let Some(profile) = &profile
            && !self.data_dir().exists()
        {
            // A rollout takes a heartbeat for each step: once is enough for all planes.
            prepared(&self.binary, profile)?.unpack(&self.data_dir())?;
        }
        self.launch()?;
        profile.map_or(Ok(()), |profile| self.set_profile(&profile))
    }

    /// Starts the server and waits until it says that it is ready.
    fn launch(&mut self) -> Result<(), String> {
        assert!(self.running.is_none(), "the plane is running already");
        let log = std::fs::File::create(self.log_file()).map_err(|error| format!("no log file: {error}"))?;
        let mut child = self
            .server_command()
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .map_err(|error| format!("{}: {error}", self.binary.display()))?;
        let lines = lines(child.stdout.take().expect("stdout is piped"));
        let first = lines.recv_timeout(READY_WITHIN).unwrap_or_default();
        match first.strip_prefix("ready ") {
            Some(url) => {
                self.running = Some(Running { url: url.to_owned(), child, _stdout: lines });
                Ok(())
            }
            None => {
                let _ = child.kill();
                let status = child.wait();
                Err(format!("not ready, first line {first:?}, {status:?}, log:\n{}", self.log()))
            }
        }
    }

    /// Returns what the process has logged since its last start.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.log_file()).unwrap_or_default()
    }

    fn log_file(&self) -> PathBuf {
        self.folder.path().join("stderr")
    }

    /// Sends a signal; the process may be gone already.
    pub fn signal(&self, signal: Signal) {
        let _ = kill_process(self.pid(), signal);
    }

    /// Waits until the process has ended.
    pub fn wait(&mut self) -> ExitStatus {
        let mut running = self.running.take().expect("the plane is running");
        let deadline = Instant::now() + END_WITHIN;
        loop {
            match running.child.try_wait().expect("a child can be waited for") {
                Some(status) => return status,
                None if Instant::now() > deadline => {
                    let _ = running.child.kill();
                    let _ = running.child.wait();
                    panic!("the process did not end within {END_WITHIN:?}, log:\n{}", self.log());
                }
                // There is no wait with a deadline in the standard library.
                None => std::thread::sleep(Duration::from_millis(2)),
            }
        }
    }

    /// Stops the server cleanly and returns how it ended.
    pub fn stop(&mut self) -> ExitStatus {
        self.signal(Signal::TERM);
        self.wait()
    }

    /// Kills the server: no chance to clean up.
    pub fn kill(&mut self) {
        self.signal(Signal::KILL);
        self.wait();
    }
}

impl Plane {
    /// Returns the processes that belong to the data directory: the plane, its shims, its containers.
    pub fn processes(&self) -> Vec<(Pid, String)> {
        processes_of(&self.data_dir())
    }
}

/// Returns the processes whose command line or environment names a data directory.
fn processes_of(data_dir: &Path) -> Vec<(Pid, String)> {
    let mark = data_dir.display().to_string();
    let names = |bytes: &[u8]| String::from_utf8_lossy(bytes).contains(&mark);
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().filter_map(Result::ok) {
        let pid = entry.file_name().to_string_lossy().parse().ok().and_then(Pid::from_raw);
        let Some(pid) = pid else { continue };
        let read = |file: &str| std::fs::read(entry.path().join(file)).unwrap_or_default();
        let command = read("cmdline");
        if names(&command) || names(&read("environ")) {
            found.push((pid, String::from_utf8_lossy(&command).replace('\0', " ")));
        }
    }
    found
}

/// Ends the containers of an agent: they outlive one that is killed, but they must not outlive the test.
///
/// Containers before their shims, and until all are really gone: a shim may just be starting one, and it holds the addresses,
/// so that the next plane does not find one of them still in use.
pub fn end_containers(data_dir: &Path) {
    let deadline = Instant::now() + END_WITHIN;
    loop {
        let mut all = processes_of(data_dir);
        if all.is_empty() || Instant::now() > deadline {
            return;
        }
        if all.iter().any(|(_, command)| !is_shim(command)) {
            all.retain(|(_, command)| !is_shim(command));
        }
        for (pid, _) in all {
            let _ = kill_process(pid, Signal::KILL);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn is_shim(command: &str) -> bool {
    command.split(' ').nth(1) == Some("shim")
}

impl Drop for Plane {
    fn drop(&mut self) {
        if let Some(running) = &mut self.running {
            let _ = running.child.kill();
            let _ = running.child.wait();
        }
        if self.subcommand == "up" {
            end_containers(&self.data_dir());
        }
    }
}

/// The files of a data directory.
struct Prepared(Vec<(PathBuf, Permissions, Vec<u8>)>);

/// Returns the data directory of a plane on which a profile is in force and nothing else has happened; made once.
fn prepared(binary: &Path, profile: &str) -> Result<&'static Prepared, String> {
    static PREPARED: OnceLock<Result<Prepared, String>> = OnceLock::new();
    let make = || {
        let mut plane = Plane::new(binary).whole();
        plane.choose_own_profile();
        plane.launch()?;
        plane.set_profile(profile)?;
        plane.stop();
        Prepared::pack(&plane.data_dir())
    };
    // There is one profile and one binary in a run.
    PREPARED.get_or_init(make).as_ref().map_err(Clone::clone)
}

impl Prepared {
    fn pack(folder: &Path) -> Result<Prepared, String> {
        let bad = |path: &Path, error: std::io::Error| format!("{}: {error}", path.display());
        let (mut files, mut folders) = (Vec::new(), vec![folder.to_owned()]);
        while let Some(from) = folders.pop() {
            for entry in std::fs::read_dir(&from).map_err(|error| bad(&from, error))? {
                let path = entry.map_err(|error| bad(&from, error))?.path();
                let about = path.symlink_metadata().map_err(|error| bad(&path, error))?;
                if about.is_dir() {
                    folders.push(path);
                } else if about.is_file() {
                    let content = std::fs::read(&path).map_err(|error| bad(&path, error))?;
                    let name = path.strip_prefix(folder).expect("found below the folder").to_owned();
                    files.push((name, about.permissions(), content));
                }
            }
        }
        Ok(Prepared(files))
    }

    fn unpack(&self, folder: &Path) -> Result<(), String> {
        for (name, permissions, content) in &self.0 {
            let path = folder.join(name);
            let parent = path.parent().expect("a file is in a folder");
            std::fs::create_dir_all(parent)
                .and_then(|()| std::fs::write(&path, content))
                .and_then(|()| std::fs::set_permissions(&path, permissions.clone()))
                .map_err(|error| format!("{}: {error}", path.display()))?;
        }
        Ok(())
    }
}

/// Reads lines in a thread of its own, so that waiting for one can end.
fn lines(stdout: ChildStdout) -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    receiver
}

/// Answers every HTTP request with 200 from a few threads, as cheaply as possible; returns the port.
pub fn serve_ok() -> u16 {
    const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok";
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("it is bound").port();
    for _ in 0..4 {
        let listener = listener.try_clone().expect("files are left");
        std::thread::spawn(move || {
            let mut request = [0; 4096];
            loop {
                let Ok((mut stream, _)) = listener.accept() else { continue };
                if stream.read(&mut request).unwrap_or_default() > 0 {
                    let _ = stream.write_all(ANSWER);
                }
            }
        });
    }
    port
}
