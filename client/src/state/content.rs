//! What a state file contains: the session's snapshot, as the C library and Python write and read it, too; a line with the
//! format's name and a checksum of all but itself; and JSON. A file that is only a snapshot is read as well.

use std::fmt;
use std::io;
use std::time::{SystemTime, UNIX_EPOCH};

use crc::{CRC_32_ISO_HDLC, Crc, Table};
use scheduled_events_core::{
    Action, Change, Session, SessionConfig, SnapshotError, UnixMillis, UnixSeconds, VmNames,
    WaitsFor, snapshot_length,
};
use serde::{Deserialize, Serialize};

use crate::limits::EVENTS_MAX;
use crate::platform;
use crate::record::EventRecord;

/// The checksum. A table of 1 KB is fast enough for a file that has some hundred at most.
static CRC_32: Crc<u32, Table<1>> = Crc::<u32, Table<1>>::new(&CRC_32_ISO_HDLC);

/// How the line after the snapshot starts. The number changes if an older program must not read the file, not for a member that may be
/// missing. The snapshot has a version of its own, in `core/src/session/snapshot/format.rs`, which any change of its bytes raises. A
/// file of another version is moved away, and the watcher starts without state.
const FORMAT: &str = "scheduled-events state 2";

/// How that line starts in every version of the format.
const ANY_FORMAT: &str = "scheduled-events state ";

/// The content of a state file.
///
/// ```
/// use scheduled_events::state::State;
/// use scheduled_events_core::{Session, SessionConfig, VmNames};
///
/// let session = Session::<16>::new(&SessionConfig::new(VmNames::new(&["web_0"])))?;
/// let mut snapshot = vec![0; Session::<16>::SNAPSHOT_MAX];
/// let length = session.snapshot(&mut snapshot)?;
/// snapshot.truncate(length);
/// let state = State { session: snapshot, ..State::default() };
/// assert!(state.events.is_empty() && !state.status.out_of_service);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
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
///
/// ```
/// use scheduled_events::state::MachineStatus;
/// use scheduled_events_core::UnixSeconds;
///
/// let describe = |status: &MachineStatus| match (status.out_of_service, status.since) {
///     (true, Some(since)) => format!("out of service since {since}"),
///     (true, None) => "out of service".to_owned(),
///     (false, _) => "in service".to_owned(),
/// };
/// let status = MachineStatus { out_of_service: true, since: Some(UnixSeconds(1_600_000_000)), ..MachineStatus::default() };
/// assert_eq!(describe(&status), "out of service since 2020-09-13T12:26:40Z");
/// ```
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

impl MachineStatus {
    /// What people want to know about the session, at the time `now` of a clock which the time of day is ahead of.
    pub(crate) fn of(session: &Session<EVENTS_MAX>, now: UnixMillis, ahead_ms: i64) -> Self {
        let out_since = session.out_of_service_since();
        let recovery = session.recovery();
        let waiting = session.waiting(now).map(|(event, waiting)| WaitingEvent {
            event_id: event.event_id().to_string(),
            waits_for: waiting.waits_for,
            since: waiting.since,
            until: waiting.until,
            attempt: waiting.attempt,
            action: waiting.decision.map(|decision| decision.action),
            rule: waiting.rule(),
            reason: waiting.reason().map(|reason| reason.to_string()),
            last_call: waiting.by_last_call,
        });
        Self {
            boot_id: platform::boot_id(),
            out_of_service: out_since.is_some(),
            since: out_since
                .or(session.in_service_since())
                .map(|at| UnixMillis(at.0.saturating_add(ahead_ms)).seconds()),
            recovery_attempt: recovery.and_then(|recovery| recovery.attempt),
            recovery_since: recovery.and_then(|recovery| recovery.since),
            recovery_failures: recovery.map_or(0, |recovery| recovery.failures),
            recovery_retry_at: recovery.and_then(|recovery| recovery.retry_at),
            waiting: waiting.collect(),
        }
    }
}

