//! Standard output and standard error, as every part of the command writes to them.
//!
//! A command that answers one question waits for its reader, as `scheduled-events list | less` should. A watch does not:
//! a log that nobody reads must not keep it from the next notice. After [`never_wait`] each stream has a thread that
//! writes, and whoever has something to say waits for it a moment only.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use super::look::diagnose;

/// How long a stream is waited for before it counts as stalled. Then nobody waits until it has caught up.
const PATIENCE: Duration = Duration::from_millis(500);

/// How long the last words are waited for.
const FAREWELL: Duration = Duration::from_secs(1);

/// How much is kept for a stream that has stalled, in bytes. What comes then is left out, and counted.
const ROOM: usize = 1 << 20;

pub(super) static OUTPUT: Stream = Stream::new(Kind::Output);
pub(super) static ERRORS: Stream = Stream::new(Kind::Errors);

/// From now on nobody waits for a reader that does not read.
pub(super) fn never_wait() -> io::Result<()> {
    for stream in [&OUTPUT, &ERRORS] {
        stream.start()?;
    }
    Ok(())
}

/// Waits until all was written, as long as somebody reads.
pub(super) fn farewell() {
    for stream in [&OUTPUT, &ERRORS] {
        let is_unfinished = |queue: &mut Queue| queue.written < queue.put;
        drop(stream.news.wait_timeout_while(stream.queue(), FAREWELL, is_unfinished));
    }
}

/// One of the two streams.
pub(super) struct Stream {
    kind: Kind,
    queue: Mutex<Queue>,
    /// Something was put into the queue, or written.
    news: Condvar,
}

#[derive(Clone, Copy)]
enum Kind {
    Output,
    Errors,
}

/// What is to be written.
struct Queue {
    /// Whether a thread writes it.
    started: bool,
    texts: VecDeque<Vec<u8>>,
    bytes: usize,
    /// How many texts were put in since the start, and how many of them are written.
    put: u64,
    written: u64,
    stalled: bool,
    left_out: u64,
}

impl Stream {
    const fn new(kind: Kind) -> Self {
        let queue =
            Queue { started: false, texts: VecDeque::new(), bytes: 0, put: 0, written: 0, stalled: false, left_out: 0 };
        Self { kind, queue: Mutex::new(queue), news: Condvar::new() }
    }

    /// Writes whole lines. Once nobody waits any more, they may be written later, and errors are told as diagnostics.
    ///
    /// # Errors
    /// What the system says, but that the reader has gone away: that is no reason to stop.
    pub(super) fn write(&self, text: &[u8]) -> io::Result<()> {
        let mut queue = self.queue();
        if !queue.started {
            drop(queue);
            return self.write_now(text);
        }
        if queue.bytes > 0 && queue.bytes.saturating_add(text.len()) > ROOM {
            queue.left_out += 1;
            return Ok(());
        }
        queue.bytes += text.len();
        queue.texts.push_back(text.to_vec());
        queue.put += 1;
        let number = queue.put;
        self.news.notify_all();
        let waits = |queue: &mut Queue| queue.written < number && !queue.stalled;
        let waited = self.news.wait_timeout_while(queue, PATIENCE, waits);
        let (mut queue, waited) = waited.unwrap_or_else(PoisonError::into_inner);
        queue.stalled |= waited.timed_out();
        Ok(())
    }

    fn start(&'static self) -> io::Result<()> {
        let mut queue = self.queue();
        if !queue.started {
            thread::Builder::new().spawn(|| self.write_for_ever())?;
            queue.started = true;
        }
        Ok(())
    }

    fn write_for_ever(&self) {
        let mut trouble = String::new();
        loop {
            let queue = self.news.wait_while(self.queue(), |queue| queue.texts.is_empty());
            let Some(text) = queue.unwrap_or_else(PoisonError::into_inner).texts.pop_front() else { continue };
            let written = self.write_now(&text);
            let mut queue = self.queue();
            queue.bytes -= text.len();
            queue.written += 1;
            let mut left_out = 0;
            if queue.texts.is_empty() {
                queue.stalled = false;
                left_out = std::mem::take(&mut queue.left_out);
            }
            drop(queue);
            self.news.notify_all();
            self.tell(left_out, &written, &mut trouble);
        }
    }

    /// Tells what was not written. The same trouble is told once.
    fn tell(&self, left_out: u64, written: &io::Result<()>, trouble: &mut String) {
        let (what, stream) = match self.kind {
            Kind::Output => ("records", "standard output"),
            Kind::Errors => ("diagnostics", "standard error"),
        };
        if left_out > 0 {
            // From a thread of its own, since this one may be the one that has to write it.
            let text = format!("{left_out} {what} were left out, since nobody read {stream}");
            let _ = thread::Builder::new().spawn(move || diagnose("warning", &text));
        }
        let now = written.as_ref().err().map(ToString::to_string).unwrap_or_default();
        if now != *trouble {
            // There is nowhere else to say that diagnostics cannot be written.
            if !now.is_empty() && matches!(self.kind, Kind::Output) {
                diagnose("error", &format!("{what} cannot be written to {stream}: {now}"));
            }
            *trouble = now;
        }
    }

    fn write_now(&self, text: &[u8]) -> io::Result<()> {
        let written = match self.kind {
            Kind::Output => write_whole(&mut anstream::stdout().lock(), text),
            Kind::Errors => write_whole(&mut anstream::stderr().lock(), text),
        };
        match written {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            written => written,
        }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is left of a line when a disk is full stays in the stream's buffer, and is written before the next one.
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
