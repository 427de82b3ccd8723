//! Connections to the control, with limits: a program that opens many and sends nothing does not
//! block the page.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

/// The most connections at a time; more wait. A browser opens six, and each client that posts its
/// records opens one. The process keeps enough files for the machines.
const CONNECTIONS_MAX: usize = 256;

/// How long the head of a request may take, from the start of the connection or the previous
/// answer.
const HEAD_MAX: Duration = Duration::from_secs(15);

/// How long to wait if the system has no more files.
const RETRY: Duration = Duration::from_secs(1);

/// Serves each connection, without end.
pub(super) async fn serve(listener: TcpListener, router: Router) {
    serve_with(listener, router, CONNECTIONS_MAX, HEAD_MAX).await;
}

async fn serve_with(
    listener: TcpListener,
    router: Router,
    connections_max: usize,
    head_max: Duration,
) {
    let free = Arc::new(Semaphore::new(connections_max));
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(head_max);
    // The semaphore is never closed.
    while let Ok(permit) = Arc::clone(&free).acquire_owned().await {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(RETRY).await;
            continue;
        };
        let connection = http.serve_connection(
            TokioIo::new(stream),
            TowerToHyperService::new(router.clone()),
        );
        tokio::spawn(async move {
            // A connection that fails concerns only its peer.
            let _ = connection.await;
            drop(permit);
        });
    }
}

#[cfg(test)]
mod tests {
    use std::io::{self, ErrorKind, Read as _, Write as _};
    use std::net::{SocketAddr, TcpStream};
    use std::thread::{self, JoinHandle};

    use axum::middleware::from_fn_with_state;
    use axum::routing::get;
    use scheduled_events_test_support::left_over::SERVER_THREAD;
    use tokio::sync::oneshot;

    use super::super::guard;
    use super::*;

    /// A server that ends with its test.
    struct Server {
        address: SocketAddr,
        running: Option<(oneshot::Sender<()>, JoinHandle<()>)>,
    }

    impl Drop for Server {
        fn drop(&mut self) {
            if let Some((stop, thread)) = self.running.take() {
                drop(stop);
                // Its panic already fails the test: the test gets no answer.
                let _ = thread.join();
            }
        }
    }

    fn start(connections_max: usize, head_max: Duration) -> Server {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        listener.set_nonblocking(true).expect("a socket");
        let address = listener.local_addr().expect("an address");
        let (stop, stopped) = oneshot::channel();
        let thread = thread::Builder::new()
            .name(SERVER_THREAD.to_owned())
            .spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build()
                    .expect("a runtime");
                runtime.block_on(async {
                    let listener = TcpListener::from_std(listener).expect("a listener");
                    let in_time = from_fn_with_state(Duration::from_millis(500), guard::in_time);
                    let router = Router::new().route(
                        "/",
                        get(|| async { "ok" })
                            .post(|_: String| async {})
                            .layer(in_time),
                    );
                    tokio::select! {
                        () = serve_with(listener, router, connections_max, head_max) => {}
                        _ = stopped => {}
                    }
                });
            });
        Server {
            address,
            running: Some((stop, thread.expect("a thread"))),
        }
    }

    fn connect(address: SocketAddr) -> TcpStream {
        let stream = TcpStream::connect(address).expect("a connection");
        // No test reaches this time unless it fails.
        stream
            .set_read_timeout(Some(Duration::from_secs(120)))
            .expect("a socket");
        stream
    }

    fn ask(address: SocketAddr) -> io::Result<String> {
        let mut stream = connect(address);
        stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    }

    #[test]
    fn who_sends_no_request_is_disconnected_and_keeps_nobody_out() {
        let server = start(2, Duration::from_millis(500));
        let mut idle: Vec<_> = [&b""[..], b"GET / HT", b"", b"GET / HTTP/1.1\r\nHost"]
            .into_iter()
            .map(|part| {
                let mut stream = connect(server.address);
                // It may have been closed by now.
                let _ = stream.write_all(part);
                stream
            })
            .collect();
        // On a busy machine the request itself may be late.
        assert!((0..100).any(|_| ask(server.address).is_ok_and(|answer| answer.ends_with("ok"))));
        for stream in &mut idle {
            if let Err(error) = stream.read_to_end(&mut Vec::new()) {
                assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}");
            }
        }
    }

    #[test]
    fn a_connection_that_ends_makes_way_for_the_next() {
        let server = start(1, Duration::from_secs(3600));
        let address = server.address;
        let first = connect(address);
        let next = thread::spawn(move || ask(address));
        drop(first);
        assert!(
            next.join()
                .expect("a thread")
                .expect("an answer")
                .ends_with("ok")
        );
    }

    #[test]
    fn a_body_that_does_not_arrive_is_given_up() {
        let server = start(1, Duration::from_secs(3600));
        let mut stream = connect(server.address);
        stream
            .write_all(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nhalf")
            .expect("part of a request");
        let mut answer = String::new();
        stream
            .read_to_string(&mut answer)
            .expect("an answer, and the end");
        assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    }
}
