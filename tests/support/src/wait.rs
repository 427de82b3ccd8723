//! Waits of tests, each for at most [`LIMIT`]. A test that fails in a thread fails at once, and leaves no other thread waiting for ever.

use std::collections::HashMap;
use std::io::{self, Read};
use std::net::{TcpListener, TcpStream};
use std::panic::resume_unwind;
use std::process::{self, Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::Receiver;
use std::sync::{Condvar, Mutex, Once, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How long anything may take that is waited for: longer than it takes on a busy machine.
pub const LIMIT: Duration = Duration::from_secs(120);

/// How long a whole test may take. It is for waits that have no limit of their own, such as reading a pipe.
const TEST_LIMIT: Duration = Duration::from_secs(20 * 60);

/// How often conditions are checked.
const INTERVAL: Duration = Duration::from_millis(5);

/// Waits until there is something.
///
/// # Panics
/// When there is nothing within [`LIMIT`].
#[track_caller]
pub fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    limit_tests();
    let deadline = Instant::now() + LIMIT;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(
            Instant::now() < deadline,
            "waited for {what} for {} s",
            LIMIT.as_secs()
        );
        thread::sleep(INTERVAL);
    }
}

/// Joins a thread.
///
/// # Panics
/// When the thread did, with its message, or when it does not end within [`LIMIT`].
#[track_caller]
pub fn join<T>(thread: JoinHandle<T>) -> T {
    until("the end of a thread", || thread.is_finished().then_some(()));
    thread.join().unwrap_or_else(|panic| resume_unwind(panic))
}

/// Joins threads that work together.
///
/// # Panics
/// As soon as one of them does, or when one does not end within [`LIMIT`].
#[track_caller]
pub fn join_all<T>(threads: impl IntoIterator<Item = JoinHandle<T>>) -> Vec<T> {
    let mut running: Vec<_> = threads.into_iter().collect();
    let mut results = Vec::new();
    until("the end of all threads", || {
        for thread in running.extract_if(.., |thread| thread.is_finished()) {
            results.push(thread.join().unwrap_or_else(|panic| resume_unwind(panic)));
        }
        running.is_empty().then_some(())
    });
    results
}

/// Receives a message.
///
/// # Panics
/// When none comes within [`LIMIT`], or nobody can send one any more.
#[track_caller]
pub fn receive<T>(receiver: &Receiver<T>) -> T {
    receiver
        .recv_timeout(LIMIT)
        .unwrap_or_else(|error| panic!("waited for a message: {error}"))
}

/// Accepts a connection whose reads and writes have the limit, too.
///
/// # Panics
/// When none comes within [`LIMIT`].
#[track_caller]
pub fn accept(listener: &TcpListener) -> TcpStream {
    listener.set_nonblocking(true).expect("a listener");
    let (stream, _) = until("a connection", || match listener.accept() {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
        accepted => Some(accepted.expect("a connection")),
    });
    stream.set_nonblocking(false).expect("a connection");
    stream.set_read_timeout(Some(LIMIT)).expect("a connection");
    stream.set_write_timeout(Some(LIMIT)).expect("a connection");
    stream
}

/// Waits for the end of a process. It is killed if it does not end.
///
/// # Panics
/// When it does not end within [`LIMIT`].
#[track_caller]
pub fn ended(child: &mut Child) -> ExitStatus {
    ended_within(LIMIT, child)
}

/// The same, with another limit.
///
/// # Panics
/// When it does not end in time.
#[track_caller]
fn ended_within(limit: Duration, child: &mut Child) -> ExitStatus {
    limit_tests();
    let deadline = Instant::now() + limit;
    loop {
        if let Some(status) = child.try_wait().expect("a child") {
            return status;
        }
        if Instant::now() >= deadline {
            let _ = child.kill();
            let _ = child.wait();
            panic!("a process still runs after {} s", limit.as_secs());
        }
        thread::sleep(INTERVAL);
    }
}

/// Runs a command to its end, as [`Command::output`] does.
///
/// # Panics
/// When it cannot be started, or does not end within [`LIMIT`].
#[track_caller]
pub fn output(command: &mut Command) -> Output {
    output_within(LIMIT, command)
}

/// The same, with another limit.
///
/// # Panics
/// When it cannot be started, or does not end in time.
#[track_caller]
pub fn output_within(limit: Duration, command: &mut Command) -> Output {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let child = command
        .spawn()
        .unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
    output_of_within(limit, child)
}

/// Waits for the end of a process and of its output, as [`Child::wait_with_output`] does.
///
/// # Panics
/// When it does not end within [`LIMIT`].
#[track_caller]
pub fn output_of(child: Child) -> Output {
    output_of_within(LIMIT, child)
}

