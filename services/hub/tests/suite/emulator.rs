//! The hub against `scheduled-events replay --control-plane`, which shows the same events inside
//! and outside, and a real Azurite.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use scheduled_events_test_support::process::Process;
use scheduled_events_test_support::wait;

use crate::fixture::{Hub, TestQueue, event_id, message, resource};

/// A scenario with its control plane.
pub(crate) struct Emulator {
    /// The metadata service of its machine.
    pub(crate) endpoint: String,
    /// Resource Manager and Resource Graph.
    pub(crate) management: String,
    _process: Process,
}

/// The command `scheduled-events`, which `make test-fleet` builds first.
pub(crate) fn command() -> PathBuf {
    let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/debug/scheduled-events");
    let path = std::env::var_os("SCHEDULED_EVENTS").map_or(built, PathBuf::from);
    assert!(
        path.exists(),
        "{} does not exist; build it: cargo build --package scheduled-events-cli",
        path.display()
    );
    path
}

impl Emulator {
    pub(crate) fn start(scenario: &str, queue: Option<&TestQueue>, more: &[&str]) -> Self {
        let mut replay = Command::new(command());
        replay
            .args(["replay", scenario, "--control-plane"])
            .args(more)
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        if let Some(queue) = queue {
            replay.args(["--control-plane-queue", &queue.url]);
        }
        let mut process = Process::start(&mut replay);
        let mut lines = BufReader::new(process.0.stdout.take().expect("a pipe")).lines();
        let mut after = |start: &str| {
            let line =
                lines.find_map(|line| line.expect("text").strip_prefix(start).map(str::to_owned));
            line.unwrap_or_else(|| panic!("the emulator prints no line {start:?}"))
        };
        let endpoint = after("listening on ");
        Self {
            endpoint,
            management: after("control plane at "),
            _process: process,
        }
    }
}

fn changes(hub: &Hub) -> Vec<String> {
    let records = hub.records();
    let changes = records.iter().filter(|record| record["record"] == "change");
    changes
        .map(|record| record["change"].as_str().expect("a word").to_owned())
        .collect()
}

#[test]
fn an_event_is_drained_for_approved_and_recovered_from_although_messages_repeat() {
    let queue = TestQueue::start();
    let faults = ["--fault", "message.repeated", "--speed", "5"];
    let emulator = Emulator::start("user-reboot", Some(&queue), &faults);
    let mut hub = Hub::new(&emulator.management, Some(&queue), "reconcile = \"1s\"");
    hub.start();
    hub.await_record("the approval", |record| {
        record["record"] == "approval" && record["status"] == 200
    });
    hub.await_record("the recovery", |record| {
        record["record"] == "recover" && record["outcome"] == "done"
    });
    assert_eq!(changes(&hub), ["scheduled", "started", "completed"]);
    let prepared = hub.await_record("the drain", |record| {
        record["record"] == "prepare" && record["outcome"] == "ready"
    });
    assert!(
        prepared["resource_id"]
            .as_str()
            .expect("an id")
            .contains("/resourceGroups/replay/"),
        "{prepared}"
    );
}

#[test]
fn what_the_guide_lets_one_try_is_drained_for_approved_and_recovered_from() {
    let page = include_str!("../../../../docs/run/outside.md");
    let section = page
        .split("\n## ")
        .find(|section| section.starts_with("Try it\n"))
        .expect("a section");
    let blocks = |kind: &'static str| {
        section
            .split(kind)
            .skip(1)
            .map(|rest| rest.split("```").next().expect("its end"))
    };
    let files: Vec<_> = blocks("```toml\n").collect();
    let commands = blocks("```console\n").last().expect("commands");
    let emulator = Emulator::start("user-reboot", None, &["--speed", "5"]);
    let mut hub = Hub::new(&emulator.management, None, "");
    std::fs::write(
        hub.path("hub.toml"),
        files[0].replace("http://127.0.0.1:8081", &emulator.management),
    )
    .expect("written");
    std::fs::write(hub.path("try-policy.toml"), files[1]).expect("written");
    assert_eq!(
        commands,
        "$ scheduled-events replay user-reboot --control-plane --listen 127.0.0.1:8080\n\
         $ scheduled-events-hub --config try.toml run\n"
    );
    hub.start();
    hub.await_record("the approval", |record| {
        record["record"] == "approval" && record["status"] == 200
    });
    hub.await_record("the recovery", |record| {
        record["record"] == "recover" && record["outcome"] == "done"
    });
    assert!(
        hub.read("log").contains("drain") && hub.read("log").contains("undrain"),
        "{}",
        hub.read("log")
    );
}

