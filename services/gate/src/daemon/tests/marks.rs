//! When a machine's mark of readiness counts, and when it ends.

use super::*;
use crate::register::{EventChange, MarkRegister};

/// Marks machines as ready in the event's register, and raises their heartbeats.
pub(super) async fn mark(daemon: &Daemon, event: &Event, names: &[&str]) {
    for name in names
        .iter()
        .filter(|name| daemon.machine != Name::from(**name))
    {
        beat(daemon, name, 1).await;
    }
    let (mut register, _) = store::read::<EventRegister>(&*daemon.engine, &event.key())
        .await
        .expect("read");
    (register.event_type, register.resources) = (event.event_type.clone(), event.resources.clone());
    for name in names {
        EventChange::Mark((*name).into(), Mark::Ready).apply(&mut register, 1);
    }
    put(
        daemon,
        &event.key(),
        &store::encode("", &register).expect("JSON"),
    )
    .await;
}

/// A machine marks itself again after another machine has removed its mark with the rest of a
/// register.
#[test]
fn a_mark_that_is_lost_is_made_again() {
    run_with(TWO_GROUPS, async |daemon| {
        let event = event(&["a", "b"]);
        let closed = Ok(Answer::Closed(Why::NotReady(vec!["b".into()])));
        assert_eq!(
            daemon.answer(Question::Approve, event.clone()).await,
            closed
        );
        put(
            &daemon,
            &event.key(),
            &store::encode("", &EventRegister::default()).expect("JSON"),
        )
        .await;
        assert_eq!(
            daemon.answer(Question::Approve, event.clone()).await,
            closed
        );
        assert!(is_ready(&daemon, &event, "a").await);
    });
}

/// Operators see the deadline, as far as the machines know it. Marks in registers of their own
/// leave the event's register alone.
#[test]
fn the_register_of_an_event_has_its_time_as_it_is_now() {
    for others in [1, 99] {
        run_with(TWO_GROUPS, async |daemon| {
            let names = (0..others).map(|index| Name::from(format!("b{index}").as_str()));
            let event = Event::new("e", "Reboot", names.chain(["a".into()]).collect());
            let starts_at = |second: i64| {
                let not_before = Some(jiff::Timestamp::from_second(second).expect("a time"));
                Event {
                    not_before,
                    ..event.clone()
                }
            };
            let shown = async || {
                store::read::<EventRegister>(&*daemon.engine, &event.key())
                    .await
                    .expect("read")
                    .0
                    .not_before
            };
            assert_eq!(
                daemon.answer(Question::Prepare, event.clone()).await,
                Ok(Answer::Open)
            );
            assert_eq!(shown().await, None);
            for second in [1000, 2000] {
                for question in [Question::Prepare, Question::Approve, Question::Approve] {
                    daemon
                        .answer(question, starts_at(second))
                        .await
                        .expect("an answer");
                    assert_eq!(
                        shown().await,
                        Some(second.cast_unsigned()),
                        "{others} others"
                    );
                }
            }
            daemon
                .answer(Question::Approve, starts_at(3000))
                .await
                .expect("an answer");
            assert_eq!(shown().await, Some(3000), "{others} others");
        });
    }
}

#[test]
fn what_was_decided_before_an_event_was_over_does_not_count_when_it_comes_back() {
    run_with_audit(TWO_GROUPS, async |daemon| {
        let event = event(&["a", "b"]);
        assert_eq!(
            daemon.answer(Question::Prepare, event.clone()).await,
            Ok(Answer::Open)
        );
        mark(&daemon, &event, &["b"]).await;
        assert_eq!(
            daemon.answer(Question::Approve, event.clone()).await,
            Ok(Answer::Open)
        );
        record(
            &daemon,
            r#"{"record":"prepare","event_id":"e","outcome":"ready"}"#,
        );
        record(
            &daemon,
            r#"{"record":"change","change":"cancelled","event_id":"e"}"#,
        );
        record(
            &daemon,
            r#"{"record":"recover","event_ids":["e"],"outcome":"done"}"#,
        );
        daemon.look_at_groups().await.expect("the groups");
        record(
            &daemon,
            r#"{"record":"change","change":"scheduled","event_id":"E"}"#,
        );
        assert_eq!(
            daemon.answer(Question::Prepare, event.clone()).await,
            MAY_BE_POSTED
        );
        sleep(driver::POST_TIME).await;
        assert_eq!(
            daemon.answer(Question::Prepare, event.clone()).await,
            Ok(Answer::Open)
        );
        assert!(
            group(&daemon, "groups/db")
                .await
                .held()
                .contains(&Name::from("a")),
            "it prepares without a slot"
        );
        let answer = daemon.answer(Question::Approve, event.clone()).await;
        assert_eq!(answer, Ok(Answer::Closed(Why::NotReady(vec!["b".into()]))));
        mark(&daemon, &event, &["b"]).await;
        for _ in 0..2 {
            assert_eq!(
                daemon.answer(Question::Approve, event.clone()).await,
                Ok(Answer::Open),
                "it is decided once"
            );
        }
    });
}

