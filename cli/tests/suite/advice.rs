//! Advice, `SpotRebalanceRecommendation`: what the commands do with it, and the version that shows it.

use scheduled_events_replay::verdict::Outcome;
use scheduled_events_replay::{ADVICE_API_VERSION, Scenario, Server, ServerConfig};
use serde_json::{Value, json};

use crate::support::{
    FakeService, Finished, Folder, Reply, Run, VM, command, eventually, freeze, helper, lines, run,
    together, with,
};

/// The policy of the README.
const README: &str = "[[rule]]\nevent = \"Freeze\"\nmax_duration = \"8s\"\naction = \"approve\"\n\
                      [[rule]]\naction = \"prepare\"\n";

/// Advice takes the machine out of service, and a Preempt as well.
const PREPARE: &str =
    "[[rule]]\nevent = [\"SpotRebalanceRecommendation\", \"Preempt\"]\naction = \"prepare\"\n";

const ADVICE: &str = "SpotRebalanceRecommendation";

fn config(scenario: &str, speed: f64) -> ServerConfig {
    let scenario = Scenario::builtin(scenario).expect("a name");
    ServerConfig::new(scenario)
        .speed(speed)
        .vm_name(VM)
        .without_verdict()
}

/// A service that shows advice.
fn advised(scenario: &str, speed: f64) -> Server {
    Server::start(config(scenario, speed).newest_api_version(ADVICE_API_VERSION)).expect("a port")
}

/// The versions of the requests for documents, without repetitions.
fn versions(server: &Server) -> Vec<String> {
    let mut versions: Vec<String> = Vec::new();
    for request in server.requests() {
        let version = request.target.split_once("scheduledevents?api-version=");
        if let Some((_, version)) = version.filter(|_| request.method == "GET") {
            versions.push(version.to_owned());
        }
    }
    versions.dedup();
    versions
}

fn assert_clean(server: &Server) {
    let verdict = server.verdict(0);
    let failed: Vec<_> = verdict.rules_with(Outcome::Failed).collect();
    assert!(failed.is_empty(), "{:?}", verdict.findings());
}

/// Watches to the end of the scenario, with commands that log what they are called for.
fn watch(server: &Server, policy: &str, arguments: &[&str]) -> (Finished, Vec<String>) {
    let folder = Folder::new();
    let (policy, log) = (folder.file("policy.toml", policy), folder.path("log"));
    let prepare = helper(&[format!("append {log} prepare-$EVENT_TYPE")]);
    let recover = helper(&[format!("append {log} recover-$EVENT_TYPE")]);
    let usual = [
        "--policy",
        &policy,
        "--prepare",
        &prepare,
        "--recover",
        &recover,
        "--until-idle",
    ];
    let finished = Run::watch(&server.url(), &[&usual, arguments].concat()).finish();
    (finished, lines(&log))
}

/// The changes of the events of a type.
fn changes(finished: &Finished, event_type: &str) -> Vec<Value> {
    let records = finished.of_kind("change").into_iter();
    let of_type = records.filter(|record| record["event_type"] == event_type);
    of_type.map(|record| record["change"].clone()).collect()
}

/// Fault 27 of `tests/field-faults.md`.
#[test]
fn fault_27_advice_treated_as_maintenance() {
    // Without a rule that names it, no request asks for advice. Who asks in any case sees it, and does nothing.
    together([&[][..], &["--api-version", "2024-07-09"]], |arguments| {
        let server = advised("rebalance", 8.0);
        let (finished, hooks) = watch(&server, README, arguments);
        assert_eq!(hooks, ["prepare-Preempt", "recover-Preempt"]);
        assert_eq!(finished.of_kind("prepare").len(), 2, "begun and ready");
        for record in finished.of_kind("prepare") {
            assert_eq!(record["event_type"], "Preempt", "{record}");
        }
        let preempt = &finished.of_kind("prepare")[0]["event_id"];
        assert_eq!(finished.approved(), [preempt.as_str().expect("an id")]);
        let is_seen = !arguments.is_empty();
        let expected: &[&str] = if is_seen {
            &["advised", "advice-withdrawn"]
        } else {
            &[]
        };
        assert_eq!(changes(&finished, ADVICE), expected);
        let decisions = finished.of_kind("decision").into_iter();
        let of_advice: Vec<_> = decisions
            .filter(|record| record["event_type"] == ADVICE)
            .map(|record| (record["action"].clone(), record["reason"].clone()))
            .collect();
        let held = [(json!("hold"), json!("advice: no rule names it"))];
        assert_eq!(of_advice, if is_seen { &held[..] } else { &[] });
        assert_clean(&server);
    });
}

