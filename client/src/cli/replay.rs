//! `replay` and `scenarios`: Azure's metadata service, imitated.

use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::sync::mpsc;

use super::Failure;
use super::look::{self, BOLD, DIM, PLAIN, Table, shown};
use super::options::{Replay, Scenarios};
use crate::record::Record;
use crate::replay::{ReplayEvent, Scenario, Server, ServerConfig};

pub(super) fn replay(options: Replay) -> Result<(), Failure> {
    let scenario = load(&options.scenario)?;
    let (observer, events) = mpsc::channel();
    let mut config = ServerConfig::new(scenario).listen(options.listen).speed(options.speed).vm_name(options.vm_name);
    config = config.observer(observer);
    for fault in options.fault {
        config = config.fault(fault);
    }
    let server = Server::start(config).map_err(|error| {
        let advice = match error.kind() {
            io::ErrorKind::AddrInUse => "; another program listens there, and port 0 takes a free one",
            _ => "",
        };
        Failure::usage(format!("cannot listen on {}: {error}{advice}", options.listen))
    })?;
    look::say(&format!("listening on {}\n", server.url()));
    for event in events {
        // A poll a second is no news; what goes wrong with one is.
        let dull = matches!(&event, ReplayEvent::Answered { method, status: Some(200 | 304), faults, .. }
            if method == "GET" && faults.is_empty());
        if !dull {
            look::say(&format!("{}\n", shown(&event.to_string())));
        }
    }
    Ok(())
}

/// The scenario of this name, or in the file of this path.
pub(super) fn load(name: &str) -> Result<Scenario, Failure> {
    if let Some(scenario) = Scenario::builtin(name) {
        return Ok(scenario);
    }
    if !Path::new(name).exists() {
        let nearest = Scenario::nearest(name).map_or(String::new(), |nearest| format!("did you mean {nearest:?}? "));
        return Err(Failure::usage(format!(
            "there is no scenario {name:?}, and no such file; {nearest}`scenarios` names them all"
        )));
    }
    let text = fs::read_to_string(name).map_err(|error| Failure::usage(format!("cannot read {name}: {error}")))?;
    Scenario::parse(&text).map_err(|error| Failure::usage(format!("{name}:{error}")))
}

pub(super) fn scenarios(options: &Scenarios) -> Result<(), Failure> {
    let mut table = Table::default();
    for (name, about) in Scenario::builtins() {
        if options.output.json {
            look::answer_record(&Record::Scenario { name: name.to_owned(), about })?;
        } else {
            table.row([(name.to_owned(), BOLD), (about, PLAIN)]);
        }
    }
    if options.output.json {
        return Ok(());
    }
    let mut text = Vec::new();
    // Writing to memory does not fail.
    let _ = table.print(&mut text);
    let _ = writeln!(text, "\n{DIM}scheduled-events demo SCENARIO plays one and watches it.{DIM:#}");
    look::answer(&text)
}
