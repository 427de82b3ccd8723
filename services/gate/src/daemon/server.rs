//! The daemon's Unix socket.

use std::error::Error;
use std::fmt;
use std::fs;
use std::io::{self, ErrorKind, Read as _};
use std::os::fd::AsFd;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener as StdListener, UnixStream as StdStream};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use listenfd::ListenFd;
use rustix::fs::{Mode, fchmod};
use rustix::process::geteuid;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Take};
use tokio::net::unix::OwnedReadHalf;
use tokio::net::{UnixListener, UnixSocket, UnixStream};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::Daemon;
use super::message::{CheckRequest, LINE_MAX, Phase, Reply, Request};
use crate::driver::Question;
use scheduled_events_common::log;

/// How many questions are answered at a time. A watcher asks about its events one after another.
const CONNECTIONS_MAX: usize = 64;

/// What is wrong with a socket that the runtime does not take.
const UNUSABLE: &str = "cannot use the socket of systemd";

/// How long a question may take to arrive.
const REQUEST_TIME: Duration = Duration::from_secs(2);

impl Daemon {
    /// Runs until the socket cannot be served any more.
    ///
    /// # Errors
    /// The socket cannot be made.
    pub async fn run(self: Rc<Self>, ready: impl FnOnce()) -> Result<(), ListenError> {
        let listener = listen(&self.config.socket)?;
        ready();
        tokio::select! {
            () = serve(self.clone(), listener) => {}
            () = self.maintain() => {}
            () = self.run_supervision() => {}
        }
        Ok(())
    }
}

/// Why the daemon's socket cannot be made.
#[derive(Debug)]
#[non_exhaustive]
pub enum ListenError {
    /// Another daemon listens at this path.
    InUse(PathBuf),
    /// A file of another kind has this path.
    NotASocket(PathBuf),
    /// The `.socket` unit does not fit the configuration: a sentence.
    Unit(String),
    /// The system refuses.
    System {
        /// What cannot be done.
        what: String,
        /// The error of the system.
        error: io::Error,
    },
}

impl fmt::Display for ListenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let refused = |f: &mut fmt::Formatter<'_>, path: &Path, why: &str| {
            write!(f, "cannot listen at {}: {why}", path.display())
        };
        match self {
            Self::InUse(path) => refused(f, path, "another daemon does"),
            Self::NotASocket(path) => refused(f, path, "it is not a socket"),
            Self::Unit(why) => f.write_str(why),
            Self::System { what, error } => write!(f, "{what}: {error}"),
        }
    }
}

impl Error for ListenError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::System { error, .. } => Some(error),
            Self::InUse(_) | Self::NotASocket(_) | Self::Unit(_) => None,
        }
    }
}

impl ListenError {
    /// For `map_err`.
    fn system(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |error| Self::System { what, error }
    }
}

/// The socket that systemd passes, if it does; otherwise one that only this user and root can use.
fn listen(path: &Path) -> Result<UnixListener, ListenError> {
    if let Some(listener) = passed_socket(path)? {
        return UnixListener::from_std(listener).map_err(ListenError::system(UNUSABLE));
    }
    let cannot = |what: &str| ListenError::system(format!("cannot {what} {}", path.display()));
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(cannot("look at")(error)),
        Ok(found) if !found.file_type().is_socket() => {
            return Err(ListenError::NotASocket(path.to_owned()));
        }
        Ok(_) => {
            // An earlier process left this socket. If it still answers, there would be two daemons.
            if StdStream::connect(path).is_ok() {
                return Err(ListenError::InUse(path.to_owned()));
            }
            fs::remove_file(path).map_err(cannot("replace"))?;
        }
    }
    // Systemd creates `/run/scheduled-events`. Without systemd nobody does, and `/run` is empty
    // after each boot.
    if let Some(folder) = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty() && !folder.exists())
    {
        let what = format!("cannot create the folder {}", folder.display());
        let made = fs::DirBuilder::new().mode(0o700).create(folder);
        made.map_err(ListenError::system(what))?;
    }
    let listener = bind_private(path).map_err(cannot("listen at"))?;
    // Independent of the inherited umask.
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).map_err(cannot("protect"))?;
    Ok(listener)
}

