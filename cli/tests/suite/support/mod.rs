//! Shared by the end-to-end tests: the program under test as a child process, a fake metadata
//! service, and temporary folders.
//!
//! Tests wait for conditions, for at most [`PATIENCE`], and never depend on a busy machine being
//! fast.

// Each test program includes this module and uses a part of it.
#![allow(dead_code, unreachable_pub)]

mod command;
#[path = "../../../../tests/support/eventually.rs"]
mod eventually;
mod fake_service;
#[path = "../../../../tests/support/helper.rs"]
mod helper;
#[cfg(unix)]
mod terminal;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, SystemTime};

use scheduled_events_replay::{RecordedRequest, Scenario, Server, ServerConfig};
use serde_json::{Value, json};

#[cfg(unix)]
#[allow(unused_imports)]
pub use command::{ENDS_WITH_STRACE, give_away, signal, unprivileged, watch_wrapped, wrap};
#[allow(unused_imports)] // See above.
pub use command::{
    Finished, PROGRAM, Run, STATE_NOT_WRITTEN, WHILE_TEST_RUNS, command, launch, preparation_ended,
    run, run_with_input, wait_for_approval,
};
#[allow(unused_imports)]
pub use eventually::{INTERVAL, PATIENCE, eventually};
#[allow(unused_imports)]
pub use fake_service::{FakeService, Reply, Request};
#[allow(unused_imports)]
pub(crate) use helper::helper;
#[allow(unused_imports)]
pub use scheduled_events_test_support::port::free_port;
#[allow(unused_imports)]
pub use scheduled_events_test_support::quoted;
pub use scheduled_events_test_support::wait;
#[cfg(unix)]
#[allow(unused_imports)]
pub use terminal::Terminal;

/// The machine under test.
pub const VM: &str = "WestNO_0";

/// A temporary folder.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new() -> Self {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!(
            "scheduled-events-test-{}-{number}",
            std::process::id()
        ));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("a folder");
        Self(path)
    }

    /// The path of a file in the folder, as an argument.
    pub fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().expect("a plain path").to_owned()
    }

    /// Writes a file and returns its path.
    pub fn file(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        let path = self.path(name);
        fs::write(&path, content).expect("a file");
        // A program that runs as another user may need it, whatever the umask is.
        #[cfg(unix)]
        fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o644))
            .expect("a mode");
        path
    }

    /// The names of the files in the folder, sorted.
    pub fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).expect("the folder");
        let mut names: Vec<_> = entries
            .map(|entry| {
                entry
                    .expect("an entry")
                    .file_name()
                    .into_string()
                    .expect("a plain name")
            })
            .collect();
        names.sort();
        names
    }

    pub fn as_path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Writes a file that only this user can access, whatever the umask is: the program refuses a state
/// file that others can write.
#[cfg(unix)]
pub fn write_private(path: impl AsRef<Path>, content: impl AsRef<[u8]>) {
    use std::os::unix::fs::PermissionsExt;

    fs::write(&path, content).expect("a file");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("a mode");
}

/// Writes a file, which inherits its access rights from its folder.
#[cfg(windows)]
pub fn write_private(path: impl AsRef<Path>, content: impl AsRef<[u8]>) {
    fs::write(&path, content).expect("a file");
}

/// The lines of a file, none if it does not exist.
pub fn lines(path: &str) -> Vec<String> {
    fs::read_to_string(path)
        .unwrap_or_default()
        .lines()
        .map(str::to_owned)
        .collect()
}

/// Does the work for all items concurrently, since it mostly waits.
pub fn together<T: Send>(things: impl IntoIterator<Item = T>, work: impl Fn(T) + Sync) {
    let work = &work;
    thread::scope(|scope| {
        for thing in things {
            scope.spawn(move || work(thing));
        }
    });
}

/// A freeze of this machine for five seconds, in an hour, which the policy `sample` approves at
/// once. Its start is the same in each call.
pub fn freeze(id: &str) -> Value {
    static START: LazyLock<String> = LazyLock::new(|| in_future(Duration::from_secs(3600)));
    json!({
        "EventId": id, "EventStatus": "Scheduled", "EventType": "Freeze", "ResourceType": "VirtualMachine",
        "Resources": [VM], "NotBefore": *START, "Description": "Host server is undergoing maintenance.",
        "EventSource": "Platform", "DurationInSeconds": 5,
    })
}

/// The same event, started.
pub fn started(id: &str) -> Value {
    with(
        freeze(id),
        &json!({ "EventStatus": "Started", "NotBefore": "" }),
    )
}

/// The event with some members replaced.
pub fn with(mut event: Value, members: &Value) -> Value {
    for (name, value) in members.as_object().expect("an object") {
        event[name] = value.clone();
    }
    event
}

/// The record about the event in this record of a change: with the event's members, and these
/// members of its own.
pub fn about_event_of(change: &Value, own: &Value) -> Value {
    let mut record = with(change.clone(), own);
    record.as_object_mut().expect("an object").remove("change");
    record
}

/// A time from now, as the service writes it.
pub fn in_future(ahead: Duration) -> String {
    httpdate::fmt_http_date(SystemTime::now() + ahead)
}

/// A document of these events.
pub fn document(incarnation: u64, events: &[Value]) -> String {
    json!({ "DocumentIncarnation": incarnation, "Events": events }).to_string()
}

/// A policy that prepares for all events of this machine.
pub const PREPARE_ALL: &str = "[[rule]]\naction = \"prepare\"\n";

/// A replay server of this scenario with faults, sixty times faster than real time.
pub fn play(scenario: &str, faults: &[&str]) -> Server {
    play_at(60.0, scenario, faults)
}

/// The same, this many times faster than real time.
pub fn play_at(speed: f64, scenario: &str, faults: &[&str]) -> Server {
    let scenario = Scenario::parse(scenario).unwrap_or_else(|error| panic!("{error}\n{scenario}"));
    let config = ServerConfig::new(scenario)
        .speed(speed)
        .vm_name(VM)
        .without_verdict();
    let config = faults.iter().fold(config, |config, fault| {
        config.fault(fault.parse().expect(fault))
    });
    Server::start(config).expect("a port")
}

/// The requests of a replay server, in the form of a [`FakeService`]'s.
pub fn of_replay(requests: &[RecordedRequest]) -> Vec<Request> {
    let copy = |request: &RecordedRequest| Request {
        method: request.method.clone(),
        target: request.target.clone(),
        headers: request.headers.clone(),
        body: request.body.clone(),
        arrived: request.arrived,
    };
    requests.iter().map(copy).collect()
}

/// Checks that every request is well-formed, and that no six of them arrive within a second.
///
/// The client sends the sixth a second after the first. A busy machine may delay the first, so a
/// shorter time is accepted; a client that does not wait at all needs a few milliseconds.
pub fn assert_well_behaved(requests: &[Request]) {
    for request in requests {
        assert_eq!(request.header("Metadata"), ["true"], "{request:?}");
        assert!(request.target.contains("?api-version="), "{request:?}");
        for unwanted in ["X-Forwarded-For", "Proxy-Connection", "Accept-Encoding"] {
            assert!(request.header(unwanted).is_empty(), "{request:?}");
        }
        // A request to a proxy has an absolute URL here.
        assert!(request.target.starts_with('/'), "{request:?}");
    }
    for six in requests.windows(6) {
        let span = six[5].arrived.duration_since(six[0].arrived);
        assert!(
            span > Duration::from_millis(700),
            "six requests within {span:?}"
        );
    }
}
