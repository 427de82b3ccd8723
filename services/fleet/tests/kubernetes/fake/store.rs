//! The objects of the API server: versions, selectors, patches, and the history that watches read.

use std::collections::BTreeMap;

use k8s_openapi::jiff::Timestamp;
use serde_json::{Map, Value, json};

/// An error, as the API server returns it.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) code: u16,
    pub(crate) reason: &'static str,
    pub(crate) message: String,
    pub(crate) details: Value,
}

impl Refusal {
    pub(crate) fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            reason,
            message: message.into(),
            details: json!({}),
        }
    }

    pub(crate) fn to_status(&self) -> Value {
        json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": self.message,
            "reason": self.reason, "details": self.details, "code": self.code})
    }
}

/// The object or the collection that a request names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Target {
    /// The group; empty for the core group.
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) namespace: Option<String>,
    /// The plural name of the kind.
    pub(crate) resource: String,
    pub(crate) name: Option<String>,
    pub(crate) subresource: Option<String>,
}

impl Target {
    pub(crate) fn parse(path: &str) -> Option<Self> {
        let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
        let (group, version, rest) = match parts.as_slice() {
            ["api", version, rest @ ..] => ("", *version, rest),
            ["apis", group, version, rest @ ..] => (*group, *version, rest),
            _ => return None,
        };
        let (namespace, rest) = match rest {
            ["namespaces", namespace, rest @ ..] if !rest.is_empty() => {
                (Some((*namespace).to_owned()), rest)
            }
            rest => (None, rest),
        };
        let (resource, rest) = rest.split_first()?;
        let owned = |part: Option<&&str>| part.map(|part| (*part).to_owned());
        Some(Self {
            group: group.to_owned(),
            version: version.to_owned(),
            namespace,
            resource: (*resource).to_owned(),
            name: owned(rest.first()),
            subresource: owned(rest.get(1)),
        })
    }

    pub(crate) fn collection(&self) -> String {
        format!("{}/{}", self.group, self.resource)
    }

    fn key(&self, name: &str) -> Key {
        (
            self.collection(),
            self.namespace.clone().unwrap_or_default(),
            name.to_owned(),
        )
    }

    fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.clone()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    fn kind(&self) -> &'static str {
        match self.resource.as_str() {
            "pods" => "Pod",
            "nodes" => "Node",
            "namespaces" => "Namespace",
            "events" => "Event",
            "leases" => "Lease",
            "configmaps" => "ConfigMap",
            "daemonsets" => "DaemonSet",
            "poddisruptionbudgets" => "PodDisruptionBudget",
            other => panic!("the fake has no kind for {other}"),
        }
    }
}

type Key = (String, String, String);

/// A change, as a watch reports it.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) version: u64,
    pub(crate) collection: String,
    pub(crate) namespace: String,
    pub(crate) before: Option<Value>,
    pub(crate) after: Option<Value>,
}

/// Which objects a list or a watch selects.
#[derive(Clone, Debug, Default)]
pub(crate) struct Selector {
    pub(crate) namespace: Option<String>,
    fields: Vec<(String, String)>,
    labels: Vec<(String, String)>,
    /// A label, and the values that it must not have: it may be absent.
    excluded: Option<(String, Vec<String>)>,
}

impl Selector {
    pub(crate) fn parse(
        namespace: Option<String>,
        fields: Option<&str>,
        labels: Option<&str>,
    ) -> Self {
        let pairs = |text: Option<&str>| -> Vec<(String, String)> {
            let terms = text
                .unwrap_or_default()
                .split(',')
                .filter(|term| !term.is_empty());
            let pair = |term: &str| {
                let (key, value) = term
                    .split_once('=')
                    .expect("a selector of the form key=value");
                (key.to_owned(), value.trim_start_matches('=').to_owned())
            };
            terms.map(pair).collect()
        };
        let excluded = labels.and_then(|text| text.split_once(" notin "));
        let excluded = excluded.map(|(key, values)| {
            let values = values.trim_matches(['(', ')']).split(',');
            (key.to_owned(), values.map(str::to_owned).collect())
        });
        Self {
            namespace,
            fields: pairs(fields),
            labels: pairs(labels.filter(|_| excluded.is_none())),
            excluded,
        }
    }

