//! The rights of the agent's service account: the rules that `packaging/kubernetes` grants, applied
//! as the API server does.

use std::collections::BTreeSet;
use std::sync::Mutex;

use serde_json::{Value, json};

use super::store::Target;

/// The verb of a request.
pub(crate) fn verb(method: &str, target: &Target, watches: bool) -> &'static str {
    match (method, &target.name) {
        ("GET", _) if watches => "watch",
        ("GET", Some(_)) => "get",
        ("GET", None) => "list",
        ("POST", _) => "create",
        ("PUT", _) => "update",
        ("PATCH", _) => "patch",
        ("DELETE", _) => "delete",
        _ => "unknown",
    }
}

/// A right: verb, group, and resource with its subresource.
pub(crate) type Right = (String, String, String);

pub(crate) fn right(verb: &str, target: &Target) -> Right {
    let resource = match &target.subresource {
        Some(subresource) => format!("{}/{subresource}", target.resource),
        None => target.resource.clone(),
    };
    (verb.to_owned(), target.group.clone(), resource)
}

/// A `SelfSubjectAccessReview` with its answer. To ask for a right does not use it.
pub(crate) fn review(body: &Value, allows: impl FnOnce(&Right) -> bool) -> Value {
    let attributes = &body["spec"]["resourceAttributes"];
    let text = |name: &str| attributes[name].as_str().unwrap_or_default().to_owned();
    let resource = match attributes["subresource"].as_str() {
        Some(subresource) => format!("{}/{subresource}", text("resource")),
        None => text("resource"),
    };
    let mut review = body.clone();
    let allowed = allows(&(text("verb"), text("group"), resource));
    review["status"] = json!({ "allowed": allowed });
    review
}

/// The rights that were granted, and those that were used.
#[derive(Default)]
pub(crate) struct Rights {
    pub(crate) granted: BTreeSet<Right>,
    pub(crate) used: Mutex<BTreeSet<Right>>,
}

impl Rights {
    pub(crate) fn allows(&self, right: &Right) -> bool {
        let allowed = self.granted.contains(right);
        if allowed {
            self.used.lock().unwrap().insert(right.clone());
        }
        allowed
    }
}
