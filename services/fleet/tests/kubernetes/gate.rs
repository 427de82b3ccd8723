//! The chart's own containers, with the gate on Leases: the base's commands, with its arguments and
//! its configuration.

use std::process::{Child, Command, Stdio};

use scheduled_events_test_support::process::Process;
use scheduled_events_test_support::wait;
use serde_json::Value;

use crate::cluster::chart::objects;
use crate::cluster::{Cluster, text};
use crate::end_to_end::{Ended, program, records, replay, step};

/// The first object of a kind in the base, which is the chart as rendered by default.
fn object(kind: &str) -> Value {
    objects()
        .into_iter()
        .find(|object| object["kind"] == kind)
        .expect(kind)
}

impl Cluster {
    /// A text of the base with the paths, the programs and the namespace of this test.
    fn here(&self, text: &str) -> String {
        let folder = self.folder.path().display().to_string();
        let fleet = format!(
            "{} --config {folder}/fleet.toml",
            env!("CARGO_BIN_EXE_scheduled-events-fleet")
        );
        text.replace("/usr/bin/scheduled-events-fleet", &fleet)
            .replace("/etc/scheduled-events", &folder)
            .replace("/var/lib/scheduled-events", &folder)
            .replace(
                "namespace = \"scheduled-events\"",
                &format!("namespace = \"{}\"", self.agents),
            )
    }

    /// Writes the files of the configuration, with a group of which one machine may be out of
    /// service.
    fn write_chart_files(&self, metadata: &str) {
        let files = object("ConfigMap");
        let data = &files["data"];
        let path = |name: &str| self.folder.path().join(name);
        std::fs::write(
            path("policy.toml"),
            data["policy.toml"].as_str().expect("a policy"),
        )
        .unwrap();
        let own = format!(
            "machine = \"WestNO_0\"\nmetadata = \"{metadata}\"\nheartbeat = \"200ms\"\nsocket = \"{}\"\n",
            path("socket").display()
        );
        let group = "[[group]]\nname = \"web\"\nmachines = [\"westno_*\"]\nmax_unavailable = 1\n";
        let fleet = self.here(data["fleet.toml"].as_str().expect("a configuration"));
        std::fs::write(path("fleet.toml"), format!("{own}{fleet}\n{group}")).unwrap();
    }

    /// The container `gate`.
    fn run_gate(&self) -> Process {
        let daemon = Process::start(
            self.fleet(&["run"])
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::inherit()),
        );
        let socket = self.folder.path().join("socket");
        self.wait_for("the socket", || {
            std::os::unix::net::UnixStream::connect(&socket).ok()
        });
        daemon
    }

    /// The container `watch`.
    fn run_watch(&self, address: &str) -> (Ended, impl Iterator<Item = Value> + use<>) {
        let daemon_set = object("DaemonSet");
        let containers = daemon_set["spec"]["template"]["spec"]["containers"]
            .as_array()
            .expect("containers");
        let watch = containers
            .iter()
            .find(|container| container["name"] == "watch");
        let mut command = Command::new(program());
        command.arg("watch");
        for argument in watch.expect("a watcher")["args"]
            .as_array()
            .expect("arguments")
        {
            command.arg(self.here(argument.as_str().expect("text")));
        }
        command.args([
            "--json",
            "--until-idle",
            "--interval",
            "200ms",
            "--vm-name",
            "WestNO_0",
            "--endpoint",
            address,
        ]);
        // The notice is short, and a machine that prepares by its last call is not the subject of
        // this test.
        command.args(["--last-call", "1s"]);
        command
            .env("KUBECONFIG", self.folder.path().join("agent"))
            .env("NODE_NAME", &self.node);
        let mut child: Child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let records = records(child.stdout.take().unwrap());
        (Ended::new(child), records)
    }

    /// The machines that have a place in the group, from `status`.
    fn places(&self) -> String {
        let output = wait::output(self.fleet(&["status", "--json"]).stdin(Stdio::null()));
        assert!(output.status.success(), "{}", text(&output));
        let lines = String::from_utf8(output.stdout).unwrap();
        let records = lines
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap());
        let group = records
            .filter(|record| record["record"] == "group")
            .find(|record| record["group"] == "web");
        group.expect("the group")["out"].to_string()
    }
}

#[test]
fn a_node_is_drained_after_the_gates_yes_and_its_place_is_free_once_it_is_back_although_its_pod_was_replaced()
 {
    let cluster = Cluster::start();
    cluster.add_pod("web-1", |_| {});
    let (_server, address) = replay("user-reboot", "5");
    cluster.write_chart_files(&address);
    let daemon = cluster.run_gate();
    let (watcher, mut records) = cluster.run_watch(&address);
    let mut steps = Vec::new();
    let mut is_open = false;
    for record in &mut records {
        is_open |= record["record"] == "gate"
            && record["phase"] == "prepare"
            && record["outcome"] == "open";
        let Some(step) = step(&record) else { continue };
        assert!(
            is_open || !step.starts_with("prepare"),
            "{step} before the gate's yes"
        );
        let is_approved = step == "approval 200";
        steps.push(step);
        if is_approved {
            break;
        }
    }
    assert_eq!(
        steps,
        [
            "change scheduled",
            "prepare begun",
            "prepare ready",
            "approval 200"
        ]
    );
    assert_eq!(cluster.pod_names(), [""; 0]);
    assert!(
        cluster.places().to_lowercase().contains("westno_0"),
        "{}",
        cluster.places()
    );

    // An update of the DaemonSet: the pod's files are new, but not its volume.
    drop((watcher, daemon, records));
    for file in ["policy.toml", "fleet.toml", "socket"] {
        let _ = std::fs::remove_file(cluster.folder.path().join(file));
    }
    cluster.write_chart_files(&address);
    let output = text(&wait::output(
        &mut cluster.fleet(&["uncordon", "--if-over"]),
    ));
    assert!(
        output.contains("stays out of service, because Reboot"),
        "{output}"
    );
    let _daemon = cluster.run_gate();
    let (_watcher, records) = cluster.run_watch(&address);
    // The watcher may have seen the start before.
    let steps: Vec<_> = records
        .filter_map(|record| step(&record))
        .filter(|step| step != "change started")
        .collect();
    assert_eq!(
        steps,
        ["change completed", "recover done"],
        "neither prepared nor approved again"
    );
    assert!(!cluster.is_cordoned());
    cluster.wait_for("a free place", || {
        (!cluster.places().to_lowercase().contains("westno_0")).then_some(())
    });
}
