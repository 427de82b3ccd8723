//! Calls of what core has for events and approvals outside the machine.

use core::hint::black_box;

use scheduled_events_core::approval::{self, AcknowledgeError};
use scheduled_events_core::{
    Arrival, EventId, EventOrder, MachineId, Notification, NotificationCursor, NotificationOrder,
    Notifications, ResourceId, ResourceIdError, ResourceKind, SessionConfig, SessionSource, Text,
    UnixMillis, VmNames,
};

use crate::{Counts, Followed, preparing, reach, shown, step};

/// Two messages, one of them of 2023, and a row.
const NOTIFIED: &[u8] = br#"[{"id":"\u0061","eventType":"microsoft.maintenance/scheduledevents/write","eventTime":"2024-12-04T18:01:13.2675752Z",
 "data":{"resourceInfo":{"id":"/subscriptions/62d72a8a-5a42-4a28-a1cc-70a836ae7955/resourceGroups/g/providers/Microsoft.Compute/virtualMachineScaleSets/s",
 "properties":{"EventId":"743c15d8-a994-46fc-93af-b84ee33f9a14","EventStatus":"Scheduled","Resources":["s_1","westno_0","a/b"]}},"operationalInfo":{"resourceEventTime":"x"}}},
 {"eventType":"microsoft.maintenance/scheduledevents/write","data":{"resources":[{"resourceId":"\/x","armResource":{"properties":{"EventId":"a","EventStatus":"Completed"}}},7]}},
 {"type":"microsoft.maintenance/scheduledevents","properties":{"EventId":"b","EventStatus":"Canceled"}},7]"#;

pub(crate) fn the_notifications(input: &[u8], text: &str, names: VmNames<'_>, number: i64) {
    for body in [input, black_box(NOTIFIED)] {
        let Ok(notifications) = Notifications::parse(body) else {
            continue;
        };
        reach((
            notifications.len(),
            notifications.is_empty(),
            notifications.left_out(),
            notifications.validation_code(),
        ));
        let mut cursor = NotificationCursor::default();
        while let Some(notification) = notifications.next_notification(&mut cursor) {
            reach(shown(&notification.state()));
        }
        let mut order = NotificationOrder::<4>::new();
        for source in [
            SessionSource::Notifications,
            SessionSource::Both,
            SessionSource::Documents,
        ] {
            let config = SessionConfig {
                policy: preparing(),
                source: black_box(source),
                ..SessionConfig::new(names)
            };
            let Ok(mut session) = Followed::new(&config) else {
                continue;
            };
            for notification in &notifications {
                let arrival = order.observe(&notification);
                the_notification(&notification, text);
                let made = Notification::new(*notification.event(), notification.time());
                let outcome =
                    session.on_notification(black_box(&made), arrival, UnixMillis(number));
                reach((
                    arrival.is_news(),
                    outcome.word(),
                    shown(&outcome),
                    source.word(),
                    shown(&source),
                ));
                for _ in 0..black_box(8) {
                    step(
                        &mut session,
                        input,
                        &mut UnixMillis(number),
                        &mut Counts::default(),
                    );
                }
            }
        }
        order.end(&EventId::new(&Text::plain(text)));
        let iterator = notifications.iter();
        reach((iterator.len(), iterator.size_hint()));
    }
    let resource = black_box(
        "/subscriptions/62d72a8a-5a42-4a28-a1cc-70a836ae7955/resourceGroups/\u{e9}/providers/Microsoft.Compute/virtualMachines/v",
    );
    for id in [resource, text] {
        the_resource(id, text);
    }
    reach((
        approval::ACKNOWLEDGE_API_VERSION,
        shown(&AcknowledgeError::EventId { index: usize::MAX }),
        shown(&AcknowledgeError::NoEvent),
    ));
    for kind in ResourceKind::ALL {
        reach((kind.word(), shown(&kind)));
    }
}

fn the_notification(notification: &Notification<'_>, text: &str) {
    reach((
        notification.id(),
        notification.time(),
        notification.resource_id(),
        notification.event().index(),
    ));
    let state = notification.state();
    reach((state.word(), state.is_end(), shown(&state)));
    let mut order = EventOrder::default();
    reach((order.observe(notification) == Arrival::New, order.is_over()));
    order.end();
    match notification.machines() {
        Ok(machines) => machines.for_each(|machine| match machine {
            Ok(machine) => the_machine(&machine, text),
            Err(error) => the_resource_error(error),
        }),
        Err(error) => the_resource_error(error),
    }
    reach(notification.resource().is_ok());
}

fn the_machine(machine: &MachineId<'_>, text: &str) {
    reach((
        machine.subscription(),
        machine.resource_group(),
        shown(&machine.name()),
        machine.is_named(text),
    ));
    reach((
        shown(machine),
        machine.write(&mut [0; 200]).is_ok(),
        *machine == *machine,
    ));
}

fn the_resource_error(error: ResourceIdError) {
    reach((error.message(), shown(&error)));
}

fn the_resource(id: &str, text: &str) {
    reach(MachineId::parse(Text::plain(id)).is_ok());
    let resource = match ResourceId::parse(Text::plain(id)) {
        Ok(resource) => resource,
        Err(error) => return the_resource_error(error),
    };
    reach((
        resource.subscription(),
        resource.resource_group(),
        resource.kind(),
        resource.name(),
        shown(&resource),
    ));
    reach((
        resource == resource,
        resource.machine(Text::plain(text)).is_ok(),
    ));
    for ids in [
        &[text][..],
        &["743c15d8-a994-46fc-93af-b84ee33f9a14"],
        &["743c15d8-a994-46fc-93af-b84ee33f9a14"; 2],
    ] {
        match approval::acknowledge(resource, black_box(ids)) {
            Ok(request) => {
                reach((request.method(), request.path_len(), request.body_len()));
                reach((
                    request.write_path(&mut [0; 300]).is_ok(),
                    request.write_body(&mut [0; 100]).is_ok(),
                ));
            }
            Err(error) => reach(shown(&error)),
        }
    }
}
