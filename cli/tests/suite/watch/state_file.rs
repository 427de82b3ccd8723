//! The state file under adverse conditions: it cannot be written, or is damaged. The watcher
//! reports that and continues, the file is the old one or the new one, and other users cannot read
//! it.
//!
//! `mounts.rs` has the tests that need a file system of their own.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use scheduled_events::state::{LoadResult, StateFile};
use scheduled_events::watch::Watcher;
use serde_json::json;

use crate::support::{
    FakeService, Folder, STATE_NOT_WRITTEN, eventually, freeze, give_away, started, unprivileged,
    wait_for_approval, watch_wrapped, with, write_private,
};

/// The state of a run that has approved an event, as the program wrote it.
fn real_state(folder: &Folder) -> Vec<u8> {
    let service = FakeService::start();
    service.show(2, &[freeze("a")]);
    let state = folder.path("real");
    let mut run = watch_wrapped(&["env"], &service, &state);
    wait_for_approval(&mut run, "a");
    run.kill();
    fs::read(state).expect("a state file")
}

/// Opens a state file. A test that starts a command may hold the lock until its child executes the
/// program.
fn open(path: &Path) -> (StateFile, LoadResult) {
    eventually("a state file", || StateFile::open(path).ok())
}

/// Creates a watcher from the contents of the state file.
fn load(path: &Path) -> LoadResult {
    let (file, loaded) = open(path);
    let watcher = Watcher::builder()
        .endpoint("http://127.0.0.1:9")
        .state(Some((file, loaded.clone())))
        .build();
    drop(watcher.unwrap_or_else(|error| panic!("{loaded:?}: {error}")));
    loaded
}

#[test]
fn a_truncated_or_changed_state_file_is_quarantined() {
    let folder = Folder::new();
    let whole = real_state(&folder);
    let path = PathBuf::from(folder.path("state"));
    let truncated = (0..whole.len()).map(|length| whole[..length].to_vec());
    let changed = (0..whole.len()).map(|index| {
        let mut changed = whole.clone();
        changed[index] ^= 1;
        changed
    });
    // The unit tests try every byte.
    for (number, content) in truncated.chain(changed).step_by(17).enumerate() {
        write_private(&path, &content);
        // A watcher writes and syncs the file, which takes long on some disks.
        let loaded = if number % 8 == 0 {
            load(&path)
        } else {
            open(&path).1
        };
        let LoadResult::Damaged { quarantine, .. } = loaded else {
            panic!("number {number} was accepted")
        };
        assert_eq!(
            fs::read(&quarantine).expect("the quarantined file"),
            content
        );
        fs::remove_file(quarantine).expect("a file");
    }
    write_private(&path, &whole);
    assert!(matches!(load(&path), LoadResult::State(state) if state.events.len() == 1));
}

#[test]
fn a_write_beyond_the_file_size_limit_fails_without_ending_the_watcher() {
    let folder = Folder::new();
    let state = folder.path("state");
    let service = FakeService::start();
    // 512 bytes: enough for a state without events, and too small for one with this event.
    let mut run = watch_wrapped(
        &["sh", "-c", "ulimit -f 1; exec \"$@\"", "sh"],
        &service,
        &state,
    );
    service.await_polls(2);
    let before = fs::read(&state).expect("a state file");
    service.show(
        2,
        &[with(
            freeze("a"),
            &json!({ "Description": "x".repeat(512) }),
        )],
    );
    run.wait_for_stderr(STATE_NOT_WRITTEN);
    wait_for_approval(&mut run, "a");
    service.await_polls(3);
    assert!(run.is_running());
    assert_eq!(fs::read(&state).expect("the old file"), before);
}

/// A user who cannot write everywhere, unlike root.
const USER: &str = "65534";

#[test]
fn a_read_only_folder_is_rejected_at_the_start_and_stops_nothing_later() {
    let folder = Folder::new();
    let (program, private) = give_away(&folder, USER);
    let state = format!("{private}/state");
    let mode = |mode| fs::set_permissions(&private, Permissions::from_mode(mode)).expect("a mode");
    let service = FakeService::start();
    let start = || {
        let mut wrapper = unprivileged(USER);
        // The wrapper runs the copy in place of the program.
        let instead = format!("shift; exec {program} \"$@\"");
        wrapper.extend(["sh", "-c", &instead, "sh"].map(str::to_owned));
        watch_wrapped(&wrapper, &service, &state)
    };
    mode(0o555);
    let rejected = start().finish().with_code(2);
    assert!(
        rejected
            .stderr
            .starts_with(&format!("error: cannot use the state file {state}: ")),
        "{}",
        rejected.stderr
    );
    assert!(rejected.stderr.contains("denied"), "{}", rejected.stderr);
    assert!(service.requests().is_empty());

    mode(0o755);
    let mut run = start();
    service.await_polls(2);
    let before = fs::read(&state).expect("a state file");
    mode(0o555);
    service.show(2, &[freeze("a")]);
    run.wait_for_stderr(STATE_NOT_WRITTEN);
    wait_for_approval(&mut run, "a");
    assert_eq!(fs::read(&state).expect("the old file"), before);
    // The write is repeated.
    mode(0o755);
    service.show(3, &[started("a")]);
    eventually("a state file", || {
        (fs::read(&state).expect("a file") != before).then_some(())
    });
    run.kill();
    let run = start();
    run.wait_for_stderr("restored the state of the last run: 1 event");
}

