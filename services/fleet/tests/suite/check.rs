//! `check gate`: each line, and what makes it a warning or a failure.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;

use scheduled_events_test_support::wait;
use serde_json::{Value, json};

use crate::fixture::{FLEET_COMMAND, block_on, wait_for, watcher_command};
use crate::gate::{Fleet, Gate};

const GROUP: &str = "[[group]]\nname = \"web\"\nmachines = [\"web_*\"]\nmax_unavailable = 1\n";

/// A line of the output.
#[derive(Debug)]
struct Line {
    outcome: String,
    found: String,
    todo: String,
}

/// What `check` finds, and its exit code.
struct Report {
    code: i32,
    lines: Vec<(String, Line)>,
}

impl Report {
    fn of(command: &mut Command) -> Self {
        let output = wait::output(command.args(["check", "gate", "--json"]));
        assert!(output.stderr.is_empty(), "{output:?}");
        let text = String::from_utf8(output.stdout).expect("text");
        let line = |line: &str| {
            let line: Value = serde_json::from_str(line).expect("JSON");
            let member = |name: &str| line[name].as_str().unwrap_or_default().to_owned();
            let [outcome, found, todo] = ["outcome", "found", "do"].map(member);
            let line = Line {
                outcome,
                found,
                todo,
            };
            (member("check"), line)
        };
        Self {
            code: output.status.code().expect("a code"),
            lines: text.lines().map(line).collect(),
        }
    }

    fn line(&self, check: &str) -> &Line {
        let mut lines = self.lines.iter().filter(|(name, _)| name == check);
        let (_, line) = lines
            .next()
            .unwrap_or_else(|| panic!("no {check}: {:?}", self.lines));
        line
    }

    /// The line has this outcome and these words, and what to do unless all is well.
    fn expect(&self, check: &str, outcome: &str, words: &[&str]) {
        let line = self.line(check);
        assert_eq!(line.outcome, outcome, "{line:?}");
        for word in words {
            assert!(line.found.contains(word), "{word}: {line:?}");
        }
        assert_eq!(line.todo.is_empty(), outcome == "ok", "{line:?}");
    }
}

impl Gate {
    fn check(&self) -> Report {
        Report::of(&mut self.fleet())
    }
}

/// Ends the daemon of a gate.
fn stop(gate: &mut Gate) {
    gate.daemon.take();
    assert!(std::os::unix::net::UnixStream::connect(gate.folder.join("socket")).is_err());
}

#[test]
fn a_gate_that_works_is_described() {
    let fleet = Fleet::new(GROUP);
    let (gate, _other) = (fleet.start("web_0", None), fleet.start("web_1", None));
    let report = wait_for("both machines", || {
        let report = gate.check();
        (report.line("limits").found == "as on 1 other machine").then_some(report)
    });
    assert_eq!(report.code, 0);
    let version = format!("version {} runs for ", env!("CARGO_PKG_VERSION"));
    report.expect("daemon", "ok", &[&version, " s as web_0"]);
    report.expect("store", "ok", &[" answered in ", " ms"]);
    let found =
        "web_0 is in the group web with 1 other machine; at most 1 of 2 may be out of service";
    report.expect("group", "ok", &[found]);
    assert_eq!(report.lines.len(), 4, "{:?}", report.lines);

    // For people, as `scheduled-events doctor` prints it.
    let output = wait::output(gate.fleet().arg("check"));
    let text = String::from_utf8(output.stdout).expect("text");
    let lines: Vec<_> = text.lines().collect();
    assert!(lines[0].starts_with("ok  daemon  version "), "{text}");
    assert!(lines[2].starts_with("ok  group   web_0 is in "), "{text}");
    assert_eq!(lines[5], "4 checks, 0 failures, 0 warnings", "{text}");
}

