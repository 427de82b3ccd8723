//! Options that are valid one by one, but most likely not intended: `watch` warns of them when it
//! starts, and `doctor` reports them.

use scheduled_events::hooks::CommandLine;
use scheduled_events_core::{Action, Change, Policy};

use super::check::{Check, Finding};
use crate::api_version::policy_warning;
use crate::args::WatchArgs;

/// Findings about these options and this policy alone. Nothing is read or requested.
pub(crate) fn check_arguments(args: &WatchArgs, policy: &Policy) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Some(warning) = policy_warning(policy, &args.service.api_version) {
        findings.push(Finding::caution(Check::Policy, warning));
    }
    if let Some(file) = args
        .metrics_file
        .as_ref()
        .filter(|file| file.extension().is_none_or(|end| end != "prom"))
    {
        let text = format!(
            "node_exporter reads only files that end in .prom, and not {}",
            file.display()
        );
        findings.push(Finding::warn(
            Check::Metrics,
            text,
            "let its name end in .prom",
        ));
    }
    let prepares = policy
        .rules()
        .iter()
        .any(|rule| rule.action == Action::Prepare);
    if prepares && args.prepare.is_none() && !args.dry_run {
        findings.push(Finding::warn(
            Check::Prepare,
            "the policy has a rule with action `prepare`, but there is no --prepare COMMAND: events that match it are held",
            "add --prepare COMMAND",
        ));
    }
    if !prepares && (args.prepare.is_some() || args.recover.is_some()) {
        let text = format!(
            "the policy {} has no rule with action `prepare`: --prepare and --recover are never run",
            args.policy.policy
        );
        findings.push(Finding::warn(
            Check::Prepare,
            text,
            "add a rule with that action, or leave them out",
        ));
    }
    if let (Some(_), None) = (args.prepare.as_ref().or(args.recover.as_ref()), &args.state) {
        findings.push(Finding::warn(
            Check::State,
            "there is no --state FILE: what was prepared for before a restart is not recovered from after it",
            "add --state FILE",
        ));
    }
    for (check, option, command) in commands(args) {
        if let Some(word) = shell_word(command) {
            findings.push(Finding::fail(
                check,
                format!(
                    "{option} passes {word:?} to {:?} as an argument: commands are run without a shell",
                    command.words()[0]
                ),
                format!("write {option} \"sh -c '...'\", or a script"),
            ));
        }
    }
    findings
}

/// The commands of the options, each with its check and what it is called.
pub(crate) fn commands(
    args: &WatchArgs,
) -> impl Iterator<Item = (Check, String, &CommandLine)> + use<'_> {
    let named = |check, option: &str, command| (check, option.to_owned(), command);
    let prepare = args.prepare.iter();
    let recover = args.recover.iter();
    let gate = args.gate.iter();
    let on = args.on.iter();
    prepare
        .map(move |command| named(Check::Prepare, "--prepare", command))
        .chain(recover.map(move |command| named(Check::Recover, "--recover", command)))
        .chain(on.map(|(change, command)| (Check::On, on_option(*change), command)))
        .chain(gate.map(move |command| named(Check::Gate, "--gate", command)))
}

fn on_option(change: Change) -> String {
    format!("--on {change}=")
}

/// A word that only a shell understands, if the program is not one. Quotes are gone at this point,
/// so that only words count that are an operator as a whole, and a `$` in a word without spaces.
fn shell_word(command: &CommandLine) -> Option<&str> {
    let words = command.words();
    let is_name = |word: &&str| {
        let name = word.rsplit(['/', '\\']).next().unwrap_or(word);
        SHELLS.contains(&name.trim_end_matches(".exe"))
    };
    if words.iter().map(String::as_str).any(|word| is_name(&word)) {
        return None;
    }
    let ends_by_semicolon = words[0].ends_with("find");
    words
        .iter()
        .map(String::as_str)
        .find(|word| is_operator(word, ends_by_semicolon) || expands(word))
}

/// Programs that read a command line themselves, wherever they are: `env sh -c`, `timeout 9 bash`.
const SHELLS: [&str; 15] = [
    "sh",
    "bash",
    "dash",
    "ash",
    "ksh",
    "mksh",
    "zsh",
    "fish",
    "busybox",
    "ssh",
    "su",
    "cmd",
    "pwsh",
    "powershell",
    "eval",
];

fn is_operator(word: &str, ends_by_semicolon: bool) -> bool {
    let redirection = word.trim_start_matches(|char: char| char.is_ascii_digit() || char == '&');
    matches!(word, "&&" | "||" | "|" | "|&" | "&" | ";;")
        || (word.ends_with(';') && !(word == ";" && ends_by_semicolon))
        || (redirection.starts_with(['>', '<']) && !word.contains(' '))
}

/// Whether a shell would replace a part of the word by a variable or by the output of a command.
fn expands(word: &str) -> bool {
    let starts_one = |after: char| after.is_ascii_alphabetic() || ['_', '{', '('].contains(&after);
    let mut chars = word.char_indices();
    !word.contains(' ')
        && chars.any(|(at, char)| {
            char == '`' || (char == '$' && word[at + 1..].starts_with(starts_one))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_need_a_shell_are_found_and_others_are_not() {
        for (text, expected) in [
            ("systemctl stop a && systemctl stop b", Some("&&")),
            ("drain | logger", Some("|")),
            ("drain >/dev/null", Some(">/dev/null")),
            ("drain 2>&1", Some("2>&1")),
            ("drain; undrain", Some("drain;")),
            ("drain ; undrain", Some(";")),
            ("drain $HOME/x", Some("$HOME/x")),
            ("drain $(hostname)", Some("$(hostname)")),
            ("drain `hostname`", Some("`hostname`")),
            ("drain &", Some("&")),
            ("drain --note 'a && b'", None),
            ("sh -c 'drain && undrain'", None),
            ("/bin/sh -c drain$X", None),
            ("timeout 9 bash -c 'a | b' $X", None),
            ("ssh db1 drain ';' x", None),
            ("find /x -exec rm {} ;", None),
            ("awk '{print $1}' x", None),
            ("logger costs 5$", None),
            ("curl http://x/?a=1&b=2", None),
        ] {
            let command = CommandLine::parse(text).unwrap();
            assert_eq!(shell_word(&command), expected, "{text}");
        }
    }
}
