//! Servers and processes of the tests. Each ends with the test.

use std::ffi::OsStr;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use scheduled_events_gate::config::EtcdConfig;
use scheduled_events_gate::engine::etcd::EtcdEngine;
use scheduled_events_gate::engine::{Engine, Swap};
use scheduled_events_test_support::port::free_port;
pub(crate) use scheduled_events_test_support::process::Process;
use scheduled_events_test_support::process::azurite;
use scheduled_events_test_support::wait;
pub(crate) use scheduled_events_test_support::wait::until as wait_for;
use tempfile::TempDir;
use tokio::task::LocalSet;

pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    LocalSet::new().block_on(&runtime, future)
}

/// A real etcd on this machine.
pub(crate) struct EtcdServer {
    pub(crate) url: String,
    pub(crate) process: Process,
    _folder: TempDir,
}

impl EtcdServer {
    /// Starts one. Debian's package `etcd-server` contains it.
    pub(crate) fn start() -> Self {
        Self::start_with("http", &[], &|url| Self::config_of(&[url]))
    }

    /// Starts one with more arguments; `config` returns the configuration of its clients.
    pub(crate) fn start_with(
        scheme: &str,
        arguments: &[&OsStr],
        config: &dyn Fn(&str) -> EtcdConfig,
    ) -> Self {
        for _ in 0..5 {
            // Another process can still take the ports before etcd does; then etcd ends, and the
            // next attempt uses others.
            let [client, peer] = [free_port(), free_port()];
            let folder = TempDir::new().expect("a folder");
            let (url, peer) = (
                format!("{scheme}://127.0.0.1:{client}"),
                format!("http://127.0.0.1:{peer}"),
            );
            let log = std::fs::File::create(folder.path().join("log")).expect("a log");
            let mut command = Command::new("etcd");
            command.arg("--data-dir").arg(folder.path().join("data"));
            command.args([
                "--listen-client-urls",
                &url,
                "--advertise-client-urls",
                &url,
            ]);
            command.args([
                "--listen-peer-urls",
                &peer,
                "--initial-advertise-peer-urls",
                &peer,
            ]);
            command.args([
                "--initial-cluster",
                &format!("default={peer}"),
                "--unsafe-no-fsync",
            ]);
            command.args(arguments);
            command
                .env_clear()
                .stdout(log.try_clone().expect("a log"))
                .stderr(log);
            let mut server = Self {
                url,
                process: Process::start(&mut command),
                _folder: folder,
            };
            let engine = EtcdEngine::new(&config(&server.url)).expect("an engine");
            let is_ready = wait_for("etcd", || {
                let has_ended = server.process.0.try_wait().expect("its state").is_some();
                if has_ended {
                    Some(false)
                } else {
                    block_on(engine.read("machines/none")).ok().map(|_| true)
                }
            });
            if is_ready {
                return server;
            }
        }
        panic!("etcd does not start");
    }

    pub(crate) fn engine(&self) -> Box<dyn Engine> {
        Self::engine_at(&[&self.url])
    }

    pub(crate) fn engine_at(endpoints: &[&str]) -> Box<dyn Engine> {
        Box::new(EtcdEngine::new(&Self::config_of(endpoints)).expect("an engine"))
    }

    pub(crate) fn config_of(endpoints: &[&str]) -> EtcdConfig {
        EtcdConfig {
            endpoints: endpoints
                .iter()
                .map(|&endpoint| endpoint.to_owned())
                .collect(),
            prefix: "/scheduled-events/".into(),
            ca: None,
            identity: None,
            user: None,
            password_file: None,
        }
    }
}

/// The command `scheduled-events`, which `make test-fleet` builds first.
pub(crate) fn watcher_command() -> PathBuf {
    let path = std::env::var_os("SCHEDULED_EVENTS").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/debug/scheduled-events"),
        PathBuf::from,
    );
    assert!(
        path.exists(),
        "{} does not exist; build it: cargo build --package scheduled-events-cli",
        path.display()
    );
    path
}

/// The command of this package.
pub(crate) const FLEET_COMMAND: &str = env!("CARGO_BIN_EXE_scheduled-events-fleet");