#[test]
fn lost_messages_and_a_quota_cost_time_and_not_the_event() {
    let queue = TestQueue::start();
    let faults = [
        "--fault",
        "message.lost",
        "--fault",
        "graph.status:429@1",
        "--fault",
        "arm.status:503@1",
        "--speed",
        "5",
    ];
    let emulator = Emulator::start("user-reboot", Some(&queue), &faults);
    let mut hub = Hub::new(&emulator.management, Some(&queue), "reconcile = \"1s\"");
    hub.start();
    hub.await_record("a refusal", |record| {
        record["record"] == "approval" && record["status"] == 503
    });
    hub.await_record("the approval", |record| {
        record["record"] == "approval" && record["status"] == 200
    });
    hub.await_record("the recovery", |record| {
        record["record"] == "recover" && record["outcome"] == "done"
    });
    assert_eq!(changes(&hub), ["scheduled", "started", "completed"]);
}

/// Starts a watcher inside the machine. Returns it with a function that waits for a text in its
/// records.
fn watch(hub: &Hub, emulator: &Emulator, policy: &str) -> (Process, impl Fn(&str) + use<>) {
    let log = hub.path("watcher");
    let mut watch = Command::new(command());
    watch.args([
        "watch",
        "--endpoint",
        &emulator.endpoint,
        "--policy",
        policy,
        "--json",
    ]);
    let watcher = Process::start(
        watch
            .stdout(std::fs::File::create(&log).expect("a log"))
            .stderr(Stdio::null()),
    );
    let await_text = move |text: &str| {
        wait::until(text, || {
            std::fs::read_to_string(&log)
                .is_ok_and(|log| log.contains(text))
                .then_some(())
        });
    };
    (watcher, await_text)
}

#[test]
fn an_approval_inside_counts_outside_and_the_other_way_round() {
    let queue = TestQueue::start();
    // The watcher approves at once; the hub only observes until then.
    let emulator = Emulator::start("user-reboot", Some(&queue), &["--speed", "5"]);
    let mut hub = Hub::new(&emulator.management, Some(&queue), "");
    let config = hub
        .read("hub.toml")
        .replace("approve = \"arm\"", "approve = \"never\"");
    std::fs::write(hub.path("hub.toml"), config).expect("written");
    hub.start();
    hub.await_record("the announcement", |record| record["record"] == "change");
    let (_watcher, await_text) = watch(&hub, &emulator, "sample");
    await_text("\"record\":\"approval\"");
    await_text("\"change\":\"completed\"");
    hub.await_record("the end", |record| {
        record["record"] == "change" && record["change"] == "completed"
    });
    assert_eq!(changes(&hub), ["scheduled", "started", "completed"]);
    assert!(
        !hub.records()
            .iter()
            .any(|record| record["record"] == "approval" || record["record"] == "prepare")
    );

    // The hub approves; the watcher only observes.
    let queue = TestQueue::start();
    let emulator = Emulator::start("user-reboot", Some(&queue), &["--speed", "5"]);
    let mut hub = Hub::new(&emulator.management, Some(&queue), "");
    let (_watcher, await_text) = watch(&hub, &emulator, "observe");
    hub.start();
    hub.await_record("the approval", |record| {
        record["record"] == "approval" && record["status"] == 200
    });
    await_text("\"change\":\"started\"");
    hub.await_record("the recovery", |record| {
        record["record"] == "recover" && record["outcome"] == "done"
    });
    await_text("\"change\":\"completed\"");
}

/// Azure's answer to a second approval is not documented.
#[test]
fn an_approval_that_comes_second_changes_nothing_whatever_its_answer() {
    for (faults, status) in [(&[][..], 200), (&["--fault", "arm.status:409@1"], 409)] {
        let queue = TestQueue::start();
        let folder = tempfile::TempDir::new().expect("a folder");
        let scenario = folder.path().join("slow.toml");
        std::fs::write(
            &scenario,
            "about = \"A restart that waits for a second approval.\"\n[[event]]\nevent_type = \"Reboot\"\n\
             event_source = \"User\"\ndescription = \"A restart.\"\nduration_in_seconds = -1\nresources = [\"{vm}\"]\n\
             appears = \"1s\"\nnotice = \"15min\"\nstarts_after_approval = \"30s\"\nstarted_for = \"2s\"\n",
        )
        .expect("written");
        let emulator = Emulator::start(&scenario.display().to_string(), Some(&queue), faults);
        let mut hub = Hub::new(&emulator.management, Some(&queue), "reconcile = \"1s\"");
        hub.prepare_with(
            "echo x >>$(dirname $0)/runs\nuntil test -e $(dirname $0)/go; do sleep 0.05; done\n",
        );
        hub.start();
        hub.await_record("the preparation", |record| record["outcome"] == "begun");
        let (_watcher, await_text) = watch(&hub, &emulator, "sample");
        await_text("\"record\":\"approval\"");
        std::fs::write(hub.path("go"), "").expect("written");
        hub.await_record("its answer", |record| {
            record["record"] == "approval" && record["status"] == status
        });
        hub.await_record("the recovery", |record| {
            record["record"] == "recover" && record["outcome"] == "done"
        });
        assert_eq!(changes(&hub), ["scheduled", "started", "completed"]);
        assert_eq!(hub.read("runs").lines().count(), 1);
        await_text("\"change\":\"completed\"");
    }
}

