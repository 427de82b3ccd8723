//! Notifications in a session: order and repetition, alone and together with documents.

use std::collections::VecDeque;

use proptest::prelude::*;
use scheduled_events_core::{
    Action, Arrival, Change, EventKind, EventOrder, EventTypes, GateAnswer, NotificationOrder,
    NotificationOutcome, Notifications, Policy, Preparation, Report, Response, Rule, Session,
    SessionConfig, SessionSource, Step, UnixMillis, VmNames, limits,
};

pub(crate) const START: UnixMillis = UnixMillis(1_600_000_000_000);
const NAMES: &[&str] = &["vm"];

/// A message of Event Grid; `minute` is when the event changed, and how far its `NotBefore` is.
pub(crate) fn message(id: &str, status: &str, minute: u32, not_before: u32) -> String {
    let not_before = if status == "Scheduled" {
        format!("2020-09-13T13:{not_before:02}:00Z")
    } else {
        String::new()
    };
    format!(
        r#"{{"id":"m","eventType":"microsoft.maintenance/scheduledevents/write","eventTime":"2020-09-13T12:{minute:02}:00Z",
        "data":{{"resourceInfo":{{"properties":{{"EventId":"{id}","EventStatus":"{status}","EventType":"Reboot",
        "NotBefore":"{not_before}","Resources":["vm"]}}}}}}}}"#
    )
}

pub(crate) fn document(incarnation: u32, events: &[(&str, &str)]) -> String {
    let events: Vec<_> = events
        .iter()
        .map(|(id, status)| {
            let not_before = if *status == "Scheduled" { "2020-09-13T13:00:00Z" } else { "" };
            format!(
                r#"{{"EventId":"{id}","EventStatus":"{status}","EventType":"Reboot","NotBefore":"{not_before}","Resources":["vm"]}}"#
            )
        })
        .collect();
    format!(
        r#"{{"DocumentIncarnation":{incarnation},"Events":[{}]}}"#,
        events.join(",")
    )
}

pub(crate) fn config(source: SessionSource, action: Action) -> SessionConfig<'static> {
    let policy = Policy::new(&[Rule::new(action)]).unwrap();
    SessionConfig {
        policy,
        source,
        ..SessionConfig::new(VmNames::new(NAMES))
    }
}

/// A session, its host, and what the host was asked to do.
pub(crate) struct Host {
    pub(crate) session: Box<Session<8>>,
    order: NotificationOrder<8>,
    pub(crate) now: UnixMillis,
    /// What the service answers; without one, polls fail.
    document: Option<String>,
    pub(crate) changes: Vec<Change>,
    steps: Vec<&'static str>,
    pub(crate) posts: usize,
}

impl Host {
    pub(crate) fn new(config: &SessionConfig<'_>) -> Self {
        Self {
            session: Box::new(Session::new(config).unwrap()),
            order: NotificationOrder::new(),
            now: START,
            document: None,
            changes: Vec::new(),
            steps: Vec::new(),
            posts: 0,
        }
    }

    pub(crate) fn notify(&mut self, message: &str) -> NotificationOutcome {
        let notifications = Notifications::parse(message.as_bytes()).unwrap();
        let notification = notifications.iter().next().unwrap();
        let arrival = self.order.observe(&notification);
        self.session
            .on_notification(&notification, arrival, self.now)
    }

