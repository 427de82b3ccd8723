//! Runs the commands of a page in order, in one folder, and compares their output with the page.
//!
//! In a block of `console`, a command follows `$ `, and the lines after it are its output: `...` is
//! any number of lines, and digits, ids of events and the width of gaps may differ. A command
//! succeeds, or its output starts with `error: `. A block of `sh` is one command without an output.
//! Paths of the system, such as `/etc/`, are below the folder; the port 8080 is a free one.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Child, Stdio};

use rustix::process::{Pid, Signal, kill_process_group};
use scheduled_events_replay::{Scenario, Server, ServerConfig};

use super::blocks::Block;
use crate::pages::documentation::read;
use crate::support::{
    Folder, PROGRAM, VM, eventually, free_port, launch, quoted, run as run_program,
};

/// Programs that the tests do not run: each is replaced by a program that succeeds.
const STAND_INS: [&str; 17] = [
    "systemctl",
    "journalctl",
    "logger",
    "kubectl",
    "az",
    "cargo",
    "make",
    "worker",
    "worker-save",
    "worker-restore",
    "nginx.sh",
    "postgres.sh",
    "drain",
    "prometheus-node-exporter",
    "app",
    "podman",
    "dpkg",
];

/// The beginning of each script: errors go to the same place as the output.
const PRELUDE: &str = "exec 2>&1\n";

/// The folders of the system that appear on the pages.
const FOLDERS: [&str; 7] = [
    "/etc/scheduled-events",
    "/etc/scheduled-events/run",
    "/var/lib/scheduled-events",
    "/var/lib/worker",
    "/var/lib/prometheus/node-exporter",
    "/usr/local/bin",
    "/run",
];

/// Ends a command's output in the output of its script; its exit code and a line feed follow.
const END: char = '\u{1e}';

/// Runs the blocks of a page.
///
/// # Panics
/// When a command does not do what the page shows.
pub(super) fn run(blocks: &[Block]) {
    let mut test = Page::new();
    for block in blocks {
        if let Some(name) = block.file() {
            test.folder.file(name, &block.text);
        } else if ["console", "sh"].contains(&block.language.as_str()) && !block.is_skipped() {
            test.run(block);
        }
    }
}

/// A page whose commands run.
struct Page {
    folder: Folder,
    port: String,
    scripts: Vec<Child>,
}

impl Page {
    fn new() -> Self {
        let folder = Folder::new();
        for name in FOLDERS {
            fs::create_dir_all(folder.path(&name[1..])).expect("a folder");
        }
        fs::create_dir_all(folder.path("shared")).expect("a folder");
        let program = |name: &str, text: &str| {
            let path = folder.file(&format!("usr/local/bin/{name}"), text);
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("a mode");
        };
        for name in STAND_INS {
            program(
                name,
                &format!("#!/bin/sh\n# Imitates {name}: does nothing, and succeeds.\n"),
            );
        }
        program(
            "sudo",
            "#!/bin/sh\n# Imitates sudo: runs the command as the same user.\nexec \"$@\"\n",
        );
        program("lock.sh", &read("examples/gate/lock.sh"));
        program(
            "scheduled-events",
            &format!(
                "#!/bin/sh\n# The program under test. A watcher without an end gets one.\ncase \" $* \" in\n*' --until-idle '* | \
                 *' --max-polls '*) ;;\n' watch '* | ' capture '*) set -- \"$@\" --until-idle ;;\nesac\nexec {} \"$@\"\n",
                quoted(PROGRAM)
            ),
        );
        Self {
            folder,
            port: free_port().to_string(),
            scripts: Vec::new(),
        }
    }

