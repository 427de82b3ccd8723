//! `replay` and `scenarios`: a stand-in for Azure's metadata service.

use std::io::{self, Write};
use std::sync::mpsc;

use super::args::{ReplayArgs, ScenariosArgs};
use super::error::CommandError;
use super::format::{BOLD, DIM, PLAIN, printable};
use super::output::{check_written, print, print_progress, print_record};
use super::table::Table;
use super::terminal;
use crate::record::Record;
use crate::replay::{ReplayEvent, Scenario, Server, ServerConfig};

pub(super) fn replay(args: ReplayArgs) -> Result<(), CommandError> {
    let scenario = load(&args.scenario)?;
    let (observer, events) = mpsc::channel();
    let mut config = ServerConfig::new(scenario).listen(args.listen).speed(args.speed).vm_name(args.vm_name);
    config = config.observer(observer);
    for fault in args.fault {
        config = config.fault(fault);
    }
    let server = Server::start(config).map_err(|error| {
        let advice = match error.kind() {
            io::ErrorKind::AddrInUse => "; another program uses this port, port 0 takes a free one",
            _ => "",
        };
        CommandError::usage(format!("cannot listen on {}: {error}{advice}", args.listen))
    })?;
    // A script needs this line, so --quiet does not suppress it, and without it nobody knows the port.
    print(format!("listening on {}\n", server.url()).as_bytes()).and_then(|()| check_written())?;
    for event in events {
        // Successful polls come every second and are not printed.
        let is_routine = matches!(&event, ReplayEvent::Answered { method, status: Some(200 | 304), faults, .. }
            if method == "GET" && faults.is_empty());
        if !is_routine {
            print_progress(&format!("{}\n", printable(&event.to_string())));
        }
    }
    check_written()
}

/// The built-in scenario of this name, or the scenario in the file of this path.
pub(super) fn load(name: &str) -> Result<Scenario, CommandError> {
    Scenario::load(name).map_err(CommandError::usage)
}

pub(super) fn scenarios(args: &ScenariosArgs) -> Result<(), CommandError> {
    if let Some(name) = &args.show {
        let source = Scenario::builtin_source(name).ok_or_else(|| {
            CommandError::usage(format!("there is no scenario {name:?}; {}", Scenario::suggestion(name)))
        })?;
        return print(source.as_bytes());
    }
    if args.output.json {
        return Scenario::builtins()
            .try_for_each(|(name, about)| print_record(&Record::Scenario { name, about: &about }));
    }
    let mut table = Table::default();
    for (name, about) in Scenario::builtins() {
        table.row([(name.to_owned(), BOLD), (about, PLAIN)]);
    }
    let mut text = Vec::new();
    // Writing to memory does not fail.
    let _ = table.print(&mut text, terminal::output_width());
    let _ = writeln!(
        text,
        "\n{DIM}Watch one:       scheduled-events demo SCENARIO\n\
         Print its file:  scheduled-events scenarios --show SCENARIO{DIM:#}"
    );
    print(&text)
}
