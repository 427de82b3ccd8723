//! Azure Resource Graph: the announced events of all machines of some subscriptions, and the
//! machines that have a tag.

use std::collections::HashSet;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use reqwest::Method;
use scheduled_events_common::log;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::arm::{Arm, ArmError};
use crate::notice::subscription_of;

/// The address for queries.
const PATH: &str = "/providers/Microsoft.ResourceGraph/resources?api-version=2024-04-01";

/// How many subscriptions one query may name.
const SUBSCRIPTIONS_MAX: usize = 1000;

/// The maximum number of rows in a page.
const ROWS_MAX: u32 = 1000;

/// The maximum number of pages to read: a million rows.
const PAGES_MAX: usize = 1000;

/// How many times one page is requested before its refusal counts.
const ATTEMPTS: u32 = 5;

/// The pause after a first refusal that specifies none. It doubles.
const PAUSE: Duration = Duration::from_secs(1);

/// The rows of events. The order makes pages repeatable.
pub const EVENTS: &str =
    "maintenanceresources | where type == \"microsoft.maintenance/scheduledevents\"";

/// A query for one row, whose answer shows whether this identity may read events.
pub const ACCESS: &str = "maintenanceresources | where type == \"microsoft.maintenance/scheduledevents\" | project id | take 1";

/// The machines and scale sets that have tags, among which [`tagged`] finds those with the agents'
/// tag. Kusto compares members' names with case, which tags' names ignore, and treats an empty
/// value as absent.
pub const TAGS: &str = "resources | where type in~ (\"microsoft.compute/virtualmachines\", \
    \"microsoft.compute/virtualmachinescalesets\") | where isnotempty(tags) | project id, tags | order by id asc";

/// The end of a query for events, whose columns `notice.rs` reads.
const EVENT_COLUMNS: &str = " | project id, name, type, location, resourceGroup, subscriptionId, zones, properties | order by id asc";

/// Which events a query returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Events<'a> {
    /// Those that are Scheduled or Started, and advice.
    Open,
    /// These, and those that are over, as long as Azure keeps them.
    All,
    /// These, over or not.
    Named(&'a [String]),
}

impl Events<'_> {
    /// The query, in Kusto's language. Ids that are not [GUIDs](is_guid) are left out.
    pub fn query(&self) -> String {
        let filter = match self {
            Self::Open => {
                " | where properties.EventStatus in~ (\"Scheduled\", \"Started\", \"Advisory\")"
                    .to_owned()
            }
            Self::All => String::new(),
            Self::Named(ids) => {
                let ids: Vec<_> = ids
                    .iter()
                    .filter(|id| is_guid(id))
                    .map(|id| format!("\"{id}\""))
                    .collect();
                format!(" | where name in~ ({})", ids.join(", "))
            }
        };
        format!("{EVENTS}{filter}{EVENT_COLUMNS}")
    }
}

/// Whether an event's id may be one of Azure's, which consist of hexadecimal digits and hyphens.
/// Resource Graph never has other ids.
pub fn is_guid(id: &str) -> bool {
    id.bytes()
        .all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
}

/// The ids in rows of [`TAGS`] that have this tag, unless its value is `false`.
///
/// # Errors
/// The page has other rows. The hub would act for machines whose own watcher acts.
pub fn tagged(page: &str, tag: &str) -> Result<Vec<String>, ArmError> {
    #[derive(Deserialize)]
    struct Row {
        id: String,
        #[serde(default)]
        tags: std::collections::BTreeMap<String, Value>,
    }
    let rows: Vec<Row> = serde_json::from_str(page)
        .map_err(|error| not_understood("answers with something else than tags:", error))?;
    let is_agent = |row: &Row| {
        let value = row
            .tags
            .iter()
            .find(|(name, _)| name.to_lowercase() == tag.to_lowercase())
            .map(|(_, value)| value);
        value.is_some_and(|value| {
            value
                .as_str()
                .is_none_or(|value| !value.eq_ignore_ascii_case("false"))
        })
    };
    Ok(rows
        .into_iter()
        .filter(is_agent)
        .map(|row| row.id)
        .collect())
}

/// The subscriptions, in lower case, that rows of [`TAGS`] belong to. Resource Graph leaves those
/// without rights out, and reports nothing.
pub fn subscriptions_in(page: &str) -> HashSet<String> {
    #[derive(Deserialize)]
    struct Row {
        id: String,
    }
    let rows: Vec<Row> = serde_json::from_str(page).unwrap_or_default();
    rows.iter()
        .map(|row| subscription_of(&row.id).to_ascii_lowercase())
        .collect()
}

