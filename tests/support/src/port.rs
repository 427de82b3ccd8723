//! Ports for servers that take one by its number.

use std::net::TcpListener;
use std::sync::atomic::{AtomicU16, Ordering};

/// A port of the loopback interface that stays free until a server of this test takes it: systems choose the ports of others above
/// these.
///
/// # Panics
/// There is none.
#[must_use]
pub fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    // Where other runs of the tests hardly begin.
    let first = 10_000 + u16::try_from(std::process::id() % 200).expect("a small number") * 100;
    let mut ports = std::iter::repeat_with(|| first + NEXT.fetch_add(1, Ordering::Relaxed));
    ports
        .find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok())
        .expect("a port")
}
