//! HTTP/1.1 on a socket: reads requests, formats responses.
//!
//! This is handwritten because a library does not let a fault break the protocol. The last byte of
//! every request stays in the kernel's buffer until the response is decided: closing a socket with
//! unread data makes the kernel send RST, which resets a connection without unsafe code.
//!
//! `route` classifies a request, `wire` writes documents and refusals, and `instance` the instance
//! metadata.

pub(crate) mod instance;
pub(crate) mod route;
pub(crate) mod wire;

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The longest request line and header together, in bytes. The answer to a longer one is a 431.
pub(crate) const MAX_HEAD: usize = 16 * 1024;

/// The longest request body in bytes, enough for about 4000 approvals. The answer to a longer one
/// is a 413.
pub(crate) const MAX_BODY: usize = 256 * 1024;

/// The most header fields of a request. The answer to more is a 431.
pub(crate) const MAX_FIELDS: usize = 100;

/// How long a connection may stay idle, and how long the client may take to read a part of a
/// response.
pub(crate) const IDLE: Duration = Duration::from_secs(120);

/// How long a request may stay incomplete after its first byte. The answer to a longer one is a 408.
const INCOMPLETE: Duration = Duration::from_secs(10);

/// How long a read may wait before it checks whether the server closes the connection. On Windows,
/// shutting a socket down does not end a read that waits.
const READ_MAX: Duration = if cfg!(windows) {
    Duration::from_millis(100)
} else {
    Duration::MAX
};

/// How long a client may take to read a response and close the connection.
const LINGER: Duration = Duration::from_secs(5);

/// A complete request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReplayRequest {
    pub(crate) method: String,
    pub(crate) target: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    pub(crate) keep_alive: bool,
}

impl ReplayRequest {
    /// The target's path, and its query or an empty text.
    pub(crate) fn path_and_query(&self) -> (&str, &str) {
        self.target.split_once('?').unwrap_or((&self.target, ""))
    }

    /// The values of a header field, its name compared without case.
    pub(crate) fn header<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let fields = self.headers.iter();
        fields
            .filter(move |(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }
}

/// A response without its framing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReplayResponse {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: Vec<u8>,
}

impl ReplayResponse {
    pub(crate) fn new(status: u16) -> Self {
        Self {
            status,
            ..Self::default()
        }
    }

    pub(crate) fn json(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Self::new(status)
            .with("Content-Type", "application/json; charset=utf-8")
            .body(body)
    }

    pub(crate) fn text(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Self::new(status)
            .with("Content-Type", "text/plain; charset=utf-8")
            .body(body)
    }

    pub(crate) fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.retain(|(known, _)| *known != name);
        self.headers.push((name, value.into()));
        self
    }

    pub(crate) fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    /// Whether HTTP allows a body with this status.
    pub(crate) fn may_have_body(&self) -> bool {
        !matches!(self.status, 204 | 304)
    }

    /// The status line and the header fields, without the empty line that ends the header.
    pub(crate) fn open_head(&self) -> Vec<u8> {
        let mut head = format!("HTTP/1.1 {} {}\r\n", self.status, reason(self.status));
        for (name, value) in &self.headers {
            head.push_str(name);
            head.push_str(": ");
            head.push_str(value);
            head.push_str("\r\n");
        }
        head.push_str("Server: scheduled-events-replay\r\n");
        if !self.headers.iter().any(|(name, _)| *name == "Date") {
            head.push_str("Date: ");
            head.push_str(&httpdate::fmt_http_date(std::time::SystemTime::now()));
            head.push_str("\r\n");
        }
        head.into_bytes()
    }
}

/// What [`RequestReader::next`] found on the connection.
pub(crate) enum NextRequest {
    Request(ReplayRequest),
    /// A request that is malformed, over a limit or incomplete, as far as it was read. The connection ends
    /// after this response.
    Refused(Box<ReplayRequest>, ReplayResponse),
    /// The client closed the connection or sent nothing for too long.
    Closed,
}