    pub(crate) fn matches(&self, namespace: &str, object: &Value) -> bool {
        let field = |(path, value): &(String, String)| {
            object
                .pointer(&format!("/{}", path.replace('.', "/")))
                .and_then(Value::as_str)
                .unwrap_or_default()
                == value
        };
        let label =
            |(key, value): &(String, String)| object["metadata"]["labels"][key] == json!(value);
        self.namespace
            .as_deref()
            .is_none_or(|wanted| wanted == namespace)
            && self.fields.iter().all(field)
            && self.labels.iter().all(label)
            && self.excluded.iter().all(|(key, values)| {
                let value = object["metadata"]["labels"][key].as_str();
                value.is_none_or(|value| values.iter().all(|excluded| excluded != value))
            })
    }
}

#[derive(Default)]
pub(crate) struct Store {
    pub(crate) version: u64,
    objects: BTreeMap<Key, Value>,
    pub(crate) history: Vec<Change>,
    /// Watches from an earlier version get the answer 410.
    pub(crate) oldest: u64,
}

impl Store {
    pub(crate) fn starting_at(version: u64) -> Self {
        Self {
            version,
            ..Self::default()
        }
    }

    pub(crate) fn get(&self, target: &Target) -> Result<&Value, Refusal> {
        let name = target.name.as_deref().unwrap_or_default();
        self.objects.get(&target.key(name)).ok_or_else(|| {
            Refusal::new(
                404,
                "NotFound",
                format!("{} \"{name}\" not found", target.resource),
            )
        })
    }

    pub(crate) fn list(&self, collection: &str, selector: &Selector) -> Vec<&Value> {
        let all = self.objects.iter().filter(|((of, namespace, _), object)| {
            of == collection && selector.matches(namespace, object)
        });
        all.map(|(_, object)| object).collect()
    }

    pub(crate) fn create(&mut self, target: &Target, mut object: Value) -> Result<Value, Refusal> {
        let metadata = &mut object["metadata"];
        if metadata["name"].is_null()
            && let Some(prefix) = metadata["generateName"].as_str()
        {
            metadata["name"] = json!(format!("{prefix}{:05}", self.version));
        }
        let name = metadata["name"].as_str().unwrap_or_default().to_owned();
        check_name(&name)?;
        if let Some(namespace) = &target.namespace {
            metadata["namespace"] = json!(namespace);
            // A server creates its own namespaces when it starts.
            let is_own = namespace == "default" || namespace.starts_with("kube-");
            if !is_own
                && !self.objects.contains_key(&(
                    "/namespaces".to_owned(),
                    String::new(),
                    namespace.clone(),
                ))
            {
                return Err(Refusal::new(
                    404,
                    "NotFound",
                    format!("namespaces \"{namespace}\" not found"),
                ));
            }
        }
        if self.objects.contains_key(&target.key(&name)) {
            let message = format!("{} \"{name}\" already exists", target.resource);
            return Err(Refusal::new(409, "AlreadyExists", message));
        }
        metadata["uid"] = json!(format!("uid-{}", self.version + 1));
        metadata["creationTimestamp"] = json!(now());
        if target.resource == "poddisruptionbudgets" {
            object["metadata"]["generation"] = json!(1);
        }
        object["apiVersion"] = json!(target.api_version());
        object["kind"] = json!(target.kind());
        self.put(target, &name, Some(object))
    }

