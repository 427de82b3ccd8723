/* The header that `check --policy FILE --as c` printed decides as the file in run.py says. */
#include "policy.h"
#include "expect.h"

static schedev_decision decide(const char *type, const char *source, int duration, const char *name) {
  char body[512];
  schedev_document document;
  schedev_event_cursor cursor = SCHEDEV_CURSOR_INIT;
  schedev_event event;
  schedev_decision decision;
  const schedev_text mine = schedev_text_from("vm_1");
  const schedev_names names = SCHEDEV_NAMES_INIT(&mine, 1);
  const int len = snprintf(body, sizeof body,
                           "{\"Events\":[{\"EventId\":\"a\",\"EventStatus\":\"Scheduled\",\"EventType\":\"%s\","
                           "\"EventSource\":\"%s\",\"DurationInSeconds\":%d,\"Resources\":[\"vm_0\",\"%s\"],"
                           "\"NotBefore\":\"Sun, 13 Sep 2020 12:36:40 GMT\"}]}",
                           type, source, duration, name);
  EXPECT(schedev_document_parse(body, (size_t)len, &document, NULL) == SCHEDEV_OK);
  EXPECT(schedev_document_next(&document, &cursor, &event) == SCHEDEV_OK);
  EXPECT(schedev_decide(&scheduled_events_policy, &event, &names, 1600000000, &decision) == SCHEDEV_OK);
  return decision;
}

int main(void) {
  schedev_decision decision = decide("Reboot", "User", 8, "vm_1");
  EXPECT(decision.rule == 1 && decision.action == SCHEDEV_ACTION_APPROVE && decision.approve_after_seconds == 30);
  EXPECT(decide("Freeze", "User", 2, "vm_1").rule == 1);
  EXPECT(decide("Freeze", "User", 1, "vm_1").rule == 3 && decide("Freeze", "User", 9, "vm_1").rule == 3);
  EXPECT(decide("Freeze", "Platform", 5, "vm_1").rule == 3 && decide("Redeploy", "User", 5, "vm_1").rule == 3);
  decision = decide("Preempt", "Platform", 5, "vm_1");
  EXPECT(decision.rule == 2 && decision.action == SCHEDEV_ACTION_PREPARE);
  EXPECT(decision.has_act_from && decision.act_from_seconds == 1600000600 - 60);
  decision = decide("Preempt", "Platform", 5, "vm_2");
  EXPECT(decision.rule == 3 && decision.action == SCHEDEV_ACTION_IGNORE);
  return 0;
}
