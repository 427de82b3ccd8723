//! Records: the steps of a session as JSON Lines.

use std::ffi::c_char;

use scheduled_events_core::record::{EventMembers, HookOutcome, Record};
use scheduled_events_core::wire::ADVICE_API_VERSION;
use scheduled_events_core::{Event, EventId, Session, Text, UnixSeconds, VmNames};

use crate::abi::pointers::{input, output_buffer, zero};
use crate::abi::tagged::object;
use crate::boundary::{Result, boundary};
use crate::document::event::SCHEDEV_EVENT_ID_MAX_BYTES;
use crate::document::event::schedev_event_status::{
    SCHEDEV_EVENT_STATUS_ADVISORY, SCHEDEV_EVENT_STATUS_SCHEDULED, SCHEDEV_EVENT_STATUS_STARTED,
};
use crate::document::{ParsedDocument, schedev_document};
use crate::json::fill_json;
use crate::session::SCHEDEV_SESSION_EVENTS_MAX;
use crate::session::step::schedev_step;
use crate::session::step::schedev_step_kind::*;
use crate::status::schedev_status::{self, SCHEDEV_END, SCHEDEV_ERROR_ARGUMENT};
use crate::text::{core_text, schedev_text};
use crate::tracker::{change_of, schedev_tracked_event};

/// The largest record of a step without a document and a schedev_machine, in bytes, its NUL included: a recovery from
/// SCHEDEV_SESSION_EVENTS_MAX events whose ids are of control characters. Other records have less than 1024 bytes.
pub const SCHEDEV_STEP_JSON_MAX_BYTES: usize = 26_624;

// Each byte of an id takes at most six bytes, and each id two quotes and a comma.
const _: () = assert!(
    SCHEDEV_SESSION_EVENTS_MAX * (6 * SCHEDEV_EVENT_ID_MAX_BYTES + 3) + OTHER_MAX_BYTES
        <= SCHEDEV_STEP_JSON_MAX_BYTES
);

/// More than the bytes of each record without its `event_ids`.
const OTHER_MAX_BYTES: usize = 1024;

/// The machine that records are of, for schedev_step_json(). Zero it before you fill it in.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct schedev_machine {
    /// Its name, as Resources spell it: the response to SCHEDEV_NAME_PATH. Empty if it is unknown.
    pub name: schedev_text,
    /// Its vmId: the response to SCHEDEV_VM_ID_PATH. Empty if it is unknown.
    pub vm_id: schedev_text,
    /// For later versions: zero.
    pub reserved: [u64; 4],
}

