//! Views of a document and of single events, in every layout, and what a tracker stores of an event.

use scheduled_events_core::record::EventMembers;
use scheduled_events_core::{
    Change, Document, Event, EventCursor, EventId, Member, Members, ParseErrorKind, Text,
    TrackedEvent, TrackedStatus, Tracker, TrackerFull, UnixSeconds, VmNames,
};

#[test]
fn members_end_at_the_first_byte_that_is_not_json() {
    for (text, expected) in [
        (
            r#"  { "a" : 1 , "\u0062":[2, {}] ,"a":"x" } rest"#,
            vec![("a", "1"), ("b", "[2, {}]"), ("a", "\"x\"")],
        ),
        (r#"{"a":1,"b":}"#, vec![("a", "1")]),
        (r#"{"a":1 "b":2}"#, vec![("a", "1")]),
        (r#"{"a":1,"b"#, vec![("a", "1")]),
        (r#"{"a":01}"#, vec![]),
        ("{}", vec![]),
        ("", vec![]),
        ("[1]", vec![]),
        ("1", vec![]),
    ] {
        let mut members = Members::new(text);
        let read: Vec<_> = members
            .by_ref()
            .map(|(name, value)| (name.to_string(), value))
            .collect();
        let expected: Vec<_> = expected
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value))
            .collect();
        assert_eq!(read, expected, "{text}");
        assert!(
            members.next().is_none(),
            "{text}: the end is not the last item"
        );
    }
}

#[test]
fn resources_are_present_when_they_are_an_array() {
    for (body, expected) in [
        (
            r#"{"EventId":"a","Resources":["vm", 1, "\u0062", {"c":[]}]}"#,
            Some(vec!["vm", "b"]),
        ),
        (r#"{"EventId":"a","Resources":[]}"#, Some(vec![])),
        (r#"{"EventId":"a"}"#, None),
        (r#"{"EventId":"a","Resources":"vm"}"#, None),
    ] {
        let resources = Event::parse(body.as_bytes()).unwrap().resources();
        assert_eq!(resources.is_present(), expected.is_some(), "{body}");
        let names: Vec<_> = resources.into_iter().map(|name| name.to_string()).collect();
        assert_eq!(names, expected.unwrap_or_default(), "{body}");
        assert!((&resources).into_iter().eq(resources.iter()));
    }
}

#[test]
fn a_layout_finds_the_members_in_a_copy_of_the_object() {
    let body = br#"{"Events":[ {"EventId":"a"}, {"Resources":["vm_0","vm_1"],"EventId":"b","NotBefore":"soon"} ]}"#;
    let document = Document::parse(body).unwrap();
    let (first, second) = (
        document.events().next().unwrap(),
        document.events().nth(1).unwrap(),
    );
    assert_eq!(first.object(), r#"{"EventId":"a"}"#);
    let copy = second.object().to_owned();
    let again = second.layout().event(&copy);
    assert_eq!(format!("{again:?}"), format!("{second:?}"));
    assert_eq!(
        (again.object(), again.unreliable_member()),
        (copy.as_str(), second.unreliable_member())
    );
    // Bytes of another object: no panic, and nothing outside of them.
    for other in ["", "é", first.object(), "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[["] {
        let event = second.layout().event(other);
        assert!(event.event_id().raw().len() <= other.len());
        let _ = (event.resources().iter().count(), format!("{event:?}"));
    }
}

#[test]
fn errors_of_a_single_event() {
    for (body, kind, offset) in [
        (&b"  7"[..], ParseErrorKind::NotAnObject, 2),
        (b"[}", ParseErrorKind::UnexpectedByte, 1),
        (b"{\"EventId\":\"\xff\"}", ParseErrorKind::InvalidUtf8, 12),
        (br#"{"EventId":"a"} ,"#, ParseErrorKind::TrailingData, 16),
        (
            br#"{"EventId":"a","EventId":"a"}"#,
            ParseErrorKind::RepeatedMember,
            15,
        ),
        (br#"{,"EventId":"a"}"#, ParseErrorKind::UnexpectedByte, 1),
        // White space before the first member does not replace the commas between the others.
        (
            b"{\n \"EventId\":\"a\"\n \"EventStatus\":\"b\",\"EventType\":\"c\"}",
            ParseErrorKind::UnexpectedByte,
            18,
        ),
        (
            b"{\"EventId\":\"a\",\"Resources\":[\n \"a\"\n \"b\",\"bbbbbbbb\"]}",
            ParseErrorKind::UnexpectedByte,
            35,
        ),
        // Where it is expected next, and was read before.
        (
            br#"{"EventStatus":"a","EventId":"b","EventStatus":"a","EventType":"c"}"#,
            ParseErrorKind::RepeatedMember,
            33,
        ),
        // The same for members that are not texts.
        (
            br#"{"Resources":[],"ResourceType":"a","Resources":[]}"#,
            ParseErrorKind::RepeatedMember,
            35,
        ),
        (
            br#"{"DurationInSeconds":1,"EventSource":"a","DurationInSeconds":1}"#,
            ParseErrorKind::RepeatedMember,
            41,
        ),
        // Where it is expected, and once more.
        (
            br#"{"ResourceType":"a","Resources":[],"Resources":[]}"#,
            ParseErrorKind::RepeatedMember,
            35,
        ),
        (
            br#"{"EventSource":"a","DurationInSeconds":1,"DurationInSeconds":1}"#,
            ParseErrorKind::RepeatedMember,
            41,
        ),
    ] {
        let error = Event::parse(body).unwrap_err();
        assert_eq!((error.kind, error.offset), (kind, offset));
    }
    assert_eq!(Event::parse(b" {} ").unwrap().event_id(), Text::plain(""));
}

const TWO: &[u8] = br#"{"Events":[{"EventId":"a","EventType":"Freeze","EventStatus":"Scheduled","Resources":["vm"],
    "NotBefore":"2016-09-19T18:29:47Z","DurationInSeconds":5},{"EventId":"b","EventStatus":"Started"},
    {"EventId":"c","EventStatus":"Waiting"}]}"#;

#[test]
fn a_tracker_stores_the_members_of_an_event() {
    let document = Document::parse(TWO).unwrap();
    let mut tracker = Tracker::<4>::default();
    assert!(tracker.is_empty());
    let mut records = Vec::new();
    let mut note = |_: Change, event: &TrackedEvent| {
        records.push(serde_json::to_string(&EventMembers::from_tracked(event)).unwrap());
        let time = event.not_before().map(|moment| moment.0);
        match event.event_id().as_str() {
            "a" => {
                assert_eq!(
                    (event.event_type(), event.status()),
                    ("Freeze", TrackedStatus::Scheduled)
                );
                assert_eq!(
                    (time, event.duration_in_seconds()),
                    (Some(1_474_309_787), Some(5))
                );
                assert_eq!(event.mine(), Some(true));
            }
            _ => assert_eq!(
                (event.event_type(), time, event.mine()),
                ("", None, Some(false))
            ),
        }
    };
    tracker
        .observe(&document, VmNames::new(&["vm"]), UnixSeconds(0), &mut note)
        .unwrap();
    let expected = [
        r#"{"event_id":"a","event_type":"Freeze","event_status":"Scheduled","resource_type":null,"resources":null,"not_before":"2016-09-19T18:29:47Z","description":null,"event_source":null,"duration_in_seconds":5,"mine":true}"#,
        r#"{"event_id":"b","event_type":null,"event_status":"Started","resource_type":null,"resources":null,"not_before":null,"description":null,"event_source":null,"duration_in_seconds":null,"mine":false}"#,
        r#"{"event_id":"c","event_type":null,"event_status":null,"resource_type":null,"resources":null,"not_before":null,"description":null,"event_source":null,"duration_in_seconds":null,"mine":false}"#,
    ];
    assert_eq!(records, expected);
    assert_eq!(
        (tracker.len(), tracker.iter().count(), tracker.is_empty()),
        (3, 3, false)
    );
}

#[test]
fn an_approved_event_that_is_gone_has_ended_and_is_not_cancelled() {
    let scheduled = Document::parse(
        br#"{"Events":[{"EventId":"a","EventStatus":"Scheduled","NotBefore":"2016-09-19T18:29:47Z"}]}"#,
    )
    .unwrap();
    let empty = Document::parse(br#"{"Events":[]}"#).unwrap();
    let id = |id| EventId::new(&Text::plain(id));
    for (approves, now, expected) in [
        (false, 0, Change::Cancelled),
        (false, 1_474_309_786, Change::Cancelled),
        (false, 1_474_309_787, Change::Ended),
        (true, 0, Change::Ended),
    ] {
        let mut tracker = Tracker::<1>::new();
        let mut changes = Vec::new();
        tracker
            .observe(&scheduled, VmNames::UNKNOWN, UnixSeconds(now), |_, _| ())
            .unwrap();
        assert!(!tracker.approved(&id("b")));
        if approves {
            assert!(tracker.approved(&id("A")));
        }
        assert_eq!(tracker.iter().next().unwrap().is_approved(), approves);
        tracker
            .observe(&empty, VmNames::UNKNOWN, UnixSeconds(now), |change, _| {
                changes.push(change);
            })
            .unwrap();
        assert_eq!(changes, [expected], "approved: {approves}, at {now}");
        assert!(!tracker.approved(&id("a")));
    }
}

#[test]
fn an_ended_event_takes_no_slot() {
    let three = br#"{"Events":[{"EventId":"a"},{"EventId":"b","EventStatus":"Completed"},{"EventId":"c"}]}"#;
    let document = Document::parse(three).unwrap();
    let observed =
        Tracker::<1>::new().observe(&document, VmNames::UNKNOWN, UnixSeconds(0), |_, _| ());
    assert_eq!(observed, Err(TrackerFull { needed: 2 }));
    let mut changes = Vec::new();
    let mut tracker = Tracker::<2>::new();
    let observed = tracker.observe(&document, VmNames::UNKNOWN, UnixSeconds(0), |change, _| {
        changes.push(change);
    });
    assert_eq!((observed, tracker.len()), (Ok(0), 2));
    assert_eq!(changes, [Change::Scheduled, Change::Scheduled]);
}

/// The changes that a tracker reports for one event, for a sequence of documents.
#[test]
fn changes_of_one_event() {
    let early = r#""NotBefore":"2016-09-19T18:29:47Z""#;
    let late = r#""NotBefore":"2016-09-19T19:29:47Z""#;
    for (documents, expected) in [
        (
            vec![
                r#""EventStatus":"Scheduled""#,
                r#""EventStatus":"Started""#,
                "",
            ],
            vec!["scheduled", "started"],
        ),
        (
            vec!["", r#""EventStatus":"Started""#],
            vec!["scheduled", "started-without-notice"],
        ),
        (
            vec![
                "",
                r#""EventStatus":"Scheduled""#,
                r#""EventStatus":"Started""#,
            ],
            vec!["scheduled", "updated", "started"],
        ),
        (
            vec![early, late, r#""NotBefore":"""#, late, early],
            vec!["scheduled", "rescheduled", "rescheduled"],
        ),
        (
            vec![r#""Description":"a""#, r#""Description":"b""#],
            vec!["scheduled", "updated"],
        ),
        (
            vec![
                r#""Description":"ab""#,
                r#""Description":"a","ResourceType":"b""#,
            ],
            vec!["scheduled", "updated"],
        ),
        (
            vec![r#""Description":"""#, ""],
            vec!["scheduled", "updated"],
        ),
        (
            vec![r#""DurationInSeconds":5"#, r#""DurationInSeconds":-1"#],
            vec!["scheduled", "updated"],
        ),
        (
            vec![r#""Resources":["a","b"]"#, r#""Resources":["b","a"]"#],
            vec!["scheduled", "updated"],
        ),
        (
            vec![r#""EventSource":"User""#, r#""EventSource":"Platform""#],
            vec!["scheduled", "updated"],
        ),
        (
            vec![r#""EventType":"Freeze""#, r#""EventType":"Reboot""#],
            vec!["scheduled", "updated"],
        ),
        (vec!["", r#""Unknown":1"#], vec!["scheduled"]),
        (
            vec![r#""EventStatus":"Started""#, r#""EventStatus":"Completed""#],
            vec!["started-without-notice", "completed"],
        ),
        (
            vec![r#""EventStatus":"Started""#, r#""EventStatus":"Canceled""#],
            vec!["started-without-notice", "completed"],
        ),
        (
            vec![
                r#""EventStatus":"Scheduled""#,
                r#""EventStatus":"Canceled""#,
            ],
            vec!["scheduled", "cancelled"],
        ),
        (
            vec![
                r#""EventStatus":"Scheduled""#,
                r#""EventStatus":"Cancelled""#,
            ],
            vec!["scheduled", "cancelled"],
        ),
        (
            vec![
                r#""EventStatus":"Scheduled""#,
                r#""EventStatus":"Completed""#,
            ],
            vec!["scheduled", "completed"],
        ),
        (
            vec!["", r#""EventStatus":"Completed""#],
            vec!["scheduled", "ended"],
        ),
    ] {
        let mut tracker = Tracker::<1>::new();
        let mut changes = Vec::new();
        for members in &documents {
            let comma = if members.is_empty() { "" } else { "," };
            let body = format!(r#"{{"Events":[{{"EventId":"a"{comma}{members}}}]}}"#);
            let document = Document::parse(body.as_bytes()).unwrap();
            let observed =
                tracker.observe(&document, VmNames::UNKNOWN, UnixSeconds(0), |change, _| {
                    changes.push(change.word());
                });
            assert_eq!(observed, Ok(0));
        }
        assert_eq!(changes, expected, "{documents:?}");
    }
}

#[test]
fn a_cursor_visits_the_events_of_the_iterator() {
    for (body, ids) in [
        (r#"{"Events":[]}"#, vec![]),
        (r#"{"Events":[{"EventId":"a"}]}"#, vec![("a", 0)]),
        (
            r#"{"Events":[7,{},{"EventId":"b"},{"EventId":"c"},{"EventId":"B"},{"EventId":"d"},8]}"#,
            vec![("b", 2), ("c", 3), ("d", 5)],
        ),
        (
            r#"{"Events":[{"EventId":"a"},{"EventId":"A"},{"EventId":"b"}]}"#,
            vec![("a", 0), ("b", 2)],
        ),
    ] {
        let document = Document::parse(body.as_bytes()).unwrap();
        let mut cursor = EventCursor::default();
        for (left, (id, index)) in (0..ids.len()).rev().zip(ids) {
            let event = document.next_event(&mut cursor).unwrap();
            assert!(event.event_id() == id && event.index() == index, "{body}");
            let mut events = document.events();
            assert!(
                events.any(|event| event.index() == index) && events.len() == left,
                "{body}"
            );
        }
        assert!(document.next_event(&mut cursor).is_none(), "{body}");
        assert!(
            document.next_event(&mut cursor).is_none(),
            "{body}: the end is not the last time"
        );
        // A cursor of another document.
        let other = Document::parse(b"{\"Events\":[{\"EventId\":\"\xc3\xa9\"}]}").unwrap();
        let _ = other.next_event(&mut cursor);
    }
}

#[test]
fn parse_each_passes_the_names_of_each_event_if_they_fit() {
    let body = br#"{"Events":[{"EventId":"a","Resources":["vm_0","vm_1"]},{"EventId":"b"},
        {"EventId":"c","Resources":["x","y","z"]},{"EventId":"d","Resources":["vm_0"]}]}"#;
    let mut kept = Vec::new();
    let read = Document::parse_each(body, &mut [Text::plain(""); 2], |_, _, names| {
        kept.push(names.map(|names| names.iter().map(ToString::to_string).collect::<Vec<_>>()));
    });
    assert_eq!(read.unwrap().events().len(), 4);
    let names = |names: &[&str]| Some(names.iter().map(ToString::to_string).collect::<Vec<_>>());
    assert_eq!(
        kept,
        [names(&["vm_0", "vm_1"]), names(&[]), None, names(&["vm_0"])]
    );
}

#[test]
fn the_first_error_is_reported_before_invalid_utf8() {
    for (body, kind, offset) in [
        (
            &b"{\"Events\":[],}\xff"[..],
            ParseErrorKind::UnexpectedByte,
            13,
        ),
        (b"{\"Events\":[]}}\xff", ParseErrorKind::TrailingData, 13),
        (b"{\"Events\":[\"\xff\"]}", ParseErrorKind::InvalidUtf8, 12),
        (b"{\"Events\":[]}\xff", ParseErrorKind::InvalidUtf8, 13),
    ] {
        let refused = Document::parse(body).unwrap_err();
        assert_eq!(
            (refused.kind, refused.offset),
            (kind, offset),
            "{}",
            body.escape_ascii()
        );
    }
}

/// An event reads the same in every layout of its members and names.
#[test]
fn white_space_makes_no_difference() {
    let pretty = r#"{
        "EventId": "a",
        "EventStatus": "Scheduled",
        "EventType": "Re\u0062oot",
        "ResourceType": "VirtualMachine",
        "Resources": [
            "vm_0",
            "vm_1",
            "vm\u005f2",
            "vm_3",
            "vm_4"
        ],
        "NotBefore": "Mon, 19 Sep 2016 18:29:47 GMT",
        "Description": "some maintenance that takes a while, with a description of more than sixty-four b",
        "EventSource": "Platform",
        "DurationInSeconds": 12
    }"#;
    let names = ["vm_0", "vm_1", "vm_2", "vm_3", "vm_4"];
    let compact = pretty
        .lines()
        .map(str::trim_start)
        .collect::<String>()
        .replace("\": ", "\":");
    let layouts = [
        pretty.to_owned(),
        compact.clone(),
        pretty.replace("\": ", "\"  :"),
        pretty.replace('\n', "\r\n\t"),
        compact.replace(",\"", ", \""),
        compact.replace(",\"", " , \""),
        // Separators of several lengths, and separators that differ from the first.
        compact.replace(",\"", &format!(",{}\"", " ".repeat(14))),
        compact.replace(",\"", &format!(",{}\"", " ".repeat(15))),
        pretty
            .replacen("\n        \"EventType", "\n \"EventType", 1)
            .replacen("\n            \"vm_3", "\n\"vm_3", 1),
    ];
    for layout in layouts {
        let event = Event::parse(layout.as_bytes()).unwrap();
        assert!(
            event.event_id() == "a" && event.event_status().unwrap().text() == "Scheduled",
            "{layout}"
        );
        assert_eq!(
            event.event_type().unwrap().to_string(),
            "Reboot",
            "{layout}"
        );
        assert!(
            event.resource_type().unwrap() == "VirtualMachine",
            "{layout}"
        );
        assert!(
            event.resources().iter().eq(names.map(Text::plain)),
            "{layout}"
        );
        assert_eq!(
            event.not_before().moment(),
            Some(UnixSeconds(1_474_309_787)),
            "{layout}"
        );
        assert_eq!(event.description().unwrap().decoded_len(), 81, "{layout}");
        assert_eq!(
            event.event_source().unwrap().to_string(),
            "Platform",
            "{layout}"
        );
        assert_eq!(event.duration_in_seconds(), Some(12), "{layout}");
        assert_eq!(
            event.text(Member::EventType).map(|text| text.raw()),
            Some("Re\\u0062oot"),
            "{layout}"
        );
        assert_eq!(event.text(Member::Resources), None, "{layout}");
        let document = format!("{{\"Events\":[{layout}]}}");
        let of_document = Document::parse(document.as_bytes())
            .unwrap()
            .events()
            .next()
            .unwrap();
        assert_eq!(
            (event.object(), of_document.object()),
            (layout.as_str(), layout.as_str())
        );
        assert_eq!(
            format!("{:?}", of_document.layout().event(&layout)),
            format!("{event:?}"),
            "{layout}"
        );
        let mut seen = Vec::new();
        Document::parse_each(
            document.as_bytes(),
            &mut [Text::plain(""); 8],
            |_, _, names| {
                seen.extend(names.unwrap().iter().map(ToString::to_string));
            },
        )
        .unwrap();
        assert_eq!(seen, names, "{layout}");
    }
}

/// An element that is not a string hides no name, and is a problem.
#[test]
fn names_between_other_values_are_read() {
    let array = r#"["a",7,"b",7,"c",{"d":["e"]},"f","g",null,"h\n","i"]"#;
    let body = format!(r#"{{"Events":[{{"EventId":"a","Resources":{array}}}]}}"#);
    let mut seen = Vec::new();
    let document = Document::parse_each(
        body.as_bytes(),
        &mut [Text::plain(""); 16],
        |event, _, names| {
            seen.extend(names.unwrap().iter().map(ToString::to_string));
            assert_eq!(
                event
                    .resources()
                    .iter()
                    .map(|name| name.to_string())
                    .collect::<Vec<_>>(),
                seen
            );
        },
    );
    assert_eq!(seen, ["a", "b", "c", "f", "g", "h\n", "i"]);
    assert_eq!(document.unwrap().problems().count(), 4);
}
