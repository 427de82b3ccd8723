//! What a decision rests on, and when it is void.

use super::marks::{MAY_BE_POSTED, begin, change, mark};
use super::*;

/// The event's register.
async fn register(daemon: &Daemon, event: &Event) -> EventRegister {
    let read = store::read(&*daemon.engine, &event.key()).await;
    read.expect("read").0
}

/// Whether this machine is in the group.
async fn has_place(daemon: &Daemon) -> bool {
    let group = group(daemon, "groups/db").await;
    group.held().contains(&Name::from("a"))
}

/// Both machines are ready, and this one decides.
async fn decide(daemon: &Daemon, event: &Event) {
    let answer = daemon.answer(Question::Prepare, event.clone()).await;
    assert_eq!(answer, Ok(Answer::Open));
    mark(daemon, event, &["b"]).await;
    let answer = daemon.answer(Question::Approve, event.clone()).await;
    assert_eq!(answer, Ok(Answer::Open));
}

/// Asks for a preparation while the registers with these keys cannot be read or changed.
async fn prepare_without(daemon: &Daemon, engine: &Unreliable, keys: &'static str, event: &Event) {
    engine.down.borrow_mut().push(keys);
    let failed = daemon.answer(Question::Prepare, event.clone()).await;
    assert!(failed.is_err(), "{failed:?}");
}

/// A document may be older than the one before it.
#[test]
fn a_machine_that_a_document_does_not_name_any_more_is_waited_for() {
    run_with(TWO_GROUPS, async |daemon| {
        let approve = async |names: &[&str]| daemon.answer(Question::Approve, event(names)).await;
        let not_ready = Ok(Answer::Closed(Why::NotReady(vec!["b".into()])));
        let differ = Ok(Answer::Closed(Why::DocumentsDiffer(vec!["b".into()])));
        for number in 0..2 {
            beat(&daemon, "b", number).await;
            change(
                &daemon,
                &event(&["a", "b"]),
                &[begin(&event(&["a", "b"]), 1)],
            )
            .await;
            assert_eq!(approve(&["a", "b"]).await, not_ready);
            assert_eq!(approve(&["a"]).await, differ);
            sleep(Duration::from_secs(59)).await;
            assert_eq!(approve(&["a"]).await, differ);
            sleep(Duration::from_secs(2)).await;
            assert_eq!(approve(&["a"]).await, Ok(Answer::Open));
        }
    });
}

/// It is dropped while this machine may decide, and its daemon does not run.
#[test]
fn a_machine_that_is_silent_and_dropped_holds_up_no_decision() {
    run_with(TWO_GROUPS, async |daemon| {
        let answer = daemon
            .answer(Question::Prepare, event(&["a", "b", "c"]))
            .await;
        assert_eq!(answer, Ok(Answer::Open));
        let left = event(&["a", "b"]);
        decide(&daemon, &left).await;
        let answer = daemon.answer(Question::Approve, left).await;
        assert_eq!(answer, Ok(Answer::Open), "it posts again");
    });
}

/// The round that it begins names them, too.
#[test]
fn a_machine_that_prepares_again_leaves_nobody_out_of_the_event() {
    run_with(TWO_GROUPS, async |daemon| {
        decide(&daemon, &event(&["a", "b"])).await;
        let answer = daemon.answer(Question::Prepare, event(&["a"])).await;
        assert_eq!(answer, MAY_BE_POSTED);
        let register = register(&daemon, &event(&["a"])).await;
        assert!(register.go.is_none() && register.resources.contains(&"b".into()));
        let answer = daemon.answer(Question::Approve, event(&["a"])).await;
        let differ = Why::DocumentsDiffer(vec!["b".into()]);
        assert_eq!(answer, Ok(Answer::Closed(differ)));
    });
}

/// The POST failed, and is sent again.
#[test]
fn a_decision_does_not_count_while_a_machine_is_silent() {
    run_with(TWO_GROUPS, async |daemon| {
        let event = event(&["a", "b"]);
        decide(&daemon, &event).await;
        let approve = || daemon.answer(Question::Approve, event.clone());
        assert_eq!(approve().await, Ok(Answer::Open));
        sleep(daemon.config.silent_after + Duration::from_secs(1)).await;
        let silent = Ok(Answer::Closed(Why::Silent(vec!["b".into()])));
        assert_eq!(approve().await, silent);
        beat(&daemon, "b", 2).await;
        assert_eq!(approve().await, Ok(Answer::Open));
    });
}