#[test]
fn marks_that_were_made_since_an_event_came_back_stay() {
    run_with_audit(TWO_GROUPS, async |daemon| {
        let event = event(&["a", "b"]);
        is_over(&daemon, "e");
        record(
            &daemon,
            r#"{"record":"change","change":"scheduled","event_id":"e"}"#,
        );
        mark(&daemon, &event, &["b"]).await;
        assert_eq!(
            daemon.answer(Question::Approve, event).await,
            Ok(Answer::Open)
        );
    });
}

#[test]
fn an_event_that_started_is_forced_only_if_nobody_can_have_decided() {
    run_with_audit(TWO_GROUPS, async |daemon| {
        let started = |id: &str| {
            record(
                &daemon,
                &format!(
                    r#"{{"record":"change","change":"started","event_id":"{id}","mine":true}}"#
                ),
            );
        };
        let forced = async || {
            daemon.count_forced().await.expect("counted");
            daemon
                .forced
                .borrow()
                .as_ref()
                .map(|forced| forced.events.join(" "))
                .unwrap_or_default()
        };
        // Another machine has decided and approved.
        let decided = r#"{"format":1,"event_type":"Reboot","resources":["a","b"],"marks":{},"go":{"by":"b","at":1}}"#;
        put(&daemon, "events/decided/0", decided).await;
        started("decided");
        assert_eq!(forced().await, "");
        // This machine has approved a Preempt that names it alone.
        record(
            &daemon,
            r#"{"record":"approval","event_ids":["preempt"],"status":200}"#,
        );
        started("preempt");
        assert_eq!(forced().await, "");
        // A refused approval does not count, and another machine's event is not this machine's.
        record(
            &daemon,
            r#"{"record":"approval","event_ids":["refused"],"status":400}"#,
        );
        started("refused");
        record(
            &daemon,
            r#"{"record":"change","change":"started","event_id":"other","mine":false}"#,
        );
        assert_eq!(forced().await, "refused");
        assert_eq!(forced().await, "refused");
        // The registers of an event that is over are deleted, so nothing is known about it.
        started("over");
        is_over(&daemon, "over");
        assert_eq!(forced().await, "refused");
        // An open event has registers, or nobody asked about it.
        started("unknown");
        assert_eq!(forced().await, "refused unknown");
        started("unknown");
        assert_eq!(forced().await, "refused unknown", "it is counted once");
        // An approval before the event was over does not count when the event comes back.
        is_over(&daemon, "preempt");
        record(
            &daemon,
            r#"{"record":"change","change":"scheduled","event_id":"preempt"}"#,
        );
        started("preempt");
        assert_eq!(forced().await, "refused unknown preempt");
        // Only the last ids are kept.
        for index in 0..UNGATED_KEPT {
            started(&format!("later-{index}"));
            forced().await;
        }
        let kept = daemon.forced.borrow().clone().expect("counted");
        assert_eq!(
            (kept.count, kept.events.len()),
            (3 + UNGATED_KEPT as u64, UNGATED_KEPT)
        );
        assert_eq!(kept.events[0], "later-0");
    });
}

#[test]
fn a_machine_that_is_back_in_service_is_not_ready_whether_or_not_it_has_slots() {
    for groups in ["engine = \"folder\"\nfolder.path = \"/x\"\n", TWO_GROUPS] {
        run_with_audit(groups, async |daemon| {
            let event = event(&["a", "b"]);
            let closed = Ok(Answer::Closed(Why::NotReady(vec!["b".into()])));
            assert_eq!(
                daemon.answer(Question::Prepare, event.clone()).await,
                Ok(Answer::Open)
            );
            record(
                &daemon,
                r#"{"record":"prepare","event_id":"e","outcome":"ready"}"#,
            );
            assert_eq!(
                daemon.answer(Question::Approve, event.clone()).await,
                closed
            );
            record(
                &daemon,
                r#"{"record":"recover","event_ids":["e"],"outcome":"done"}"#,
            );
            daemon.withdraw_marks().await.expect("withdrawn");
            assert!(!is_ready(&daemon, &event, "a").await);
        });
    }
}

