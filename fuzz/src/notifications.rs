//! Any bytes as notifications, compared with a second reader over `serde_json`, put in order, and fed to sessions, beside the document
//! that follows them after a NUL.

use std::hash::{DefaultHasher, Hash, Hasher};

use scheduled_events_core::approval::acknowledge;
use scheduled_events_core::{
    Action, Document, MachineId, Notification, NotificationCursor, NotificationOrder,
    NotificationOutcome, Notifications, ParseErrorKind, Policy, Preparation, Report, ResourceId,
    Response, Rule, Session, SessionConfig, SessionSource, Step, Text, UnixMillis, VmNames,
};

use crate::oracle::{NUMBER_TOKEN, Node};

pub fn run(input: &[u8]) {
    let (input, document) = input.split_at(
        input
            .iter()
            .position(|byte| *byte == 0)
            .unwrap_or(input.len()),
    );
    let document = document.get(1..).unwrap_or(br#"{"Events":[]}"#);
    let ours = Notifications::parse(input);
    if let Ok(notifications) = &ours {
        check_consistency(notifications);
        for source in [SessionSource::Notifications, SessionSource::Both] {
            check_session(notifications, document, source);
        }
    }
    check_ids(input);
    if input
        .windows(NUMBER_TOKEN.len())
        .any(|window| window == NUMBER_TOKEN.as_bytes())
    {
        return;
    }
    let json = input.strip_prefix("\u{feff}".as_bytes()).unwrap_or(input);
    match (ours, serde_json::from_slice::<Node>(json)) {
        (Ok(notifications), Ok(node)) => assert_eq!(reading(&notifications), read(&node)),
        (Ok(_), Err(error)) => panic!("accepted, but serde_json refuses it: {error}"),
        (Err(error), Ok(_)) => assert!(
            matches!(
                error.kind,
                ParseErrorKind::TooDeep
                    | ParseErrorKind::RepeatedMember
                    | ParseErrorKind::NotAnObject
            ),
            "refused, but it is JSON: {error}"
        ),
        (Err(error), Err(_)) => assert!(error.offset <= input.len()),
    }
}

/// What a body says, as either reader finds it: of each notification its outer id, resource, event and status; how many
/// others there are; and the validation code.
#[derive(Debug, Default, PartialEq)]
struct Reading {
    notifications: Vec<[Option<String>; 4]>,
    left_out: usize,
    validation_code: Option<String>,
}

fn reading(notifications: &Notifications<'_>) -> Reading {
    let one = |notification: Notification<'_>| {
        [
            notification.id().map(|id| id.to_string()),
            Some(notification.resource_id().to_string()),
            Some(notification.event().event_id().to_string()),
            notification
                .event()
                .event_status()
                .map(|status| status.to_string()),
        ]
    };
    Reading {
        notifications: notifications.iter().map(one).collect(),
        left_out: notifications.left_out(),
        validation_code: notifications.validation_code().map(|code| code.to_string()),
    }
}

const TYPES: [&str; 2] = [
    "microsoft.resourcenotifications.maintenanceresources.scheduledeventemitted",
    "microsoft.maintenance/scheduledevents/write",
];
const RESOURCE_TYPE: &str = "microsoft.maintenance/scheduledevents";

fn member<'a>(node: &'a Node, name: &str) -> Option<&'a Node> {
    let Node::Object(members) = node else {
        return None;
    };
    members
        .iter()
        .find(|(known, _)| known == name)
        .map(|(_, value)| value)
}

fn string(node: &Node, name: &str) -> Option<String> {
    if let Some(Node::String(text)) = member(node, name) {
        Some(text.clone())
    } else {
        None
    }
}

