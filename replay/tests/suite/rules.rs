//! Tests of the rules of the service (`docs/inside/wire.md`).

use scheduled_events_replay::verdict::{Outcome, Rule};

use super::eventually::eventually;
use super::*;

#[test]
fn a_document_is_compact_json_with_all_members() {
    let server = start(steady().seed(1));
    let response = get(&server, EVENTS);
    assert_eq!(
        response.header("Content-Type"),
        Some("application/json; charset=utf-8")
    );
    assert_eq!(response.header("ETag"), Some("\"2\""));
    let id = event_id(&response.json(), 0);
    let not_before = response.json()["Events"][0]["NotBefore"]
        .as_str()
        .expect("text")
        .to_owned();
    assert_eq!(
        response.text(),
        format!(
            "{{\"DocumentIncarnation\":2,\"Events\":[{{\"EventId\":\"{id}\",\"EventStatus\":\"Scheduled\",\
             \"EventType\":\"Freeze\",\"ResourceType\":\"VirtualMachine\",\"Resources\":[\"WestNO_0\"],\
             \"NotBefore\":\"{not_before}\",\"Description\":\"Host server is undergoing maintenance.\",\
             \"EventSource\":\"Platform\",\"DurationInSeconds\":9}}]}}"
        )
    );
    assert_eq!(not_before.len(), 29);
    let ahead = httpdate::parse_http_date(&not_before)
        .expect("RFC 1123")
        .duration_since(SystemTime::now());
    assert!(ahead.expect("ahead") <= Duration::from_secs(3600));
}

#[test]
fn event_ids_follow_the_seed() {
    let id = |config| event_id(&document(&start(config)), 0);
    assert_eq!(id(steady().seed(1)), id(steady().seed(1)));
    assert_ne!(id(steady().seed(1)), id(steady().seed(2)));
    assert_ne!(id(steady()), id(steady()));
}

#[test]
fn refuses_what_the_service_refuses() {
    let server = start(steady());
    let refused = |request: &str| raw(server.addr(), request.as_bytes());
    let plain = |target: &str, fields: &str| {
        refused(&format!(
            "GET {target} HTTP/1.1\r\nHost: 127.0.0.1\r\n{fields}\r\n"
        ))
    };

    let response = plain(EVENTS, "");
    assert_eq!(response.status, 400);
    assert_eq!(
        response.text(),
        r#"{ "error": "Bad request: . Required metadata header not specified" }"#
    );
    assert_eq!(plain(NAME, "").status, 400);
    assert_eq!(plain(EVENTS, "Metadata: false\r\n").status, 400);
    assert_eq!(
        plain(EVENTS, "Metadata: true\r\nX-Forwarded-For: 10.0.0.1\r\n").status,
        400
    );
    assert_eq!(
        plain(NAME, "Metadata: true\r\nX-Forwarded-For: 10.0.0.1\r\n").status,
        400
    );
    assert_eq!(plain(EVENTS, "metadata:true\r\n").status, 200);

    for query in [
        "",
        "?api-version=",
        "?api-version=2020-07-02",
        "?api-version=latest",
        "?api-version=2020-07-01&api-version=2020-07-01",
        "?api-version=2020-07-01&api-version=2019-08-01",
        "?API-VERSION=2020-07-01&api-version=2019-08-01",
    ] {
        for method in ["GET", "POST"] {
            let response = refused(&head(
                method,
                &format!("/metadata/scheduledevents{query}"),
                "",
            ));
            assert_eq!(response.status, 400, "{query}");
            let body = response.json();
            assert!(
                body["error"]
                    .as_str()
                    .is_some_and(|text| text.contains("api-version"))
            );
            assert_eq!(
                body["newest-versions"],
                serde_json::json!(["2020-07-01", "2019-08-01", "2019-04-01"])
            );
        }
    }
    let repeated = refused(&head("GET", &format!("{EVENTS}&x=1&x=1"), ""));
    assert_eq!(repeated.status, 400);

    assert_eq!(get(&server, "/").status, 404);
    assert_eq!(
        get(&server, "/metadata/scheduledevent?api-version=2020-07-01").status,
        404
    );
    let delete = refused(&head("DELETE", EVENTS, ""));
    assert_eq!(
        (delete.status, delete.header("Allow")),
        (405, Some("GET, POST"))
    );
    assert_eq!(refused(&head("POST", NAME, "")).status, 405);
}

