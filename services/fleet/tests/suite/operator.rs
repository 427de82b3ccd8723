//! An operator's commands: `status` and `free`, on registers in a folder.

use std::ffi::OsStr;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use scheduled_events_gate::engine::Engine;
use scheduled_events_gate::engine::folder::FolderEngine;
use scheduled_events_test_support::wait;
use serde_json::Value;
use tempfile::TempDir;

use crate::fixture::{FLEET_COMMAND, Process, block_on, wait_for};

fn run(root: &Path, arguments: &[&str]) -> Output {
    run_with_heartbeat("50ms", root, arguments)
}

fn run_with_heartbeat(heartbeat: &str, root: &Path, arguments: &[&str]) -> Output {
    let config = root.join("fleet.toml");
    let registers = root.join("registers");
    let text = format!(
        "engine = \"folder\"\nfolder.path = \"{}\"\nheartbeat = \"{heartbeat}\"\n",
        registers.display()
    );
    std::fs::write(&config, text).expect("a configuration");
    wait::output(
        Command::new(FLEET_COMMAND)
            .arg("--config")
            .arg(&config)
            .args(arguments),
    )
}

#[test]
fn a_machine_that_does_not_come_back_is_freed_by_hand() {
    let root = TempDir::new().expect("a folder");
    let registers = root.path().join("registers");
    std::fs::create_dir(&registers).expect("a folder");
    let engine = FolderEngine::new(&registers);
    let group = r#"{"format":1,"limit":2,"claims":{"e1":{"slots":["Web_0","web_1"],"by":["web_1"],"at":1}}}"#;
    let event = r#"{"format":1,"event_type":"Reboot\u001b","resources":["Web_0","web_1","web_2"],
        "marks":{"web_1":{"mark":"ready","at":1},"Web_0":{"mark":"withdrawn","at":1}},"go":null}"#;
    block_on(engine.swap("groups/web", None, group)).expect("written");
    block_on(engine.swap("events/e1/0", None, event)).expect("written");

    let status = run(root.path(), &["status"]);
    let text = String::from_utf8(status.stdout).expect("text");
    assert!(
        text.contains(
            "e1 waits: not ready: Web_0, web_2; no daemon is registered on: Web_0, web_2"
        ),
        "{text}"
    );
    assert!(
        !text.contains('\u{1b}'),
        "text from outside is escaped: {text:?}"
    );
    let json = run(root.path(), &["status", "--json"]);
    let records: Vec<Value> = String::from_utf8(json.stdout)
        .expect("text")
        .lines()
        .map(|line| serde_json::from_str(line).expect("a record"))
        .collect();
    assert_eq!(records[0]["machines"][1]["state"], "ready");
    assert_eq!(
        (records[1]["group"].as_str(), records[1]["out"][0].as_str()),
        (Some("web"), Some("Web_0"))
    );

    let freed = run(root.path(), &["free", "WEB_0"]);
    assert_eq!(
        String::from_utf8_lossy(&freed.stdout),
        "freed Web_0 of e1 in the group web\n"
    );
    assert_eq!(freed.status.code(), Some(0));
    let left = block_on(engine.read("groups/web"))
        .expect("read")
        .expect("the group")
        .value;
    assert!(!left.contains("Web_0") && left.contains("web_1"), "{left}");
    let again = run(root.path(), &["free", "WEB_0"]);
    assert_eq!(
        String::from_utf8_lossy(&again.stderr),
        "error: WEB_0 holds no slot\n"
    );
    assert_eq!(again.status.code(), Some(1));

    // Its daemon ran once.
    block_on(engine.swap(
        "machines/web_0",
        None,
        "{\"format\":1,\"machine\":\"Web_0\",\"beat\":7,\"at\":1}",
    ))
    .expect("written");
    let forgotten = run(root.path(), &["free", "WEB_0"]);
    assert_eq!(
        String::from_utf8_lossy(&forgotten.stdout),
        "deleted the register of WEB_0\n"
    );
    assert_eq!(forgotten.status.code(), Some(0));
    assert_eq!(block_on(engine.read("machines/web_0")).expect("read"), None);
}

