//! The system refuses the watcher threads and processes: polling continues, and the watcher tries
//! again what was refused.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::Command;

use rustix::process::{Resource, Signal, getrlimit};
use scheduled_events_test_support::not_run;
use serde_json::json;

use crate::support::{
    ENDS_WITH_STRACE, FakeService, Folder, PATIENCE, PREPARE_ALL, Reply, Run, VM, command,
    eventually, freeze, give_away, lines, preparation_ended, signal, unprivileged, wait, with,
    wrap,
};

/// A user without any processes. Root is not limited.
const USER: &str = "64017";

/// `watch --json` by a user whom the system can limit. Files that the command writes belong in the
/// folder `private`.
fn watch(folder: &Folder, endpoint: &str, arguments: &[&str]) -> Run {
    let (program, _) = give_away(folder, USER);
    let every = [
        "watch",
        "--json",
        "--endpoint",
        endpoint,
        "--interval",
        "200ms",
        "--vm-name",
        VM,
    ];
    let plain = command(&[&every[..], arguments].concat());
    let mut wrapper = unprivileged(USER);
    let instead = format!("shift; exec {program} \"$@\"");
    wrapper.extend(["sh", "-c", &instead, "sh"].map(str::to_owned));
    Run::start(wrap(&wrapper, &plain))
}

/// Lets the process start no thread and no process, or as many as this one may. The user sets the
/// limit, since root needs a right for it.
fn allow_threads(run: &Run, allowed: bool) {
    let limit = getrlimit(Resource::Nproc)
        .current
        .map_or("unlimited".to_owned(), |limit| limit.to_string());
    let wrapper = unprivileged(USER);
    let mut command = Command::new(&wrapper[0]);
    command
        .args(&wrapper[1..])
        .args(["prlimit", &format!("--pid={}", run.id())]);
    command.arg(format!("--nproc={}:", if allowed { &limit } else { "0" }));
    assert!(wait::output(&mut command).status.success());
}

#[test]
fn polling_goes_on_without_another_thread() {
    let service = FakeService::start();
    // Each request needs a connection of its own.
    service.intercept(|request| {
        let body = crate::support::document(2, &[]);
        request.is_get().then(|| Reply::new(200, "", body).close())
    });
    let folder = Folder::new();
    let localhost = service.url().replace("127.0.0.1", "localhost");
    for endpoint in [service.url(), localhost] {
        let mut run = watch(&folder, &endpoint, &[]);
        service.await_polls(2);
        allow_threads(&run, false);
        service.await_polls(5);
        assert!(run.is_running());
        assert!(!run.stderr().contains("panicked"), "{}", run.stderr());
        run.kill();
    }
}
#[test]
fn a_command_whose_thread_or_process_is_refused_starts_once_there_is_one() {
    let service = FakeService::start();
    let folder = Folder::new();
    let policy = folder.file("policy.toml", PREPARE_ALL);
    let mut run = watch(
        &folder,
        &service.url(),
        &["--policy", &policy, "--prepare", "true"],
    );
    service.await_polls(2);
    allow_threads(&run, false);
    let events: Vec<_> = (0..20)
        .map(|number| freeze(&format!("event-{number}")))
        .collect();
    service.show(2, &events);
    run.change("scheduled", "event-19");
    service.await_polls(5);
    assert!(
        !run.records().iter().any(preparation_ended),
        "{}",
        run.stdout()
    );
    // Reported once, not for each command and each attempt.
    run.wait_for_stderr("warning: the prepare command cannot be started yet: ");
    assert_eq!(
        run.stderr().matches("cannot be started yet").count(),
        1,
        "{}",
        run.stderr()
    );
    allow_threads(&run, true);
    eventually("all approvals", || {
        (service.posted().len() == events.len()).then_some(())
    });
}

#[test]
fn a_watcher_that_is_refused_threads_at_the_start_waits_for_them() {
    let service = FakeService::start();
    let folder = Folder::new();
    let (program, _) = give_away(&folder, USER);
    let policy = folder.file("policy.toml", PREPARE_ALL);
    let url = service.url();
    let arguments = [
        "watch",
        "--json",
        "--endpoint",
        &url,
        "--interval",
        "200ms",
        "--vm-name",
        VM,
        "--policy",
        &policy,
    ];
    let instead = format!("shift; exec {program} \"$@\"");
    // Only the soft limit, which the user may raise again.
    let limited = ["prlimit", "--nproc=0:", "sh", "-c", &instead, "sh"].map(str::to_owned);
    let wrapper = [unprivileged(USER), limited.to_vec()].concat();
    let run = Run::start(wrap(
        &wrapper,
        &command(&[&arguments[..], &["--prepare", "true"]].concat()),
    ));
    run.wait_for_stderr("warning: cannot start a thread yet: ");
    assert!(service.requests().is_empty());
    allow_threads(&run, true);
    service.await_polls(2);
    assert_eq!(
        run.stderr().matches("cannot start a thread yet").count(),
        1,
        "{}",
        run.stderr()
    );
}

