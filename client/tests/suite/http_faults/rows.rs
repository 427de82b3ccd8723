//! The rows: every way in which the metadata service is known to misbehave, and the client's answer. Each is a test, and a
//! row of `docs/faults.md`.
//!
//! The first poll meets the fault before anything is known, the fourth while the event is followed, the first approval
//! while it is due.

use super::row::{Again, Never, ROW, Row};

/// The same freeze while the service forgets how far it has counted.
const RESET: &str = r#"
    about = "A freeze, and an incarnation that starts again while it is announced."
    first_incarnation = 279
    incarnation_reset = { after = "18s", to = 1 }
    [[event]]
    event_type = "Freeze"
    duration_in_seconds = 5
    notice = "2h"
    starts_after_approval = "1min"
    started_for = "15min"
"#;

/// The same freeze, announced after a document without it.
const LATER: &str = r#"
    about = "A freeze that is announced after a second."
    [[event]]
    event_type = "Freeze"
    duration_in_seconds = 5
    appears = "1min"
    notice = "2h"
    starts_after_approval = "30s"
    started_for = "15min"
"#;

/// An event that starts by itself after a second.
const SOON: &str = r#"
    about = "A freeze with a minute's notice."
    [[event]]
    event_type = "Freeze"
    duration_in_seconds = 5
    notice = "1min"
    started_for = "15min"
"#;

/// Two hundred events of this machine at once, which take seven approvals.
const CROWD: &str = r#"
    about = "Two hundred freezes at once."
    [[event]]
    event_type = "Freeze"
    duration_in_seconds = 5
    count = 200
    resources = ["{vm}", "{peer:index}"]
    notice = "2h"
    starts_after_approval = "3min"
    started_for = "15min"
"#;

