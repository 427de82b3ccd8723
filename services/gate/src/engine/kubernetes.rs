//! Registers in Lease objects of a Kubernetes API server.
//!
//! A register is an annotation of a Lease of its own, and its revision is the object's
//! `resourceVersion` and `uid`. The server refuses a PUT or a DELETE that names them if the object
//! has others by then. It answers a GET that names none from the current state. With the version
//! alone, the server would create a deleted Lease again. The object's name says which register it
//! is, so that one whose key or label was removed by hand is not lost. The engine does not use the
//! Lease's own members: an expiring lease would be a lock that opens by time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, DeleteParams, ListParams, ObjectMeta, PostParams, Preconditions};
use kube::{Client, Error};
use sha2::{Digest, Sha256};

use super::clock::{Clock, StoreClock};
use super::{Engine, EngineError, Reply, Revision, Swap, Versioned};
use scheduled_events_common::kubernetes::{describe, status_code};
use scheduled_events_common::rights::Right;

/// The annotations with a register's key and value.
const KEY: &str = "scheduled-events/key";
const VALUE: &str = "scheduled-events/value";
/// The annotation with the revision that the last write replaced. It makes every write a change:
/// the server gives a write that changes nothing no new version, so two writers of the same value
/// could both believe that they were first.
const REPLACED: &str = "scheduled-events/replaced";
/// The label by which registers are found: the first part of the key.
const LABEL: &str = "scheduled-events/register";
/// The beginning of the names of the objects.
const PREFIX: &str = "scheduled-events-";
/// The values of the label. A list leaves out those of other kinds.
const KINDS: [&str; 4] = ["events", "groups", "machines", "hub"];
/// For how many dashes in an object's name it is tried which characters of the key they stand for.
const DASHES_MAX: usize = 8;
/// How long a request may take.
const REQUEST_TIME: Duration = Duration::from_secs(10);
/// The maximum number of registers in one answer of a list.
const PAGE: u32 = 200;

/// What this engine needs in its namespace.
pub fn rights(namespace: &str) -> Vec<Right> {
    ["get", "list", "create", "update", "delete"]
        .map(|verb| Right::new(verb, "coordination.k8s.io", "leases").within(namespace))
        .to_vec()
}

/// Registers in Leases.
pub struct KubernetesEngine {
    leases: Api<Lease>,
    /// The clock of the API server, as the `Date` of its answers shows it.
    clock: Arc<StoreClock>,
}

impl KubernetesEngine {
    /// Registers in this namespace, or in that of the credential.
    pub fn new(client: Client, namespace: Option<String>) -> Self {
        let namespace = namespace.unwrap_or_else(|| client.default_namespace().to_owned());
        let clock = Arc::<StoreClock>::default();
        let seen = clock.clone();
        let dated = tower::service_fn(move |request| {
            let (client, clock) = (client.clone(), seen.clone());
            async move {
                let response = client.send(request).await?;
                clock.saw_headers(response.headers());
                Ok::<_, Error>(response)
            }
        });
        let leases = Api::namespaced(Client::new(dated, namespace.clone()), &namespace);
        Self { leases, clock }
    }
}

impl Engine for KubernetesEngine {
    fn read<'a>(&'a self, key: &'a str) -> Reply<'a, Option<Versioned>> {
        Box::pin(async move {
            let found = request("read", key, self.leases.get_opt(&object_name(key))).await;
            let lease = found.map_err(|refusal| refusal.error)?;
            lease.map(register).transpose()
        })
    }

