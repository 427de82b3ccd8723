//! RFC 8259, case by case: the files in `tests/conformance` list what must be accepted and what refused.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use scheduled_events_core::Document;

struct Case {
    name: String,
    accepted: bool,
    value: Vec<u8>,
    reason: String,
    /// Whether the verdict also holds for the value as a whole text.
    bare: bool,
}

fn unescaped(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut chars = text.chars();
    while let Some(char) = chars.next() {
        if char != '\\' {
            assert!(char.is_ascii(), "cases are ASCII: {text}");
            bytes.push(char as u8);
            continue;
        }
        match chars.next().expect(text) {
            '\\' => bytes.push(b'\\'),
            't' => bytes.push(b'\t'),
            'n' => bytes.push(b'\n'),
            'r' => bytes.push(b'\r'),
            'x' => {
                let hex: String = chars.by_ref().take(2).collect();
                bytes.push(u8::from_str_radix(&hex, 16).expect(text));
            }
            '*' => {
                let rest = chars.as_str();
                let (count, rest) = rest.split_once('(').expect(text);
                let (repeated, rest) = rest.split_once(')').expect(text);
                bytes.extend(unescaped(repeated).repeat(count.parse().expect(text)));
                chars = rest.chars();
            }
            other => panic!("unknown escape {other} in {text}"),
        }
    }
    bytes
}

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (file, verdict) in [
        ("accept.txt", Some(true)),
        ("refuse.txt", Some(false)),
        ("defined.txt", None),
    ] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../tests/conformance")
            .join(file);
        for line in fs::read_to_string(path).unwrap().split('\n') {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let fields: Vec<_> = line.split('\t').collect();
            let (accepted, value, reason) = match (verdict, &fields[1..]) {
                (Some(accepted), [value, reason]) => (accepted, value, reason),
                (None, ["accept", value, reason]) => (true, value, reason),
                (None, ["refuse", value, reason]) => (false, value, reason),
                _ => panic!("{file}: {line}"),
            };
            let (name, value, reason) = (fields[0].into(), unescaped(value), (*reason).into());
            cases.push(Case {
                name,
                accepted,
                value,
                reason,
                bare: verdict.is_some(),
            });
        }
    }
    cases
}

/// The document with the value in the place marked `@`.
fn placed(document: &str, value: &[u8]) -> Vec<u8> {
    let (before, after) = document.split_once('@').unwrap();
    [before.as_bytes(), value, after.as_bytes()].concat()
}

#[test]
fn every_case_is_accepted_or_refused_as_the_rfc_says() {
    let cases = cases();
    let mut wrong = Vec::new();
    let mut counts = [0, 0];
    for case in &cases {
        counts[usize::from(case.accepted)] += 1;
        let documents = [
            r#"{"DocumentIncarnation":1,"Events":[],"Unknown":@}"#,
            r#"{"Unknown":@,"Events":[]}"#,
            r#"{"DocumentIncarnation":@,"Events":[]}"#,
        ];
        for document in documents {
            let body = placed(document, &case.value);
            let verdict = Document::parse(&body);
            if verdict.is_ok() != case.accepted {
                wrong.push(format!(
                    "{} in {document}: {:?}, but {}",
                    case.name,
                    verdict.err(),
                    case.reason
                ));
            }
        }
        // As a member of an event, a value is nested two levels deeper.
        if !case.accepted || !case.name.contains("depth") && !case.name.contains("nest") {
            for member in [
                "EventId",
                "EventType",
                "Resources",
                "NotBefore",
                "DurationInSeconds",
                "Unknown",
            ] {
                let document = format!(r#"{{"Events":[{{"{member}":@}}]}}"#);
                let body = placed(&document, &case.value);
                let verdict = Document::parse(&body);
                if verdict.is_ok() != case.accepted {
                    wrong.push(format!(
                        "{} as {member}: {:?}, but {}",
                        case.name,
                        verdict.err(),
                        case.reason
                    ));
                }
            }
        }
        if !case.accepted && case.bare && Document::parse(&case.value).is_ok() {
            wrong.push(format!(
                "{} alone: accepted, but {}",
                case.name, case.reason
            ));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {}:\n{}",
        wrong.len(),
        cases.len(),
        wrong.join("\n")
    );
    assert!(counts[1] >= 90 && counts[0] >= 180, "{counts:?}");
}

#[test]
fn case_names_are_unique_and_have_reasons() {
    let mut names = HashSet::new();
    for case in cases() {
        assert!(!case.reason.is_empty(), "{}", case.name);
        assert!(
            names.insert(case.name.clone()),
            "{} is there twice",
            case.name
        );
    }
}

#[test]
fn serde_json_agrees_except_for_depth_and_large_numbers() {
    for case in cases() {
        let body = placed(
            r#"{"DocumentIncarnation":1,"Events":[],"Unknown":@}"#,
            &case.value,
        );
        let theirs = serde_json::from_slice::<serde_json::Value>(&body);
        if theirs.is_ok() == case.accepted {
            continue;
        }
        let why = theirs
            .err()
            .map(|error| error.to_string())
            .unwrap_or_default();
        let explained = if case.accepted {
            why.contains("number out of range")
        } else {
            case.name.contains("depth")
        };
        assert!(
            explained,
            "{}: serde_json says {why:?}, we say {}",
            case.name, case.accepted
        );
    }
}
