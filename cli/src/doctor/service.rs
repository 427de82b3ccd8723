//! The metadata service: whether it answers this process, its versions, its clock, and this
//! machine's name.

use std::time::{Duration, Instant, SystemTime};

use scheduled_events::imds::{HttpResponse, Imds, RequestFailure};
use scheduled_events::limits::{CLOCK_DEVIATION_MIN, NAME_TIMEOUT};
use scheduled_events::watch::Poller;
use scheduled_events_core::{Cause, Document};
use serde_json::Value;

use super::check::{Check, Finding};
use super::name::{differs, is_named};
use crate::args::{MachineArgs, ServiceArgs};
use crate::endpoint::{FIRST_TIMEOUT, connect, patiently};
use crate::output::format::count;

/// A version that no service has: the refusal names those that it has.
const NO_VERSION: &str = "1970-01-01";

/// Variables by which other programs use a proxy.
const PROXY_VARIABLES: [&str; 6] = [
    "http_proxy",
    "HTTP_PROXY",
    "https_proxy",
    "HTTPS_PROXY",
    "all_proxy",
    "ALL_PROXY",
];

/// Asks the service for a document, its versions, and what it knows about this machine.
pub(super) fn check_service(service: &ServiceArgs, machine: &MachineArgs) -> Vec<Finding> {
    let imds = match connect(service) {
        Ok(imds) => imds,
        Err(error) => {
            let failed = Finding::fail(Check::Service, error.message, "correct --endpoint");
            return vec![failed, unknown(Check::Name), unknown(Check::Clock)];
        }
    };
    let started = Instant::now();
    let version = imds.api_version().to_owned();
    let mut poller = Poller::new(&imds);
    let answer = patiently(&mut poller, &version, &version, FIRST_TIMEOUT, &mut |_| ()).answer;
    let time = started.elapsed();
    let mut findings = vec![answered(&imds, answer.as_ref(), time)];
    match &answer {
        Ok(answer) => findings.push(clock(answer.date, SystemTime::now(), time)),
        Err(_) => findings.push(unknown(Check::Clock)),
    }
    if let Err(failure) = &answer
        && failure.cause != Cause::TooLarge
    {
        findings.push(unknown(Check::Name));
    } else {
        findings.extend(name(&imds, &machine.vm_name));
    }
    findings
}

fn unknown(check: Check) -> Finding {
    Finding::warn(
        check,
        "unknown: the metadata service does not answer",
        "see service",
    )
}

/// Whether documents arrive.
fn answered(
    imds: &Imds,
    answer: Result<&HttpResponse, &RequestFailure>,
    time: Duration,
) -> Finding {
    let endpoint = imds.endpoint();
    let fail = |found: String, advice: &str| Finding::fail(Check::Service, found, advice);
    let answer = match answer {
        Ok(answer) => answer,
        Err(failure) => {
            let advice = match failure.cause {
                Cause::Unreachable => {
                    "a firewall or a route on this machine refuses it, or this is no machine in Azure"
                }
                Cause::Timeout => {
                    "a firewall or a route on this machine drops the requests: look at its rules for 169.254.169.254"
                }
                _ => {
                    "something else answers at this address, or the service is being updated: try again"
                }
            };
            let found = format!(
                "{endpoint} does not answer: {} ({}) after {}",
                failure.cause,
                failure.detail,
                in_words(time)
            );
            return fail(found, advice);
        }
    };
    let status = answer.status;
    if status != 200 {
        let reason = answer.error_message("--api-version");
        let colon = if reason.is_empty() { "" } else { ": " };
        let found = format!("{endpoint} refuses with status {status}{colon}{reason}");
        let advice = match status {
            400 => "leave --api-version out, or write one that the service has",
            401 | 403 => {
                "the Metadata Security Protocol is enforced here: add this program to its allowlist, for the user that runs it"
            }
            404 | 410 => {
                "this service has no scheduled events: is it another program's, or an old one?"
            }
            _ => "try again in a minute",
        };
        return fail(found, advice);
    }
    let events = match Document::parse(&answer.body) {
        Ok(document) => document.events().len(),
        Err(error) => {
            let found = format!(
                "{endpoint} sent no document: {}: {}",
                error.position(&answer.body),
                error.message()
            );
            return fail(found, "try again in a minute");
        }
    };
    let version = imds.api_version();
    let mut found = format!(
        "{endpoint} answered in {}, API version {version}, {}",
        in_words(time),
        count(events, "event")
    );
    let newest = newest_versions(imds);
    if !newest.is_empty() {
        found = format!("{found}; the newest that it has are {}", newest.join(", "));
    }
    Finding::ok(Check::Service, found)
}

