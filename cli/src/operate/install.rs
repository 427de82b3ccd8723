//! `completions` and `man`: files to install beside the command, generated from the definition of
//! its arguments.

use std::io::{self, Write};
use std::mem;

use clap::CommandFactory;

use crate::args::{Cli, CompletionsArgs, ManArgs};
use crate::error::CommandError;
use crate::output::print;
use scheduled_events::suggest::nearest;

const PROGRAM: &str = "scheduled-events";

pub(crate) fn completions(args: &CompletionsArgs) -> Result<(), CommandError> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), PROGRAM, &mut text);
    let script = String::from_utf8_lossy(&text);
    // Up to 4.6.11, clap_complete writes the name of a program with a hyphen in two forms, and Bash
    // completes no option of a subcommand (clap-rs/clap#6421). Once that is fixed, this replaces
    // nothing.
    print(
        script
            .replace("scheduled__subcmd__events", "scheduled__events")
            .as_bytes(),
    )
}

pub(crate) fn man(args: &ManArgs) -> Result<(), CommandError> {
    let mut program = Cli::command();
    // Gives subcommands their full names and the global options.
    program.build();
    let command = match &args.command {
        None => program,
        Some(name) if program.find_subcommand(name).is_none() => {
            let nearest = nearest(name, program.get_subcommands().map(clap::Command::get_name));
            let nearest = nearest.map_or(String::new(), |nearest| {
                format!("; did you mean `{nearest}`?")
            });
            return Err(CommandError::usage(format!(
                "there is no command {name:?}{nearest}"
            )));
        }
        Some(name) => program
            .find_subcommand_mut(name)
            .map(mem::take)
            .unwrap_or_default(),
    };
    print(&page(command).map_err(|error| CommandError::output(&error))?)
}

/// The manual page of a command. The library would run the lines of its examples together.
fn page(command: clap::Command) -> io::Result<Vec<u8>> {
    let notes = command.get_after_help().map(ToString::to_string);
    let has_subcommands = command.has_subcommands();
    let man = clap_mangen::Man::new(command)
        .source(concat!("scheduled-events ", env!("CARGO_PKG_VERSION")));
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if has_subcommands {
        man.render_subcommands_section(&mut page)?;
    }
    if let Some(notes) = notes {
        // Neither justified nor hyphenated, since commands are copied.
        writeln!(page, ".SH NOTES\n.ad l\n.nh")?;
        for line in notes.lines() {
            // Escapes characters that have a meaning in the page's language.
            let text = line
                .replace('\\', "\\e")
                .replace('-', "\\-")
                .replace('\'', "\\(aq");
            match text.as_str() {
                "" => writeln!(page, ".PP")?,
                text => writeln!(page, ".br\n\\&{text}")?,
            }
        }
    }
    Ok(page)
}
