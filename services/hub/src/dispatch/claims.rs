//! What a message alone says about the state of an event: when it counts, and what it cannot do.

use std::fs;

use scheduled_events_core::{Action, EventOrder, Policy, Rule};
use tokio::time::sleep;

use super::tests::{PATIENCE, saved, with_hub};
use super::*;
use crate::confirm::Rows;
use crate::notice::{read, with_notification};
use crate::store::tests::alone;

const MACHINE: &str = "/subscriptions/00000000-0000-0000-0000-000000000000/resourceGroups/web/providers/Microsoft.Compute/virtualMachines/db";
const EVENT: &str = "c7061bac-afdc-4513-b24b-aa5f13a16123";

fn row(status: &str) -> Notices {
    row_of(EVENT, status)
}

fn row_of(id: &str, status: &str) -> Notices {
    let row = json!({
        "id": format!("{MACHINE}/providers/microsoft.maintenance/scheduledevents/{id}"),
        "type": "microsoft.maintenance/scheduledevents",
        "properties": {"EventId": id, "EventType": "Reboot", "EventStatus": status, "Resources": ["db"]},
    });
    read(row.to_string().as_bytes()).expect("it can be read")
}

fn message(status: &str) -> Notices {
    Notices {
        is_queued: true,
        ..row(status)
    }
}

fn event() -> EventKey {
    EventKey::new(MACHINE, EVENT)
}

/// A hub that prepares, and its audit file.
fn with_preparing_hub(work: impl AsyncFnOnce(Rc<Dispatch>, &dyn Fn() -> String)) {
    let folder = tempfile::tempdir().expect("a folder");
    let (store, audit) = (alone(folder.path()), folder.path().join("audit"));
    let policy = Policy::new(&[Rule::new(Action::Prepare)]).expect("a policy");
    let more = "management = \"http://127.0.0.1:1\"\napprove = \"arm\"\n\
                hooks = { prepare = \"true\", recover = \"true\" }\n";
    with_hub(
        folder.path(),
        more,
        policy,
        store,
        async |dispatch, _stopped| {
            let audit = || fs::read_to_string(&audit).unwrap_or_default();
            work(dispatch.clone(), &audit).await;
            dispatch.shared.journal.finish();
        },
    );
}

async fn until(what: &str, is_so: impl Fn() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < PATIENCE, "{what}");
        sleep(Duration::from_millis(10)).await;
    }
}

/// Answers of Resource Graph from one second to another, each with this row, or without one.
fn answers(
    dispatch: &Rc<Dispatch>,
    begin: Instant,
    seconds: std::ops::RangeInclusive<u64>,
    status: Option<&str>,
) {
    for second in seconds.step_by(30) {
        let absent: Vec<_> = status.is_none().then(event).into_iter().collect();
        if let Some(status) = status {
            drop(dispatch.deliver(row(status)));
        }
        dispatch.doubts_answered(&[event()], &absent, begin + Duration::from_secs(second));
    }
}

/// Somebody who may write to the queue sends it. The event is prepared for all the same, and approved
/// once its rows have contradicted the message for ten minutes.
#[test]
fn a_message_about_a_start_or_an_unknown_state_stops_the_approval_for_ten_minutes_only() {
    for (state, is_first) in [
        ("Started", true),
        ("Started", false),
        ("InProgress", false),
        ("Advisory", false),
    ] {
        with_preparing_hub(async |dispatch, audit| {
            let is_stopped = || dispatch.shared.approvals.is_stopped(&event());
            if is_first {
                drop(dispatch.deliver(message(state)));
                assert!(dispatch.shared.machines.borrow().is_empty());
                drop(dispatch.deliver(row("Scheduled")));
            } else {
                dispatch.deliver(row("Scheduled")).wait().await;
                drop(dispatch.deliver(message(state)));
            }
            assert!(is_stopped(), "{state}");
            until("the preparation", || {
                audit().contains("\"outcome\":\"ready\"")
            })
            .await;
            let begin = Instant::now();
            answers(&dispatch, begin, 0..=570, Some("Scheduled"));
            assert!(is_stopped(), "{state}");
            answers(&dispatch, begin, 630..=630, Some("Scheduled"));
            assert!(!is_stopped(), "{state}");
            until("its record", || audit().contains("set-aside")).await;
            assert!(!audit().contains("\"change\":\"started"), "{state}");
        });
    }
}

#[test]
fn a_message_about_a_start_counts_with_its_row_or_after_a_minute_without_one() {
    for status in [Some("Started"), None] {
        with_preparing_hub(async |dispatch, audit| {
            dispatch.deliver(row("Scheduled")).wait().await;
            drop(dispatch.deliver(message("Started")));
            let begin = Instant::now();
            if status.is_none() {
                answers(&dispatch, begin, 0..=30, None);
                sleep(Duration::from_millis(100)).await;
                assert!(!audit().contains("\"change\":\"started\""), "too early");
            }
            answers(&dispatch, begin, 60..=60, status);
            until("its start", || audit().contains("\"change\":\"started\"")).await;
            assert!(!dispatch.shared.approvals.is_stopped(&event()));
        });
    }
}

/// There is no row between the message and the end.
#[test]
fn the_row_of_an_end_confirms_the_start() {
    with_preparing_hub(async |dispatch, audit| {
        drop(dispatch.deliver(message("Started")));
        drop(dispatch.deliver(message("Completed")));
        drop(dispatch.deliver(row("Completed")));
        until("the end", || audit().contains("\"change\":\"completed\"")).await;
        assert!(
            audit().contains("\"change\":\"started-without-notice\""),
            "{}",
            audit()
        );
    });
}

