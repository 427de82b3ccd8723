//! A watcher with functions and with hosts, against the replay server.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use scheduled_events::imds::Imds;
use scheduled_events::record::{EventRecord, HookOutcome, Record, TimedRecord};
use scheduled_events::watch::{
    GateReply, Host, Note, PrepareReply, RecoverReply, StopReason, Watcher, WatcherBuilder,
};
use scheduled_events_core::{Action, GateAnswer, GatePhase, Policy, Rule};
use scheduled_events_replay::{Scenario, Server, ServerConfig};

scheduled_events_test_support::nothing_is_left_over!();

/// How many times faster time passes: an answer that failed is repeated after seconds.
const SPEED: u32 = 30;

fn server(scenario: &str) -> Server {
    let scenario = Scenario::builtin(scenario).expect("a built-in name");
    Server::start(ServerConfig::new(scenario).speed(f64::from(SPEED))).expect("a server")
}

/// A watcher that prepares for everything until nothing is left.
fn prepares(server: &Server) -> WatcherBuilder {
    let imds = Imds::new(&server.url()).expect("a local endpoint");
    Watcher::builder()
        .imds(imds.at_speed(SPEED))
        .policy(Policy::new(&[Rule::new(Action::Prepare)]).expect("one rule"))
        .until_idle(true)
}

/// A record of a preparation or a recovery as a word and its outcome.
fn outcome(record: &TimedRecord<'_>) -> Option<String> {
    match record.record {
        Record::Prepare { outcome, .. } if outcome != HookOutcome::Begun => {
            Some(format!("prepare {outcome}"))
        }
        Record::Recover {
            outcome: Some(outcome),
            ..
        } => Some(format!("recover {outcome}")),
        _ => None,
    }
}

#[test]
fn an_error_or_a_panic_of_a_function_is_a_failure_and_the_function_is_called_again() {
    let server = server("user-reboot");
    let (calls, notes) = (AtomicU32::new(0), Arc::<Mutex<Vec<String>>>::default());
    let recoveries = AtomicU32::new(0);
    let (outcomes, log) = (Arc::<Mutex<Vec<String>>>::default(), Arc::clone(&notes));
    let seen = Arc::clone(&outcomes);
    let reason = prepares(&server)
        .prepare(move |task| {
            assert!(task.time_left().is_some());
            match calls.fetch_add(1, Ordering::SeqCst) {
                0 => Err("the load balancer does not answer".into()),
                // A panic without a message, which takes as long as many seconds at this speed.
                1 => resume_unwind(Box::new("a defect")),
                _ => Ok(()),
            }
        })
        .recover(
            move |task| match recoveries.fetch_add(1, Ordering::SeqCst) {
                0 => Err(format!("{} events", task.events().count()).into()),
                _ => Ok(()),
            },
        )
        .on_record(move |record| seen.lock().unwrap().extend(outcome(record)))
        .on_note(move |note| {
            if let Note::FunctionFailed { .. } = note {
                log.lock().unwrap().push(note.to_string());
            }
        })
        .build()
        .expect("a watcher")
        .run();
    assert_eq!(reason, StopReason::Idle);
    assert_eq!(
        *outcomes.lock().unwrap(),
        [
            "prepare failed",
            "prepare failed",
            "prepare ready",
            "recover failed",
            "recover done"
        ]
    );
    let notes = notes.lock().unwrap();
    assert_eq!(notes.len(), 2, "{notes:?}");
    assert!(
        notes[0].ends_with("failed: the load balancer does not answer"),
        "{notes:?}"
    );
    assert!(notes[1].ends_with("failed: 1 events"), "{notes:?}");
}

