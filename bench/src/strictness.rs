//! What each parser lets through: whoever checks less has less to do, so the table says it.

use crate::documents::{Form, Size};
use crate::rivals::Rival;

/// Documents that are none, and what is wrong with each.
fn faults() -> Vec<(&'static str, Vec<u8>)> {
    let event = |event_id: &str, description: &str| {
        format!(
            r#"{{"EventId":"{event_id}","EventType":"Freeze","ResourceType":"VirtualMachine","Resources":["a","b"],"EventStatus":"Scheduled","NotBefore":"Mon, 11 Apr 2022 22:26:58 GMT","Description":"{description}","EventSource":"Platform","DurationInSeconds":5}}"#
        )
    };
    let document = |events: &str, rest: &str| format!(r#"{{"DocumentIncarnation":2,"Events":[{events}]}}{rest}"#);
    let described = |description: &str| document(&event("a", description), "");
    let mut not_utf8 = described("#").into_bytes();
    for byte in &mut not_utf8 {
        if *byte == b'#' {
            *byte = 0xff;
        }
    }
    vec![
        ("bytes that are not UTF-8", not_utf8),
        ("a raw line break in a string", described("a\nb").into_bytes()),
        ("a lone surrogate", described(r"\ud83d").into_bytes()),
        ("an escape that is none", described(r"\x").into_bytes()),
        ("data after the document", document(&event("a", "b"), "]").into_bytes()),
        ("a comma too many", document(&format!("{},", event("a", "b")), "").into_bytes()),
        ("a number with a leading zero", described("b").replace(":5}", ":05}").into_bytes()),
        ("a missing end", described("b").trim_end_matches('}').as_bytes().to_vec()),
        ("a repeated member", described(r#"b","Description":"c"#).into_bytes()),
        ("a wrong literal in a member nobody reads", described(r#"b","More":nul,"Less":""#).into_bytes()),
    ]
}

/// The faults that a parser lets through, as it is used here.
pub fn lets_through(rival: &Rival) -> Vec<&'static str> {
    let passes = |body: &[u8]| (rival.prepare)(body, Size::S, Form::Compact).is_some_and(|mut read| read().is_some());
    faults().into_iter().filter(|(_, body)| passes(body)).map(|(fault, _)| fault).collect()
}