    /// Does what is due.
    pub(crate) fn work(&mut self) {
        for _ in 0..200 {
            match self.session.take_step(self.now) {
                Step::Get { .. } => {
                    self.steps.push("get");
                    let body = self.document.clone();
                    let status = if body.is_some() { 200 } else { 503 };
                    let body = body.unwrap_or_default();
                    let response = Response {
                        status,
                        body: body.as_bytes(),
                        ..Response::default()
                    };
                    let _ = self.session.on_response(&response, self.now);
                }
                Step::Post { .. } => {
                    self.posts += self.session.posted().count();
                    let _ = self.session.on_response(
                        &Response {
                            status: 200,
                            ..Response::default()
                        },
                        self.now,
                    );
                }
                Step::Prepare { attempt, .. } => {
                    self.steps.push("prepare");
                    let _ = self.session.prepared(attempt, Preparation::Ready);
                }
                Step::Recover { attempt, .. } => {
                    self.steps.push("recover");
                    let _ = self.session.recovered(attempt, true, self.now);
                }
                Step::Gate { attempt, .. } => {
                    self.steps.push("gate");
                    let _ = self
                        .session
                        .gate_answered(attempt, GateAnswer::Open, self.now);
                }
                Step::Report(Report::Change { change, event }) => {
                    self.changes.push(change);
                    if change.is_end() {
                        self.order.end(event.event_id());
                    }
                }
                Step::Report(_) | Step::Cancel { .. } => {}
                Step::Wait { until } => {
                    assert!(until > self.now && until <= self.now.plus(limits::WAIT_MAX_MS));
                    return;
                }
            }
        }
        panic!("the session asks for ever: {:?}", self.steps);
    }

    pub(crate) fn count(&self, step: &str) -> usize {
        self.steps.iter().filter(|known| **known == step).count()
    }

    /// Serves this document and waits until it was read.
    pub(crate) fn poll(&mut self, document: String) {
        self.document = Some(document);
        let polls = self.count("get");
        while self.count("get") == polls {
            self.now = self.now.plus(1000);
            self.work();
        }
    }
}

/// The messages of a life, in the order in which Azure makes them: the last one is the end.
fn life(end: &str) -> Vec<String> {
    vec![
        message("a", "Scheduled", 0, 0),
        message("a", "Scheduled", 5, 30),
        message("a", "Started", 10, 0),
        message("a", end, 20, 0),
    ]
}

/// What has to be reported if the messages of a life arrive like this.
fn expected_changes(arrivals: &[usize], end: &str) -> Vec<Change> {
    let mut changes = Vec::new();
    let mut known = None;
    for &at in arrivals {
        if known.is_some_and(|known| at <= known) {
            continue;
        }
        match (known, at) {
            (None, 0 | 1) => changes.push(Change::Scheduled),
            (Some(_), 1) => changes.push(Change::Rescheduled),
            (None, 2) => changes.push(Change::StartedWithoutNotice),
            (Some(_), 2) => changes.push(Change::Started),
            // Over before it was known: it is remembered, and there is nothing to report.
            (None, _) => {}
            (Some(2), _) => changes.push(Change::Completed),
            (Some(_), _) => changes.push(if end == "Canceled" {
                Change::Cancelled
            } else {
                Change::Completed
            }),
        }
        known = Some(at);
    }
    changes
}

/// All sequences of five messages of a life: every permutation of it, with repetitions, and with messages that are lost.
#[test]
fn every_order_and_repetition_of_a_life_gives_the_same_changes_in_a_legal_order() {
    for end in ["Completed", "Canceled"] {
        let life = life(end);
        for number in 0..4_usize.pow(5) {
            let arrivals: Vec<_> = (0..5).map(|place| number >> (2 * place) & 3).collect();
            let expected = expected_changes(&arrivals, end);
            for works_at_once in [true, false] {
                let mut host = Host::new(&config(SessionSource::Notifications, Action::Prepare));
                let mut stages = Vec::new();
                for &at in &arrivals {
                    let (before, _) = (host.order.clone(), host.notify(&life[at]));
                    let mut order = before;
                    let notifications = Notifications::parse(life[at].as_bytes()).unwrap();
                    if order
                        .observe(&notifications.iter().next().unwrap())
                        .is_news()
                    {
                        stages.push(at);
                    }
                    if works_at_once {
                        host.work();
                    }
                }
                host.work();
                assert_eq!(host.changes, expected, "{arrivals:?} {works_at_once}");
                // What is news goes forward, each once, and ends with what is furthest.
                assert!(
                    stages.is_sorted_by(|one, other| one < other),
                    "{arrivals:?}: {stages:?}"
                );
                assert_eq!(stages.last(), arrivals.iter().max(), "{arrivals:?}");
                if arrivals.contains(&3) {
                    assert!(host.session.is_idle(), "{arrivals:?}");
                    assert_eq!(host.count("recover"), host.count("prepare"), "{arrivals:?}");
                }
                assert_eq!(host.count("get"), 0);
            }
        }
    }
}

