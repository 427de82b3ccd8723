//! Tests of the mask.

use super::*;

#[test]
fn what_tells_whose_machine_it_was_is_replaced_everywhere_and_the_same_each_time() {
    let secret = "11111111-2222-3333-4444-555555555555";
    let exchange = |body: &str| CapturedExchange {
        target: format!("/metadata/scheduledevents?api-version=2020-07-01&x={secret}"),
        status: Some(200),
        headers: vec![
            ("x-ms-request-id".into(), "secret".into()),
            ("server".into(), "IMDS/150.870.65.1907".into()),
        ],
        body: body.into(),
        ..CapturedExchange::default()
    };
    let mut mask = Mask::default();
    let mut first = exchange(
        "{ \"Events\":[{\"Description\":\"for Secret-VM_3, sub /subscriptions/11111111-2222-3333-4444-555555555555/resourceGroups/secret-group/x from 10.9.8.7 or fe80::1234\",\
         \"Resources\":[\"secret-vm_3\", \"secret-b\"],\"EventId\":\"secret-id\",\"New\":\"secret\",\"EventType\":\"Reboot\"}]}",
    );
    mask.exchange(&mut first);
    assert_eq!(
        first.body,
        "{ \"Events\":[{\"Description\":\"for vm_1, sub /subscriptions/AAAAAAAA-0000-4000-8000-000000000001/resourceGroups/vm_3/x from 192.0.2.1 or 2001:db8::2\",\
         \"Resources\":[\"vm_1\", \"vm_2\"],\"EventId\":\"id-1\",\"New\":\"masked\",\"EventType\":\"Reboot\"}]}"
    );
    let mut text = exchange("<p>SECRET-ID: secret-vm_3.internal at 10.9.8.7, 169.254.169.254</p>");
    mask.exchange(&mut text);
    assert_eq!(
        text.body,
        "<p>id-1: vm_1.internal at 192.0.2.1, 169.254.169.254</p>"
    );
    let line = format!("{first:?}{text:?}").to_ascii_lowercase();
    assert!(!line.contains("secret") && !line.contains(secret), "{line}");
    assert_eq!(text.header("server"), Some("IMDS/150.870.65.1907"));
}

#[test]
fn what_is_made_from_a_name_does_not_show_it() {
    let mut mask = Mask::default();
    mask.name("secret-vm_3");
    for (text, masked) in [
        ("secret-vm_3-disk", "vm_1-disk"),
        (
            "os-Secret-VM_3.internal.example",
            "os-vm_1.internal.example",
        ),
        ("secret-vmx_3", "secret-vmx_3"),
        ("/subscriptions/my-team/x", "/subscriptions/vm_2/x"),
        (
            "%2fresourceGroups%2Fmy-group%2fx",
            "%2fresourceGroups%2Fvm_3%2fx",
        ),
        ("10.1.2.3-web, 10.1.2.3:80", "192.0.2.1-web, 192.0.2.1:80"),
        (
            "6a7b1c2d000011112222333344445555.",
            "aaaaaaaa-0000-4000-8000-000000000001.",
        ),
        (
            "x-6A7B1C2D-0000-1111-2222-333344445556",
            "x-AAAAAAAA-0000-4000-8000-000000000002",
        ),
        ("at 10:20:30 in v1.2.3", "at 10:20:30 in v1.2.3"),
    ] {
        assert_eq!(mask.text(text), masked, "{text}");
    }
}

#[test]
fn a_text_after_an_object_in_a_list_belongs_to_the_list() {
    let mut mask = Mask::default();
    let body = r#"{"New":[{"EventType":"Reboot"},"secret"],"Resources":[["a"],"b"]}"#;
    assert_eq!(
        mask.body(body),
        r#"{"New":[{"EventType":"Reboot"},"masked"],"Resources":[["vm_1"],"vm_2"]}"#
    );
}

#[test]
fn names_that_are_words_or_numbers_leave_the_form_of_json_as_it_was() {
    let mut mask = Mask::default();
    mask.text("/resourceGroups/Events/x");
    let body = r#"{"DocumentIncarnation":1,"Events":[{"EventId":"1","Resources":["EventId"]}]}"#;
    assert_eq!(
        mask.body(body),
        r#"{"DocumentIncarnation":1,"Events":[{"EventId":"id-1","Resources":["vm_2"]}]}"#
    );
}