#[test]
fn an_event_that_is_over_for_long_is_forgotten() {
    run_with_audit(TWO_GROUPS, async |daemon| {
        assert_eq!(
            daemon.answer(Question::Prepare, event(&["a"])).await,
            Ok(Answer::Open)
        );
        assert_eq!(
            (daemon.metrics().events, daemon.open_events().len()),
            (1, 1)
        );
        is_over(&daemon, "e");
        assert_eq!(
            (daemon.metrics().events, daemon.events.borrow().len()),
            (0, 1)
        );
        assert!(
            timeout(EVENT_KEPT + daemon.config.heartbeat, daemon.maintain())
                .await
                .is_err()
        );
        assert!(daemon.events.borrow().is_empty());
        assert_eq!(daemon.engine.list("events/").await, Ok(Vec::new()));
    });
}

#[test]
fn a_mark_stays_while_the_watcher_asks() {
    run_with_audit(TWO_GROUPS, async |daemon| {
        let event = event(&["a", "b"]);
        let run = async |time| assert!(timeout(time, daemon.maintain()).await.is_err());
        for _ in 0..3 {
            let answer = daemon.answer(Question::Approve, event.clone()).await;
            assert_eq!(answer, Ok(Answer::Closed(Why::NotReady(vec!["b".into()]))));
            run(ASKED_AGAIN_WITHIN * 3 / 4).await;
            assert!(is_ready(&daemon, &event, "a").await);
        }
        run(ASKED_AGAIN_WITHIN / 2).await;
        assert!(
            !is_ready(&daemon, &event, "a").await,
            "it does not ask any more"
        );
        // Its slots stay: the machine may be out of service.
        assert!(
            group(&daemon, "groups/db")
                .await
                .held()
                .contains(&Name::from("a"))
        );
    });
}