    fn run(&mut self, block: &Block) {
        let commands = commands(block);
        let server = serve(block.scenario());
        let mut script = PRELUDE.to_owned();
        for (number, (command, _)) in commands.iter().enumerate() {
            let log = format!("background.{}.{number}", block.line);
            // The output of a program in the background is the first line that it prints.
            let _ = match command.trim_end().strip_suffix(" &") {
                Some(background) => writeln!(
                    script,
                    "{background} >{log} 2>&1 &\nuntil [ -s {log} ]; do sleep 0.05; done\nhead -n 1 {log}"
                ),
                None => writeln!(script, "{command}"),
            };
            let _ = writeln!(script, "printf '{END}%s\\n' $?");
        }
        let output = self.output(&self.below_folder(&script), &server.url(), block);
        let mut rest = output.as_str();
        for (command, expected) in &commands {
            let place = block.place();
            let (printed, after) = rest
                .split_once(END)
                .unwrap_or_else(|| panic!("{place}: {command}\n{rest}"));
            let (code, after) = after.split_once('\n').expect("a line");
            rest = after;
            let fails = expected.as_ref().is_some_and(|lines| {
                lines
                    .first()
                    .is_some_and(|line| line.starts_with("error: "))
            });
            assert_eq!(
                code != "0",
                fails,
                "{place}: {command}\nexit code {code}\n{printed}"
            );
            let printed = printed.replace(&format!("{}/", self.folder.as_path().display()), "/");
            if let Some(expected) = expected {
                let lines: Vec<_> = printed.lines().map(normal).collect();
                assert!(
                    is_as_expected(expected, &lines),
                    "{place}: {command}\nprinted\n{printed}\nin place of\n{}",
                    expected.join("\n")
                );
            }
        }
    }

    /// Runs a script, and returns its output.
    fn output(&mut self, script: &str, endpoint: &str, block: &Block) -> String {
        let name = format!("script.{}", block.line);
        let path = self.folder.file(&name, script);
        let printed = self.folder.path(&format!("{name}.out"));
        let search = format!(
            "{}:{}",
            self.folder.path("usr/local/bin"),
            std::env::var("PATH").unwrap_or_default()
        );
        let mut command = launch("sh");
        // The user's own settings must not change the output.
        command
            .env_clear()
            .env("PATH", search)
            .env("LC_ALL", "C")
            .env("TZ", "UTC")
            .env("HOME", self.folder.as_path());
        command
            .env("SCHEDULED_EVENTS_ENDPOINT", endpoint)
            .current_dir(self.folder.as_path())
            .process_group(0);
        command
            .arg(path)
            .stdout(fs::File::create(&printed).expect("a file"))
            .stderr(Stdio::null());
        self.scripts.push(command.spawn().expect("a shell"));
        let script = self.scripts.last_mut().expect("the script");
        eventually(&format!("{}: the end of the block", block.place()), || {
            script.try_wait().expect("a child")
        });
        fs::read_to_string(printed).expect("its output")
    }

    /// A text of the page, with the system's paths below the folder and a free port.
    fn below_folder(&self, text: &str) -> String {
        let text = ["/etc/", "/var/lib/", "/usr/local/bin/", "/run/"]
            .into_iter()
            .fold(text.to_owned(), |text, path| {
                [" ", "=", "\"", "'"]
                    .into_iter()
                    .fold(text, |text, before| {
                        text.replace(
                            &format!("{before}{path}"),
                            &format!("{before}{}{path}", self.folder.as_path().display()),
                        )
                    })
            });
        text.replace("127.0.0.1:8080", &format!("127.0.0.1:{}", self.port))
    }
}

impl Drop for Page {
    /// Ends processes that the scripts left running, such as servers.
    fn drop(&mut self) {
        for script in &mut self.scripts {
            let group = Pid::from_raw(script.id().cast_signed()).expect("a process");
            let _ = kill_process_group(group, Signal::KILL);
            let _ = script.wait();
        }
    }
}

/// A server of this scenario, sixty times faster than Azure, once its event is announced.
fn serve(scenario: &str) -> Server {
    let speed = if scenario == "preempt" { 5.0 } else { 60.0 };
    let scenario =
        Scenario::builtin(scenario).unwrap_or_else(|| panic!("no scenario {scenario:?}"));
    let server = Server::start(
        ServerConfig::new(scenario)
            .speed(speed)
            .vm_name(VM)
            .without_verdict(),
    )
    .expect("a port");
    let url = server.url();
    eventually("the event", || {
        (run_program(&["wait", "--endpoint", &url, "--timeout", "30s"]).code == Some(0))
            .then_some(())
    });
    server
}