    /// Replaces the whole object. A PUT creates a Lease that does not exist, whatever version the
    /// object names, unless it names a uid: Kubernetes 1.36 does the same.
    pub(crate) fn replace(
        &mut self,
        target: &Target,
        object: Value,
        manager: &str,
    ) -> Result<Value, Refusal> {
        let uid = &object["metadata"]["uid"];
        let before = match self.get(target) {
            Err(_) if target.resource == "leases" && uid.is_null() => {
                return self.create(target, object);
            }
            Err(missing) if uid.is_null() => return Err(missing),
            Ok(before) if uid.is_null() || *uid == before["metadata"]["uid"] => before.clone(),
            _ => {
                let message = format!(
                    "Precondition failed: UID in precondition: {uid}, UID in object meta: another one"
                );
                return Err(Refusal::new(409, "Conflict", message));
            }
        };
        if object["metadata"]["resourceVersion"].is_null() && target.resource == "leases" {
            let message =
                "metadata.resourceVersion: Invalid value: 0: must be specified for an update";
            return Err(Refusal::new(422, "Invalid", message));
        }
        self.update(target, before, object, manager)
    }

    pub(crate) fn patch(
        &mut self,
        target: &Target,
        patch: Value,
        strategic: bool,
        manager: &str,
    ) -> Result<Value, Refusal> {
        let before = self.get(target)?.clone();
        let mut object = before.clone();
        merge(&mut object, patch, strategic, "");
        self.update(target, before, object, manager)
    }

    fn update(
        &mut self,
        target: &Target,
        before: Value,
        mut object: Value,
        manager: &str,
    ) -> Result<Value, Refusal> {
        let name = target.name.as_deref().unwrap_or_default();
        let given = &object["metadata"]["resourceVersion"];
        if !given.is_null() && *given != before["metadata"]["resourceVersion"] {
            let message = format!(
                "Operation cannot be fulfilled on {} \"{name}\": the object has been modified; please apply your changes to the \
                 latest version and try again",
                target.resource
            );
            return Err(Refusal::new(409, "Conflict", message));
        }
        // A subresource changes its own part, and the object everything else.
        if target.subresource.as_deref() == Some("status") {
            let status = object["status"].take();
            object = before.clone();
            object["status"] = status;
        } else {
            object["status"] = before["status"].clone();
        }
        for fixed in [
            "uid",
            "creationTimestamp",
            "resourceVersion",
            "managedFields",
            "deletionTimestamp",
        ] {
            object["metadata"][fixed] = before["metadata"][fixed].clone();
        }
        remove_nulls(&mut object);
        let mut comparable = before.clone();
        remove_nulls(&mut comparable);
        if object == comparable {
            return Ok(before);
        }
        if target.resource == "nodes" {
            own_unschedulable(&before, &mut object, manager);
            own_conditions(&before, &mut object, manager);
            taint_unschedulable(&mut object);
        }
        self.put(target, name, Some(object))
    }

    /// Writes an object without any check; `None` removes it.
    pub(crate) fn put(
        &mut self,
        target: &Target,
        name: &str,
        object: Option<Value>,
    ) -> Result<Value, Refusal> {
        let key = target.key(name);
        let before = self.objects.get(&key).cloned();
        self.version += 1;
        let mut object = object;
        if let Some(object) = &mut object {
            check_annotations(object)?;
            object["metadata"]["resourceVersion"] = json!(self.version.to_string());
            remove_nulls(object);
            self.objects.insert(key.clone(), object.clone());
        } else {
            self.objects.remove(&key);
        }
        let result = object
            .clone()
            .or_else(|| before.clone())
            .unwrap_or_default();
        self.history.push(Change {
            version: self.version,
            collection: key.0,
            namespace: key.1,
            before,
            after: object,
        });
        Ok(result)
    }
}

pub(crate) fn now() -> String {
    Timestamp::now().strftime("%FT%TZ").to_string()
}

