//! A program for hooks that does the same on every system: this test program itself, started again with steps to take.
//!
//! A step is one word of the command line, such as `append FILE prepare $EVENT_ID`. In its text, `$NAME` is the variable
//! `SCHEDULED_EVENTS_NAME`, `$PID` the helper's process, and `$CHILD` the last child's. What the test harness prints before the
//! first step is no part of it; see [`is_noise`].
//!
//! | step | what it does |
//! |---|---|
//! | `append FILE TEXT` | appends a line |
//! | `print TEXT`, `complain TEXT` | writes a line to standard output or standard error |
//! | `copy` | writes standard input to standard output |
//! | `input FILE`, `input-size FILE` | writes standard input, or its length, to the file at once |
//! | `variables FILE` | writes all variables `SCHEDULED_EVENTS_*`, sorted |
//! | `touch FILE` | creates the file |
//! | `await FILE` | waits until the file exists, or the tests have ended |
//! | `beat FILE` | appends to the file until it is ended |
//! | `sleep SECONDS` | waits |
//! | `child STEP then STEP` | starts a helper with these steps, which goes on beside this one |
//! | `much BYTES` | writes that many bytes to standard output |
//! | `if NAME=VALUE STEP`, `unless NAME=VALUE STEP` | the step, depending on a variable |
//! | `if-file FILE STEP` | the step if the file exists |
//! | `open-files FILE` | writes what this process has open, on Linux |
//! | `exit CODE` | ends |

use std::env;
use std::fs::{self, OpenOptions};
use std::io::{self, Read, Write};
use std::iter;
use std::process::{self, Command};
use std::thread;
use std::time::{Duration, Instant};

use scheduled_events_test_support::quoted;

/// What follows the name of the test: all further words are steps.
const STEPS: &str = "steps";

/// A helper that should have been ended ends by itself after this time.
const LIFE_MAX: Duration = Duration::from_secs(150);

/// The command line of a helper that takes these steps.
pub(crate) fn helper<S: AsRef<str>>(steps: &[S]) -> String {
    let program = env::current_exe()
        .expect("this program")
        .display()
        .to_string();
    let words = arguments(steps.iter().map(|step| step.as_ref().to_owned()));
    let words = iter::once(program).chain(words).map(|word| quoted(&word));
    words.collect::<Vec<_>>().join(" ")
}

/// Whether a line of a helper's output is that of the test harness.
pub(crate) fn is_noise(line: &str) -> bool {
    line.is_empty() || line.starts_with("running ") || line.starts_with("test ")
}

/// The helper's own program: in the tests it does nothing.
#[test]
fn helper_program() {
    let mut words = env::args().skip_while(|word| word != "--").skip(1);
    if words.next().as_deref() != Some(STEPS) {
        return;
    }
    thread::spawn(end_in_time);
    // The harness may have begun a line.
    println!();
    let mut child = String::new();
    for step in words {
        take(&step, &mut child);
    }
    process::exit(0);
}

/// Ends this process with the tests: a killed watcher leaves its commands running.
fn end_in_time() {
    let tests = env::var("TEST_PROCESS")
        .ok()
        .map(|tests| format!("/proc/{tests}"));
    let started = Instant::now();
    while started.elapsed() < LIFE_MAX
        && tests
            .as_ref()
            .is_none_or(|tests| !cfg!(target_os = "linux") || fs::exists(tests).unwrap_or(true))
    {
        thread::sleep(Duration::from_millis(200));
    }
    process::exit(99);
}

/// The arguments of this program with which it takes the steps.
fn arguments(steps: impl Iterator<Item = String>) -> Vec<String> {
    // A test is named without its crate.
    let name = concat!(module_path!(), "::helper_program")
        .split_once("::")
        .expect("a crate")
        .1;
    let fixed = ["--exact", "--nocapture", name, "--", STEPS].map(str::to_owned);
    fixed.into_iter().chain(steps).collect()
}