/// What an event waited for: see [`Waiting`](scheduled_events_core::Waiting).
///
/// ```
/// use scheduled_events::state::WaitingEvent;
/// use scheduled_events_core::WaitsFor;
///
/// let event = WaitingEvent {
///     event_id: "a".to_owned(),
///     waits_for: WaitsFor::Preparation,
///     since: None,
///     until: None,
///     attempt: Some(1),
///     action: None,
///     rule: None,
///     reason: None,
///     last_call: false,
/// };
/// assert_eq!(format!("{} waits for: {}", event.event_id, event.waits_for), "a waits for: preparation");
/// ```
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
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub last_call: bool,
}

/// The hook of a change that was reported, which has not ended.
///
/// ```
/// use scheduled_events::record::EventRecord;
/// use scheduled_events::state::{PendingHook, State};
/// use scheduled_events_core::Change;
///
/// // The command for this change had not ended when the watcher was killed: it runs again.
/// let event = EventRecord { event_id: "a".to_owned(), ..EventRecord::default() };
/// let state = State { hooks: vec![PendingHook { change: Change::Started, event }], ..State::default() };
/// assert_eq!(state.hooks[0].change, Change::Started);
/// ```
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

/// Why a file has no state that can be used.
///
/// ```
/// use scheduled_events::state::Damage;
///
/// assert_eq!(Damage::NotAStateFile.to_string(), "it is not a state file");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Damage {
    /// The file is empty, or another program's.
    NotAStateFile,
    /// Another version of this crate wrote it.
    AnotherVersion {
        /// The version of its format.
        found: String,
    },
    /// A byte was changed or is missing.
    Checksum,
    /// A line is incomplete.
    Incomplete,
    /// What should be text is not.
    NotText,
    /// The text has another form, in the words of its reader.
    Content(String),
    /// A session does not accept the snapshot: it is damaged, or of another machine.
    Snapshot(SnapshotError),
    /// There is no memory for the snapshot's session.
    NoSession,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAStateFile => write!(f, "it is not a state file"),
            Self::AnotherVersion { found } => write!(
                f,
                "another version of this program wrote it: expected \"{FORMAT}\", found \"{ANY_FORMAT}{found}\""
            ),
            Self::Checksum => write!(f, "its checksum does not match its content"),
            Self::Incomplete => write!(f, "a line is incomplete"),
            Self::NotText => write!(f, "what follows the snapshot is not UTF-8 text"),
            Self::Content(message) => f.write_str(message),
            Self::Snapshot(error) => error.fmt(f),
            Self::NoSession => write!(f, "no session can be made"),
        }
    }
}

impl std::error::Error for Damage {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Snapshot(error) => Some(error),
            _ => None,
        }
    }
}

/// The state in a file, or what is wrong with it.
pub(super) fn parse(bytes: &[u8]) -> Result<State, Damage> {
    let another_version = |found: &[u8]| {
        let found = found
            .iter()
            .map(|&byte| byte as char)
            .take_while(char::is_ascii_digit)
            .take(9)
            .collect();
        Damage::AnotherVersion { found }
    };
    // The last place: a snapshot can contain anything, but JSON has no line feed in a string.
    let line = format!("\n{ANY_FORMAT}");
    let Some(at) = bytes
        .windows(line.len())
        .rposition(|window| window == line.as_bytes())
    else {
        if snapshot_length(bytes) == Some(bytes.len()) {
            return of_snapshot(bytes);
        }
        return Err(Damage::NotAStateFile);
    };
    let (session, text) = bytes.split_at(at);
    let text = std::str::from_utf8(text).map_err(|_| Damage::NotText)?;
    let (head, content) = text
        .get(1..)
        .and_then(|text| text.split_once('\n'))
        .ok_or(Damage::Incomplete)?;
    let checksum = head
        .strip_prefix(FORMAT)
        .ok_or_else(|| another_version(head.as_bytes().get(ANY_FORMAT.len()..).unwrap_or(b"")))?;
    if checksum.trim() != checksum_of(session, content) {
        return Err(Damage::Checksum);
    }
    let content: Content =
        serde_json::from_str(content).map_err(|error| Damage::Content(error.to_string()))?;
    Ok(State {
        session: session.to_vec(),
        events: content.events,
        hooks: content.pending_hooks,
        status: content.status,
    })
}

