//! Tests of every fault from a client's point of view.

use std::time::UNIX_EPOCH;

use scheduled_events_replay::verdict::{Outcome, Rule};
use serde_json::json;

use super::*;

fn read_all(address: SocketAddr, request: &str) -> (Vec<u8>, Option<ErrorKind>) {
    let mut stream = connect(address);
    stream.write_all(request.as_bytes()).expect("send");
    let mut bytes = Vec::new();
    let error = stream
        .read_to_end(&mut bytes)
        .err()
        .map(|error| error.kind());
    (bytes, error)
}

fn body_of(bytes: &[u8]) -> &[u8] {
    let end = bytes
        .windows(4)
        .position(|four| four == b"\r\n\r\n")
        .expect("a whole head");
    &bytes[end + 4..]
}

#[test]
fn fault_empty() {
    let server = faulty(&["get.empty@1-2"]);
    for _ in 0..2 {
        let response = get(&server, EVENTS);
        assert_eq!(
            (
                response.status,
                response.body.len(),
                response.header("Content-Length")
            ),
            (200, 0, Some("0"))
        );
    }
    assert_eq!(events(&document(&server)).len(), 1);
}

#[test]
fn fault_status() {
    for (code, body) in [
        (404, r#"{"error":"Not Found"}"#),
        (408, r#"{"error":"Request Timeout"}"#),
        (410, r#"{"error":"Gone"}"#),
        (429, "Throttle Result: Too Many Requests"),
        (500, r#"{"error":"Internal Server Error"}"#),
        (204, ""),
    ] {
        let server = faulty(&[&format!("status:{code}@1")]);
        let response = get(&server, EVENTS);
        assert_eq!((response.status, response.text()), (code, body));
        assert_eq!(get(&server, EVENTS).status, 200);
    }
}

#[test]
fn a_refused_approval_has_no_effect_but_one_with_a_damaged_answer_has() {
    for (fault, effect) in [
        ("post.status:500@1", false),
        ("post.retry-after:1@1", false),
        ("post.redirect:307@1", false),
        ("post.reset@1", false),
        ("post.not-http@1", false),
        ("post.long-header:1KB@1", true),
        ("post.empty@1", true),
        ("post.short-body@1", true),
        ("post.half-document@1", true),
        ("post.not-json@1", true),
        ("post.reset-mid-body@1", true),
    ] {
        let server = faulty(&[fault]);
        let id = event_id(&document(&server), 0);
        let body = format!(r#"{{"StartRequests":[{{"EventId":"{id}"}}]}}"#);
        let fields = format!("Connection: close\r\nContent-Length: {}\r\n", body.len());
        read_all(server.addr(), &(head("POST", EVENTS, &fields) + &body));
        let wanted = if effect { "Started" } else { "Scheduled" };
        assert_eq!(statuses(&document(&server)), [wanted], "{fault}");
        assert_eq!(approve(&server, &[&id]).status, 200, "{fault}");
        assert_eq!(statuses(&document(&server)), ["Started"], "{fault}");
    }
}

#[test]
fn a_scope_limits_a_fault_to_its_requests() {
    let server = faulty(&["get.status:500", "name.status:404"]);
    assert_eq!(get(&server, EVENTS).status, 500);
    assert_eq!(get(&server, NAME).status, 404);
    assert_eq!(post(&server, "{}").status, 400);
    // Faults do not apply to a request that the service refuses.
    assert_eq!(get(&server, "/metadata/scheduledevents").status, 400);
}

#[test]
fn fault_first_call_delay() {
    let server = faulty(&["first-call-delay:0.2"]);
    let before = Instant::now();
    assert_eq!(get(&server, EVENTS).status, 200);
    assert!(before.elapsed() >= Duration::from_millis(200));
    // Only the first request is delayed, and faults of the name apply to no other request.
    let server = faulty(&["first-call-delay:0", "name.slow-headers:3600"]);
    assert_eq!(get(&server, EVENTS).status, 200);
    assert_eq!(get(&server, EVENTS).status, 200);
}

#[test]
fn fault_stale() {
    let server = faulty(&["stale:3600@2-"]);
    let current = document(&server);
    let stale = document(&server);
    assert_eq!(current["DocumentIncarnation"], 2);
    assert_eq!(
        stale,
        serde_json::json!({"DocumentIncarnation": 1, "Events": []})
    );
    // The approval has its effect, which stale documents do not show.
    assert_eq!(approve(&server, &[&event_id(&current, 0)]).status, 200);
    assert_eq!(document(&server), stale);
}

#[test]
fn fault_reset() {
    let server = faulty(&["reset@1", "name.reset"]);
    for request in [head("GET", EVENTS, ""), head("GET", NAME, "")] {
        let (bytes, error) = read_all(server.addr(), &request);
        assert_eq!((bytes.len(), error), (0, Some(ErrorKind::ConnectionReset)));
    }
    assert_eq!(get(&server, EVENTS).status, 200);
}

#[test]
fn fault_reset_mid_body() {
    let server = faulty(&["reset-mid-body"]);
    let (bytes, error) = read_all(server.addr(), &head("GET", EVENTS, ""));
    // Under Wine, the end of the connection after data is sometimes no reset.
    assert!(
        error == Some(ErrorKind::ConnectionReset) || cfg!(windows) && error.is_none(),
        "{error:?}"
    );
    let body = body_of(&bytes);
    assert!(body.starts_with(b"{\"DocumentIncarnation\"") && !body.ends_with(b"]}"));
}

#[test]
fn fault_slow_headers_and_slow_body() {
    for fault in ["slow-headers:0.2", "slow-body:0.2"] {
        let server = faulty(&[fault]);
        let before = Instant::now();
        assert_eq!(events(&document(&server)).len(), 1);
        assert!(before.elapsed() >= Duration::from_millis(200), "{fault}");
    }
    // The header arrives at once, the body in pieces an hour apart.
    let server = faulty(&["slow-body:360000"]);
    let mut stream = connect(server.addr());
    stream
        .write_all(head("GET", EVENTS, "").as_bytes())
        .expect("send");
    assert_eq!(read_head(&mut stream).status, 200);
    drop(server);
    assert!(!matches!(stream.read(&mut [0]), Ok(1)));
    // The response to an approval has no body, so the fault adds one.
    let server = faulty(&["post.slow-body:0.1"]);
    let id = event_id(&document(&server), 0);
    assert!(!approve(&server, &[&id]).body.is_empty());
}

#[test]
fn fault_silence() {
    let server = faulty(&["silence@1"]);
    let mut stream = connect(server.addr());
    stream
        .write_all(head("GET", EVENTS, "").as_bytes())
        .expect("send");
    stream
        .set_read_timeout(Some(Duration::from_millis(50)))
        .expect("set time-out");
    let error = stream.read(&mut [0]).expect_err("silence").kind();
    assert!(
        matches!(error, ErrorKind::WouldBlock | ErrorKind::TimedOut),
        "{error}"
    );
    // Other connections are served meanwhile.
    assert_eq!(get(&server, EVENTS).status, 200);
    assert_eq!(server.requests()[0].status, None);
    drop(server);
    stream
        .set_read_timeout(Some(PATIENCE))
        .expect("set time-out");
    assert_eq!(stream.read(&mut [0]).unwrap_or(0), 0);
}

#[test]
fn fault_short_body() {
    let server = faulty(&["short-body"]);
    let mut stream = connect(server.addr());
    stream
        .write_all(head("GET", EVENTS, "").as_bytes())
        .expect("send");
    let response = read_head(&mut stream);
    let length: usize = response
        .header("Content-Length")
        .expect("length")
        .parse()
        .expect("number");
    let mut body = Vec::new();
    stream.read_to_end(&mut body).expect("an orderly end");
    assert!(!body.is_empty() && body.len() < length);
}

#[test]
fn fault_endless_body() {
    let server = faulty(&["endless-body"]);
    let mut stream = connect(server.addr());
    stream
        .write_all(head("GET", EVENTS, "").as_bytes())
        .expect("send");
    let response = read_head(&mut stream);
    assert_eq!(
        (
            response.header("Transfer-Encoding"),
            response.header("Content-Length")
        ),
        (Some("chunked"), None)
    );
    let mut bytes = vec![0; 4_000_000];
    stream.read_exact(&mut bytes).expect("four megabytes");
    let text = String::from_utf8(bytes).expect("UTF-8");
    assert!(text.contains("]}\r\n1000\r\n    "), "{text:.400}");
}

#[test]
fn fault_huge_body() {
    let server = faulty(&["huge-body:3MB"]);
    let response = get(&server, EVENTS);
    assert_eq!(response.body.len(), 3_000_000);
    assert_eq!(events(&response.json()).len(), 1);
    // The client may close the connection before it has read the gigabyte.
    let server = faulty(&["huge-body:1GB"]);
    let mut stream = connect(server.addr());
    stream
        .write_all(head("GET", EVENTS, "").as_bytes())
        .expect("send");
    assert_eq!(
        read_head(&mut stream).header("Content-Length"),
        Some("1000000000")
    );
    stream
        .read_exact(&mut vec![0; 1_000_000])
        .expect("the beginning");
}

#[test]
fn fault_many_headers() {
    let server = faulty(&["many-headers:100000"]);
    let (bytes, error) = read_all(server.addr(), &head("GET", EVENTS, "Connection: close\r\n"));
    assert_eq!(error, None);
    let text = String::from_utf8(bytes).expect("UTF-8");
    assert_eq!(text.matches("\r\nX-Padding-").count(), 100_000);
    assert!(text.ends_with("]}"));
}

#[test]
fn fault_long_header() {
    let server = faulty(&["long-header:100KB"]);
    let (bytes, error) = read_all(server.addr(), &head("GET", EVENTS, "Connection: close\r\n"));
    assert_eq!(error, None);
    let text = String::from_utf8(bytes).expect("UTF-8");
    assert!(text.contains(&format!("\r\nX-Padding: {}\r\n\r\n{{", "x".repeat(100_000))));
}

#[test]
fn fault_not_http() {
    let server = faulty(&["not-http@1-2"]);
    for request in [
        head("GET", EVENTS, ""),
        head("POST", EVENTS, "Content-Length: 2\r\n") + "{}",
    ] {
        let (bytes, error) = read_all(server.addr(), &request);
        assert_eq!(error, None);
        assert!(
            !bytes.is_empty() && !bytes.starts_with(b"HTTP/"),
            "{bytes:?}"
        );
    }
    assert_eq!(get(&server, EVENTS).status, 200);
}

#[test]
fn fault_gzip() {
    let server = faulty(&["gzip"]);
    let response = get(&server, EVENTS);
    assert_eq!(response.header("Content-Encoding"), Some("gzip"));
    assert_eq!(response.body[..3], [0x1f, 0x8b, 8]);
}

#[test]
fn fault_content_type() {
    let server = faulty(&["content-type:text/html"]);
    let response = get(&server, EVENTS);
    assert_eq!(response.header("Content-Type"), Some("text/html"));
    assert_eq!(
        response
            .headers
            .iter()
            .filter(|(name, _)| name == "Content-Type")
            .count(),
        1
    );
    assert_eq!(events(&response.json()).len(), 1);
}

#[test]
fn fault_redirect() {
    for (fault, code, location) in [
        ("redirect:301", 301, "/redirected"),
        ("redirect:302", 302, "/redirected"),
        (
            "redirect:307,http://attacker.example/x",
            307,
            "http://attacker.example/x",
        ),
        ("redirect:308", 308, "/redirected"),
    ] {
        let response = get(&faulty(&[fault]), EVENTS);
        assert_eq!(
            (response.status, response.header("Location")),
            (code, Some(location))
        );
    }
}

#[test]
fn fault_retry_after() {
    let value = |fault: &str| {
        let response = get(&faulty(&[fault]), EVENTS);
        assert_eq!(
            (response.status, response.text()),
            (429, "Throttle Result: Too Many Requests")
        );
        response
            .header("Retry-After")
            .expect("Retry-After")
            .to_owned()
    };
    assert_eq!(value("retry-after:7"), "7");
    assert_eq!(
        value("retry-after:Wed, 21 Oct 2026 07:28:00 GMT"),
        "Wed, 21 Oct 2026 07:28:00 GMT"
    );
    let before = SystemTime::now();
    let date = httpdate::parse_http_date(&value("retry-after:date+50")).expect("a date");
    let ahead = date.duration_since(before).expect("ahead");
    assert!(
        (49..=50 + PATIENCE.as_secs()).contains(&ahead.as_secs()),
        "{ahead:?}"
    );
}

#[test]
fn fault_half_document_and_not_json() {
    let server = faulty(&["half-document@1", "not-json@2"]);
    let half = get(&server, EVENTS);
    assert_eq!(half.status, 200);
    assert!(
        half.text()
            .starts_with("{\"DocumentIncarnation\":2,\"Events\":[{")
    );
    assert!(serde_json::from_slice::<Value>(&half.body).is_err());
    let not_json = get(&server, EVENTS);
    assert_eq!((not_json.status, not_json.text()), (200, "not json"));
    assert_eq!(
        not_json.header("Content-Type"),
        Some("application/json; charset=utf-8")
    );
    assert_eq!(get(&server, EVENTS).body.len() / 2, half.body.len());
}

#[test]
fn fault_incarnation_back() {
    let server = faulty(&["incarnation-back:1@2", "incarnation-back:99@3"]);
    let incarnations = [(); 4].map(|()| document(&server)["DocumentIncarnation"].as_u64());
    assert_eq!(incarnations, [Some(2), Some(1), Some(0), Some(2)]);
}

#[test]
fn fault_vanish() {
    let server = faulty(&["vanish@2"]);
    let counts = [(); 3].map(|()| {
        let seen = document(&server);
        (seen["DocumentIncarnation"].as_u64(), events(&seen).len())
    });
    assert_eq!(counts, [(Some(2), 1), (Some(2), 0), (Some(2), 1)]);
    // The fault applies to a request with If-None-Match, too.
    let server = faulty(&["vanish@2"]);
    let etag = get(&server, EVENTS)
        .header("ETag")
        .expect("ETag")
        .to_owned();
    let response = raw(
        server.addr(),
        head("GET", EVENTS, &format!("If-None-Match: {etag}\r\n")).as_bytes(),
    );
    assert!(response.status == 200 && events(&response.json()).is_empty());
}

#[test]
fn fault_started_without_scheduled() {
    let server = faulty(&["started-without-scheduled@2-"]);
    let id = event_id(&document(&server), 0);
    assert!(events(&document(&server)).is_empty());
    assert_eq!(approve(&server, &[&id]).status, 200);
    assert_eq!(statuses(&document(&server)), ["Started"]);
}

#[test]
fn fault_member() {
    let server = faulty(&[
        r#"member:DurationInSeconds,{"s":1}@2"#,
        "member:EventStatus@2-3",
    ]);
    let seen = [(); 3].map(|()| document(&server)["Events"][0].clone());
    assert_eq!(seen[0]["EventStatus"], "Scheduled");
    assert_eq!(seen[1]["DurationInSeconds"], json!({"s": 1}));
    assert_eq!(seen[1].get("EventStatus"), None);
    assert_eq!(seen[2]["DurationInSeconds"], seen[0]["DurationInSeconds"]);
    assert_eq!(seen[2].get("EventStatus"), None);
}

#[test]
fn fault_repeated_id() {
    let server = faulty(&["repeated-id"]);
    let seen = document(&server);
    let [ref other, ref own] = events(&seen)[..] else {
        panic!("{seen}")
    };
    assert_eq!(other["EventId"], own["EventId"]);
    assert_eq!(other["Resources"], json!(["another_vm"]));
    assert_eq!(own["Resources"], json!(["WestNO_0"]));
}

#[test]
fn fault_clock() {
    let time = |text: &str| httpdate::parse_http_date(text).expect("a date");
    let answer = |faults: &[&str]| {
        let response = get(&faulty(faults), EVENTS);
        let not_before = response.json()["Events"][0]["NotBefore"].clone();
        let not_before = time(not_before.as_str().expect("a text"));
        (not_before, time(response.header("Date").expect("a date")))
    };
    let (not_before, date) = answer(&[]);
    for (fault, ahead) in [("clock:600", 600), ("clock:-600", -600)] {
        let (shifted_not_before, shifted_date) = answer(&[fault]);
        for (shifted, time) in [(shifted_not_before, not_before), (shifted_date, date)] {
            let seconds = |time: SystemTime| time.duration_since(UNIX_EPOCH).unwrap().as_secs();
            let difference = seconds(shifted).cast_signed() - seconds(time).cast_signed();
            assert!((ahead..ahead + 10).contains(&difference), "{difference}");
        }
    }
}

#[test]
fn a_time_window_opens_and_closes() {
    let server = faulty(&["status:410@0s-0.3s"]);
    let begin = Instant::now();
    assert_eq!(get(&server, EVENTS).status, 410);
    while get(&server, EVENTS).status == 410 {
        thread::yield_now();
    }
    assert!(begin.elapsed() >= Duration::from_millis(290));
    let server = faulty(&["status:410@3600s-"]);
    assert_eq!(get(&server, EVENTS).status, 200);
}

#[test]
fn combines_several_faults() {
    let server = faulty(&[
        "slow-body:0.1",
        "slow-headers:0.1",
        "status:500@1",
        "empty",
        "content-type:text/plain",
    ]);
    let before = Instant::now();
    let response = get(&server, EVENTS);
    assert_eq!(
        (response.status, response.header("Content-Type")),
        (500, Some("text/plain"))
    );
    assert!(before.elapsed() >= Duration::from_millis(200));
    assert_eq!(get(&server, EVENTS).body.len(), 0);
}

#[test]
fn an_unknown_fault_gets_a_suggestion() {
    let error = "endles-body"
        .parse::<Fault>()
        .expect_err("unknown")
        .to_string();
    assert!(
        error.contains("did you mean `endless-body`?") && error.contains("retry-after:VALUE"),
        "{error}"
    );
}

#[test]
fn fault_idle_off() {
    let server = faulty(&["idle-off:0.3,0.4"]);
    let timed = || {
        let before = Instant::now();
        assert_eq!(get(&server, EVENTS).status, 200);
        before.elapsed()
    };
    timed();
    // A longer pause does no harm.
    std::thread::sleep(Duration::from_millis(300));
    assert!(timed() >= Duration::from_millis(400));
}

#[test]
fn events_may_be_hidden_for_the_first_minutes() {
    let server = faulty(&["vanish@0s-5min"]);
    assert_eq!(events(&document(&server)).len(), 0);
    // After that time they are shown.
    let server = faulty(&["vanish@0s-1ms"]);
    std::thread::sleep(Duration::from_millis(1));
    document(&server);
    std::thread::sleep(Duration::from_millis(1));
    assert_eq!(events(&document(&server)).len(), 1);
}

#[test]
fn an_approval_is_judged_although_its_answer_is_delayed_beyond_the_end() {
    let neighbours = STEADY.replace("event_type", "resources = [\"{peer:1}\"]\nevent_type");
    let scenario = Scenario::parse(&neighbours).expect("valid");
    let fault = "post.first-call-delay:60".parse().expect("a fault");
    let server = start(ServerConfig::new(scenario).fault(fault));
    let id = event_id(&document(&server), 0);
    let body = format!("{{\"StartRequests\":[{{\"EventId\":\"{id}\"}}]}}");
    let request = head(
        "POST",
        EVENTS,
        &format!("Content-Length: {}\r\n", body.len()),
    ) + &body;
    let mut stream = connect(server.addr());
    stream.write_all(request.as_bytes()).expect("send");
    eventually::eventually("the finding", || {
        let failed = server.verdict(0).outcome(Rule::ApprovedOther) == Outcome::Failed;
        failed.then_some(())
    });
}

#[test]
fn a_version_that_is_refused_for_a_moment_may_be_asked_for_again() {
    for (fault, expected) in [
        ("unknown-version:503", Outcome::NotChecked),
        ("unknown-version:404", Outcome::Failed),
    ] {
        let server = faulty(&[fault]);
        for _ in 0..4 {
            get(&server, ADVICE_EVENTS);
        }
        assert_eq!(
            server.verdict(0).outcome(Rule::Fallback),
            expected,
            "{fault}"
        );
    }
}

#[test]
fn the_bodies_of_many_requests_are_not_kept() {
    let server = start(steady());
    let body = " ".repeat(200 * 1024);
    for _ in 0..400 {
        assert_eq!(post(&server, &body).status, 400);
    }
    let kept: usize = server
        .requests()
        .iter()
        .map(|request| request.body.len())
        .sum();
    assert!(
        kept <= 32 * 1024 * 1024 && kept > 30 * 1024 * 1024,
        "{kept}"
    );
}