#[test]
fn a_repetition_under_a_new_id_and_in_another_order_is_one() {
    let mut order = EventOrder::default();
    let mut observe = |body: &str| {
        let notifications = Notifications::parse(body.as_bytes()).unwrap();
        order.observe(&notifications.iter().next().unwrap())
    };
    let first = message("a", "Scheduled", 1, 0);
    assert_eq!(observe(&first), Arrival::New);
    assert_eq!(
        observe(&first.replace("\"id\":\"m\"", "\"id\":\"n\"")),
        Arrival::Repeated
    );
    assert_eq!(
        observe(
            &first
                .replace(r#""EventType":"Reboot","#, "")
                .replace("}}}}", r#","EventType":"Reboot"}}}}"#)
        ),
        Arrival::Repeated
    );
    // A row has no time, and is newer than what is known.
    let row = |minute: u32| {
        format!(
            r#"{{"type":"microsoft.maintenance/scheduledevents","properties":{{"EventId":"a","EventStatus":"Scheduled",
            "EventType":"Reboot","NotBefore":"2020-09-13T13:{minute:02}:00Z","Resources":["vm"]}}}}"#
        )
    };
    assert_eq!(observe(&row(0)), Arrival::Repeated);
    assert_eq!(observe(&row(7)), Arrival::Changed);
    assert_eq!(observe(&first), Arrival::Late);
    assert_eq!(observe(&message("a", "Scheduled", 2, 9)), Arrival::Changed);
    // A state that Azure may add: it is no end, and does not undo the start.
    assert_eq!(observe(&message("a", "Paused", 3, 0)), Arrival::Changed);
    assert_eq!(observe(&message("a", "Started", 1, 0)), Arrival::Changed);
    assert_eq!(observe(&message("a", "Paused", 4, 0)), Arrival::Changed);
    assert_eq!(observe(&message("a", "Scheduled", 9, 0)), Arrival::Late);
    assert_eq!(observe(&message("a", "Canceled", 5, 0)), Arrival::Changed);
    assert_eq!(observe(&message("a", "Completed", 6, 0)), Arrival::Repeated);
    // It survives a restart.
    let kept: EventOrder = serde_json::from_str(&serde_json::to_string(&order).unwrap()).unwrap();
    assert_eq!(kept, order);
    assert!(kept.is_over());
}

#[test]
fn an_order_that_is_full_forgets_ends_first() {
    let mut order = NotificationOrder::<2>::new();
    let mut observe = |id: &str, status: &str| {
        let body = message(id, status, 0, 0);
        let notifications = Notifications::parse(body.as_bytes()).unwrap();
        order.observe(&notifications.iter().next().unwrap())
    };
    assert_eq!(observe("a", "Started"), Arrival::New);
    assert_eq!(observe("b", "Completed"), Arrival::New);
    assert_eq!(observe("c", "Completed"), Arrival::New);
    assert_eq!(
        observe("a", "Scheduled"),
        Arrival::Late,
        "the open event is known"
    );
    assert_eq!(
        observe("c", "Scheduled"),
        Arrival::Late,
        "so is the newest end"
    );
    assert_eq!(
        observe("b", "Scheduled"),
        Arrival::New,
        "and the oldest is not"
    );
}

