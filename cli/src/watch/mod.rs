//! `watch`: polls, decides, prepares, approves and recovers, until it is stopped.
//!
//! The watcher is the library's. This file starts it as the arguments specify. `host` acts for it:
//! it runs the user's commands, and reports through `printer`, which has `others_summary` for the
//! events of other machines. `reload` reads its rules and commands again. `gate_lines` keeps what the gate
//! says again out of the log.

mod gate_lines;
pub(crate) mod host;
mod others_summary;
pub(crate) mod printer;
mod reload;

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use scheduled_events_core::{Change, Policy};

use crate::args::WatchArgs;
use crate::config::{InForce, load_policy_with};
use crate::doctor::{NameCheck, check_arguments, commands};
use crate::endpoint::connect;
use crate::error::CommandError;
#[cfg(windows)]
use crate::output::event_log::{self, Entry};
use crate::output::format::{count, printable};
use crate::output::journal;
use crate::output::{self, diagnose};
use crate::own_files::check_files;
use crate::startup::{patiently, stop_on_signals, survive_size_limit};
use host::CommandHost;
use printer::{RecordPrinter, Stamp, print_note};
use reload::Reloader;
use scheduled_events::audit::Audit;
use scheduled_events::hooks::{self, CommandLine};
use scheduled_events::metrics::{Metrics, MetricsFile};
use scheduled_events::state::StateFile;
use scheduled_events::watch::{StopReason, Watcher};

/// `again` is the command line, which is read again on SIGHUP, with the options that it and its file have set; `None` where
/// nothing is read again.
pub(crate) fn watch(
    args: WatchArgs,
    again: Option<(&[OsString], InForce)>,
) -> Result<(), CommandError> {
    #[cfg(windows)]
    if args.event_log {
        patiently(|| event_log::open(diagnose))?;
    }
    check_files(&args)?;
    let mut metrics = Metrics::new();
    let policy = load_policy_with(&args.policy.policy, &args.config, |source| {
        metrics.set_policy(source);
    })?;
    warn(&args, &policy);
    let runs_commands = runs_commands(&args);
    let reloader = again.and_then(|(arguments, in_force)| {
        Reloader::new(&args, arguments, &in_force, metrics.commands())
    });
    let imds = connect(&args.service)?;
    survive_size_limit()?;
    // A dry run changes no file.
    let open = if args.dry_run {
        StateFile::open_read_only
    } else {
        StateFile::open
    };
    let state = args
        .state
        .as_deref()
        .map(open)
        .transpose()
        .map_err(CommandError::usage)?;
    if let Some((file, _)) = state.as_ref().filter(|_| !args.dry_run) {
        let left = hooks::register_with(file);
        if left > 0 {
            let text = format!(
                "ended {} that the last run left running",
                count(left, "command")
            );
            diagnose("note", &text);
        }
    }
    let open_audit = |path: &PathBuf| Audit::open(path, print_note);
    let audit = args
        .audit
        .as_ref()
        .filter(|_| !args.dry_run)
        .map(open_audit)
        .transpose()
        .map_err(CommandError::usage)?;
    let open_metrics = |path: &PathBuf| MetricsFile::new(path, print_note);
    let metrics_file = args
        .metrics_file
        .as_ref()
        .filter(|_| !args.dry_run)
        .map(open_metrics)
        .transpose()
        .map_err(CommandError::usage)?;
    let name_check = NameCheck::new(&imds, &args.machine.vm_name);
    patiently(output::start_writers)?;
    if let Some(file) = &metrics_file {
        patiently(|| file.start_writer())?;
    }
    let printer =
        RecordPrinter::new(&args.output, args.log.verbose, Stamp::of_log()).dry_run(args.dry_run);
    let about = format!(
        "{}watching {} every {}, policy {}",
        if args.dry_run {
            "dry run, which does nothing: "
        } else {
            ""
        },
        imds.endpoint(),
        humantime::format_duration(args.interval),
        printable(&args.policy.policy)
    );
    if journal::has_output() {
        // Nobody presses a key there.
        printer.message(&about);
    } else {
        printer.message(&format!("{about}; press Ctrl-C to stop"));
    }
    #[cfg(windows)]
    event_log::add(Entry::Watching, &about);
    let endpoint = imds.endpoint().to_owned();
    let mut host = CommandHost::new(printer);
    host.audit = audit;
    host.name_check = name_check;
    host.metrics = metrics_file.map(|file| (metrics, file));
    let mut watch = Watcher::builder()
        .imds(imds)
        .state(state)
        .api_version(args.service.api_version)
        .advice(needs_advice(&args.on))
        .vm_names(args.machine.vm_name)
        .policy(policy)
        .interval(args.interval)
        .dry_run(args.dry_run)
        .asks_gate(args.gate.is_some())
        .last_call(args.last_call.unwrap_or_default())
        .prepare_retries(args.prepare_retries)
        .recover_all(args.recover_all)
        .until_idle(args.until_idle)
        .max_polls(args.max_polls)
        .build()
        .map_err(CommandError::usage)?;
    if runs_commands {
        patiently(hooks::reserve_thread)?;
    }
    // Last: while the main thread waits for another one, a signal ends the process at once.
    host.reloaded = reloader.as_ref().map(Reloader::pending);
    let handle = watch.handle();
    let reload = reloader.map(|reloader| -> Arc<dyn Fn() + Send + Sync> {
        let (reloader, handle) = (Arc::new(reloader), handle.clone());
        Arc::new(move || reloader.start(&handle))
    });
    stop_on_signals(&handle, reload.as_ref())?;
    host.prepare = args.prepare;
    host.recover = args.recover;
    host.gate = args.gate;
    host.prepare_timeout = args.prepare_timeout;
    host.on = args.on;
    let ended = watch.run_with(&mut host);
    host.printer.finish();
    host.stop();
    if let Some(audit) = &host.audit {
        audit.finish();
    }
    host.finish_metrics();
    #[cfg(windows)]
    event_log::add(Entry::Stopped, "stopped");
    output::flush_on_exit();
    match ended {
        StopReason::Idle | StopReason::Stopped | StopReason::PollsDone { answered: true } => {
            output::check_written()
        }
        StopReason::PollsDone { answered: false } => Err(CommandError::endpoint(format!(
            "no poll of {endpoint} was answered with a document"
        ))),
    }
}

/// Whether a command waits for advice.
pub(crate) fn needs_advice(on: &[(Change, CommandLine)]) -> bool {
    on.iter()
        .any(|(change, _)| matches!(change, Change::Advised | Change::AdviceWithdrawn))
}

/// Whether an event may start commands.
pub(crate) fn runs_commands(args: &WatchArgs) -> bool {
    commands(args).next().is_some()
}

/// Warns about arguments that are valid, but most likely not intended.
pub(crate) fn warn(args: &WatchArgs, policy: &Policy) {
    for finding in check_arguments(args, policy) {
        diagnose("warning", &finding.sentence());
    }
    for (_, _, command) in commands(args) {
        if !command.program_exists() {
            let program = &command.words()[0];
            diagnose(
                "warning",
                &format!(
                    "cannot find the program {program:?}, or it is not executable; commands are run without a shell"
                ),
            );
        }
    }
}
