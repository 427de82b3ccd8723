//! `record`: a watcher's records are played again, and a watcher sees the same.

use std::fs;

use scheduled_events_replay::{Scenario, Server, ServerConfig};
use serde_json::{Value, json};

use crate::support::{Folder, Run, VM, command, run, run_with_input, together};

/// The speed at which scenarios are played. Recorded times are whole seconds, so a recording is
/// played at speed 1.
const SPEED: f64 = 60.0;

/// Plays a scenario, and watches it with an audit file at `audit` until it is over. Returns the
/// changes of each event, in the order in which the events appeared, with the facts that a
/// recording keeps.
fn watched(scenario: Scenario, speed: f64, policy: &str, audit: &str) -> Vec<(Vec<String>, Value)> {
    let server = Server::start(
        ServerConfig::new(scenario)
            .speed(speed)
            .vm_name(VM)
            .without_verdict(),
    )
    .expect("a port");
    let url = server.url();
    let arguments = [
        "watch",
        "--json",
        "--endpoint",
        &url,
        "--interval",
        "200ms",
        "--until-idle",
        "--policy",
        policy,
    ];
    let finished = Run::start(command(&[&arguments[..], &["--audit", audit]].concat()))
        .finish()
        .with_code(0);
    let mut events: Vec<(String, Vec<String>, Value)> = Vec::new();
    for record in finished
        .records()
        .iter()
        .filter(|record| record["record"] == "change")
    {
        let change = record["change"].as_str().expect("a word").to_owned();
        let id = record["event_id"].as_str().expect("an id");
        if let Some((_, changes, _)) = events.iter_mut().find(|(known, ..)| known == id) {
            changes.push(change);
        } else {
            let names = [
                "event_type",
                "event_source",
                "description",
                "duration_in_seconds",
                "resources",
                "mine",
            ];
            let facts = names.map(|name| (name.to_owned(), record[name].clone()));
            events.push((
                id.to_owned(),
                vec![change],
                Value::Object(facts.into_iter().collect()),
            ));
        }
    }
    events
        .into_iter()
        .map(|(_, changes, facts)| (changes, facts))
        .collect()
}

fn recorded(audit: &str, more: &[&str]) -> (String, Scenario) {
    let finished = run(&[&["record", audit], more].concat()).with_code(0);
    assert_eq!(finished.stderr, "");
    let scenario = Scenario::parse(&finished.stdout)
        .unwrap_or_else(|error| panic!("{error}\n{}", finished.stdout));
    (finished.stdout, scenario)
}

#[test]
fn a_recording_is_seen_as_the_scenario_was_seen() {
    let of = |name: &str| Scenario::builtin(name).expect(name);
    let own = |text: &str| Scenario::parse(text).expect("a scenario");
    let early = own(
        "about = \"A neighbour approves.\"\n[[event]]\nevent_type = \"Redeploy\"\nresources = [\"{peer:1}\", \"{vm}\"]\n\
         appears = \"60s\"\nnotice = \"1h\"\nstarts_after = \"240s\"\nstarted_for = \"240s\"\n\
         [[event]]\nevent_type = \"Freeze\"\nresources = [\"{vm}\"]\nduration_in_seconds = 5\nappears = \"120s\"\nnotice = \"1h\"\n\
         starts_after_approval = \"180s\"\nstarted_for = \"180s\"\n",
    );
    let moved = own(
        "about = \"It moves.\"\n[[event]]\nevent_type = \"Freeze\"\nnotice = \"300s\"\n\
         reschedule = { after = \"120s\", notice = \"240s\" }\n",
    );
    let scenarios = [
        ("user-reboot", of("user-reboot"), "sample"),
        ("hardware-failure", of("hardware-failure"), "observe"),
        ("terminate-pair", of("terminate-pair"), "observe"),
        ("cancelled", of("cancelled"), "observe"),
        ("rescheduled", moved, "observe"),
        ("early", early, "sample"),
    ];
    together(scenarios, |(name, mut scenario, policy)| {
        let folder = Folder::new();
        let set = |time: &mut std::time::Duration| *time = std::time::Duration::from_secs(240);
        scenario
            .events
            .iter_mut()
            .for_each(|event| set(&mut event.started_for));
        let first = watched(scenario, SPEED, policy, &folder.path("first"));
        let (text, scenario) = recorded(&folder.path("first"), &[]);
        let second = watched(scenario, 1.0, policy, &folder.path("second"));
        assert_eq!(first, second, "{name}\n{text}");
    });
}

#[test]
fn a_masked_recording_can_be_played_and_names_nobody() {
    let folder = Folder::new();
    let seen = watched(
        Scenario::builtin("live-migration").expect("a scenario"),
        300.0,
        "sample",
        &folder.path("audit"),
    );
    let audit = fs::read_to_string(folder.path("audit")).expect("an audit file");
    let id = serde_json::from_str::<Value>(audit.lines().next().expect("a line")).expect("JSON")["event_id"].clone();
    let (text, scenario) = recorded(&folder.path("audit"), &["--mask"]);
    for hidden in ["WestNO", id.as_str().expect("an id"), "EventId", "20"] {
        let body = text
            .lines()
            .filter(|line| !line.contains(" = \""))
            .collect::<Vec<_>>()
            .join("\n");
        assert!(!body.contains(hidden), "{hidden}: {text}");
    }
    assert_eq!(scenario.events[0].resources, ["{vm}", "{peer:1}"]);
    assert_eq!(seen[0].1["resources"], json!([VM, "WestNO_1"]));
}

#[test]
fn rotated_files_and_standard_input_are_read() {
    let folder = Folder::new();
    let line = |change: &str, second: u32| {
        let time = format!("2026-01-01T00:00:{second:02}Z");
        json!({"record": "change", "change": change, "event_id": "a", "event_type": "Freeze", "resources": [VM],
            "not_before": "2026-01-01T00:01:00Z", "mine": true, "time": time})
        .to_string()
            + "\n"
    };
    folder.file("audit.2", line("scheduled", 0));
    folder.file("audit.1", line("started", 10));
    let audit = folder.file(
        "audit",
        format!("{{\"record\":\"chan\n{}", line("completed", 20)),
    );
    let finished = run(&["record", &audit]).with_code(0);
    assert!(
        finished.stderr.contains("warning: ")
            && finished
                .stderr
                .contains(": left out 1 line without a record"),
        "{}",
        finished.stderr
    );
    for expected in [
        "starts_after = \"10s\"",
        "started_for = \"10s\"",
        "notice = \"1m\"",
        "resources = [\"{vm}\"]",
    ] {
        assert!(finished.stdout.contains(expected), "{}", finished.stdout);
    }
    let input = line("scheduled", 0) + &line("started", 10) + &line("completed", 20);
    let piped = run_with_input(&["record", "-"], input.as_bytes()).with_code(0);
    assert_eq!(piped.stdout, finished.stdout);

    let missing = run(&["record", &folder.path("missing")]).with_code(2);
    assert!(
        missing.stderr.starts_with("error: cannot read "),
        "{}",
        missing.stderr
    );
    let empty = run_with_input(&["record", "-"], b"").with_code(3);
    assert!(
        empty
            .stderr
            .contains("expected the file of `watch --audit`"),
        "{}",
        empty.stderr
    );
    assert_eq!(empty.stdout, "");
}
