//! `run`: the worker through its whole life, against the replay server and against a service that
//! the test controls.

mod approval;
mod events;
mod exits;
mod first_process;
mod guide_worker;
mod interrupted;
mod lines;
mod queue_worker;

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{
    Folder, Run, VM, WHILE_TEST_RUNS, command, eventually, freeze, in_future, lines, with,
};

/// A folder with a log that the worker and the commands write.
struct Fixture {
    folder: Folder,
    log: String,
}

impl Fixture {
    fn new() -> Self {
        let folder = Folder::new();
        let log = folder.path("log");
        Self { folder, log }
    }

    /// A command that logs a word.
    fn logging(&self, word: &str) -> String {
        format!("sh -c 'echo {word} >> {}'", self.log)
    }

    /// The script of a worker that runs until it is asked to end: it logs its start and its end.
    fn worker(&self) -> String {
        self.worker_that("echo end >> $LOG; exit 0")
    }

    /// The same, with an action when it is asked to end.
    fn worker_that(&self, at_end: &str) -> String {
        format!(
            "LOG={}; trap '{at_end}' TERM; echo start >> $LOG; while {WHILE_TEST_RUNS}; do sleep 0.05; done",
            self.log
        )
    }

    /// `run` of a worker's script in the folder, with options.
    fn run(&self, endpoint: &str, options: &[&str], script: &str) -> Run {
        let mut command = command(&arguments(endpoint, options, script));
        command.current_dir(self.folder.as_path());
        Run::start(command)
    }

    fn lines(&self) -> Vec<String> {
        lines(&self.log)
    }

    /// Waits for this number of lines that consist of this word.
    fn await_lines(&self, word: &str, times: usize) {
        let count = || self.lines().iter().filter(|line| *line == word).count();
        eventually(&format!("{word} {times} times"), || {
            (count() >= times).then_some(())
        });
    }
}

fn arguments(endpoint: &str, options: &[&str], script: &str) -> Vec<String> {
    let before = [
        "run",
        "--endpoint",
        endpoint,
        "--interval",
        "200ms",
        "--vm-name",
        VM,
    ];
    let all = [&before, options, &["--", "sh", "-c", script]].concat();
    all.into_iter().map(str::to_owned).collect()
}

/// An eviction of this machine, with a notice for which the worker is stopped at once.
fn preempt(id: &str) -> Value {
    let soon = in_future(Duration::from_secs(110));
    with(
        freeze(id),
        &json!({ "EventType": "Preempt", "NotBefore": soon }),
    )
}
