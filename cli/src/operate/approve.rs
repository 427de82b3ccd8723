//! `approve`: reads the announced events, and approves some of them.

use scheduled_events_core::record::EventMembers;
use scheduled_events_core::{Document, Event, EventStatus, EventType, VmNames};

use crate::args::ApproveArgs;
use crate::endpoint::{connect, name_unknown, parse, post, refused, request_document};
use crate::error::CommandError;
use crate::event_filter::EventFilter;
use crate::output::format::{cell, count, names as join_names, printable};
use crate::output::style::GOOD;
use crate::output::{diagnose, is_quiet, print, print_record};
use scheduled_events::imds::{HttpResponse, names_for};
use scheduled_events::limits::NAME_TIMEOUT;
use scheduled_events::record::Record;

pub(crate) fn approve(args: &ApproveArgs) -> Result<(), CommandError> {
    if args.ids.iter().any(|id| id.trim().is_empty()) {
        return Err(CommandError::usage(
            "an ID is empty; `scheduled-events list` shows the ids of events",
        ));
    }
    let imds = connect(&args.service)?;
    let HttpResponse { body, .. } = request_document(&imds)?;
    let document = parse(&imds, &body)?;
    let mut names = args.machine.vm_name.clone();
    if names.is_empty() && document.events().len() > 0 {
        match imds.vm_name(NAME_TIMEOUT) {
            Ok(name) => names.push(name),
            // The machine's name matters for its own events, and for each Terminate.
            Err(why) if !args.others => {
                return Err(name_unknown(
                    &why,
                    "use --vm-name NAME, or --others to approve any machine's events",
                ));
            }
            Err(why) => diagnose(
                "warning",
                &name_unknown(&why, "use --vm-name NAME to approve a Terminate").message,
            ),
        }
    }
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let request = Request {
        document: &document,
        names: names_for(&names, &args.service.api_version),
        args,
    };
    let events = if args.ids.is_empty() {
        request.matching()?
    } else {
        request.named()?
    };

    let event_ids: Vec<_> = events
        .iter()
        .map(|event| event.event_id().to_string())
        .collect();
    let event_ids: Vec<_> = event_ids.iter().map(String::as_str).collect();
    let answer = post(&imds, &event_ids)?;
    let is_approved = (200..300).contains(&answer.status);
    let printed = if args.output.json {
        let events: Vec<_> = events
            .iter()
            .map(|event| EventMembers::from_event(event, request.names))
            .collect();
        let status = Some(answer.status);
        print_record(&Record::Approval {
            event_ids: &event_ids,
            status,
            events: &events,
        })
    } else if is_approved && !is_quiet() {
        let line = |id: &&str| format!("{GOOD}approved{GOOD:#}  {}\n", printable(id));
        print(event_ids.iter().map(line).collect::<String>().as_bytes())
    } else {
        Ok(())
    };
    if is_approved {
        printed
    } else {
        Err(refused(&imds, &answer))
    }
}

/// The events to approve, among the announced ones.
struct Request<'a> {
    document: &'a Document<'a>,
    names: VmNames<'a>,
    args: &'a ApproveArgs,
}

impl<'a> Request<'a> {
    /// The events with the given ids: all of them, or an error that names each that cannot be
    /// approved.
    fn named(&self) -> Result<Vec<Event<'a>>, CommandError> {
        let mut events: Vec<Event<'a>> = Vec::new();
        let mut errors = Vec::new();
        for id in &self.args.ids {
            let Some(event) = self
                .document
                .events()
                .find(|event| event.event_id().eq_ignore_ascii_case(id))
            else {
                errors.push(format!(
                    "no event with the id {id:?} is announced: it is over, cancelled or misspelled \
                     (`scheduled-events list` shows all ids)"
                ));
                continue;
            };
            match self.obstacle(&event) {
                Some(why) => errors.push(format!("event {id} {why}")),
                None if events.iter().any(|known| known.index() == event.index()) => {}
                None => events.push(event),
            }
        }
        if errors.is_empty() {
            return Ok(events);
        }
        Err(CommandError::endpoint(format!(
            "nothing was approved: {}",
            errors.join("; ")
        )))
    }

    /// Why this event, whose id was given, cannot be approved.
    fn obstacle(&self, event: &Event<'_>) -> Option<String> {
        if event.is_advice() {
            return Some("is advice, which no approval affects".into());
        }
        match event.event_status() {
            Some(EventStatus::Scheduled) => {}
            Some(EventStatus::Started) => {
                return Some("has already started, so there is nothing to approve".into());
            }
            Some(status @ (EventStatus::Advisory | EventStatus::Other(_))) => {
                return Some(format!(
                    "has the status {}, not Scheduled",
                    cell(&status.to_string())
                ));
            }
            None => return Some("has no readable status, so it cannot be approved".into()),
        }
        let machines = || join_names(event.resources().iter());
        match (self.names.owns(event), event.event_type()) {
            (Some(true), _) => None,
            (_, Some(EventType::Terminate)) => Some(format!(
                "is a Terminate of {}, not of this machine: each machine approves its own deletion",
                machines()
            )),
            (_, None) => Some("has no readable type, and may delete another machine".into()),
            _ if self.args.others => None,
            _ => Some(format!(
                "affects {}, not this machine: --others approves it",
                machines()
            )),
        }
    }

    /// The events that `--mine` and `--type` select: at least one, or an error.
    fn matching(&self) -> Result<Vec<Event<'a>>, CommandError> {
        let filter = EventFilter {
            mine: !self.args.others,
            types: self.args.types.clone(),
            ongoing: false,
        };
        let mut started = 0;
        let mut events = Vec::new();
        for event in self
            .document
            .events()
            .filter(|event| filter.matches(event, self.names))
        {
            let id = printable(&event.event_id().to_string());
            if event.event_status() == Some(EventStatus::Started) {
                started += 1;
            } else if let Some(member) = event.unreliable_member() {
                let advice = if self.obstacle(&event).is_none() {
                    "; approve it by its id if it is right"
                } else {
                    ""
                };
                diagnose(
                    "warning",
                    &format!("left out event {id}: its {member} cannot be read{advice}"),
                );
            } else if let Some(why) = self.obstacle(&event) {
                diagnose("warning", &format!("left out event {id}: it {why}"));
            } else {
                events.push(event);
            }
        }
        if !events.is_empty() {
            return Ok(events);
        }
        let started = match started {
            0 => String::new(),
            started => format!("; {} already started", count(started, "such event")),
        };
        Err(CommandError::endpoint(format!(
            "nothing was approved: no event{} waits for approval{started}",
            filter.describe()
        )))
    }
}
