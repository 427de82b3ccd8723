//! Exit codes, signals and output; and the worker waits for nothing.

use std::time::Duration;

use rustix::process::Signal;

use super::{Fixture, arguments, preempt};
use crate::support::{FakeService, Reply, Run, WHILE_TEST_RUNS, command, eventually, run, signal};

#[test]
fn the_exit_code_is_the_workers() {
    let service = FakeService::start();
    for (script, code) in [
        ("exit 0", 0),
        ("exit 7", 7),
        ("exit 255", 255),
        ("kill -KILL $$", 137),
        ("kill -TERM $$", 143),
    ] {
        let finished = run(&arguments(&service.url(), &[], script)).with_code(code);
        // A signal is said, since the worker may not have said anything.
        let is_said = finished.stderr.contains("the worker was ended (signal: ");
        assert_eq!(is_said, script.starts_with("kill"), "{}", finished.stderr);
    }
    let url = service.url();
    for (program, code) in [("/nonexistent/worker", 127), ("/etc/passwd", 126)] {
        let finished = run(&["run", "--endpoint", &url, "--", program]).with_code(code);
        assert!(
            finished
                .stderr
                .contains(&format!("error: cannot start the worker \"{program}\": ")),
            "{}",
            finished.stderr
        );
    }
    let finished = run(&arguments(&url, &["--warmup", "false"], "exit 0")).with_code(125);
    assert!(
        finished.stderr.contains("the warm-up command failed"),
        "{}",
        finished.stderr
    );
    for wrong in [
        &["--stop-on", "Preemt"][..],
        &["--every", "5s"],
        &["--grace", "2h"],
        &["--policy", "sample", "--stop-on", "Freeze"],
    ] {
        run(&arguments(&url, wrong, "exit 0")).with_code(2);
    }
    run(&["run", "--endpoint", &url]).with_code(2);
}

#[test]
fn output_and_input_are_the_workers_alone() {
    let service = FakeService::start();
    let finished = run(&arguments(
        &service.url(),
        &["--quiet"],
        "printf 'a\\033[1m\\r\\nno end'; echo error >&2; wc -c",
    ));
    let finished = finished.with_code(0);
    assert_eq!(
        (finished.stdout.as_str(), finished.stderr.as_str()),
        ("a\u{1b}[1m\r\nno end0\n", "error\n")
    );
}

/// The service accepts connections and never answers; its first answer may take two minutes.
#[test]
fn a_service_that_does_not_answer_delays_neither_the_start_nor_the_end() {
    let service = FakeService::start();
    service.intercept(|_| Some(Reply::new(200, "", "").after(Duration::from_secs(3600))));
    let url = service.url();
    run(&["run", "--endpoint", &url, "--", "sh", "-c", "exit 3"]).with_code(3);
    let mut refused = command(&[
        "run",
        "--endpoint",
        "http://127.0.0.1:1",
        "--",
        "sh",
        "-c",
        "exit 4",
    ]);
    refused.env_remove("SCHEDULED_EVENTS_ENDPOINT");
    Run::start(refused).finish().with_code(4);
}

#[test]
fn signals_reach_the_worker() {
    let (fixture, service) = (Fixture::new(), FakeService::start());
    let script = format!(
        "LOG={}; for s in HUP USR1 USR2 WINCH; do trap \"echo $s >> $LOG\" $s; done; trap 'echo INT >> $LOG; exit 5' INT; \
         echo start >> $LOG; while {WHILE_TEST_RUNS}; do sleep 0.05; done",
        fixture.log
    );
    let run = fixture.run(&service.url(), &[], &script);
    fixture.await_lines("start", 1);
    for (number, name) in [
        (Signal::HUP, "HUP"),
        (Signal::USR1, "USR1"),
        (Signal::USR2, "USR2"),
        (Signal::WINCH, "WINCH"),
        (Signal::INT, "INT"),
    ] {
        signal(run.id(), number);
        fixture.await_lines(name, 1);
    }
    run.finish().with_code(5);
}

#[test]
fn a_worker_that_goes_on_after_sigint_is_kept_as_before() {
    let (fixture, service) = (Fixture::new(), FakeService::start());
    let script = format!(
        "trap 'echo INT >> {}' INT; {}",
        fixture.log,
        fixture.worker()
    );
    let checkpoint = fixture.logging("checkpoint");
    let options = [
        "--grace",
        "1s",
        "--checkpoint",
        &checkpoint,
        "--every",
        "1s",
    ];
    let run = fixture.run(&service.url(), &options, &script);
    fixture.await_lines("checkpoint", 1);
    signal(run.id(), Signal::INT);
    fixture.await_lines("INT", 1);
    run.wait_for_stderr("the worker goes on after the signal");
    let before = fixture
        .lines()
        .iter()
        .filter(|line| *line == "checkpoint")
        .count();
    fixture.await_lines("checkpoint", before + 1);
    service.show(2, &[preempt("a")]);
    fixture.await_lines("end", 1);
    let lines = fixture.lines();
    assert_eq!(lines[lines.len() - 2..], ["checkpoint", "end"]);
    service.show(3, &[]);
    fixture.await_lines("start", 2);
    signal(run.id(), Signal::INT);
    fixture.await_lines("INT", 2);
    run.terminate();
    run.finish().with_code(0);
}

#[test]
fn a_worker_reads_no_terminal() {
    let service = FakeService::start();
    let terminal = crate::support::Terminal::new(80);
    let mut command = command(&arguments(&service.url(), &[], "! test -t 0 && wc -c"));
    terminal.connect_input(&mut command);
    assert_eq!(Run::start(command).finish().with_code(0).stdout, "0\n");
}