/// The versions that the service names when it is asked for one that it does not have.
fn newest_versions(imds: &Imds) -> Vec<String> {
    let answer = imds.events_in(NO_VERSION, NAME_TIMEOUT);
    let body = answer.map(|answer| answer.body).unwrap_or_default();
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    let versions = body["newest-versions"].as_array().into_iter().flatten();
    versions
        .filter_map(|version| version.as_str().map(str::to_owned))
        .take(5)
        .collect()
}

/// This machine's clock beside the service's, which has whole seconds.
fn clock(service: Option<SystemTime>, own: SystemTime, time: Duration) -> Finding {
    let Some(service) = service else {
        let found = "unknown: the answers have no Date";
        return Finding::warn(
            Check::Clock,
            found,
            "compare `date -u` with another machine",
        );
    };
    // The answer may be as old as the request, and its second has begun before it.
    let tolerance = CLOCK_DEVIATION_MIN + time;
    let deviates = |found: String| {
        let advice = "synchronise it, as with chrony; events are handled by the service's clock, but records, hooks and other programs are not";
        Finding::warn(Check::Clock, found, advice)
    };
    match own.duration_since(service) {
        Ok(ahead) if ahead > tolerance + Duration::from_secs(1) => deviates(format!(
            "{} s ahead of the metadata service's",
            ahead.as_secs()
        )),
        Err(error) if error.duration() > CLOCK_DEVIATION_MIN => deviates(format!(
            "{} s behind the metadata service's",
            error.duration().as_secs()
        )),
        _ => Finding::ok(Check::Clock, "as the metadata service's"),
    }
}

/// The name by which events count as this machine's, and what the machine is.
fn name(imds: &Imds, given: &[String]) -> Vec<Finding> {
    let known = match imds.vm_name(NAME_TIMEOUT) {
        Ok(known) => known,
        Err(error) if given.is_empty() => {
            let found = format!("the metadata service does not have it: {error}");
            return vec![Finding::fail(Check::Name, found, "add --vm-name NAME")];
        }
        Err(error) => {
            let found = format!(
                "{}, as --vm-name has it; the metadata service does not: {error}",
                given.join(", ")
            );
            let advice = "compare it with the Resources of an event";
            return vec![Finding::warn(Check::Name, found, advice)];
        }
    };
    let about = about_machine(&compute(imds), &known);
    if is_named(given, &known) {
        return vec![Finding::ok(Check::Name, format!("{known}: {about}"))];
    }
    vec![
        Finding::fail(Check::Name, differs(given, &known), "leave --vm-name out"),
        Finding::ok(Check::Name, about),
    ]
}

fn compute(imds: &Imds) -> Value {
    imds.compute(NAME_TIMEOUT)
        .ok()
        .and_then(|text| serde_json::from_str(&text).ok())
        .unwrap_or_default()
}