#[test]
fn a_result_that_nobody_reads_ends_the_command() {
    let root = TempDir::new().expect("a folder");
    std::fs::create_dir(root.path().join("registers")).expect("a folder");
    assert_eq!(run(root.path(), &["status"]).status.code(), Some(0));
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let full = std::fs::OpenOptions::new()
        .write(true)
        .open("/dev/full")
        .expect("a full device");
    for (output, message) in [
        (Stdio::from(writer), ""),
        (full.into(), "error: cannot write to standard output: "),
    ] {
        let mut command = Command::new(FLEET_COMMAND);
        command
            .arg("--config")
            .arg(root.path().join("fleet.toml"))
            .arg("status")
            .stdout(output);
        let child = command.stderr(Stdio::piped()).spawn().expect("it runs");
        let ended = wait::output_of(child);
        let errors = String::from_utf8_lossy(&ended.stderr);
        assert!(
            errors.starts_with(message) && errors.is_empty() == message.is_empty(),
            "{errors}"
        );
        assert_eq!(ended.status.code(), Some(1), "{errors}");
    }
}

#[test]
fn only_the_gate_needs_an_engine() {
    let root = TempDir::new().expect("a folder");
    let config = root.path().join("fleet.toml");
    std::fs::write(&config, "machine = \"WestNO_0\"\n").expect("a configuration");
    for command in ["run", "status"] {
        // The option may precede or follow the subcommand.
        let (option, config) = (OsStr::new("--config"), config.as_os_str());
        for words in [
            [option, config, OsStr::new(command)],
            [OsStr::new(command), option, config],
        ] {
            let output = wait::output(Command::new(FLEET_COMMAND).args(words));
            let errors = String::from_utf8_lossy(&output.stderr);
            assert!(
                errors
                    .starts_with("error: the configuration has no `engine`, which the gate needs"),
                "{errors}"
            );
            assert_eq!(output.status.code(), Some(2));
        }
    }
}

#[test]
fn systemd_does_not_restart_what_ended_because_of_its_configuration() {
    let root = TempDir::new().expect("a folder");
    let config = root.path().join("fleet.toml");
    std::fs::write(&config, "engin = \"etcd\"\n").expect("a configuration");
    for (command, unit) in [
        (
            "run",
            include_str!("../../systemd/scheduled-events-fleet.service"),
        ),
        (
            "relay",
            include_str!("../../systemd/scheduled-events-relay.service"),
        ),
    ] {
        let output = wait::output(
            Command::new(FLEET_COMMAND)
                .arg("--config")
                .arg(&config)
                .arg(command),
        );
        let code = output.status.code().expect("an exit code");
        assert_ne!(code, 1, "which is for what can go away");
        assert!(unit.contains("\nRestart=always\n"), "{unit}");
        assert!(
            unit.contains(&format!("\nRestartPreventExitStatus={code}\n")),
            "{unit}"
        );
    }
}

#[test]
fn a_shared_folder_that_is_not_mounted_is_a_problem() {
    let root = TempDir::new().expect("a folder");
    for arguments in [&["status"][..], &["free", "--force", "web_0"]] {
        let output = run(root.path(), arguments);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(
            errors.starts_with("error: cannot list ")
                && errors.contains("registers does not exist"),
            "{errors}"
        );
        assert_eq!(
            (output.status.code(), output.stdout.len()),
            (Some(1), 0),
            "{errors}"
        );
    }
}

#[test]
fn the_advice_is_for_what_instance_metadata_is_asked() {
    let root = TempDir::new().expect("a folder");
    let config = root.path().join("fleet.toml");
    let group =
        "[[group]]\nname = \"web\"\nmachines = [\"*\"]\nmax_unavailable = 1\nper_zone = true\n";
    for (machine, advice) in [
        ("", "set `machine`"),
        (
            "machine = \"web_0\"",
            "a group with `per_zone` needs its zone",
        ),
    ] {
        let text = format!(
            "{machine}\nengine = \"folder\"\nfolder.path = {:?}\nmetadata = \"http://127.0.0.1:1\"\n{group}",
            root.path()
        );
        std::fs::write(&config, text).expect("a configuration");
        let output = wait::output(
            Command::new(FLEET_COMMAND)
                .arg("--config")
                .arg(&config)
                .arg("run"),
        );
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(
            errors.starts_with("error: cannot ask http://127.0.0.1:1 about this machine: "),
            "{errors}"
        );
        assert!(
            errors.trim_end().ends_with(&format!("; {advice}")),
            "{errors}"
        );
        assert_eq!(output.status.code(), Some(1));
    }
}

