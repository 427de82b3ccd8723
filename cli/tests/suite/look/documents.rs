//! `check`: how the command reads the shared corpus of documents, and difficult documents.

use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;

use scheduled_events_test_support::not_run;
use serde_json::{Value, json};

use crate::support::{Finished, Folder, run, run_with_input};

/// Checks a document from standard input, for the machine `vm`, under the policy `sample`.
fn check(body: impl AsRef<[u8]>) -> Finished {
    run_with_input(
        &["check", "--json", "--vm-name", "vm", "--policy", "sample"],
        body.as_ref(),
    )
}

/// The position in an `error: FILE:LINE:COLUMN: message` line.
fn place(finished: &Finished, file: &str) -> (u64, u64) {
    assert_eq!(
        (finished.code, finished.stdout.as_str()),
        (Some(3), ""),
        "{finished:?}"
    );
    assert_eq!(finished.stderr.lines().count(), 1, "{}", finished.stderr);
    let rest = finished.stderr.strip_prefix(&format!("error: {file}:"));
    let rest = rest.unwrap_or_else(|| panic!("{}", finished.stderr));
    let mut parts = rest.splitn(3, ':');
    let mut number = || parts.next().expect("a part").parse().expect("a number");
    let place = (number(), number());
    assert!(
        parts.next().is_some_and(|what| what.trim().len() > 10),
        "{}",
        finished.stderr
    );
    place
}

/// The position of the error in a document from standard input.
fn refused(body: impl AsRef<[u8]>) -> (u64, u64) {
    place(&check(body), "<stdin>")
}

/// An event with an id and these members, as text.
fn event(members: &str) -> String {
    format!(
        r#"{{"Events":[{{"EventId":"a","Resources":["vm"],"EventStatus":"Scheduled","EventType":"Freeze",{members}}}]}}"#
    )
}

/// The one event of a document.
fn read(members: &str) -> Value {
    let finished = check(event(members)).with_code(0);
    finished.of_kind("event").remove(0)
}

/// The one problem of a document.
fn problem(members: &str) -> Value {
    let finished = check(event(members)).with_code(0);
    let mut problems = finished.of_kind("problem");
    assert_eq!(problems.len(), 1, "{}", finished.stdout);
    problems.remove(0)
}

