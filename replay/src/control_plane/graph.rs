//! Answers a request to Azure Resource Graph: its body, its subscriptions and its pages.

use std::hash::{DefaultHasher, Hash, Hasher};

use serde_json::Value;

use super::error::{QUOTA_RESETS_AFTER, QUOTA_WINDOW, refusal};
use super::json;
use super::query::{Query, QueryError};
use super::route::is_accessible;
use crate::http::ReplayResponse;

/// The maximum number of rows of a page, and the default.
const PAGE_MAX: usize = 1000;

/// Answers the request with rows of the tables, which `rows` creates by their names.
pub(crate) fn answer(body: &[u8], rows: impl FnOnce(&str) -> Vec<Value>) -> ReplayResponse {
    let answer = page(body, rows).unwrap_or_else(|refusal| refusal);
    answer
        .with("x-ms-user-quota-remaining", "14")
        .with(QUOTA_RESETS_AFTER, QUOTA_WINDOW)
}

fn page(
    body: &[u8],
    rows: impl FnOnce(&str) -> Vec<Value>,
) -> Result<ReplayResponse, ReplayResponse> {
    let request = json(body);
    let options = &request["options"];
    let is_empty = |member: &Value| member.as_array().is_none_or(Vec::is_empty);
    let text = request["query"]
        .as_str()
        .ok_or_else(|| invalid("expected a JSON object with a `query`"))?;
    if !is_empty(&request["managementGroups"]) || !is_empty(&request["facets"]) {
        return Err(invalid(
            "this emulator has no management groups and no facets: name subscriptions",
        ));
    }
    if options["resultFormat"]
        .as_str()
        .is_some_and(|format| !format.eq_ignore_ascii_case("objectArray"))
    {
        return Err(invalid(
            "this emulator has the result format objectArray only",
        ));
    }
    let number = |name: &str, default: usize| match &options[name] {
        Value::Null => Some(default),
        number => number
            .as_u64()
            .and_then(|number| usize::try_from(number).ok()),
    };
    let top = number("$top", PAGE_MAX).filter(|top| (1..=PAGE_MAX).contains(top));
    let top = top.ok_or_else(|| invalid("$top must be between 1 and 1000"))?;
    let is_refused =
        |all: &Vec<Value>| !all.iter().any(|id| id.as_str().is_some_and(is_accessible));
    if request["subscriptions"].as_array().is_some_and(is_refused) {
        let message = "The client has no read permission to any of the subscriptions.";
        return Err(refusal(403, "AccessDenied", message));
    }
    let refused = |error: QueryError| invalid(&error.to_string());
    let query = Query::parse(text).map_err(refused)?;
    let all = query.apply(rows(query.table())).map_err(refused)?;
    let begin = match options["$skipToken"].as_str() {
        Some(token) => offset(token, text),
        None => number("$skip", 0),
    };
    let begin = begin.ok_or_else(|| {
        invalid("$skip is no number, or $skipToken is not that of this query's last page")
    })?;
    let page = all.get(begin..).unwrap_or_default();
    let page = page.get(..top).unwrap_or(page);
    // Only rows that have an id can be continued.
    let (end, total, count) = (begin.saturating_add(page.len()), all.len(), page.len());
    let (more, is_truncated) = match all.first().and_then(|row| row.get("id")) {
        _ if end >= total => (String::new(), false),
        Some(_) => (format!(r#","$skipToken":"{}""#, token(end, text)), false),
        None => (String::new(), true),
    };
    // Rows cannot fail.
    let data = serde_json::to_string(page).unwrap_or_default();
    let answer = format!(
        r#"{{"totalRecords":{total},"count":{count},"facets":[],"resultTruncated":"{is_truncated}","data":{data}{more}}}"#
    );
    Ok(ReplayResponse::json(200, answer))
}

fn invalid(why: &str) -> ReplayResponse {
    refusal(400, "BadRequest", &format!("Invalid query: {why}."))
}

/// A token for the rows from `offset` on. It belongs to the query, and is opaque to the client.
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
    use serde_json::json;

    use super::*;
    use crate::resource::SUBSCRIPTION;

    fn ask(request: &Value) -> (u16, Value) {
        let rows = |table: &str| {
            (0..5)
                .map(|number| json!({"id": format!("{table}{number}"), "n": number}))
                .collect()
        };
        let response = answer(request.to_string().as_bytes(), rows);
        let body = serde_json::from_slice(&response.body).expect("JSON");
        assert!(
            response
                .headers
                .contains(&(QUOTA_RESETS_AFTER, QUOTA_WINDOW.to_owned()))
        );
        (response.status, body)
    }

    #[test]
    fn fact_pages_continue_with_the_token_of_the_last_one() {
        let query = "resources | order by id asc | project id";
        let mut options = json!({"$top": 2});
        let mut ids = Vec::new();
        for (count, is_last) in [(2, false), (2, false), (1, true)] {
            let (status, page) = ask(&json!({"query": query, "options": options}));
            assert_eq!(
                (status, &page["totalRecords"], &page["count"]),
                (200, &json!(5), &json!(count))
            );
            ids.extend(
                page["data"]
                    .as_array()
                    .expect("rows")
                    .iter()
                    .map(|row| row["id"].clone()),
            );
            assert_eq!(page.get("$skipToken").is_none(), is_last, "{page}");
            options["$skipToken"] = page["$skipToken"].clone();
        }
        assert_eq!(
            ids,
            [
                "resources0",
                "resources1",
                "resources2",
                "resources3",
                "resources4"
            ]
        );
    }

    #[test]
    fn fact_rows_without_an_id_cannot_be_continued() {
        let (_, page) = ask(&json!({"query": "resources | project n", "options": {"$top": 2}}));
        assert_eq!(
            (page.get("$skipToken"), &page["resultTruncated"]),
            (None, &json!("true"))
        );
    }

    #[test]
    fn subscriptions_without_rights_are_left_out_or_refused() {
        let other = "11111111-0000-0000-0000-000000000000";
        let ask = |subscriptions: &[&str]| {
            ask(&json!({"subscriptions": subscriptions, "query": "resources"}))
        };
        assert_eq!(ask(&[SUBSCRIPTION, other]).0, 200);
        let (status, body) = ask(&[other]);
        assert_eq!(
            (status, &body["error"]["code"]),
            (403, &json!("AccessDenied"))
        );
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
            assert!(
                status == 400 && body["error"]["code"] == "BadRequest" && !message.is_empty(),
                "{request}: {body}"
            );
        }
    }
}
