//! The state file where it cannot be written, or is not what was written: the watch says so and goes on, the file is the
//! old one or the new one, and nobody else reads it.
//!
//! What needs a file system of its own is in `mounts.rs`.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use scheduled_events::imds::{API_VERSION, Imds};
use scheduled_events::state::{Found, StateFile};
use scheduled_events::watch::{Options, Watch};
use scheduled_events_core::Policy;

use crate::support::{
    Folder, STATE_NOT_WRITTEN, Stage, VM, approved, command, eventually, freeze, started, watch_behind,
};

/// The state of a run that has approved an event, as a real one wrote it.
fn real_state(folder: &Folder) -> Vec<u8> {
    let service = Stage::start();
    service.show(2, &[freeze("a")]);
    let state = folder.path("real");
    let mut run = watch_behind(&["env"], &service, &state);
    approved(&mut run, "a");
    run.kill();
    fs::read(state).expect("a state file")
}

/// Opens a state file as a watch does.
fn take_up(path: &Path) -> Found {
    // Another test that starts a command just then may hold the lock for a moment: until its child has become that command.
    let (file, found) = eventually("a state file", || StateFile::open(path).ok());
    let copy = match &found {
        Found::Damaged { set_aside, why } => Found::Damaged { set_aside: set_aside.clone(), why: why.clone() },
        Found::Nothing => Found::Nothing,
        Found::State(state) => Found::State(state.clone()),
    };
    let options = Options {
        api_version: API_VERSION.to_owned(),
        vm_names: vec![VM.to_owned()],
        policy: Policy::sample(),
        interval: std::time::Duration::from_secs(1),
        dry_run: false,
        until_idle: false,
        max_polls: None,
        timeout: None,
    };
    let imds = Imds::new("http://127.0.0.1:9", API_VERSION, false).expect("an endpoint");
    Watch::new(imds, options, Some((file, found))).map(drop).expect("a watch begins with whatever was found");
    copy
}

#[test]
fn a_real_state_file_cut_off_at_any_byte_or_changed_in_any_is_set_aside_and_kept() {
    let folder = Folder::new();
    let whole = real_state(&folder);
    let path = PathBuf::from(folder.path("state"));
    let cut = (0..whole.len()).map(|length| whole[..length].to_vec());
    let changed = (0..whole.len()).map(|place| {
        let mut changed = whole.clone();
        changed[place] ^= 1;
        changed
    });
    for (number, content) in cut.chain(changed).enumerate() {
        fs::write(&path, &content).expect("a file");
        let Found::Damaged { set_aside, .. } = take_up(&path) else {
            panic!("{number} of {} was trusted", whole.len())
        };
        assert_eq!(fs::read(&set_aside).expect("it is kept"), content);
        fs::remove_file(set_aside).expect("a file");
    }
    fs::write(&path, &whole).expect("a file");
    assert!(matches!(take_up(&path), Found::State(state) if state.events.len() == 1));
}

#[test]
fn a_limit_on_the_size_of_files_fails_the_write_and_not_the_watch() {
    let folder = Folder::new();
    let state = folder.path("state");
    let service = Stage::start();
    // Room for a state without events, and for none with one.
    let size = real_state(&folder).len();
    let limited = format!("ulimit -f {}; exec \"$@\"", size / 512);
    let mut run = watch_behind(&["sh", "-c", &limited, "sh"], &service, &state);
    service.await_polls(2);
    let before = fs::read(&state).expect("a state file");
    assert!(before.len() < size / 512 * 512, "the limit leaves room for a state without events");
    service.show(2, &[freeze("a")]);
    run.says(STATE_NOT_WRITTEN);
    approved(&mut run, "a");
    service.await_polls(3);
    assert!(run.is_running());
    assert_eq!(fs::read(&state).expect("the old file"), before);
}

/// Runs what follows as somebody who may not write everywhere, as root may.
fn as_somebody() -> Vec<&'static str> {
    if rustix::process::geteuid().is_root() {
        vec!["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--"]
    } else {
        vec!["env"]
    }
}

/// A folder of that somebody's, with the program in it, which may lie where only root looks.
fn somebodys(folder: &Folder) -> (String, String) {
    let program = folder.path("scheduled-events");
    fs::copy(command::<&str>(&[]).get_program(), &program).expect("a program");
    let state = folder.path("private");
    fs::create_dir(&state).expect("a folder");
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(&state, Some(65534), Some(65534)).expect("a folder to give away");
    }
    fs::set_permissions(folder.as_path(), Permissions::from_mode(0o755)).expect("a folder");
    (program, state)
}

#[test]
fn in_a_read_only_folder_it_is_refused_at_once_and_one_that_becomes_so_stops_nothing() {
    let folder = Folder::new();
    let (program, private) = somebodys(&folder);
    let state = format!("{private}/state");
    let mode = |mode| fs::set_permissions(&private, Permissions::from_mode(mode)).expect("a mode");
    let service = Stage::start();
    let start = || {
        let mut wrapper = as_somebody();
        // The wrapper is handed the program, and runs its copy in its place.
        let instead = format!("shift; exec {program} \"$@\"");
        wrapper.extend(["sh", "-c", &instead, "sh"]);
        watch_behind(&wrapper, &service, &state)
    };
    mode(0o555);
    let refused = start().finish().with_code(2);
    assert!(refused.stderr.starts_with(&format!("error: cannot use the state file {state}: ")), "{}", refused.stderr);
    assert!(refused.stderr.contains("denied"), "{}", refused.stderr);
    assert!(service.requests().is_empty());

    mode(0o755);
    let mut run = start();
    service.await_polls(2);
    let before = fs::read(&state).expect("a state file");
    mode(0o555);
    service.show(2, &[freeze("a")]);
    run.says(STATE_NOT_WRITTEN);
    approved(&mut run, "a");
    assert_eq!(fs::read(&state).expect("the old file"), before);
    // It tries again with the next change.
    mode(0o755);
    service.show(3, &[started("a")]);
    eventually("a state file", || (fs::read(&state).expect("a file") != before).then_some(()));
    run.kill();
    let run = start();
    run.says("taking up the last run's state, 1 events");
}

#[test]
fn every_file_beside_the_state_is_for_its_user_alone_whatever_the_umask_is() {
    let folder = Folder::new();
    fs::create_dir(folder.path("private")).expect("a folder");
    let state = folder.path("private/state");
    fs::write(&state, "damaged").expect("a file");
    fs::set_permissions(&state, Permissions::from_mode(0o600)).expect("a mode");
    let service = Stage::start();
    service.show(2, &[freeze("a")]);
    let mut run = watch_behind(&["sh", "-c", "umask 0; exec \"$@\"", "sh"], &service, &state);
    approved(&mut run, "a");
    service.await_polls(2);
    let mut seen = Vec::new();
    for entry in fs::read_dir(folder.path("private")).expect("a folder") {
        let entry = entry.expect("an entry");
        let mode = entry.metadata().expect("a file").permissions().mode() & 0o777;
        seen.push((entry.file_name().into_string().expect("a name"), mode));
    }
    seen.sort();
    let private = |name: &str| (name.to_owned(), 0o600);
    assert_eq!(seen, [private("state"), private("state.damaged-1"), private("state.lock")]);
}
