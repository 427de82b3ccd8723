//! Records: the one definition of what the command, the C library and Python log, one JSON object a line.
//!
//! A [`Record`] borrows everything it shows and implements [`serde::Serialize`]; any serde writer turns it into JSON
//! (`serde_json`, or `write_json` of the feature `json` where there is no allocator). [`KINDS`] describes each kind and its members;
//! `docs/use/records.md` is generated from it.
//!
//! ```
//! use scheduled_events_core::UnixSeconds;
//! use scheduled_events_core::record::{PrintableJson, Record};
//!
//! let record = Record::Approval { event_ids: &["a"], status: Some(200), events: &[] }.at(UnixSeconds(1_600_000_000));
//! let json = serde_json::to_string(&record)?;
//! assert_eq!(
//!     PrintableJson(&json).to_string(),
//!     r#"{"record":"approval","event_ids":["a"],"status":200,"events":[],"time":"2020-09-13T12:26:40Z"}"#
//! );
//! assert_eq!(record.to_string(), "2020-09-13T12:26:40Z a: approved");
//! # Ok::<(), serde_json::Error>(())
//! ```
//!
//! The order to read: [`Record`] and its members (this file), their `values`, how to `make` a record, its `line` for people, and its
//! `json` without an allocator. [`is_unsafe_to_print`] is the set of characters that every writer of records escapes.

mod example;
// Its tests need no feature.
#[cfg(any(feature = "json", test))]
mod json;
mod line;
mod make;
mod printable;
mod values;

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

pub use example::EXAMPLES;
#[cfg(any(feature = "json", test))]
pub use json::RecordTooLong;
pub use printable::{Printable, PrintableJson, is_unsafe_to_print};
pub use values::{CauseWord, GateOutcome, HookOutcome, ResourceList};

use crate::document::Incarnation;
use crate::event::{Member, ProblemKind};
use crate::json::Text;
use crate::policy::{Action, Reason};
use crate::session::{GatePhase, WaitsFor};
use crate::time::UnixSeconds;
use crate::tracker::Change;

/// One kind of record, for documentation and for other languages.
///
/// ```
/// use scheduled_events_core::record::KINDS;
///
/// let gate = KINDS.iter().find(|kind| kind.name == "gate").unwrap();
/// let members: Vec<_> = gate.members().map(|member| member.name).take(2).collect();
/// assert_eq!(members, ["event_id", "phase"]);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct RecordKind {
    /// The value of the member `record`.
    pub name: &'static str,
    /// The commands that emit it.
    pub commands: &'static str,
    /// When it is emitted.
    pub about: &'static str,
    /// The members of an event that precede the record's own.
    before: &'static [RecordMember],
    /// The record's own members.
    own: &'static [RecordMember],
    /// The members of an event that follow the record's own.
    after: &'static [RecordMember],
}

impl RecordKind {
    /// The members that follow `record`, in their order; records of a watcher also end with `time`.
    pub fn members(&self) -> impl Iterator<Item = &'static RecordMember> {
        self.before.iter().chain(self.own).chain(self.after)
    }
}

/// One member of a record, for documentation and for other languages.
///
/// ```
/// use scheduled_events_core::record::KINDS;
///
/// let approval = KINDS.iter().find(|kind| kind.name == "approval").unwrap();
/// let status = approval.members().find(|member| member.name == "status").unwrap();
/// assert_eq!(status.values, "number or null");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct RecordMember {
    /// Its name.
    pub name: &'static str,
    /// Its values, as JSON types.
    pub values: &'static str,
    /// What it means.
    pub about: &'static str,
}

