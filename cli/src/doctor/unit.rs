//! Checks a unit of systemd: this program runs itself as the unit would run its watcher, with the
//! same user, sandbox and options, through `systemd-run`.
//!
//! The settings are read from the files of the unit (`systemctl cat`), since their words are those
//! that `systemd-run` takes; what `systemctl show` prints is not. Settings about starting, stopping
//! and watching the process are left out.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use scheduled_events::hooks::CommandLine;

use serde::{Deserialize, Serialize};

use super::check::{Check, Finding};
use super::hooks::questions;
use super::others::{check_collector, check_others};
use super::polkit::{Asking, answers_for};
use super::unit_text::{checked_as, logical_lines};
use crate::args::WatchArgs;
use crate::error::CommandError;
use crate::output::diagnose;

/// Settings of `[Service]` that do not belong to the environment of its process.
const LEFT_OUT: [&str; 30] = [
    "Type",
    "Restart",
    "RestartSec",
    "RestartSteps",
    "RestartMaxDelaySec",
    "RestartPreventExitStatus",
    "RestartForceExitStatus",
    "SuccessExitStatus",
    "WatchdogSec",
    "WatchdogSignal",
    "NotifyAccess",
    "PIDFile",
    "BusName",
    "KillMode",
    "KillSignal",
    "SendSIGKILL",
    "SendSIGHUP",
    "TimeoutStartSec",
    "TimeoutStopSec",
    "TimeoutSec",
    "RuntimeMaxSec",
    "RemainAfterExit",
    "GuessMainPID",
    "OOMPolicy",
    "Sockets",
    "FileDescriptorStoreMax",
    "StandardInput",
    "StandardOutput",
    "StandardError",
    // It would be removed with the checks, under the feet of the watcher.
    "RuntimeDirectory",
];

/// For a watcher's records of processes, which the checks do not read.
const BOOT_ID: &str = "SCHEDULED_EVENTS_BOOT_ID=%b";

/// The unit as its files have it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Unit {
    /// The settings to repeat, in order: an empty value resets a list.
    settings: Vec<(String, String)>,
    /// The program and its arguments.
    command: Vec<String>,
    /// The keys of settings that cannot be repeated: systemd alone replaces a part of their values.
    left_out: Vec<String>,
}

impl Unit {
    /// Reads what `systemctl cat` prints: the unit's file and its drop-ins, in order.
    ///
    /// # Errors
    /// The unit runs no watcher whose options can be read.
    fn parse(name: &str, text: &str) -> Result<Self, CommandError> {
        let mut unit = Self::default();
        let mut section = String::new();
        for line in logical_lines(text) {
            if let Some(inner) = line.strip_prefix('[') {
                inner.trim_end_matches(']').clone_into(&mut section);
                continue;
            }
            let Some((key, value)) = line.split_once('=').filter(|_| section == "Service") else {
                continue;
            };
            let (key, value) = (key.trim(), value.trim());
            if key == "ExecStart" {
                unit.command = words(name, value)?;
            } else if key.starts_with("Exec") || LEFT_OUT.contains(&key) || value == BOOT_ID {
            } else if has_specifier(value) {
                unit.left_out.push(key.to_owned());
            } else {
                unit.settings
                    .push((key.to_owned(), value.replace("%%", "%")));
            }
        }
        if unit.command.get(1).map(String::as_str) != Some("watch") {
            return Err(CommandError::usage(format!(
                "the unit {name} does not run `scheduled-events watch`; give the unit of a watcher, or the options themselves"
            )));
        }
        Ok(unit)
    }

