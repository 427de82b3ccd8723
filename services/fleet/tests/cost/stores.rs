//! The stores, each counted by a meter.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use kube::Client;
use kube::api::{Api, ObjectMeta, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use rustix::process::{Pid, Signal, kill_process};
use scheduled_events_gate::config::BlobConfig;
use scheduled_events_gate::engine::Engine;
use scheduled_events_gate::engine::blob::BlobEngine;
use scheduled_events_gate::engine::etcd::EtcdEngine;
use scheduled_events_gate::engine::folder::FolderEngine;
use scheduled_events_gate::engine::kubernetes::KubernetesEngine;
use scheduled_events_test_support::wait;
use tempfile::TempDir;

use crate::fixture::{Azurite, EtcdServer};
use crate::meter::{Count, Meter, Metered, RequestKind, proxy};
use crate::processor;

/// A kind of store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Etcd,
    Blob,
    Kubernetes,
    Folder,
}

/// The program that starts a real control plane.
fn control_plane() -> PathBuf {
    let shared = std::env::var_os("SHARED").map(PathBuf::from);
    let shared =
        shared.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared"));
    shared.join("bin/control-plane")
}

impl Kind {
    pub(crate) const ALL: [Self; 4] = [Self::Etcd, Self::Blob, Self::Kubernetes, Self::Folder];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::Blob => "blob",
            Self::Kubernetes => "kubernetes",
            Self::Folder => "folder",
        }
    }

    /// Whether this machine has it.
    pub(crate) fn is_here(self) -> bool {
        let is_here = self != Self::Kubernetes || control_plane().exists();
        if !is_here {
            println!(
                "NOT RUN kubernetes: {} does not exist",
                control_plane().display()
            );
        }
        is_here
    }
}

/// A store that is running.
pub(crate) struct Store {
    meter: Arc<Meter>,
    server: Server,
}

/// A server, the port of the proxy before it, and what else a client needs. It ends with the test.
enum Server {
    Etcd(EtcdServer, u16),
    Blob(Azurite, u16),
    Kubernetes(ControlPlane, u16, String),
    Folder(TempDir),
}

impl Store {
    pub(crate) async fn start(kind: Kind) -> Self {
        let meter = Arc::<Meter>::default();
        let server = match kind {
            Kind::Etcd => {
                let server = off_this_thread(EtcdServer::start);
                let port = proxy(port_of(&server.url), meter.clone(), Some(kind_of_etcd)).await;
                Server::Etcd(server, port)
            }
            Kind::Blob => {
                let server = off_this_thread(Azurite::start);
                let port = proxy(port_of(&server.url), meter.clone(), Some(kind_of_blob)).await;
                Server::Blob(server, port)
            }
            Kind::Kubernetes => {
                static COUNTER: AtomicU32 = AtomicU32::new(0);
                let server = off_this_thread(ControlPlane::start);
                let config = server.config();
                let cluster = config.clusters[0].cluster.as_ref().expect("a cluster");
                let port = port_of(cluster.server.as_ref().expect("an address"));
                let port = proxy(port, meter.clone(), None).await;
                let name = format!("cost-{}", COUNTER.fetch_add(1, Ordering::Relaxed));
                let metadata = ObjectMeta {
                    name: Some(name.clone()),
                    ..ObjectMeta::default()
                };
                let namespace = Namespace {
                    metadata,
                    ..Namespace::default()
                };
                let namespaces = Api::all(client(&config).await);
                namespaces
                    .create(&PostParams::default(), &namespace)
                    .await
                    .expect("a namespace");
                Server::Kubernetes(server, port, name)
            }
            Kind::Folder => Server::Folder(TempDir::new().expect("a folder")),
        };
        Self { meter, server }
    }

    /// The requests so far.
    pub(crate) fn count(&self) -> Count {
        self.meter.count()
    }

    /// The processor time of its processes so far.
    pub(crate) fn processor_time(&self) -> Duration {
        match &self.server {
            Server::Etcd(server, _) => processor::of_process(server.process.0.id()),
            Server::Blob(server, _) => processor::of_process(server.process.0.id()),
            Server::Kubernetes(server, ..) => processor::of_process(server.process.id()),
            Server::Folder(_) => Duration::ZERO,
        }
    }

    /// An engine of one machine, with connections of its own, which the meter counts.
    pub(crate) async fn engine(&self) -> Box<dyn Engine> {
        let (meter, engine) = (self.meter.clone(), self.open(true).await);
        match self.server {
            Server::Etcd(..) | Server::Blob(..) => engine,
            Server::Kubernetes(..) => Box::new(Metered {
                engine,
                meter,
                has_bytes: false,
            }),
            Server::Folder(_) => Box::new(Metered {
                engine,
                meter,
                has_bytes: true,
            }),
        }
    }