/// `NotBefore` has moved, and the POST failed. The place is kept as long as somebody may still post.
#[test]
fn a_machine_that_goes_back_into_service_voids_the_decision() {
    for starts in [false, true] {
        goes_back_into_service(starts);
    }
}

/// `starts` is whether the event is approved all the same.
fn goes_back_into_service(starts: bool) {
    run_with_audit(TWO_GROUPS, async |daemon| {
        let event = event(&["a", "b"]);
        decide(&daemon, &event).await;
        for line in [
            r#"{"record":"prepare","event_id":"e","outcome":"ready"}"#,
            r#"{"record":"recover","event_ids":["e"],"outcome":"done"}"#,
        ] {
            record(&daemon, line);
        }
        let holds = || has_place(&daemon);
        daemon.withdraw_marks().await.expect("no problem");
        let register = register(&daemon, &event).await;
        assert!(register.go.is_none() && register.was_decided);
        assert!(!register.is_ready(&"a".into()) && holds().await);
        if starts {
            let line = r#"{"record":"change","change":"started","event_id":"e","mine":true}"#;
            record(&daemon, line);
        }
        sleep(driver::POST_TIME).await;
        daemon.withdraw_marks().await.expect("no problem");
        assert!(holds().await, "it may be approved");
        sleep(driver::DOCUMENTS_AGREE_WITHIN).await;
        daemon.withdraw_marks().await.expect("no problem");
        assert_eq!(holds().await, starts);
    });
}

/// The question about the preparation did not reach the store.
#[test]
fn a_machine_that_prepares_by_its_last_call_voids_the_decision() {
    let engine = Unreliable::default();
    run_on(TWO_GROUPS, &engine, async |daemon| {
        let event = event(&["a", "b"]);
        decide(&daemon, &event).await;
        prepare_without(&daemon, &engine, "", &event).await;
        engine.down.borrow_mut().clear();
        daemon
            .withdraw_marks_of_preparations()
            .await
            .expect("no problem");
        assert!(register(&daemon, &event).await.go.is_none());
    });
}

/// Others count this machine's mark as long as it is not silent.
#[test]
fn a_machine_that_prepares_and_cannot_withdraw_its_mark_becomes_silent() {
    let engine = Unreliable::default();
    run_on(TWO_GROUPS, &engine, async |daemon| {
        let event = event(&["a", "b"]);
        decide(&daemon, &event).await;
        prepare_without(&daemon, &engine, "events/", &event).await;
        let beat = async || daemon.beat_once(&mut *daemon.heartbeat.lock().await).await;
        assert!(beat().await.is_err());
        engine.down.borrow_mut().clear();
        beat().await.expect("it goes on");
    });
}

/// Another machine may have the yes already.
#[test]
fn a_machine_waits_for_a_post_although_the_event_was_over_meanwhile() {
    run_with_audit(TWO_GROUPS, async |daemon| {
        let event = event(&["a", "b"]);
        decide(&daemon, &event).await;
        is_over(&daemon, "e");
        record(
            &daemon,
            r#"{"record":"change","change":"scheduled","event_id":"e"}"#,
        );
        let prepare = || daemon.answer(Question::Prepare, event.clone());
        assert_eq!(prepare().await, MAY_BE_POSTED);
        sleep(driver::POST_TIME).await;
        assert_eq!(prepare().await, Ok(Answer::Open));
    });
}

/// The daemon was restarted while its machine went back into service.
#[test]
fn a_process_that_was_not_asked_voids_the_decision_too_and_gives_the_place_back() {
    run_fleet(TWO_GROUPS, async |fleet| {
        let (daemon, event) = (fleet.start("a"), event(&["a", "b"]));
        record(
            &daemon,
            r#"{"record":"change","change":"scheduled","event_id":"e","mine":true}"#,
        );
        decide(&daemon, &event).await;
        drop(daemon);
        let daemon = fleet.start("a");
        for line in [
            r#"{"record":"prepare","event_id":"e","outcome":"ready","mine":true}"#,
            r#"{"record":"recover","event_ids":["e"],"outcome":"done"}"#,
        ] {
            append(&daemon, line);
        }
        let holds = || has_place(&daemon);
        fleet.run(&[&daemon], Duration::from_secs(5)).await;
        assert!(register(&daemon, &event).await.go.is_none() && holds().await);
        fleet
            .run(&[&daemon], 2 * driver::DOCUMENTS_AGREE_WITHIN)
            .await;
        assert!(!holds().await);
        // The other machine has claimed nothing.
        let group = group(&daemon, "groups/db").await;
        assert!(group.held().is_empty(), "{group:?}");
    });
}