#[test]
fn the_doctor_of_the_watcher_shows_it() {
    let fleet = Fleet::new(GROUP);
    let mut gate = fleet.start("web_0", None);
    let line = |gate: &Gate| {
        let command = format!("{FLEET_COMMAND} --config {} ask", gate.config.display());
        let mut doctor = Command::new(watcher_command());
        doctor.args(["doctor", "--json", "--endpoint", "http://127.0.0.1:1"]);
        let output = wait::output(doctor.args(["--gate", &command]));
        let text = String::from_utf8(output.stdout).expect("text");
        let mut lines = text
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        let line = lines.find(|line| line["check"] == "gate");
        line.unwrap_or_else(|| panic!("no gate: {text}"))
    };
    let found = line(&gate);
    assert_eq!(found["outcome"], "ok", "{found}");
    let text = found["found"].as_str().expect("a text");
    for part in [
        "--gate runs ",
        "; daemon: version ",
        "; store: folder answered in ",
        "; group: web_0 is in the group web",
        "; limits: no other machine",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    stop(&mut gate);
    let found = line(&gate);
    assert_eq!(found["outcome"], "fail", "{found}");
    let text = found["found"].as_str().expect("a text");
    assert!(text.starts_with("daemon: no daemon listens at "), "{text}");
}

#[test]
fn without_a_daemon_the_store_is_checked_all_the_same() {
    let fleet = Fleet::new(GROUP);
    let mut gate = fleet.start("web_0", None);
    stop(&mut gate);
    let report = gate.check();
    assert_eq!(report.code, 1);
    report.expect("daemon", "fail", &["no daemon listens at "]);
    assert!(
        report
            .line("daemon")
            .todo
            .contains("systemctl enable --now scheduled-events-fleet")
    );
    report.expect("store", "ok", &[" answered in "]);
    report.expect("group", "ok", &["web_0 is in the group web"]);

    // The machine's name is known to nobody.
    let config = std::fs::read_to_string(&gate.config).expect("the configuration");
    let config = config.replace("machine = \"web_0\"\n", "");
    std::fs::write(&gate.config, config).expect("written");
    let report = gate.check();
    report.expect("name", "fail", &["; set `machine`"]);
}

#[test]
fn a_store_that_cannot_be_opened_is_a_failure() {
    let root = tempfile::TempDir::new().expect("a folder");
    let config = root.path().join("fleet.toml");
    let text = format!(
        "machine = \"web_0\"\nengine = \"etcd\"\netcd = {{ endpoints = [\"https://127.0.0.1:1\"], ca = \"/no/such/ca.pem\" }}\n\
         socket = {:?}\n",
        root.path().join("socket")
    );
    std::fs::write(&config, text).expect("a configuration");
    let report = Report::of(Command::new(FLEET_COMMAND).arg("--config").arg(&config));
    report.expect("daemon", "fail", &["no daemon listens at "]);
    report.expect("store", "fail", &["cannot read /no/such/ca.pem"]);
    assert_eq!((report.code, report.lines.len()), (1, 2));
}

#[test]
fn a_daemon_of_another_version_is_to_be_restarted() {
    let fleet = Fleet::new(GROUP);
    let mut gate = fleet.start("web_0", None);
    stop(&mut gate);
    let answers = |reply: Value| {
        let socket = gate.folder.join("socket");
        std::fs::remove_file(&socket).expect("removed");
        let listener = UnixListener::bind(&socket).expect("a socket");
        let thread = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a question");
            let mut question = [0; 15];
            stream.read_exact(&mut question).expect("read");
            stream
                .write_all(format!("{reply}\n").as_bytes())
                .expect("written");
            String::from_utf8_lossy(&question).into_owned()
        });
        let report = gate.check();
        assert_eq!(wait::join(thread), "{\"check\":true}\n");
        report
    };
    // One that does not know the question.
    let why = "this is not a question: missing field `phase` at line 1 column 14";
    let report = answers(json!({ "answer": "closed", "why": why }));
    report.expect("daemon", "warn", &["is of an earlier version"]);
    report.expect("store", "ok", &[]);
    assert_eq!(report.code, 0);
    let report = answers(json!({
        "version": "0.0.1", "machine": "web_0", "runs_for": 11_520, "problems": ["no slot is freed"], "findings": [], "later": 1
    }));
    report.expect(
        "daemon",
        "warn",
        &[
            "version 0.0.1 runs for 3 h 12 min as web_0, and this program has version ",
            "; no slot is freed",
        ],
    );
    assert!(report.line("daemon").todo.contains("restart"));
    // Something else listens there.
    let report = answers(json!("hello"));
    report.expect("daemon", "fail", &["gave no answer: "]);
    assert_eq!(report.code, 1);
}

#[test]
fn a_share_and_zones_are_in_words() {
    let mut fleet = Fleet::new(GROUP);
    fleet.change_groups("max_unavailable = 1", "max_unavailable = \"30%\"");
    let report = fleet.start("web_0", None).check();
    let found = "web_0 is in the group web alone; at most 30%, now 1 of 1, may be out of service";
    report.expect("group", "ok", &[found]);
    report.expect("limits", "ok", &["no other machine is registered"]);
    fleet.change_groups("\"30%\"", "2\nper_zone = true");
    let report = fleet.start("web_1", Some("1")).check();
    report.expect(
        "group",
        "ok",
        &["at most 2 in each zone may be out of service"],
    );
}

#[test]
fn what_does_not_work_in_the_daemon_is_a_warning() {
    let fleet = Fleet::new("");
    let lines = "heartbeat = \"200ms\"\nmetrics_file = \"/no/such/folder/fleet.prom\"";
    let gate = fleet.start_with("web_0", None, lines);
    let report = wait_for("the problem", || {
        let report = gate.check();
        (report.line("daemon").outcome == "warn").then_some(report)
    });
    report.expect(
        "daemon",
        "warn",
        &["; the metrics file: /no/such/folder/fleet.prom: "],
    );
    report.expect(
        "group",
        "ok",
        &["there is no [[group]]: any number of machines"],
    );
    assert_eq!(report.code, 0);
}

