//! The client's limits, in one place. The limits of a session, of polling among them, and of what other programs than the client
//! rely on, are core's: [`scheduled_events_core::limits`]. Those of the replay server are beside its code.

use std::time::Duration;

use scheduled_events_core::limits;

pub use scheduled_events_core::limits::{AUDIT_FILES_MAX, GATE_ANOTHER_APPROVES};

/// The number of events that a watcher tracks. An Azure placement group has up to a thousand machines.
pub const EVENTS_MAX: usize = 1024;

/// The largest body of a document, in bytes. A document of a thousand events has about 512 KiB.
pub const BODY_MAX: u64 = 8 * 1024 * 1024;

/// The largest body that is read where only the status matters, in bytes.
pub const ERROR_BODY_MAX: u64 = 64 * 1024;

/// The largest response head, in bytes. The metadata service sends less than 1 KiB.
pub const HEAD_MAX: usize = 16 * 1024;

/// How long connecting to the service may take, whatever the request's own timeout. The service is on the machine's own host and
/// accepts at once; only its first answer may take two minutes.
pub const CONNECT_TIMEOUT: Duration = Duration::from_millis(limits::CONNECT_TIMEOUT_MS as u64);

/// How long after its own timeout a request counts as overdue: its thread hangs, and another one takes over.
pub const REQUEST_OVERDUE: Duration = Duration::from_secs(3);

/// How many threads may hang in overdue requests. No request is sent until one of them ends.
pub const OVERDUE_REQUESTS_MAX: usize = 4;

/// How long after the longest pause between two polls a watcher counts as one that does not poll any more. It then sends systemd no
/// keep-alive.
pub const POLLING_OVERDUE: Duration = Duration::from_secs(240);

/// The timeout of the request for the machine's own name. The watcher repeats it, so a short one is enough.
pub const NAME_TIMEOUT: Duration = Duration::from_secs(5);

/// The delay before the machine's own name is requested again. It doubles up to [`NAME_RETRY_MAX`]. It is short because all
/// events are held until the name is known, and Azure announces some events only 30 seconds ahead.
pub const NAME_RETRY_FIRST: Duration = Duration::from_secs(1);

/// The longest delay before the machine's own name is requested again.
pub const NAME_RETRY_MAX: Duration = Duration::from_secs(8);

/// The delay before a failed write of the state file is repeated.
pub const SAVE_RETRY: Duration = Duration::from_secs(1);

/// How often an unchanged failure to write the state file is reported.
pub const SAVE_FAILURE_REPEAT: Duration = Duration::from_secs(300);

/// The largest state file that is read, in bytes. Those that are written are far smaller; see [`STATE_DETAILS_MAX`].
pub const STATE_FILE_MAX: u64 = 64 * 1024 * 1024;

/// The longest description of an event in the state file, in bytes. Longer ones are truncated.
pub const STATE_DESCRIPTION_MAX: usize = 256;

/// The longest word in the state file, such as an unknown type of event, in bytes. Longer ones are truncated.
pub const STATE_WORD_MAX: usize = 32;

/// The most bytes of descriptions and names of machines in the state file. Beyond that events are kept without them, this
/// machine's own events last: a list of names is whole or absent.
pub const STATE_DETAILS_MAX: usize = 192 * 1024;

/// The most hooks that have not ended in the state file. Beyond that only this machine's own and the latest are kept: after a
/// crash the others do not run again.
pub const STATE_HOOKS_MAX: usize = 256;

/// How often a watcher checks that no other process has replaced the lock of its state file. It also does before each write.
pub const LOCK_CHECK: Duration = Duration::from_secs(5);

/// How long no document may arrive, or three intervals if that is longer. Then a watcher is blind.
pub const BLIND_AFTER: Duration = Duration::from_secs(10);

/// How often a watcher with a state file reports whether it sees documents, if nothing about that changes.
pub const SIGHT_INTERVAL: Duration = Duration::from_secs(5);

/// How long ago that report may be. Then the watcher hangs.
pub const SIGHT_OVERDUE: Duration = Duration::from_secs(15);

