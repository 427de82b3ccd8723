//! A hub in a folder of its own, with its queue.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use scheduled_events_common::program::block_on;
use scheduled_events_hub::azure::queue::emulator_sas;
use scheduled_events_test_support::process::{Process, azurite};
use scheduled_events_test_support::wait;
use serde_json::{Value, json};
use tempfile::TempDir;

pub(crate) const SUBSCRIPTION: &str = "00000000-0000-0000-0000-000000000000";

/// A queue of a test's own. Tests that run at the same time share one Azurite.
pub(crate) struct TestQueue {
    pub(crate) url: String,
    _azurite: Arc<Azurite>,
}

struct Azurite {
    port: u16,
    _process: Process,
}

impl TestQueue {
    pub(crate) fn start() -> Self {
        static RUNNING: Mutex<Weak<Azurite>> = Mutex::new(Weak::new());
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let url =
            |port: u16, name: &str| format!("http://127.0.0.1:{port}/devstoreaccount1/{name}");
        let mut running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
        let azurite = running.upgrade().unwrap_or_else(|| {
            let (process, port) = azurite(
                "queue",
                |_| {},
                |port| request("PUT", &url(port, "first"), None).is_some(),
            );
            Arc::new(Azurite {
                port,
                _process: process,
            })
        });
        *running = Arc::downgrade(&azurite);
        drop(running);
        let url = url(
            azurite.port,
            &format!("events{}", NUMBER.fetch_add(1, Ordering::Relaxed)),
        );
        let queue = Self {
            url,
            _azurite: azurite,
        };
        queue.create();
        queue
    }

    pub(crate) fn create(&self) {
        request("PUT", &self.url, None).expect("an answer");
    }

    pub(crate) fn delete(&self) {
        request("DELETE", &self.url, None).expect("an answer");
    }

    /// Sends a message as Event Grid does: its JSON in Base64.
    pub(crate) fn send(&self, message: &Value) {
        self.send_text(&BASE64_STANDARD.encode(message.to_string()));
    }

    pub(crate) fn send_text(&self, text: &str) {
        let body = format!("<QueueMessage><MessageText>{text}</MessageText></QueueMessage>");
        request("POST", &format!("{}/messages", self.url), Some(body)).expect("it is accepted");
    }

    /// The texts of the messages that no reader holds.
    pub(crate) fn texts(&self) -> Vec<String> {
        let (_, body) = answer(
            "GET",
            &format!("{}/messages?peekonly=true&numofmessages=32", self.url),
            None,
        )
        .expect("an answer");
        all(&body, "MessageText").map(str::to_owned).collect()
    }

    /// Receives a message, and makes it visible again at once.
    pub(crate) fn receive(&self) {
        let (_, body) = answer(
            "GET",
            &format!("{}/messages?visibilitytimeout=60", self.url),
            None,
        )
        .expect("an answer");
        let one = |name: &str| all(&body, name).next().expect("a message").to_owned();
        let receipt = one("PopReceipt")
            .replace('+', "%2B")
            .replace('/', "%2F")
            .replace('=', "%3D");
        let url = format!(
            "{}/messages/{}?popreceipt={receipt}&visibilitytimeout=0",
            self.url,
            one("MessageId")
        );
        let message = format!(
            "<QueueMessage><MessageText>{}</MessageText></QueueMessage>",
            one("MessageText")
        );
        request("PUT", &url, Some(message)).expect("an answer");
    }

    /// The number of messages, including those that a reader holds.
    pub(crate) fn length(&self) -> usize {
        let headers =
            request("GET", &format!("{}?comp=metadata", self.url), None).expect("an answer");
        headers["x-ms-approximate-messages-count"]
            .to_str()
            .expect("text")
            .parse()
            .expect("a number")
    }
}

/// The contents of the elements with this name.
fn all<'a>(xml: &'a str, name: &str) -> impl Iterator<Item = &'a str> + use<'a> {
    let (begin, end) = (format!("<{name}>"), format!("</{name}>"));
    let contents: Vec<_> = xml
        .split(&begin)
        .skip(1)
        .filter_map(|rest| rest.split(&end).next())
        .collect();
    contents.into_iter()
}

