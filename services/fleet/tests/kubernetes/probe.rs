//! The liveness probe of the chart: it distinguishes a daemon that is stuck from a store that is
//! down.

use std::process::{Child, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use scheduled_events_test_support::wait;

use crate::cluster::{Cluster, text};
use crate::fake::{Fault, FaultKind};

struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_daemon_without_its_store_lives_and_one_that_is_stuck_does_not() {
    let cluster = Cluster::imitated();
    let socket = cluster.folder.path().join("socket");
    let config = format!(
        "machine = \"WestNO_0\"\nengine = \"kubernetes\"\nkubernetes = {{ namespace = {:?} }}\nsocket = {:?}\naudit = {:?}\n",
        cluster.agents,
        socket,
        cluster.folder.path().join("audit"),
    );
    std::fs::write(cluster.folder.path().join("fleet.toml"), config).unwrap();
    let probe = || wait::output(&mut cluster.fleet(&["probe"]));
    let output = probe();
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    assert!(
        text(&output).contains("no daemon listens at "),
        "{}",
        text(&output)
    );

    let mut command = cluster.fleet(&["run"]);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let daemon = Killed(command.spawn().unwrap());
    cluster.wait_for("the daemon", || probe().status.success().then_some(()));
    for method in ["GET", "POST", "PUT"] {
        let kind = FaultKind::Refuse(500, None);
        cluster.fake().add_fault(Fault {
            method,
            path: "/leases",
            times: u32::MAX,
            kind,
        });
    }
    cluster.wait_for("the store to refuse", || {
        let seen = cluster.fake().seen();
        seen.iter()
            .any(|seen| seen.agent && seen.code == 500)
            .then_some(())
    });
    let output = probe();
    assert!(output.status.success(), "{}", text(&output));

    kill_process(Pid::from_child(&daemon.0), Signal::STOP).unwrap();
    let output = probe();
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    assert!(
        text(&output).contains("did not answer within 5 s"),
        "{}",
        text(&output)
    );
    kill_process(Pid::from_child(&daemon.0), Signal::CONT).unwrap();
    cluster.wait_for("the daemon to go on", || {
        probe().status.success().then_some(())
    });
}
