//! Which invalid documents each parser accepts: a parser that checks less has less work, so the table shows it.

use crate::competitors::Competitor;
use crate::documents::{Form, Size};

/// Invalid documents, with what is wrong in each.
fn faults() -> Vec<(&'static str, Vec<u8>)> {
    let event = |event_id: &str, description: &str| {
        format!(
            r#"{{"EventId":"{event_id}","EventType":"Freeze","ResourceType":"VirtualMachine","Resources":["a","b"],"EventStatus":"Scheduled","NotBefore":"Mon, 11 Apr 2022 22:26:58 GMT","Description":"{description}","EventSource":"Platform","DurationInSeconds":5}}"#
        )
    };
    let document = |events: &str, rest: &str| {
        format!(r#"{{"DocumentIncarnation":2,"Events":[{events}]}}{rest}"#)
    };
    let described = |description: &str| document(&event("a", description), "");
    let mut not_utf8 = described("#").into_bytes();
    for byte in &mut not_utf8 {
        if *byte == b'#' {
            *byte = 0xff;
        }
    }
    vec![
        ("bytes that are not UTF-8", not_utf8),
        (
            "a raw line break in a string",
            described("a\nb").into_bytes(),
        ),
        ("a lone surrogate", described(r"\ud83d").into_bytes()),
        ("an invalid escape", described(r"\x").into_bytes()),
        (
            "data after the document",
            document(&event("a", "b"), "]").into_bytes(),
        ),
        (
            "a trailing comma",
            document(&format!("{},", event("a", "b")), "").into_bytes(),
        ),
        (
            "a number with a leading zero",
            described("b").replace(":5}", ":05}").into_bytes(),
        ),
        (
            "a missing end",
            described("b").trim_end_matches('}').as_bytes().to_vec(),
        ),
        (
            "a repeated member",
            described(r#"b","Description":"c"#).into_bytes(),
        ),
        (
            "an invalid literal in a member that is not read",
            described(r#"b","More":nul,"Less":""#).into_bytes(),
        ),
    ]
}

/// The faults that a parser accepts, as it is used here.
pub fn accepted_faults(competitor: &Competitor) -> Vec<&'static str> {
    let passes = |body: &[u8]| {
        (competitor.prepare)(body, Size::S, Form::Compact).is_some_and(|mut read| read().is_some())
    };
    faults()
        .into_iter()
        .filter(|(_, body)| passes(body))
        .map(|(fault, _)| fault)
        .collect()
}
