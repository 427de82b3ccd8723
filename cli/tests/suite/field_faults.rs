//! Regression tests for faults of other clients in production, as far as they concern HTTP and the
//! loop. Each test has the name of the fault.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::{
    FakeService, Folder, PREPARE_ALL, Reply, Run, VM, assert_well_behaved, command, eventually,
    freeze, lines,
};
use crate::support::{started, together, with};

const PROXIES: [&str; 6] = [
    "http_proxy",
    "https_proxy",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "all_proxy",
];

#[test]
fn fault_19_proxy_taken_from_the_environment() {
    let service = FakeService::start();
    service.show(2, &[freeze("a")]);
    // A proxy that records requests.
    let proxy = FakeService::start();
    let url = service.url();
    for arguments in [
        vec!["list"],
        vec!["approve", "a"],
        vec![
            "watch",
            "--policy",
            "sample",
            "--max-polls",
            "2",
            "--interval",
            "200ms",
        ],
    ] {
        let mut run = command(&arguments);
        run.env("SCHEDULED_EVENTS_ENDPOINT", &url);
        for name in PROXIES {
            run.env(name, proxy.url());
        }
        Run::start(run).finish().with_code(0);
    }
    assert!(proxy.requests().is_empty(), "{:?}", proxy.requests());
    assert_eq!(service.posted(), ["a", "a"]);
    assert_well_behaved(&service.requests()[service.requests().len() - 3..]);
}

#[test]
fn fault_19_redirects_followed() {
    let witness = FakeService::start();
    witness.show(9, &[freeze("trap")]);
    together([301, 302, 303, 307, 308], |status| {
        let service = FakeService::start();
        let location = format!(
            "Location: {}/metadata/scheduledevents?api-version=2020-07-01\r\n",
            witness.url()
        );
        service.intercept(move |_| Some(Reply::new(status, &location, "")));
        let url = service.url();
        // A request for the name, a poll and an approval.
        let mut run = Run::watch(&url, &["--policy", "sample"]);
        let failed = run.record("a failure", |record| record["record"] == "poll-failed");
        assert_eq!(failed["cause"], format!("redirect-{status}"));
        run.wait_for_stderr("cannot determine this machine's own name");
        for arguments in [
            vec!["list", "--endpoint", &url],
            vec!["approve", "trap", "--endpoint", &url],
        ] {
            let rejected = crate::support::run(&arguments).with_code(1);
            assert!(
                rejected.stderr.contains("redirects are not followed"),
                "{}",
                rejected.stderr
            );
        }
    });
    assert!(
        witness.requests().is_empty(),
        "a redirect was followed: {:?}",
        witness.requests()
    );
}

#[test]
fn fault_19_a_redirected_approval_is_repeated_where_it_belongs() {
    let witness = FakeService::start();
    let service = FakeService::start();
    service.show(2, &[freeze("a")]);
    let location = format!("Location: {}/\r\n", witness.url());
    let mut redirects = 2;
    service.intercept(move |request| {
        let redirected = request.is_post() && redirects > 0;
        redirects -= i32::from(redirected);
        redirected.then(|| Reply::new(307, &location, ""))
    });
    let mut run = Run::watch(&service.url(), &["--policy", "sample"]);
    run.record("an approval", |record| {
        record["record"] == "approval" && record["status"] == 200
    });
    assert_eq!(service.posted(), ["a", "a", "a"]);
    assert!(witness.requests().is_empty());
}

#[test]
fn fault_19_a_time_out_of_a_second_is_too_short() {
    let service = FakeService::start();
    service.show(2, &[freeze("a")]);
    // Not the first request, which has a longer timeout.
    let mut answered = 0;
    service.intercept(move |request| {
        answered += i32::from(request.is_get());
        (answered == 2 || request.is_post())
            .then(|| {
                Reply::new(
                    200,
                    "",
                    if request.is_get() {
                        crate::support::document(3, &[freeze("a")])
                    } else {
                        String::new()
                    },
                )
            })
            .map(|reply| reply.after(Duration::from_millis(2_500)))
    });
    let mut run = Run::watch(&service.url(), &["--policy", "sample"]);
    run.record("an approval", |record| {
        record["record"] == "approval" && record["status"] == 200
    });
    service.await_polls(2);
    assert!(
        run.records()
            .iter()
            .all(|record| record["record"] != "poll-failed"),
        "{}",
        run.stdout()
    );
    assert_eq!(service.posted(), ["a"]);
}

#[test]
fn fault_20_any_status_but_200_ends_the_process() {
    together([204, 404, 408, 410, 418, 429, 500, 503, 999], |status| {
        let service = FakeService::start();
        service.show(2, &[freeze("a")]);
        let mut run = Run::watch(&service.url(), &["--policy", "observe"]);
        run.change("scheduled", "a");
        service.intercept(move |request| request.is_get().then(|| Reply::new(status, "", "")));
        let cause = format!("status-{status}");
        run.record(&cause, |record| {
            record["record"] == "poll-failed" && record["cause"] == *cause
        });
        if status != 418 {
            // After a 418, a permanent failure, the next poll would follow much later.
            service.intercept(|_| None);
            service.await_polls(2);
        }
        assert!(run.is_running());
        assert_eq!(
            run.records()
                .iter()
                .filter(|record| record["record"] == "change")
                .count(),
            1,
            "{}",
            run.stdout()
        );
    });
}

