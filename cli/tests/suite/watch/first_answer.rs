//! The first poll, which may take two minutes: fault 30 of `tests/field-faults.md`.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime};

use crate::support::{
    FakeService, Folder, Reply, Run, VM, document, eventually, freeze, run, together,
};

const NOT_YET: &str = "warning: the metadata service has not answered yet";

/// A service whose first answers are late by what the function returns for each number.
fn service(delay: impl Fn(usize) -> Duration + Send + Sync + 'static) -> FakeService {
    let service = FakeService::start();
    let (body, number) = (document(2, &[freeze("a")]), AtomicUsize::new(0));
    service.intercept(move |request| {
        let number = number.fetch_add(1, Ordering::SeqCst) + 1;
        request
            .is_get()
            .then(|| Reply::new(200, "", &body).after(delay(number)))
    });
    service
}

#[test]
fn fault_30_a_first_request_that_is_never_answered_delays_the_first_document_by_five_seconds() {
    let service = service(|number| match number {
        1 => Duration::from_secs(3600),
        _ => Duration::ZERO,
    });
    let since = Instant::now();
    let mut run = Run::watch(&service.url(), &["--vm-name", VM, "--max-polls", "2"]);
    run.change("scheduled", "a");
    assert!(since.elapsed() > Duration::from_secs(4));
    assert!(
        since.elapsed() < Duration::from_secs(30),
        "{:?}",
        since.elapsed()
    );
    let finished = run.finish().with_code(0);
    assert_eq!(
        finished.stderr.matches(NOT_YET).count(),
        1,
        "{}",
        finished.stderr
    );
    assert!(finished.of_kind("poll-failed").is_empty());
}

#[test]
fn a_service_that_starts_slowly_is_waited_for() {
    // All requests of the first 16 seconds are answered then.
    let since = Instant::now();
    let service = service(move |_| Duration::from_secs(16).saturating_sub(since.elapsed()));
    let mut run = Run::watch(&service.url(), &["--vm-name", VM, "--max-polls", "2"]);
    run.change("scheduled", "a");
    let finished = run.finish().with_code(0);
    assert_eq!(
        finished.stderr.matches(NOT_YET).count(),
        1,
        "{}",
        finished.stderr
    );
    assert!(finished.of_kind("poll-failed").is_empty());
    let arrivals: Vec<_> = service
        .requests()
        .iter()
        .map(|request| request.arrived.duration_since(since).as_secs())
        .filter(|second| *second < 16)
        .collect();
    // Three, but two where the machine is busy.
    assert!((2..=3).contains(&arrivals.len()), "{arrivals:?}");
}

#[test]
fn fault_30_three_requests_that_are_never_answered_are_followed_by_another() {
    let service = service(|number| match number {
        1..=3 => Duration::from_secs(3600),
        _ => Duration::ZERO,
    });
    let since = Instant::now();
    let mut run = Run::watch(&service.url(), &["--vm-name", VM, "--max-polls", "2"]);
    run.change("scheduled", "a");
    assert!(
        since.elapsed() < Duration::from_secs(50),
        "{:?}",
        since.elapsed()
    );
    assert!(run.finish().with_code(0).of_kind("poll-failed").is_empty());
}

const HOUR: Duration = Duration::from_secs(3600);

/// A service that accepts requests for the preview and never answers them.
fn silent_preview() -> FakeService {
    let service = FakeService::start();
    let body = document(2, &[freeze("a")]);
    service.intercept(move |request| {
        let is_preview = request.target.contains("2024-07-09");
        let delay = if is_preview { HOUR } else { Duration::ZERO };
        request
            .is_get()
            .then(|| Reply::new(200, "", &body).after(delay))
    });
    service
}

