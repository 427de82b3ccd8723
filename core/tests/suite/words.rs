//! Tables of all words and messages of core.

use std::fmt::Display;

use scheduled_events_core::{
    Action, BufferTooSmall, Cause, Change, Document, Event, EventId, EventStatus, EventType,
    MAX_RULES, Member, ParseError, ParseErrorKind, Position, Problem, ProblemKind, Report,
    SessionConfigError, SnapshotError, StartRequests, Text, TooManyRules, TrackerFull, UnixSeconds,
    Untracked, limits,
};

#[test]
fn parse_errors() {
    use ParseErrorKind as Kind;
    for (kind, word, message) in [
        (
            Kind::UnexpectedEnd,
            "unexpected-end",
            "the document ends too early",
        ),
        (Kind::UnexpectedByte, "unexpected-byte", "unexpected byte"),
        (
            Kind::ControlCharacter,
            "control-character",
            "unescaped control character in a string",
        ),
        (
            Kind::InvalidEscape,
            "invalid-escape",
            "invalid escape in a string",
        ),
        (
            Kind::LoneSurrogate,
            "lone-surrogate",
            "surrogate escape without its other half",
        ),
        (Kind::InvalidUtf8, "invalid-utf8", "invalid UTF-8"),
        (Kind::InvalidNumber, "invalid-number", "invalid number"),
        (
            Kind::TooDeep,
            "too-deep",
            "more than 32 nested objects and arrays",
        ),
        (
            Kind::NotAnObject,
            "not-an-object",
            "the document is not an object",
        ),
        (
            Kind::NoEvents,
            "no-events",
            "the document has no `Events` array",
        ),
        (
            Kind::RepeatedMember,
            "repeated-member",
            "a known member occurs twice in one object",
        ),
        (
            Kind::TrailingData,
            "trailing-data",
            "unexpected data after the document",
        ),
    ] {
        assert_eq!((kind.word(), kind.message()), (word, message));
        assert_eq!(serde_json::to_value(kind).unwrap(), word);
    }
    let body = b"{\n  nothing";
    let error = Document::parse(body).unwrap_err();
    assert_eq!(
        error.to_string(),
        "expected a member name or `}`, found `n` at byte 4"
    );
    assert_eq!(error.position(body).to_string(), "2:3");
}

#[test]
fn causes_of_failed_requests() {
    let error: ParseError = Document::parse(b"[]").unwrap_err();
    let position = Position { line: 1, column: 7 };
    for (cause, word, sentence) in [
        (Cause::Timeout, "timeout", "the request timed out"),
        (Cause::Unreachable, "unreachable", "connection failed"),
        (Cause::ConnectionLost, "connection-lost", "connection lost"),
        (Cause::TooLarge, "too-large", "the response is too large"),
        (
            Cause::Redirect(302),
            "redirect",
            "status 302: redirects are not followed",
        ),
        (Cause::Status(404), "status", "status 404"),
        (
            Cause::EmptyBody,
            "empty-body",
            "the response is empty, expected a document",
        ),
        (
            Cause::NotADocument { error, position },
            "not-a-document",
            "invalid document: line 1, column 7: expected an object, found `[`",
        ),
    ] {
        assert_eq!((cause.word(), cause.to_string().as_str()), (word, sentence));
    }
}

#[test]
fn other_errors() {
    let refused: [(&dyn Display, String); 9] = [
        (
            &SessionConfigError::IntervalTooShort,
            format!(
                "the poll interval is too short: the minimum is {} ms",
                limits::INTERVAL_MIN_MS
            ),
        ),
        (
            &SessionConfigError::TooManyNames,
            format!(
                "too many machine names: the maximum is {}",
                limits::NAMES_MAX
            ),
        ),
        (
            &SessionConfigError::NameTooLong,
            format!(
                "a machine name is too long: the maximum is {} bytes",
                limits::NAME_MAX
            ),
        ),
        (
            &SnapshotError::Damaged,
            "the snapshot is damaged: its checksum or its content is invalid".into(),
        ),
        (
            &SnapshotError::UnknownVersion(7),
            "the snapshot has version 7, expected 3 to 4".into(),
        ),
        (
            &SnapshotError::TooManyEvents,
            "the snapshot contains more pending events than the session can track".into(),
        ),
        (
            &TooManyRules,
            format!("too many rules: the maximum is {MAX_RULES}"),
        ),
        (
            &TrackerFull { needed: 5 },
            "the document contains 5 events, more than the tracker can hold".into(),
        ),
        (
            &BufferTooSmall { needed: 5 },
            "the buffer is too small: 5 bytes are needed".into(),
        ),
    ];
    for (error, sentence) in refused {
        assert_eq!(error.to_string(), sentence);
    }
}

