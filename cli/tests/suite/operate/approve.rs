//! `list --mine` and `approve`: which machines' events an operator sees and approves.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{FakeService, Finished, Reply, document, freeze, run, started, with};
#[cfg(target_os = "linux")]
use crate::support::{command, wait};

/// An event of another machine.
fn other(id: &str, event_type: &str) -> Value {
    with(
        freeze(id),
        &json!({ "EventType": event_type, "Resources": ["WestNO_7"] }),
    )
}

/// A machine with some events of its own and of others.
fn service() -> FakeService {
    let service = FakeService::start();
    service.show(
        2,
        &[
            freeze("own-freeze"),
            with(freeze("own-reboot"), &json!({ "EventType": "Reboot" })),
            with(
                freeze("own-terminate"),
                &json!({ "EventType": "Terminate" }),
            ),
            started("own-started"),
            other("other-freeze", "Freeze"),
            other("other-terminate", "Terminate"),
            with(
                freeze("shared"),
                &json!({ "EventType": "Redeploy", "Resources": ["WestNO_7", "WestNO_0"] }),
            ),
        ],
    );
    service
}

fn approve(service: &FakeService, arguments: &[&str]) -> Finished {
    run(&[&["approve", "--endpoint", &service.url()], arguments].concat())
}

/// Checks that nothing is approved, and returns the error.
#[track_caller]
fn refused(service: &FakeService, arguments: &[&str]) -> String {
    let finished = approve(service, arguments).with_code(1);
    assert_eq!(
        (finished.stdout.as_str(), service.posted()),
        ("", vec![]),
        "{arguments:?}"
    );
    assert!(finished.stderr.contains("error: "), "{}", finished.stderr);
    finished.stderr
}

#[test]
fn list_mine_prints_only_this_machines_events() {
    let service = service();
    let url = service.url();
    let table = run(&["list", "--mine", "--endpoint", &url]).with_code(0);
    assert!(
        table
            .stdout
            .starts_with("5 events of this machine, of 7 (incarnation 2)\n"),
        "{}",
        table.stdout
    );
    assert!(
        table.stdout.contains("shared") && !table.stdout.contains("other-"),
        "{}",
        table.stdout
    );
    let records = run(&["list", "--mine", "--endpoint", &url, "--json"]).with_code(0);
    assert_eq!(records.of_kind("event").len(), 5);
    assert_eq!(
        records.of_kind("document")[0]["events"],
        7,
        "the document is described as it is"
    );
    let others = run(&[
        "list",
        "--mine",
        "--endpoint",
        &url,
        "--vm-name",
        "elsewhere",
    ])
    .with_code(0);
    assert!(
        others.stdout.starts_with("no events of this machine, of 7"),
        "{}",
        others.stdout
    );

    service.set_name(None);
    let unknown = run(&["list", "--mine", "--endpoint", &url]).with_code(1);
    assert!(
        unknown
            .stderr
            .contains("cannot determine this machine's own name"),
        "{}",
        unknown.stderr
    );
    assert!(
        unknown.stderr.contains("use --vm-name NAME"),
        "{}",
        unknown.stderr
    );
}

#[test]
fn an_own_event_is_approved_by_its_id() {
    let service = service();
    let finished = approve(&service, &["OWN-freeze", "shared", "own-freeze"]).with_code(0);
    // Ids are sent as the service writes them, once.
    assert_eq!(finished.stdout, "approved  own-freeze\napproved  shared\n");
    assert_eq!(service.posted(), ["own-freeze", "shared"]);
    let finished = approve(&service, &["own-terminate", "--json"]).with_code(0);
    let start = r#"{"record":"approval","event_ids":["own-terminate"],"status":200,"events":[{"event_id":"own-terminate","event_type":"Terminate","#;
    assert!(
        finished.stdout.starts_with(start) && finished.stdout.ends_with("\"mine\":true}]}\n"),
        "{}",
        finished.stdout
    );
    service.set_post_status(400);
    let finished = approve(&service, &["own-reboot", "--json"]).with_code(1);
    assert_eq!(finished.records()[0]["status"], 400);
    assert!(
        finished.stderr.contains("refused with status 400"),
        "{}",
        finished.stderr
    );
}

#[test]
fn an_id_that_is_not_announced_is_an_error_and_nothing_is_approved() {
    let service = service();
    let error = refused(&service, &["own-freeze", "no-such-event"]);
    assert!(
        error.contains("nothing was approved: no event with the id \"no-such-event\" is announced"),
        "{error}"
    );
    assert!(error.contains("`scheduled-events list`"), "{error}");
    let error = refused(&service, &["own-started"]);
    assert!(
        error.contains("event own-started has already started"),
        "{error}"
    );
    let empty = approve(&service, &[""]).with_code(2);
    assert!(empty.stderr.contains("is empty"), "{}", empty.stderr);
    service.show_body("{\"Events\":\n [}");
    let invalid = approve(&service, &["own-freeze"]).with_code(3);
    assert!(invalid.stderr.contains(":2:3: "), "{}", invalid.stderr);
}

#[test]
fn only_the_first_request_may_take_two_minutes() {
    let service = service();
    service.intercept(|request| {
        request
            .is_post()
            .then(|| Reply::new(200, "", "").after(Duration::from_secs(3600)))
    });
    let stderr = approve(&service, &["own-freeze"]).with_code(1).stderr;
    assert!(
        stderr.starts_with(&format!(
            "error: no answer to the approval from {}: the request timed out",
            service.url()
        )),
        "{stderr}"
    );
    assert!(
        stderr.ends_with("; it may have arrived: see `scheduled-events list`\n"),
        "{stderr}"
    );
}

