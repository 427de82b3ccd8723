//! The verdict on clients: it detects the habits of real ones in imitations, and this project's own
//! client is clean under every fault.
//!
//! - `table` runs the wrong and the right clients of `clients.py`, at three speeds.
//! - `own_client` runs `watch` under every fault of the replay server.
//! - `service`: the verdict on a service, by a capture of its answers.
//! - `reports` checks the files: `JUnit` XML with a parser of its own, NDJSON, HTML.

mod own_client;
mod reports;
mod service;
mod table;

use std::fs;
use std::time::Duration;

use serde_json::Value;

use crate::support::{Finished, Folder, Run, command};

/// The longest run of a client.
const PATIENCE: Duration = Duration::from_secs(240);

/// One own event, and one of a neighbour that comes first in the document. It takes ten seconds.
const SHORT: &str = r#"
    about = "A Freeze of this VM, and one of a neighbour."
    [[event]]
    event_type = "Freeze"
    resources = ["{peer:1}"]
    appears = "1s"
    notice = "6s"
    started_for = "2s"
    [[event]]
    event_type = "Reboot"
    appears = "1s"
    notice = "6s"
    starts_after_approval = "3s"
    started_for = "3s"
"#;

/// The result of a run: its report as NDJSON.
struct Tested {
    finished: Finished,
    report: Vec<Value>,
}

/// Plays a scenario for a command, with more arguments.
fn test_client(scenario: &str, arguments: &[&str], client: &[&str]) -> Tested {
    let folder = Folder::new();
    let (scenario, report) = (
        folder.file("scenario.toml", scenario),
        folder.path("report.ndjson"),
    );
    let all = [
        &["replay", &scenario, "--report", &report, "--linger", "2s"],
        arguments,
        &["--"],
        client,
    ]
    .concat();
    let finished = Run::start(command(&all)).finish_within(PATIENCE);
    let text = fs::read_to_string(&report).expect("a report");
    let report = text
        .lines()
        .map(|line| serde_json::from_str(line).expect(line))
        .collect();
    Tested { finished, report }
}

impl Tested {
    /// The rules with this outcome.
    fn rules(&self, outcome: &str) -> Vec<&str> {
        let rules = self
            .report
            .iter()
            .filter(|line| line["report"] == "rule" && line["outcome"] == outcome);
        rules
            .map(|line| line["rule"].as_str().expect("an id"))
            .collect()
    }

    fn of_kind(&self, kind: &str) -> Vec<&Value> {
        self.report
            .iter()
            .filter(|line| line["report"] == kind)
            .collect()
    }

    fn messages(&self) -> Vec<String> {
        let findings = self.of_kind("finding").into_iter();
        findings
            .map(|line| format!("{}: {}", line["rule"], line["message"]))
            .collect()
    }
}
