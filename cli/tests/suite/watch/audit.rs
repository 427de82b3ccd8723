//! The audit file: every record with a number, across restarts, kills and full disks; synced before
//! an approval; private.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use serde_json::{Value, json};

use crate::support::{
    ENDS_WITH_STRACE, FakeService, Folder, Run, VM, command, eventually, freeze, lines, started,
    wait_for_approval, with, wrap, write_private,
};

/// `watch --json` with an audit file and the policy `sample`, started by a wrapper.
fn watch_wrapped(wrapper: &[&str], service: &FakeService, audit: &str, more: &[&str]) -> Run {
    let url = service.url();
    let every = [
        "watch",
        "--json",
        "--endpoint",
        &url,
        "--interval",
        "200ms",
        "--vm-name",
        VM,
        "--policy",
        "sample",
    ];
    Run::start(wrap(
        wrapper,
        &command(&[&every[..], &["--audit", audit], more].concat()),
    ))
}

fn watch(service: &FakeService, audit: &str) -> Run {
    watch_wrapped(&["env"], service, audit, &[])
}

/// The lines of the file that are JSON. Those that are not are returned second.
fn read(audit: &str) -> (Vec<Value>, Vec<String>) {
    let (mut valid, mut invalid) = (Vec::new(), Vec::new());
    for line in lines(audit) {
        match serde_json::from_str(&line) {
            Ok(value) => valid.push(value),
            Err(_) => invalid.push(line),
        }
    }
    (valid, invalid)
}

/// A line without its number, which is the record on standard output.
fn without_sequence(mut line: Value) -> Value {
    line.as_object_mut()
        .expect("an object")
        .remove("sequence")
        .expect("a sequence number");
    line
}

/// Checks that the numbers are 1, 2, 3, and so on.
#[track_caller]
fn assert_numbered(found: &[Value]) {
    let numbers: Vec<_> = found
        .iter()
        .map(|line| line["sequence"].as_u64().expect("a number"))
        .collect();
    assert_eq!(numbers, (1..=found.len() as u64).collect::<Vec<_>>());
}

#[test]
fn every_record_is_in_the_file_and_numbers_go_on_after_a_kill_and_a_restart() {
    let folder = Folder::new();
    let audit = folder.path("audit");
    let service = FakeService::start();
    service.show(2, &[freeze("a")]);
    let mut run = watch(&service, &audit);
    wait_for_approval(&mut run, "a");
    let printed = run.kill().records();
    let (before, invalid) = read(&audit);
    assert!(invalid.is_empty(), "{invalid:?}");
    assert_numbered(&before);
    let written: Vec<_> = before.iter().cloned().map(without_sequence).collect();
    assert!(printed.starts_with(&written), "{written:?}");
    let posted = printed
        .iter()
        .position(|record| record["record"] == "approval")
        .expect("an approval");
    assert!(
        written.len() >= posted,
        "those before the approval: {written:?}"
    );

    // A crash leaves a part of a line.
    let mut file = OpenOptions::new()
        .append(true)
        .open(&audit)
        .expect("the file");
    file.write_all(b"{\"record\":\"change\",\"cha")
        .expect("a line");
    drop(file);
    service.show(3, &[started("a")]);
    let mut run = watch(&service, &audit);
    run.change("started-without-notice", "a");
    service.show(4, &[]);
    run.change("completed", "a");
    eventually("the last record in the file", || {
        lines(&audit).last()?.contains("completed").then_some(())
    });
    run.terminate();
    let printed = run.finish().with_code(0).records();
    let (after, invalid) = read(&audit);
    assert_eq!(invalid, ["{\"record\":\"change\",\"cha"]);
    assert_numbered(&after);
    let written: Vec<_> = after[before.len()..]
        .iter()
        .cloned()
        .map(without_sequence)
        .collect();
    assert_eq!(written, printed);
}

