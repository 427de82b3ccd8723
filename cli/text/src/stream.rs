//! Standard output and standard error of a program that must not wait for their readers.
//!
//! Once [`Stream::start_writer`] was called, a stream has a thread that writes. The caller waits until its text is written, but all
//! callers together for at most [`OUTPUT_WAIT_MAX`], and after that for a small share of the time, however many texts a slow
//! reader delays. Once this time is used up, callers do not wait until the reader has caught up, and text beyond
//! [`OUTPUT_QUEUE_MAX`] is dropped and counted. Before that, a text is written at once, as `scheduled-events list | less` should.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How long a program waits for the readers of its output, for all texts together. Then a stream counts as stalled.
pub const OUTPUT_WAIT_MAX: Duration = Duration::from_millis(500);

/// Which part of the time a program may wait for slow readers in the long run, to be divided by this.
pub const OUTPUT_WAIT_SHARE: u32 = 10;

/// The most bytes that wait for a stalled stream. Further texts are dropped and counted.
pub const OUTPUT_QUEUE_MAX: usize = 1 << 20;

/// How long the exit waits for output that is not yet written.
pub const EXIT_OUTPUT_WAIT: Duration = Duration::from_secs(1);

static PATIENCE: Mutex<WaitBudget> = Mutex::new(WaitBudget::new());

/// How long callers may still wait for slow readers. The time grows again while nobody waits.
struct WaitBudget {
    left: Duration,
    at: Option<Instant>,
}

impl WaitBudget {
    const fn new() -> Self {
        Self {
            left: OUTPUT_WAIT_MAX,
            at: None,
        }
    }

    /// How long a caller may wait now.
    fn now(&mut self, now: Instant) -> Duration {
        let since = self
            .at
            .replace(now)
            .map_or(Duration::ZERO, |at| now.saturating_duration_since(at));
        self.left = OUTPUT_WAIT_MAX.min(self.left + since / OUTPUT_WAIT_SHARE);
        self.left
    }

    /// Subtracts the time that a caller has waited.
    fn spend(&mut self, waited: Duration) {
        self.left = self.left.saturating_sub(waited);
    }
}

/// Which stream it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// Standard output.
    Output,
    /// Standard error.
    Errors,
}

/// One of the two streams.
///
/// ```
/// use scheduled_events_text::stream::{Stream, Target};
///
/// static ERRORS: Stream = Stream::new(Target::Errors, |severity, message| {
///     ERRORS.enqueue(format!("{severity}: {message}\n").as_bytes());
/// });
/// ERRORS.start_writer()?;
/// ERRORS.write(b"ready\n")?;
/// ERRORS.flush_on_exit();
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct Stream {
    target: Target,
    /// Reports texts that were dropped or could not be written, with a severity, and without waiting.
    report: fn(&str, &str),
    /// The queue of the thread that writes, once there is one.
    queue: OnceLock<Sender<Queued>>,
    /// The bytes in the queue.
    queued_bytes: AtomicUsize,
    /// Whether a text took longer than callers may wait, and the queue has not been empty since.
    stalled: AtomicBool,
    /// The number of texts that were dropped and not yet reported.
    unreported: AtomicU64,
    /// The number of all texts that were dropped.
    all_dropped: AtomicU64,
    /// The first failure to write. The reader may be gone.
    failure: OnceLock<String>,
}

/// A text in the queue.
struct Queued {
    text: Vec<u8>,
    /// Dropped once the text is written, which ends the caller's wait.
    _written: Sender<()>,
}

impl Stream {
    /// A stream. `report` gets a severity and a message about texts that were dropped or could not be written. It must not wait:
    /// the thread that writes calls it, so that it uses [`Self::enqueue`].
    pub const fn new(target: Target, report: fn(&str, &str)) -> Self {
        Self {
            target,
            report,
            queue: OnceLock::new(),
            queued_bytes: AtomicUsize::new(0),
            stalled: AtomicBool::new(false),
            unreported: AtomicU64::new(0),
            all_dropped: AtomicU64::new(0),
            failure: OnceLock::new(),
        }
    }

    /// From now on, a stalled reader delays callers only for a limited time.
    ///
    /// # Errors
    /// The system refuses a thread.
    pub fn start_writer(&'static self) -> io::Result<()> {
        if self.queue.get().is_none() {
            let (queue, texts) = mpsc::channel();
            thread::Builder::new().spawn(|| self.write_queue(texts))?;
            let _ = self.queue.set(queue);
        }
        Ok(())
    }

    /// Waits until everything is written, for [`EXIT_OUTPUT_WAIT`] at most.
    pub fn flush_on_exit(&self) {
        // The queue keeps its order: once this empty text is written, so are the texts before it.
        if let Some(written) = self.add(b"") {
            let _ = written.recv_timeout(EXIT_OUTPUT_WAIT);
        }
    }

