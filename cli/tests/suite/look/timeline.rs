//! `timeline`: pictures of a maintenance.

use serde_json::{Value, json};

use crate::support::{Folder, Run, command, run, run_with_input, wait};

/// Prints the structure of a picture as Python's XML parser reads it: the title, the description,
/// and each text and shape.
const READ_SVG: &str = r#"
import json, sys, xml.etree.ElementTree as ET
root = ET.parse(sys.argv[1]).getroot()
name = lambda element: element.tag.removeprefix("{http://www.w3.org/2000/svg}")
assert root.tag == "{http://www.w3.org/2000/svg}svg" and root.get("role") == "img"
ids = {element.get("id"): element for element in root.iter() if element.get("id")}
assert root.get("aria-labelledby").split() == ["title", "desc"]
width, height = map(float, root.get("viewBox").split()[2:])
shapes = []
for element in root.iter():
    assert name(element) in ("svg", "title", "desc", "style", "rect", "line", "path", "text", "g"), element.tag
    for place, limit in [("x", width), ("x1", width), ("x2", width), ("y", height), ("y1", height), ("y2", height)]:
        assert 0 <= float(element.get(place, 0)) <= limit, element.attrib
    if name(element) in ("rect", "path") and element.get("class") != "paper":
        shapes.append([element.get("class"), float(element.get("x", "0"))])
print(json.dumps({
    "title": ids["title"].text, "desc": ids["desc"].text, "shapes": shapes,
    "texts": [element.text for element in root.iter() if name(element) == "text"],
}))
"#;