#[test]
fn without_documents_there_is_no_poll_and_a_restart_awaits_the_event() {
    let config = config(SessionSource::Notifications, Action::Prepare);
    let mut host = Host::new(&config);
    host.work();
    assert!(host.session.is_idle());
    assert_eq!(
        host.notify(&message("a", "Scheduled", 0, 0)),
        NotificationOutcome::Applied
    );
    // The host dies while it prepares.
    while !matches!(host.session.take_step(START), Step::Prepare { .. }) {}
    let mut snapshot = vec![0; Session::<8>::SNAPSHOT_MAX];
    host.session.snapshot(&mut snapshot).unwrap();
    *host.session = Session::new(&config).unwrap();
    host.session.restore(&snapshot).unwrap();
    host.work();
    assert_eq!(
        (host.steps.len(), host.posts),
        (0, 0),
        "the event was not seen since"
    );
    // What is known is passed again.
    assert_eq!(
        host.notify(&message("a", "Scheduled", 0, 0)),
        NotificationOutcome::Applied
    );
    host.work();
    assert_eq!((&host.steps[..], host.posts), (&["prepare"][..], 1));
    assert_eq!(
        host.notify(&message("a", "Completed", 9, 0)),
        NotificationOutcome::Applied
    );
    assert_eq!(
        host.notify(&message("a", "Started", 8, 0)),
        NotificationOutcome::Ignored
    );
    host.work();
    assert_eq!(host.steps, ["prepare", "recover"]);
    assert!(host.session.is_idle() && host.session.has_seen_event());
}

#[test]
fn other_names_need_another_look_at_each_event() {
    let mut host = Host::new(&config(SessionSource::Notifications, Action::Approve));
    host.session.set_names(VmNames::new(&["other"])).unwrap();
    assert_eq!(
        host.notify(&message("a", "Scheduled", 0, 0)),
        NotificationOutcome::Applied
    );
    host.work();
    assert_eq!(host.posts, 0, "another machine's");
    host.session.set_names(VmNames::new(NAMES)).unwrap();
    host.work();
    assert_eq!(host.posts, 0);
    assert_eq!(
        host.notify(&message("a", "Scheduled", 0, 0)),
        NotificationOutcome::Applied
    );
    host.work();
    assert_eq!(host.posts, 1);
}

#[test]
fn a_gate_needs_no_poll_where_there_is_none() {
    let config = SessionConfig {
        gate: true,
        ..config(SessionSource::Notifications, Action::Prepare)
    };
    let mut host = Host::new(&config);
    let _ = host.notify(&message("a", "Scheduled", 0, 0));
    host.work();
    assert_eq!(
        (&host.steps[..], host.posts),
        (&["gate", "prepare", "gate"][..], 1)
    );
}

#[test]
fn a_session_that_is_full_says_so_and_prefers_its_own_events() {
    let mut host = Host::new(&config(SessionSource::Notifications, Action::Hold));
    for number in 0..8 {
        let others =
            message(&format!("other-{number}"), "Scheduled", 0, 0).replace("\"vm\"", "\"another\"");
        assert_eq!(host.notify(&others), NotificationOutcome::Applied);
    }
    host.work();
    let others = message("other-8", "Scheduled", 0, 0).replace("\"vm\"", "\"another\"");
    assert_eq!(host.notify(&others), NotificationOutcome::Untracked);
    assert_eq!(
        host.notify(&message("own", "Scheduled", 0, 0)),
        NotificationOutcome::Applied
    );
    let ids: Vec<_> = host
        .session
        .events()
        .map(|event| event.event_id().as_str().to_owned())
        .collect();
    assert_eq!((ids.len(), ids.contains(&"own".to_owned())), (8, true));
}

#[test]
fn a_session_of_documents_alone_ignores_notifications() {
    let mut host = Host::new(&config(SessionSource::Documents, Action::Prepare));
    assert_eq!(
        host.notify(&message("a", "Scheduled", 0, 0)),
        NotificationOutcome::Ignored
    );
    host.poll(document(1, &[("a", "Scheduled")]));
    assert_eq!(
        host.notify(&message("a", "Completed", 0, 0)),
        NotificationOutcome::Ignored
    );
    host.work();
    assert_eq!(host.changes, [Change::Scheduled]);
}