/// Writes a step as a JSON object on one line, without a line feed: a record as the command `scheduled-events watch
/// --json` emits it. docs/use/records.md describes the members.
///
/// PREPARE, RECOVER, CHANGE, DECISION, LAST_CALL, PROBLEM, UNTRACKED and NO_ADVICE have a record: "prepare", "recover", "change",
/// for LAST_CALL "gate", and so on. The others have none. The members of an event are those of the newest document, but for its status, its NotBefore and whether it
/// is this machine's, of which the session knows more. A session does not keep an event's resources, description, source and
/// resource type, nor where a problem is: they are null without the document, or if the event is no longer in it. The outcome of "prepare" and
/// "recover" is null, because the step is their beginning. Each record ends with "time", and with "machine" and "vm_id" as far as
/// machine has them. Control characters, invisible characters and those that change the
/// direction of text are escaped, so that the record is safe to print.
///
/// @param step      a step from schedev_session_next(), before the next call that changes the session.
/// @param document  the newest document; NULL if it is not at hand.
/// @param machine   this machine, whose texts have no escapes; NULL if it is unknown.
/// @param buffer    receives the record, and a NUL after it if a byte is left; NULL if capacity is 0.
/// @param capacity  the size of the buffer in bytes; without a document and a
///                  machine, SCHEDEV_STEP_JSON_MAX_BYTES are always enough.
/// @param needed    receives the length of the record in bytes, without the NUL, even if the buffer is too small.
/// @return SCHEDEV_OK; SCHEDEV_END if the step has no record; SCHEDEV_ERROR_BUFFER_TOO_SMALL, and the buffer is
///         unchanged; SCHEDEV_ERROR_NULL; SCHEDEV_ERROR_ARGUMENT or SCHEDEV_ERROR_UTF8 if the step was changed,
///         if the document is not initialised, or if a text of the machine has escapes or is not UTF-8.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedev_step_json(
    step: *const schedev_step,
    document: *const schedev_document,
    machine: *const schedev_machine,
    buffer: *mut c_char,
    capacity: usize,
    needed: *mut usize,
) -> schedev_status {
    boundary(|| {
        let step: &schedev_step = checked!(input(step));
        zero(&step.reserved)?;
        let document = if document.is_null() {
            None
        } else {
            Some(checked!(object(document)))
        };
        let (machine, vm_id) = if machine.is_null() {
            (None, None)
        } else {
            let machine: &schedev_machine = checked!(input(machine));
            zero(&machine.reserved)?;
            let (name, vm_id) = (&machine.name, &machine.vm_id);
            let (name, vm_id) = (checked!(core_text(name)), checked!(core_text(vm_id)));
            (known(name)?, known(vm_id)?)
        };
        let buffer = checked!(output_buffer(buffer, capacity, needed));
        let (event_id, event_type) = (&step.event.event_id, &step.event.event_type_text);
        let texts = EventTexts {
            id: checked!(core_text(event_id)),
            event_type: checked!(core_text(event_type)),
        };
        let id = texts.id.as_str().ok_or(SCHEDEV_ERROR_ARGUMENT)?;
        let mut ids = [id; SCHEDEV_SESSION_EVENTS_MAX];
        let ids = if step.session.is_null() {
            ids.get(..1).unwrap_or_default()
        } else {
            recovering(checked!(object(step.session)), &mut ids)
        };
        let time = UnixSeconds(step.now_ms.div_euclid(1000));
        let record = record_of(step, texts, document, ids)?
            .at(time)
            .of_machine(machine, vm_id);
        fill_json(buffer, &record)
    })
}

/// A text that may be empty and has no escapes.
fn known(text: Text<'_>) -> Result<Option<&str>> {
    let plain = text.as_str().ok_or(SCHEDEV_ERROR_ARGUMENT)?;
    Ok(Some(plain).filter(|plain| !plain.is_empty()))
}

/// The ids of the events that the recovery of this machine is for.
fn recovering<'a>(
    session: &'a Session<SCHEDEV_SESSION_EVENTS_MAX>,
    ids: &'a mut [&'a str],
) -> &'a [&'a str] {
    let all = session.recovering().map(|event| event.event_id().as_str());
    let mut count: usize = 0;
    // `count` panics on overflow.
    for (place, id) in ids.iter_mut().zip(all) {
        *place = id;
        count = count.saturating_add(1);
    }
    ids.get(..count).unwrap_or_default()
}

/// The texts of a step's event.
#[derive(Clone, Copy)]
struct EventTexts<'a> {
    id: Text<'a>,
    event_type: Text<'a>,
}

