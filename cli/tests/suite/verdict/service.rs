//! `capture` and `contract`: the verdict on a service. `cli/src/test/twins.rs` has a service that breaks each rule.

use std::os::unix::fs::PermissionsExt as _;

use scheduled_events_core::record::is_unsafe_to_print;
use scheduled_events_replay::{Fault, Scenario, Server, ServerConfig};
use serde_json::Value;

use super::*;
use crate::support::{Terminal, eventually, run, run_with_input, together};

/// An event with a notice as documented, which takes some seconds once it is approved.
const REBOOT: &str = r#"
    about = "A user's reboot."
    [[event]]
    event_type = "Reboot"
    event_source = "User"
    description = "Virtual machine is going to be restarted, says Secret_3 at 10.9.8.7."
    resources = ["{vm}"]
    appears = "1s"
    notice = "15min"
    starts_after_approval = "1s"
    started_for = "2s"
"#;

const NAME: &str = "Secret_3";

fn serve(faults: &[&str]) -> Server {
    let config = ServerConfig::new(Scenario::parse(REBOOT).expect("a scenario"))
        .vm_name(NAME)
        .without_verdict();
    let fault = |text: &&str| text.parse::<Fault>().expect("a fault");
    let config = faults.iter().map(fault).fold(config, ServerConfig::fault);
    Server::start(config).expect("a port")
}

/// Captures until the event has ended.
fn capture(server: &Server, file: &str, options: &[&str]) -> Finished {
    let url = server.url();
    let arguments = [
        "capture",
        "--to",
        file,
        "--until-idle",
        "--endpoint",
        &url,
        "--interval",
        "200ms",
    ];
    let all = [&arguments[..], options].concat();
    Run::start(command(&all)).finish_within(PATIENCE)
}

fn exchanges(file: &str) -> Vec<Value> {
    let text = fs::read_to_string(file).expect("a capture");
    text.lines()
        .map(|line| serde_json::from_str(line).expect(line))
        .collect()
}

#[test]
fn a_capture_on_a_full_disk_says_what_it_lacks() {
    let folder = Folder::new();
    let file = folder.path("capture");
    let server = serve(&[]);
    let arguments = ["capture", "--to", &file, "--interval", "200ms"];
    let run = Run::start(command(
        &[&arguments[..], &["--endpoint", &server.url()]].concat(),
    ));
    let length = eventually("an exchange", || {
        let length = fs::metadata(&file).map_or(0, |file| file.len());
        (length > 0).then_some(length)
    });
    run.limit_file_size(Some(length));
    run.wait_for_stderr("error: cannot write the audit file");
    run.terminate();
    let finished = run.finish().with_code(2);
    let lacks = format!("error: {file} lacks ");
    assert!(finished.stderr.contains(&lacks), "{}", finished.stderr);
    let count = exchanges(&file).len();
    let note = format!("{count} exchange");
    assert!(finished.stdout.contains(&note), "{}", finished.stdout);
}

