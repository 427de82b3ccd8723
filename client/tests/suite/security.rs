//! What comes from outside stays data: it splits no request, no log line and no command, and reaches no file but those that
//! are meant for it. `SECURITY.md` says what is promised; `commands.rs` and `field_faults.rs` hold the rest of it.

use serde_json::json;

use crate::support::{Folder, PREPARE_ALL, Reply, Run, Stage, VM, eventually, freeze, lines, together, with};

/// What splits a header, a request, a log line or a command where it is pasted in.
const SPLITTERS: [&str; 5] = [
    "a\r\nX-Evil: 1\r\n\r\nPOST / HTTP/1.1\r\n\r\n",
    "b\nerror: all is lost",
    "c\"}],\"StartRequests\":[{\"EventId\":\"other",
    "d' ; touch evil ; '",
    "e\u{1b}]0;evil\u{7}\u{9b}2J\u{202e}",
];

/// Whether every request that came is one that the client means to send.
#[track_caller]
fn nothing_was_split(service: &Stage) {
    for request in service.requests() {
        assert!(["GET", "POST"].contains(&request.method.as_str()), "{request:?}");
        assert!(request.target.starts_with("/metadata/"), "{request:?}");
        assert!(request.headers.iter().all(|(name, _)| !name.eq_ignore_ascii_case("X-Evil")), "{request:?}");
    }
}

/// Whether a terminal, or whoever reads line by line, is shown no more than text.
#[track_caller]
fn is_plain(text: &str) {
    let acts = |char: char| char != '\n' && (char.is_control() || matches!(char, '\u{202a}'..='\u{202e}'));
    assert!(!text.contains(acts), "{text:?}");
    assert!(text.lines().all(|line| line != "error: all is lost"), "{text}");
}

#[test]
fn an_id_that_would_split_a_request_goes_back_as_one_id_in_one_request() {
    let service = Stage::start();
    service.show(2, &SPLITTERS.map(freeze));
    let run = Run::watch(&service.url(), &["--policy", "sample", "--vm-name", VM]);
    eventually("all approvals", || (service.posted().len() == SPLITTERS.len()).then_some(()));
    assert_eq!(service.posted(), SPLITTERS);
    let posts = service.requests().iter().filter(|request| request.is_post()).count();
    assert_eq!(posts, 1);
    nothing_was_split(&service);
    is_plain(&run.stdout());
    is_plain(&run.stderr());

    let url = service.url();
    let by_hand = [&["approve", "--endpoint", &url, "--"][..], &SPLITTERS].concat();
    let finished = crate::support::run(&by_hand).with_code(0);
    assert_eq!(service.posted()[SPLITTERS.len()..], SPLITTERS);
    nothing_was_split(&service);
    is_plain(&finished.stdout);
}

#[test]
fn a_name_that_would_split_a_line_is_refused_and_everything_held() {
    together(SPLITTERS, |name| {
        let service = Stage::start();
        service.set_name(Some(name));
        service.show(2, &[freeze("a")]);
        let mut run = Run::watch(&service.url(), &["--policy", "sample"]);
        let decision = run.record("a decision", |record| record["record"] == "decision");
        assert_eq!(decision["action"], "hold");
        service.await_polls(3);
        assert!(service.posted().is_empty());
        run.says("is no name of a machine");
        is_plain(&run.stderr());
        nothing_was_split(&service);
    });
}

#[test]
fn an_etag_that_would_split_a_header_is_not_sent_back() {
    for etag in ["\"a\u{9}b\"", "\"a\u{e9}\"", &format!("\"{}\"", "x".repeat(4_000))] {
        let service = Stage::start();
        let fields = format!("ETag: {etag}\r\n");
        let body = crate::support::document(2, &[freeze("a")]);
        service.intercept(move |request| request.is_get().then(|| Reply::new(200, &fields, &body)));
        let mut run = Run::watch(&service.url(), &["--policy", "observe", "--vm-name", VM]);
        run.change("scheduled", "a");
        service.await_polls(3);
        let sent: Vec<_> =
            service.requests().iter().flat_map(|r| r.header("If-None-Match").concat().into_bytes()).collect();
        assert!(sent.is_empty(), "{etag:?}: {:?}", String::from_utf8_lossy(&sent));
    }
}

#[test]
fn options_that_would_split_a_request_are_refused_before_anything_is_sent() {
    let service = Stage::start();
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
        let refused = crate::support::run(&arguments).with_code(2);
        is_plain(&refused.stderr);
    }
    assert!(service.requests().is_empty());
}

#[test]
fn a_command_gets_event_text_as_data_and_no_file_of_the_watch() {
    let folder = Folder::new();
    let policy = folder.file("policy.toml", PREPARE_ALL);
    let (seen, open) = (folder.path("seen"), folder.path("open"));
    let hostile = SPLITTERS.concat();
    let service = Stage::start();
    service.show(2, &[with(freeze("a"), &json!({ "Description": hostile, "Resources": [VM, hostile] }))]);
    let prepare = format!(
        "sh -c 'printenv SCHEDULED_EVENTS_DESCRIPTION > {seen}; for fd in /proc/$$/fd/*; do readlink $fd; done > {open}; true' \
         argument"
    );
    let state = folder.path("state");
    let arguments = ["--policy", &policy, "--state", &state, "--prepare", &prepare];
    let mut run = Run::watch(&service.url(), &arguments);
    let prepared = run.record("a preparation", |record| record["record"] == "prepare");
    assert_eq!(prepared["outcome"], "ready", "{}", run.stderr());
    assert_eq!(std::fs::read_to_string(&seen).expect("what it saw"), format!("{hostile}\n"));
    // Its own three pipes and its output file: no lock, no state, no connection to the service.
    let open = lines(&open);
    assert!(open.iter().all(|file| !file.contains("state") && !file.starts_with("socket:")), "{open:?}");
    assert!(!folder.names().contains(&"evil".to_owned()));
    is_plain(&run.stderr());
}
