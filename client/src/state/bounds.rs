//! What of the events the state file keeps: documents of many megabytes must not make the file too large to write or to read.

use std::collections::HashSet;

use scheduled_events_core::{EventId, Text};

use super::content::{PendingHook, State};
use crate::limits::{STATE_DESCRIPTION_MAX, STATE_DETAILS_MAX, STATE_HOOKS_MAX, STATE_WORD_MAX};
use crate::record::{EventRecord, event_key};

/// The state as the file keeps it.
pub(super) fn bounded(state: &State) -> State {
    let (events, hooks) = bounded_records(&state.events, &state.hooks);
    // The ids and words of a status are short.
    State {
        session: state.session.clone(),
        events,
        hooks,
        status: state.status.clone(),
    }
}

fn bounded_records(
    events: &[EventRecord],
    hooks: &[PendingHook],
) -> (Vec<EventRecord>, Vec<PendingHook>) {
    let mut budget = STATE_DETAILS_MAX;
    let mut kept: Vec<_> = events.iter().map(essence).collect();
    // Own events first, since they decide what happens to this machine.
    for own in [true, false] {
        for (kept, event) in kept
            .iter_mut()
            .zip(events)
            .filter(|(_, event)| is_own(event) == own)
        {
            add_details(kept, event, &mut budget);
        }
    }
    let mut chosen = latest(hooks);
    if chosen.len() > STATE_HOOKS_MAX {
        // A stable sort: own hooks first, each group from the latest on.
        chosen.reverse();
        chosen.sort_by_key(|(_, hook)| !is_own(&hook.event));
        chosen.truncate(STATE_HOOKS_MAX);
        chosen.sort_by_key(|(index, _)| *index);
    }
    let hook = |(_, hook): (usize, &PendingHook)| {
        let mut event = essence(&hook.event);
        add_details(&mut event, &hook.event, &mut budget);
        PendingHook {
            change: hook.change,
            event,
        }
    };
    (kept, chosen.into_iter().map(hook).collect())
}

/// The hooks with their positions, without those for which there is a later hook of the same event and change.
fn latest(hooks: &[PendingHook]) -> Vec<(usize, &PendingHook)> {
    let mut seen = HashSet::new();
    let mut latest: Vec<_> = hooks
        .iter()
        .enumerate()
        .rev()
        .filter(|(_, hook)| seen.insert((hook.change.word(), event_key(&hook.event.event_id))))
        .collect();
    latest.reverse();
    latest
}

fn is_own(event: &EventRecord) -> bool {
    event.mine != Some(false)
}

/// The id as the session knows it. Long ones are shortened so that they stay different.
fn short_id(event: &EventRecord) -> String {
    EventId::new(&Text::plain(&event.event_id))
        .as_str()
        .to_owned()
}

/// The event without what can be long.
fn essence(event: &EventRecord) -> EventRecord {
    let word = |word: &Option<String>| {
        word.as_deref()
            .map(|word| truncated(word, STATE_WORD_MAX).to_owned())
    };
    EventRecord {
        event_id: short_id(event),
        event_type: word(&event.event_type),
        event_status: word(&event.event_status),
        resource_type: word(&event.resource_type),
        resources: None,
        not_before: event.not_before,
        description: None,
        event_source: word(&event.event_source),
        duration_in_seconds: event.duration_in_seconds,
        mine: event.mine,
    }
}

/// Adds the names of machines and the description as far as the budget allows.
fn add_details(kept: &mut EventRecord, event: &EventRecord, budget: &mut usize) {
    // The length in the file, in which a character can take six bytes.
    let length = |text: &str| serde_json::to_string(text).map_or(usize::MAX, |text| text.len());
    let mut fits = |cost: usize| {
        let left = budget.checked_sub(cost);
        *budget = left.unwrap_or(*budget);
        left.is_some()
    };
    if let Some(names) = &event.resources {
        // Each name has a line of its own.
        let cost = names
            .iter()
            .map(|name| length(name).saturating_add(12))
            .fold(0, usize::saturating_add);
        kept.resources = fits(cost).then(|| names.clone());
    }
    if let Some(description) = &event.description {
        let description = truncated(description, STATE_DESCRIPTION_MAX);
        kept.description = fits(length(description)).then(|| description.to_owned());
    }
}

