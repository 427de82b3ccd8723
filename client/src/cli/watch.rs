//! `watch`: the main job, on the command line.

use std::io;

use scheduled_events_core::Action;

use super::Failure;
use super::endpoint::connect;
use super::host::{CommandHost, Teller};
use super::look;
use super::options::Watch as Arguments;
use super::output;
use crate::platform;
use crate::policy_file;
use crate::state::StateFile;
use crate::watch::{Ended, Handle, Options, Watch};

pub(super) fn watch(arguments: Arguments) -> Result<(), Failure> {
    let policy = policy_file::load(&arguments.rules.policy).map_err(Failure::usage)?;
    let prepares = policy.rules().iter().any(|rule| rule.action == Action::Prepare);
    if prepares && arguments.prepare.is_none() && !arguments.dry_run {
        look::diagnose("warning", "the policy says `prepare`, but there is no --prepare COMMAND: such events are held");
    }
    if !prepares && (arguments.prepare.is_some() || arguments.recover.is_some()) {
        look::diagnose(
            "warning",
            &format!(
                "the policy {} has no rule that says `prepare`: neither --prepare nor --recover will ever run",
                arguments.rules.policy
            ),
        );
    }
    for command in
        [&arguments.prepare, &arguments.recover].into_iter().flatten().chain(arguments.on.iter().map(|on| &on.1))
    {
        if !command.is_found() {
            let program = &command.words()[0];
            look::diagnose(
                "warning",
                &format!("there is no program {program:?} now; a command is run without a shell"),
            );
        }
    }
    let imds = connect(&arguments.service)?;
    platform::survive_file_limits().map_err(|error| signals(&error))?;
    let state = arguments.state.as_deref().map(StateFile::open).transpose().map_err(Failure::usage)?;
    let options = Options {
        api_version: arguments.service.api_version,
        vm_names: arguments.machine.vm_name,
        policy,
        interval: arguments.interval,
        dry_run: arguments.dry_run,
        until_idle: arguments.until_idle,
        max_polls: arguments.max_polls,
        timeout: None,
    };
    output::never_wait()
        .map_err(|error| Failure::usage(format!("the system has no room for another thread: {error}")))?;
    let teller = Teller { json: arguments.output.json };
    teller.say(&format!(
        "watching {} every {}, policy {}; Ctrl-C ends it",
        imds.endpoint(),
        humantime::format_duration(options.interval),
        look::shown(&arguments.rules.policy)
    ));
    let endpoint = imds.endpoint().to_owned();
    let mut host = CommandHost::new(teller);
    let mut watch = Watch::new(imds, options, state).map_err(Failure::usage)?;
    stop_on_signals(watch.handle())?;
    host.prepare = arguments.prepare;
    host.recover = arguments.recover;
    host.on = arguments.on;
    let ended = watch.run(&mut host);
    host.stop();
    output::farewell();
    match ended {
        Ended::Idle | Ended::Stopped | Ended::Polls { answered: true } => Ok(()),
        Ended::Polls { answered: false } => {
            Err(Failure::endpoint(format!("no poll of {endpoint} was answered with a document")))
        }
    }
}

/// The polite signals end the watch; its state is saved, and running commands are ended.
pub(super) fn stop_on_signals(handle: Handle) -> Result<(), Failure> {
    platform::on_stop(move || handle.stop()).map_err(|error| signals(&error))
}

fn signals(error: &io::Error) -> Failure {
    Failure::usage(format!("signals cannot be handled here: {error}"))
}
