//! Calls of the ABI as a C program makes them, small enough for Miri.

use core::mem::MaybeUninit;
use std::ffi::c_void;

use crate::abi::struct_size::Growing;
use crate::schedev_status::{SCHEDEV_END, SCHEDEV_ERROR_ARGUMENT, SCHEDEV_OK};
use crate::*;

const BODY: &str = r#"{"DocumentIncarnation":2,"Events":[{"EventId":"a","EventStatus":"Scheduled","EventType":"Reboot",
    "Resources":["vm_0","vm\u005f1"],"EventSource":"User","NotBefore":"soon"},{"EventId":"A"},3]}"#;

#[test]
fn reads_a_document() {
    // SAFETY: every pointer is to a live value of its type, as the conventions of the header require.
    unsafe {
        let mut document = MaybeUninit::<schedev_document>::uninit();
        let parsed = schedev_document_parse(
            BODY.as_ptr().cast(),
            BODY.len(),
            document.as_mut_ptr(),
            core::ptr::null_mut(),
        );
        assert_eq!(parsed, SCHEDEV_OK);
        let document = document.as_ptr();

        let mut cursor = schedev_event_cursor { opaque: [0; 8] };
        let mut event = MaybeUninit::<schedev_event>::uninit();
        assert_eq!(
            schedev_document_next(document, &raw mut cursor, event.as_mut_ptr()),
            SCHEDEV_OK
        );
        let mut other = MaybeUninit::<schedev_event>::uninit();
        assert_eq!(
            schedev_document_next(document, &raw mut cursor, other.as_mut_ptr()),
            SCHEDEV_END
        );

        // A copy, as an assignment in C makes it.
        let mut copy = event;
        for index in [0, 1, 0, 5, 1] {
            let mut name = schedev_text::NONE;
            let found = schedev_event_resource(copy.as_mut_ptr(), index, &raw mut name);
            assert_eq!(found, if index < 2 { SCHEDEV_OK } else { SCHEDEV_END });
            assert!(
                index > 1 || schedev_text_equal(name, ["vm_0", "vm_1"][index].as_ptr().cast(), 4)
            );
        }
        let mut resources = schedev_resource_cursor { opaque: [0; 10] };
        let mut pair = [schedev_text::NONE; 2];
        let mut count = 0;
        for expected in [SCHEDEV_OK, SCHEDEV_END] {
            let (cursor, names) = (&raw mut resources, pair.as_mut_ptr());
            assert_eq!(
                schedev_event_next_resources(event.as_ptr(), cursor, names, 2, &raw mut count),
                expected
            );
            assert_eq!(count, 2);
        }

        let names = schedev_names {
            items: pair.as_ptr(),
            count: 1,
            underscored: Flag::new(false),
            reserved: [0; 2],
        };
        let mut decision = schedev_decision::NONE;
        let (policy, event) = (schedev_policy_sample(), event.as_ptr());
        assert_eq!(
            schedev_decide(policy, event, &raw const names, 0, &raw mut decision),
            SCHEDEV_OK
        );
        assert_eq!(
            decision.action,
            schedev_action::SCHEDEV_ACTION_APPROVE as u32
        );

        let mut problems = schedev_problem_cursor { opaque: [0; 128] };
        let mut problem = schedev_problem::NONE;
        let mut count = 0;
        while schedev_document_next_problem(document, &raw mut problems, &raw mut problem)
            == SCHEDEV_OK
        {
            count += 1;
        }
        assert_eq!(count, 3);

        let mut body = [0; 64];
        let mut needed = 0;
        let id = &raw const (*event).event_id;
        assert_eq!(
            schedev_start_requests(id, 1, body.as_mut_ptr(), body.len(), &raw mut needed),
            SCHEDEV_OK
        );
        assert_eq!(needed, r#"{"StartRequests":[{"EventId":"a"}]}"#.len());
    }
}

#[test]
fn runs_a_session_and_a_tracker_at_any_alignment() {
    // SAFETY: every pointer is to a live value of its type, as the conventions of the header require.
    unsafe {
        let mut memory = vec![MaybeUninit::<u8>::uninit(); schedev_session_size() + 3];
        let place: *mut c_void = memory.as_mut_ptr().add(3).cast();
        let config = schedev_session_config {
            struct_size: size_of::<schedev_session_config>(),
            policy: core::ptr::null(),
            names: core::ptr::null(),
            seed: 1,
            interval_ms: 1000,
            dry_run: Flag::new(false),
            gate: Flag::new(false),
            recover_all: Flag::new(false),
            prepare_retries: SCHEDEV_PREPARE_RETRIES_UNLIMITED,
            machine_id: schedev_text::plain("machine"),
            boot_id: schedev_text::NONE,
            last_call_seconds: SCHEDEV_LAST_CALL_NEVER,
            source: 0,
            api_version: schedev_text::NONE,
            needs_advice: Flag::new(false),
        };
        let mut session = core::ptr::null_mut();
        assert_eq!(
            schedev_session_init(
                place,
                schedev_session_size(),
                &raw const config,
                &raw mut session
            ),
            SCHEDEV_OK
        );
        let mut step = MaybeUninit::<schedev_step>::uninit();
        assert_eq!(
            schedev_session_next(session, 0, step.as_mut_ptr()),
            SCHEDEV_OK
        );
        let response = schedev_response {
            struct_size: size_of::<schedev_response>(),
            body: BODY.as_ptr().cast(),
            body_len: BODY.len(),
            http_status: 200,
            retry_after_seconds: 0,
            has_retry_after: Flag::new(false),
        };
        let accepted =
            schedev_session_on_response(session, &raw const response, 0, core::ptr::null_mut());
        assert_eq!(accepted, SCHEDEV_OK);
        assert_eq!(
            schedev_session_next(session, 0, step.as_mut_ptr()),
            SCHEDEV_OK
        );
        let step = step.assume_init();
        assert_eq!(step.kind, schedev_step_kind::SCHEDEV_STEP_CHANGE as u32);
        let mut json = [0; 1024];
        let mut needed = 0;
        let written = schedev_step_json(
            &raw const step,
            core::ptr::null(),
            core::ptr::null(),
            json.as_mut_ptr(),
            json.len(),
            &raw mut needed,
        );
        assert_eq!(written, SCHEDEV_OK);
        assert!(
            std::ffi::CStr::from_ptr(json.as_ptr())
                .to_str()
                .unwrap()
                .starts_with(r#"{"record":"change","#)
        );
        let unknown = schedev_session_prepared(session, 1, 1, core::ptr::null_mut());
        assert_eq!(unknown, schedev_status::SCHEDEV_ERROR_UNKNOWN_EVENT);

        let mut snapshot = vec![0; SCHEDEV_SNAPSHOT_MAX_BYTES];
        let mut needed = 0;
        let saved = schedev_session_snapshot(
            session,
            snapshot.as_mut_ptr(),
            snapshot.len(),
            &raw mut needed,
        );
        assert_eq!(saved, SCHEDEV_OK);
        assert_eq!(
            schedev_session_restore(session, snapshot.as_ptr(), needed),
            SCHEDEV_OK
        );

        let mut memory = vec![0_u64; schedev_tracker_size() / 8 + 1];
        let place = memory.as_mut_ptr();
        let mut count = 0_usize;
        assert_eq!(schedev_tracker_event_count(place.cast()), 0);
        let refused = schedev_tracker_approved(place.cast(), schedev_text::plain("a"));
        assert_eq!(refused, SCHEDEV_ERROR_ARGUMENT);
        let mut tracker = core::ptr::null_mut();
        let size = schedev_tracker_size();
        assert_eq!(
            schedev_tracker_init(place.cast(), size, &raw mut tracker),
            SCHEDEV_OK
        );
        let mut document = MaybeUninit::<schedev_document>::uninit();
        let parsed = schedev_document_parse(
            BODY.as_ptr().cast(),
            BODY.len(),
            document.as_mut_ptr(),
            core::ptr::null_mut(),
        );
        assert_eq!(parsed, SCHEDEV_OK);
        let observed = schedev_tracker_observe(
            tracker,
            document.as_ptr(),
            core::ptr::null(),
            0,
            Some(count_change),
            (&raw mut count).cast(),
            core::ptr::null_mut(),
            core::ptr::null_mut(),
        );
        assert_eq!((observed, count), (SCHEDEV_OK, 1));
    }
}

unsafe extern "C" fn count_change(
    context: *mut c_void,
    change: u32,
    event: *const schedev_tracked_event,
) {
    assert_eq!(change, schedev_change::SCHEDEV_CHANGE_SCHEDULED as u32);
    // SAFETY: `context` is the count, and the event is valid during the call.
    unsafe {
        assert_eq!((*event).event_id.len, 1);
        *context.cast::<usize>() += 1;
    }
}

#[test]
fn recovers_a_machine() {
    let rule = schedev_rule {
        action: schedev_action::SCHEDEV_ACTION_PREPARE as u32,
        ..schedev_rule::ZERO
    };
    let policy = schedev_policy {
        rules: &raw const rule,
        rule_count: 1,
        ..schedev_policy::INIT
    };
    let name = schedev_text::plain("vm_0");
    let names = schedev_names {
        items: &raw const name,
        count: 1,
        underscored: Flag::new(false),
        reserved: [0; 2],
    };
    let config = schedev_session_config {
        policy: &raw const policy,
        names: &raw const names,
        ..<schedev_session_config as Growing>::INIT
    };
    let mut memory = vec![MaybeUninit::<u8>::uninit(); schedev_session_size()];
    let mut bodies = [BODY, r#"{"Events":[]}"#].into_iter();
    let mut now = 0;
    // SAFETY: every pointer is to a live value of its type, as the conventions of the header require.
    unsafe {
        let mut session = core::ptr::null_mut();
        let size = memory.len();
        let begun = schedev_session_init(
            memory.as_mut_ptr().cast(),
            size,
            &raw const config,
            &raw mut session,
        );
        assert_eq!(begun, SCHEDEV_OK);
        let mut accepted = Flag::new(false);
        let recover = loop {
            let mut step = MaybeUninit::<schedev_step>::uninit();
            assert_eq!(
                schedev_session_next(session, now, step.as_mut_ptr()),
                SCHEDEV_OK
            );
            let step = step.assume_init();
            match step.kind {
                kind if kind == schedev_step_kind::SCHEDEV_STEP_WAIT as u32 => now = step.until_ms,
                kind if kind == schedev_step_kind::SCHEDEV_STEP_GET as u32 => {
                    let body = bodies.next().unwrap();
                    let response = schedev_response {
                        body: body.as_ptr().cast(),
                        body_len: body.len(),
                        http_status: 200,
                        ..<schedev_response as Growing>::INIT
                    };
                    let done = schedev_session_on_response(
                        session,
                        &raw const response,
                        now,
                        core::ptr::null_mut(),
                    );
                    assert_eq!(done, SCHEDEV_OK);
                }
                kind if kind == schedev_step_kind::SCHEDEV_STEP_PREPARE as u32 => {
                    assert_eq!(
                        schedev_session_prepared(session, step.attempt, 2, &raw mut accepted),
                        SCHEDEV_OK
                    );
                    assert!(accepted.is_on());
                }
                kind if kind == schedev_step_kind::SCHEDEV_STEP_RECOVER as u32 => break step,
                _ => {}
            }
        };
        let mut id = schedev_text::NONE;
        assert_eq!(
            schedev_session_recovering(session, 0, &raw mut id),
            SCHEDEV_OK
        );
        let mut json = [0; 1024];
        let mut needed = 0;
        let written = schedev_step_json(
            &raw const recover,
            core::ptr::null(),
            core::ptr::null(),
            json.as_mut_ptr(),
            json.len(),
            &raw mut needed,
        );
        assert_eq!(written, SCHEDEV_OK);
        let json = std::ffi::CStr::from_ptr(json.as_ptr()).to_str().unwrap();
        assert!(
            json.starts_with(
                r#"{"record":"recover","event_id":"a","event_ids":["a"],"outcome":null"#
            ),
            "{json}"
        );
        // Both texts are views of the session's memory.
        assert!(schedev_text_equal(
            id,
            recover.event.event_id.data,
            recover.event.event_id.len
        ));
        let done = Flag::new(true);
        let (attempt, place) = (recover.attempt, &raw mut accepted);
        assert_eq!(
            schedev_session_recovered(session, attempt, done, now, place),
            SCHEDEV_OK
        );
        assert_eq!(
            schedev_session_out_of_service_since(session, &raw mut now),
            SCHEDEV_END
        );
    }
}

#[test]
fn applies_notifications() {
    let body = |status| {
        format!(
            r#"{{"type":"microsoft.maintenance/scheduledevents","properties":{{"EventId":"a","EventStatus":"{status}"}}}}"#
        )
    };
    let config = schedev_session_config {
        source: schedev_session_source::SCHEDEV_SESSION_SOURCE_NOTIFICATIONS as u32,
        ..<schedev_session_config as Growing>::INIT
    };
    let mut memory = vec![MaybeUninit::<u8>::uninit(); schedev_session_size()];
    let mut order = Box::new(schedev_notification_order { opaque: [0; 1024] });
    // SAFETY: every pointer is to a live value of its type, as the conventions of the header require.
    unsafe {
        let mut session = core::ptr::null_mut();
        let size = memory.len();
        let begun = schedev_session_init(
            memory.as_mut_ptr().cast(),
            size,
            &raw const config,
            &raw mut session,
        );
        assert_eq!(begun, SCHEDEV_OK);
        // The end, then a message that is late.
        for (status, expected) in [
            ("Scheduled", 1),
            ("Started", 1),
            ("Completed", 1),
            ("Started", 2),
        ] {
            let body = body(status);
            let mut parsed = MaybeUninit::<schedev_notifications>::uninit();
            let (data, none) = (body.as_ptr().cast(), core::ptr::null_mut());
            assert_eq!(
                schedev_notifications_parse(data, body.len(), parsed.as_mut_ptr(), none),
                SCHEDEV_OK
            );
            let mut cursor = schedev_notification_cursor { opaque: [0; 24] };
            let mut one = MaybeUninit::<schedev_notification>::uninit();
            assert_eq!(
                schedev_notifications_next(parsed.as_ptr(), &raw mut cursor, one.as_mut_ptr()),
                SCHEDEV_OK
            );
            let (order, mut outcome) = (&raw mut *order, 0);
            let done =
                schedev_session_on_notification(session, order, one.as_ptr(), 0, &raw mut outcome);
            assert_eq!((done, outcome), (SCHEDEV_OK, expected), "{status}");
        }
        assert!(schedev_session_has_seen_event(session));
        assert_eq!(
            schedev_notification_order_end(&raw mut *order, schedev_text::plain("b")),
            SCHEDEV_OK
        );
    }
}