/// The beginning of a text, of at most this many bytes.
fn truncated(text: &str, max: usize) -> &str {
    let end = (0..=max.min(text.len()))
        .rev()
        .find(|end| text.is_char_boundary(*end));
    end.and_then(|end| text.get(..end)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use scheduled_events_core::{Action, Change, UnixSeconds, WaitsFor};

    use super::*;
    use crate::limits::EVENTS_MAX;
    use crate::state::content::{MachineStatus, WaitingEvent, format};

    fn event(number: usize, mine: bool) -> EventRecord {
        EventRecord {
            event_id: format!("event-{number}"),
            event_type: Some("Freeze".into()),
            event_status: Some("Scheduled".into()),
            resource_type: Some("VirtualMachine".into()),
            resources: Some(vec!["WestNO_0".into()]),
            description: Some("Host server is undergoing maintenance.".into()),
            event_source: Some("Platform".into()),
            duration_in_seconds: Some(5),
            mine: Some(mine),
            ..EventRecord::default()
        }
    }

    /// What other machines' events wait for.
    fn status() -> MachineStatus {
        let waiting = |number| WaitingEvent {
            event_id: format!("C7061BAC-AFDC-4513-B24B-AA5F13A1{number:04}"),
            waits_for: WaitsFor::StartUnapproved,
            since: None,
            until: Some(UnixSeconds(1_649_716_018)),
            attempt: None,
            action: Some(Action::Hold),
            rule: None,
            reason: Some("another machine's event".into()),
            last_call: false,
        };
        MachineStatus {
            waiting: (0..EVENTS_MAX).map(waiting).collect(),
            ..MachineStatus::default()
        }
    }

    #[test]
    fn a_usual_event_is_kept_whole() {
        let events = [event(1, true), event(2, false)];
        let hooks = [PendingHook {
            change: Change::Scheduled,
            event: event(1, true),
        }];
        assert_eq!(
            bounded_records(&events, &hooks),
            (events.to_vec(), hooks.to_vec())
        );
    }

    #[test]
    fn the_file_has_some_hundred_kilobytes_however_large_the_documents_are() {
        let long = "\u{1b}é".repeat(1_000);
        let hostile = |number| EventRecord {
            event_id: format!("{number}{long}"),
            event_type: Some(long.clone()),
            event_status: Some(long.clone()),
            resource_type: Some(long.clone()),
            resources: Some(vec![long.clone(); 10]),
            description: Some(long.clone()),
            event_source: Some(long.clone()),
            ..event(number, number == 0)
        };
        let events: Vec<_> = (0..EVENTS_MAX).map(hostile).collect();
        let hooks = events.iter().map(|event| PendingHook {
            change: Change::Scheduled,
            event: event.clone(),
        });
        let session = vec![0; 128 * EVENTS_MAX];
        let state = State {
            session: session.clone(),
            hooks: hooks.collect(),
            events,
            status: status(),
        };
        let length = format(&bounded(&state)).unwrap().len();
        assert!(length < 3 << 20, "{length}");

        let events: Vec<_> = (0..EVENTS_MAX).map(|number| event(number, false)).collect();
        let hooks = events.iter().map(|event| PendingHook {
            change: Change::Scheduled,
            event: event.clone(),
        });
        let state = State {
            session,
            hooks: hooks.collect(),
            events,
            status: status(),
        };
        let length = format(&bounded(&state)).unwrap().len();
        assert!(length < 1 << 20, "{length}");
    }

    #[test]
    fn names_are_kept_whole_or_not_at_all_and_own_ones_first() {
        let names = |count| Some(vec!["x".repeat(100); count]);
        let mut events: Vec<_> = (0..4).map(|number| event(number, number == 3)).collect();
        for event in &mut events {
            event.resources = names(1_000);
        }
        let (kept, _) = bounded_records(&events, &[]);
        let lengths: Vec<_> = kept
            .iter()
            .map(|event| event.resources.as_ref().map(Vec::len))
            .collect();
        assert_eq!(lengths, [None, None, None, Some(1_000)]);
    }

    #[test]
    fn a_later_hook_of_the_same_event_and_change_replaces_the_earlier_one() {
        let hook = |number, change, duration| PendingHook {
            change,
            event: EventRecord {
                duration_in_seconds: Some(duration),
                ..event(number, true)
            },
        };
        let hooks = [
            hook(1, Change::Rescheduled, 1),
            hook(1, Change::Scheduled, 2),
            hook(2, Change::Rescheduled, 3),
            hook(1, Change::Rescheduled, 4),
        ];
        let (_, kept) = bounded_records(&[], &hooks);
        let durations: Vec<_> = kept
            .iter()
            .map(|hook| hook.event.duration_in_seconds)
            .collect();
        assert_eq!(durations, [Some(2), Some(3), Some(4)]);
    }

    #[test]
    fn of_many_hooks_the_own_and_the_latest_ones_are_kept_in_order() {
        let hooks: Vec<_> = (0..STATE_HOOKS_MAX + 10)
            .map(|number| PendingHook {
                change: Change::Scheduled,
                event: event(number, number == 3),
            })
            .collect();
        let (_, kept) = bounded_records(&[], &hooks);
        assert_eq!(kept.len(), STATE_HOOKS_MAX);
        assert_eq!(kept[0].event.event_id, "event-3");
        assert_eq!(kept[1].event.event_id, "event-11");
        assert_eq!(kept.last(), hooks.last());
    }
}
