//! How the state of other machines counts: which are silent, which are gone, and what it costs to
//! know it.

use super::*;
use crate::driver::{self, Members as _};
use crate::engine::StoreTime;
use scheduled_events::record::ReadRecord;

const ONE: &str = "engine = \"folder\"\nfolder.path = \"/x\"\n\
    [[group]]\nname = \"db\"\nmachines = [\"*\"]\nmax_unavailable = 1\n";

const MINUTE: Duration = Duration::from_secs(60);

/// The silent machines because of which an event of this machine alone is refused; none if it is
/// allowed.
async fn refused_by(daemon: &Daemon) -> Vec<String> {
    match daemon
        .answer(Question::Prepare, event(&[daemon.machine.as_str()]))
        .await
    {
        Ok(Answer::Open) => Vec::new(),
        Ok(Answer::Closed(Why::NoSlot { silent, .. })) => {
            silent.iter().map(Name::to_string).collect()
        }
        answer => panic!("found {answer:?}"),
    }
}

#[test]
fn a_silent_machine_counts_as_out_of_service_also_for_a_daemon_that_has_just_started() {
    run_fleet(ONE, async |fleet| {
        let [a, b, c] = ["a", "b", "c"].map(|name| fleet.start(name));
        fleet.run(&[&a, &b, &c], 2 * MINUTE).await;
        fleet.run(&[&a, &b], 3 * MINUTE).await;
        for daemon in [&a, &fleet.start("b")] {
            assert_eq!(refused_by(daemon).await, ["c"]);
        }
        assert!(
            group(&a, "groups/db").await.claims.is_empty(),
            "nobody took a place"
        );
        // The affected machine counts once, and a machine that comes back does not count.
        assert_eq!(
            a.answer(
                Question::Prepare,
                Event::new("both", "Reboot", ["a", "c"].map(Into::into).into())
            )
            .await,
            Ok(Answer::Open)
        );
        put(&a, "groups/db", r#"{"format":1,"limit":1,"claims":{}}"#).await;
        fleet.run(&[&a, &b, &c], MINUTE).await;
        assert_eq!(
            refused_by(&fleet.start("b")).await,
            [""; 0],
            "a daemon that was started again takes nobody for dead"
        );
    });
}

#[test]
fn a_refusal_does_not_look_at_all_machines_again_until_the_next_heartbeat() {
    run_fleet(ONE, async |fleet| {
        let [a, b] = ["a", "b"].map(|name| fleet.start(name));
        fleet.run(&[&a, &b], MINUTE).await;
        fleet.run(&[&a], 3 * MINUTE).await;
        assert_eq!(refused_by(&a).await, ["b"]);
        let before = fleet.store.operations();
        assert_eq!(refused_by(&a).await, ["b"]);
        assert_eq!(
            fleet.store.operations() - before,
            2,
            "its event and its group"
        );
        beat(&a, "b", 9).await;
        sleep(a.config.heartbeat).await;
        assert_eq!(refused_by(&a).await, [""; 0]);
    });
}

/// At most 200 bytes a second, independent of the fleet's size.
#[test]
fn an_idle_machine_writes_its_heartbeat_and_reads_nothing() {
    for machines in [2, 6] {
        run_fleet(ONE, async |fleet| {
            let daemons: Vec<_> = (0..machines)
                .map(|number| fleet.start(&format!("machine_{number}")))
                .collect();
            let daemons: Vec<_> = daemons.iter().collect();
            fleet.run(&daemons, 20 * MINUTE).await;
            let (before, time) = (fleet.store.operations(), 10 * MINUTE);
            // Each call of `maintain` begins with a heartbeat.
            fleet
                .run(&daemons, time.saturating_sub(Duration::from_secs(1)))
                .await;
            let per_machine = (fleet.store.operations() - before) / machines;
            assert_eq!(
                per_machine,
                time.as_secs() / daemons[0].config.heartbeat.as_secs()
            );
            let register = fleet
                .store
                .read("machines/machine_1")
                .await
                .expect("read")
                .expect("a register");
            let bytes = register.value.len() as u64;
            assert!(
                bytes / daemons[0].config.heartbeat.as_secs() <= 200,
                "{}",
                register.value
            );
        });
    }
}

#[test]
fn a_clock_of_the_store_that_jumps_lets_nobody_go_and_forgets_nobody() {
    let day = 24 * 60 * 60 * 1000;
    for jump in [-day, day] {
        run_fleet(ONE, async |fleet| {
            let [a, b, c] = ["a", "b", "c"].map(|name| fleet.start(name));
            fleet.run(&[&a, &b, &c], 90 * MINUTE).await;
            fleet.run(&[&a, &b], 3 * MINUTE).await;
            let now = fleet.store.clock().expect("a time").now;
            fleet
                .store
                .set_clock(StoreTime(now.0.saturating_add_signed(jump)));
            let refused = refused_by(&a).await;
            assert_eq!(refused, ["b", "c"], "nobody has shown since that it runs");
            for _ in 0..20 {
                fleet.run(&[&a, &b], a.config.heartbeat).await;
                assert_eq!(refused_by(&a).await, ["c"], "{jump}");
            }
            assert!(
                fleet
                    .store
                    .read("machines/c")
                    .await
                    .expect("read")
                    .is_some()
            );
        });
    }
}

#[test]
fn a_machine_that_left_is_gone_once_it_is_silent_and_its_slot_is_free() {
    for event_type in ["Terminate", "Preempt", "Reboot"] {
        run_fleet(ONE, async |fleet| {
            let [a, b] = ["a", "b"].map(|name| fleet.start(name));
            fleet.run(&[&a, &b], MINUTE).await;
            let of_b = Event::new("last", event_type, ["b".into()].into());
            assert_eq!(b.answer(Question::Prepare, of_b).await, Ok(Answer::Open));
            let prepared =
                r#"{"record":"prepare","event_id":"last","event_type":"TYPE","outcome":"ready"}"#;
            record(&b, &prepared.replace("TYPE", event_type));
            // It is written at once, before the next heartbeat.
            fleet.run(&[&a, &b], Duration::from_secs(1)).await;
            let is_final = event_type != "Reboot";
            let register = fleet
                .store
                .read("machines/b")
                .await
                .expect("read")
                .expect("a register");
            assert_eq!(
                register.value.contains("leaving"),
                is_final,
                "{}",
                register.value
            );
            drop(b);
            fleet.run(&[&a], 3 * MINUTE).await;
            let asks =
                async || a.answer(Question::Prepare, event(&["a"])).await == Ok(Answer::Open);
            let mut answers = Vec::new();
            for _ in 0..20 {
                answers.push(asks().await);
                fleet.run(&[&a], a.config.heartbeat).await;
            }
            assert!(!answers[0], "{event_type}: one look is not enough");
            assert_eq!(
                *answers.last().expect("an answer"),
                is_final,
                "{event_type}"
            );
            let is_known = fleet
                .store
                .read("machines/b")
                .await
                .expect("read")
                .is_some();
            assert_eq!(
                (is_known, a.metrics().forgotten),
                (!is_final, u64::from(is_final)),
                "{event_type}"
            );
        });
    }
}

#[test]
fn a_machine_that_prepares_at_the_last_call_holds_its_slot_whatever_the_limit_is() {
    run_fleet(ONE, async |fleet| {
        let [a, b, c] = ["a", "b", "c"].map(|name| fleet.start(name));
        assert_eq!(
            a.answer(Question::Prepare, event(&["a"])).await,
            Ok(Answer::Open)
        );
        let of_b = || Event::new("late", "Reboot", ["b".into()].into());
        assert!(matches!(
            b.answer(Question::Prepare, of_b()).await,
            Ok(Answer::Closed(_))
        ));
        for (id, event_type) in [("late", "Reboot"), ("spot", "Preempt")] {
            let last_call = r#"{"record":"gate","event_id":"ID","event_type":"TYPE","phase":"prepare","outcome":"last-call"}"#;
            record(&b, &last_call.replace("ID", id).replace("TYPE", event_type));
            record(
                &b,
                &r#"{"record":"prepare","event_id":"ID","outcome":"begun"}"#.replace("ID", id),
            );
        }
        fleet.run(&[&a, &b, &c], Duration::from_secs(1)).await;
        let held = async || {
            group(&c, "groups/db")
                .await
                .held()
                .into_iter()
                .map(Name::to_string)
                .collect::<Vec<_>>()
        };
        assert_eq!(held().await, ["a", "b"]);
        // No place is free for the event all the same, so nobody approves.
        for question in [Question::Prepare, Question::Approve, Question::Prepare] {
            let answer = b.answer(question, of_b()).await;
            assert!(
                matches!(answer, Ok(Answer::Closed(Why::NoSlot { .. }))),
                "{answer:?}"
            );
        }
        assert_eq!(held().await, ["a", "b"]);
        // Its daemon restarts, and the first machine comes back.
        let b = fleet.start("b");
        record(
            &a,
            r#"{"record":"prepare","event_id":"e","outcome":"ready"}"#,
        );
        is_over(&a, "e");
        record(
            &a,
            r#"{"record":"recover","event_ids":["e"],"outcome":"done"}"#,
        );
        fleet.run(&[&a, &b, &c], MINUTE).await;
        assert_eq!(held().await, ["b"]);
        let of_c = Event::new("next", "Reboot", ["c".into()].into());
        assert!(matches!(
            c.answer(Question::Prepare, of_c).await,
            Ok(Answer::Closed(Why::NoSlot { .. }))
        ));
        // The gate decides about the approval as usual.
        assert_eq!(b.answer(Question::Approve, of_b()).await, Ok(Answer::Open));
        is_over(&b, "late");
        record(
            &b,
            r#"{"record":"recover","event_ids":["late"],"outcome":"done"}"#,
        );
        fleet.run(&[&a, &b, &c], MINUTE).await;
        assert_eq!(held().await, [""; 0]);
        let b = fleet.start("b");
        fleet.run(&[&a, &b, &c], MINUTE).await;
        assert_eq!(held().await, [""; 0], "what is over is not taken again");
    });
}

/// An event of three machines waits until all of them fit, while events of one machine come and go.
#[test]
fn a_large_event_is_not_overtaken_by_small_ones() {
    let three = ONE.replace("max_unavailable = 1", "max_unavailable = 3");
    run_fleet(&three, async |fleet| {
        let daemons: Vec<_> = (0..8)
            .map(|number| fleet.start(&format!("m{number}")))
            .collect();
        let all: Vec<_> = daemons.iter().collect();
        fleet.run(&all, Duration::from_secs(1)).await;
        let now = i64::try_from(driver::now()).expect("a time");
        let event = |id: &str, resources: &[usize], minutes: i64| Event {
            not_before: Some(jiff::Timestamp::from_second(now + 60 * minutes).expect("a time")),
            ..Event::new(
                id,
                "Reboot",
                resources
                    .iter()
                    .map(|number| format!("m{number}").into())
                    .collect(),
            )
        };
        let asks = async |machine: usize, event: &Event| {
            daemons[machine]
                .answer(Question::Prepare, event.clone())
                .await
        };
        let is_open =
            async |machine: usize, event: &Event| asks(machine, event).await == Ok(Answer::Open);
        let ends = |machine: usize, id: &str| {
            record(
                &daemons[machine],
                &format!(r#"{{"record":"prepare","event_id":{id:?},"outcome":"ready"}}"#),
            );
            is_over(&daemons[machine], id);
            record(
                &daemons[machine],
                &format!(r#"{{"record":"recover","event_ids":[{id:?}],"outcome":"done"}}"#),
            );
        };
        let [small, large, later, earlier] = [
            event("small", &[0], 20),
            event("large", &[1, 2, 3], 20),
            event("later", &[4], 30),
            event("earlier", &[5], 10),
        ];
        assert!(is_open(0, &small).await && !is_open(1, &large).await);
        let answer = asks(4, &later).await.expect("an answer");
        assert!(
            matches!(&answer, Answer::Closed(Why::Reserved { next, .. }) if next.event_id == "large"),
            "{answer:?}"
        );
        assert!(is_open(5, &earlier).await, "it is before the large one");
        ends(0, "small");
        fleet.run(&all, MINUTE).await;
        assert!(!is_open(1, &large).await && !is_open(4, &later).await);
        ends(5, "earlier");
        // The watchers ask again and again.
        for _ in 0..12 {
            assert!(!is_open(4, &later).await);
            let _ = asks(1, &large).await;
            fleet.run(&all, Duration::from_secs(5)).await;
        }
        assert!(
            is_open(2, &large).await && !is_open(4, &later).await,
            "its machines were granted together"
        );
        assert_eq!(
            group(&daemons[0], "groups/db")
                .await
                .next
                .map(|next| next.event_id),
            Some("later".to_owned())
        );
        // Nobody asks about it any more.
        fleet.run(&all, MINUTE).await;
        assert_eq!(group(&daemons[0], "groups/db").await.next, None);
        // By this machine's clock its time has come. It still waits, since the clock may be wrong.
        let past = event("past", &[6], -1);
        assert!(!is_open(6, &past).await && !is_open(7, &event("last", &[7], 60)).await);
        let next = async || {
            group(&daemons[0], "groups/db")
                .await
                .next
                .map(|next| next.event_id)
        };
        assert_eq!(next().await, Some("past".to_owned()));
        // It has begun: its watcher no longer asks.
        fleet.run(&all, MINUTE).await;
        assert!(!is_open(7, &event("last", &[7], 60)).await);
        assert_eq!(next().await, Some("last".to_owned()));
    });
}

/// The daemon of the refused machine restarts: its watcher asks within seconds.
#[test]
fn a_reservation_outlives_the_daemon_that_made_it_while_the_watcher_asks() {
    for asks in [true, false] {
        run_fleet(ONE, async |fleet| {
            let [a, b] = ["a", "b"].map(|name| fleet.start(name));
            fleet.run(&[&a, &b], Duration::from_secs(1)).await;
            assert_eq!(
                a.answer(Question::Prepare, event(&["a"])).await,
                Ok(Answer::Open)
            );
            let waiting = Event::new("waiting", "Reboot", ["b".into()].into());
            assert!(matches!(
                b.answer(Question::Prepare, waiting.clone()).await,
                Ok(Answer::Closed(_))
            ));
            let next = async || group(&a, "groups/db").await.next.map(|next| next.event_id);
            drop(b);
            let b = fleet.start("b");
            fleet.run(&[&a, &b], Duration::from_secs(5)).await;
            assert_eq!(
                next().await.as_deref(),
                Some("waiting"),
                "there was no time to ask"
            );
            for _ in 0..24 {
                if asks {
                    assert!(matches!(
                        b.answer(Question::Prepare, waiting.clone()).await,
                        Ok(Answer::Closed(_))
                    ));
                    assert!(next().await.is_some());
                }
                fleet.run(&[&a, &b], Duration::from_secs(5)).await;
            }
            assert_eq!(next().await.is_some(), asks);
        });
    }
}

/// An event that is second in line reads its own register, the group's, and that of the machine
/// that reserved the group: nothing that grows with the fleet.
#[test]
fn an_event_that_waits_after_the_next_one_does_not_look_at_all_machines() {
    run_fleet(
        &ONE.replace("max_unavailable = 1", "max_unavailable = 3"),
        async |fleet| {
            let daemons: Vec<_> = ["holder", "a", "b", "waits", "other"]
                .map(|name| fleet.start(name))
                .into();
            let all: Vec<_> = daemons.iter().collect();
            fleet.run(&all, Duration::from_secs(1)).await;
            let [holder, a, _, waits, other] = &daemons[..] else {
                panic!("five machines")
            };
            let of = |id: &str, machines: &[&str]| {
                Event::new(
                    id,
                    "Reboot",
                    machines.iter().map(|&name| name.into()).collect(),
                )
            };
            assert_eq!(
                holder
                    .answer(Question::Prepare, of("held", &["holder"]))
                    .await,
                Ok(Answer::Open)
            );
            let (next, later) = (of("a", &["a", "b", "c"]), of("z", &["waits", "other"]));
            assert!(matches!(
                a.answer(Question::Prepare, next.clone()).await,
                Ok(Answer::Closed(Why::NoSlot { .. }))
            ));
            let is_reserved = async |machine: &Rc<Daemon>| {
                let answer = machine.answer(Question::Prepare, later.clone()).await;
                matches!(answer, Ok(Answer::Closed(Why::Reserved { .. })))
            };
            // They mark themselves.
            assert!(is_reserved(waits).await && is_reserved(other).await);
            let mut looks = Vec::new();
            for five_seconds in 0..120 {
                let before = fleet.store.operations();
                assert!(is_reserved(waits).await);
                match fleet.store.operations() - before {
                    0 => {}
                    3 => looks.push(five_seconds),
                    other => panic!(
                        "{other} operations instead of the event, the group and who reserved it"
                    ),
                }
                let before = fleet.store.operations();
                assert!(is_reserved(other).await);
                let looks_with_it = fleet.store.operations() > before;
                assert_eq!(
                    looks_with_it,
                    looks.last() == Some(&five_seconds),
                    "the machines of an event look together"
                );
                let before = fleet.store.operations();
                let _ = a.answer(Question::Prepare, next.clone()).await;
                assert!(
                    fleet.store.operations() > before,
                    "the next one always looks"
                );
                fleet.run(&all, Duration::from_secs(5)).await;
            }
            // The longer it has waited, the less often it reads: after an eighth of that time, less
            // up to one half.
            let pauses: Vec<_> = looks
                .windows(2)
                .map(|pair| (pair[0], pair[1] - pair[0]))
                .collect();
            let is_expected = |(waited, pause)| pause * 16 >= waited && pause * 8 <= waited + 8;
            assert!(pauses.iter().copied().all(is_expected), "{pauses:?}");
            assert!(
                pauses.iter().any(|(waited, pause)| pause * 8 + 8 < *waited),
                "none is shorter: {pauses:?}"
            );
            assert!(
                pauses
                    .iter()
                    .any(|(waited, pause)| pause * 16 > *waited + 16),
                "none is longer: {pauses:?}"
            );
            // No event waits for a machine that is gone.
            fleet.run(&[holder, waits], 3 * MINUTE).await;
            let answer = waits.answer(Question::Prepare, later.clone()).await;
            assert!(
                matches!(&answer, Ok(Answer::Closed(Why::NoSlot { .. }))),
                "the silent ones count: {answer:?}"
            );
            // A change leads to a read at once.
            let changed = Event {
                not_before: Some(jiff::Timestamp::UNIX_EPOCH),
                ..later
            };
            let before = fleet.store.operations();
            assert!(matches!(
                waits.answer(Question::Prepare, changed).await,
                Ok(Answer::Closed(_))
            ));
            assert!(fleet.store.operations() > before);
        },
    );
}

/// The chaos checker shares no code with the daemon.
#[test]
fn the_checker_of_chaos_knows_how_long_a_refusal_counts() {
    let checker = include_str!("../../../../fleet/tests/chaos/check.py").replace('_', "");
    let most = REFUSAL_COUNTS_AT_MOST.as_millis();
    for line in [
        format!("\nWAITEDPART = {REFUSAL_COUNTS_FOR}\n"),
        format!("\nREFUSEDMAX = {most}\n"),
    ] {
        assert!(checker.contains(&line), "{line}");
    }
}

/// A tool that copies the files of a shared folder leaves a copy.
#[test]
fn a_copy_of_a_register_is_no_machine_and_a_problem() {
    run_fleet(ONE, async |fleet| {
        let [a, b] = ["a", "b"].map(|name| fleet.start(name));
        fleet.run(&[&a, &b], MINUTE).await;
        let found = a.engine.read("machines/b").await.expect("read");
        let copied = found.expect("a register").value;
        put(&a, "machines/b (copy)", &copied).await;
        fleet.run(&[&a, &b], 5 * MINUTE).await;
        assert_eq!(refused_by(&a).await, [""; 0]);
        let machines = ["a", "b", "c", "d", "e", "f", "g", "h", "i"].map(Name::from);
        let silent = a.silent_of(&machines.into()).await.expect("an answer");
        assert!(!silent.contains(&"b".into()), "{silent:?}");
        let expected = "the register \"machines/b (copy)\" is a copy of that of b, and counts for nothing: \
            `scheduled-events-fleet delete-register \"machines/b (copy)\"` deletes it";
        let in_summary = expected.escape_debug().to_string();
        assert!(a.summary().contains(&in_summary), "{}", a.summary());
        let findings = a.check().await;
        assert!(
            findings
                .iter()
                .any(|finding| finding.found.contains(expected)),
            "{findings:?}"
        );
    });
}

#[test]
fn where_the_limits_of_machines_differ_the_smallest_one_counts() {
    run_fleet(
        &ONE.replace("max_unavailable = 1", "max_unavailable = 2"),
        async |mut fleet| {
            let [a, b] = ["a", "b"].map(|name| fleet.start(name));
            ONE.clone_into(&mut fleet.config);
            let c = fleet.start("c");
            fleet.run(&[&a, &b, &c], MINUTE).await;
            assert_eq!(refused_by(&a).await, [""; 0]);
            assert_eq!(a.metrics().limits_differ, 1);
            let expected =
                "the group db has the limit 2 here and another one at c: the smallest one counts";
            assert!(a.summary().contains(expected), "{}", a.summary());
            let answer = b
                .answer(
                    Question::Prepare,
                    Event::new("other", "Reboot", ["b".into()].into()),
                )
                .await;
            assert!(
                matches!(&answer, Ok(Answer::Closed(Why::NoSlot { limit: 1, .. }))),
                "{answer:?}"
            );
        },
    );
}

#[test]
fn machines_with_another_configuration_of_a_group_are_named_until_it_is_equal() {
    run_fleet(ONE, async |mut fleet| {
        let a = fleet.start("a");
        // For an earlier version, only the limit is compared.
        let (limits, at) = (
            [("db".to_owned(), "1".to_owned())].into(),
            a.engine.clock().map(|clock| clock.now.0),
        );
        let earlier = MachineRegister {
            machine: Some("earlier".into()),
            limits,
            written: at,
            ..Default::default()
        };
        put(
            &a,
            &machine_key(&"earlier".into()),
            &store::encode("", &earlier).expect("JSON"),
        )
        .await;
        fleet.config.push_str("pause = \"1m\"\n");
        let other = fleet.start("other");
        fleet.run(&[&a, &other], Duration::from_secs(1)).await;
        assert!(matches!(
            a.answer(Question::Prepare, event(&["a"])).await,
            Ok(Answer::Open)
        ));
        let expected = "the group db has other `machines`, `per_zone`, `pause` or `windows` at other: configure it equally";
        assert!(a.summary().contains(expected), "{}", a.summary());
        assert_eq!(a.metrics().limits_differ, 1);
        // It ends although nobody asks anything.
        ONE.clone_into(&mut fleet.config);
        let other = fleet.start("other");
        fleet
            .run(&[&a, &other], CORRECTED_WITHIN + 2 * MINUTE)
            .await;
        assert!(!a.summary().contains("the group db"), "{}", a.summary());
        assert_eq!(a.metrics().limits_differ, 0);
    });
}

/// The hub that was asked about the event crashed before its end.
#[tokio::test(start_paused = true)]
async fn who_leaves_deletes_the_event_that_an_earlier_process_was_asked_about() {
    let store = Rc::new(MemoryEngine::default());
    let hub = |history| {
        let config = Config::parse(TWO_GROUPS).expect("valid");
        Daemon::in_hub(config, "a".into(), None, store.clone(), history)
    };
    let event = Event::new("e", "Reboot", ["a".into()].into());
    let first = hub(History::default());
    let answer = first.answer(Question::Prepare, event.clone()).await;
    assert_eq!(answer, Ok(Answer::Open));
    let mut history = History::default();
    let ended = r#"{"record":"change","change":"completed","event_id":"e","event_type":"Reboot","event_status":"Started",
        "resources":["a"],"mine":true,"time":"2026-11-28T18:48:26Z"}"#;
    let record = ReadRecord::from_line(&ended.replace('\n', "")).expect("a record");
    record.with(|record| history.apply(record, Instant::now()));
    let second = hub(history);
    assert!(store.read(&event.key()).await.expect("an answer").is_some());
    assert_eq!(second.leave().await, Ok(true));
    assert!(store.read(&event.key()).await.expect("an answer").is_none());
}

#[tokio::test(start_paused = true)]
async fn a_check_names_the_silent_machines_that_count_for_this_one() {
    let store = Rc::new(MemoryEngine::default());
    let config = Config::parse(CONFIG).expect("valid");
    let daemon = Daemon::new(
        config.clone(),
        "a".into(),
        Some("1".into()),
        Box::new(Shared(store.clone())),
    );
    for (name, zone) in [("b", "1"), ("c", "2")] {
        let key = machine_key(&name.into());
        let written = store.swap(&key, None, &machine_register(name, zone)).await;
        assert!(matches!(written, Ok(Swap::Done(_))), "{written:?}");
    }
    sleep(config.silent_after + MINUTE / 60).await;
    let findings = daemon.check().await;
    let group = findings.iter().find(|finding| finding.check == "group");
    let found = &group.expect("a finding").found;
    assert!(found.ends_with("count as out of service: b"), "{found}");
}