/// The commands of a block, each with the lines that it prints, if the page shows them.
fn commands(block: &Block) -> Vec<(String, Option<Vec<String>>)> {
    if !block.text.lines().any(|line| line.starts_with("$ ")) {
        return vec![(block.text.clone(), None)];
    }
    let mut commands: Vec<(String, Option<Vec<String>>)> = Vec::new();
    let mut continues = false;
    for line in block.text.lines() {
        if let Some(command) = line.strip_prefix("$ ") {
            commands.push((command.to_owned(), None));
            continues = command.ends_with('\\');
            continue;
        }
        let (command, expected) = commands
            .last_mut()
            .unwrap_or_else(|| panic!("{}: no command", block.place()));
        if continues {
            *command += "\n";
            *command += line;
            continues = line.ends_with('\\');
        } else {
            expected.get_or_insert_default().push(if line == "..." {
                line.to_owned()
            } else {
                normal(line)
            });
        }
    }
    commands
}

/// Whether the lines match the expected ones, among which `...` is any number of lines.
fn is_as_expected(expected: &[String], lines: &[String]) -> bool {
    match expected.split_first() {
        None => lines.is_empty(),
        Some((first, rest)) if first == "..." => {
            (0..=lines.len()).any(|skipped| is_as_expected(rest, &lines[skipped..]))
        }
        Some((first, rest)) => lines
            .split_first()
            .is_some_and(|(line, lines)| line == first && is_as_expected(rest, lines)),
    }
}

/// A line without its varying parts: ids become `ID`, numbers `0`, gaps one space.
fn normal(line: &str) -> String {
    let mut words = Vec::new();
    for word in line.split_whitespace() {
        let groups: Vec<_> = word.split('-').map(str::len).collect();
        if groups == [8, 4, 4, 4, 12]
            && word
                .bytes()
                .all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
        {
            words.push("ID".to_owned());
            continue;
        }
        let mut plain = String::new();
        for char in word.chars() {
            let char = if char.is_ascii_digit() { '0' } else { char };
            if char != '0' || !plain.ends_with('0') {
                plain.push(char);
            }
        }
        words.push(plain);
    }
    words.join(" ")
}

#[test]
fn lines_are_compared_but_for_what_differs_from_run_to_run() {
    let lines = |text: &str| -> Vec<_> {
        text.lines()
            .map(|line| {
                if line == "..." {
                    line.into()
                } else {
                    normal(line)
                }
            })
            .collect()
    };
    let printed = lines(
        "14:22:31  scheduled  Reboot  364FC752-569C-426C-8EB4-A81A0985B836\nstarts in 15 s\ndone",
    );
    for (expected, is_equal) in [
        (
            "14:22:32 scheduled Reboot 00000000-569C-426C-8EB4-A81A0985B836\n...\ndone",
            true,
        ),
        ("...\nstarts in 9 s\ndone", true),
        ("...", true),
        ("...\nstarts in 9 s", false),
        (
            "14:22:32 started Reboot 00000000-569C-426C-8EB4-A81A0985B836\n...",
            false,
        ),
        ("14:22:32 scheduled Reboot 364FC752\n...", false),
    ] {
        assert_eq!(
            is_as_expected(&lines(expected), &printed),
            is_equal,
            "{expected}"
        );
    }
}

#[test]
fn the_picture_shows_what_the_demonstration_prints() {
    let picture = read("docs/images/demo.svg");
    let texts = picture
        .split("</text>")
        .filter_map(|part| part.rsplit_once('>'))
        .map(|(_, text)| text);
    // The first line is the command.
    let shown: Vec<_> = texts
        .skip(2)
        .map(|text| text.replace("&#x27;", "'"))
        .collect();
    let printed = run_program(&["demo"]).with_code(0).stdout;
    let (printed, _) = printed
        .split_once("\n\nAll events have ended.")
        .expect("the end of the demonstration");
    let words = |text: &str| {
        text.lines()
            .map(normal)
            .collect::<String>()
            .replace(' ', "")
    };
    assert_eq!(
        words(&shown.join("\n")),
        words(printed),
        "docs/images/demo.svg: run `make docs-images`"
    );
}
