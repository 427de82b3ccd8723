//! The three pipes of a command: its input is written and its output read line by line, without a thread for each.

#[cfg(unix)]
pub(super) use unix::Pipes;
#[cfg(windows)]
pub(super) use windows::Pipes;

use crate::limits::OUTPUT_LINE_MAX;
use crate::platform;

/// Splits output into lines.
#[derive(Default)]
struct Lines(Vec<u8>);

impl Lines {
    fn push(&mut self, bytes: &[u8], on_line: &dyn Fn(String)) {
        for byte in bytes {
            self.0.push(*byte);
            if *byte == b'\n' {
                self.flush(on_line);
            } else if self.0.len() >= OUTPUT_LINE_MAX {
                let rest = self.0.split_off(self.0.len() - unfinished(&self.0));
                self.flush(on_line);
                self.0 = rest;
            }
        }
    }

    /// Reports a line that has no end.
    fn flush(&mut self, on_line: &dyn Fn(String)) {
        if !self.0.is_empty() {
            on_line(
                platform::decode_output(&self.0)
                    .trim_end_matches(['\n', '\r'])
                    .to_owned(),
            );
            self.0.clear();
        }
    }
}

/// The number of bytes at the end of a text in UTF-8 that start a character and do not finish it: three at most.
fn unfinished(bytes: &[u8]) -> usize {
    match str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() => bytes.len() - error.valid_up_to(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[test]
    fn a_long_line_is_not_split_within_a_character() {
        for text in ["ß", "€", "😀", "a"] {
            for before in 0..4 {
                let output = format!("{}{}", "-".repeat(before), text.repeat(2 * OUTPUT_LINE_MAX));
                let found = RefCell::new(Vec::new());
                let mut lines = Lines::default();
                let on_line = |line| found.borrow_mut().push(line);
                lines.push(output.as_bytes(), &on_line);
                lines.flush(&on_line);
                let found = found.into_inner();
                assert!(
                    found.iter().all(|line| line.len() <= OUTPUT_LINE_MAX),
                    "{text} {before}"
                );
                assert_eq!(found.concat(), output);
            }
        }
        // Other code pages have no such characters.
        assert_eq!(
            [
                unfinished(b"gr\x94\xffer"),
                unfinished(b"\xc3\xa4"),
                unfinished(b"")
            ],
            [0; 3]
        );
    }
}

#[cfg(unix)]
mod unix {
    use std::fs::File;
    use std::io::{self, Read, Write};
    use std::os::fd::OwnedFd;
    use std::process::Child;
    use std::thread;
    use std::time::Duration;

    use rustix::event::{PollFd, PollFlags, poll};
    use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

    use super::Lines;

    /// How much of a pipe is read before the command is checked again.
    const READ_MAX: usize = 64 * 1024;

    /// The pipes of a command. None of them blocks.
    pub(in crate::hooks) struct Pipes {
        input: Option<File>,
        unwritten: Vec<u8>,
        outputs: Vec<(File, Lines)>,
    }

    impl Pipes {
        #[allow(clippy::unnecessary_wraps)] // As on Windows.
        pub(in crate::hooks) fn new() -> io::Result<Self> {
            Ok(Self {
                input: None,
                unwritten: Vec::new(),
                outputs: Vec::new(),
            })
        }

        /// Takes the pipes of a command that was started.
        pub(in crate::hooks) fn attach(mut self, child: &mut Child, input: Vec<u8>) -> Self {
            let file = |pipe: OwnedFd| {
                // Fails for no pipe.
                let _ = fcntl_getfl(&pipe)
                    .and_then(|flags| fcntl_setfl(&pipe, flags | OFlags::NONBLOCK));
                File::from(pipe)
            };
            self.input = child.stdin.take().map(|pipe| file(pipe.into()));
            self.unwritten = input;
            let outputs = [
                child.stdout.take().map(OwnedFd::from),
                child.stderr.take().map(OwnedFd::from),
            ];
            self.outputs = outputs
                .into_iter()
                .flatten()
                .map(|pipe| (file(pipe), Lines::default()))
                .collect();
            self
        }

        /// Whether there may be more output.
        pub(in crate::hooks) fn is_open(&self) -> bool {
            !self.outputs.is_empty()
        }

        /// Waits for at most this time until a pipe can be written or read, and does that.
        pub(in crate::hooks) fn serve(&mut self, timeout: Duration, on_line: &dyn Fn(String)) {
            let outputs = self
                .outputs
                .iter()
                .map(|(pipe, _)| PollFd::new(pipe, PollFlags::IN));
            let input = self
                .input
                .iter()
                .map(|pipe| PollFd::new(pipe, PollFlags::OUT));
            let mut pipes: Vec<_> = outputs.chain(input).collect();
            let limit = timeout.try_into().ok();
            if pipes.is_empty() || poll(&mut pipes, limit.as_ref()).is_err() {
                thread::sleep(timeout);
                return;
            }
            self.write();
            self.outputs
                .retain_mut(|(pipe, lines)| read(pipe, lines, on_line));
        }

        /// Writes what fits, and closes the pipe after the last byte.
        fn write(&mut self) {
            let Some(pipe) = &mut self.input else { return };
            let is_done = loop {
                match pipe.write(&self.unwritten) {
                    Ok(written) => {
                        self.unwritten.drain(..written);
                        if self.unwritten.is_empty() {
                            break true;
                        }
                    }
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    // The command need not read its input.
                    Err(error) => break error.kind() != io::ErrorKind::WouldBlock,
                }
            };
            if is_done {
                self.input = None;
            }
        }
    }

    /// Reads what there is. Returns whether the pipe is still open.
    fn read(pipe: &mut File, lines: &mut Lines, on_line: &dyn Fn(String)) -> bool {
        let mut buffer = [0; 4096];
        let mut total = 0;
        while total < READ_MAX {
            match pipe.read(&mut buffer) {
                Ok(length @ 1..) => {
                    lines.push(&buffer[..length], on_line);
                    total += length;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return true,
                Ok(0) | Err(_) => {
                    lines.flush(on_line);
                    return false;
                }
            }
        }
        true
    }
}

#[cfg(windows)]
mod windows {
    use std::io::{self, Read, Write};
    use std::process::Child;
    use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
    use std::thread;
    use std::time::{Duration, Instant};

    use super::Lines;

    type Pipe = Box<dyn Read + Send>;

    /// The pipes of a command. Windows cannot wait for several, so each has a thread. They are started before the command, since
    /// the system may refuse them.
    pub(in crate::hooks) struct Pipes {
        writer: Sender<(Box<dyn Write + Send>, Vec<u8>)>,
        readers: Vec<Sender<Pipe>>,
        output: Receiver<String>,
        is_open: bool,
    }

    impl Pipes {
        pub(in crate::hooks) fn new() -> io::Result<Self> {
            let (writer, input) = mpsc::channel::<(Box<dyn Write + Send>, Vec<u8>)>();
            thread::Builder::new().spawn(move || {
                if let Ok((mut pipe, bytes)) = input.recv() {
                    let _ = pipe.write_all(&bytes);
                }
            })?;
            // Bounded, so that a command that prints much waits.
            let (lines, output) = mpsc::sync_channel(1024);
            let mut readers = Vec::new();
            for _ in 0..2 {
                let (reader, pipe) = mpsc::channel();
                let lines = lines.clone();
                thread::Builder::new().spawn(move || {
                    if let Ok(pipe) = pipe.recv() {
                        read(pipe, &|line| drop(lines.send(line)));
                    }
                })?;
                readers.push(reader);
            }
            Ok(Self {
                writer,
                readers,
                output,
                is_open: true,
            })
        }

        pub(in crate::hooks) fn attach(mut self, child: &mut Child, input: Vec<u8>) -> Self {
            if let Some(pipe) = child.stdin.take() {
                let _ = self.writer.send((Box::new(pipe), input));
            }
            let pipes = [
                child.stdout.take().map(|pipe| Box::new(pipe) as Pipe),
                child.stderr.take().map(|pipe| Box::new(pipe) as Pipe),
            ];
            for (reader, pipe) in self.readers.drain(..).zip(pipes) {
                let _ = pipe.map(|pipe| reader.send(pipe));
            }
            self
        }

        pub(in crate::hooks) fn is_open(&self) -> bool {
            self.is_open
        }

        pub(in crate::hooks) fn serve(&mut self, timeout: Duration, on_line: &dyn Fn(String)) {
            if !self.is_open {
                thread::sleep(timeout);
                return;
            }
            let deadline = Instant::now() + timeout;
            loop {
                match self
                    .output
                    .recv_timeout(deadline.saturating_duration_since(Instant::now()))
                {
                    Ok(line) => on_line(line),
                    Err(RecvTimeoutError::Timeout) => return,
                    Err(RecvTimeoutError::Disconnected) => {
                        self.is_open = false;
                        return;
                    }
                }
                if Instant::now() >= deadline {
                    return;
                }
            }
        }
    }

    fn read(mut pipe: Pipe, on_line: &dyn Fn(String)) {
        let mut lines = Lines::default();
        let mut buffer = [0; 4096];
        while let Ok(length @ 1..) = pipe.read(&mut buffer) {
            lines.push(&buffer[..length], on_line);
        }
        lines.flush(on_line);
    }
}