/// Fault 44 of `tests/field-faults.md`.
#[test]
fn fault_44_each_record_names_its_machine() {
    let folder = Folder::new();
    let (audit, state) = (folder.path("audit"), folder.path("state"));
    let id = "0f0e0d0c-0b0a-4908-8706-050403020100";
    for (more, vm_id) in [(&[][..], None), (&["--state", &state], Some(id))] {
        let service = FakeService::start();
        service.set_vm_id(id);
        service.show(2, &[freeze("a")]);
        let mut run = watch_wrapped(&["env"], &service, &audit, more);
        wait_for_approval(&mut run, "a");
        run.terminate();
        let printed = run.finish().with_code(0).records();
        for record in &printed {
            assert_eq!(record["machine"], VM, "{record}");
            assert_eq!(
                record.get("vm_id").and_then(Value::as_str),
                vm_id,
                "{record}"
            );
        }
        let (written, _) = read(&audit);
        let last = without_sequence(written.last().expect("a line").clone());
        assert_eq!(Some(&last), printed.last());
    }
}

#[test]
fn the_file_is_synced_before_the_approval_is_posted() {
    let folder = Folder::new();
    let trace = folder.path("trace");
    // Where the disk is too busy to sync in time, the order is unknown: the test tries another run.
    eventually("a run whose approval waited for the disk", || {
        let service = FakeService::start();
        service.show(2, &[freeze("a")]);
        let calls = "trace=fdatasync,write,sendto";
        let strace = [
            "strace", "-f", "-qq", "-y", "-s", "4096", "-o", &trace, "-e", calls,
        ];
        let _ = fs::remove_file(folder.path("audit"));
        let mut run = watch_wrapped(&strace, &service, &folder.path("audit"), &["--until-idle"]);
        wait_for_approval(&mut run, "a");
        service.show(3, &[]);
        let finished = run.finish().with_code(0);
        (!finished.stderr.contains("was not synced within")).then_some(())
    });
    let calls = lines(&trace);
    let first = |what: &str, passes: &dyn Fn(&str) -> bool| {
        calls
            .iter()
            .position(|call| passes(call))
            .unwrap_or_else(|| panic!("no {what}: {calls:#?}"))
    };
    let of_audit = r#"/audit>, "{\"record\":\"decision\""#;
    let decision = first("decision", &|call| call.contains(of_audit));
    let sync = first("sync", &|call| {
        call.contains("fdatasync(") && call.contains("/audit>")
    });
    let synced = first("end of the sync", &|call| {
        call.contains("fdatasync") && call.ends_with("= 0")
    });
    let posted = first("POST", &|call| {
        call.contains("POST /metadata/scheduledevents")
    });
    assert!(
        decision < sync && sync <= synced && synced < posted,
        "{calls:#?}"
    );
}

#[test]
fn a_disk_that_hangs_delays_an_approval_by_two_seconds_and_no_poll_after_it() {
    let folder = Folder::new();
    let audit = folder.path("audit");
    let service = FakeService::start();
    let hang = [
        "strace",
        "-f",
        "-qq",
        "-o",
        "/dev/null",
        "-e",
        "inject=fdatasync:delay_enter=600000000",
    ];
    let hang = [&hang[..], ENDS_WITH_STRACE].concat();
    let mut run = watch_wrapped(&hang, &service, &audit, &[]);
    service.await_polls(2);
    service.show(2, &[freeze("a")]);
    run.change("scheduled", "a");
    // Far sooner than the disk answers.
    wait_for_approval(&mut run, "a");
    run.wait_for_stderr("warning: the audit file was not synced within 2 seconds");
    service.await_polls(5);
    assert_eq!(service.posted(), ["a"]);
}

