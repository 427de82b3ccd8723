//! One file for all options: `--config FILE`.
//!
//! The file's keys are the options' names with `_` for `-`, as the command line defines them, and the tables of a policy. They
//! become arguments that precede those of the command line, except for options that the command line or the environment sets. So
//! each value is read by the option's own parser, and a command does not know where its options come from. `file` reads the file.

mod file;
#[cfg(all(test, unix))]
mod schema;

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{ArgAction, ArgMatches, CommandFactory, FromArgMatches};
use scheduled_events::imds::{AUTO_API_VERSION, ENDPOINT};
use scheduled_events::policy_file::{self, LoadError, PolicySource};
use scheduled_events_core::Policy;

use crate::args::{Cli, Command, ConfigArgs, WatchArgs};
use crate::endpoint;
use crate::error::CommandError;
use file::{ConfigFile, Setting};

/// The id of `--config`.
const CONFIG: &str = "config";

/// The subcommand that reports a mistake in the file as what it found.
const DOCTOR: &str = "doctor";

/// Why a command line cannot be used.
#[derive(Debug)]
pub(crate) enum ParseError {
    /// What is on the command line: clap's message, help or version.
    Arguments(clap::Error),
    /// What is in the configuration file.
    File(CommandError),
}

impl ParseError {
    /// What is wrong, in one line.
    pub(crate) fn into_message(self) -> String {
        match self {
            Self::Arguments(error) => one_line(&error.render().to_string()),
            Self::File(error) => error.message,
        }
    }
}

impl From<clap::Error> for ParseError {
    fn from(error: clap::Error) -> Self {
        Self::Arguments(error)
    }
}

/// A command line, merged with the configuration file that it names.
pub(crate) struct Merged {
    pub(crate) cli: Cli,
    pub(crate) in_force: InForce,
}

/// The options of a subcommand, each with its origin.
pub(crate) struct InForce {
    matches: ArgMatches,
    file: Option<ConfigFile>,
}

/// The value of an option.
pub(crate) struct Value {
    /// The option's key in a configuration file.
    pub(crate) key: String,
    /// As on the command line; `None` for an option without a value, which is given.
    pub(crate) texts: Option<Vec<String>>,
    /// Whether the texts are commands.
    pub(crate) is_command: bool,
    /// Whether the option may be given several times.
    pub(crate) is_list: bool,
    pub(crate) origin: Origin,
}

/// Where the value of an option comes from.
pub(crate) enum Origin {
    Default,
    CommandLine,
    /// An environment variable.
    Environment(String),
    /// The lines of the configuration file, one for each text.
    Lines(Vec<u32>),
}

impl InForce {
    /// The options of a subcommand that have a value, and the keys of those that have none.
    pub(crate) fn values(&self) -> (Vec<Value>, Vec<String>) {
        let mut command = Cli::command();
        command.build();
        let Some((name, matches)) = self.matches.subcommand() else {
            return Default::default();
        };
        let own = command.find_subcommand(name).unwrap_or(&command);
        let (mut values, mut unset) = (Vec::new(), Vec::new());
        for option in file::options(own) {
            let key = option.get_id().as_str();
            let texts = matches.get_raw(key).map(|raw| {
                raw.map(|text| text.to_string_lossy().into_owned())
                    .collect()
            });
            let takes_values = option.get_action().takes_values();
            let is_on = takes_values || matches.get_flag(key);
            match matches.value_source(key) {
                Some(source) if is_on => values.push(Value {
                    key: key.to_owned(),
                    texts: texts.filter(|_| takes_values),
                    is_command: file::is_command(option),
                    is_list: matches!(option.get_action(), ArgAction::Append),
                    origin: self.origin(key, source, option),
                }),
                _ => unset.push(key.to_owned()),
            }
        }
        (values, unset)
    }

