//! Machines between notices and their states, on a store that a test defines.

use std::cell::Cell;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use scheduled_events_core::{Action, EventOrder, Policy, Rule};
use scheduled_events_gate::engine::folder::FolderEngine;
use scheduled_events_gate::engine::{Clock, Engine, EngineError, Reply, Revision, Swap, Versioned};
use scheduled_events_test_support::TestServer;
use serde_json::Value;
use tokio::time::sleep;

use super::*;
use crate::azure::arm::Arm;
use crate::azure::identity::Identity;
use crate::config::Config;
use crate::journal::Journal;
use crate::metrics::Gauges;
use crate::notice::{read, with_notification};
use crate::store::Store;
use crate::store::tests::{TURN, replaced, slow, with_engine};

pub(super) const SUBSCRIPTION: &str = "00000000-0000-0000-0000-000000000000";

const MACHINE: &str = "/subscriptions/00000000-0000-0000-0000-000000000000/resourceGroups/web/providers/Microsoft.Compute/virtualMachines/db";

fn row(id: &str, status: &str) -> Notices {
    let row = format!(
        r#"{{"id":"{MACHINE}/providers/microsoft.maintenance/scheduledevents/{id}","type":"microsoft.maintenance/scheduledevents",
        "properties":{{"EventId":"{id}","EventType":"Reboot","EventStatus":"{status}","Resources":["db"]}}}}"#
    );
    read(row.as_bytes()).expect("it can be read")
}

/// Runs work with a hub that has its files in this folder. `more` is added to its configuration.
pub(super) fn with_hub<F: Future<Output = ()>>(
    folder: &Path,
    more: &str,
    policy: Policy,
    store: Store,
    work: impl FnOnce(Rc<Dispatch>, mpsc::Receiver<StateLost>) -> F,
) {
    let path = |name: &str| folder.join(name).display().to_string();
    let source = if more.contains("[queue]") {
        "queue"
    } else {
        "graph"
    };
    let config = format!(
        "source = \"{source}\"\nsubscriptions = [\"{SUBSCRIPTION}\"]\naudit = \"{}\"\nstate = \"{}\"\n\
         identity = {{ kind = \"emulator\" }}\n{more}",
        path("audit"),
        path("state"),
    );
    let config = Config::parse(&config).expect("valid");
    let done = scheduled_events_common::program::block_on(async {
        let identity = Identity::new(&config.identity, config.cloud).expect("an identity");
        let arm =
            Arm::new(config.management_url().expect("an address"), identity).expect("a client");
        let journal = Rc::new(Journal::open(&config.audit).expect("an audit file"));
        let shared = Shared::new(config, policy, arm, Rc::new(store), journal).expect("a gate");
        let (stop, stopped) = mpsc::channel(1);
        work(Dispatch::new(shared, stop), stopped).await;
    });
    done.unwrap_or_else(|failure| panic!("{}", failure.message));
}

/// Runs work with a hub that only observes, and whose store is slow.
pub(crate) fn with_dispatch<F: Future<Output = ()>>(
    work: impl FnOnce(Rc<Dispatch>, mpsc::Receiver<StateLost>) -> F,
) {
    let folder = tempfile::tempdir().expect("a folder");
    let store = slow(folder.path(), Duration::from_millis(200), TURN);
    with_hub(
        folder.path(),
        "management = \"http://127.0.0.1:1\"\n",
        Policy::observe(),
        store,
        work,
    );
}

#[test]
fn an_event_that_comes_while_the_state_of_the_last_one_is_removed_is_followed() {
    with_dispatch(async |dispatch, mut stopped| {
        dispatch.deliver(row("a", "Scheduled")).wait().await;
        dispatch.deliver(row("a", "Completed")).wait().await;
        sleep(Duration::from_millis(100)).await;
        dispatch.deliver(row("b", "Scheduled")).wait().await;
        assert_eq!(stopped.try_recv().ok(), None);
        let kept = dispatch.shared.store.load().await.expect("an answer");
        assert_eq!(kept[0].0.events[0].key, "b");
        dispatch.deliver(row("b", "Completed")).wait().await;
        while !dispatch.shared.machines.borrow().is_empty() {
            sleep(Duration::from_millis(50)).await;
        }
        assert!(
            dispatch
                .shared
                .store
                .load()
                .await
                .expect("an answer")
                .is_empty()
        );
    });
}