/// The most bytes of such a report that are read.
pub const SIGHT_FILE_MAX: u64 = 16 * 1024;

/// How often `run` reports that another process has replaced the lock of `--lock`.
pub const LOCK_LOST_REPEAT: Duration = Duration::from_secs(60);

/// How long [`StateFile::open`](crate::state::StateFile::open) waits for the lock. A process that is killed while it forks
/// leaves a child that holds the lock until it executes its program.
pub const LOCK_TIMEOUT: Duration = Duration::from_secs(1);

/// The size at which the audit file is rotated, in bytes.
pub const AUDIT_FILE_MAX: u64 = 8 << 20;

/// The largest policy or configuration file: each has a few kilobytes.
pub const SETTINGS_FILE_MAX: u64 = 1 << 20;

/// The most bytes of a DHCP lease file that are read. dhclient's grow with time; others have less than 4 KiB.
pub const LEASE_FILE_MAX: u64 = 4 << 20;

/// The most bytes of records that `record` reads: what the audit files can hold.
pub const RECORDING_MAX: u64 =
    (AUDIT_FILES_MAX as u64 + 1) * (AUDIT_FILE_MAX + AUDIT_QUEUE_MAX as u64);

/// The most bytes of records that wait for the audit file. Further ones are lost, and counted in a `gap` record.
pub const AUDIT_QUEUE_MAX: usize = limits::RECORD_MAX;

/// The longest line of an audit file that is read, in bytes: a record that fits into the queue, with its number.
pub const AUDIT_LINE_MAX: usize = AUDIT_QUEUE_MAX + 64;

/// How long a preparation or an approval waits until the records before it are written and synced to the audit file.
pub const AUDIT_WAIT: Duration = Duration::from_secs(2);

/// The delay before a failed write of the audit file is repeated.
pub const AUDIT_RETRY: Duration = Duration::from_secs(1);

/// The least time between two writes of the metrics file, and the delay before a failed one is repeated.
pub const METRICS_INTERVAL: Duration = Duration::from_secs(1);

/// How long a watcher that stops waits for the last write of the metrics file.
pub const EXIT_METRICS_WAIT: Duration = Duration::from_secs(1);

/// The largest step of the wall clock that is accepted. Freezes, live migrations and time synchronisation cause smaller ones;
/// a step of a year is a mistake.
pub const CLOCK_STEP_MAX: Duration = Duration::from_secs(3600);

/// How long a poll that may take long waits for its answer until it is sent again beside the first one: the timeout of all other
/// polls.
pub const REPEAT_AFTER: Duration = Duration::from_millis(limits::TIMEOUT_MS as u64);

/// How often it is sent again after that.
pub const REPEAT_EVERY: Duration = Duration::from_secs(10);

/// How long such a repetition may take: a little less than it takes until all that may be open are sent, so that the next
/// one can always be sent, while the first request waits for its own time.
pub const REPEAT_TIMEOUT: Duration = Duration::from_millis(19_500);

/// How many of these requests are open at the same time.
pub const REQUESTS_BESIDE_MAX: usize = 3;

/// From what difference on the metadata service's clock counts instead of this machine's: its answers have whole seconds.
pub const CLOCK_DEVIATION_MIN: Duration = Duration::from_secs(2);

/// A `Date` that differs by more than this from what is believed counts only once [`CLOCK_WITNESSES`] answers in a row agree.
///
/// An answer may be late by five seconds, and the service's clock does not jump.
pub const CLOCK_DOUBT: Duration = Duration::from_secs(10);

/// So many answers in a row make such a difference credible.
pub const CLOCK_WITNESSES: usize = 3;

/// So far apart may their dates be: an answer that took long shows an earlier time.
pub const CLOCK_AGREEMENT: Duration = Duration::from_secs(5);

/// A first `Date` that differs by more than this from this machine's clock counts for nothing, until others agree with it.
pub const CLOCK_DOUBT_ONCE: Duration = Duration::from_secs(86_400);

/// How many answers of the metadata service show its time of day: a minute of polls.
pub const CLOCK_SAMPLES: usize = 60;