#[test]
fn a_body_that_is_cut_off_or_has_more_around_it_shows_no_name() {
    let whole = r#"{"Events":[{"EventId":"6A7B1C2D-0000-1111-2222-333344445555","Resources":["secret-a","secret-b"],"New":"secret"}]}"#;
    let cut = (1..whole.len()).map(|at| whole[..at].to_owned());
    let around = [
        format!("\u{feff}{whole}"),
        format!("{whole}}} \"secret-b\""),
    ];
    for body in cut.chain(around) {
        let masked = Mask::default().body(&body);
        assert!(!masked.contains("secret"), "{body}: {masked}");
    }
}

#[test]
fn a_thousand_addresses_have_a_thousand_replacements() {
    let mut mask = Mask::default();
    let masked: std::collections::HashSet<_> = (0..1_000_u32)
        .map(|number| mask.text(&Ipv4Addr::from(0x0a00_0000 + number).to_string()))
        .collect();
    assert_eq!(masked.len(), 1_000);
}

#[test]
fn the_own_name_and_one_with_an_underscore_are_the_same_machine() {
    let mut mask = Mask::default();
    let mut name = CapturedExchange {
        target: scheduled_events_core::wire::NAME_PATH.into(),
        status: Some(200),
        body: "web_3".into(),
        ..CapturedExchange::default()
    };
    mask.exchange(&mut name);
    let mut document = CapturedExchange {
        target: "/metadata/scheduledevents?api-version=2017-03-01".into(),
        status: Some(200),
        body: r#"{"Events":[{"Resources":["_WEB_3"]}]}"#.into(),
        ..CapturedExchange::default()
    };
    mask.exchange(&mut document);
    assert_eq!(
        (name.body.as_str(), document.body.contains("\"_vm_1\"")),
        ("vm_1", true)
    );
}

#[test]
fn texts_of_any_characters_keep_what_is_no_secret() {
    let mut mask = Mask::default();
    for text in [
        "",
        "é日本 \u{202e}",
        "a-b.c_d",
        "12:30:45",
        "{}",
        "...",
        "::",
        "2020-07-01",
        "1.2",
    ] {
        assert_eq!(mask.text(text), text);
    }
    assert_eq!(
        mask.text("x6A7B1C2D-0000-1111-2222-333344445555x"),
        "xAAAAAAAA-0000-4000-8000-000000000001x"
    );
}

fn answered(target: &str, body: &str) -> CapturedExchange {
    CapturedExchange {
        method: "GET".into(),
        target: target.into(),
        request_headers: vec![("Metadata".into(), "true".into())],
        status: Some(200),
        headers: vec![
            (
                "content-type".into(),
                "application/json; charset=utf-8".into(),
            ),
            ("date".into(), "Sun, 01 Mar 2026 10:05:17 GMT".into()),
        ],
        body: body.into(),
        ..CapturedExchange::default()
    }
}

const POLL: &str = "/metadata/scheduledevents?api-version=2020-07-01";

/// A document with an event of these machines, with a sentence about it.
fn document(names: &[&str], description: &str) -> String {
    let events = serde_json::json!([{
        "EventId": "6A7B1C2D-0000-1111-2222-333344445555", "EventStatus": "Scheduled", "EventType": "Reboot",
        "ResourceType": "VirtualMachine", "Resources": names, "NotBefore": "Mon, 19 Sep 2016 18:05:17 GMT",
        "Description": description, "EventSource": "User", "DurationInSeconds": 5,
    }]);
    let value = serde_json::json!({ "DocumentIncarnation": 5, "Events": events });
    value.to_string()
}

#[test]
fn names_that_are_numbers_or_words_of_the_wire_change_no_other_value() {
    for name in [
        "5",
        "17",
        "2020",
        "05",
        "user",
        "User",
        "metadata",
        "application",
        "json",
        "true",
        "reboot",
        "virtualmachine",
        "scheduledevents",
        "api",
        "version",
        "api-version",
        "sep",
        "gmt",
        "utf-8",
        "content",
        "scheduled",
        "utf",
    ] {
        let mut mask = Mask::default();
        let mut exchange = answered(POLL, &document(&[name], ""));
        let mut again = exchange.clone();
        mask.text(&format!("/resourceGroups/{name}/x"));
        mask.exchange(&mut exchange);
        let masked = serde_json::to_string(&exchange).unwrap();
        again.body = document(&["vm_1"], "").replace(
            "6A7B1C2D-0000-1111-2222-333344445555",
            "AAAAAAAA-0000-4000-8000-000000000001",
        );
        assert_eq!(masked, serde_json::to_string(&again).unwrap(), "{name}");
    }
}

