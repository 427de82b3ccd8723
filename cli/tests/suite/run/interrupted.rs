//! Interrupted runs: by a boot, by SIGKILL, in the middle of an event; and locks.

use std::time::Duration;

use serde_json::json;

use super::{Fixture, arguments, preempt};
use crate::support::{
    FakeService, Reply, Run, WHILE_TEST_RUNS, command, eventually, run, started, with,
};

/// `run` on a machine whose boot has this id.
fn in_boot(boot: &str, arguments: &[String]) -> Run {
    let mut command = command(arguments);
    command.env("SCHEDULED_EVENTS_BOOT_ID", boot);
    Run::start(command)
}

fn never_answers(service: &FakeService) {
    service.intercept(|_| Some(Reply::new(200, "", "").after(Duration::from_secs(3600))));
}

#[test]
fn after_a_boot_the_worker_resumes_even_if_the_service_does_not_answer() {
    let (fixture, service) = (Fixture::new(), FakeService::start());
    let (resume, state) = (fixture.logging("resume"), fixture.folder.path("state"));
    let arguments = arguments(
        &service.url(),
        &["--resume", &resume, "--state", &state],
        &fixture.worker(),
    );
    let evicted = in_boot("one", &arguments);
    fixture.await_lines("start", 1);
    service.show(2, &[preempt("a")]);
    evicted.wait_for_stderr("the worker has stopped");
    evicted.kill();
    assert_eq!(fixture.lines(), ["start", "end"]);

    // The machine was deallocated, and allocated again: the service is not ready yet.
    never_answers(&service);
    let back = in_boot("two", &arguments);
    fixture.await_lines("start", 2);
    assert_eq!(fixture.lines(), ["start", "end", "resume", "start"]);
    back.terminate();
    back.finish().with_code(0);

    // It was asked to end before its work was done, so the next run resumes, too. A run that has
    // done its work leaves nothing.
    service.intercept(|_| None);
    service.show(3, &[]);
    let done = crate::run::arguments(
        &service.url(),
        &["--resume", &resume, "--state", &state],
        "exit 0",
    );
    in_boot("two", &done).finish().with_code(0);
    in_boot("two", &done).finish().with_code(0);
    assert_eq!(
        fixture
            .lines()
            .iter()
            .filter(|line| *line == "resume")
            .count(),
        2
    );
}

/// A disk that was copied has the state of the machine that it was copied from.
#[test]
fn another_machines_work_is_not_resumed() {
    let (fixture, service) = (Fixture::new(), FakeService::start());
    let (resume, state) = (fixture.logging("resume"), fixture.folder.path("state"));
    let arguments = arguments(
        &service.url(),
        &["--resume", &resume, "--state", &state],
        &fixture.worker(),
    );
    let first = in_boot("one", &arguments);
    fixture.await_lines("start", 1);
    service.show(2, &[preempt("a")]);
    first.wait_for_stderr("the worker has stopped");
    service.await_polls(2);
    first.kill();
    service.show(3, &[]);
    service.set_vm_id("11111111-4a74-ef47-6e81-82f6d2ba4166");
    let copy = in_boot("two", &arguments);
    copy.wait_for_stderr("the last run was another machine's");
    fixture.await_lines("start", 2);
    assert_eq!(fixture.lines(), ["start", "end", "start"]);
    copy.terminate();
    copy.finish().with_code(0);
}

#[test]
fn a_machine_that_went_away_without_notice_resumes_too() {
    let (fixture, service) = (Fixture::new(), FakeService::start());
    let (resume, state) = (fixture.logging("resume"), fixture.folder.path("state"));
    let arguments = arguments(
        &service.url(),
        &["--resume", &resume, "--state", &state],
        &fixture.worker(),
    );
    let lost = in_boot("one", &arguments);
    fixture.await_lines("start", 1);
    let pid = worker_of(&lost);
    lost.kill();
    // A boot would have ended it.
    crate::support::signal(pid, rustix::process::Signal::KILL);
    let back = in_boot("two", &arguments);
    fixture.await_lines("start", 2);
    assert_eq!(fixture.lines(), ["start", "resume", "start"]);
    back.terminate();
    back.finish().with_code(0);
}

