//! Replaces a Kubernetes API server where none can be started, and where one has to misbehave. It
//! answers as a server of version 1.36 was observed to: it answers a PUT of a stale version with
//! 409, and an eviction that a budget forbids with 429, without `Retry-After`, and with
//! `DisruptionBudget` in `details.causes[].reason`. The rest follows the API's documentation: LIST,
//! WATCH with bookmarks and 410, merge and strategic patches, graceful deletion, preconditions,
//! field owners of the cordon. It answers over TLS on real sockets, and misbehaves on demand. The
//! same tests run against a real cluster.

mod pods;
pub(crate) mod rbac;
pub(crate) mod store;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use base64::Engine as _;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use scheduled_events_test_support::{left_over, wait};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::{Notify, watch};

use rbac::{Right, Rights};
use store::{Change, Refusal, Selector, Store, Target};

/// How often a watch gets a bookmark. A real server sends one a minute.
const BOOKMARKS: Duration = Duration::from_millis(300);

type Body = BoxBody<Bytes, Infallible>;

/// A request that was answered.
#[derive(Clone, Debug)]
pub(crate) struct AnsweredRequest {
    pub(crate) at: Instant,
    pub(crate) agent: bool,
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) code: u16,
}

/// An answer in place of the right one.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    pub(crate) method: &'static str,
    /// A part of the path.
    pub(crate) path: &'static str,
    /// How many times.
    pub(crate) times: u32,
    pub(crate) kind: FaultKind,
}

#[derive(Clone, Debug)]
pub(crate) enum FaultKind {
    /// Status and `Retry-After`, with plain text.
    Refuse(u16, Option<u32>),
    /// The connection ends without an answer, after the request was carried out.
    Lose,
    /// Another writer applies this merge patch to the same object right before.
    Precede(Value),
}

struct Shared {
    store: Mutex<Store>,
    latest: watch::Sender<u64>,
    seen: Mutex<Vec<AnsweredRequest>>,
    faults: Mutex<Vec<Fault>>,
    /// The agent's rights; `None` for all.
    rights: Option<Rights>,
    agent_token: String,
    admin_token: String,
}

/// A server in a thread of its own, which ends with it.
pub(crate) struct FakeApi {
    shared: Arc<Shared>,
    address: SocketAddr,
    ca: String,
    ends: Arc<Notify>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for FakeApi {
    fn drop(&mut self) {
        self.ends.notify_one();
        // A test that has already failed does not wait for a thread that may hang because of the
        // failure.
        if let Some(thread) = self.thread.take().filter(|_| !std::thread::panicking()) {
            wait::join(thread);
        }
    }
}

impl FakeApi {
    /// Starts a server on a free port of the loopback interface.
    pub(crate) fn start(rights: Option<impl IntoIterator<Item = Right>>) -> Self {
        scheduled_events_common::http::install_tls();
        let (ca, tls) = certificates();
        let rights = rights.map(|granted| Rights {
            granted: granted.into_iter().collect(),
            ..Rights::default()
        });
        let shared = Arc::new(Shared {
            store: Mutex::new(Store::starting_at(1000)),
            latest: watch::Sender::new(0),
            seen: Mutex::default(),
            faults: Mutex::default(),
            rights,
            agent_token: "agent-token".into(),
            admin_token: "admin-token".into(),
        });
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let (serving, ends) = (shared.clone(), Arc::new(Notify::new()));
        let ended = ends.clone();
        let thread = std::thread::Builder::new()
            .name(left_over::SERVER_THREAD.to_owned())
            .spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build()
                    .unwrap();
                runtime.block_on(async {
                    tokio::select! {
                        () = serve(listener, tls, serving) => {}
                        () = ended.notified() => {}
                    }
                });
            });
        Self {
            shared,
            address,
            ca,
            ends,
            thread: Some(thread.unwrap()),
        }
    }

    /// Writes a kubeconfig for the agent, or for the administrator, who has all rights.
    pub(crate) fn write_kubeconfig(&self, path: &Path, admin: bool) {
        let token = if admin {
            &self.shared.admin_token
        } else {
            &self.shared.agent_token
        };
        let ca = base64::engine::general_purpose::STANDARD.encode(&self.ca);
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "fake",
            "clusters": [{"name": "fake", "cluster": {
                "server": format!("https://{}", self.address), "certificate-authority-data": ca}}],
            "users": [{"name": "user", "user": {"token": token}}],
            "contexts": [{"name": "fake", "context": {"cluster": "fake", "user": "user", "namespace": "default"}}],
        });
        std::fs::write(path, config.to_string()).unwrap();
    }

    pub(crate) fn add_fault(&self, fault: Fault) {
        self.shared.faults.lock().unwrap().push(fault);
    }

    pub(crate) fn remove_faults(&self) {
        self.shared.faults.lock().unwrap().clear();
    }

    /// All requests until now.
    pub(crate) fn seen(&self) -> Vec<AnsweredRequest> {
        self.shared.seen.lock().unwrap().clone()
    }

    /// Forgets the history, as a server does after some minutes, and ends all watches.
    pub(crate) fn compact(&self) {
        let mut store = self.store();
        store.version += 1;
        store.oldest = store.version;
        store.history.clear();
        let version = store.version;
        drop(store);
        self.shared.latest.send_replace(version);
    }

    /// Rights that were granted and never used.
    pub(crate) fn unused_rights(&self) -> Vec<Right> {
        let rights = self.shared.rights.as_ref().expect("a server with rights");
        let used = rights.used.lock().unwrap();
        rights.granted.difference(&used).cloned().collect()
    }

    fn store(&self) -> MutexGuard<'_, Store> {
        self.shared.store.lock().unwrap()
    }
}