/// There is no system topic.
#[test]
fn an_event_that_the_queue_has_no_message_about_is_counted_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let more = "management = \"http://127.0.0.1:1\"\n[queue]\nurl = \"http://127.0.0.1:1/a/events\"\nemulator = true\n";
    let store = slow(folder.path(), Duration::ZERO, TURN);
    with_hub(
        folder.path(),
        more,
        Policy::observe(),
        store,
        async |dispatch, _stopped| {
            let missing = |minutes: u64| {
                dispatch.reconciled(Instant::now() + Duration::from_secs(minutes * 60));
                let path = folder.path().join("hub.prom");
                dispatch.shared.metrics.write(&path, Gauges::default());
                let text = fs::read_to_string(path).expect("metrics");
                let line = text.lines().find_map(|line| {
                    line.strip_prefix("scheduled_events_hub_messages_total{result=\"missing\"} ")
                });
                line.map(str::to_owned)
            };
            let of_queue = |notices| Notices {
                is_queued: true,
                ..notices
            };
            // It was announced before the hub started.
            drop(dispatch.deliver(row("a", "Scheduled")));
            assert_eq!(missing(0).as_deref(), Some("0"));
            // The message is first, late, or never sent.
            drop(dispatch.deliver(of_queue(row("b", "Scheduled"))));
            for id in ["b", "c", "d"] {
                drop(dispatch.deliver(row(id, "Scheduled")));
            }
            assert_eq!(missing(9).as_deref(), Some("0"));
            drop(dispatch.deliver(of_queue(row("c", "Scheduled"))));
            assert_eq!(missing(11).as_deref(), Some("1"));
            drop(dispatch.deliver(row("d", "Completed")));
            assert_eq!(missing(60).as_deref(), Some("1"));
        },
    );
}

/// Its rows are in no answer, and nothing but messages reports its end.
#[test]
fn a_message_ends_an_event_of_a_subscription_that_cannot_be_read_after_a_minute() {
    with_dispatch(async |dispatch, _stopped| {
        dispatch.set_refused([SUBSCRIPTION.to_owned()].into());
        let message = |status: &str| Notices {
            is_queued: true,
            ..row("a", status)
        };
        dispatch.deliver(message("Scheduled")).wait().await;
        drop(dispatch.deliver(message("Completed")));
        let (begin, event) = (Instant::now(), [EventKey::new(MACHINE, "a")]);
        for (seconds, is_open) in [(0, true), (30, true), (59, true), (60, false)] {
            dispatch.doubts_answered(&event, &event, begin + Duration::from_secs(seconds));
            assert_eq!(!dispatch.open_events().is_empty(), is_open, "{seconds}");
        }
    });
}

/// Its end was in a lost message, and in a history that Azure keeps only for days.
#[test]
fn an_event_that_resource_graph_does_not_have_is_over_in_the_end_and_returns_if_it_appears() {
    with_dispatch(async |dispatch, _stopped| {
        let keys = |keys: &[&str]| {
            keys.iter()
                .map(|key| EventKey::new(MACHINE, key))
                .collect::<Vec<_>>()
        };
        let begin = Instant::now();
        // Answers that lack them, from one hour to another.
        let absent = |of: &[&str], hours: std::ops::RangeInclusive<u64>| {
            for minutes in (hours.start() * 60..=hours.end() * 60).step_by(5) {
                dispatch.absent(&keys(of), begin + Duration::from_secs(minutes * 60));
            }
        };
        let ahead = |id: &str| {
            let row = row(id, "Scheduled").notices[0].message.replace(
                "\"Resources\"",
                "\"NotBefore\":\"Mon, 19 Sep 2039 18:29:47 GMT\",\"Resources\"",
            );
            read(row.as_bytes()).expect("it can be read")
        };
        for notices in [row("a", "Started"), row("b", "Started"), ahead("c")] {
            dispatch.deliver(notices).wait().await;
        }
        let open = || {
            let mut open: Vec<_> = dispatch.open_events();
            open.sort();
            open.into_iter().map(|event| event.id).collect::<Vec<_>>()
        };
        // The identity may not read them.
        dispatch.set_refused([SUBSCRIPTION.to_owned()].into());
        absent(&["a", "b", "c"], 0..=9);
        dispatch.set_refused(HashSet::new());
        absent(&["a", "b", "c"], 10..=15);
        assert_eq!(open(), ["a", "b", "c"], "too early");
        // It is back for a while.
        dispatch.deliver(row("b", "Started")).wait().await;
        absent(&["a", "b", "c"], 15..=17);
        assert_eq!(
            open(),
            ["b", "c"],
            "the first is over, and the last has not begun"
        );
        // Six hours without an answer, and one more.
        absent(&["b", "c"], 23..=23);
        assert_eq!(open(), ["b", "c"], "hours without answers do not count");
        absent(&["b", "c"], 23..=28);
        assert_eq!(open(), ["c"]);
        let kept = async |events: usize| {
            while dispatch.shared.store.load().await.expect("an answer")[0]
                .0
                .events
                .len()
                != events
            {
                sleep(Duration::from_millis(50)).await;
            }
        };
        kept(1).await;
        dispatch.deliver(row("a", "Started")).wait().await;
        assert_eq!(open(), ["a", "c"], "it was not over");
        kept(2).await;
    });
}