/// A connection to a client, which the server can close while it is read.
pub(crate) struct ClientStream {
    pub(crate) socket: TcpStream,
    is_closed: AtomicBool,
}

impl ClientStream {
    pub(crate) fn new(socket: TcpStream) -> Self {
        Self {
            socket,
            is_closed: AtomicBool::new(false),
        }
    }

    /// Ends the connection. A read that waits ends, too.
    pub(crate) fn shut_down(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
        let _ = self.socket.shutdown(Shutdown::Both);
    }

    fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::SeqCst)
    }

    /// Waits until there is data to read, or the client has closed the connection. `None` waits
    /// forever.
    fn wait_for_data(&self, patience: Option<Duration>) -> io::Result<()> {
        let deadline = patience.map(|patience| Instant::now() + patience);
        loop {
            let left = deadline.map_or(READ_MAX, |deadline| {
                deadline.saturating_duration_since(Instant::now())
            });
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            let timeout = left.min(READ_MAX);
            self.socket
                .set_read_timeout((timeout < Duration::MAX).then_some(timeout))?;
            match self.socket.peek(&mut [0]) {
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock
                    ) => {}
                result => return result.map(drop),
            }
            if self.is_closed() {
                return Err(io::ErrorKind::ConnectionAborted.into());
            }
        }
    }
}

/// Reads the requests of one connection.
pub(crate) struct RequestReader<'a> {
    stream: &'a ClientStream,
    /// The bytes of the current request that were read from the kernel.
    buffered: Vec<u8>,
    /// How many bytes of the last request are still in the kernel.
    unread: usize,
}

impl<'a> RequestReader<'a> {
    pub(crate) fn new(stream: &'a ClientStream) -> Self {
        Self {
            stream,
            buffered: Vec::new(),
            unread: 0,
        }
    }

    /// Waits for a complete request and leaves its last byte unread.
    pub(crate) fn next(&mut self) -> NextRequest {
        let finished = self.finish();
        self.buffered.clear();
        let next = finished.and_then(|()| self.read_next());
        match next.unwrap_or(NextRequest::Closed) {
            NextRequest::Closed if !self.buffered.is_empty() && !self.stream.is_closed() => {
                self.incomplete()
            }
            next => next,
        }
    }

    /// What was read of a request that the client left incomplete.
    fn incomplete(&mut self) -> NextRequest {
        let (request, found) = match frame(&self.buffered) {
            RequestFrame::Incomplete {
                head: Some((mut request, length)),
                ..
            } => {
                request.body = self.buffered.split_off(length);
                let found = format!("{} bytes of its body", request.body.len());
                (request, found)
            }
            _ => (Box::default(), "no empty line after its header".to_owned()),
        };
        let declared = request.header("Content-Length").next();
        let declared = declared.map_or_else(String::new, |length| format!(" of {length}"));
        let message = format!("Request timeout. The request is incomplete: {found}{declared}");
        let body = wire::error_body(&message);
        NextRequest::Refused(request, ReplayResponse::json(408, body))
    }

    /// Reads the request's last byte, so that closing the socket does not reset the connection.
    pub(crate) fn finish(&mut self) -> io::Result<()> {
        let unread = std::mem::take(&mut self.unread);
        self.skip(unread)
    }

    fn read_next(&mut self) -> io::Result<NextRequest> {
        let mut peeked = vec![0; MAX_HEAD];
        let mut continued = false;
        let mut deadline = None;
        let mut patience = IDLE;
        loop {
            self.stream.wait_for_data(Some(patience))?;
            let seen = self.stream.socket.peek(&mut peeked)?;
            if seen == 0 {
                return Ok(NextRequest::Closed);
            }
            let deadline = *deadline.get_or_insert_with(|| Instant::now() + INCOMPLETE);
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(NextRequest::Closed);
            }
            patience = left;
            let before = self.buffered.len();
            self.buffered
                .extend_from_slice(peeked.get(..seen).unwrap_or_default());
            match frame(&self.buffered) {
                RequestFrame::Complete(request, length) => {
                    // The bytes buffered before were incomplete, so at least one byte is unread.
                    self.skip(length.saturating_sub(before + 1))?;
                    self.unread = 1;
                    return Ok(NextRequest::Request(request));
                }
                RequestFrame::Incomplete {
                    expects_continue, ..
                } => {
                    self.skip(seen)?;
                    if expects_continue && !continued {
                        continued = true;
                        (&self.stream.socket).write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
                    }
                }
                RequestFrame::Refused(response) => {
                    self.skip(seen)?;
                    return Ok(NextRequest::Refused(Box::default(), response));
                }
            }
        }
    }

    fn skip(&mut self, mut count: usize) -> io::Result<()> {
        let mut scratch = [0; 4096];
        while count > 0 {
            let some = count.min(scratch.len());
            (&self.stream.socket).read_exact(&mut scratch[..some])?;
            count -= some;
        }
        Ok(())
    }
}