#[test]
fn only_a_recovery_that_is_done_frees_a_slot() {
    for (outcome, is_free) in [
        ("failed", false),
        ("timed-out", false),
        ("cancelled", false),
        ("done", true),
        ("no-command", true),
    ] {
        run_with_audit(TWO_GROUPS, async |daemon| {
            assert_eq!(
                daemon.answer(Question::Prepare, event(&["a"])).await,
                Ok(Answer::Open)
            );
            record(
                &daemon,
                r#"{"record":"prepare","event_id":"e","outcome":"ready"}"#,
            );
            record(
                &daemon,
                r#"{"record":"change","change":"ended","event_id":"e"}"#,
            );
            record(
                &daemon,
                &format!(r#"{{"record":"recover","event_ids":["e"],"outcome":"{outcome}"}}"#),
            );
            assert!(
                timeout(3 * daemon.config.heartbeat, daemon.maintain())
                    .await
                    .is_err()
            );
            assert_eq!(
                group(&daemon, "groups/db").await.held().is_empty(),
                is_free,
                "{outcome}"
            );
        });
    }
}

/// The daemon reads the audit file four times a second, and the watcher asks about an event that
/// came back at once.
#[test]
fn a_question_counts_what_was_recorded_just_before_it() {
    for is_prepared_at_once in [false, true] {
        run_with_audit(TWO_GROUPS, async |daemon| {
            let event = event(&["a", "b"]);
            assert_eq!(
                daemon.answer(Question::Prepare, event.clone()).await,
                Ok(Answer::Open)
            );
            mark(&daemon, &event, &["b"]).await;
            assert_eq!(
                daemon.answer(Question::Approve, event.clone()).await,
                Ok(Answer::Open)
            );
            record(
                &daemon,
                r#"{"record":"prepare","event_id":"e","outcome":"ready"}"#,
            );
            append(
                &daemon,
                r#"{"record":"change","change":"cancelled","event_id":"e"}"#,
            );
            append(
                &daemon,
                r#"{"record":"recover","event_ids":["e"],"outcome":"done"}"#,
            );
            append(
                &daemon,
                r#"{"record":"change","change":"scheduled","event_id":"e"}"#,
            );
            if is_prepared_at_once {
                // The record of the return came late: the preparation was allowed before it.
                append(
                    &daemon,
                    r#"{"record":"prepare","event_id":"e","outcome":"ready"}"#,
                );
            } else {
                assert_eq!(
                    daemon.answer(Question::Prepare, event.clone()).await,
                    MAY_BE_POSTED
                );
                assert!(
                    !is_ready(&daemon, &event, "a").await && !is_ready(&daemon, &event, "b").await
                );
            }
            let answer = daemon.answer(Question::Approve, event.clone()).await;
            assert_eq!(
                answer,
                Ok(Answer::Closed(Why::NotReady(vec!["b".into()]))),
                "{is_prepared_at_once}"
            );
            // A restarted daemon reads that the watcher has asked since.
            mark(&daemon, &event, &["b"]).await;
            assert_eq!(
                daemon.answer(Question::Approve, event.clone()).await,
                Ok(Answer::Open)
            );
            append(
                &daemon,
                r#"{"record":"gate","event_id":"e","phase":"approve","outcome":"open"}"#,
            );
            let mut audit = crate::daemon::audit::testing::Audit::new(&daemon.config.audit);
            audit.read_new(Instant::now()).expect("read");
            assert!(!audit.has_returned("e"));
        });
    }
}

#[test]
fn a_recovery_before_a_question_gives_nothing_back_after_it() {
    run_with_audit(TWO_GROUPS, async |daemon| {
        assert_eq!(
            daemon.answer(Question::Prepare, event(&["a"])).await,
            Ok(Answer::Open)
        );
        record(
            &daemon,
            r#"{"record":"prepare","event_id":"e","outcome":"ready"}"#,
        );
        // `NotBefore` moves, and moves back: the machine recovers, and prepares again.
        append(
            &daemon,
            r#"{"record":"recover","event_ids":["e"],"outcome":"done"}"#,
        );
        assert_eq!(
            daemon.answer(Question::Prepare, event(&["a"])).await,
            Ok(Answer::Open)
        );
        daemon.read_records().expect("read");
        daemon.withdraw_marks().await.expect("no problem");
        assert!(
            group(&daemon, "groups/db")
                .await
                .held()
                .contains(&Name::from("a")),
            "it prepares"
        );
        // Once it is back in service, it needs no slot.
        record(
            &daemon,
            r#"{"record":"recover","event_ids":["e"],"outcome":"done"}"#,
        );
        daemon.withdraw_marks().await.expect("no problem");
        for key in ["groups/db", "groups/web"] {
            assert!(group(&daemon, key).await.held().is_empty(), "{key}");
        }
    });
}

#[test]
fn a_mark_ends_with_the_event() {
    run_with_audit(TWO_GROUPS, async |daemon| {
        let event = event(&["a", "b"]);
        let closed = Ok(Answer::Closed(Why::NotReady(vec!["b".into()])));
        assert_eq!(
            daemon.answer(Question::Approve, event.clone()).await,
            closed
        );
        is_over(&daemon, "e");
        daemon.withdraw_marks().await.expect("withdrawn");
        assert!(!is_ready(&daemon, &event, "a").await);
    });
}

#[test]
fn a_mark_that_an_earlier_process_made_is_withdrawn_and_made_again_if_the_watcher_asks() {
    for (id, asks) in [("e", false), ("e", true), ("an id/of another form", false)] {
        run_with(TWO_GROUPS, async |daemon| {
            let event = Event {
                id: id.to_owned(),
                ..event(&["a", "B"])
            };
            mark(&daemon, &event, &["a"]).await;
            let others = Event::new("others", "Reboot", ["b", "c"].map(Into::into).into());
            mark(&daemon, &others, &["b"]).await;
            let run = async |time| assert!(timeout(time, daemon.maintain()).await.is_err());
            run(Duration::from_secs(1)).await;
            assert!(!is_ready(&daemon, &event, "a").await, "{id}");
            if asks {
                let answer = daemon.answer(Question::Approve, event.clone()).await;
                assert_eq!(answer, Ok(Answer::Closed(Why::NotReady(vec!["B".into()]))));
            }
            run(ASKED_AGAIN_WITHIN * 3 / 4).await;
            assert_eq!(is_ready(&daemon, &event, "a").await, asks, "{id}");
            // That happens once. The machine leaves other machines' marks alone.
            let registers = async || daemon.engine.list("events/").await.expect("the events");
            let before = registers().await;
            assert!(
                before
                    .iter()
                    .any(|(key, found)| *key == others.key() && !found.value.contains("\"a\""))
            );
            if !asks {
                mark(&daemon, &event, &["a"]).await;
                let before = registers().await;
                run(ASKED_AGAIN_WITHIN * 2).await;
                assert_eq!(registers().await, before);
            }
        });
    }
}

/// The reply to the write of the mark is lost, the daemon is restarted, or the request that
/// withdraws the mark is lost.
#[test]
fn a_mark_that_this_process_is_not_certain_of_is_withdrawn() {
    let cases = [
        (Lost::Reply, false, Lost::Nothing),
        (Lost::Reply, true, Lost::Nothing),
        (Lost::Nothing, false, Lost::Request),
    ];
    for (case, is_back) in cases
        .into_iter()
        .flat_map(|case| [(case, true), (case, false)])
    {
        let (of_approval, is_started_again, of_withdrawal) = case;
        let folder = tempfile::tempdir().expect("a folder");
        let config = format!(
            "audit = \"{}/audit\"\n{TWO_GROUPS}",
            folder.path().display()
        );
        let config = Config::parse(&config).expect("a configuration");
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build();
        runtime.expect("a runtime").block_on(async {
            let engine = Unreliable::default();
            let start = || Daemon::new(config.clone(), "a".into(), None, Box::new(engine.clone()));
            let (mut daemon, event) = (start(), event(&["a", "b"]));
            assert_eq!(
                daemon.answer(Question::Prepare, event.clone()).await,
                Ok(Answer::Open)
            );
            record(
                &daemon,
                r#"{"record":"prepare","event_id":"e","outcome":"ready"}"#,
            );
            engine.loses.set(of_approval);
            let answer = daemon.answer(Question::Approve, event.clone()).await;
            assert_eq!(answer.is_err(), of_approval == Lost::Reply, "{answer:?}");
            engine.loses.set(Lost::Nothing);
            if is_started_again {
                daemon = start();
                engine.down.borrow_mut().push("");
                assert!(
                    daemon
                        .answer(Question::Approve, event.clone())
                        .await
                        .is_err()
                );
                engine.down.borrow_mut().clear();
            }
            assert!(is_ready(&daemon, &event, "a").await, "the mark was made");
            // `NotBefore` has moved, or the watcher has ended.
            if is_back {
                record(
                    &daemon,
                    r#"{"record":"recover","event_ids":["e"],"outcome":"done"}"#,
                );
            } else {
                sleep(ASKED_AGAIN_WITHIN).await;
            }
            engine.loses.set(of_withdrawal);
            assert!(
                timeout(Duration::from_secs(1), daemon.maintain())
                    .await
                    .is_err()
            );
            engine.loses.set(Lost::Nothing);
            assert!(
                timeout(Duration::from_secs(10), daemon.maintain())
                    .await
                    .is_err()
            );
            assert!(
                !is_ready(&daemon, &event, "a").await,
                "is back: {is_back}, started again: {is_started_again}"
            );
        });
    }
}

/// Changes the event's register as another machine does.
pub(super) async fn change(daemon: &Daemon, event: &Event, changes: &[EventChange]) {
    let (mut register, _) = store::read::<EventRegister>(&*daemon.engine, &event.key())
        .await
        .expect("read");
    for change in changes {
        change.apply(&mut register, 1);
    }
    let value = store::encode("", &register).expect("JSON");
    put(daemon, &event.key(), &value).await;
}

pub(super) fn begin(event: &Event, round: u64) -> EventChange {
    EventChange::Begin {
        by: "b".into(),
        event: Box::new(event.clone()),
        round,
    }
}

pub(super) const MAY_BE_POSTED: Result<Answer, AnswerError> = Ok(Answer::Closed(Why::MayBePosted));

/// This process did not see the decision between two rounds.
#[test]
fn each_decision_that_is_void_has_a_time_in_which_somebody_may_still_post() {
    run(async |daemon| {
        let event = event(&["a", "b"]);
        let prepare = || daemon.answer(Question::Prepare, event.clone());
        let decided = EventChange::Go("b".into());
        change(
            &daemon,
            &event,
            &[begin(&event, 1), decided.clone(), begin(&event, 2)],
        )
        .await;
        assert_eq!(prepare().await, MAY_BE_POSTED);
        sleep(driver::POST_TIME).await;
        assert_eq!(prepare().await, Ok(Answer::Open));
        change(&daemon, &event, &[decided, begin(&event, 3)]).await;
        assert_eq!(prepare().await, MAY_BE_POSTED);
        sleep(driver::POST_TIME).await;
        assert_eq!(prepare().await, Ok(Answer::Open));
    });
}

#[test]
fn a_decision_in_a_register_of_an_earlier_version_has_that_time_too() {
    run(async |daemon| {
        let event = event(&["a", "b"]);
        let mut earlier = EventRegister::default();
        for change in [begin(&event, 0), EventChange::Go("b".into())] {
            change.apply(&mut earlier, 1);
        }
        let value = store::encode("", &earlier).expect("JSON");
        put(&daemon, "events/e/0123456789abcdef", &value).await;
        let prepare = || daemon.answer(Question::Prepare, event.clone());
        assert_eq!(prepare().await, MAY_BE_POSTED);
        sleep(driver::POST_TIME).await;
        assert_eq!(prepare().await, Ok(Answer::Open));
    });
}

/// One that joined later is waited for as long.
#[test]
fn each_machine_that_joins_is_waited_for() {
    run(async |daemon| {
        let event = event(&["a", "b"]);
        let with = |names: &[&str]| super::event(names);
        let differs = async |names: &[&str]| {
            let names = names.iter().map(|&name| name.into()).collect();
            let answer = daemon.answer(Question::Approve, event.clone()).await;
            assert_eq!(answer, Ok(Answer::Closed(Why::DocumentsDiffer(names))));
        };
        change(&daemon, &event, &[begin(&with(&["a", "b", "c"]), 1)]).await;
        differs(&["c"]).await;
        sleep(Duration::from_secs(59)).await;
        change(&daemon, &event, &[begin(&with(&["a", "b", "c", "d"]), 2)]).await;
        differs(&["c", "d"]).await;
        sleep(Duration::from_secs(2)).await;
        differs(&["d"]).await;
    });
}

/// The mark is for the event as it was; the question about the event as it is did not reach the store.
#[test]
fn a_mark_is_withdrawn_although_the_event_has_changed_meanwhile() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build();
    runtime.expect("a runtime").block_on(async {
        let engine = Unreliable::default();
        let config = Config::parse(CONFIG).expect("a configuration");
        let daemon = Daemon::new(config, "a".into(), None, Box::new(engine.clone()));
        let event = event(&["a", "b"]);
        let longer = Event {
            duration: Some(900),
            ..event.clone()
        };
        let closed = daemon.answer(Question::Approve, event.clone()).await;
        assert!(matches!(closed, Ok(Answer::Closed(_))), "{closed:?}");
        assert!(is_ready(&daemon, &event, "a").await);
        engine.down.borrow_mut().push("");
        let failed = daemon.answer(Question::Prepare, longer).await;
        assert!(failed.is_err(), "{failed:?}");
        engine.down.borrow_mut().clear();
        sleep(ASKED_AGAIN_WITHIN).await;
        let upkeep = timeout(Duration::from_secs(10), daemon.maintain()).await;
        assert!(upkeep.is_err(), "it has no end");
        assert!(!is_ready(&daemon, &event, "a").await);
    });
}