#[test]
fn a_system_without_certificate_authorities_is_enough_for_servers_without_tls() {
    let root = TempDir::new().expect("a folder");
    let config = root.path().join("fleet.toml");
    std::fs::write(
        &config,
        "engine = \"etcd\"\netcd = { endpoints = [\"http://127.0.0.1:1\"] }\n",
    )
    .expect("written");
    let mut command = Command::new(FLEET_COMMAND);
    command.arg("--config").arg(&config).arg("status");
    command
        .env("SSL_CERT_FILE", "/dev/null")
        .env("SSL_CERT_DIR", root.path());
    let errors = String::from_utf8(wait::output(&mut command).stderr).expect("text");
    assert!(
        errors.starts_with("error: etcd at http://127.0.0.1:1: ") && errors.contains("refused"),
        "{errors}"
    );
}

/// All Rust sources of this package, with line breaks within string literals removed.
fn sources(folder: &Path) -> String {
    let entries = std::fs::read_dir(folder)
        .expect("a folder")
        .map(|entry| entry.expect("an entry").path());
    let text = |path: std::path::PathBuf| {
        if path.is_dir() {
            sources(&path)
        } else {
            std::fs::read_to_string(path).expect("a source")
        }
    };
    let text: String = entries.map(text).collect();
    let lines = text.split("\\\n").map(str::trim_start);
    lines.collect()
}

/// The hub has messages of the gate, too.
#[test]
fn the_messages_that_the_guide_explains_are_those_of_the_code() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page =
        std::fs::read_to_string(root.join("../../docs/run/troubleshooting.md")).expect("the page");
    for (heading, folders) in [
        (
            "The gate of a fleet",
            &["common", "gate", "node", "relay", "fleet"][..],
        ),
        ("The hub", &["common", "gate", "hub"]),
    ] {
        let (_, section) = page
            .split_once(&format!("\n## {heading}\n"))
            .expect("the section");
        let section = section.split("\n## ").next().unwrap_or_default();
        let sources: String = folders
            .iter()
            .map(|folder| sources(&root.join("..").join(folder).join("src")))
            .collect();
        // Two graves are around a message that has one.
        let messages = section
            .lines()
            .filter_map(|line| match line.strip_prefix("| `` ") {
                Some(rest) => rest.split_once(" `` |"),
                None => line.strip_prefix("| `")?.split_once("` |"),
            });
        let messages: Vec<_> = messages.map(|(message, _)| message).collect();
        assert!(messages.len() > 10, "{messages:?}");
        for part in messages
            .iter()
            .flat_map(|message| message.split('…'))
            .map(str::trim)
        {
            assert!(
                sources.contains(part),
                "docs/run/troubleshooting.md, {heading}: not in the code: {part}"
            );
        }
    }
}

/// A daemon of the machine `web_0`, with its socket in a folder that does not exist.
fn daemon(root: &Path, errors: Stdio) -> Process {
    let config = root.join("daemon.toml");
    let text = format!(
        "machine = \"web_0\"\nengine = \"folder\"\nfolder.path = \"{0}/registers\"\nsocket = \"{0}/run/fleet.sock\"\n\
         audit = \"{0}/audit\"\nheartbeat = \"50ms\"\n\
         [[group]]\nname = \"web\"\nmachines = [\"web_*\"]\nmax_unavailable = 1\n",
        root.display()
    );
    std::fs::write(&config, text).expect("a configuration");
    let mut command = Command::new(FLEET_COMMAND);
    let daemon = Process::start(
        command
            .arg("--config")
            .arg(&config)
            .arg("run")
            .stderr(errors),
    );
    wait_for("the socket", || {
        UnixStream::connect(root.join("run/fleet.sock")).ok()
    });
    daemon
}

