//! `config`: the options of `watch` that are in force, as a configuration file, and where each comes from.

use std::fmt::Write as _;

use crate::output::table::wrap;
use scheduled_events::hooks::CommandLine;
use scheduled_events_core::{
    EventKind, EventSources, EventTypes, Leader, Policy, Rule, Scope, SourceKind,
};

use crate::args::WatchArgs;
use crate::config::{InForce, Origin, Value, load_policy};
use crate::error::CommandError;
use crate::output::format::printable;
use crate::output::print;

/// The column of the comments, if the value is not longer.
const COMMENT_COLUMN: usize = 44;

/// The width of the list of keys that are not set, after its heading.
const UNSET_WIDTH: usize = 69;

pub(crate) fn config(args: &WatchArgs, in_force: &InForce) -> Result<(), CommandError> {
    let config = args.config.config.as_deref();
    let policy = load_policy(&args.policy.policy, &args.config)?;
    let mut text = match (in_force.path(), config) {
        (Some(path), _) => format!(
            "# In force with {}\n",
            printable(&path.display().to_string())
        ),
        (None, path) => {
            let path = path.map(|path| printable(&path.display().to_string()));
            let path = path.unwrap_or_default();
            format!("# In force without a file: {path} does not exist\n")
        }
    };
    let (values, unset) = in_force.values();
    let has_rules = config.is_some_and(|path| path.as_os_str() == args.policy.policy.as_str());
    let (on, others): (Vec<_>, Vec<_>) = values.iter().partition(|value| value.key == "on");
    for value in others
        .iter()
        .filter(|value| !(has_rules && value.key == "policy"))
    {
        let assigned = match &value.texts {
            None => "true".to_owned(),
            Some(texts) if value.is_command => texts.iter().map(|text| command(text)).collect(),
            // What is repeatable is a list, which may have one word.
            Some(texts) if value.is_list => list(texts.iter().map(|text| quoted(text))),
            Some(texts) => texts.first().map_or_else(String::new, |text| scalar(text)),
        };
        let origin = origin(&value.origin, 0, in_force);
        line(&mut text, &value.key, &assigned, &origin);
    }
    let of_run = in_force.unused();
    for (heading, keys) in [("not set", unset), ("for `run`", of_run)] {
        if !keys.is_empty() {
            let keys = keys.join(", ");
            let lines = wrap(&keys, Some(UNSET_WIDTH));
            let indented = format!("\n#{:1$}", "", heading.len() + 3);
            let _ = writeln!(text, "# {heading}: {}", lines.join(&indented));
        }
    }
    let from = others
        .iter()
        .find(|value| value.key == "policy" && has_rules);
    if let Some(leader) = policy.leader.filter(|_| has_rules) {
        let _ = writeln!(text, "leader = {}", leader_text(leader));
    }
    if let Some(value) = on.first() {
        text += "\n[on]\n";
        for (index, change, commands) in by_change(value) {
            let commands = match &commands[..] {
                [one] => one.clone(),
                several => list(several.iter().cloned()),
            };
            let origin = origin(&value.origin, index, in_force);
            line(&mut text, change, &commands, &origin);
        }
    }
    if let Some(value) = from {
        let origin = origin(&value.origin, 0, in_force);
        let _ = write!(text, "\n# the rules: {origin}\n{}", rules(&policy));
    }
    print(text.as_bytes())
}

fn line(text: &mut String, key: &str, value: &str, origin: &str) {
    let assignment = format!("{key} = {value}");
    let _ = writeln!(text, "{assignment:COMMENT_COLUMN$} # {origin}");
}

/// The origin of the text at `index`.
fn origin(origin: &Origin, index: usize, in_force: &InForce) -> String {
    match origin {
        Origin::Default => "default".to_owned(),
        Origin::CommandLine => "command line".to_owned(),
        Origin::Environment(variable) => format!("environment: {variable}"),
        Origin::Lines(lines) => {
            let path = in_force.path().map(|path| path.display().to_string());
            let line = lines.get(index).or(lines.first()).copied().unwrap_or(1);
            format!("{}:{line}", printable(&path.unwrap_or_default()))
        }
    }
}

/// The commands of each change, with the index of the first.
fn by_change(value: &Value) -> Vec<(usize, &str, Vec<String>)> {
    let mut all: Vec<(usize, &str, Vec<String>)> = Vec::new();
    for (index, text) in value.texts.iter().flatten().enumerate() {
        let (change, text) = text.split_once('=').unwrap_or((text, ""));
        match all.iter_mut().find(|(_, known, _)| *known == change) {
            Some((.., commands)) => commands.push(command(text)),
            None => all.push((index, change, vec![command(text)])),
        }
    }
    all
}