/// The document of a machine that was started again names 64 machines, and the register 65.
#[test]
fn a_mark_of_a_large_event_is_withdrawn_by_a_machine_that_sees_a_smaller_one() {
    run_with(TWO_GROUPS, async |daemon| {
        let names: Vec<Name> = (0..64)
            .map(|index| Name::from(format!("b{index}").as_str()))
            .collect();
        let of = |names: &[Name]| {
            Event::new(
                "e",
                "Reboot",
                names.iter().cloned().chain(["a".into()]).collect(),
            )
        };
        let part = MarkRegister {
            machine: "a".into(),
            mark: Mark::Ready,
            at: 1,
            round: 1,
        };
        let event = of(&names);
        change(&daemon, &event, &[begin(&event, 1)]).await;
        let prefix = driver::marks_prefix(&event.key());
        let key = format!("{prefix}{}", Name::from("a").key());
        put(&daemon, &key, &store::encode("", &part).expect("JSON")).await;
        daemon
            .answer(Question::Prepare, of(&names[1..]))
            .await
            .expect("an answer");
        let found = daemon
            .engine
            .read(&key)
            .await
            .expect("read")
            .expect("a mark");
        let part: MarkRegister = store::decode(&key, &found.value).expect("JSON");
        assert_eq!(part.mark, Mark::Withdrawn);
    });
}