/// The threads of its output, of commands and of signals are started one after another: any of them
/// may be refused first.
#[test]
fn a_watcher_that_waits_for_threads_at_the_start_ends_on_sigterm() {
    let service = FakeService::start();
    let url = service.url();
    for first in 1..=5 {
        let refuse = format!("inject=clone,clone3:error=EAGAIN:when={first}+");
        let strace = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", &refuse];
        let plain = command(&[
            "watch",
            "--json",
            "--endpoint",
            &url,
            "--vm-name",
            VM,
            "--prepare",
            "true",
        ]);
        let mut run = Run::start(wrap(&strace, &plain));
        run.wait_for_stderr("warning: cannot start a thread yet: ");
        let children = format!("/proc/{0}/task/{0}/children", run.id());
        let watcher = lines(&children)[0]
            .split(' ')
            .find_map(|child| child.parse().ok())
            .expect("a process");
        signal(watcher, Signal::TERM);
        eventually("the end", || (!run.is_running()).then_some(()));
    }
}

#[test]
fn a_run_that_is_refused_threads_at_the_start_waits_for_them() {
    let service = FakeService::start();
    let folder = Folder::new();
    let (program, private) = give_away(&folder, USER);
    let (url, log) = (service.url(), format!("{private}/log"));
    let worker = format!("echo start >> {log}; exec sleep 600");
    let arguments = [
        "run",
        "--endpoint",
        &url,
        "--interval",
        "200ms",
        "--vm-name",
        VM,
        "--",
        "sh",
        "-c",
        &worker,
    ];
    let instead = format!("shift; exec {program} \"$@\"");
    let limited = ["prlimit", "--nproc=0:", "sh", "-c", &instead, "sh"].map(str::to_owned);
    let wrapper = [unprivileged(USER), limited.to_vec()].concat();
    let mut run = Run::start(wrap(&wrapper, &command(&arguments)));
    run.wait_for_stderr("cannot start a thread");
    assert!(run.is_running(), "{}", run.stderr());
    allow_threads(&run, true);
    eventually("the worker", || (lines(&log) == ["start"]).then_some(()));
    run.terminate();
    run.finish().with_code(143);
}

#[test]
fn a_command_that_leaves_processes_running_costs_no_thread() {
    let service = FakeService::start();
    let events: Vec<_> = (0..8)
        .map(|number| freeze(&format!("event-{number}")))
        .collect();
    let folder = Folder::new();
    let pids = folder.path("pids");
    let on = format!("scheduled=sh -c 'sleep 600 & echo $! >> {pids}'");
    let run = Run::watch(&service.url(), &["--vm-name", VM, "--on", &on]);
    service.await_polls(2);
    let threads = || {
        std::fs::read_dir(format!("/proc/{}/task", run.id()))
            .expect("a process")
            .count()
    };
    let before = threads();
    service.show(2, &events);
    eventually("the commands", || {
        (lines(&pids).len() == events.len()).then_some(())
    });
    eventually("their threads' end", || (threads() == before).then_some(()));
    for process in lines(&pids) {
        signal(process.parse().expect("a number"), Signal::KILL);
    }
}

#[test]
fn list_and_approve_need_no_other_thread() {
    let service = FakeService::start();
    service.show(2, &[freeze("a")]);
    let folder = Folder::new();
    let (program, _) = give_away(&folder, USER);
    let url = service.url();
    for arguments in [
        &["list", "--endpoint", &url, "--vm-name", VM][..],
        &["approve", "--endpoint", &url, "a"],
    ] {
        let instead = format!("shift; exec {program} \"$@\"");
        let limited = ["prlimit", "--nproc=0:", "sh", "-c", &instead, "sh"].map(str::to_owned);
        let wrapper = [unprivileged(USER), limited.to_vec()].concat();
        Run::start(wrap(&wrapper, &command(arguments)))
            .finish()
            .with_code(0);
    }
    assert_eq!(service.posted(), ["a"]);
}

#[test]
fn a_request_that_hangs_is_a_failed_poll_and_the_next_one_is_sent() {
    let service = FakeService::start();
    // Each request needs a connection of its own.
    service.intercept(|request| {
        let body = crate::support::document(2, &[]);
        request.is_get().then(|| Reply::new(200, "", body).close())
    });
    // The second connection of each thread hangs, whatever the timeout.
    let hang = [
        "strace",
        "-f",
        "-qq",
        "-o",
        "/dev/null",
        "-e",
        "inject=connect:delay_enter=600000000:when=2",
    ];
    let hang = [&hang[..], ENDS_WITH_STRACE].concat();
    let url = service.url();
    let plain = command(&[
        "watch",
        "--json",
        "--endpoint",
        &url,
        "--interval",
        "200ms",
        "--vm-name",
        VM,
    ]);
    let mut run = Run::start(wrap(&hang, &plain));
    service.await_polls(1);
    run.record("a failed poll", |record| {
        record["record"] == "poll-failed" && record["cause"] == "timeout"
    });
    run.wait_for_stderr("the request hangs beyond its timeout and was abandoned");
    service.await_polls(1);
}