#[test]
fn a_register_that_cannot_be_read_holds_up_no_other() {
    let root = TempDir::new().expect("a folder");
    let registers = root.path().join("registers");
    std::fs::create_dir(&registers).expect("a folder");
    let engine = FolderEngine::new(&registers);
    let group = r#"{"format":1,"limit":2,"claims":{"e1":{"slots":["web_0","web_1"],"by":["web_1"],"at":1}}}"#;
    block_on(engine.swap("groups/a", None, "{\"limit\":1,\"claims\":[")).expect("written");
    block_on(engine.swap("events/e0/0", None, "[")).expect("written");
    block_on(engine.swap("machines/a", None, "[")).expect("written");
    block_on(engine.swap("groups/web", None, group)).expect("written");
    // A file whose contents the file system has lost.
    std::fs::create_dir(registers.join("groups/empty")).expect("a folder");
    std::fs::write(registers.join("groups/empty/.3"), "").expect("written");

    let status = run(root.path(), &["status"]);
    let (text, errors) = (
        String::from_utf8_lossy(&status.stdout),
        String::from_utf8_lossy(&status.stderr),
    );
    assert!(text.contains("web    2      2    web_0"), "{text}{errors}");
    for key in ["events/e0/0", "groups/a", "groups/empty", "machines/a"] {
        assert!(
            errors.contains(&format!("the register {key} cannot be read")),
            "{errors}"
        );
    }
    assert_eq!(status.status.code(), Some(1), "it is not all that there is");
    let freed = run(root.path(), &["free", "web_1"]);
    assert_eq!(
        String::from_utf8_lossy(&freed.stdout),
        "freed web_1 of e1 in the group web\n"
    );
    assert_eq!(freed.status.code(), Some(1), "it may hold more");
    for (machine, errors) in [
        ("web_1", freed.stderr),
        ("web_9", run(root.path(), &["free", "web_9"]).stderr),
    ] {
        let errors = String::from_utf8_lossy(&errors);
        // Only a machine that holds a slot is waited for.
        let problems = errors
            .strip_prefix("waiting 150ms for a heartbeat of web_1; it is freed without one\n")
            .unwrap_or(&errors);
        assert!(
            problems.starts_with("error: the register groups/a cannot be read: "),
            "{errors}"
        );
        let unknown = format!("{machine} may hold a slot in what cannot be read\n");
        assert!(
            errors.ends_with(&unknown) && !errors.contains("holds no slot"),
            "{errors}"
        );
    }

    let deleted = run(root.path(), &["delete-register", "groups/empty"]);
    let expected = "deleted the register groups/empty, which was: not a version of a register: \n";
    assert_eq!(String::from_utf8_lossy(&deleted.stdout), expected);

    // The daemon frees its own slot.
    let records = "{\"record\":\"change\",\"change\":\"completed\",\"event_id\":\"e1\",\"mine\":true}\n\
        {\"record\":\"recover\",\"event_id\":\"e1\",\"event_ids\":[\"e1\"],\"outcome\":\"done\"}\n";
    std::fs::write(root.path().join("audit"), records).expect("written");
    let _daemon = daemon(root.path(), Stdio::inherit());
    wait_for("a free slot", || {
        let group = block_on(engine.read("groups/web"))
            .expect("read")
            .expect("the group");
        (!group.value.contains("web_0")).then_some(())
    });
}

#[test]
fn registers_of_another_format_are_left_as_they_are() {
    let root = TempDir::new().expect("a folder");
    let registers = root.path().join("registers");
    std::fs::create_dir(&registers).expect("a folder");
    let engine = FolderEngine::new(&registers);
    let later = [
        (
            "groups/web",
            r#"{"format":9,"limit":1,"claims":{"e1":{"slots":["web_0"],"by":["web_0"],"at":1}}}"#,
        ),
        (
            "machines/web_0",
            r#"{"format":9,"machine":"web_0","beat":1,"at":1}"#,
        ),
    ];
    for (key, value) in later {
        block_on(engine.swap(key, None, value)).expect("written");
    }
    let log = root.path().join("log");
    let _daemon = daemon(
        root.path(),
        std::fs::File::create(&log).expect("a log").into(),
    );
    let has_logged = |text: &str| {
        std::fs::read_to_string(&log)
            .expect("the log")
            .contains(text)
            .then_some(())
    };
    for key in ["groups/web", "machines/web_0"] {
        let problem = format!("the register {key} has format 9, and this program has format 1");
        wait_for("a line of the log", || has_logged(&problem));
    }
    for arguments in [
        &["status"][..],
        &["free", "web_0"],
        &["free", "--force", "web_0"],
    ] {
        let output = run(root.path(), arguments);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(
            errors.contains("has format 9, and this program has format 1"),
            "{arguments:?}: {errors}"
        );
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {errors}");
    }
    for (key, value) in later {
        assert_eq!(
            block_on(engine.read(key))
                .expect("read")
                .expect("a register")
                .value,
            value,
            "{key}"
        );
    }
}

