//! What Linux tells about a process.

use std::fs;

/// The most resident memory that a process has had, in KiB.
pub fn peak_kib(process: &str) -> Option<u64> {
    memory_kib(process, "VmHWM:")
}

/// The resident memory that a process has now, in KiB.
pub fn resident_kib(process: &str) -> Option<u64> {
    memory_kib(process, "VmRSS:")
}

fn memory_kib(process: &str, what: &str) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix(what))?.trim().strip_suffix(" kB")?.parse().ok()
}

/// The processor time of all threads that a process has now, in nanoseconds.
pub fn processor_ns(process: &str) -> Option<u64> {
    let threads = fs::read_dir(format!("/proc/{process}/task")).ok()?;
    let used = threads.filter_map(|thread| {
        let told = fs::read_to_string(thread.ok()?.path().join("schedstat")).ok()?;
        told.split(' ').next()?.parse::<u64>().ok()
    });
    Some(used.sum())
}