    /// An engine that the meter does not count.
    pub(crate) async fn observer(&self) -> Box<dyn Engine> {
        self.open(false).await
    }

    async fn open(&self, is_counted: bool) -> Box<dyn Engine> {
        match &self.server {
            Server::Etcd(server, port) => {
                let url = through(&server.url, is_counted.then_some(*port));
                Box::new(EtcdEngine::new(&EtcdServer::config_of(&[&url])).expect("an engine"))
            }
            Server::Blob(server, port) => {
                let url = through(&server.url, is_counted.then_some(*port));
                let config = BlobConfig {
                    url,
                    emulator: true,
                    client_id: None,
                    sas_file: None,
                    identity_endpoint: None,
                };
                Box::new(BlobEngine::new(&config).expect("an engine"))
            }
            Server::Kubernetes(server, port, namespace) => {
                let mut config = server.config();
                let address = config.clusters[0]
                    .cluster
                    .as_mut()
                    .and_then(|cluster| cluster.server.as_mut());
                let address = address.expect("an address");
                *address = through(address, is_counted.then_some(*port));
                Box::new(KubernetesEngine::new(
                    client(&config).await,
                    Some(namespace.clone()),
                ))
            }
            Server::Folder(folder) => Box::new(FolderEngine::new(folder.path())),
        }
    }
}

/// Starts a server on another thread, for a start that waits in a runtime of its own.
fn off_this_thread<T: Send>(start: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| scope.spawn(start).join().expect("a server"))
}

/// The address with the port of the proxy, if there is one.
fn through(url: &str, proxy: Option<u16>) -> String {
    proxy.map_or(url.to_owned(), |port| {
        url.replacen(&format!(":{}", port_of(url)), &format!(":{port}"), 1)
    })
}

fn port_of(url: &str) -> u16 {
    let (_, rest) = url.split_once("://").expect("an address");
    let host = rest.split('/').next().unwrap_or_default();
    host.rsplit(':')
        .next()
        .and_then(|port| port.parse().ok())
        .expect("a port")
}

async fn client(config: &Kubeconfig) -> Client {
    scheduled_events_common::http::install_tls();
    let config =
        kube::Config::from_custom_kubeconfig(config.clone(), &KubeConfigOptions::default()).await;
    Client::try_from(config.expect("a configuration")).expect("a client")
}

/// Every request to etcd's gateway is a POST.
fn kind_of_etcd(line: &str) -> RequestKind {
    match line
        .split(' ')
        .nth(1)
        .and_then(|path| path.rsplit('/').next())
    {
        Some("range") => RequestKind::Read,
        Some("txn" | "deleterange" | "put") => RequestKind::Write,
        _ => panic!("found the request {line:?}"),
    }
}

/// The kinds by which Azure bills.
pub(crate) fn kind_of_blob(line: &str) -> RequestKind {
    let mut words = line.split(' ');
    match (words.next(), words.next()) {
        (Some("put"), _) => RequestKind::Write,
        (Some("get"), Some(path)) if path.contains("comp=list") => RequestKind::List,
        (Some("get"), _) => RequestKind::Read,
        _ => panic!("found the request {line:?}"),
    }
}

/// A real API server, without nodes.
struct ControlPlane {
    kubeconfig: PathBuf,
    process: Child,
    _folder: TempDir,
}

impl ControlPlane {
    fn start() -> Self {
        wait::limit_tests();
        let folder = TempDir::new().expect("a folder");
        let mut command = Command::new(control_plane());
        command
            .arg(folder.path().join("control-plane"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        let mut process = command.spawn().expect("it runs");
        let mut line = String::new();
        BufReader::new(process.stdout.take().expect("its output"))
            .read_line(&mut line)
            .expect("its first line");
        let plane = Self {
            kubeconfig: line.trim().into(),
            process,
            _folder: folder,
        };
        assert!(
            plane.kubeconfig.exists(),
            "the control plane does not start: {line:?}"
        );
        plane
    }

    fn config(&self) -> Kubeconfig {
        Kubeconfig::read_from(&self.kubeconfig).expect("a kubeconfig")
    }
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
        // It ends what it has started.
        let _ = kill_process(Pid::from_child(&self.process), Signal::TERM);
        let _ = self.process.wait();
    }
}
