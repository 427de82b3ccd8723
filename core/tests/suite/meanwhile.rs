//! Notifications that arrive while a request is in progress, beside documents, and in a session that is full.

use scheduled_events_core::{
    Action, Change, NotificationOutcome, Policy, Report, Response, Rule, SessionConfig,
    SessionSource, Step, VmNames,
};

use crate::notified::{Host, START, config, document, message};

/// Notifications arrive while a request is in progress: what it answers is about the events that it was sent for.
#[test]
fn an_approval_is_of_the_event_that_it_was_sent_for_although_that_is_over_and_another_has_come() {
    for works_between in [true, false] {
        for status in [200, 503] {
            let mut host = Host::new(&config(SessionSource::Notifications, Action::Approve));
            let _ = host.notify(&message("a", "Scheduled", 0, 0));
            while !matches!(host.session.take_step(START), Step::Post { .. }) {}
            let _ = host.notify(&message("a", "Completed", 1, 0));
            if works_between {
                host.work();
            }
            for number in 0..8 {
                let _ = host.notify(&message(&format!("b{number}"), "Scheduled", 2, number));
                if works_between {
                    host.work();
                }
            }
            let posted: Vec<_> = host
                .session
                .posted()
                .map(|id| id.as_str().to_owned())
                .collect();
            assert_eq!(posted, ["a"], "{works_between}");
            let _ = host.session.on_response(
                &Response {
                    status,
                    ..Response::default()
                },
                START,
            );
            let approved = host.session.events().filter(|event| event.is_approved());
            assert!(
                approved
                    .map(|event| event.event_id().as_str())
                    .all(|id| id == "a"),
                "{works_between}"
            );
            host.work();
            // The last one finds no capacity before the session has reported the end of the first.
            let _ = host.notify(&message("b7", "Scheduled", 2, 7));
            for _ in 0..60 {
                host.now = host.now.plus(1000);
                host.work();
            }
            assert_eq!(
                host.posts, 8,
                "{works_between} {status}: each of the others is approved"
            );
        }
    }
}

/// An own event takes the place of another one, but not while an answer about that is awaited: an approval is remembered.
#[test]
fn an_event_whose_approval_is_under_way_is_not_evicted() {
    let mut host = Host::new(&config(SessionSource::Notifications, Action::Approve));
    for number in 0..8 {
        let _ = host.notify(&message(&format!("a{number}"), "Scheduled", 0, 30 + number));
    }
    while !matches!(host.session.take_step(START), Step::Post { .. }) {}
    let mut posted: Vec<_> = host
        .session
        .posted()
        .map(|id| id.as_str().to_owned())
        .collect();
    assert_eq!(
        host.notify(&message("sooner", "Scheduled", 0, 1)),
        NotificationOutcome::Untracked
    );
    let _ = host.session.on_response(
        &Response {
            status: 200,
            ..Response::default()
        },
        START,
    );
    posted.sort_unstable();
    let mut approved: Vec<_> = host
        .session
        .events()
        .filter(|event| event.is_approved())
        .map(|event| event.event_id().as_str())
        .collect();
    approved.sort_unstable();
    assert_eq!(approved, posted);
}

/// The answer to a poll may come right after a notification: the changes of both are reported.
#[test]
fn a_document_that_comes_before_a_notification_is_reported_loses_no_change() {
    let ends: [&[(&str, &str)]; 4] = [
        &[("a", "Started")],
        &[("a", "Completed")],
        &[("a", "Canceled")],
        &[],
    ];
    for shown in ends {
        let mut host = Host::new(&config(SessionSource::Both, Action::Hold));
        assert!(matches!(host.session.take_step(START), Step::Get { .. }));
        let _ = host.notify(&message("a", "Scheduled", 0, 30));
        let body = document(1, shown);
        let _ = host.session.on_response(
            &Response {
                status: 200,
                body: body.as_bytes(),
                ..Response::default()
            },
            START,
        );
        host.work();
        let mut expected = vec![Change::Scheduled];
        expected.extend(shown.first().map(|(_, status)| match *status {
            "Started" => Change::Started,
            "Completed" => Change::Completed,
            _ => Change::Cancelled,
        }));
        assert_eq!(host.changes, expected, "{shown:?}");
    }
}