    /// The arguments of `systemd-run` that run this program with these first arguments, followed by
    /// the unit's options of `watch`.
    fn arguments(&self, extra: &[(&str, &str)], own: &[String]) -> Vec<String> {
        let options = ["--quiet", "--pipe", "--wait", "--collect"];
        let mut arguments: Vec<_> = options.into_iter().map(str::to_owned).collect();
        arguments.extend(self.properties());
        let extra = extra.iter();
        arguments.extend(extra.map(|(key, value)| format!("--property={key}={value}")));
        arguments.push("--".to_owned());
        arguments.extend(self.command.first().cloned());
        arguments.extend_from_slice(own);
        // It may be among its own already, and must not be there twice.
        let options = self.command.iter().skip(2);
        arguments.extend(options.filter(|option| *option != "--json").cloned());
        arguments
    }

    /// The settings as `systemd-run` takes them.
    fn properties(&self) -> Vec<String> {
        let property = |(key, value): &(String, String)| format!("--property={key}={value}");
        self.settings.iter().map(property).collect()
    }

    /// As whom it is checked, and what of it is not.
    fn finding(&self, name: &str) -> Finding {
        let user = match self.setting("User") {
            Some(user) => user,
            None if self.is_root() => "root",
            None => "a user of its own",
        };
        checked_as(name, user, &self.left_out)
    }

    /// Whether its processes run as root.
    fn is_root(&self) -> bool {
        let is_dynamic =
            ["yes", "true", "on", "1"].contains(&self.setting("DynamicUser").unwrap_or_default());
        !is_dynamic
            && self
                .setting("User")
                .is_none_or(|user| ["root", "0"].contains(&user))
    }

    /// The last value of a setting.
    fn setting(&self, key: &str) -> Option<&str> {
        let mut settings = self.settings.iter().rev();
        let (_, value) = settings.find(|(known, _)| known == key)?;
        Some(value)
            .filter(|value| !value.is_empty())
            .map(String::as_str)
    }
}

/// The words of an `ExecStart`; none if it resets the list.
fn words(name: &str, value: &str) -> Result<Vec<String>, CommandError> {
    let plain = value.trim_start_matches(['@', '-', ':', '+', '!', '|']);
    if plain.is_empty() {
        return Ok(Vec::new());
    }
    let command = CommandLine::parse(plain).map_err(|error| {
        CommandError::usage(format!("the command line of the unit {name}: {error}"))
    })?;
    let is_replaced = |word: &&String| word.starts_with('$') && !word.starts_with("$$");
    if let Some(word) = command
        .words()
        .iter()
        .find(|word| is_replaced(word) || has_specifier(word))
    {
        return Err(CommandError::usage(format!(
            "the command line of the unit {name} has {word}, which only systemd replaces; give the options themselves"
        )));
    }
    let unescape = |word: &String| word.replace("%%", "%").replace("$$", "$");
    Ok(command.words().iter().map(unescape).collect())
}

/// Whether systemd replaces a part of the value, which `systemd-run` would not.
fn has_specifier(value: &str) -> bool {
    value.replace("%%", "").contains('%')
}

/// The unit of this name.
///
/// # Errors
/// This is not root, there is no such unit, or it runs no watcher.
pub(super) fn read(name: &str) -> Result<Unit, CommandError> {
    let full = full_name(name);
    let output = systemctl(&["cat", "--no-pager", "--", &full])?;
    Unit::parse(&full, &output)
}

/// What the checks print after their findings for root, who runs them as a unit: the options are
/// known only there, since they may be in a file.
#[derive(Serialize, Deserialize)]
pub(super) struct Inside {
    asking: Vec<Asking>,
    /// The values of `--audit` and `--vm-name`.
    pub(super) audit: Option<PathBuf>,
    pub(super) names: Vec<String>,
    /// The value of `--metrics-file`.
    metrics_file: Option<PathBuf>,
}

impl Inside {
    pub(super) fn of(args: &WatchArgs) -> Self {
        Self {
            asking: questions(args),
            audit: args.audit.clone(),
            names: args.machine.vm_name.clone(),
            metrics_file: args.metrics_file.clone(),
        }
    }
}

/// A line of the output of the checks inside a unit.
#[derive(Deserialize)]
#[serde(untagged)]
enum Line {
    Finding(Finding),
    Inside(Inside),
}