/// The process of the worker, from the log.
fn worker_of(run: &Run) -> u32 {
    run.wait_for_stderr("started the worker, process ");
    let stderr = run.stderr();
    let line = stderr
        .lines()
        .find_map(|line| line.split_once("started the worker, process "))
        .expect("a line");
    line.1.trim().parse().expect("a number")
}

#[test]
fn a_run_that_is_restarted_during_an_event_starts_the_worker_after_it() {
    let (fixture, service) = (Fixture::new(), FakeService::start());
    let state = fixture.folder.path("state");
    let arguments = arguments(
        &service.url(),
        &["--approve", "--state", &state],
        &fixture.worker(),
    );
    let first = in_boot("one", &arguments);
    fixture.await_lines("start", 1);
    service.show(2, &[preempt("a")]);
    first.wait_for_stderr("approved a");
    first.kill();
    let second = in_boot("one", &arguments);
    second.wait_for_stderr("waiting for a document");
    service.show(3, &[with(started("a"), &json!({ "EventType": "Preempt" }))]);
    service.await_polls(5);
    assert_eq!(fixture.lines(), ["start", "end"]);
    service.show(4, &[]);
    fixture.await_lines("start", 2);
    second.terminate();
    second.finish().with_code(0);
    assert_eq!(service.posted(), ["a"]);
}

#[test]
fn a_run_that_is_restarted_during_an_eviction_without_notice_starts_the_worker_after_it() {
    let (fixture, service) = (Fixture::new(), FakeService::start());
    let state = fixture.folder.path("state");
    let arguments = arguments(&service.url(), &["--state", &state], &fixture.worker());
    let first = in_boot("one", &arguments);
    fixture.await_lines("start", 1);
    service.show(2, &[with(started("a"), &json!({ "EventType": "Preempt" }))]);
    first.wait_for_stderr("the worker has stopped");
    first.kill();
    let second = in_boot("one", &arguments);
    second.wait_for_stderr("waiting for a document");
    service.await_polls(5);
    assert_eq!(fixture.lines(), ["start", "end"]);
    service.show(3, &[]);
    fixture.await_lines("start", 2);
    second.terminate();
    second.finish().with_code(0);
}

/// The service is silent when the run starts again; when it answers, the event is still open.
#[test]
fn a_worker_that_was_started_because_the_service_was_silent_is_stopped_again() {
    let (fixture, service) = (Fixture::new(), FakeService::start());
    let state = fixture.folder.path("state");
    let arguments = arguments(&service.url(), &["--state", &state], &fixture.worker());
    let first = in_boot("one", &arguments);
    fixture.await_lines("start", 1);
    service.show(2, &[preempt("a")]);
    first.wait_for_stderr("the worker has stopped");
    first.kill();
    service.intercept(|_| Some(Reply::new(500, "", "")));
    let second = in_boot("one", &arguments);
    fixture.await_lines("start", 2);
    service.intercept(|_| None);
    fixture.await_lines("end", 2);
    service.await_polls(3);
    service.show(3, &[]);
    fixture.await_lines("start", 3);
    second.terminate();
    second.finish().with_code(0);
}

