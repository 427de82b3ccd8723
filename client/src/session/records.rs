//! The records of what a session reports and a host did, for events that are owned.

use scheduled_events_core::record::EventMembers;
use scheduled_events_core::{Report, Text};

use crate::record::{EventRecord, HookOutcome, Record};

/// Calls `then` with the record of a report. `body` is the newest document, if it is still in memory.
///
/// ```
/// use scheduled_events::record::EventRecord;
/// use scheduled_events::session::with_report;
/// use scheduled_events_core::{Change, Report};
///
/// let event = EventRecord { event_id: "a".to_owned(), ..EventRecord::default() };
/// let report = Report::Change { change: Change::Started, event };
/// let record = with_report(&report, None, |record| serde_json::to_string(&record))?;
/// assert!(record.starts_with(r#"{"record":"change","change":"started","event_id":"a","#));
/// # Ok::<(), serde_json::Error>(())
/// ```
pub fn with_report<T>(
    report: &Report<EventRecord>,
    body: Option<&[u8]>,
    then: impl FnOnce(Record<'_>) -> T,
) -> T {
    let names = report.event().and_then(EventRecord::resource_names);
    let members = report.as_ref().map(|event| event.members(names.as_deref()));
    then(Record::from_report(&members, body))
}

/// Calls `then` with the record of a recovery from these events, the one that ended last first.
///
/// ```
/// use scheduled_events::record::{EventRecord, HookOutcome};
/// use scheduled_events::session::with_recovery;
///
/// let event = |id: &str| EventRecord { event_id: id.to_owned(), ..EventRecord::default() };
/// let record = with_recovery(&[event("b"), event("a")], HookOutcome::Done, |record| serde_json::to_string(&record))?;
/// assert!(record.starts_with(r#"{"record":"recover","event_id":"b","event_ids":["b","a"],"outcome":"done","#));
/// # Ok::<(), serde_json::Error>(())
/// ```
pub fn with_recovery<T>(
    events: &[EventRecord],
    outcome: HookOutcome,
    then: impl FnOnce(Record<'_>) -> T,
) -> T {
    with_members(events, |event_ids, members| {
        let unknown = EventMembers::unknown(Text::plain(""));
        then(Record::Recover {
            event_ids,
            outcome: Some(outcome),
            event: members.first().copied().unwrap_or(unknown),
        })
    })
}

/// Calls `then` with the record of an approval of these events, which was answered with this HTTP status.
///
/// ```
/// use scheduled_events::record::EventRecord;
/// use scheduled_events::session::with_approval;
///
/// let event = EventRecord { event_id: "a".to_owned(), ..EventRecord::default() };
/// let record = with_approval(&[event], Some(200), |record| serde_json::to_string(&record))?;
/// assert!(record.starts_with(r#"{"record":"approval","event_ids":["a"],"status":200,"events":[{"event_id":"a","#));
/// # Ok::<(), serde_json::Error>(())
/// ```
pub fn with_approval<T>(
    events: &[EventRecord],
    status: Option<u16>,
    then: impl FnOnce(Record<'_>) -> T,
) -> T {
    with_members(events, |event_ids, events| {
        then(Record::Approval {
            event_ids,
            status,
            events,
        })
    })
}

/// Calls `then` with the ids and the members of these events.
fn with_members<T>(
    events: &[EventRecord],
    then: impl FnOnce(&[&str], &[EventMembers<'_>]) -> T,
) -> T {
    let ids: Vec<_> = events.iter().map(|event| event.event_id.as_str()).collect();
    let names: Vec<_> = events.iter().map(EventRecord::resource_names).collect();
    let members = events.iter().zip(&names);
    let members: Vec<_> = members
        .map(|(event, names)| event.members(names.as_deref()))
        .collect();
    then(&ids, &members)
}
