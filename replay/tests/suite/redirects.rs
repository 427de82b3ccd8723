//! Whether a client follows a redirect: the verdict sees it, or does not claim that it would.

use scheduled_events_replay::verdict::{Outcome, Rule};

use super::*;

/// A follower's request for this target, with a `Host` of its own.
fn follow(server: &Server, machine: usize, method: &str, target: &str) -> u16 {
    let address = server.machines()[machine].addr;
    let request =
        format!("{method} {target} HTTP/1.1\r\nHost: {address}\r\nMetadata: true\r\n\r\n");
    raw(address, request.as_bytes()).status
}

/// What a client is redirected to.
fn redirected(server: &Server, machine: usize, method: &str) -> String {
    let address = server.machines()[machine].addr;
    let body = if method == "POST" {
        "Content-Length: 2\r\n\r\n{}"
    } else {
        "\r\n"
    };
    let request =
        format!("{method} {EVENTS} HTTP/1.1\r\nHost: {address}\r\nMetadata: true\r\n{body}");
    let response = raw(address, request.as_bytes());
    assert!((301..=308).contains(&response.status), "{response:?}");
    response.header("Location").expect("a location").to_owned()
}

#[test]
fn a_client_that_follows_to_the_default_target_is_found_and_one_that_does_not_passes() {
    for listen in ["127.0.0.1:0", "[::1]:0"] {
        for status in [301, 302, 303, 307, 308] {
            for method in ["GET", "POST"] {
                let fault = format!("{}.redirect:{status}@1", method.to_lowercase());
                let config = steady().fault(fault.parse().expect("a fault"));
                let config = config
                    .listen(listen.parse().expect("an address"))
                    .machines(2);
                let server = start(config);
                for machine in [0, 1] {
                    let target = redirected(&server, machine, method);
                    let kept = server.verdict(machine).outcome(Rule::Redirect);
                    assert_eq!(kept, Outcome::Passed, "{listen} {fault} {machine}");
                    let next = if status >= 307 { method } else { "GET" };
                    follow(&server, machine, next, &target);
                    let broken = server.verdict(machine).outcome(Rule::Redirect);
                    assert_eq!(broken, Outcome::Failed, "{listen} {fault} {machine}");
                }
            }
        }
    }
}

#[test]
fn a_redirect_is_checked_only_where_the_server_would_see_who_follows() {
    for (location, is_seen) in [
        ("/elsewhere", true),
        ("/elsewhere?a=b", true),
        // A follower sends no fragment.
        ("/elsewhere#part", true),
        ("http://{host}/elsewhere#part", true),
        ("HTTP://{host}/elsewhere", true),
        ("//{host}/elsewhere", true),
        // Any client asks there.
        ("/metadata/scheduledevents?api-version=2020-07-01", false),
        // To another server, or at another port.
        ("http://192.0.2.1/elsewhere", false),
        ("https://{host}/elsewhere", false),
        ("http://{other}/elsewhere", false),
        // Libraries send different requests for these.
        ("elsewhere", false),
        ("?a=b", false),
        ("/a/../elsewhere", false),
        ("/else%77here", false),
    ] {
        let server = start(steady().machines(2));
        let addresses: Vec<_> = server
            .machines()
            .iter()
            .map(|machine| machine.addr.to_string())
            .collect();
        let location = location
            .replace("{host}", &addresses[0])
            .replace("{other}", &addresses[1]);
        let fault = format!("get.redirect:302,{location}@1")
            .parse()
            .expect("a fault");
        server.inject_fault(0, fault).expect("no request yet");
        assert_eq!(redirected(&server, 0, "GET"), location);
        let expected = if is_seen {
            Outcome::Passed
        } else {
            Outcome::NotChecked
        };
        assert_eq!(
            server.verdict(0).outcome(Rule::Redirect),
            expected,
            "{location}"
        );
        if is_seen {
            let target = location.split('#').next().expect("a part");
            let target = target
                .rsplit_once(&addresses[0])
                .map_or(target, |(_, path)| path);
            follow(&server, 0, "GET", target);
            assert_eq!(
                server.verdict(0).outcome(Rule::Redirect),
                Outcome::Failed,
                "{location}"
            );
        }
    }
}
