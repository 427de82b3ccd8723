//! `list`: polls once and prints the announced events.

use scheduled_events::imds::{AUTO_API_VERSION, HttpResponse, names_for};
use scheduled_events::limits::NAME_TIMEOUT;

use super::document::Listing;
use crate::args::ListArgs;
use crate::endpoint::{
    connect, name_unknown, parse, request_document, request_with_advice, time_of_day_by,
    warn_of_missing_types,
};
use crate::error::CommandError;
use crate::event_filter::EventFilter;
use crate::output::diagnose;

pub(crate) fn list(args: &ListArgs) -> Result<(), CommandError> {
    let imds = connect(&args.service)?;
    warn_of_missing_types(&[], &args.service);
    // Whoever looks wants to see all that there is.
    let HttpResponse { body, date, .. } = if args.service.api_version == AUTO_API_VERSION {
        request_with_advice(&imds)?
    } else {
        request_document(&imds)?
    };
    let document = parse(&imds, &body)?;
    let mut names: Vec<String> = args.machine.vm_name.clone();
    if names.is_empty() && document.events().len() > 0 {
        match imds.vm_name(NAME_TIMEOUT) {
            Ok(name) => names.push(name),
            Err(why) if args.mine => return Err(name_unknown(&why, "use --vm-name NAME")),
            Err(why) => diagnose(
                "warning",
                &name_unknown(&why, "use --vm-name NAME to mark its events").message,
            ),
        }
    }
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let names = names_for(&names, &args.service.api_version);
    let filter = EventFilter {
        mine: args.mine,
        ..EventFilter::default()
    };
    Listing {
        document: &document,
        body: &body,
        names,
        now: time_of_day_by(date),
        decisions: None,
        filter,
    }
    .print(args.output.json)
}
