//! `run` and `watch` as the first process of a process namespace, as in a container. That requires
//! root or user namespaces.

use std::process::{Command, Stdio};

use super::{Fixture, arguments, preempt};
use crate::support::{
    FakeService, PREPARE_ALL, PROGRAM, Run, VM, WHILE_TEST_RUNS, command, eventually, launch, wait,
};
use scheduled_events_test_support::not_run;

/// The command that creates a process namespace on this machine, if it allows one. The program in
/// it is the first process.
fn namespace() -> Option<&'static [&'static str]> {
    let root: &[_] = &["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"];
    let user: &[_] = &[
        "unshare",
        "--user",
        "--map-root-user",
        "--pid",
        "--fork",
        "--kill-child",
        "--mount-proc",
    ];
    let works = |words: &&[&'static str]| {
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).arg("true").stderr(Stdio::null());
        command
            .stdout(Stdio::null())
            .spawn()
            .is_ok_and(|mut child| wait::ended(&mut child).success())
    };
    let found = [root, user].into_iter().find(works);
    if found.is_none() {
        not_run("this machine allows no process namespace, which takes root or user namespaces");
    }
    found
}

/// `run` as the first process.
fn first_process(namespace: &[&str], endpoint: &str, options: &[&str], script: &str) -> Run {
    start(namespace, &arguments(endpoint, options, script))
}

/// The program with these arguments as the first process, without a launcher in between.
fn start(words: &[&str], arguments: &[String]) -> Run {
    let mut whole = launch(words[0]);
    whole.args(&words[1..]).arg(PROGRAM).args(arguments);
    for (name, value) in command(arguments).get_envs() {
        match value {
            Some(value) => whole.env(name, value),
            None => whole.env_remove(name),
        };
    }
    Run::start(whole)
}

/// The test process does not exist in the namespace, so the scripts end with the namespace instead.
fn in_namespace(script: &str) -> String {
    script.replace(WHILE_TEST_RUNS, "true")
}

#[test]
fn it_waits_for_the_processes_that_it_inherits_and_ends_with_the_workers_exit_code() {
    let Some(namespace) = namespace() else { return };
    let (fixture, service) = (Fixture::new(), FakeService::start());
    // Ten processes whose parent has ended, and then the states of all processes, until none is a
    // zombie.
    let script = format!(
        "for n in 1 2 3 4 5 6 7 8 9 10; do sh -c 'sleep 0.2 & echo $! >> {log}'; done; test $(cat /proc/1/comm) = scheduled-event || exit 9; \
         while for pid in $(cat {log}); do test -e /proc/$pid && break; done; test -e /proc/$pid; do sleep 0.1; done; exit 6",
        log = fixture.log
    );
    first_process(namespace, &service.url(), &[], &script)
        .finish()
        .with_code(6);
    assert_eq!(fixture.lines().len(), 10);
    first_process(namespace, &service.url(), &[], "kill -KILL $$")
        .finish()
        .with_code(137);
}

#[test]
fn it_lives_through_an_event_and_passes_signals_on() {
    let Some(namespace) = namespace() else { return };
    let (fixture, service) = (Fixture::new(), FakeService::start());
    let run = first_process(
        namespace,
        &service.url(),
        &["--approve"],
        &in_namespace(&fixture.worker()),
    );
    fixture.await_lines("start", 1);
    service.show(2, &[preempt("a")]);
    eventually("an approval", || (service.posted() == ["a"]).then_some(()));
    service.show(3, &[]);
    fixture.await_lines("start", 2);
    terminate_first(&run);
    run.finish().with_code(0);
    assert_eq!(fixture.lines(), ["start", "end", "start", "end"]);
}

#[test]
fn a_watcher_waits_for_the_processes_that_its_commands_leave_to_it() {
    let Some(namespace) = namespace() else { return };
    let (fixture, service) = (Fixture::new(), FakeService::start());
    let (log, url) = (&fixture.log, service.url());
    let policy = fixture.folder.file("policy.toml", PREPARE_ALL);
    let prepare = format!("sh -c 'for n in 1 2 3; do sleep 0.2 & echo $! >> {log}; done'");
    let recover = format!(
        "sh -c 'while for pid in $(cat {log}); do test -e /proc/$pid && break; done; test -e /proc/$pid; do sleep 0.1; done; echo gone >> {log}'"
    );
    let every = [
        "watch",
        "--endpoint",
        &url,
        "--interval",
        "200ms",
        "--vm-name",
        VM,
        "--policy",
        &policy,
    ];
    let options = ["--prepare", &prepare, "--recover", &recover];
    let run = start(
        namespace,
        &[&every[..], &options]
            .concat()
            .into_iter()
            .map(str::to_owned)
            .collect::<Vec<_>>(),
    );
    service.show(2, &[preempt("a")]);
    eventually("an approval", || (service.posted() == ["a"]).then_some(()));
    service.show(3, &[]);
    fixture.await_lines("gone", 1);
    terminate_first(&run);
    run.finish().with_code(0);
}

/// Terminates the first process, which is a child of unshare.
fn terminate_first(run: &Run) {
    let unshare = run.id();
    let children = std::fs::read_to_string(format!("/proc/{unshare}/task/{unshare}/children"))
        .expect("a process");
    let first = children.trim().parse().expect("one child");
    crate::support::signal(first, rustix::process::Signal::TERM);
}