/// The command with at most this many open files. `-Sn` sets the limit that the command may raise
/// itself, `-n` one that it may not.
fn with_open_files(option: &str, count: u32, arguments: &[&str]) -> Command {
    let limited = format!("ulimit {option} {count}; exec \"$@\"");
    wrap(&["sh", "-c", &limited, "sh"], &command(arguments))
}

#[test]
fn a_watcher_needs_fewer_than_fifty_open_files() {
    let (service, folder) = (FakeService::start(), Folder::new());
    let (url, policy) = (service.url(), folder.file("policy.toml", PREPARE_ALL));
    let files = ["state", "audit", "metrics.prom"].map(|name| folder.path(name));
    let run = Run::start(with_open_files(
        "-n",
        50,
        &[
            "watch",
            "--json",
            "--endpoint",
            &url,
            "--interval",
            "200ms",
            "--vm-name",
            VM,
            "--policy",
            &policy,
            "--state",
            &files[0],
            "--audit",
            &files[1],
            "--metrics-file",
            &files[2],
            "--prepare",
            "true",
            "--recover",
            "true",
            "--until-idle",
        ],
    ));
    service.show(2, &[freeze("a")]);
    eventually("an approval", || (service.posted() == ["a"]).then_some(()));
    service.show(3, &[]);
    run.finish().with_code(0);
}

#[test]
fn a_command_that_leaves_something_running_takes_two_files_and_sixty_four_of_them_at_most() {
    let service = FakeService::start();
    let url = service.url();
    let arguments = [
        "watch",
        "--json",
        "--endpoint",
        &url,
        "--interval",
        "200ms",
        "--vm-name",
        VM,
    ];
    // Processes that are left hold the output open.
    let left = [
        "--policy",
        "sample",
        "--on",
        "scheduled=sh -c 'sleep 20 & echo left'",
    ];
    let run = Run::start(with_open_files(
        "-n",
        50 + 2 * (64 + 8),
        &[&arguments[..], &left].concat(),
    ));
    let other = |number| {
        with(
            freeze(&format!("other-{number}")),
            &json!({ "Resources": ["WestNO_9"] }),
        )
    };
    service.show(2, &(0..100).map(other).collect::<Vec<_>>());
    eventually("all commands", || {
        (run.stderr().matches("left").count() >= 100).then_some(())
    });
    assert!(!run.stderr().contains("open files"), "{}", run.stderr());
    service.show(3, &[freeze("mine")]);
    eventually("an approval", || {
        (service.posted() == ["mine"]).then_some(())
    });
}

/// Its listeners alone fit below the limit, with a few connections.
#[test]
fn a_server_of_a_thousand_machines_raises_the_limit_of_open_files() {
    // A thousand listeners, fifty connections at both ends, and what every process has open.
    let needed = 1200;
    let most = getrlimit(Resource::Nofile).maximum;
    if let Some(most) = most.filter(|most| *most < needed) {
        not_run(&format!(
            "a process may open {most} files at most (ulimit -Hn), and this test needs {needed}"
        ));
        return;
    }
    let server = Run::start(with_open_files(
        "-Sn",
        1024,
        &["replay", "preempt", "--machines", "1000"],
    ));
    let addresses = eventually("a thousand addresses", || {
        let lines = server.stdout();
        let addresses = lines
            .lines()
            .filter_map(|line| line.strip_prefix("listening on http://")?.split(' ').next());
        let addresses: Vec<_> = addresses.map(str::to_owned).collect();
        (addresses.len() == 1000).then_some(addresses)
    });
    let connections = addresses[..50].iter().map(|address| {
        let mut connection = TcpStream::connect(address).expect("a connection");
        connection.set_read_timeout(Some(PATIENCE)).expect("a connection");
        let request = format!(
            "GET /metadata/scheduledevents?api-version=2020-07-01 HTTP/1.1\r\nHost: {address}\r\nMetadata: true\r\n\r\n"
        );
        connection.write_all(request.as_bytes()).expect("a server that reads");
        let mut status = [0; "HTTP/1.1 200".len()];
        connection.read_exact(&mut status).expect("a response");
        assert_eq!(&status, b"HTTP/1.1 200");
        connection
    });
    let open: Vec<_> = connections.collect();
    assert_eq!(open.len(), 50);
}