#[test]
fn words_of_changes_and_actions() {
    let words = [
        "scheduled",
        "started",
        "started-without-notice",
        "rescheduled",
        "updated",
        "completed",
        "cancelled",
        "ended",
    ];
    for (change, word) in Change::ALL.into_iter().zip(words) {
        assert_eq!(
            (change.word(), serde_json::to_value(change).unwrap()),
            (word, word.into())
        );
        assert_eq!(format!("{change:>22}"), format!("{word:>22}"));
        assert_eq!(
            change.is_end(),
            matches!(word, "completed" | "cancelled" | "ended"),
            "{word}"
        );
    }
    for (action, word) in [
        (Action::Approve, "approve"),
        (Action::Prepare, "prepare"),
        (Action::Hold, "hold"),
        (Action::Ignore, "ignore"),
    ] {
        assert_eq!(
            (action.word(), serde_json::to_value(action).unwrap()),
            (word, word.into())
        );
    }
}

#[test]
fn reports_that_name_no_event() {
    let problem =
        |body: &[u8]| -> Problem { Document::parse(body).unwrap().problems().next().unwrap() };
    let missing = problem(br#"{"Events":[{}]}"#);
    assert_eq!(missing.kind, ProblemKind::Missing);
    assert_eq!(Report::Problem(missing).to_string(), "missing at byte 11");
    let untracked = Untracked { own: 1, others: 20 };
    assert_eq!(
        Report::Untracked(untracked).to_string(),
        "not tracked: 1 own events, 20 of other machines"
    );
}

#[test]
fn members_and_event_words() {
    for (member, name) in [
        (Member::EventId, "EventId"),
        (Member::EventStatus, "EventStatus"),
        (Member::EventType, "EventType"),
        (Member::ResourceType, "ResourceType"),
        (Member::Resources, "Resources"),
        (Member::NotBefore, "NotBefore"),
        (Member::Description, "Description"),
        (Member::EventSource, "EventSource"),
        (Member::DurationInSeconds, "DurationInSeconds"),
        (Member::DocumentIncarnation, "DocumentIncarnation"),
        (Member::Events, "Events"),
    ] {
        assert_eq!((member.name(), member.to_string().as_str()), (name, name));
    }
    // Known and unknown words, with escapes.
    let body =
        br#"{"EventId":"a","EventType":"Fr\u0065eze","EventStatus":"Wait\u0069ng","Resources":["a",1,"\u0062"]}"#;
    let event = Event::parse(body).unwrap();
    let (kind, status) = (event.event_type().unwrap(), event.event_status().unwrap());
    assert!(matches!(
        (kind, status),
        (EventType::Freeze, EventStatus::Other(_))
    ));
    assert_eq!(
        (kind.to_string(), status.to_string()),
        ("Freeze".into(), "Waiting".into())
    );
    assert_eq!(
        serde_json::to_string(&(kind, status)).unwrap(),
        r#"["Freeze","Waiting"]"#
    );
    assert_eq!(
        serde_json::to_string(&event.resources()).unwrap(),
        r#"["a","b"]"#
    );
}

#[test]
fn texts_and_ids_are_decoded() {
    let escaped = Text::from_raw(r#"caf\u00e9 \"\ud83d\ude00\"\n"#, true);
    let plain = Text::plain("café \"😀\"\n");
    for text in [escaped, plain] {
        assert_eq!(text.to_string(), "café \"😀\"\n");
        assert_eq!(format!("{text:?}"), r#""café \"😀\"\n""#);
        assert_eq!(serde_json::to_string(&text).unwrap(), r#""café \"😀\"\n""#);
        assert_eq!(text.decoded_len(), 13);
        assert!(
            text == escaped
                && text == plain
                && text == "café \"😀\"\n"
                && text != Text::plain("cafe")
        );
        assert!(
            text.eq_ignore_ascii_case("CAFé \"😀\"\n")
                && !text.eq_ignore_ascii_case("CAFÉ \"😀\"\n")
        );
    }
    assert_eq!(format!("{:>6}|", Text::plain("vm_0")), "  vm_0|");
    // In a text without escapes a backslash is a character like others.
    assert!(Text::plain(r"a\nb").chars().eq(['a', '\\', 'n', 'b']));
    let all = Text::from_raw(r#"\b\f\n\r\t\/\\\""#, true);
    assert_eq!(all.to_string(), "\u{8}\u{c}\n\r\t/\\\"");
    // Texts that were not checked do not panic.
    for (raw, read) in [
        (r"\x", "x"),
        (r"\", ""),
        (r"\u00", "u00"),
        (r"\udc00", "udc00"),
        (r"\ud83d", "ud83d"),
    ] {
        assert_eq!(Text::from_raw(raw, true).to_string(), read, "{raw}");
    }
    let id = EventId::new(&Text::plain("a\"b"));
    assert_eq!(
        (format!("{id:>4}"), format!("{id:?}")),
        (" a\"b".into(), r#""a\"b""#.into())
    );
    assert!(id == EventId::new(&Text::plain("A\"B")) && id != EventId::new(&Text::plain("a\"c")));
}

#[test]
fn times_are_rfc_3339_in_json() {
    let moment = UnixSeconds(1_474_309_787);
    assert_eq!(
        serde_json::to_string(&moment).unwrap(),
        r#""2016-09-19T18:29:47Z""#
    );
    for text in [
        r#""2016-09-19T18:29:47Z""#,
        r#""Mon, 19 Sep 2016 18:29:47 GMT""#,
    ] {
        assert_eq!(serde_json::from_str::<UnixSeconds>(text).unwrap(), moment);
    }
    for (text, found) in [(r#""soon""#, "string \"soon\""), ("5", "integer `5`")] {
        let error = serde_json::from_str::<UnixSeconds>(text)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains(found) && error.contains("a time in RFC 3339 or RFC 1123 format"),
            "{error}"
        );
    }
}

#[test]
fn an_approval_escapes_every_character() {
    let id: String = (0..=0x7f_u8).map(char::from).chain("é😀".chars()).collect();
    let ids = [id.as_str(), ""];
    let approval = StartRequests::new(&ids);
    let mut body = vec![0; approval.len()];
    assert_eq!(approval.write(&mut body), Ok(body.len()));
    let expected = serde_json::json!({ "StartRequests": [{ "EventId": id }, { "EventId": "" }] });
    assert_eq!(
        String::from_utf8(body).unwrap(),
        serde_json::to_string(&expected).unwrap()
    );
    // The same id with escapes, as in a document.
    let escaped = serde_json::to_string(&id).unwrap();
    let inside = escaped
        .strip_prefix('"')
        .and_then(|escaped| escaped.strip_suffix('"'))
        .unwrap();
    let texts = [Text::from_raw(inside, true)];
    let approval = StartRequests::new(&texts);
    let mut again = vec![0; approval.len()];
    assert_eq!(approval.write(&mut again), Ok(again.len()));
    assert_eq!(
        again,
        format!(r#"{{"StartRequests":[{{"EventId":{escaped}}}]}}"#).into_bytes()
    );
    assert!(!approval.is_empty());
    let nothing = StartRequests::<&str>::new(&[]);
    let mut body = [0; 20];
    assert_eq!(nothing.write(&mut body), Ok(20));
    assert!(nothing.is_empty() && &body == br#"{"StartRequests":[]}"#);
}
