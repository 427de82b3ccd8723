//! Every engine behaves in the same way.

use std::rc::Rc;
use std::time::Duration;

use scheduled_events_gate::engine::folder::FolderEngine;
use scheduled_events_gate::engine::memory::MemoryEngine;
use scheduled_events_gate::engine::{
    Engine, Revision, SplitRegisters, SplitWrite, StoreTime, Swap, Versioned,
};
use tokio::task::LocalSet;

use crate::fixture::{EtcdServer, block_on};

/// How many writers change one register at the same time.
const WRITERS: u64 = 100;

pub(crate) async fn conforms(engine: Rc<dyn Engine>) {
    one_register(&*engine).await;
    prefixes(&*engine).await;
    ages(&*engine).await;
    values(&*engine).await;
    if let Some(split) = engine.split_registers() {
        a_split_register(&*engine, split).await;
    }
    many_writers(engine).await;
}

fn done(swap: Swap) -> Revision {
    match swap {
        Swap::Done(revision) => revision,
        Swap::Conflict => panic!("the swap was refused"),
    }
}

async fn one_register(engine: &dyn Engine) {
    let key = "events/c7061bac-afdc-4513-b24b-aa5f13a16123/0a1b";
    assert_eq!(engine.read(key).await.unwrap(), None);
    let first = done(engine.swap(key, None, "one").await.unwrap());
    let found = engine.read(key).await.unwrap().expect("a register");
    assert_eq!((found.value.as_str(), &found.revision), ("one", &first));
    assert_eq!(
        engine.swap(key, None, "two").await.unwrap(),
        Swap::Conflict,
        "it exists"
    );
    let second = done(engine.swap(key, Some(&first), "two").await.unwrap());
    assert_ne!(first, second);
    assert_eq!(
        engine.swap(key, Some(&first), "three").await.unwrap(),
        Swap::Conflict,
        "the revision is old"
    );
    // The same value again is a new revision: a refused write must not look like one that was
    // carried out.
    let third = done(engine.swap(key, Some(&second), "two").await.unwrap());
    assert_eq!(
        engine.swap(key, Some(&second), "four").await.unwrap(),
        Swap::Conflict
    );
    assert!(
        !engine.delete(key, &second).await.unwrap(),
        "the revision is old"
    );
    assert!(engine.delete(key, &third).await.unwrap());
    assert!(!engine.delete(key, &third).await.unwrap(), "there is none");
    assert_eq!(engine.read(key).await.unwrap(), None);
    assert_eq!(
        engine.swap(key, Some(&third), "five").await.unwrap(),
        Swap::Conflict,
        "there is none"
    );
    let fourth = done(engine.swap(key, None, "six").await.unwrap());
    assert_eq!(
        engine.swap(key, Some(&third), "seven").await.unwrap(),
        Swap::Conflict,
        "an earlier life's revision"
    );
    assert!(engine.delete(key, &fourth).await.unwrap());
}

async fn prefixes(engine: &dyn Engine) {
    // Parts that are numbers, and a register whose key is the beginning of another's.
    for key in [
        "groups/7",
        "groups/db",
        "groups/db/2",
        "groups/db/zone-1",
        "groupss/x",
        "group/y",
        "groups-/z",
    ] {
        done(engine.swap(key, None, key).await.unwrap());
    }
    let found = engine.list("groups/").await.unwrap();
    let keys: Vec<_> = found
        .iter()
        .map(|(key, register)| (key.as_str(), register.value.as_str()))
        .collect();
    let expected =
        ["groups/7", "groups/db", "groups/db/2", "groups/db/zone-1"].map(|key| (key, key));
    assert_eq!(keys, expected);
    for (key, register) in &found {
        done(
            engine
                .swap(key, Some(&register.revision), "changed")
                .await
                .expect("the revision of a list is a revision"),
        );
    }
    assert_eq!(engine.list("machines/").await.unwrap(), []);
}

