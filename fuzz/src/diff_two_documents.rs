//! A tracker observes two documents: it reports each difference once, with the right word, and nothing else.

use std::collections::HashMap;

use arbitrary::Unstructured;
use scheduled_events_core::{
    Change, Document, EventId, Text, Tracker, TrackerFull, UnixSeconds, VmNames,
};

use crate::grammar::{self, NAMES, Spec, rarely};

const NOW: UnixSeconds = UnixSeconds(1_700_000_000);
const CAPACITY: usize = 12;

pub fn run(data: &[u8]) {
    let _ = check(&mut Unstructured::new(data));
}

/// An id in the form in which it is compared.
fn key(id: &str) -> String {
    EventId::new(&Text::plain(id)).as_str().to_ascii_lowercase()
}

fn is_over(spec: &Spec) -> bool {
    matches!(
        spec.status.as_deref(),
        Some("Completed" | "Canceled" | "Cancelled")
    )
}

/// Whether it is advice, by its type or its status.
fn is_advice(spec: &Spec) -> bool {
    spec.event_type.as_deref() == Some("SpotRebalanceRecommendation")
        || spec.status.as_deref() == Some("Advisory")
}

/// The events that count: of several with one id, the first.
fn distinct(specs: Vec<Spec>) -> Vec<Spec> {
    let mut kept: Vec<Spec> = Vec::new();
    for spec in specs {
        if kept.iter().all(|known| key(&known.id) != key(&spec.id)) {
            kept.push(spec);
        }
    }
    kept
}

fn check(u: &mut Unstructured<'_>) -> arbitrary::Result<()> {
    let before = distinct(grammar::specs(u, 14)?);
    let mut after = before.clone();
    for spec in &mut after {
        // Events that change in one member, in several, or not at all.
        let other = grammar::spec(u)?;
        match u.int_in_range(0..=7)? {
            0 => spec.status = other.status,
            1 => spec.not_before = other.not_before,
            2 => spec.description = other.description,
            3 => {
                *spec = Spec {
                    id: spec.id.clone(),
                    ..other
                }
            }
            _ => {}
        }
    }
    after.retain(|_| !rarely(u, 5).unwrap_or(false));
    after.extend(grammar::specs(u, 4)?);
    let after = distinct(after);
    let first = grammar::document(u, Some(1), &before)?;
    let second = grammar::document(u, Some(2), &after)?;
    let (first, second) = (
        Document::parse(first.as_bytes()).unwrap(),
        Document::parse(second.as_bytes()).unwrap(),
    );

    let live = |specs: &[Spec]| specs.iter().filter(|spec| !is_over(spec)).count();
    let names = VmNames::new(&NAMES[..1]);
    let mut tracker = Tracker::<CAPACITY>::new();
    for (document, specs) in [(&first, &before), (&second, &after)] {
        if live(specs) > CAPACITY {
            let (unchanged, needed) = (tracker.len(), live(specs));
            let reported = observe(&mut tracker, document, names);
            assert_eq!(reported, Err(TrackerFull { needed }));
            assert_eq!(tracker.len(), unchanged);
            return Ok(());
        }
        if std::ptr::eq(specs, &raw const before) {
            let reported = observe(&mut tracker, document, names).unwrap();
            assert_eq!(reported.len(), live(specs));
            assert!(reported.values().all(|changes| matches!(
                changes[..],
                [Change::Scheduled | Change::Advised | Change::StartedWithoutNotice]
            )));
        }
    }
    let reported = observe(&mut tracker, &second, names).unwrap();
    for spec in before.iter().filter(|spec| !is_over(spec)) {
        let now = after.iter().find(|other| key(&other.id) == key(&spec.id));
        let changes = reported.get(&key(&spec.id)).cloned().unwrap_or_default();
        let expected = difference(spec, now);
        assert!(
            expected.contains(&changes),
            "{spec:?}, then {now:?}: {changes:?}, not one of {expected:?}"
        );
    }
    for spec in &after {
        if !before
            .iter()
            .any(|other| key(&other.id) == key(&spec.id) && !is_over(other))
        {
            let changes = reported.get(&key(&spec.id)).cloned().unwrap_or_default();
            let started = spec.status.as_deref() == Some("Started");
            let expected = if is_advice(spec) {
                Change::Advised
            } else if started {
                Change::StartedWithoutNotice
            } else {
                Change::Scheduled
            };
            let expected = if is_over(spec) {
                vec![]
            } else {
                vec![expected]
            };
            assert_eq!(changes, expected, "{spec:?}");
        }
    }
    assert_eq!(tracker.len(), live(&after));
    assert!(
        observe(&mut tracker, &second, names).unwrap().is_empty(),
        "nothing is reported twice"
    );
    Ok(())
}

