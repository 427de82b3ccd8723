//! More approvals than fit into one request.

use scheduled_events_core::{
    Action, Leader, Policy, Response, Rule, Session, SessionConfig, Step, UnixMillis, VmNames,
    limits,
};

/// Each request names exactly the events that the session then treats as approved.
#[test]
fn more_events_than_fit_into_one_request_are_all_approved_once() {
    for count in [
        limits::BATCH_MAX - 1,
        limits::BATCH_MAX,
        limits::BATCH_MAX + 1,
        3 * limits::BATCH_MAX + 5,
    ] {
        // Ids of a real length, and ones so long that the body is full before the batch is.
        for width in [1, 36, 64] {
            let events: Vec<_> = (0..count)
                .map(|n| {
                    format!(r#"{{"EventId":"{n:0width$}","EventStatus":"Scheduled","EventType":"Reboot","Resources":["vm"]}}"#)
                })
                .collect();
            let body = format!(
                r#"{{"DocumentIncarnation":1,"Events":[{}]}}"#,
                events.join(",")
            );
            let mut policy = Policy::new(&[Rule::new(Action::Approve)]).unwrap();
            policy.leader = Some(Leader::Everyone);
            let config = SessionConfig {
                policy,
                ..SessionConfig::new(VmNames::new(&["vm"]))
            };
            let mut session = Box::new(Session::<128>::new(&config).unwrap());
            let mut now = UnixMillis(1_700_000_000_000);
            let mut posted: Vec<String> = Vec::new();
            for _ in 0..2_000 {
                match session.take_step(now) {
                    Step::Get { .. } => {
                        session.on_response(
                            &Response {
                                status: 200,
                                body: body.as_bytes(),
                                ..Response::default()
                            },
                            now,
                        );
                    }
                    Step::Post { body, .. } => {
                        assert!(body.len() <= limits::BODY_MAX);
                        let body: serde_json::Value = serde_json::from_slice(body).unwrap();
                        let ids: Vec<_> =
                            body["StartRequests"].as_array().unwrap().iter().collect();
                        assert!(ids.len() <= limits::BATCH_MAX);
                        let written: Vec<_> = ids
                            .iter()
                            .map(|id| id["EventId"].as_str().unwrap().to_owned())
                            .collect();
                        let noted: Vec<_> =
                            session.posted().map(|id| id.as_str().to_owned()).collect();
                        assert_eq!(written, noted);
                        posted.extend(written);
                        session.on_response(
                            &Response {
                                status: 200,
                                ..Response::default()
                            },
                            now,
                        );
                    }
                    Step::Wait { until } => now = until,
                    _ => {}
                }
            }
            posted.sort_unstable();
            let expected: Vec<_> = (0..count).map(|n| format!("{n:0width$}")).collect();
            let mut expected = expected;
            expected.sort_unstable();
            assert_eq!(posted, expected, "{count} events with ids of {width} bytes");
        }
    }
}
