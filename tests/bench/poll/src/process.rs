//! Memory and processor time of a process, from Linux's /proc.

use std::fs;

/// The peak resident memory of a process, in KiB.
pub fn peak_kib(process: &str) -> Option<u64> {
    memory_kib(process, "VmHWM:")
}

/// The current resident memory of a process, in KiB.
pub fn resident_kib(process: &str) -> Option<u64> {
    memory_kib(process, "VmRSS:")
}

fn memory_kib(process: &str, what: &str) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    status
        .lines()
        .find_map(|line| line.strip_prefix(what))?
        .trim()
        .strip_suffix(" kB")?
        .parse()
        .ok()
}

/// The processor time of all current threads of a process, in nanoseconds.
pub fn processor_ns(process: &str) -> Option<u64> {
    let threads = fs::read_dir(format!("/proc/{process}/task")).ok()?;
    let used = threads.filter_map(|thread| {
        let statistics = fs::read_to_string(thread.ok()?.path().join("schedstat")).ok()?;
        statistics.split(' ').next()?.parse::<u64>().ok()
    });
    Some(used.sum())
}
