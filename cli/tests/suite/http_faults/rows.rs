//! The rows: every known fault of the metadata service, and the client's behaviour. Each row is a
//! test and a line of `docs/inside/faults.md`.
//!
//! A fault of the first poll applies before the event is known, one of the fourth poll while the
//! event is open.

use super::row::{Never, ROW, RetryDelay, Row};
use super::scenario_run::run_row;

/// The default Freeze, with an incarnation that starts again.
const RESET: &str = r#"
    about = "A Freeze, and an incarnation that starts again while the event is Scheduled."
    first_incarnation = 279
    incarnation_reset = { after = "18s", to = 1 }
    [[event]]
    event_type = "Freeze"
    duration_in_seconds = 5
    notice = "2h"
    starts_after_approval = "1min"
    started_for = "8min"
"#;

/// The default Freeze, which is not in the first document.
const LATER: &str = r#"
    about = "A Freeze that appears after a second."
    [[event]]
    event_type = "Freeze"
    duration_in_seconds = 5
    appears = "1min"
    notice = "2h"
    starts_after_approval = "30s"
    started_for = "8min"
"#;

/// The default Freeze, Started for longer than a time-out takes.
const LONG: &str = r#"
    about = "A Freeze that is Started for fifteen seconds."
    [[event]]
    event_type = "Freeze"
    duration_in_seconds = 5
    notice = "2h"
    starts_after_approval = "30s"
    started_for = "15min"
"#;

/// A Freeze that starts at its `NotBefore`, after a second.
const SOON: &str = r#"
    about = "A Freeze with a notice of one minute."
    [[event]]
    event_type = "Freeze"
    duration_in_seconds = 5
    notice = "1min"
    started_for = "8min"
"#;

/// Two hundred events of this VM at once, which take seven approvals.
const CROWD: &str = r#"
    about = "Two hundred Freezes at once."
    [[event]]
    event_type = "Freeze"
    duration_in_seconds = 5
    count = 200
    resources = ["{vm}", "{peer:index}"]
    notice = "2h"
    starts_after_approval = "3min"
    started_for = "8min"
"#;

