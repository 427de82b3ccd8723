//! A cluster with one node of a test, and the tests' part in it: they are its kubelet.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Node, Pod};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Resource};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::fake::FakeApi;
use crate::fake::rbac::Right;

/// How long a condition may take to come true, however busy the machine is.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// A cluster, with a namespace and a node of one test.
pub(crate) struct Cluster {
    /// None: a real one.
    pub(crate) fake: Option<FakeApi>,
    pub(crate) folder: TempDir,
    pub(crate) namespace: String,
    pub(crate) node: String,
    client: Client,
    runtime: Runtime,
    kubelet_ends: Arc<AtomicBool>,
}

impl Cluster {
    pub(crate) fn start() -> Self {
        Self::with_rights(None::<Vec<Right>>)
    }

    /// The rights are the fake's; on a real cluster everything is allowed.
    pub(crate) fn with_rights(rights: Option<impl IntoIterator<Item = Right>>) -> Self {
        static COUNTER: AtomicU32 = AtomicU32::new(0);
        scheduled_events_fleet::http::install_tls();
        let folder = TempDir::new().unwrap();
        let real = std::env::var_os("KUBERNETES_TEST_CONFIG").filter(|path| !path.is_empty()).map(PathBuf::from);
        let fake = real.is_none().then(|| FakeApi::start(rights));
        let admin = folder.path().join("admin");
        match (&fake, real) {
            (Some(fake), _) => {
                fake.write_kubeconfig(&admin, true);
                fake.write_kubeconfig(&folder.path().join("agent"), false);
            }
            (None, Some(real)) => {
                std::fs::copy(&real, &admin).unwrap();
                std::fs::copy(&real, folder.path().join("agent")).unwrap();
            }
            (None, None) => unreachable!(),
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let client = runtime.block_on(client(&admin));
        let number = COUNTER.fetch_add(1, Ordering::Relaxed);
        let name = format!("scheduled-events-test-{}-{number}", std::process::id());
        let cluster =
            Self { fake, folder, namespace: name.clone(), node: name, client, runtime, kubelet_ends: Arc::default() };
        cluster.create::<Namespace>(None, json!({"metadata": {"name": cluster.namespace}}));
        cluster.create::<Node>(None, json!({"metadata": {"name": cluster.node}}));
        cluster.configure("");
        cluster.set_ready(true);
        cluster.start_kubelet();
        cluster
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

    fn api<K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>>(&self) -> Api<K> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    fn nodes(&self) -> Api<Node> {
        Api::all(self.client.clone())
    }

    fn create<K>(&self, namespace: Option<&str>, object: Value) -> K
    where
        K: Resource<DynamicType = ()> + serde::Serialize + serde::de::DeserializeOwned + Clone + std::fmt::Debug,
    {
        let url = K::url_path(&(), namespace);
        let body = serde_json::to_vec(&object).unwrap();
        let request = kube::core::Request::new(url).create(&PostParams::default(), body).unwrap();
        let mut object = object;
        object["apiVersion"] = json!(K::api_version(&()));
        object["kind"] = json!(K::kind(&()));
        let request = request.map(|_| serde_json::to_vec(&object).unwrap());
        self.runtime.block_on(self.client.request::<K>(request)).unwrap()
    }

    /// The node's own status, as its kubelet reports it.
    pub(crate) fn set_ready(&self, ready: bool) {
        let condition = json!({"type": "Ready", "status": if ready { "True" } else { "False" }, "reason": "Test",
            "message": if ready { "ready" } else { "the test says so" },
            "lastHeartbeatTime": Timestamp::now().strftime("%FT%TZ").to_string()});
        self.patch_status(&json!({"status": {"conditions": [condition]}}));
    }

    pub(crate) fn patch_status(&self, patch: &Value) {
        let patch = Patch::Strategic(patch);
        self.runtime.block_on(self.nodes().patch_status(&self.node, &PatchParams::default(), &patch)).unwrap();
    }

    pub(crate) fn node(&self) -> Node {
        self.runtime.block_on(self.nodes().get(&self.node)).unwrap()
    }

    /// Changes the node in the name of somebody else.
    pub(crate) fn patch_node(&self, manager: &str, patch: &Value) {
        let parameters = PatchParams { field_manager: Some(manager.into()), ..PatchParams::default() };
        self.runtime.block_on(self.nodes().patch(&self.node, &parameters, &Patch::Merge(patch))).unwrap();
    }

    pub(crate) fn is_cordoned(&self) -> bool {
        self.node().spec.and_then(|spec| spec.unschedulable) == Some(true)
    }

    /// The keys of the taints but that of Kubernetes' own for cordoned nodes.
    pub(crate) fn taints(&self) -> Vec<String> {
        let taints = self.node().spec.and_then(|spec| spec.taints).unwrap_or_default();
        let keys = taints.into_iter().map(|taint| taint.key);
        keys.filter(|key| !key.starts_with("node.kubernetes.io/")).collect()
    }

    pub(crate) fn annotation(&self, key: &str) -> Option<String> {
        self.node().metadata.annotations?.remove(key)
    }

    /// Status, reason and message of the condition.
    pub(crate) fn condition(&self) -> Option<(String, String)> {
        let conditions = self.node().status?.conditions?;
        let found = conditions.into_iter().find(|condition| condition.type_ == "ScheduledEventPending")?;
        Some((found.status, found.reason.unwrap_or_default()))
    }

    /// The reasons of the Events about the node.
    pub(crate) fn event_reasons(&self) -> Vec<String> {
        let events: Api<Event> = Api::namespaced(self.client.clone(), "default");
        let events = self.runtime.block_on(events.list(&ListParams::default())).unwrap();
        let of_node = |event: &Event| event.regarding.as_ref().and_then(|node| node.name.as_ref()) == Some(&self.node);
        events.into_iter().filter(of_node).filter_map(|event| event.reason).collect()
    }

    /// A pod on the node that runs, is ready and has a controller, after this change.
    pub(crate) fn add_pod(&self, name: &str, change: impl FnOnce(&mut Value)) -> Pod {
        let owner: ConfigMap =
            self.create(Some(&self.namespace), json!({"metadata": {"name": format!("owner-of-{name}")}}));
        let mut pod = json!({
            "metadata": {"name": name, "labels": {"app": name.split('-').next()}, "ownerReferences": [{
                "apiVersion": "v1", "kind": "ConfigMap", "name": owner.metadata.name, "uid": owner.metadata.uid,
                "controller": true}]},
            "spec": {"nodeName": self.node, "terminationGracePeriodSeconds": 30,
                "containers": [{"name": "main", "image": "example.invalid/none"}]},
        });
        change(&mut pod);
        let phase = pod["status"]["phase"].as_str().unwrap_or("Running").to_owned();
        let made: Pod = self.create(Some(&self.namespace), pod);
        let status = json!({"status": {"phase": phase, "conditions": [{"type": "Ready", "status": "True"}]}});
        let patch = Patch::Strategic(&status);
        self.runtime.block_on(self.api::<Pod>().patch_status(name, &PatchParams::default(), &patch)).unwrap();
        made
    }

    /// A `DaemonSet` for this node only.
    pub(crate) fn add_daemon_set(&self, name: &str) -> Value {
        let template = json!({"metadata": {"labels": {"app": name}}, "spec": {
            "nodeSelector": {"kubernetes.io/hostname": self.node},
            "containers": [{"name": "main", "image": "example.invalid/none"}]}});
        let spec = json!({"selector": {"matchLabels": {"app": name}}, "template": template});
        let made: DaemonSet = self.create(Some(&self.namespace), json!({"metadata": {"name": name}, "spec": spec}));
        json!([{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": name, "uid": made.metadata.uid, "controller": true}])
    }

    pub(crate) fn add_budget(&self, app: &str, min_available: u32) {
        self.add_named_budget(app, app, min_available);
    }

    pub(crate) fn add_named_budget(&self, name: &str, app: &str, min_available: u32) {
        let spec = json!({"minAvailable": min_available, "selector": {"matchLabels": {"app": app}}});
        self.create::<PodDisruptionBudget>(Some(&self.namespace), json!({"metadata": {"name": name}, "spec": spec}));
    }

    pub(crate) fn delete_budget(&self, app: &str) {
        let budgets = self.api::<PodDisruptionBudget>();
        self.runtime.block_on(budgets.delete(app, &DeleteParams::default())).unwrap();
    }

    /// Changes the taints as a careful controller does: again, if somebody else was faster.
    pub(crate) fn change_taints(&self, manager: &str, change: impl Fn(&mut Vec<Value>)) {
        loop {
            let node = serde_json::to_value(self.node()).unwrap();
            let mut taints = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
            change(&mut taints);
            let version = &node["metadata"]["resourceVersion"];
            let patch = json!({"metadata": {"resourceVersion": version}, "spec": {"taints": taints}});
            let parameters = PatchParams { field_manager: Some(manager.into()), ..PatchParams::default() };
            match self.runtime.block_on(self.nodes().patch(&self.node, &parameters, &Patch::Merge(patch))) {
                Err(kube::Error::Api(status)) if status.code == 409 => {}
                result => return drop(result.unwrap()),
            }
        }
    }

    /// The id of the boot that the kubelet reports.
    pub(crate) fn set_boot_id(&self, boot_id: &str) {
        let info = json!({"architecture": "", "bootID": boot_id, "containerRuntimeVersion": "", "kernelVersion": "",
            "kubeProxyVersion": "", "kubeletVersion": "", "machineID": "", "operatingSystem": "", "osImage": "",
            "systemUUID": ""});
        self.patch_status(&json!({"status": {"nodeInfo": info}}));
    }

    pub(crate) fn pod(&self, name: &str) -> Option<Pod> {
        self.runtime.block_on(self.api::<Pod>().get_opt(name)).unwrap()
    }

    /// The names of the pods of this test.
    pub(crate) fn pod_names(&self) -> Vec<String> {
        let pods = self.runtime.block_on(self.api::<Pod>().list(&ListParams::default())).unwrap();
        pods.into_iter().filter_map(|pod| pod.metadata.name).collect()
    }

    /// Ends pods that are being deleted: at once, or after the seconds in the label `ends-after`.
    fn start_kubelet(&self) {
        let (admin, namespace) = (self.folder.path().join("admin"), self.namespace.clone());
        let ends = self.kubelet_ends.clone();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let pods: Api<Pod> = Api::namespaced(client(&admin).await, &namespace);
                while !ends.load(Ordering::Relaxed) {
                    for pod in pods.list(&ListParams::default()).await.map(|list| list.items).unwrap_or_default() {
                        if ended(&pod) {
                            let _ = pods
                                .delete(&pod.metadata.name.unwrap(), &DeleteParams::default().grace_period(0))
                                .await;
                        }
                    }
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            });
        });
    }

    /// The program under test, as the agent.
    pub(crate) fn fleet(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_scheduled-events-fleet"));
        command.arg("--config").arg(self.folder.path().join("fleet.toml")).args(arguments);
        command.env_clear().env("KUBECONFIG", self.folder.path().join("agent")).env("NODE_NAME", &self.node);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// A client with the agent's credential. It belongs to the runtime that waits for it.
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
        let mut child = self.fleet(&[command]).spawn().unwrap();
        let _ = child.stdin.take().unwrap().write_all(event.to_string().as_bytes());
        child
    }

    /// Runs a hook to its end.
    pub(crate) fn run(&self, command: &str, event: &Value) -> Output {
        self.hook(command, event).wait_with_output().unwrap()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.kubelet_ends.store(true, Ordering::Relaxed);
        if self.fake.is_none() {
            let namespaces: Api<Namespace> = Api::all(self.client.clone());
            let _ = self.runtime.block_on(namespaces.delete(&self.namespace, &DeleteParams::default()));
            let _ = self.runtime.block_on(self.nodes().delete(&self.node, &DeleteParams::default()));
        }
    }
}

async fn client(kubeconfig: &std::path::Path) -> Client {
    let config = Kubeconfig::read_from(kubeconfig).unwrap();
    let config = kube::Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await.unwrap();
    Client::try_from(config).unwrap()
}

/// Whether a pod that is being deleted has ended by itself, or its grace period has.
fn ended(pod: &Pod) -> bool {
    let Some(end) = &pod.metadata.deletion_timestamp else { return false };
    let grace = pod.metadata.deletion_grace_period_seconds.unwrap_or(0);
    let begin = end.0 - SignedDuration::from_secs(grace);
    let label = pod.metadata.labels.as_ref().and_then(|labels| labels.get("ends-after")?.parse().ok());
    let takes = SignedDuration::from_secs(label.unwrap_or(0)).min(SignedDuration::from_secs(grace));
    Timestamp::now() >= begin + takes
}

/// An event as a hook gets it, that starts so many seconds from now.
pub(crate) fn event(id: &str, event_type: &str, starts_in: Option<i64>) -> Value {
    let not_before =
        starts_in.map(|seconds| (Timestamp::now() + SignedDuration::from_secs(seconds)).strftime("%FT%TZ").to_string());
    json!({"record": "event", "event_id": id, "event_type": event_type, "event_status": "Scheduled",
        "resource_type": "VirtualMachine", "resources": ["WestNO_0"], "not_before": not_before, "description": "test",
        "event_source": "Platform", "duration_in_seconds": null, "mine": true})
}

/// What a command printed, and its exit code.
pub(crate) fn text(output: &Output) -> String {
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    format!("exit code {:?}\n{stdout}{stderr}", output.status.code())
}
