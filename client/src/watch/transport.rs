//! The thread that sends requests, one at a time, so that a slow response delays nothing else.

use std::io;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::Duration;

use super::message::Message;
use crate::imds::Imds;

/// Sends requests on a thread of its own. Each one is answered by a [`Message::Response`].
pub(super) struct Transport {
    requests: Sender<HttpRequest>,
}

enum HttpRequest {
    Get { timeout: Duration },
    Post { body: Vec<u8>, timeout: Duration },
}

impl Transport {
    /// Starts the thread. It ends with this value, after the request in flight.
    pub(super) fn start(imds: Imds, responses: Sender<Message>) -> io::Result<Self> {
        let (requests, queue) = mpsc::channel();
        thread::Builder::new().spawn(move || serve(&imds, &queue, &responses))?;
        Ok(Self { requests })
    }

    /// Requests the document.
    pub(super) fn get(&self, timeout: Duration) {
        let _ = self.requests.send(HttpRequest::Get { timeout });
    }

    /// Posts an approval.
    pub(super) fn post(&self, body: Vec<u8>, timeout: Duration) {
        let _ = self.requests.send(HttpRequest::Post { body, timeout });
    }
}

fn serve(imds: &Imds, requests: &Receiver<HttpRequest>, responses: &Sender<Message>) {
    for request in requests {
        let response = match request {
            HttpRequest::Get { timeout } => imds.events(timeout),
            HttpRequest::Post { body, timeout } => imds.approve(&body, timeout),
        };
        if responses.send(Message::Response(response)).is_err() {
            return;
        }
    }
}
