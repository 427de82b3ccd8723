//! Imitates Azure Resource Manager and Resource Graph where a test defines row by row what they
//! have, and how they refuse: it records approvals, and answers every query with all rows, with the
//! open ones or with those of some names if the query asks for these; it ignores the choice of columns. The emulator of
//! `scheduled-events replay --control-plane` has the lives of events, and the other tests use it.

use std::collections::HashSet;
use std::io::{BufRead, BufReader, Write as _};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use scheduled_events_test_support::{Connection, TestServer, wait};
use serde_json::{Value, json};

use crate::fixture::{TestQueue, event_id, message, resource, row};

/// A control plane.
pub(crate) struct Control {
    server: TestServer,
    world: Arc<Mutex<World>>,
}

/// Its state, and the requests that it received.
#[derive(Default)]
pub(crate) struct World {
    /// The rows of Resource Graph.
    pub(crate) rows: Vec<Value>,
    /// The paths of approvals, each with its body.
    pub(crate) approvals: Vec<(String, Value)>,
    /// The queries.
    pub(crate) queries: Vec<String>,
    /// How it refuses the next requests but queries for named events: the status, one more header, and the body.
    pub(crate) refusals: Vec<(u16, &'static str, Value)>,
    /// When each request arrived.
    pub(crate) requested: Vec<Instant>,
    /// The status with which all approvals are refused.
    pub(crate) approvals_refused: Option<u16>,
    /// The header `Date` of answers to queries, if they have one.
    pub(crate) date: Option<&'static str>,
    /// Whether it refuses queries for tags.
    pub(crate) approvals_held: bool,
    /// A subscription without rights: a query for it alone is refused, others leave its rows out.
    pub(crate) without_rights: Option<String>,
    /// Whether queries for tags are refused.
    pub(crate) tags_refused: bool,
    /// The status with which it refuses all queries, and how many it has refused.
    pub(crate) queries_refused: Option<u16>,
    pub(crate) refused_queries: usize,
    /// Whether each page has one row, and how it answers requests for later pages.
    pub(crate) later_pages: Option<LaterPages>,
}

/// The answer to requests for later pages.
#[derive(Clone, Copy)]
pub(crate) enum LaterPages {
    Refused,
    /// The service asks for a pause of ten minutes.
    Paused,
    /// The second page names the first one as the next.
    Circle,
}

impl Control {
    pub(crate) fn start() -> Self {
        let world = Arc::<Mutex<World>>::default();
        let serving = world.clone();
        Self {
            server: TestServer::start(
                move |connection| while serve(connection, &serving).is_some() {},
            ),
            world,
        }
    }

    pub(crate) fn url(&self) -> String {
        self.server.url()
    }

    pub(crate) fn with<T>(&self, work: impl FnOnce(&mut World) -> T) -> T {
        work(&mut self.world.lock().expect("no panic"))
    }

    /// The number of approvals that have arrived with this text in their request.
    pub(crate) fn approvals_of(&self, text: &str) -> usize {
        let names = |(path, body): &&(String, Value)| {
            path.contains(text) || body.to_string().contains(text)
        };
        self.with(|world| world.approvals.iter().filter(names).count())
    }

    /// Holds as many approvals as a hub sends at a time, so that the next one waits in the hub.
    /// Adds their rows.
    pub(crate) fn hold_approvals(&self) {
        let rows = (100..116).map(|number| {
            let name = format!("held{number}");
            row(
                &resource("virtualMachines", &name),
                &event_id(number),
                "Scheduled",
                &[&name],
            )
        });
        self.with(|world| {
            world.rows.extend(rows);
            world.approvals_held = true;
        });
        wait::until("sixteen approvals", || {
            (self.approvals_of("held") == 16).then_some(())
        });
    }

    /// Changes an event: Resource Graph has the change, and Event Grid sends it.
    pub(crate) fn change(
        &self,
        queue: &TestQueue,
        resource: &str,
        id: &str,
        status: &str,
        machines: &[&str],
    ) {
        self.with(|world| {
            world.rows.retain(|row| row["name"] != id);
            world.rows.push(row(resource, id, status, machines));
        });
        queue.send(&message(resource, id, status, machines));
    }

    /// Waits for the first query, so that the next refusal answers an approval.
    pub(crate) fn await_query(&self) {
        wait::until("a query", || {
            (!self.with(|world| world.queries.is_empty())).then_some(())
        });
    }
}

/// A request as a server of the tests reads it.
pub(crate) struct Request {
    /// Its first line.
    pub(crate) first: String,
    /// In lower case.
    headers: Vec<String>,
    body: Vec<u8>,
}

/// Reads a request; `None` once the connection ends.
pub(crate) fn read_request(reader: &mut impl BufRead) -> Option<Request> {
    let mut first = String::new();
    reader
        .read_line(&mut first)
        .ok()
        .filter(|length| *length > 0)?;
    let (mut length, mut headers) = (0, Vec::new());
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).ok()?;
        let header = header.trim().to_ascii_lowercase();
        if let Some(value) = header.strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
        if header.is_empty() {
            break;
        }
        headers.push(header);
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(Request {
        first,
        headers,
        body,
    })
}

