//! The state file on a disk that is full, and on one that is read-only: run by `make test-mounts`, since it takes a mount.

#[path = "suite/support/mod.rs"]
mod support;

use std::fs;
use std::io::Write;
use std::path::PathBuf;

use support::{Folder, STATE_NOT_WRITTEN, Stage, approved, eventually, freeze, started, watch_behind};

/// A wrapper that gives what it runs a file system of its own at a place: 64 KiB, with these options.
fn on_a_small_disk(place: &str, options: &str, then: &str) -> Vec<String> {
    let unshare = std::env::var("UNSHARE").expect("`make test-mounts` runs this, and says how to get a mount");
    let script = format!("mount -t tmpfs -o size=64k{options} none {place} && {then} exec \"$@\"");
    unshare.split_whitespace().map(str::to_owned).chain(["sh".into(), "-c".into(), script, "sh".into()]).collect()
}

#[test]
fn a_full_disk_is_refused_at_once_and_one_that_becomes_full_stops_nothing() {
    let folder = Folder::new();
    let place = folder.path("disk");
    fs::create_dir(&place).expect("a folder");
    let state = format!("{place}/state");
    let service = Stage::start();
    let full = on_a_small_disk(&place, "", &format!("cat /dev/zero > {place}/filler 2>/dev/null;"));
    let full: Vec<_> = full.iter().map(String::as_str).collect();
    let refused = watch_behind(&full, &service, &state).finish().with_code(2);
    assert!(refused.stderr.contains("error: cannot"), "{}", refused.stderr);
    assert!(refused.stderr.contains("No space left on device"), "{}", refused.stderr);
    assert!(service.requests().is_empty());

    let small = on_a_small_disk(&place, "", "");
    let small: Vec<_> = small.iter().map(String::as_str).collect();
    let mut run = watch_behind(&small, &service, &state);
    service.await_polls(2);
    // The place as the watch sees it.
    let inside = PathBuf::from(format!("/proc/{}/root{place}", run.id()));
    let before = fs::read(inside.join("state")).expect("a state file");
    let mut filler = fs::File::create(inside.join("filler")).expect("a file");
    while filler.write_all(&[0; 512]).is_ok() {}
    service.show(2, &[freeze("a")]);
    run.says(STATE_NOT_WRITTEN);
    run.says("No space left on device");
    approved(&mut run, "a");
    assert_eq!(fs::read(inside.join("state")).expect("the old file"), before);
    // Once there is room again, it is written with the next change, and a restart knows all.
    drop(filler);
    fs::remove_file(inside.join("filler")).expect("a file");
    service.show(3, &[started("a")]);
    run.change("started", "a");
    let after = eventually("a state file", || fs::read(inside.join("state")).ok().filter(|state| *state != before));
    run.kill();
    let kept = folder.file("kept", after);
    let run = watch_behind(&["env"], &service, &kept);
    run.says("taking up the last run's state, 1 events");
    service.await_polls(3);
    assert_eq!(service.posted(), ["a"]);
}

#[test]
fn a_read_only_disk_is_refused_at_once_root_or_not() {
    let folder = Folder::new();
    let place = folder.path("disk");
    fs::create_dir(&place).expect("a folder");
    let service = Stage::start();
    let wrapper = on_a_small_disk(&place, ",ro", "");
    let wrapper: Vec<_> = wrapper.iter().map(String::as_str).collect();
    let refused = watch_behind(&wrapper, &service, &format!("{place}/state")).finish().with_code(2);
    assert!(refused.stderr.starts_with("error: cannot use the state file"), "{}", refused.stderr);
    assert!(refused.stderr.contains("Read-only file system"), "{}", refused.stderr);
    assert_eq!(refused.stderr.lines().count(), 1, "{}", refused.stderr);
    assert!(service.requests().is_empty());
}