/// Registers are listed with their revisions, and the store has a clock that advances by itself.
async fn ages(engine: &dyn Engine) {
    let first = done(engine.swap("ages/a", None, "1").await.unwrap());
    let before = engine.clock().expect("an answer shows the clock").now;
    let second = done(engine.swap("ages/b", None, "2").await.unwrap());
    let listed = engine.list_aged("ages/").await.unwrap();
    let of = |index: usize| (listed[index].key.as_str(), &listed[index].register);
    assert_eq!(
        of(0),
        (
            "ages/a",
            &Versioned {
                value: "1".into(),
                revision: first.clone()
            }
        )
    );
    assert_eq!(
        of(1),
        (
            "ages/b",
            &Versioned {
                value: "2".into(),
                revision: second
            }
        )
    );
    let now = engine.clock().expect("a time").now;
    // Some show whole seconds, and this computer may be busy.
    let millis =
        |later: StoreTime, earlier: StoreTime| later.0.cast_signed() - earlier.0.cast_signed();
    assert!(
        (-2000..60_000).contains(&millis(now, before)),
        "{now:?} after {before:?}"
    );
    for written in listed.iter().filter_map(|aged| aged.written) {
        assert!(
            (-2000..60_000).contains(&millis(now, written)),
            "{now:?} after {written:?}"
        );
    }
    tokio::time::sleep(Duration::from_millis(1500)).await;
    let later = engine.clock().expect("a time");
    assert!(
        (1400..60_000).contains(&millis(later.now, now)),
        "{later:?} after {now:?}"
    );
    assert!(later.steady_for >= Duration::from_millis(1500), "{later:?}");
    assert!(engine.delete("ages/a", &first).await.unwrap());
    assert_eq!(engine.list_aged("ages/").await.unwrap().len(), 1);
}

async fn values(engine: &dyn Engine) {
    let values = [
        ("machines/lines", "a\nb\r\n\tc \u{0}\u{7f}".to_owned()),
        ("machines/unicode_1.2ex", "Zürich 🦀 \u{202e}".to_owned()),
        ("machines/long", "{\"machine\":\"x\"}".repeat(12 * 1024)),
    ];
    for (key, value) in &values {
        done(engine.swap(key, None, value).await.unwrap());
        assert_eq!(
            &engine.read(key).await.unwrap().expect("a register").value,
            value
        );
    }
}

