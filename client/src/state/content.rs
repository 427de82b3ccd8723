//! What a state file contains: the session's snapshot, as the C library and Python write and read it, too; a line with the
//! format's name and a checksum of all but itself; and JSON. A file that is only a snapshot is read as well.

use std::io;

use scheduled_events_core::{Action, Change, UnixSeconds, WaitsFor, snapshot_length};
use serde::{Deserialize, Serialize};

use crate::record::EventRecord;

/// How the line after the snapshot starts.
const FORMAT: &str = "scheduled-events state 2";

/// How that line starts in every version of the format.
const ANY_FORMAT: &str = "scheduled-events state ";

/// The content of a state file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// The session's snapshot.
    pub session: Vec<u8>,
    /// The tracked events with all their members.
    pub events: Vec<EventRecord>,
    /// The hooks that have not ended.
    pub hooks: Vec<PendingHook>,
    /// What the session waits for, for people. A restart does not need it.
    pub status: MachineStatus,
}

/// The machine and its events when the state was saved. All times are times of day.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MachineStatus {
    /// What identifies the time since the machine started; empty if that is unknown.
    pub boot_id: String,
    /// Whether the machine was out of service.
    pub out_of_service: bool,
    /// Since when it was in service or out of service, if that is known.
    pub since: Option<UnixSeconds>,
    /// The number of the recovery that ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovery_attempt: Option<u32>,
    /// Since when that recovery ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovery_since: Option<UnixSeconds>,
    /// How often the recovery had failed in a row.
    pub recovery_failures: u8,
    /// When it was to be tried again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovery_retry_at: Option<UnixSeconds>,
    /// What each tracked event waited for.
    pub waiting: Vec<WaitingEvent>,
}

/// What an event waited for: see [`Waiting`](scheduled_events_core::Waiting).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)] // The members are those of the record `waiting`.
pub struct WaitingEvent {
    pub event_id: String,
    pub waits_for: WaitsFor,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<UnixSeconds>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<UnixSeconds>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<Action>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<u16>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The hook of a change that was reported, which has not ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingHook {
    /// The change.
    pub change: Change,
    /// The event, as it was at that time.
    pub event: EventRecord,
}

#[derive(Serialize, Deserialize)]
struct Content {
    status: MachineStatus,
    events: Vec<EventRecord>,
    // Left out if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pending_hooks: Vec<PendingHook>,
}

/// The state in a file, or what is wrong with it.
pub(super) fn parse(bytes: &[u8]) -> Result<State, String> {
    let another_version = |found: &[u8]| {
        let version: String = found.iter().map(|&byte| byte as char).take_while(char::is_ascii_digit).take(9).collect();
        format!("another version of this program wrote it: expected \"{FORMAT}\", found \"{ANY_FORMAT}{version}\"")
    };
    // The last place: a snapshot can contain anything, but JSON has no line feed in a string.
    let line = format!("\n{ANY_FORMAT}");
    let Some(at) = bytes.windows(line.len()).rposition(|window| window == line.as_bytes()) else {
        if snapshot_length(bytes) == Some(bytes.len()) {
            return Ok(State { session: bytes.to_vec(), ..State::default() });
        }
        return Err(
            "it is neither a snapshot nor a snapshot and a line that starts with \"scheduled-events state\"".into()
        );
    };
    let (session, text) = bytes.split_at(at);
    let text = std::str::from_utf8(text).map_err(|_| "what follows the snapshot is not UTF-8 text")?;
    let (head, content) = text.get(1..).and_then(|text| text.split_once('\n')).ok_or("a line is incomplete")?;
    let checksum = head
        .strip_prefix(FORMAT)
        .ok_or_else(|| another_version(head.as_bytes().get(ANY_FORMAT.len()..).unwrap_or(b"")))?;
    if checksum.trim() != checksum_of(session, content) {
        return Err("its checksum does not match its content".into());
    }
    let content: Content = serde_json::from_str(content).map_err(|error| error.to_string())?;
    Ok(State {
        session: session.to_vec(),
        events: content.events,
        hooks: content.pending_hooks,
        status: content.status,
    })
}

/// The file with this state.
pub(super) fn format(state: &State) -> io::Result<Vec<u8>> {
    let content =
        Content { status: state.status.clone(), events: state.events.clone(), pending_hooks: state.hooks.clone() };
    let mut content = serde_json::to_string_pretty(&content)?;
    content.push('\n');
    let text = format!("\n{FORMAT} {}\n{content}", checksum_of(&state.session, &content));
    Ok([&state.session, text.as_bytes()].concat())
}

fn checksum_of(session: &[u8], content: &str) -> String {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(session);
    hasher.update(content.as_bytes());
    format!("{:08x}", hasher.finalize())
}

#[cfg(test)]
mod tests {
    use scheduled_events_core::{Session, SessionConfig, VmNames};

    use super::*;

    #[test]
    fn a_file_truncated_or_changed_at_any_byte_is_damaged() {
        let event = EventRecord { event_id: "a\u{1b}[2J".into(), ..EventRecord::default() };
        let hooks = vec![PendingHook { change: Change::StartedWithoutNotice, event: event.clone() }];
        let state = State { session: vec![0, 1, 0xff], events: vec![event], hooks, status: MachineStatus::default() };
        let whole = format(&state).unwrap();
        assert_eq!(parse(&whole), Ok(state.clone()));
        for index in 0..whole.len() {
            assert!(parse(&whole[..index]).is_err(), "{index} bytes were accepted");
            for bit in 0..8 {
                let mut changed = whole.clone();
                changed[index] ^= 1 << bit;
                // The case of the checksum's digits does not matter.
                let accepted = parse(&changed);
                assert!(
                    accepted.is_err() || accepted == Ok(state.clone()) && changed.eq_ignore_ascii_case(&whole),
                    "{index}"
                );
            }
        }
    }

    #[test]
    fn a_file_that_is_only_a_snapshot_is_read() {
        let session = Session::<4>::new(&SessionConfig::new(VmNames::UNKNOWN)).unwrap();
        let mut snapshot = [0; 256];
        let length = session.snapshot(&mut snapshot).unwrap();
        let alone = State { session: snapshot[..length].to_vec(), ..State::default() };
        assert_eq!(parse(&snapshot[..length]), Ok(alone));
        assert!(parse(&snapshot[..length - 1]).is_err());
        assert!(parse(&snapshot[..=length]).is_err());
        assert!(parse(b"").is_err());
    }

    #[test]
    fn text_in_a_snapshot_is_not_mistaken_for_the_line() {
        let session = format!("SEVS\n{FORMAT} 00000000\n{{}}").into_bytes();
        let state = State { session, ..State::default() };
        assert_eq!(parse(&format(&state).unwrap()), Ok(state));
    }
}