#[track_caller]
fn output_of_within(limit: Duration, mut child: Child) -> Output {
    drop(child.stdin.take());
    let (stdout, stderr) = (child.stdout.take().map(read), child.stderr.take().map(read));
    let status = ended_within(limit, &mut child);
    let text = |reader: Option<JoinHandle<Vec<u8>>>| reader.map(join).unwrap_or_default();
    Output {
        status,
        stdout: text(stdout),
        stderr: text(stderr),
    }
}

fn read(mut pipe: impl Read + Send + 'static) -> JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = pipe.read_to_end(&mut bytes);
        bytes
    })
}

/// A point that a number of threads reach before any of them goes on: a barrier with a limit.
#[derive(Debug)]
pub struct Meeting {
    threads: usize,
    arrived: Mutex<usize>,
    changed: Condvar,
}

impl Meeting {
    /// A meeting of so many threads. They may meet again and again.
    #[must_use]
    pub const fn new(threads: usize) -> Self {
        Self {
            threads,
            arrived: Mutex::new(0),
            changed: Condvar::new(),
        }
    }

    /// Waits for the others.
    ///
    /// # Panics
    /// When they do not come within [`LIMIT`].
    #[track_caller]
    pub fn wait(&self) {
        let mut arrived = self.arrived.lock().unwrap_or_else(PoisonError::into_inner);
        *arrived += 1;
        let all = arrived.div_ceil(self.threads) * self.threads;
        self.changed.notify_all();
        let waited = self
            .changed
            .wait_timeout_while(arrived, LIMIT, |arrived| *arrived < all);
        let (arrived, result) = waited.unwrap_or_else(PoisonError::into_inner);
        assert!(
            !result.timed_out(),
            "{} of {} threads came",
            *arrived + self.threads - all,
            self.threads
        );
    }
}

/// From now on, a test that takes longer than all do ends the test program, with its name. Linux shows how long a thread runs.
pub fn limit_tests() {
    static START: Once = Once::new();
    if cfg!(target_os = "linux") {
        START.call_once(|| {
            drop(
                thread::Builder::new()
                    .name("test-limit".to_owned())
                    .spawn(end_late_tests),
            );
        });
    }
}

fn end_late_tests() {
    let mut first_seen = HashMap::new();
    loop {
        let now = Instant::now();
        // The main thread waits for the tests.
        let threads: Vec<_> = threads()
            .into_iter()
            .filter(|(id, _)| *id != process::id())
            .collect();
        first_seen.retain(|id, _| threads.iter().any(|(running, _)| running == id));
        for (id, name) in threads.into_iter().filter(|(_, name)| name != "test-limit") {
            let since = *first_seen.entry(id).or_insert(now);
            if now.duration_since(since) > TEST_LIMIT {
                eprintln!(
                    "error: the test {name}… has not ended after {} minutes",
                    TEST_LIMIT.as_secs() / 60
                );
                process::abort();
            }
        }
        thread::sleep(Duration::from_secs(5));
    }
}

/// The threads of this process, each with the start of its name. It is that of the thread that started it if it has none.
pub(crate) fn threads() -> Vec<(u32, String)> {
    let tasks = std::fs::read_dir("/proc/self/task")
        .into_iter()
        .flatten()
        .flatten();
    let thread = |task: std::fs::DirEntry| {
        let name = std::fs::read_to_string(task.path().join("comm")).ok()?;
        Some((
            task.file_name().to_str()?.parse().ok()?,
            name.trim_end().to_owned(),
        ))
    };
    tasks.filter_map(thread).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn one_thread_that_fails_fails_the_others_test_at_once() {
        let meeting = Arc::new(Meeting::new(2));
        let waiting = Arc::clone(&meeting);
        let since = Instant::now();
        let threads = [
            thread::spawn(move || waiting.wait()),
            thread::spawn(|| panic!("as the test wants")),
        ];
        let joined = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| join_all(threads)));
        assert_eq!(
            joined.expect_err("a panic").downcast_ref(),
            Some(&"as the test wants")
        );
        assert!(since.elapsed() < LIMIT);
        meeting.wait(); // Lets the other one end.
    }

    #[test]
    fn threads_meet_again_and_again() {
        let meeting = Arc::new(Meeting::new(3));
        let go =
            |meeting: Arc<Meeting>| thread::spawn(move || (0..100).for_each(|_| meeting.wait()));
        join_all((0..3).map(|_| go(Arc::clone(&meeting))));
        assert_eq!(*meeting.arrived.lock().expect("a lock"), 300);
    }

    #[test]
    #[cfg(unix)]
    fn a_process_that_does_not_end_is_killed() {
        let mut child = Command::new("sleep").arg("600").spawn().expect("sleep");
        let late = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            ended_within(Duration::ZERO, &mut child)
        }));
        late.expect_err("a panic");
        assert!(child.try_wait().expect("a child").is_some());
        let output = output(Command::new("sh").args(["-c", "echo out; echo err >&2; exit 3"]));
        assert_eq!(
            (output.status.code(), &*output.stdout, &*output.stderr),
            (Some(3), &b"out\n"[..], &b"err\n"[..])
        );
    }
}