/// What an earlier process has kept of the machine `db`.
pub(super) fn saved(event: SavedEvent) -> Saved {
    let machine = MachineFacts {
        resource_id: event.resource_id.clone(),
        name: "db".into(),
        ..MachineFacts::default()
    };
    Saved {
        machine,
        events: vec![event],
        ..Saved::default()
    }
}

#[test]
fn an_event_whose_message_was_too_long_for_its_register_is_over_in_the_end() {
    with_dispatch(async |dispatch, _stopped| {
        let (key, resource_id, order) = ("a".to_owned(), MACHINE.to_owned(), EventOrder::default());
        let event = SavedEvent {
            key,
            message: String::new(),
            resource_id,
            order,
        };
        dispatch.restore(vec![(saved(event), Entry::default())]);
        let keys = dispatch.open_events();
        assert_eq!(keys, [EventKey::new(MACHINE, "a")]);
        let begin = Instant::now();
        for minutes in (0..=360).step_by(5) {
            dispatch.absent(&keys, begin + Duration::from_secs(minutes * 60));
        }
        assert!(dispatch.open_events().is_empty());
    });
}

#[test]
fn what_a_hub_could_not_keep_because_another_one_took_over_does_not_count_as_kept() {
    with_dispatch(async |dispatch, mut stopped| {
        // Another hub has written the register of this machine.
        let machine = MachineFacts {
            resource_id: MACHINE.into(),
            ..MachineFacts::default()
        };
        let saved = Saved {
            machine,
            ..Saved::default()
        };
        dispatch
            .shared
            .store
            .save(&mut Entry::default(), saved)
            .await
            .expect("written");
        let kept = dispatch.deliver(row("a", "Scheduled"));
        assert!(
            stopped
                .recv()
                .await
                .expect("a reason")
                .to_string()
                .contains("taken over")
        );
        let kept = tokio::time::timeout(Duration::from_millis(500), kept.wait()).await;
        assert!(kept.is_err(), "the message would be deleted");
        // The end of the hub does not wait for it.
        let machine = dispatch
            .shared
            .machine(&key_of(MACHINE))
            .expect("a machine");
        let _ = machine.send(Message::Stop);
        machine.closed().await;
    });
}

/// How long a hub may take for the next step.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// An engine on a machine where the hub is killed after this many writes.
struct Killed {
    engine: FolderEngine,
    writes: Cell<usize>,
    audit: PathBuf,
    /// The audit file at that moment.
    left: Rc<RefCell<Option<String>>>,
}

impl Engine for Killed {
    fn read<'a>(&'a self, key: &'a str) -> Reply<'a, Option<Versioned>> {
        self.engine.read(key)
    }

    fn swap<'a>(
        &'a self,
        key: &'a str,
        expected: Option<&'a Revision>,
        value: &'a str,
    ) -> Reply<'a, Swap> {
        Box::pin(async move {
            let done = self.engine.swap(key, expected, value).await;
            self.writes.set(self.writes.get() - 1);
            if self.writes.get() == 0 {
                self.left.replace(fs::read_to_string(&self.audit).ok());
                std::future::pending::<()>().await;
            }
            done
        })
    }

    fn delete<'a>(&'a self, key: &'a str, expected: &'a Revision) -> Reply<'a, bool> {
        self.engine.delete(key, expected)
    }

    fn list<'a>(&'a self, prefix: &'a str) -> Reply<'a, Vec<(String, Versioned)>> {
        self.engine.list(prefix)
    }

    fn clock(&self) -> Option<Clock> {
        self.engine.clock()
    }
}

