//! The worker: one command that inherits standard input, unless that is a terminal, and output, in a process group of its own.

use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

use crate::hooks::{self, Registered};
use crate::platform::{self, COMMAND_ID, CommandTree};
use crate::state::WORKER_MARK;

/// How often a worker is checked whose end no thread waits for, or that has left something running.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// A worker, from its start until everything that it started is gone.
pub(super) struct Worker {
    child: Child,
    tree: CommandTree,
    status: Option<ExitStatus>,
    /// Whether a thread reports the end of the worker's own process.
    is_awaited: bool,
    _registered: Registered,
}

impl Worker {
    /// Starts the worker. `on_end` is called on another thread when its own process has ended.
    pub(super) fn start(words: &[OsString], on_end: impl FnOnce() + Send + 'static) -> io::Result<Self> {
        let (program, arguments) =
            words.split_first().ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "no command"))?;
        let mark = format!("{WORKER_MARK}{}", hooks::mark());
        let mut command = Command::new(program);
        command.args(arguments).env(COMMAND_ID, &mark);
        for name in hooks::SUPERVISOR_VARIABLES {
            command.env_remove(name);
        }
        platform::new_group(&mut command);
        // The group is not the terminal's foreground, so that reading it would stop the worker for ever.
        if io::stdin().is_terminal() {
            command.stdin(Stdio::null());
        }
        let mut child = command.spawn()?;
        let registered = Registered::new(child.id(), &mark);
        let tree = CommandTree::new(&mut child, &mark)?;
        let process = child.id();
        let waiter = thread::Builder::new().spawn(move || {
            if platform::wait_for_end(process) {
                on_end();
            }
        });
        Ok(Self { child, tree, status: None, is_awaited: waiter.is_ok(), _registered: registered })
    }

    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// How soon to check whether the worker and all that it started have ended, if nothing reports that.
    pub(super) fn check_within(&self) -> Option<Duration> {
        (!self.is_awaited || self.status.is_some()).then_some(CHECK_INTERVAL)
    }

    /// How the worker's own process has ended, if it has.
    pub(super) fn ended(&mut self) -> Option<ExitStatus> {
        if self.status.is_none() {
            self.status = self.child.try_wait().unwrap_or_default();
        }
        self.status
    }

    /// Whether something that belongs to the worker still runs.
    pub(super) fn runs(&mut self) -> bool {
        self.ended().is_none() || self.tree.has_others()
    }

    /// Sends a signal to the worker's process group.
    pub(super) fn pass_on(&self, signal: i32) {
        self.tree.pass_on(signal);
    }

    /// Asks all that belongs to the worker to terminate.
    pub(super) fn terminate(&mut self) {
        self.tree.terminate_all(self.status.is_none());
    }

    /// Kills all that belongs to the worker.
    pub(super) fn kill(&mut self) {
        self.tree.kill_all(self.status.is_none());
    }
}