async fn a_split_register(engine: &dyn Engine, split: &dyn SplitRegisters) {
    let (key, prefix) = ("events/parted", "marks/parted/");
    let change = SplitWrite {
        key,
        expected: None,
        value: None,
        prefix,
        part: ("a", "1"),
        since: None,
        needs_unchanged_parts: false,
    };
    let nothing = split.read_parts(key, prefix, None).await.unwrap();
    assert_eq!((&nothing.register, nothing.parts.len()), (&None, 0));
    let first = SplitWrite {
        value: Some("register"),
        ..change
    };
    let one = split
        .change_part(first)
        .await
        .unwrap()
        .expect("nobody else wrote");
    let register = one.register.clone().expect("it was written");
    assert_eq!(
        (register.value.as_str(), &one.parts),
        ("register", &vec![("a".to_owned(), "1".to_owned())])
    );
    assert_eq!(
        engine.read(key).await.unwrap(),
        Some(register.clone()),
        "it is a register"
    );
    assert_eq!(
        engine
            .read("marks/parted/a")
            .await
            .unwrap()
            .expect("it is a register")
            .value,
        "1"
    );
    assert_eq!(split.change_part(first).await.unwrap(), None, "it exists");

    // Another part is written although the first one was written meanwhile, and only new parts are
    // returned.
    let revision = Some(&register.revision);
    let second = SplitWrite {
        expected: revision,
        part: ("b", "2"),
        since: Some(&one.moment),
        ..change
    };
    let two = split
        .change_part(second)
        .await
        .unwrap()
        .expect("the register is as it was");
    assert_eq!(
        (two.register.as_ref(), &two.parts),
        (Some(&register), &vec![("b".to_owned(), "2".to_owned())])
    );
    let all = split.read_parts(key, prefix, None).await.unwrap();
    assert_eq!((all.parts.len(), &all.moment), (2, &two.moment));
    assert_eq!(
        split
            .read_parts(key, prefix, Some(&two.moment))
            .await
            .unwrap()
            .parts,
        []
    );

    // A change that requires all parts to be unchanged.
    let careful = SplitWrite {
        value: Some("decided"),
        needs_unchanged_parts: true,
        ..second
    };
    assert_eq!(
        split.change_part(careful).await.unwrap(),
        None,
        "b was written after that moment"
    );
    let careful = SplitWrite {
        since: Some(&two.moment),
        part: ("c", "3"),
        ..careful
    };
    let three = split
        .change_part(careful)
        .await
        .unwrap()
        .expect("nothing was written after that moment");
    let decided = three.register.expect("it was written");
    assert_eq!((decided.value.as_str(), three.parts.len()), ("decided", 1));
    assert_eq!(
        split.change_part(second).await.unwrap(),
        None,
        "the register was changed"
    );
    let new = SplitWrite {
        expected: Some(&decided.revision),
        since: Some(&three.moment),
        part: ("d", "4"),
        ..careful
    };
    let late = SplitWrite {
        since: Some(&two.moment),
        ..new
    };
    assert_eq!(
        split.change_part(late).await.unwrap(),
        None,
        "a part was created after that moment"
    );

    assert!(
        !split
            .delete_parts(key, &register.revision, prefix)
            .await
            .unwrap(),
        "the revision is old"
    );
    assert!(
        split
            .delete_parts(key, &decided.revision, prefix)
            .await
            .unwrap()
    );
    assert_eq!(engine.list("marks/").await.unwrap(), []);
    assert_eq!(engine.read(key).await.unwrap(), None);
}

/// A hundred concurrent writers, each of which adds its name. None is lost, and none is added
/// twice. An engine that is too busy to answer leaves unknown whether a name was added, so the
/// writer reads again.
async fn many_writers(engine: Rc<dyn Engine>) {
    let key = "groups/contended";
    let writers = LocalSet::new();
    for writer in 0..WRITERS {
        let engine = engine.clone();
        writers.spawn_local(async move {
            let name = format!("{writer};");
            for attempt in 0.. {
                if let Ok(found) = engine.read(key).await {
                    let value = found.as_ref().map_or("", |found| &found.value);
                    if value.split_inclusive(';').any(|other| other == name) {
                        break;
                    }
                    let expected = found.as_ref().map(|found| &found.revision);
                    let _ = engine.swap(key, expected, &format!("{value}{name}")).await;
                }
                tokio::time::sleep(Duration::from_millis((writer * 7 + attempt * 13) % 50)).await;
            }
        });
    }
    writers.await;
    let value = engine.read(key).await.unwrap().expect("a register").value;
    let mut names: Vec<u64> = value
        .split_terminator(';')
        .map(|name| name.parse().expect("a number"))
        .collect();
    names.sort_unstable();
    assert_eq!(names, (0..WRITERS).collect::<Vec<_>>());
}

#[test]
fn memory() {
    block_on(conforms(Rc::new(MemoryEngine::default())));
}

#[test]
fn folder() {
    let folder = tempfile::tempdir().expect("a folder");
    block_on(conforms(Rc::new(FolderEngine::new(folder.path()))));
    // The file of a killed writer does no harm, and no other file remains.
    let names = std::fs::read_dir(folder.path()).expect("the folder");
    let names: Vec<_> = names
        .map(|entry| {
            entry
                .expect("an entry")
                .file_name()
                .into_string()
                .expect("a name")
        })
        .collect();
    assert!(names.iter().all(|name| !name.starts_with('.')), "{names:?}");
}