/// Follows an event from its announcement to its end, or from the point where a hub was killed.
/// Returns the audit file: at the end, or when this hub was killed, after `writes` writes.
fn follow(
    folder: &Path,
    control: &TestServer,
    approvals: &AtomicUsize,
    writes: Option<usize>,
) -> (String, bool) {
    let (left, audit) = (
        Rc::<RefCell<Option<String>>>::default(),
        folder.join("audit"),
    );
    let _ = fs::remove_file(&audit);
    let engine = Killed {
        engine: FolderEngine::new(folder),
        writes: Cell::new(writes.unwrap_or(usize::MAX)),
        audit: audit.clone(),
        left: left.clone(),
    };
    let store = with_engine(folder, Box::new(engine));
    let policy = Policy::new(&[Rule::new(Action::Prepare)]).expect("a policy");
    let more = format!(
        "management = \"{}\"\napprove = \"arm\"\nhooks = {{ prepare = \"true\", recover = \"true\" }}\n",
        control.url()
    );
    with_hub(folder, &more, policy, store, async |dispatch, _stopped| {
        dispatch.restore(dispatch.shared.store.load().await.expect("an answer"));
        let (begin, is_killed) = (Instant::now(), || left.borrow().is_some());
        if approvals.load(Ordering::SeqCst) == 0 {
            drop(dispatch.deliver(row("c7061bac-afdc-4513-b24b-aa5f13a16123", "Scheduled")));
            while approvals.load(Ordering::SeqCst) == 0 && !is_killed() {
                assert!(
                    begin.elapsed() < PATIENCE,
                    "no approval: {}",
                    fs::read_to_string(&audit).unwrap_or_default()
                );
                sleep(Duration::from_millis(10)).await;
            }
        }
        // Azure's answer arrives.
        sleep(Duration::from_millis(100)).await;
        drop(dispatch.deliver(row("c7061bac-afdc-4513-b24b-aa5f13a16123", "Completed")));
        while !dispatch.shared.machines.borrow().is_empty() && !is_killed() {
            assert!(
                begin.elapsed() < PATIENCE,
                "no end: {}",
                fs::read_to_string(&audit).unwrap_or_default()
            );
            sleep(Duration::from_millis(10)).await;
        }
        dispatch.shared.journal.finish();
    });
    let killed = left.take();
    let is_killed = killed.is_some();
    (
        killed.unwrap_or_else(|| fs::read_to_string(&audit).expect("an audit file")),
        is_killed,
    )
}

/// Another version of this program cannot use the session, and the event is over by then, or ends
/// before anything is done about it.
#[test]
fn a_machine_that_is_out_is_put_back_although_its_session_cannot_be_used() {
    for is_over in [false, true] {
        put_back_without_a_session(is_over);
    }
}

fn put_back_without_a_session(is_over: bool) {
    let folder = tempfile::tempdir().expect("a folder");
    let count = Arc::<AtomicUsize>::default();
    let control = approving(&count);
    let id = "c7061bac-afdc-4513-b24b-aa5f13a16123";
    let run = |work: &dyn Fn(Rc<Dispatch>) -> Reply<'static, ()>| {
        let more = format!(
            "management = \"{}\"\napprove = \"arm\"\nhooks = {{ prepare = \"true\", recover = \"true\" }}\n",
            control.url()
        );
        let store = with_engine(folder.path(), Box::new(FolderEngine::new(folder.path())));
        let policy = Policy::new(&[Rule::new(Action::Prepare)]).expect("a policy");
        with_hub(
            folder.path(),
            &more,
            policy,
            store,
            async |dispatch, _stopped| {
                work(dispatch).await.expect("it works");
            },
        );
    };
    run(&|dispatch| {
        let count = count.clone();
        Box::pin(async move {
            drop(dispatch.deliver(row(id, "Scheduled")));
            while count.load(Ordering::SeqCst) == 0 {
                sleep(Duration::from_millis(10)).await;
            }
            dispatch.shared.journal.finish();
            Ok(())
        })
    });
    fs::remove_file(folder.path().join("audit")).expect("removed");
    run(&|dispatch| {
        Box::pin(async move {
            let mut kept = dispatch.shared.store.load().await?;
            let saved = &mut kept[0].0;
            saved.session = "damaged".into();
            if is_over {
                let event = &mut saved.events[0];
                let notice = row(id, "Completed").notices.remove(0);
                event.message = notice.message.to_string();
                with_notification(&event.message, &notice.event_key(), |notification| {
                    event.order.observe(notification)
                });
            }
            dispatch.restore(kept);
            if !is_over {
                drop(dispatch.deliver(row(id, "Canceled")));
            }
            let begin = Instant::now();
            while !dispatch.shared.machines.borrow().is_empty() && begin.elapsed() < PATIENCE {
                sleep(Duration::from_millis(10)).await;
            }
            dispatch.shared.journal.finish();
            Ok(())
        })
    });
    let audit = fs::read_to_string(folder.path().join("audit")).expect("an audit file");
    assert!(
        audit.contains("\"record\":\"recover\""),
        "{is_over}: {audit}"
    );
}