/// A request to the queue's account. Returns the headers of a success.
fn request(method: &str, url: &str, body: Option<String>) -> Option<reqwest::header::HeaderMap> {
    answer(method, url, body).map(|(headers, _)| headers)
}

/// The same, with the body of its answer.
fn answer(
    method: &str,
    url: &str,
    body: Option<String>,
) -> Option<(reqwest::header::HeaderMap, String)> {
    let separator = if url.contains('?') { '&' } else { '?' };
    let url = format!("{url}{separator}{}", emulator_sas());
    let send = async {
        let client =
            scheduled_events_common::http::client(Duration::from_secs(10)).expect("a client");
        let request = client
            .request(method.parse().expect("a method"), url)
            .header("x-ms-version", "2021-08-06");
        let response = request.body(body.unwrap_or_default()).send().await.ok()?;
        let (status, headers) = (response.status(), response.headers().clone());
        let body = response.text().await.unwrap_or_default();
        assert!(status.is_success(), "Azurite refuses: {status} {body}");
        Some((headers, body))
    };
    block_on(send).unwrap_or_else(|failure| panic!("{}", failure.message))
}

/// A hub with its files. Its hooks write their input below `hooks/`.
pub(crate) struct Hub {
    /// The first field, since it must end before its folder is removed.
    pub(crate) process: Option<Process>,
    pub(crate) folder: TempDir,
}

impl Hub {
    /// A hub that is not started yet. `more` is added to its configuration.
    pub(crate) fn new(management: &str, queue: Option<&TestQueue>, more: &str) -> Self {
        let folder = TempDir::new().expect("a folder");
        let path = |name: &str| folder.path().join(name).display().to_string();
        let source = queue.map_or("source = \"graph\"".to_owned(), |_| {
            "source = \"queue\"".to_owned()
        });
        let queue = queue.map_or(String::new(), |queue| {
            format!("[queue]\nurl = \"{}\"\nemulator = true\n", queue.url)
        });
        fs::create_dir(folder.path().join("hooks")).expect("a folder");
        fs::write(
            folder.path().join("policy.toml"),
            "[[rule]]\naction = \"prepare\"\nscope = \"mine\"\n",
        )
        .expect("written");
        let hook = folder.path().join("hook");
        fs::write(
            &hook,
            "#!/bin/sh\nf=$(dirname \"$0\")/hooks/$1-$SCHEDULED_EVENTS_MACHINE-$SCHEDULED_EVENTS_EVENT_ID\n\
             { env | grep ^SCHEDULED_EVENTS_ | sort; cat; echo; } >>\"$f.new\"; mv \"$f.new\" \"$f\"\n",
        )
        .expect("written");
        fs::write(
            folder.path().join("hub.toml"),
            format!(
                "{source}\nsubscriptions = [\"{SUBSCRIPTION}\"]\npolicy = \"{}\"\napprove = \"arm\"\naudit = \"{}\"\nstate = \"{}\"\n\
                 metrics = \"{}\"\nmanagement = \"{management}\"\n{more}\n[hooks]\nprepare = \"sh {hook} prepare\"\n\
                 recover = \"sh {hook} recover\"\n[identity]\nkind = \"emulator\"\n{queue}",
                path("policy.toml"),
                path("audit"),
                path("state"),
                path("hub.prom"),
                hook = path("hook"),
            ),
        )
        .expect("written");
        Self {
            folder,
            process: None,
        }
    }