fn take(step: &str, child: &mut String) {
    let (verb, rest) = step.split_once(' ').unwrap_or((step, ""));
    let (file, text) = rest.split_once(' ').unwrap_or((rest, ""));
    let expanded = |text: &str| expand(text, child);
    match verb {
        "append" => append(file, &format!("{}\n", expanded(text))),
        "print" => println!("{}", expanded(rest)),
        "complain" => eprintln!("{}", expanded(rest)),
        "copy" => io::stdout().write_all(&input()).expect("a reader"),
        "input" => put(file, &input()),
        "input-size" => put(file, input().len().to_string().as_bytes()),
        "variables" => {
            let variables = env::vars().filter(|(name, _)| name.starts_with("SCHEDULED_EVENTS_"));
            let mut lines: Vec<_> = variables
                .map(|(name, value)| format!("{name}={value}\n"))
                .collect();
            lines.sort();
            put(file, lines.concat().as_bytes());
        }
        "touch" => put(file, b""),
        "await" => {
            while !fs::exists(file).expect("a path") {
                pause();
            }
        }
        "beat" => loop {
            append(file, ".");
            pause();
        },
        "sleep" => thread::sleep(Duration::from_secs_f64(rest.parse().expect("a number"))),
        "child" => {
            let program = env::current_exe().expect("this program");
            let mut command = Command::new(program);
            command.args(arguments(rest.split(" then ").map(str::to_owned)));
            *child = command.spawn().expect("a child").id().to_string();
        }
        "much" => {
            let bytes = vec![b'x'; rest.parse().expect("a number")];
            io::stdout().write_all(&bytes).expect("a reader");
        }
        "if" | "unless" => {
            let (name, value) = file.split_once('=').expect("a variable and its value");
            if (variable(name) == value) == (verb == "if") {
                take(text, child);
            }
        }
        "if-file" => {
            if fs::exists(file).expect("a path") {
                take(text, child);
            }
        }
        "open-files" => {
            let entries = fs::read_dir("/proc/self/fd")
                .into_iter()
                .flatten()
                .flatten();
            let files = entries.filter_map(|entry| fs::read_link(entry.path()).ok());
            let lines: Vec<_> = files.map(|file| file.display().to_string()).collect();
            put(file, lines.join("\n").as_bytes());
        }
        "exit" => process::exit(rest.parse().expect("a number")),
        _ => panic!("unknown step {step:?}"),
    }
}

fn pause() {
    thread::sleep(Duration::from_millis(50));
}

fn input() -> Vec<u8> {
    let mut input = Vec::new();
    io::stdin().read_to_end(&mut input).expect("an input");
    input
}

/// Creates a file with all of its content.
fn put(file: &str, content: &[u8]) {
    let part = format!("{file}.part");
    fs::write(&part, content).expect("a file");
    fs::rename(&part, file).expect("a file");
}

/// Appends with one write. On Windows another process may have the file open for a moment.
fn append(file: &str, text: &str) {
    let deadline = Instant::now() + Duration::from_secs(5);
    while let Err(error) = OpenOptions::new()
        .append(true)
        .create(true)
        .open(file)
        .and_then(|mut file| file.write_all(text.as_bytes()))
    {
        assert!(Instant::now() < deadline, "{file}: {error}");
        pause();
    }
}

/// The text with its variables replaced.
fn expand(text: &str, child: &str) -> String {
    let mut parts = text.split('$');
    let mut whole = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part
            .find(|char: char| !char.is_ascii_uppercase() && char != '_')
            .unwrap_or(part.len());
        whole += &match &part[..end] {
            "PID" => process::id().to_string(),
            "CHILD" => child.to_owned(),
            name => variable(name),
        };
        whole += &part[end..];
    }
    whole
}

fn variable(name: &str) -> String {
    env::var(format!("SCHEDULED_EVENTS_{name}")).unwrap_or_default()
}