/// A service that approves, and counts the approvals.
pub(super) fn approving(count: &Arc<AtomicUsize>) -> TestServer {
    let count = count.clone();
    TestServer::start(move |connection| {
        let mut lines = BufReader::new(&**connection).lines().map_while(Result::ok);
        while lines.next().is_some() {
            lines
                .by_ref()
                .take_while(|line| !line.is_empty())
                .for_each(drop);
            let _ = (&**connection).write_all(
                b"HTTP/1.1 200 OK\r\nContent-Length: 34\r\n\r\n{\"value\": \"Successfully Approved\"}",
            );
            count.fetch_add(1, Ordering::SeqCst);
        }
    })
}

/// A saved state counts after a restart: nothing records its contents again.
#[test]
fn whichever_write_of_a_state_is_the_last_one_before_a_kill_no_record_is_lost() {
    let mut kills = 0;
    for writes in 1.. {
        let (folder, approvals) = (
            tempfile::tempdir().expect("a folder"),
            Arc::<AtomicUsize>::default(),
        );
        let control = approving(&approvals);
        let (mut audit, is_killed) = follow(folder.path(), &control, &approvals, Some(writes));
        if is_killed {
            audit += &follow(folder.path(), &control, &approvals, None).0;
        }
        let records: Vec<Value> = audit
            .lines()
            .map(|line| serde_json::from_str(line).expect("JSON"))
            .collect();
        for (record, member, value) in [
            ("change", "change", json!("scheduled")),
            ("decision", "action", json!("prepare")),
            ("prepare", "outcome", json!("begun")),
            ("prepare", "outcome", json!("ready")),
            ("approval", "status", json!(200)),
            ("change", "change", json!("completed")),
            ("recover", "outcome", json!("done")),
        ] {
            let is_it = |found: &Value| found["record"] == record && found[member] == value;
            assert!(
                records.iter().any(is_it),
                "killed after {writes} writes, {record} {value} is lost: {audit}"
            );
        }
        if !is_killed {
            break;
        }
        kills += 1;
    }
    assert!(kills > 5, "{kills} writes");
}

/// An engine whose disk is full after this many writes.
struct Full(FolderEngine, Cell<usize>);

impl Engine for Full {
    fn read<'a>(&'a self, key: &'a str) -> Reply<'a, Option<Versioned>> {
        self.0.read(key)
    }

    fn swap<'a>(
        &'a self,
        key: &'a str,
        expected: Option<&'a Revision>,
        value: &'a str,
    ) -> Reply<'a, Swap> {
        match self.1.get().checked_sub(1) {
            Some(writes) => {
                self.1.set(writes);
                self.0.swap(key, expected, value)
            }
            None => Box::pin(async { Err(EngineError("No space left on device".into())) }),
        }
    }

    fn delete<'a>(&'a self, key: &'a str, expected: &'a Revision) -> Reply<'a, bool> {
        self.0.delete(key, expected)
    }

    fn list<'a>(&'a self, prefix: &'a str) -> Reply<'a, Vec<(String, Versioned)>> {
        self.0.list(prefix)
    }

    fn clock(&self) -> Option<Clock> {
        self.0.clock()
    }
}