/// Declares the rows, and a test for each.
macro_rules! rows {
    ($($name:ident => $row:expr;)*) => {
        /// Every row by the name of its test.
        pub(crate) const ROWS: &[(&str, Row)] = &[$((stringify!($name), $row)),*];
        $(#[test] fn $name() { super::course::course(stringify!($name)).holds(); })*
    };
}

rows! {
    no_fault => Row { service: "behaves", ..ROW };
    two_hundred_events => Row {
        service: "announces 200 events of this machine at once",
        scenario: CROWD,
        posts: 7,
        events: 200,
        ..ROW
    };
    empty_200 => Row {
        service: "answers 200 with an empty body",
        faults: &["get.empty@1", "get.empty@3-6"],
        told: &["empty-body"],
        again: Again::AtOnce,
        says: &["warning: the response is empty, expected a document"],
        ..ROW
    };
    status_400 => Row {
        service: "refuses requests for good: 400",
        faults: &["get.status:400@1", "post.status:400@1"],
        told: &["status-400"],
        again: Again::Late,
        says: &["warning: status 400", "warning: approval: status 400"],
        posts: 2,
        ..ROW
    };
    status_404 => Row {
        service: "answers 404",
        faults: &["get.status:404@1", "get.status:404@4", "post.status:404@1"],
        told: &["status-404"],
        again: Again::BackOff,
        says: &["warning: status 404", "warning: approval: status 404"],
        posts: 2,
        ..ROW
    };
    status_408 => Row {
        service: "answers 408",
        faults: &["get.status:408@1", "get.status:408@4", "post.status:408@1"],
        told: &["status-408"],
        again: Again::BackOff,
        says: &["warning: status 408", "warning: approval: status 408"],
        posts: 2,
        ..ROW
    };
    status_410_for_75_seconds => Row {
        service: "answers 410 to everything for 75 s, as while it is updated",
        faults: &["status:410@0s-75s"],
        told: &["status-410"],
        again: Again::BackOff,
        says: &["warning: status 410"],
        ..ROW
    };
    status_429 => Row {
        service: "answers 429 without `Retry-After`",
        faults: &["get.status:429@1", "get.status:429@4", "post.status:429@1"],
        told: &["status-429"],
        again: Again::BackOff,
        says: &["warning: status 429", "warning: approval: status 429"],
        posts: 2,
        ..ROW
    };
    retry_after_in_seconds => Row {
        service: "answers 429 with `Retry-After` in seconds",
        faults: &["get.retry-after:3@1", "post.retry-after:3@1"],
        told: &["status-429"],
        again: Again::Asked(3),
        says: &["warning: status 429", "warning: approval: status 429"],
        posts: 2,
        never: &[Never::AskWithin(3)],
        ..ROW
    };
    retry_after_as_a_date => Row {
        service: "answers 429 with `Retry-After` as a date 4 s ahead",
        faults: &["get.retry-after:date+4@1", "post.retry-after:date+4@1"],
        told: &["status-429"],
        again: Again::Asked(4),
        says: &["warning: status 429", "warning: approval: status 429"],
        posts: 2,
        never: &[Never::AskWithin(3)],
        ..ROW
    };
    retry_after_of_an_hour => Row {
        service: "answers 429 with a `Retry-After` of an hour",
        faults: &["get.retry-after:3600@1"],
        told: &["status-429"],
        again: Again::AskedTooMuch,
        says: &["warning: status 429"],
        never: &[Never::AskWithin(60)],
        ..ROW
    };
    retry_after_that_cannot_be_read => Row {
        service: "answers 429 with a `Retry-After` that is neither",
        faults: &["get.retry-after:soon@1", "post.retry-after:-1@1"],
        told: &["status-429"],
        again: Again::BackOff,
        says: &["warning: status 429"],
        posts: 2,
        ..ROW
    };
    storm_of_500 => Row {
        service: "answers 500 three times in a row, before the event is known",
        faults: &["get.status:500@1-3", "post.status:500@1-2"],
        told: &["status-500"],
        again: Again::BackOff,
        says: &["warning: status 500", "warning: approval: status 500"],
        posts: 3,
        ..ROW
    };
    storm_of_503 => Row {
        service: "answers 503 three times in a row, while the event is followed",
        faults: &["get.status:503@2-4", "post.status:503@1-3"],
        told: &["status-503"],
        again: Again::BackOff,
        says: &["warning: status 503", "warning: approval: status 503"],
        posts: 4,
        ..ROW
    };
    redirect_301 => Row {
        service: "redirects to another host: 301",
        faults: &["get.redirect:301,{witness}@1", "post.redirect:301,{witness}@1"],
        told: &["redirect-301"],
        again: Again::Late,
        says: &["status 301: redirects are not followed"],
        posts: 2,
        never: &[Never::FollowRedirect],
        ..ROW
    };
    redirect_302 => Row {
        service: "redirects to another host: 302",
        faults: &["get.redirect:302,{witness}@1", "post.redirect:302,{witness}@1"],
        told: &["redirect-302"],
        again: Again::Late,
        says: &["status 302: redirects are not followed"],
        posts: 2,
        never: &[Never::FollowRedirect],
        ..ROW
    };
    redirect_307 => Row {
        service: "redirects to another host: 307, which would keep the method and the body",
        faults: &["get.redirect:307,{witness}@1", "post.redirect:307,{witness}@1"],
        told: &["redirect-307"],
        again: Again::Late,
        says: &["status 307: redirects are not followed"],
        posts: 2,
        never: &[Never::FollowRedirect],
        ..ROW
    };
    silence => Row {
        service: "accepts a request and says nothing",
        faults: &["get.silence@3", "post.silence@1"],
        told: &["timeout"],
        again: Again::BackOff,
        says: &["warning: the request timed out", "warning: approval: the request timed out"],
        posts: 2,
        never: &[Never::GiveUpWithin(10)],
        ..ROW
    };
    slow_headers => Row {
        service: "takes 2 s for its header fields",
        faults: &["get.slow-headers:2@1", "get.slow-headers:2@4", "post.slow-headers:2@1"],
        ..ROW
    };
    headers_too_slow => Row {
        service: "takes 30 s for its header fields",
        faults: &["get.slow-headers:30@3"],
        told: &["timeout"],
        again: Again::BackOff,
        says: &["warning: the request timed out"],
        never: &[Never::GiveUpWithin(10)],
        ..ROW
    };
    slow_body => Row {
        service: "takes 2 s for its body",
        faults: &["get.slow-body:2@1", "get.slow-body:2@4", "post.slow-body:2@1"],
        ..ROW
    };
    body_too_slow => Row {
        service: "takes 30 s for its body",
        faults: &["get.slow-body:30@3"],
        told: &["timeout"],
        again: Again::BackOff,
        says: &["warning: the request timed out"],
        never: &[Never::GiveUpWithin(10)],
        ..ROW
    };
    first_call_of_two_minutes => Row {
        service: "takes 120 s for the first answer, as after a day's pause",
        faults: &["first-call-delay:120"],
        never: &[Never::GiveUpWithin(120)],
        ..ROW
    };
    reset => Row {
        service: "resets the connection",
        faults: &["get.reset@1", "get.reset@4", "post.reset@1"],
        told: &["connection-lost"],
        again: Again::BackOff,
        says: &["warning: connection lost", "warning: approval: connection lost"],
        posts: 2,
        ..ROW
    };
    reset_mid_body => Row {
        service: "resets the connection in the middle of the body",
        faults: &["get.reset-mid-body@1", "get.reset-mid-body@4"],
        told: &["connection-lost"],
        again: Again::BackOff,
        says: &["warning: connection lost"],
        ..ROW
    };
    short_body => Row {
        service: "ends the body before its `Content-Length`",
        faults: &["get.short-body@1", "get.short-body@4"],
        told: &["connection-lost"],
        again: Again::BackOff,
        says: &["warning: connection lost"],
        ..ROW
    };
    not_http => Row {
        service: "answers with what is no HTTP",
        faults: &["get.not-http@1", "get.not-http@4", "post.not-http@1"],
        told: &["connection-lost"],
        again: Again::BackOff,
        says: &["warning: connection lost", "warning: approval: connection lost"],
        posts: 2,
        ..ROW
    };
    endless_body => Row {
        service: "sends a body without an end",
        faults: &["get.endless-body@1"],
        told: &["too-large"],
        again: Again::BackOff,
        says: &["warning: the response is too large"],
        never: &[Never::HoldMegabytes(40)],
        ..ROW
    };
    huge_body => Row {
        service: "sends a body of 1 GB",
        faults: &["get.huge-body:1GB@1"],
        told: &["too-large"],
        again: Again::BackOff,
        says: &["warning: the response is too large"],
        never: &[Never::HoldMegabytes(40)],
        ..ROW
    };
    hundred_thousand_headers => Row {
        service: "sends 100,000 header fields",
        faults: &["get.many-headers:100000@1"],
        told: &["connection-lost"],
        again: Again::BackOff,
        says: &["too many headers"],
        never: &[Never::HoldMegabytes(40)],
        ..ROW
    };
    long_header => Row {
        service: "sends a header field of 50 MB",
        faults: &["get.long-header:50MB@1"],
        told: &["too-large"],
        again: Again::BackOff,
        says: &["warning: the response is too large"],
        never: &[Never::HoldMegabytes(40)],
        ..ROW
    };
    half_document => Row {
        service: "answers 200 with half a document, properly framed",
        faults: &["get.half-document@1", "get.half-document@4"],
        told: &["not-a-document"],
        again: Again::BackOff,
        says: &["warning: invalid document: line 1, column"],
        ..ROW
    };
    not_json => Row {
        service: "answers 200 with what is not JSON",
        faults: &["get.not-json@1", "get.not-json@4"],
        told: &["not-a-document"],
        again: Again::BackOff,
        says: &["warning: invalid document: line 1, column"],
        ..ROW
    };
    gzip => Row {
        service: "compresses the body, which was not asked for",
        faults: &["get.gzip@1", "get.gzip@4"],
        told: &["not-a-document"],
        again: Again::BackOff,
        says: &["warning: invalid document: line 1, column"],
        ..ROW
    };
    wrong_content_type => Row {
        service: "calls its JSON `text/html; charset=utf-16`",
        faults: &["content-type:text/html; charset=utf-16"],
        ..ROW
    };
    approval_answered_with_a_reset_body => Row {
        service: "accepts an approval, and resets the connection in the body",
        faults: &["post.reset-mid-body@1"],
        ..ROW
    };
    approval_answered_with_a_short_body => Row {
        service: "accepts an approval with a body that ends too early",
        faults: &["post.short-body@1"],
        ..ROW
    };
    approval_answered_with_an_endless_body => Row {
        service: "accepts an approval with a body without an end",
        faults: &["post.endless-body@1"],
        never: &[Never::HoldMegabytes(40)],
        ..ROW
    };
    approval_answered_with_a_huge_body => Row {
        service: "accepts an approval with a body of 1 GB",
        faults: &["post.huge-body:1GB@1"],
        never: &[Never::HoldMegabytes(40)],
        ..ROW
    };
    approval_answered_with_gzip => Row {
        service: "accepts an approval with a compressed body",
        faults: &["post.gzip@1"],
        ..ROW
    };
    approval_answered_with_what_is_not_json => Row {
        service: "accepts an approval with a body that is not JSON",
        faults: &["post.not-json@1"],
        ..ROW
    };
    stale_document => Row {
        service: "serves a document again that was superseded, three times",
        faults: &["get.stale:3@10-12"],
        scenario: LATER,
        says: &["warning: an old document was served again; it is not believed yet"],
        ..ROW
    };
    incarnation_back_and_forth => Row {
        service: "lets the incarnation go back, and forth again",
        faults: &["get.incarnation-back:2@3-4", "get.incarnation-back:1@6-"],
        ..ROW
    };
    incarnation_starts_again => Row {
        service: "starts the incarnation again at 1, from 279",
        scenario: RESET,
        ..ROW
    };
    event_vanishes_while_it_is_prepared_for => Row {
        service: "drops the event while it is prepared for, for good",
        faults: &["get.vanish@4-"],
        prepares: true,
        posts: 0,
        changes: &["scheduled", "cancelled"],
        runs: &["prepare", "recover"],
        never: &[Never::Approve],
        ..ROW
    };
    event_vanishes_and_comes_back => Row {
        service: "drops the event from two documents while it is prepared for",
        faults: &["get.vanish@4-5"],
        prepares: true,
        says: &["warning: an old document was served again; it is not believed yet"],
        changes: &["scheduled", "cancelled", "scheduled", "started", "completed"],
        runs: &["prepare", "recover", "prepare", "recover"],
        never: &[Never::ApproveUnprepared],
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
    one_fault_after_another => Row {
        service: "does the worst of this, one after another",
        faults: &["get.reset@1", "status:500@2-3", "get.empty@4", "get.not-json@5", "get.short-body@6", "post.reset@1"],
        told: &["connection-lost", "status-500", "empty-body", "not-a-document", "connection-lost"],
        again: Again::Any,
        says: &["warning: the response is empty, expected a document"],
        posts: 2,
        ..ROW
    };
    faults_at_once => Row {
        service: "answers slowly, under a wrong type, with 500, by schedule: in its second second",
        faults: &["slow-headers:0.2@1s-2s", "slow-body:0.2@1s-2s", "content-type:text/plain@1s-2s", "get.status:500@1s-2s"],
        told: &["status-500"],
        again: Again::BackOff,
        says: &["warning: status 500"],
        ..ROW
    };
}