/// The state of a file that is only a snapshot: what a session that restores it knows.
fn of_snapshot(bytes: &[u8]) -> Result<State, Damage> {
    let mut session = session_without_names().ok_or(Damage::NoSession)?;
    session.restore(bytes).map_err(Damage::Snapshot)?;
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let now = UnixMillis(i64::try_from(now.as_millis()).unwrap_or(i64::MAX));
    let tracked = session.events().chain(session.recovering());
    let mut events: Vec<_> = tracked.map(EventRecord::of_tracked).collect();
    events.sort_by(|one, other| one.event_id.cmp(&other.event_id));
    // A tracked event may also be one to recover from.
    events.dedup_by(|one, other| one.event_id == other.event_id);
    // Which boot the snapshot is from is only known as a hash.
    let status = MachineStatus {
        boot_id: String::new(),
        ..MachineStatus::of(&session, now, 0)
    };
    Ok(State {
        session: bytes.to_vec(),
        events,
        hooks: Vec::new(),
        status,
    })
}

/// A session to restore a snapshot of any machine into.
// It is large, and a function that it is inlined into takes this space on the stack.
#[inline(never)]
fn session_without_names() -> Option<Box<Session<EVENTS_MAX>>> {
    Session::new(&SessionConfig::new(VmNames::UNKNOWN))
        .map(Box::new)
        .ok()
}

/// The file with this state.
pub(super) fn format(state: &State) -> io::Result<Vec<u8>> {
    let content = Content {
        status: state.status.clone(),
        events: state.events.clone(),
        pending_hooks: state.hooks.clone(),
    };
    let mut content = serde_json::to_string_pretty(&content)?;
    content.push('\n');
    let text = format!(
        "\n{FORMAT} {}\n{content}",
        checksum_of(&state.session, &content)
    );
    Ok([&state.session, text.as_bytes()].concat())
}

fn checksum_of(session: &[u8], content: &str) -> String {
    let mut digest = CRC_32.digest();
    digest.update(session);
    digest.update(content.as_bytes());
    format!("{:08x}", digest.finalize())
}

#[cfg(test)]
mod tests {
    use scheduled_events_core::{Session, SessionConfig, VmNames};

    use super::*;

    #[test]
    fn a_file_truncated_or_changed_at_any_byte_is_damaged() {
        let event = EventRecord {
            event_id: "a\u{1b}[2J".into(),
            ..EventRecord::default()
        };
        let hooks = vec![PendingHook {
            change: Change::StartedWithoutNotice,
            event: event.clone(),
        }];
        let state = State {
            session: vec![0, 1, 0xff],
            events: vec![event],
            hooks,
            status: MachineStatus::default(),
        };
        let whole = format(&state).unwrap();
        assert_eq!(parse(&whole), Ok(state.clone()));
        for index in 0..whole.len() {
            assert!(
                parse(&whole[..index]).is_err(),
                "{index} bytes were accepted"
            );
            for bit in 0..8 {
                let mut changed = whole.clone();
                changed[index] ^= 1 << bit;
                // The case of the checksum's digits does not matter.
                let accepted = parse(&changed);
                assert!(
                    accepted.is_err()
                        || accepted == Ok(state.clone()) && changed.eq_ignore_ascii_case(&whole),
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
        let alone = State {
            session: snapshot[..length].to_vec(),
            ..State::default()
        };
        assert_eq!(parse(&snapshot[..length]), Ok(alone));
        let mut changed = snapshot[..length].to_vec();
        changed[length - 1] ^= 1;
        assert!(parse(&changed).is_err_and(|reason| reason.to_string().contains("checksum")));
        assert!(parse(&snapshot[..length - 1]).is_err());
        assert!(parse(&snapshot[..=length]).is_err());
        assert!(parse(b"").is_err());
    }

    #[test]
    fn text_in_a_snapshot_is_not_mistaken_for_the_line() {
        let session = format!("SEVS\n{FORMAT} 00000000\n{{}}").into_bytes();
        let state = State {
            session,
            ..State::default()
        };
        assert_eq!(parse(&format(&state).unwrap()), Ok(state));
    }
}
