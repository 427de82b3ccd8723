//! Commands as they run: on every system with the tests' own helper, and what only a shell or `cmd.exe` shows.

use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use std::path::Path;

use super::*;

#[path = "../../../tests/support/helper.rs"]
mod helper;

use helper::{helper, is_noise};

const PATIENCE: Duration = Duration::from_secs(60);

fn folder(name: &str) -> std::path::PathBuf {
    let folder = env::temp_dir().join(format!(
        "scheduled-events-hooks-{name}-{}",
        std::process::id()
    ));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

fn start(
    command: &str,
    event: &EventRecord,
    timeout: Option<Duration>,
) -> (RunningCommand, Receiver<CommandEvent>) {
    let (sender, receiver) = mpsc::channel();
    let deadline = timeout.map(|timeout| Instant::now() + timeout);
    let extra = [("SCHEDULED_EVENTS_CHANGE", "scheduled")];
    let line = CommandLine::parse(command).unwrap();
    let running = line.start(event, &extra, deadline, move |event| {
        drop(sender.send(event));
    });
    (running, receiver)
}

fn hostile() -> EventRecord {
    EventRecord {
        event_id: "a'; touch /tmp/never; '".into(),
        event_type: Some("$(reboot)".into()),
        description: Some("100 % & echo PWNED | echo PWNED\" & echo PWNED > PWNED".into()),
        ..EventRecord::default()
    }
}

/// The lines that a command prints, and its outcome.
fn run(command: &str, timeout: Option<Duration>) -> (Vec<String>, CommandOutcome) {
    let (_running, events) = start(command, &hostile(), timeout);
    let mut lines = Vec::new();
    loop {
        match events.recv_timeout(PATIENCE).expect("the command ends") {
            CommandEvent::Line(line) => lines.extend(Some(line).filter(|line| !is_noise(line))),
            CommandEvent::Refused(_) => {}
            CommandEvent::Ended(outcome) => return (lines, outcome),
        }
    }
}

/// Waits until the file exists and is not empty.
fn await_beat(file: &Path) {
    let deadline = Instant::now() + PATIENCE;
    while std::fs::read(file).map_or(0, |beats| beats.len()) == 0 {
        assert!(
            Instant::now() < deadline,
            "{} was not written",
            file.display()
        );
        thread::sleep(Duration::from_millis(10));
    }
}

/// Waits until nothing appends to the file any more.
fn await_silence(file: &Path) {
    let deadline = Instant::now() + PATIENCE;
    let beats = || std::fs::read(file).unwrap_or_default().len();
    loop {
        let before = beats();
        thread::sleep(Duration::from_secs(1));
        if beats() == before {
            return;
        }
        assert!(
            Instant::now() < deadline,
            "something still writes {}",
            file.display()
        );
    }
}

#[test]
fn a_command_gets_the_event_as_environment_and_as_json_never_as_arguments() {
    let folder = folder("event");
    let input = folder.join("input");
    let input_step = format!("input {}", input.display());
    let (lines, outcome) = run(
        &helper(&["print $EVENT_ID|$EVENT_TYPE|$CHANGE", &input_step]),
        None,
    );
    assert_eq!(lines, ["a'; touch /tmp/never; '|$(reboot)|scheduled"]);
    assert_eq!(outcome, CommandOutcome::Succeeded);
    let event: serde_json::Value = serde_json::from_slice(&std::fs::read(&input).unwrap()).unwrap();
    assert_eq!(event["event_type"], "$(reboot)");
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_failure_is_reported_with_the_exit_code_or_the_program() {
    assert!(matches!(
        run(&helper(&["exit 3"]), None).1,
        CommandOutcome::Failed { code: Some(3), .. }
    ));
    let outcome = run("/nonexistent/program", None).1;
    assert!(
        matches!(&outcome, CommandOutcome::NotStarted(reason) if reason.contains("/nonexistent/program")),
        "{outcome:?}"
    );
}

#[test]
fn a_command_past_its_deadline_ends_with_its_children_and_with_those_whose_parent_has_ended() {
    let folder = folder("deadline");
    let [child, orphan, own] = ["child", "orphan", "own"].map(|name| folder.join(name));
    let steps = [
        format!("child beat {}", child.display()),
        format!("child child beat {}", orphan.display()),
        format!("beat {}", own.display()),
    ];
    let (running, events) = start(&helper(&steps), &hostile(), Some(Duration::from_secs(20)));
    for file in [&child, &orphan, &own] {
        await_beat(file);
    }
    let ended = loop {
        if let CommandEvent::Ended(outcome) =
            events.recv_timeout(PATIENCE).expect("the command ends")
        {
            break outcome;
        }
    };
    assert_eq!(ended, CommandOutcome::DeadlinePassed);
    assert!(running.has_ended());
    for file in [&child, &orphan, &own] {
        await_silence(file);
    }
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn what_a_command_leaves_running_stays_and_can_print() {
    let folder = folder("stays");
    let go = folder.join("go");
    let late = format!("child await {} then print late", go.display());
    let steps = ["print early".to_owned(), late, "exit 0".to_owned()];
    let (running, events) = start(&helper(&steps), &hostile(), None);
    let mut lines = Vec::new();
    let mut outcome = None;
    // The pipes are closed in the end: by the child, once it ends.
    while let Ok(event) = events.recv_timeout(PATIENCE) {
        match event {
            CommandEvent::Line(line) => lines.push(line),
            CommandEvent::Ended(ended) => {
                assert!(running.has_ended());
                running.kill();
                outcome = Some(ended);
                std::fs::write(&go, "").unwrap();
            }
            CommandEvent::Refused(_) => {}
        }
    }
    assert_eq!(outcome, Some(CommandOutcome::Succeeded));
    let lines: Vec<_> = lines.into_iter().filter(|line| !is_noise(line)).collect();
    assert_eq!(lines, ["early", "late"]);
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn much_input_and_output_and_long_lines_pass_through() {
    let folder = folder("much");
    let size = folder.join("size");
    let event = EventRecord {
        event_id: "x".repeat(300_000),
        ..EventRecord::default()
    };
    let steps = [
        "much 120000".to_owned(),
        format!("input-size {}", size.display()),
    ];
    let (_running, events) = start(&helper(&steps), &event, None);
    let mut copied = 0;
    for event in events {
        match event {
            CommandEvent::Line(line) if is_noise(&line) => {}
            CommandEvent::Line(line) => {
                assert!(line.len() <= crate::limits::OUTPUT_LINE_MAX);
                copied += line.len();
            }
            CommandEvent::Refused(_) => {}
            CommandEvent::Ended(outcome) => assert_eq!(outcome, CommandOutcome::Succeeded),
        }
    }
    let whole = serde_json::to_vec(&event).unwrap().len();
    assert_eq!(
        (copied, std::fs::read_to_string(size).unwrap()),
        (120_000, whole.to_string())
    );
    std::fs::remove_dir_all(folder).unwrap();
}

/// What takes a shell, signals or `/proc`.
#[cfg(unix)]
mod unix {
    use scheduled_events_test_support::wait;

    use super::*;

    #[test]
    fn programs_are_searched_for_in_path_unless_they_name_a_folder() {
        for (line, exists) in [
            ("sh -c 'exit 3'", true),
            ("/bin/sh", true),
            ("/nonexistent/sh", false),
            ("no-such-sh", false),
            ("/etc/passwd", false),
            ("/bin", false),
        ] {
            assert_eq!(
                CommandLine::parse(line).unwrap().program_exists(),
                exists,
                "{line}"
            );
        }
    }

    #[test]
    fn a_program_that_is_being_written_starts_once_that_is_done() {
        let path = env::temp_dir().join(format!("scheduled-events-busy-{}", std::process::id()));
        std::fs::copy("/bin/true", &path).unwrap();
        let writer = std::fs::OpenOptions::new()
            .append(true)
            .open(&path)
            .unwrap();
        let done = thread::spawn(move || {
            thread::sleep(Duration::from_millis(100));
            drop(writer);
        });
        assert_eq!(
            run(path.to_str().unwrap(), Some(Duration::from_secs(30))).1,
            CommandOutcome::Succeeded
        );
        wait::join(done);
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_command_that_ignores_signals_is_killed_with_its_children() {
        // The shell ignores SIGTERM, and so does its child.
        let (lines, outcome) = run(
            "sh -c 'trap \"\" TERM; sleep 600 & echo $!; wait; wait; sleep 600'",
            Some(Duration::from_secs(8)),
        );
        assert_eq!(outcome, CommandOutcome::DeadlinePassed);
        await_end(&lines[0]);
    }

    /// Waits until a process has ended.
    fn await_end(process: &str) {
        let stat = format!("/proc/{process}/stat");
        let deadline = Instant::now() + Duration::from_secs(20);
        while !std::fs::read_to_string(&stat).map_or(true, |stat| stat.contains(") Z ")) {
            assert!(Instant::now() < deadline, "process {process} still runs");
            thread::sleep(Duration::from_millis(10));
        }
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_command_that_is_cancelled_ends_with_children_in_other_sessions() {
        // One with a parent that still runs and without the environment, and one whose parent has ended.
        let line = CommandLine::parse(
            "sh -c 'setsid env -i sleep 600 & echo $!; setsid sh -c \"sleep 600 & echo \\$!\" & sleep 600'",
        );
        let (sender, receiver) = mpsc::channel();
        let running = line
            .unwrap()
            .start(&EventRecord::default(), &[], None, move |event| {
                drop(sender.send(event));
            });
        let next = || {
            receiver
                .recv_timeout(Duration::from_secs(40))
                .expect("another event")
        };
        let children = [next(), next()];
        running.cancel();
        assert_eq!(next(), CommandEvent::Ended(CommandOutcome::Cancelled));
        for child in children {
            let CommandEvent::Line(process) = child else {
                panic!("{child:?}")
            };
            await_end(&process);
        }
    }
}

/// What takes `cmd.exe`.
#[cfg(windows)]
mod windows {
    use super::*;

    #[test]
    fn a_batch_file_gets_no_text_that_it_would_run_and_the_event_on_standard_input() {
        let folder = folder("batch");
        // The percent signs are expanded before the line is parsed.
        let script = "@echo off\r\ncd /d %~dp0\r\necho description=%SCHEDULED_EVENTS_DESCRIPTION%\r\n\
                      echo id=%SCHEDULED_EVENTS_EVENT_ID% change=%SCHEDULED_EVENTS_CHANGE%\r\nmore\r\nexit /b 4\r\n";
        std::fs::write(folder.join("drain.cmd"), script).unwrap();
        // Without its extension, as `cmd.exe` finds it.
        let command = format!("'{}' \"two words\"", folder.join("drain").display());
        let (lines, outcome) = run(&command, None);
        assert!(
            matches!(outcome, CommandOutcome::Failed { code: Some(4), .. }),
            "{outcome:?} {lines:?}"
        );
        // An unset variable is not replaced by `cmd.exe` at a prompt, and by nothing in a batch file.
        assert_eq!(
            lines[..2],
            ["description=", "id= change=scheduled"],
            "{lines:?}"
        );
        assert!(
            lines
                .concat()
                .contains(r#"100 % & echo PWNED | echo PWNED\" &"#),
            "{lines:?}"
        );
        assert!(!folder.join("PWNED").exists());
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_program_in_path_is_found_without_its_extension() {
        assert!(CommandLine::parse("cmd /c ver").unwrap().program_exists());
        assert!(
            !CommandLine::parse("no-such-program")
                .unwrap()
                .program_exists()
        );
        assert_eq!(run("cmd /c exit 0", None).1, CommandOutcome::Succeeded);
        // The standard library also finds what is in the folder of this program.
        let own = env::current_exe().unwrap();
        let is_in_path = env::split_paths(&env::var_os("PATH").unwrap())
            .any(|folder| Some(&*folder) == own.parent());
        let (_, outcome) = run(
            &format!("{} --list", own.file_name().unwrap().display()),
            None,
        );
        match outcome {
            CommandOutcome::Succeeded => assert!(is_in_path),
            CommandOutcome::NotStarted(reason) => {
                assert!(!is_in_path && reason.ends_with(": program not found"));
            }
            other => panic!("{other:?}"),
        }
    }
}
