//! A masked capture shows no name, id or address, and the same of the service as the capture itself.

use proptest::prelude::*;
use scheduled_events_replay::capture::{CapturedExchange, Mask};
use scheduled_events_replay::contract::{Contract, ServiceRule};
use serde_json::{Value, json};

use crate::EVENTS;

const SUBSCRIPTION: &str = "9f8e7d6c-1a2b-4c3d-8e9f-0a1b2c3d4e5f";
const VM_ID: &str = "0C9B8A7F-5e4d-4321-a987-6543210fedcb";
const GROUP: &str = "quixrg(Prod).west";
const HOST: &str = "quixhost-7";
const DISK: &str = "quix_OsDisk_1_0a1b2c";
const NIC: &str = "quixnic";
const PLACEMENT: &str = "quix-ppg";
const ADDRESSES: [&str; 4] = [
    "10.47.11.8",
    "203.0.113.77",
    "fe80::20d:3aff:fef8:5e4",
    "fd00:47::11",
];
const MACS: [&str; 3] = ["000D3AF805E4", "60-45-BD-01-02-03", "7c:1e:52:0a:0b:0c"];
const TAG: &str = "QuixTag+/=";

/// Names that nothing else in a capture looks like, in the forms that machines have.
fn distinct_name() -> impl Strategy<Value = String> {
    prop_oneof![
        "quix[a-z]{2,6}[a-z0-9-]{0,6}[a-z]_[0-9]{1,3}",
        "Quix[a-zA-Z0-9.-]{1,8}[a-z]",
        "quix[a-z]{3}_[0-9a-f]{8}",
        "quixé[ÄÖÜäöüß]{1,4}x",
    ]
}

/// Names that occur elsewhere in a capture, too.
fn common_name() -> impl Strategy<Value = String> {
    prop_oneof![
        "[0-9]{1,4}",
        prop::sample::select(
            &[
                "user",
                "Platform",
                "metadata",
                "application",
                "json",
                "true",
                "Scheduled",
                "reboot",
                "vm",
                "host",
                "events",
                "EventId",
                "api-version",
                "gmt",
                "a",
                "-",
                "_3",
                "2020-07-01",
                "error",
            ][..]
        )
        .prop_map(str::to_owned),
    ]
}

fn resource_id(name: &str) -> String {
    let (set, number) = name.rsplit_once('_').unwrap_or((name, "3"));
    format!(
        "/subscriptions/{SUBSCRIPTION}/resourceGroups/{GROUP}/providers/Microsoft.Compute/virtualMachineScaleSets/{set}/virtualMachines/{number}"
    )
}

/// Sentences that name the machine and what belongs to it.
fn sentence(form: usize, name: &str) -> String {
    let [address, v6] = [ADDRESSES[form % 2], ADDRESSES[2 + form % 2]];
    let mac = MACS[form % 3];
    match form % 10 {
        0 => String::new(),
        1 => "Virtual machine is going to be restarted as requested by authorized user.".to_owned(),
        2 => format!(
            "Host of {name} ({}), {} too",
            name.to_uppercase(),
            name.to_lowercase()
        ),
        3 => format!("{} at {address}:80, nic {mac}.", resource_id(name)),
        4 => format!(
            "in {GROUP}: host{address} and host {v6}, disk {name}-disk, {name}.internal.example"
        ),
        5 => format!(
            "/subscriptions/{SUBSCRIPTION}/resourcegroups/{GROUP}/providers/Microsoft.Compute/hostGroups/{HOST}s/hosts/{HOST}"
        ),
        6 => format!(
            "Microsoft.Compute/disks/{DISK} and Microsoft.Network/networkInterfaces/{NIC} of {mac}"
        ),
        7 => format!(
            "%2FresourceGroups%2F{GROUP}%2Fproviders%2FMicrosoft.Compute%2FproximityPlacementGroups%2F{PLACEMENT}"
        ),
        8 => format!(
            "see {}?id={}",
            name.replace('_', "%5F").replace('-', "%2d"),
            SUBSCRIPTION.to_uppercase()
        ),
        _ => format!("vm {VM_ID}, {}", SUBSCRIPTION.replace('-', "")),
    }
}

