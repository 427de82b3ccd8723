//! `wait`: until a matching event is announced.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::{FakeService, Reply, Run, command, freeze, run, started, with};

fn start(service: &FakeService, arguments: &[&str]) -> Run {
    let url = service.url();
    Run::start(command(
        &[&["wait", "--endpoint", &url], arguments].concat(),
    ))
}

#[test]
fn ends_with_the_first_event_that_matches_and_prints_it_as_list_does() {
    let service = FakeService::start();
    let other = with(
        freeze("other"),
        &json!({ "EventType": "Preempt", "Resources": ["WestNO_7"] }),
    );
    service.show(2, &[freeze("own"), other.clone()]);
    let mut waiting = start(&service, &["--mine", "--type", "Preempt,Terminate"]);
    service.await_polls(3);
    assert!(waiting.is_running());
    let preempt = with(freeze("preempt"), &json!({ "EventType": "Preempt" }));
    service.show(3, &[freeze("own"), other, preempt.clone()]);
    let finished = waiting.finish().with_code(0);
    let title = "1 event of type Preempt or Terminate of this machine, of 3 (incarnation 3)\n";
    assert!(finished.stdout.starts_with(title), "{}", finished.stdout);
    assert!(
        finished.stdout.contains("*  Preempt  Scheduled"),
        "{}",
        finished.stdout
    );
    assert!(
        !finished.stdout.contains("other") && !finished.stdout.contains("Freeze"),
        "{}",
        finished.stdout
    );
    assert_eq!(finished.stderr, "");
    assert!(service.posted().is_empty());

    service.show(4, &[freeze("own"), preempt]);
    let url = service.url();
    let finished = run(&["wait", "--json", "--type", "preempt", "--endpoint", &url]).with_code(0);
    let kinds: Vec<_> = finished
        .records()
        .iter()
        .map(|record| record["record"].clone())
        .collect();
    assert_eq!(kinds, ["document", "event"]);
    assert_eq!(finished.records()[1]["mine"], true);
}

#[test]
fn an_event_that_has_started_is_announced() {
    let service = FakeService::start();
    service.show(2, &[started("a")]);
    let finished = start(&service, &[]).finish().with_code(0);
    assert!(finished.stdout.contains("Started"), "{}", finished.stdout);
}

#[test]
fn exit_code_4_is_that_the_time_is_over() {
    let service = FakeService::start();
    service.show(2, &[freeze("a")]);
    let before = Instant::now();
    let finished = start(&service, &["--type", "Reboot", "--timeout", "8s"])
        .finish()
        .with_code(4);
    assert!(before.elapsed() >= Duration::from_secs(8));
    assert_eq!(finished.stdout, "");
    assert_eq!(
        finished.stderr,
        "error: no event of type Reboot was announced within 8s\n"
    );

    // A request without an answer does not prolong it.
    let mut polls = 0;
    service.intercept(move |request| {
        polls += u32::from(request.is_get());
        (polls > 1).then(|| Reply::new(200, "", "{}").after(Duration::from_secs(3600)))
    });
    // Only the first request may take two minutes: the delay of another one has no such
    // explanation.
    let finished = start(&service, &["--type", "Reboot", "--timeout", "5s"])
        .finish()
        .with_code(4);
    assert_eq!(
        finished.stderr,
        "error: no event of type Reboot was announced within 5s\n"
    );
}

#[test]
fn exit_code_1_is_that_it_could_not_know() {
    let service = FakeService::start();
    // Never an answer, or never a document.
    service.intercept(|_| Some(Reply::new(200, "", "{}").after(Duration::from_secs(3600))));
    let finished = start(&service, &["--timeout", "1s"]).finish().with_code(1);
    let text = format!(
        "error: no poll of {} was answered with a document within 1s; the last failure: ",
        service.url()
    );
    assert!(
        finished.stderr.starts_with(&text) && finished.stderr.contains("time"),
        "{}",
        finished.stderr
    );
    service.intercept(|_| Some(Reply::new(503, "", "")));
    let finished = start(&service, &["--timeout", "8s"]).finish().with_code(1);
    assert!(
        finished
            .stderr
            .lines()
            .last()
            .is_some_and(|line| line.contains("the last failure: status 503")),
        "{}",
        finished.stderr
    );

    // An event, and no name to compare it with.
    let service = FakeService::start();
    service.set_name(None);
    service.show(2, &[freeze("a")]);
    let finished = start(&service, &["--mine", "--timeout", "8s"])
        .finish()
        .with_code(1);
    let last = finished.stderr.lines().last().expect("a line");
    assert!(
        last.starts_with(
            "error: an event was announced within 8s, but whether it is this machine's is unknown: "
        ),
        "{last}"
    );
    assert!(last.ends_with("; use --vm-name NAME"), "{last}");
    // Without an event that could match, the name is not needed.
    start(&service, &["--mine", "--type", "Reboot", "--timeout", "8s"])
        .finish()
        .with_code(4);
}