/// A merge patch (RFC 7396). A strategic one merges the lists that the API's types key by a member;
/// the tests use only the conditions.
fn merge(target: &mut Value, patch: Value, strategic: bool, member: &str) {
    let patch = match patch {
        Value::Object(patch) => patch,
        Value::Array(items) if strategic && member == "conditions" => {
            if !target.is_array() {
                *target = json!([]);
            }
            let list = target.as_array_mut().expect("an array");
            for item in items {
                match list
                    .iter_mut()
                    .find(|present| present["type"] == item["type"])
                {
                    Some(present) => merge(present, item, true, ""),
                    None => list.push(item),
                }
            }
            return;
        }
        patch => return *target = patch,
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    for (key, value) in patch {
        if value.is_null() {
            target.as_object_mut().expect("an object").remove(&key);
        } else {
            merge(&mut target[&key], value, strategic, &key);
        }
    }
}

fn remove_nulls(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|_, value| !value.is_null());
            members.values_mut().for_each(remove_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(remove_nulls),
        _ => {}
    }
}

/// Records who changed the status of each condition last, as the server does.
fn own_conditions(before: &Value, after: &mut Value, manager: &str) {
    let conditions = |node: &Value| {
        let list = node["status"]["conditions"].as_array().cloned();
        list.unwrap_or_default()
    };
    let earlier = conditions(before);
    for condition in conditions(after) {
        let same = |other: &&Value| other["type"] == condition["type"];
        if earlier.iter().find(same).map(|other| &other["status"]) == Some(&condition["status"]) {
            continue;
        }
        let key = format!("k:{{\"type\":{}}}", condition["type"]);
        let field = json!({"f:status": {"f:conditions": {key: {"f:status": {}}}}});
        own(after, &field, Some(manager));
    }
}

/// Records who changed a field last; `None`: it is not there any more.
fn own(object: &mut Value, field: &Value, manager: Option<&str>) {
    let entries = object["metadata"]["managedFields"].as_array().cloned();
    let mut entries = entries.unwrap_or_default();
    entries.retain(|entry| entry["fieldsV1"] != *field);
    if let Some(manager) = manager {
        entries.push(
            json!({"manager": manager, "operation": "Update", "apiVersion": "v1", "time": now(),
            "fieldsType": "FieldsV1", "fieldsV1": field}),
        );
    }
    object["metadata"]["managedFields"] = json!(entries);
}

/// Records who changed the field last, as the server does.
fn own_unschedulable(before: &Value, after: &mut Value, manager: &str) {
    if before["spec"]["unschedulable"] == after["spec"]["unschedulable"] {
        return;
    }
    let field = json!({"f:spec": {"f:unschedulable": {}}});
    let is_set = !after["spec"]["unschedulable"].is_null();
    own(after, &field, is_set.then_some(manager));
}

/// Imitates the node lifecycle controller, which taints a cordoned node.
fn taint_unschedulable(node: &mut Value) {
    let key = "node.kubernetes.io/unschedulable";
    let mut taints = node["spec"]["taints"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    taints.retain(|taint| taint["key"] != key);
    if node["spec"]["unschedulable"] == json!(true) {
        taints.push(json!({"key": key, "effect": "NoSchedule"}));
    }
    node["spec"]["taints"] = if taints.is_empty() {
        Value::Null
    } else {
        json!(taints)
    };
}

/// Names are DNS subdomains.
fn check_name(name: &str) -> Result<(), Refusal> {
    let label = |label: &str| {
        let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        !label.is_empty()
            && label.bytes().all(allowed)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    if name.len() > 253 || !name.split('.').all(label) {
        let message = format!(
            "metadata.name: Invalid value: {name:?}: a lowercase RFC 1123 subdomain must consist of …"
        );
        return Err(Refusal::new(422, "Invalid", message));
    }
    Ok(())
}

/// All annotations together, names and values, have at most 256 KiB.
fn check_annotations(object: &Value) -> Result<(), Refusal> {
    let annotations = object["metadata"]["annotations"].as_object();
    let size: usize = annotations
        .into_iter()
        .flatten()
        .map(|(key, value)| key.len() + value.as_str().unwrap_or_default().len())
        .sum();
    if size > 256 * 1024 {
        let message = "metadata.annotations: Too long: may not be more than 262144 bytes";
        return Err(Refusal::new(422, "Invalid", message));
    }
    Ok(())
}