/// The authority's certificate in PEM, and the server's settings.
fn certificates() -> (String, Arc<rustls::ServerConfig>) {
    let mut parameters = CertificateParams::default();
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    // OpenSSL considers a certificate self-signed if both have the same name.
    parameters
        .distinguished_name
        .push(DnType::CommonName, "authority");
    let authority = CertifiedIssuer::self_signed(parameters, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let parameters = CertificateParams::new(vec!["127.0.0.1".into()]).unwrap();
    let certificate = parameters.signed_by(&key, &authority).unwrap();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let config = rustls::ServerConfig::builder().with_no_client_auth();
    let config = config
        .with_single_cert(vec![certificate.der().clone()], key)
        .unwrap();
    (authority.pem(), Arc::new(config))
}

async fn serve(
    listener: std::net::TcpListener,
    tls: Arc<rustls::ServerConfig>,
    shared: Arc<Shared>,
) {
    let listener = TcpListener::from_std(listener).unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(tls);
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            continue;
        };
        let (acceptor, shared) = (acceptor.clone(), shared.clone());
        tokio::spawn(async move {
            let Ok(stream) = acceptor.accept(stream).await else {
                return;
            };
            let service = hyper::service::service_fn(move |request| {
                let shared = shared.clone();
                async move { answer(&shared, request).await }
            });
            let _ = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

/// An error closes the connection without an answer.
#[derive(Debug)]
struct Lost;

impl std::fmt::Display for Lost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("lost on purpose")
    }
}

impl std::error::Error for Lost {}

async fn answer(shared: &Arc<Shared>, request: Request<Incoming>) -> Result<Response<Body>, Lost> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.map_err(|_| Lost)?.to_bytes();
    let body: Value = if body.is_empty() {
        Value::Null
    } else {
        serde_json::from_slice(&body).expect("JSON")
    };
    let path = parts.uri.path().to_owned();
    let query = parts.uri.query().unwrap_or_default();
    let parameters: Vec<(String, String)> = query
        .split('&')
        .filter_map(|pair| pair.split_once('='))
        .map(decode)
        .collect();
    let parameter = |name: &str| {
        parameters
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
    };
    let token = parts
        .headers
        .get("authorization")
        .and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
    let agent = token == Some(&shared.agent_token);
    let known = agent || token == Some(&shared.admin_token);
    let method = parts.method.as_str();
    let content_type = parts
        .headers
        .get("content-type")
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();

    let fault = agent.then(|| take_fault(shared, method, &path)).flatten();
    let record = |code: u16| {
        let (method, path) = (method.to_owned(), path.clone());
        shared.seen.lock().unwrap().push(AnsweredRequest {
            at: Instant::now(),
            agent,
            method,
            path,
            code,
        });
    };
    if let Some(FaultKind::Refuse(code, retry_after)) = fault {
        record(code);
        let mut response = Response::builder()
            .status(code)
            .header("content-type", "text/plain");
        if let Some(seconds) = retry_after {
            response = response.header("retry-after", seconds);
        }
        return Ok(response
            .body(full("Too many requests, please try again later.\n".into()))
            .unwrap());
    }
    let result = (|| {
        if !known {
            return Err(Refusal::new(401, "Unauthorized", "Unauthorized"));
        }
        if method == "POST" && path.ends_with("/selfsubjectaccessreviews") {
            let rights = shared.rights.as_ref().filter(|_| agent);
            let review = rbac::review(&body, |right| {
                rights.is_none_or(|rights| rights.granted.contains(right))
            });
            return Ok(Response::builder()
                .status(201)
                .header("content-type", "application/json")
                .body(full(review.to_string()))
                .unwrap());
        }
        let target = Target::parse(&path)
            .ok_or_else(|| Refusal::new(404, "NotFound", "the server could not find it"))?;
        let watches = parameter("watch").is_some_and(|value| value == "true" || value == "1");
        let verb = rbac::verb(method, &target, watches);
        if let Some(rights) = shared.rights.as_ref().filter(|_| agent) {
            let right = rbac::right(verb, &target);
            if !rights.allows(&right) {
                let message = format!(
                    "{} is forbidden: User \"agent\" cannot {verb} resource {:?}",
                    right.2, right.1
                );
                return Err(Refusal::new(403, "Forbidden", message));
            }
        }
        let selector = Selector::parse(
            target.namespace.clone(),
            parameter("fieldSelector"),
            parameter("labelSelector"),
        );
        if verb == "watch" {
            let from = parameter("resourceVersion")
                .unwrap_or("0")
                .parse()
                .expect("a version");
            let time = parameter("timeoutSeconds")
                .and_then(|seconds| seconds.parse().ok())
                .unwrap_or(300);
            return Ok(watch_changes(
                shared,
                &target,
                selector,
                from,
                Duration::from_secs(time),
            ));
        }
        let manager = parameter("fieldManager").unwrap_or("unknown");
        let mut store = shared.store.lock().unwrap();
        if let Some(FaultKind::Precede(patch)) = &fault {
            store.patch(&target, patch.clone(), false, "somebody-else")?;
        }
        let (code, mut value) = carry_out(
            &mut store,
            verb,
            &target,
            &selector,
            &body,
            content_type,
            manager,
        )?;
        if verb == "list" {
            let number = |name| parameter(name).and_then(|value| value.parse().ok());
            take_page(
                &mut value,
                number("limit").unwrap_or(0),
                number("continue").unwrap_or(0),
            );
        }
        if target.resource == "pods" || target.resource == "poddisruptionbudgets" {
            pods::process_budgets(&mut store);
        }
        shared.latest.send_replace(store.version);
        Ok(Response::builder()
            .status(code)
            .header("content-type", "application/json")
            .body(full(value.to_string()))
            .unwrap())
    })();
    let response = result.unwrap_or_else(|refusal| {
        let response = Response::builder()
            .status(refusal.code)
            .header("content-type", "application/json");
        response
            .body(full(refusal.to_status().to_string()))
            .unwrap()
    });
    record(response.status().as_u16());
    if matches!(fault, Some(FaultKind::Lose)) {
        Err(Lost)
    } else {
        Ok(response)
    }
}

