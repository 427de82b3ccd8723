//! A pseudoterminal for the program under test.

use std::fs::File;
use std::io::{Read, Write as _};
use std::process::{Command, Stdio};
use std::thread;

use rustix::fs::{Mode, OFlags, open};
use rustix::pty::{grantpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use super::wait;

/// A terminal that a command prints to. Commands that other tests start meanwhile do not inherit
/// it, and so do not keep it open.
pub struct Terminal {
    controller: File,
    terminal: File,
}

impl Terminal {
    /// A terminal of this width.
    pub fn new(columns: u16) -> Self {
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let controller = open("/dev/ptmx", flags, Mode::empty()).expect("a pseudoterminal");
        grantpt(&controller).expect("a pseudoterminal");
        unlockpt(&controller).expect("a pseudoterminal");
        let path = ptsname(&controller, Vec::new()).expect("a pseudoterminal");
        let terminal = open(path, flags, Mode::empty()).expect("a pseudoterminal");
        let size = Winsize {
            ws_row: 24,
            ws_col: columns,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        tcsetwinsize(&terminal, size).expect("a pseudoterminal");
        Self {
            controller: controller.into(),
            terminal: terminal.into(),
        }
    }

    /// Connects standard output and standard error of a command to the terminal.
    pub fn connect(&self, command: &mut Command) {
        let stream = || Stdio::from(self.terminal.try_clone().expect("a file descriptor"));
        command
            .stdout(stream())
            .stderr(stream())
            .env("TERM", "xterm");
    }

    /// Connects standard input of a command to the terminal.
    pub fn connect_input(&self, command: &mut Command) {
        command.stdin(self.terminal.try_clone().expect("a file descriptor"));
    }

    /// Types a line, which a command that is connected reads.
    pub fn enter(&self, line: &str) {
        let typed = format!("{line}\n");
        (&self.controller)
            .write_all(typed.as_bytes())
            .expect("a pseudoterminal");
    }

    /// Runs a command to its end. Returns its output, with the line ends of a file.
    pub fn run(self, mut command: Command) -> String {
        self.connect(&mut command);
        let mut child = command.spawn().expect("the command starts");
        // The command keeps its end open.
        drop(command);
        let text = thread::spawn(move || self.read_to_end());
        wait::ended(&mut child);
        wait::join(text)
    }

    /// The output of all commands until the last of them has ended.
    fn read_to_end(self) -> String {
        let Self {
            mut controller,
            terminal,
        } = self;
        drop(terminal);
        let (mut text, mut buffer) = (Vec::new(), [0; 4096]);
        // Once no process has the other end open, reading is an error on Linux and the end
        // elsewhere.
        while let Ok(length @ 1..) = controller.read(&mut buffer) {
            text.extend_from_slice(&buffer[..length]);
        }
        String::from_utf8(text).expect("text").replace("\r\n", "\n")
    }
}

#[test]
fn other_commands_do_not_inherit_a_terminal() {
    let terminal = Terminal::new(80);
    for file in [&terminal.controller, &terminal.terminal] {
        use rustix::io::{FdFlags, fcntl_getfd};
        assert!(
            fcntl_getfd(file)
                .expect("a file")
                .contains(FdFlags::CLOEXEC)
        );
    }
    let mut connected = Command::new("sh");
    connected.args(["-c", "test -t 1 && echo shown"]);
    assert_eq!(terminal.run(connected), "shown\n");
}
