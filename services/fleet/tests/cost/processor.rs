//! Processor time of threads and processes, as Linux counts it in nanoseconds.

use std::fs;
use std::path::Path;
use std::time::Duration;

/// The time of this thread so far: of the daemons that run in it, and of the proxy before their
/// store.
pub(crate) fn of_this_thread() -> Duration {
    of_task(Path::new("/proc/thread-self")).expect("a thread")
}

/// The time of this process and its children so far.
pub(crate) fn of_process(id: u32) -> Duration {
    let Ok(tasks) = fs::read_dir(format!("/proc/{id}/task")) else {
        return Duration::ZERO;
    };
    let of_one = |folder: fs::DirEntry| {
        let children = fs::read_to_string(folder.path().join("children")).unwrap_or_default();
        let children = children
            .split_whitespace()
            .filter_map(|child| child.parse().ok())
            .map(of_process);
        of_task(&folder.path()).unwrap_or_default() + children.sum::<Duration>()
    };
    tasks.flatten().map(of_one).sum()
}

fn of_task(folder: &Path) -> Option<Duration> {
    let text = fs::read_to_string(folder.join("schedstat")).ok()?;
    text.split(' ')
        .next()?
        .parse()
        .ok()
        .map(Duration::from_nanos)
}