#[test]
fn instance_metadata_is_json_and_each_machine_s_own() {
    let instance = "/metadata/instance?api-version=2021-12-13";
    let server = start(steady().vm_name("web_3"));
    let response = get(&server, instance);
    assert_eq!(
        response.header("Content-Type"),
        Some("application/json; charset=utf-8")
    );
    let compute = &response.json()["compute"];
    assert_eq!(
        (&compute["name"], &compute["vmScaleSetName"]),
        (&"web_3".into(), &"web".into())
    );
    for member in ["location", "zone", "tags", "resourceId", "vmId"] {
        assert!(
            compute[member]
                .as_str()
                .is_some_and(|text| !text.is_empty()),
            "{member}"
        );
    }
    assert_eq!(compute["tagsList"][0]["name"], "environment");
    assert_eq!(
        get(&server, "/metadata/instance/compute?api-version=2021-12-13").json(),
        *compute
    );
    let vm_id = get(&server, &NAME.replace("/name", "/vmId"));
    assert_eq!(compute["vmId"], vm_id.text());
    let other = get(&start(steady().vm_name("web_4")), instance).json();
    assert_ne!(other["compute"]["vmId"], compute["vmId"]);

    let plain = raw(
        server.addr(),
        format!("GET {instance} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n").as_bytes(),
    );
    assert_eq!(
        plain.text(),
        r#"{ "error": "Bad request: . Required metadata header not specified" }"#
    );
    let unversioned = get(&server, "/metadata/instance");
    assert_eq!(unversioned.status, 400);
    assert!(unversioned.json()["newest-versions"].is_array());
    // It does not start the scenario, and faults of requests for the name apply to it.
    assert!(!server.finished());
    let broken = start(steady().fault("name.status:500@1".parse().expect("a fault")));
    assert_eq!(
        (get(&broken, instance).status, get(&broken, instance).status),
        (500, 200)
    );
}

#[test]
fn only_an_address_or_localhost_is_served_so_that_no_web_page_reaches_it() {
    let server = start(steady());
    let port = server.addr().port();
    let status = |hosts: &[&str]| {
        let fields = hosts.iter().fold(String::new(), |fields, host| {
            fields + "Host: " + host + "\r\n"
        });
        raw(
            server.addr(),
            format!("GET {EVENTS} HTTP/1.1\r\n{fields}Metadata: true\r\n\r\n").as_bytes(),
        )
        .status
    };
    for host in [
        "127.0.0.1",
        "169.254.169.254",
        "localhost",
        "LOCALHOST:80",
        "[::1]",
        "[::1]:8080",
        "10.0.0.4:1",
    ] {
        assert_eq!(status(&[host]), 200, "{host}");
    }
    assert_eq!(status(&[&format!("127.0.0.1:{port}")]), 200);
    assert_eq!(status(&[]), 200);
    for host in [
        "evil.example",
        "127.0.0.1.evil.example",
        "localhost.evil.example:80",
        "",
        "1",
        "[::1",
        "[::1]x",
        "a:b",
    ] {
        assert_eq!(status(&[host]), 400, "{host}");
    }
    assert_eq!(status(&["127.0.0.1", "evil.example"]), 400);
}

#[test]
fn a_head_request_gets_no_body() {
    let server = start(steady());
    let mut stream = connect(server.addr());
    stream
        .write_all(head("HEAD", EVENTS, "Connection: close\r\n").as_bytes())
        .expect("send");
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).expect("read");
    assert!(bytes.starts_with(b"HTTP/1.1 405 ") && bytes.ends_with(b"\r\n\r\n"));
}