/// Azure ignores the case of tags' names, and a query for them does, too.
#[test]
fn a_tag_in_another_case_names_an_agent() {
    let emulator = Emulator::start("user-reboot", None, &["--speed", "60"]);
    let mut hub = Hub::new(
        &emulator.management,
        None,
        "reconcile = \"1s\"\nagents = { tag = \"Environment\" }",
    );
    hub.start();
    hub.await_record("the end", |record| {
        record["record"] == "change" && record["change"] == "completed"
    });
    assert_eq!(
        std::fs::read_dir(hub.path("hooks"))
            .expect("a folder")
            .count(),
        0,
        "{}",
        hub.read("audit")
    );
}

#[test]
fn an_eviction_that_was_prepared_for_is_recovered_from() {
    let queue = TestQueue::start();
    // Not faster: a busy machine may need the thirty seconds of notice.
    let emulator = Emulator::start("preempt", Some(&queue), &[]);
    let mut hub = Hub::new(&emulator.management, Some(&queue), "reconcile = \"1h\"");
    hub.start();
    hub.await_record("the recovery", |record| {
        record["record"] == "recover" && record["outcome"] == "done"
    });
    assert_eq!(changes(&hub), ["scheduled", "started", "completed"]);
}

#[test]
fn an_eviction_whose_message_is_late_is_reported_as_what_it_is() {
    let queue = TestQueue::start();
    // Thirty seconds of notice, none of which is left: the first message comes after the one that
    // reports the start.
    let emulator = Emulator::start(
        "preempt",
        Some(&queue),
        &["--fault", "message.late:40@1", "--speed", "5"],
    );
    // Resource Graph would report it.
    let mut hub = Hub::new(&emulator.management, Some(&queue), "reconcile = \"1h\"");
    wait::until("the late messages", || (queue.length() > 1).then_some(()));
    hub.start();
    hub.await_record("the end", |record| {
        record["record"] == "change" && record["change"] == "completed"
    });
    let approvals = hub
        .records()
        .into_iter()
        .filter(|record| record["record"] == "approval")
        .count();
    assert_eq!(
        (changes(&hub), approvals),
        (
            vec!["started-without-notice".to_owned(), "completed".to_owned()],
            0
        )
    );
    // Without a preparation there is no recovery.
    wait::until("no machine", || {
        hub.read("hub.prom")
            .contains("hub_machines 0\n")
            .then_some(())
    });
    assert!(
        !hub.records()
            .iter()
            .any(|record| record["record"] == "recover")
    );
}

#[test]
fn a_subscription_without_rights_is_named() {
    let emulator = Emulator::start("user-reboot", None, &[]);
    let mut hub = Hub::new(&emulator.management, None, "");
    let config = hub
        .read("hub.toml")
        .replace("00000000-0000", "11111111-0000");
    std::fs::write(hub.path("hub.toml"), config).expect("written");
    hub.start();
    wait::until("the refusal", || {
        hub.read("log")
            .contains("cannot ask Resource Graph: status 403")
            .then_some(())
    });
}

/// A query for two subscriptions silently leaves out the one without rights.
#[test]
fn one_of_two_subscriptions_without_rights_is_named() {
    let (queue, other) = (TestQueue::start(), "11111111-0000-0000-0000-000000000000");
    let emulator = Emulator::start("user-reboot", None, &["--speed", "10"]);
    let mut hub = Hub::new(
        &emulator.management,
        Some(&queue),
        "reconcile = \"1s\"\nagents = { tag = \"Agent\" }",
    );
    let config = hub.read("hub.toml").replace(
        "subscriptions = [",
        &format!("subscriptions = [\"{other}\", "),
    );
    std::fs::write(hub.path("hub.toml"), config).expect("written");
    hub.start();
    let refusal = format!("warning: subscription {other} cannot be read");
    wait::until("the refusal", || {
        hub.read("log").contains(&refusal).then_some(())
    });
    assert!(
        hub.read("log").contains("status 403, AccessDenied"),
        "{}",
        hub.read("log")
    );
    // It is unknown whether this machine has the tag.
    let machine = resource("virtualMachines", "db").replace("00000000-", "11111111-");
    queue.send(&message(&machine, &event_id(1), "Scheduled", &["db"]));
    hub.await_record("its event", |record| {
        record["record"] == "change" && record["resource_id"] == machine.as_str()
    });
    // The hub acts for the machine of the other subscription.
    hub.await_record("the recovery", |record| {
        record["record"] == "recover" && record["outcome"] == "done"
    });
    assert!(
        !hub.path("hooks")
            .join(format!("prepare-db-{}", event_id(1)))
            .exists()
    );
    assert_eq!(hub.read("log").matches(&refusal).count(), 1);
}