#[test]
fn a_refused_thread_is_tried_again_and_nothing_is_lost() {
    let folder = Folder::new();
    let (audit, trace) = (folder.path("audit"), folder.path("trace"));
    let service = FakeService::start();
    service.show(2, &[freeze("a")]);
    // The first thread that the program starts is the one that writes the file.
    let refuse = "inject=clone,clone3:error=EAGAIN:when=1";
    let strace = [
        "strace",
        "-f",
        "-qq",
        "-o",
        &trace,
        "-e",
        "trace=clone,clone3",
        "-e",
        refuse,
    ];
    let mut run = watch_wrapped(&strace, &service, &audit, &["--until-idle"]);
    wait_for_approval(&mut run, "a");
    let printed = run.records();
    eventually("all records in the file", || {
        let written: Vec<_> = read(&audit).0.into_iter().map(without_sequence).collect();
        written.starts_with(&printed).then_some(())
    });
    service.show(3, &[]);
    run.finish().with_code(0);
    assert!(lines(&trace).iter().any(|call| call.contains("INJECTED")));
}

#[test]
fn a_full_disk_stops_nothing_and_what_is_lost_is_a_gap() {
    let folder = Folder::new();
    let audit = folder.path("audit");
    let service = FakeService::start();
    service.show(2, &[freeze("a")]);
    let mut run = watch(&service, &audit);
    wait_for_approval(&mut run, "a");
    let length = eventually("the approval in the file", || {
        let found = read(&audit)
            .0
            .iter()
            .any(|line| line["record"] == "approval");
        found.then(|| fs::metadata(&audit).expect("the file").len())
    });
    // A part of the next line fits.
    run.limit_file_size(Some(length + 10));
    service.show(3, &[freeze("a"), freeze("b")]);
    wait_for_approval(&mut run, "b");
    run.wait_for_stderr("error: cannot write the audit file");
    // Two records for each event, twice the queue.
    let long = json!({ "Description": "x".repeat(4_000), "Resources": ["other"] });
    let mut events: Vec<_> = (0..250)
        .map(|number| with(freeze(&format!("other-{number}")), &long))
        .collect();
    events.extend([freeze("a"), freeze("b"), freeze("c")]);
    service.show(4, &events);
    wait_for_approval(&mut run, "c");
    assert!(fs::metadata(&audit).expect("the file").len() <= length + 10);
    run.limit_file_size(None);
    run.wait_for_stderr("the audit file is written again");
    run.wait_for_stderr("error: the audit file lacks ");
    let newest = run.records().pop().expect("a record");
    eventually("the last record in the file", || {
        let found = read(&audit).0.pop().expect("a line");
        let is_newest = found["record"] == "gap" || without_sequence(found) == newest;
        (is_newest || run.stderr().contains("dropped ")).then_some(())
    });
    run.terminate();
    let finished = run.finish().with_code(0);
    let printed = finished.records();

    let (found, invalid) = read(&audit);
    assert!(invalid.is_empty(), "{invalid:?}");
    assert_numbered(&found);
    let lost = |line: &Value| {
        line["lost"]
            .as_u64()
            .map(|lost| usize::try_from(lost).expect("a number"))
    };
    // On a busy machine, this process may read so slowly that the watcher drops output.
    let dropped: usize = finished
        .stderr
        .lines()
        .filter_map(|line| {
            line.split_once("dropped ")?
                .1
                .split_once(" records, because")?
                .0
                .parse::<usize>()
                .ok()
        })
        .sum();
    assert_eq!(
        found
            .iter()
            .map(|line| lost(line).unwrap_or(1))
            .sum::<usize>(),
        printed.len() + dropped
    );
    // Each record is in the file or in a gap, in order.
    let mut rest = printed.iter();
    for line in found.into_iter().filter(|_| dropped == 0) {
        if let Some(lost) = lost(&line) {
            assert!(lost > 0);
            rest.nth(lost - 1).expect("the last lost record");
        } else {
            assert_eq!(Some(&without_sequence(line)), rest.next());
        }
    }
}

