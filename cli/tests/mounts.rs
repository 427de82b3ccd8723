//! The state file on a full and on a read-only file system, and `doctor`, which finds both. `make test-mounts` runs it, since it
//! needs to mount.

#[path = "suite/support/mod.rs"]
mod support;

use std::fs;
use std::io::Write;
use std::path::PathBuf;

use support::{
    FakeService, Folder, Run, STATE_NOT_WRITTEN, command, eventually, freeze, started,
    wait_for_approval, watch_wrapped, wrap,
};

/// A wrapper that mounts a file system of 64 KiB with these options for its program.
fn on_a_small_disk(place: &str, options: &str, then: &str) -> Vec<String> {
    let unshare = std::env::var("UNSHARE").expect("run this test with `make test-mounts`");
    let script = format!("mount -t tmpfs -o size=64k{options} none {place} && {then} exec \"$@\"");
    unshare
        .split_whitespace()
        .map(str::to_owned)
        .chain(["sh".into(), "-c".into(), script, "sh".into()])
        .collect()
}

#[test]
fn a_full_disk_stops_nothing_at_the_start_and_later() {
    let folder = Folder::new();
    let place = folder.path("disk");
    fs::create_dir(&place).expect("a folder");
    let state = format!("{place}/state");
    let service = FakeService::start();
    let full = on_a_small_disk(
        &place,
        "",
        &format!("cat /dev/zero > {place}/filler 2>/dev/null;"),
    );
    let full: Vec<_> = full.iter().map(String::as_str).collect();
    let run = watch_wrapped(&full, &service, &state);
    run.wait_for_stderr(STATE_NOT_WRITTEN);
    run.wait_for_stderr("No space left on device");
    service.await_polls(2);
    run.kill();

    let small = on_a_small_disk(&place, "", "");
    let small: Vec<_> = small.iter().map(String::as_str).collect();
    let mut run = watch_wrapped(&small, &service, &state);
    service.await_polls(2);
    // The file system as the watcher sees it.
    let inside = PathBuf::from(format!("/proc/{}/root{place}", run.id()));
    let before = fs::read(inside.join("state")).expect("a state file");
    let mut filler = fs::File::create(inside.join("filler")).expect("a file");
    while filler.write_all(&[0; 512]).is_ok() {}
    service.show(2, &[freeze("a")]);
    run.wait_for_stderr(STATE_NOT_WRITTEN);
    run.wait_for_stderr("No space left on device");
    wait_for_approval(&mut run, "a");
    assert_eq!(
        fs::read(inside.join("state")).expect("the old file"),
        before
    );
    // Once there is space again, the file is written, and a restart has the whole state.
    drop(filler);
    fs::remove_file(inside.join("filler")).expect("a file");
    service.show(3, &[started("a")]);
    run.change("started", "a");
    let after = eventually("a state file", || {
        fs::read(inside.join("state"))
            .ok()
            .filter(|state| *state != before)
    });
    run.kill();
    let kept = folder.file("kept", after);
    let run = watch_wrapped(&["env"], &service, &kept);
    run.wait_for_stderr("restored the state of the last run: 1 event");
    service.await_polls(3);
    assert_eq!(service.posted(), ["a"]);
}

#[test]
fn a_read_only_disk_is_rejected_at_the_start_even_for_root() {
    let folder = Folder::new();
    let place = folder.path("disk");
    fs::create_dir(&place).expect("a folder");
    let service = FakeService::start();
    let wrapper = on_a_small_disk(&place, ",ro", "");
    let wrapper: Vec<_> = wrapper.iter().map(String::as_str).collect();
    let rejected = watch_wrapped(&wrapper, &service, &format!("{place}/state"))
        .finish()
        .with_code(2);
    assert!(
        rejected
            .stderr
            .starts_with("error: cannot use the state file"),
        "{}",
        rejected.stderr
    );
    assert!(
        rejected.stderr.contains("Read-only file system"),
        "{}",
        rejected.stderr
    );
    assert_eq!(rejected.stderr.lines().count(), 1, "{}", rejected.stderr);
    assert!(service.requests().is_empty());
}

#[test]
fn doctor_finds_a_full_disk_and_a_read_only_one() {
    let folder = Folder::new();
    let place = folder.path("disk");
    fs::create_dir(&place).expect("a folder");
    let service = FakeService::start();
    let (url, state) = (service.url(), format!("{place}/state"));
    let found = |options: &str, then: &str| {
        let plain = command(&["doctor", "--json", "--endpoint", &url, "--state", &state]);
        let wrapper = on_a_small_disk(&place, options, then);
        let finished = Run::start(wrap(&wrapper, &plain)).finish();
        let mut records = finished.records();
        records.retain(|finding| finding["check"] == "state");
        (finished.code, records.remove(0))
    };
    let (code, full) = found("", &format!("cat /dev/zero > {place}/filler 2>/dev/null;"));
    assert_eq!(
        (code, &full["outcome"]),
        (Some(1), &"fail".into()),
        "{full}"
    );
    assert!(
        full["found"].to_string().contains("0 KiB are free there"),
        "{full}"
    );
    let (code, read_only) = found(",ro", "");
    assert_eq!((code, &read_only["outcome"]), (Some(1), &"fail".into()));
    assert!(
        read_only["found"]
            .to_string()
            .contains("Read-only file system"),
        "{read_only}"
    );
}