#[test]
fn older_versions_have_fewer_members_and_types() {
    let server = start(steady());
    for (version, members) in [
        ("2017-03-01", 6),
        ("2017-08-01", 6),
        ("2017-11-01", 6),
        ("2019-01-01", 6),
        ("2019-04-01", 7),
        ("2019-08-01", 8),
        ("2020-07-01", 9),
    ] {
        let response = get(
            &server,
            &format!("/metadata/scheduledevents?api-version={version}"),
        );
        let event = &response.json()["Events"][0];
        assert_eq!(
            event.as_object().map(serde_json::Map::len),
            Some(members),
            "{version}"
        );
        let name = if version == "2017-03-01" {
            "_WestNO_0"
        } else {
            "WestNO_0"
        };
        assert_eq!(event["Resources"][0], name, "{version}");
    }
    for (event_type, hidden, shown) in [
        ("Preempt", "2017-08-01", "2017-11-01"),
        ("Terminate", "2017-11-01", "2019-01-01"),
    ] {
        let server = start(ServerConfig::new(
            Scenario::parse(&STEADY.replace("Freeze", event_type)).expect("valid"),
        ));
        let count = |version: &str| {
            events(
                &get(
                    &server,
                    &format!("/metadata/scheduledevents?api-version={version}"),
                )
                .json(),
            )
            .len()
        };
        assert_eq!(
            (count(hidden), count(shown), count("2020-07-01")),
            (0, 1, 1),
            "{event_type}"
        );
    }
}

#[test]
fn if_none_match_gets_304_while_the_document_is_unchanged() {
    let server = start(steady());
    let etag = get(&server, EVENTS)
        .header("ETag")
        .expect("ETag")
        .to_owned();
    let conditional = |tag: &str| {
        raw(
            server.addr(),
            head("GET", EVENTS, &format!("If-None-Match: {tag}\r\n")).as_bytes(),
        )
    };
    let response = conditional(&etag);
    assert_eq!(
        (
            response.status,
            response.header("ETag"),
            response.body.len()
        ),
        (304, Some(etag.as_str()), 0)
    );
    assert_eq!(response.header("Content-Length"), None);
    assert_eq!(conditional("\"other\"").status, 200);
    let id = event_id(&document(&server), 0);
    assert_eq!(approve(&server, &[&id]).status, 200);
    let response = conditional(&etag);
    assert_eq!(
        (response.status, response.header("ETag")),
        (200, Some("\"3\""))
    );
}

#[test]
fn an_approval_starts_an_event_once() {
    let server = start(steady());
    assert_eq!(
        approve(&server, &["C7061BAC-AFDC-4513-B24B-AA5F13A16123"]).status,
        400
    );
    let before = document(&server);
    let id = event_id(&before, 0);
    assert_eq!(statuses(&before), ["Scheduled"]);

    // A request with an unknown EventId or a malformed body changes nothing.
    assert_eq!(approve(&server, &[&id, "unknown"]).status, 400);
    for malformed in [
        "",
        "{",
        "[]",
        "{}",
        r#"{"StartRequests":[]}"#,
        r#"{"StartRequests":[{"Id":"x"}]}"#,
        "\u{feff}{}",
    ] {
        assert_eq!(post(&server, malformed).status, 400, "{malformed}");
    }
    assert_eq!(document(&server), before);

    let response = approve(&server, &[&id.to_ascii_lowercase()]);
    assert_eq!((response.status, response.body.len()), (200, 0));
    let after = document(&server);
    assert_eq!(
        (
            statuses(&after).as_slice(),
            &after["Events"][0]["NotBefore"]
        ),
        (&["Started"][..], &Value::from(""))
    );
    assert_eq!(
        (after["DocumentIncarnation"].as_u64(), event_id(&after, 0)),
        (Some(3), id.clone())
    );

    // Repeated, and for a Started event: valid and without effect.
    assert_eq!(approve(&server, &[&id, &id]).status, 200);
    assert_eq!(document(&server), after);
}

