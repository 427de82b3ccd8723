//! Counts the requests and bytes between the daemons and a store: in a proxy, or at the engine,
//! where no proxy can read them.

use std::ops::Sub;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use scheduled_events_gate::engine::{Aged, Clock, Engine, Reply, Revision, Swap, Versioned};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};

/// The longest head of a request.
const HEAD_MAX: usize = 64 * 1024;

/// Requests by kind, and bytes in both directions.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Count {
    pub(crate) writes: u64,
    pub(crate) reads: u64,
    pub(crate) lists: u64,
    pub(crate) bytes: u64,
}

impl Sub for Count {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self {
            writes: self.writes - earlier.writes,
            reads: self.reads - earlier.reads,
            lists: self.lists - earlier.lists,
            bytes: self.bytes - earlier.bytes,
        }
    }
}

/// The kind of a request, by its first line.
pub(crate) type KindOf = fn(&str) -> RequestKind;

#[derive(Clone, Copy, Debug)]
pub(crate) enum RequestKind {
    Write,
    Read,
    List,
}

/// Counters.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    requests: Mutex<[u64; 3]>,
    bytes: AtomicU64,
}

impl Meter {
    pub(crate) fn count(&self) -> Count {
        let [writes, reads, lists] = *self.requests.lock().expect("the counts");
        Count {
            writes,
            reads,
            lists,
            bytes: self.bytes.load(Ordering::SeqCst),
        }
    }

    fn add_request(&self, kind: RequestKind) {
        self.requests.lock().expect("the counts")[kind as usize] += 1;
    }

    fn add_bytes(&self, bytes: usize) {
        self.bytes.fetch_add(bytes as u64, Ordering::SeqCst);
    }
}

/// Forwards connections to this port of this machine, and returns its own. With `kind_of` it reads
/// the requests; without, they are encrypted, and it counts only bytes.
pub(crate) async fn proxy(port: u16, meter: Arc<Meter>, kind_of: Option<KindOf>) -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
    let own = listener.local_addr().expect("an address").port();
    tokio::task::spawn_local(async move {
        while let Ok((client, _)) = listener.accept().await {
            let meter = meter.clone();
            tokio::task::spawn_local(async move {
                let Ok(server) = TcpStream::connect(("127.0.0.1", port)).await else {
                    return;
                };
                let ((from_client, to_client), (from_server, to_server)) =
                    (client.into_split(), server.into_split());
                let mut requests = kind_of.map(Requests::new);
                let there = forward(from_client, to_server, &meter, |bytes| {
                    if let Some(requests) = &mut requests {
                        requests.read(bytes, &meter);
                    }
                });
                tokio::join!(there, forward(from_server, to_client, &meter, |_| {}));
            });
        }
    });
    own
}

async fn forward(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    meter: &Meter,
    mut look: impl FnMut(&[u8]),
) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        meter.add_bytes(count);
        look(&buffer[..count]);
        if to.write_all(&buffer[..count]).await.is_err() {
            break;
        }
    }
    let _ = to.shutdown().await;
}

/// The requests of one connection, of which it reads the heads.
struct Requests {
    kind_of: KindOf,
    head: Vec<u8>,
    body_left: usize,
}

impl Requests {
    fn new(kind_of: KindOf) -> Self {
        Self {
            kind_of,
            head: Vec::new(),
            body_left: 0,
        }
    }

    fn read(&mut self, mut bytes: &[u8], meter: &Meter) {
        while let Some((&first, rest)) = bytes.split_first() {
            if self.body_left > 0 {
                let skipped = self.body_left.min(bytes.len());
                self.body_left -= skipped;
                bytes = &bytes[skipped..];
                continue;
            }
            self.head.push(first);
            bytes = rest;
            assert!(self.head.len() <= HEAD_MAX, "this is no request");
            if self.head.ends_with(b"\r\n\r\n") {
                let head =
                    String::from_utf8_lossy(&std::mem::take(&mut self.head)).to_ascii_lowercase();
                assert!(
                    !head.contains("\r\ntransfer-encoding:"),
                    "a body whose length is not known: {head}"
                );
                let length = head
                    .lines()
                    .find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok());
                self.body_left = length.unwrap_or_default();
                meter.add_request((self.kind_of)(head.lines().next().unwrap_or_default()));
            }
        }
    }
}

/// An engine whose calls are counted; with `has_bytes`, the contents of the registers, too.
pub(crate) struct Metered {
    pub(crate) engine: Box<dyn Engine>,
    pub(crate) meter: Arc<Meter>,
    pub(crate) has_bytes: bool,
}

impl Metered {
    fn count(&self, kind: RequestKind, value: &str) {
        self.meter.add_request(kind);
        self.count_value(value);
    }

    fn count_value(&self, value: &str) {
        if self.has_bytes {
            self.meter.add_bytes(value.len());
        }
    }
}

impl Engine for Metered {
    fn read<'a>(&'a self, key: &'a str) -> Reply<'a, Option<Versioned>> {
        Box::pin(async move {
            let found = self.engine.read(key).await?;
            self.count(
                RequestKind::Read,
                found.as_ref().map_or("", |found| &found.value),
            );
            Ok(found)
        })
    }

    fn swap<'a>(
        &'a self,
        key: &'a str,
        expected: Option<&'a Revision>,
        value: &'a str,
    ) -> Reply<'a, Swap> {
        self.count(RequestKind::Write, value);
        self.engine.swap(key, expected, value)
    }

    fn delete<'a>(&'a self, key: &'a str, expected: &'a Revision) -> Reply<'a, bool> {
        self.count(RequestKind::Write, "");
        self.engine.delete(key, expected)
    }

    fn list<'a>(&'a self, prefix: &'a str) -> Reply<'a, Vec<(String, Versioned)>> {
        Box::pin(async move {
            let found = self.engine.list(prefix).await?;
            self.count(RequestKind::List, "");
            for (_, register) in &found {
                self.count_value(&register.value);
            }
            Ok(found)
        })
    }

    fn clock(&self) -> Option<Clock> {
        self.engine.clock()
    }

    fn list_aged<'a>(&'a self, prefix: &'a str) -> Reply<'a, Vec<Aged>> {
        Box::pin(async move {
            let found = self.engine.list_aged(prefix).await?;
            self.count(RequestKind::List, "");
            for aged in &found {
                self.count_value(&aged.register.value);
            }
            Ok(found)
        })
    }
}

#[test]
fn requests_are_counted_however_their_bytes_arrive() {
    let text = b"PUT /a HTTP/1.1\r\nContent-Length: 10\r\n\r\nGET / \r\n\r\nGET /b HTTP/1.1\r\n\r\nget /?comp=list HTTP/1.1\r\nhost: x\r\n\r\n";
    for step in [1, 2, 7, text.len()] {
        let meter = Meter::default();
        let mut requests = Requests::new(crate::stores::kind_of_blob);
        text.chunks(step)
            .for_each(|bytes| requests.read(bytes, &meter));
        let Count {
            writes,
            reads,
            lists,
            ..
        } = meter.count();
        assert_eq!((writes, reads, lists), (1, 1, 1), "{step}");
    }
}
