//! `events`: the announced events of all machines, from Resource Graph.

use std::error::Error;
use std::path::Path;
use std::time::Duration;

use scheduled_events::clock::Clock;
use scheduled_events::record::{Record, write_json};
use scheduled_events_common::failure::Failure;
use scheduled_events_common::log;
use scheduled_events_common::output::{moment, output_width, print};
use scheduled_events_common::table::Table;
use scheduled_events_core::record::Printable;
use scheduled_events_core::{EventKind, UnixSeconds};
use serde::Serialize;

use super::access::{Access, AccessArgs};
use crate::azure::graph::Events;
use crate::notice::{self, Notice, Notices, group_of};

/// The maximum number of machines' names in a row of the table.
const NAMES_SHOWN: usize = 3;

#[derive(clap::Args)]
#[allow(clippy::doc_markdown)] // The doc comments are help texts for terminals.
pub(super) struct EventsArgs {
    #[command(flatten)]
    access: AccessArgs,
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
    /// Show events that are over as well, as long as Azure keeps them
    #[arg(long)]
    history: bool,
    /// Only events of this resource group
    #[arg(long, value_name = "NAME")]
    group: Option<String>,
    /// Only events of these types, separated by commas
    #[arg(long = "type", value_name = "TYPES", value_delimiter = ',', value_parser = event_type)]
    types: Vec<&'static str>,
    /// Only events in these states, separated by commas: scheduled, advisory, started, completed, canceled
    #[arg(long = "state", value_name = "STATES", value_delimiter = ',', value_parser = ["scheduled", "advisory", "started", "completed", "canceled"])]
    states: Vec<String>,
    /// Only events that may start within this time, such as 2h, or have started
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration, allow_hyphen_values = true)]
    within: Option<Duration>,
}

fn event_type(text: &str) -> Result<&'static str, Box<dyn Error + Send + Sync>> {
    let kinds = EventKind::ALL.map(EventKind::word);
    let found = kinds
        .into_iter()
        .find(|kind| kind.eq_ignore_ascii_case(text));
    found.ok_or_else(|| format!("found {text:?}, expected one of {}", kinds.join(", ")).into())
}

/// A record of an event outside its machine.
#[derive(Serialize)]
struct EventOutside<'a> {
    #[serde(flatten)]
    record: Record<'a>,
    state: &'a str,
    resource_id: &'a str,
    machines: Vec<&'a str>,
    location: &'a str,
    zone: &'a str,
}

pub(super) async fn events(file: Option<&Path>, arguments: &EventsArgs) -> Result<(), Failure> {
    let access = Access::new(file, &arguments.access)?;
    let wants_ended = arguments
        .states
        .iter()
        .any(|state| state == "completed" || state == "canceled");
    let events = if arguments.history || wants_ended {
        Events::All
    } else {
        Events::Open
    };
    let found = ask(&access, events).await?.notices;
    // The answer has shown Azure's time, by which events start.
    let own = Clock::start().time_of_day();
    let now = access.arm.time_unlike(own).unwrap_or(own).seconds();
    let found: Vec<_> = found
        .into_iter()
        .filter(|notice| arguments.wants(notice, now))
        .collect();
    if arguments.json {
        let mut lines = Vec::new();
        for notice in &found {
            let names = notice.event.resource_names();
            let record = EventOutside {
                record: Record::Event {
                    event: notice.event.members(names.as_deref()),
                },
                state: &notice.state,
                resource_id: &notice.resource_id,
                machines: notice.machines.iter().map(|(id, _)| id.as_str()).collect(),
                location: &notice.location,
                zone: &notice.zone,
            };
            // Writing to memory does not fail.
            let _ = write_json(&record, &mut lines);
        }
        return print(&String::from_utf8_lossy(&lines));
    }
    print(&lines(&found, now))
}

/// The events of all subscriptions, earliest start first. Rows that cannot be read are logged.
pub(super) async fn ask(access: &Access, events: Events<'_>) -> Result<Notices, Failure> {
    let pages = access
        .arm
        .query(&access.subscriptions, &events.query())
        .await;
    let pages =
        pages.map_err(|error| Failure::refused(format!("cannot ask Resource Graph: {error}")))?;
    let mut found = Notices::default();
    for page in pages {
        let read = notice::read(page.as_bytes());
        let read = read.map_err(|why| {
            Failure::refused(format!("Resource Graph answers with a row that {why}"))
        })?;
        for problem in &read.problems {
            log::printable(&format!("warning: {problem}"));
        }
        found.notices.extend(read.notices);
        found.problems.extend(read.problems);
    }
    found.notices.sort_by_key(|notice| {
        (
            notice.is_end,
            notice.event.not_before.map_or(i64::MIN, |at| at.0),
        )
    });
    Ok(found)
}

impl EventsArgs {
    fn wants(&self, notice: &Notice, now: UnixSeconds) -> bool {
        let group = group_of(&notice.resource_id);
        let event_type = notice.event.event_type.as_deref().unwrap_or_default();
        let is_near = |within: Duration| {
            let left = notice.event.not_before.map_or(0, |at| at.since(now));
            left <= i64::try_from(within.as_secs()).unwrap_or(i64::MAX)
        };
        self.group
            .as_deref()
            .is_none_or(|wanted| wanted.eq_ignore_ascii_case(group))
            && (self.types.is_empty() || self.types.contains(&event_type))
            && (self.states.is_empty() || self.states.contains(&notice.state))
            && self.within.is_none_or(is_near)
    }
}

fn lines(found: &[Notice], now: UnixSeconds) -> String {
    let mut table = Table::new(&["TYPE", "STATE", "NOT BEFORE", "GROUP", "MACHINES", "EVENT"]);
    for notice in found {
        let text = |text: Option<&str>| Printable(text.unwrap_or_default()).to_string();
        let names: Vec<_> = notice
            .machines
            .iter()
            .take(NAMES_SHOWN)
            .map(|(_, name)| name.as_str())
            .collect();
        let more = notice.machines.len() - names.len();
        let more = if more > 0 {
            format!(" and {more} more")
        } else {
            String::new()
        };
        table.row([
            text(notice.event.event_type.as_deref()),
            text(Some(&notice.state)),
            notice
                .event
                .not_before
                .map_or(String::new(), |at| moment(at, now)),
            text(Some(group_of(&notice.resource_id))),
            text(Some(&names.join(", "))) + &more,
            text(Some(&notice.event.event_id)),
        ]);
    }
    let mut lines = String::new();
    table.write_within(output_width(), &mut lines, "no events");
    lines
}
