//! The command line: subcommands, options and their help.
//!
//! `look`, `watch`, `run`, `operate`, `service` and `test` have the arguments of the commands in
//! the folders of these names, and `shared` those that several of them accept. `commands_page`
//! writes them all to a page of the guide.

mod doctor;
mod look;
mod operate;
#[cfg(unix)]
mod run;
#[cfg(windows)]
mod service;
mod shared;
mod test;
mod watch;

#[cfg(all(test, unix))]
mod commands_page;

use clap::{Arg, Parser, Subcommand};

pub(crate) use doctor::DoctorArgs;
pub(crate) use look::{
    CheckArgs, DiscoverArgs, Language, ListArgs, StatusArgs, TimelineArgs, WaitArgs,
};
pub(crate) use operate::{
    ApproveArgs, CompletionsArgs, EvictionTool, ManArgs, ProfileTool, SimulateEvictionArgs,
    TerminateProfileArgs,
};
#[cfg(unix)]
pub(crate) use run::{OnAdvice, RunArgs};
pub(crate) use scheduled_events::resource_name::Name;
#[cfg(windows)]
pub(crate) use service::{ServiceCommand, WindowsServiceArgs};
#[cfg(windows)]
pub(crate) use shared::STATE_FILE;
pub(crate) use shared::{ConfigArgs, ENDPOINT_VARIABLE, MachineArgs, OutputArgs, ServiceArgs};
pub(crate) use test::{CaptureArgs, ContractArgs, DemoArgs, RecordArgs, ReplayArgs, ScenariosArgs};
pub(crate) use watch::{ConfiguredArgs, WatchArgs};

/// Watch Azure Scheduled Events: decide, prepare, approve and recover
#[derive(Parser)]
#[allow(clippy::doc_markdown)] // The doc comments are help texts for terminals.
#[command(
    name = "scheduled-events",
    version,
    subcommand_required = true,
    arg_required_else_help = true,
    max_term_width = 120,
    mut_subcommands(|command| command.mut_args(may_be_negative)),
    after_help = "Try it without Azure:  scheduled-events demo\n\n\
                  Exit codes:\n  \
                  0  success\n  \
                  1  the endpoint cannot be reached or refuses, nothing can be approved, or the output cannot be written; \
                      contract: the service contradicts a rule; discover: no address is found; doctor: a check fails; \
                      replay: a client breaks a rule, fails, or is shown no event; status: nothing watches, or no document arrives; \
                      wait: whether there is an event is unknown\n  \
                  2  usage error\n  \
                  3  the input is not a valid document\n  \
                  4  wait: the time is over\n\n\
                  `run` ends with the exit code of its worker."
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
    /// Print no progress for people, and only warnings and errors on standard error. Results,
    /// records and the output of your commands are printed
    #[arg(long, short, global = true, display_order = 1000)]
    pub(crate) quiet: bool,
    /// When to use colour: `auto` means on a terminal, unless NO_COLOR is set in the environment
    #[arg(
        long,
        global = true,
        value_name = "WHEN",
        default_value = "auto",
        display_order = 1000
    )]
    pub(crate) color: ColorWhen,
}

/// Lets `-1` be the value of an option for a number or a time: its parser says what it expects. Without that, `-1` would be an
/// unknown option.
fn may_be_negative(argument: Arg) -> Arg {
    const NUMBERS: [&str; 6] = ["TIME", "TIME|never", "N", "N|never", "X", "NUMBER"];
    let names = argument.get_value_names().unwrap_or_default();
    if names.iter().any(|name| NUMBERS.contains(&name.as_str())) {
        argument.allow_hyphen_values(true)
    } else {
        argument
    }
}

/// When to use colour. `auto` is on terminals, unless the environment variable `NO_COLOR` is set.
#[derive(Clone, Copy, clap::ValueEnum)]
pub(crate) enum ColorWhen {
    Auto,
    Always,
    Never,
}

impl From<ColorWhen> for anstream::ColorChoice {
    fn from(when: ColorWhen) -> Self {
        match when {
            ColorWhen::Auto => Self::Auto,
            ColorWhen::Always => Self::Always,
            ColorWhen::Never => Self::Never,
        }
    }
}

