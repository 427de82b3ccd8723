//! The commands of the options: whether this user can run them, and what they need.

use std::path::Path;

use scheduled_events::hooks::CommandLine;
use scheduled_events_text::finding::Outcome;

use super::arguments::commands;
use super::check::{Check, Finding};
use super::fleet::check_fleet;
#[cfg(unix)]
use super::polkit::Asking;
use super::polkit::{self, Question};
use crate::args::WatchArgs;
use crate::platform;

/// Whether the commands can run as this user.
/// `asks_later`: root asks polkit for the unit's user.
pub(super) fn check_hooks(args: &WatchArgs, asks_later: bool) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (check, option, command) in commands(args) {
        let found = executable(check, &option, command);
        let runs = found.outcome == Outcome::Ok;
        findings.push(found);
        if runs {
            findings.extend(check_fleet(check, &option, command));
        }
        findings.extend(raises_rights(check, &option, command));
        if !asks_later {
            findings.extend(asks_polkit(check, &option, command));
        }
    }
    let has = |check| findings.iter().any(|finding| finding.check == check);
    let missing: Vec<_> = [Check::Prepare, Check::Recover, Check::On, Check::Gate]
        .into_iter()
        .filter(|check| !has(*check))
        .collect();
    for check in missing {
        findings.push(match check {
            Check::Recover if args.prepare.is_some() => no_recover(),
            _ => Finding::ok(check, "none"),
        });
    }
    findings
}

/// A machine that a command takes out of service, and none takes back.
pub(crate) fn no_recover() -> Finding {
    Finding::warn(
        Check::Recover,
        "there is --prepare, but no --recover: nothing takes the machine back into service",
        "add --recover COMMAND, unless a restart does all of it",
    )
}

/// Whether the program is found, and this user may execute it.
fn executable(check: Check, option: &str, command: &CommandLine) -> Finding {
    let program = &command.words()[0];
    let candidates = command.program_candidates();
    let existing: Vec<_> = candidates.iter().filter(|path| path.is_file()).collect();
    if let Some(path) = existing.iter().find(|path| platform::may_execute(path)) {
        return Finding::ok(check, format!("{option} runs {}", path.display()));
    }
    match existing.first() {
        Some(path) => Finding::fail(
            check,
            format!(
                "{option}: this user may not execute {}{}",
                path.display(),
                platform::mode_in_words(path)
            ),
            format!("chmod +x {}, or check its folders", path.display()),
        ),
        None if Path::new(program).components().count() > 1 => Finding::fail(
            check,
            format!("{option}: there is no program {program:?}"),
            "write the path of a program",
        ),
        None => Finding::fail(
            check,
            format!("{option}: there is no program {program:?} in the folders of PATH"),
            "install it, or write its path",
        ),
    }
}

/// `sudo` in a unit that lets no program gain rights.
fn raises_rights(check: Check, option: &str, command: &CommandLine) -> Option<Finding> {
    let program = Path::new(&command.words()[0]).file_name()?.to_str()?;
    let gains = ["sudo", "pkexec", "su"].contains(&program);
    (gains && platform::gains_no_rights()).then(|| {
        Finding::fail(
            check,
            format!("{option}: {program} gains no rights here: NoNewPrivileges is set"),
            "let polkit allow the action, or run the unit as root: docs/run/systemd.md",
        )
    })
}

/// What polkit has to be asked about these commands.
#[cfg(unix)]
pub(super) fn questions(args: &WatchArgs) -> Vec<Asking> {
    let mut asking = Vec::new();
    for (check, option, command) in commands(args) {
        for question in Question::all(command) {
            asking.push(Asking {
                check,
                option: option.clone(),
                question,
            });
        }
    }
    asking
}

/// Whether polkit lets this user do what `systemctl` is to do.
fn asks_polkit(check: Check, option: &str, command: &CommandLine) -> Option<Finding> {
    let questions = Question::all(command);
    if questions.is_empty() || platform::is_root() {
        return None;
    }
    let words: Vec<_> = questions.iter().map(Question::words).collect();
    // Only root may ask about an action with its unit: `doctor --unit` does.
    let found = format!(
        "{option}: whether polkit allows {} is unknown: only root may ask",
        words.join(" and ")
    );
    let advice = format!("run `{}`", polkit::ADVICE);
    Some(Finding::warn(check, found, advice))
}