#[test]
fn a_document_does_not_end_what_it_has_not_shown_and_may_show_an_event_after_its_end() {
    let mut host = Host::new(&config(SessionSource::Both, Action::Prepare));
    host.poll(document(1, &[]));
    assert_eq!(
        host.notify(&message("a", "Scheduled", 0, 0)),
        NotificationOutcome::Applied
    );
    host.poll(document(2, &[]));
    host.poll(document(3, &[("b", "Started")]));
    assert_eq!(
        host.changes,
        [Change::Scheduled, Change::StartedWithoutNotice]
    );
    // Now both show it: the document decides what it is.
    host.poll(document(4, &[("a", "Scheduled")]));
    assert_eq!(
        host.notify(&message("a", "Scheduled", 5, 30)),
        NotificationOutcome::Ignored
    );
    // The notification is first to say that it is over; the document shows it a while longer.
    assert_eq!(
        host.notify(&message("a", "Completed", 10, 0)),
        NotificationOutcome::Applied
    );
    host.work();
    host.poll(document(5, &[("a", "Started")]));
    let mut snapshot = vec![0; Session::<8>::SNAPSHOT_MAX];
    host.session.snapshot(&mut snapshot).unwrap();
    host.session.restore(&snapshot).unwrap();
    host.poll(document(6, &[("A", "Started"), ("c", "Scheduled")]));
    assert!(!host.session.is_idle());
    host.poll(document(7, &[]));
    host.work();
    assert_eq!(
        host.changes,
        [
            Change::Scheduled,
            Change::StartedWithoutNotice,
            Change::Completed, // b, with document 4
            Change::Completed, // a
            Change::Scheduled,
            Change::Ended, // c, which was approved
        ]
    );
    assert!(host.session.is_idle());
    assert_eq!(host.session.events().count(), 0, "nothing is kept");
    assert_eq!(host.count("recover"), 2);
}

/// A snapshot of a session with notifications goes on in one without: what only they have shown ends with the document.
#[test]
fn a_machine_that_gets_an_agent_goes_on_with_documents() {
    for source in [SessionSource::Notifications, SessionSource::Both] {
        let mut outside = Host::new(&config(source, Action::Prepare));
        outside.poll_if(source, document(1, &[("b", "Scheduled")]));
        let _ = outside.notify(&message("a", "Scheduled", 0, 0));
        outside.work();
        let _ = outside.notify(&message("b", "Canceled", 0, 0));
        let mut snapshot = vec![0; Session::<8>::SNAPSHOT_MAX];
        outside.session.snapshot(&mut snapshot).unwrap();

        let mut inside = Host::new(&config(SessionSource::Documents, Action::Prepare));
        inside.session.restore(&snapshot).unwrap();
        inside.poll(document(3, &[]));
        inside.work();
        assert!(inside.session.is_idle(), "{source:?}");
        assert_eq!(
            inside
                .steps
                .iter()
                .filter(|step| **step == "recover")
                .count(),
            1,
            "{source:?}"
        );
    }
}

impl Host {
    fn poll_if(&mut self, source: SessionSource, document: String) {
        if source == SessionSource::Both {
            self.poll(document);
        }
    }
}

/// What happens next in a test of both sources.
#[derive(Clone, Copy, Debug)]
enum Next {
    /// The event goes on: the document changes, and a message is on its way.
    GoOn,
    /// The document is read.
    Poll,
    /// A message arrives: this one of those on their way.
    Deliver(usize),
    /// One that was delivered arrives again.
    Repeat(usize),
}

fn next() -> impl Strategy<Value = Next> {
    prop_oneof![
        Just(Next::GoOn),
        Just(Next::Poll),
        (0_usize..4).prop_map(Next::Deliver),
        (0_usize..8).prop_map(Next::Repeat)
    ]
}

