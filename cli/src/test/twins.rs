//! Each rule of `contract` has a twin: a service that breaks it. Most are the replay server with a fault or another scenario; what
//! the server cannot break is changed in the capture of a server that keeps it.

use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, SystemTime};

use scheduled_events::imds::{API_VERSION, Imds};
use scheduled_events_core::wire::PATH;
use scheduled_events_replay::capture::{CapturedExchange, Mask};
use scheduled_events_replay::contract::{Contract, ServiceRule, Sighting};
use scheduled_events_replay::{Scenario, Server, ServerConfig};

use super::capture::captured_exchange;
use super::probe::{Probe, run_probe};

/// How a service breaks a rule.
enum Twin {
    /// The replay server with this fault.
    Fault(&'static str),
    /// The replay server with this fault, and events that stay Started.
    FaultWhileStarted(&'static str),
    /// The replay server with events that have these times in place of [`NOTICE`].
    Times(&'static str),
    /// A capture in which this was changed.
    Changed(fn(&mut Vec<CapturedExchange>)),
}
use Twin::{Changed, Fault, FaultWhileStarted, Times};

const TIMEOUT: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(250);
const NOTICE: &str = "notice = \"20min\"\nstarts_after_approval = \"0s\"\nstarted_for = \"2s\"";
const STARTED: &str = "notice = \"20min\"\nstarts_after_approval = \"0s\"\nstarted_for = \"1h\"";

fn twins() -> Vec<(ServiceRule, Twin)> {
    use ServiceRule as Rule;
    vec![
        (
            Rule::Header,
            Changed(|all| refused(all, |one| one.request_headers.is_empty())),
        ),
        (
            Rule::Forwarded,
            Changed(|all| refused(all, |one| one.request_header("X-Forwarded-For").is_some())),
        ),
        (
            Rule::RepeatedParameter,
            Changed(|all| refused(all, |one| one.target.matches("api-version").count() == 2)),
        ),
        (
            Rule::VersionRequired,
            Changed(|all| refused(all, |one| one.target == PATH)),
        ),
        (Rule::UnknownVersion, Fault("unknown-version:200")),
        (Rule::KnownVersions, Fault("get.status:400@3")),
        (Rule::FirstResponse, Changed(|all| all[0].took_ms = 125_000)),
        (Rule::StatusCodes, Fault("get.status:418@3")),
        (
            Rule::UpdateTime,
            Changed(|all| {
                for (number, one) in polls(all).enumerate() {
                    one.status = Some(410);
                    one.unix_ms += i64::try_from(number).unwrap() * 20_000;
                }
            }),
        ),
        (
            Rule::Date,
            Changed(|all| all[2].headers.retain(|(name, _)| name != "date")),
        ),
        (Rule::Approval, Fault("post.status:404@2")),
        (Rule::ApprovalRepeated, Fault("post.status:400@3")),
        (Rule::ApprovalUnknown, Fault("post.status:200@1")),
        (Rule::OwnName, Fault("name.empty")),
        (Rule::Document, Fault("get.not-json@3")),
        (
            Rule::Incarnation,
            Changed(|all| replace(all, "Incarnation\":", "Incarnation\":-")),
        ),
        (Rule::IncarnationGrows, Fault("incarnation-back:9@12-")),
        (Rule::IncarnationChanges, FaultWhileStarted("vanish@14-")),
        (
            Rule::EventId,
            Fault(r#"member:EventId,"6a7b1c2d-0000-1111-2222-333344445555""#),
        ),
        (Rule::EventType, Fault(r#"member:EventType,"Pause""#)),
        (
            Rule::EventStatus,
            Fault(r#"member:EventStatus,"Completed""#),
        ),
        (Rule::ResourceType, Fault(r#"member:ResourceType,"Disk""#)),
        (Rule::Resources, Fault("member:Resources,[]")),
        (Rule::Underscore, Fault(r#"member:Resources,["_web_0"]"#)),
        (
            Rule::NotBefore,
            Fault(r#"member:NotBefore,"2026-01-01T00:00:00Z""#),
        ),
        (
            Rule::NotBeforeBlank,
            FaultWhileStarted(r#"member:NotBefore,"Mon, 19 Sep 2016 18:29:47 GMT""#),
        ),
        (Rule::Description, Fault("member:Description,null")),
        (Rule::EventSource, Fault(r#"member:EventSource,"Host""#)),
        (Rule::Duration, Fault(r#"member:DurationInSeconds,"5""#)),
        (Rule::Members, Fault("member:Description")),
        (Rule::OtherMembers, Fault("member:Severity,1")),
        (
            Rule::MemberOrder,
            Changed(|all| {
                replace(
                    all,
                    "\"EventType\":\"Freeze\",\"ResourceType\":\"VirtualMachine\"",
                    "\"ResourceType\":\"VirtualMachine\",\"EventType\":\"Freeze\"",
                );
            }),
        ),
        (
            Rule::Compact,
            Changed(|all| replace(all, ",\"Events\"", ", \"Events\"")),
        ),
        (
            Rule::StatusOrder,
            FaultWhileStarted(r#"member:EventStatus,"Scheduled"@16-"#),
        ),
        (Rule::NoReturn, FaultWhileStarted("vanish@12-13")),
        (Rule::NoticeFreeze, Times("notice = \"10s\"")),
        (Rule::NoticeReboot, Times("notice = \"10s\"")),
        (Rule::NoticeRedeploy, Times("notice = \"10s\"")),
        (Rule::NoticePreempt, Times("notice = \"10s\"")),
        (Rule::NoticeTerminate, Times("notice = \"10s\"")),
        (
            Rule::EarliestStart,
            Times("notice = \"20min\"\nstarts_after = \"7s\""),
        ),
    ]
}

/// A service that accepts what it should refuse.
fn refused(all: &mut [CapturedExchange], is_it: fn(&CapturedExchange) -> bool) {
    let found = all.iter_mut().find(|one| one.is_poll() && is_it(one));
    found.expect("such a request").status = Some(200);
}

fn polls(all: &mut [CapturedExchange]) -> impl Iterator<Item = &mut CapturedExchange> {
    all.iter_mut()
        .filter(|one| one.is_poll() && one.status == Some(200))
}

/// Changes all documents.
fn replace(all: &mut [CapturedExchange], text: &str, by: &str) {
    for one in polls(all) {
        one.body = one.body.replace(text, by);
    }
}

/// What `capture --probe --approve` keeps of a service with five events, the first of which is approved twice.
fn capture(times: &str, fault: Option<&str>) -> Vec<CapturedExchange> {
    let event = |kind: &str| {
        format!(
            "[[event]]\nevent_type = \"{kind}\"\nappears = \"1s\"\nduration_in_seconds = -1\n{times}\n"
        )
    };
    let kinds = ["Freeze", "Reboot", "Redeploy", "Preempt", "Terminate"];
    let text = format!("about = \"Five events.\"\n{}", kinds.map(event).concat());
    let config = ServerConfig::new(Scenario::parse(&text).unwrap())
        .vm_name("web_0")
        .without_verdict();
    let config = match fault {
        Some(fault) => config.fault(fault.parse().unwrap()),
        None => config,
    };
    let server = Server::start(config).unwrap();
    let exchanges = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&exchanges);
    let imds = Imds::new(&server.url()).unwrap();
    let imds = imds.with_trace(move |exchange| {
        let exchange = captured_exchange(exchange, SystemTime::now());
        seen.lock().unwrap().push(exchange);
    });
    let poll = || drop(imds.events(TIMEOUT));
    poll();
    let _ = imds.vm_name(TIMEOUT);
    thread::sleep(Duration::from_millis(1_100));
    poll();
    run_probe(&imds, &Probe::Refusals, PAUSE);
    run_probe(&imds, &Probe::Versions, PAUSE);
    let body = exchanges
        .lock()
        .unwrap()
        .iter()
        .rev()
        .find_map(|one: &CapturedExchange| {
            let document: serde_json::Value = serde_json::from_str(one.answer()?).ok()?;
            document["Events"][0]["EventId"].as_str().map(str::to_owned)
        });
    if let Some(id) = body {
        run_probe(&imds, &Probe::Approval(id), PAUSE);
    }
    let is_started = || {
        let exchanges = exchanges.lock().unwrap();
        let mut bodies = exchanges.iter().map(|one| &one.body);
        bodies.any(|body| body.contains("\"Started\""))
    };
    for number in 0..100 {
        // Some events wait for their time.
        if number >= 16 && (is_started() || fault.is_some()) {
            break;
        }
        poll();
        thread::sleep(PAUSE);
    }
    let exchanges = exchanges.lock().unwrap();
    exchanges.clone()
}

fn judged(exchanges: &[CapturedExchange]) -> Contract {
    let mut contract = Contract::default();
    for exchange in exchanges {
        contract.add(&serde_json::to_string(exchange).unwrap());
    }
    assert_eq!(contract.unreadable, 0);
    contract
}

#[test]
fn a_service_that_keeps_a_rule_is_told_from_one_that_breaks_it() {
    let twins = twins();
    let rules: Vec<_> = twins.iter().map(|(rule, _)| *rule).collect();
    assert_eq!(rules, ServiceRule::ALL, "each rule has one twin, in order");

    let clean = capture(NOTICE, None);
    let contract = judged(&clean);
    for rule in ServiceRule::ALL {
        // No service that is young answers 410, and all events were approved or wait.
        let expected = match rule {
            ServiceRule::UpdateTime | ServiceRule::EarliestStart => Sighting::NotSeen,
            _ => Sighting::Seen,
        };
        assert_eq!(
            contract.sighting(*rule),
            expected,
            "{rule}: {:?}\n{}",
            contract.evidence(*rule),
            serde_json::to_string_pretty(&clean).unwrap()
        );
    }
    let freeze = contract.events().next().unwrap();
    assert!(
        freeze.start_after_approval().is_some_and(|time| time <= 5),
        "{freeze:?}"
    );
    assert!(freeze.gone.is_some() && freeze.notice().is_some_and(|notice| notice > 1000));

    // What is masked shows the same.
    let mut masked = clean.clone();
    let mut mask = Mask::default();
    for exchange in &mut masked {
        mask.exchange(exchange);
    }
    let text = serde_json::to_string(&masked).unwrap();
    assert!(!text.contains("web_0"), "{text}");
    let contract_of_masked = judged(&masked);
    for rule in ServiceRule::ALL {
        assert_eq!(
            contract_of_masked.sighting(*rule),
            contract.sighting(*rule),
            "{rule}"
        );
    }

    let broken: Vec<_> = twins
        .into_iter()
        .map(|(rule, twin)| {
            let clean = clean.clone();
            thread::spawn(move || {
                let is_only_one = matches!(twin, Changed(_));
                let exchanges = match twin {
                    Fault(fault) => capture(NOTICE, Some(fault)),
                    FaultWhileStarted(fault) => capture(STARTED, Some(fault)),
                    Times(times) => capture(times, None),
                    Changed(change) => {
                        let mut exchanges = clean;
                        change(&mut exchanges);
                        exchanges
                    }
                };
                (rule, is_only_one, judged(&exchanges))
            })
        })
        .collect();
    for twin in broken {
        let (rule, is_only_one, contract) = twin.join().unwrap();
        let broken: Vec<_> = ServiceRule::ALL
            .iter()
            .filter(|other| contract.sighting(**other) == Sighting::Contradicted)
            .collect();
        assert!(broken.contains(&&rule), "{rule}: {broken:?}");
        // A fault may break several rules: the server sorts the members that it changes.
        assert!(broken.len() == 1 || !is_only_one, "{rule}: {broken:?}");
        assert!(
            contract.evidence(rule)[0].exchange > 0 && !contract.is_clean(),
            "{rule}"
        );
    }
}

#[test]
fn what_takes_long_is_seen_in_a_capture_of_long() {
    // An update of the service, and a start at `NotBefore` that nobody approved.
    let mut exchanges = capture(STARTED, None);
    exchanges.retain(|one| !one.is_approval());
    let started = exchanges
        .iter()
        .position(|one| one.body.contains("\"Started\""))
        .unwrap();
    for one in &mut exchanges[started..] {
        one.unix_ms += 3_600_000;
        one.headers.retain(|(name, _)| name != "date");
    }
    exchanges[started + 2].status = Some(410);
    let contract = judged(&exchanges);
    for rule in [ServiceRule::EarliestStart, ServiceRule::UpdateTime] {
        assert_eq!(
            contract.sighting(rule),
            Sighting::Seen,
            "{rule}: {:?}",
            contract.evidence(rule)
        );
    }
}

#[test]
fn what_arrives_out_of_order_or_after_a_failure_contradicts_nothing() {
    let document = |incarnation: u32, sent: i64, took: i64| CapturedExchange {
        unix_ms: sent,
        took_ms: took,
        method: "GET".into(),
        target: format!("{PATH}?api-version={API_VERSION}"),
        request_headers: vec![("Metadata".into(), "true".into())],
        status: Some(200),
        headers: vec![("date".into(), "Sun, 01 Mar 2026 10:00:00 GMT".into())],
        body: format!("{{\"DocumentIncarnation\":{incarnation},\"Events\":[]}}"),
        ..CapturedExchange::default()
    };
    let day = 25 * 3600 * 1000;
    let mut failed = document(3, 5000, 10);
    failed.status = Some(503);
    failed.body = "busy".into();
    let lines = [
        document(4, 1000, 10),
        failed,
        // Two at once: the older document arrives last.
        document(5, 6000, 100),
        document(4, 5900, 300),
        // It was switched off, and begins again.
        document(1, day, 10),
    ];
    assert!(judged(&lines).is_clean());
    let lines = [document(4, 1000, 10), document(3, 2000, 10)];
    assert!(!judged(&lines).is_clean());
}
