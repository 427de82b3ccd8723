/*
 * What a microcontroller links at least: parse, track, decide, approve; no stdio, no heap. Exit status 0 means that the
 * results are as expected. The tests print its size
 * without a C library.
 */
#include "scheduled_events.h"

static const char DOCUMENT[] =
    "{\"DocumentIncarnation\":2,\"Events\":[{\"EventId\":\"C7061BAC\",\"EventStatus\":\"Scheduled\",\"EventType\":"
    "\"Freeze\","
    "\"ResourceType\":\"VirtualMachine\",\"Resources\":[\"WestNO_0\"],\"NotBefore\":\"Mon, 11 Apr 2022 22:26:58 GMT\","
    "\"EventSource\":\"Platform\",\"DurationInSeconds\":5}]}";
static const char BODY[] = "{\"StartRequests\":[{\"EventId\":\"C7061BAC\"}]}";
static const int64_t NOW = 1649715600; /* 2022-04-11T22:20:00Z */

static uint64_t memory[40 * 1024 / 8];

static void on_change(void *context, uint32_t change, const schedev_tracked_event *event) {
  uint32_t *changes = context;
  *changes = *changes * 10 + change + (event->mine ? 0u : 100u);
}

int main(void) {
  schedev_text name = schedev_text_from("westno_0");
  schedev_names names = SCHEDEV_NAMES_INIT(&name, 1);
  schedev_document document;
  schedev_event_cursor cursor = SCHEDEV_CURSOR_INIT;
  schedev_event event;
  schedev_decision decision;
  schedev_tracker *tracker;
  uint32_t changes = 0;
  char body[128];
  size_t len = 0;
  if (schedev_tracker_init(memory, sizeof memory, &tracker) != SCHEDEV_OK ||
      schedev_document_parse(DOCUMENT, sizeof DOCUMENT - 1, &document, NULL) != SCHEDEV_OK ||
      schedev_tracker_observe(tracker, &document, &names, NOW, on_change, &changes, NULL, NULL) != SCHEDEV_OK ||
      schedev_document_next(&document, &cursor, &event) != SCHEDEV_OK ||
      schedev_decide(schedev_policy_sample(), &event, &names, NOW, &decision) != SCHEDEV_OK ||
      decision.action != SCHEDEV_ACTION_APPROVE || decision.time_left_seconds != 418 ||
      schedev_start_requests(&event.event_id, 1, body, sizeof body, &len) != SCHEDEV_OK ||
      schedev_tracker_approved(tracker, event.event_id) != SCHEDEV_OK) {
    return 1;
  }
  for (size_t i = 0; i < sizeof BODY; i++) {
    if (body[i] != BODY[i]) {
      return 1;
    }
  }
  return changes == SCHEDEV_CHANGE_SCHEDULED && len == sizeof BODY - 1 ? 0 : 1;
}