/// Runs the checks as the unit would, and adds those that only root can do.
///
/// # Errors
/// `systemd-run` fails, or the program in it does not print findings.
pub(super) fn check(name: &str, unit: &Unit) -> Result<(Vec<Finding>, Inside), CommandError> {
    let full = full_name(name);
    let main = systemctl(&["show", "--property=MainPID", "--value", "--", &full])?;
    let main: u32 = main.trim().parse().unwrap_or_default();
    let own = [
        "doctor".to_owned(),
        "--json".to_owned(),
        format!("--unit-process={main}"),
    ];
    let output = Command::new("systemd-run")
        .args(unit.arguments(&[], &own))
        .stdin(Stdio::null())
        .output()
        .map_err(|error| CommandError::usage(format!("cannot run systemd-run: {error}")))?;
    let (mut findings, mut inside) = (Vec::new(), None);
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        match serde_json::from_str(line) {
            Ok(Line::Finding(finding)) => findings.push(finding),
            Ok(Line::Inside(last)) => inside = Some(last),
            Err(_) => {}
        }
    }
    let Some(inside) = inside else {
        let errors = String::from_utf8_lossy(&output.stderr);
        let first = errors.lines().next().unwrap_or("it printed nothing");
        return Err(CommandError::usage(format!(
            "cannot run the checks as the unit {full} does: {first}"
        )));
    };
    // The sandbox hides other processes, and polkit answers only root.
    findings.retain(|finding| finding.check != Check::Others);
    findings.push(check_others());
    findings.extend(inside.metrics_file.as_deref().and_then(check_collector));
    findings.push(unit.finding(&full));
    if !unit.is_root() {
        findings.extend(answers_for(&inside.asking, &unit.properties()));
    }
    Ok((findings, inside))
}

/// Runs the rehearsal as the unit would run the watcher. The service of the rehearsal is on this
/// machine, so that the sandbox must let it reach that, too.
///
/// # Errors
/// `systemd-run` fails, or the rehearsal does.
pub(super) fn rehearse(name: &str, unit: &Unit, own: &[String]) -> Result<(), CommandError> {
    if !unit.left_out.is_empty() {
        diagnose("warning", &unit.finding(&full_name(name)).sentence());
    }
    let extra = [("IPAddressAllow", "localhost")];
    let status = Command::new("systemd-run")
        .args(unit.arguments(&extra, own))
        .stdin(Stdio::null())
        .status()
        .map_err(|error| CommandError::usage(format!("cannot run systemd-run: {error}")))?;
    if status.success() {
        Ok(())
    } else {
        Err(CommandError::printed())
    }
}

/// The text of the unit's files.
pub(super) fn text(name: &str) -> String {
    systemctl(&["cat", "--no-pager", "--", &full_name(name)]).unwrap_or_default()
}

fn full_name(name: &str) -> String {
    if name.contains('.') {
        name.to_owned()
    } else {
        format!("{name}.service")
    }
}