/// A machine that is silent cannot withdraw its mark: it may prepare again by its last call.
#[test]
fn the_mark_of_a_silent_machine_does_not_count() {
    for others in [1, 20] {
        run_with(TWO_GROUPS, async |daemon| {
            let names: Vec<_> = (0..others).map(|index| format!("x{index}")).collect();
            let mut names: Vec<_> = names.iter().map(String::as_str).collect();
            let event = event(&[&["a"], &names[..]].concat());
            mark(&daemon, &event, &names).await;
            sleep(daemon.config.silent_after + Duration::from_secs(1)).await;
            let last = names.pop().expect("a machine");
            for name in &names {
                beat(&daemon, name, 2).await;
            }
            let silent = Ok(Answer::Closed(Why::Silent(vec![last.into()])));
            let answer = daemon.answer(Question::Approve, event.clone()).await;
            assert_eq!(answer, silent, "{others} others");
            assert!(is_ready(&daemon, &event, "a").await);
            beat(&daemon, last, 2).await;
            let answer = daemon.answer(Question::Approve, event).await;
            assert_eq!(answer, Ok(Answer::Open), "{others} others");
        });
    }
}

/// In the backup `b` is ready, and it has withdrawn its mark since.
#[test]
fn the_marks_of_a_store_that_came_back_from_a_backup_do_not_count() {
    for withdraws in [false, true] {
        marks_of_a_backup(withdraws);
    }
}

