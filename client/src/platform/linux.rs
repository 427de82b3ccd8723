//! Linux: the processes that a command started, found in `/proc`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use rustix::process::{Pid, Signal, kill_process};

/// The processes that a command started, outside its process group too.
pub(super) struct Descendants {
    leader: Option<u32>,
    variable: Vec<u8>,
    /// The processes found so far and when they started, so that no signal reaches another process that has the id by now.
    found: BTreeMap<u32, u64>,
}

impl Descendants {
    pub(super) fn new(leader: Option<u32>, mark: &str) -> Self {
        Self {
            leader,
            variable: format!("{}={mark}", super::COMMAND_ID).into_bytes(),
            found: BTreeMap::new(),
        }
    }

    /// Searches for processes: children of the leader or of processes found before, and those with the variable.
    pub(super) fn find(&mut self, leader_runs: bool) {
        self.found
            .retain(|process, start| process_start(*process) == Some(*start));
        let mut family: BTreeSet<u32> = self.found.keys().copied().collect();
        if leader_runs {
            family.extend(self.leader);
        }
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        let all: Vec<_> = numbers
            .filter_map(|process| Some((process, process_start(process)?, parent(process)?)))
            .collect();
        // A child's id can be lower than its parent's.
        let mut known = 0;
        while known != family.len() {
            known = family.len();
            let children = all
                .iter()
                .filter(|(.., parent)| family.contains(parent))
                .map(|(process, ..)| *process);
            family.extend(children.collect::<Vec<_>>());
        }
        for (process, start, _) in all {
            if Some(process) != self.leader
                && (family.contains(&process) || self.has_variable(process))
            {
                self.found.insert(process, start);
            }
        }
    }

    /// Whether a process has the variable.
    pub(super) fn exist(&self) -> bool {
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let mut numbers =
            entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        numbers.any(|process| self.has_variable(process))
    }

    /// Sends a signal to the processes found that are not in the leader's group, which was sent it. Returns whether any was found.
    pub(super) fn signal(&self, signal: Signal) -> bool {
        for (process, start) in &self.found {
            if process_start(*process) == Some(*start)
                && (self.leader.is_none() || group(*process) != self.leader)
                && let Some(process) = Pid::from_raw(process.cast_signed())
            {
                // Fails for processes of other users, and for one that has just ended.
                let _ = kill_process(process, signal);
            }
        }
        !self.found.is_empty()
    }

    /// Whether none was found.
    pub(super) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    fn has_variable(&self, process: u32) -> bool {
        // Unreadable for processes of other users, and empty for those that have ended.
        let environment = fs::read(format!("/proc/{process}/environ")).unwrap_or_default();
        environment
            .split(|byte| *byte == 0)
            .any(|variable| variable == self.variable)
    }
}

/// The parent of a process that has not ended.
fn parent(process: u32) -> Option<u32> {
    stat(process, 1)
}

/// The process group of a process that has not ended.
fn group(process: u32) -> Option<u32> {
    stat(process, 2)
}

/// When a process started that has not ended, in clock ticks since the machine started.
pub(super) fn process_start(process: u32) -> Option<u64> {
    stat(process, 19)
}

/// A number from the status of a process that has not ended, counted from the field after its name.
fn stat<T: std::str::FromStr>(process: u32, field: usize) -> Option<T> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name is in parentheses, and may contain some.
    let fields: Vec<_> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let has_ended = matches!(*fields.first()?, "Z" | "X");
    let number = fields.get(field)?.parse().ok()?;
    (!has_ended).then_some(number)
}