#[test]
fn fault_20_four_equal_errors_panic() {
    let mut run = Run::watch("http://127.0.0.2:9", &["--vm-name", VM]);
    eventually("four failures", || {
        let failures = run
            .records()
            .into_iter()
            .filter(|record| record["cause"] == "unreachable");
        (failures.count() >= 4).then_some(())
    });
    assert!(run.is_running());
    assert!(!run.stderr().contains("panicked"), "{}", run.stderr());
}

#[test]
fn fault_20_a_transport_error_skips_the_rest_of_the_round() {
    let service = FakeService::start();
    service.show(2, &[freeze("a")]);
    let mut polls = 0;
    service.intercept(move |request| {
        polls += i32::from(request.is_get());
        // The first poll succeeds, and all others lose their connection.
        (request.is_get() && polls > 1).then(|| Reply::raw("").close())
    });
    service.set_post_status(500);
    let mut run = Run::watch(&service.url(), &["--policy", "sample"]);
    run.record("a failure", |record| record["cause"] == "connection-lost");
    service.set_post_status(200);
    run.record("an approval", |record| {
        record["record"] == "approval" && record["status"] == 200
    });
}

#[test]
fn fault_21_the_loop_blocks_while_the_drain_runs() {
    let folder = Folder::new();
    let log = folder.path("log");
    let policy = folder.file("policy.toml", PREPARE_ALL);
    // The first drain does not end.
    let steps = [
        format!("append {log} $EVENT_ID"),
        "unless EVENT_ID=urgent sleep 100".to_owned(),
    ];
    let prepare = crate::support::helper(&steps);
    let service = FakeService::start();
    service.show(2, &[freeze("slow")]);
    let mut run = Run::watch(
        &service.url(),
        &["--policy", &policy, "--prepare", &prepare],
    );
    eventually("the drain", || lines(&log).first().cloned());
    let urgent = with(
        freeze("urgent"),
        &json!({ "EventType": "Preempt", "DurationInSeconds": -1 }),
    );
    service.show(3, &[freeze("slow"), urgent]);
    run.record("an approval", |record| record["record"] == "approval");
    assert_eq!(service.posted(), ["urgent"]);
    assert_eq!(lines(&log), ["slow", "urgent"]);
    run.stop();
}

#[test]
fn fault_21_polling_stops_after_one_event() {
    let service = FakeService::start();
    let mut run = Run::watch(&service.url(), &["--policy", "sample"]);
    for number in 0..3 {
        let id = format!("event-{number}");
        service.show(3 * number + 2, &[freeze(&id)]);
        eventually("an approval", || {
            service.posted().contains(&id).then_some(())
        });
        service.show(3 * number + 3, &[started(&id)]);
        run.change("started", &id);
        service.show(3 * number + 4, &[]);
        run.change("completed", &id);
    }
    assert_eq!(service.posted(), ["event-0", "event-1", "event-2"]);
}

#[test]
fn fault_22_post_without_the_metadata_header() {
    let service = FakeService::start();
    service.show(2, &[freeze("a")]);
    let mut run = Run::watch(&service.url(), &["--policy", "sample"]);
    run.record("an approval", |record| record["record"] == "approval");
    crate::support::run(&["approve", "a", "--endpoint", &service.url()]).with_code(0);
    let requests = service.requests();
    let posts: Vec<_> = requests
        .into_iter()
        .filter(crate::support::Request::is_post)
        .collect();
    assert_eq!(posts.len(), 2);
    assert_well_behaved(&posts);
    assert_eq!(
        String::from_utf8_lossy(&posts[0].body),
        r#"{"StartRequests":[{"EventId":"a"}]}"#
    );
}

#[test]
fn fault_22_retried_without_back_off() {
    let service = FakeService::start();
    service.show(2, &[freeze("a")]);
    service.intercept(|request| {
        (request.is_get() || request.is_post()).then(|| Reply::new(404, "", "{}"))
    });
    let run = Run::watch(&service.url(), &["--policy", "sample", "--vm-name", VM]);
    eventually("four polls", || (service.polls() >= 4).then_some(()));
    let arrivals: Vec<_> = service
        .requests()
        .iter()
        .map(|request| request.arrived)
        .collect();
    for (from, least) in [(0, 450), (1, 950), (2, 1_900)] {
        let gap = arrivals[from + 1].duration_since(arrivals[from]);
        assert!(
            gap > Duration::from_millis(least),
            "retry {from} after {gap:?}"
        );
    }
    let delays: Vec<_> = run
        .records()
        .iter()
        .filter_map(|record| record["retry_in_ms"].as_u64())
        .collect();
    assert!(delays.windows(2).all(|two| two[0] <= two[1]), "{delays:?}");
}

#[test]
fn fault_23_a_sixty_second_poll_for_a_thirty_second_notice() {
    let service = FakeService::start();
    let url = service.url();
    let since = Instant::now();
    let finished = Run::start(command(&[
        "watch",
        "--json",
        "--endpoint",
        &url,
        "--max-polls",
        "3",
        "--vm-name",
        VM,
    ]))
    .finish();
    finished.with_code(0);
    // Two default intervals of a second; --interval accepts at most an hour.
    assert!(
        since.elapsed() < Duration::from_secs(25),
        "three polls took {:?}",
        since.elapsed()
    );
    for (interval, message) in [
        ("1d", "at most an hour"),
        ("100ms", "at least 200 ms"),
        ("0s", "at least 200 ms"),
        ("5", ""),
    ] {
        let rejected = crate::support::run(&["watch", "--interval", interval]).with_code(2);
        assert!(rejected.stderr.contains(message), "{}", rejected.stderr);
    }
}
