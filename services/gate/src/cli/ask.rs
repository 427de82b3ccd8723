//! `ask`: the command for `scheduled-events watch --gate`.
//!
//! It uses no network: it passes the event to the daemon, and ends with the exit code that the
//! watcher expects. If no daemon runs, the answer is "not yet": an approval that nobody decided
//! must not be posted.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use rustix::net::sockopt::socket_peercred;
use rustix::process::geteuid;
use scheduled_events::files::check_folder;
use scheduled_events::limits::{GATE_ANOTHER_APPROVES, GATE_TIME};
use scheduled_events_core::GateAnswer;
use scheduled_events_core::record::Printable;
use serde_json::value::RawValue;

use crate::config::Config;
use crate::daemon::message::{LINE_MAX, Reply};
use scheduled_events_common::failure::Failure;
use scheduled_events_common::log;

/// The exit code for "another machine approves".
const ANOTHER_APPROVES: u8 = GATE_ANOTHER_APPROVES.to_le_bytes()[0];

/// How long the daemon may take: a second less than the watcher waits.
pub(super) const REPLY_TIME: Duration = Duration::from_secs(GATE_TIME.as_secs() - 1);

/// Hands the event on standard input to the daemon, and returns the exit code that the watcher expects.
///
/// # Errors
/// There is no event, or no daemon that answers.
pub fn ask(config: &Config) -> Result<ExitCode, Failure> {
    let phase = std::env::var("SCHEDULED_EVENTS_PHASE").unwrap_or_default();
    if !matches!(phase.as_str(), "prepare" | "approve") {
        return Err(Failure::usage(format!(
            "SCHEDULED_EVENTS_PHASE is {phase:?}, expected `prepare` or `approve`; `ask` is a command for `scheduled-events watch --gate`"
        )));
    }
    let mut event = String::new();
    let input = std::io::stdin()
        .lock()
        .take(LINE_MAX as u64)
        .read_to_string(&mut event);
    input.map_err(|error| {
        Failure::usage(format!(
            "cannot read the event from standard input: {error}"
        ))
    })?;
    let event: &RawValue = serde_json::from_str(&event).map_err(|error| {
        Failure::usage(format!("standard input is not an event as JSON: {error}"))
    })?;
    // The event may span several lines.
    let event = event.get().replace(['\n', '\r'], " ");
    let question = format!("{{\"phase\":\"{phase}\",\"event\":{event}}}\n");
    let stream = connect_to_daemon(&config.socket)?;
    check_daemon(&config.socket, &stream)?;
    let reply = exchange(&config.socket, stream, &question, REPLY_TIME)?;
    let reply: Reply = serde_json::from_str(&reply).map_err(|error| {
        let socket = config.socket.display();
        Failure::refused(format!("the daemon at {socket} gave no answer: {error}"))
    })?;
    if !reply.why.is_empty() {
        // Names are escaped already.
        log::line(&Printable(&reply.why).to_string());
    }
    Ok(match reply.answer {
        GateAnswer::Open => ExitCode::SUCCESS,
        GateAnswer::AnotherApproves => ExitCode::from(ANOTHER_APPROVES),
        GateAnswer::Closed => ExitCode::FAILURE,
    })
}

/// Connects to the daemon.
///
/// # Errors
/// No daemon listens.
pub(super) fn connect_to_daemon(path: &Path) -> Result<UnixStream, Failure> {
    let socket = path.display();
    UnixStream::connect(path).map_err(|error| {
        Failure::refused(if error.kind() == ErrorKind::PermissionDenied {
            format!("this user may not ask the daemon at {socket} ({error}): run this as root or as the daemon's user")
        } else {
            format!(
                "no daemon listens at {socket} ({error}); is `scheduled-events-fleet run` running?"
            )
        })
    })
}

/// Sends a line to the daemon at this path, and returns the one that it answers.
///
/// # Errors
/// It does not answer in time.
pub(super) fn exchange(
    path: &Path,
    mut stream: UnixStream,
    line: &str,
    patience: Duration,
) -> Result<String, Failure> {
    let socket = path.display();
    let problem = |error: std::io::Error| {
        Failure::refused(match error.kind() {
            // The error of a socket whose time limit has passed.
            ErrorKind::WouldBlock => {
                let seconds = patience.as_secs_f32();
                format!(
                    "the daemon at {socket} did not answer within {seconds} s: it may be stopped, or wait for a disk"
                )
            }
            _ => format!("the daemon at {socket} does not answer: {error}"),
        })
    };
    stream.set_read_timeout(Some(patience)).map_err(problem)?;
    stream.set_write_timeout(Some(patience)).map_err(problem)?;
    stream.write_all(line.as_bytes()).map_err(problem)?;
    let mut reply = String::new();
    BufReader::new(stream.take(LINE_MAX as u64))
        .read_line(&mut reply)
        .map_err(problem)?;
    Ok(reply)
}

/// Makes sure that no other user's process answers: in a folder where others may write, one can
/// listen at the daemon's path.
pub(super) fn check_daemon(path: &Path, stream: &UnixStream) -> Result<(), Failure> {
    let socket = path.display();
    let refused =
        |why: String| Failure::refused(format!("cannot ask the daemon at {socket}: {why}"));
    check_folder(path).map_err(|error| refused(error.to_string()))?;
    let peer = socket_peercred(stream).map_err(|error| refused(error.to_string()))?;
    if peer.uid.is_root() || peer.uid == geteuid() {
        return Ok(());
    }
    let user = peer.uid;
    Err(refused(format!(
        "user {user} listens there; the daemon must run as this user or root"
    )))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;
    use std::os::unix::net::UnixListener;

    use super::*;
    use crate::engine::folder::tests::as_another_user;

    #[test]
    fn a_user_who_may_not_ask_the_daemon_reads_that() {
        let folder = tempfile::tempdir().expect("a folder");
        let mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode));
        mode(folder.path(), 0o755).expect("changed");
        let path = folder.path().join("socket");
        let _listener = UnixListener::bind(&path).expect("a socket");
        mode(&path, 0o000).expect("changed");
        let asked = as_another_user(|_| (), move || connect_to_daemon(&path));
        let problem = asked.expect_err("not allowed").message;
        assert!(
            problem.starts_with("this user may not ask the daemon at ")
                && problem.ends_with("run this as root or as the daemon's user"),
            "{problem}"
        );
    }

    #[test]
    fn a_daemon_that_does_not_answer_is_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("socket");
        let ask = || {
            let patience = Duration::from_millis(500);
            let reply = connect_to_daemon(&path)
                .and_then(|stream| exchange(&path, stream, "{}\n", patience));
            reply.expect_err("no answer").message
        };
        assert!(ask().starts_with(&format!("no daemon listens at {}", path.display())));
        // Accepts no connection, like a process that is stopped.
        let _listener = UnixListener::bind(&path).expect("a socket");
        let problem = ask();
        assert!(
            problem.contains(" did not answer within 0.5 s"),
            "{problem}"
        );
    }
}
