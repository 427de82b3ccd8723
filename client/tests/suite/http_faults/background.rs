//! Runs the tests of this module at the same time, in threads of their own.
//!
//! The tests mostly wait: for back-offs, time-outs and the end of an event. The test runner starts as many as there are
//! cores. So the first test that runs starts all tests that the runner will run, and each test joins its own.

use std::any::Any;
use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use super::handwritten::HANDWRITTEN;
use super::rows::ROWS;
use super::scenario_run::run_row;

static RUNNING: LazyLock<Mutex<HashMap<&'static str, JoinHandle<()>>>> = LazyLock::new(|| {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let rows = ROWS.iter().map(|entry| (entry.name, "rows", entry.ignored));
    let handwritten = HANDWRITTEN.iter().map(|&(name, _)| (name, "handwritten", false));
    let all = rows.chain(handwritten);
    let selected = all.filter(|(name, module, ignored)| {
        is_selected(
            &arguments,
            &format!("{}::{module}::{name}", module_path!().trim_end_matches("::background")),
            *ignored,
        )
    });
    Mutex::new(selected.map(|(name, ..)| (name, thread::spawn(move || run(name)))).collect())
});

/// Runs the test `name` to its end, or waits for the end of its run in the background.
///
/// # Panics
/// If the test fails, with its message.
pub(super) fn join(name: &'static str) {
    let running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
    match running.map(JoinHandle::join) {
        None => run(name),
        Some(Ok(())) => {}
        // The panic itself was printed as output of the test that started the thread.
        Some(Err(payload)) => panic!("{name}: {}", message(&*payload)),
    }
}

fn run(name: &'static str) {
    if let Some((_, test)) = HANDWRITTEN.iter().find(|(known, _)| *known == name) {
        return test();
    }
    let entry = ROWS.iter().find(|entry| entry.name == name).expect(name);
    run_row(entry.name, entry.row).check();
}

fn message(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("panicked")
}

/// Whether the test runner runs the test with this path, from the runner's arguments.
fn is_selected(arguments: &[String], path: &str, ignored: bool) -> bool {
    let has = |option: &str| arguments.iter().any(|argument| argument == option);
    if !(has("--include-ignored") || ignored == has("--ignored")) {
        return false;
    }
    let matches = |word: &str| if has("--exact") { path.ends_with(word) } else { path.contains(word) };
    let (mut filtered, mut included) = (false, false);
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--skip" if arguments.next().is_some_and(|word| matches(word)) => return false,
            "--test-threads" | "--format" | "--color" | "--logfile" | "--shuffle-seed" => {
                arguments.next();
            }
            option if option.starts_with('-') => {}
            word => {
                filtered = true;
                included |= matches(word);
            }
        }
    }
    included || !filtered
}

#[test]
fn selects_the_tests_that_the_runner_runs() {
    let selected = |arguments: &str, ignored| {
        let arguments: Vec<_> = arguments.split_whitespace().map(str::to_owned).collect();
        is_selected(&arguments, "suite::http_faults::rows::status_404", ignored)
    };
    for arguments in ["", "http_faults::", "status_", "other status_404", "--exact http_faults::rows::status_404"] {
        assert!(selected(arguments, false), "{arguments}");
        assert!(!selected(arguments, true), "{arguments}");
    }
    for arguments in ["other", "--exact rows::status", "--skip status", "http_faults --skip 404", "--ignored"] {
        assert!(!selected(arguments, false), "{arguments}");
    }
    for arguments in ["--test-threads 2", "--test-threads=2 --nocapture", "--skip other", "--include-ignored"] {
        assert!(selected(arguments, false), "{arguments}");
    }
    assert!(selected("--ignored", true) && selected("http_faults --include-ignored", true));
}