/// Closes a connection after the client has received all data: sends FIN and waits for the
/// client's.
pub(crate) fn close(stream: &ClientStream) {
    let deadline = Instant::now() + LINGER;
    if stream.socket.shutdown(Shutdown::Write).is_err() {
        return;
    }
    let mut scratch = [0; 16 * 1024];
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let read = stream
            .wait_for_data(Some(left))
            .and_then(|()| (&stream.socket).read(&mut scratch));
        if !matches!(read, Ok(1..)) {
            return;
        }
    }
}

/// Reads and discards data until the client closes the connection or the server shuts the socket
/// down.
pub(crate) fn drain(stream: &ClientStream) {
    let mut scratch = [0; 4096];
    while matches!(
        stream
            .wait_for_data(None)
            .and_then(|()| (&stream.socket).read(&mut scratch)),
        Ok(1..)
    ) {}
}

enum RequestFrame {
    Complete(ReplayRequest, usize),
    /// With the request without its body, and the length of its header, once that is complete.
    Incomplete {
        expects_continue: bool,
        head: Option<(Box<ReplayRequest>, usize)>,
    },
    Refused(ReplayResponse),
}

fn refused(status: u16, message: &str) -> RequestFrame {
    RequestFrame::Refused(ReplayResponse::json(
        status,
        crate::http::wire::error_body(message),
    ))
}

/// Parses the first request in `bytes` and returns it with its length.
fn frame(bytes: &[u8]) -> RequestFrame {
    let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
    let mut head = httparse::Request::new(&mut fields);
    let head_length = match head.parse(bytes) {
        Ok(httparse::Status::Complete(length)) if length <= MAX_HEAD => length,
        Ok(httparse::Status::Partial) if bytes.len() < MAX_HEAD => {
            return RequestFrame::Incomplete {
                expects_continue: false,
                head: None,
            };
        }
        Ok(_) | Err(httparse::Error::TooManyHeaders) => {
            return refused(431, "Request header fields too large");
        }
        Err(_) => return refused(400, "Bad request. Not an HTTP request"),
    };
    let mut request = ReplayRequest {
        method: head.method.unwrap_or_default().to_owned(),
        target: head.path.unwrap_or_default().to_owned(),
        headers: head
            .headers
            .iter()
            .map(|field| {
                (
                    field.name.to_owned(),
                    String::from_utf8_lossy(field.value).into_owned(),
                )
            })
            .collect(),
        ..ReplayRequest::default()
    };
    let has_token = |name: &str, token: &str| {
        request
            .header(name)
            .flat_map(|value| value.split(','))
            .any(|it| it.trim().eq_ignore_ascii_case(token))
    };
    let keep_alive = match head.version {
        Some(0) => has_token("Connection", "keep-alive"),
        _ => !has_token("Connection", "close"),
    };
    let expects_continue = has_token("Expect", "100-continue");
    request.keep_alive = keep_alive;
    let rest = bytes.get(head_length..).unwrap_or_default();
    match body(&request, rest) {
        RequestBody::Complete(body, length) => {
            request.body = body;
            RequestFrame::Complete(request, head_length + length)
        }
        RequestBody::Incomplete => RequestFrame::Incomplete {
            expects_continue,
            head: Some((Box::new(request), head_length)),
        },
        RequestBody::Refused(frame) => *frame,
    }
}