#[test]
fn another_machines_event_needs_others_and_its_terminate_is_never_approved() {
    let service = service();
    let error = refused(&service, &["other-freeze"]);
    assert!(
        error.contains(
            "event other-freeze affects WestNO_7, not this machine: --others approves it"
        ),
        "{error}"
    );
    for arguments in [
        &["other-terminate"][..],
        &["other-terminate", "--others"],
        &["other-freeze", "other-terminate"],
    ] {
        let error = refused(&service, arguments);
        assert!(
            error.contains("each machine approves its own deletion"),
            "{error}"
        );
    }
    approve(&service, &["other-freeze", "--others"]).with_code(0);
    assert_eq!(service.posted(), ["other-freeze"]);

    let service = FakeService::start();
    service.show(2, &[with(other("a", ""), &json!({ "EventType": 7 }))]);
    let error = refused(&service, &["a", "--others"]);
    assert!(error.contains("no readable type"), "{error}");
}

#[test]
fn without_a_name_only_other_types_than_terminate_can_be_approved_and_only_with_others() {
    let service = service();
    service.set_name(None);
    let error = refused(&service, &["own-freeze"]);
    assert!(
        error.contains("cannot determine this machine's own name")
            && error.contains("--vm-name NAME, or --others"),
        "{error}"
    );
    refused(&service, &["--mine"]);
    let error = refused(&service, &["own-terminate", "--others"]);
    assert!(
        error.contains("use --vm-name NAME to approve a Terminate"),
        "{error}"
    );
    let finished = approve(&service, &["own-freeze", "--others"]).with_code(0);
    assert!(
        finished
            .stderr
            .starts_with("warning: cannot determine this machine's own name"),
        "{}",
        finished.stderr
    );
    approve(&service, &["own-terminate", "--vm-name", "WestNO_0"]).with_code(0);
    assert_eq!(service.posted(), ["own-freeze", "own-terminate"]);
}

#[test]
fn mine_and_type_select_what_waits_for_approval() {
    for (arguments, expected) in [
        (
            &["--mine"][..],
            &["own-freeze", "own-reboot", "own-terminate", "shared"][..],
        ),
        (&["--type", "Freeze"], &["own-freeze"]),
        (
            &["--mine", "--type", "freeze,REBOOT"],
            &["own-freeze", "own-reboot"],
        ),
        (
            &["--type", "Freeze", "--others"],
            &["own-freeze", "other-freeze"],
        ),
        (
            &["--type", "Freeze", "--type", "Terminate", "--others"],
            &["own-freeze", "own-terminate", "other-freeze"],
        ),
    ] {
        let service = service();
        let finished = approve(&service, arguments).with_code(0);
        assert_eq!(service.posted(), expected, "{arguments:?}");
        assert_eq!(
            finished.stdout.lines().count(),
            expected.len(),
            "{}",
            finished.stdout
        );
        let left_out = arguments.contains(&"Terminate");
        assert_eq!(
            finished.stderr.contains("left out event other-terminate"),
            left_out,
            "{}",
            finished.stderr
        );
    }
}

#[test]
fn a_selection_of_nothing_is_no_success() {
    let service = service();
    for (arguments, expected) in [
        (
            &["--type", "Preempt"][..],
            "no event of type Preempt of this machine waits for approval",
        ),
        (
            &["--type", "Preempt", "--others"],
            "no event of type Preempt waits for approval",
        ),
        (
            &["--mine", "--vm-name", "elsewhere"],
            "no event of this machine waits for approval",
        ),
    ] {
        let error = refused(&service, arguments);
        assert!(
            error.contains(&format!("nothing was approved: {expected}\n")),
            "{error}"
        );
    }
    service.show(3, &[started("a")]);
    let error = refused(&service, &["--mine"]);
    assert!(
        error.contains("waits for approval; 1 such event already started"),
        "{error}"
    );
    service.show_body(&document(4, &[]));
    refused(&service, &["--mine"]);
}

#[test]
fn a_selection_leaves_out_what_cannot_be_read_completely() {
    let service = FakeService::start();
    service.show(
        2,
        &[
            freeze("a"),
            with(freeze("b"), &json!({ "DurationInSeconds": "?" })),
        ],
    );
    let finished = approve(&service, &["--mine"]).with_code(0);
    assert_eq!(service.posted(), ["a"]);
    assert!(
        finished.stderr.contains(
            "left out event b: its DurationInSeconds cannot be read; approve it by its id"
        ),
        "{}",
        finished.stderr
    );
    approve(&service, &["b"]).with_code(0);
    assert_eq!(service.posted(), ["a", "b"]);
}

#[test]
fn ids_with_special_characters_are_sent_unchanged() {
    let service = FakeService::start();
    let ids = ["a\"b\\c", "\u{e9}\u{1f600}", "-dash", "with space", "\u{1}"];
    service.show(2, &ids.map(freeze));
    approve(&service, &[&["--"][..], &ids].concat()).with_code(0);
    assert_eq!(service.posted(), ids);
}

#[test]
#[cfg(target_os = "linux")]
fn an_approval_that_cannot_be_printed_is_an_error() {
    for json in [&["--json"][..], &[]] {
        let service = FakeService::start();
        service.show(2, &[freeze("a")]);
        let url = service.url();
        let mut approve =
            command(&[&["approve", "--mine", "--endpoint", url.as_str()][..], json].concat());
        let full = std::fs::File::options()
            .write(true)
            .open("/dev/full")
            .expect("/dev/full");
        let output = wait::output_of(approve.stdout(full).spawn().expect("the program"));
        assert_eq!(output.status.code(), Some(1));
        assert!(
            String::from_utf8_lossy(&output.stderr).contains("No space left"),
            "{output:?}"
        );
        assert_eq!(service.posted(), ["a"]);
    }
}