/// The second reader.
fn read(node: &Node) -> Reading {
    let mut read = Reading::default();
    let word = |node: &Node| string(node, "eventType").or_else(|| string(node, "type"));
    // As a member that is there, though it is no string.
    let has_word = |node: &Node| {
        ["eventType", "type"]
            .iter()
            .any(|name| !matches!(member(node, name), None | Some(Node::Null)))
    };
    let messages: Vec<&Node> = match (node, member(node, "data")) {
        (Node::Array(messages), _) => messages.iter().collect(),
        (Node::Object(_), Some(Node::Array(rows))) if !has_word(node) => rows.iter().collect(),
        _ => vec![node],
    };
    for message in messages {
        let word = word(message).map(|word| word.to_ascii_lowercase());
        let (id, subject) = (string(message, "id"), string(message, "subject"));
        let data = member(message, "data");
        let before = read.notifications.len() + read.left_out;
        match word.as_deref() {
            Some(word) if TYPES.contains(&word) => {
                let Some(data @ Node::Object(_)) = data else {
                    read.left_out += 1;
                    continue;
                };
                if let Some(info @ Node::Object(_)) = member(data, "resourceInfo") {
                    resource(info, id, subject, &mut read);
                } else if let Some(Node::Array(resources)) = member(data, "resources") {
                    for element in resources {
                        let subject = string(element, "resourceId").or_else(|| subject.clone());
                        match member(element, "armResource") {
                            Some(inner @ Node::Object(_)) => {
                                resource(inner, id.clone(), subject, &mut read);
                            }
                            _ => read.left_out += 1,
                        }
                    }
                }
            }
            Some("microsoft.eventgrid.subscriptionvalidationevent") => {
                if let Some(data @ Node::Object(_)) = data {
                    read.validation_code = read
                        .validation_code
                        .or_else(|| string(data, "validationCode"));
                }
            }
            Some(RESOURCE_TYPE) => event(message, id, None, &mut read),
            None if id
                .as_ref()
                .is_some_and(|id| id.to_ascii_lowercase().contains("scheduledevents")) =>
            {
                event(message, id, None, &mut read);
            }
            _ => {}
        }
        if read.notifications.len() + read.left_out == before {
            read.left_out += 1;
        }
    }
    read
}

fn resource(node: &Node, outer: Option<String>, subject: Option<String>, read: &mut Reading) {
    match string(node, "type") {
        Some(kind) if !kind.eq_ignore_ascii_case(RESOURCE_TYPE) => read.left_out += 1,
        _ => event(node, string(node, "id").or(subject), outer, read),
    }
}

fn event(node: &Node, resource: Option<String>, outer: Option<String>, read: &mut Reading) {
    let resource = resource.unwrap_or_default();
    let id = member(node, "properties").and_then(|properties| string(properties, "EventId"));
    match id {
        Some(id)
            if !resource
                .to_ascii_lowercase()
                .contains("microsoft.containerservice") =>
        {
            // An empty one says nothing.
            let status = member(node, "properties")
                .and_then(|properties| string(properties, "EventStatus"))
                .filter(|status| !status.is_empty());
            read.notifications
                .push([outer, Some(resource), Some(id), status]);
        }
        _ => read.left_out += 1,
    }
}

/// What holds for all notifications without a comparison.
fn check_consistency(notifications: &Notifications<'_>) {
    assert_eq!(
        (notifications.iter().count(), notifications.is_empty()),
        (notifications.len(), notifications.iter().next().is_none())
    );
    let mut cursor = NotificationCursor::default();
    let mut order = NotificationOrder::<4>::new();
    for notification in notifications {
        let same = notifications
            .next_notification(&mut cursor)
            .expect("a cursor finds them all");
        assert_eq!(format!("{notification:?}"), format!("{same:?}"));
        let _ = order.observe(&notification);
        assert!(
            !order.observe(&notification).is_news(),
            "what was just observed is no news"
        );
        if let Ok(resource) = notification.resource() {
            check_request(resource, notification.event().event_id());
            for machine in notification
                .machines()
                .expect("the resource has an id")
                .flatten()
            {
                let (id, upper) = (
                    machine.to_string(),
                    machine.to_string().to_ascii_uppercase(),
                );
                assert_eq!(MachineId::parse(Text::plain(&id)), Ok(machine), "{id}");
                assert_eq!(MachineId::parse(Text::plain(&upper)), Ok(machine), "{id}");
                assert_eq!(
                    hash(MachineId::parse(Text::plain(&upper)).ok()),
                    hash(Some(machine)),
                    "{id}"
                );
                assert_eq!(machine.write(&mut vec![0; id.len()]), Ok(id.as_str()));
                assert!(
                    machine.is_named(&machine.name().to_string().to_ascii_uppercase()),
                    "{id}"
                );
            }
        } else {
            assert!(notification.machines().is_err());
        }
    }
    assert!(notifications.next_notification(&mut cursor).is_none());
}