enum RequestBody {
    Complete(Vec<u8>, usize),
    Incomplete,
    Refused(Box<RequestFrame>),
}

fn body(request: &ReplayRequest, rest: &[u8]) -> RequestBody {
    let refuse = |status, message: &str| RequestBody::Refused(Box::new(refused(status, message)));
    let mut lengths = request.header("Content-Length");
    let length = lengths.next();
    if lengths.next().is_some() {
        return refuse(400, "Bad request. Content-Length is repeated");
    }
    let mut codings = request.header("Transfer-Encoding");
    match (codings.next(), length) {
        (None, None) => RequestBody::Complete(Vec::new(), 0),
        (None, Some(length)) => {
            if length.is_empty() || !length.bytes().all(|b| b.is_ascii_digit()) {
                return refuse(400, "Bad request. Content-Length is not a number");
            }
            // A number too long for usize is too long for the limit as well.
            let length = length.parse().unwrap_or(usize::MAX);
            if length > MAX_BODY {
                return refuse(413, "Request body too large");
            }
            rest.get(..length).map_or(RequestBody::Incomplete, |body| {
                RequestBody::Complete(body.to_vec(), length)
            })
        }
        (Some(coding), None)
            if coding.eq_ignore_ascii_case("chunked") && codings.next().is_none() =>
        {
            chunked(rest)
        }
        _ => refuse(400, "Bad request. The body's length is ambiguous"),
    }
}

fn chunked(rest: &[u8]) -> RequestBody {
    let refuse = |status, message: &str| RequestBody::Refused(Box::new(refused(status, message)));
    let mut body = Vec::new();
    let mut at = 0;
    loop {
        // Count the framing too: one-byte chunks would otherwise make a small body of endless data.
        if at > 2 * MAX_BODY {
            return refuse(413, "Request body too large");
        }
        let tail = rest.get(at..).unwrap_or_default();
        let (start, size) = match httparse::parse_chunk_size(tail) {
            Ok(httparse::Status::Complete(found)) => found,
            Ok(httparse::Status::Partial) if tail.len() < 256 => return RequestBody::Incomplete,
            _ => return refuse(400, "Bad request. Not a chunked body"),
        };
        let size = usize::try_from(size).unwrap_or(usize::MAX);
        if size > MAX_BODY.saturating_sub(body.len()) {
            return refuse(413, "Request body too large");
        }
        at += start;
        if size == 0 {
            // Trailer fields may come before the empty line. Nothing reads them.
            let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
            return match httparse::parse_headers(rest.get(at..).unwrap_or_default(), &mut fields) {
                Ok(httparse::Status::Complete((length, _))) => {
                    RequestBody::Complete(body, at + length)
                }
                Ok(httparse::Status::Partial) if rest.len() - at < MAX_HEAD => {
                    RequestBody::Incomplete
                }
                _ => refuse(400, "Bad request. Not a chunked body"),
            };
        }
        let Some(chunk) = rest.get(at..at + size + 2) else {
            return RequestBody::Incomplete;
        };
        let Some(data) = chunk.strip_suffix(b"\r\n") else {
            return refuse(400, "Bad request. Not a chunked body");
        };
        body.extend_from_slice(data);
        at += size + 2;
    }
}

