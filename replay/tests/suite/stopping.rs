//! Tests of the server's threads, port and connection limit.

#[cfg(target_os = "linux")]
use super::eventually::eventually;
use super::*;

use std::sync::{Mutex, MutexGuard, PoisonError};

use scheduled_events_test_support::wait::{self, Meeting};

#[cfg(target_os = "linux")]
fn threads_of(address: SocketAddr) -> usize {
    let name = format!("replay-{}", address.port());
    let tasks = std::fs::read_dir("/proc/self/task").expect("procfs");
    let names =
        tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
    names.filter(|comm| comm.trim_end() == name).count()
}

#[test]
fn dropping_the_server_ends_its_threads_and_frees_its_port() {
    let faults = [
        "silence@1",
        "endless-body@2",
        "slow-body:36000@3",
        "slow-headers:36000@4",
    ];
    let (sender, receiver) = mpsc::channel();
    let config = faults.iter().fold(steady(), |config, fault| {
        config.fault(fault.parse().expect(fault))
    });
    let server = start(config.observer(sender));
    let address = server.addr();
    assert_eq!(server.url(), format!("http://{address}"));
    let mut busy: Vec<_> = (0..faults.len())
        .map(|_| {
            let mut stream = connect(address);
            stream
                .write_all(head("GET", EVENTS, "").as_bytes())
                .expect("send");
            // The faults are counted by request, so wait until the server has processed this one.
            while !matches!(
                receiver.recv_timeout(PATIENCE).expect("an answer"),
                ReplayEvent::Answered { .. }
            ) {}
            stream
        })
        .collect();
    let idle = connect(address);
    let mut kept = connect(address);
    kept.write_all(head("GET", EVENTS, "").as_bytes())
        .expect("send");
    assert_eq!(read_response(&mut kept).status, 200);
    #[cfg(target_os = "linux")]
    assert!(threads_of(address) > 2 + faults.len());

    drop(server);
    // Linux lists a thread for a moment after it was joined.
    #[cfg(target_os = "linux")]
    eventually("the end of the threads", || {
        (threads_of(address) == 0).then_some(())
    });
    TcpStream::connect_timeout(&address, PATIENCE).expect_err("no listener");
    TcpListener::bind(address).expect("the port is free");
    for stream in busy.iter_mut().chain([&mut kept]) {
        let mut rest = Vec::new();
        let ended = stream
            .read_to_end(&mut rest)
            .map_or_else(|error| error.kind(), |_| ErrorKind::UnexpectedEof);
        assert!(
            !matches!(ended, ErrorKind::WouldBlock | ErrorKind::TimedOut),
            "{ended}"
        );
    }
    drop(idle);
}

#[test]
fn serves_fifty_connections_at_once() {
    let server = start(steady());
    let address = server.addr();
    let meeting = Arc::new(Meeting::new(50));
    let clients: Vec<_> = (0..50)
        .map(|_| {
            let meeting = meeting.clone();
            thread::spawn(move || {
                let mut stream = connect(address);
                // All fifty are connected before the first sends a request.
                meeting.wait();
                for _ in 0..4 {
                    stream
                        .write_all(head("GET", EVENTS, "").as_bytes())
                        .expect("send");
                    assert_eq!(read_response(&mut stream).status, 200);
                }
                meeting.wait();
            })
        })
        .collect();
    wait::join_all(clients);
    assert_eq!(server.requests().len(), 200);
}

/// Waits for the other test that has some 600 sockets open: most processes may have 1,024.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

#[test]
fn connections_over_the_limit_wait_for_a_free_slot() {
    let _turn = turn();
    let server = start(steady());
    let mut streams: Vec<_> = (0..300).map(|_| connect(server.addr())).collect();
    while let Some(mut stream) = streams.pop() {
        // The last connections wait in the queue until enough of the others are closed.
        if streams.len() < 200 {
            stream
                .write_all(head("GET", NAME, "").as_bytes())
                .expect("send");
            assert_eq!(read_response(&mut stream).status, 200);
        }
    }
    assert_eq!(server.requests().len(), 200);
}

#[test]
fn idle_connections_give_way_to_new_ones() {
    let _turn = turn();
    let server = start(steady());
    let idle: Vec<_> = (0..300).map(|_| connect(server.addr())).collect();
    // This request waits until the idle connections give way.
    assert_eq!(get(&server, NAME).status, 200);
    drop(idle);
}

#[test]
#[cfg(target_os = "linux")]
fn a_server_that_cannot_open_a_file_any_more_ends() {
    // In a process of its own, since the limit applies to the whole process.
    let name = "stopping::a_server_that_cannot_open_a_file_any_more_ends";
    if std::env::var_os("TEST_FEW_FILES").is_none() {
        let mut test = std::process::Command::new(std::env::current_exe().expect("this program"));
        test.args(["--exact", name]).env("TEST_FEW_FILES", "1");
        let output = wait::output(&mut test);
        let printed = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success() && printed.contains("1 passed"),
            "{printed}"
        );
        return;
    }
    let server = start(steady());
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let none = rustix::process::Rlimit {
        current: Some(0),
        ..limit
    };
    rustix::process::setrlimit(rustix::process::Resource::Nofile, none).expect("a limit");
    let (sender, ended) = mpsc::channel();
    // A drop that hangs must not hang the test.
    thread::spawn(move || {
        drop(server);
        let _ = sender.send(());
    });
    ended.recv_timeout(PATIENCE).expect("the server ends");
}
