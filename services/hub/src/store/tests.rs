//! Stores that hang or block, and hubs that replace each other.

use scheduled_events_gate::engine::{Reply, Versioned};

use super::*;

/// A turn that outlasts a test which does not renew it, however busy the machine is.
pub(crate) const TURN: Duration = Duration::from_secs(60);

/// A store whose engine answers writes and deletions this late, in which a turn lasts so long.
pub(crate) fn slow(folder: &Path, time: Duration, turn: Duration) -> Store {
    Store {
        engine: Box::new(Slow(FolderEngine::new(folder), time, Duration::ZERO)),
        take_over_after: Some(turn),
        ..open(folder)
    }
}

/// A store that no other hub shares.
pub(crate) fn alone(folder: &Path) -> Store {
    Store {
        take_over_after: None,
        ..open(folder)
    }
}

/// A store that another hub may have taken over.
pub(crate) fn replaced(folder: &Path) -> Store {
    let store = open(folder);
    store
        .last_beat
        .set(Instant::now() - store.take_over_after.expect("a time"));
    store
}

/// A store on this engine that no other hub shares.
pub(crate) fn with_engine(folder: &Path, engine: Box<dyn Engine>) -> Store {
    Store {
        engine,
        ..alone(folder)
    }
}

fn open(folder: &Path) -> Store {
    let lock = FileLock::acquire_at(&folder.join("lock"), &folder.join("lock"), "lock");
    Store {
        engine: Box::new(FolderEngine::new(folder)),
        writer: format!("{:x}", scheduled_events::watch::seed()),
        requests: Semaphore::new(REQUESTS_AT_ONCE),
        holder: RefCell::default(),
        take_over_after: Some(Duration::from_secs(3)),
        last_beat: Cell::new(Instant::now()),
        renewed: Cell::new(Instant::now()),
        renewal: Notify::new(),
        renewal_wanted: Notify::new(),
        logged: Cell::default(),
        failures: Cell::default(),
        _lock: lock.expect("a lock"),
    }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    scheduled_events_common::program::block_on(future)
        .unwrap_or_else(|failure| panic!("{}", failure.message))
}

#[test]
fn who_was_replaced_cannot_write_any_more() {
    let (folder, other) = (
        tempfile::tempdir().expect("a folder"),
        tempfile::tempdir().expect("a folder"),
    );
    block_on(async {
        let first = open(folder.path());
        let mut second = open(other.path());
        second.engine = Box::new(FolderEngine::new(folder.path()));
        let machine = MachineFacts {
            resource_id: "/A".into(),
            ..MachineFacts::default()
        };
        let saved = Saved {
            machine,
            ..Saved::default()
        };
        let mut entry = Entry::default();
        first
            .save(&mut entry, saved.clone())
            .await
            .expect("written");
        let (found, mut taken) = second.load().await.expect("an answer").remove(0);
        assert_eq!(found.machine, saved.machine);
        second
            .save(&mut taken, found.clone())
            .await
            .expect("written");
        let changed = Saved {
            session: "x".into(),
            ..saved
        };
        assert_eq!(
            first.save(&mut entry, changed).await,
            Err(StoreError::Taken)
        );
        assert_eq!(first.remove(&mut entry, "/a").await, Err(StoreError::Taken));
        second.remove(&mut taken, "/a").await.expect("removed");
        assert!(second.load().await.expect("an answer").is_empty());
    });
}

#[test]
fn a_message_that_is_too_long_for_a_register_is_left_out_of_it() {
    let folder = tempfile::tempdir().expect("a folder");
    block_on(async {
        let store = open(folder.path());
        let event = |key: &str, length| SavedEvent {
            key: key.into(),
            message: "x".repeat(length),
            resource_id: "/r".into(),
            order: EventOrder::default(),
        };
        let machine = MachineFacts {
            resource_id: "/A".into(),
            ..MachineFacts::default()
        };
        let events = vec![event("a", 10), event("b", 300_000), event("c", 200_000)];
        let saved = Saved {
            machine,
            events,
            session: "s".into(),
            ..Saved::default()
        };
        let mut entry = Entry::default();
        timeout(Duration::from_secs(5), store.save(&mut entry, saved))
            .await
            .expect("in time")
            .expect("written");
        let (found, _) = store.load().await.expect("an answer").remove(0);
        let lengths: Vec<_> = found
            .events
            .iter()
            .map(|event| (event.key.as_str(), event.message.len()))
            .collect();
        assert_eq!(
            (lengths, found.session.as_str()),
            (vec![("a", 10), ("b", 0), ("c", 200_000)], "s")
        );
    });
}