/// How long a preparation may run if the start of its event is unknown, and a recovery at all.
pub const COMMAND_TIME: Duration = Duration::from_secs(15 * 60);

/// How long the gate may take to answer one question, before that counts as not yet.
pub const GATE_TIME: Duration = Duration::from_millis(limits::GATE_TIME_MS as u64);

/// The exit code of a preparation that is not to be run again, whatever time is left: `EX_CONFIG`, what a command ends with that
/// finds its own configuration invalid.
pub const DO_NOT_RETRY: i32 = 78;

/// The least time that a command for a change gets, even if its event may start sooner.
pub const COMMAND_TIME_MIN: Duration = Duration::from_secs(5);

/// The most time that a command for a change gets, even if its event is announced further ahead.
pub const COMMAND_TIME_MAX: Duration = Duration::from_secs(30 * 86_400);

/// For how many changes the `--on` commands run at once: so many for this machine's events, and so many for others'.
pub const HOOKS_AT_ONCE: usize = 8;

/// For how many changes `--on` commands may wait: so many for this machine's events, and so many for others'. Beyond that the oldest
/// are dropped, and reported.
pub const HOOKS_WAITING_MAX: usize = 2 * EVENTS_MAX;

/// How long a watcher that stops waits until all that its commands started is found and signalled: long only on a machine with
/// thousands of processes.
pub const EXIT_SIGNAL_WAIT: Duration = Duration::from_secs(3);

/// How long a watcher that stops waits for its commands, after it asked them to terminate.
pub const EXIT_TERMINATE_WAIT: Duration = Duration::from_millis(1_200);

/// How long a watcher that stops waits for its commands, after it killed them.
pub const EXIT_KILL_WAIT: Duration = Duration::from_millis(300);

/// The time between asking a command to terminate and killing it.
pub const COMMAND_GRACE: Duration = Duration::from_secs(2);

/// How much of a command's output is reported at once, in bytes, and how much of the rest, the last part, at the command's end.
pub const OUTPUT_PART_MAX: usize = 64 * 1024;

/// The longest line of a command's output, in bytes. Longer lines are split.
pub const OUTPUT_LINE_MAX: usize = 4096;

/// For how many ended commands the output of what they left running is read. The pipes of the earliest ones are closed.
pub const OPEN_PIPES_MAX: usize = 64;

/// The longest environment variable that a command receives, in bytes. Linux starts no program with one of 128 KiB, and Windows
/// limits one to 32,767 characters. A longer variable is left out, since a truncated list would mislead; standard input has the
/// whole event.
pub const VARIABLE_MAX: usize = if cfg!(windows) { 32_000 } else { 96 * 1024 };

/// The delay before a thread that the system refused at the start is tried again.
pub const THREAD_RETRY: Duration = Duration::from_millis(250);

/// The longest time between two polls that `--interval` accepts.
pub const INTERVAL_MAX: Duration = Duration::from_secs(3600);

/// The take-over delay for each machine before this one, in seconds, if a policy with the leader `rank` gives none.
pub const TAKE_OVER_AFTER_SECONDS: u32 = scheduled_events_core::Leader::TAKE_OVER_AFTER;

/// How long `run` waits for a document if its last run stopped the worker for an event that may still be open: as long as one
/// request may take. Then it starts the worker. After a boot, it waits as long for the machine's id before it resumes.
pub const RUN_ANSWER_WAIT: Duration = Duration::from_secs(5);

/// The notice that `run` assumes if the start of an event is unknown: the least that an eviction has.
pub const RUN_NOTICE: Duration = Duration::from_secs(30);

/// A notice shorter than this, in seconds, leaves `run` no time to let the worker go on.
pub const RUN_SHORT_NOTICE: u32 = 120;

/// The delay before `run` starts the worker again after the system refused for a reason that may go away.
pub const RUN_SPAWN_RETRY: Duration = Duration::from_millis(250);

/// The longest time before an event at which `run` can be asked to stop the worker.
pub const RUN_STOP_BEFORE_MAX: Duration = Duration::from_secs(30 * 86_400);

/// The longest grace that `run` accepts.
pub const RUN_GRACE_MAX: Duration = Duration::from_secs(3600);
