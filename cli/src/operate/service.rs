//! `service`: the watcher as a Windows service.

use std::ffi::OsString;
use std::path::{self, Path};

use scheduled_events_windows::service::{self, Installation};
use scheduled_events_windows::{event_log as log_source, files};

use crate::args::{Command, STATE_FILE, ServiceCommand, WatchArgs, WindowsServiceArgs};
use crate::config::{self, ParseError, load_policy};
use crate::error::CommandError;
use crate::output::event_log::{self, Entry};
use crate::output::{diagnose, print};
use crate::own_files::check_files;
use crate::startup::patiently;
use crate::watch::watch;
use scheduled_events::policy_file::PRESETS;

/// The name of the service.
const NAME: &str = event_log::SOURCE;

/// The options of `watch` whose values are paths.
const PATH_OPTIONS: [&str; 5] = [
    "--config",
    "--state",
    "--audit",
    "--metrics-file",
    "--policy",
];

pub(crate) fn service(args: WindowsServiceArgs) -> Result<(), CommandError> {
    let done = match args.command {
        ServiceCommand::Install(watch) => return install(watch.options),
        ServiceCommand::Run(watch) => {
            return service::run(NAME, move || run(&watch.options)).map_err(CommandError::usage);
        }
        ServiceCommand::Uninstall => service::uninstall(NAME).map(|()| {
            if let Err(error) = log_source::remove_source(NAME) {
                diagnose(
                    "warning",
                    &format!("cannot remove the source of the Event Log: {error}"),
                );
            }
            "the service is removed; its state and its audit file stay".to_owned()
        }),
        ServiceCommand::Start => service::start(NAME).map(|()| "the service runs".to_owned()),
        ServiceCommand::Stop => service::stop(NAME).map(|()| "the service is stopped".to_owned()),
        ServiceCommand::Status => service::status(NAME),
    };
    print(format!("{}\n", done.map_err(CommandError::usage)?).as_bytes())
}

fn install(options: Vec<OsString>) -> Result<(), CommandError> {
    let mut options = absolute(options).map_err(CommandError::usage)?;
    // Prints messages, and the help of `watch`, in the same form as `watch`.
    let mut watch = match parse(&options) {
        Ok(watch) => watch,
        Err(ParseError::Arguments(error)) => error.exit(),
        Err(ParseError::File(error)) => return Err(error),
    };
    if watch.state.is_none() {
        watch.state = Some(STATE_FILE.into());
        options.extend(["--state", STATE_FILE].map(OsString::from));
    }
    check_files(&watch)?;
    load_policy(&watch.policy.policy, &watch.config)?;
    check_commands(&watch)?;
    let program = std::env::current_exe().map_err(|error| {
        CommandError::usage(format!("cannot find this program's file: {error}"))
    })?;
    warn_of_owner(&program);
    let folder = Path::new(STATE_FILE).parent().unwrap_or(Path::new("."));
    files::create_private_folder(folder).map_err(|error| {
        CommandError::usage(format!(
            "cannot make the folder {}: {error}",
            folder.display()
        ))
    })?;
    log_source::register_source(NAME).map_err(|error| {
        CommandError::usage(format!(
            "cannot register the source of the Event Log: {error}"
        ))
    })?;
    let arguments = ["service", "run", "--"]
        .map(OsString::from)
        .into_iter()
        .chain(options)
        .collect();
    let refused = service::install(&Installation {
        name: NAME,
        display_name: "Azure Scheduled Events",
        description: "Watches Azure Scheduled Events: prepares for maintenance, approves it and recovers.",
        program,
        arguments,
    })
    .map_err(CommandError::usage)?;
    for reason in &refused {
        diagnose("warning", &reason.to_string());
    }
    print(b"the service is installed; `scheduled-events service start` starts it\n")
}

/// The work of the service's process. Returns its exit code.
fn run(options: &[OsString]) -> u32 {
    // Without it, the service still watches.
    let _ = patiently(|| event_log::open(diagnose));
    let result = parse(options)
        .map_err(|error| match error {
            ParseError::Arguments(error) => {
                CommandError::usage(error.render().to_string().trim_start_matches("error: "))
            }
            ParseError::File(error) => error,
        })
        .and_then(|args| {
            let args = WatchArgs {
                event_log: true,
                ..args
            };
            // Windows has no signal to read a file again: restart the service.
            watch(args, None)
        });
    let code = match result {
        Ok(()) => 0,
        Err(error) => {
            event_log::add(Entry::Error, &error.message);
            error.exit_code.into()
        }
    };
    event_log::flush_on_exit();
    code
}