#[test]
fn a_masked_capture_shows_the_rules_and_names_nobody() {
    let folder = Folder::new();
    let file = folder.path("capture");
    let finished = capture(&serve(&[]), &file, &["--mask", "--probe", "--approve"]).with_code(0);
    assert!(
        finished.stdout.contains("see `scheduled-events contract "),
        "{}",
        finished.stdout
    );
    let mode = fs::metadata(&file).expect("a file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let text = fs::read_to_string(&file).expect("a capture");
    for hidden in [NAME, "10.9.8.7", "secret"] {
        assert!(
            !text
                .to_ascii_lowercase()
                .contains(&hidden.to_ascii_lowercase()),
            "{text}"
        );
    }
    for (line, number) in exchanges(&file).iter().zip(1..) {
        assert_eq!(
            (&line["record"], &line["sequence"]),
            (&"exchange".into(), &number.into())
        );
        assert!(
            line["method"].is_string() && line["took_ms"].is_number() && line["status"].is_number()
        );
    }

    let judged = run(&["contract", &file, "--json"]).with_code(0);
    let rules = judged.of_kind("rule");
    let outcome = |id: &str| {
        let rule = rules.iter().find(|rule| rule["rule"] == id);
        rule.expect("a rule")["outcome"]
            .as_str()
            .expect("a word")
            .to_owned()
    };
    for seen in [
        "metadata-header",
        "approval-repeated",
        "notice-reboot",
        "not-before-blank",
        "no-return",
    ] {
        assert_eq!(outcome(seen), "seen", "{seen}");
    }
    assert_eq!(outcome("notice-freeze"), "not-seen");
    assert!(
        rules.iter().all(|rule| rule["outcome"] != "contradicted"),
        "{}",
        judged.stdout
    );
    let event = &judged.of_kind("observed")[0];
    assert_eq!(event["event_type"], "Reboot");
    assert!(
        event["start_after_approval_seconds"].is_number() && event["gone"].is_string(),
        "{event}"
    );

    // The capture is a scenario, too.
    let recorded = run(&["record", "--mask", &file]).with_code(0);
    assert_eq!(recorded.stderr, "");
    let scenario = Scenario::parse(&recorded.stdout).expect("a scenario");
    let event = &scenario.events[0];
    assert_eq!(
        (event.event_type.as_str(), &event.resources[..]),
        ("Reboot", &["{vm}".to_owned()][..])
    );
    assert!(
        (890..=900).contains(&event.notice.as_secs()),
        "{}",
        recorded.stdout
    );

    // The next run, as after a restart, continues the file, and the machine has the same name in it.
    let before = exchanges(&file).len();
    capture(&serve(&[]), &file, &["--mask", "--approve"]).with_code(0);
    let after = exchanges(&file);
    assert_eq!(after[before]["sequence"], before + 1);
    let names = |lines: &[Value]| {
        let bodies = lines
            .iter()
            .filter(|line| line["target"].as_str().unwrap().contains("/compute/name"));
        bodies.map(|line| line["body"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(names(&after[..before]), names(&after[before..]));
    // The second server began to count again, which the service does only after a day without requests.
    let judged = run(&["contract", &file, "--json"]).with_code(1);
    let ids: Vec<_> = judged
        .of_kind("observed")
        .iter()
        .map(|event| event["event_id"].clone())
        .collect();
    assert!(ids.len() == 2 && ids[0] != ids[1], "{ids:?}");
    let names = format!("{file}.names");
    assert!(
        fs::read_to_string(&names)
            .expect("the names")
            .contains(&NAME.to_ascii_lowercase())
    );
    let mode = fs::metadata(&names).expect("a file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    // No line of it is unmasked, or masked by other names.
    let refused = capture(&serve(&[]), &file, &[]).with_code(2);
    assert!(
        refused
            .stderr
            .contains("is masked; add --mask, or use another file"),
        "{}",
        refused.stderr
    );
    // Nor is it after the file was rotated.
    fs::rename(&file, format!("{file}.2")).expect("a rotation");
    capture(&serve(&[]), &file, &[]).with_code(2);
    fs::rename(format!("{file}.2"), &file).expect("a file");
    fs::remove_file(&names).expect("the names");
    let refused = capture(&serve(&[]), &file, &["--mask"]).with_code(2);
    assert!(
        refused.stderr.contains("is missing; use another file"),
        "{}",
        refused.stderr
    );
    assert_eq!(exchanges(&file).len(), after.len());
}

#[test]
fn a_contradiction_is_shown_in_a_terminal_of_any_width_and_its_text_is_escaped() {
    let folder = Folder::new();
    let file = folder.path("capture");
    let fault = r#"member:EventType,"\u001b[2Jgone""#;
    capture(&serve(&[fault]), &file, &["--approve"]).with_code(0);
    let judged = run(&["contract", &file]).with_code(1);
    assert_eq!(judged.stderr, "");
    for part in [
        "event-type           contradicted",
        "line ",
        "2 contradicted",
        "found EventType",
    ] {
        assert!(judged.stdout.contains(part), "{part}: {}", judged.stdout);
    }
    let is_plain = |text: &str| {
        !text
            .chars()
            .any(|char| char != '\n' && is_unsafe_to_print(char))
    };
    assert!(is_plain(&judged.stdout), "{}", judged.stdout);
    let records = run(&["contract", &file, "--json"]).with_code(1);
    assert!(is_plain(&records.stdout));
    let rules = records.of_kind("rule");
    let broken = rules
        .iter()
        .filter(|rule| rule["outcome"] == "contradicted");
    assert_eq!(
        broken.map(|rule| rule["rule"].clone()).collect::<Vec<_>>(),
        ["event-type", "member-order"] // The server sorts the members of such an event.
    );
    together([40, 80, 120], |columns| {
        let terminal = Terminal::new(columns);
        let mut command = command(&["contract", &file, "--color", "never"]);
        terminal.connect(&mut command);
        let text = terminal.run(command);
        assert!(text.contains("contradicted"), "{text}");
        for line in text.lines() {
            assert!(
                line.trim_end().chars().count() <= usize::from(columns),
                "{columns}: {line}"
            );
        }
    });
}

#[test]
fn what_is_no_capture_and_what_is_in_use_is_refused() {
    let refused =
        run_with_input(&["contract", "-"], b"{\"record\":\"change\"}\nno record\n").with_code(3);
    assert!(
        refused
            .stderr
            .contains("<stdin>: it has no exchange; expected the file of `capture --to`"),
        "{}",
        refused.stderr
    );
    let folder = Folder::new();
    let file = folder.file("notes.txt", "mine");
    let server = serve(&[]);
    let refused = capture(&server, &file, &[]).with_code(2);
    let message = format!("error: cannot use the capture {file}: it is no capture, and is not");
    assert!(refused.stderr.starts_with(&message), "{}", refused.stderr);
    assert_eq!(fs::read_to_string(file).expect("the file"), "mine");
    assert!(server.requests().is_empty());
}