/// How long it takes to answer, and how long a write blocks the whole process.
pub(crate) struct Slow(
    pub(crate) FolderEngine,
    pub(crate) Duration,
    pub(crate) Duration,
);

impl Engine for Slow {
    fn read<'a>(&'a self, key: &'a str) -> Reply<'a, Option<Versioned>> {
        self.0.read(key)
    }

    fn swap<'a>(
        &'a self,
        key: &'a str,
        expected: Option<&'a Revision>,
        value: &'a str,
    ) -> Reply<'a, Swap> {
        Box::pin(async move {
            sleep(self.1).await;
            if !self.2.is_zero() {
                std::thread::sleep(self.2);
                return Ok(Swap::Done(Revision("9".into())));
            }
            self.0.swap(key, expected, value).await
        })
    }

    fn delete<'a>(&'a self, key: &'a str, expected: &'a Revision) -> Reply<'a, bool> {
        Box::pin(async move {
            sleep(self.1 * 2).await;
            self.0.delete(key, expected).await
        })
    }

    fn list<'a>(&'a self, prefix: &'a str) -> Reply<'a, Vec<(String, Versioned)>> {
        self.0.list(prefix)
    }

    fn clock(&self) -> Option<engine::Clock> {
        self.0.clock()
    }
}

#[test]
fn a_hub_that_works_says_so_however_much_it_writes() {
    let folder = tempfile::tempdir().expect("a folder");
    block_on(async {
        let delay = Duration::from_millis(200);
        let store = slow(folder.path(), delay, Duration::from_secs(8));
        store.await_turn().await;
        assert!(
            store.last_beat.get().elapsed() >= delay,
            "others count from the write, not from its answer"
        );
        let _all = store.requests.acquire_many(16).await;
        let held = timeout(Duration::from_secs(10), store.hold()).await;
        assert!(held.is_err(), "{held:?}");
        let (holder, _) = store::read::<Holder>(&*store.engine, HOLDER)
            .await
            .expect("an answer");
        assert!(holder.beat > 2, "{holder:?}");
        assert!(store.has_turn());
        // After SIGSTOP and SIGCONT.
        store
            .last_beat
            .set(Instant::now() - store.take_over_after.expect("a time"));
        assert!(!store.has_turn());
    });
}

#[test]
fn a_hub_whose_store_hangs_stops_before_another_one_takes_over() {
    let folder = tempfile::tempdir().expect("a folder");
    block_on(async {
        let mut store = open(folder.path());
        store.await_turn().await;
        store.engine = Box::new(Slow(
            FolderEngine::new(folder.path()),
            Duration::from_secs(60),
            Duration::ZERO,
        ));
        let why = timeout(Duration::from_secs(3), store.hold())
            .await
            .expect("it stops in time");
        assert_eq!(why, StoreError::Silent);
        // It has refused to start actions that were due meanwhile.
        let frozen = Slow(
            FolderEngine::new(folder.path()),
            Duration::ZERO,
            Duration::from_secs(3),
        );
        store.engine = Box::new(frozen);
        store.last_beat.set(Instant::now());
        let why = timeout(Duration::from_secs(10), store.hold())
            .await
            .expect("it stops, too");
        assert_eq!(why, StoreError::Silent);
    });
}

#[test]
fn a_state_folder_is_this_users_alone() {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    open_folder(&path("new/state")).expect("made");
    let mode = std::fs::metadata(path("new/state"))
        .expect("metadata")
        .mode();
    assert_eq!(mode & 0o777, 0o700);
    symlink(path("new/state"), path("link")).expect("a link");
    let refusal = |name: &str| open_folder(&path(name)).map_err(|error| error.to_string());
    let error = refusal("link").expect_err("a refusal");
    assert!(error.starts_with("it is a link"), "{error}");
    std::fs::create_dir(path("open")).expect("a folder");
    // The last two are the pod's group in a volume of Kubernetes, and a volume that all may write.
    for (mode, is_accepted) in [
        (0o755, true),
        (0o775, false),
        (0o757, false),
        (0o777, false),
        (0o2770, true),
        (0o2777, false),
    ] {
        std::fs::set_permissions(path("open"), std::fs::Permissions::from_mode(mode)).expect("set");
        let refused = refusal("open").err();
        assert_eq!(refused.is_none(), is_accepted, "{mode:o}: {refused:?}");
        assert!(refused.is_none_or(|why| why.starts_with("others may write there")));
    }
}