#[test]
fn prints_records_and_members_in_order() {
    let body = event(r#""EventSource":"User","NotBefore":"soon","DurationInSeconds":5"#);
    let finished = check(&body).with_code(0);
    let column = body.find("\"soon\"").expect("the time") + 1;
    assert_eq!(
        finished.stdout.lines().collect::<Vec<_>>(),
        [
            r#"{"record":"document","incarnation":null,"events":1,"problems":1}"#,
            r#"{"record":"event","event_id":"a","event_type":"Freeze","event_status":"Scheduled","resource_type":null,"resources":["vm"],"not_before":null,"description":null,"event_source":"User","duration_in_seconds":5,"mine":true}"#,
            &format!(
                r#"{{"record":"problem","event":0,"member":"NotBefore","kind":"unreadable-time","line":1,"column":{column}}}"#
            ),
            r#"{"record":"decision","event_id":"a","action":"approve","rule":1,"reason":"user-initiated","event_type":"Freeze","event_status":"Scheduled","resource_type":null,"resources":["vm"],"not_before":null,"description":null,"event_source":"User","duration_in_seconds":5,"mine":true}"#,
        ]
    );
    assert_eq!(finished.stderr, "");
}

#[test]
fn without_a_name_all_events_are_held() {
    let body = event(r#""EventSource":"User""#);
    let finished = run_with_input(
        &["check", "-", "--json", "--policy", "sample"],
        body.as_bytes(),
    )
    .with_code(0);
    assert_eq!(finished.of_kind("event")[0]["mine"], Value::Null);
    let mut expected = finished.of_kind("event").remove(0);
    for (name, value) in [
        ("record", "decision"),
        ("action", "hold"),
        ("reason", "VM name unknown"),
    ] {
        expected[name] = json!(value);
    }
    expected["rule"] = Value::Null;
    assert_eq!(finished.of_kind("decision"), [expected]);
    let table = run_with_input(&["check"], body.as_bytes()).with_code(0);
    assert!(
        table.stdout.contains("hold (VM name unknown)"),
        "{}",
        table.stdout
    );
    assert_eq!(
        table.stderr,
        "warning: this machine's name is unknown, so all events are held; use --vm-name NAME\n"
    );
    assert_eq!(
        run_with_input(&["check"], br#"{"Events":[]}"#)
            .with_code(0)
            .stderr,
        "",
        "there is nothing to hold"
    );
}

#[test]
fn errors_name_the_file() {
    let folder = Folder::new();
    let file = folder.file("saved.json", event(r#""DurationInSeconds":5"#));
    let finished = run(&["check", &file, "--vm-name", "vm", "--policy", "sample"]).with_code(0);
    for words in ["1 event", "Freeze", "approve (short interruption, rule 2)"] {
        assert!(finished.stdout.contains(words), "{}", finished.stdout);
    }
    let broken = folder.file("broken.json", "{\"Events\":\n  [}");
    assert_eq!(place(&run(&["check", &broken]), &broken), (2, 4));

    let missing = folder.path("missing.json");
    let finished = run(&["check", &missing]).with_code(2);
    assert!(
        finished
            .stderr
            .starts_with(&format!("error: cannot read {missing}: ")),
        "{}",
        finished.stderr
    );
    let finished = run(&["check", folder.as_path().to_str().expect("a path")]).with_code(2);
    assert!(
        finished.stderr.starts_with("error: cannot read "),
        "{}",
        finished.stderr
    );
}

#[test]
fn a_document_without_end_is_refused() {
    let body = vec![b' '; 1 + 8 * 1024 * 1024];
    let finished = check(body).with_code(2);
    assert_eq!(
        finished.stderr,
        "error: cannot read <stdin>: it has more than 8192 KiB\n"
    );
}

#[cfg(unix)]
#[test]
fn a_policy_that_is_a_pipe_or_a_device_is_refused_at_once() {
    let folder = Folder::new();
    let pipe = folder.path("policy.toml");
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, mode).expect("a pipe");
    let config = folder.file("watch.toml", format!("policy = {pipe:?}\n"));
    for arguments in [
        &["check", "--policy", &pipe][..],
        &["check", "--policy", "/dev/zero"],
        &["check", "--config", &config],
        &["watch", "--policy", &pipe],
    ] {
        let finished = run(arguments).with_code(2);
        let reason = ": it is a pipe or a device, expected a file";
        assert!(finished.stderr.contains(reason), "{}", finished.stderr);
    }
}

#[test]
fn the_option_now_sets_the_time() {
    let body = event(r#""NotBefore":"2022-04-11T22:26:58Z""#);
    let arguments = ["check", "--vm-name", "vm", "--now", "2022-04-11T22:20:00Z"];
    let finished = run_with_input(&arguments, body.as_bytes()).with_code(0);
    assert!(
        finished.stdout.contains("in 6 min 58 s"),
        "{}",
        finished.stdout
    );
}

#[test]
fn escapes_are_decoded_in_values_and_in_member_names() {
    let body = r#"{"\u0045vents":[{"Event\u0049d":"\u0061\/b","\u0052esources":["v\u006d"],"EventType":"Fre\u0065ze",
        "EventStatus":"\u0053cheduled","DurationInSeconds":5,"Description":"\u00e9\ud83d\ude00\n\""}]}"#;
    let finished = check(body).with_code(0);
    let event = finished.of_kind("event").remove(0);
    assert_eq!(event["event_id"], "a/b");
    assert_eq!(event["description"], "\u{e9}\u{1f600}\n\"");
    assert_eq!(
        (&event["mine"], &event["resources"]),
        (&json!(true), &json!(["vm"]))
    );
    assert_eq!(finished.of_kind("decision")[0]["action"], "approve");
}

#[test]
fn a_lone_surrogate_is_an_error_at_its_position() {
    for text in [
        r"\ud83d",
        r"\ude00",
        r"\ud83d\ud83d",
        r"\ud83dx",
        r"\ud83d\n",
    ] {
        let body = event(&format!(r#""Description":"{text}""#));
        let column = body.find(text).expect("the text") + 1;
        assert_eq!(
            refused(&body),
            (1, u64::try_from(column).expect("small")),
            "{text}"
        );
    }
}

#[test]
fn a_byte_order_mark_is_allowed_once() {
    let body = event(r#""DurationInSeconds":5"#);
    assert_eq!(
        check([b"\xef\xbb\xbf", body.as_bytes()].concat())
            .with_code(0)
            .of_kind("event")
            .len(),
        1
    );
    assert_eq!(
        check([b"\xef\xbb\xbf\xef\xbb\xbf", body.as_bytes()].concat()).code,
        Some(3)
    );
    assert_eq!(check([b"\xff\xfe", body.as_bytes()].concat()).code, Some(3));
}

#[test]
fn nesting_is_an_error_at_the_33rd_level() {
    assert_eq!(refused("[".repeat(200_000)), (1, 33));
    let nested = |open: &str| format!(r#"{{"Unknown":{}"#, open.repeat(200_000));
    // The document itself is level 1.
    assert_eq!(refused(nested("[")), (1, 11 + 32));
    assert_eq!(check(nested("{\"a\":")).code, Some(3));
    let legal = format!(
        r#"{{"Events":[],"Unknown":{}{}}}"#,
        "[".repeat(31),
        "]".repeat(31)
    );
    check(legal).with_code(0);
}

#[test]
fn a_repeated_event_id_is_left_out_and_reported() {
    let body =
        r#"{"Events":[{"EventId":"Ab"},{"EventId":"aB","EventType":"Preempt"},{"EventId":"c"}]}"#;
    let finished = check(body).with_code(0);
    assert_eq!(finished.records()[0]["events"], 2);
    let ids: Vec<_> = finished
        .of_kind("event")
        .iter()
        .map(|event| event["event_id"].clone())
        .collect();
    assert_eq!(ids, ["Ab", "c"]);
    let problems = finished.of_kind("problem");
    assert_eq!(
        (&problems[0]["event"], &problems[0]["member"]),
        (&json!(1), &json!("EventId"))
    );
    // A known member that is repeated within one event makes the document invalid.
    assert_eq!(
        refused(r#"{"Events":[{"EventId":"a","EventId":"a"}]}"#),
        (1, 27)
    );
}

#[test]
fn incarnations_keep_their_type_and_value() {
    for (written, expected) in [
        ("18446744073709551615", json!(u64::MAX)),
        ("9223372036854775808", json!(9_223_372_036_854_775_808_u64)),
        ("0", json!(0)),
        ("2.0", json!(2)),
        ("\"12\"", json!("12")),
        ("\"\"", json!("")),
        ("null", Value::Null),
    ] {
        let body = format!(r#"{{"DocumentIncarnation":{written},"Events":[]}}"#);
        assert_eq!(
            check(body).with_code(0).records()[0]["incarnation"],
            expected,
            "{written}"
        );
    }
    let finished =
        check(r#"{"DocumentIncarnation":18446744073709551616,"Events":[{"EventId":"a"}]}"#)
            .with_code(0);
    assert_eq!(finished.records()[0]["incarnation"], Value::Null);
    assert_eq!(
        finished.of_kind("problem")[0]["event"],
        Value::Null,
        "a problem of the document itself"
    );
    assert_eq!(finished.of_kind("event").len(), 1);
}

#[test]
fn parses_all_known_time_formats() {
    for (written, expected) in [
        (
            "\"Mon, 11 Apr 2022 22:26:58 GMT\"",
            json!("2022-04-11T22:26:58Z"),
        ),
        // Microsoft's documentation has wrong weekdays.
        (
            "\"Sun, 11 Apr 2022 22:26:58 GMT\"",
            json!("2022-04-11T22:26:58Z"),
        ),
        ("\"2022-04-11T22:26:58Z\"", json!("2022-04-11T22:26:58Z")),
        (
            "\"2022-04-11T22:26:58.123Z\"",
            json!("2022-04-11T22:26:58Z"),
        ),
        (
            "\"2022-04-11T22:26:58.1234567Z\"",
            json!("2022-04-11T22:26:58Z"),
        ),
        (
            "\"2022-04-12T00:26:58+02:00\"",
            json!("2022-04-11T22:26:58Z"),
        ),
        ("\"2022-04-11T22:26:58\"", json!("2022-04-11T22:26:58Z")),
        ("\"\"", Value::Null),
        ("null", Value::Null),
    ] {
        let body = event(&format!("\"NotBefore\":{written}"));
        let finished = check(&body).with_code(0);
        assert_eq!(
            finished.of_kind("event")[0]["not_before"],
            expected,
            "{written}"
        );
        assert!(finished.of_kind("problem").is_empty(), "{written}");
    }
    for (written, kind) in [
        ("\"soon\"", "unreadable-time"),
        ("\"Thu, 31 Feb 2022 22:26:58 GMT\"", "unreadable-time"),
        ("\"2022-04-11T25:00:00Z\"", "unreadable-time"),
        ("1649715000", "wrong-type"),
    ] {
        let members = format!("\"NotBefore\":{written}");
        assert_eq!(problem(&members)["kind"], kind, "{written}");
        assert_eq!(read(&members)["not_before"], Value::Null);
    }
}

#[test]
fn durations_are_numbers_or_numeric_strings_and_others_are_held() {
    for (written, expected) in [
        ("6", json!(6)),
        ("\"6\"", json!(6)),
        ("6.0", json!(6)),
        ("6e0", json!(6)),
        ("0", json!(0)),
        ("-1", Value::Null),
    ] {
        assert_eq!(
            read(&format!("\"DurationInSeconds\":{written}"))["duration_in_seconds"],
            expected,
            "{written}"
        );
    }
    for written in ["{}", "[]", "true", "\"six\"", "6.5", "-2", "1e99"] {
        let members = format!("\"EventSource\":\"User\",\"DurationInSeconds\":{written}");
        assert_eq!(
            problem(&members)["member"],
            "DurationInSeconds",
            "{written}"
        );
        let decision = check(event(&members)).of_kind("decision").remove(0);
        // Held although a user caused it: the decision does not rely on an unreadable member.
        assert_eq!(decision["action"], "hold", "{written}");
        assert_eq!(
            decision["reason"], "unreadable DurationInSeconds",
            "{written}"
        );
    }
}

#[test]
fn an_invalid_event_does_not_hide_a_valid_one() {
    let good = r#"{"EventId":"good","EventType":"Preempt","EventStatus":"Scheduled","Resources":["vm"],"EventSource":"User"}"#;
    for bad in [
        "null",
        "42",
        "[]",
        "{}",
        r#"{"EventId":null}"#,
        r#"{"EventId":{"a":[1]}}"#,
        r#"{"EventId":"bad","EventType":[],"EventStatus":{},"Resources":"vm","DurationInSeconds":[[]],"NotBefore":{}}"#,
    ] {
        for document in [
            format!(r#"{{"Events":[{bad},{good}]}}"#),
            format!(r#"{{"Events":[{good},{bad}]}}"#),
        ] {
            let finished = check(&document).with_code(0);
            let decisions = finished.of_kind("decision");
            let good = decisions
                .iter()
                .find(|decision| decision["event_id"] == "good")
                .expect("the good one");
            assert_eq!(good["action"], "approve", "{document}");
            assert!(!finished.of_kind("problem").is_empty(), "{document}");
        }
    }
}

/// The shared corpus of this repository.
fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/corpus")
}

/// Runs `work` for each of `things`, on two threads.
fn each<T: Send>(things: Vec<T>, work: impl Fn(T) + Sync) {
    let queue = std::sync::Mutex::new(VecDeque::from(things));
    let next = || queue.lock().expect("a lock").pop_front();
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(thing) = next() {
                    work(thing);
                }
            });
        }
    });
}

#[test]
fn reads_the_corpus_as_expected() {
    let folder = corpus();
    let entries = fs::read_dir(&folder).expect("the corpus");
    let cases: Vec<_> = entries
        .filter_map(|entry| {
            let name = entry
                .expect("an entry")
                .file_name()
                .into_string()
                .expect("a plain name");
            name.strip_suffix(".expected.json").map(str::to_owned)
        })
        .collect();
    assert!(
        cases.len() > 200,
        "too few documents in the corpus: {}",
        cases.len()
    );
    each(cases, |name| agrees(&folder, &name));
}

fn agrees(folder: &Path, name: &str) {
    let expected = fs::read_to_string(folder.join(format!("{name}.expected.json"))).expect(name);
    let expected: Value = serde_json::from_str(&expected).expect(name);
    let file = folder.join(format!("{name}.json"));
    let file = file.to_str().expect("a plain path");
    if let Some(error) = expected.get("error") {
        let finished = run(&["check", file, "--json"]);
        let (line, column) = place(&finished, file);
        assert_eq!(
            (&json!(line), &json!(column)),
            (&error["line"], &error["column"]),
            "{name}: {}",
            finished.stderr
        );
        return;
    }
    let text = |value: &Value| value.as_str().expect(name).to_owned();
    let mut arguments = ["check", file, "--json", "--policy", "sample", "--now"]
        .map(str::to_owned)
        .to_vec();
    arguments.push(text(&expected["now"]));
    for vm_name in expected["vm_names"].as_array().expect(name) {
        arguments.extend(["--vm-name".to_owned(), text(vm_name)]);
    }
    if let Some(version) = expected.get("api_version") {
        arguments.extend(["--api-version".to_owned(), text(version)]);
    }
    let finished = run(&arguments).with_code(0);
    let records = |kind: &str, keep: &[&str]| -> Vec<Value> {
        let mut records = finished.of_kind(kind);
        for record in &mut records {
            let record = record.as_object_mut().expect("an object");
            record.retain(|member, _| {
                keep.is_empty() && member != "record" || keep.contains(&member.as_str())
            });
        }
        records
    };
    let list = |member: &str| expected[member].as_array().expect(name).clone();
    assert_eq!(records("event", &[]), list("events"), "{name}");
    assert_eq!(records("problem", &[]), list("problems"), "{name}");
    assert_eq!(
        records("decision", &["event_id", "action", "rule"]),
        list("decisions"),
        "{name}"
    );
    let document = json!({
        "record": "document", "incarnation": expected["incarnation"],
        "events": list("events").len(), "problems": list("problems").len(),
    });
    assert_eq!(finished.of_kind("document"), [document], "{name}");
}

#[test]
fn reads_public_documents_or_reports_a_position() {
    // Documents that people have posted in public; not part of the repository.
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/corpus");
    let Ok(entries) = fs::read_dir(&folder) else {
        not_run(&format!("there is no folder {}", folder.display()));
        return;
    };
    let files: Vec<_> = entries
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "json")
        })
        .collect();
    assert!(!files.is_empty(), "{} is empty", folder.display());
    each(files, |file| {
        let file = file.to_str().expect("a plain path");
        for arguments in [
            &[
                "check",
                file,
                "--json",
                "--vm-name",
                "vm",
                "--policy",
                "sample",
            ][..],
            &["check", file],
        ] {
            let finished = run(arguments);
            match finished.code {
                Some(0) => assert!(!finished.stdout.is_empty(), "{file}"),
                _ => {
                    place(&finished, file);
                }
            }
        }
    });
}
