//! Answers a request to Azure Resource Graph: its body, its subscriptions and its pages.

use std::hash::{DefaultHasher, Hash, Hasher};

use serde::Deserialize;
use serde_json::{Value, json};

use super::error::{QUOTA_RESETS_AFTER, QUOTA_WINDOW, refusal};
use super::query::Query;
use super::route::is_accessible;
use crate::http::ReplayResponse;

/// The most rows of a page, and how many it has unless the request says so.
const PAGE_MAX: usize = 1000;

/// The body of a request. Other members are ignored, but what would change the rows is refused.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct GraphRequest {
    /// `None` asks about all subscriptions.
    subscriptions: Option<Vec<String>>,
    management_groups: Option<Vec<String>>,
    query: String,
    #[serde(default)]
    options: GraphOptions,
    facets: Option<Vec<Value>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct GraphOptions {
    #[serde(rename = "$top")]
    top: Option<usize>,
    #[serde(rename = "$skip")]
    skip: Option<usize>,
    #[serde(rename = "$skipToken")]
    skip_token: Option<String>,
    result_format: Option<String>,
}

/// Answers the request with rows of the tables, which `rows` makes by their names.
pub(crate) fn answer(body: &[u8], rows: impl FnOnce(&str) -> Vec<Value>) -> ReplayResponse {
    let answer = page(body, rows).unwrap_or_else(|refusal| refusal);
    answer.with("x-ms-user-quota-remaining", "14").with(QUOTA_RESETS_AFTER, QUOTA_WINDOW)
}

fn page(body: &[u8], rows: impl FnOnce(&str) -> Vec<Value>) -> Result<ReplayResponse, ReplayResponse> {
    let invalid = |message: &str| refusal(400, "BadRequest", message);
    let request: GraphRequest =
        serde_json::from_slice(body).map_err(|error| invalid(&format!("The body is not a query: {error}.")))?;
    if request.management_groups.is_some_and(|groups| !groups.is_empty())
        || request.facets.is_some_and(|all| !all.is_empty())
    {
        return Err(invalid("This emulator has no management groups and no facets: name subscriptions."));
    }
    let options = request.options;
    if options.result_format.is_some_and(|format| !format.eq_ignore_ascii_case("objectArray")) {
        return Err(invalid("This emulator has the result format objectArray only."));
    }
    let top = options.top.unwrap_or(PAGE_MAX);
    if !(1..=PAGE_MAX).contains(&top) {
        return Err(invalid(&format!("$top must be between 1 and {PAGE_MAX}, found {top}.")));
    }
    if request.subscriptions.is_some_and(|all| !all.iter().any(|subscription| is_accessible(subscription))) {
        let message = "The client has no read permission to any of the subscriptions.";
        return Err(refusal(403, "AccessDenied", message));
    }
    let query = Query::parse(&request.query).map_err(|error| invalid(&format!("Invalid query: {error}.")))?;
    let all = query.apply(rows(query.table())).map_err(|error| invalid(&format!("Invalid query: {error}.")))?;
    let begin = match options.skip_token {
        Some(token) => offset(&token, &request.query)
            .ok_or_else(|| invalid("The $skipToken is not one of this query: send it as the last page had it."))?,
        None => options.skip.unwrap_or(0),
    };
    let rows: Vec<_> = all.iter().skip(begin).take(top).cloned().collect();
    let end = begin.saturating_add(rows.len());
    let has_more = end < all.len();
    let mut answer = json!({
        "totalRecords": all.len(),
        "count": rows.len(),
        // Only rows that have an id can be continued.
        "resultTruncated": if has_more && all[0].get("id").is_none() { "true" } else { "false" },
        "facets": [],
    });
    if has_more && all[0].get("id").is_some() {
        answer["$skipToken"] = json!(token(end, &request.query));
    }
    answer["data"] = Value::Array(rows);
    Ok(ReplayResponse::json(200, answer.to_string()))
}

/// A token for the rows from `offset` on. It is a text that belongs to the query and has no other meaning for the client.
fn token(offset: usize, query: &str) -> String {
    let mut hasher = DefaultHasher::new();
    (offset, query).hash(&mut hasher);
    format!("{offset:x}.{:x}", hasher.finish())
}

fn offset(text: &str, query: &str) -> Option<usize> {
    let offset = usize::from_str_radix(text.split_once('.')?.0, 16).ok()?;
    (token(offset, query) == text).then_some(offset)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resource::SUBSCRIPTION;

    fn ask(request: &Value) -> (u16, Value) {
        let rows = |table: &str| (0..5).map(|number| json!({"id": format!("{table}{number}"), "n": number})).collect();
        let response = answer(request.to_string().as_bytes(), rows);
        let body = serde_json::from_slice(&response.body).expect("JSON");
        assert!(response.headers.contains(&(QUOTA_RESETS_AFTER, QUOTA_WINDOW.to_owned())));
        (response.status, body)
    }

    #[test]
    fn fact_pages_continue_with_the_token_of_the_last_one() {
        let query = "resources | order by id asc | project id";
        let mut options = json!({"$top": 2});
        let mut ids = Vec::new();
        for (count, is_last) in [(2, false), (2, false), (1, true)] {
            let (status, page) = ask(&json!({"query": query, "options": options}));
            assert_eq!((status, &page["totalRecords"], &page["count"]), (200, &json!(5), &json!(count)));
            ids.extend(page["data"].as_array().expect("rows").iter().map(|row| row["id"].clone()));
            assert_eq!(page.get("$skipToken").is_none(), is_last, "{page}");
            options["$skipToken"] = page["$skipToken"].clone();
        }
        assert_eq!(ids, ["resources0", "resources1", "resources2", "resources3", "resources4"]);
    }

    #[test]
    fn fact_rows_without_an_id_cannot_be_continued() {
        let (_, page) = ask(&json!({"query": "resources | project n", "options": {"$top": 2}}));
        assert_eq!((page.get("$skipToken"), &page["resultTruncated"]), (None, &json!("true")));
    }

    #[test]
    fn subscriptions_without_rights_are_left_out_or_refused() {
        let other = "11111111-0000-0000-0000-000000000000";
        let ask = |subscriptions: &[&str]| ask(&json!({"subscriptions": subscriptions, "query": "resources"}));
        assert_eq!(ask(&[SUBSCRIPTION, other]).0, 200);
        let (status, body) = ask(&[other]);
        assert_eq!((status, &body["error"]["code"]), (403, &json!("AccessDenied")));
    }

    #[test]
    fn what_is_not_supported_is_refused_in_the_form_of_resource_manager() {
        for request in [
            json!({}),
            json!({"query": "resources | summarize count()"}),
            json!({"query": "resources | where nme == 'x'"}),
            json!({"query": "resources", "managementGroups": ["m"]}),
            json!({"query": "resources", "facets": [{"expression": "n"}]}),
            json!({"query": "resources", "options": {"resultFormat": "table"}}),
            json!({"query": "resources", "options": {"$top": 1001}}),
            json!({"query": "resources", "options": {"$skipToken": "2.1"}}),
        ] {
            let (status, body) = ask(&request);
            let message = body["error"]["message"].as_str().unwrap_or_default();
            assert!(status == 400 && body["error"]["code"] == "BadRequest" && !message.is_empty(), "{request}: {body}");
        }
    }
}