fn carry_out(
    store: &mut Store,
    verb: &str,
    target: &Target,
    selector: &Selector,
    body: &Value,
    content_type: &str,
    manager: &str,
) -> Result<(u16, Value), Refusal> {
    let evicts = target.subresource.as_deref() == Some("eviction");
    Ok(match verb {
        "get" => (200, store.get(target)?.clone()),
        "list" => {
            let items: Vec<_> = store
                .list(&target.collection(), selector)
                .into_iter()
                .cloned()
                .collect();
            let metadata = json!({"resourceVersion": store.version.to_string()});
            (
                200,
                json!({"kind": "List", "apiVersion": "v1", "metadata": metadata, "items": items}),
            )
        }
        "create" if evicts => (201, pods::evict(store, target, body)?),
        "create" => (201, store.create(target, body.clone())?),
        "update" => (200, store.replace(target, body.clone(), manager)?),
        "patch" => {
            let strategic = match content_type {
                "application/merge-patch+json" => false,
                "application/strategic-merge-patch+json" => true,
                other => {
                    return Err(Refusal::new(
                        415,
                        "UnsupportedMediaType",
                        format!("the body has the type {other}"),
                    ));
                }
            };
            (200, store.patch(target, body.clone(), strategic, manager)?)
        }
        "delete" => (200, pods::delete(store, target, body)?),
        _ => {
            return Err(Refusal::new(
                405,
                "MethodNotAllowed",
                "the server does not allow this method",
            ));
        }
    })
}

/// Takes up to `limit` items of a list, from `begin` on; 0 is no limit.
fn take_page(list: &mut Value, limit: usize, begin: usize) {
    let items = list["items"].as_array_mut().expect("items");
    let end = if limit == 0 {
        items.len()
    } else {
        items.len().min(begin + limit)
    };
    let rest = items.len() - end;
    items.truncate(end);
    items.drain(..begin);
    if rest > 0 {
        list["metadata"]["continue"] = json!(end.to_string());
        list["metadata"]["remainingItemCount"] = json!(rest);
    }
}

