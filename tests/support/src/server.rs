//! A server on a free port that ends with its test.

use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::ops::Deref;
use std::panic::resume_unwind;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::{left_over, wait};

/// A server on a free port of the loopback interface, with a thread for each connection. Dropping it closes all its sockets and joins
/// all its threads.
///
/// ```
/// use std::io::{Read as _, Write as _};
/// use std::net::TcpStream;
///
/// use scheduled_events_test_support::TestServer;
///
/// let server = TestServer::start(|connection| {
///     let _ = (&**connection).write_all(b"hello");
/// });
/// let mut text = String::new();
/// TcpStream::connect(server.address())?.read_to_string(&mut text)?;
/// assert_eq!(text, "hello");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct TestServer {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: Option<JoinHandle<()>>,
}

/// A connection that a server has accepted. It is closed when the function that serves it returns.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    is_stopping: Mutex<bool>,
    stops: Condvar,
    served: Mutex<Vec<(Weak<Connection>, JoinHandle<()>)>>,
}

impl Deref for Connection {
    type Target = TcpStream;

    fn deref(&self) -> &TcpStream {
        &self.stream
    }
}

impl Connection {
    /// Waits for a time, or until the server stops. Returns whether it stops.
    pub fn pause(&self, time: Duration) -> bool {
        let stops =
            self.shared
                .stops
                .wait_timeout_while(lock(&self.shared.is_stopping), time, |stops| !*stops);
        *stops.unwrap_or_else(PoisonError::into_inner).0
    }
}

impl TestServer {
    /// Starts a server that serves each connection with a function.
    ///
    /// # Panics
    /// There is no free port, or no thread.
    pub fn start(serve: impl Fn(&Connection) + Send + Sync + 'static) -> Self {
        wait::limit_tests();
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let shared = Arc::new(Shared::default());
        let serving = Arc::clone(&shared);
        let accept = move || accept(&listener, &serving, &Arc::new(serve));
        let accepting = Some(spawn(accept).expect("a thread"));
        Self {
            address,
            shared,
            accepting,
        }
    }

    /// The address that it listens on.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address as a URL, such as `http://127.0.0.1:40123`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        *lock(&self.shared.is_stopping) = true;
        self.shared.stops.notify_all();
        // Wakes the accepting thread. If no file can be opened, the thread is awake.
        let _ = TcpStream::connect_timeout(&self.address, Duration::from_secs(1));
        let mut threads: Vec<_> = self.accepting.take().into_iter().collect();
        if !thread::panicking() {
            wait::until("the end of a test server", || {
                threads.iter().all(JoinHandle::is_finished).then_some(())
            });
        }
        for (connection, thread) in lock(&self.shared.served).drain(..) {
            if let Some(connection) = connection.upgrade() {
                let _ = connection.shutdown(Shutdown::Both);
            }
            threads.push(thread);
        }
        // A test that has failed already does not wait for what may hang because of it.
        if thread::panicking() {
            return;
        }
        wait::until("the end of a test server", || {
            threads.iter().all(JoinHandle::is_finished).then_some(())
        });
        for thread in threads {
            thread.join().unwrap_or_else(|panic| resume_unwind(panic));
        }
    }
}

fn spawn(work: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    thread::Builder::new()
        .name(left_over::SERVER_THREAD.to_owned())
        .spawn(work)
}

fn accept(
    listener: &TcpListener,
    shared: &Arc<Shared>,
    serve: &Arc<impl Fn(&Connection) + Send + Sync + 'static>,
) {
    loop {
        let accepted = listener.accept();
        if *lock(&shared.is_stopping) {
            return;
        }
        let Ok((stream, _)) = accepted else {
            // For example, no file descriptor is left.
            thread::sleep(Duration::from_millis(20));
            continue;
        };
        let connection = Arc::new(Connection {
            stream,
            shared: Arc::clone(shared),
        });
        let (weak, serve) = (Arc::downgrade(&connection), Arc::clone(serve));
        let mut served = lock(&shared.served);
        // The ended ones are joined here, so that a panic in one of them is not lost.
        for (_, thread) in served.extract_if(.., |(_, thread)| thread.is_finished()) {
            thread.join().unwrap_or_else(|panic| resume_unwind(panic));
        }
        if let Ok(thread) = spawn(move || serve(&connection)) {
            served.push((weak, thread));
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