/// Events of others whose end was reported are kept until the document does not have them any more, but not at the cost of an own
/// event.
#[test]
fn ends_that_a_document_has_not_confirmed_leave_room_for_an_own_event() {
    for by_document in [true, false] {
        for name in if by_document {
            &["another", "vm"][..]
        } else {
            &["another"]
        } {
            let mut host = Host::new(&config(SessionSource::Both, Action::Hold));
            for status in ["Scheduled", "Completed"] {
                for number in 0..8 {
                    let old = message(&format!("old-{number}"), status, 0, 0)
                        .replace("\"vm\"", &format!("{name:?}"));
                    assert_eq!(host.notify(&old), NotificationOutcome::Applied);
                }
            }
            host.work();
            let ends = host.changes.iter().filter(|change| change.is_end()).count();
            assert_eq!(ends, 8);
            if by_document {
                host.poll(document(1, &[("own", "Scheduled"), ("old-1", "Started")]));
            } else {
                assert_eq!(
                    host.notify(&message("own", "Scheduled", 0, 0)),
                    NotificationOutcome::Applied
                );
            }
            host.work();
            assert!(
                host.session
                    .events()
                    .any(|event| event.event_id().as_str() == "own"),
                "{by_document} {name}"
            );
            assert_eq!(
                host.changes.len(),
                17,
                "{by_document} {name}: {:?}",
                host.changes
            );
        }
    }
}

/// A document decides about the events that it has. About another one, only a notification can.
#[test]
fn other_names_beside_documents_need_another_look_at_what_they_do_not_have() {
    let mut host = Host::new(&config(SessionSource::Both, Action::Approve));
    host.poll(document(1, &[]));
    assert_eq!(
        host.notify(&message("a", "Scheduled", 0, 0)),
        NotificationOutcome::Applied
    );
    host.session.set_names(VmNames::new(&["other"])).unwrap();
    for _ in 0..3 {
        host.poll(document(2, &[]));
    }
    assert_eq!(host.posts, 0, "another machine's");
    host.session.set_names(VmNames::new(&["vm"])).unwrap();
    assert_eq!(
        host.notify(&message("a", "Scheduled", 0, 0)),
        NotificationOutcome::Applied
    );
    for _ in 0..3 {
        host.poll(document(2, &[]));
    }
    assert_eq!(host.posts, 1);
}

/// The document does not change, and its event is decided about again.
#[test]
fn a_changed_policy_decides_about_open_events_at_the_next_poll_and_not_before() {
    let policy = |action| Policy::new(&[Rule::new(action)]).unwrap();
    let mut host = Host::new(&config(SessionSource::Documents, Action::Approve));
    host.session.set_policy(policy(Action::Hold));
    let body = document(1, &[("a", "Scheduled")]);
    for _ in 0..3 {
        host.poll(body.clone());
    }
    assert_eq!(host.posts, 0, "the rule that held it came first");
    host.session.set_policy(policy(Action::Approve));
    host.work();
    assert_eq!(host.posts, 0, "no document was read with the new rule");
    for _ in 0..3 {
        host.poll(body.clone());
    }
    assert_eq!(host.posts, 1);
}

/// The document does not change, and has an event that was dropped for an urgent one.
#[test]
fn an_event_that_made_room_for_a_notified_one_is_counted() {
    let mut host = Host::new(&config(SessionSource::Both, Action::Hold));
    let ids: Vec<_> = (0..8).map(|number| format!("a{number}")).collect();
    let body = document(
        1,
        &ids.iter()
            .map(|id| (id.as_str(), "Scheduled"))
            .collect::<Vec<_>>(),
    );
    host.poll(body.clone());
    let urgent = message("urgent", "Scheduled", 0, 0).replace("T13:00", "T12:59");
    assert_eq!(host.notify(&urgent), NotificationOutcome::Applied);
    let mut untracked = Vec::new();
    for _ in 0..50 {
        match host.session.take_step(host.now) {
            Step::Get { .. } => {
                let response = Response {
                    status: 200,
                    body: body.as_bytes(),
                    ..Response::default()
                };
                let _ = host.session.on_response(&response, host.now);
            }
            Step::Report(Report::Untracked(counted)) => {
                untracked.push((counted.own, counted.others));
            }
            Step::Wait { until } => host.now = until,
            _ => {}
        }
    }
    assert_eq!(untracked, [(1, 0)]);
}

/// A poll that began after the gate's yes has to show the event: one that does not have it confirms nothing.
#[test]
fn a_gate_beside_documents_waits_for_one_that_has_the_event() {
    let mut host = Host::new(&SessionConfig {
        gate: true,
        ..config(SessionSource::Both, Action::Approve)
    });
    host.poll(document(1, &[]));
    assert_eq!(
        host.notify(&message("a", "Scheduled", 0, 0)),
        NotificationOutcome::Applied
    );
    for _ in 0..3 {
        host.poll(document(2, &[]));
    }
    assert_eq!((host.count("gate"), host.posts), (1, 0));
    for _ in 0..3 {
        host.poll(document(3, &[("a", "Scheduled")]));
    }
    assert_eq!((host.count("gate"), host.posts), (1, 1));
}
