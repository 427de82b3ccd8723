//! What a state file contains, and how it is written: a line with the format's name and the checksum of the rest, which is JSON.

use std::fmt::Write as _;
use std::io;

use scheduled_events_core::{Action, Change, UnixSeconds, WaitsFor};
use serde::{Deserialize, Serialize};

use crate::record::EventRecord;

/// How the first line starts.
const FORMAT: &str = "scheduled-events state 2";

/// How the first line starts in every version of the format.
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
    session: String,
    status: MachineStatus,
    events: Vec<EventRecord>,
    // Left out if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pending_hooks: Vec<PendingHook>,
}

/// The state in a file, or what is wrong with it.
pub(super) fn parse(bytes: &[u8]) -> Result<State, String> {
    let text = std::str::from_utf8(bytes).map_err(|_| "it is not UTF-8 text")?;
    let (head, content) = text.split_once('\n').ok_or("it has no complete first line")?;
    let checksum = head.strip_prefix(FORMAT).ok_or_else(|| match head.strip_prefix(ANY_FORMAT) {
        Some(rest) => {
            let version: String = rest.chars().take_while(char::is_ascii_digit).take(9).collect();
            format!("another version of this program wrote it: expected \"{FORMAT}\", found \"{ANY_FORMAT}{version}\"")
        }
        None => format!("its first line does not start with {FORMAT:?}"),
    })?;
    if checksum.trim() != format!("{:08x}", crc32fast::hash(content.as_bytes())) {
        return Err("its checksum does not match its content".into());
    }
    let content: Content = serde_json::from_str(content).map_err(|error| error.to_string())?;
    let session = decode_hex(&content.session).ok_or("its snapshot is not hexadecimal")?;
    Ok(State { session, events: content.events, hooks: content.pending_hooks, status: content.status })
}

/// The file with this state.
pub(super) fn format(state: &State) -> io::Result<Vec<u8>> {
    let mut session = String::with_capacity(state.session.len() * 2);
    for byte in &state.session {
        let _ = write!(session, "{byte:02x}");
    }
    let content = Content {
        session,
        status: state.status.clone(),
        events: state.events.clone(),
        pending_hooks: state.hooks.clone(),
    };
    let mut content = serde_json::to_string_pretty(&content)?;
    content.push('\n');
    Ok(format!("{FORMAT} {:08x}\n{content}", crc32fast::hash(content.as_bytes())).into_bytes())
}

fn decode_hex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    if !digits.len().is_multiple_of(2) {
        return None;
    }
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}

#[cfg(test)]
mod tests {
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
}
