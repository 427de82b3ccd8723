//! A server of one document: keep-alive, and the same answer to every GET.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Serves until the program ends.
pub struct Server {
    pub endpoint: String,
    answered: Arc<AtomicUsize>,
}

impl Server {
    pub fn start(body: &[u8]) -> std::io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let endpoint = format!("http://{}", listener.local_addr()?);
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: application/json; charset=utf-8\r\nServer: IMDS/150.870.65.1854\r\n\
             Date: Mon, 11 Apr 2022 22:10:00 GMT\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        let answer: Arc<[u8]> = [head.as_bytes(), body].concat().into();
        let answered = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&answered);
        thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                let (answer, count) = (Arc::clone(&answer), Arc::clone(&count));
                // A lost connection ends its thread; the client reports it.
                thread::spawn(move || serve(&connection, &answer, &count));
            }
        });
        Ok(Self { endpoint, answered })
    }

    /// The number of answered requests.
    pub fn answered(&self) -> usize {
        self.answered.load(Ordering::Acquire)
    }
}

fn serve(connection: &TcpStream, answer: &[u8], answered: &AtomicUsize) -> std::io::Result<()> {
    connection.set_nodelay(true)?;
    let mut reader = BufReader::new(connection);
    let mut line = String::new();
    loop {
        line.clear();
        if reader.read_line(&mut line)? == 0 {
            return Ok(());
        }
        if line == "\r\n" {
            (&mut &*connection).write_all(answer)?;
            answered.fetch_add(1, Ordering::Release);
        }
    }
}