    /// The number of texts that were dropped so far, because no reader took them.
    pub fn dropped(&self) -> u64 {
        self.all_dropped.load(Ordering::Relaxed)
    }

    /// The first failure to write so far, for programs that continue without their output.
    pub fn failure(&self) -> Option<&str> {
        self.failure.get().map(String::as_str)
    }

    /// Writes whole lines. With a thread that writes, this may return before they are written, and
    /// errors are reported as diagnostics.
    ///
    /// # Errors
    /// Those of the system, except a closed pipe: a reader that is gone is no reason to stop.
    pub fn write(&self, text: &[u8]) -> io::Result<()> {
        if self.queue.get().is_none() {
            return self.write_now(text);
        }
        if let Some(written) = self.add(text)
            && !self.stalled.load(Ordering::SeqCst)
        {
            let patience = || PATIENCE.lock().unwrap_or_else(PoisonError::into_inner);
            let since = Instant::now();
            let wait = patience().now(since);
            if written.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
                self.stalled.store(true, Ordering::SeqCst);
            }
            patience().spend(since.elapsed());
        }
        Ok(())
    }

    /// Adds a text to the queue, and waits for nothing. Without a thread that writes, nothing happens.
    pub fn enqueue(&self, text: &[u8]) {
        drop(self.add(text));
    }

    /// Adds a text to the queue. The returned channel is closed when the text is written; there is
    /// none if the text was dropped, or if no thread writes.
    fn add(&self, text: &[u8]) -> Option<Receiver<()>> {
        let queue = self.queue.get()?;
        let before = self.queued_bytes.fetch_add(text.len(), Ordering::SeqCst);
        if before > 0 && !text.is_empty() && before.saturating_add(text.len()) > OUTPUT_QUEUE_MAX {
            self.queued_bytes.fetch_sub(text.len(), Ordering::SeqCst);
            self.unreported.fetch_add(1, Ordering::SeqCst);
            self.all_dropped.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        let (sender, written) = mpsc::channel();
        queue
            .send(Queued {
                text: text.to_vec(),
                _written: sender,
            })
            .ok()?;
        Some(written)
    }

    /// Writes the texts of the queue.
    fn write_queue(&self, texts: Receiver<Queued>) {
        let mut reported = String::new();
        for queued in texts {
            let result = self.write_now(&queued.text);
            let length = queued.text.len();
            if self.queued_bytes.fetch_sub(length, Ordering::SeqCst) == length {
                self.stalled.store(false, Ordering::SeqCst);
                self.report_dropped();
            }
            let error = result
                .err()
                .map(|error| error.to_string())
                .unwrap_or_default();
            if error != reported {
                self.report_error(&error);
                reported = error;
            }
            drop(queued);
        }
    }

    fn report_dropped(&self) {
        let dropped = self.unreported.swap(0, Ordering::SeqCst);
        if dropped > 0 {
            let (what, stream) = match self.target {
                Target::Output => ("records", "standard output"),
                Target::Errors => ("diagnostics", "standard error"),
            };
            let message = format!("dropped {dropped} {what}, because nothing read {stream}");
            (self.report)("warning", &message);
        }
    }

    fn report_error(&self, error: &str) {
        // There is no other place to report a failure of standard error.
        if !error.is_empty() && matches!(self.target, Target::Output) {
            let message = format!("cannot write records to standard output: {error}");
            (self.report)("error", &message);
        }
    }

    fn write_now(&self, text: &[u8]) -> io::Result<()> {
        let result = match self.target {
            Target::Output => write_whole(&mut anstream::stdout().lock(), text),
            Target::Errors => write_whole(&mut anstream::stderr().lock(), text),
        };
        if let Err(error) = &result {
            let _ = self.failure.set(error.to_string());
        }
        match result {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            result => result,
        }
    }
}

/// Writes a text and flushes it. If a disk is full, the rest of a line stays in the stream's buffer
/// and is written before the next line.
fn write_whole(stream: &mut impl Write, mut text: &[u8]) -> io::Result<()> {
    while !text.is_empty() {
        match stream.write(text) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => text = text.get(written..).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    stream.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_waits_together_take_a_small_share_of_the_time() {
        let mut patience = WaitBudget::new();
        let start = Instant::now();
        let (mut now, mut waited) = (start, Duration::ZERO);
        // A reader that needs 50 ms for each of many texts.
        while now < start + Duration::from_secs(60) {
            let wait = patience.now(now).min(Duration::from_millis(50));
            patience.spend(wait);
            waited += wait;
            now += wait + Duration::from_millis(1);
        }
        let share = waited.saturating_sub(OUTPUT_WAIT_MAX);
        assert!(
            share <= Duration::from_secs(60) / OUTPUT_WAIT_SHARE,
            "{waited:?}"
        );
        // It recovers.
        assert_eq!(
            patience.now(now + OUTPUT_WAIT_MAX * OUTPUT_WAIT_SHARE),
            OUTPUT_WAIT_MAX
        );
    }
}
