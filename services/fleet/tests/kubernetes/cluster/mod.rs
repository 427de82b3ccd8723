//! A cluster with a node for one test, and the program under test as its agent.

mod agent;
pub(crate) mod chart;
mod kubelet;
mod workload;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{Namespace, Node, NodeCondition, Pod, ServiceAccount};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Resource};
use scheduled_events_test_support::{not_run, wait};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::fake::FakeApi;
use chart::{Access, rights};
use kubelet::Kubelet;

/// How long a condition may take to come true, however busy the machine is.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// A cluster, with namespaces and a node of one test.
pub(crate) struct Cluster {
    /// The first field, since it must end first.
    kubelet: Option<Kubelet>,
    /// The imitation; `None` for a real cluster.
    pub(crate) fake: Option<FakeApi>,
    pub(crate) folder: TempDir,
    /// The namespace of the test's pods.
    pub(crate) namespace: String,
    /// The namespace of the agent's pod, and the name of its service account.
    pub(crate) agents: String,
    pub(crate) node: String,
    pub(crate) client: Client,
    runtime: Runtime,
}

/// The kubeconfig with all rights of a real cluster, if the tests are to use one.
pub(crate) fn real() -> Option<PathBuf> {
    std::env::var_os("KUBERNETES_TEST_CONFIG")
        .filter(|path| !path.is_empty())
        .map(PathBuf::from)
}

impl Cluster {
    /// Starts on a real cluster if there is one, otherwise on the imitation. The agent has the
    /// rights that the chart grants.
    pub(crate) fn start() -> Self {
        Self::with_access(Access::Chart)
    }

    pub(crate) fn with_access(access: Access) -> Self {
        Self::on(real(), access)
    }

    /// Starts on the imitation, for tests that make it misbehave, or read its requests.
    pub(crate) fn imitated() -> Self {
        Self::on(None, Access::Chart)
    }

    /// Starts on a real cluster. Without one, the test is reported as not run.
    pub(crate) fn real(access: Access) -> Option<Self> {
        let real = real();
        if real.is_none() {
            not_run(
                "it needs a real API server: the imitated one has no admission policies and no bound tokens",
            );
        }
        real.map(|real| Self::on(Some(real), access))
    }

    fn on(real: Option<PathBuf>, access: Access) -> Self {
        static COUNTER: AtomicU32 = AtomicU32::new(0);
        scheduled_events_common::http::install_tls();
        // Requests of the test's own client have no other limit.
        wait::limit_tests();
        let folder = TempDir::new().unwrap();
        let (admin, agent) = (folder.path().join("admin"), folder.path().join("agent"));
        let fake = if let Some(real) = real {
            let config = Kubeconfig::read_from(&real).unwrap();
            std::fs::write(&admin, serde_yaml::to_string(&config).unwrap()).unwrap();
            None
        } else {
            let fake = FakeApi::start(Some(rights(access)));
            fake.write_kubeconfig(&admin, true);
            fake.write_kubeconfig(&agent, false);
            Some(fake)
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let client = runtime.block_on(client(&admin));
        let number = COUNTER.fetch_add(1, Ordering::Relaxed);
        let name = format!("scheduled-events-test-{}-{number}", std::process::id());
        let (namespace, agents) = (name.clone(), format!("{name}-agents"));
        let mut cluster = Self {
            fake,
            folder,
            namespace,
            agents,
            node: name,
            client,
            runtime,
            kubelet: None,
        };
        for namespace in [&cluster.namespace, &cluster.agents] {
            cluster.create::<Namespace>(None, json!({"metadata": {"name": namespace}}));
        }
        if cluster.fake.is_none() {
            // Pods need it, and a controller creates it.
            let accounts: Api<ServiceAccount> =
                Api::namespaced(cluster.client.clone(), &cluster.namespace);
            cluster.wait_for("the service account", || {
                cluster.block_on(accounts.get_opt("default")).unwrap()
            });
        }
        cluster.register_node();
        cluster.kubelet = Some(Kubelet::start(
            admin,
            cluster.node.clone(),
            cluster.namespace.clone(),
        ));
        let pod = cluster.add_agent(access);
        if cluster.fake.is_none() {
            cluster.write_agent_kubeconfig(&agent, Some(&pod));
        }
        cluster.configure("");
        cluster
    }

    pub(crate) fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }

    /// The imitation.
    pub(crate) fn fake(&self) -> &FakeApi {
        self.fake.as_ref().expect("an imitated server")
    }