    fn swap<'a>(
        &'a self,
        key: &'a str,
        expected: Option<&'a Revision>,
        value: &'a str,
    ) -> Reply<'a, Swap> {
        Box::pin(async move {
            let (name, lease) = (object_name(key), lease(key, value, expected));
            let parameters = PostParams::default();
            let written = match expected {
                None => request("create", key, self.leases.create(&parameters, &lease)).await,
                Some(_) => {
                    request(
                        "write",
                        key,
                        self.leases.replace(&name, &parameters, &lease),
                    )
                    .await
                }
            };
            match (written, expected) {
                (Ok(lease), _) => Ok(Swap::Done(revision(&lease)?)),
                // It exists already, has another version, or was deleted. If it was to be created,
                // the namespace does not exist.
                (
                    Err(Refusal {
                        code: Some(409), ..
                    }),
                    _,
                )
                | (
                    Err(Refusal {
                        code: Some(404), ..
                    }),
                    Some(_),
                ) => Ok(Swap::Conflict),
                (Err(refusal), _) => Err(refusal.error),
            }
        })
    }

    fn delete<'a>(&'a self, key: &'a str, expected: &'a Revision) -> Reply<'a, bool> {
        Box::pin(async move {
            let (resource_version, uid, lost) = parts(expected);
            let preconditions = Preconditions {
                resource_version: Some(resource_version),
                uid: Some(uid),
            };
            let parameters = DeleteParams {
                preconditions: Some(preconditions),
                ..DeleteParams::default()
            };
            let name = lost.unwrap_or_else(|| object_name(key));
            match request("delete", key, self.leases.delete(&name, &parameters)).await {
                Ok(_) => Ok(true),
                Err(Refusal {
                    code: Some(404 | 409),
                    ..
                }) => Ok(false),
                Err(refusal) => Err(refusal.error),
            }
        })
    }

    fn clock(&self) -> Option<Clock> {
        self.clock.now()
    }

    fn list<'a>(&'a self, prefix: &'a str) -> Reply<'a, Vec<(String, Versioned)>> {
        Box::pin(async move {
            // One that has lost its label is found, too.
            let kind = kind(prefix);
            let others: Vec<_> = KINDS.into_iter().filter(|other| *other != kind).collect();
            let mut parameters = ListParams::default()
                .labels(&format!("{LABEL} notin ({})", others.join(",")))
                .limit(PAGE);
            let mut found = Vec::new();
            loop {
                let page = request("list", prefix, self.leases.list(&parameters))
                    .await
                    .map_err(|refusal| refusal.error)?;
                for lease in page.items {
                    let Some(known) = key_of(&lease, kind) else {
                        continue;
                    };
                    let (key, register) = match known {
                        Ok(key) => (key, register(lease)?),
                        Err(key) => (key, nameless(&lease)?),
                    };
                    if key.starts_with(prefix) {
                        found.push((key, register));
                    }
                }
                parameters.continue_token =
                    page.metadata.continue_.filter(|token| !token.is_empty());
                if parameters.continue_token.is_none() {
                    break;
                }
            }
            found.sort_by(|(a, _), (b, _)| a.cmp(b));
            Ok(found)
        })
    }
}

/// The name of a register's object: a key may have characters that a name may not. The beginning is
/// for people, and the hash distinguishes keys.
fn object_name(key: &str) -> String {
    let readable: String = key
        .chars()
        .map(|character| {
            if character.is_ascii_lowercase() || character.is_ascii_digit() {
                character
            } else {
                '-'
            }
        })
        .take(100)
        .collect();
    format!(
        "{PREFIX}{}-{:016x}",
        readable.trim_matches('-'),
        hash_of(key)
    )
}

fn hash_of(key: &str) -> u64 {
    let hash = Sha256::digest(key.as_bytes());
    hash.iter()
        .take(8)
        .fold(0, |number: u64, byte| number << 8 | u64::from(*byte))
}

/// The key of the register that a Lease is, which has been labelled as one of this kind, or not at
/// all: by its name, since the annotation may have been changed by hand. `None` if it is no register
/// of this kind. If the key cannot be found out, the error is the part that the name shows.
fn key_of(lease: &Lease, kind: &str) -> Option<Result<String, String>> {
    let name = lease.metadata.name.as_deref()?;
    if let Some(key) = annotation(lease, KEY)
        && object_name(key) == name
    {
        return Some(Ok(key.to_owned()));
    }
    let (readable, hash) = name.strip_prefix(PREFIX)?.rsplit_once('-')?;
    // A name shows no dashes at its end, not even those that are all of a key.
    let rest = match readable.strip_prefix(kind)? {
        "" => "-",
        rest => rest.strip_prefix('-')?,
    };
    let hash = u64::from_str_radix(hash, 16).ok()?;
    let shown = format!("{kind}/{rest}");
    Some(find_key(&shown, hash).ok_or(shown))
}

/// The key with this hash whose letters and digits are those of `shown`.
fn find_key(shown: &str, hash: u64) -> Option<String> {
    let start = shown.find('/')? + 1;
    let dashes: Vec<_> = shown.match_indices('-').map(|(at, _)| at).collect();
    let dashes: Vec<_> = dashes.into_iter().filter(|at| *at >= start).collect();
    if dashes.len() > DASHES_MAX {
        return None;
    }
    let options = 4_u32.pow(u32::try_from(dashes.len()).ok()?);
    (0..options)
        .map(|mut option| {
            let mut key = shown.to_owned();
            for at in &dashes {
                let replaced = ["-", "_", ".", "/"][option as usize % 4];
                key.replace_range(*at..=*at, replaced);
                option /= 4;
            }
            key
        })
        .find(|key| hash_of(key) == hash)
}

/// The first part of a key, as a label allows it.
fn kind(key: &str) -> &str {
    key.split('/')
        .next()
        .unwrap_or_default()
        .trim_matches(|character: char| !character.is_ascii_alphanumeric())
}