fn parse(options: &[OsString]) -> Result<WatchArgs, ParseError> {
    let words = [NAME, "watch"].map(OsString::from);
    let words: Vec<_> = words.iter().chain(options).cloned().collect();
    match config::parse(&words)?.cli.command {
        Command::Watch(args) => Ok(args),
        // The second word decides.
        _ => Err(clap::Error::new(clap::error::ErrorKind::InvalidSubcommand).into()),
    }
}

/// The options with absolute paths: a service starts in the folder of Windows.
fn absolute(options: Vec<OsString>) -> Result<Vec<OsString>, String> {
    let mut whole = Vec::new();
    let mut is_path = None;
    for option in options {
        let option = option
            .into_string()
            .map_err(|option| format!("{} is not Unicode", option.display()))?;
        let absolute = |option: &str, value: &str| {
            if option == "--policy" && PRESETS.contains(&value) {
                return Ok(value.to_owned());
            }
            let path =
                path::absolute(value).map_err(|error| format!("{option} {value}: {error}"))?;
            path.into_os_string()
                .into_string()
                .map_err(|path| format!("{} is not Unicode", path.display()))
        };
        let known = |name: &str| PATH_OPTIONS.into_iter().find(|known| *known == name);
        let option = match (is_path.take(), option.split_once('=')) {
            (Some(name), _) => absolute(name, &option)?,
            (None, Some((name, value))) if known(name).is_some() => {
                format!("{name}={}", absolute(name, value)?)
            }
            _ => {
                is_path = known(&option);
                option
            }
        };
        whole.push(option.into());
    }
    Ok(whole)
}

/// Refuses commands with relative paths, and warns about those that do not exist or that belong to
/// a user.
fn check_commands(watch: &WatchArgs) -> Result<(), CommandError> {
    let on_changes = watch.on.iter().map(|(_, command)| command);
    for command in [&watch.prepare, &watch.recover, &watch.gate]
        .into_iter()
        .flatten()
        .chain(on_changes)
    {
        let program = Path::new(&command.words()[0]);
        if program.components().count() > 1 && !program.is_absolute() {
            let text = format!(
                "the command {} has a relative path; a service needs the whole path",
                program.display()
            );
            return Err(CommandError::usage(text));
        }
        if !command.program_exists() {
            diagnose(
                "warning",
                &format!(
                    "cannot find the program {}, or it is not executable",
                    program.display()
                ),
            );
        }
        warn_of_owner(program);
    }
    Ok(())
}

fn warn_of_owner(program: &Path) {
    if program.is_absolute()
        && files::is_owned_by_administrators(program).is_ok_and(|is_owned| !is_owned)
    {
        let text = format!(
            "{} belongs to a user, who could replace what runs as LocalSystem; install a copy below C:\\Program Files",
            program.display()
        );
        diagnose("warning", &text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_become_absolute_and_nothing_else_changes() {
        let options = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
        let here = std::env::current_dir().unwrap();
        let state = format!("--state={}", here.join("state").display());
        let audit = here.join(r"logs\audit").display().to_string();
        assert_eq!(
            absolute(options(&[
                "--state=state",
                "--audit",
                r"logs\audit",
                "--policy",
                "sample",
                "--on",
                "started=a b"
            ])),
            Ok(options(&[
                &state,
                "--audit",
                &audit,
                "--policy",
                "sample",
                "--on",
                "started=a b"
            ]))
        );
        let policy = [r"C:\p.toml", "--policy"];
        assert_eq!(
            absolute(options(&["--policy", policy[0]])),
            Ok(options(&["--policy", policy[0]]))
        );
    }

    #[test]
    fn commands_need_whole_paths() {
        let check = |command: &str| {
            check_commands(&parse(&["--prepare", command].map(OsString::from)).unwrap())
        };
        assert!(check(r"scripts\drain.cmd").is_err());
        assert!(
            check(r"C:\scripts\drain.cmd").is_ok()
                && check("powershell -NoProfile -File x.ps1").is_ok()
        );
    }
}