/// The compute and network metadata of a machine, as the service has them.
fn instance(name: &str) -> Value {
    json!({
        "compute": {
            "name": name, "location": "westeurope", "vmId": VM_ID, "subscriptionId": SUBSCRIPTION, "resourceGroupName": GROUP,
            "resourceId": resource_id(name), "tags": format!("owner:{name};host:{HOST}"), "placementGroupId": VM_ID,
            "host": {"id": format!("/subscriptions/{SUBSCRIPTION}/hosts/{HOST}")}, name: {name: HOST},
            "osProfile": {"computerName": name, "adminUsername": HOST},
            "storageProfile": {"osDisk": {"name": DISK, "managedDisk": {"id": DISK}}},
        },
        "network": {"interface": [{"macAddress": MACS[0], "ipv4": {"ipAddress": [{"privateIpAddress": ADDRESSES[0]}]}}]},
    })
}

#[derive(Clone, Debug)]
struct Event {
    machines: Vec<usize>,
    form: usize,
    words: [usize; 4],
    is_underscored: bool,
}

fn event() -> impl Strategy<Value = Event> {
    (
        prop::collection::vec(any::<usize>(), 1..3),
        any::<usize>(),
        any::<[usize; 4]>(),
        any::<bool>(),
    )
        .prop_map(|(machines, form, words, is_underscored)| Event {
            machines,
            form,
            words,
            is_underscored,
        })
}

fn document(names: &[String], events: &[Event], incarnation: usize) -> String {
    let pick = |words: &[&str], at: usize| words[at % words.len()].to_owned();
    let events: Vec<_> = events
        .iter()
        .enumerate()
        .map(|(number, event)| {
            let machines = event.machines.iter().map(|at| &names[at % names.len()]);
            let before = if event.is_underscored { "_" } else { "" };
            let resources: Vec<_> = machines.clone().map(|name| format!("{before}{name}")).collect();
            let name = machines.clone().next().map_or("", String::as_str);
            let texts = [
                format!("{number}A7B1C2D-0000-1111-2222-333344445555"),
                pick(&["Scheduled", "Started", "Scheduled", "Held"], event.words[0]),
                pick(&["Reboot", "Freeze", "Terminate", "Thaw"], event.words[1]),
                pick(&["Mon, 19 Sep 2016 18:29:47 GMT", "", "2016-09-19T18:29:47Z", "soon"], event.words[2]),
                sentence(event.form, name),
                pick(&["Platform", "User", "Nobody"], event.words[3]),
            ];
            let [id, status, kind, not_before, description, source] = texts.map(|text| Value::from(text).to_string());
            let resources = json!(resources);
            format!(
                "{{\"EventId\":{id},\"EventStatus\":{status},\"EventType\":{kind},\"ResourceType\":\"VirtualMachine\",\"Resources\":{resources},\
                 \"NotBefore\":{not_before},\"Description\":{description},\"EventSource\":{source},\"DurationInSeconds\":-1}}"
            )
        })
        .collect();
    format!(
        "{{\"DocumentIncarnation\":{incarnation},\"Events\":[{}]}}",
        events.join(",")
    )
}

