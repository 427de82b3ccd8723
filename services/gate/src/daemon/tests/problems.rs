//! The daemon shows a problem for as long as it lasts, without asking the store again and again.

use super::*;

const ONE: &str = "engine = \"folder\"\nfolder.path = \"/x\"\nmetadata = \"http://127.0.0.1:1\"\n\
    [[group]]\nname = \"db\"\nmachines = [\"*\"]\nmax_unavailable = 1\n";

async fn lives(daemon: &Daemon, time: Duration) {
    assert!(timeout(time, daemon.maintain()).await.is_err());
}

#[test]
fn a_register_that_cannot_be_read_is_shown_until_its_event_is_over() {
    run_on(ONE, &Unreliable::default(), async |daemon| {
        let event = event(&["a"]);
        for (value, problem) in [
            ("{", "cannot be read: EOF"),
            (r#"{"format":9}"#, "has format 9"),
        ] {
            put(&daemon, &event.key(), value).await;
            let why = daemon
                .answer(Question::Prepare, event.clone())
                .await
                .expect_err("no answer")
                .to_string();
            assert!(
                why.starts_with(&format!("the register {} {problem}", event.key())),
                "{why}"
            );
            assert!(
                !daemon.metrics().engine_up && daemon.summary().contains(&why),
                "{}",
                daemon.summary()
            );
        }
        is_over(&daemon, "e");
        assert!(daemon.metrics().engine_up, "{}", daemon.summary());
        lives(&daemon, EVENT_KEPT + Duration::from_secs(10)).await;
        assert_eq!(
            daemon
                .engine
                .read(&event.key())
                .await
                .expect("read")
                .expect("a register")
                .value,
            r#"{"format":9}"#
        );
        assert!(
            daemon.events.borrow().is_empty(),
            "the daemon has forgotten it"
        );
        // The problem stays until an operator corrects it.
        let expected = format!(
            "no events; the marks of an earlier process: the register {} has format 9",
            event.key()
        );
        assert!(
            daemon.summary().starts_with(&expected),
            "{}",
            daemon.summary()
        );
    });
}

#[test]
fn a_register_that_cannot_be_read_is_not_read_again_and_again() {
    let engine = Unreliable::default();
    run_on(ONE, &engine, async |daemon| {
        put(&daemon, &event(&["a"]).key(), "{").await;
        let started = r#"{"record":"change","change":"started","event_id":"e","mine":true}"#;
        record(&daemon, started);
        lives(&daemon, daemon.config.heartbeat).await;
        let before = engine.registers.operations();
        lives(&daemon, 2 * daemon.config.heartbeat).await;
        assert!(
            !daemon.metrics().engine_up
                && daemon
                    .summary()
                    .contains("forced events: the register events/e/")
        );
        let operations = engine.registers.operations() - before;
        assert!(operations <= 20, "{operations} in a minute");
        is_over(&daemon, "e");
        lives(&daemon, daemon.config.heartbeat).await;
        assert!(
            !daemon.summary().contains("forced events"),
            "{}",
            daemon.summary()
        );
        // It may hold a mark of an earlier process, so it stays known until it is deleted.
        let earlier = "the marks of an earlier process: the register events/e/";
        assert!(daemon.summary().contains(earlier), "{}", daemon.summary());
        let found = daemon
            .engine
            .read(&event(&["a"]).key())
            .await
            .expect("read")
            .expect("a register");
        assert!(
            daemon
                .engine
                .delete(&event(&["a"]).key(), &found.revision)
                .await
                .expect("deleted")
        );
        lives(&daemon, CORRECTED_WITHIN + Duration::from_secs(1)).await;
        assert!(daemon.metrics().engine_up, "{}", daemon.summary());
    });
}

#[test]
fn a_look_at_the_machines_that_failed_is_a_problem_only_until_the_store_answers() {
    let engine = Unreliable::default();
    run_on(ONE, &engine, async |daemon| {
        lives(&daemon, daemon.config.heartbeat).await;
        engine.down.borrow_mut().push("machines/");
        assert_eq!(
            daemon.answer(Question::Prepare, event(&["a"])).await,
            Err(EngineError("it is down".to_owned()).into())
        );
        assert!(
            daemon.summary().contains("the machines: it is down"),
            "{}",
            daemon.summary()
        );
        // Nobody asks again: the event is over.
        is_over(&daemon, "e");
        lives(&daemon, daemon.config.heartbeat).await;
        assert!(!daemon.metrics().engine_up, "{}", daemon.summary());
        engine.down.borrow_mut().clear();
        lives(&daemon, 2 * daemon.config.heartbeat).await;
        assert!(
            daemon.metrics().engine_up && !daemon.summary().contains("down"),
            "{}",
            daemon.summary()
        );
        let before = engine.registers.operations();
        lives(&daemon, 10 * daemon.config.heartbeat).await;
        let operations = engine.registers.operations() - before;
        assert!(operations <= 12, "{operations}: it is idle again");
    });
}

#[test]
fn a_machine_that_cannot_be_forgotten_is_a_problem_only_as_long_as_it_is_there() {
    let engine = Unreliable::default();
    run_on(ONE, &engine, async |daemon| {
        for name in ["gone_1", "gone_2"] {
            let written = daemon.engine.clock().map(|clock| clock.now.0);
            let machine = MachineRegister {
                machine: Some(name.into()),
                written,
                leaving: true,
                ..Default::default()
            };
            put(
                &daemon,
                &machine_key(&name.into()),
                &store::encode("", &machine).expect("JSON"),
            )
            .await;
        }
        sleep(daemon.config.silent_after).await;
        let _ = daemon.answer(Question::Prepare, event(&["a"])).await;
        engine.down.borrow_mut().push("machines/gone_1");
        lives(&daemon, 2 * daemon.config.silent_after).await;
        assert!(
            daemon
                .summary()
                .contains("the forgotten machines: it is down"),
            "{}",
            daemon.summary()
        );
        assert_eq!(daemon.metrics().forgotten, 1, "the other one is");
        // Another machine forgets it.
        engine.down.borrow_mut().clear();
        let key = machine_key(&"gone_1".into());
        let found = daemon
            .engine
            .read(&key)
            .await
            .expect("read")
            .expect("a register");
        assert!(
            daemon
                .engine
                .delete(&key, &found.revision)
                .await
                .expect("deleted")
        );
        lives(&daemon, 2 * daemon.config.heartbeat).await;
        assert!(daemon.metrics().engine_up, "{}", daemon.summary());
    });
}

#[test]
fn a_document_that_cannot_be_read_is_a_problem_only_as_long_as_it_matters() {
    run_on(ONE, &Unreliable::default(), async |daemon| {
        let claim = r#"{"format":1,"limit":1,"claims":{"lost":{"slots":["a"],"by":["a"],"at":1}}}"#;
        put(&daemon, "groups/db", claim).await;
        record(
            &daemon,
            r#"{"record":"recover","event_ids":["other"],"outcome":"done"}"#,
        );
        // Only then a new audit file shows that the machine is in service.
        lives(
            &daemon,
            daemon.config.return_within + 3 * daemon.config.heartbeat,
        )
        .await;
        let problem = "the machine's own document: cannot ask http://127.0.0.1:1";
        assert!(daemon.summary().contains(problem), "{}", daemon.summary());
        assert!(daemon.metrics().engine_up, "the store answers");
        // An operator frees the place.
        put(
            &daemon,
            "groups/db",
            r#"{"format":1,"limit":1,"claims":{}}"#,
        )
        .await;
        lives(&daemon, 2 * daemon.config.heartbeat).await;
        assert!(
            !daemon.summary().contains("document"),
            "{}",
            daemon.summary()
        );
    });
}

#[test]
fn a_store_that_never_answers_is_a_problem_while_it_is_waited_for() {
    let engine = Unreliable::default();
    run_on(ONE, &engine, async |daemon| {
        let beats = async || {
            store::read::<MachineRegister>(&*engine.registers, "machines/a")
                .await
                .expect("read")
                .0
                .beat
        };
        let watches = async {
            sleep(daemon.config.heartbeat / 2).await;
            assert!(daemon.metrics().engine_up && beats().await == 1);
            engine.hangs.set(true);
            sleep(daemon.config.heartbeat).await;
            assert!(!daemon.metrics().engine_up, "{}", daemon.summary());
            assert!(
                daemon
                    .summary()
                    .contains("the heartbeat: the engine did not answer within 8 s")
            );
        };
        tokio::select! {
            () = daemon.maintain() => {}
            () = watches => {}
        }
        engine.hangs.set(false);
        lives(&daemon, daemon.config.heartbeat / 2).await;
        assert!(
            daemon.metrics().engine_up && beats().await == 2,
            "{}",
            daemon.summary()
        );
    });
}

#[test]
fn a_store_that_does_not_answer_at_the_start_is_a_problem_too() {
    let engine = Unreliable::default();
    run_on(ONE, &engine, async |daemon| {
        engine.hangs.set(true);
        lives(&daemon, daemon.config.heartbeat).await;
        assert!(!daemon.metrics().engine_up, "{}", daemon.summary());
    });
}

#[test]
fn a_watcher_that_asks_and_writes_no_audit_file_is_shown() {
    run_on(ONE, &Unreliable::default(), async |daemon| {
        lives(&daemon, daemon.config.heartbeat).await;
        assert_eq!(
            daemon.summary(),
            "no events",
            "the watcher may not have started yet"
        );
        let _ = daemon.answer(Question::Prepare, event(&["a"])).await;
        lives(&daemon, daemon.config.heartbeat).await;
        let expected = format!(
            "; the audit file: {}: it does not exist yet",
            daemon.config.audit.display()
        );
        assert!(daemon.summary().contains(&expected), "{}", daemon.summary());
    });
}

/// Both would hold the machine's turn to approve.
#[tokio::test(start_paused = true)]
async fn a_daemon_answers_not_yet_while_the_hub_acts_for_its_machine() {
    let registers = Rc::new(MemoryEngine::default());
    let config = || Config::parse(TWO_GROUPS).expect("valid");
    let hub = Daemon::in_hub(
        config(),
        "a".into(),
        None,
        registers.clone(),
        History::default(),
    );
    let own = Daemon::new(
        config(),
        "a".into(),
        None,
        Box::new(Shared(registers.clone())),
    );
    let beat = async |daemon: &Daemon| {
        let mut heartbeat = daemon.heartbeat.lock().await;
        daemon.beat_once(&mut heartbeat).await.expect("a store");
    };
    let answer = async |daemon: &Daemon| {
        let event = Event::new("e", "Reboot", ["a".into()].into());
        daemon.answer(Question::Prepare, event).await
    };
    beat(&hub).await;
    assert_eq!(answer(&hub).await, Ok(Answer::Open));
    beat(&own).await;
    let refused = answer(&own).await.expect_err("the hub acts");
    assert!(refused.to_string().contains("the hub"), "{refused}");
    // The hub notices it, too.
    beat(&hub).await;
    assert!(answer(&hub).await.is_err());
    beat(&own).await;
    assert!(answer(&own).await.is_err());
    // The hub has ended.
    beat(&own).await;
    assert_eq!(answer(&own).await, Ok(Answer::Open));
}

/// An urgent event asks nobody else, so the hub has to know that the machine has no daemon.
#[tokio::test(start_paused = true)]
async fn the_hub_approves_after_its_first_heartbeat_and_not_while_a_daemon_may_run() {
    let registers = Rc::new(MemoryEngine::default());
    let config = Config::parse(TWO_GROUPS).expect("valid");
    let silent_after = config.silent_after;
    let own = Daemon::new(
        config.clone(),
        "a".into(),
        None,
        Box::new(Shared(registers.clone())),
    );
    let hub = Daemon::in_hub(config, "a".into(), None, registers, History::default());
    let beat = async |daemon: &Daemon| {
        let mut heartbeat = daemon.heartbeat.lock().await;
        daemon.beat_once(&mut heartbeat).await.expect("a store");
    };
    let approve = async |daemon: &Daemon| {
        let event = Event::new("e", "Preempt", ["a".into()].into());
        daemon.answer(Question::Approve, event).await
    };
    assert_eq!(approve(&hub).await, Err(AnswerError::Late));
    assert_eq!(approve(&own).await, Ok(Answer::Open));
    beat(&own).await;
    // The daemon beats less often than the hub.
    for _ in 0..3 {
        beat(&hub).await;
        let refused = approve(&hub).await.expect_err("the daemon acts");
        assert!(refused.to_string().contains("the hub"), "{refused}");
    }
    sleep(silent_after).await;
    beat(&hub).await;
    assert_eq!(approve(&hub).await, Ok(Answer::Open));
}