    fn origin(&self, key: &str, source: ValueSource, option: &clap::Arg) -> Origin {
        let settings = self.file.iter().flat_map(|file| &file.settings);
        let own = settings.filter(|setting| setting.key == key);
        let lines: Vec<_> = own.map(|setting| setting.position.line).collect();
        match source {
            _ if !lines.is_empty() => Origin::Lines(lines),
            ValueSource::EnvVariable => {
                let variable = option.get_env().unwrap_or_default();
                Origin::Environment(variable.to_string_lossy().into_owned())
            }
            ValueSource::CommandLine => Origin::CommandLine,
            _ => Origin::Default,
        }
    }

    /// The configuration file.
    pub(crate) fn path(&self) -> Option<&Path> {
        self.file.as_ref().map(|file| file.path.as_path())
    }

    /// The keys of the file that are for another command.
    pub(crate) fn unused(&self) -> Vec<String> {
        self.file
            .as_ref()
            .map_or(Vec::new(), ConfigFile::unused_keys)
    }
}

/// Reads a command line, and the configuration file that it names.
///
/// # Errors
/// [`ParseError`]. A mistake in the file is reported with line and column.
pub(crate) fn parse(arguments: &[OsString]) -> Result<Merged, ParseError> {
    // A watcher without a file keeps no memory for what reads one.
    let plain = Cli::command().try_get_matches_from(arguments);
    let is_plain = match &plain {
        Ok(matches) => with_config(matches).is_none(),
        Err(error) => !error.use_stderr(),
    };
    if is_plain {
        return merge(plain?, None);
    }
    // The file may have what the command line lacks. A mistake shows below.
    let given = Cli::command()
        .ignore_errors(true)
        .try_get_matches_from(arguments)
        .unwrap_or_default();
    let Some((name, path, given)) = with_config(&given) else {
        return merge(plain?, None);
    };
    match with_file(arguments, name, path, given) {
        // A finding of it, beside what it finds without the file.
        Err(ParseError::File(error)) if name == DOCTOR => {
            let mut merged = merge(plain?, None)?;
            if let Some(config) = merged.cli.command.config_mut() {
                config.mistake = Some(error.message);
            }
            Ok(merged)
        }
        result => result,
    }
}

/// Reads a command line of this subcommand with this file; `given` is what the command line has.
fn with_file(
    arguments: &[OsString],
    name: &str,
    path: &Path,
    given: &ArgMatches,
) -> Result<Merged, ParseError> {
    let mut command = Cli::command();
    command.build();
    let own = command.find_subcommand(name).unwrap_or(&command);
    let other = if name == "run" { "watch" } else { "run" };
    let of_other = command.find_subcommand(other);
    // Rules are a check of `doctor` by themselves.
    let mut file =
        ConfigFile::read(path, own, of_other, name != DOCTOR).map_err(ParseError::File)?;
    if !file.unused.is_empty() {
        check_unused(other, &file)?;
    }
    file.settings.retain(|setting| {
        !matches!(
            given.value_source(&setting.key),
            Some(ValueSource::CommandLine | ValueSource::EnvVariable)
        )
    });
    let merged = |without: &dyn Fn(&Setting) -> bool| {
        let kept = file.settings.iter().filter(|setting| !without(setting));
        let from_file: Vec<_> = kept.map(|setting| &setting.argument).collect();
        // The options of `watch` come after its name; global ones may precede it.
        let at = arguments.iter().skip(1).position(|word| word == name);
        let (before, after) = arguments.split_at(at.map_or(arguments.len(), |at| at + 2));
        let words = before.iter().chain(from_file).chain(after);
        Cli::command().try_get_matches_from(words)
    };
    let error = match merged(&|_| false) {
        Ok(matches) => return merge(matches, Some(file)),
        Err(error) => error,
    };
    let Some(excluded) = in_conflict(&error, &file, &merged) else {
        return Err(in_file(error, &file, &file.settings, &merged));
    };
    // The command line replaces what it excludes, too.
    let matches = merged(&|setting| setting.key == excluded)
        .map_err(|error| in_file(error, &file, &file.settings, &merged))?;
    file.settings.retain(|setting| setting.key != excluded);
    merge(matches, Some(file))
}

