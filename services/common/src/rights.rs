//! The rights that a program has at a Kubernetes API server, asked by `SelfSubjectAccessReview`.
//!
//! The server answers for the roles of the caller. It does not know what an admission policy will refuse.

use std::fmt;
use std::time::Duration;

use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use kube::api::{Api, ObjectMeta, PostParams};
use kube::{Client, Error};
use scheduled_events_text::finding::Finding;
use tokio::time::timeout;

use crate::kubernetes::describe;

/// How long the server may take for one answer.
const REQUEST_TIME: Duration = Duration::from_secs(10);

/// The name of the check.
const CHECK: &str = "right";

/// A verb that a program uses on a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Right {
    /// Such as `patch`.
    pub verb: &'static str,
    /// The group of the API; empty for the core.
    pub group: &'static str,
    /// Such as `nodes`, or `nodes/status`.
    pub resource: &'static str,
    /// The namespace; `None` for resources without one, and for all namespaces.
    pub namespace: Option<String>,
    /// The one object; `None` for all.
    pub name: Option<String>,
}

impl Right {
    /// A right to all objects of a resource, in all namespaces.
    ///
    /// ```
    /// use scheduled_events_common::rights::Right;
    ///
    /// let right = Right::new("create", "", "pods/eviction");
    /// assert_eq!(right.to_string(), "create pods/eviction");
    /// assert_eq!(
    ///     right.rule(),
    ///     "add to its ClusterRole: apiGroups: [\"\"], resources: [pods/eviction], verbs: [create]"
    /// );
    /// ```
    pub const fn new(verb: &'static str, group: &'static str, resource: &'static str) -> Self {
        Self {
            verb,
            group,
            resource,
            namespace: None,
            name: None,
        }
    }

    /// The same for one object.
    #[must_use]
    pub fn of(self, name: &str) -> Self {
        let name = Some(name.to_owned());
        Self { name, ..self }
    }

    /// The same in one namespace.
    #[must_use]
    pub fn within(self, namespace: &str) -> Self {
        let namespace = Some(namespace.to_owned());
        Self { namespace, ..self }
    }

    /// What grants it.
    pub fn rule(&self) -> String {
        let Self {
            verb,
            group,
            resource,
            ..
        } = self;
        let role = match &self.namespace {
            Some(namespace) => format!("a Role of it in the namespace {namespace}"),
            None => "its ClusterRole".to_owned(),
        };
        let group = if group.is_empty() { "\"\"" } else { group };
        format!("add to {role}: apiGroups: [{group}], resources: [{resource}], verbs: [{verb}]")
    }

    fn review(&self) -> SelfSubjectAccessReview {
        let (resource, subresource) = match self.resource.split_once('/') {
            Some((resource, subresource)) => (resource, Some(subresource.to_owned())),
            None => (self.resource, None),
        };
        let attributes = ResourceAttributes {
            verb: Some(self.verb.to_owned()),
            group: Some(self.group.to_owned()),
            resource: Some(resource.to_owned()),
            subresource,
            namespace: self.namespace.clone(),
            name: self.name.clone(),
            ..ResourceAttributes::default()
        };
        SelfSubjectAccessReview {
            metadata: ObjectMeta::default(),
            spec: SelfSubjectAccessReviewSpec {
                resource_attributes: Some(attributes),
                non_resource_attributes: None,
            },
            status: None,
        }
    }
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.verb, self.resource)?;
        if let Some(name) = &self.name {
            write!(f, " {name}")?;
        }
        match &self.namespace {
            Some(namespace) => write!(f, " in the namespace {namespace}"),
            None => Ok(()),
        }
    }
}

/// Asks the server about each right. If it does not answer, the last finding tells so.
pub async fn check_rights(client: &Client, rights: &[Right]) -> Vec<Finding<String>> {
    let mut findings = Vec::new();
    for right in rights {
        match ask(client, right).await {
            Ok(None) => findings.push(Finding::ok(CHECK.to_owned(), right.to_string())),
            Ok(Some(reason)) => findings.push(Finding::fail(
                CHECK.to_owned(),
                format!("{right}: not allowed{reason}"),
                right.rule(),
            )),
            Err(why) => {
                let found =
                    format!("the API server does not tell whether it allows {right}: {why}");
                let advice = "correct the credential, or what keeps this machine from the server; every user of it may ask this";
                findings.push(Finding::fail(CHECK.to_owned(), found, advice));
                break;
            }
        }
    }
    findings
}

/// `None` if the right is given; otherwise what the server adds, after `: ` if there is anything.
async fn ask(client: &Client, right: &Right) -> Result<Option<String>, String> {
    let reviews: Api<SelfSubjectAccessReview> = Api::all(client.clone());
    let (parameters, review) = (PostParams::default(), right.review());
    let answer = timeout(REQUEST_TIME, reviews.create(&parameters, &review)).await;
    let answer = answer
        .map_err(|_| format!("no answer within {} s", REQUEST_TIME.as_secs()))?
        .map_err(|error: Error| describe(&error))?;
    let status = answer.status.unwrap_or_default();
    let reason = [status.reason, status.evaluation_error]
        .into_iter()
        .flatten()
        .filter(|reason| !reason.is_empty())
        .map(|reason| format!(": {reason}"));
    Ok((!status.allowed).then(|| reason.collect()))
}