#[test]
fn the_slot_of_a_machine_that_runs_its_daemon_is_freed_by_force_only() {
    let root = TempDir::new().expect("a folder");
    let registers = root.path().join("registers");
    std::fs::create_dir(&registers).expect("a folder");
    let engine = FolderEngine::new(&registers);
    let group =
        r#"{"format":1,"limit":1,"claims":{"e1":{"slots":["web_0"],"by":["web_0"],"at":1}}}"#;
    block_on(engine.swap("groups/web", None, group)).expect("written");
    let _daemon = daemon(root.path(), Stdio::inherit());
    wait_for("a heartbeat", || {
        block_on(engine.read("machines/web_0")).expect("read")
    });
    // Long enough for a heartbeat of the daemon, however busy the machine is.
    let refused = run_with_heartbeat("3s", root.path(), &["free", "web_0"]);
    let message = String::from_utf8_lossy(&refused.stderr);
    assert!(
        message.contains("error: the daemon of web_0 runs, and frees its slots"),
        "{message}"
    );
    assert_eq!((refused.status.code(), refused.stdout.len()), (Some(1), 0));
    assert!(
        block_on(engine.read("groups/web"))
            .expect("read")
            .expect("the group")
            .value
            .contains("web_0")
    );
    let freed = run(root.path(), &["free", "--force", "web_0"]);
    assert_eq!(
        String::from_utf8_lossy(&freed.stdout),
        "freed web_0 of e1 in the group web\n"
    );
    assert_eq!(run(root.path(), &["free", ""]).status.code(), Some(2));
}

/// A pipe without a writer blocks its reader, like a mount whose server is gone.
#[test]
fn a_folder_that_hangs_holds_up_neither_a_preempt_nor_the_end_of_the_daemon() {
    let root = TempDir::new().expect("a folder");
    std::fs::create_dir_all(root.path().join("registers/machines/web_1")).expect("a folder");
    let pipe = root.path().join("registers/machines/web_1/.1");
    assert!(
        wait::output(Command::new("mkfifo").arg(&pipe))
            .status
            .success()
    );
    let mut daemon = daemon(root.path(), Stdio::inherit());
    let ask = |event_type: &str| {
        let mut command = Command::new(FLEET_COMMAND);
        command
            .arg("--config")
            .arg(root.path().join("daemon.toml"))
            .arg("ask")
            .env("SCHEDULED_EVENTS_PHASE", "prepare");
        let event = root.path().join("event");
        let text = format!(
            "{{\"event_id\":\"e\",\"event_type\":\"{event_type}\",\"resources\":[\"web_0\"]}}"
        );
        std::fs::write(&event, text).expect("written");
        command
            .stdin(std::fs::File::open(&event).expect("the event"))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        wait::output_of(command.spawn().expect("it runs"))
    };
    // It serves its socket although the machines cannot be read.
    wait_for("an answer", || {
        (ask("Preempt").status.code() == Some(0)).then_some(())
    });
    let refused = ask("Reboot");
    let errors = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(
        (refused.status.code(), errors.trim_end()),
        (Some(1), "the engine did not answer within 8 s")
    );
    rustix::process::kill_process(
        rustix::process::Pid::from_child(&daemon.0),
        rustix::process::Signal::TERM,
    )
    .expect("sent");
    let status = wait_for("its end", || daemon.0.try_wait().expect("its state"));
    assert_eq!(status.code(), Some(0));
}

#[test]
fn a_daemon_whose_log_cannot_be_written_goes_on() {
    let root = TempDir::new().expect("a folder");
    let registers = root.path().join("registers");
    std::fs::create_dir(&registers).expect("a folder");
    let full = std::fs::OpenOptions::new()
        .write(true)
        .open("/dev/full")
        .expect("a full device");
    let mut daemon = daemon(root.path(), full.into());
    let engine = FolderEngine::new(&registers);
    // It has reported that it is ready, and that there is no audit file.
    wait_for("its heartbeat", || {
        assert_eq!(
            daemon.0.try_wait().expect("its state"),
            None,
            "it has ended"
        );
        let machine = block_on(engine.read("machines/web_0")).expect("read")?;
        let machine: Value = serde_json::from_str(&machine.value).expect("a register");
        (machine["beat"].as_u64() > Some(3)).then_some(())
    });
}