/// The same, some time after the daemon's start.
#[test]
fn a_process_that_was_not_asked_sees_later_that_its_machine_is_back() {
    run_fleet(TWO_GROUPS, async |fleet| {
        let (daemon, event) = (fleet.start("a"), event(&["a", "b"]));
        for line in [
            r#"{"record":"change","change":"scheduled","event_id":"e","mine":true}"#,
            r#"{"record":"prepare","event_id":"e","outcome":"ready","mine":true}"#,
        ] {
            record(&daemon, line);
        }
        decide(&daemon, &event).await;
        drop(daemon);
        let daemon = fleet.start("a");
        let run = async |time| fleet.run(&[&daemon], time).await;
        run(2 * driver::DOCUMENTS_AGREE_WITHIN).await;
        assert!(register(&daemon, &event).await.go.is_some());
        append(
            &daemon,
            r#"{"record":"recover","event_ids":["e"],"outcome":"done"}"#,
        );
        run(Duration::from_secs(5)).await;
        let register = register(&daemon, &event).await;
        assert!(register.go.is_none() && has_place(&daemon).await);
        run(2 * driver::DOCUMENTS_AGREE_WITHIN).await;
        assert!(!has_place(&daemon).await);
    });
}

/// The watcher has asked for the approval since the last call.
#[test]
fn a_decision_outlasts_a_restart_of_a_machine_that_is_ready_after_its_last_call() {
    run_fleet(TWO_GROUPS, async |fleet| {
        let (daemon, event) = (fleet.start("a"), event(&["a", "b"]));
        for line in [
            r#"{"record":"change","change":"scheduled","event_id":"e","mine":true}"#,
            r#"{"record":"gate","event_id":"e","phase":"prepare","outcome":"last-call","mine":true}"#,
            r#"{"record":"prepare","event_id":"e","outcome":"begun","mine":true}"#,
            r#"{"record":"gate","event_id":"e","phase":"approve","outcome":"open","mine":true}"#,
        ] {
            append(&daemon, line);
        }
        decide(&daemon, &event).await;
        drop(daemon);
        let daemon = fleet.start("a");
        fleet.run(&[&daemon], Duration::from_secs(5)).await;
        assert!(register(&daemon, &event).await.go.is_some());
    });
}

/// Another machine has voided it, which this one has not read yet.
#[test]
fn a_start_a_moment_after_a_decision_that_is_void_is_not_forced() {
    run_with_audit(TWO_GROUPS, async |daemon| {
        let event = event(&["a", "b"]);
        decide(&daemon, &event).await;
        change(&daemon, &event, &[begin(&event, 2)]).await;
        record(
            &daemon,
            r#"{"record":"change","change":"started","event_id":"e","mine":true}"#,
        );
        daemon.count_forced().await.expect("counted");
        let forced = daemon.forced.borrow();
        assert_eq!(forced.as_ref().map(|forced| forced.count), Some(0));
    });
}

/// Long after a decision that is void, Azure starts the event by itself.
#[test]
fn a_start_long_after_a_decision_that_is_void_is_forced() {
    run_with_audit(TWO_GROUPS, async |daemon| {
        let event = event(&["a", "b"]);
        decide(&daemon, &event).await;
        let prepare = || daemon.answer(Question::Prepare, event.clone());
        assert_eq!(prepare().await, MAY_BE_POSTED);
        sleep(2 * driver::DOCUMENTS_AGREE_WITHIN).await;
        record(
            &daemon,
            r#"{"record":"change","change":"started","event_id":"e","mine":true}"#,
        );
        daemon.count_forced().await.expect("counted");
        let forced = daemon.forced.borrow();
        assert_eq!(forced.as_ref().map(|forced| forced.count), Some(1));
    });
}
