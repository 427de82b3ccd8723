//! What the end-to-end tests share: the real command as a child process, a metadata service under a test's hand, and
//! folders that go away again.
//!
//! Tests wait for conditions, for at most [`PATIENCE`], and never hold a short time against a busy machine.

// Each test program uses its own part of this, as the module that it is to it.
#![allow(dead_code, unreachable_pub)]

mod command;
mod stage;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use scheduled_events::replay::{RecordedRequest, Scenario, Server, ServerConfig};
use serde_json::{Value, json};

#[allow(unused_imports)] // As above.
pub use command::{
    Finished, Run, STATE_NOT_WRITTEN, approved, behind, command, run, run_with_input, signal, watch_behind,
};
#[allow(unused_imports)]
pub use stage::{Reply, Request, Stage};

/// Longer than anything here takes on a busy machine, shorter than a test runner's patience.
pub const PATIENCE: Duration = Duration::from_secs(40);

/// The machine under test.
pub const VM: &str = "WestNO_0";

/// Waits until the condition gives something.
///
/// # Panics
/// When it does not within [`PATIENCE`].
pub fn eventually<T>(what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = condition() {
            return found;
        }
        assert!(Instant::now() < deadline, "{what} did not come about");
        thread::sleep(Duration::from_millis(10));
    }
}

/// A folder of a test's own.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new() -> Self {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("scheduled-events-test-{}-{number}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("a folder");
        Self(path)
    }

    /// The path of a file in the folder, as an argument.
    pub fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().expect("a plain path").to_owned()
    }

    /// Writes a file and gives its path.
    pub fn file(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        let path = self.path(name);
        fs::write(&path, content).expect("a file");
        path
    }

    /// The names of the files in the folder, sorted.
    pub fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).expect("the folder");
        let mut names: Vec<_> =
            entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("a plain name")).collect();
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

/// The lines of a file that need not be there yet.
pub fn lines(path: &str) -> Vec<String> {
    fs::read_to_string(path).unwrap_or_default().lines().map(str::to_owned).collect()
}

/// Does something with each of several things at once, since most of it is waiting.
pub fn together<T: Send>(things: impl IntoIterator<Item = T>, work: impl Fn(T) + Sync) {
    let work = &work;
    thread::scope(|scope| {
        for thing in things {
            scope.spawn(move || work(thing));
        }
    });
}

/// A freeze of five seconds, of this machine, an hour ahead: what the policy `sample` approves at once. Its start is the
/// same however often it is asked for.
pub fn freeze(id: &str) -> Value {
    static START: LazyLock<String> = LazyLock::new(|| in_future(Duration::from_secs(3600)));
    json!({
        "EventId": id, "EventStatus": "Scheduled", "EventType": "Freeze", "ResourceType": "VirtualMachine",
        "Resources": [VM], "NotBefore": *START, "Description": "Host server is undergoing maintenance.",
        "EventSource": "Platform", "DurationInSeconds": 5,
    })
}

/// The same, under way.
pub fn started(id: &str) -> Value {
    with(freeze(id), &json!({ "EventStatus": "Started", "NotBefore": "" }))
}

/// An event with some members replaced.
pub fn with(mut event: Value, members: &Value) -> Value {
    for (name, value) in members.as_object().expect("an object") {
        event[name] = value.clone();
    }
    event
}

/// A moment from now as the service writes it.
pub fn in_future(ahead: Duration) -> String {
    httpdate::fmt_http_date(SystemTime::now() + ahead)
}

/// A document of these events.
pub fn document(incarnation: u64, events: &[Value]) -> String {
    json!({ "DocumentIncarnation": incarnation, "Events": events }).to_string()
}

/// A policy that prepares for everything of this machine.
pub const PREPARE_ALL: &str = "[[rule]]\naction = \"prepare\"\n";

/// A replay server of a scenario written in the test, sixty times faster than life, with faults.
pub fn play(scenario: &str, faults: &[&str]) -> Server {
    let scenario = Scenario::parse(scenario).unwrap_or_else(|error| panic!("{error}\n{scenario}"));
    let config = ServerConfig::new(scenario).speed(60.0).vm_name(VM);
    let config = faults.iter().fold(config, |config, fault| config.fault(fault.parse().expect(fault)));
    Server::start(config).expect("a port")
}

/// How a replay server's requests read here.
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

/// What every request must carry, and that no six of them came within a second.
///
/// The sixth leaves a second after the first. A busy machine may hold the first up on its way, so some of that second
/// is forgiven; a client that does not wait at all needs a few milliseconds.
pub fn assert_well_behaved(requests: &[Request]) {
    for request in requests {
        assert_eq!(request.header("Metadata"), ["true"], "{request:?}");
        assert!(request.target.contains("?api-version="), "{request:?}");
        for unwanted in ["X-Forwarded-For", "Proxy-Connection", "Accept-Encoding"] {
            assert!(request.header(unwanted).is_empty(), "{request:?}");
        }
        // An absolute URL in the request line is how one talks to a proxy.
        assert!(request.target.starts_with('/'), "{request:?}");
    }
    for six in requests.windows(6) {
        let span = six[5].arrived.duration_since(six[0].arrived);
        assert!(span > Duration::from_millis(700), "six requests within {span:?}");
    }
}