/// The reason phrase of a status; for an unknown status, the name of its class.
pub(crate) fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        204 => "No Content",
        207 => "Multi-Status",
        301 => "Moved Permanently",
        302 => "Found",
        303 => "See Other",
        304 => "Not Modified",
        307 => "Temporary Redirect",
        308 => "Permanent Redirect",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        409 => "Conflict",
        410 => "Gone",
        413 => "Content Too Large",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        _ if status < 300 => "Success",
        _ if status < 400 => "Redirection",
        _ if status < 500 => "Client Error",
        _ => "Server Error",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complete(text: &str) -> (ReplayRequest, usize) {
        match frame(text.as_bytes()) {
            RequestFrame::Complete(request, length) => (request, length),
            RequestFrame::Incomplete { .. } => panic!("incomplete: {text}"),
            RequestFrame::Refused(response) => panic!("refused with {}: {text}", response.status),
        }
    }

    fn refusal(text: &str) -> u16 {
        match frame(text.as_bytes()) {
            RequestFrame::Refused(response) => response.status,
            _ => panic!("not refused: {text:.80}"),
        }
    }

    #[test]
    fn a_request_ends_where_its_body_ends() {
        let get = "GET /x?y=1 HTTP/1.1\r\nMetadata: true\r\n\r\n";
        let (request, length) = complete(&format!("{get}GET /next"));
        assert_eq!(
            (request.method.as_str(), request.target.as_str(), length),
            ("GET", "/x?y=1", get.len())
        );
        assert!(request.keep_alive && request.header("metadata").eq(["true"]));
        let post = "POST / HTTP/1.1\r\nContent-Length: 4\r\nConnection: close\r\n\r\nabcd";
        let (request, length) = complete(&format!("{post}e"));
        assert_eq!(
            (request.body.as_slice(), length, request.keep_alive),
            (&b"abcd"[..], post.len(), false)
        );
        for end in 0..post.len() {
            assert!(
                matches!(
                    frame(&post.as_bytes()[..end]),
                    RequestFrame::Incomplete { .. }
                ),
                "{end}"
            );
        }
    }

    #[test]
    fn chunked_bodies_are_joined() {
        let text = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nA;x=y\r\n0123456789\r\n0\r\n\r\n";
        let (request, length) = complete(text);
        assert_eq!(
            (request.body.as_slice(), length),
            (&b"abc0123456789"[..], text.len())
        );
        for end in 1..text.len() {
            assert!(
                matches!(
                    frame(&text.as_bytes()[..end]),
                    RequestFrame::Incomplete { .. }
                ),
                "{end}"
            );
        }
    }

    #[test]
    fn a_chunked_body_may_have_trailer_fields() {
        let text = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nDigest: x\r\n\r\n";
        let (request, length) = complete(&format!("{text}GET"));
        assert_eq!((request.body.as_slice(), length), (&b"abc"[..], text.len()));
        assert_eq!(refusal(&text.replace("Digest: ", "Digest ")), 400);
    }

    #[test]
    fn http_1_0_closes_the_connection_unless_told_to_keep_it() {
        assert!(!complete("GET / HTTP/1.0\r\n\r\n").0.keep_alive);
        assert!(
            complete("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n")
                .0
                .keep_alive
        );
    }

    #[test]
    fn oversized_and_malformed_requests_are_refused() {
        let long = "a".repeat(MAX_HEAD);
        assert_eq!(refusal(&format!("GET /{long} HTTP/1.1\r\n\r\n")), 431);
        assert_eq!(refusal(&format!("GET / HTTP/1.1\r\nA: {long}")), 431);
        assert_eq!(
            refusal(&format!(
                "GET / HTTP/1.1\r\n{}\r\n",
                "A: b\r\n".repeat(MAX_FIELDS + 1)
            )),
            431
        );
        assert_eq!(
            refusal(&format!(
                "POST / HTTP/1.1\r\nContent-Length: {}\r\n\r\n",
                MAX_BODY + 1
            )),
            413
        );
        assert_eq!(
            refusal("POST / HTTP/1.1\r\nContent-Length: 99999999999999999999999\r\n\r\n"),
            413
        );
        assert_eq!(
            refusal("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nFFFFFFFF\r\n"),
            413
        );
        let chunks = "1\r\na\r\n".repeat(2 * MAX_BODY / 6 + 1);
        assert_eq!(
            refusal(&format!(
                "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}"
            )),
            413
        );
        for malformed in [
            "\u{16}\u{3}\u{1} a TLS hello",
            "POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
            "POST / HTTP/1.1\r\nContent-Length: +1\r\n\r\n",
            "POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
            "POST / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
            "POST / HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n",
            "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
            "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc",
        ] {
            assert_eq!(refusal(malformed), 400, "{malformed}");
        }
    }
}
