//! The first poll, which may take two minutes: fault 30 of `tests/field-faults.md`.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::support::{FakeService, Reply, Run, VM, document, freeze};

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
    assert_eq!(arrivals.len(), 3, "{arrivals:?}");
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
