//! Documents generated from a grammar: all are accepted, and read as they were meant, in any notation.

use arbitrary::Unstructured;
use scheduled_events_core::{Document, StartRequests, UnixSeconds};

use crate::oracle::{Incarnation, NotBefore};
use crate::{document, grammar};

pub fn run(data: &[u8]) {
    let mut u = Unstructured::new(data);
    let _ = check(&mut u);
}

fn check(u: &mut Unstructured<'_>) -> arbitrary::Result<()> {
    let incarnation = u.arbitrary()?;
    // All ids are in the window in which a document finds duplicates. Many are, and each takes a search through the events before it:
    // with 40 events a run takes three times as long.
    let mut specs = grammar::specs(u, 16)?;
    let text = grammar::document(u, incarnation, &specs)?;
    document::run(text.as_bytes());

    let read = Document::parse(text.as_bytes()).unwrap_or_else(|error| panic!("{error}: {text}"));
    let reading = document::reading(&read);
    assert_eq!(
        reading.incarnation,
        incarnation.map_or(Incarnation::Absent, Incarnation::Number)
    );
    let mut seen = Vec::new();
    specs.retain(|spec| {
        let id = spec.id.to_ascii_lowercase();
        let new = !seen.contains(&id);
        seen.push(id);
        new
    });
    assert_eq!(reading.events.len(), specs.len(), "{text}");
    for (event, spec) in reading.events.iter().zip(&specs) {
        assert_eq!(event.id, spec.id);
        assert_eq!(event.event_type, spec.event_type);
        assert_eq!(event.status, spec.status);
        assert_eq!(event.resources, spec.resources);
        assert_eq!(event.source, spec.source);
        assert_eq!(event.description, spec.description);
        assert_eq!(event.duration, spec.duration);
        let moment = spec.not_before.map_or(NotBefore::Unset, |seconds| {
            NotBefore::At(UnixSeconds(seconds))
        });
        assert_eq!(event.not_before, moment);
    }
    approvals_echo_ids(&read);
    Ok(())
}

/// Any JSON reader finds the document's ids in the approval.
fn approvals_echo_ids(document: &Document<'_>) {
    let ids: Vec<_> = document.events().map(|event| event.event_id()).collect();
    let approval = StartRequests::new(&ids);
    let mut body = vec![0; approval.len()];
    assert_eq!(approval.write(&mut body), Ok(body.len()));
    let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
    let echoed = body["StartRequests"].as_array().unwrap();
    assert_eq!(echoed.len(), ids.len());
    for (request, id) in echoed.iter().zip(&ids) {
        assert_eq!(request["EventId"], id.to_string().as_str());
    }
}