#[test]
fn a_store_that_does_not_answer_is_a_failure() {
    let fleet = Fleet::new(GROUP);
    let mut gate = fleet.start("web_0", None);
    let registers = fleet.path().join("registers");
    std::fs::rename(&registers, fleet.path().join("unmounted")).expect("renamed");
    let check = |gate: &Gate| {
        let report = gate.check();
        report.expect("store", "fail", &["folder: cannot list "]);
        assert_eq!(report.code, 1);
        report
    };
    let report = check(&gate);
    // The daemon itself is not at fault, and says what it waits for once its heartbeat fails.
    assert_ne!(report.line("daemon").outcome, "fail");
    stop(&mut gate);
    let report = check(&gate);
    assert_eq!(report.line("daemon").outcome, "fail");
}

#[test]
fn a_register_that_cannot_be_read_is_named() {
    let fleet = Fleet::new(GROUP);
    let gate = fleet.start("web_0", None);
    block_on(async {
        let engine = fleet.engine().await;
        let value = "{\"format\":1,\"machine\":";
        engine
            .swap("machines/web_9", None, value)
            .await
            .expect("written");
    });
    let report = gate.check();
    report.expect("store", "warn", &[" answered in ", "machines/web_9"]);
    assert_eq!(report.code, 0);
}

#[test]
fn a_machine_without_a_group_and_a_silent_one_are_warnings() {
    let fleet = Fleet::new(GROUP);
    let gate = fleet.start("db_0", None);
    let report = gate.check();
    report.expect(
        "group",
        "warn",
        &["db_0 is in no [[group]]: no limit counts for it"],
    );
    let lines = "heartbeat = \"200ms\"\nsilent_after = \"1s\"";
    let gate = fleet.start_with("web_0", None, lines);
    gate.check().expect("group", "ok", &[]);
    block_on(async {
        let engine = fleet.engine().await;
        let value = r#"{"format":1,"machine":"web_7","beat":7,"at":1,"written":1}"#;
        engine
            .swap("machines/web_7", None, value)
            .await
            .expect("written");
    });
    let silent = || {
        let report = gate.check();
        (report.line("group").outcome == "warn").then_some(report)
    };
    let report = wait_for("a silent machine", silent);
    report.expect(
        "group",
        "warn",
        &[
            "with 1 other machine",
            "silent, so that they count as out of service: web_7",
        ],
    );
    assert!(
        report
            .line("group")
            .todo
            .ends_with("scheduled-events-fleet free MACHINE")
    );
}

#[test]
fn machines_with_other_limits_are_named() {
    let mut fleet = Fleet::new(GROUP);
    let gate = fleet.start("web_0", None);
    fleet.change_groups("max_unavailable = 1", "max_unavailable = 2");
    let _other = fleet.start("web_1", None);
    fleet.change_groups("max_unavailable = 2", "max_unavailable = 1\npause = \"1m\"");
    let _third = fleet.start("web_2", None);
    let report = wait_for("the machines", || {
        let report = gate.check();
        (report.lines.len() == 5).then_some(report)
    });
    report.expect(
        "limits",
        "warn",
        &["the group web has the limit 1 here and another one at web_1"],
    );
    let (_, last) = &report.lines[4];
    assert!(
        last.found.contains("`pause` or `windows` at web_2"),
        "{last:?}"
    );
    // The daemon does not report it a second time, and the names are there for programs.
    report.expect("daemon", "ok", &[]);
    let output = wait::output(gate.fleet().args(["check", "gate", "--json"]));
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(text.contains("\"machines\":[\"web_1\"]}"), "{text}");
}

#[test]
fn without_an_engine_there_is_no_gate_to_check() {
    let root = tempfile::TempDir::new().expect("a folder");
    let config = root.path().join("fleet.toml");
    std::fs::write(&config, "machine = \"web_0\"\n").expect("a configuration");
    let check = |path: &Path, arguments: &[&str]| {
        let mut command = Command::new(FLEET_COMMAND);
        command.arg("--config").arg(path).arg("check");
        command
            .env_remove("KUBECONFIG")
            .env_remove("KUBERNETES_SERVICE_HOST");
        let output = wait::output(command.args(arguments));
        let errors = String::from_utf8(output.stderr).expect("text");
        (output.status.code(), errors)
    };
    for arguments in [&[][..], &["gate"]] {
        let (code, errors) = check(&config, arguments);
        assert_eq!(code, Some(2));
        assert!(
            errors.starts_with("error: the configuration has no `engine`"),
            "{errors}"
        );
    }
}
