//! The worker: one command in a process group of its own, which inherits standard output and,
//! unless it is a terminal, standard input.

use std::ffi::OsString;
use std::io;
use std::process::ExitStatus;
use std::time::Duration;

use crate::startup::command_in_group;
use scheduled_events::hooks::{ProcessTree, SUPERVISOR_VARIABLES};

/// How often to check a worker whose end no thread waits for, or that has left processes running.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// A worker, from its start until everything that it started is gone.
pub(crate) struct Worker {
    tree: ProcessTree,
    status: Option<ExitStatus>,
    /// Whether a thread reports the end of the worker's own process.
    is_awaited: bool,
}

impl Worker {
    /// Starts the worker. `on_end` is called on another thread when its own process has ended.
    pub(crate) fn start(
        words: &[OsString],
        on_end: impl FnOnce() + Send + 'static,
    ) -> io::Result<Self> {
        let mut command = command_in_group(words)?;
        for name in SUPERVISOR_VARIABLES {
            command.env_remove(name);
        }
        let tree = ProcessTree::start_worker(command)?;
        let is_awaited = tree.on_end(on_end);
        Ok(Self {
            tree,
            status: None,
            is_awaited,
        })
    }

    pub(crate) fn id(&self) -> u32 {
        self.tree.id()
    }

    /// How soon to check whether the worker and all of its processes have ended, if no thread
    /// reports that.
    pub(crate) fn check_within(&self) -> Option<Duration> {
        (!self.is_awaited || self.status.is_some()).then_some(CHECK_INTERVAL)
    }

    /// How the worker's own process has ended, if it has.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.status = self.tree.ended();
        self.status
    }

    /// Whether any process of the worker still runs.
    pub(crate) fn runs(&mut self) -> bool {
        self.ended();
        self.tree.runs()
    }

    /// Sends a signal to the worker's process group.
    pub(crate) fn pass_on(&self, signal: i32) {
        self.tree.pass_on(signal);
    }

    /// Asks all processes of the worker to terminate.
    pub(crate) fn terminate(&mut self) {
        self.tree.terminate();
    }

    /// Kills all processes of the worker.
    pub(crate) fn kill(&mut self) {
        self.tree.kill();
    }
}