#[test]
fn the_worker_runs_once_for_each_lock_and_each_state_file() {
    let (fixture, service) = (Fixture::new(), FakeService::start());
    for option in ["--lock", "--state"] {
        let file = fixture.folder.path(&option[2..]);
        let arguments = arguments(&service.url(), &[option, &file], &fixture.worker());
        let before = fixture.lines().len();
        let first = Run::start(command(&arguments));
        fixture.await_lines("start", before / 2 + 1);
        let second = run(&arguments).with_code(2);
        assert!(
            second.stderr.contains("is in use by process"),
            "{}",
            second.stderr
        );

        // A killed run leaves its worker, which the next run ends before it starts another one.
        first.wait_for_stderr("started the worker");
        first.kill();
        let third = Run::start(command(&arguments));
        third.wait_for_stderr("ended 1 process that the last run left running");
        third.wait_for_stderr("started the worker");
        fixture.await_lines("start", before / 2 + 2);
        third.terminate();
        third.finish().with_code(0);
        assert_eq!(fixture.lines()[before..], ["start", "end", "start", "end"]);
    }
}

/// The worker's own process ends on SIGTERM, but its child continues.
#[test]
fn what_is_left_of_a_worker_is_ended_even_if_its_own_process_has_ended() {
    let (fixture, service) = (Fixture::new(), FakeService::start());
    let state = fixture.folder.path("state");
    let child = format!(
        "trap \"echo asked >> $LOG\" TERM; echo start $$ >> $LOG; while {WHILE_TEST_RUNS}; do sleep 0.05; done"
    );
    let script = format!("LOG={}; export LOG; sh -c '{child}' & wait", fixture.log);
    let first = fixture.run(
        &service.url(),
        &["--grace", "60s", "--state", &state],
        &script,
    );
    let started = eventually("a child", || fixture.lines().first().cloned());
    let child = started
        .strip_prefix("start ")
        .expect("a process")
        .to_owned();
    service.show(2, &[preempt("a")]);
    fixture.await_lines("asked", 1);
    first.kill();
    service.show(3, &[]);
    let second = fixture.run(&service.url(), &["--state", &state], &fixture.worker());
    second.wait_for_stderr("ended 1 process that the last run left running");
    fixture.await_lines("start", 1);
    assert!(
        !std::path::Path::new(&format!("/proc/{child}/exe"))
            .read_link()
            .is_ok_and(|path| path.exists())
    );
    second.terminate();
    second.finish().with_code(0);
}

#[test]
fn a_lock_that_another_run_has_replaced_is_reported_and_nothing_is_approved() {
    let (fixture, service) = (Fixture::new(), FakeService::start());
    let lock = fixture.folder.path("lock");
    let options = ["--approve", "--lock", &lock];
    let first = fixture.run(&service.url(), &options, &fixture.worker());
    fixture.await_lines("start", 1);
    std::fs::remove_file(&lock).expect("a lock file");
    let second = fixture.run(&service.url(), &["--lock", &lock], &fixture.worker());
    fixture.await_lines("start", 2);
    first.wait_for_stderr("error: another run may have a worker, too: ");
    first.wait_for_stderr("stop one of them");
    service.show(2, &[preempt("a")]);
    first.wait_for_stderr("Preempt is not approved: another process has replaced the lock");
    assert!(service.posted().is_empty());
    for run in [first, second] {
        // A run that is terminated before its worker has stopped ends with the worker's exit code.
        run.wait_for_stderr("the worker has stopped");
        run.terminate();
        run.finish().with_code(143);
    }
}

#[test]
fn a_file_that_is_no_lock_file_is_not_overwritten() {
    let (fixture, service) = (Fixture::new(), FakeService::start());
    let script = fixture.folder.file("worker.sh", "echo this is no lock\n");
    crate::support::write_private(&script, "echo this is no lock\n");
    let refused = run(&arguments(&service.url(), &["--lock", &script], "exit 0")).with_code(2);
    assert!(
        refused.stderr.contains("is not a lock file"),
        "{}",
        refused.stderr
    );
    assert_eq!(
        std::fs::read_to_string(&script).expect("a file"),
        "echo this is no lock\n"
    );
    let empty = fixture.folder.path("empty.lock");
    crate::support::write_private(&empty, "");
    for _ in 0..2 {
        run(&arguments(&service.url(), &["--lock", &empty], "exit 0")).with_code(0);
    }
}
