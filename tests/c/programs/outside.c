/* Notifications and requests outside the machine: their results, and what is refused. */
#include "expect.h"

#define GROUP "/subscriptions/0b1c2d3e-4f50-4a6b-8c7d-9e0f1a2b3c4d/resourceGroups/web/providers/Microsoft.Compute"
#define EVENTS "/providers/Microsoft.Maintenance/scheduledevents"
#define VERSION "?api-version=2025-10-01-preview"
#define FIRST "743C15D8-A994-46FC-93AF-B84EE33F9A14"
#define SECOND "3da1b9aa-5204-4335-8c33-c54e315dcffe"

static const char body[] = "[{\"type\":\"microsoft.maintenance/scheduledevents\",\"id\":\"" GROUP
                           "/virtualMachines/db\",\"properties\":{\"EventId\":\"" FIRST
                           "\",\"EventStatus\":\"Canceled\",\"Resources\":[\"db\"]}},7]";
static const schedev_text resource = {GROUP "/virtualMachines/db", sizeof GROUP "/virtualMachines/db" - 1, false};
static const schedev_text broken = {"\xff", 1, false};

static void reads_notifications(void) {
  schedev_notifications parsed, zeroed, other;
  schedev_notification_cursor cursor = SCHEDEV_CURSOR_INIT;
  schedev_notification notification;
  schedev_text code;
  schedev_error error;
  memset(&zeroed, 0, sizeof zeroed);
  EXPECT(schedev_notifications_parse(NULL, 1, &parsed, &error) == SCHEDEV_ERROR_NULL);
  EXPECT(schedev_notifications_parse(body, sizeof body - 1, NULL, &error) == SCHEDEV_ERROR_NULL);
  EXPECT(schedev_notifications_parse(body, SIZE_MAX, &parsed, &error) == SCHEDEV_ERROR_ARGUMENT);
  EXPECT(schedev_notifications_parse("7", 1, &parsed, &error) == SCHEDEV_ERROR_PARSE);
  EXPECT(error.kind == SCHEDEV_PARSE_ERROR_NOT_AN_OBJECT && error.line == 1 && error.column == 1);
  EXPECT(schedev_notifications_parse("7", 1, &parsed, NULL) == SCHEDEV_ERROR_PARSE);
  EXPECT(schedev_notifications_next(&zeroed, &cursor, &notification) == SCHEDEV_ERROR_ARGUMENT);
  EXPECT(schedev_notifications_left_out(&zeroed) == 0 && schedev_notifications_left_out(NULL) == 0);
  EXPECT(schedev_notifications_parse(body, sizeof body - 1, &parsed, NULL) == SCHEDEV_OK);
  EXPECT(schedev_notifications_left_out(&parsed) == 1);
  EXPECT(schedev_notifications_validation_code(&parsed, &code) == SCHEDEV_END);
  EXPECT(schedev_notifications_validation_code(&parsed, NULL) == SCHEDEV_ERROR_NULL);
  EXPECT(schedev_notifications_next(&parsed, NULL, &notification) == SCHEDEV_ERROR_NULL);
  EXPECT(schedev_notifications_next(&parsed, &cursor, NULL) == SCHEDEV_ERROR_NULL);
  EXPECT(schedev_notifications_next(&parsed, &cursor, &notification) == SCHEDEV_OK);
  EXPECT(schedev_text_equal(notification.event.event_id, FIRST, strlen(FIRST)));
  EXPECT(notification.state == SCHEDEV_NOTIFICATION_STATE_CANCELED && !notification.has_id && !notification.has_time);
  EXPECT(notification.resource_id.len == resource.len);
  EXPECT(schedev_notifications_parse("[]", 2, &other, NULL) == SCHEDEV_OK);
  EXPECT(schedev_notifications_next(&other, &cursor, &notification) == SCHEDEV_ERROR_ARGUMENT);
  EXPECT(schedev_notifications_next(&parsed, &cursor, &notification) == SCHEDEV_END);
}