/// The message that it had started was wrong.
#[test]
fn the_row_of_a_cancelled_event_confirms_no_start() {
    with_preparing_hub(async |dispatch, audit| {
        dispatch.deliver(row("Scheduled")).wait().await;
        drop(dispatch.deliver(message("Started")));
        drop(dispatch.deliver(row("Canceled")));
        until("the end", || audit().contains("\"change\":\"cancelled\"")).await;
        assert!(!audit().contains("\"change\":\"started"), "{}", audit());
    });
}

/// Resource Graph is late: the row of the end comes when the message about the start has been contradicted for ten minutes.
#[test]
fn an_end_has_ten_minutes_of_its_own() {
    with_preparing_hub(async |dispatch, audit| {
        dispatch.deliver(row("Scheduled")).wait().await;
        drop(dispatch.deliver(message("Started")));
        let begin = Instant::now();
        let mut end = message("Completed").notices.remove(0);
        end.is_row = false;
        let (done, _kept) = Kept::new();
        let late = begin + Duration::from_secs(590);
        let observed = dispatch.ledger.borrow_mut().observe(&mut end, &done, late);
        assert!(observed.is_none(), "it waits for its row");
        answers(&dispatch, begin, 0..=1170, Some("Scheduled"));
        until("the record about the start", || {
            audit().contains("set-aside")
        })
        .await;
        assert_eq!(audit().matches("\"set-aside\"").count(), 1, "{}", audit());
        answers(&dispatch, begin, 1230..=1230, Some("Scheduled"));
        let both = || audit().matches("\"set-aside\"").count() == 2;
        until("the record about the end", both).await;
    });
}

#[test]
fn only_a_start_counts_as_one() {
    with_preparing_hub(async |dispatch, _audit| {
        dispatch.deliver(row("Scheduled")).wait().await;
        let begin = Instant::now();
        for (status, is_start) in [("InProgress", false), ("Started", true)] {
            drop(dispatch.deliver(message(status)));
            answers(&dispatch, begin, 0..=60, None);
            assert_eq!(
                dispatch.ledger.borrow().is_started_by_message(&event()),
                is_start,
                "{status}"
            );
        }
    });
}

/// What is known by such messages only takes memory, and questions to Resource Graph.
#[test]
fn messages_about_the_start_of_unknown_events_are_bounded() {
    with_preparing_hub(async |dispatch, _audit| {
        for number in 0..1_010 {
            let mut started = row_of(
                &format!("{number:08}-afdc-4513-b24b-aa5f13a16123"),
                "Started",
            );
            started.is_queued = true;
            drop(dispatch.deliver(started));
        }
        let later = Instant::now() + Duration::from_secs(60);
        assert_eq!(dispatch.doubted(later).len(), 1_000);
    });
}

/// Its row was absent for so long that the message counted; or an earlier process took it for started.
#[test]
fn a_start_that_rows_contradict_for_ten_minutes_is_undone() {
    for is_restored in [false, true] {
        with_preparing_hub(async |dispatch, audit| {
            let begin = Instant::now();
            if is_restored {
                let (message, mut order) = (
                    row("Started").notices[0].message.clone(),
                    EventOrder::default(),
                );
                let _ = with_notification(&message, &event(), |started| order.observe(started));
                let event = SavedEvent {
                    key: EVENT.into(),
                    message: message.to_string(),
                    resource_id: MACHINE.into(),
                    order,
                };
                dispatch.restore(vec![(saved(event), Entry::default())]);
            } else {
                drop(dispatch.deliver(message("Started")));
                answers(&dispatch, begin, 0..=60, None);
            }
            until("its start", || audit().contains("started-without-notice")).await;
            answers(&dispatch, begin, 90..=570, Some("Scheduled"));
            assert!(
                dispatch.shared.approvals.is_stopped(&event()),
                "Resource Graph may be late"
            );
            answers(&dispatch, begin, 630..=660, Some("Scheduled"));
            until("the next row", || {
                drop(dispatch.deliver(row("Scheduled")));
                audit().contains("\"outcome\":\"ready\"")
            })
            .await;
            assert!(!dispatch.shared.approvals.is_stopped(&event()));
        });
    }
}

/// Messages of the same moment, in any order: a machine does not prepare before the row was asked for.
#[test]
fn nothing_is_prepared_for_between_a_message_about_a_start_and_its_row() {
    for order in [["Scheduled", "Started"], ["Started", "Scheduled"]] {
        with_preparing_hub(async |dispatch, audit| {
            let answering = dispatch.clone();
            dispatch
                .shared
                .approvals
                .confirmations
                .ask_by(Box::new(move |_| {
                    let dispatch = answering.clone();
                    Box::pin(async move {
                        sleep(Duration::from_secs(1)).await;
                        drop(dispatch.deliver(row("Started")));
                        Ok(Rows {
                            events: [event()].into(),
                            has_unreadable: false,
                        })
                    })
                }));
            for status in order {
                drop(dispatch.deliver(message(status)));
            }
            until("its start", || audit().contains("\"change\":\"started")).await;
            sleep(Duration::from_secs(2)).await;
            assert!(!audit().contains("\"record\":\"prepare\""), "{}", audit());
        });
    }
}

/// Resource Graph has no row of it yet.
#[test]
fn an_announcement_after_a_message_about_a_start_counts_without_a_row_too() {
    with_preparing_hub(async |dispatch, audit| {
        let absent = Box::new(|_| Box::pin(async { Ok(Rows::default()) }) as _);
        dispatch.shared.approvals.confirmations.ask_by(absent);
        for status in ["Started", "Scheduled"] {
            drop(dispatch.deliver(message(status)));
        }
        until("the preparation", || {
            audit().contains("\"outcome\":\"ready\"")
        })
        .await;
        assert!(dispatch.shared.approvals.is_stopped(&event()));
    });
}
