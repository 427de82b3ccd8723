//! Each version of the API: served by the replay server, and understood by the command.

use scheduled_events_replay::{Scenario, Server, ServerConfig};
use serde_json::json;

use crate::support::{Finished, Folder, VM, run};

/// All versions, with whether they deliver Preempt and Terminate events, and the last three
/// members.
const VERSIONS: [(&str, [bool; 5]); 7] = [
    ("2017-03-01", [false, false, false, false, false]),
    ("2017-08-01", [false, false, false, false, false]),
    ("2017-11-01", [true, false, false, false, false]),
    ("2019-01-01", [true, true, false, false, false]),
    ("2019-04-01", [true, true, true, false, false]),
    ("2019-08-01", [true, true, true, true, false]),
    ("2020-07-01", [true, true, true, true, true]),
];

const SCENARIO: &str = r#"
    about = "An event of three types at once."
    [[event]]
    event_type = "Reboot"
    event_source = "User"
    description = "A text."
    duration_in_seconds = 7
    notice = "1h"
    [[event]]
    event_type = "Preempt"
    notice = "1h"
    [[event]]
    event_type = "Terminate"
    notice = "1h"
"#;

fn ask(server: &Server, version: &str, arguments: &[&str]) -> Finished {
    let url = server.url();
    run(&[
        arguments,
        &["--endpoint", &url, "--api-version", version, "--json"],
    ]
    .concat())
    .with_code(0)
}

#[test]
fn each_version_is_served_and_understood() {
    let scenario = Scenario::parse(SCENARIO).expect("a scenario");
    for (version, [preempt, terminate, description, source, duration]) in VERSIONS {
        let server = Server::start(
            ServerConfig::new(scenario.clone())
                .vm_name(VM)
                .without_verdict(),
        )
        .expect("a port");
        let listed = ask(&server, version, &["list", "--mine"]);
        let events: Vec<_> = listed
            .records()
            .into_iter()
            .filter(|record| record["record"] == "event")
            .collect();
        let types: Vec<_> = events
            .iter()
            .filter_map(|event| event["event_type"].as_str())
            .collect();
        let expected = [
            ("Reboot", true),
            ("Preempt", preempt),
            ("Terminate", terminate),
        ];
        let expected: Vec<_> = expected
            .into_iter()
            .filter(|(_, is_there)| *is_there)
            .map(|(kind, _)| kind)
            .collect();
        assert_eq!(types, expected, "{version}");
        let reboot = &events[0];
        assert_eq!(reboot["mine"], true, "{version}");
        assert_eq!(
            reboot["description"],
            if description {
                json!("A text.")
            } else {
                json!(null)
            },
            "{version}"
        );
        assert_eq!(
            reboot["event_source"],
            if source { json!("User") } else { json!(null) },
            "{version}"
        );
        assert_eq!(
            reboot["duration_in_seconds"],
            if duration { json!(7) } else { json!(null) },
            "{version}"
        );
        let id = reboot["event_id"].as_str().expect("an id");
        assert_eq!(
            ask(&server, version, &["approve", id]).records()[0]["status"],
            200,
            "{version}"
        );
        assert_eq!(
            server.requests().last().and_then(|request| request.status),
            Some(200),
            "{version}"
        );
    }
}

#[test]
fn a_policy_that_needs_more_than_the_version_has_is_reported() {
    let folder = Folder::new();
    let policy = folder.file(
        "terminate.toml",
        "[[rule]]\nevent = \"Terminate\"\naction = \"hold\"\n",
    );
    let document = folder.file("document.json", r#"{"DocumentIncarnation":1,"Events":[]}"#);
    for (version, [_, terminate, ..]) in VERSIONS {
        let checked = run(&[
            "check",
            &document,
            "--policy",
            &policy,
            "--api-version",
            version,
        ])
        .with_code(0);
        let warned = checked
            .stderr
            .contains("does not deliver what the policy names: Terminate events (rule 1)");
        assert_eq!(warned, !terminate, "{version}: {}", checked.stderr);
        let arguments = [
            "watch",
            "--max-polls",
            "1",
            "--policy",
            &policy,
            "--api-version",
            version,
            "--vm-name",
            VM,
        ];
        let scenario = Scenario::builtin("preempt").expect("a name");
        let server = Server::start(ServerConfig::new(scenario).without_verdict()).expect("a port");
        let watched = run(&[&arguments[..], &["--endpoint", &server.url()]].concat()).with_code(0);
        assert_eq!(
            watched
                .stderr
                .contains("use --api-version 2019-01-01 or newer"),
            !terminate,
            "{}",
            watched.stderr
        );
    }
}
