//! Text from outside stays data: it splits no request, log line or command, and reaches no other
//! file. `SECURITY.md` lists the guarantees; `watch/commands.rs` and `field_faults.rs` test the
//! others.

use serde_json::json;

use crate::support::{
    FakeService, Folder, PREPARE_ALL, Reply, Run, VM, eventually, freeze, helper, lines,
    preparation_ended, together, with,
};

/// Texts that split a header, a request, a log line or a command if they are inserted unescaped.
const SPLITTERS: [&str; 5] = [
    "a\r\nX-Evil: 1\r\n\r\nPOST / HTTP/1.1\r\n\r\n",
    "b\nerror: all is lost",
    "c\"}],\"StartRequests\":[{\"EventId\":\"other",
    "d' ; touch evil ; '",
    "e\u{1b}]0;evil\u{7}\u{9b}2J\u{202e}",
];

/// Checks that all requests are ones that the client sends.
#[track_caller]
fn assert_not_split(service: &FakeService) {
    for request in service.requests() {
        assert!(
            ["GET", "POST"].contains(&request.method.as_str()),
            "{request:?}"
        );
        assert!(request.target.starts_with("/metadata/"), "{request:?}");
        assert!(
            request
                .headers
                .iter()
                .all(|(name, _)| !name.eq_ignore_ascii_case("X-Evil")),
            "{request:?}"
        );
    }
}

/// Checks that the text has no effect on a terminal and contains no forged line.
#[track_caller]
fn assert_plain(text: &str) {
    let acts =
        |char: char| char != '\n' && (char.is_control() || matches!(char, '\u{202a}'..='\u{202e}'));
    assert!(!text.contains(acts), "{text:?}");
    assert!(
        text.lines().all(|line| line != "error: all is lost"),
        "{text}"
    );
}

#[test]
fn an_id_that_could_split_a_request_is_sent_back_unchanged_in_one_request() {
    let service = FakeService::start();
    service.show(2, &SPLITTERS.map(freeze));
    let run = Run::watch(&service.url(), &["--policy", "sample", "--vm-name", VM]);
    eventually("all approvals", || {
        (service.posted().len() == SPLITTERS.len()).then_some(())
    });
    assert_eq!(service.posted(), SPLITTERS);
    let posts = service
        .requests()
        .iter()
        .filter(|request| request.is_post())
        .count();
    assert_eq!(posts, 1);
    assert_not_split(&service);
    assert_plain(&run.stdout());
    assert_plain(&run.stderr());

    let url = service.url();
    let arguments = [
        &["approve", "--endpoint", &url, "--vm-name", VM, "--"][..],
        &SPLITTERS,
    ]
    .concat();
    let finished = crate::support::run(&arguments).with_code(0);
    assert_eq!(service.posted()[SPLITTERS.len()..], SPLITTERS);
    assert_not_split(&service);
    assert_plain(&finished.stdout);
}

#[test]
fn a_name_that_could_split_a_line_is_rejected_and_all_events_are_held() {
    together(SPLITTERS, |name| {
        let service = FakeService::start();
        service.set_name(Some(name));
        service.show(2, &[freeze("a")]);
        let mut run = Run::watch(&service.url(), &["--policy", "sample"]);
        let decision = run.record("a decision", |record| record["record"] == "decision");
        assert_eq!(decision["action"], "hold");
        service.await_polls(3);
        assert!(service.posted().is_empty());
        run.wait_for_stderr("is not a machine name");
        assert_plain(&run.stderr());
        assert_not_split(&service);
    });
}

#[test]
fn no_request_is_conditional_whatever_etag_the_service_sends() {
    together(["\"1\"", "W/\"2\"", "\"a\u{9}b\"", "\"a\u{e9}\""], |etag| {
        let service = FakeService::start();
        let fields = format!("ETag: {etag}\r\n");
        let body = crate::support::document(2, &[freeze("a")]);
        service.intercept(move |request| request.is_get().then(|| Reply::new(200, &fields, &body)));
        let mut run = Run::watch(&service.url(), &["--policy", "observe", "--vm-name", VM]);
        run.change("scheduled", "a");
        service.await_polls(3);
        assert!(
            service
                .requests()
                .iter()
                .all(|request| request.header("If-None-Match").is_empty()),
            "{etag:?}"
        );
    });
}

#[test]
fn options_that_could_split_a_request_are_usage_errors() {
    let service = FakeService::start();
    let url = service.url();
    for (option, value) in [
        ("--endpoint", format!("{url}\r\nX-Evil: 1")),
        ("--endpoint", format!("{url}/ HTTP/1.1")),
        ("--endpoint", format!("{url}?x")),
        ("--endpoint", "http://[::ffff:10.0.0.4]".into()),
        ("--endpoint", "http://0x7f000001.example".into()),
        ("--api-version", "2020-07-01\r\nX-Evil: 1".into()),
        ("--api-version", "2020-07-01&format=text".into()),
    ] {
        let mut arguments = vec!["list", option, &value];
        if option != "--endpoint" {
            arguments.extend(["--endpoint", &url]);
        }
        let rejected = crate::support::run(&arguments).with_code(2);
        assert_plain(&rejected.stderr);
    }
    assert!(service.requests().is_empty());
}

#[test]
fn a_command_gets_event_text_as_data_and_inherits_no_file() {
    let folder = Folder::new();
    let policy = folder.file("policy.toml", PREPARE_ALL);
    let (seen, open) = (folder.path("seen"), folder.path("open"));
    let hostile = SPLITTERS.concat();
    let service = FakeService::start();
    service.show(
        2,
        &[with(
            freeze("a"),
            &json!({ "Description": hostile, "Resources": [VM, hostile] }),
        )],
    );
    let prepare = helper(&[
        format!("append {seen} $DESCRIPTION"),
        format!("open-files {open}"),
    ]);
    let state = folder.path("state");
    let arguments = [
        "--policy",
        &policy,
        "--state",
        &state,
        "--prepare",
        &prepare,
    ];
    let mut run = Run::watch(&service.url(), &arguments);
    let prepared = run.record("a preparation", preparation_ended);
    assert_eq!(prepared["outcome"], "ready", "{}", run.stderr());
    assert_eq!(
        std::fs::read_to_string(&seen).expect("a file"),
        format!("{hostile}\n")
    );
    // Only its three pipes and its output file: no lock, no state file, no connection.
    let open = lines(&open);
    assert!(open.len() >= 3 || cfg!(windows), "{open:?}");
    assert!(
        open.iter()
            .all(|file| !file.contains("state") && !file.starts_with("socket:")),
        "{open:?}"
    );
    assert!(!folder.names().contains(&"evil".to_owned()));
    assert_plain(&run.stderr());
}