/// `withdraws` is whether this machine withdraws its mark before it asks again: that hides nothing.
fn marks_of_a_backup(withdraws: bool) {
    run_with(TWO_GROUPS, async |daemon| {
        let event = event(&["a", "b"]);
        let not_ready = Ok(Answer::Closed(Why::NotReady(vec!["b".into()])));
        let approve = || daemon.answer(Question::Approve, event.clone());
        let restore = async |value: &str| put(&daemon, &event.key(), value).await;
        assert_eq!(approve().await, not_ready);
        let (mut register, _) = store::read::<EventRegister>(&*daemon.engine, &event.key())
            .await
            .expect("read");
        let mut write = |mark| {
            EventChange::Mark("b".into(), mark).apply(&mut register, 1);
            register.writes += 1;
            store::encode("", &register).expect("JSON")
        };
        let (backup, newer) = (write(Mark::Ready), write(Mark::Withdrawn));
        beat(&daemon, "b", 1).await;
        restore(&newer).await;
        assert_eq!(approve().await, not_ready);
        restore(&backup).await;
        if withdraws {
            sleep(ASKED_AGAIN_WITHIN).await;
            daemon.withdraw_marks().await.expect("withdrawn");
            assert!(!is_ready(&daemon, &event, "a").await);
            assert!(is_ready(&daemon, &event, "b").await, "as before");
        }
        assert_eq!(approve().await, not_ready);
        mark(&daemon, &event, &["b"]).await;
        assert_eq!(approve().await, Ok(Answer::Open));
    });
}

/// A copy of `a` is ready at once, while `a` prepares. Neither knows of the other before both have
/// raised the heartbeat.
#[test]
fn a_daemon_that_may_be_a_copy_neither_marks_nor_claims() {
    run_with(TWO_GROUPS, async |daemon| {
        let event = event(&["a", "b"]);
        mark(&daemon, &event, &["b"]).await;
        beat(&daemon, "a", 7).await;
        let approve = || daemon.answer(Question::Approve, event.clone());
        let prepare = || daemon.answer(Question::Prepare, event.clone());
        let groups = async || daemon.engine.list("groups/").await.expect("the groups");
        // Before its first heartbeat, too.
        assert_eq!(prepare().await, Ok(Answer::Closed(Why::MayBeCopy)));
        assert_eq!(approve().await, Ok(Answer::Closed(Why::MayBeCopy)));
        let check = async {
            sleep(Duration::from_secs(1)).await;
            assert_eq!(prepare().await, Ok(Answer::Closed(Why::MayBeCopy)));
            assert_eq!(groups().await, [], "it claims nothing");
            assert_eq!(approve().await, Ok(Answer::Closed(Why::MayBeCopy)));
            assert!(!is_ready(&daemon, &event, "a").await);
            beat(&daemon, "a", 9).await;
            sleep(daemon.config.heartbeat * 3 / 2).await;
            assert!(matches!(approve().await, Err(AnswerError::SameName(_))));
            // Then the other one ends.
            sleep(daemon.config.heartbeat * 3 / 2).await;
            beat(&daemon, "b", 2).await;
            assert_eq!(approve().await, Ok(Answer::Open));
        };
        tokio::select! {
            () = daemon.maintain() => {}
            () = check => {}
        }
    });
}