/// Reads the command line with the settings of the file for which the function is false.
type Merge<'a> = dyn Fn(&dyn Fn(&Setting) -> bool) -> Result<ArgMatches, clap::Error> + 'a;

fn merge(matches: ArgMatches, mut file: Option<ConfigFile>) -> Result<Merged, ParseError> {
    let mut cli = Cli::from_arg_matches(&matches)?;
    if let (Some(file), Some((_, own))) = (&file, matches.subcommand()) {
        check_service(own, file)
            .and_then(|()| check_approvals(own, file))
            .map_err(ParseError::File)?;
    }
    if let (Some(file), Some(config)) = (&mut file, cli.command.config_mut()) {
        config.unused = file.unused_keys();
        config.text = file.has_rules().then(|| std::mem::take(&mut file.text));
        config.policy_at = file.place("policy");
    }
    let in_force = InForce { matches, file };
    Ok(Merged { cli, in_force })
}

/// Checks the endpoint and the version of the file: their options take any text, since `--allow-endpoint` is another one.
fn check_service(own: &ArgMatches, file: &ConfigFile) -> Result<(), CommandError> {
    for setting in &file.settings {
        let text = || {
            own.get_one::<String>(&setting.key)
                .map_or("", String::as_str)
        };
        let checked = match setting.key.as_str() {
            "endpoint" => endpoint::check(text(), own.get_flag("allow_endpoint"), AUTO_API_VERSION),
            "api_version" => endpoint::check(ENDPOINT, false, text()),
            _ => continue,
        };
        checked.map_err(|error| file.error_at(setting.position, &error.message))?;
    }
    Ok(())
}

/// Checks the settings of the other command as that one would read them.
fn check_unused(other: &str, file: &ConfigFile) -> Result<(), ParseError> {
    let parsed = |without: &dyn Fn(&Setting) -> bool| {
        let mut words: Vec<_> = ["scheduled-events", other].map(OsString::from).into();
        let kept = file.unused.iter().filter(|setting| !without(setting));
        words.extend(kept.map(|setting| setting.argument.clone()));
        if other == "run" {
            // A worker is no setting.
            words.extend(["--", "-"].map(OsString::from));
        }
        Cli::command().try_get_matches_from(words)
    };
    match parsed(&|_| false) {
        Ok(_) => Ok(()),
        Err(error) => Err(in_file(error, file, &file.unused, &parsed)),
    }
}

/// Refuses approvals of `run` by a file in which something of `watch` holds them back, which `run` does not know.
fn check_approvals(own: &ArgMatches, file: &ConfigFile) -> Result<(), CommandError> {
    let approves = own.try_get_one::<bool>("approve").ok().flatten();
    let holds_back = |setting: &&Setting| ["prepare", "gate", "dry_run"].contains(&&*setting.key);
    match file.unused.iter().find(holds_back) {
        Some(setting) if approves == Some(&true) => {
            let message = format!(
                "`run` would approve without regard to `{}`, which is for `watch`; remove --approve (`approve`) and let `watch` approve, or give `run` another file",
                setting.key
            );
            Err(file.error_at(setting.position, &message))
        }
        _ => Ok(()),
    }
}

/// The subcommand, its configuration file and its own arguments, if it has a file.
fn with_config(matches: &ArgMatches) -> Option<(&str, &Path, &ArgMatches)> {
    let (name, own) = matches.subcommand()?;
    let path: &PathBuf = own.try_get_one(CONFIG).ok()??;
    // The file of the unit need not exist.
    let is_default = own.value_source(CONFIG) == Some(ValueSource::DefaultValue);
    (!is_default || path.exists()).then_some((name, path, own))
}

/// The key that an option on the command line excludes, if that is the error.
fn in_conflict(error: &clap::Error, file: &ConfigFile, merged: &Merge<'_>) -> Option<String> {
    if error.kind() != ErrorKind::ArgumentConflict {
        return None;
    }
    let keys: BTreeSet<_> = file.settings.iter().map(|setting| &setting.key).collect();
    let mut resolving = keys.into_iter().filter(|key| {
        merged(&|setting| setting.key == **key)
            .err()
            .is_none_or(|other| other.kind() != ErrorKind::ArgumentConflict)
    });
    let first = resolving.next()?;
    // Two keys of the file exclude each other.
    resolving.next().is_none().then(|| first.clone())
}

