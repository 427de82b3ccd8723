//! The operator's commands in the section "By hand" of docs/run/fleet.md do what the page shows.

use std::path::Path;
use std::process::Command;

use scheduled_events_gate::engine::Engine;
use scheduled_events_gate::engine::folder::FolderEngine;
use scheduled_events_test_support::wait;
use serde_json::json;
use tempfile::TempDir;

use crate::fixture::{FLEET_COMMAND, block_on, wait_for, watcher_command};
use crate::gate::Fleet;
use crate::three_machines::{MACHINES, replay};

/// The event of the page.
const EVENT: &str = "368d8799-233c-4d16-8e3a-0c6c6ab4efec";

/// The first block in a language, below a heading of the page.
fn block(heading: &str, language: &str) -> String {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/run/fleet.md");
    let page = std::fs::read_to_string(page).expect("the page");
    let (_, section) = page
        .split_once(&format!("\n## {heading}\n"))
        .expect("the section");
    let (_, block) = section
        .split_once(&format!("\n```{language}\n"))
        .expect("a block");
    let (block, _) = block.split_once("```").expect("its end");
    block.to_owned()
}

/// The commands of the page's section, each with its output.
fn commands() -> Vec<(String, String)> {
    let block = block("By hand", "console");
    let commands = block
        .split("$ ")
        .skip(1)
        .map(|command| command.split_once('\n').expect("a line"));
    commands
        .map(|(command, output)| (command.to_owned(), output.to_owned()))
        .collect()
}

#[test]
fn an_operator_types_what_the_guide_says() {
    let fleet =
        Fleet::new("[[group]]\nname = \"web\"\nmachines = [\"WestNO_*\"]\nmax_unavailable = 2\n");
    let engine = FolderEngine::new(&fleet.path().join("registers"));
    let write = |key: &str, value: &str| block_on(engine.swap(key, None, value)).expect("written");
    let root = TempDir::new().expect("a folder");
    let (_replay, url) = replay(root.path());
    let run = |command: &mut Command| {
        let output = wait::output(command.env("SCHEDULED_EVENTS_ENDPOINT", &url));
        let errors = String::from_utf8(output.stderr).expect("text");
        (
            output.status.code(),
            String::from_utf8(output.stdout).expect("text"),
            errors,
        )
    };
    // The event as the replay server has it.
    let listed = wait_for("the event", || {
        let (_, events, _) = run(Command::new(watcher_command()).args(["list", "--json"]));
        let events = events
            .lines()
            .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
        events
            .filter(|event| event["event_status"] == "Scheduled")
            .find_map(|event| Some(event["event_id"].as_str()?.to_owned()))
    });
    // One machine runs and has lost its audit file, and the other one does not come back.
    let claim = json!({ "slots": [MACHINES[1], MACHINES[2]], "by": [MACHINES[1]], "at": 1 });
    write(
        "groups/web",
        &json!({ "format": 1, "limit": 2, "claims": { (EVENT): claim } }).to_string(),
    );
    write(
        "machines/westno_2",
        &json!({ "format": 1, "machine": MACHINES[2], "beat": 7, "at": 1 }).to_string(),
    );
    write("groups/db", "{\"format\":1,\"limit\":");
    let gate = fleet.start(MACHINES[1], None);
    wait_for("a heartbeat", || {
        block_on(engine.read("machines/westno_1")).expect("read")
    });
    let status = |expected: i32| {
        let (code, text, errors) = run(gate.fleet().arg("status"));
        assert_eq!(code, Some(expected), "{text}{errors}");
        (text, errors)
    };
    let (text, errors) = status(1);
    assert!(
        text.contains("web    2      2    WestNO_1") && text.contains("WestNO_2        0       "),
        "{text}"
    );
    let advice =
        "it is left as it is; `scheduled-events-fleet delete-register groups/db` deletes it";
    assert!(errors.contains(advice), "{errors}");

    let commands = commands();
    assert!(commands.len() > 4, "{commands:?}");
    for (line, expected) in &commands {
        let mut words = line.split_whitespace();
        let mut command = match words.next() {
            Some("scheduled-events-fleet") => gate.fleet(),
            Some("scheduled-events") => Command::new(watcher_command()),
            program => panic!("{line}: the test does not know {program:?}"),
        };
        let is_of_azure = line.starts_with("scheduled-events ");
        let own = |text: &str| {
            if is_of_azure {
                text.replace(EVENT, &listed)
            } else {
                text.to_owned()
            }
        };
        let (code, text, errors) = run(command.args(words.map(own)));
        if line.ends_with(" status") {
            continue;
        }
        assert_eq!((code, text), (Some(0), own(expected)), "{line}: {errors}");
    }
    let (text, _) = status(0);
    assert!(
        text.contains("no place is taken") && !text.contains("WestNO_2"),
        "{text}"
    );
    wait_for("the start of the event", || {
        let (_, events, _) = run(Command::new(watcher_command()).args(["list", "--json"]));
        (events.contains(&listed) && events.contains("\"Started\"")).then_some(())
    });
    // A valid register stays.
    let (code, text, errors) = run(gate.fleet().args(["delete-register", "groups/web"]));
    assert_eq!((code, &*text), (Some(1), ""), "{errors}");
    assert!(
        errors.contains("the register groups/web is valid, and stays"),
        "{errors}"
    );
}

