//! `check`: validates a saved document and shows the policy's decisions, prints what a policy or a
//! configuration does in words, or the policy as source code. It never uses the network.

use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::path::Path;

use scheduled_events_core::{Document, Policy};

use crate::api_version::policy_warning;
use crate::args::{CheckArgs, Language, WatchArgs};
use crate::config::{load_policy, watch_args};
use crate::error::CommandError;
use crate::event_filter::EventFilter;
use crate::look::document::Listing;
use crate::look::policy_source;
use crate::output::format::{now, printable};
use crate::output::style::{BOLD, DIM, PLAIN};
use crate::output::table::Table;
use crate::output::terminal;
use crate::output::{diagnose, print};
use crate::own_files::check_files;
use crate::platform;
use crate::policy_words::PolicyWords;
use crate::watch::warn;
use scheduled_events::files::read_bounded;
use scheduled_events::hooks::CommandLine;
use scheduled_events::imds::names_for;
use scheduled_events::limits::BODY_MAX;
use scheduled_events::policy_file;

pub(crate) fn check(args: &CheckArgs) -> Result<(), CommandError> {
    let config = args.config_file.as_deref();
    if config.is_some() && args.policy.is_some() {
        let message = "--config and --policy both have a policy; leave out one of them";
        return Err(CommandError::usage(message));
    }
    let watch = config.map(watch_args).transpose()?;
    let policy = if let Some(watch) = &watch {
        load_policy(&watch.policy.policy, &watch.config)?
    } else {
        let name = args.policy.as_deref().unwrap_or("observe");
        policy_file::load(name).map_err(CommandError::usage)?
    };
    if let Some(Language::C) = args.r#as {
        return print(policy_source::c_header(&policy).as_bytes());
    }
    let Some(file) = document(args) else {
        return describe(args, watch.as_ref(), &policy);
    };
    let (name, body) = read(file)?;
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
    let of_file = watch.as_ref().map(|watch| &watch.machine.vm_name);
    let names = of_file.filter(|_| args.vm_name.is_empty());
    let names = names.unwrap_or(&args.vm_name).iter();
    let names: Vec<_> = names.map(String::as_str).collect();
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

/// The document to check, if there is one: with a configuration only a file that is named, with a policy also a file or a pipe
/// on standard input.
fn document(args: &CheckArgs) -> Option<&Path> {
    if let Some(file) = &args.file {
        return Some(file);
    }
    let is_terminal = io::stdin().is_terminal();
    let describes = args.config_file.is_some()
        || args.policy.is_some() && (is_terminal || platform::is_stdin_null());
    if describes && !args.output.json {
        return None;
    }
    if is_terminal {
        diagnose(
            "note",
            "waiting for a document on standard input; for the rules alone use --policy or --config",
        );
    }
    Some(Path::new("-"))
}

/// Prints what the policy does, and what a watcher runs, in words.
fn describe(
    args: &CheckArgs,
    watch: Option<&WatchArgs>,
    policy: &Policy,
) -> Result<(), CommandError> {
    let has_gate = watch.is_some_and(|watch| watch.gate.is_some());
    let prepares = watch.map(|watch| watch.prepare.is_some());
    let mut text = Vec::new();
    // Writing to memory does not fail.
    let _ = write_words(
        &mut text,
        &PolicyWords::new(policy, has_gate, prepares),
        watch,
    );
    print(&text)?;
    match watch {
        Some(watch) => {
            check_files(watch)?;
            warn(watch, policy);
        }
        None => {
            if let Some(warning) = policy_warning(policy, &args.api_version) {
                diagnose("warning", &warning);
            }
        }
    }
    Ok(())
}

fn write_words(
    output: &mut impl Write,
    words: &PolicyWords,
    watch: Option<&WatchArgs>,
) -> io::Result<()> {
    let width = terminal::output_width();
    words.write(&mut *output, width)?;
    let Some(watch) = watch else { return Ok(()) };
    writeln!(output, "\n{BOLD}Commands{BOLD:#}, run without a shell")?;
    let mut table = Table::default();
    let mut row = |name: String, command: Option<&CommandLine>| {
        let (words, style) = match command {
            Some(command) => (printable(&format!("{:?}", command.words())), PLAIN),
            None => ("not set".to_owned(), DIM),
        };
        table.row([(format!("  {name}"), PLAIN), (words, style)]);
    };
    row("prepare".to_owned(), watch.prepare.as_ref());
    row("recover".to_owned(), watch.recover.as_ref());
    row("gate".to_owned(), watch.gate.as_ref());
    for (change, command) in &watch.on {
        row(format!("on {change}"), Some(command));
    }
    table.print(output, width)
}

/// Reads the input, and returns it with its name for messages.
fn read(file: &Path) -> Result<(String, Vec<u8>), CommandError> {
    let (name, read) = if file == Path::new("-") {
        let body = read_bounded(io::stdin().lock(), BODY_MAX);
        ("<stdin>".to_owned(), body)
    } else {
        let body = File::open(file).and_then(|file| read_bounded(file, BODY_MAX));
        (file.display().to_string(), body)
    };
    let body = read.map_err(|error| CommandError::usage(format!("cannot read {name}: {error}")))?;
    Ok((name, body))
}