/// Fault 35 of `tests/field-faults.md`.
#[test]
fn fault_35_a_version_that_the_service_does_not_know_polled_for_ever() {
    for (fault, is_refused) in [
        ("unknown-version:400@99-", true),
        ("unknown-version:400", true),
        ("unknown-version:404", true),
        // Neither a document nor a refusal: the newer version is tried again.
        ("unknown-version:500", false),
        ("unknown-version:200", false),
    ] {
        let server = Server::start(config("preempt", 8.0).fault(fault.parse().expect(fault)))
            .expect("a port");
        let (finished, hooks) = watch(&server, PREPARE, &[]);
        // It is not blind.
        assert_eq!(hooks, ["prepare-Preempt", "recover-Preempt"], "{fault}");
        assert_eq!(finished.of_kind("approval").len(), 1, "{fault}");
        let versions = versions(&server);
        assert_eq!(versions[..2], ["2024-07-09", "2020-07-01"], "{fault}");
        assert_eq!(versions.len() == 2, is_refused, "{fault}: {versions:?}");
        let said = finished.of_kind("no-advice");
        assert_eq!(said.len(), usize::from(is_refused), "{fault}: {said:?}");
        assert_eq!(
            finished.of_kind("poll-failed").is_empty(),
            is_refused,
            "{fault}"
        );
        if is_refused {
            assert_eq!(said[0]["api_version"], "2024-07-09");
            assert!(!finished.stderr.contains("failed"), "{}", finished.stderr);
        }
        assert_clean(&server);
    }
}

#[test]
fn a_refused_version_is_reported_in_one_line() {
    let server = Server::start(config("preempt", 8.0)).expect("a port");
    let folder = Folder::new();
    let policy = folder.file("policy.toml", PREPARE);
    let finished = run(&[
        "watch",
        "--policy",
        &policy,
        "--prepare",
        "true",
        "--endpoint",
        &server.url(),
        "--max-polls",
        "3",
    ])
    .with_code(0);
    let line = "no advice      -          the service does not know API version 2024-07-09, which shows advice; \
                it is tried again in a day";
    assert_eq!(
        finished.stdout.matches(line).count(),
        1,
        "{}",
        finished.stdout
    );
    assert!(
        !finished.stderr.contains("status 400"),
        "{}",
        finished.stderr
    );
}

#[test]
fn a_prepare_rule_takes_the_machine_out_of_service_until_the_withdrawal() {
    let server = advised("rebalance-withdrawn", 15.0);
    let (finished, hooks) = watch(&server, PREPARE, &[]);
    assert_eq!(hooks.len(), 2, "{hooks:?}");
    assert_eq!(
        hooks,
        [format!("prepare-{ADVICE}"), format!("recover-{ADVICE}")]
    );
    assert_eq!(changes(&finished, ADVICE), ["advised", "advice-withdrawn"]);
    assert!(finished.of_kind("approval").is_empty());
    assert_eq!(versions(&server), ["2024-07-09"]);
    assert_clean(&server);
}

#[test]
fn the_machine_stays_out_of_service_from_the_advice_to_the_end_of_the_eviction() {
    let server = advised("rebalance", 8.0);
    let (finished, hooks) = watch(&server, PREPARE, &[]);
    let expected = [
        &format!("prepare-{ADVICE}"),
        "prepare-Preempt",
        "recover-Preempt",
    ];
    assert_eq!(hooks, expected);
    assert_eq!(finished.of_kind("approval").len(), 1);
    assert_eq!(finished.of_kind("recover").len(), 1);
    assert_clean(&server);
}

#[test]
fn no_rule_and_no_gate_approves_advice() {
    let folder = Folder::new();
    for action in ["approve", "hold", "ignore"] {
        let server = advised("rebalance-withdrawn", 15.0);
        let policy = format!(
            "leader = \"everyone\"\n[[rule]]\nevent = \"{ADVICE}\"\naction = \"{action}\"\n"
        );
        let gate = helper(&[format!("append {} asked", folder.path(action))]);
        let (finished, hooks) = watch(&server, &policy, &["--gate", &gate]);
        assert!(hooks.is_empty(), "{action}: {hooks:?}");
        assert!(
            lines(&folder.path(action)).is_empty(),
            "{action}: the gate was asked"
        );
        assert_eq!(changes(&finished, ADVICE), ["advised", "advice-withdrawn"]);
        assert!(finished.of_kind("approval").is_empty(), "{action}");
        assert_clean(&server);
    }
}