/// The reported changes by event id.
fn observe(
    tracker: &mut Tracker<CAPACITY>,
    document: &Document<'_>,
    names: VmNames<'_>,
) -> Result<HashMap<String, Vec<Change>>, TrackerFull> {
    let mut reported: HashMap<String, Vec<Change>> = HashMap::new();
    tracker.observe(document, names, NOW, |change, event| {
        reported
            .entry(event.event_id().as_str().to_ascii_lowercase())
            .or_default()
            .push(change);
    })?;
    Ok(reported)
}

/// The changes that are allowed for an event that was there.
fn difference(before: &Spec, now: Option<&Spec>) -> Vec<Vec<Change>> {
    let is_status = |spec: &Spec, word| !is_advice(spec) && spec.status.as_deref() == Some(word);
    let started = |spec: &Spec| is_status(spec, "Started");
    let scheduled = |spec: &Spec| is_status(spec, "Scheduled");
    let is_gone = now.is_none_or(is_over);
    if is_advice(before) && is_gone {
        return vec![vec![Change::AdviceWithdrawn]];
    }
    let Some(now) = now else {
        let ahead = before.not_before.is_some_and(|start| NOW.0 < start);
        return vec![vec![match () {
            () if started(before) => Change::Completed,
            () if scheduled(before) && ahead => Change::Cancelled,
            () => Change::Ended,
        }]];
    };
    if is_over(now) {
        return vec![vec![match now.status.as_deref() {
            Some("Canceled" | "Cancelled") if !started(before) => Change::Cancelled,
            _ if started(before) || scheduled(before) => Change::Completed,
            _ => Change::Ended,
        }]];
    }
    if !started(before) && started(now) {
        return vec![vec![if scheduled(before) {
            Change::Started
        } else {
            Change::StartedWithoutNotice
        }]];
    }
    let updated = Spec {
        status: None,
        not_before: None,
        ..before.clone()
    } != Spec {
        status: None,
        not_before: None,
        id: before.id.clone(),
        ..now.clone()
    };
    let known = |spec: &Spec| {
        spec.status
            .as_deref()
            .filter(|word| ["Scheduled", "Started"].contains(word))
            .map(str::to_owned)
    };
    // A status that is missing or unknown does not turn advice into maintenance.
    let stays_advice = is_advice(before) && !scheduled(now);
    let first = match (is_advice(before), is_advice(now)) {
        (false, true) if !started(before) => Some(Change::Advised),
        (true, false) if !stays_advice => Some(Change::Scheduled),
        _ => None,
    };
    let status_moved = first.is_none() && !stays_advice && known(before) != known(now);
    let with_first = |changes: Vec<Vec<Change>>| -> Vec<Vec<Change>> {
        let with_first = |changes: Vec<Change>| first.into_iter().chain(changes).collect();
        changes.into_iter().map(with_first).collect()
    };
    // An absent list of resources and an empty one are the same to the tracker.
    let resources = |spec: &Spec| spec.resources.clone().unwrap_or_default();
    let is_certain = !(updated && resources(before) == resources(now));
    if started(before) {
        return match (updated, is_certain) {
            (true, true) => vec![vec![Change::Updated]],
            (true, false) => vec![vec![Change::Updated], vec![]],
            (false, _) => vec![vec![]],
        };
    }
    if now.not_before.is_some() && now.not_before != before.not_before {
        let both = vec![Change::Rescheduled, Change::Updated];
        return with_first(match (updated, is_certain) {
            (true, true) => vec![both],
            (true, false) => vec![both, vec![Change::Rescheduled]],
            (false, _) => vec![vec![Change::Rescheduled]],
        });
    }
    if updated && !is_certain && !status_moved {
        return with_first(vec![vec![Change::Updated], vec![]]);
    }
    with_first(if updated || status_moved {
        vec![vec![Change::Updated]]
    } else {
        vec![vec![]]
    })
}
