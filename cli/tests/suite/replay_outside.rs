//! `replay --control-plane`: its output, the variables of a COMMAND, and its refusals.

use std::net::TcpListener;

use crate::support::{Run, command, eventually, run};

/// The first lines of the output.
fn first_lines(run: &Run, count: usize) -> Vec<String> {
    eventually("the first lines", || {
        let text = run.stdout();
        (text.matches('\n').count() >= count)
            .then(|| text.lines().take(count).map(str::to_owned).collect())
    })
}

fn refused(arguments: &[&str], code: i32) -> String {
    run(arguments).with_code(code).stderr
}

#[test]
fn the_control_plane_has_an_address_after_those_of_the_machines() {
    // Another program may take one of the ports in between, so several ranges are tried.
    let found = (0..50).find_map(|_| {
        let first = TcpListener::bind("127.0.0.1:0")
            .expect("a port")
            .local_addr()
            .expect("an address");
        let listen = first.to_string();
        let options = [
            "--machines",
            "2",
            "--control-plane",
            "--",
            "sh",
            "-c",
            "echo at $SCHEDULED_EVENTS_CONTROL_PLANE",
        ];
        let arguments = [
            &["replay", "user-reboot", "--listen", &listen][..],
            &options,
        ]
        .concat();
        let finished = run(&arguments);
        finished
            .stdout
            .starts_with("listening on ")
            .then_some((first, finished.stdout))
    });
    let (first, output) = found.expect("three ports in a row");
    let url = |number: u16| format!("http://127.0.0.1:{}", first.port() + number);
    let lines: Vec<_> = output.lines().take(3).collect();
    let machines = [
        format!("listening on {}", url(0)),
        format!("listening on {} as WestNO_1", url(1)),
    ];
    assert_eq!(lines[..2], machines, "{output}");
    assert_eq!(lines[2], format!("control plane at {}", url(2)), "{output}");
    // Each machine's command receives it.
    let line = format!("at {}", url(2));
    assert_eq!(
        output.lines().filter(|found| **found == line).count(),
        2,
        "{output}"
    );
}

#[test]
fn a_user_s_event_that_is_approved_automatically_appears_as_started() {
    // It appears after 5 s and is Started for 30, so that a busy machine does not miss it.
    let replay = Run::start(command(&[
        "replay",
        "user-reboot",
        "--speed",
        "2",
        "--automatically-approve",
        "redeploy,reboot",
    ]));
    let url = first_lines(&replay, 1)[0]
        .trim_start_matches("listening on ")
        .to_owned();
    let listed = eventually("the event", || {
        let listed = run(&["list", "--endpoint", &url, "--json"])
            .with_code(0)
            .stdout;
        listed.contains("\"event_status\"").then_some(listed)
    });
    assert!(listed.contains("\"event_status\":\"Started\""), "{listed}");
    let message = refused(
        &["replay", "preempt", "--automatically-approve", "freeze"],
        2,
    );
    assert!(
        message.contains("expected reboot, redeploy or both"),
        "{message}"
    );
}

#[test]
fn a_queue_must_have_an_address_and_be_there() {
    let message = refused(
        &[
            "replay",
            "preempt",
            "--control-plane-queue",
            "https://account.queue.core.windows.net/q",
        ],
        2,
    );
    assert!(
        message.contains("http://127.0.0.1:10001/devstoreaccount1/QUEUE"),
        "{message}"
    );
    let free = TcpListener::bind("127.0.0.1:0")
        .expect("a port")
        .local_addr()
        .expect("an address");
    let queue = format!("http://{free}/account/q?sig=SECRET");
    let message = refused(&["replay", "preempt", "--control-plane-queue", &queue], 1);
    assert!(
        message.contains(&format!(
            "the queue http://{free}/account/q cannot be reached"
        )),
        "{message}"
    );
    assert!(
        message.contains("npx azurite-queue") && !message.contains("SECRET"),
        "{message}"
    );
}