#[test]
fn an_instance_of_a_scale_set_is_replaced_as_a_whole() {
    let mut mask = Mask::default();
    let id = "/subscriptions/6a7b1c2d-0000-1111-2222-333344445555/resourceGroups/shop/providers/\
        Microsoft.Compute/virtualMachineScaleSets/secretset/virtualMachines/5";
    let masked = mask.text(id);
    assert!(
        masked.ends_with("/virtualMachineScaleSets/vm_2/virtualMachines/vm_3"),
        "{masked}"
    );
    let mut exchange = answered(
        POLL,
        &document(&["secretset_5"], "SecretSet_5 and secretset_6, 5 of 6"),
    );
    mask.exchange(&mut exchange);
    assert!(exchange.body.contains(r#"["vm_4"]"#), "{}", exchange.body);
    assert!(
        exchange.body.contains("vm_4 and vm_5, 5 of 6"),
        "{}",
        exchange.body
    );
    // Its scale set, and its computer name.
    let mut other = Mask::default();
    other.name("secretset_5");
    assert_eq!(
        other.text("secretset, secretset000005.internal"),
        "vm_2, vm_2000005.internal"
    );
}

#[test]
fn whatever_identifies_is_found_in_any_form() {
    let mut mask = Mask::default();
    mask.name("secret-web_3");
    mask.name("Größe-Straße");
    for text in [
        "/subscriptions/x/resourceGroups/my(secret)group(1)/providers/Microsoft.Compute/virtualMachines/a",
        "of my(secret)group(1), too",
        "(see /resourceGroups/secret-group)",
        "/resourceGroups/x/providers/Microsoft.Compute/hostGroups/secret-a/hosts/secret-host",
        "/resourceGroups/x/providers/Microsoft.Network/networkInterfaces/secret-nic/ipConfigurations/secret-ip",
        "/resourcegroups/x/providers/microsoft.compute/proximityplacementgroups/secret-ppg",
        "Microsoft.Compute/disks/secret-disk was not found; disks/secret-disk",
        "GRÖSSE-STRASSE",
        "secret%2Dweb%5f3",
        "%73ecret-web%5F3",
        "Gr%C3%B6%c3%9Fe-stra%C3%9Fe",
    ] {
        let masked = mask.text(text);
        let lower = masked.to_lowercase();
        assert!(
            !lower.contains("secret") && !lower.contains("stra"),
            "{text}: {masked}"
        );
    }
    for (text, masked) in [
        ("host10.1.2.3", "host192.0.2.1"),
        ("hostfe80::1:2a", "host2001:db8::2"),
        (
            "mac 000D3AF805E4, 00-0d-3a-f8-05-e4",
            "mac 020000000001, 02-00-00-00-00-01",
        ),
        ("00:0D:3A:F8:05:E5.", "02:00:00:00:00:02."),
        (
            "10:20:30, v1.2.3, abcdefabcdefa",
            "10:20:30, v1.2.3, abcdefabcdefa",
        ),
        ("q%20b%2fc%zz", "q%20b%2fc%zz"),
    ] {
        assert_eq!(mask.text(text), masked, "{text}");
    }
}

#[test]
fn members_that_are_names_and_tags_of_documents_are_replaced() {
    let mut mask = Mask::default();
    let mut exchange = answered(
        POLL,
        r#"{"DocumentIncarnation":1,"Events":[{"Resources":["secret"],"Severity":1,"secret":{"Owner":2}}],"secret-b":3}"#,
    );
    exchange.headers = vec![
        ("etag".into(), "W/\"secret/+=\"".into()),
        ("ETag".into(), "\"279\"".into()),
    ];
    exchange.request_headers = vec![("If-None-Match".into(), "\"secret/+=\"".into())];
    mask.exchange(&mut exchange);
    assert_eq!(
        exchange.body,
        r#"{"DocumentIncarnation":1,"Events":[{"Resources":["vm_1"],"Severity":1,"vm_1":{"masked":2}}],"vm_1-b":3}"#
    );
    let values = exchange.headers.iter().chain(&exchange.request_headers);
    let values: Vec<_> = values.map(|(_, value)| value.as_str()).collect();
    assert_eq!(values, ["W/\"id-1\"", "\"279\"", "\"id-1\""]);
}

#[test]
fn a_long_text_and_many_names_are_masked_in_linear_time() {
    let mut mask = Mask::default();
    let started = std::time::Instant::now();
    for number in 0..20_000 {
        mask.name(&format!("machine-{number}x"));
    }
    for piece in ["a-", "1.", "a:", "a/", "(", "%2f", "f", "0", "é_"] {
        mask.text(&piece.repeat(10_000));
    }
    assert!(started.elapsed().as_secs() < 30, "{:?}", started.elapsed());
}
