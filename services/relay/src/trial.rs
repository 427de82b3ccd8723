//! A message to each target, for an operator who sets it up: sent once, and whether the target accepts it is printed.
//!
//! It is the announcement of an event and its end, as any other, since a target may show or open something only for those. Its
//! description says that it is a test. Neither the audit file nor a saved position is used.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use scheduled_events_core::UnixSeconds;
use scheduled_events_core::record::Printable;
use scheduled_events_text::finding::Finding;
use serde_json::json;

use crate::audit::{Line, Position};
use crate::config::TargetConfig;
use crate::error::RelayError;
use crate::events::OpenEvents;
use crate::file::RelayFile;
use crate::record::Record;
use crate::targets::{self, Item};
use crate::transport::{Outcome, Transport};
use scheduled_events_common::random::part_of;

/// The description of the event.
const ABOUT: &str = "A test of the relay of scheduled-events: nothing is announced.";

/// Sends the message to each target, and returns what each answered, in their order.
///
/// # Errors
/// A target's settings cannot be used.
pub async fn send_to_all(
    file: &RelayFile,
    machine: &str,
) -> Result<Vec<Finding<String>>, RelayError> {
    let mut findings = Vec::new();
    for config in &file.relay.targets {
        let check = format!("target {}", Printable(config.name.get_ref()));
        findings.push(match send(config, file, machine).await? {
            None => Finding::ok(check, "accepted the message"),
            Some(why) => Finding::fail(
                check,
                format!("did not accept the message: {why}"),
                "correct the target, or let it accept messages of this machine",
            ),
        });
    }
    Ok(findings)
}

async fn send(
    config: &TargetConfig,
    file: &RelayFile,
    machine: &str,
) -> Result<Option<String>, RelayError> {
    let failed = |error| RelayError::Target {
        name: config.name.get_ref().clone(),
        error,
    };
    let target = targets::open(config, machine).map_err(failed)?;
    let mut transport =
        Transport::new(config.ca.as_deref(), &file.metadata, &file.relay).map_err(failed)?;
    let mut events = OpenEvents::default();
    for record in records(machine) {
        let event = events.apply(&record);
        let requests = match target.requests(&[Item { record, event }]) {
            Ok(requests) => requests,
            Err(error) => return Ok(Some(error.to_string())),
        };
        for request in &requests {
            let classify = |status, body: &str| target.classify(status, body);
            match transport.send(request, classify).await {
                Outcome::Accepted => {}
                Outcome::Later(reason, _) | Outcome::Rejected(reason) => return Ok(Some(reason)),
            }
            tokio::time::sleep(target.pause()).await;
        }
    }
    Ok(None)
}

/// The announcement of an event that is none, and its end.
fn records(machine: &str) -> [Record; 2] {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.map_or(0, |time| i64::try_from(time.as_secs()).unwrap_or_default());
    // So that a second test is not taken for the first one.
    let number = part_of(Duration::from_secs(3600)).as_micros();
    let id = format!("test-{now}-{number}");
    ["scheduled", "cancelled"].map(|change| {
        let text = json!({
            "record": "change",
            "change": change,
            "event_id": id,
            "event_type": "Freeze",
            "event_status": "Scheduled",
            "resource_type": "VirtualMachine",
            "resources": [machine],
            "not_before": UnixSeconds(now + 900),
            "description": ABOUT,
            "event_source": "User",
            "duration_in_seconds": 0,
            "mine": true,
            "time": UnixSeconds(now),
            "machine": machine,
            "sequence": 0,
        })
        .to_string();
        Record::new(&Line {
            position: Position {
                sequence: 0,
                digest: format!("{id}-{change}"),
            },
            text,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_message_opens_an_event_and_ends_it_and_says_that_it_is_a_test() {
        let mut events = OpenEvents::default();
        let [announced, over] = records("web_0");
        assert!(
            announced
                .text("description")
                .is_some_and(|text| text == ABOUT)
        );
        assert!(events.apply(&announced).is_some() && !events.is_empty());
        assert!(over.is_end() && events.apply(&over).is_some() && events.is_empty());
        assert_ne!(announced.id, over.id);
    }
}
