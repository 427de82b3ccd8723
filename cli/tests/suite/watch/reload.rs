//! SIGHUP: rules and commands are read again, and a file that cannot be read changes nothing.

use std::fs;

use rustix::process::Signal;
use serde_json::json;

use crate::support::{
    FakeService, Folder, Run, VM, eventually, freeze, helper, lines, run, signal, started,
};

const HOLD: &str = "[[rule]]\naction = \"hold\"\n";
const APPROVE: &str = "[[rule]]\naction = \"approve\"\n";
const PREPARE: &str = "[[rule]]\naction = \"prepare\"\n";

/// A watcher with a configuration file.
struct Fixture {
    folder: Folder,
    service: FakeService,
    config: String,
}

impl Fixture {
    fn new() -> Self {
        let folder = Folder::new();
        let config = folder.path("watch.toml");
        let service = FakeService::start();
        Self {
            folder,
            service,
            config,
        }
    }

    /// Writes the file: the state and the metrics, and this.
    fn write(&self, text: &str) {
        let (state, metrics) = (self.folder.path("state"), self.folder.path("metrics.prom"));
        let common = format!("vm_name = {VM:?}\nstate = {state:?}\nmetrics_file = {metrics:?}\n");
        fs::write(&self.config, common + text).expect("a file");
    }

    /// `KEY = COMMAND` with a command that logs a word and the event's id.
    fn logging(&self, key: &str, word: &str) -> String {
        let steps = [format!(
            "append {} {word} $EVENT_ID",
            self.folder.path("log")
        )];
        format!("{key} = {}\n", json!(helper(&steps)))
    }

    fn watch(&self) -> Run {
        Run::watch(&self.service.url(), &["--config", &self.config])
    }

    fn has_metric(&self, value: u8) -> bool {
        let text = fs::read_to_string(self.folder.path("metrics.prom")).unwrap_or_default();
        text.contains(&format!("scheduled_events_config_reload_failed {value}\n"))
    }

    fn status(&self) -> (serde_json::Value, String) {
        let state = self.folder.path("state");
        let records = run(&["status", "--state", &state, "--json"]).records();
        (
            records[0]["config_reload_failed"].clone(),
            run(&["status", "--state", &state]).stdout,
        )
    }
}

#[test]
fn rules_and_commands_are_read_again_and_count_for_open_events() {
    let fixture = Fixture::new();
    fixture.write(HOLD);
    fixture.service.show(2, &[freeze("a")]);
    let mut run = fixture.watch();
    run.record("a decision", |record| record["action"] == json!("hold"));
    let commands = fixture.logging("prepare", "prepare") + &fixture.logging("recover", "recover");
    fixture.write(&(commands + PREPARE));
    signal(run.id(), Signal::HUP);
    run.wait_for_stderr("note: the configuration was read again: 1 rule");
    run.record("a decision", |record| record["action"] == json!("prepare"));
    run.record("an approval", |record| {
        record["record"] == json!("approval")
    });
    fixture.service.show(3, &[started("a")]);
    fixture.service.await_polls(2);
    fixture.service.show(4, &[]);
    run.record("a recovery", |record| record["record"] == json!("recover"));
    run.stop().with_code(0);
    assert_eq!(
        lines(&fixture.folder.path("log")),
        ["prepare a", "recover a"]
    );
}

#[test]
fn a_changed_rule_changes_only_what_may_be_approved() {
    let fixture = Fixture::new();
    let go = fixture.folder.path("go");
    let log = fixture.folder.path("log");
    let steps = [
        format!("append {log} begin"),
        format!("await {go}"),
        format!("append {log} end"),
    ];
    let prepare = format!("prepare = {}\n", json!(helper(&steps)));
    fixture.write(&(prepare.clone() + PREPARE));
    fixture.service.show(2, &[freeze("a")]);
    let mut run = fixture.watch();
    eventually("a preparation", || (lines(&log) == ["begin"]).then_some(()));
    fixture.write(&(prepare + HOLD));
    signal(run.id(), Signal::HUP);
    run.record("a decision", |record| record["action"] == json!("hold"));
    fs::write(&go, "").expect("a file");
    run.record("a preparation", |record| {
        record["outcome"] == json!("ready")
    });
    fixture.service.await_polls(3);
    assert!(fixture.service.posted().is_empty());
    assert_eq!(lines(&log), ["begin", "end"]);
    run.stop().with_code(0);
}

