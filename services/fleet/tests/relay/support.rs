//! A folder of one test, and the relay as a process.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use scheduled_events_test_support::wait;
use tempfile::TempDir;

use super::audit_file::AuditFile;

/// The files of one test.
pub(crate) struct Fixture {
    folder: TempDir,
}

impl Fixture {
    pub(crate) fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn audit(&self) -> AuditFile {
        AuditFile::open(&self.path("audit"))
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        fs::write(self.path(name), text).unwrap();
        self.path(name)
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.path("log")).unwrap_or_default()
    }

    /// Writes the configuration: these tables after the common settings.
    pub(crate) fn configure(&self, targets: &str) {
        let (audit, state) = (self.path("audit"), self.path("state"));
        let (audit, state) = (audit.to_str().unwrap(), state.to_str().unwrap());
        let text = format!(
            "machine = \"WestNO_0\"\naudit = {audit:?}\n[relay]\nstate = {state:?}\n{targets}"
        );
        self.write("fleet.toml", &text);
    }

    /// Starts the relay.
    pub(crate) fn start(&self) -> Relay {
        let log = fs::OpenOptions::new()
            .append(true)
            .create(true)
            .open(self.path("log"))
            .unwrap();
        let child = self
            .command()
            .stdin(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        Relay {
            child,
            log: self.path("log"),
        }
    }

    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_scheduled-events-fleet"));
        command
            .arg("--config")
            .arg(self.path("fleet.toml"))
            .arg("relay");
        // None of these may have an effect.
        command
            .env("http_proxy", "http://127.0.0.1:9")
            .env("HTTPS_PROXY", "http://127.0.0.1:9");
        command
    }
}

/// A running relay. It is killed at the end of its scope.
pub(crate) struct Relay {
    child: Child,
    log: PathBuf,
}

impl Relay {
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        wait::ended(&mut self.child);
    }

    /// Kills it once a condition is true.
    pub(crate) fn kill_when(self, condition: impl Fn() -> bool) {
        wait_until("the moment to kill", condition);
        self.kill();
    }

    /// Ends it with SIGTERM, and waits for its end.
    pub(crate) fn terminate(mut self) {
        let pid = i32::try_from(self.child.id()).unwrap();
        rustix::process::kill_process(
            rustix::process::Pid::from_raw(pid).unwrap(),
            rustix::process::Signal::TERM,
        )
        .unwrap();
        let status = wait::ended(&mut self.child);
        assert!(status.success(), "{status}: {}", self.read_log());
    }

    fn read_log(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }

    /// Waits until the log has this text.
    pub(crate) fn wait_for_log(&self, text: &str) {
        wait_until(&format!("{text:?} in the log"), || {
            self.read_log().contains(text)
        });
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until a condition is true.
pub(crate) fn wait_until(what: &str, condition: impl Fn() -> bool) {
    wait::until(what, || condition().then_some(()));
}

/// A target in the configuration.
pub(crate) fn target(name: &str, kind: &str, url: &str, more: &str) -> String {
    format!("[[relay.target]]\nname = {name:?}\nkind = {kind:?}\nurl = {url:?}\n{more}\n")
}

/// The saved position of a target.
pub(crate) fn saved_position(state: &Path, target: &str) -> Option<u64> {
    let text = fs::read(state.join(format!("{target}.json"))).ok()?;
    serde_json::from_slice::<serde_json::Value>(&text).unwrap()["position"]["sequence"].as_u64()
}
