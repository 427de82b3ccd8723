//! What `scheduled-events-fleet` finds of itself where it is the gate, or drains the Kubernetes node.
//!
//! Its `check` runs in place of `ask` or `drain`, with the same options. It reaches the daemon and the servers with what those
//! have: the user, the environment and, with `--unit`, the sandbox.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use scheduled_events::hooks::CommandLine;
use scheduled_events_text::finding::{Finding as Part, Outcome};
use scheduled_events_text::words::count;

use super::check::{Check, Finding};

/// The program.
const PROGRAM: &str = "scheduled-events-fleet";

/// What the program finds, if this command is one of it.
pub(super) fn check_fleet(check: Check, option: &str, command: &CommandLine) -> Vec<Finding> {
    let Some(arguments) = arguments(command.words()) else {
        return Vec::new();
    };
    let output = Command::new(&command.words()[0])
        .args(arguments)
        .stdin(Stdio::null())
        .output();
    // That it cannot be executed is a finding already.
    output.map_or(Vec::new(), |output| findings(check, option, &output))
}

/// The arguments of its `check`, in place of those of `ask` or `drain`.
fn arguments(words: &[String]) -> Option<Vec<&str>> {
    let (program, arguments) = words.split_first()?;
    if Path::new(program).file_name() != Some(OsStr::new(PROGRAM)) {
        return None;
    }
    let is_checked = |word: &String| word == "ask" || word == "drain";
    let at = arguments.iter().position(is_checked)?;
    let part = if arguments[at] == "ask" {
        "gate"
    } else {
        "node"
    };
    let (before, after) = (&arguments[..at], &arguments[at + 1..]);
    let own = ["check", part, "--json"];
    let words = before.iter().map(String::as_str).chain(own);
    Some(words.chain(after.iter().map(String::as_str)).collect())
}

fn findings(check: Check, option: &str, output: &Output) -> Vec<Finding> {
    let lines = String::from_utf8_lossy(&output.stdout);
    let parts: Vec<Part<String>> = lines
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect();
    if parts.is_empty() {
        let errors = String::from_utf8_lossy(&output.stderr);
        let first = errors.lines().next().unwrap_or("it printed nothing");
        let found = format!("{option}: {PROGRAM} cannot check itself: {first}");
        return vec![if first.contains("unrecognized subcommand") {
            Finding::warn(check, found, "install the version of this program there")
        } else {
            Finding::fail(
                check,
                found,
                "correct that: the command ends in the same way",
            )
        }];
    }
    // One line has them all, so what is as it should be is counted.
    let is_right = |part: &&Part<String>| part.check == "right" && part.outcome == Outcome::Ok;
    let rights = parts.iter().filter(is_right).count();
    let given = (rights > 0).then(|| {
        Finding::ok(
            check,
            format!("Kubernetes allows {}", count(rights, "request")),
        )
    });
    let others = parts.iter().filter(|part| !is_right(part)).map(|part| {
        let found = format!("{}: {}", part.check, part.found);
        Finding::new(check, part.outcome, &found, part.advice.as_deref()).naming(&part.machines)
    });
    others.chain(given).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_check_takes_the_place_of_its_command() {
        for (command, expected) in [
            ("scheduled-events-fleet ask", Some("check gate --json")),
            (
                "/usr/bin/scheduled-events-fleet --config /etc/f.toml ask",
                Some("--config /etc/f.toml check gate --json"),
            ),
            (
                "scheduled-events-fleet drain --node web-0",
                Some("check node --json --node web-0"),
            ),
            ("scheduled-events-fleet uncordon", None),
            ("/opt/gate ask", None),
            ("sudo scheduled-events-fleet ask", None),
        ] {
            let command = CommandLine::parse(command).unwrap();
            let found = arguments(command.words()).map(|words| words.join(" "));
            assert_eq!(found.as_deref(), expected, "{command:?}");
        }
    }
}
