//! When a slot is taken, kept and given back.

use super::*;

/// With the default settings.
#[test]
fn a_slot_of_another_machine_is_freed_a_quarter_of_an_hour_after_the_event_if_the_machine_is_silent()
 {
    run_with_audit(CONFIG, async |daemon| {
        let claim = r#"{"slots":["silent","alive","never-seen"],"by":["silent"],"at":1}"#;
        let register =
            format!(r#"{{"format":1,"limit":1,"claims":{{"past":{claim},"open":{claim}}}}}"#);
        put(&daemon, "groups/db", &register).await;
        is_over(&daemon, "past");
        let over = Instant::now();
        let slots = async |id: &str| {
            let register = group(&daemon, "groups/db").await;
            let slots = register
                .claims
                .get(id)
                .map(|claim| claim.slots.clone())
                .unwrap_or_default();
            slots
                .iter()
                .map(Name::to_string)
                .collect::<Vec<_>>()
                .join(" ")
        };
        let all = "alive never-seen silent";
        beat(&daemon, "silent", 1).await;
        let mut freed_after = None;
        let lives = async {
            for round in 0..90 {
                beat(&daemon, "alive", round).await;
                sleep(daemon.config.heartbeat / 2).await;
                assert_eq!(slots("open").await, all, "round {round}");
                if freed_after.is_none() && slots("past").await != all {
                    freed_after = Some(over.elapsed());
                }
            }
        };
        tokio::select! {
            () = daemon.maintain() => {}
            () = lives => {}
        }
        assert_eq!(slots("past").await, "alive");
        let (freed_after, expected) = (
            freed_after.expect("it was freed"),
            daemon.config.return_within,
        );
        assert!(
            freed_after >= expected && freed_after <= expected + 2 * daemon.config.heartbeat,
            "{freed_after:?}"
        );
        assert_eq!(daemon.metrics().freed, 2);
    });
}

#[test]
fn a_holder_that_cannot_be_looked_at_is_a_problem_whatever_the_other_groups_are() {
    run_with_audit(TWO_GROUPS, async |daemon| {
        for (group, holder) in [("groups/db", "unreadable"), ("groups/web", "silent")] {
            let claim = format!(r#"{{"slots":["{holder}"],"by":["{holder}"],"at":1}}"#);
            put(
                &daemon,
                group,
                &format!(r#"{{"format":1,"limit":2,"claims":{{"past":{claim}}}}}"#),
            )
            .await;
        }
        put(&daemon, "machines/unreadable", r#"{"format":99}"#).await;
        is_over(&daemon, "past");
        let has_problem = || daemon.problems.of(Subject::Holders).is_some();
        let looks = async {
            sleep(daemon.config.return_within + 2 * daemon.config.heartbeat).await;
            for _ in 0..10 {
                assert!(has_problem());
                sleep(daemon.config.heartbeat / 2).await;
            }
            beat(&daemon, "unreadable", 1).await;
            sleep(2 * daemon.config.heartbeat).await;
            assert!(!has_problem());
        };
        tokio::select! {
            () = daemon.maintain() => {}
            () = looks => {}
        }
    });
}

/// A machine whose boot takes longer than it may be silent, with the default settings.
#[test]
fn a_machine_that_comes_back_minutes_after_the_event_gives_its_slot_back_itself() {
    let config = CONFIG.replace("per_zone = true\n", "");
    run_fleet(&config, async |fleet| {
        let (first, second) = (fleet.start("a"), fleet.start("b"));
        fleet.run(&[&first, &second], Duration::from_secs(60)).await;
        assert_eq!(
            second.answer(Question::Prepare, event(&["b"])).await,
            Ok(Answer::Open)
        );
        record(
            &second,
            r#"{"record":"prepare","event_id":"e","outcome":"ready"}"#,
        );
        fleet.run(&[&first, &second], Duration::from_secs(60)).await;
        // The machine reboots. The other machine's document has the event, too.
        drop(second);
        fleet.run(&[&first], Duration::from_secs(5 * 60)).await;
        is_over(&first, "e");
        fleet.run(&[&first], Duration::from_secs(2 * 60)).await;
        let holders = async || group(&first, "groups/db").await.held().len();
        assert_eq!(holders().await, 1, "it is booting");
        let second = fleet.start("b");
        fleet
            .run(&[&first, &second], Duration::from_secs(10 * 60))
            .await;
        is_over(&second, "e");
        fleet
            .run(&[&first, &second], Duration::from_secs(10 * 60))
            .await;
        assert_eq!(
            holders().await,
            1,
            "it has not recovered, and its daemon runs"
        );
        let other = Event {
            id: "other".into(),
            ..event(&["a"])
        };
        let answer = first.answer(Question::Prepare, other.clone()).await;
        assert!(
            matches!(answer, Ok(Answer::Closed(Why::NoSlot { .. }))),
            "{answer:?}"
        );
        record(
            &second,
            r#"{"record":"recover","event_ids":["e"],"outcome":"done"}"#,
        );
        fleet.run(&[&first, &second], second.config.heartbeat).await;
        assert_eq!(holders().await, 0);
        assert_eq!(
            first.answer(Question::Prepare, other).await,
            Ok(Answer::Open)
        );
    });
}

#[test]
fn advice_takes_a_slot_while_a_rule_prepares_for_it_and_is_never_approved() {
    let config = CONFIG.replace("per_zone = true\n", "");
    run_fleet(&config, async |fleet| {
        let (first, second) = (fleet.start("a"), fleet.start("b"));
        fleet.run(&[&first, &second], Duration::from_secs(60)).await;
        let advice = Event::new("e", "SpotRebalanceRecommendation", ["b".into()].into());
        let answer = second.answer(Question::Prepare, advice.clone()).await;
        assert_eq!(answer, Ok(Answer::Open));
        let answer = second.answer(Question::Approve, advice).await;
        assert_eq!(answer, Ok(Answer::Closed(Why::Advice)));
        let other = Event {
            id: "other".into(),
            ..event(&["a"])
        };
        let answer = first.answer(Question::Prepare, other.clone()).await;
        assert!(
            matches!(answer, Ok(Answer::Closed(Why::NoSlot { .. }))),
            "{answer:?}"
        );
        let of_advice = |record_and_more: &str| {
            let members =
                r#""event_id":"e","event_type":"SpotRebalanceRecommendation","mine":true"#;
            record(&second, &format!("{{{members},{record_and_more}}}"));
        };
        of_advice(r#""record":"prepare","outcome":"ready""#);
        of_advice(r#""record":"change","change":"advice-withdrawn""#);
        of_advice(r#""record":"recover","event_ids":["e"],"outcome":"done""#);
        fleet.run(&[&first, &second], second.config.heartbeat).await;
        assert_eq!(group(&first, "groups/db").await.held().len(), 0);
        let answer = first.answer(Question::Prepare, other).await;
        assert_eq!(answer, Ok(Answer::Open));
    });
}

#[test]
fn a_claim_that_was_freed_by_hand_is_not_relied_on() {
    let config = CONFIG.replace("per_zone = true", "");
    run_with(&config, async |daemon| {
        assert_eq!(
            daemon.answer(Question::Prepare, event(&["a"])).await,
            Ok(Answer::Open)
        );
        let register =
            r#"{"format":1,"limit":1,"claims":{"other":{"slots":["b"],"by":["b"],"at":1}}}"#;
        put(&daemon, "groups/db", register).await;
        daemon.look_at_groups().await.expect("the groups");
        let answer = daemon.answer(Question::Approve, event(&["a"])).await;
        assert!(
            matches!(&answer, Ok(Answer::Closed(Why::NoSlot { .. }))),
            "{answer:?}"
        );
    });
}

#[test]
fn a_claim_that_was_given_back_is_not_relied_on() {
    let config = CONFIG.replace("per_zone = true", "");
    run_with(&config, async |daemon| {
        assert_eq!(
            daemon.answer(Question::Prepare, event(&["a"])).await,
            Ok(Answer::Open)
        );
        daemon.give_back().await.expect("given back");
        let register =
            r#"{"format":1,"limit":1,"claims":{"other":{"slots":["b"],"by":["b"],"at":1}}}"#;
        put(&daemon, "groups/db", register).await;
        let answer = daemon.answer(Question::Prepare, event(&["a"])).await;
        assert!(
            matches!(&answer, Ok(Answer::Closed(Why::NoSlot { .. }))),
            "{answer:?}"
        );
    });
}

#[test]
fn a_machine_counts_in_its_zone_before_it_is_in_the_store() {
    run(async |daemon| {
        // The store did not answer when the daemon started, and has a zone that this machine has
        // left.
        daemon
            .engine
            .swap("machines/a", None, &machine_register("a", "3"))
            .await
            .expect("written");
        daemon
            .engine
            .swap("machines/b", None, &machine_register("b", "2"))
            .await
            .expect("written");
        assert_eq!(
            daemon.answer(Question::Prepare, event(&["a", "b"])).await,
            Ok(Answer::Open)
        );
        assert_eq!(
            claims(&daemon).await,
            ["groups/db/zone-1", "groups/db/zone-2"]
        );
    });
}

#[test]
fn a_zone_that_becomes_known_later_counts_from_then_on() {
    run(async |daemon| {
        assert_eq!(
            daemon.answer(Question::Prepare, event(&["a", "b"])).await,
            Ok(Answer::Open)
        );
        daemon
            .engine
            .swap("machines/b", None, &machine_register("b", "2"))
            .await
            .expect("written");
        daemon.look_at_machines().await.expect("the machines");
        let answer = daemon
            .answer(Question::Approve, event(&["a", "b"]))
            .await
            .expect("an answer");
        assert!(matches!(answer, Answer::Closed(_)), "{answer:?}");
        assert!(
            claims(&daemon)
                .await
                .contains(&"groups/db/zone-2".to_owned()),
            "{:?}",
            claims(&daemon).await
        );
    });
}

/// A daemon with an event that is over and for which another machine holds a slot, and a store that
/// can be down.
fn run_with_slot_of_another(test: impl AsyncFnOnce(Rc<Daemon>, Rc<RefCell<Vec<&'static str>>>)) {
    let folder = tempfile::tempdir().expect("a folder");
    let config = format!("audit = \"{}/audit\"\n{CONFIG}", folder.path().display());
    let config = Config::parse(&config).expect("a configuration");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build();
    runtime.expect("a runtime").block_on(async {
        let engine = Unreliable::default();
        let down = engine.down.clone();
        let daemon = Daemon::new(config, "a".into(), Some("1".into()), Box::new(engine));
        beat(&daemon, "other", 1).await;
        let register =
            r#"{"format":1,"limit":1,"claims":{"past":{"slots":["other"],"by":["other"],"at":1}}}"#;
        put(&daemon, "groups/db", register).await;
        is_over(&daemon, "past");
        test(daemon, down).await;
    });
}

#[test]
fn time_in_which_the_store_was_down_is_no_silence_of_another_machine() {
    run_with_slot_of_another(async |daemon, down| {
        let holds = async || {
            group(&daemon, "groups/db")
                .await
                .claims
                .contains_key("past")
        };
        let run = async |time| assert!(timeout(time, daemon.maintain()).await.is_err());
        run(daemon
            .config
            .return_within
            .saturating_sub(daemon.config.silent_after)
            + daemon.config.heartbeat / 2)
        .await;
        down.borrow_mut().push("");
        run(daemon.config.silent_after * 3).await;
        down.borrow_mut().clear();
        // The other machine could not raise its heartbeat either, and raises it a moment after this
        // machine reads.
        run(daemon.config.heartbeat).await;
        assert!(holds().await, "it had no time to show that it is alive");
        beat(&daemon, "other", 2).await;
        run(daemon.config.silent_after).await;
        assert!(holds().await);
        run(daemon.config.silent_after + 2 * daemon.config.heartbeat).await;
        assert!(!holds().await, "now it is silent");
    });
}

#[test]
fn heartbeats_that_cannot_be_read_are_no_silence() {
    // The registers could be read once, could never be read, or did not exist when they could be.
    for (was_read, has_register) in [(true, true), (false, true), (true, false)] {
        run_with_slot_of_another(async |daemon, down| {
            let run = async |time| assert!(timeout(time, daemon.maintain()).await.is_err());
            if !has_register {
                let key = machine_key(&"other".into());
                let register = daemon
                    .engine
                    .read(&key)
                    .await
                    .expect("read")
                    .expect("a register");
                assert!(
                    daemon
                        .engine
                        .delete(&key, &register.revision)
                        .await
                        .expect("deleted")
                );
            }
            if was_read {
                run(daemon
                    .config
                    .return_within
                    .saturating_sub(daemon.config.silent_after)
                    + daemon.config.heartbeat / 2)
                .await;
            }
            down.borrow_mut().push("machines/");
            run(daemon.config.return_within * 2).await;
            assert!(
                group(&daemon, "groups/db")
                    .await
                    .claims
                    .contains_key("past"),
                "{was_read} {has_register}"
            );
        });
    }
}

/// It prepared by its last call. Then `NotBefore` moves, and it goes back into service.
#[test]
fn a_machine_that_is_back_in_service_before_the_event_holds_no_slot_by_its_last_call() {
    for is_started_again in [true, false] {
        run_fleet(&TWO_GROUPS.replace("able = 2", "able = 1"), async |fleet| {
            let mut daemon = fleet.start("a");
            let claim =
                r#"{"format":1,"limit":1,"claims":{"other":{"slots":["b"],"by":["b"],"at":1}}}"#;
            put(&daemon, "groups/web", claim).await;
            let asks = async |daemon: &Daemon| {
                let answer = daemon.answer(Question::Prepare, event(&["a"])).await;
                assert!(
                    matches!(&answer, Ok(Answer::Closed(Why::NoSlot { .. }))),
                    "{answer:?}"
                );
            };
            asks(&daemon).await;
            record(
                &daemon,
                r#"{"record":"gate","event_id":"e","event_type":"Reboot","outcome":"last-call"}"#,
            );
            record(
                &daemon,
                r#"{"record":"prepare","event_id":"e","outcome":"begun"}"#,
            );
            let few_seconds = Duration::from_secs(5);
            fleet.run(&[&daemon], few_seconds).await;
            if is_started_again {
                daemon = fleet.start("a");
                fleet.run(&[&daemon], few_seconds).await;
            }
            asks(&daemon).await;
            fleet.run(&[&daemon], few_seconds).await;
            let holds = async || {
                let groups = ["groups/db", "groups/web"];
                [
                    group(&daemon, groups[0]).await,
                    group(&daemon, groups[1]).await,
                ]
                .map(|group| group.held().contains(&Name::from("a")))
            };
            assert_eq!(holds().await, [true; 2]);
            record(
                &daemon,
                r#"{"record":"recover","event_ids":["e"],"outcome":"done"}"#,
            );
            fleet.run(&[&daemon], few_seconds).await;
            assert_eq!(
                holds().await,
                [false; 2],
                "started again: {is_started_again}"
            );
        });
    }
}

/// The event gets another machine, and one of the groups does not admit it.
#[test]
fn a_machine_that_is_out_of_service_gives_no_slot_back() {
    run_with(TWO_GROUPS, async |daemon| {
        assert_eq!(
            daemon.answer(Question::Prepare, event(&["a"])).await,
            Ok(Answer::Open)
        );
        let mut web = group(&daemon, "groups/web").await;
        let slots = ["c".into()].into();
        let claim = crate::register::GroupChange::Claim {
            event_id: "other".into(),
            by: "c".into(),
            slots,
            limit: 2,
        };
        claim.apply(&mut web, 1);
        put(
            &daemon,
            "groups/web",
            &store::encode("", &web).expect("JSON"),
        )
        .await;
        let answer = daemon.answer(Question::Approve, event(&["a", "b"])).await;
        assert!(
            matches!(&answer, Ok(Answer::Closed(Why::NoSlot { .. }))),
            "{answer:?}"
        );
        for key in ["groups/db", "groups/web"] {
            assert!(
                group(&daemon, key).await.held().contains(&Name::from("a")),
                "{key}: it is prepared"
            );
        }
    });
}

#[test]
fn a_group_that_is_full_takes_no_slot_of_another_group() {
    run_with(TWO_GROUPS, async |daemon| {
        let register =
            r#"{"format":1,"limit":2,"claims":{"other":{"slots":["c","d"],"by":["c"],"at":1}}}"#;
        put(&daemon, "groups/web", register).await;
        let answer = daemon.answer(Question::Prepare, event(&["a"])).await;
        assert!(
            matches!(&answer, Ok(Answer::Closed(Why::NoSlot { .. }))),
            "{answer:?}"
        );
        assert_eq!(
            daemon.engine.read("groups/db").await,
            Ok(None),
            "it was not even written"
        );
    });
}

/// The store was restored from a backup: an idle machine gives back again what it has given back
/// before.
#[test]
fn a_slot_that_comes_back_from_a_backup_is_given_back_again() {
    run_with_audit(CONFIG, async |daemon| {
        let run = async |time| assert!(timeout(time, daemon.maintain()).await.is_err());
        assert_eq!(
            daemon.answer(Question::Prepare, event(&["a"])).await,
            Ok(Answer::Open)
        );
        record(
            &daemon,
            r#"{"record":"prepare","event_id":"e","outcome":"ready"}"#,
        );
        let keys = ["groups/db/zone-1", "machines/a"];
        run(daemon.config.heartbeat / 2).await;
        let mut backup = Vec::new();
        for key in keys {
            backup.push(
                daemon
                    .engine
                    .read(key)
                    .await
                    .expect("read")
                    .expect("a register")
                    .value,
            );
        }
        is_over(&daemon, "e");
        record(
            &daemon,
            r#"{"record":"recover","event_ids":["e"],"outcome":"done"}"#,
        );
        run(3 * daemon.config.heartbeat).await;
        assert!(group(&daemon, keys[0]).await.held().is_empty());
        let restores = async {
            sleep(daemon.config.heartbeat / 2).await;
            for (key, value) in keys.iter().zip(&backup) {
                put(&daemon, key, value).await;
            }
            sleep(2 * daemon.config.heartbeat).await;
            assert!(group(&daemon, keys[0]).await.held().is_empty());
            assert!(daemon.problems.of(Subject::MachineName).is_none());
        };
        tokio::select! {
            () = daemon.maintain() => {}
            () = restores => {}
        }
    });
}

/// A machine without a daemon joined an event, and left it again.
#[test]
fn a_slot_of_a_silent_machine_that_the_event_no_longer_names_is_freed_as_after_its_end() {
    let config = CONFIG.replace("per_zone = true\n", "");
    run_with_audit(&config, async |daemon| {
        let asks = async |resources: &[&str], time: Duration| {
            let end = Instant::now() + time;
            while Instant::now() < end {
                let answer = daemon.answer(Question::Prepare, event(resources)).await;
                assert_eq!(answer, Ok(Answer::Open));
                sleep(Duration::from_secs(5)).await;
            }
        };
        let slots = async || {
            let register = group(&daemon, "groups/db").await;
            let held = register.held().into_iter().map(Name::to_string);
            held.collect::<Vec<_>>().join(" ")
        };
        let (within, beat) = (daemon.config.return_within, daemon.config.heartbeat);
        let story = async {
            asks(
                &["a", "never-seen"],
                within + 5 * daemon.config.silent_after,
            )
            .await;
            assert_eq!(slots().await, "a never-seen", "it is named");
            asks(&["a"], within.saturating_sub(beat)).await;
            assert_eq!(slots().await, "a never-seen", "it may come back");
            asks(&["a"], 3 * beat).await;
            assert_eq!(slots().await, "a");
        };
        tokio::select! {
            () = daemon.maintain() => {}
            () = story => {}
        }
    });
}
