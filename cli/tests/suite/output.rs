//! Output for people: `--quiet`, `--color`, `--verbose`, times, and the status line on a terminal.

use serde_json::json;

use crate::support::{FakeService, Finished, Folder, Run, VM, command, freeze, run, started, with};

/// The arguments of a watcher that prints text.
fn watch<'a>(url: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [
        &[
            "watch",
            "--endpoint",
            url,
            "--interval",
            "200ms",
            "--vm-name",
            VM,
            "--policy",
            "sample",
        ],
        more,
    ]
    .concat()
}

fn polled(service: &FakeService, polls: &str, more: &[&str]) -> Finished {
    let url = service.url();
    run(&[&watch(&url, &["--max-polls", polls]), more].concat()).with_code(0)
}

#[test]
fn quiet_leaves_out_progress_and_notes_and_keeps_records_and_warnings() {
    let service = FakeService::start();
    service.show(2, &[freeze("a")]);
    let state = Folder::new().path("gone.state");
    let finished = polled(&service, "2", &["--quiet"]);
    assert_eq!(
        (finished.stdout.as_str(), finished.stderr.as_str()),
        ("", "")
    );
    let finished = polled(
        &service,
        "2",
        &["-q", "--json", "--prepare", "no-such-program"],
    );
    assert_eq!(finished.approved(), ["a"]);
    assert!(
        finished
            .stderr
            .lines()
            .all(|line| line.starts_with("warning: ")),
        "{}",
        finished.stderr
    );
    assert!(
        finished.stderr.contains("no-such-program"),
        "{}",
        finished.stderr
    );
    let url = service.url();
    let loud = run(&["watch", "--endpoint", &url, "--max-polls", "1"]).with_code(0);
    assert!(
        loud.stderr.contains("note: this machine is"),
        "{}",
        loud.stderr
    );
    let finished = run(&["watch", "--quiet", "--endpoint", &url, "--max-polls", "1"]).with_code(0);
    assert_eq!(finished.stderr, "");
    let finished = run(&["--quiet", "approve", "--endpoint", &url, "a"]).with_code(0);
    assert_eq!(
        (finished.stdout.as_str(), finished.stderr.as_str()),
        ("", "")
    );
    // Requested output is printed.
    let finished = run(&["list", "--quiet", "--endpoint", &url]).with_code(0);
    assert!(finished.stdout.contains("Freeze"), "{}", finished.stdout);
    let finished = run(&["list", "--quiet", "--endpoint", &format!("{url}#x")]).with_code(2);
    assert!(
        finished.stderr.starts_with("error: "),
        "{}",
        finished.stderr
    );
    let finished = run(&["watch", "--quiet", "--endpoint", &url, "--state", &state]).code;
    assert_ne!(finished, Some(0));
}

#[test]
fn color_never_auto_and_always() {
    let service = FakeService::start();
    service.show(2, &[freeze("a")]);
    let url = service.url();
    for (when, expected) in [("always", true), ("auto", false), ("never", false)] {
        let finished = run(&["list", "--color", when, "--endpoint", &url]).with_code(0);
        assert_eq!(
            finished.stdout.contains('\u{1b}'),
            expected,
            "{when}: {}",
            finished.stdout
        );
        let finished =
            run(&["--color", when, "list", "--endpoint", "http://127.0.0.2:9"]).with_code(1);
        assert_eq!(
            finished.stderr.contains('\u{1b}'),
            expected,
            "{when}: {}",
            finished.stderr
        );
    }
    let records = run(&["list", "--color", "always", "--json", "--endpoint", &url]).with_code(0);
    assert_eq!(records.of_kind("event").len(), 1, "JSON has no colour");
    let finished = run(&["list", "--color", "sometimes"]).with_code(2);
    assert!(
        finished.stderr.contains("auto, always, never"),
        "{}",
        finished.stderr
    );
}

#[test]
fn each_line_of_a_log_has_date_time_and_time_zone() {
    let service = FakeService::start();
    service.show(2, &[freeze("a")]);
    let finished = polled(&service, "2", &[]);
    let lines: Vec<_> = finished
        .stdout
        .lines()
        .skip(1)
        .filter(|line| !line.starts_with(' '))
        .collect();
    assert_eq!(lines.len(), 3, "{}", finished.stdout);
    for line in lines {
        let digits: String = line
            .chars()
            .map(|char| if char.is_ascii_digit() { '0' } else { char })
            .collect();
        assert!(digits.starts_with("0000-00-00 00:00:00 UTC  "), "{line}");
    }
}