/// A hub is killed once its machine is ready or may not be prepared, and the event ends before the
/// next hub starts. The disk is full after this many writes of each. Returns whether the machine
/// was prepared, whether it was put back, and why the second hub stopped.
fn killed_on_a_full_disk(writes: [usize; 2]) -> (bool, bool, Option<String>) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let more = format!(
        "management = \"http://127.0.0.1:1\"\napprove = \"arm\"\nhooks = {{ prepare = \"touch {}\", recover = \"touch {}\" }}\n",
        path("prepared").display(),
        path("recovered").display(),
    );
    let mut why = None;
    for (writes, status) in writes.into_iter().zip(["Scheduled", "Completed"]) {
        let store = with_engine(
            folder.path(),
            Box::new(Full(
                FolderEngine::of_one_process(folder.path()),
                Cell::new(writes),
            )),
        );
        let policy = Policy::new(&[Rule::new(Action::Prepare)]).expect("a policy");
        with_hub(
            folder.path(),
            &more,
            policy,
            store,
            async |dispatch, mut stopped| {
                dispatch.restore(dispatch.shared.store.load().await.expect("an answer"));
                drop(dispatch.deliver(row("c7061bac-afdc-4513-b24b-aa5f13a16123", status)));
                let begin = Instant::now();
                loop {
                    let audit = fs::read_to_string(path("audit")).unwrap_or_default();
                    let is_decided = audit.contains("\"outcome\":\"ready\"")
                        || audit.contains("\"outcome\":\"closed\"");
                    let is_done = if status == "Scheduled" {
                        is_decided
                    } else {
                        dispatch.shared.machines.borrow().is_empty()
                    };
                    why = stopped.try_recv().ok().map(|why| why.to_string());
                    if is_done || why.is_some() {
                        break;
                    }
                    assert!(begin.elapsed() < PATIENCE, "{status}: {audit}");
                    sleep(Duration::from_millis(10)).await;
                }
                dispatch.shared.journal.finish();
            },
        );
    }
    (path("prepared").exists(), path("recovered").exists(), why)
}

/// The write after which a machine is prepared may be the last one.
#[test]
fn whichever_write_of_a_state_finds_the_disk_full_no_recovery_is_forgotten() {
    let results: Vec<_> = (0..6)
        .map(|writes| killed_on_a_full_disk([writes, usize::MAX]))
        .collect();
    assert!(
        results
            .iter()
            .all(|(is_prepared, is_recovered, _)| !is_prepared || *is_recovered),
        "{results:?}"
    );
    assert!(!results[0].0 && results[5].0, "{results:?}");
}

/// A register of an earlier process of this hub does not belong to another hub.
#[test]
fn a_hub_that_starts_on_a_full_disk_puts_a_machine_back_and_goes_on() {
    for writes in 0..3 {
        assert_eq!(
            killed_on_a_full_disk([usize::MAX, writes]),
            (true, true, None),
            "the disk is full after {writes} writes"
        );
    }
}

/// After SIGSTOP and SIGCONT: it has not noticed yet that another hub may be active.
#[test]
fn a_hub_whose_turn_may_be_over_runs_no_command_and_sends_no_approval() {
    for (action, begun) in [
        (Action::Prepare, "\"outcome\":\"begun\""),
        (Action::Approve, "\"record\":\"approval\""),
    ] {
        let (folder, approvals) = (
            tempfile::tempdir().expect("a folder"),
            Arc::<AtomicUsize>::default(),
        );
        let (control, prepared) = (approving(&approvals), folder.path().join("prepared"));
        let hooks = format!("hooks = {{ prepare = \"touch {}\" }}", prepared.display());
        let more = format!(
            "management = \"{}\"\napprove = \"arm\"\n{hooks}\n",
            control.url()
        );
        let policy = Policy::new(&[Rule::new(action)]).expect("a policy");
        with_hub(
            folder.path(),
            &more,
            policy,
            replaced(folder.path()),
            async |dispatch, _stopped| {
                drop(dispatch.deliver(row("c7061bac-afdc-4513-b24b-aa5f13a16123", "Scheduled")));
                let audit = || fs::read_to_string(folder.path().join("audit")).unwrap_or_default();
                let begin = Instant::now();
                while !audit().contains(begun) {
                    assert!(begin.elapsed() < PATIENCE, "{}", audit());
                    sleep(Duration::from_millis(10)).await;
                }
                sleep(Duration::from_millis(500)).await;
                dispatch.shared.journal.finish();
            },
        );
        assert_eq!(
            (prepared.exists(), approvals.load(Ordering::SeqCst)),
            (false, 0)
        );
    }
}