/// The record of a step; `SCHEDEV_END` if it has none.
#[cold] // Smaller: records are rare.
fn record_of<'a>(
    step: &schedev_step,
    texts: EventTexts<'a>,
    document: Option<&ParsedDocument>,
    ids: &'a [&'a str],
) -> Result<Record<'a>> {
    let event = event_members(
        &step.event,
        texts,
        document.and_then(|document| document.find(&EventId::new(&texts.id))),
    );
    let position = document.map(|document| document.position(step.problem.offset));
    Ok(match step.kind {
        kind if kind == SCHEDEV_STEP_PREPARE as u32 => Record::Prepare {
            outcome: HookOutcome::Begun,
            attempt: Some(step.attempt),
            event,
        },
        kind if kind == SCHEDEV_STEP_RECOVER as u32 => Record::Recover {
            event_ids: ids,
            outcome: None,
            event,
        },
        kind if kind == SCHEDEV_STEP_CHANGE as u32 => Record::Change {
            change: change_of(step.change).ok_or(SCHEDEV_ERROR_ARGUMENT)?,
            event,
        },
        kind if kind == SCHEDEV_STEP_DECISION as u32 => Record::Decision {
            event,
            action: step.decision.core_action().ok_or(SCHEDEV_ERROR_ARGUMENT)?,
            rule: u16::try_from(step.decision.rule)
                .ok()
                .filter(|rule| *rule > 0),
            reason: step.decision.core_reason().ok_or(SCHEDEV_ERROR_ARGUMENT)?,
        },
        kind if kind == SCHEDEV_STEP_LAST_CALL as u32 => Record::last_call(event),
        kind if kind == SCHEDEV_STEP_PROBLEM as u32 => Record::Problem {
            event: step
                .problem
                .has_event
                .is_on()
                .then_some(step.problem.event_index),
            member: step.problem.core_member(),
            kind: step.problem.core_kind().ok_or(SCHEDEV_ERROR_ARGUMENT)?,
            line: position.map(|position| position.line),
            column: position.map(|position| position.column),
        },
        kind if kind == SCHEDEV_STEP_UNTRACKED as u32 => Record::Untracked {
            own: step.untracked_own,
            others: step.untracked_others,
        },
        kind if kind == SCHEDEV_STEP_NO_ADVICE as u32 => Record::NoAdvice {
            api_version: ADVICE_API_VERSION,
        },
        _ => return Err(SCHEDEV_END),
    })
}

/// The members that the session keeps, and those that the document has.
#[cold]
fn event_members<'a>(
    event: &schedev_tracked_event,
    texts: EventTexts<'a>,
    in_document: Option<Event<'a>>,
) -> EventMembers<'a> {
    let event_status = match event.event_status {
        status if status == SCHEDEV_EVENT_STATUS_SCHEDULED as u32 => Some(Text::plain("Scheduled")),
        status if status == SCHEDEV_EVENT_STATUS_STARTED as u32 => Some(Text::plain("Started")),
        status if status == SCHEDEV_EVENT_STATUS_ADVISORY as u32 => Some(Text::plain("Advisory")),
        _ => None,
    };
    let kept = EventMembers {
        event_type: (!texts.event_type.is_empty()).then_some(texts.event_type),
        event_status,
        not_before: event
            .has_not_before
            .is_on()
            .then_some(UnixSeconds(event.not_before_seconds)),
        duration_in_seconds: event.has_duration.is_on().then_some(event.duration_seconds),
        mine: event.has_mine.is_on().then_some(event.mine.is_on()),
        ..EventMembers::unknown(texts.id)
    };
    kept.with_newest(in_document.map(|event| EventMembers::from_event(&event, VmNames::UNKNOWN)))
}

#[cfg(test)]
mod tests {
    use std::string::String;

    use super::*;
    use crate::abi::pointers::Flag;
    use crate::document::problem::schedev_problem;
    use crate::policy::{schedev_decision, schedev_reason};
    use crate::session::step::schedev_step_kind;

    fn step(kind: schedev_step_kind) -> schedev_step {
        let mut step = schedev_step {
            kind: kind as u32,
            now_ms: 1_649_716_018_999,
            ..schedev_step::NONE
        };
        step.event.event_id = crate::text::schedev_text::plain("a\"b");
        step
    }

    fn json(step: &schedev_step) -> core::result::Result<String, schedev_status> {
        json_of(step, core::ptr::null())
    }

    fn json_of(
        step: &schedev_step,
        machine: *const schedev_machine,
    ) -> core::result::Result<String, schedev_status> {
        let mut buffer = [0xa5_u8; 2 * OTHER_MAX_BYTES];
        let mut needed = 0;
        // SAFETY: the step, the machine, the buffer and the size are alive.
        let status = unsafe {
            schedev_step_json(
                step,
                core::ptr::null(),
                machine,
                buffer.as_mut_ptr().cast(),
                buffer.len(),
                &raw mut needed,
            )
        };
        if status != schedev_status::SCHEDEV_OK {
            return Err(status);
        }
        assert_eq!(buffer[needed], 0);
        Ok(core::str::from_utf8(&buffer[..needed]).unwrap().to_owned())
    }