#[test]
fn the_file_is_private_and_a_link_or_a_file_that_others_can_write_is_refused() {
    let folder = Folder::new();
    let (audit, precious) = (folder.path("audit"), folder.file("precious", "precious"));
    let service = FakeService::start();
    let refused = |text: &str| {
        let refused = watch(&service, &audit).finish().with_code(2);
        assert!(
            refused
                .stderr
                .starts_with(&format!("error: cannot use the audit file {audit}")),
            "{}",
            refused.stderr
        );
        assert!(refused.stderr.contains(text), "{}", refused.stderr);
        assert!(service.requests().is_empty());
    };
    for link in ["audit", "audit.1", "audit.4"] {
        symlink(&precious, folder.path(link)).expect("a link");
        refused("it is a link; give the path that it leads to");
        fs::remove_file(folder.path(link)).expect("a link");
    }
    assert!(
        !Path::new(&folder.path("audit.lock")).exists(),
        "a refused file leaves no lock"
    );
    symlink(&precious, folder.path("audit.lock")).expect("a link");
    refused("audit.lock");
    fs::remove_file(folder.path("audit.lock")).expect("a link");
    write_private(&audit, "");
    fs::set_permissions(&audit, fs::Permissions::from_mode(0o660)).expect("a mode");
    refused("it can be written by others (mode 0660); remove it");
    // Only root can change the owner of a file.
    if rustix::process::geteuid().is_root() {
        fs::set_permissions(&audit, fs::Permissions::from_mode(0o600)).expect("a mode");
        std::os::unix::fs::chown(&audit, Some(64_019), None).expect("a file to give away");
        refused("it belongs to the user 64019; remove it");
    }
    fs::remove_file(&audit).expect("a file");
    assert_eq!(fs::read_to_string(&precious).expect("a file"), "precious");

    let run = watch_wrapped(
        &["sh", "-c", "umask 0; exec \"$@\"", "sh"],
        &service,
        &audit,
        &[],
    );
    service.await_polls(1);
    for name in ["audit", "audit.lock"] {
        let mode = fs::metadata(folder.path(name))
            .expect("a file")
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
    let second = watch(&service, &audit).finish().with_code(2);
    let holder = format!(
        "the audit file {audit} is in use by process {}; stop that process",
        run.id()
    );
    assert!(second.stderr.contains(&holder), "{}", second.stderr);
}

#[test]
fn a_dry_run_writes_no_audit_file() {
    let folder = Folder::new();
    let audit = folder.path("audit");
    let service = FakeService::start();
    service.show(2, &[freeze("a")]);
    let mut run = watch_wrapped(&["env"], &service, &audit, &["--dry-run"]);
    run.change("scheduled", "a");
    service.await_polls(2);
    run.terminate();
    run.finish().with_code(0);
    assert!(
        !Path::new(&audit).exists() && folder.names().is_empty(),
        "{:?}",
        folder.names()
    );
}

#[test]
fn a_file_that_is_no_audit_file_is_refused_and_not_changed() {
    let folder = Folder::new();
    let service = FakeService::start();
    let audit = folder.path("audit");
    let rotated = folder.path("audit.1");
    let watch_with = |path: &str, content: &str, code| {
        fs::write(path, content).expect("a file");
        fs::set_permissions(path, fs::Permissions::from_mode(0o644)).expect("a mode");
        let arguments = [
            "watch",
            "--endpoint",
            &service.url(),
            "--audit",
            &audit,
            "--max-polls",
            "1",
        ];
        crate::support::run(&arguments).with_code(code)
    };
    for path in [&audit, &rotated] {
        for content in ["127.0.0.1 localhost\n", "{\"name\":\"x\"}\n", "x"] {
            let finished = watch_with(path, content, 2);
            let text =
                format!("{path}: it is no audit file, and is not changed; choose another path");
            assert!(finished.stderr.contains(&text), "{}", finished.stderr);
            assert_eq!(fs::read_to_string(path).expect("the file"), content);
            assert_eq!(
                fs::metadata(path).expect("the file").permissions().mode() & 0o777,
                0o644
            );
            assert_eq!(folder.names().len(), 1, "{:?}", folder.names());
        }
        fs::remove_file(path).expect("a file");
    }
    // A crash may leave a part of the first line, and zeros where the disk lost data.
    for content in ["", "{\"rec", "\0\0\0{\"record\":\"ch"] {
        watch_with(&audit, content, 0);
    }
}
