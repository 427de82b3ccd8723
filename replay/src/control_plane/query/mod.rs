//! The part of Kusto's language that queries for Scheduled Events use.
//!
//! A query is the name of a table, then stages: `where`, `project`, `extend`, `order by` or `sort by`, `take` or `limit`, and `count`.
//! An expression compares members of a row with `==`, `!=`, `=~`, `!~`, `<`, `<=`, `>`, `>=`, `in`, `in~`, `!in`, `!in~`, `has`,
//! `contains` and `startswith`, joins comparisons with `and`, `or` and `not(…)`, and calls `tostring`, `tolower`, `isempty`,
//! `isnotempty`, `isnull` and `isnotnull`. Everything else is an error that names what is supported, so that no query seems to work
//! here that means something else at Azure. What it has in common with Azure is held to Microsoft's page about Scheduled Events in
//! Resource Graph.
//!
//! Read `token`, then `parse`, then `evaluate`.

mod evaluate;
mod parse;
mod token;

use std::fmt;

pub(crate) use parse::Query;

/// Why a query cannot be answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct QueryError(String);

impl fmt::Display for QueryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn rows() -> Vec<Value> {
        let row = |id: &str, status: &str, seconds: i64| {
            json!({
                "id": id, "name": id, "type": "microsoft.maintenance/scheduledevents", "resourceGroup": "replay", "zones": ["1"],
                "tags": { "a-b": "yes", "empty": "" },
                "properties": { "EventId": id, "EventStatus": status, "DurationInSeconds": seconds, "Resources": ["vm"] },
            })
        };
        vec![row("b", "Started", -1), row("a", "Scheduled", 9), row("c", "Completed", 30)]
    }

    fn ask(query: &str) -> Vec<Value> {
        let query =
            Query::parse(&format!("maintenanceresources {query}")).unwrap_or_else(|error| panic!("{query}: {error}"));
        query.apply(rows()).unwrap_or_else(|error| panic!("{error}"))
    }

    fn ids(query: &str) -> String {
        ask(query).iter().map(|row| row["id"].as_str().expect("an id").to_owned()).collect()
    }

    #[test]
    fn fact_the_queries_of_microsofts_page_are_answered() {
        let query = Query::parse("\nmaintenanceresources\n| where type == \"microsoft.maintenance/scheduledevents\"\n")
            .expect("it");
        assert_eq!((query.table(), query.apply(rows()).expect("rows").len()), ("maintenanceresources", 3));
        let text = "Maintenanceresources\n| where type == \"microsoft.maintenance/scheduledevents\"\n\
                    | sort by tostring(properties.EventStatus), tostring(properties.EventId) asc\n\
                    | project resourceGroup, zones, properties.EventStatus, properties.NotBefore, properties.Resources, \
                    properties.EventId, properties.TargetResourceId, properties.EventType, properties.Description";
        let query = Query::parse(text).expect("it");
        assert_eq!(query.table(), "maintenanceresources");
        let found = query.apply(rows()).expect("rows");
        // The order is descending unless the query says `asc`.
        let statuses: Vec<_> = found.iter().map(|row| row["properties_EventStatus"].clone()).collect();
        assert_eq!(statuses, ["Started", "Scheduled", "Completed"]);
        assert_eq!(found[0]["zones"], json!(["1"]));
        assert_eq!(found[0]["properties_NotBefore"], Value::Null);
    }

    #[test]
    fn rows_are_filtered() {
        for (query, expected) in [
            ("| where type == 'Microsoft.Maintenance/ScheduledEvents'", ""),
            ("| where type =~ 'Microsoft.Maintenance/ScheduledEvents'", "bac"),
            ("| where id != 'a'", "bc"),
            ("| where id !~ 'A'", "bc"),
            ("| where properties.EventStatus in ('Started', 'scheduled')", "b"),
            ("| where properties.EventStatus in~ ('Started', 'scheduled')", "ba"),
            ("| where properties.EventStatus !in~ ('Started', 'scheduled')", "c"),
            ("| where properties['EventStatus'] contains 'TART' // a comment", "b"),
            ("| where type has 'ScheduledEvents'", "bac"),
            ("| where type has 'Scheduled'", ""),
            ("| where type startswith 'Microsoft'", "bac"),
            ("| where properties.DurationInSeconds < 10", "ba"),
            ("| where properties.DurationInSeconds >= 9 and id == 'c' or id == 'b'", "bc"),
            ("| where properties.DurationInSeconds == -1", "b"),
            ("| where not(id == 'a') and (id == 'a' or id == 'b')", "b"),
            ("| where isnotempty(tags[\"a-b\"])", "bac"),
            ("| where isnotempty(tags.empty) or isnotempty(tags.other)", ""),
            ("| where isnull(tags.other) and tolower(properties.EventStatus) == 'started'", "b"),
            ("| where tags.other == 'x'", ""),
            ("| order by id asc", "abc"),
            ("| order by id", "cba"),
            ("| sort by properties.DurationInSeconds asc | limit 2", "ba"),
            ("| take 1", "b"),
        ] {
            assert_eq!(ids(query), expected, "{query}");
        }
    }

    #[test]
    fn columns_are_chosen_and_named() {
        let found = ask("| where id == 'a' | project id, s = properties.EventStatus, properties.Resources");
        assert_eq!(found, [json!({"id": "a", "s": "Scheduled", "properties_Resources": ["vm"]})]);
        let found = ask("| extend s = tostring(properties.DurationInSeconds) | where s == '30' | project s");
        assert_eq!(found, [json!({"s": "30"})]);
        assert_eq!(ask("| count"), [json!({"Count": 3})]);
    }

    #[test]
    fn what_is_not_supported_is_refused_with_a_place_and_advice() {
        for (query, expected) in [
            ("", "table"),
            ("healthresources", "maintenanceresources, resources"),
            ("resources | summarize count() by type", "summarize"),
            ("resources | where", "after `where`"),
            ("resources | where name", "a comparison"),
            ("resources | where name =~", "value"),
            ("resources | where name == \"x", "quotation mark"),
            ("resources | where strlen(name) == 3", "strlen"),
            ("resources | where name matches regex 'x'", "matches"),
            ("resources | where name in ()", "value"),
            ("resources | project", "column"),
            ("resources | take many", "number"),
            ("resources where name == 'x'", "`|`"),
            ("resources | where name == 'x';", "`;`"),
        ] {
            let error = Query::parse(query).expect_err(query).to_string();
            assert!(error.contains(expected), "{query}: {error}");
        }
        let deep = format!("resources | where {}name == 'x'", "(".repeat(100));
        assert!(Query::parse(&deep).is_err_and(|error| error.to_string().contains("nested")));
        let unknown = Query::parse("resources | where nme == 'x'").expect("it").apply(rows());
        assert!(unknown.is_err_and(|error| error.to_string().contains("nme")));
    }
}