fn systemctl(arguments: &[&str]) -> Result<String, CommandError> {
    let output = Command::new("systemctl")
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| CommandError::usage(format!("cannot run systemctl: {error}")))?;
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        let first = errors.lines().next().unwrap_or("no reason given");
        return Err(CommandError::usage(format!(
            "systemctl {}: {first}",
            arguments.join(" ")
        )));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use scheduled_events_text::finding::Outcome;

    const SHIPPED: &str = include_str!("../../systemd/scheduled-events.service");
    /// A drop-in from before the configuration file.
    const DRAIN: &str = "[Service]\nExecStart=\nExecStart=/usr/local/bin/scheduled-events watch --state /var/lib/scheduled-events/state \\
    --policy /etc/scheduled-events/policy.toml \\
    --prepare 'systemctl stop app.service' \\
    --recover 'systemctl start app.service'\n";

    fn parse(text: &str) -> Result<Unit, String> {
        Unit::parse("u.service", text).map_err(|error| error.message)
    }

    #[test]
    fn the_shipped_unit_is_repeated_with_its_user_sandbox_and_options() {
        let unit = parse(&format!(
            "# /lib/u.service\n{SHIPPED}\n# /etc/drain.conf\n{DRAIN}"
        ))
        .unwrap();
        let own = ["doctor", "--json"].map(str::to_owned);
        let plain = parse(SHIPPED).unwrap().arguments(&[], &own);
        let options = ["--config", "/etc/scheduled-events/watch.toml"];
        assert!(plain.ends_with(&options.map(str::to_owned)), "{plain:?}");
        let arguments = unit.arguments(&[("IPAddressAllow", "localhost")], &own);
        let end = arguments.iter().position(|word| word == "--").unwrap();
        let (before, after) = arguments.split_at(end);
        assert_eq!(
            after[1..],
            [
                "/usr/local/bin/scheduled-events",
                "doctor",
                "--json",
                "--state",
                "/var/lib/scheduled-events/state",
                "--policy",
                "/etc/scheduled-events/policy.toml",
                "--prepare",
                "systemctl stop app.service",
                "--recover",
                "systemctl start app.service",
            ]
        );
        for property in [
            "User=scheduled-events",
            "DynamicUser=yes",
            "IPAddressDeny=any",
            "IPAddressAllow=169.254.169.254",
            "IPAddressAllow=localhost",
            "ProtectSystem=strict",
            "NoNewPrivileges=yes",
            "StateDirectory=scheduled-events",
            "SystemCallFilter=~@privileged @resources",
        ] {
            let word = format!("--property={property}");
            assert!(before.contains(&word), "{property}: {before:?}");
        }
        for left_out in [
            "Type=",
            "Restart",
            "Watchdog",
            "ExecStart",
            "SCHEDULED_EVENTS_BOOT_ID",
            "KillMode",
        ] {
            let is_passed = before.iter().any(|word| word.contains(left_out));
            assert!(!is_passed, "{left_out}: {before:?}");
        }
        assert_eq!(unit.setting("User"), Some("scheduled-events"));
        assert!(!unit.is_root());
    }

    #[test]
    fn what_cannot_be_repeated_is_named() {
        let text = "[Service]\nExecStart=/a watch\nReadWritePaths=/srv/%i\nReadWritePaths=/srv/100%%\nEnvironment=TOKEN=%i\n";
        let unit = parse(text).unwrap();
        assert_eq!(unit.properties(), ["--property=ReadWritePaths=/srv/100%"]);
        let finding = unit.finding("u.service");
        assert_eq!(finding.outcome, Outcome::Warn);
        let expected = "u.service: checked as root, without ReadWritePaths, Environment, ";
        assert!(finding.found.starts_with(expected), "{finding:?}");
        let shipped = parse(SHIPPED).unwrap().finding("u.service");
        let expected = Finding::ok(Check::Unit, "u.service: checked as scheduled-events");
        assert_eq!(shipped, expected);
    }

    #[test]
    fn a_later_command_line_replaces_an_earlier_one_and_others_are_refused() {
        let unit = parse(
            "[Service]\nExecStart=/a watch --json\n[Service]\nExecStart=\nExecStart=-/b watch \\\n# no\n  --policy 100%%\n[Install]\nUser=x\n",
        );
        let unit = unit.unwrap();
        assert_eq!(unit.command, ["/b", "watch", "--policy", "100%"]);
        assert_eq!(unit.setting("User"), None);
        assert!(unit.is_root());
        for (text, reason) in [
            (
                "[Service]\nExecStart=/bin/sleep 9\n",
                "does not run `scheduled-events watch`",
            ),
            (
                "[Service]\nExecStart=/a watch $OPTIONS\n",
                "has $OPTIONS, which only systemd replaces",
            ),
            ("[Service]\nExecStart=/a watch 'x\n", "quote"),
        ] {
            let refused = parse(text).unwrap_err();
            assert!(refused.contains(reason), "{refused}");
        }
    }
}