fn lease(key: &str, value: &str, expected: Option<&Revision>) -> Lease {
    let replaced = expected.map_or("", |revision| &revision.0);
    let (resource_version, uid) = expected
        .map(parts)
        .map(|(version, uid, _)| (version, uid))
        .unzip();
    let annotations = [(KEY, key), (VALUE, value), (REPLACED, replaced)];
    Lease {
        metadata: ObjectMeta {
            name: Some(object_name(key)),
            annotations: Some(
                annotations
                    .map(|(name, text)| (name.to_owned(), text.to_owned()))
                    .into(),
            ),
            labels: Some(BTreeMap::from([(LABEL.into(), kind(key).into())])),
            resource_version,
            uid,
            ..ObjectMeta::default()
        },
        spec: None,
    }
}

fn annotation<'a>(lease: &'a Lease, name: &str) -> Option<&'a str> {
    lease
        .metadata
        .annotations
        .as_ref()?
        .get(name)
        .map(String::as_str)
}

/// A Lease whose key cannot be found out: no valid register. Its revision has its name, by which it
/// can be deleted.
fn nameless(lease: &Lease) -> Result<Versioned, EngineError> {
    let name = lease.metadata.name.as_deref().unwrap_or_default();
    let value = format!("the Lease {name} has no annotation {KEY} that fits its name");
    let revision = Revision(format!("{}/{name}", revision(lease)?.0));
    Ok(Versioned { value, revision })
}

fn register(lease: Lease) -> Result<Versioned, EngineError> {
    let revision = revision(&lease)?;
    let value = lease
        .metadata
        .annotations
        .and_then(|mut annotations| annotations.remove(VALUE));
    let value = value.unwrap_or_else(|| format!("the Lease has no annotation {VALUE}"));
    Ok(Versioned { value, revision })
}

fn revision(lease: &Lease) -> Result<Revision, EngineError> {
    let (version, uid) = (
        lease.metadata.resource_version.as_deref(),
        lease.metadata.uid.as_deref(),
    );
    let both = version
        .zip(uid)
        .map(|(version, uid)| Revision(format!("{version}/{uid}")));
    both.ok_or_else(|| {
        EngineError("the server answered with a Lease without resourceVersion or uid".into())
    })
}

/// The `resourceVersion` and the `uid` of a revision, and the name of a Lease whose key cannot be
/// found out.
fn parts(revision: &Revision) -> (String, String, Option<String>) {
    let mut parts = revision.0.splitn(3, '/').map(str::to_owned);
    let mut next = || parts.next();
    (
        next().unwrap_or_default(),
        next().unwrap_or_default(),
        next(),
    )
}

/// Why a request failed, with the server's status code.
struct Refusal {
    code: Option<u16>,
    error: EngineError,
}

async fn request<T>(
    what: &str,
    key: &str,
    request: impl Future<Output = Result<T, Error>>,
) -> Result<T, Refusal> {
    let failed = |code, reason| Refusal {
        code,
        error: EngineError(format!("cannot {what} the Lease of {key}: {reason}")),
    };
    match tokio::time::timeout(REQUEST_TIME, request).await {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(error)) => Err(failed(status_code(&error), describe(&error))),
        Err(_) => Err(failed(
            None,
            format!("no answer within {} s", REQUEST_TIME.as_secs()),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::register::GroupRegister;
    use crate::store;

    #[test]
    fn a_lease_without_a_value_is_the_problem_of_its_register() {
        let mut emptied = lease("groups/web", "{}", Some(&Revision("7/1".into())));
        emptied
            .metadata
            .annotations
            .as_mut()
            .expect("annotations")
            .remove(VALUE);
        let register = register(emptied).expect("it can be listed");
        let error =
            store::decode::<GroupRegister>("groups/web", &register.value).expect_err("no register");
        assert!(
            error
                .0
                .starts_with("the register groups/web cannot be read: "),
            "{error}"
        );
    }

    #[test]
    fn names_of_objects_are_valid_and_differ() {
        let long = "machines/".to_owned() + &"x".repeat(191);
        let keys = [
            "groups/web",
            "groups-web",
            "groups/-web-",
            "groups/web.",
            "a",
            "machines/WestNO_0",
            &long,
        ];
        let names: std::collections::BTreeSet<_> =
            keys.iter().map(|key| object_name(key)).collect();
        assert_eq!(names.len(), keys.len());
        for name in names {
            assert!(name.len() <= 253 && !name.ends_with('-'), "{name}");
            assert!(
                name.bytes()
                    .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-'),
                "{name}"
            );
        }
    }
}
