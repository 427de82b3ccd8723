//! The shared corpus: each document reads as its file of expected results says. C and Python read the same files.

use std::fs;
use std::path::{Path, PathBuf};

use scheduled_events_core::{Document, Event, Policy, UnixSeconds, VmNames};
use serde_json::{Value, json};

pub(crate) fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/corpus")
}

pub(crate) fn event_reading(event: &Event<'_>, names: VmNames<'_>) -> Value {
    let text = |text: Option<scheduled_events_core::Text<'_>>| text.map(|text| text.to_string());
    json!({
        "event_id": event.event_id().to_string(),
        "event_type": text(event.event_type().map(|word| word.text())),
        "event_status": text(event.event_status().map(|word| word.text())),
        "resource_type": text(event.resource_type()),
        "resources": event.resources().is_present().then(|| event.resources()),
        "not_before": event.not_before().moment(),
        "description": text(event.description()),
        "event_source": text(event.event_source().map(|word| word.text())),
        "duration_in_seconds": event.duration_in_seconds(),
        "mine": names.owns(event),
    })
}

/// What was read, in the form of the files of expected results.
fn reading(body: &[u8], expected: &Value) -> Value {
    let document = match Document::parse(body) {
        Ok(document) => document,
        Err(error) => {
            let position = error.position(body);
            return json!({
                "about": expected["about"],
                "error": {"kind": error.kind.word(), "line": position.line, "column": position.column},
            });
        }
    };
    let names: Vec<_> = expected["vm_names"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let names = VmNames::new(&names);
    let names = if expected["api_version"] == "2017-03-01" {
        names.underscored()
    } else {
        names
    };
    let now =
        UnixSeconds::parse(expected["now"].as_str().unwrap_or_default()).unwrap_or(UnixSeconds(0));
    let mut reading = json!({
        "about": expected["about"],
        "vm_names": expected["vm_names"],
        "now": expected["now"],
        "incarnation": document.incarnation(),
        "events": document.events().map(|event| event_reading(&event, names)).collect::<Vec<_>>(),
        "problems": document.problems().map(|problem| {
            let position = scheduled_events_core::Position::of(body, problem.offset);
            json!({
                "event": problem.event,
                "member": problem.member,
                "kind": problem.kind,
                "line": position.line,
                "column": position.column,
            })
        }).collect::<Vec<_>>(),
        "decisions": document.events().map(|event| {
            let decision = Policy::sample().decide(&event, names, now);
            json!({"event_id": event.event_id(), "action": decision.action, "rule": decision.rule})
        }).collect::<Vec<_>>(),
    });
    if let Some(version) = expected.get("api_version") {
        reading["api_version"] = version.clone();
    }
    reading
}

#[test]
fn every_document_reads_as_expected() {
    let mut cases = 0;
    let mut wrong = Vec::new();
    let mut names: Vec<_> = fs::read_dir(corpus())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    names.sort();
    for path in names {
        let name = path.file_name().unwrap().to_str().unwrap();
        let Some(case) = name.strip_suffix(".expected.json") else {
            continue;
        };
        cases += 1;
        let expected: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        let body = fs::read(corpus().join(format!("{case}.json"))).unwrap();
        let reading = reading(&body, &expected);
        if reading != expected {
            let keys: std::collections::BTreeSet<_> = reading
                .as_object()
                .unwrap()
                .keys()
                .chain(expected.as_object().unwrap().keys())
                .collect();
            for key in keys {
                if reading.get(key) != expected.get(key) {
                    wrong.push(format!(
                        "{case}: {key}\n  read:     {:?}\n  expected: {:?}",
                        reading.get(key),
                        expected.get(key)
                    ));
                }
            }
        }
    }
    assert!(cases >= 40, "only {cases} documents were found");
    assert!(
        wrong.is_empty(),
        "{} differences:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[test]
fn truncated_documents_do_not_panic() {
    let paths = fs::read_dir(corpus())
        .unwrap()
        .map(|entry| entry.unwrap().path());
    for path in paths.filter(|path| path.is_file()) {
        let body = fs::read(path).unwrap();
        for end in 0..body.len().min(4_096) {
            if let Ok(document) = Document::parse(&body[..end]) {
                assert_eq!(document.events().len(), document.events().count());
                let _ = document.problems().count();
            }
        }
    }
}