/// Answers one request; `None` once the connection ends.
fn serve(connection: &Connection, world: &Mutex<World>) -> Option<()> {
    let request = read_request(&mut BufReader::new(&**connection))?;
    let path = request.first.split(' ').nth(1)?.to_owned();
    let has_token = request
        .headers
        .iter()
        .any(|header| header == "authorization: bearer emulator");
    let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
    let (status, header, answer) =
        answer(&mut world.lock().expect("no panic"), &path, body, has_token);
    while path.contains("/acknowledge") && world.lock().expect("no panic").approvals_held {
        std::thread::sleep(Duration::from_millis(20));
    }
    let answer = answer.to_string();
    let head = format!(
        "HTTP/1.1 {status} x\r\nContent-Type: application/json\r\n{header}Content-Length: {}\r\n\r\n",
        answer.len()
    );
    (&**connection).write_all((head + &answer).as_bytes()).ok()
}

fn answer(world: &mut World, path: &str, body: Value, has_token: bool) -> (u16, String, Value) {
    world.requested.push(Instant::now());
    if !has_token {
        return (
            401,
            String::new(),
            json!({"error": {"code": "AuthenticationFailed", "message": "no token"}}),
        );
    }
    // Each approval is preceded by a query that names its events.
    let names_events = body["query"]
        .as_str()
        .is_some_and(|query| query.contains("name in~"));
    if !names_events && let Some((status, header, body)) = world.refusals.pop() {
        let header = if header.is_empty() {
            String::new()
        } else {
            format!("{header}\r\n")
        };
        return (status, header, body);
    }
    let is_query =
        path.starts_with("/providers/Microsoft.ResourceGraph/resources?api-version=2024-04-01");
    let refused = if is_query {
        world.queries_refused
    } else {
        world.approvals_refused
    };
    if let Some(status) = refused {
        world.refused_queries += usize::from(is_query);
        return (status, String::new(), json!({}));
    }
    if is_query {
        let query = body["query"].as_str().unwrap_or_default().to_owned();
        let is_open = |row: &&Value| {
            let status = row["properties"]["EventStatus"]
                .as_str()
                .unwrap_or_default();
            !query.contains("EventStatus in~")
                || ["Scheduled", "Started", "Advisory"].contains(&status)
        };
        if let Some(other) = &world.without_rights
            && body["subscriptions"] == json!([other])
        {
            return (403, String::new(), json!({}));
        }
        let has_rights = |row: &&Value| {
            let id = row["id"].as_str().unwrap_or_default();
            let other = world.without_rights.as_deref();
            other.is_none_or(|other| !id.contains(other))
        };
        let names: Option<HashSet<String>> = query.split_once("name in~ (").map(|(_, rest)| {
            let list = rest.split(')').next().unwrap_or_default();
            let name = |name: &str| name.trim_matches([' ', '"']).to_lowercase();
            list.split(',').map(name).collect()
        });
        let is_named = |row: &&Value| {
            let name = row["name"].as_str().unwrap_or_default().to_lowercase();
            names.as_ref().is_none_or(|names| names.contains(&name))
        };
        let rows = world.rows.iter().filter(is_open).filter(has_rights);
        let rows = rows.filter(is_named);
        let mut data: Vec<_> = rows.cloned().collect();
        let is_refused = world.tags_refused && query.starts_with("resources");
        world.queries.push(query);
        if is_refused {
            return (403, String::new(), json!({}));
        }
        if let Some(later_pages) = world.later_pages {
            let token = body["options"]["$skipToken"].as_str();
            let next = match (token, later_pages) {
                (None, _) => "second",
                (Some(_), LaterPages::Refused) => {
                    return (
                        400,
                        String::new(),
                        json!({"error": {"code": "BadRequest", "message": "no such page"}}),
                    );
                }
                (Some(_), LaterPages::Paused) => {
                    return (429, "Retry-After: 600\r\n".into(), json!({}));
                }
                (Some(token), LaterPages::Circle) => {
                    if token == "second" {
                        "first"
                    } else {
                        "second"
                    }
                }
            };
            data.truncate(1);
            return (
                200,
                String::new(),
                json!({"data": data, "$skipToken": next}),
            );
        }
        let header = world
            .date
            .map_or(String::new(), |date| format!("Date: {date}\r\n"));
        return (
            200,
            header,
            json!({"totalRecords": data.len(), "count": data.len(), "data": data}),
        );
    }
    world.approvals.push((path.to_owned(), body));
    (
        200,
        String::new(),
        json!({"value": "Successfully Approved"}),
    )
}