#[derive(Subcommand)]
#[allow(clippy::large_enum_variant)] // There is one value, created once.
pub(crate) enum Command {
    /// Poll once and print the announced events
    #[command(
        after_help = "Example:  scheduled-events list --json | jq -r 'select(.record==\"event\").event_type'"
    )]
    List(ListArgs),
    /// Poll continuously: report changes, decide, prepare, approve and recover
    #[command(
        after_help = "Example:  scheduled-events watch --policy sample --state /var/lib/scheduled-events/state\n\
                      Example:  scheduled-events watch --policy drain.toml --prepare 'systemctl stop app' \\\n          \
                      --recover 'systemctl start app' --on scheduled='logger -t azure maintenance ahead'\n\n\
                      A COMMAND is split into words as a shell does it, and run without a shell. It receives the event in \
                      environment variables (SCHEDULED_EVENTS_EVENT_ID, SCHEDULED_EVENTS_EVENT_TYPE, one per member) and as \
                      JSON on standard input. A preparation is terminated when its event is over or becomes another one, and a \
                      recovery when the machine must prepare again. Otherwise a command may run for 15 minutes; a preparation \
                      may run for any time if the start of the event is known, and a command for a change until that \
                      start (NotBefore)."
    )]
    Watch(WatchArgs),
    /// Approve events: Azure may then start them early, on all machines they affect
    #[command(
        override_usage = "scheduled-events approve [OPTIONS] <ID>...\n       \
                          scheduled-events approve [OPTIONS] --mine | --type <TYPES>",
        after_help = "Example:  scheduled-events approve C7061BAC-AFDC-4513-B24B-AA5F13A16123\n\
                      Example:  scheduled-events approve --mine --type Freeze,Reboot\n\n\
                      It polls first, and approves either all events that were named, or none: each must be announced, \
                      wait for approval and name this machine."
    )]
    Approve(ApproveArgs),
    /// Wait until an event is announced, for shell scripts
    #[command(
        after_help = "Example:  scheduled-events wait --mine --type Preempt,Terminate && systemctl stop app\n\
                      Example:  scheduled-events wait --timeout 10min || [ $? -eq 4 ]\n\n\
                      Exit codes: 0 an event that matches is announced, Scheduled or Started, and was printed as by `list` \
                      (one that is Completed or Canceled is over); \
                      1 the time is over and no poll was answered with a document, or none in the last 10 seconds, or there was an event and this machine's \
                      name, which --mine needs, is unknown; 4 the time is over. Failed polls are reported on standard error and repeated."
    )]
    Wait(WaitArgs),
    /// Show whether the machine is in service, and what each open event waits for, from the state
    /// file of `watch`
    #[command(after_help = "Example:  scheduled-events status\n\
                      Example:  scheduled-events status --json | jq -e 'select(.record==\"status\").in_service'\n\n\
                      It changes nothing, and shows what the watcher saved last; a watcher saves when something changes. Times \
                      are those of the metadata service's clock, as far as the watcher knows it. Exit codes: 0 documents arrive; \
                      1 the state was printed, but nothing watches, or the watcher is blind: no document arrived for 10 seconds \
                      (or three intervals), or it hangs or has not reported; 2 there is no state file, or it cannot be read; 3 it is damaged, or no \
                      state file.")]
    Status(StatusArgs),
    /// Keep an interruptible workload, such as a worker on a Spot machine: start it, stop it in
    /// time, start it again
    #[cfg(unix)]
    #[command(
        override_usage = "scheduled-events run [OPTIONS] -- <COMMAND>...",
        after_help = "Example:  scheduled-events run --approve --state /var/lib/worker/state -- python3 worker.py\n\
                      Example:  scheduled-events run --approve --grace 8s --checkpoint 'worker-save' --every 5min \\\n          \
                      --resume 'worker-restore' --state /var/lib/worker/state -- worker --queue jobs\n\n\
                      The worker starts after the warm-up, whether the metadata service answers or not. When an event of \
                      this machine is announced that stops it, a last checkpoint is made, which ends 2 seconds and the \
                      grace before the event at the latest. Then the worker and all that it started get SIGTERM, and \
                      SIGKILL after the grace. Once the event is cancelled or over, the resume command and the warm-up \
                      run, and the worker starts again. With --state, that also happens in the run after a boot. \
                      Each event of this machine gets a line on standard error, with the reason if the worker goes on.\n\n\
                      The worker has standard input and output, and a process group of its own; signals are passed on to \
                      that. Commands run without a shell and get SCHEDULED_EVENTS_PHASE (warm-up, checkpoint, stop, \
                      resume), SCHEDULED_EVENTS_WORKER_PID while the worker runs, and the event in variables and on \
                      standard input if there is one.\n\n\
                      Exit codes: that of a worker that ends by itself, which is not started again, whether it succeeded \
                      or failed; 128+N if signal N ended it, or ended this program while no worker ran; 2 usage error, or \
                      the state file or the lock is in use; 125 the warm-up or the resume command failed at the start; \
                      126 the worker cannot be executed; 127 it is not found. There is none if the machine goes away \
                      first: with --state, the next run resumes."
    )]
    Run(RunArgs),
    /// Print the options of `watch` that are in force, as a configuration file, and where each comes
    /// from
    #[command(after_help = "Example:  scheduled-events config\n\
                      Example:  scheduled-events config --config watch.toml --policy sample > merged.toml\n\n\
                      Each line has its origin in a comment: the line of the file, the command line, an environment \
                      variable or a default. `watch --config` reads what is printed.")]
    Config(ConfiguredArgs),
    /// Validate a configuration, a policy or a saved document, and show what would be done, without
    /// network
    #[command(
        after_help = "Example:  scheduled-events check --config /etc/scheduled-events/watch.toml\n\
                      Example:  scheduled-events check saved.json --vm-name WestNO_0 --policy sample --now 2022-04-11T22:20:00Z\n\
                      Example:  scheduled-events check --policy drain.toml --as c > policy.h"
    )]
    Check(CheckArgs),
    /// Check what a watcher with these options needs, before an event does: the metadata service,
    /// this machine's name, the policy, the commands, the files
    #[command(
        override_usage = "scheduled-events doctor [--config <FILE>] [OPTIONS OF WATCH] [--report <FILE>] [--rehearse <SCENARIO> [--yes]]\n       \
                          scheduled-events doctor --unit <UNIT> [--report <FILE>] [--rehearse <SCENARIO> [--yes]]",
        after_help = "Example:  sudo scheduled-events doctor --unit scheduled-events\n\
                      Example:  scheduled-events doctor --policy drain.toml --prepare 'systemctl stop app' \\\n          \
                      --recover 'systemctl start app' --state /var/lib/scheduled-events/state\n\
                      Example:  scheduled-events doctor --policy drain.toml --prepare ./drain --rehearse reboot\n\n\
                      It prints a line a check: ok, warn or FAIL, what was found, and what to do. Nothing is approved or \
                      written, and no command is run without --rehearse. Exit codes: 0 no failure; 1 a failure; 2 usage error."
    )]
    Doctor(DoctorArgs),
    /// Serve a scenario as Azure's metadata service would
    #[command(after_help = "Example:  scheduled-events replay preempt --speed 10\n\
                      Example:  scheduled-events replay live-migration --fault post.status:500@1-3 --fault empty@5\n\
                      Then:     scheduled-events watch --endpoint http://127.0.0.1:PORT --policy sample --until-idle")]
    Replay(ReplayArgs),
    /// Find the metadata service of a machine outside a virtual network, in its DHCP lease
    #[command(after_help = "Example:  scheduled-events discover\n\
                      Example:  scheduled-events list --endpoint auto\n\n\
                      It reads the lease files of systemd-networkd, NetworkManager, dhclient and dhcpcd, and prints \
                      http://ADDRESS from the newest one that has DHCP option 245. Exit code 1: there is none.")]
    Discover(DiscoverArgs),
    /// Make a scenario of what a watcher saw, for `replay` and `demo`
    #[command(
        after_help = "Example:  scheduled-events record --mask /var/lib/scheduled-events/audit > seen.toml\n\
                      Example:  scheduled-events watch --json --max-polls 600 | scheduled-events record - > seen.toml\n\
                      Then:     scheduled-events replay seen.toml"
    )]
    Record(RecordArgs),
    /// Keep every exchange with the service, as evidence of what it does
    #[command(
        after_help = "Example:  scheduled-events capture --to capture.jsonl --mask --probe\n\n\
                      It polls as `watch` does, and does nothing about what it sees. `contract` judges the file, and `record` makes \
                      a scenario of it."
    )]
    Capture(CaptureArgs),
    /// Check which rules of the wire contract a capture shows the service to keep
    #[command(after_help = "Example:  scheduled-events contract capture.jsonl\n\n\
                      Each rule is seen, contradicted or not-seen, with the sequence number of the exchange that shows it. It exits \
                      with 1 if the service contradicts a rule, and uses no network.")]
    Contract(ContractArgs),
    /// Draw a maintenance of one or several machines as a picture, for a post-mortem
    #[command(
        after_help = "Example:  scheduled-events timeline /var/lib/scheduled-events/audit > maintenance.svg\n\
                      Example:  scheduled-events timeline WestNO_*.audit > maintenance.svg\n\n\
                      It prints SVG, which any browser shows. Events that follow each other within an hour are one maintenance."
    )]
    Timeline(TimelineArgs),
    /// List the built-in scenarios, or print the file of one
    #[command(after_help = "Example:  scheduled-events scenarios\n\
                      Example:  scheduled-events scenarios --show preempt > my.toml && scheduled-events demo my.toml")]
    Scenarios(ScenariosArgs),
    /// Replay and watch a scenario in one process
    #[command(after_help = "Example:  scheduled-events demo preempt")]
    Demo(DemoArgs),
    /// Print how a scale set announces deletions with Terminate events, for the tool of your choice
    #[command(
        after_help = "Example:  scheduled-events terminate-profile --scale-set web --resource-group shop --timeout 10m --as az\n\n\
                      It prints what an operator runs, the update of the instances included; it changes nothing and uses no \
                      network."
    )]
    TerminateProfile(TerminateProfileArgs),
    /// Print how to evict a Spot machine for a drill, for the tool of your choice
    #[command(
        override_usage = "scheduled-events simulate-eviction --resource-group <NAME> --vm <NAME> --as <TOOL>\n       \
                          scheduled-events simulate-eviction --resource-group <NAME> --scale-set <NAME> --instance <ID> --as \
                          <TOOL>",
        after_help = "Example:  scheduled-events simulate-eviction --resource-group shop --vm worker --as az\n\n\
                      It prints what an operator runs, and what to expect; it changes nothing and uses no network."
    )]
    SimulateEviction(SimulateEvictionArgs),
    /// Watch as a Windows service: install, start, stop and remove it
    #[cfg(windows)]
    Service(WindowsServiceArgs),
    /// Print completions for a shell
    #[command(after_help = "Example:  scheduled-events completions bash > \
                            ~/.local/share/bash-completion/completions/scheduled-events")]
    Completions(CompletionsArgs),
    /// Print the manual page, or that of one command
    #[command(after_help = "Example:  scheduled-events man | man -l -\n\
                            Example:  scheduled-events man watch > scheduled-events-watch.1")]
    Man(ManArgs),
}