#[test]
fn a_file_that_cannot_be_read_changes_nothing_and_says_so() {
    let fixture = Fixture::new();
    fixture.write(HOLD);
    fixture.service.show(2, &[freeze("a")]);
    let mut run = fixture.watch();
    run.record("a decision", |record| record["action"] == json!("hold"));
    eventually("the metric", || fixture.has_metric(0).then_some(()));
    assert_eq!(fixture.status().0, json!(null));
    fixture.write("[[rule]]\naction = \"aprove\"\n");
    signal(run.id(), Signal::HUP);
    let place = format!("{}:5:10: ", fixture.config);
    run.wait_for_stderr(&format!(
        "error: the configuration was not read again, and the one before counts: {place}unknown word \"aprove\""
    ));
    eventually("the metric", || fixture.has_metric(1).then_some(()));
    eventually("the status", || {
        let (reason, text) = fixture.status();
        let reason = reason.as_str()?;
        (reason.starts_with(&place) && text.contains("the configuration was not read again"))
            .then_some(())
    });
    // A gate cannot be added to a watcher that runs.
    fixture.write(&format!("gate = \"true\"\n{APPROVE}"));
    signal(run.id(), Signal::HUP);
    run.wait_for_stderr("`gate` was added or removed, which only a restart applies");
    fixture.service.await_polls(2);
    assert!(fixture.service.posted().is_empty());
    fixture.write(&format!("recover_all = true\n{APPROVE}"));
    signal(run.id(), Signal::HUP);
    run.wait_for_stderr("warning: `recover_all` has changed, which only a restart applies");
    run.record("an approval", |record| {
        record["record"] == json!("approval")
    });
    eventually("the metric", || fixture.has_metric(0).then_some(()));
    eventually("the status", || fixture.status().0.is_null().then_some(()));
    run.stop().with_code(0);
}

#[test]
fn without_a_file_the_signal_still_stops_the_watcher() {
    let service = FakeService::start();
    let run = Run::watch(&service.url(), &["--vm-name", VM]);
    service.await_polls(2);
    signal(run.id(), Signal::HUP);
    run.finish().with_code(0);
}

#[test]
fn a_recovery_that_was_removed_still_runs_for_a_machine_out_of_service() {
    let fixture = Fixture::new();
    let recover = fixture.logging("recover", "recover");
    let prepare = fixture.logging("prepare", "prepare");
    fixture.write(&(prepare + &recover + PREPARE));
    fixture.service.show(2, &[freeze("a")]);
    let mut run = fixture.watch();
    run.record("a preparation", |record| {
        record["outcome"] == json!("ready")
    });
    fixture.write(PREPARE);
    signal(run.id(), Signal::HUP);
    run.wait_for_stderr("warning: `recover` was removed, which only a restart applies");
    run.wait_for_stderr("note: the configuration was read again");
    fixture.service.show(3, &[started("a")]);
    fixture.service.await_polls(2);
    fixture.service.show(4, &[]);
    run.record("a recovery", |record| record["record"] == json!("recover"));
    run.stop().with_code(0);
    let log = lines(&fixture.folder.path("log"));
    assert_eq!(log, ["prepare a", "recover a"]);
}

#[test]
fn a_file_that_is_huge_or_a_pipe_is_refused_and_the_next_one_is_read() {
    let fixture = Fixture::new();
    fixture.write(HOLD);
    fixture.service.show(2, &[freeze("a")]);
    let mut run = fixture.watch();
    run.record("a decision", |record| record["action"] == json!("hold"));
    let refused = "error: the configuration was not read again, and the one before counts: cannot read the configuration ";
    let huge = fs::File::create(&fixture.config).expect("a file");
    huge.set_len(1 << 30).expect("a size");
    signal(run.id(), Signal::HUP);
    let config = &fixture.config;
    run.wait_for_stderr(&format!("{refused}{config}: it has more than 1024 KiB"));
    fs::remove_file(config).expect("no file");
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mkfifoat(rustix::fs::CWD, config, mode).expect("a pipe");
    signal(run.id(), Signal::HUP);
    run.wait_for_stderr(&format!(
        "{refused}{config}: it is a pipe or a device, expected a file"
    ));
    fs::remove_file(config).expect("no pipe");
    fixture.write(APPROVE);
    signal(run.id(), Signal::HUP);
    run.wait_for_stderr("note: the configuration was read again: 1 rule");
    run.stop().with_code(0);
}
