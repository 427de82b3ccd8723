//! One connection: requests in, answers out, in whatever shape the faults ask for.

use std::io::{self, Write};
use std::net::TcpStream;
use std::time::Duration;

use super::http::{self, Answer, Next, Reader};
use super::service::{Damage, Delivery, Outcome, Service};

/// What is trickled goes out in at most this many pieces.
const PIECES: usize = 100;

/// How a service of another kind greets.
const NOT_HTTP: &[u8] = b"SSH-2.0-OpenSSH_9.6\r\n\0\0\0\0";

/// Serves a connection until the client, a fault or the server ends it.
pub(super) fn serve(service: &Service, stream: &TcpStream) {
    // Small answers in two writes would otherwise wait for the client's delayed acknowledgement.
    let _ = stream.set_nodelay(true);
    let mut reader = Reader::new(stream);
    loop {
        let request = match reader.next() {
            Next::Request(request) => request,
            Next::Refused(answer) => {
                service.record_refusal(answer.status);
                let _ =
                    send(service, stream, &Delivery::plain(answer), Framing { keep_alive: false, head_only: false });
                return http::close(stream);
            }
            Next::Closed => return,
        };
        let delivery = match service.handle(&request) {
            // Returning with the request's last byte unread makes the kernel send RST.
            Outcome::Reset | Outcome::Stopped => return,
            Outcome::Silence => return http::drain(stream),
            Outcome::NotHttp => {
                let _ = reader.finish().and_then(|()| (&mut &*stream).write_all(NOT_HTTP));
                return http::close(stream);
            }
            Outcome::Answer(delivery) => delivery,
        };
        let resets = delivery.damage == Damage::ResetMidBody;
        if !resets && reader.finish().is_err() {
            return;
        }
        let keep_alive = request.keep_alive && delivery.damage != Damage::ShortBody;
        let framing = Framing { keep_alive, head_only: request.method == "HEAD" };
        if send(service, stream, &delivery, framing).is_err() || resets {
            return;
        }
        if !keep_alive {
            return http::close(stream);
        }
    }
}

#[derive(Clone, Copy)]
struct Framing {
    keep_alive: bool,
    head_only: bool,
}

impl Delivery {
    fn plain(answer: Answer) -> Self {
        Self { answer, damage: Damage::None, slow_headers: Duration::ZERO, slow_body: Duration::ZERO }
    }
}

/// Sends an answer. An error means that the connection is of no further use.
fn send(service: &Service, stream: &TcpStream, delivery: &Delivery, framing: Framing) -> io::Result<()> {
    let answer = &delivery.answer;
    let body = &answer.body;
    let mut head = answer.open_head();
    if !framing.keep_alive {
        head.extend_from_slice(b"Connection: close\r\n");
    }
    let length = u64::try_from(body.len()).unwrap_or(u64::MAX);
    let length = match delivery.damage {
        Damage::HugeBody(bytes) => bytes.max(length),
        _ => length,
    };
    if delivery.damage == Damage::EndlessBody {
        head.extend_from_slice(b"Transfer-Encoding: chunked\r\n");
    } else if answer.may_have_body() {
        head.extend_from_slice(format!("Content-Length: {length}\r\n").as_bytes());
    }
    let bodiless = framing.head_only || !answer.may_have_body();
    if let Damage::ManyHeaders(count) = delivery.damage {
        many_headers(stream, &head, count)?;
        return trickle(service, stream, body, delivery.slow_body);
    }
    if let Damage::LongHeader(bytes) = delivery.damage {
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
    if delivery.slow_headers.is_zero() && delivery.slow_body.is_zero() && delivery.damage == Damage::None {
        // One write, so that the usual answer arrives in one piece.
        head.extend_from_slice(body);
        return (&mut &*stream).write_all(&head);
    }
    trickle(service, stream, &head, delivery.slow_headers)?;
    let half = body.get(..body.len() / 2).unwrap_or_default();
    match delivery.damage {
        Damage::ResetMidBody | Damage::ShortBody => trickle(service, stream, half, delivery.slow_body),
        Damage::EndlessBody => endless(service, stream, body, delivery.slow_body),
        Damage::HugeBody(_) => {
            trickle(service, stream, body, delivery.slow_body)?;
            repeat(stream, b' ', length - u64::try_from(body.len()).unwrap_or(length))
        }
        Damage::None | Damage::ManyHeaders(_) | Damage::LongHeader(_) => {
            trickle(service, stream, body, delivery.slow_body)
        }
    }
}

/// Sends bytes over a span of time, or at once if it is zero.
fn trickle(service: &Service, mut stream: &TcpStream, bytes: &[u8], span: Duration) -> io::Result<()> {
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

fn many_headers(stream: &TcpStream, head: &[u8], count: u32) -> io::Result<()> {
    let mut out = io::BufWriter::with_capacity(64 * 1024, stream);
    out.write_all(head)?;
    for number in 0..count {
        write!(out, "X-Padding-{number}: {number}\r\n")?;
    }
    out.write_all(b"\r\n")?;
    out.flush()
}

/// The document in one chunk, then chunks of blanks until the client closes or the server stops.
fn endless(service: &Service, mut stream: &TcpStream, body: &[u8], span: Duration) -> io::Result<()> {
    write!(stream, "{:x}\r\n", body.len())?;
    trickle(service, stream, body, span)?;
    let mut chunk = b"\r\n1000\r\n".to_vec();
    chunk.resize(chunk.len() + 0x1000, b' ');
    loop {
        stream.write_all(&chunk)?;
    }
}

fn repeat(mut stream: &TcpStream, byte: u8, mut count: u64) -> io::Result<()> {
    let bytes = [byte; 16 * 1024];
    while count > 0 {
        let some = usize::try_from(count).unwrap_or(usize::MAX).min(bytes.len());
        stream.write_all(&bytes[..some])?;
        count -= u64::try_from(some).unwrap_or(count);
    }
    Ok(())
}