#[test]
fn the_state_file_and_its_siblings_are_private_under_any_umask() {
    let folder = Folder::new();
    fs::create_dir(folder.path("private")).expect("a folder");
    let state = folder.path("private/state");
    write_private(&state, "damaged");
    let service = FakeService::start();
    service.show(2, &[freeze("a")]);
    let mut run = watch_wrapped(
        &["sh", "-c", "umask 0; exec \"$@\"", "sh"],
        &service,
        &state,
    );
    wait_for_approval(&mut run, "a");
    service.await_polls(2);
    let mut seen = Vec::new();
    for entry in fs::read_dir(folder.path("private")).expect("a folder") {
        let entry = entry.expect("an entry");
        let mode = entry.metadata().expect("a file").permissions().mode() & 0o777;
        seen.push((entry.file_name().into_string().expect("a name"), mode));
    }
    seen.sort();
    let private = |name: &str| (name.to_owned(), 0o600);
    assert_eq!(
        seen,
        [
            private("state"),
            private("state.damaged-1"),
            private("state.lock"),
            private("state.sight")
        ]
    );
}

#[test]
fn large_documents_leave_a_small_state_file_that_a_restart_reads() {
    let folder = Folder::new();
    let state = folder.path("state");
    let service = FakeService::start();
    // Each of these characters takes six bytes in JSON.
    let long = "\u{1b}".repeat(1_000);
    let other = |number| json!({ "EventId": format!("other-{number}"), "Resources": [long], "Description": long });
    let mut events: Vec<_> = (0..600)
        .map(|number| with(freeze(""), &other(number)))
        .collect();
    events.push(freeze("mine"));
    service.show(2, &events);
    let mut run = watch_wrapped(&["env"], &service, &state);
    wait_for_approval(&mut run, "mine");
    service.await_polls(2);
    run.kill();
    let length = fs::metadata(&state).expect("a state file").len();
    assert!(length < 1 << 20, "{length}");
    service.show(3, &[]);
    let mut run = watch_wrapped(&["env"], &service, &state);
    run.wait_for_stderr("restored the state of the last run: 601 events");
    assert_eq!(
        run.change("ended", "mine")["description"],
        freeze("mine")["Description"]
    );
}

#[test]
fn a_replaced_lock_ends_writing_and_nothing_else() {
    let folder = Folder::new();
    let state = folder.path("state");
    let service = FakeService::start();
    let mut run = watch_wrapped(&["env"], &service, &state);
    service.await_polls(2);
    let before = fs::read(&state).expect("a state file");
    fs::remove_file(format!("{state}.lock")).expect("a lock");
    write_private(format!("{state}.lock"), "12345     \n");
    // The watcher notices it although it has nothing to write.
    run.wait_for_stderr("state.lock was replaced, so another process may use the state file");
    service.show(2, &[freeze("a")]);
    wait_for_approval(&mut run, "a");
    service.await_polls(3);
    assert_eq!(fs::read(&state).expect("the state file"), before);
}

#[test]
fn a_state_file_that_another_user_wrote_starts_no_command() {
    // Only root can change the owner of a file, and only for root a wrong owner is dangerous.
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let folder = Folder::new();
    let state = folder.path("state");
    let forged = real_state(&folder);
    write_private(&state, &forged);
    std::os::unix::fs::chown(&state, Some(64_019), Some(64_019)).expect("a file to give away");
    let service = FakeService::start();
    let refused = watch_wrapped(&["env"], &service, &state)
        .finish()
        .with_code(2);
    assert!(
        refused
            .stderr
            .contains("it belongs to the user 64019; remove it"),
        "{}",
        refused.stderr
    );
    assert_eq!(fs::read(&state).expect("the file"), forged);
    assert!(service.requests().is_empty());
}

#[test]
fn a_disk_that_is_full_at_the_first_start_is_reported_and_ends_nothing() {
    let folder = Folder::new();
    let state = folder.path("state");
    let service = FakeService::start();
    service.show(2, &[freeze("a")]);
    // No byte can be written to a file, not even to the lock.
    let mut run = watch_wrapped(
        &["sh", "-c", "ulimit -f 0; exec \"$@\"", "sh"],
        &service,
        &state,
    );
    run.wait_for_stderr(STATE_NOT_WRITTEN);
    wait_for_approval(&mut run, "a");
    assert!(run.is_running());
    assert_eq!(
        fs::metadata(folder.path("state.lock"))
            .expect("a lock")
            .len(),
        0
    );
    // The file is locked all the same.
    let second = watch_wrapped(&["env"], &service, &state)
        .finish()
        .with_code(2);
    assert!(
        second
            .stderr
            .contains("is in use by another process; stop that process"),
        "{}",
        second.stderr
    );
}
