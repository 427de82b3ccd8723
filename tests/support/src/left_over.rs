//! A check at the end of each test program: no test has left a socket open or a server running.
//!
//! On Linux, every program that uses this crate makes the check when it exits, whichever tests ran. What is left is printed, and the
//! program ends with a signal, which fails the run.

use std::fs;

use crate::wait;

/// The name of a test server's threads.
pub const SERVER_THREAD: &str = "test-server";

/// The names of the threads of servers begin with one of these. The second is the replay server's.
const SERVER_THREADS: [&str; 2] = [SERVER_THREAD, "replay-"];

/// Of a file's flags on Linux. The standard library sets it for each file that it opens.
const CLOSE_ON_EXEC: u32 = 0o2_000_000;

/// The variable that makes the test `leaves_a_server_and_a_socket` of [`nothing_is_left_over!`](crate::nothing_is_left_over) do so.
pub const LEAVE: &str = "TEST_LEAVES_A_SERVER";

#[cfg(target_os = "linux")]
mod at_exit {
    use std::process::abort;
    use std::thread;
    use std::time::{Duration, Instant};

    /// For how long Linux may list a thread that has ended.
    const PATIENCE: Duration = Duration::from_secs(5);

    /// The C library calls it when the process exits, after `main` or [`std::process::exit`].
    #[used]
    #[unsafe(link_section = ".fini_array")]
    static CHECK_AT_EXIT: extern "C" fn() = check_at_exit;

    extern "C" fn check_at_exit() {
        let end = Instant::now() + PATIENCE;
        loop {
            let left = super::left();
            if left.is_empty() {
                return;
            }
            if Instant::now() > end {
                eprintln!(
                    "error: the tests have left {} behind: {}",
                    left.len(),
                    left.join(", ")
                );
                abort();
            }
            thread::sleep(Duration::from_millis(20));
        }
    }
}

/// The open sockets and the threads of servers of this process, as a person reads them. Sockets that this process was started with do
/// not count: they are those that another program would inherit, too. Nor do pairs of sockets: tokio keeps one for signals as long as
/// the process lives.
#[must_use]
pub fn left() -> Vec<String> {
    let files = fs::read_dir("/proc/self/fd")
        .into_iter()
        .flatten()
        .flatten();
    let local = fs::read_to_string("/proc/self/net/unix").unwrap_or_default();
    let socket = |file: fs::DirEntry| {
        let number = file.file_name().into_string().ok()?;
        let target = fs::read_link(file.path()).ok()?.display().to_string();
        let info = fs::read_to_string(format!("/proc/self/fdinfo/{number}")).ok()?;
        let flags = info.lines().find_map(|line| line.strip_prefix("flags:"))?;
        let flags = u32::from_str_radix(flags.trim(), 8).ok()?;
        let inode = target.strip_prefix("socket:[")?.strip_suffix(']')?;
        let is_left =
            flags & CLOSE_ON_EXEC != 0 && !local.lines().any(|line| is_of_pair(line, inode));
        is_left.then(|| format!("{target} as file {number}"))
    };
    let is_server = |name: &str| SERVER_THREADS.iter().any(|known| name.starts_with(known));
    let servers = wait::threads()
        .into_iter()
        .filter(|(_, name)| is_server(name));
    files
        .filter_map(socket)
        .chain(servers.map(|(id, name)| format!("thread {id} {name}")))
        .collect()
}

/// Whether a line of `/proc/self/net/unix` is about this socket, which is connected (3) and has no name, as both sockets of a pair are. A
/// listening socket and those that it accepts have a name.
fn is_of_pair(line: &str, inode: &str) -> bool {
    let mut words = line.split_whitespace().skip(5);
    [words.next(), words.next(), words.next()] == [Some("03"), Some(inode), None]
}

/// Makes the check part of a test program, with a test that it finds what is left: in a module of its own, `nothing_is_left_over`.
#[macro_export]
macro_rules! nothing_is_left_over {
    () => {
        #[cfg(all(test, target_os = "linux"))]
        mod nothing_is_left_over {
            use $crate::{TestServer, left_over, wait};

            /// Does nothing but in the process that the other test starts.
            #[test]
            fn leaves_a_server_and_a_socket() {
                if std::env::var_os(left_over::LEAVE).is_some() {
                    std::mem::forget(TestServer::start(|_| {}));
                    std::mem::forget(std::net::UdpSocket::bind("127.0.0.1:0").expect("a socket"));
                    // It does not count.
                    std::mem::forget(std::os::unix::net::UnixStream::pair().expect("a pair"));
                }
            }

            #[test]
            fn a_server_or_a_socket_that_is_left_fails_the_run() {
                use std::os::unix::process::ExitStatusExt as _;

                let name = concat!(module_path!(), "::leaves_a_server_and_a_socket");
                let name = name.split_once("::").expect("a crate").1;
                let run = |leave: bool| {
                    let mut command =
                        std::process::Command::new(std::env::current_exe().expect("this program"));
                    command
                        .args(["--exact", "--test-threads", "4", name])
                        .env_remove(left_over::LEAVE);
                    if leave {
                        command.env(left_over::LEAVE, "1");
                    }
                    let output = wait::output(&mut command);
                    assert!(
                        String::from_utf8_lossy(&output.stdout).contains(" 1 passed"),
                        "{output:?}"
                    );
                    output
                };
                assert!(run(false).status.success());
                let left = run(true);
                assert_eq!(left.status.signal(), Some(6), "{left:?}");
                let text = String::from_utf8_lossy(&left.stderr).into_owned();
                assert!(
                    text.contains("the tests have left 3 behind: socket:[")
                        && text.contains("test-server"),
                    "{text}"
                );
            }
        }
    };
}

crate::nothing_is_left_over!();