/// Declares the rows, and a test for each.
macro_rules! rows {
    ($($name:ident => $row:expr;)*) => {
        /// All rows, by the names of their tests.
        pub(crate) const ROWS: &[(&str, Row)] = &[$((stringify!($name), $row)),*];
        $(#[test] fn $name() { run_row(stringify!($name), $row).check(); })*
    };
}

rows! {
    no_fault => Row { service: "has no fault", ..ROW };
    two_hundred_events => Row {
        service: "announces 200 events of this VM at once",
        scenario: CROWD,
        posts: 7,
        events: 200,
        ..ROW
    };
    empty_200 => Row {
        service: "answers 200 with an empty body",
        faults: &["get.empty@1", "get.empty@3-6"],
        causes: &["empty-body"],
        retry: RetryDelay::Interval,
        stderr: &["warning: poll failed: the response is empty, expected a document"],
        ..ROW
    };
    status_304 => Row {
        service: "answers 304, although no request is conditional",
        faults: &["get.status:304@1", "get.status:304@4"],
        causes: &["status-304"],
        retry: RetryDelay::BackOff,
        stderr: &["warning: poll failed: status 304"],
        ..ROW
    };
    status_400 => Row {
        service: "answers 400",
        faults: &["get.status:400@1", "post.status:400@1"],
        causes: &["status-400"],
        retry: RetryDelay::LongestBackOff,
        stderr: &["warning: poll failed: status 400", "warning: approval failed: status 400"],
        posts: 2,
        ..ROW
    };
    status_404 => Row {
        service: "answers 404",
        faults: &["get.status:404@1", "get.status:404@4", "post.status:404@1"],
        causes: &["status-404"],
        retry: RetryDelay::BackOff,
        stderr: &["warning: poll failed: status 404", "warning: approval failed: status 404"],
        posts: 2,
        ..ROW
    };
    unknown_version_400 => Row {
        service: "answers 400 with `newest-versions` to the api-version that shows advice",
        wants_advice: true,
        ..ROW
    };
    unknown_version_404 => Row {
        service: "answers 404 to the api-version that shows advice",
        faults: &["unknown-version:404"],
        wants_advice: true,
        ..ROW
    };
    unknown_version_200 => Row {
        service: "answers the api-version that shows advice with JSON that is no document",
        faults: &["unknown-version:200@1"],
        wants_advice: true,
        causes: &["not-a-document"],
        retry: RetryDelay::AtOnce,
        stderr: &["warning: poll failed: invalid document"],
        ..ROW
    };
    status_408 => Row {
        service: "answers 408",
        faults: &["get.status:408@1", "get.status:408@4", "post.status:408@1"],
        causes: &["status-408"],
        retry: RetryDelay::BackOff,
        stderr: &["warning: poll failed: status 408", "warning: approval failed: status 408"],
        posts: 2,
        ..ROW
    };
    status_410_for_12_seconds => Row {
        service: "answers 410 to all requests for 12 s, as during an update",
        faults: &["status:410@0s-12s"],
        causes: &["status-410"],
        retry: RetryDelay::BackOff,
        stderr: &["warning: poll failed: status 410"],
        ..ROW
    };
    status_410_for_75_seconds => Row {
        service: "answers 410 to all requests for 75 s, as during an update",
        faults: &["status:410@0s-75s"],
        causes: &["status-410"],
        retry: RetryDelay::BackOff,
        stderr: &["warning: poll failed: status 410"],
        ..ROW
    };
    status_429 => Row {
        service: "answers 429 without `Retry-After`",
        faults: &["get.status:429@1", "get.status:429@4", "post.status:429@1"],
        causes: &["status-429"],
        retry: RetryDelay::BackOff,
        stderr: &["warning: poll failed: status 429", "warning: approval failed: status 429"],
        posts: 2,
        ..ROW
    };
    retry_after_in_seconds => Row {
        service: "answers 429 with `Retry-After` in seconds",
        faults: &["get.retry-after:3@1", "post.retry-after:3@1"],
        causes: &["status-429"],
        retry: RetryDelay::RetryAfter(3),
        stderr: &["warning: poll failed: status 429", "warning: approval failed: status 429"],
        posts: 2,
        never: &[Never::RequestWithin(3)],
        ..ROW
    };
    retry_after_as_a_date => Row {
        service: "answers 429 with `Retry-After` as a date 4 s ahead",
        faults: &["get.retry-after:date+4@1", "post.retry-after:date+4@1"],
        causes: &["status-429"],
        retry: RetryDelay::RetryAfter(4),
        stderr: &["warning: poll failed: status 429", "warning: approval failed: status 429"],
        posts: 2,
        never: &[Never::RequestWithin(3)],
        ..ROW
    };
    retry_after_of_an_hour => Row {
        service: "answers 429 with a `Retry-After` of an hour",
        faults: &["get.retry-after:3600@1"],
        causes: &["status-429"],
        retry: RetryDelay::RetryAfterLimit,
        stderr: &["warning: poll failed: status 429"],
        never: &[Never::RequestWithin(9)],
        ..ROW
    };
    retry_after_that_is_invalid => Row {
        service: "answers 429 with a `Retry-After` that is neither seconds nor a date",
        faults: &["get.retry-after:soon@1", "post.retry-after:-1@1"],
        causes: &["status-429"],
        retry: RetryDelay::BackOff,
        stderr: &["warning: poll failed: status 429"],
        posts: 2,
        ..ROW
    };
    three_responses_of_500 => Row {
        service: "answers 500 to three requests, before the event is known",
        faults: &["get.status:500@1-3", "post.status:500@1-2"],
        causes: &["status-500"],
        retry: RetryDelay::BackOff,
        stderr: &[
            "warning: poll failed: status 500 (Internal",
            "warning: approval failed: status 500 (Internal",
        ],
        posts: 3,
        ..ROW
    };
    three_responses_of_503 => Row {
        service: "answers 503 to three requests, while the event is open",
        faults: &["get.status:503@2-4", "post.status:503@1-3"],
        causes: &["status-503"],
        retry: RetryDelay::BackOff,
        stderr: &["warning: poll failed: status 503", "warning: approval failed: status 503"],
        posts: 4,
        ..ROW
    };
    redirect_301 => Row {
        service: "redirects to another host with 301",
        faults: &["get.redirect:301,{witness}@1", "post.redirect:301,{witness}@1"],
        causes: &["redirect-301"],
        retry: RetryDelay::LongestBackOff,
        stderr: &["status 301: redirects are not followed"],
        posts: 2,
        never: &[Never::FollowRedirect],
        ..ROW
    };
    redirect_302 => Row {
        service: "redirects to another host with 302",
        faults: &["get.redirect:302,{witness}@1", "post.redirect:302,{witness}@1"],
        causes: &["redirect-302"],
        retry: RetryDelay::LongestBackOff,
        stderr: &["status 302: redirects are not followed"],
        posts: 2,
        never: &[Never::FollowRedirect],
        ..ROW
    };
    redirect_307 => Row {
        service: "redirects to another host with 307, which keeps method and body",
        faults: &["get.redirect:307,{witness}@1", "post.redirect:307,{witness}@1"],
        causes: &["redirect-307"],
        retry: RetryDelay::LongestBackOff,
        stderr: &["status 307: redirects are not followed"],
        posts: 2,
        never: &[Never::FollowRedirect],
        ..ROW
    };
    silence => Row {
        service: "sends no response",
        faults: &["get.silence@3", "post.silence@1"],
        causes: &["timeout"],
        retry: RetryDelay::BackOff,
        stderr: &["warning: poll failed: the request timed out", "warning: approval failed: the request timed out"],
        posts: 2,
        never: &[Never::TimeOutWithin(5)],
        ..ROW
    };
    slow_header => Row {
        service: "takes 2 s to send the header",
        faults: &["get.slow-headers:2@1", "get.slow-headers:2@4", "post.slow-headers:2@1"],
        ..ROW
    };
    header_that_is_too_slow => Row {
        service: "takes 30 s to send the header",
        faults: &["get.slow-headers:30@3"],
        scenario: LONG,
        causes: &["timeout"],
        retry: RetryDelay::BackOff,
        stderr: &["warning: poll failed: the request timed out"],
        never: &[Never::TimeOutWithin(5)],
        ..ROW
    };
    slow_body => Row {
        service: "takes 2 s to send the body",
        faults: &["get.slow-body:2@1", "get.slow-body:2@4", "post.slow-body:2@1"],
        ..ROW
    };
    body_that_is_too_slow => Row {
        service: "takes 30 s to send the body",
        faults: &["get.slow-body:30@3"],
        scenario: LONG,
        causes: &["timeout"],
        retry: RetryDelay::BackOff,
        stderr: &["warning: poll failed: the request timed out"],
        never: &[Never::TimeOutWithin(5)],
        ..ROW
    };
    reset => Row {
        service: "resets the connection",
        faults: &["get.reset@1", "get.reset@4", "post.reset@1"],
        causes: &["connection-lost"],
        retry: RetryDelay::BackOff,
        stderr: &["warning: poll failed: connection lost", "warning: approval failed: connection lost"],
        posts: 2,
        ..ROW
    };
    reset_mid_body => Row {
        service: "resets the connection in the middle of the body",
        faults: &["get.reset-mid-body@1", "get.reset-mid-body@4"],
        causes: &["connection-lost"],
        retry: RetryDelay::BackOff,
        stderr: &["warning: poll failed: connection lost"],
        ..ROW
    };
    short_body => Row {
        service: "ends the body before its `Content-Length`",
        faults: &["get.short-body@1", "get.short-body@4"],
        causes: &["connection-lost"],
        retry: RetryDelay::BackOff,
        stderr: &["warning: poll failed: connection lost"],
        ..ROW
    };
    not_http => Row {
        service: "answers with bytes that are not HTTP",
        faults: &["get.not-http@1", "get.not-http@4", "post.not-http@1"],
        causes: &["connection-lost"],
        retry: RetryDelay::BackOff,
        stderr: &["warning: poll failed: connection lost", "warning: approval failed: connection lost"],
        posts: 2,
        ..ROW
    };
    endless_body => Row {
        service: "sends a body that never ends",
        faults: &["get.endless-body@1"],
        causes: &["too-large"],
        retry: RetryDelay::BackOff,
        stderr: &["warning: poll failed: the response is too large"],
        never: &[Never::UseMemory(40)],
        ..ROW
    };
    huge_body => Row {
        service: "sends a body of 1 GB",
        faults: &["get.huge-body:1GB@1"],
        causes: &["too-large"],
        retry: RetryDelay::BackOff,
        stderr: &["warning: poll failed: the response is too large"],
        never: &[Never::UseMemory(40)],
        ..ROW
    };
    hundred_thousand_header_fields => Row {
        service: "sends 100,000 header fields",
        faults: &["get.many-headers:100000@1"],
        causes: &["connection-lost"],
        retry: RetryDelay::BackOff,
        stderr: &["too many headers"],
        never: &[Never::UseMemory(40)],
        ..ROW
    };
    long_header => Row {
        service: "sends a header field of 50 MB",
        faults: &["get.long-header:50MB@1"],
        causes: &["too-large"],
        retry: RetryDelay::BackOff,
        stderr: &["warning: poll failed: the response is too large"],
        never: &[Never::UseMemory(40)],
        ..ROW
    };
    half_document => Row {
        service: "answers 200 with half a document and a matching `Content-Length`",
        faults: &["get.half-document@1", "get.half-document@4"],
        causes: &["not-a-document"],
        retry: RetryDelay::BackOff,
        stderr: &["warning: poll failed: invalid document: line 1, column"],
        ..ROW
    };
    not_json => Row {
        service: "answers 200 with a text that is not JSON",
        faults: &["get.not-json@1", "get.not-json@4"],
        causes: &["not-a-document"],
        retry: RetryDelay::BackOff,
        stderr: &["warning: poll failed: invalid document: line 1, column"],
        ..ROW
    };
    gzip => Row {
        service: "compresses the body, which the client did not request",
        faults: &["get.gzip@1", "get.gzip@4"],
        causes: &["not-a-document"],
        retry: RetryDelay::BackOff,
        stderr: &["warning: poll failed: invalid document: line 1, column"],
        ..ROW
    };
    wrong_content_type => Row {
        service: "labels its JSON `text/html; charset=utf-16`",
        faults: &["content-type:text/html; charset=utf-16"],
        ..ROW
    };
    approval_answered_with_a_reset_body => Row {
        service: "accepts an approval and resets the connection in the body",
        faults: &["post.reset-mid-body@1"],
        ..ROW
    };
    approval_answered_with_a_short_body => Row {
        service: "accepts an approval with a body that ends before its `Content-Length`",
        faults: &["post.short-body@1"],
        ..ROW
    };
    approval_answered_with_an_endless_body => Row {
        service: "accepts an approval with a body that never ends",
        faults: &["post.endless-body@1"],
        never: &[Never::UseMemory(40)],
        ..ROW
    };
    approval_answered_with_a_huge_body => Row {
        service: "accepts an approval with a body of 1 GB",
        faults: &["post.huge-body:1GB@1"],
        never: &[Never::UseMemory(40)],
        ..ROW
    };
    approval_answered_with_gzip => Row {
        service: "accepts an approval with a compressed body",
        faults: &["post.gzip@1"],
        ..ROW
    };
    approval_answered_with_a_text_that_is_not_json => Row {
        service: "accepts an approval with a body that is not JSON",
        faults: &["post.not-json@1"],
        ..ROW
    };
    stale_document => Row {
        service: "serves an old document three times",
        faults: &["get.stale:3600@10-12"],
        scenario: LATER,
        stderr: &["warning: ignored an outdated document; it is accepted if the service keeps sending it"],
        ..ROW
    };
    incarnation_back_and_forth => Row {
        service: "decreases the incarnation, and increases it again",
        faults: &["get.incarnation-back:2@3-4", "get.incarnation-back:1@6-"],
        ..ROW
    };
    incarnation_starts_again => Row {
        service: "starts the incarnation again at 1, after 279",
        scenario: RESET,
        ..ROW
    };
    event_vanishes_during_the_preparation => Row {
        service: "removes the event during the preparation",
        faults: &["get.vanish@4-"],
        prepares: true,
        stderr: &["note: the prepare command was terminated, because it is not needed any more"],
        posts: 0,
        changes: &["scheduled", "cancelled"],
        hooks: &["prepare", "recover"],
        never: &[Never::Approve],
        ..ROW
    };
    started_without_scheduled => Row {
        service: "shows an event only once it is Started",
        faults: &["started-without-scheduled"],
        scenario: SOON,
        posts: 0,
        changes: &["started-without-notice", "completed"],
        never: &[Never::Approve],
        ..ROW
    };
    duration_is_a_text => Row {
        service: "sends a duration that is a text",
        faults: &[r#"member:DurationInSeconds,"unknown""#],
        scenario: SOON,
        prepares: true,
        // The output of the hooks.
        stderr: &["recover: "],
        posts: 0,
        hooks: &["prepare", "recover"],
        never: &[Never::Approve],
        ..ROW
    };
    source_is_a_number => Row {
        service: "sends a source that is a number",
        faults: &["member:EventSource,7"],
        scenario: SOON,
        prepares: true,
        // The output of the hooks.
        stderr: &["recover: "],
        posts: 0,
        hooks: &["prepare", "recover"],
        never: &[Never::Approve],
        ..ROW
    };
    status_is_missing => Row {
        service: "sends no status",
        faults: &["member:EventStatus"],
        scenario: SOON,
        prepares: true,
        // The output of the hooks.
        stderr: &["recover: "],
        posts: 0,
        changes: &["scheduled", "ended"],
        hooks: &["prepare", "recover"],
        never: &[Never::Approve],
        ..ROW
    };
    resources_under_another_name => Row {
        service: "sends no `Resources`",
        faults: &["member:Resources"],
        scenario: SOON,
        prepares: true,
        posts: 0,
        never: &[Never::Approve],
        ..ROW
    };
    id_of_another_machines_event => Row {
        service: "shows another machine's event with the same EventId first",
        faults: &["repeated-id"],
        scenario: SOON,
        prepares: true,
        // The output of the hooks.
        stderr: &["recover: "],
        posts: 0,
        hooks: &["prepare", "recover"],
        never: &[Never::Approve],
        ..ROW
    };
    clock_is_ahead => Row {
        service: "has a clock that is ten minutes ahead of the machine's",
        faults: &["clock:600"],
        stderr: &["clock"],
        ..ROW
    };
    clock_is_behind => Row {
        service: "has a clock that is ten minutes behind the machine's",
        faults: &["clock:-600"],
        stderr: &["clock"],
        ..ROW
    };
    several_faults_in_sequence => Row {
        service: "has several faults in sequence",
        faults: &["get.reset@1", "status:500@2-3", "get.empty@4", "get.not-json@5", "get.short-body@6", "post.reset@1"],
        causes: &["connection-lost", "status-500", "empty-body", "not-a-document", "connection-lost"],
        retry: RetryDelay::Any,
        stderr: &["warning: poll failed: the response is empty, expected a document"],
        posts: 2,
        ..ROW
    };
    several_faults_at_once => Row {
        service: "answers slowly, with a wrong type and with 500, four times",
        faults: &[
            "get.slow-headers:0.2@6-9",
            "get.slow-body:0.2@6-9",
            "get.content-type:text/plain@6-9",
            "get.status:500@6-9",
        ],
        causes: &["status-500"],
        retry: RetryDelay::BackOff,
        stderr: &["warning: poll failed: status 500"],
        ..ROW
    };
}