/// Any text as an id of a resource.
fn check_ids(input: &[u8]) {
    let Ok(text) = str::from_utf8(input) else {
        return;
    };
    let text = text.lines().next().unwrap_or_default();
    let name = format!(
        "/subscriptions/62d72a8a-5a42-4a28-a1cc-70a836ae7955/resourceGroups/g/providers/Microsoft.Compute/virtualMachines/{text}"
    );
    for id in [text, &name] {
        match ResourceId::parse(Text::plain(id)) {
            Ok(resource) => {
                let lower = resource.to_string().to_ascii_lowercase();
                assert_eq!(ResourceId::parse(Text::plain(&lower)), Ok(resource), "{id}");
                check_request(
                    resource,
                    Text::plain("743c15d8-a994-46fc-93af-b84ee33f9a14"),
                );
            }
            Err(error) => {
                assert_eq!(MachineId::parse(Text::plain(id)), Err(error), "{id}");
                assert!(error.to_string().ends_with(error.message()));
            }
        }
    }
}

fn hash(value: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// A path has the characters of one, and its form.
fn check_request(resource: ResourceId<'_>, id: Text<'_>) {
    for ids in [&[id][..], &[id, id]] {
        let Ok(request) = acknowledge(resource, ids) else {
            continue;
        };
        let (mut path, mut body) = (vec![0; request.path_len()], vec![0; request.body_len()]);
        let path = request.write_path(&mut path).unwrap();
        assert!(
            path.bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"/-_.()%?=".contains(&byte)),
            "{path}"
        );
        assert_eq!(
            path.matches('/').count(),
            if ids.len() == 1 { 13 } else { 11 },
            "{path}"
        );
        assert_eq!(request.write_body(&mut body), Ok(body.len()));
        assert_eq!(body.is_empty(), ids.len() == 1);
        assert!(body.is_empty() || serde_json::from_slice::<Node>(&body).is_ok());
    }
}

/// Each event's changes come in a legal order, whatever arrives, and nothing is asked for ever.
fn check_session(notifications: &Notifications<'_>, document: &[u8], source: SessionSource) {
    let policy = Policy::new(&[Rule::new(Action::Prepare)]).expect("one rule");
    let config = SessionConfig {
        policy,
        source,
        ..SessionConfig::new(VmNames::new(&["vm", "db-1", "front_1"]))
    };
    let mut session = Session::<4>::new(&config).expect("a configuration");
    let mut order = NotificationOrder::<64>::new();
    let mut now = UnixMillis(1_600_000_000_000);
    let (mut ended, mut polls) = (Vec::new(), 0);
    for notification in notifications {
        let outcome = session.on_notification(&notification, order.observe(&notification), now);
        assert!(outcome != NotificationOutcome::Untracked || session.events().count() == 4);
        for step in 0.. {
            assert!(step < 200, "a session asks for ever");
            match session.take_step(now) {
                Step::Get { .. } => {
                    let body = if polls < 2 {
                        document
                    } else {
                        br#"{"Events":[]}"#
                    };
                    polls += 1;
                    let _ = session.on_response(
                        &Response {
                            status: 200,
                            body,
                            ..Response::default()
                        },
                        now,
                    );
                }
                Step::Post { .. } => {
                    let _ = session.on_response(
                        &Response {
                            status: 200,
                            ..Response::default()
                        },
                        now,
                    );
                }
                Step::Prepare { attempt, .. } => {
                    let _ = session.prepared(attempt, Preparation::Ready);
                }
                Step::Recover { attempt, .. } => {
                    let _ = session.recovered(attempt, true, now);
                }
                Step::Report(Report::Change { change, event }) => {
                    let id = event.event_id().as_str().to_ascii_lowercase();
                    assert!(
                        !ended.contains(&id) || are_too_many(notifications, document, source),
                        "{id} {change} after its end"
                    );
                    if change.is_end() {
                        order.end(event.event_id());
                        ended.push(id);
                    }
                }
                Step::Wait { until } => {
                    assert!(until > now);
                    break;
                }
                _ => {}
            }
        }
        now = now.plus(3_000);
    }
}

/// Whether there are more events than an order remembers, or than a session tracks beside documents, which may have an event whose
/// end it has forgotten.
fn are_too_many(notifications: &Notifications<'_>, document: &[u8], source: SessionSource) -> bool {
    let shown = || Document::parse(document).map_or(0, |document| document.events().count());
    match source {
        SessionSource::Both => notifications.len() + shown() > 4,
        _ => notifications.len() > 64,
    }
}
