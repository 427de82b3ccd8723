//! Small values: notification profiles of scale sets and policies as JSON, the words of all enumerations, the sets of a policy's
//! rules, and the tables of Spot machines.
//!
//! The first byte selects one of them. What is written is read back as the same value, and the tables keep what the
//! guidance promises, in any order of what happens.

use std::fmt::{Debug, Display};

use arbitrary::Unstructured;
use scheduled_events_core::spot::{
    Allocation, Charges, EvictionCause, EvictionPolicy, EvictionType, MaxPrice, Phase, Replacement,
    Signal, SpotInput, SpotState,
};
use scheduled_events_core::terminate::{
    FifteenMinutes, NotBeforeTimeout, OsImageNotificationProfile, ProfileRule,
    ScheduledEventsProfile, TerminateNotificationProfile,
};
use scheduled_events_core::{
    Action, Change, EventKind, EventSources, EventTypes, Policy, Scope, SourceKind, WaitsFor,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

pub fn run(data: &[u8]) {
    let Some((&selector, data)) = data.split_first() else {
        return;
    };
    match selector {
        POLICY => read_policy(data),
        _ => run_other(selector % 5, data),
    }
}

/// The first byte of a policy.
const POLICY: u8 = 254;

fn run_other(selector: u8, data: &[u8]) {
    match selector {
        0 => read_profile(data),
        1 => str::from_utf8(data).into_iter().for_each(read_word),
        2 => data.iter().copied().for_each(read_sets),
        3 => drop(write_profile(&mut Unstructured::new(data))),
        _ => drop(live_on_spot(&mut Unstructured::new(data))),
    }
}

/// Any bytes as a policy. An accepted one is written as itself.
fn read_policy(data: &[u8]) {
    match serde_json::from_slice::<Policy>(data) {
        Ok(policy) => reads_back(&policy),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// Any bytes as a profile. An accepted one has the values of the JSON, and is written as itself.
fn read_profile(data: &[u8]) {
    let Ok(profile) = serde_json::from_slice::<ScheduledEventsProfile>(data) else {
        return;
    };
    reads_back(&profile);
    // In a member that the profile ignores, serde_json does not check escapes.
    let Ok(json) = serde_json::from_slice::<Value>(data) else {
        return;
    };
    // A struct may also be an array of its members.
    if let Value::Object(json) = json {
        let terminate = profile.terminate_notification_profile;
        let timeout = terminate
            .and_then(|profile| profile.not_before_timeout)
            .map(NotBeforeTimeout::as_seconds);
        same_values(
            json.get("terminateNotificationProfile"),
            terminate.map(|profile| profile.enable),
            timeout,
        );
        let os_image = profile.os_image_notification_profile;
        let timeout = os_image
            .and_then(|profile| profile.not_before_timeout)
            .map(|FifteenMinutes| 900);
        same_values(
            json.get("osImageNotificationProfile"),
            os_image.map(|profile| profile.enable),
            timeout,
        );
    }
}

fn same_values(json: Option<&Value>, enable: Option<bool>, timeout: Option<u32>) {
    match json {
        None | Some(Value::Null) => assert_eq!((enable, timeout), (None, None)),
        Some(Value::Object(json)) => {
            assert_eq!(json["enable"].as_bool(), enable);
            let text = json.get("notBeforeTimeout").and_then(Value::as_str);
            assert_eq!(
                text.map(|text| NotBeforeTimeout::parse(text).unwrap().as_seconds()),
                timeout
            );
        }
        Some(_) => {}
    }
}

/// A profile with any members, written as an operator writes it: accepted if, and only if, each rule holds.
fn write_profile(u: &mut Unstructured<'_>) -> arbitrary::Result<()> {
    let (seconds, enable, is_spot): (u16, bool, bool) = u.arbitrary()?;
    let seconds = u32::from(seconds) % 1000;
    let text = match u.int_in_range(0..=4)? {
        0 => format!("PT{seconds}S"),
        1 => format!("PT{}M{}S", seconds / 60, seconds % 60),
        2 => format!("P0DT0H{}M{:02}S", seconds / 60, seconds % 60),
        3 => format!("P{seconds}W"),
        _ => u.arbitrary::<&str>()?.to_owned(),
    };
    let timeout = NotBeforeTimeout::parse(&text);
    match timeout {
        Ok(timeout) => {
            let minutes = timeout.as_whole_minutes();
            assert_eq!(
                minutes.map(NotBeforeTimeout::from_minutes),
                minutes.map(|_| Ok(timeout))
            );
            assert_eq!(
                NotBeforeTimeout::from_seconds(timeout.as_seconds()),
                Ok(timeout)
            );
            reads_back(&ScheduledEventsProfile::terminate(timeout));
            let mut short = [0; NotBeforeTimeout::WRITTEN_MAX];
            let length = timeout.to_string().len();
            assert_eq!(
                timeout
                    .write(&mut short[..length - 1])
                    .map_err(|error| error.needed),
                Err(length)
            );
        }
        Err(rule) => {
            assert!(rule != ProfileRule::NotOnSpot && !rule.message().is_empty());
        }
    }
    let fifteen = FifteenMinutes::parse(&text);
    assert_eq!(fifteen.is_ok(), timeout == Ok(NotBeforeTimeout::MAX));

    let accepts = |name: &str, timeout: &Value| {
        let profile =
            json!({ name: { "notBeforeTimeout": timeout, "enable": enable }, "unknown": [text] });
        serde_json::from_value::<ScheduledEventsProfile>(profile)
    };
    let [terminate, os_image] = ["terminateNotificationProfile", "osImageNotificationProfile"];
    let read = accepts(terminate, &json!(text));
    assert_eq!(read.is_ok(), timeout.is_ok(), "{text}");
    assert_eq!(
        accepts(os_image, &json!(text)).is_ok(),
        fifteen.is_ok(),
        "{text}"
    );
    for value in [json!(seconds), json!([text])] {
        assert!(accepts(terminate, &value).is_err() && accepts(os_image, &value).is_err());
    }

    let profile = match timeout {
        Ok(timeout) if enable => TerminateNotificationProfile::enabled(timeout),
        _ => TerminateNotificationProfile::disabled(),
    };
    let version = *u.choose(&["2018-10-01", "2019-03-01", "2021-07-01", ""])?;
    let allowed = profile.check(is_spot, version);
    assert_eq!(
        allowed.is_ok(),
        version >= "2019-03-01" && !(is_spot && profile.enable)
    );
    let os = if enable {
        OsImageNotificationProfile::enabled()
    } else {
        OsImageNotificationProfile::disabled()
    };
    reads_back(&ScheduledEventsProfile {
        terminate_notification_profile: Some(profile),
        os_image_notification_profile: u.arbitrary::<bool>()?.then_some(os),
    });
    Ok(())
}

fn reads_back<T: Debug + PartialEq + Serialize + DeserializeOwned>(value: &T) {
    let written = serde_json::to_string(value).unwrap();
    assert_eq!(
        serde_json::from_str::<T>(&written).as_ref().ok(),
        Some(value),
        "{written}"
    );
}

/// The sets of a rule are bits, of which those without a meaning are refused.
fn read_sets(bits: u8) {
    let types = EventTypes::from_bits(bits);
    assert_eq!(
        types.map(EventTypes::bits),
        (bits < 1 << EventKind::ALL.len()).then_some(bits)
    );
    if let Some(types) = types {
        let kinds: Vec<_> = EventKind::ALL
            .into_iter()
            .filter(|kind| types.contains(*kind))
            .collect();
        assert_eq!(EventTypes::of(&kinds), types);
    }
    let sources = EventSources::from_bits(bits);
    assert_eq!(
        sources.map(EventSources::bits),
        (bits < 2 << SourceKind::ALL.len()).then_some(bits)
    );
}

/// A text is at most one variant of each enumeration, whose word it then is.
fn read_word(text: &str) {
    fn check<T: Copy + Debug + Display + PartialEq + Serialize + DeserializeOwned>(
        text: &str,
        all: &[T],
    ) {
        let named: Vec<_> = all
            .iter()
            .filter(|variant| variant.to_string() == text)
            .collect();
        let read = serde_json::from_value::<T>(text.into());
        assert_eq!(read.as_ref().ok(), named.first().copied(), "{text}");
        assert!(named.len() <= 1 && serde_json::from_str::<T>("7").is_err());
        if let Ok(variant) = read {
            assert_eq!(serde_json::to_value(variant).unwrap(), text);
        }
    }
    check(text, &Action::ALL);
    check(text, &Change::ALL);
    check(text, &EventKind::ALL);
    check(text, &Scope::ALL);
    check(text, &SourceKind::ALL);
    check(text, &WaitsFor::ALL);
    check(text, &ProfileRule::ALL);
    check(text, &Phase::ALL);
    check(text, &Signal::ALL);
    check(text, &EvictionType::ALL);
    check(text, &EvictionCause::ALL);
    check(text, &EvictionPolicy::ALL);
    check(text, &Replacement::ALL);
    check(text, &SpotState::ALL);
    check(text, &SpotInput::ALL);
    check(text, &MaxPrice::ALL);
    check(text, &Charges::ALL);
}

/// A machine and its workload, with whatever happens to them.
fn live_on_spot(u: &mut Unstructured<'_>) -> arbitrary::Result<()> {
    // A machine that is evicted for capacity only keeps its place whatever the price.
    for (kind, cause) in EvictionType::ALL
        .into_iter()
        .flat_map(|kind| EvictionCause::ALL.map(|cause| (kind, cause)))
    {
        let keeps = (kind, cause) == (EvictionType::CapacityOnly, EvictionCause::Price);
        assert_eq!(kind.is_evicted_for(cause), !keeps);
    }
    let policy = *u.choose(&EvictionPolicy::ALL)?;
    let (mut state, mut phase) = (None, Phase::Warmup);
    for _ in 0..u.int_in_range(0..=40)? {
        let allocation = Allocation {
            max_price: *u.choose(&MaxPrice::ALL)?,
            has_capacity: u.arbitrary()?,
            policy,
        };
        let input = *u.choose(&SpotInput::ALL)?;
        if let Some(row) = SpotState::after(state, input, allocation) {
            // No machine runs that has neither capacity nor a sufficient price.
            let affordable = allocation.has_capacity && allocation.max_price != MaxPrice::Exceeded;
            assert!(
                row.to != SpotState::Running || affordable || input == SpotInput::Advise,
                "{row:?} {allocation:?}"
            );
            if input == SpotInput::Evict && row.to != SpotState::Running {
                assert_eq!(policy.effect().state, row.to);
            }
            let has_machine = row.to == SpotState::Running;
            assert_eq!(row.to.charges() == Charges::MachineAndDisks, has_machine);
            state = Some(row.to);
        }

        let signal = *u.choose(&Signal::ALL)?;
        if let Some(next) = phase.next(signal) {
            match next {
                Phase::Processing => {
                    assert!(matches!(
                        signal,
                        Signal::WarmedUp | Signal::Withdrawn | Signal::Advised
                    ));
                }
                Phase::Shutdown => assert_eq!((phase, signal), (Phase::Evicted, Signal::Stopped)),
                _ => assert_eq!(
                    next.processes(),
                    signal == Signal::Notice,
                    "{phase} {signal}"
                ),
            }
            phase = next;
        }
    }
    Ok(())
}
