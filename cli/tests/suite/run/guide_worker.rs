//! The worker in the guide's page on Spot machines, with its checkpoint command and the file that
//! `scheduled-events-run@` reads, under `run`.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use rustix::process::Signal;
use serde_json::Value;

use super::preempt;
use crate::guide::blocks::blocks;
use crate::support::{FakeService, Folder, PROGRAM, Run, VM, eventually, launch, quoted, signal};

/// The folders of the system on the page: here, all are in the folder of the test.
const FOLDERS: [&str; 3] = [
    "usr/local/bin",
    "var/lib/scheduled-events-run",
    "etc/scheduled-events/run",
];

/// Waits until the worker catches signal 10.
const AWAIT_HANDLER: &str = "until grep -q '^SigCgt:.*[2367abef]..$' /proc/$SCHEDULED_EVENTS_WORKER_PID/status; do sleep 0.05; done; ";

/// Writes the files that the page shows. The work takes less time.
fn install(folder: &Folder) {
    for name in FOLDERS {
        fs::create_dir_all(folder.path(name)).expect("a folder");
    }
    for block in blocks("docs/use/spot.md") {
        let Some(name) = block.file() else { continue };
        let here = folder.as_path().display().to_string();
        let text = FOLDERS.into_iter().fold(block.text.clone(), |text, name| {
            text.replace(&format!("/{name}"), &format!("{here}/{name}"))
        });
        // On a busy machine, Python may not catch signals yet when the first checkpoint is due, and would end.
        let text = text
            .replace("sleep(0.05)", "sleep(0.02)")
            .replace("kill -USR1", &format!("{AWAIT_HANDLER}kill -USR1"));
        let file = folder.file(name, text);
        fs::set_permissions(file, fs::Permissions::from_mode(0o755)).expect("a mode");
    }
}

/// Starts it as the unit does: systemd splits WORKER and OPTIONS as a shell does. Checkpoints follow
/// each other sooner than on the page.
fn start(folder: &Folder, service: &FakeService) -> Run {
    let settings = fs::read_to_string(folder.path("etc/scheduled-events/run/sum.conf"))
        .expect("the file of the page");
    let setting = |name: &str| {
        let mut lines = settings.lines();
        lines
            .find_map(|line| line.strip_prefix(&format!("{name}=")))
            .unwrap_or_else(|| panic!("no {name} in {settings}"))
    };
    let line = format!(
        "exec {} run --endpoint {} --interval 200ms --vm-name {VM} --state {} {} -- {}",
        quoted(PROGRAM),
        service.url(),
        folder.path("var/lib/scheduled-events-run/sum.state"),
        setting("OPTIONS").replace("5min", "2s"),
        setting("WORKER"),
    );
    let mut command = launch("sh");
    command.args(["-c", &line]);
    Run::start(command)
}

/// The number with which the worker would go on.
fn next(folder: &Folder) -> u64 {
    fs::read_to_string(folder.path("var/lib/scheduled-events-run/sum.json"))
        .ok()
        .and_then(|text| serde_json::from_str::<Value>(&text).ok())
        .and_then(|state| state["next"].as_u64())
        .unwrap_or(1)
}

#[test]
fn the_worker_in_the_guide_goes_on_from_its_checkpoint_after_an_eviction_and_after_a_kill() {
    let (folder, service) = (Folder::new(), FakeService::start());
    install(&folder);
    let run = start(&folder, &service);
    let beyond = |number: u64| {
        eventually("a later checkpoint", || {
            Some(next(&folder)).filter(|next| *next > number)
        })
    };
    let regular = beyond(1);
    service.show(2, &[preempt("a")]);
    eventually("an approval", || (service.posted() == ["a"]).then_some(()));
    let last = next(&folder);
    assert!(last > regular, "{last} after {regular}\n{}", run.stderr());
    assert!(last < 1000, "the worker was done before the eviction");
    service.show(3, &[]);
    let after_eviction = beyond(last);
    signal(run.id(), Signal::KILL);
    let killed = run.finish();
    // The next run ends what the killed one has left.
    let run = start(&folder, &service);
    beyond(after_eviction);
    let finished = run.finish().with_code(0);
    assert_eq!(finished.stdout, "500500\n", "{}", killed.stderr);
}