/// Defines [`EventMembers`] and the list of its members: the id, and the others.
macro_rules! event_members {
    (
        $(#[doc = $id_doc:literal])+ $id:ident: $id_type:ty => $id_values:literal,
        $($(#[doc = $doc:literal])+ $member:ident: $type:ty => $values:literal,)+
    ) => {
        /// The members of an event, as records show them. What is unknown is `None`, and null in JSON.
        ///
        /// ```
        /// use scheduled_events_core::record::{EventMembers, Record};
        /// use scheduled_events_core::{Document, Text, VmNames};
        ///
        /// let document = Document::parse(br#"{"Events":[{"EventId":"a","EventType":"Reboot","Resources":["vm"]}]}"#)?;
        /// let event = document.events().next().unwrap();
        /// let members = EventMembers::from_event(&event, VmNames::new(&["vm"]));
        /// assert_eq!(members.mine, Some(true));
        /// let json = serde_json::to_string(&Record::Event { event: members })?;
        /// assert!(json.starts_with(r#"{"record":"event","event_id":"a","event_type":"Reboot","event_status":null,"#));
        /// // Of an event that is known only by its id.
        /// assert!(EventMembers::unknown(Text::plain("b")).event_type.is_none());
        /// # Ok::<(), Box<dyn std::error::Error>>(())
        /// ```
        #[derive(Clone, Copy, Debug, Serialize)]
        pub struct EventMembers<'a> {
            $(#[doc = $id_doc])+ pub $id: $id_type,
            $($(#[doc = $doc])+ pub $member: $type,)+
        }

        impl EventMembers<'_> {
            const MEMBERS: &'static [RecordMember] = &[
                RecordMember { name: stringify!($id), values: $id_values, about: concat!($($id_doc),+) },
                $(RecordMember { name: stringify!($member), values: $values, about: concat!($($doc),+) },)+
            ];

            const ID: &'static [RecordMember] = Self::MEMBERS.split_at(1).0;

            const OTHERS: &'static [RecordMember] = Self::MEMBERS.split_at(1).1;

            fn serialize_id<S: SerializeStruct>(&self, output: &mut S) -> Result<(), S::Error> {
                output.serialize_field(stringify!($id), &self.$id)
            }

            fn serialize_others<S: SerializeStruct>(&self, output: &mut S) -> Result<(), S::Error> {
                $(output.serialize_field(stringify!($member), &self.$member)?;)+
                Ok(())
            }
        }
    };
}

event_members! {
    /// The event's id, as Azure wrote it.
    event_id: Text<'a> => "string",
    /// What will happen: `Freeze`, `Reboot`, `Redeploy`, `Preempt`, `Terminate`, `SpotRebalanceRecommendation`, or a
    /// word that Azure adds later.
    event_type: Option<Text<'a>> => "string or null",
    /// `Scheduled`, `Started`, `Advisory`, or a word that Azure adds later.
    event_status: Option<Text<'a>> => "string or null",
    /// `VirtualMachine`.
    resource_type: Option<Text<'a>> => "string or null",
    /// The names of the machines that the event affects.
    resources: Option<ResourceList<'a>> => "array of strings, or null",
    /// The earliest time at which the event starts. Null if the document has none, as after the start, and none was seen
    /// before.
    not_before: Option<UnixSeconds> => "time or null",
    /// Azure's description of the event.
    description: Option<Text<'a>> => "string or null",
    /// Who caused the event: `Platform` or `User`.
    event_source: Option<Text<'a>> => "string or null",
    /// The expected length of the interruption in seconds; null if it is unknown.
    duration_in_seconds: Option<u32> => "number or null",
    /// Whether `resources` names this machine; null if this machine's name is unknown.
    mine: Option<bool> => "true, false or null",
}

/// Defines [`Record`] and the list of its kinds. `..event` writes an event's members after the record's own; with `event_id`
/// at the beginning, the event's id is written first.
macro_rules! records {
    ($(
        $(#[doc = $about:literal])+
        $variant:ident $name:literal by $commands:literal {
            $($id:ident,)?
            $($(#[doc = $doc:literal])+ $member:ident: $type:ty => $values:literal,)*
            $(..$event:ident)?
        }
    )+) => {
        /// One record. Serialised, it is an object whose first member, `record`, names the kind.
        ///
        /// ```
        /// use scheduled_events_core::record::Record;
        /// use scheduled_events_core::{Document, UnixSeconds};
        ///
        /// let body = b"{\"DocumentIncarnation\":2,\"Events\":[\n 7]}";
        /// let document = Document::parse(body)?;
        /// let record = Record::from_document(&document);
        /// assert_eq!(record.kind(), "document");
        /// assert_eq!(
        ///     serde_json::to_string(&record.at(UnixSeconds(1_600_000_000)))?,
        ///     r#"{"record":"document","incarnation":2,"events":0,"problems":1,"time":"2020-09-13T12:26:40Z"}"#
        /// );
        /// let problem = document.problems().next().unwrap();
        /// assert_eq!(
        ///     serde_json::to_string(&Record::from_problem(&problem, Some(body)))?,
        ///     r#"{"record":"problem","event":0,"member":null,"kind":"not-an-object","line":2,"column":2}"#
        /// );
        /// # Ok::<(), Box<dyn std::error::Error>>(())
        /// ```
        #[derive(Clone, Copy, Debug)]
        #[non_exhaustive]
        pub enum Record<'a> {
            $(
                $(#[doc = $about])+
                $variant {
                    $($(#[doc = $doc])+ $member: $type,)*
                    $(
                        /// The event; its members are the record's own.
                        $event: EventMembers<'a>,
                    )?
                },
            )+
        }

        /// All kinds of record.
        pub const KINDS: &[RecordKind] = &[$(RecordKind {
            name: $name,
            commands: $commands,
            about: concat!($($about),+),
            before: records!(@before $($id)?),
            own: &[$(RecordMember { name: stringify!($member), values: $values, about: concat!($($doc),+) },)*],
            after: records!(@after [$($id)?] [$($event)?]),
        },)+];

        impl Record<'_> {
            /// The kind: the value of the member `record`.
            pub const fn kind(&self) -> &'static str {
                match self {
                    $(Self::$variant { .. } => $name,)+
                }
            }

            fn member_count(&self) -> usize {
                let (own, before, after) = match self {
                    $(Self::$variant { .. } => (
                        &["record" $(, stringify!($member))*][..],
                        records!(@before $($id)?),
                        records!(@after [$($id)?] [$($event)?]),
                    ),)+
                };
                own.len().saturating_add(before.len()).saturating_add(after.len())
            }

            /// The record's event, and whether its id precedes the record's own members.
            const fn event(&self) -> Option<(&EventMembers<'_>, bool)> {
                match self {
                    $(Self::$variant { $($event,)? .. } => records!(@event [$($id)?] [$($event)?]),)+
                }
            }

            // The members of an event are written in one place, because the code for them is large.
            fn serialize_members<S: SerializeStruct>(&self, output: &mut S) -> Result<(), S::Error> {
                output.serialize_field("record", self.kind())?;
                let event = self.event();
                if let Some((event, true)) = event {
                    event.serialize_id(output)?;
                }
                match self {
                    $(Self::$variant { $($member,)* .. } => {
                        $(output.serialize_field(stringify!($member), $member)?;)*
                    })+
                }
                if let Some((event, false)) = event {
                    event.serialize_id(output)?;
                }
                event.map_or(Ok(()), |(event, _)| event.serialize_others(output))
            }
        }
    };
    (@before event_id) => { EventMembers::ID };
    (@before) => { &[] as &[RecordMember] };
    (@after [event_id] [event]) => { EventMembers::OTHERS };
    (@after [] [event]) => { EventMembers::MEMBERS };
    (@after [] []) => { &[] as &[RecordMember] };
    (@event [event_id] [$event:ident]) => { Some(($event, true)) };
    (@event [] [$event:ident]) => { Some(($event, false)) };
    (@event [] []) => { None };
}

records! {
    /// A document was read.
    Document "document" by "list, check, wait" {
        /// The document's incarnation: it changes whenever the document changes.
        incarnation: Incarnation<'a> => "number, string or null",
        /// The number of events.
        events: usize => "number",
        /// The number of problems.
        problems: usize => "number",
    }

    /// An event of the document.
    Event "event" by "list, check, wait" {
        ..event
    }

    /// A part of the document is invalid. The rest of the document is used.
    Problem "problem" by "list, check, wait, watch" {
        /// The event's index in the array `Events`; null for the document itself.
        event: Option<usize> => "number or null",
        /// The invalid member, as the document spells it; null if the problem is not in a member.
        member: Option<Member> => "string or null",
        /// `missing`, `repeated`, `empty`, `too-long`, `wrong-type`, `not-an-object`, `out-of-range`, `not-an-integer` or
        /// `unreadable-time`.
        kind: ProblemKind => "string",
        /// The line of the document, from 1; null if the document is no longer in memory.
        line: Option<u32> => "number or null",
        /// The column in characters, from 1; null if the document is no longer in memory.
        column: Option<u32> => "number or null",
    }

    /// An event changed.
    Change "change" by "watch" {
        /// `scheduled`, `started`, `started-without-notice`, `rescheduled`, `updated`, `completed`, `cancelled`, `ended`, `advised`
        /// or `advice-withdrawn`.
        change: Change => "string",
        ..event
    }

    /// The policy decided about an event: for the first time, or differently from before.
    Decision "decision" by "check, watch" {
        event_id,
        /// `approve`, `prepare`, `hold` or `ignore`.
        action: Action => "string",
        /// The number of the rule that decided, from 1; null if no rule did.
        rule: Option<u16> => "number or null",
        /// Why, in a few words for people.
        reason: Reason => "string",
        ..event
    }

    /// An approval was posted.
    Approval "approval" by "approve, watch" {
        /// The ids of the events that it approves.
        event_ids: &'a [&'a str] => "array of strings",
        /// The HTTP status of the response; null if there was none.
        status: Option<u16> => "number or null",
        /// The same events in the same order, each with the members of the record `event`.
        events: &'a [EventMembers<'a>] => "array of objects",
    }

    /// A preparation begins, or has ended. That it begins is in the audit file before its command starts, unless that file cannot
    /// be written.
    Prepare "prepare" by "watch" {
        event_id,
        /// `begun`, `ready`, `failed`, `abandoned`, `timed-out`, `stopped`, `cancelled` or `no-command`.
        outcome: HookOutcome => "string",
        /// The number of the attempt, as its command has it in `SCHEDULED_EVENTS_ATTEMPT`.
        attempt: Option<u32> => "number or null",
        ..event
    }

    /// The gate answered, for the first time or differently from before, or the machine prepares although it has not.
    Gate "gate" by "watch" {
        event_id,
        /// `prepare` or `approve`: what the gate was asked.
        phase: GatePhase => "string",
        /// `open`, `another-approves`, `closed`, or `last-call`: the gate has not answered yes, and the preparation cannot wait any
        /// longer.
        outcome: GateOutcome => "string",
        ..event
    }

    /// A recovery ended. Its event is the one that ended last.
    Recover "recover" by "watch" {
        event_id,
        /// The ids of all events that the recovery is for.
        event_ids: &'a [&'a str] => "array of strings",
        /// `done`, `failed`, `timed-out`, `stopped`, `cancelled`, `no-command` or `dry-run`; null if the recovery has yet to
        /// begin.
        outcome: Option<HookOutcome> => "string or null",
        ..event
    }

    /// A poll failed. It ends no event; the next poll follows.
    PollFailed "poll-failed" by "watch" {
        /// `timeout`, `unreachable`, `connection-lost`, `too-large`, `empty-body`, `not-a-document`, `status-503` or
        /// `redirect-302`, with the status received.
        cause: CauseWord => "string",
        /// Milliseconds until the next poll.
        retry_in_ms: u32 => "number",
    }

    /// The document announces more events than the watcher can follow.
    Untracked "untracked" by "watch" {
        /// This machine's events that are not followed.
        own: usize => "number",
        /// Other machines' events that are not followed.
        others: usize => "number",
    }

    /// A rule names advice, and the service does not know the API version that has it. It is tried again once a day, and reported once.
    NoAdvice "no-advice" by "watch" {
        /// The version that the service does not know.
        api_version: &'a str => "string",
    }

    /// Records are missing here, because the audit file could not be written. Only the audit file has this record.
    Gap "gap" by "watch" {
        /// The number of records that were lost.
        lost: u64 => "number",
        /// When the first of them was made; `time` is that of the last one.
        since: UnixSeconds => "time",
    }

    /// The machine, as its watcher saved it last.
    Status "status" by "status" {
        /// Whether the machine is in service.
        in_service: bool => "true or false",
        /// Since when it is in service or out of service; null if it is in service and was never recovered.
        since: Option<UnixSeconds> => "time or null",
        /// The number of the recovery that runs; null if none does.
        recovery_attempt: Option<u32> => "number or null",
        /// Since when that recovery runs.
        recovery_since: Option<UnixSeconds> => "time or null",
        /// How often the recovery failed in a row.
        recovery_failures: u16 => "number",
        /// When a failed recovery is tried again; null while an event keeps the machine out of service.
        recovery_retry_at: Option<UnixSeconds> => "time or null",
        /// The number of events that are followed.
        events: usize => "number",
        /// Whether a watcher uses the state file now.
        watched: bool => "true or false",
        /// The id of that watcher's process; null if there is none.
        process: Option<u32> => "number or null",
        /// When the state file was saved last: when something changed, not at each poll.
        saved: UnixSeconds => "time",
        /// Whether it was saved before the machine was started, or on another machine; null if that is unknown.
        outdated: Option<bool> => "true, false or null",
        /// Whether the watcher is blind: no document arrived for 10 s, or three intervals if that is longer, or the watcher hangs;
        /// null if nothing watches, or if that is unknown.
        blind: Option<bool> => "true, false or null",
        /// When the last document arrived, as the watcher reports every few seconds; null if there was none, or if that is unknown.
        last_document: Option<UnixSeconds> => "time or null",
        /// How many polls failed since; null if that is unknown.
        failed_polls: Option<u32> => "number or null",
        /// Why the last one failed; null if it did not.
        cause: Option<Text<'a>> => "string or null",
        /// Why the configuration could not be read again, if that was tried last: the one before counts. Else null.
        config_reload_failed: Option<Text<'a>> => "string or null",
    }

    /// What an event waits for.
    Waiting "waiting" by "status" {
        event_id,
        /// `document`, `due-time`, `gate-to-prepare`, `preparation`, `gate-to-approve`, `turn`, `approval`, `start` (it is
        /// approved), `start-unapproved`, `start-unprepared`, `cancelled-command`, `end`, `withdrawal` or `recovery`.
        waits_for: WaitsFor => "string",
        /// Since when that runs; null if it does not.
        since: Option<UnixSeconds> => "time or null",
        /// When it happens at the earliest, or is tried again; null if that is unknown.
        until: Option<UnixSeconds> => "time or null",
        /// The number of the attempt that runs, as its command has it in `SCHEDULED_EVENTS_ATTEMPT`; null if none does.
        attempt: Option<u32> => "number or null",
        /// `approve`, `prepare`, `hold` or `ignore`; null before the first document after a start.
        action: Option<Action> => "string or null",
        /// The number of the rule that decided, from 1; null if no rule did.
        rule: Option<u16> => "number or null",
        /// Why, in a few words for people.
        reason: Option<Text<'a>> => "string or null",
        /// Whether the machine prepares, or has prepared, by the last call, and the gate has not answered yes since.
        last_call: bool => "true or false",
        ..event
    }

    /// A scenario that `replay` and `demo` can play.
    Scenario "scenario" by "scenarios" {
        /// Its name.
        name: &'a str => "string",
        /// What it shows.
        about: &'a str => "string",
    }
}

/// A record of a watcher: the members of [`Record`], followed by `time`, and by `machine` and `vm_id` if they are known.
///
/// ```
/// use scheduled_events_core::UnixSeconds;
/// use scheduled_events_core::record::Record;
///
/// let record = Record::Approval { event_ids: &["a"], status: Some(200), events: &[] };
/// let timed = record.at(UnixSeconds(1_600_000_000));
/// assert!(serde_json::to_string(&timed)?.ends_with(r#","time":"2020-09-13T12:26:40Z"}"#));
/// let timed = timed.of_machine(Some("WestNO_0"), None);
/// assert!(serde_json::to_string(&timed)?.ends_with(r#","time":"2020-09-13T12:26:40Z","machine":"WestNO_0"}"#));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct TimedRecord<'a> {
    /// The record.
    pub record: Record<'a>,
    /// When it was made.
    pub time: UnixSeconds,
    /// The name of the machine whose watcher made it, once it is known.
    pub machine: Option<&'a str>,
    /// That machine's `vmId`, once it is known.
    pub vm_id: Option<&'a str>,
}

impl<'a> TimedRecord<'a> {
    /// The record with the machine whose watcher made it.
    ///
    /// ```
    /// use scheduled_events_core::UnixSeconds;
    /// use scheduled_events_core::record::Record;
    ///
    /// let record = Record::Untracked { own: 0, others: 7 }.at(UnixSeconds(0)).of_machine(Some("web_0"), Some("02aab8a4"));
    /// assert_eq!((record.machine, record.vm_id), (Some("web_0"), Some("02aab8a4")));
    /// ```
    #[must_use]
    pub const fn of_machine(self, machine: Option<&'a str>, vm_id: Option<&'a str>) -> Self {
        Self {
            machine,
            vm_id,
            ..self
        }
    }
}

impl Serialize for Record<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut output = serializer.serialize_struct("Record", self.member_count())?;
        self.serialize_members(&mut output)?;
        output.end()
    }
}

impl Serialize for TimedRecord<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let members = self
            .record
            .member_count()
            .saturating_add(1)
            .saturating_add(usize::from(self.machine.is_some()))
            .saturating_add(usize::from(self.vm_id.is_some()));
        let mut output = serializer.serialize_struct("TimedRecord", members)?;
        self.record.serialize_members(&mut output)?;
        output.serialize_field("time", &self.time)?;
        for (name, value) in [("machine", self.machine), ("vm_id", self.vm_id)] {
            if let Some(value) = value {
                output.serialize_field(name, value)?;
            }
        }
        output.end()
    }
}