#[test]
fn a_command_for_advice_needs_no_rule() {
    let server = advised("rebalance-withdrawn", 15.0);
    let folder = Folder::new();
    let log = folder.path("on");
    let on = |change: &str| format!("{change}={}", helper(&[format!("append {log} $CHANGE")]));
    let (advised, withdrawn) = (on("advised"), on("advice-withdrawn"));
    let arguments = ["--on", &advised, "--on", &withdrawn];
    let metrics = folder.path("metrics.prom");
    let arguments = [&arguments[..], &["--metrics-file", &metrics]].concat();
    let (_, hooks) = watch(&server, README, &arguments);
    assert!(hooks.is_empty(), "{hooks:?}");
    assert_eq!(lines(&log), ["advised", "advice-withdrawn"]);
    assert_eq!(versions(&server), ["2024-07-09"]);
    let metrics = lines(&metrics);
    for change in ["advised", "advice-withdrawn"] {
        let counter = format!("scheduled_events_changes_total{{change=\"{change}\"}} 1");
        assert!(metrics.contains(&counter), "{counter}: {metrics:#?}");
    }
}

#[test]
fn wait_ends_with_advice_only_if_it_is_named() {
    let server = advised("rebalance-withdrawn", 0.01);
    let endpoint = server.url();
    let wait = |arguments: &[&str]| {
        run(&[
            &["wait", "--mine", "--endpoint", &endpoint, "--timeout", "8s"],
            arguments,
        ]
        .concat())
    };
    wait(&["--type", ADVICE]).with_code(4);
    assert!(server.step());
    let found = wait(&["--type", ADVICE, "--json"]).with_code(0);
    assert_eq!(found.of_kind("event")[0]["event_type"], ADVICE);
    wait(&["--api-version", "2024-07-09"]).with_code(4);
    wait(&["--type", "Preempt,Other", "--api-version", "2024-07-09"]).with_code(4);
}

#[test]
fn wait_for_advice_says_that_there_is_none_and_goes_on() {
    let server = Server::start(config("preempt", 0.01)).expect("a port");
    let finished = run(&[
        "wait",
        "--type",
        ADVICE,
        "--endpoint",
        &server.url(),
        "--timeout",
        "8s",
    ])
    .with_code(4);
    let said = "warning: no advice: the service does not know API version 2024-07-09\n";
    assert!(finished.stderr.starts_with(said), "{}", finished.stderr);
    assert_eq!(finished.stderr.lines().count(), 2, "{}", finished.stderr);
    assert_eq!(versions(&server), ["2024-07-09", "2020-07-01"]);
}

#[test]
fn list_shows_advice_where_the_service_has_it() {
    let server = advised("rebalance-withdrawn", 0.01);
    let list = |server: &Server, arguments: &[&str]| {
        run(&[&["list", "--endpoint", &server.url()], arguments].concat()).with_code(0)
    };
    list(&server, &[]);
    assert!(server.step());
    let shown = list(&server, &[]);
    assert!(
        shown
            .stdout
            .contains("*  SpotRebalanceRecommendation  Advisory"),
        "{}",
        shown.stdout
    );
    let hidden = list(&server, &["--api-version", "2020-07-01"]);
    assert!(hidden.stdout.starts_with("no events"), "{}", hidden.stdout);
    for fault in [
        "unknown-version:404",
        "unknown-version:500",
        "unknown-version:200",
    ] {
        let older = Server::start(config("preempt", 0.01).fault(fault.parse().expect(fault)))
            .expect("a port");
        let listed = list(&older, &[]);
        assert_eq!(listed.stderr, "", "{fault}");
        assert_eq!(versions(&older), ["2024-07-09", "2020-07-01"]);
    }
}

#[test]
fn check_names_advice_and_its_rule() {
    let folder = Folder::new();
    let document = folder.file(
        "document.json",
        json!({"DocumentIncarnation": 1, "Events": [with(freeze("a"), &json!({
            "EventType": ADVICE, "EventStatus": "Advisory", "NotBefore": "", "DurationInSeconds": -1,
        }))]})
        .to_string(),
    );
    for (policy, decision) in [
        (README, "hold (advice: no rule names it)"),
        (PREPARE, "prepare (advice: never approved, rule 1)"),
    ] {
        let policy = folder.file("policy.toml", policy);
        let checked = run(&["check", &document, "--vm-name", VM, "--policy", &policy]).with_code(0);
        assert!(checked.stdout.contains(decision), "{}", checked.stdout);
        assert_eq!(checked.stderr, "");
    }
    let policy = folder.file("policy.toml", PREPARE);
    let version = ["--api-version", "2020-07-01"];
    let checked = run(&[&["check", &document, "--policy", &policy][..], &version].concat());
    let warned =
        "does not deliver what the policy names: SpotRebalanceRecommendation events (rule 1)";
    assert!(checked.stderr.contains(warned), "{}", checked.stderr);
    let source = run(&["check", "--policy", &policy, "--as", "c"]).with_code(0);
    assert!(
        source
            .stdout
            .contains("SCHEDEV_MATCH_TYPE_SPOT_REBALANCE_RECOMMENDATION"),
        "{}",
        source.stdout
    );
}