    #[test]
    fn a_record_ends_with_the_machine_as_far_as_it_is_known() {
        let step = step(SCHEDEV_STEP_UNTRACKED);
        let record = r#"{"record":"untracked","own":0,"others":0,"time":"2022-04-11T22:26:58Z""#;
        let machine = |name: &'static str, vm_id: &'static str| schedev_machine {
            name: schedev_text::plain(name),
            vm_id: schedev_text::plain(vm_id),
            reserved: [0; 4],
        };
        for (machine, expected) in [
            (machine("", ""), "}"),
            (machine("web\n", ""), r#","machine":"web\n"}"#),
            (
                machine("web_0", "02aab8a4"),
                r#","machine":"web_0","vm_id":"02aab8a4"}"#,
            ),
        ] {
            assert_eq!(
                json_of(&step, &raw const machine),
                Ok(format!("{record}{expected}"))
            );
        }
        let mut escaped = machine("", "web\\u005f0");
        escaped.vm_id.escaped = Flag::new(true);
        let reserved = schedev_machine {
            reserved: [0, 1, 0, 0],
            ..machine("", "")
        };
        for refused in [escaped, reserved] {
            assert_eq!(
                json_of(&step, &raw const refused),
                Err(SCHEDEV_ERROR_ARGUMENT)
            );
        }
    }

    #[test]
    fn each_kind_with_a_record_is_written() {
        let mut change = step(SCHEDEV_STEP_CHANGE);
        change.change = crate::tracker::schedev_change::SCHEDEV_CHANGE_STARTED as u32;
        change.event.event_type_text = crate::text::schedev_text::plain("Reboot");
        change.event.event_status = SCHEDEV_EVENT_STATUS_STARTED as u32;
        change.event.has_not_before = Flag::new(true);
        change.event.has_mine = Flag::new(true);
        let mut decision = step(SCHEDEV_STEP_DECISION);
        decision.decision = schedev_decision {
            action: crate::policy::schedev_action::SCHEDEV_ACTION_APPROVE as u32,
            reason: schedev_reason::SCHEDEV_REASON_SHORT_INTERRUPTION as u32,
            rule: 2,
            ..schedev_decision::NONE
        };
        decision.event.event_type_text = crate::text::schedev_text::plain("Freeze");
        decision.event.event_status = SCHEDEV_EVENT_STATUS_SCHEDULED as u32;
        decision.event.has_duration = Flag::new(true);
        decision.event.duration_seconds = 5;
        let mut problem = step(SCHEDEV_STEP_PROBLEM);
        problem.problem = schedev_problem {
            kind: crate::document::problem::schedev_problem_kind::SCHEDEV_PROBLEM_UNREADABLE_TIME
                as u32,
            member: crate::document::member::schedev_member::SCHEDEV_MEMBER_NOT_BEFORE as u32,
            has_event: Flag::new(true),
            ..schedev_problem::NONE
        };
        let mut untracked = step(SCHEDEV_STEP_UNTRACKED);
        untracked.untracked_others = 12;
        let time = r#""time":"2022-04-11T22:26:58Z""#;
        for (step, expected) in [
            (
                change,
                r#"{"record":"change","change":"started","event_id":"a\"b","event_type":"Reboot","event_status":"Started","resource_type":null,"resources":null,"not_before":"1970-01-01T00:00:00Z","description":null,"event_source":null,"duration_in_seconds":null,"mine":false,TIME}"#,
            ),
            (
                decision,
                r#"{"record":"decision","event_id":"a\"b","action":"approve","rule":2,"reason":"short interruption","event_type":"Freeze","event_status":"Scheduled","resource_type":null,"resources":null,"not_before":null,"description":null,"event_source":null,"duration_in_seconds":5,"mine":null,TIME}"#,
            ),
            (
                problem,
                r#"{"record":"problem","event":0,"member":"NotBefore","kind":"unreadable-time","line":null,"column":null,TIME}"#,
            ),
            (
                untracked,
                r#"{"record":"untracked","own":0,"others":12,TIME}"#,
            ),
            (
                step(SCHEDEV_STEP_NO_ADVICE),
                r#"{"record":"no-advice","api_version":"2024-07-09",TIME}"#,
            ),
            (
                step(SCHEDEV_STEP_PREPARE),
                r#"{"record":"prepare","event_id":"a\"b","outcome":"begun","attempt":0,"event_type":null,"event_status":null,"resource_type":null,"resources":null,"not_before":null,"description":null,"event_source":null,"duration_in_seconds":null,"mine":null,TIME}"#,
            ),
            (
                step(SCHEDEV_STEP_LAST_CALL),
                r#"{"record":"gate","event_id":"a\"b","phase":"prepare","outcome":"last-call","event_type":null,"event_status":null,"resource_type":null,"resources":null,"not_before":null,"description":null,"event_source":null,"duration_in_seconds":null,"mine":null,TIME}"#,
            ),
            (
                step(SCHEDEV_STEP_RECOVER),
                r#"{"record":"recover","event_id":"a\"b","event_ids":["a\"b"],"outcome":null,"event_type":null,"event_status":null,"resource_type":null,"resources":null,"not_before":null,"description":null,"event_source":null,"duration_in_seconds":null,"mine":null,TIME}"#,
            ),
        ] {
            assert_eq!(json(&step), Ok(expected.replace("TIME", time)));
        }
        for kind in [
            SCHEDEV_STEP_WAIT,
            SCHEDEV_STEP_GET,
            SCHEDEV_STEP_POST,
            SCHEDEV_STEP_GATE,
            SCHEDEV_STEP_CANCEL,
        ] {
            assert_eq!(json(&step(kind)), Err(SCHEDEV_END));
        }
        assert_eq!(
            json(&schedev_step {
                change: 99,
                ..change
            }),
            Err(SCHEDEV_ERROR_ARGUMENT)
        );
        assert_eq!(
            json(&schedev_step {
                reserved: [0, 0, 0, 1],
                ..change
            }),
            Err(SCHEDEV_ERROR_ARGUMENT)
        );
    }

    #[test]
    fn the_longest_record_fits() {
        let (id, event_type) = ("\u{1}".repeat(64), "\u{1}".repeat(28));
        let mut step = step(SCHEDEV_STEP_CHANGE);
        step.change = crate::tracker::schedev_change::SCHEDEV_CHANGE_STARTED_WITHOUT_NOTICE as u32;
        step.event = schedev_tracked_event {
            event_id: crate::text::schedev_text::plain(&id),
            event_type_text: crate::text::schedev_text::plain(&event_type),
            not_before_seconds: i64::MIN,
            duration_seconds: u32::MAX,
            event_status: SCHEDEV_EVENT_STATUS_SCHEDULED as u32,
            has_not_before: Flag::new(true),
            has_duration: Flag::new(true),
            ..schedev_tracked_event::NONE
        };
        step.now_ms = i64::MIN;
        assert!(json(&step).unwrap().len() < OTHER_MAX_BYTES);
        for kind in [
            SCHEDEV_STEP_PREPARE,
            SCHEDEV_STEP_DECISION,
            SCHEDEV_STEP_LAST_CALL,
        ] {
            step.kind = kind as u32;
            step.decision = schedev_decision {
                action: crate::policy::schedev_action::SCHEDEV_ACTION_PREPARE as u32,
                reason: schedev_reason::SCHEDEV_REASON_SHORT_INTERRUPTION as u32,
                rule: u32::from(u16::MAX),
                ..schedev_decision::NONE
            };
            assert!(json(&step).unwrap().len() < OTHER_MAX_BYTES);
        }
        step.kind = SCHEDEV_STEP_RECOVER as u32;
        let id = format!("\"{}\"", "\\u0001".repeat(SCHEDEV_EVENT_ID_MAX_BYTES));
        let without_ids = json(&step).unwrap().replacen(&format!("[{id}]"), "[]", 1);
        assert!(without_ids.len() < OTHER_MAX_BYTES, "{without_ids}");
    }
}