/// Otherwise it would count until the watcher has asked, if at all.
#[test]
fn the_mark_of_an_earlier_process_is_withdrawn_before_the_first_heartbeat() {
    run_with(TWO_GROUPS, async |daemon| {
        let event = event(&["a", "b"]);
        mark(&daemon, &event, &["a"]).await;
        let check = async {
            let own = machine_key(&"a".into());
            while daemon.engine.read(&own).await == Ok(None) {
                sleep(Duration::from_millis(1)).await;
            }
            assert!(!is_ready(&daemon, &event, "a").await);
        };
        tokio::select! {
            () = daemon.maintain() => {}
            () = check => {}
        }
    });
}

/// The machine prepares again by its last call while the store is down: others count its mark again
/// once its heartbeat goes on.
#[test]
fn a_mark_is_withdrawn_before_the_heartbeat_goes_on_if_a_preparation_was_asked_about_meanwhile() {
    for is_started_again in [false, true] {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build();
        runtime.expect("a runtime").block_on(async {
            let engine = Unreliable::default();
            let config = Config::parse(TWO_GROUPS).expect("a configuration");
            let start = || Daemon::new(config.clone(), "a".into(), None, Box::new(engine.clone()));
            let (mut daemon, event) = (start(), event(&["a", "b"]));
            let closed = daemon.answer(Question::Approve, event.clone()).await;
            assert!(matches!(closed, Ok(Answer::Closed(_))), "{closed:?}");
            engine.down.borrow_mut().push("");
            if is_started_again {
                daemon = start();
            }
            let failed = daemon.answer(Question::Prepare, event.clone()).await;
            assert!(failed.is_err(), "{failed:?}");
            engine.down.borrow_mut().clear();
            assert!(is_ready(&daemon, &event, "a").await);
            let own = machine_key(&"a".into());
            let check = async {
                while daemon.engine.read(&own).await == Ok(None) {
                    sleep(Duration::from_millis(1)).await;
                }
                assert!(
                    !is_ready(&daemon, &event, "a").await,
                    "started again: {is_started_again}"
                );
            };
            tokio::select! {
                () = daemon.maintain() => {}
                () = check => {}
            }
        });
    }
}

/// The daemon was stopped when the watcher asked, which has given up since: only the audit file shows the preparation.
#[test]
fn a_mark_is_withdrawn_before_the_heartbeat_goes_on_if_a_last_call_was_recorded_meanwhile() {
    run_with_audit(TWO_GROUPS, async |daemon| {
        let event = event(&["a", "b"]);
        let closed = daemon.answer(Question::Approve, event.clone()).await;
        assert!(matches!(closed, Ok(Answer::Closed(_))), "{closed:?}");
        assert!(is_ready(&daemon, &event, "a").await);
        let mut records = String::new();
        for record in [
            r#"{"record":"gate","event_id":"e","event_type":"Reboot","phase":"prepare","outcome":"last-call"}"#,
            r#"{"record":"prepare","event_id":"e","outcome":"begun"}"#,
        ] {
            records += record;
            records.push('\n');
        }
        std::fs::write(&daemon.config.audit, records).expect("written");
        let mut heartbeat = Heartbeat::default();
        daemon.beat_once(&mut heartbeat).await.expect("a heartbeat");
        assert!(!is_ready(&daemon, &event, "a").await);
    });
}

/// Nobody decides with it, and the machine would count as out of service for ever.
#[test]
fn a_mark_that_cannot_be_read_keeps_no_daemon_from_its_heartbeat() {
    run_with(TWO_GROUPS, async |daemon| {
        let names: Vec<_> = (0..100).map(|index| format!("x{index}")).collect();
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        let event = event(&[&["a"], &names[..]].concat());
        mark(&daemon, &event, &[]).await;
        put(
            &daemon,
            &format!("{}x0", driver::marks_prefix(&event.key())),
            "[",
        )
        .await;
        let own = machine_key(&"a".into());
        let check = async {
            while daemon.engine.read(&own).await == Ok(None) {
                sleep(Duration::from_millis(1)).await;
            }
            let problem = daemon.problems.of(Subject::EarlierMarks);
            assert!(problem.is_some_and(|problem| problem.contains("cannot be read")));
        };
        tokio::select! {
            () = daemon.maintain() => {}
            () = check => {}
            () = sleep(Duration::from_secs(60)) => panic!("no heartbeat"),
        }
    });
}
