//! Processes of tests, which end with their test.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::port::free_port;
use crate::wait;

/// A process that is killed at the end.
#[derive(Debug)]
pub struct Process(pub Child);

impl Process {
    /// Starts it.
    ///
    /// # Panics
    /// It cannot be started.
    pub fn start(command: &mut Command) -> Self {
        // Its output and its sockets are read without a limit.
        wait::limit_tests();
        Self(
            command
                .stdin(Stdio::null())
                .spawn()
                .unwrap_or_else(|error| panic!("cannot start {command:?}: {error}")),
        )
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a part of Azurite, Microsoft's emulator of Azure Storage: `blob` or `queue`. `is_ready` is asked with its port until it
/// says so. `change` may change its command. `tests/setup fleet` installs it.
///
/// # Panics
/// It is not installed, or does not start.
pub fn azurite(
    part: &str,
    change: impl Fn(&mut Command),
    mut is_ready: impl FnMut(u16) -> bool,
) -> (Process, u16) {
    let installed = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../target/tools/npm/azurite/node_modules/azurite");
    let package = std::env::var_os("AZURITE").map_or(installed, PathBuf::from);
    let program = package.join(format!("dist/src/{part}/main.js"));
    assert!(
        program.exists(),
        "{} does not exist; install it: tests/setup fleet",
        program.display()
    );
    for _ in 0..5 {
        // Another process can still take the port before Azurite does; then it ends, and another one is tried.
        let free = free_port();
        let mut command = Command::new("node");
        command.arg(&program).args([
            &format!("--{part}Host"),
            "127.0.0.1",
            &format!("--{part}Port"),
            &free.to_string(),
        ]);
        command.args([
            "--inMemoryPersistence",
            "--skipApiVersionCheck",
            "--disableTelemetry",
            "--silent",
        ]);
        let nowhere = File::options()
            .write(true)
            .open("/dev/null")
            .expect("a sink");
        change(command.stdout(nowhere));
        let mut process = Process::start(&mut command);
        let has_started = wait::until("Azurite", || {
            let has_ended = process.0.try_wait().expect("its state").is_some();
            if has_ended {
                Some(false)
            } else {
                is_ready(free).then_some(true)
            }
        });
        if has_started {
            return (process, free);
        }
    }
    panic!("Azurite does not start");
}