    /// Approves without preparations, so that events that are announced together are ready
    /// together.
    pub(crate) fn approve_unprepared(&self) {
        fs::write(
            self.path("policy.toml"),
            "[[rule]]\naction = \"approve\"\nscope = \"mine\"\n",
        )
        .expect("written");
    }

    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_scheduled-events-hub"));
        command
            .arg("--config")
            .arg(self.path("hub.toml"))
            .current_dir(self.folder.path());
        command
    }

    /// Prepares with this shell script instead of the hook.
    pub(crate) fn prepare_with(&self, script: &str) {
        fs::write(self.path("slow"), script).expect("written");
        let hook = |name: &str| self.path(name).display().to_string();
        let config = self
            .read("hub.toml")
            .replace(&format!("{} prepare", hook("hook")), &hook("slow"));
        fs::write(self.path("hub.toml"), config).expect("written");
    }

    pub(crate) fn start(&mut self) {
        self.start_with(&[]);
    }

    /// Starts it with these variables in its environment, too.
    pub(crate) fn start_with(&mut self, variables: &[(&str, &str)]) {
        let log = File::options()
            .create(true)
            .append(true)
            .open(self.path("log"))
            .expect("a log");
        self.process = Some(Process::start(
            self.command()
                .arg("run")
                .envs(variables.iter().copied())
                .stdout(Stdio::null())
                .stderr(log),
        ));
    }

    /// Kills it with SIGKILL.
    pub(crate) fn kill(&mut self) {
        self.process = None;
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// The records of the audit file and of its rotated files.
    pub(crate) fn records(&self) -> Vec<Value> {
        let lines: String = (1..9)
            .rev()
            .map(|number| self.read(&format!("audit.{number}")))
            .collect();
        let lines = lines + &self.read("audit");
        lines
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect()
    }

    /// Waits for a record, and shows the log if it does not appear.
    #[track_caller]
    pub(crate) fn await_record(&self, what: &str, is_it: impl Fn(&Value) -> bool) -> Value {
        struct Show<'a>(&'a Hub);
        impl Drop for Show<'_> {
            fn drop(&mut self) {
                if std::thread::panicking() {
                    eprintln!(
                        "the hub's log:\n{}\nits audit file:\n{}",
                        self.0.read("log"),
                        self.0.read("audit")
                    );
                }
            }
        }
        let _show = Show(self);
        wait::until(what, || self.records().into_iter().find(&is_it))
    }

    /// Waits until the state shows that an event waits for this. The record of an action precedes
    /// it.
    pub(crate) fn await_state(&self, waits_for: &str) {
        wait::until(waits_for, || {
            let status = wait::output(self.command().arg("status"));
            let text = String::from_utf8_lossy(&status.stdout).into_owned();
            text.lines()
                .any(|line| line.ends_with(&format!(" {waits_for}")))
                .then_some(())
        });
    }

    /// The input of a hook, once it has run.
    pub(crate) fn await_hook(&self, name: &str) -> String {
        wait::until(name, || {
            fs::read_to_string(self.path("hooks").join(name)).ok()
        })
    }
}

/// An id of an event.
pub(crate) fn event_id(number: u32) -> String {
    format!("c7061bac-afdc-4513-b24b-{number:012x}")
}

pub(crate) fn resource(kind: &str, name: &str) -> String {
    format!(
        "/subscriptions/{SUBSCRIPTION}/resourceGroups/web/providers/Microsoft.Compute/{kind}/{name}"
    )
}

/// A row of Resource Graph.
pub(crate) fn row(resource: &str, id: &str, status: &str, machines: &[&str]) -> Value {
    json!({
        "id": format!("{resource}/providers/microsoft.maintenance/scheduledevents/{id}"), "name": id,
        "type": "microsoft.maintenance/scheduledevents", "location": "westeurope", "zones": ["2"],
        "properties": {
            "EventId": id, "EventType": "Reboot", "EventStatus": status, "EventSource": "Platform", "ResourceType": "VirtualMachine",
            "Resources": machines, "NotBefore": if status == "Scheduled" { "Mon, 19 Sep 2039 18:29:47 GMT" } else { "" },
            "Description": "Virtual machine is being restarted", "DurationInSeconds": -1,
        },
    })
}

/// A message of Event Grid.
pub(crate) fn message(resource: &str, id: &str, status: &str, machines: &[&str]) -> Value {
    let mut info = row(resource, id, status, machines);
    info.as_object_mut().expect("an object").remove("zones");
    json!({
        "id": format!("{id}-{status}"), "topic": format!("/subscriptions/{SUBSCRIPTION}"), "subject": info["id"],
        "eventType": "Microsoft.ResourceNotifications.MaintenanceResources.ScheduledEventEmitted", "dataVersion": "1", "metadataVersion": "1",
        "eventTime": "2026-11-04T18:01:13.2675752Z", "data": {"resourceInfo": info, "apiVersion": "2020-07-01"},
    })
}