#[test]
fn accepts_old_chunked_and_delayed_approval_bodies() {
    let id = |server: &Server| event_id(&document(server), 0);
    let started = |server: &Server| statuses(&document(server)) == ["Started"];

    let server = start(steady());
    let old = format!(
        r#"{{"DocumentIncarnation":"5","StartRequests":[{{"EventId":"{}"}}]}}"#,
        id(&server)
    );
    assert_eq!(post(&server, &old).status, 200);
    assert!(started(&server));

    let server = start(steady());
    let body = format!(r#"{{"StartRequests":[{{"EventId":"{}"}}]}}"#, id(&server));
    let (first, second) = body.split_at(10);
    let chunked = format!(
        "{:x}\r\n{first}\r\n{:x}\r\n{second}\r\n0\r\n\r\n",
        first.len(),
        second.len()
    );
    let request = head("POST", EVENTS, "Transfer-Encoding: chunked\r\n") + &chunked;
    assert_eq!(raw(server.addr(), request.as_bytes()).status, 200);
    assert!(started(&server));

    // A client that waits for 100 Continue, as .NET's does.
    let server = start(steady());
    let body = format!(r#"{{"StartRequests":[{{"EventId":"{}"}}]}}"#, id(&server));
    let fields = format!("Expect: 100-continue\r\nContent-Length: {}\r\n", body.len());
    let mut stream = connect(server.addr());
    stream
        .write_all(head("POST", EVENTS, &fields).as_bytes())
        .expect("send");
    assert_eq!(read_head(&mut stream).status, 100);
    stream.write_all(body.as_bytes()).expect("send");
    assert_eq!(read_response(&mut stream).status, 200);
    assert!(started(&server));
}

#[test]
fn neither_event_of_a_group_starts_before_both_are_approved() {
    let pair = STEADY.replace("Freeze", "Terminate")
        + "count = 2\nresources = [\"{peer:index}\"]\napproval_group = \"pair\"\n";
    let server = start(ServerConfig::new(Scenario::parse(&pair).expect("valid")).vm_name("pool_7"));
    let before = document(&server);
    assert_eq!(
        before["Events"][0]["Resources"],
        serde_json::json!(["pool_7"])
    );
    assert_eq!(
        before["Events"][1]["Resources"],
        serde_json::json!(["pool_8"])
    );
    assert_eq!(approve(&server, &[&event_id(&before, 1)]).status, 200);
    assert_eq!(document(&server), before);
    assert_eq!(approve(&server, &[&event_id(&before, 0)]).status, 200);
    assert_eq!(statuses(&document(&server)), ["Started", "Started"]);
}

#[test]
fn the_vm_name_is_plain_text() {
    let server = start(steady().vm_name("pool_7"));
    let response = get(&server, NAME);
    assert_eq!((response.status, response.text()), (200, "pool_7"));
    assert_eq!(
        response.header("Content-Type"),
        Some("text/plain; charset=utf-8")
    );
    assert_eq!(
        get(
            &server,
            "/metadata/instance/compute/name?api-version=2021-02-01"
        )
        .status,
        400
    );
    let bad = get(
        &server,
        "/metadata/instance/compute/name?api-version=1999-01-01&format=text",
    );
    assert!(bad.status == 400 && bad.json()["newest-versions"].is_array());
}

#[test]
fn keeps_connections_open_and_answers_pipelined_requests() {
    let server = start(steady());
    let mut stream = connect(server.addr());
    for _ in 0..3 {
        stream
            .write_all(head("GET", EVENTS, "").as_bytes())
            .expect("send");
        assert_eq!(read_response(&mut stream).status, 200);
    }
    stream
        .write_all(
            (head("GET", NAME, "") + &head("GET", "/", "") + &head("GET", EVENTS, "")).as_bytes(),
        )
        .expect("send");
    let answers = [(); 3].map(|()| read_response(&mut stream).status);
    assert_eq!(answers, [200, 404, 200]);

    // Sent byte by byte, then closed as requested.
    for byte in head("GET", EVENTS, "Connection: close\r\n").bytes() {
        stream.write_all(&[byte]).expect("send");
    }
    let response = read_response(&mut stream);
    assert_eq!(
        (response.status, response.header("Connection")),
        (200, Some("close"))
    );
    assert_eq!(stream.read(&mut [0]).expect("end"), 0);
    assert_eq!(server.requests().len(), 7);
}

#[test]
fn refuses_requests_over_a_limit() {
    let server = start(steady());
    let long = "a".repeat(20_000);
    let huge = format!(
        "{}{}",
        head("POST", EVENTS, "Content-Length: 400000\r\n"),
        "x".repeat(400_000)
    );
    for (request, status) in [
        (head("GET", &format!("/{long}"), ""), 431),
        (head("GET", EVENTS, &format!("X: {long}\r\n")), 431),
        (head("GET", EVENTS, &"X: y\r\n".repeat(200)), 431),
        (huge, 413),
        ("\u{1}\u{2} not HTTP\r\n\r\n".to_owned(), 400),
        (head("POST", EVENTS, "Content-Length: x\r\n"), 400),
    ] {
        assert_eq!(raw(server.addr(), request.as_bytes()).status, status);
    }
    assert_eq!(get(&server, EVENTS).status, 200);
}

#[test]
fn records_requests() {
    let server = start(steady().fault("get.reset@2".parse().expect("fault")));
    let before = Instant::now();
    document(&server);
    let mut stream = connect(server.addr());
    stream
        .write_all(head("GET", EVENTS, "").as_bytes())
        .expect("send");
    assert!(stream.read(&mut [0]).is_err());
    assert_eq!(post(&server, "{}").status, 400);
    let requests = server.requests();
    let seen: Vec<_> = requests
        .iter()
        .map(|it| (it.method.as_str(), it.status, it.body.as_slice()))
        .collect();
    assert_eq!(
        seen,
        [
            ("GET", Some(200), &b""[..]),
            ("GET", None, b""),
            ("POST", Some(400), b"{}")
        ]
    );
    assert!(
        requests
            .iter()
            .all(|it| it.target == EVENTS && it.arrived >= before)
    );
    assert!(
        requests[0]
            .headers
            .contains(&("Metadata".to_owned(), "true".to_owned()))
    );
}

#[test]
fn a_refused_request_is_a_finding_whatever_its_path_is() {
    let failed = |request: &str| {
        let server = start(steady());
        let response = raw(server.addr(), request.as_bytes());
        assert!(response.status >= 400, "{request}");
        server
            .verdict(0)
            .rules_with(Outcome::Failed)
            .collect::<Vec<_>>()
    };
    for target in [
        "/metadata/instance?api-version=2021-02-01&format=text",
        "/metadata/instance/compute/name?api-version=2021-02-01",
        "/metadata/identity/oauth2/token?api-version=2018-02-01",
        "/metadata/instance?api-version=2021-02-01&a=1&a=2",
    ] {
        assert_eq!(failed(&head("GET", target, "")), [Rule::Url], "{target}");
    }
    let named = "GET /metadata/instance?api-version=2021-02-01 HTTP/1.1\r\nHost: imds\r\nMetadata: true\r\n\r\n";
    assert_eq!(failed(named), [Rule::Url]);
}

#[test]
fn a_request_that_never_comes_to_its_end_is_a_finding() {
    let body = r#"{"StartRequests":[]}"#;
    let whole = head("POST", EVENTS, "Content-Length: 999\r\n") + body;
    for (sent, message) in [
        (
            whole.as_str(),
            "POST /metadata/scheduledevents?api-version=2020-07-01 is refused: ",
        ),
        (
            "POST /metadata/sched",
            "found data that is no HTTP request, a part of one, or one over a limit",
        ),
    ] {
        let server = start(steady());
        let mut stream = connect(server.addr());
        stream.write_all(sent.as_bytes()).expect("send");
        // The client gives up.
        drop(stream);
        let verdict = eventually("the finding", || {
            let verdict = server.verdict(0);
            (!verdict.findings().is_empty()).then_some(verdict)
        });
        let messages: Vec<_> = verdict
            .findings()
            .iter()
            .map(|found| &found.message)
            .collect();
        let found = messages.iter().find(|found| found.starts_with(message));
        assert!(found.is_some(), "{messages:?}");
        assert!(
            sent.len() < 50
                || found.is_some_and(|found| found.contains("20 bytes of its body of 999")),
            "{messages:?}"
        );
        assert_eq!(verdict.outcome(Rule::Url), Outcome::Failed);
    }
}

#[test]
fn an_incomplete_request_is_answered_after_a_while() {
    let server = start(steady());
    let mut stream = connect(server.addr());
    stream
        .write_all(head("POST", EVENTS, "Content-Length: 9\r\n").as_bytes())
        .expect("send");
    let response = read_response(&mut stream);
    assert_eq!(response.status, 408);
    assert!(
        response.text().contains("0 bytes of its body of 9"),
        "{}",
        response.text()
    );
    assert_eq!(server.verdict(0).outcome(Rule::Url), Outcome::Failed);
    assert_eq!(server.requests()[0].status, Some(408));
}

#[test]
fn why_the_header_was_not_checked_is_true() {
    let server = start(steady());
    get(&server, "/metadata/scheduledevents?api-version=2017-03-01");
    assert_eq!(
        server.verdict(0).reason(Rule::Header).as_deref(),
        Some("it asked only in the version of the preview, which does not require the header")
    );
}
