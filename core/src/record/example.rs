//! An example of each kind of record.

use super::{CauseWord, EventMembers, GateOutcome, HookOutcome, Record, ResourceList};
use crate::document::Incarnation;
use crate::event::Member;
use crate::event::ProblemKind;
use crate::json::Text;
use crate::policy::{Action, Reason};
use crate::session::{Cause, GatePhase, WaitsFor};
use crate::time::UnixSeconds;
use crate::tracker::Change;

const EVENT_ID: &str = "C7061BAC-AFDC-4513-B24B-AA5F13A16123";

const EVENT: EventMembers<'static> = EventMembers {
    event_id: Text::plain(EVENT_ID),
    event_type: Some(Text::plain("Freeze")),
    event_status: Some(Text::plain("Scheduled")),
    resource_type: Some(Text::plain("VirtualMachine")),
    resources: Some(ResourceList::Names(&["WestNO_0", "WestNO_1"])),
    not_before: Some(UnixSeconds(1_649_716_018)),
    description: Some(Text::plain(
        "Virtual machine is being paused because of a memory-preserving Live Migration operation.",
    )),
    event_source: Some(Text::plain("Platform")),
    duration_in_seconds: Some(5),
    mine: Some(true),
};

/// An example of each kind, in the order of [`KINDS`](super::KINDS): for documentation, and for tests of readers.
pub const EXAMPLES: &[Record<'static>] = &[
    Record::Document {
        incarnation: Incarnation::Number(2),
        events: 1,
        problems: 0,
    },
    Record::Event { event: EVENT },
    Record::Problem {
        event: Some(0),
        member: Some(Member::NotBefore),
        kind: ProblemKind::UnreadableTime,
        line: Some(1),
        column: Some(203),
    },
    Record::Change {
        change: Change::Scheduled,
        event: EVENT,
    },
    Record::Decision {
        action: Action::Approve,
        rule: Some(2),
        reason: Reason::ShortInterruption,
        event: EVENT,
    },
    Record::Approval {
        event_ids: &[EVENT_ID],
        status: Some(200),
        events: &[EVENT],
    },
    Record::Prepare {
        outcome: HookOutcome::Ready,
        attempt: Some(1),
        event: EVENT,
    },
    Record::Gate {
        phase: GatePhase::Approve,
        outcome: GateOutcome::Open,
        event: EVENT,
    },
    Record::Recover {
        event_ids: &[EVENT_ID],
        outcome: Some(HookOutcome::Done),
        event: EVENT,
    },
    Record::PollFailed {
        cause: CauseWord(Cause::Status(503)),
        retry_in_ms: 1_000,
    },
    Record::Untracked { own: 0, others: 12 },
    Record::NoAdvice {
        api_version: "2024-07-09",
    },
    Record::Gap {
        lost: 17,
        since: UnixSeconds(1_649_715_600),
    },
    Record::Status {
        in_service: false,
        since: Some(UnixSeconds(1_649_715_600)),
        recovery_attempt: None,
        recovery_since: None,
        recovery_failures: 0,
        recovery_retry_at: None,
        events: 1,
        watched: true,
        process: Some(4711),
        saved: UnixSeconds(1_649_715_658),
        outdated: Some(false),
        blind: Some(true),
        last_document: Some(UnixSeconds(1_649_715_671)),
        failed_polls: Some(7),
        cause: Some(Text::plain("status 503")),
        config_reload_failed: None,
    },
    Record::Waiting {
        waits_for: WaitsFor::Preparation,
        since: Some(UnixSeconds(1_649_715_600)),
        until: None,
        attempt: Some(1),
        action: Some(Action::Prepare),
        rule: Some(2),
        reason: Some(Text::plain("a rule matches")),
        last_call: false,
        event: EVENT,
    },
    Record::Scenario {
        name: "user-reboot",
        about: "A user restarts this VM in the portal, and the restart waits for the VM's approval.",
    },
];

#[cfg(test)]
mod tests {
    use std::string::{String, ToString};
    use std::vec::Vec;

    use serde::Serialize;
    use serde_json::Value;

    use super::*;
    use crate::document::Document;
    use crate::names::VmNames;
    use crate::record::{KINDS, PrintableJson};

    /// What `serde_json` writes; `serde-json-core` must write the same bytes.
    fn json(record: &impl Serialize) -> String {
        let text = serde_json::to_string(record).unwrap();
        let mut buffer = std::vec![0; text.len()];
        assert_eq!(
            serde_json_core::to_slice(record, &mut buffer),
            Ok(text.len()),
            "{text}"
        );
        assert_eq!(buffer, text.as_bytes());
        text
    }

    #[test]
    fn each_kind_has_an_example_with_the_listed_members() {
        assert_eq!(EXAMPLES.len(), KINDS.len());
        for (record, kind) in EXAMPLES.iter().zip(KINDS) {
            assert_eq!(record.kind(), kind.name);
            let value: Value = serde_json::from_str(&json(record)).unwrap();
            let members: Vec<_> = value.as_object().unwrap().keys().cloned().collect();
            let mut listed: Vec<_> = ["record"]
                .into_iter()
                .chain(kind.members().map(|member| member.name))
                .collect();
            listed.sort_unstable();
            assert_eq!(members, listed);
            assert_eq!(record.member_count(), listed.len());
            // Each kind in the order of its list.
            let text = json(record);
            let places: Vec<_> = kind
                .members()
                .map(|member| text.find(&std::format!("\"{}\":", member.name)).unwrap())
                .collect();
            assert!(places.is_sorted(), "{text}");
            let timed = json(&record.at(UnixSeconds(0)));
            assert_eq!(
                timed,
                std::format!(
                    r#"{},"time":"1970-01-01T00:00:00Z"}}"#,
                    json(record).trim_end_matches('}')
                )
            );
        }
    }