/// The file is created with the socket's own mode, so that others can never connect.
fn bind_private(path: &Path) -> io::Result<UnixListener> {
    let socket = UnixSocket::new_stream()?;
    fchmod(&socket, Mode::from_raw_mode(0o600))?;
    socket.bind(path)?;
    socket.listen(1024)
}

/// The socket of a `.socket` unit.
fn passed_socket(path: &Path) -> Result<Option<StdListener>, ListenError> {
    let mut passed = ListenFd::from_env();
    match passed.len() {
        0 => return Ok(None),
        1 => {}
        count => {
            return Err(ListenError::Unit(format!(
                "systemd passes {count} sockets, expected one: a `.socket` unit with one ListenStream="
            )));
        }
    }
    let listener = passed.take_unix_listener(0).ok().flatten();
    let listener = listener.ok_or_else(|| {
        ListenError::Unit(
            "systemd passes a socket that is not a Unix stream socket: set ListenStream= to a path"
                .into(),
        )
    })?;
    let address = listener
        .local_addr()
        .map_err(ListenError::system("the socket of systemd has no address"))?;
    if address.as_pathname() != Some(path) {
        return Err(ListenError::Unit(format!(
            "systemd listens at {}, and `ask` would look for the daemon at {}: set `socket` to the path of ListenStream=",
            address
                .as_pathname()
                .unwrap_or(Path::new("no path"))
                .display(),
            path.display()
        )));
    }
    listener
        .set_nonblocking(true)
        .map_err(ListenError::system(UNUSABLE))?;
    Ok(Some(listener))
}