/// The error of an answer that a reader does not understand. A text for `answer` ends before its
/// reason.
pub(crate) fn not_understood(
    answer: &'static str,
    error: impl Error + Send + Sync + 'static,
) -> ArmError {
    ArmError::NotUnderstood {
        answer,
        error: Some(Arc::new(error)),
    }
}

/// A page of rows.
#[derive(Deserialize)]
struct Page {
    data: Box<RawValue>,
    #[serde(rename = "$skipToken")]
    skip_token: Option<String>,
}

impl Arm {
    /// Sends a query to Resource Graph, and returns the rows of each page: a JSON array. It obeys
    /// quotas.
    ///
    /// # Errors
    /// The service refuses, or its answer has no rows.
    pub async fn query(
        &self,
        subscriptions: &[String],
        query: &str,
    ) -> Result<Vec<String>, ArmError> {
        let mut pages = Vec::new();
        self.query_each(subscriptions, query, async |page| {
            pages.push(page);
            Ok(())
        })
        .await?;
        Ok(pages)
    }

    /// The same, but passes each page on as soon as it arrives: the next one may take long.
    ///
    /// # Errors
    /// The service refuses, its answer has no rows, or `on_page` returns an error.
    pub async fn query_each(
        &self,
        subscriptions: &[String],
        query: &str,
        mut on_page: impl AsyncFnMut(String) -> Result<(), ArmError>,
    ) -> Result<(), ArmError> {
        for subscriptions in subscriptions.chunks(SUBSCRIPTIONS_MAX) {
            let options = json!({ "resultFormat": "objectArray", "$top": ROWS_MAX });
            let mut request =
                json!({ "subscriptions": subscriptions, "query": query, "options": options });
            let mut skip_tokens = HashSet::new();
            loop {
                let found = self.page(request.to_string().as_bytes()).await?;
                on_page(found.data.get().to_owned()).await?;
                let Some(token) = found.skip_token.filter(|token| !token.is_empty()) else {
                    break;
                };
                request["options"]["$skipToken"] = json!(token);
                // A token that comes again leads into a loop.
                if skip_tokens.len() + 1 >= PAGES_MAX || !skip_tokens.insert(token) {
                    return Err(ArmError::NotUnderstood {
                        answer: "does not end its pages",
                        error: None,
                    });
                }
            }
        }
        Ok(())
    }

    async fn page(&self, body: &[u8]) -> Result<Page, ArmError> {
        let mut wait = PAUSE;
        for attempt in 1.. {
            let error = match self.send(Method::POST, PATH, Some(body.to_vec())).await {
                Ok(answer) => {
                    return serde_json::from_slice(&answer).map_err(|error| {
                        not_understood("answers with something else than rows:", error)
                    });
                }
                Err(error) => error,
            };
            // If the service cannot be reached, the caller repeats the request, and does other work
            // until then.
            let may_pass = matches!(error.status(), Some(408 | 429 | 500..=599));
            if attempt >= ATTEMPTS || !may_pass {
                return Err(error);
            }
            if attempt == 1 {
                log::printable(&format!(
                    "warning: cannot ask Resource Graph: {error}; this is tried again"
                ));
            }
            sleep(error.pause().unwrap_or(wait)).await;
            wait *= 2;
        }
        unreachable!("the last attempt returns")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_value_of_the_tag_but_false_is_an_agents() {
        let row = |id: &str, tags: &str| format!(r#"{{"id":"{id}","tags":{tags}}}"#);
        let rows = [
            row("empty", r#"{"Agent":""}"#),
            row("other case", r#"{"AGENT":"yes"}"#),
            row("no", r#"{"agent":"False"}"#),
            row("other tag", r#"{"agents":"yes"}"#),
            row("none", "{}"),
        ];
        let found = tagged(&format!("[{}]", rows.join(",")), "agent").expect("rows");
        assert_eq!(found, ["empty", "other case"]);
    }

    #[test]
    fn a_query_has_no_id_that_could_mean_something_else() {
        let ids = [
            "C7061BAC-AFDC-4513-B24B-AA5F13A16123".to_owned(),
            "\") | take 1 //".to_owned(),
        ];
        let query = Events::Named(&ids).query();
        assert!(
            query.contains("name in~ (\"C7061BAC-AFDC-4513-B24B-AA5F13A16123\") |"),
            "{query}"
        );
    }
}
