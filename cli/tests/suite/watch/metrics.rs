//! The metrics file of `watch`: written, replaced, readable, and no reason to stop.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::support::{
    FakeService, Folder, Run, VM, command, eventually, freeze, run, started, wrap,
};

fn watch(service: &FakeService, file: &str, more: &[&str]) -> Run {
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
    // A file that everybody may read, whatever the umask is.
    Run::start(wrap(
        &["sh", "-c", "umask 077; exec \"$@\"", "sh"],
        &command(&[&every[..], &["--metrics-file", file], more].concat()),
    ))
}

/// Waits until the file has this line.
#[track_caller]
fn await_line(file: &str, line: &str) {
    let has = || {
        fs::read_to_string(file)
            .ok()
            .filter(|text| text.lines().any(|found| found == line))
    };
    eventually(line, has);
}

#[test]
fn a_watcher_writes_what_it_sees_and_does() {
    let folder = Folder::new();
    let file = folder.path("scheduled-events.prom");
    let service = FakeService::start();
    service.show(1, &[freeze("a\"b")]);
    let run = watch(&service, &file, &[]);
    await_line(
        &file,
        r#"scheduled_events_approvals_total{result="accepted"} 1"#,
    );
    await_line(
        &file,
        r#"scheduled_events_event_info{event_id="a\"b",type="Freeze",status="Scheduled"} 1"#,
    );
    await_line(
        &file,
        r#"scheduled_events_events{type="Freeze",status="Scheduled",mine="true"} 1"#,
    );
    assert_eq!(
        fs::metadata(&file).expect("the file").permissions().mode() & 0o777,
        0o644
    );
    service.show(2, &[started("a\"b")]);
    await_line(
        &file,
        r#"scheduled_events_events{type="Freeze",status="Started",mine="true"} 1"#,
    );
    service.show(3, &[]);
    // The last change is written when the watcher stops, if not before.
    eventually("the end of the event", || {
        run.stdout().contains("\"completed\"").then_some(())
    });
    run.terminate();
    run.finish().with_code(0);
    let text = fs::read_to_string(&file).expect("the file");
    assert!(
        text.contains("scheduled_events_interruption_seconds_count 1\n"),
        "{text}"
    );
    assert!(
        text.contains("scheduled_events_changes_total{change=\"completed\"} 1\n"),
        "{text}"
    );
    assert!(!text.contains("event_id"), "{text}");
    assert_eq!(folder.names(), ["scheduled-events.prom"]);
}

#[test]
fn a_file_that_cannot_be_written_is_reported_once_and_stops_nothing() {
    let folder = Folder::new();
    let inner = folder.path("inner");
    fs::create_dir(&inner).expect("a folder");
    let service = FakeService::start();
    let mut run = watch(&service, &format!("{inner}/a.prom"), &[]);
    await_line(
        &format!("{inner}/a.prom"),
        "scheduled_events_out_of_service 0",
    );
    fs::remove_dir_all(&inner).expect("no folder");
    run.wait_for_stderr("warning: cannot write the metrics file: ");
    service.show(1, &[freeze("a")]);
    run.change("scheduled", "a");
    service.await_polls(15);
    fs::create_dir(&inner).expect("a folder");
    run.wait_for_stderr("note: the metrics file is written again");
    await_line(
        &format!("{inner}/a.prom"),
        r#"scheduled_events_changes_total{change="scheduled"} 1"#,
    );
    run.terminate();
    let finished = run.finish().with_code(0);
    assert_eq!(
        finished
            .stderr
            .matches("cannot write the metrics file")
            .count(),
        1,
        "{}",
        finished.stderr
    );
}

#[test]
fn a_dry_run_writes_no_metrics_and_a_useless_path_is_refused() {
    let folder = Folder::new();
    let (file, link) = (folder.path("a.prom"), folder.path("link.prom"));
    std::os::unix::fs::symlink(&file, &link).expect("a link");
    let service = FakeService::start();
    let url = service.url();
    let every = [
        "watch",
        "--endpoint",
        &url,
        "--vm-name",
        VM,
        "--max-polls",
        "1",
        "--metrics-file",
    ];
    run(&[&every[..], &[&file, "--dry-run"]].concat()).with_code(0);
    assert_eq!(folder.names(), ["link.prom"]);
    let refused = run(&[&every[..], &[&link]].concat()).with_code(2);
    assert!(
        refused.stderr.contains("it is a link"),
        "{}",
        refused.stderr
    );
    let wrong_name = run(&[&every[..], &[&folder.path("a.txt")]].concat()).with_code(0);
    assert!(
        wrong_name
            .stderr
            .contains("warning: node_exporter reads only files that end in .prom"),
        "{}",
        wrong_name.stderr
    );
}