#[test]
fn advice_outside_the_machine_is_prepared_for_and_never_approved() {
    let advice =
        |status: &str| message("a", status, 1, 0).replace("Reboot", "SpotRebalanceRecommendation");
    let named = Rule {
        event_types: EventTypes::of(&[EventKind::SpotRebalanceRecommendation]),
        ..Rule::new(Action::Prepare)
    };
    for status in ["Advisory", "Scheduled", "Started"] {
        for (rules, prepares) in [
            (&[Rule::new(Action::Approve)][..], false),
            (&[named, Rule::new(Action::Approve)], true),
        ] {
            let mut config = config(SessionSource::Notifications, Action::Approve);
            config.policy = Policy::new(rules).unwrap();
            let mut host = Host::new(&config);
            assert_eq!(host.notify(&advice(status)), NotificationOutcome::Applied);
            host.work();
            assert_eq!(host.session.out_of_service_since().is_some(), prepares);
            let _ = host.notify(&advice("Completed"));
            host.work();
            assert_eq!(host.changes, [Change::Advised, Change::AdviceWithdrawn]);
            assert_eq!((host.posts, host.session.is_idle()), (0, true));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 5 } else { 300 }, ..ProptestConfig::default() })]
    /// However late and often messages arrive beside the documents, it is one event with one life.
    #[test]
    fn both_sources_at_once_are_one_event(steps in prop::collection::vec(next(), 0..40), end in prop::sample::select(vec!["Completed", "Canceled"])) {
        let mut host = Host::new(&config(SessionSource::Both, Action::Prepare));
        let (mut way, mut delivered) = (VecDeque::new(), Vec::new());
        let mut stage = 0_u8;
        let statuses = ["Scheduled", "Started", end];
        host.document = Some(document(0, &[]));
        host.work();
        let finish = [Next::GoOn; 3].into_iter().chain([Next::Poll]).chain([Next::Deliver(0); 4]).chain([Next::Poll, Next::Poll]);
        for step in steps.into_iter().chain(finish) {
            match step {
                // A cancelled event does not start.
                Next::GoOn if stage < 3 => {
                    stage += if stage == 1 && end == "Canceled" { 2 } else { 1 };
                    way.push_back(message("a", statuses[usize::from(stage) - 1], stage.into(), 0));
                    let shown = [("a", statuses[usize::from(stage) - 1])];
                    host.document = Some(document(stage.into(), if stage < 3 { &shown } else { &[] }));
                }
                Next::GoOn => {}
                Next::Poll => {
                    let current = host.document.clone().unwrap();
                    host.poll(current);
                }
                Next::Deliver(at) => {
                    if let Some(message) = way.remove(at % way.len().max(1)) {
                        let _ = host.notify(&message);
                        delivered.push(message);
                    }
                }
                Next::Repeat(at) => {
                    if let Some(message) = delivered.get(at) {
                        let _ = host.notify(&message.replace("\"m\"", "\"again\""));
                    }
                }
            }
            host.work();
        }
        let changes = &host.changes;
        let starts = [Change::Started, Change::StartedWithoutNotice];
        let ends: Vec<_> = changes.iter().filter(|change| change.is_end()).collect();
        prop_assert!(ends.len() <= 1 && ends.len() == changes.len().min(1), "{changes:?}");
        prop_assert!(changes.iter().filter(|change| **change == Change::Scheduled).count() <= 1, "{changes:?}");
        prop_assert!(changes.iter().filter(|change| starts.contains(change)).count() <= 1, "{changes:?}");
        prop_assert!(changes.last().is_none_or(|change| change.is_end()), "{changes:?}");
        prop_assert!(host.count("prepare") <= 1 && host.count("recover") == host.count("prepare"), "{:?}", host.steps);
        prop_assert!(host.session.is_idle(), "{changes:?}");
        prop_assert_eq!(host.session.events().count(), 0);
    }
}