impl Command {
    /// The configuration file of a command that has one.
    pub(crate) fn config_mut(&mut self) -> Option<&mut ConfigArgs> {
        match self {
            Self::Watch(args) => Some(&mut args.config),
            #[cfg(unix)]
            Self::Run(args) => Some(&mut args.config),
            Self::Config(args) => Some(&mut args.watch.config),
            Self::Doctor(args) => Some(&mut args.watch.config),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;
    use clap::error::ErrorKind;
    use scheduled_events_core::{Change, limits};

    use super::*;
    use scheduled_events::limits::{
        AUDIT_FILE_MAX, AUDIT_FILES_MAX, AUDIT_WAIT, COMMAND_TIME, GATE_ANOTHER_APPROVES, GATE_TIME,
    };

    #[test]
    fn a_negative_number_is_a_wrong_value_and_the_message_has_what_is_expected() {
        let wrong_value = |words: &[&str]| {
            let words = ["scheduled-events"].iter().chain(words);
            let error = Cli::command().try_get_matches_from(words).err()?;
            (error.kind() == ErrorKind::ValueValidation).then(|| error.render().to_string())
        };
        let mut tried = 0;
        for command in Cli::command().get_subcommands() {
            for option in command.get_arguments().filter(|arg| !arg.is_hide_set()) {
                let Some(long) = option.get_long().map(|long| format!("--{long}")) else {
                    continue;
                };
                let given =
                    |value: &str| wrong_value(&[command.get_name(), &format!("{long}={value}")]);
                let takes_numbers = ["1", "9s", "10min"].iter().any(|one| given(one).is_none());
                let Some(message) = given("-1").filter(|_| takes_numbers) else {
                    continue;
                };
                let beside = wrong_value(&[command.get_name(), &long, "-1"]);
                assert_eq!(beside.as_ref(), Some(&message), "{}", command.get_name());
                let is_plain = |words: &str| !message.contains(words);
                assert!(
                    is_plain("invalid digit") && is_plain(" is not in "),
                    "{message}"
                );
                assert!(message.contains("expected"), "{message}");
                tried += 1;
            }
        }
        assert!(tried >= 15, "{tried}");
    }

    /// Each line of the help, and its row in the guide.
    #[test]
    fn the_guide_has_the_exit_codes_of_the_help() {
        let help = Cli::command().get_after_help().unwrap().to_string();
        let (_, codes) = help.split_once("Exit codes:\n").unwrap();
        let (codes, _) = codes.split_once("\n\n").unwrap();
        let rows = codes.lines().map(|line| {
            let (code, meaning) = line.trim().split_once("  ").unwrap();
            format!("| {code} | {meaning} |")
        });
        let guide = include_str!("../../../docs/use/shell.md").replace('`', "");
        let found = guide.lines().filter(|line| {
            let code = line.strip_prefix("| ").and_then(|line| line.chars().next());
            code.is_some_and(|char| char.is_ascii_digit())
        });
        assert!(
            rows.eq(found.map(str::to_owned)),
            "docs/use/shell.md has not:\n{codes}"
        );
    }

    #[test]
    fn the_help_of_watch_names_every_change_and_the_time_of_a_command() {
        let mut cli = Cli::command();
        let help = cli
            .find_subcommand_mut("watch")
            .expect("the subcommand")
            .render_long_help()
            .to_string();
        // Independent of the terminal's width.
        let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
        for change in Change::ALL {
            assert!(help.contains(change.word()), "{change}");
        }
        assert!(
            help.contains(&format!("for {} minutes", COMMAND_TIME.as_secs() / 60)),
            "{help}"
        );
        assert!(
            help.contains(&format!("at least {}ms", limits::INTERVAL_MIN_MS)),
            "{help}"
        );
        assert!(
            help.contains(&format!("or after {} seconds", AUDIT_WAIT.as_secs())),
            "{help}"
        );
        assert!(
            help.contains(&format!("At {} MiB", AUDIT_FILE_MAX >> 20)),
            "{help}"
        );
        assert!(
            help.contains(&format!("up to FILE.{AUDIT_FILES_MAX}")),
            "{help}"
        );
        assert!(
            help.contains(&format!("{GATE_ANOTHER_APPROVES} that another machine")),
            "{help}"
        );
        let hooks = include_str!("../../../docs/use/hooks.md");
        assert!(hooks.contains(&format!(
            "{GATE_ANOTHER_APPROVES}: another machine approves"
        )));
        assert!(hooks.contains(&format!(
            "after {} seconds, which counts as not yet",
            GATE_TIME.as_secs()
        )));
    }
}