static void names_machines(void) {
  const schedev_text name = {"db", 2, false}, none = {"a/b", 3, false};
  char id[200];
  size_t needed = 0;
  EXPECT(schedev_machine_id(resource, name, NULL, 0, &needed) == SCHEDEV_ERROR_BUFFER_TOO_SMALL);
  EXPECT(needed == resource.len);
  EXPECT(schedev_machine_id(resource, name, id, sizeof id, &needed) == SCHEDEV_OK && strcmp(id, resource.data) == 0);
  EXPECT(schedev_machine_id(resource, none, id, sizeof id, &needed) == SCHEDEV_ERROR_RESOURCE_ID);
  EXPECT(schedev_machine_id(none, name, id, sizeof id, &needed) == SCHEDEV_ERROR_RESOURCE_ID);
  EXPECT(schedev_machine_id(broken, name, id, sizeof id, &needed) == SCHEDEV_ERROR_UTF8);
  EXPECT(schedev_machine_id(resource, name, id, sizeof id, NULL) == SCHEDEV_ERROR_NULL);
}

static void writes_requests(void) {
  const schedev_text ids[] = {{FIRST, sizeof FIRST - 1, false}, {SECOND, sizeof SECOND - 1, false}};
  const schedev_text wrong[] = {{"../" SECOND, sizeof "../" SECOND - 1, false}};
  char path[SCHEDEV_ACKNOWLEDGE_PATH_MAX_BYTES], list[100];
  size_t path_len = 0, list_len = 0;
  EXPECT(schedev_acknowledge_request(resource, ids, 1, path, sizeof path, &path_len, NULL, 0, &list_len) == SCHEDEV_OK);
  EXPECT(strcmp(path,
                "/subscriptions/0b1c2d3e-4f50-4a6b-8c7d-9e0f1a2b3c4d/resourcegroups/web/providers/Microsoft.Compute"
                "/virtualMachines/db" EVENTS "/" FIRST "/acknowledge" VERSION) == 0);
  EXPECT(path_len == strlen(path) && list_len == 0);
  EXPECT(schedev_acknowledge_request(resource, ids, 2, path, sizeof path, &path_len, list, sizeof list, &list_len) ==
         SCHEDEV_OK);
  EXPECT(strcmp(list, "{\"value\":[\"" FIRST "\",\"" SECOND "\"]}") == 0 && list_len == strlen(list));
  EXPECT(strstr(path, "/virtualMachines/db" EVENTS VERSION) != NULL);
  /* Both sizes are written whichever buffer is too small. */
  path_len = list_len = 0;
  memset(path, 'x', sizeof path);
  EXPECT(schedev_acknowledge_request(resource, ids, 2, path, 3, &path_len, list, sizeof list, &list_len) ==
         SCHEDEV_ERROR_BUFFER_TOO_SMALL);
  EXPECT(path_len > 100 && list_len == strlen(list));
  EXPECT(schedev_acknowledge_request(resource, ids, 2, path, sizeof path, &path_len, list, 3, &list_len) ==
         SCHEDEV_ERROR_BUFFER_TOO_SMALL);
  EXPECT(path[0] == 'x' && path[path_len] == 'x' && list[0] == '{');
  EXPECT(schedev_acknowledge_request(resource, ids, 0, path, sizeof path, &path_len, list, sizeof list, &list_len) ==
         SCHEDEV_ERROR_ARGUMENT);
  EXPECT(schedev_acknowledge_request(resource, wrong, 1, path, sizeof path, &path_len, list, sizeof list, &list_len) ==
         SCHEDEV_ERROR_EVENT_ID);
  EXPECT(schedev_acknowledge_request(ids[0], ids, 1, path, sizeof path, &path_len, list, sizeof list, &list_len) ==
         SCHEDEV_ERROR_RESOURCE_ID);
  EXPECT(schedev_acknowledge_request(resource, &broken, 1, path, sizeof path, &path_len, list, sizeof list,
                                     &list_len) == SCHEDEV_ERROR_UTF8);
  EXPECT(schedev_acknowledge_request(resource, NULL, 1, path, sizeof path, &path_len, list, sizeof list, &list_len) ==
         SCHEDEV_ERROR_NULL);
  EXPECT(schedev_acknowledge_request(resource, ids, 1, path, sizeof path, NULL, list, sizeof list, &list_len) ==
         SCHEDEV_ERROR_NULL);
}

int main(void) {
  reads_notifications();
  names_machines();
  writes_requests();
  printf("notifications and requests are as expected\n");
  return 0;
}
