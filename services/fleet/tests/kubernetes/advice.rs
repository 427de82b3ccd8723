//! What a drain does for advice, as `node.on_advice` says.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use scheduled_events_test_support::{TestServer, wait};
use serde_json::Value;

use crate::cluster::{Cluster, event, text};

const RECORD: &str = "scheduled-events/out-of-service";

fn advice() -> Value {
    let mut advice = event("A", "SpotRebalanceRecommendation", None);
    advice["event_status"] = "Advisory".into();
    advice
}

fn run(cluster: &Cluster, command: &str, event: &Value) -> String {
    let output = cluster.run(command, event);
    assert!(output.status.success(), "{command}: {}", text(&output));
    text(&output)
}

#[test]
fn by_default_advice_changes_nothing() {
    let cluster = Cluster::start();
    cluster.add_pod("web-1", |_| {});
    let output = run(&cluster, "drain", &advice());
    assert!(
        output.contains("`node.on_advice` ignores advice"),
        "{output}"
    );
    assert!(!cluster.is_cordoned() && cluster.annotation(RECORD).is_none());
    assert_eq!(cluster.pod_names(), ["web-1"]);
    // An eviction whose status says that it is advice is advice, too.
    let mut preempt = event("B", "Preempt", Some(60));
    preempt["event_status"] = "Advisory".into();
    run(&cluster, "drain", &preempt);
    assert!(!cluster.is_cordoned());
}

#[test]
fn advice_cordons_until_it_is_withdrawn() {
    let cluster = Cluster::start();
    cluster
        .configure("on_advice = \"cordon\"\nconditions = [\"lifecycle\", \"PreemptionScheduled\"]");
    cluster.add_pod("web-1", |_| {});
    run(&cluster, "drain", &advice());
    assert!(cluster.is_cordoned());
    assert_eq!(cluster.pod_names(), ["web-1"], "pods stay");
    let reason = "SpotRebalanceRecommendation";
    assert_eq!(cluster.condition(), Some(("True".into(), reason.into())));
    for kind in ["MaintenancePlanned", "Drained", "PreemptionScheduled"] {
        assert_eq!(
            cluster.condition_named(kind),
            None,
            "advice is no maintenance"
        );
    }
    run(&cluster, "uncordon", &advice());
    assert!(!cluster.is_cordoned());
    let reasons = cluster.event_reasons();
    assert_eq!(reasons, ["ScheduledEventAdvised", "ScheduledEventOver"]);
}

#[test]
fn advice_drains_and_a_cordon_of_others_stays() {
    let cluster = Cluster::start();
    cluster.configure("on_advice = \"drain\"");
    cluster.add_pod("web-1", |_| {});
    let cordon = serde_json::json!({"spec": {"unschedulable": true}});
    cluster.patch_node("kubectl-cordon", &cordon);
    run(&cluster, "drain", &advice());
    assert_eq!(cluster.pod_names(), [""; 0]);
    run(&cluster, "uncordon", &advice());
    assert!(cluster.is_cordoned(), "somebody else had cordoned it");
}

#[test]
fn the_eviction_after_the_advice_drains_the_cordoned_node() {
    let cluster = Cluster::start();
    cluster.configure("on_advice = \"cordon\"");
    cluster.add_pod("web-1", |_| {});
    run(&cluster, "drain", &advice());
    run(&cluster, "drain", &event("P", "Preempt", Some(60)));
    assert_eq!(cluster.pod_names(), [""; 0]);
    let record = cluster.annotation(RECORD).unwrap();
    assert!(
        record.contains("\"A\"") && record.contains("\"P\""),
        "{record}"
    );
}

#[test]
fn advice_is_shown_as_an_event_of_the_node_and_as_no_condition() {
    let cluster = Cluster::start();
    for change in ["advised", "advice-withdrawn"] {
        let variables = [("SCHEDULED_EVENTS_CHANGE", change)];
        let output = wait::output_of(cluster.hook_with(&variables, "announce", &advice()));
        assert!(output.status.success(), "{}", text(&output));
    }
    assert_eq!(cluster.condition(), None);
    assert_eq!(
        cluster.event_reasons(),
        ["ScheduledEventAdvised", "ScheduledEventAdviceWithdrawn"]
    );
}

/// Answers requests for events: advice is in the documents of the newer version of the API only, if the service `knows` it.
fn metadata_service(knows: bool) -> TestServer {
    TestServer::start(move |connection| answer(connection, knows))
}

fn answer(mut stream: &TcpStream, knows: bool) {
    let mut request = [0; 4096];
    let length = stream.read(&mut request).unwrap_or_default();
    let is_newer = String::from_utf8_lossy(&request[..length]).contains("2024-07-09");
    let (status, events) = match (is_newer, knows) {
        (true, false) => ("400 Bad Request", ""),
        (true, true) => ("200 OK", r#"{"EventId":"A","Resources":["WestNO_0"]}"#),
        (false, _) => ("200 OK", ""),
    };
    let body = format!(r#"{{"DocumentIncarnation":1,"Events":[{events}]}}"#);
    let length = body.len();
    let head = format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close");
    let _ = write!(stream, "{head}\r\n\r\n{body}");
}

#[test]
fn without_its_state_a_node_stays_cordoned_while_the_advice_lasts() {
    for (knows, outcome) in [
        (true, "stays out of service"),
        (false, "is back in service"),
    ] {
        let cluster = Cluster::start();
        let service = metadata_service(knows);
        cluster.configure_with(&service.url(), "on_advice = \"cordon\"");
        run(&cluster, "drain", &advice());
        let output = text(&wait::output(
            &mut cluster.fleet(&["uncordon", "--if-over"]),
        ));
        assert!(output.contains(outcome), "{output}");
        assert_eq!(cluster.is_cordoned(), knows);
    }
}