/// The error with its place in the file, if a value of the file is the reason: without that value, it is another one or none.
fn in_file(
    error: clap::Error,
    file: &ConfigFile,
    settings: &[Setting],
    merged: &Merge<'_>,
) -> ParseError {
    if !error.use_stderr() {
        return error.into();
    }
    let message = error.render().to_string();
    let culprit = settings.iter().find(|culprit| {
        merged(&|setting| setting.position == culprit.position)
            .err()
            .is_none_or(|other| other.render().to_string() != message)
    });
    match culprit {
        Some(setting) => ParseError::File(file.error_at(setting.position, &one_line(&message))),
        None => error.into(),
    }
}

/// What clap's message says is wrong, without its advice about the command line.
fn one_line(message: &str) -> String {
    let lines = message.lines().map(str::trim);
    let what: Vec<_> = lines
        .take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more"))
        .filter(|line| !line.is_empty())
        .collect();
    let what = what.join(" ");
    what.strip_prefix("error: ").unwrap_or(&what).to_owned()
}

/// The arguments of `watch` with this file and no other options.
///
/// # Errors
/// What is wrong with the file.
pub(crate) fn watch_args(file: &Path) -> Result<WatchArgs, CommandError> {
    let words = ["scheduled-events", "watch", "--config"].map(OsStr::new);
    let words = words.into_iter().chain([file.as_os_str()]);
    let words: Vec<_> = words.map(OsStr::to_owned).collect();
    match parse(&words).map(|merged| merged.cli.command) {
        Ok(Command::Watch(args)) => Ok(args),
        Err(error) => Err(CommandError::usage(error.into_message())),
        // The second word decides.
        Ok(_) => Err(CommandError::usage("")),
    }
}

/// The policy of `--policy`, whose rules may be in the configuration file.
pub(crate) fn load_policy(policy: &str, config: &ConfigArgs) -> Result<Policy, CommandError> {
    load_policy_with(policy, config, |_| ())
}

/// The same, and passes on where the policy is from.
pub(crate) fn load_policy_with(
    policy: &str,
    config: &ConfigArgs,
    source: impl FnOnce(PolicySource<'_>),
) -> Result<Policy, CommandError> {
    match (&config.config, &config.text) {
        (Some(path), Some(text)) if path.as_os_str() == OsStr::new(policy) => {
            source(PolicySource::File(text.as_bytes()));
            file::policy(path, text)
        }
        _ => policy_file::load_with(policy, source).map_err(|error| match &config.policy_at {
            // What is wrong within a policy has its place there.
            Some(place) if matches!(error, LoadError::Unreadable { .. }) => {
                CommandError::usage(format!("{place}: {error}"))
            }
            _ => CommandError::usage(error),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_and_rules_are_those_of_one_reading() {
        let name = format!("scheduled-events-config-{}.toml", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, "[[rule]]\naction = \"hold\"\n").unwrap();
        let args = watch_args(&path).map_err(|error| error.message).unwrap();
        std::fs::write(&path, "").unwrap();
        let mut content = Vec::new();
        let policy = load_policy_with(&args.policy.policy, &args.config, |source| {
            if let PolicySource::File(text) = source {
                content = text.to_vec();
            }
        });
        let policy = policy.map_err(|error| error.message).unwrap();
        assert_eq!(policy.rules().len(), 1);
        assert!(content.starts_with(b"[[rule]]"));
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn the_key_of_each_option_is_its_name_with_underscores() {
        let mut command = Cli::command();
        command.build();
        for name in ["watch", "run"] {
            let Some(command) = command.find_subcommand(name) else {
                continue;
            };
            for option in file::options(command) {
                let key = option.get_long().unwrap_or_default().replace('-', "_");
                assert_eq!(option.get_id().as_str(), key, "{name}");
            }
        }
    }
}