    /// Waits until a condition is true.
    pub(crate) fn wait_for<T>(&self, what: &str, mut check: impl FnMut() -> Option<T>) -> T {
        let begin = Instant::now();
        loop {
            if let Some(found) = check() {
                return found;
            }
            assert!(
                begin.elapsed() < PATIENCE,
                "{what}: not within {PATIENCE:?}; {:#?}",
                self.fake.as_ref().map(FakeApi::seen)
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub(crate) fn api<K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>>(
        &self,
    ) -> Api<K> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    pub(crate) fn nodes(&self) -> Api<Node> {
        Api::all(self.client.clone())
    }

    pub(crate) fn create<K>(&self, namespace: Option<&str>, object: Value) -> K
    where
        K: Resource<DynamicType = ()>
            + serde::Serialize
            + serde::de::DeserializeOwned
            + Clone
            + std::fmt::Debug,
    {
        let url = K::url_path(&(), namespace);
        let body = serde_json::to_vec(&object).unwrap();
        let request = kube::core::Request::new(url)
            .create(&PostParams::default(), body)
            .unwrap();
        let mut object = object;
        object["apiVersion"] = json!(K::api_version(&()));
        object["kind"] = json!(K::kind(&()));
        let request = request.map(|_| serde_json::to_vec(&object).unwrap());
        self.block_on(self.client.request::<K>(request)).unwrap()
    }

    pub(crate) fn patch_status(&self, patch: &Value) {
        let patch = Patch::Strategic(patch);
        self.block_on(
            self.nodes()
                .patch_status(&self.node, &PatchParams::default(), &patch),
        )
        .unwrap();
    }

    pub(crate) fn node(&self) -> Node {
        self.block_on(self.nodes().get(&self.node)).unwrap()
    }

    /// Changes the node under somebody else's name.
    pub(crate) fn patch_node(&self, manager: &str, patch: &Value) {
        let parameters = PatchParams {
            field_manager: Some(manager.into()),
            ..PatchParams::default()
        };
        self.block_on(
            self.nodes()
                .patch(&self.node, &parameters, &Patch::Merge(patch)),
        )
        .unwrap();
        self.settled_node();
    }

    /// The node, once its controller has tainted it if it is cordoned, and only then.
    fn settled_node(&self) -> Node {
        self.wait_for("the taint of a cordoned node", || {
            let node = self.node();
            let spec = node.spec.as_ref()?;
            let tainted = spec
                .taints
                .iter()
                .flatten()
                .any(|taint| taint.key == "node.kubernetes.io/unschedulable");
            (tainted == (spec.unschedulable == Some(true))).then_some(node)
        })
    }

    pub(crate) fn is_cordoned(&self) -> bool {
        self.node().spec.and_then(|spec| spec.unschedulable) == Some(true)
    }

    /// The keys of the taints, except Kubernetes' own taint for cordoned nodes.
    pub(crate) fn taints(&self) -> Vec<String> {
        let taints = self
            .node()
            .spec
            .and_then(|spec| spec.taints)
            .unwrap_or_default();
        let keys = taints.into_iter().map(|taint| taint.key);
        keys.filter(|key| !key.starts_with("node.kubernetes.io/"))
            .collect()
    }

    pub(crate) fn annotation(&self, key: &str) -> Option<String> {
        self.node().metadata.annotations?.remove(key)
    }

    /// Status and reason of the agent's condition.
    pub(crate) fn condition(&self) -> Option<(String, String)> {
        self.pending()
            .map(|found| (found.status, found.reason.unwrap_or_default()))
    }

    /// The agent's condition.
    pub(crate) fn pending(&self) -> Option<NodeCondition> {
        self.condition_named("ScheduledEventPending")
    }

    /// The condition of this type.
    pub(crate) fn condition_named(&self, kind: &str) -> Option<NodeCondition> {
        let conditions = self.node().status?.conditions?;
        conditions
            .into_iter()
            .find(|condition| condition.type_ == kind)
    }

    /// The reasons of the agent's Events about the node.
    pub(crate) fn event_reasons(&self) -> Vec<String> {
        let events: Api<Event> = Api::namespaced(self.client.clone(), "default");
        let events = self.block_on(events.list(&ListParams::default())).unwrap();
        let of_node = |event: &Event| {
            event.regarding.as_ref().and_then(|node| node.name.as_ref()) == Some(&self.node)
        };
        let reasons = events
            .into_iter()
            .filter(of_node)
            .filter_map(|event| event.reason);
        reasons
            .filter(|reason| reason.starts_with("ScheduledEvent"))
            .collect()
    }

    /// Changes the taints as a careful controller does: it tries again if another writer was
    /// faster.
    pub(crate) fn change_taints(&self, manager: &str, change: impl Fn(&mut Vec<Value>)) {
        self.wait_for("a change of the taints", || {
            let node = serde_json::to_value(self.node()).unwrap();
            let mut taints = node["spec"]["taints"]
                .as_array()
                .cloned()
                .unwrap_or_default();
            change(&mut taints);
            let version = &node["metadata"]["resourceVersion"];
            let patch =
                json!({"metadata": {"resourceVersion": version}, "spec": {"taints": taints}});
            let parameters = PatchParams {
                field_manager: Some(manager.into()),
                ..PatchParams::default()
            };
            match self.block_on(
                self.nodes()
                    .patch(&self.node, &parameters, &Patch::Merge(patch)),
            ) {
                Err(kube::Error::Api(status)) if status.code == 409 => None,
                result => result.map(drop).map(Some).unwrap(),
            }
        });
    }

    /// The program under test, as the agent.
    pub(crate) fn fleet(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_scheduled-events-fleet"));
        command
            .arg("--config")
            .arg(self.folder.path().join("fleet.toml"))
            .args(arguments);
        command
            .env_clear()
            .env("KUBECONFIG", self.folder.path().join("agent"))
            .env("NODE_NAME", &self.node);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// A client with an administrator's credential. It belongs to the runtime that waits for it.
    pub(crate) fn admin_client(&self) -> impl Future<Output = Client> + use<> {
        let path = self.folder.path().join("admin");
        async move { client(&path).await }
    }

    /// The same with the agent's credential.
    pub(crate) fn agent_client(&self) -> impl Future<Output = Client> + use<> {
        let path = self.folder.path().join("agent");
        async move { client(&path).await }
    }

    /// Writes the configuration: this table `[node]`, and no gate.
    pub(crate) fn configure(&self, node: &str) {
        self.configure_with("http://127.0.0.1:1", node);
    }

    /// The same with a metadata service.
    pub(crate) fn configure_with(&self, metadata: &str, node: &str) {
        let text = format!("machine = \"WestNO_0\"\nmetadata = \"{metadata}\"\n[node]\n{node}\n");
        std::fs::write(self.folder.path().join("fleet.toml"), text).unwrap();
    }

    /// Starts a hook with an event.
    pub(crate) fn hook(&self, command: &str, event: &Value) -> Child {
        self.hook_with(&[], command, event)
    }

    /// The same with variables of the watcher.
    pub(crate) fn hook_with(
        &self,
        variables: &[(&str, &str)],
        command: &str,
        event: &Value,
    ) -> Child {
        self.wait_for_budgets();
        let mut child = self
            .fleet(&[command])
            .envs(variables.iter().copied())
            .spawn()
            .unwrap();
        let _ = child
            .stdin
            .take()
            .unwrap()
            .write_all(event.to_string().as_bytes());
        child
    }

    /// Runs a hook to its end.
    pub(crate) fn run(&self, command: &str, event: &Value) -> Output {
        wait::output_of(self.hook(command, event))
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if self.fake.is_none() {
            self.remove_rights();
            let namespaces: Api<Namespace> = Api::all(self.client.clone());
            for namespace in [&self.namespace, &self.agents] {
                let _ = self.block_on(namespaces.delete(namespace, &DeleteParams::default()));
                // Their kubelet ends, too.
                let pods: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
                let at_once = DeleteParams::default().grace_period(0);
                let _ = self.block_on(pods.delete_collection(&at_once, &ListParams::default()));
            }
            let _ = self.block_on(self.nodes().delete(&self.node, &DeleteParams::default()));
        }
    }
}

pub(crate) async fn client(kubeconfig: &Path) -> Client {
    let config = Kubeconfig::read_from(kubeconfig).unwrap();
    let config = kube::Config::from_custom_kubeconfig(config, &KubeConfigOptions::default())
        .await
        .unwrap();
    Client::try_from(config).unwrap()
}

/// An event as a hook receives it, which starts this many seconds from now.
pub(crate) fn event(id: &str, event_type: &str, starts_in: Option<i64>) -> Value {
    let not_before = starts_in.map(|seconds| {
        (Timestamp::now() + SignedDuration::from_secs(seconds))
            .strftime("%FT%TZ")
            .to_string()
    });
    json!({"record": "event", "event_id": id, "event_type": event_type, "event_status": "Scheduled",
        "resource_type": "VirtualMachine", "resources": ["WestNO_0"], "not_before": not_before, "description": "test",
        "event_source": "Platform", "duration_in_seconds": null, "mine": true})
}

/// The output of a command, and its exit code.
pub(crate) fn text(output: &Output) -> String {
    let (stdout, stderr) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    format!("exit code {:?}\n{stdout}{stderr}", output.status.code())
}