fn take_fault(shared: &Shared, method: &str, path: &str) -> Option<FaultKind> {
    let mut faults = shared.faults.lock().unwrap();
    let fault = faults
        .iter_mut()
        .find(|fault| fault.times > 0 && fault.method == method && path.contains(fault.path))?;
    fault.times -= 1;
    Some(fault.kind.clone())
}

/// All changes of a collection after a version, one line of JSON each.
fn watch_changes(
    shared: &Arc<Shared>,
    target: &Target,
    selector: Selector,
    from: u64,
    time: Duration,
) -> Response<Body> {
    struct Watch {
        shared: Arc<Shared>,
        latest: watch::Receiver<u64>,
        collection: String,
        selector: Selector,
        version: u64,
        end: tokio::time::Instant,
        gone: bool,
    }
    let watch = Watch {
        shared: shared.clone(),
        latest: shared.latest.subscribe(),
        collection: target.collection(),
        selector,
        version: from,
        end: tokio::time::Instant::now() + time,
        gone: false,
    };
    let kind = if target.resource == "pods" {
        "Pod"
    } else {
        "Node"
    };
    let lines = futures_util::stream::unfold(watch, move |mut watch| async move {
        loop {
            if watch.gone || tokio::time::Instant::now() >= watch.end {
                return None;
            }
            let mut lines = String::new();
            {
                let store = watch.shared.store.lock().unwrap();
                if watch.version < store.oldest {
                    let expired = Refusal::new(
                        410,
                        "Expired",
                        format!("too old resource version: {}", watch.version),
                    );
                    lines =
                        json!({"type": "ERROR", "object": expired.to_status()}).to_string() + "\n";
                    watch.gone = true;
                } else {
                    for change in store
                        .history
                        .iter()
                        .filter(|change| change.version > watch.version)
                    {
                        lines.extend(watch_line(change, &watch.collection, &watch.selector));
                    }
                    watch.version = store.version;
                }
            }
            if !lines.is_empty() {
                return Some((Ok::<_, Infallible>(Frame::data(Bytes::from(lines))), watch));
            }
            let changed = tokio::time::timeout_at(
                watch.end.min(tokio::time::Instant::now() + BOOKMARKS),
                async { watch.latest.changed().await.is_ok() },
            );
            if changed.await.is_err() && tokio::time::Instant::now() < watch.end {
                let metadata = json!({"resourceVersion": watch.version.to_string()});
                let bookmark = json!({"type": "BOOKMARK", "object": {"kind": kind, "apiVersion": "v1", "metadata": metadata}});
                return Some((
                    Ok(Frame::data(Bytes::from(bookmark.to_string() + "\n"))),
                    watch,
                ));
            }
        }
    });
    Response::builder()
        .header("content-type", "application/json")
        .body(BodyExt::boxed(StreamBody::new(Box::pin(lines))))
        .unwrap()
}

/// For a watch, an object that leaves the selection is deleted.
fn watch_line(change: &Change, collection: &str, selector: &Selector) -> Option<String> {
    if change.collection != collection {
        return None;
    }
    let selected = |object: &&Value| selector.matches(&change.namespace, object);
    let (before, after) = (
        change.before.as_ref().filter(selected),
        change.after.as_ref().filter(selected),
    );
    let (word, object) = match (before, after) {
        (None, None) => return None,
        (None, Some(after)) => ("ADDED", after),
        (Some(_), Some(after)) => ("MODIFIED", after),
        (Some(before), None) => ("DELETED", change.after.as_ref().unwrap_or(before)),
    };
    Some(json!({"type": word, "object": object}).to_string() + "\n")
}

fn full(text: String) -> Body {
    Full::new(Bytes::from(text)).boxed()
}

fn decode((key, value): (&str, &str)) -> (String, String) {
    let mut decoded = Vec::new();
    let mut bytes = value.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'%' => {
                let digits = [
                    bytes.next().expect("a digit"),
                    bytes.next().expect("a digit"),
                ];
                let digits = std::str::from_utf8(&digits).expect("digits");
                decoded.push(u8::from_str_radix(digits, 16).expect("digits"));
            }
            b'+' => decoded.push(b' '),
            byte => decoded.push(byte),
        }
    }
    (key.to_owned(), String::from_utf8(decoded).expect("UTF-8"))
}
