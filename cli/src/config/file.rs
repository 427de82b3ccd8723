//! A configuration file: the options of a command as TOML, with the place of each.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use clap::{Arg, ArgAction, Command};
use scheduled_events::files::{is_same_file, read_settings};
use scheduled_events::hooks;
use scheduled_events::policy_file::{self, LoadError};
use scheduled_events::suggest::nearest;
use scheduled_events_core::{Change, Policy, Position};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::error::CommandError;
use crate::output::format::printable;

/// The tables of a policy, which the file may have in place of `policy = "FILE"`.
pub(super) const POLICY_TABLES: [&str; 2] = ["rule", "leader"];

/// The key of the table with a command for each change, as `--on` has them.
const ON: &str = "on";

/// The options that a file cannot set.
const NOT_IN_FILE: [&str; 3] = ["config", "help", "version"];

/// The value of an option in a configuration file. An option that is repeatable may have several.
pub(super) struct Setting {
    /// The option's id, which is its key, too.
    pub(super) key: String,
    /// The argument that has the same effect.
    pub(super) argument: OsString,
    /// Where the value is.
    pub(super) position: Position,
}

/// A configuration file.
pub(super) struct ConfigFile {
    /// In the order of the file.
    pub(super) settings: Vec<Setting>,
    /// Those of the other command that reads the file.
    pub(super) unused: Vec<Setting>,
    pub(super) path: PathBuf,
    pub(super) text: String,
}

type Value<'a> = Spanned<DeValue<'a>>;

/// What is wrong, and where.
type Mistake = (Range<usize>, String);

impl ConfigFile {
    /// Reads the options of a command from a file.
    ///
    /// `other` is the other command that reads the file: its keys are valid, and have no effect here. Rules are checked if
    /// `checks_rules`.
    ///
    /// # Errors
    /// A usage error with line and column: no TOML, an unknown key, a value that no option has, or an invalid policy.
    pub(super) fn read(
        path: &Path,
        command: &Command,
        other: Option<&Command>,
        checks_rules: bool,
    ) -> Result<Self, CommandError> {
        let cannot = |error: io::Error| {
            let path = printable(&path.display().to_string());
            CommandError::usage(format!("cannot read the configuration {path}: {error}"))
        };
        let mut file = Self {
            settings: Vec::new(),
            unused: Vec::new(),
            path: path.to_owned(),
            text: read_settings(path).map_err(cannot)?,
        };
        match settings(&file.text, path, command, other) {
            Ok((own, unused)) => (file.settings, file.unused) = (own, unused),
            Err((span, message)) => return Err(file.error_at(file.position(&span), &message)),
        }
        if checks_rules {
            // Without tables, it is empty.
            policy(path, &file.text)?;
        }
        Ok(file)
    }

    /// Whether the rules are in the file itself.
    pub(super) fn has_rules(&self) -> bool {
        let own = option("policy", &self.path);
        self.settings.iter().any(|setting| setting.argument == own)
    }

    /// The keys of the other command, each once.
    pub(super) fn unused_keys(&self) -> Vec<String> {
        let mut keys = Vec::new();
        for setting in &self.unused {
            if !keys.contains(&setting.key) {
                keys.push(setting.key.clone());
            }
        }
        keys
    }

    /// Where the value of a key is.
    pub(super) fn place(&self, key: &str) -> Option<String> {
        let setting = self.settings.iter().find(|setting| setting.key == key)?;
        Some(format!("{}:{}", self.path.display(), setting.position))
    }

    pub(super) fn error_at(&self, position: Position, message: &str) -> CommandError {
        CommandError::usage(format!("{}:{position}: {message}", self.path.display()))
    }

    fn position(&self, span: &Range<usize>) -> Position {
        Position::of(self.text.as_bytes(), span.start)
    }
}

/// The policy of the tables of a configuration file, whose keys were checked.
pub(super) fn policy(path: &Path, text: &str) -> Result<Policy, CommandError> {
    policy_file::parse_within(text, |key| !POLICY_TABLES.contains(&key)).map_err(|error| {
        let name = path.display().to_string();
        CommandError::usage(LoadError::Invalid { name, error })
    })
}

/// The options of a command that a configuration file can set.
pub(super) fn options(command: &Command) -> impl Iterator<Item = &Arg> {
    command.get_arguments().filter(|argument| {
        argument.get_long().is_some() && !NOT_IN_FILE.contains(&argument.get_id().as_str())
    })
}

