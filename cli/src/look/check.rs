//! `check`: validates a saved document and shows the policy's decisions, or prints the policy as
//! source code. It never uses the network.

use std::fs;
use std::io::{self, Read};
use std::path::Path;

use scheduled_events_core::Document;

use crate::api_version::policy_warning;
use crate::args::{CheckArgs, Language};
use crate::error::CommandError;
use crate::event_filter::EventFilter;
use crate::look::document::Listing;
use crate::look::policy_source;
use crate::output::format::now;
use crate::output::{diagnose, print};
use scheduled_events::imds::names_for;
use scheduled_events::policy_file;

pub(crate) fn check(args: &CheckArgs) -> Result<(), CommandError> {
    let policy = policy_file::load(&args.policy.policy).map_err(CommandError::usage)?;
    if let Some(Language::C) = args.r#as {
        return print(policy_source::c_header(&policy).as_bytes());
    }
    let (name, body) = read(&args.file)?;
    let document = Document::parse(&body).map_err(|error| {
        CommandError::document(format!(
            "{name}:{}: {}",
            error.position(&body),
            error.message()
        ))
    })?;
    if let Some(warning) = policy_warning(&policy, &args.api_version) {
        diagnose("warning", &warning);
    }
    let names: Vec<_> = args.vm_name.iter().map(String::as_str).collect();
    if names.is_empty() && document.events().len() > 0 {
        diagnose(
            "warning",
            "this machine's name is unknown, so all events are held; use --vm-name NAME",
        );
    }
    let names = names_for(&names, &args.api_version);
    let now = args.now.unwrap_or_else(now);
    let decisions = document
        .events_for(names)
        .map(|event| policy.decide(&event, names, now))
        .collect();
    let filter = EventFilter::default();
    Listing {
        document: &document,
        body: &body,
        names,
        now,
        decisions: Some(decisions),
        filter,
    }
    .print(args.output.json)
}

/// Reads the input, and returns it with its name for messages.
fn read(file: &Path) -> Result<(String, Vec<u8>), CommandError> {
    let (name, read) = if file == Path::new("-") {
        let mut body = Vec::new();
        (
            "<stdin>".to_owned(),
            io::stdin().lock().read_to_end(&mut body).map(|_| body),
        )
    } else {
        (file.display().to_string(), fs::read(file))
    };
    let body = read.map_err(|error| CommandError::usage(format!("cannot read {name}: {error}")))?;
    Ok((name, body))
}