    #[test]
    fn a_record_about_an_event_begins_with_its_id_and_ends_with_its_other_members() {
        let event = json(&EVENT);
        let (id, others) = event.trim_matches(['{', '}']).split_once(',').unwrap();
        for (record, own) in [
            (
                Record::Decision {
                    action: Action::Hold,
                    rule: None,
                    reason: Reason::NoRule,
                    event: EVENT,
                },
                r#""action":"hold","rule":null,"reason":"no rule matches""#,
            ),
            (
                Record::Prepare {
                    outcome: HookOutcome::Begun,
                    attempt: Some(3),
                    event: EVENT,
                },
                r#""outcome":"begun","attempt":3"#,
            ),
            (
                Record::Gate {
                    phase: GatePhase::Prepare,
                    outcome: GateOutcome::LastCall,
                    event: EVENT,
                },
                r#""phase":"prepare","outcome":"last-call""#,
            ),
            (
                Record::Recover {
                    event_ids: &["b", "a"],
                    outcome: None,
                    event: EVENT,
                },
                r#""event_ids":["b","a"],"outcome":null"#,
            ),
        ] {
            assert_eq!(
                json(&record),
                std::format!(r#"{{"record":"{}",{id},{own},{others}}}"#, record.kind())
            );
        }
    }

    #[test]
    fn members_are_written_in_their_order_and_null_if_unknown() {
        let unknown = EventMembers::unknown(Text::from_raw(r"a\n\u202e\ud83d\ude00", true));
        let event = EventMembers {
            resources: Some(ResourceList::Names(&[])),
            ..unknown
        };
        let expected = r#"{"record":"change","change":"ended","event_id":"a\n\u202e😀","event_type":null,"event_status":null,"resource_type":null,"resources":[],"not_before":null,"description":null,"event_source":null,"duration_in_seconds":null,"mine":null}"#;
        let record = Record::Change {
            change: Change::Ended,
            event,
        };
        assert_eq!(PrintableJson(&json(&record)).to_string(), expected);
        let events = [event, event];
        let approval = json(&Record::Approval {
            event_ids: &["a", "b"],
            status: None,
            events: &events,
        });
        let expected = std::format!(
            r#"{{"record":"approval","event_ids":["a","b"],"status":null,"events":[{event},{event}]}}"#,
            event = json(&event)
        );
        assert_eq!(approval, expected);
        assert_eq!(
            json(&event),
            json(&Record::Event { event }).replacen(r#""record":"event","#, "", 1)
        );
    }

    #[test]
    fn an_event_of_a_document_is_written_from_its_bytes() {
        let body = br#"{"DocumentIncarnation":"x","Events":[{"EventId":"a\u0062","EventType":"Fr\u0065eze","EventStatus":"Paused",
            "Resources":["vm_0","\u0076m_1",7],"NotBefore":"Mon, 11 Apr 2022 22:26:58 GMT","DurationInSeconds":-1}]}"#;
        let document = Document::parse(body).unwrap();
        let event =
            EventMembers::from_event(&document.events().next().unwrap(), VmNames::new(&["vm_1"]));
        assert_eq!(
            json(&event),
            r#"{"event_id":"ab","event_type":"Freeze","event_status":"Paused","resource_type":null,"resources":["vm_0","vm_1"],"not_before":"2022-04-11T22:26:58Z","description":null,"event_source":null,"duration_in_seconds":null,"mine":true}"#
        );
        let record = Record::from_document(&document);
        assert_eq!(
            json(&record),
            r#"{"record":"document","incarnation":"x","events":1,"problems":1}"#
        );
        let problem = document.problems().next().unwrap();
        assert!(json(&Record::from_problem(&problem, Some(body))).contains(r#""line":2,"column""#));
        assert!(
            json(&Record::from_problem(&problem, None)).contains(r#""line":null,"column":null"#)
        );
    }

    #[test]
    fn words_are_what_serde_writes() {
        for outcome in [
            HookOutcome::Begun,
            HookOutcome::Ready,
            HookOutcome::Done,
            HookOutcome::Failed,
            HookOutcome::Abandoned,
            HookOutcome::TimedOut,
            HookOutcome::Stopped,
            HookOutcome::NoCommand,
            HookOutcome::DryRun,
        ] {
            assert_eq!(serde_json::to_value(outcome).unwrap(), outcome.word());
        }
        for (cause, word) in [
            (Cause::Timeout, "timeout"),
            (Cause::Status(503), "status-503"),
            (Cause::Redirect(302), "redirect-302"),
        ] {
            assert_eq!(json(&CauseWord(cause)), std::format!("\"{word}\""));
        }
    }
}
