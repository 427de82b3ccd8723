//! Whole sessions: the scenarios of the corpus, which C, C++ and Python play, too.

use std::fs;

use scheduled_events_core::{
    Action, NotificationOrder, Notifications, Policy, Preparation, Report, Response, Rule, Session,
    SessionConfig, SessionSource, Step, UnixMillis, VmNames,
};
use serde_json::Value;

use crate::corpus::corpus;

const START: i64 = 1_600_000_000_000;

struct Player {
    session: Box<Session<64>>,
    order: NotificationOrder<64>,
    document: String,
    now: UnixMillis,
    prepared: Preparation,
}

impl Player {
    fn new(source: &Value) -> Self {
        let policy = Policy::new(&[Rule::new(Action::Prepare)]).unwrap();
        let source = SessionSource::ALL
            .into_iter()
            .find(|known| *source == known.word())
            .unwrap();
        let config = SessionConfig {
            policy,
            source,
            ..SessionConfig::new(VmNames::new(&["db"]))
        };
        let session = Box::new(Session::new(&config).unwrap());
        Self {
            session,
            order: NotificationOrder::new(),
            document: String::new(),
            now: UnixMillis(START),
            prepared: Preparation::Ready,
        }
    }

    /// Starts again with the snapshot, and without the order.
    fn restarted(self, source: &Value) -> Self {
        let mut snapshot = vec![0; Session::<64>::SNAPSHOT_MAX];
        self.session.snapshot(&mut snapshot).unwrap();
        let mut new = Self {
            document: self.document,
            prepared: self.prepared,
            ..Self::new(source)
        };
        new.session.restore(&snapshot).unwrap();
        new
    }

    fn notify(&mut self, body: &str) -> &'static str {
        let notification = Notifications::parse(body.as_bytes())
            .unwrap()
            .iter()
            .next()
            .unwrap();
        let arrival = self.order.observe(&notification);
        self.session
            .on_notification(&notification, arrival, self.now)
            .word()
    }

    /// Does what is due, and returns it.
    fn work(&mut self) -> Vec<&'static str> {
        let mut done = Vec::new();
        loop {
            match self.session.take_step(self.now) {
                Step::Wait { until } if until.0 - self.now.0 >= 500 => return done,
                Step::Wait { until } => self.now = until,
                Step::Get { .. } => {
                    let body = self.document.as_bytes();
                    let _ = self.session.on_response(
                        &Response {
                            status: 200,
                            body,
                            ..Response::default()
                        },
                        self.now,
                    );
                }
                Step::Post { .. } => {
                    done.push("post");
                    let _ = self.session.on_response(
                        &Response {
                            status: 200,
                            ..Response::default()
                        },
                        self.now,
                    );
                }
                Step::Prepare { attempt, .. } => {
                    done.push("prepare");
                    let _ = self.session.prepared(attempt, self.prepared);
                }
                Step::Recover { attempt, .. } => {
                    done.push("recover");
                    let _ = self.session.recovered(attempt, true, self.now);
                }
                Step::Report(Report::Change { change, event }) => {
                    done.push(change.word());
                    if change.is_end() {
                        self.order.end(event.event_id());
                    }
                }
                Step::Report(Report::Decision { .. } | Report::Problem { .. }) => {}
                step => panic!("{step:?}"),
            }
        }
    }
}

#[test]
fn sessions_do_what_the_scenarios_expect() {
    let scenarios = fs::read_dir(corpus().join("sessions")).unwrap();
    for path in scenarios.map(|entry| entry.unwrap().path()) {
        let name = path.display();
        let text = fs::read_to_string(&path).unwrap();
        let inputs: Vec<Value> = serde_json::from_str(&text).unwrap();
        let mut player: Option<Player> = None;
        for input in inputs {
            if let Some(source) = input.get("source") {
                player = Some(
                    player.map_or_else(|| Player::new(source), |player| player.restarted(source)),
                );
                continue;
            }
            let player = player.as_mut().unwrap();
            player.now = UnixMillis(START + input["at"].as_i64().unwrap() * 1000);
            if let Some(result) = input.get("prepared") {
                player.prepared = match result.as_str() {
                    Some("ready") => Preparation::Ready,
                    Some("failed") => Preparation::Failed,
                    _ => Preparation::Abandoned,
                };
                continue;
            }
            let mut done = Vec::new();
            match input.get("notify") {
                Some(body) => done.push(player.notify(&body.to_string())),
                None => player.document = input["document"].to_string(),
            }
            done.extend(player.work());
            assert_eq!(done.join(" "), input["expect"], "{name}: {input}");
        }
    }
}