#[test]
fn status_timeline_and_record_know_advice() {
    let server = advised("rebalance-withdrawn", 0.01);
    let folder = Folder::new();
    let (state, audit) = (folder.path("state"), folder.path("audit"));
    let policy = folder.file("policy.toml", PREPARE);
    let prepare = helper(&["sleep 0"]);
    let arguments = [
        "--policy",
        &policy,
        "--prepare",
        &prepare,
        "--recover",
        &prepare,
    ];
    let files = ["--state", &state, "--audit", &audit, "--until-idle"];
    let mut watcher = Run::watch(&server.url(), &[&arguments[..], &files].concat());
    eventually("the first document", || {
        (!server.requests().is_empty() && server.step()).then_some(())
    });
    watcher.record("a preparation", |record| {
        record["record"] == "prepare" && record["outcome"] == "ready"
    });
    let shown = eventually("advice", || {
        let shown = run(&["status", "--state", &state]).with_code(0).stdout;
        shown.contains("until it is withdrawn").then_some(shown)
    });
    assert!(shown.starts_with("out of service"), "{shown}");
    assert!(
        shown.contains("*  SpotRebalanceRecommendation  Advisory  advice, prepared for by rule 1; until it is withdrawn"),
        "{shown}"
    );
    assert!(server.step());
    watcher.finish().with_code(0);
    let picture = run(&["timeline", &audit]).with_code(0).stdout;
    assert!(
        picture.contains("advised") && picture.contains("advice-withdrawn"),
        "{picture}"
    );
    assert!(!picture.contains("announced"), "{picture}");
    let recorded = run(&["record", &audit]).with_code(0).stdout;
    assert!(
        recorded.contains("event_type = \"SpotRebalanceRecommendation\"")
            && recorded.contains("event_status = \"Advisory\"")
            && recorded.contains("cancelled_after = "),
        "{recorded}"
    );
}

#[test]
fn an_answer_of_the_newer_version_that_is_no_document_hides_no_event() {
    let service = FakeService::start();
    service.show(2, &[with(freeze("a"), &json!({ "EventType": "Preempt" }))]);
    // The preview is an empty page.
    service.intercept(|request| {
        let is_newer = request.is_get() && request.target.ends_with("2024-07-09");
        is_newer.then(|| Reply::new(200, "", ""))
    });
    let folder = Folder::new();
    let policy = folder.file("policy.toml", PREPARE);
    let mut watcher = Run::watch(&service.url(), &["--policy", &policy]);
    watcher.change("scheduled", "a");
    let all = service.requests();
    let polls: Vec<_> = all.iter().filter(|request| request.is_get()).collect();
    assert!(polls[0].target.ends_with("2024-07-09") && polls[1].target.ends_with("2020-07-01"));
}

#[test]
fn advice_that_becomes_an_eviction_is_one_line_and_three_records() {
    let service = FakeService::start();
    let advice = json!({ "EventType": ADVICE, "EventStatus": "Advisory", "NotBefore": "" });
    let folder = Folder::new();
    let audit = folder.path("audit");
    service.show(2, &[with(freeze("a"), &advice)]);
    let arguments = [
        "watch",
        "--endpoint",
        &service.url(),
        "--vm-name",
        VM,
        "--api-version",
        "2024-07-09",
        "--audit",
        &audit,
    ];
    let watcher = Run::start(command(&arguments));
    eventually("the advice", || {
        watcher.stdout().contains("advised").then_some(())
    });
    service.show(3, &[with(freeze("a"), &json!({ "EventType": "Preempt" }))]);
    eventually("the eviction", || {
        lines(&audit)
            .iter()
            .any(|line| line.contains("\"change\":\"updated\""))
            .then_some(())
    });
    service.await_polls(2);
    let said = watcher.stop().stdout;
    let count = |word: &str| said.lines().filter(|line| line.contains(word)).count();
    assert_eq!(
        (
            count("  scheduled "),
            count("rescheduled"),
            count("  updated ")
        ),
        (1, 0, 0),
        "{said}"
    );
}