#[test]
fn other_machines_events_are_one_line_per_poll_unless_verbose() {
    let service = FakeService::start();
    let other = |number: usize| {
        with(
            freeze(&format!("other-{number}")),
            &json!({ "Resources": ["WestNO_7"] }),
        )
    };
    let reboot = with(other(100), &json!({ "EventType": "Reboot" }));
    service.show(
        2,
        &[(0..100).map(other).collect(), vec![reboot, freeze("own")]].concat(),
    );
    let url = service.url();
    let mut watcher = Run::start(command(&watch(&url, &[])));
    crate::support::eventually("an approval", || {
        watcher.stdout().contains("approved").then_some(())
    });
    service.await_polls(2);
    service.show(
        3,
        &[
            with(started("other-0"), &json!({ "Resources": ["WestNO_7"] })),
            freeze("own"),
        ],
    );
    crate::support::eventually("the second summary", || {
        watcher.stdout().contains("started Freeze of").then_some(())
    });
    assert!(watcher.is_running());
    let finished = watcher.kill();
    let others: Vec<_> = finished
        .stdout
        .lines()
        .filter(|line| line.contains("  others "))
        .collect();
    assert_eq!(others.len(), 2, "{}", finished.stdout);
    assert!(
        others[0].ends_with("scheduled 100 Freeze, 1 Reboot (--verbose shows each event)"),
        "{}",
        others[0]
    );
    assert!(
        others[1].contains("started Freeze of WestNO_7") && !others[1].contains("--verbose"),
        "{}",
        others[1]
    );
    assert!(!finished.stdout.contains("other-"), "{}", finished.stdout);

    let finished = polled(&service, "1", &["--verbose"]);
    assert!(
        finished.stdout.contains("other-0") && !finished.stdout.contains("  others "),
        "{}",
        finished.stdout
    );
    let finished = polled(&service, "1", &["--json"]);
    assert_eq!(finished.of_kind("change").len(), 2, "records are complete");
}

#[cfg(unix)]
mod on_a_terminal {
    use super::*;
    use crate::support::Terminal;

    /// A watcher's output on a terminal, with carriage returns.
    fn shown(service: &FakeService, more: &[&str], color: bool) -> String {
        let url = service.url();
        let mut watcher = command(&[&watch(&url, &["--max-polls", "8"]), more].concat());
        if !color {
            watcher.env("NO_COLOR", "1");
        }
        Terminal::new(60).run(watcher)
    }

    #[test]
    fn a_status_line_is_rewritten_in_place_and_is_removed_at_the_end() {
        let service = FakeService::start();
        service.show(2, &[freeze("a")]);
        for color in [true, false] {
            let shown = shown(&service, &[], color);
            assert_eq!(shown.contains('\u{1b}'), color, "{shown:?}");
            assert!(shown.contains("UTC  following 1 event"), "{shown:?}");
            assert!(shown.contains(" (times in UTC)"), "{shown:?}");
            // No line feed ends a status line, and spaces cover it before another line is printed.
            for line in shown.split('\n') {
                let left = line.rsplit('\r').next().expect("a part");
                assert!(!left.contains("UTC  "), "{shown:?}");
            }
            assert!(shown.ends_with('\n') || shown.ends_with('\r'), "{shown:?}");
        }
    }

    #[test]
    fn neither_records_nor_quiet_watchers_have_a_status_line() {
        let service = FakeService::start();
        service.show(2, &[freeze("a")]);
        for option in ["--json", "--quiet"] {
            let shown = shown(&service, &[option], true);
            assert!(
                !shown.contains('\r') && !shown.contains("following"),
                "{option}: {shown:?}"
            );
        }
        assert!(
            !polled(&service, "2", &[]).stdout.contains('\r'),
            "no terminal"
        );
    }
}

#[test]
fn long_texts_of_an_event_are_cut() {
    let service = FakeService::start();
    let long = "A".repeat(70_000);
    let members = [
        "EventType",
        "EventSource",
        "Description",
        "ResourceType",
        "NotBefore",
    ];
    let members: serde_json::Map<_, _> = members
        .map(|member| (member.to_owned(), json!(long)))
        .into_iter()
        .collect();
    let resources = json!({ "Resources": [VM, long] });
    let long_id = json!({ "EventId": long });
    let event = with(
        with(with(freeze("a"), &members.into()), &resources),
        &long_id,
    );
    service.show(
        2,
        &[
            event,
            with(
                freeze("b"),
                &json!({ "EventSource": long, "Description": long }),
            ),
        ],
    );
    let finished = polled(&service, "1", &["--verbose"]);
    assert!(
        finished.stdout.contains("caused by AAAA"),
        "{}",
        finished.stdout
    );
    for line in finished.stdout.lines().chain(finished.stderr.lines()) {
        assert!(line.len() < 1_000, "{} bytes: {}", line.len(), &line[..200]);
    }
}