#[test]
fn fault_30_a_preview_that_is_never_answered_delays_documents_and_then_pauses() {
    let (service, folder) = (silent_preview(), Folder::new());
    let state = folder.path("state");
    let arguments = ["--vm-name", VM, "--on", "advised=true", "--state", &state];
    let since = Instant::now();
    let mut watcher = Run::watch(&service.url(), &arguments);
    watcher.change("scheduled", "a");
    assert!(since.elapsed() < Duration::from_secs(15));
    watcher.wait_for_stderr("warning: advice cannot be seen at present");
    let shown = eventually("a status", || {
        let shown = run(&["status", "--state", &state]);
        shown
            .stdout
            .starts_with("advice cannot be seen since ")
            .then_some(shown)
    });
    shown.with_code(0);
    // From now on polls keep their pace.
    let polls = |service: &FakeService| {
        let named =
            |get: crate::support::Request| get.is_get().then(|| get.target.contains("2024-07-09"));
        let polls = service.requests().into_iter().filter_map(named);
        polls.collect::<Vec<_>>()
    };
    let before = polls(&service).len();
    eventually("five polls more", || {
        (polls(&service).len() >= before + 5).then_some(())
    });
    assert!(!polls(&service)[before + 1..before + 5].contains(&true));
    let finished = watcher.stop();
    assert!(!finished.stderr.contains("blind"), "{}", finished.stderr);
    assert_eq!(finished.stderr.matches("advice cannot be seen").count(), 1);
}

#[test]
fn fault_30_list_approve_and_wait_do_not_wait_for_one_connection() {
    let commands = [
        &["list", "--vm-name", VM][..],
        &["list", "--vm-name", VM, "--api-version", "2020-07-01"],
        &["approve", "a", "--vm-name", VM],
        &["wait", "--vm-name", VM],
        &["wait", "--vm-name", VM, "--timeout", "30s"],
        &[
            "wait",
            "--vm-name",
            VM,
            "--type",
            "SpotRebalanceRecommendation",
            "--type",
            "Freeze",
        ],
    ];
    together(commands, |arguments| {
        let since = Instant::now();
        let service = service(|number| match number {
            1 => HOUR,
            _ => Duration::ZERO,
        });
        let url = service.url();
        let finished = run(&[arguments, &["--endpoint", &url]].concat()).with_code(0);
        let took = since.elapsed();
        let expected = Duration::from_secs(4)..Duration::from_secs(30);
        assert!(expected.contains(&took), "{arguments:?}: {took:?}");
        let (said, text) = (finished.stderr.matches(NOT_YET).count(), finished.stderr);
        assert_eq!(said, 1, "{arguments:?}: {text}");
    });
}

#[test]
fn fault_38_wait_says_that_it_is_blind_while_a_request_has_no_answer() {
    let service = service(|_| HOUR);
    let url = service.url();
    let finished = run(&[
        "wait",
        "--endpoint",
        &url,
        "--vm-name",
        VM,
        "--timeout",
        "13s",
    ]);
    let blind = "warning: blind: no document from the metadata service for 1";
    let text = &finished.stderr;
    assert_eq!(text.matches(blind).count(), 1, "{text}");
    assert!(text.find(blind) < text.find("13s"), "{text}");
    finished.with_code(1);
}

#[test]
fn fault_31_list_does_not_believe_one_date_that_is_off_by_more_than_a_day() {
    for (off, is_said) in [(2 * 86_400, true), (3_600, false)] {
        let service = FakeService::start();
        let body = document(2, &[freeze("a")]);
        service.intercept(move |request| {
            let date = SystemTime::now() - Duration::from_secs(off);
            let date = format!("Date: {}\r\n", httpdate::fmt_http_date(date));
            request.is_get().then(|| Reply::new(200, &date, &body))
        });
        let finished = run(&["list", "--endpoint", &service.url(), "--vm-name", VM]).with_code(0);
        let text = "the metadata service's clock and this machine's differ by more than a day";
        assert_eq!(
            finished.stderr.contains(text),
            is_said,
            "{}",
            finished.stderr
        );
    }
}