#[test]
fn folder_keeps_few_versions() {
    let folder = tempfile::tempdir().expect("a folder");
    block_on(async {
        let engine = FolderEngine::new(folder.path());
        let mut revision = None;
        for count in 0..200 {
            revision = Some(done(
                engine
                    .swap("machines/a", revision.as_ref(), &count.to_string())
                    .await
                    .unwrap(),
            ));
        }
        assert_eq!(
            engine
                .read("machines/a")
                .await
                .unwrap()
                .expect("a register")
                .value,
            "199"
        );
    });
    let versions = std::fs::read_dir(folder.path().join("machines/a"))
        .expect("the register")
        .count();
    assert!(versions <= 65, "{versions} versions");
}

#[test]
fn kubernetes() {
    use scheduled_events_gate::engine::kubernetes::KubernetesEngine;

    let cluster = crate::cluster::Cluster::start();
    block_on(async {
        let engine =
            KubernetesEngine::new(cluster.agent_client().await, Some(cluster.agents.clone()));
        conforms(Rc::new(engine)).await;
    });
}

#[test]
fn etcd() {
    let server = EtcdServer::start();
    block_on(async { conforms(Rc::from(server.engine())).await });
}

#[test]
fn etcd_lists_in_pages() {
    let server = EtcdServer::start();
    block_on(async {
        let engine = server.engine();
        let keys: Vec<_> = (0..1234)
            .map(|number| format!("machines/{number:04}"))
            .collect();
        for key in &keys {
            done(engine.swap(key, None, key).await.unwrap());
        }
        done(
            engine
                .swap("machines0", None, "not below it")
                .await
                .unwrap(),
        );
        let found = engine.list("machines/").await.unwrap();
        assert_eq!(
            found.into_iter().map(|(key, _)| key).collect::<Vec<_>>(),
            keys
        );
    });
}

#[test]
fn etcd_with_one_of_two_servers() {
    let server = EtcdServer::start();
    let endpoints = ["http://127.0.0.1:1", &server.url];
    let engine = EtcdServer::engine_at(&endpoints);
    block_on(async {
        done(engine.swap("groups/a", None, "1").await.unwrap());
        assert_eq!(
            engine
                .read("groups/a")
                .await
                .unwrap()
                .expect("a register")
                .value,
            "1"
        );
    });
    let nobody = EtcdServer::engine_at(&["http://127.0.0.1:1"]);
    let error = block_on(nobody.read("groups/a")).expect_err("nobody listens");
    assert!(
        error
            .to_string()
            .starts_with("etcd at http://127.0.0.1:1: "),
        "{error}"
    );
}

/// Several calls are in progress at the same time, as in the daemon's tasks.
#[test]
fn etcd_with_one_of_three_servers_that_hangs_or_refuses() {
    let server = EtcdServer::start();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let hung = format!("http://{}", listener.local_addr().expect("an address"));
    block_on(async {
        // Clients that connect get no answer.
        let engine = EtcdServer::engine_at(&[&hung, &server.url, &server.url]);
        let (first, second, third) = tokio::join!(
            engine.read("groups/a"),
            engine.read("groups/a"),
            engine.read("groups/a")
        );
        for result in [first, second, third] {
            assert_eq!(result, Ok(None), "another server is asked then");
        }
        // What a write has done is unknown.
        let engine = EtcdServer::engine_at(&[&hung, &server.url]);
        let written = engine.swap("groups/a", None, "{}").await;
        let error = written.expect_err("it waited for the server that hangs");
        assert!(
            error.to_string().starts_with(&format!("etcd at {hung}: ")),
            "{error}"
        );
        assert_eq!(
            engine.read("groups/a").await,
            Ok(None),
            "it was sent to no other server, and the next call is"
        );

        let engine =
            EtcdServer::engine_at(&["http://127.0.0.1:1", "http://127.0.0.1:2", &server.url]);
        let results = tokio::join!(
            engine.read("groups/a"),
            engine.read("groups/a"),
            engine.read("groups/a")
        );
        assert_eq!(results, (Ok(None), Ok(None), Ok(None)));
    });
}
