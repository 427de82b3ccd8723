//! The profile of terminate notifications: what Azure accepts, what it refuses and by which rule, and its JSON.

use scheduled_events_core::terminate::{
    COMPUTE_API_VERSION, FifteenMinutes, NotBeforeTimeout, OsImageNotificationProfile, ProfileRule,
    ScheduledEventsProfile, TerminateNotificationProfile,
};
use serde_json::json;

#[test]
fn a_timeout_is_read_in_iso_8601() {
    for (text, seconds) in [
        ("PT5M", 300),
        ("PT15M", 900),
        ("PT10M", 600),
        ("PT7M30S", 450),
        ("PT300S", 300),
        ("PT0H5M", 300),
        ("P0DT5M", 300),
        ("PT0H0M900S", 900),
        ("PT005M", 300),
    ] {
        assert_eq!(
            NotBeforeTimeout::parse(text).map(NotBeforeTimeout::as_seconds),
            Ok(seconds),
            "{text}"
        );
    }
}

#[test]
fn what_azure_refuses_is_refused_by_a_named_rule() {
    for text in [
        "",
        "P",
        "PT",
        "P5M",
        "P1W",
        "P1Y",
        "P1M",
        "5M",
        "5",
        "PT5",
        "PTM",
        "PT5MS",
        "PTM5",
        "pt5m",
        "PT5m",
        " PT5M",
        "PT5M ",
        "PT-5M",
        "+PT5M",
        "PT5.5M",
        "PT5M0.5S",
        "PT5M5M",
        "PT30S5M",
        "PT5M1H",
        "P1DT",
        "PT99999999999M",
        "PT71582789M",
        "P99999D",
        "PT٥M",
        "PT5M\0",
        "10 minutes",
        "00:05:00",
    ] {
        assert_eq!(
            NotBeforeTimeout::parse(text),
            Err(ProfileRule::Iso8601Duration),
            "{text}"
        );
    }
    for (text, rule) in [
        ("PT0S", ProfileRule::AtLeast5Minutes),
        ("PT4M59S", ProfileRule::AtLeast5Minutes),
        ("PT15M1S", ProfileRule::AtMost15Minutes),
        ("PT1H", ProfileRule::AtMost15Minutes),
        ("P1D", ProfileRule::AtMost15Minutes),
    ] {
        assert_eq!(NotBeforeTimeout::parse(text), Err(rule), "{text}");
    }
    assert_eq!(
        NotBeforeTimeout::from_minutes(u32::MAX),
        Err(ProfileRule::AtMost15Minutes)
    );
    assert_eq!(FifteenMinutes::parse("PT15M"), Ok(FifteenMinutes));
    assert_eq!(
        FifteenMinutes::parse("PT14M"),
        Err(ProfileRule::Exactly15Minutes)
    );
    assert_eq!(
        FifteenMinutes::parse("15"),
        Err(ProfileRule::Iso8601Duration)
    );
    for rule in ProfileRule::ALL {
        assert!(
            rule.message().len() > 20 && !rule.message().ends_with('.'),
            "{rule}"
        );
    }
}

#[test]
fn each_timeout_is_read_as_it_was_written() {
    for seconds in 0..=1000 {
        let timeout = NotBeforeTimeout::from_seconds(seconds);
        assert_eq!(timeout.is_ok(), (300..=900).contains(&seconds), "{seconds}");
        let Ok(timeout) = timeout else { continue };
        let text = timeout.to_string();
        assert!(text.len() <= NotBeforeTimeout::WRITTEN_MAX, "{text}");
        assert_eq!(NotBeforeTimeout::parse(&text), Ok(timeout), "{text}");
        assert_eq!(
            timeout.as_whole_minutes(),
            (seconds % 60 == 0).then_some(seconds / 60)
        );
        assert_eq!(serde_json::to_value(timeout).unwrap(), text);
    }
    assert_eq!(
        NotBeforeTimeout::MIN.write(&mut [0; 3]).unwrap_err().needed,
        4
    );
    assert_eq!(format!("{:>7}", NotBeforeTimeout::MAX), "  PT15M");
}

#[test]
fn the_json_is_that_of_the_rest_api() {
    // The body of the example of Microsoft's page.
    let five =
        json!({"terminateNotificationProfile": {"notBeforeTimeout": "PT5M", "enable": true}});
    let profile = ScheduledEventsProfile::terminate(NotBeforeTimeout::MIN);
    assert_eq!(serde_json::to_value(profile).unwrap(), five);
    assert_eq!(
        serde_json::from_value::<ScheduledEventsProfile>(five).unwrap(),
        profile
    );

    let off = TerminateNotificationProfile::disabled();
    assert_eq!(serde_json::to_string(&off).unwrap(), r#"{"enable":false}"#);
    let both = ScheduledEventsProfile {
        terminate_notification_profile: Some(off),
        os_image_notification_profile: Some(OsImageNotificationProfile::enabled()),
    };
    let text = serde_json::to_string(&both).unwrap();
    assert_eq!(
        text,
        r#"{"terminateNotificationProfile":{"enable":false},"osImageNotificationProfile":{"notBeforeTimeout":"PT15M","enable":true}}"#
    );
    assert_eq!(
        serde_json::from_str::<ScheduledEventsProfile>(&text).unwrap(),
        both
    );
    let mut buffer = [0; 200];
    let length = serde_json_core::to_slice(&both, &mut buffer).unwrap();
    assert_eq!(&buffer[..length], text.as_bytes());

    for (text, expected) in [
        (
            r#"{"notBeforeTimeout":"PT20M","enable":true}"#,
            "at most 15 minutes",
        ),
        (r#"{"notBeforeTimeout":"20","enable":true}"#, "ISO 8601"),
        (
            r#"{"notBeforeTimeout":5,"enable":true}"#,
            "from PT5M to PT15M",
        ),
        (r#"{"notBeforeTimeout":"PT5M"}"#, "enable"),
    ] {
        let error = serde_json::from_str::<TerminateNotificationProfile>(text)
            .unwrap_err()
            .to_string();
        assert!(error.contains(expected), "{error}");
    }
    let error = serde_json::from_str::<OsImageNotificationProfile>(
        r#"{"notBeforeTimeout":"PT5M","enable":true}"#,
    );
    assert!(
        error
            .unwrap_err()
            .to_string()
            .contains("must be 15 minutes")
    );
    // The service writes null where nothing is set.
    let null = r#"{"terminateNotificationProfile":{"notBeforeTimeout":null,"enable":false},"osImageNotificationProfile":null}"#;
    assert_eq!(
        serde_json::from_str::<ScheduledEventsProfile>(null)
            .unwrap()
            .terminate_notification_profile,
        Some(off)
    );
}

#[test]
fn spot_instances_and_old_versions_are_refused() {
    let on = TerminateNotificationProfile::enabled(NotBeforeTimeout::MAX);
    assert_eq!(on.check(false, COMPUTE_API_VERSION), Ok(()));
    assert_eq!(
        on.check(false, "2018-10-01"),
        Err(ProfileRule::ComputeApiVersion)
    );
    assert_eq!(on.check(true, "2021-07-01"), Err(ProfileRule::NotOnSpot));
    assert_eq!(
        TerminateNotificationProfile::disabled().check(true, "2021-07-01"),
        Ok(())
    );
    assert!(
        ProfileRule::ComputeApiVersion
            .message()
            .contains(COMPUTE_API_VERSION)
    );
}
