/*
 * Sizes and offsets of the ABI on 64-bit machines. Changing one breaks compiled programs: see tests/c/README.md first. The
 * opaque types have the same size on all machines.
 */
#include "scheduled_events.h"
#include <assert.h>

#define SIZE(type, size) static_assert(sizeof(type) == (size), #type " changed its size")
#define PLACE(type, member, offset) static_assert(offsetof(type, member) == (offset), #type "." #member " moved")

#if UINTPTR_MAX == UINT64_MAX
SIZE(schedev_status, 4);
SIZE(schedev_text, 24);
PLACE(schedev_text, len, 8);
PLACE(schedev_text, escaped, 16);
SIZE(schedev_error, 168);
PLACE(schedev_error, line, 4);
PLACE(schedev_error, column, 8);
PLACE(schedev_error, offset, 16);
PLACE(schedev_error, message, 24);
PLACE(schedev_error, reserved, 152);
SIZE(schedev_position, 8);
SIZE(schedev_incarnation, 56);
PLACE(schedev_incarnation, number, 8);
PLACE(schedev_incarnation, text, 16);
SIZE(schedev_event, 600);
PLACE(schedev_event, event_type_text, 24);
PLACE(schedev_event, event_status_text, 48);
PLACE(schedev_event, event_source_text, 72);
PLACE(schedev_event, resource_type, 96);
PLACE(schedev_event, description, 120);
PLACE(schedev_event, not_before_unreadable, 144);
PLACE(schedev_event, not_before_seconds, 168);
PLACE(schedev_event, index, 176);
PLACE(schedev_event, event_type, 184);
PLACE(schedev_event, event_status, 188);
PLACE(schedev_event, event_source, 192);
PLACE(schedev_event, duration_seconds, 196);
PLACE(schedev_event, unreliable_member, 200);
PLACE(schedev_event, has_not_before, 204);
PLACE(schedev_event, has_description, 208);
PLACE(schedev_event, advice, 209);
PLACE(schedev_event, opaque, 216);
SIZE(schedev_problem, 48);
PLACE(schedev_problem, event_index, 8);
PLACE(schedev_problem, offset, 16);
PLACE(schedev_problem, has_event, 24);
PLACE(schedev_problem, reserved, 32);
SIZE(schedev_names, 40);
PLACE(schedev_names, count, 8);
PLACE(schedev_names, underscored, 16);
PLACE(schedev_names, reserved, 24);
SIZE(schedev_rule, 64);
PLACE(schedev_rule, has_min_duration, 24);
PLACE(schedev_rule, min_notice_seconds, 28);
PLACE(schedev_rule, has_min_notice, 40);
PLACE(schedev_rule, reserved, 44);
SIZE(schedev_policy, 32);
PLACE(schedev_policy, rules, 8);
PLACE(schedev_policy, leader, 24);
SIZE(schedev_decision, 64);
PLACE(schedev_decision, rule, 12);
PLACE(schedev_decision, has_approve_after, 20);
PLACE(schedev_decision, has_act_from, 22);
PLACE(schedev_decision, time_left_seconds, 24);
PLACE(schedev_decision, act_from_seconds, 32);
PLACE(schedev_decision, reserved, 40);
SIZE(schedev_tracked_event, 104);
PLACE(schedev_tracked_event, not_before_seconds, 48);
PLACE(schedev_tracked_event, approved, 68);
PLACE(schedev_tracked_event, reserved, 72);
SIZE(schedev_notification, 696);
PLACE(schedev_notification, id, 600);
PLACE(schedev_notification, resource_id, 624);
PLACE(schedev_notification, time_ms, 648);
PLACE(schedev_notification, state, 656);
PLACE(schedev_notification, has_id, 660);
PLACE(schedev_notification, has_time, 661);
PLACE(schedev_notification, reserved, 664);
SIZE(schedev_session_config, 128);
PLACE(schedev_session_config, seed, 24);
PLACE(schedev_session_config, dry_run, 36);
PLACE(schedev_session_config, gate, 37);
PLACE(schedev_session_config, prepare_retries, 39);
PLACE(schedev_session_config, machine_id, 40);
PLACE(schedev_session_config, boot_id, 64);
PLACE(schedev_session_config, last_call_seconds, 88);
PLACE(schedev_session_config, source, 92);
PLACE(schedev_session_config, api_version, 96);
PLACE(schedev_session_config, needs_advice, 120);
SIZE(schedev_response, 40);
PLACE(schedev_response, http_status, 24);
PLACE(schedev_response, has_retry_after, 32);
SIZE(schedev_step, 352);
PLACE(schedev_step, now_ms, 8);
PLACE(schedev_step, until_ms, 16);
PLACE(schedev_step, attempt, 24);
PLACE(schedev_step, gate_phase, 28);
PLACE(schedev_step, api_version, 32);
PLACE(schedev_step, body, 56);
PLACE(schedev_step, body_len, 64);
PLACE(schedev_step, event, 72);
PLACE(schedev_step, decision, 176);
PLACE(schedev_step, problem, 240);
PLACE(schedev_step, change, 288);
PLACE(schedev_step, by_last_call, 292);
PLACE(schedev_step, own, 293);
PLACE(schedev_step, untracked_own, 296);
PLACE(schedev_step, session, 312);
PLACE(schedev_step, reserved, 320);
SIZE(schedev_machine, 80);
PLACE(schedev_machine, vm_id, 24);
PLACE(schedev_machine, reserved, 48);
SIZE(schedev_waiting, 232);
PLACE(schedev_waiting, decision, 104);
PLACE(schedev_waiting, since_seconds, 168);
PLACE(schedev_waiting, waits_for, 184);
PLACE(schedev_waiting, has_attempt, 192);
PLACE(schedev_waiting, by_last_call, 195);
PLACE(schedev_waiting, reserved, 200);
SIZE(schedev_outcome, 200);
PLACE(schedev_outcome, error, 16);
PLACE(schedev_outcome, reserved, 184);
SIZE(schedev_notification_profile, 16);
PLACE(schedev_notification_profile, not_before_timeout_seconds, 8);
PLACE(schedev_notification_profile, has_not_before_timeout, 12);
PLACE(schedev_notification_profile, enable, 13);
#endif

SIZE(schedev_document, 768);
SIZE(schedev_event_cursor, 64);
SIZE(schedev_notifications, 192);
SIZE(schedev_notification_cursor, 192);
SIZE(schedev_notification_order, 8192);
SIZE(schedev_problem_cursor, 1024);
SIZE(schedev_resource_cursor, 80);

static_assert(SCHEDEV_OK == 0 && SCHEDEV_END == 1 && SCHEDEV_ERROR_INTERNAL == 255, "a status changed its number");

/* Macros must be usable in #if. */
#if SCHEDEV_VERSION_MAJOR < 0 || SCHEDEV_VERSION_NUMBER < 100 || SCHEDEV_SESSION_EVENTS_MAX < 1
#error "impossible"
#endif