fn picture(folder: &Folder, arguments: &[&str]) -> Value {
    let finished = run(&[&["timeline"], arguments].concat()).with_code(0);
    assert_eq!(finished.stderr, "");
    let file = folder.file("out.svg", &finished.stdout);
    let output = wait::output(std::process::Command::new("python3").args(["-c", READ_SVG, &file]));
    assert!(
        output.status.success(),
        "{}\n{}",
        String::from_utf8_lossy(&output.stderr),
        finished.stdout
    );
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn texts(picture: &Value) -> Vec<&str> {
    picture["texts"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|text| text.as_str().unwrap_or_default())
        .collect()
}

/// A record about the event `id`, at a time of day.
fn record(kind: &str, id: &str, at: &str, more: &Value) -> String {
    let mut record = json!({"record": kind, "event_id": id, "event_type": "Freeze", "event_source": "Platform",
        "resources": ["web_3"], "not_before": "2026-01-01T10:15:00Z", "mine": true, "time": format!("2026-01-01T{at}Z")});
    record
        .as_object_mut()
        .expect("an object")
        .extend(more.as_object().expect("an object").clone());
    record.to_string() + "\n"
}

fn change(change: &str, id: &str, at: &str, more: &Value) -> String {
    let mut more = more.clone();
    more["change"] = json!(change);
    record("change", id, at, &more)
}

#[test]
fn a_maintenance_of_two_machines_has_lanes_bars_and_marks() {
    let folder = Folder::new();
    let plain = json!({});
    let web = [
        change("scheduled", "A", "10:00:00", &plain),
        record("prepare", "A", "10:00:00", &json!({"outcome": "begun"})),
        record("prepare", "A", "10:02:00", &json!({"outcome": "ready"})),
        record(
            "approval",
            "A",
            "10:02:01",
            &json!({"event_ids": ["a"], "status": 500}),
        ),
        record(
            "approval",
            "A",
            "10:02:03",
            &json!({"event_ids": ["a"], "status": 200}),
        ),
        change("started", "A", "10:05:00", &plain),
        change("completed", "A", "10:09:00", &plain),
        record(
            "recover",
            "A",
            "10:09:30",
            &json!({"event_ids": ["A"], "outcome": "failed"}),
        ),
        record(
            "recover",
            "A",
            "10:10:00",
            &json!({"event_ids": ["A"], "outcome": "done"}),
        ),
    ];
    let db = [
        change(
            "scheduled",
            "B",
            "10:03:00",
            &json!({"resources": ["db_0"], "event_type": "Reboot"}),
        ),
        change("scheduled", "A", "10:00:01", &json!({"mine": false})),
        change(
            "cancelled",
            "B",
            "10:08:00",
            &json!({"resources": ["db_0"], "event_type": "Reboot"}),
        ),
    ];
    folder.file("one.audit", web.concat());
    folder.file("two.audit", db.concat());
    let picture = picture(
        &folder,
        &[&folder.path("one.audit"), &folder.path("two.audit")],
    );
    assert_eq!(
        picture["title"],
        "Maintenance of 2 machines, 2026-01-01 10:00:00 to 10:15:00"
    );
    let texts = texts(&picture);
    for expected in [
        "web_3",
        "db_0",
        "Freeze by Platform",
        "Reboot by Platform",
        "A",
        "B",
        "2 events; all times are UTC",
    ] {
        assert!(texts.contains(&expected), "{expected}: {texts:?}");
    }
    let story = "10:00:00 announced · 10:02:00 prepared (ready) · 10:02:01 not approved (status 500) · 10:02:03 approved (status 200)";
    assert!(
        texts.iter().any(|text| text.starts_with(story)),
        "{texts:?}"
    );
    assert!(
        texts
            .iter()
            .any(|text| text.contains("10:08:00 cancelled · NotBefore 10:15:00")),
        "{texts:?}"
    );
    let desc = picture["desc"].as_str().expect("text");
    assert!(
        desc.starts_with("web_3: Freeze A: 10:00:00 announced · ")
            && desc.contains("db_0: Reboot B: "),
        "{desc}"
    );
    // Without the legend: two bars and five marks for A, one bar for B.
    let shapes = picture["shapes"].as_array().expect("a list");
    let classes: Vec<_> = shapes
        .iter()
        .map(|shape| shape[0].as_str().expect("a class"))
        .collect();
    assert_eq!(
        classes[..8],
        ["wait", "run", "mark", "bad", "mark", "bad", "mark", "wait"]
    );
    // A started a third of the way to NotBefore.
    assert_eq!(
        (&shapes[0][1], &shapes[1][1]),
        (&json!(28.0), &json!(408.7))
    );
}

#[test]
fn the_picture_in_the_documentation_is_drawn_from_its_audit_files() {
    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/timeline");
    let audits = [0, 1, 2].map(|number| format!("{golden}/WestNO_{number}.audit"));
    let drawn = run(&["timeline", &audits[0], &audits[1], &audits[2]])
        .with_code(0)
        .stdout;
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/images/timeline.svg");
    assert!(
        std::fs::read_to_string(page).is_ok_and(|page| page == drawn),
        "print it again: timeline {golden}/*.audit > {page}"
    );
}

#[test]
fn text_from_outside_is_escaped_and_cut() {
    let folder = Folder::new();
    let hostile = json!({"description": format!("</text><script>alert('1')</script>\u{202e}\u{0}{}", "x".repeat(10_000)),
        "resources": ["<b>&\""], "event_type": "\"><image href='x'/>"});
    folder.file("audit", change("scheduled", "]]>", "10:00:00", &hostile));
    let picture = picture(&folder, &[&folder.path("audit")]);
    let texts = texts(&picture);
    assert!(
        texts.contains(&"<b>&\"") && texts.contains(&"]]>"),
        "{texts:?}"
    );
    assert!(texts.iter().any(|text| {
        text.contains("</text><script>alert('1')</script>\\u{202e}\\u{0}xxx") && text.ends_with('…')
    }));
    assert!(
        texts.iter().all(|text| text.chars().count() < 200),
        "{texts:?}"
    );
}

#[test]
fn the_last_maintenance_is_drawn_unless_an_event_is_named() {
    let folder = Folder::new();
    let plain = json!({});
    let day = [
        ("A", "01:00:00", "01:10:00"),
        ("B", "02:05:00", "02:10:00"),
        ("C", "10:00:00", "10:10:00"),
    ];
    let records = day.map(|(id, from, until)| {
        change("scheduled", id, from, &plain) + &change("completed", id, until, &plain)
    });
    let audit = folder.file("audit", records.concat());
    let ids = |arguments: &[&str]| {
        let picture = picture(&folder, &[&[audit.as_str()], arguments].concat());
        texts(&picture)
            .iter()
            .filter(|text| text.len() == 1)
            .map(|text| (*text).to_owned())
            .collect::<String>()
    };
    assert_eq!(ids(&[]), "C");
    // B follows A within an hour.
    assert_eq!(ids(&["--event", "b"]), "AB");
    let unknown = run(&["timeline", &audit, "--event", "D"]).with_code(3);
    assert_eq!(unknown.stderr, "error: there is no event \"D\"\n");
    let empty = run_with_input(
        &["timeline", "-"],
        b"{\"record\":\"poll-failed\",\"time\":\"2026-01-01T00:00:00Z\"}\nx\n",
    );
    assert!(
        empty
            .stderr
            .contains("<stdin>: left out 1 line without a record")
            && empty.stderr.contains("nothing to draw"),
        "{}",
        empty.stderr
    );
    assert_eq!((empty.code, empty.stdout.as_str()), (Some(3), ""));
    let exchange = "{\"record\":\"exchange\",\"time\":\"2026-01-01T00:00:00Z\"}\n";
    let capture = folder.file("capture", exchange);
    for arguments in [&[capture.as_str()][..], &[&audit, &capture]] {
        let refused = run(&[&["timeline"], arguments].concat()).with_code(3);
        let message = format!("error: {capture}: it has no record of a watcher; expected the file");
        assert!(refused.stderr.starts_with(&message), "{}", refused.stderr);
    }
    run(&["timeline", &folder.path("missing")]).with_code(2);
}

#[test]
fn machines_without_an_audit_file_and_a_thousand_events_are_drawn() {
    let folder = Folder::new();
    let other = |number: u32| {
        let members = json!({"mine": false, "resources": [format!("pool_{number}")]});
        change(
            "started-without-notice",
            &format!("id-{number}"),
            "10:00:00",
            &members,
        )
    };
    let audit = folder.file("audit", (0..1000).map(other).collect::<String>());
    let picture = picture(&folder, &[&audit]);
    assert!(
        picture["title"]
            .as_str()
            .is_some_and(|title| title.starts_with("Maintenance of 1000 machines")),
        "{picture}"
    );
    let texts = texts(&picture);
    assert!(
        texts.contains(&"200 events; 800 more are not drawn; all times are UTC"),
        "{:?}",
        &texts[..9]
    );
    assert!(texts.contains(&"pool_199") && !texts.contains(&"pool_200"));
}

#[test]
fn replay_plays_an_audit_file() {
    let folder = Folder::new();
    let plain = json!({});
    let audit = folder.file(
        "audit",
        change("scheduled", "A", "10:00:00", &plain)
            + &change("completed", "A", "10:00:30", &plain),
    );
    let report = folder.path("report.ndjson");
    let client = "import os, urllib.request as r, time\nurl = os.environ['SCHEDULED_EVENTS_ENDPOINT'] + \
                  '/metadata/scheduledevents?api-version=2020-07-01'\n\
                  print(r.urlopen(r.Request(url, headers={'Metadata': 'true'})).read().decode())";
    let replay = Run::start(command(&[
        "replay", &audit, "--seed", "1", "--report", &report, "--", "python3", "-c", client,
    ]));
    let finished = replay.finish();
    assert!(
        finished.stdout.contains("\"Resources\":[\"WestNO_0\"],"),
        "{}\n{}",
        finished.stdout,
        finished.stderr
    );
    let empty = folder.file("empty", "{}\n");
    assert!(
        run(&["replay", &empty])
            .with_code(3)
            .stderr
            .contains("it has no record of a watcher")
    );
}

/// Fault 44 of `tests/field-faults.md`.
#[test]
fn fault_44_three_files_of_one_name_are_the_lanes_of_their_machines() {
    let folder = Folder::new();
    let resources = json!(["web_3", "web_4", "web_5"]);
    let file = |place: &str, machine: Option<&str>| {
        std::fs::create_dir(folder.path(place)).expect("a folder");
        let mut more = json!({ "resources": resources });
        // The watcher does not know its name yet.
        let mut text = change("scheduled", "A", "10:00:00", &more);
        if let Some(machine) = machine {
            more["machine"] = json!(machine);
        }
        text += &change("started", "A", "10:15:00", &more);
        text += &change("completed", "A", "10:16:00", &more);
        folder.file(&format!("{place}/audit"), &text)
    };
    let [first, second, third] = [("a", "web_3"), ("b", "WEB_4"), ("c", "web_5")]
        .map(|(place, machine)| file(place, Some(machine)));
    let picture = picture(&folder, &[&first, &second, &third]);
    for machine in ["web_3", "WEB_4", "web_5"] {
        let lanes = texts(&picture).into_iter().filter(|text| *text == machine);
        assert_eq!(lanes.count(), 1, "{picture}");
    }
    // Files of earlier versions do not name it, and are distinguished by their folders.
    let old = ["web_3-old", "web_4-old"].map(|place| file(place, None));
    let picture = self::picture(&folder, &[&old[0], &old[1]]);
    for machine in ["web_3", "web_4"] {
        assert!(texts(&picture).contains(&machine), "{picture}");
    }
}

#[test]
fn one_file_of_several_machines_has_a_lane_for_each() {
    let folder = Folder::new();
    let of = |machine: &str, id: &str| {
        let more = json!({"machine": machine, "resources": [machine]});
        change("scheduled", id, "10:00:00", &more) + &change("started", id, "10:15:00", &more)
    };
    let audit = folder.file(
        "audit",
        &(of("web_3", "A") + &of("web_4", "B") + &of("web_3", "C")),
    );
    let picture = picture(&folder, &[&audit]);
    for machine in ["web_3", "web_4"] {
        let lanes = texts(&picture).into_iter().filter(|text| *text == machine);
        assert_eq!(lanes.count(), 1, "{picture}");
    }
}