/// Answers questions without end.
async fn serve(daemon: Rc<Daemon>, listener: UnixListener) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept(), if connections.len() < CONNECTIONS_MAX => match accepted {
                Ok((stream, _)) => {
                    let daemon = daemon.clone();
                    connections.spawn_local(async move {
                        if let Err(problem) = answer(&daemon, stream).await {
                            log::line(&format!("warning: a question was not answered: {problem}"));
                        }
                    });
                }
                Err(error) => {
                    log::line(&format!("warning: cannot accept a connection: {error}"));
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

/// Answers one question. An error names what failed.
async fn answer(daemon: &Daemon, stream: UnixStream) -> io::Result<()> {
    let named =
        |what: &str, error: io::Error| io::Error::new(error.kind(), format!("{what}: {error}"));
    let peer = stream
        .peer_cred()
        .map_err(|error| named("who asks is unknown", error))?;
    if peer.uid() != 0 && peer.uid() != geteuid().as_raw() {
        let why = format!("user {} may not ask", peer.uid());
        return Err(io::Error::new(ErrorKind::PermissionDenied, why));
    }
    let (reading, mut writing) = stream.into_split();
    let mut line = Vec::new();
    let mut reader = BufReader::new(reading.take(LINE_MAX as u64));
    let read = timeout(REQUEST_TIME, reader.read_until(b'\n', &mut line)).await;
    read.map_err(|_| io::Error::new(ErrorKind::TimedOut, "it did not arrive in time"))??;
    if line.is_empty() {
        // A client only checks whether a daemon runs.
        return Ok(());
    }
    let mut reply = match serde_json::from_slice::<Request>(&line) {
        Err(_) if serde_json::from_slice::<CheckRequest>(&line).is_ok() => {
            serde_json::to_vec(&daemon.check_reply().await)?
        }
        Err(error) => {
            serde_json::to_vec(&Reply::of(&Err(format!("this is not a question: {error}"))))?
        }
        Ok(request) => {
            let question = match request.phase {
                Phase::Prepare => Question::Prepare,
                Phase::Approve => Question::Approve,
            };
            tokio::select! {
                // The question waited for a daemon, or for the engine, until the watcher gave up.
                // It may no longer be true.
                biased;
                () = ended(reader) => return Ok(()),
                result = daemon.answer(question, request.event) => serde_json::to_vec(&Reply::of(&result))?,
            }
        }
    };
    reply.push(b'\n');
    writing
        .write_all(&reply)
        .await
        .map_err(|error| named("the reply cannot be written", error))
}

/// Waits until the client no longer waits for the answer.
async fn ended(mut reader: BufReader<Take<OwnedReadHalf>>) {
    let stream = reader
        .get_ref()
        .get_ref()
        .as_ref()
        .as_fd()
        .try_clone_to_owned();
    // The end of the connection may have come with the question: the runtime's knowledge of the
    // socket may be older.
    if stream.is_ok_and(|stream| matches!(StdStream::from(stream).read(&mut [0]), Ok(0))) {
        return;
    }
    while reader.read(&mut [0]).await.is_ok_and(|read| read > 0) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).expect("the file").permissions().mode() & 0o777
    }

    #[tokio::test]
    async fn the_socket_is_for_one_user_and_one_daemon() {
        let root = tempfile::tempdir().expect("a folder");
        let path = root.path().join("made/socket");
        let listener = listen(&path).expect("a socket");
        assert_eq!(
            (mode(&path), mode(path.parent().expect("a folder"))),
            (0o600, 0o700)
        );
        // A running daemon keeps its socket.
        let problem = listen(&path).expect_err("a daemon runs");
        assert_eq!(
            problem.to_string(),
            format!("cannot listen at {}: another daemon does", path.display())
        );
        let connected = StdStream::connect(&path);
        assert!(
            connected.is_ok() && listener.accept().await.is_ok(),
            "the first one still has it"
        );
        // A socket that an earlier daemon left is replaced; any other file is not.
        drop((listener, connected));
        assert!(StdStream::connect(&path).is_err());
        assert!(listen(&path).is_ok());
        fs::remove_file(&path).expect("removed");
        fs::write(&path, "precious").expect("written");
        assert!(listen(&path).is_err());
        assert_eq!(fs::read_to_string(&path).expect("the file"), "precious");
    }

    /// The umask belongs to the whole process: another thread would create a folder that it cannot
    /// enter.
    #[tokio::test]
    async fn a_socket_is_private_from_the_start_and_changes_nothing_else() {
        let root = tempfile::tempdir().expect("a folder");
        let mode = |path: &Path| {
            fs::symlink_metadata(path)
                .expect("the file")
                .permissions()
                .mode()
                & 0o777
        };
        std::thread::scope(|scope| {
            let folders = scope.spawn(|| {
                (0..2000).all(|number| {
                    let folder = root.path().join(number.to_string());
                    fs::create_dir(&folder).is_ok() && mode(&folder) & 0o700 == 0o700
                })
            });
            for number in 0.. {
                let path = root.path().join(format!("socket{number}"));
                let _socket = bind_private(&path).expect("a socket");
                assert_eq!(mode(&path) & 0o077, 0);
                if folders.is_finished() {
                    break;
                }
            }
            assert!(
                folders.join().expect("no panic"),
                "a folder cannot be entered"
            );
        });
    }

    /// With a socket of systemd, questions wait while no daemon runs. The watcher waits only for a
    /// limited time.
    #[tokio::test]
    async fn a_question_that_nobody_waits_for_any_more_is_not_carried_out() {
        use std::io::{BufRead as _, Write as _};

        let root = tempfile::tempdir().expect("a folder");
        let path = root.path().join("socket");
        let config = format!("engine = \"folder\"\nfolder.path = \"/x\"\nsocket = {path:?}\n");
        let config = crate::config::Config::parse(&config).expect("a configuration");
        let engine = Box::new(crate::engine::memory::MemoryEngine::default());
        let daemon = Daemon::new(config, "a".into(), None, engine);
        let listener = UnixListener::bind(&path).expect("a socket");
        let ask = |id: &str| {
            let mut stream = StdStream::connect(&path).expect("a connection");
            let event =
                format!(r#"{{"event_id":"{id}","event_type":"Reboot","resources":["a","b"]}}"#);
            writeln!(stream, r#"{{"phase":"approve","event":{event}}}"#).expect("written");
            stream
        };
        drop(ask("past"));
        let stream = ask("now");
        let reply = tokio::task::spawn_blocking(move || {
            let mut reply = String::new();
            std::io::BufReader::new(stream)
                .read_line(&mut reply)
                .map(|_| reply)
        });
        let local = tokio::task::LocalSet::new();
        local.spawn_local(serve(daemon.clone(), listener));
        let reply = local
            .run_until(reply)
            .await
            .expect("no panic")
            .expect("a reply");
        assert!(reply.contains("not ready: b"), "{reply}");
        let registers = daemon.engine.list("events/").await.expect("the registers");
        let keys: Vec<_> = registers
            .iter()
            .map(|(key, _)| key.split('/').nth(1))
            .collect();
        assert_eq!(keys, [Some("now")]);
    }
}