#[test]
fn failed_polls_are_reported_and_repeated() {
    let service = FakeService::start();
    let mut polls = 0;
    service.intercept(move |request| {
        polls += u32::from(request.is_get());
        match polls {
            1 => Some(Reply::new(503, "", "")),
            2 => Some(Reply::new(200, "", "<html>")),
            3 => Some(Reply::new(200, "", "")),
            _ => None,
        }
    });
    service.show(2, &[freeze("a")]);
    let finished = start(&service, &["--timeout", "10min"])
        .finish()
        .with_code(0);
    let warnings: Vec<_> = finished.stderr.lines().collect();
    assert_eq!(warnings.len(), 3, "{}", finished.stderr);
    for (warning, words) in warnings.iter().zip(["503", "invalid document", "empty"]) {
        assert!(
            warning.starts_with("warning: poll failed: ") && warning.contains("; next poll in "),
            "{warning}"
        );
        assert!(warning.contains(words), "{warning}");
    }
}

#[test]
fn waits_for_this_machines_name_if_it_is_needed() {
    let service = FakeService::start();
    service.set_name(None);
    service.show(2, &[freeze("a")]);
    let mut waiting = start(&service, &["--mine"]);
    waiting.wait_for_stderr("cannot determine this machine's own name");
    service.await_polls(2);
    assert!(waiting.is_running());
    service.set_name(Some("WestNO_0"));
    let finished = waiting.finish().with_code(0);
    assert_eq!(
        finished.stderr.matches("cannot determine").count(),
        1,
        "{}",
        finished.stderr
    );
    // Without --mine, the name only marks events.
    service.set_name(None);
    let finished = start(&service, &[]).finish().with_code(0);
    assert!(finished.stdout.contains("?  Freeze"), "{}", finished.stdout);
}

#[test]
fn an_event_that_is_over_is_not_announced() {
    let service = FakeService::start();
    let with_status = |id, status| with(freeze(id), &json!({ "EventStatus": status }));
    service.show(
        2,
        &[with_status("a", "Completed"), with_status("b", "Canceled")],
    );
    let finished = start(&service, &["--timeout", "8s"]).finish().with_code(4);
    assert_eq!(finished.stdout, "");
    service.show(3, &[with_status("a", "Completed"), freeze("c")]);
    let finished = start(&service, &["--mine"]).finish().with_code(0);
    assert!(
        finished
            .stdout
            .starts_with("1 event of this machine, of 2 "),
        "{}",
        finished.stdout
    );
    assert!(
        finished.stdout.contains("\n   c\n") && !finished.stdout.contains("Completed"),
        "{}",
        finished.stdout
    );
}

#[cfg(unix)] // It is a script.
#[test]
fn the_check_for_node_problem_detector_has_its_exit_codes() {
    let script = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../examples/node-problem-detector/check.sh");
    let check = |url: &str| {
        let output = std::process::Command::new("sh")
            .arg(&script)
            .env("SCHEDULED_EVENTS", env!("CARGO_BIN_EXE_scheduled-events"))
            .env("SCHEDULED_EVENTS_ENDPOINT", url)
            .output()
            .unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stderr), "");
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.lines().count() == 1 && text.len() <= 80, "{text}");
        (output.status.code().unwrap(), text)
    };
    let service = FakeService::start();
    let others = with(freeze("others"), &json!({ "Resources": ["WestNO_7"] }));
    service.show(2, std::slice::from_ref(&others));
    assert_eq!(check(&service.url()).0, 0, "no problem");
    service.show(3, &[others, freeze("own")]);
    let (code, text) = check(&service.url());
    assert_eq!(code, 1, "a problem: {text}");
    assert!(
        text.starts_with("Freeze Scheduled, not before 20"),
        "{text}"
    );
    service.show(4, &[started("own")]);
    assert!(check(&service.url()).1.starts_with("Freeze Started, "));
    service.intercept(|_| Some(Reply::new(500, "", "")));
    assert_eq!(check(&service.url()).0, 2, "unknown");
}
