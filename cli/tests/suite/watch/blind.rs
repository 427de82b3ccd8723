//! Watchers that get no documents: Fault 38 of `tests/field-faults.md`.

use std::time::Duration;

use scheduled_events_replay::Scenario;
use serde_json::json;

use crate::support::{
    FakeService, Folder, Reply, Run, VM, command, eventually, freeze, in_future, play_at, run,
    together, with,
};

const BLIND: &str = "warning: blind: no document from the metadata service for 1";
const SEES: &str = "note: documents from the metadata service arrive again, after ";

/// A service of which nothing is known until 18 seconds after its start.
fn fails_for_a_while(fault: &str) -> scheduled_events_replay::Server {
    let scenario = Scenario::builtin_source("user-reboot").expect("a scenario");
    play_at(1.0, scenario, &[&format!("get.{fault}@2s-18s")])
}

#[test]
fn fault_38_status_and_log_report_a_watcher_without_documents() {
    let faults = [
        ("status:500", "status 500"),
        ("silence", "the request timed out"),
        ("empty", "the response is empty"),
        ("reset", "connection lost"),
    ];
    together(faults, |(fault, cause)| {
        let (server, folder) = (fails_for_a_while(fault), Folder::new());
        let state = folder.path("state");
        let status =
            |arguments: &[&str]| run(&[&["status", "--state", &state][..], arguments].concat());
        let watcher = Run::watch(&server.url(), &["--state", &state, "--vm-name", VM]);
        eventually("a document", || {
            let record = status(&["--json"]).of_kind("status").into_iter().next()?;
            (record["blind"] == false && record["last_document"].is_string()).then_some(())
        });
        status(&[]).with_code(0);

        watcher.wait_for_stderr(BLIND);
        let shown = status(&[]).with_code(1);
        assert!(
            shown.stdout.starts_with("blind: no document since ")
                && shown
                    .stdout
                    .contains(&format!("failed, the last one: {cause}")),
            "{fault}: {}",
            shown.stdout
        );
        assert!(
            shown.stdout.contains("\nin service") && shown.stdout.contains(" watches; "),
            "{fault}: {}",
            shown.stdout
        );
        assert_eq!(shown.stderr, "", "{fault}");
        let record = status(&["--json"]).with_code(1).of_kind("status").remove(0);
        assert_eq!(record["blind"], true, "{record}");
        assert!(record["failed_polls"].as_u64() >= Some(1), "{record}");
        assert!(
            record["cause"]
                .as_str()
                .is_some_and(|known| known.starts_with(cause)),
            "{record}"
        );

        watcher.wait_for_stderr(SEES);
        eventually("a watcher that sees", || {
            (status(&[]).code == Some(0)).then_some(())
        });
        let log = watcher.stderr();
        assert_eq!(log.matches("warning: blind:").count(), 1, "{fault}: {log}");

        watcher.kill();
        let shown = status(&[]).with_code(1);
        assert!(shown.stdout.contains("nothing watches"), "{}", shown.stdout);
        let record = status(&["--json"]).with_code(1).of_kind("status").remove(0);
        assert!(record["blind"].is_null(), "{record}");
    });
}

#[test]
fn fault_38_a_watcher_that_never_saw_a_document_is_blind_since_its_start() {
    let (service, folder) = (FakeService::start(), Folder::new());
    service.intercept(|request| request.is_get().then(|| Reply::new(503, "", "")));
    let state = folder.path("state");
    let watcher = Run::watch(&service.url(), &["--state", &state, "--vm-name", VM]);
    watcher.wait_for_stderr(BLIND);
    let shown = run(&["status", "--state", &state]).with_code(1).stdout;
    assert!(
        shown.starts_with("blind: no document since the start at ")
            && shown.contains("no events in the last document"),
        "{shown}"
    );
    // What the watcher reports goes with it.
    watcher.stop();
    // Windows has no signal that asks a process to end.
    assert!(
        cfg!(windows) || folder.names().iter().all(|name| !name.contains("sight")),
        "{:?}",
        folder.names()
    );
}

#[test]
#[cfg(unix)]
fn fault_38_a_watcher_that_hangs_does_not_look_as_if_it_sees() {
    use rustix::process::{Pid, Signal, kill_process};

    let (service, folder) = (FakeService::start(), Folder::new());
    let state = folder.path("state");
    let watcher = Run::watch(&service.url(), &["--state", &state, "--vm-name", VM]);
    service.await_polls(2);
    let pid = Pid::from_raw(watcher.id().cast_signed()).expect("a process id");
    kill_process(pid, Signal::STOP).expect("a running child");
    let shown = eventually("a hanging watcher", || {
        let shown = run(&["status", "--state", &state]);
        (shown.code == Some(1)).then_some(shown.stdout)
    });
    assert!(
        shown.starts_with("blind: the watcher has not reported for "),
        "{shown}"
    );
    kill_process(pid, Signal::CONT).expect("a stopped child");
    eventually("a watcher that sees", || {
        (run(&["status", "--state", &state]).code == Some(0)).then_some(())
    });
}

#[test]
fn fault_38_wait_does_not_claim_that_nothing_was_announced() {
    let service = FakeService::start();
    let mut polls = 0;
    service.intercept(move |request| {
        polls += u32::from(request.is_get());
        (request.is_get() && polls > 2).then(|| Reply::new(500, "", ""))
    });
    let arguments = ["wait", "--endpoint", &service.url(), "--timeout", "15s"];
    let finished = Run::start(command(&[&arguments[..], &["--vm-name", VM]].concat()))
        .finish()
        .with_code(1);
    assert!(
        finished
            .stderr
            .contains("error: whether an event was announced within 15s is unknown: no poll was answered with a document for 1")
            && finished.stderr.contains("the last failure: status 500"),
        "{}",
        finished.stderr
    );
    assert_eq!(
        finished.stderr.matches(BLIND).count(),
        1,
        "{}",
        finished.stderr
    );
}

#[test]
#[cfg(unix)]
fn a_watcher_that_cannot_report_goes_on_and_is_not_taken_to_see() {
    let (service, folder) = (FakeService::start(), Folder::new());
    let state = folder.path("state");
    std::fs::create_dir(folder.path("state.sight.tmp")).expect("a folder");
    let watcher = Run::watch(&service.url(), &["--state", &state, "--vm-name", VM]);
    watcher.wait_for_stderr("warning: cannot report to `status` whether documents arrive: ");
    service.await_polls(2);
    let shown = run(&["status", "--state", &state]).with_code(1).stdout;
    assert!(
        shown.starts_with("unknown whether documents arrive: the watcher has not reported it"),
        "{shown}"
    );
    std::fs::remove_dir(folder.path("state.sight.tmp")).expect("a folder");
    eventually("a report", || {
        (run(&["status", "--state", &state]).code == Some(0)).then_some(())
    });
}

#[test]
fn a_pause_below_ten_seconds_is_no_blindness() {
    let (service, folder) = (FakeService::start(), Folder::new());
    let notice = json!({ "NotBefore": in_future(Duration::from_secs(3600)) });
    service.show(2, &[with(freeze("a"), &notice)]);
    let mut polls = 0;
    service.intercept(move |request| {
        polls += u32::from(request.is_get());
        (request.is_get() && polls == 3)
            .then(|| Reply::new(500, "", "").after(Duration::from_secs(3)))
    });
    let state = folder.path("state");
    let watcher = Run::watch(&service.url(), &["--state", &state, "--vm-name", VM]);
    service.await_polls(12);
    assert!(!watcher.stderr().contains("blind"), "{}", watcher.stderr());
    run(&["status", "--state", &state]).with_code(0);
}
