//! Output that systemd sends to the journal: priorities, one line for each record, and fields
//! through the journal's own protocol.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixDatagram;
use std::process::Stdio;

use crate::support::{FakeService, Folder, PATIENCE, VM, command, freeze, wait, with};
use serde_json::json;

/// Watches one announcement, with output to files that stand for the journal's stream. Returns
/// their contents.
fn watch(folder: &Folder, more: &[&str], names_stream: bool, socket: &str) -> (String, String) {
    let service = FakeService::start();
    let event = json!({ "Description": "first\nsecond", "Resources": [VM] });
    service.show(1, &[with(freeze("an id\u{1b}[2J"), &event)]);
    let url = service.url();
    let every = [
        "watch",
        "--endpoint",
        &url,
        "--vm-name",
        VM,
        "--interval",
        "200ms",
        "--max-polls",
        "2",
    ];
    let (output, errors) = (folder.path("output"), folder.path("errors"));
    let mut command = command(&[&every[..], more].concat());
    for (path, is_output) in [(&output, true), (&errors, false)] {
        let file = File::create(path).expect("a file");
        let found = file.metadata().expect("its inode");
        // One stream only: the other one goes elsewhere.
        if names_stream && is_output != more.contains(&"--policy") {
            command.env("JOURNAL_STREAM", format!("{}:{}", found.dev(), found.ino()));
        }
        if is_output {
            command.stdout(file)
        } else {
            command.stderr(file)
        };
    }
    command
        .env("SCHEDULED_EVENTS_JOURNAL", socket)
        .stdin(Stdio::null());
    assert!(wait::ended(&mut command.spawn().expect("the command")).success());
    let read = |path: &String| fs::read_to_string(path).expect("the output");
    (read(&output), read(&errors))
}

#[test]
fn records_are_lines_with_a_priority_where_the_socket_is_not() {
    let folder = Folder::new();
    let (output, _) = watch(&folder, &[], true, &folder.path("no-socket"));
    let lines: Vec<_> = output.lines().collect();
    assert!(lines[0].starts_with("<6>watching "), "{output}");
    assert!(
        lines[1].starts_with(r"<5>scheduled: Freeze an id\u{1b}[2J  starts "),
        "{output}"
    );
    assert!(
        lines[1].contains(&format!("affects {VM} (this machine); ")),
        "{output}"
    );
    assert!(
        lines[1].contains("first") && lines[1].contains("second"),
        "{output}"
    );
    assert!(lines[2].starts_with("<4>hold: Freeze an id"), "{output}");
    assert_eq!(lines.len(), 3, "{output}");
    assert!(!output.contains("Ctrl-C"), "{output}");
}

#[test]
fn records_have_fields_where_the_socket_is() {
    let folder = Folder::new();
    let state = folder.path("state");
    // A watcher with a state file asks for the id of its machine.
    let id = "SCHEDULED_EVENTS_VM_ID=4e9b5f62-0b37-4c5f-8d0e-6b2f6f2c8a11";
    for (more, id) in [(&[][..], None), (&["--state", &state], Some(id))] {
        check_fields(&folder, more, id);
    }
}

/// Checks the fields of the records of a watcher with these options.
fn check_fields(folder: &Folder, more: &[&str], id: Option<&str>) {
    let path = folder.path(&format!("socket-{}", more.len()));
    // It imitates the socket of systemd-journald.
    let journal = UnixDatagram::bind(&path).expect("a socket");
    journal.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let (output, _) = watch(folder, more, true, &path);
    assert_eq!(
        output.lines().count(),
        1,
        "nothing is there twice: {output}"
    );
    let mut buffer = [0; 4096];
    for (record, priority, start) in [
        ("change", 5, "scheduled: Freeze an id"),
        ("decision", 4, "hold: Freeze an id"),
    ] {
        let length = journal.recv(&mut buffer).expect("a record");
        let text = std::str::from_utf8(&buffer[..length]).expect("text");
        let fields: Vec<_> = text.lines().collect();
        assert!(fields[0].starts_with(&format!("MESSAGE={start}")), "{text}");
        let mut expected = vec![
            format!("PRIORITY={priority}"),
            "SYSLOG_IDENTIFIER=scheduled-events".to_owned(),
            format!("SCHEDULED_EVENTS_RECORD={record}"),
            "SCHEDULED_EVENTS_TYPE=Freeze".to_owned(),
            r"SCHEDULED_EVENTS_ID=an id\u{1b}[2J".to_owned(),
            "SCHEDULED_EVENTS_MACHINE=WestNO_0".to_owned(),
        ];
        expected.extend(id.map(str::to_owned));
        assert_eq!(fields[1..], expected, "{text}");
    }
}

#[test]
fn only_a_stream_that_leads_to_the_journal_has_priorities() {
    let folder = Folder::new();
    // With a rule that needs a command, there is a warning.
    let policy = folder.file("policy.toml", "[[rule]]\naction = \"prepare\"\n");
    let (output, errors) = watch(
        &folder,
        &["--policy", &policy],
        true,
        &folder.path("no-socket"),
    );
    assert!(
        errors.starts_with("<4>warning: the policy has a rule"),
        "{errors}"
    );
    assert!(
        !output.contains('<') && output.contains(" UTC  scheduled"),
        "{output}"
    );
    let (output, errors) = watch(
        &folder,
        &["--policy", &policy],
        false,
        &folder.path("no-socket"),
    );
    assert!(
        errors.starts_with("warning: ") && output.contains(" UTC  scheduled"),
        "{output}{errors}"
    );
    // Records as JSON are for programs, and stay as they are.
    let (output, _) = watch(&folder, &["--json"], true, &folder.path("no-socket"));
    assert!(output.lines().all(|line| line.starts_with('{')), "{output}");
}