#[test]
fn a_reply_that_is_dropped_has_failed_and_the_machine_comes_back() {
    /// Drops the first reply of each kind.
    #[derive(Default)]
    struct Careless {
        asked: u32,
        prepared: u32,
        recovered: u32,
        outcomes: Vec<String>,
    }

    impl Host for Careless {
        fn record(&mut self, record: &TimedRecord<'_>) {
            self.outcomes.extend(outcome(record));
        }

        fn gate(&mut self, _event: &EventRecord, reply: GateReply) {
            self.asked += 1;
            if self.asked > 1 {
                reply.open();
            }
        }

        fn prepare(&mut self, _event: &EventRecord, reply: PrepareReply) {
            self.prepared += 1;
            if self.prepared > 1 {
                reply.ready();
            }
        }

        fn recover(&mut self, _events: &[EventRecord], reply: RecoverReply) {
            self.recovered += 1;
            if self.recovered > 1 {
                reply.done();
            }
        }
    }

    let server = server("user-reboot");
    let mut host = Careless::default();
    let mut watcher = prepares(&server)
        .asks_gate(true)
        .build()
        .expect("a watcher");
    assert_eq!(watcher.run_with(&mut host), StopReason::Idle);
    assert_eq!(
        host.outcomes,
        [
            "prepare failed",
            "prepare ready",
            "recover failed",
            "recover done"
        ]
    );
    assert_eq!(host.asked, 3); // closed, open to prepare, open to approve
}

#[test]
fn a_host_that_does_not_prepare_holds_the_event() {
    #[derive(Default)]
    struct Reader(Vec<String>);

    impl Host for Reader {
        fn record(&mut self, record: &TimedRecord<'_>) {
            self.0.extend(outcome(record));
            if let Record::Approval { .. } = record.record {
                self.0.push(record.to_string());
            }
        }
    }

    let server = server("user-reboot");
    let mut host = Reader::default();
    let mut watcher = prepares(&server).max_polls(Some(60)).build().unwrap();
    assert_eq!(
        watcher.run_with(&mut host),
        StopReason::PollsDone { answered: true }
    );
    assert_eq!(host.0, ["prepare no-command"]);
}

#[test]
fn the_gate_is_asked_before_the_preparation_and_before_the_approval() {
    let server = server("user-reboot");
    let (sender, asked) = mpsc::channel();
    let prepared = sender.clone();
    prepares(&server)
        .gate(move |task, phase| {
            assert!(!task.event().event_id.is_empty());
            sender.send(phase.word()).unwrap();
            GateAnswer::Open
        })
        .prepare(move |_| Ok(prepared.send("prepared")?))
        .build()
        .expect("a watcher")
        .run();
    let asked: Vec<_> = asked.iter().collect();
    assert_eq!(
        asked,
        [
            GatePhase::Prepare.word(),
            "prepared",
            GatePhase::Approve.word()
        ]
    );
}

#[test]
fn a_task_learns_that_its_event_is_over() {
    let server = server("cancelled");
    let (sender, outcomes) = mpsc::channel();
    let reason = prepares(&server)
        .prepare(|task| {
            for _ in 0..600 {
                if task.is_cancelled() {
                    return Err("cancelled".into());
                }
                thread::sleep(Duration::from_millis(50));
            }
            Ok(())
        })
        .on_record(move |record| {
            if let Some(outcome) = outcome(record) {
                let _ = sender.send(outcome);
            }
        })
        .build()
        .expect("a watcher")
        .run();
    assert_eq!(reason, StopReason::Idle);
    let outcomes: Vec<_> = outcomes.try_iter().collect();
    assert_eq!(outcomes, ["prepare cancelled", "recover no-command"]);
}

#[test]
fn a_handle_stops_a_watcher_whose_function_runs() {
    let server = server("user-reboot");
    let (sender, called) = mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    let released = Mutex::new(released);
    let mut watcher = prepares(&server)
        .prepare(move |_| {
            sender.send(())?;
            let _ = released.lock().unwrap().recv();
            Ok(())
        })
        .build()
        .expect("a watcher");
    let handle = watcher.handle();
    let stopping = thread::spawn(move || {
        called.recv().expect("a call");
        handle.stop();
    });
    assert_eq!(watcher.run(), StopReason::Stopped);
    stopping.join().unwrap();
    drop(release);
}