/// Azurite, Microsoft's emulator of Blob storage, which `make test-fleet` installs.
pub(crate) struct Azurite {
    /// The address of a container.
    pub(crate) url: String,
    #[allow(dead_code)] // Another test measures its processor time.
    pub(crate) process: Process,
}

impl Azurite {
    pub(crate) fn start() -> Self {
        Self::start_with(|_| {})
    }

    /// The same with a changed command.
    pub(crate) fn start_with(change: impl Fn(&mut Command)) -> Self {
        let container = |port: u16| format!("http://127.0.0.1:{port}/devstoreaccount1/fleet");
        let (process, port) = azurite("blob", change, |port| {
            block_on(create_container(&container(port)))
        });
        Self {
            url: container(port),
            process,
        }
    }
}

/// The HMAC with the account's well-known key, in base64.
fn signature(text: &str) -> String {
    use base64::Engine as _;
    use base64::prelude::BASE64_STANDARD;
    use hmac::{Hmac, KeyInit, Mac};

    let key = BASE64_STANDARD
        .decode(scheduled_events_gate::engine::blob::EMULATOR_KEY)
        .expect("a key");
    let mut mac = Hmac::<sha2::Sha256>::new_from_slice(&key).expect("a key");
    mac.update(text.as_bytes());
    BASE64_STANDARD.encode(mac.finalize().into_bytes())
}

/// A SAS token for the container with these permissions.
pub(crate) fn sas(permissions: &str) -> String {
    let (expiry, version) = ("2099-01-01T00:00:00Z", "2021-08-06");
    // The empty parts: start; identifier and addresses, before the protocols; snapshot, scope of
    // encryption, five headers.
    let text = format!(
        "{permissions}\n\n{expiry}\n/blob/devstoreaccount1/fleet\n\n\nhttps,http\n{version}\nc\n\n\n\n\n\n\n"
    );
    let signature = signature(&text)
        .replace('+', "%2B")
        .replace('/', "%2F")
        .replace('=', "%3D");
    format!("sv={version}&sr=c&sp={permissions}&se={expiry}&spr=https,http&sig={signature}")
}

/// Creates the container, signed with the account's well-known key: the engine's library has no
/// call for it.
async fn create_container(url: &str) -> bool {
    let mut date = Command::new("date");
    let date = wait::output(
        date.env("LC_ALL", "C")
            .args(["-u", "+%a, %d %b %Y %H:%M:%S GMT"]),
    )
    .stdout;
    let date = String::from_utf8(date).expect("text").trim().to_owned();
    let version = "2021-08-06";
    let text = format!(
        "PUT{}x-ms-date:{date}\nx-ms-version:{version}\n/devstoreaccount1/devstoreaccount1/fleet\nrestype:container",
        "\n".repeat(12)
    );
    let signature = signature(&text);
    let client = scheduled_events_common::http::client(Duration::from_secs(5)).expect("a client");
    let request = client
        .put(format!("{url}?restype=container"))
        .header("x-ms-date", date)
        .header("x-ms-version", version);
    let request = request.header(
        "Authorization",
        format!("SharedKey devstoreaccount1:{signature}"),
    );
    match request.header("Content-Length", "0").send().await {
        // On a busy machine, the answer to an earlier attempt may have been too late.
        Ok(response) if response.status().is_success() || response.status() == 409 => true,
        Ok(response) => panic!(
            "Azurite refuses a container: {}",
            response.text().await.unwrap_or_default()
        ),
        Err(_) => false,
    }
}

/// The keys and the values of the registers with this prefix.
pub(crate) fn registers(engine: &dyn Engine, prefix: &str) -> Vec<(String, String)> {
    let found = wait_for("the registers", || block_on(engine.list(prefix)).ok());
    found
        .into_iter()
        .map(|(key, register)| (key, register.value))
        .collect()
}

/// Writes these registers over those that are there.
pub(crate) fn restore(engine: &dyn Engine, backup: &[(String, String)]) {
    for (key, value) in backup {
        let restored = async || {
            let found = engine.read(key).await?;
            let revision = found.map(|register| register.revision);
            engine.swap(key, revision.as_ref(), value).await
        };
        wait_for("the restore", || {
            let swap = block_on(restored()).ok()?;
            (swap != Swap::Conflict).then_some(())
        });
    }
}
