//! Runs the example host against the replay server.

#[path = "../examples/host.rs"]
#[allow(dead_code)] // Its `main` is for the command line.
mod host;

use scheduled_events_replay::{Scenario, Server, ServerConfig};

#[test]
fn the_example_host_prepares_approves_and_recovers() {
    let scenario = Scenario::builtin("user-reboot").expect("a built-in name");
    let config = ServerConfig::new(scenario).vm_name("vm").speed(60.0);
    let server = Server::start(config).expect("a server");
    let state = std::env::temp_dir().join(format!("example-host-{}", std::process::id()));
    let done = host::run(&server.url(), "vm", state.to_str().expect("UTF-8")).expect("no error");
    let words: Vec<_> = done
        .iter()
        .filter_map(|line| line.split(' ').next())
        .collect();
    assert_eq!(words, ["prepare", "approve", "recover"], "{done:?}");
    server.finish().assert_clean();
    std::fs::remove_file(state).expect("a state file");
}
