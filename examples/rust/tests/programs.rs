//! Runs the examples against the replay server.

use std::process::{Command, Stdio};

use scheduled_events_replay::{Scenario, Server, ServerConfig};

scheduled_events_test_support::nothing_is_left_over!();

/// The lines of a program that has watched this scenario until it was over.
fn lines(program: &str, scenario: &str, speed: f64) -> Vec<String> {
    let scenario = Scenario::builtin(scenario).expect("a built-in name");
    let server = Server::start(ServerConfig::new(scenario).speed(speed)).expect("a server");
    let run = Command::new(program)
        .args(["--until-idle", &server.url()])
        .stderr(Stdio::inherit())
        .output()
        .expect("a program");
    assert!(run.status.success(), "{:?}", run.status);
    server.finish().assert_clean();
    let text = String::from_utf8(run.stdout).expect("UTF-8");
    text.lines().map(str::to_owned).collect()
}

fn drains_and_comes_back(program: &str) {
    let lines = lines(program, "user-reboot", 15.0);
    let position = |end: &str| {
        lines
            .iter()
            .position(|line| line.ends_with(end))
            .unwrap_or_else(|| panic!("no line ends with {end:?}: {lines:#?}"))
    };
    let order = [
        position(": prepare begun"),
        position("drained"),
        position(": prepare ready"),
        position(": approved"),
        position(": completed"),
        position("back in service"),
        position(": recover done"),
    ];
    assert!(order.is_sorted(), "{order:?} of {lines:#?}");
}

#[test]
fn the_agent_drains_approves_and_comes_back() {
    drains_and_comes_back(env!("CARGO_BIN_EXE_agent"));
}

#[test]
fn the_agent_with_tokio_does_the_same() {
    drains_and_comes_back(env!("CARGO_BIN_EXE_agent-tokio"));
}

#[test]
fn the_agent_leaves_a_short_freeze_to_azure() {
    let lines = lines(env!("CARGO_BIN_EXE_agent"), "live-migration", 120.0);
    assert!(
        !lines.iter().any(|line| line.contains("drain")),
        "{lines:#?}"
    );
}