/// How Resources name the machine, and what of it decides about its events.
fn about_machine(compute: &Value, name: &str) -> String {
    let text = |member: &str| compute[member].as_str().unwrap_or_default();
    let set = text("vmScaleSetName");
    let number = name
        .strip_prefix(set)
        .and_then(|rest| rest.strip_prefix('_'))
        .filter(|_| !set.is_empty());
    let is_number = number.is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_digit()));
    let flexible = compute["virtualMachineScaleSet"]["id"]
        .as_str()
        .and_then(|id| id.rsplit('/').next())
        .filter(|set| !set.is_empty());
    let kind = if is_number {
        format!(
            "instance of the uniform scale set {set}; Resources have the set's name and a number"
        )
    } else if let Some(set) = flexible.or(Some(set).filter(|set| !set.is_empty())) {
        format!("instance of the flexible scale set {set}; Resources have the machine's own name")
    } else {
        "single machine; Resources have its name".to_owned()
    };
    match (text("priority"), text("evictionPolicy")) {
        ("Spot", "Delete") => format!("{kind}; Spot, deleted when it is evicted"),
        ("Spot", "Deallocate") => format!("{kind}; Spot, deallocated when it is evicted"),
        ("Spot", _) => format!("{kind}; Spot"),
        ("" | "Regular", _) if compute["priority"].is_string() => {
            format!("{kind}; not a Spot machine")
        }
        _ => kind,
    }
}

/// Proxies in the environment.
pub(super) fn check_proxies() -> Finding {
    let is_set = |name: &&str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let set: Vec<_> = PROXY_VARIABLES.into_iter().filter(is_set).collect();
    if set.is_empty() {
        return Finding::ok(Check::Proxy, "none in the environment");
    }
    Finding::warn(
        Check::Proxy,
        format!(
            "{} in the environment: not used here, but hooks inherit it",
            set.join(", ")
        ),
        "set no_proxy=169.254.169.254 for hooks that ask the metadata service",
    )
}

fn in_words(time: Duration) -> String {
    match time.as_millis() {
        millis if millis < 10_000 => format!("{millis} ms"),
        millis => format!("{} s", millis / 1000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use scheduled_events_text::finding::Outcome;
    use serde_json::json;

    #[test]
    fn a_clock_that_deviates_is_found_both_ways() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        let (second, minutes) = (Duration::from_secs(1), Duration::from_secs(600));
        let checked = |service, time| clock(Some(service), now, time);
        for service in [now, now - second, now + second] {
            assert_eq!(checked(service, second).outcome, Outcome::Ok);
        }
        let ahead = checked(now - minutes, second);
        assert_eq!(
            (ahead.outcome, ahead.found.as_str()),
            (Outcome::Warn, "600 s ahead of the metadata service's")
        );
        let behind = checked(now + minutes, second);
        assert_eq!(
            (behind.outcome, behind.found.as_str()),
            (Outcome::Warn, "600 s behind the metadata service's")
        );
        // An answer that takes a minute may be a minute old.
        assert_eq!(checked(now - second * 60, second * 60).outcome, Outcome::Ok);
        assert_eq!(clock(None, now, second).outcome, Outcome::Warn);
    }

    #[test]
    fn the_kind_of_machine_is_in_words() {
        for (compute, name, expected) in [
            (json!({}), "db", "single machine; Resources have its name"),
            (
                json!({"vmScaleSetName": "web"}),
                "web_12",
                "instance of the uniform scale set web; Resources have the set's name and a number",
            ),
            (
                json!({"vmScaleSetName": "web"}),
                "web_a1b2c3d4",
                "instance of the flexible scale set web; Resources have the machine's own name",
            ),
            (
                json!({"vmScaleSetName": "", "virtualMachineScaleSet": {"id": "/subscriptions/x/virtualMachineScaleSets/flex"}}),
                "flex_0a1b",
                "instance of the flexible scale set flex; Resources have the machine's own name",
            ),
            (
                json!({"priority": "Spot", "evictionPolicy": "Delete"}),
                "db",
                "single machine; Resources have its name; Spot, deleted when it is evicted",
            ),
            (
                json!({"priority": "", "evictionPolicy": ""}),
                "db",
                "single machine; Resources have its name; not a Spot machine",
            ),
            (
                json!({"priority": "Regular"}),
                "db",
                "single machine; Resources have its name; not a Spot machine",
            ),
        ] {
            assert_eq!(about_machine(&compute, name), expected);
        }
    }
}