#[test]
fn a_register_of_another_version_is_deleted_by_force_only() {
    let fleet = Fleet::new("");
    let engine = FolderEngine::new(&fleet.path().join("registers"));
    let gate = fleet.start("a", None);
    for (value, is_of_another_version) in [
        ("{\"format\":9}", true),
        ("{}", true),
        ("{\"format\":1}", false),
        ("[", false),
    ] {
        let found = block_on(engine.read("groups/old"))
            .expect("read")
            .map(|found| found.revision);
        block_on(engine.swap("groups/old", found.as_ref(), value)).expect("written");
        let delete = |options: &[&str]| {
            let output = wait::output(
                gate.fleet()
                    .args(["delete-register", "groups/old"])
                    .args(options),
            );
            let [text, errors] =
                [output.stdout, output.stderr].map(|text| String::from_utf8(text).expect("text"));
            (output.status.code(), text, errors)
        };
        let (code, text, errors) = delete(&[]);
        if is_of_another_version {
            assert_eq!((code, &*text), (Some(1), ""));
            assert!(
                errors.contains("another version of this program wrote the register groups/old"),
                "{errors}"
            );
            assert_eq!(delete(&["--force"]).0, Some(0), "{value}");
        } else {
            assert_eq!(code, Some(0), "{errors}");
            assert!(
                text.starts_with("deleted the register groups/old, which was: "),
                "{text}"
            );
        }
        assert_eq!(block_on(engine.read("groups/old")).expect("read"), None);
    }
    for key in [
        "",
        "web",
        "../x",
        "groups/../x",
        "groups/Web",
        "groups//",
        "other/x",
    ] {
        let output = wait::output(gate.fleet().args(["delete-register", key]));
        assert_eq!(
            output.status.code(),
            Some(2),
            "{key:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    let output = wait::output(gate.fleet().args(["delete-register", "groups/none"]));
    assert!(String::from_utf8_lossy(&output.stderr).contains("there is no register groups/none"));
}

#[test]
fn a_copy_of_a_register_is_named_and_can_be_deleted() {
    let fleet = Fleet::new("");
    let registers = fleet.path().join("registers/machines");
    let gate = fleet.start("a", None);
    let engine = FolderEngine::new(&fleet.path().join("registers"));
    let own = || block_on(engine.read("machines/a")).expect("read");
    wait_for("a heartbeat", own);
    let copy = registers.join("a (copy)");
    std::fs::create_dir(&copy).expect("a folder");
    let first = registers.join("a/.1");
    std::fs::copy(first, copy.join(".1")).expect("a copy");
    let key = "machines/a (copy)";
    let status = wait::output(gate.fleet().arg("status"));
    let errors = String::from_utf8_lossy(&status.stderr);
    assert_eq!(status.status.code(), Some(1), "{errors}");
    let expected = format!("the register {key:?} is a copy of that of a, and counts for nothing");
    assert!(errors.contains(&expected), "{errors}");
    for (key, code) in [(key, 0), (key, 2), ("machines/a", 1)] {
        let output = wait::output(gate.fleet().args(["delete-register", key]));
        assert_eq!(output.status.code(), Some(code), "{key}: {output:?}");
    }
    let status = wait::output(gate.fleet().arg("status"));
    assert!(status.status.success(), "{status:?}");
    assert!(own().is_some());
}

#[test]
fn a_fleet_is_tried_without_azure() {
    let folder = TempDir::new().expect("a folder");
    std::fs::write(
        folder.path().join("machine.sh"),
        block("Try it without Azure", "sh"),
    )
    .expect("written");
    let commands = block("Try it without Azure", "console");
    let watcher = watcher_command();
    let programs = [Path::new(&watcher), Path::new(FLEET_COMMAND)];
    let folders = programs.map(|program| program.parent().expect("a folder").to_owned());
    let usual = ["/usr/bin", "/bin"].map(std::path::PathBuf::from);
    let path = std::env::join_paths(folders.iter().chain(&usual)).expect("a path");
    // As on the page, but half as fast again: 60 seconds of notice are enough for the slow one's eight.
    let commands = commands
        .replace("$ ", "")
        .replace("--speed 10", "--speed 15");
    let output = wait::output(
        Command::new("sh")
            .args(["-euc", &commands])
            .env_clear()
            .env("PATH", path)
            .current_dir(folder.path()),
    );
    let text = String::from_utf8(output.stdout).expect("text");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}{errors}");
    let count = |what: &str| text.lines().filter(|line| line.contains(what)).count();
    assert_eq!(count(" approved  "), 1, "{text}{errors}");
    assert_eq!(count(": clean"), 2, "{text}{errors}");
    assert_eq!(count("recover: back in service"), 2, "{text}{errors}");
    // It asks every few seconds, and an answer that has not changed is not logged again.
    let answers = text
        .lines()
        .filter(|line| line.starts_with("WestNO_0  gate: "));
    let answers: Vec<_> = answers.collect();
    assert!(
        answers.contains(&"WestNO_0  gate: not ready: WestNO_1"),
        "{text}{errors}"
    );
    assert!(
        answers.windows(2).all(|pair| pair[0] != pair[1]),
        "{text}{errors}"
    );
}