/// A command, as a list of its words.
fn command(text: &str) -> String {
    // Its parser has accepted it.
    CommandLine::parse(text).map_or_else(
        |_| quoted(text),
        |command| list(command.words().iter().map(|word| quoted(word))),
    )
}

/// A number where the text is one, as a person would write it.
fn scalar(text: &str) -> String {
    match text.parse::<u32>() {
        Ok(number) if number.to_string() == text => number.to_string(),
        _ => quoted(text),
    }
}

fn list(items: impl Iterator<Item = String>) -> String {
    format!("[{}]", items.collect::<Vec<_>>().join(", "))
}

/// A text of TOML, without characters that are unsafe to print.
fn quoted(text: &str) -> String {
    let mut quoted = String::from('"');
    for char in text.chars() {
        match char {
            '"' | '\\' => quoted.extend(['\\', char]),
            char if char.is_control() => {
                let _ = write!(quoted, "\\u{:04x}", u32::from(char));
            }
            char if printable(char.encode_utf8(&mut [0; 4])).starts_with('\\') => {
                let _ = write!(quoted, "\\U{:08x}", u32::from(char));
            }
            char => quoted.push(char),
        }
    }
    quoted + "\""
}

fn leader_text(leader: Leader) -> String {
    match leader {
        Leader::FirstResource => quoted("first-resource"),
        Leader::Everyone => quoted("everyone"),
        Leader::Rank { take_over_after } => {
            format!("{{ mode = \"rank\", take_over_after = \"{take_over_after}s\" }}")
        }
    }
}

/// The rules as tables of a policy.
fn rules(policy: &Policy) -> String {
    let mut text = String::new();
    for rule in policy.rules() {
        text += "[[rule]]\n";
        let mut set = |key: &str, value: Option<String>| {
            if let Some(value) = value {
                let _ = writeln!(text, "{key} = {value}");
            }
        };
        set("event", types(rule));
        set("source", sources(rule));
        for (key, seconds) in [
            ("min_duration", rule.min_duration),
            ("max_duration", rule.max_duration),
            ("min_notice", rule.min_notice),
            ("max_notice", rule.max_notice),
            ("prepare_before", rule.prepare_before),
        ] {
            set(key, seconds.map(|seconds| format!("\"{seconds}s\"")));
        }
        let scope = match rule.scope {
            Scope::Mine => None,
            scope => Some(quoted(scope.word())),
        };
        set("scope", scope);
        set("action", Some(quoted(rule.action.word())));
    }
    text
}

/// The types that a rule names; `None` for a rule that names none.
fn types(rule: &Rule) -> Option<String> {
    let named = EventKind::ALL.into_iter();
    let named = named.filter(|kind| rule.event_types.contains(*kind));
    (rule.event_types != EventTypes::ANY).then(|| list(named.map(|kind| quoted(kind.word()))))
}

fn sources(rule: &Rule) -> Option<String> {
    let named = SourceKind::ALL.into_iter();
    let named = named.filter(|kind| rule.sources.bits() & EventSources::of(&[*kind]).bits() != 0);
    (rule.sources != EventSources::ANY).then(|| list(named.map(|kind| quoted(kind.word()))))
}

#[cfg(test)]
mod tests {
    use scheduled_events::policy_file::parse;

    use super::*;

    #[test]
    fn rules_are_read_back_as_they_were() {
        let policy = parse(
            "[[rule]]\nevent = [\"Freeze\", \"SpotRebalanceRecommendation\"]\nsource = \"User\"\nmin_duration = 1\nmax_duration = 90\n\
             min_notice = 60\nmax_notice = 3600\nprepare_before = 1200\nscope = \"any\"\naction = \"approve\"\n\
             [[rule]]\naction = \"hold\"\n",
        )
        .expect("a policy");
        assert_eq!(parse(&rules(&policy)), Ok(policy));
    }

    #[test]
    fn texts_are_safe_to_print_and_read_back() {
        let text = "a \"b\" \\ c\u{1b}[31m\u{7f}\u{85}\u{202e}ü";
        let quoted = quoted(text);
        assert!(
            !quoted.contains(['\u{1b}', '\u{7f}', '\u{85}', '\u{202e}']),
            "{quoted}"
        );
        let table: toml::Table = toml::from_str(&format!("a = {quoted}")).expect("TOML");
        assert_eq!(table["a"].as_str(), Some(text));
    }
}