/// `systemctl stop` and `docker stop` send it.
#[test]
fn sigterm_leaves_all_that_the_worker_started_the_grace_and_then_kills_it() {
    let (fixture, service) = (Fixture::new(), FakeService::start());
    let go = fixture.folder.path("go");
    let child = |at_end: &str| {
        format!(
            "trap 'exit 3' TERM; LOG={}; export LOG; setsid sh -c 'trap \"{at_end}\" TERM; echo start $$ >> $LOG; while {WHILE_TEST_RUNS}; \
             do sleep 0.05; done' & wait; wait",
            fixture.log
        )
    };
    let save = format!(
        "echo saving >> $LOG; while ! test -e {go} && {WHILE_TEST_RUNS}; do sleep 0.05; done; echo saved >> $LOG; exit 0"
    );
    let mut run = fixture.run(&service.url(), &["--grace", "60s"], &child(&save));
    eventually("a child", || (!fixture.lines().is_empty()).then_some(()));
    run.terminate();
    fixture.await_lines("saving", 1);
    service.await_polls(5);
    assert!(run.is_running());
    std::fs::write(&go, "").expect("a file");
    run.finish().with_code(3);
    assert_eq!(fixture.lines()[1..], ["saving", "saved"]);

    let run = fixture.run(
        &service.url(),
        &["--grace", "1s"],
        &child("echo ignored >> $LOG"),
    );
    fixture.await_lines("saved", 1);
    let start = eventually("a child", || fixture.lines().get(3).cloned());
    run.terminate();
    fixture.await_lines("ignored", 1);
    run.finish().with_code(3);
    let pid = start.strip_prefix("start ").expect("a process");
    assert!(
        std::fs::read_link(format!("/proc/{pid}/exe")).is_err(),
        "{pid} runs"
    );
}

#[test]
fn a_worker_whose_program_is_busy_is_reported_once_and_started_later() {
    let (fixture, service) = (Fixture::new(), FakeService::start());
    let program = fixture.folder.path("worker");
    std::fs::copy("/bin/sleep", &program).expect("a copy");
    let writer = std::fs::OpenOptions::new()
        .append(true)
        .open(&program)
        .expect("a file");
    let url = service.url();
    let run = Run::start(command(&["run", "--endpoint", &url, "--", &program, "0"]));
    run.wait_for_stderr("the worker cannot be started yet: ");
    service.await_polls(2);
    drop(writer);
    let finished = run.finish().with_code(0);
    assert_eq!(
        finished.stderr.matches("cannot be started yet").count(),
        1,
        "{}",
        finished.stderr
    );
}

#[test]
fn a_signal_while_no_worker_runs_ends_the_run_and_its_commands() {
    let (fixture, service) = (Fixture::new(), FakeService::start());
    let warmup = format!(
        "sh -c 'echo warm-up >> {}; while {WHILE_TEST_RUNS}; do sleep 0.1; done'",
        fixture.log
    );
    let run = fixture.run(&service.url(), &["--warmup", &warmup], &fixture.worker());
    fixture.await_lines("warm-up", 1);
    signal(run.id(), Signal::INT);
    run.finish().with_code(130);

    // Stopped for an event.
    let run = fixture.run(&service.url(), &[], &fixture.worker());
    fixture.await_lines("start", 1);
    service.show(2, &[preempt("a")]);
    fixture.await_lines("end", 1);
    run.wait_for_stderr("the worker has stopped");
    run.terminate();
    run.finish().with_code(143);
}

#[test]
fn a_stop_command_takes_the_place_of_sigterm_and_one_that_fails_does_not() {
    for (stop, expected) in [
        ("sh -c 'kill -USR1 $SCHEDULED_EVENTS_WORKER_PID'", "custom"),
        ("false", "end"),
    ] {
        let (fixture, service) = (Fixture::new(), FakeService::start());
        let script = format!(
            "trap 'echo custom >> {}; exit 0' USR1; {}",
            fixture.log,
            fixture.worker()
        );
        let run = fixture.run(
            &service.url(),
            &["--stop-command", stop, "--grace", "60s"],
            &script,
        );
        fixture.await_lines("start", 1);
        service.show(2, &[preempt("a")]);
        fixture.await_lines(expected, 1);
        assert_eq!(fixture.lines(), ["start", expected]);
        run.wait_for_stderr("the worker has stopped");
        run.terminate();
        run.finish().with_code(143);
    }
}

#[test]
fn a_worker_that_ends_by_itself_while_an_event_is_announced_ends_the_run() {
    let (fixture, service) = (Fixture::new(), FakeService::start());
    let done = fixture.folder.path("done");
    let checkpoint = format!("sh -c 'echo > {done}; while {WHILE_TEST_RUNS}; do sleep 0.1; done'");
    let script = format!(
        "echo start >> {}; while ! test -e {done} && {WHILE_TEST_RUNS}; do sleep 0.05; done; exit 9",
        fixture.log
    );
    let state = fixture.folder.path("state");
    let options = ["--checkpoint", &checkpoint, "--state", &state];
    let run = fixture.run(&service.url(), &options, &script);
    fixture.await_lines("start", 1);
    service.show(2, &[preempt("a")]);
    run.finish().with_code(9);
    // The preparation has not failed: the next run does not wait until it may repeat one.
    let status = crate::support::run(&["status", "--state", &state, "--json"]);
    let waiting = status.of_kind("waiting");
    assert_eq!(waiting[0]["waits_for"], "preparation");
    assert!(waiting[0]["until"].is_null(), "{waiting:?}");
}