fn settings(
    text: &str,
    path: &Path,
    command: &Command,
    other: Option<&Command>,
) -> Result<(Vec<Setting>, Vec<Setting>), Mistake> {
    let table = DeTable::parse(text)
        .map_err(|error| (error.span().unwrap_or(0..0), error.message().to_owned()))?;
    let mut entries: Vec<_> = table.get_ref().iter().collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    let (mut settings, mut unused) = (Vec::new(), Vec::new());
    let mut policy: Option<&str> = None;
    for (key, value) in entries {
        let name: &str = key.get_ref();
        let is_table = POLICY_TABLES.contains(&name);
        if is_table || name == "policy" {
            match policy {
                Some(before) if is_table != POLICY_TABLES.contains(&before) => {
                    return Err((
                        key.span(),
                        format!(
                            "`{before}` and `{name}`: the rules are either in this file or in that of `policy`; remove one of them"
                        ),
                    ));
                }
                // One policy for both tables.
                Some(_) => continue,
                None => policy = Some(name),
            }
        }
        let find = |command| options(command).find(|option| option.get_id() == name);
        let own = find(command);
        let list = if own.is_some() || is_table {
            &mut settings
        } else {
            &mut unused
        };
        let mut add = |span: Range<usize>, id: &str, argument: OsString| {
            list.push(Setting {
                key: id.to_owned(),
                argument,
                position: Position::of(text.as_bytes(), span.start),
            });
        };
        let is_itself = |text: &str| is_same_file(text.as_ref(), path);
        if name == "policy" && value.get_ref().as_str().is_some_and(is_itself) {
            let message = "this file has no rules; write [[rule]] tables in place of `policy`, or name another file";
            return Err((value.span(), message.to_owned()));
        }
        if is_table {
            add(key.span(), "policy", option("policy", path));
            continue;
        }
        let Some(argument) = own.or_else(|| find(other?)) else {
            return Err((key.span(), unknown(name, command, other)));
        };
        let long = argument.get_long().unwrap_or(name);
        if name == ON {
            for (span, text) in on(value)? {
                add(span, name, option(long, text));
            }
        } else if !argument.get_action().takes_values() {
            match value.get_ref() {
                DeValue::Boolean(true) => add(key.span(), name, format!("--{long}").into()),
                DeValue::Boolean(false) => {}
                other => return Err((value.span(), found(other, "true or false"))),
            }
        } else if is_command(argument) {
            add(value.span(), name, option(long, &*words(value)?));
        } else if let (DeValue::Array(list), ArgAction::Append) =
            (value.get_ref(), argument.get_action())
        {
            for one in list {
                add(one.span(), name, option(long, &*plain(one)?));
            }
        } else {
            add(value.span(), name, option(long, &*plain(value)?));
        }
    }
    Ok((settings, unused))
}

/// Whether the option's value is a command.
pub(super) fn is_command(argument: &Arg) -> bool {
    let names = argument.get_value_names().unwrap_or_default();
    names.iter().any(|name| name == "COMMAND")
}

/// The option with its value in one word, so that the value may start with a dash.
fn option(long: &str, value: impl AsRef<OsStr>) -> OsString {
    let mut word = OsString::from(format!("--{long}="));
    word.push(value.as_ref());
    word
}

/// `CHANGE=COMMAND` of each entry of `[on]`, with its place. A list of lists is several commands for one change.
fn on(value: &Value<'_>) -> Result<Vec<Mistake>, Mistake> {
    let DeValue::Table(table) = value.get_ref() else {
        return Err((
            value.span(),
            found(
                value.get_ref(),
                "a table such as [on], with a command for each change",
            ),
        ));
    };
    let mut all = Vec::new();
    for (change, command) in table {
        let name: &str = change.get_ref();
        let known = || Change::ALL.into_iter().map(Change::word);
        if !known().any(|word| word == name) {
            let suggestion = did_you_mean(nearest(name, known()));
            let known = known().collect::<Vec<_>>().join(", ");
            return Err((
                change.span(),
                format!("unknown change `{name}`; {suggestion}expected {known}"),
            ));
        }
        match command.get_ref() {
            DeValue::Array(list) if list.iter().any(|one| one.get_ref().is_array()) => {
                for one in list {
                    all.push((one.span(), format!("{name}={}", words(one)?)));
                }
            }
            _ => all.push((command.span(), format!("{name}={}", words(command)?))),
        }
    }
    all.sort_by_key(|(span, _)| span.start);
    Ok(all)
}

/// A command: a text, which is split into words as that of the option is, or a list of words.
fn words<'a>(value: &'a Value<'_>) -> Result<Cow<'a, str>, Mistake> {
    let expected = "a command as a text, or as a list of words";
    match value.get_ref() {
        DeValue::String(text) => Ok(without_nul(value, text)?.into()),
        DeValue::Array(list) => {
            let words = list.iter().map(|word| match word.get_ref() {
                DeValue::String(text) => Ok(without_nul(word, text)?.to_owned()),
                other => Err((word.span(), found(other, "a word of the command as a text"))),
            });
            let words = words.collect::<Result<Vec<_>, _>>()?;
            if words.is_empty() {
                return Err((value.span(), "the command is empty".to_owned()));
            }
            Ok(hooks::join(&words).into())
        }
        other => Err((value.span(), found(other, expected))),
    }
}

/// The value of any other option: a text, or a number.
fn plain<'a>(value: &'a Value<'_>) -> Result<Cow<'a, str>, Mistake> {
    match value.get_ref() {
        DeValue::String(text) => Ok(without_nul(value, text)?.into()),
        DeValue::Integer(number) if number.radix() == 10 => Ok(number.as_str().into()),
        other => Err((value.span(), found(other, "a text such as \"1s\""))),
    }
}

/// The text of a value. No file name and no argument of a program has a NUL character.
fn without_nul<'a>(value: &Value<'_>, text: &'a str) -> Result<&'a str, Mistake> {
    if text.contains('\0') {
        let message = "found a NUL character, which no value can have";
        return Err((value.span(), message.to_owned()));
    }
    Ok(text)
}

fn found(value: &DeValue<'_>, expected: &str) -> String {
    let article = match value.type_str() {
        kind @ ("array" | "integer") => format!("an {kind}"),
        kind => format!("a {kind}"),
    };
    format!("found {article}, expected {expected}")
}

fn unknown(name: &str, command: &Command, other: Option<&Command>) -> String {
    let mut known: Vec<_> = POLICY_TABLES.into();
    for command in [Some(command), other].into_iter().flatten() {
        known.extend(options(command).map(|option| option.get_id().as_str()));
    }
    let suggestion = did_you_mean(nearest(name, known.into_iter()));
    format!(
        "unknown key `{name}`; {suggestion}a key is an option of `watch` or `run` with _ for -, or rule or leader"
    )
}

fn did_you_mean(nearest: Option<&str>) -> String {
    nearest.map_or(String::new(), |word| format!("did you mean `{word}`? "))
}
