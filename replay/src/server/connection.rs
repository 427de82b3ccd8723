//! Serves one connection: reads requests and sends responses, damaged as the faults demand.

use std::io::{self, Write};
use std::net::TcpStream;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::fault::plan::Damage;
use crate::http::{self, ClientStream, NextRequest, RequestReader};
use crate::service::{Delivery, Service, ServiceAction};

/// A slow header or body is sent in at most this many pieces.
const PIECES: usize = 100;

/// The greeting of a server that does not speak HTTP.
const NOT_HTTP: &[u8] = b"SSH-2.0-OpenSSH_9.6\r\n\0\0\0\0";

/// Since when a connection waits for its client.
#[derive(Debug, Default)]
pub(crate) struct Idle(Mutex<Option<Instant>>);

impl Idle {
    /// How long the connection has been waiting for its client; zero if it is not.
    pub(crate) fn time(&self) -> Duration {
        self.lock().map_or(Duration::ZERO, |since| since.elapsed())
    }

    fn set(&self, idle: bool) {
        *self.lock() = idle.then(Instant::now);
    }

    fn lock(&self) -> MutexGuard<'_, Option<Instant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Serves a connection to a machine's address until the client, a fault or the server closes it.
pub(crate) fn serve(service: &Service, machine: usize, client: &ClientStream, idle: &Idle) {
    let stream = &client.socket;
    // A client that never reads does not keep a thread.
    let _ = stream.set_write_timeout(Some(http::IDLE));
    // Without this, a response in two writes would wait for the client's delayed acknowledgement.
    let _ = stream.set_nodelay(true);
    let mut reader = RequestReader::new(client);
    loop {
        idle.set(true);
        let next = reader.next();
        idle.set(false);
        let request = match next {
            NextRequest::Request(request) => request,
            NextRequest::Refused(request, response) => {
                service.record_refusal(machine, &request, &response);
                let framing = Framing {
                    keep_alive: false,
                    head_only: false,
                };
                let _ = send(service, stream, &Delivery::plain(response), framing);
                return http::close(client);
            }
            NextRequest::Closed => return,
        };
        let delivery = match service.handle(machine, &request) {
            // The request's last byte is unread, so closing the socket makes the kernel send RST.
            ServiceAction::Reset | ServiceAction::Stop => return,
            ServiceAction::Silence => {
                idle.set(true);
                return http::drain(client);
            }
            ServiceAction::NotHttp => {
                let _ = reader
                    .finish()
                    .and_then(|()| (&mut &*stream).write_all(NOT_HTTP));
                return http::close(client);
            }
            ServiceAction::Respond(delivery) => delivery,
        };
        let resets = delivery.damage == Some(Damage::ResetMidBody);
        if !resets && reader.finish().is_err() {
            return;
        }
        let keep_alive = request.keep_alive && delivery.damage != Some(Damage::ShortBody);
        let framing = Framing {
            keep_alive,
            head_only: request.method == "HEAD",
        };
        if send(service, stream, &delivery, framing).is_err() || resets {
            return;
        }
        if !keep_alive {
            return http::close(client);
        }
    }
}

#[derive(Clone, Copy)]
struct Framing {
    keep_alive: bool,
    head_only: bool,
}

/// Sends a response. After an error, the connection must be closed.
fn send(
    service: &Service,
    stream: &TcpStream,
    delivery: &Delivery,
    framing: Framing,
) -> io::Result<()> {
    let response = &delivery.response;
    let body = &response.body;
    let mut head = response.open_head();
    if !framing.keep_alive {
        head.extend_from_slice(b"Connection: close\r\n");
    }
    let length = u64::try_from(body.len()).unwrap_or(u64::MAX);
    let length = match delivery.damage {
        Some(Damage::HugeBody(bytes)) => bytes.max(length),
        _ => length,
    };
    if delivery.damage == Some(Damage::EndlessBody) {
        head.extend_from_slice(b"Transfer-Encoding: chunked\r\n");
    } else if response.may_have_body() {
        head.extend_from_slice(format!("Content-Length: {length}\r\n").as_bytes());
    }
    let bodiless = framing.head_only || !response.may_have_body();
    if let Some(Damage::ManyHeaders(count)) = delivery.damage {
        many_headers(stream, &head, count)?;
        return trickle(service, stream, body, delivery.slow_body);
    }
    if let Some(Damage::LongHeader(bytes)) = delivery.damage {
        head.extend_from_slice(b"X-Padding: ");
        (&mut &*stream).write_all(&head)?;
        repeat(stream, b'x', bytes)?;
        (&mut &*stream).write_all(b"\r\n\r\n")?;
        return trickle(service, stream, body, delivery.slow_body);
    }
    head.extend_from_slice(b"\r\n");
    if bodiless {
        return trickle(service, stream, &head, delivery.slow_headers);
    }
    if delivery.slow_headers.is_zero() && delivery.slow_body.is_zero() && delivery.damage.is_none()
    {
        // One write, so that an undamaged response arrives in one piece.
        head.extend_from_slice(body);
        return (&mut &*stream).write_all(&head);
    }
    trickle(service, stream, &head, delivery.slow_headers)?;
    let half = body.get(..body.len() / 2).unwrap_or_default();
    match delivery.damage {
        Some(Damage::ResetMidBody | Damage::ShortBody) => {
            trickle(service, stream, half, delivery.slow_body)
        }
        Some(Damage::EndlessBody) => endless(service, stream, body, delivery.slow_body),
        Some(Damage::HugeBody(_)) => {
            trickle(service, stream, body, delivery.slow_body)?;
            repeat(
                stream,
                b' ',
                length - u64::try_from(body.len()).unwrap_or(length),
            )
        }
        None | Some(Damage::ManyHeaders(_) | Damage::LongHeader(_)) => {
            trickle(service, stream, body, delivery.slow_body)
        }
    }
}

/// Sends bytes spread over a time, or at once if it is zero.
fn trickle(
    service: &Service,
    mut stream: &TcpStream,
    bytes: &[u8],
    span: Duration,
) -> io::Result<()> {
    if span.is_zero() || bytes.is_empty() {
        return stream.write_all(bytes);
    }
    let pieces = bytes.chunks(bytes.len().div_ceil(PIECES));
    let gap = span / u32::try_from(pieces.len()).unwrap_or(1);
    for piece in pieces {
        if service.pause(gap) {
            return Err(io::ErrorKind::Interrupted.into());
        }
        stream.write_all(piece)?;
    }
    Ok(())
}

/// Sends a header with `count` additional fields.
fn many_headers(stream: &TcpStream, head: &[u8], count: u32) -> io::Result<()> {
    let mut out = io::BufWriter::with_capacity(64 * 1024, stream);
    out.write_all(head)?;
    for number in 0..count {
        write!(out, "X-Padding-{number}: {number}\r\n")?;
    }
    out.write_all(b"\r\n")?;
    out.flush()
}

/// Sends the document in one chunk, then chunks of spaces until the client closes the connection or
/// the server stops.
fn endless(
    service: &Service,
    mut stream: &TcpStream,
    body: &[u8],
    span: Duration,
) -> io::Result<()> {
    write!(stream, "{:x}\r\n", body.len())?;
    trickle(service, stream, body, span)?;
    let mut chunk = b"\r\n1000\r\n".to_vec();
    chunk.resize(chunk.len() + 0x1000, b' ');
    loop {
        stream.write_all(&chunk)?;
    }
}

/// Sends a byte `count` times.
fn repeat(mut stream: &TcpStream, byte: u8, mut count: u64) -> io::Result<()> {
    let bytes = [byte; 16 * 1024];
    while count > 0 {
        let some = usize::try_from(count)
            .unwrap_or(usize::MAX)
            .min(bytes.len());
        stream.write_all(&bytes[..some])?;
        count -= u64::try_from(some).unwrap_or(count);
    }
    Ok(())
}
