//! The verdict on `watch` is clean, whatever the service does.

use scheduled_events_replay::fault::KINDS;

use super::*;
use crate::support::{PREPARE_ALL, PROGRAM, quoted, together};

/// Two events of this machine, the second one a Preempt, and one of a neighbour.
const BUSY: &str = r#"
    about = "A Freeze, then a Preempt of this VM, and a Freeze of a neighbour."
    [[event]]
    event_type = "Freeze"
    notice = "40s"
    starts_after_approval = "4s"
    started_for = "4s"
    [[event]]
    event_type = "Preempt"
    appears = "8s"
    notice = "30s"
    starts_after_approval = "4s"
    started_for = "8s"
    [[event]]
    event_type = "Freeze"
    resources = ["{peer:1}"]
    notice = "20s"
    started_for = "2s"
"#;

/// How each kind of fault is injected: in polls, in approvals, or in both; once, several times, or
/// always.
const FAULTS: &[&[&str]] = &[
    &[],
    &["empty@2-4"],
    &["get.empty@3-", "post.status:500@1-2"],
    &["get.status:503@2-4", "post.status:503@1-3"],
    &["get.status:400@2", "post.status:400@1"],
    &["get.status:401@2-4", "post.status:403@1-2"],
    &["get.status:404@2-3"],
    &["get.status:500@1"],
    &["get.status:429@2-6", "post.status:429@1"],
    &["status:410@2s-14s"],
    &["get.status:304@2-4"],
    &["unknown-version:404"],
    &["first-call-delay:20"],
    &["idle-off:0.5,3"],
    &["stale:5@11-14"],
    &["get.reset@2-3", "post.reset@1"],
    &["reset-mid-body@2-3", "post.reset-mid-body@1"],
    &["slow-headers:2@2-4"],
    &["get.slow-headers:30@3", "post.slow-headers:30@1"],
    &["slow-body:2@2-4"],
    &["get.slow-body:30@3", "post.slow-body:30@1"],
    &["get.silence@3", "post.silence@1"],
    &["get.silence@1"],
    &["short-body@2-3", "post.short-body@1"],
    &["get.endless-body@3", "post.endless-body@1"],
    &["get.huge-body:20MB@3", "post.huge-body:20MB@1"],
    &["get.many-headers:1000@3", "post.many-headers:1000@1"],
    &["get.long-header:1MB@3", "post.long-header:1MB@1"],
    &["get.not-http@2-3", "post.not-http@1"],
    &["gzip@2-4", "post.gzip@1"],
    &["content-type:text/html"],
    &[
        "get.redirect:302,/elsewhere@3",
        "post.redirect:307,/elsewhere@1",
    ],
    &["get.redirect:302@3", "post.redirect:308@1"],
    &["get.retry-after:3@3", "post.retry-after:3@1"],
    &["get.retry-after:3600@3"],
    &["half-document@2-4"],
    &["get.not-json@2-4", "post.not-json@1"],
    &["incarnation-back:2@4-6"],
    &["vanish@6-8"],
    &["started-without-scheduled"],
    &[r#"member:DurationInSeconds,"unknown"@2-4"#],
    &["member:EventStatus@2-4"],
    &["repeated-id@2-4"],
    &["repeated-id"],
    &["member:EventType"],
    &["member:EventStatus"],
    &["member:EventSource,7"],
    &[r#"member:DurationInSeconds,"unknown""#],
    &["member:Resources@2-4"],
    &["clock:600"],
    &["clock:-600"],
];

#[test]
fn every_kind_of_fault_is_injected() {
    for (syntax, _) in KINDS {
        let kind = syntax.split(':').next().expect("a kind");
        let is_used = FAULTS
            .concat()
            .iter()
            .any(|fault| fault.trim_start_matches("get.").starts_with(kind));
        assert!(is_used, "{kind}");
    }
}

#[test]
fn watch_is_clean_under_every_fault() {
    together(FAULTS, |faults| {
        let tested = assert_clean(faults, "1");
        // Idle after the neighbour's event, it ends before its own ones are Started: they were not shown to it.
        let is_blind = *faults == ["started-without-scheduled"];
        assert_eq!(
            tested.finished.code,
            Some(i32::from(is_blind)),
            "{faults:?}"
        );
        let client = tested.of_kind("client")[0];
        assert!(client["polls"].as_u64() >= Some(4), "{client}");
    });
}

#[test]
fn watch_is_clean_at_a_high_speed() {
    let faults: [&[&str]; 3] = [
        &[],
        &["get.reset@2-5"],
        &["get.status:401@2-4", "post.status:403@1"],
    ];
    together(faults, |faults| {
        // It may be too late for an event, so that nothing is tested.
        for speed in ["10", "60"] {
            assert_clean(faults, speed);
        }
    });
}

/// Runs `watch` under faults, at a speed. There are no findings about it.
fn assert_clean(faults: &[&str], speed: &str) -> Tested {
    let folder = Folder::new();
    let policy = folder.file("policy.toml", PREPARE_ALL);
    let mut arguments: Vec<_> = faults.iter().flat_map(|fault| ["--fault", fault]).collect();
    arguments.extend(["--speed", speed]);
    let watch = [
        PROGRAM,
        "watch",
        "--policy",
        &policy,
        "--prepare",
        "true",
        "--recover",
        "true",
        "--until-idle",
        "--on",
        // Asked for in a version that this service does not have.
        "advised=true",
    ];
    let is_of_version = |fault: &&str| fault.starts_with("unknown-version");
    let watch = &watch[..watch.len()
        - if faults.iter().any(is_of_version) {
            0
        } else {
            2
        }];
    let tested = test_client(BUSY, &arguments, watch);
    let text = format!(
        "{faults:?}\n{:#?}\n{}\n{}",
        tested.messages(),
        tested.finished.stdout,
        tested.finished.stderr
    );
    assert_eq!(tested.rules("broken"), [""; 0], "{text}");
    assert_eq!(tested.rules("warned"), [""; 0], "{text}");
    tested
}

#[test]
fn machines_have_a_verdict_each() {
    let folder = Folder::new();
    let policy = folder.file("policy.toml", PREPARE_ALL);
    let pair = "about = \"Both.\"\n[[event]]\nevent_type = \"Terminate\"\nresources = [\"{peer:index}\"]\ncount = 3\n\
                appears = \"1s\"\nnotice = \"20s\"\nstarts_after_approval = \"1s\"\nstarted_for = \"2s\"\n";
    let client = format!(
        "test $SCHEDULED_EVENTS_MACHINE = WestNO_1 && exec sleep 100; \
         exec {} watch --policy {} --prepare true --until-idle",
        quoted(PROGRAM),
        quoted(&policy)
    );
    let tested = test_client(pair, &["--machines", "3"], &["sh", "-c", &client]);
    let clients: Vec<_> = tested
        .of_kind("client")
        .iter()
        .map(|line| (line["machine"].clone(), line["clean"].clone()))
        .collect();
    let expected = [("WestNO_0", true), ("WestNO_1", false), ("WestNO_2", true)];
    assert_eq!(
        clients,
        expected.map(|(name, clean)| (Value::from(name), Value::from(clean))),
        "{:#?}",
        tested.messages()
    );
    let missed: Vec<_> = tested
        .of_kind("finding")
        .iter()
        .map(|line| line["machine"].clone())
        .collect();
    assert_eq!(missed, ["WestNO_1"], "{:#?}", tested.messages());
    assert!(
        tested.finished.stdout.contains(" as WestNO_2\n"),
        "{}",
        tested.finished.stdout
    );
    assert!(
        tested.finished.stdout.contains("\nWestNO_0: POST "),
        "{}",
        tested.finished.stdout
    );
}