fn exchanges(names: &[String], documents: &[(Vec<Event>, usize)]) -> Vec<CapturedExchange> {
    let answered = |target: &str, body: String| CapturedExchange {
        method: "GET".into(),
        target: target.into(),
        request_headers: vec![("Metadata".into(), "true".into())],
        status: Some(200),
        headers: vec![
            (
                "content-type".into(),
                "application/json; charset=utf-8".into(),
            ),
            ("date".into(), "Mon, 19 Sep 2016 18:00:00 GMT".into()),
            ("etag".into(), format!("W/\"{TAG}\"")),
            ("x-ms-host".into(), HOST.into()),
        ],
        body,
        ..CapturedExchange::default()
    };
    let own = names.first().cloned().unwrap_or_default();
    // All names, of machines and of what they have, are known from the start.
    let all = Event {
        machines: (0..names.len()).collect(),
        form: 3,
        words: [0; 4],
        is_underscored: false,
    };
    let mut exchanges = vec![
        answered(scheduled_events_core::wire::NAME_PATH, own.clone()),
        answered(EVENTS, document(names, &[all], 0)),
        answered(
            EVENTS,
            format!(
                "{}, {}, {}",
                sentence(5, &own),
                sentence(6, &own),
                sentence(7, &own)
            ),
        ),
    ];
    for (number, (events, incarnation)) in documents.iter().enumerate() {
        let body = document(names, events, *incarnation);
        let version = ["2020-07-01", "2017-03-01", "2024-07-09", "2099-01-01"][number % 4];
        let mut approval = answered(EVENTS, String::new());
        approval.method = "POST".into();
        approval.request_body =
            r#"{"StartRequests":[{"EventId":"0a7b1c2d-0000-1111-2222-333344445555"}]}"#.into();
        let mut refused = answered(
            "/metadata/scheduledevents?api-version=2099-01-01",
            json!({"error": sentence(number, &own), "newest-versions": ["2020-07-01"]}).to_string(),
        );
        refused.status = Some(400);
        let cut: String = body.chars().take(number * 97 % 600).collect();
        let cut = answered(EVENTS, cut);
        let page = answered(EVENTS, format!("<p>{}</p>", sentence(number + 3, &own)));
        let target = format!(
            "/metadata/scheduledevents?api-version={version}&vm={}&id={SUBSCRIPTION}",
            own.replace('_', "%5F")
        );
        exchanges.extend([
            answered(EVENTS, body.clone()),
            answered(&target, body),
            approval,
            refused,
            cut,
            page,
        ]);
    }
    exchanges.push(answered(
        "/metadata/instance?api-version=2021-12-13",
        instance(&own).to_string(),
    ));
    exchanges
}

fn judged(exchanges: &[CapturedExchange]) -> Contract {
    let mut contract = Contract::default();
    for exchange in exchanges {
        contract.add(&serde_json::to_string(exchange).expect("an exchange is JSON"));
    }
    contract
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_masked_capture_names_nobody_and_shows_the_same_of_the_service(
        distinct in prop::collection::vec(distinct_name(), 1..4),
        common in prop::collection::vec(common_name(), 0..4),
        documents in prop::collection::vec((prop::collection::vec(event(), 0..3), 0..3_usize), 1..6),
    ) {
        let names: Vec<_> = distinct.iter().chain(&common).cloned().collect();
        let whole = exchanges(&names, &documents);
        let mut mask = Mask::default();
        let mut masked = whole.clone();
        for exchange in &mut masked {
            mask.exchange(exchange);
        }

        let text = serde_json::to_string(&masked).expect("exchanges are JSON");
        let lower = text.to_lowercase();
        let known = [SUBSCRIPTION, VM_ID, GROUP, HOST, DISK, NIC, PLACEMENT, TAG, "quix", "%5f"];
        let known = known.iter().chain(&ADDRESSES).chain(&MACS).map(|text| text.to_lowercase());
        let secrets = known.chain([SUBSCRIPTION.replace('-', "")]).chain(distinct.iter().map(|name| name.to_lowercase()));
        for secret in secrets {
            prop_assert!(!lower.contains(&secret), "{secret}: {text}");
        }

        let (whole, masked) = (judged(&whole), judged(&masked));
        for rule in ServiceRule::ALL {
            let counts = |contract: &Contract| (contract.times_seen(*rule), contract.times_contradicted(*rule));
            prop_assert_eq!(counts(&masked), counts(&whole), "{}: {:?}\n{}", rule, masked.evidence(*rule), text);
        }
    }
}
