//! Imitates Azure's control plane: Resource Manager, Resource Graph and an Event Grid topic that
//! fills a queue, all in preview at Azure.
//!
//! It is a fake that could not be compared with Azure. It is based on the facts of `docs/inside/wire.md`,
//! section 6, each of which has a test whose name begins with `fact_`; the models of the package
//! `azure-mgmt-maintenance` 2.2.0b4, which the tests use as a client; and the answer that Azure
//! PowerShell expects for a list that is approved in part: status 207 and `MultiStatusResponse`.
//! Where the sources are silent, the fake chooses what a careless client notices: an event is
//! approved at its own resource only, each subscription but that of the machines is one without
//! rights, and an unsupported query is refused. A second approval is answered by 200, as inside the
//! machine.
//!
//! The same timeline serves the documents inside the machines and everything here.
//!
//! Texts from requests need no escaping here, since they reach a client within JSON only.
//!
//! Read `error` and `route`; `row`, an event as it is outside; `query` and `graph`; `queue` and
//! `delivery`.

pub(crate) mod delivery;
pub(crate) mod error;
pub(crate) mod graph;
mod query;
pub(crate) mod queue;
pub(crate) mod route;
pub(crate) mod row;

use serde_json::Value;

/// The body of a request; null if it is not JSON.
pub(crate) fn json(body: &[u8]) -> Value {
    std::str::from_utf8(body)
        .ok()
        .and_then(|text| serde_json::from_str(text).ok())
        .unwrap_or_default()
}
