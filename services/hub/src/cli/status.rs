//! `status`: the machines that have an open event or are out of service, and what each waits for.
//!
//! It reads the registers of the active hub, from this machine's folder or from the store, and
//! sends no other request.

use std::path::Path;

use scheduled_events::record::{EventRecord, write_json};
use scheduled_events_common::failure::Failure;
use scheduled_events_common::output::{output_width, print};
use scheduled_events_common::table::Table;
use scheduled_events_core::record::Printable;
use scheduled_events_core::{UnixSeconds, VmNames};
use serde::Serialize;

use crate::config::Config;
use crate::notice::{EventKey, group_of, with_notification};
use crate::store::{Saved, SavedEvent, look};

/// A machine, for programs.
#[derive(Serialize)]
struct MachineStatus<'a> {
    record: &'static str,
    resource_id: &'a str,
    machine: &'a str,
    location: &'a str,
    zone: &'a str,
    has_agent: bool,
    in_service: bool,
    since: Option<UnixSeconds>,
    events: Vec<EventRecord>,
    waits_for: &'a [String],
}

pub(super) async fn status(file: &Path, json: bool) -> Result<(), Failure> {
    let config = Config::load(file).map_err(Failure::usage)?;
    if config.store.is_none() && matches!(config.state.try_exists(), Ok(false)) {
        let state = config.state.display();
        return Err(Failure::refused(format!(
            "no hub has run with this configuration yet: the folder {state} of `state` does not exist"
        )));
    }
    let (mut machines, problems) = look(&config).await.map_err(Failure::refused)?;
    machines.sort_by(|one, other| one.machine.resource_id.cmp(&other.machine.resource_id));
    if json {
        let mut lines = Vec::new();
        for saved in &machines {
            // Writing to memory does not fail.
            let _ = write_json(&of(saved), &mut lines);
        }
        print(&String::from_utf8_lossy(&lines))?;
    } else if !machines.is_empty() {
        print(&table(&machines))?;
    } else if problems.is_empty() {
        print("no open events, all machines are in service\n")?;
    }
    if problems.is_empty() {
        Ok(())
    } else {
        Err(Failure::refused(problems.join("; ")))
    }
}

fn table(machines: &[Saved]) -> String {
    let mut table = Table::new(&["MACHINE", "GROUP", "SERVICE", "EVENT", "TYPE", "WAITS FOR"]);
    for saved in machines {
        let text = |text: &str| Printable(text).to_string();
        let service = match (saved.machine.has_agent, saved.out_of_service_since) {
            (true, _) => "agent",
            (false, Some(_)) => "out",
            (false, None) => "in",
        };
        let group = text(group_of(&saved.machine.resource_id));
        for (index, event) in events(saved).iter().enumerate() {
            table.row([
                text(&saved.machine.name),
                group.clone(),
                service.to_owned(),
                text(&event.event_id),
                text(event.event_type.as_deref().unwrap_or_default()),
                saved
                    .waits_for
                    .get(index)
                    .map_or_else(String::new, |word| text(word)),
            ]);
        }
    }
    let mut lines = String::new();
    table.write_within(output_width(), &mut lines, "no open events");
    lines
}

fn of(saved: &Saved) -> MachineStatus<'_> {
    MachineStatus {
        record: "machine",
        resource_id: &saved.machine.resource_id,
        machine: &saved.machine.name,
        location: &saved.machine.location,
        zone: &saved.machine.zone,
        has_agent: saved.machine.has_agent,
        in_service: saved.out_of_service_since.is_none(),
        since: saved.out_of_service_since.map(UnixSeconds),
        events: events(saved),
        waits_for: &saved.waits_for,
    }
}

fn events(saved: &Saved) -> Vec<EventRecord> {
    let record = |event: &SavedEvent| {
        with_notification(
            &event.message,
            &EventKey::new(&event.resource_id, &event.key),
            |notification| {
                EventRecord::new(notification.event(), VmNames::new(&[&saved.machine.name]))
            },
        )
    };
    // A message that is too long for a register is not in it.
    let unknown = |event: &SavedEvent| EventRecord {
        event_id: event.key.clone(),
        ..EventRecord::default()
    };
    saved
        .events
        .iter()
        .map(|event| record(event).unwrap_or_else(|| unknown(event)))
        .collect()
}
