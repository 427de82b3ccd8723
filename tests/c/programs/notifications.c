/* Prints the notifications in the standard input, in the format of the corpus' expected files. */
#include "binary.h"
#include "printing.h"

static void number_or_null(bool there, int64_t number) {
  if (there) {
    printf("%lld", (long long)number);
  } else {
    printf("null");
  }
}

/* The ids of the machines; null if the resource is none of Azure Resource Manager, and for a name that no machine has. */
static void machines(const schedev_notification *notification) {
  const schedev_text valid = {"vm", 2, false};
  schedev_resource_cursor cursor = SCHEDEV_CURSOR_INIT;
  schedev_text name;
  char id[300];
  size_t count, needed;
  if (schedev_machine_id(notification->resource_id, valid, id, sizeof id, &needed) != SCHEDEV_OK) {
    printf("null");
    return;
  }
  json_open('[');
  while (schedev_event_next_resources(&notification->event, &cursor, &name, 1, &count) == SCHEDEV_OK) {
    schedev_status status = schedev_machine_id(notification->resource_id, name, id, sizeof id, &needed);
    json_next();
    if (status == SCHEDEV_ERROR_RESOURCE_ID) {
      printf("null");
    } else {
      check(status, "machine");
      json_string(id, needed);
    }
  }
  json_close(']');
}

static void state(const schedev_notification *notification) {
  static const char *const words[] = {"", "scheduled", "started", "completed", "canceled", "advisory"};
  if (notification->state < sizeof words / sizeof *words) {
    json_string(words[notification->state], strlen(words[notification->state]));
  } else {
    text(notification->event.event_status_text);
  }
}

int main(void) {
  static char body[1 << 20];
  schedev_notifications notifications;
  schedev_notification_cursor cursor = SCHEDEV_CURSOR_INIT;
  schedev_notification notification;
  schedev_text code;
  schedev_error error;
  use_binary_streams();
  size_t len = fread(body, 1, sizeof body, stdin);
  schedev_status status = schedev_notifications_parse(body, len, &notifications, &error);
  if (status == SCHEDEV_ERROR_PARSE) {
    refused(&error);
    return 0;
  }
  check(status, "parse");
  json_open('{');
  json_name("notifications");
  json_open('[');
  while (schedev_notifications_next(&notifications, &cursor, &notification) == SCHEDEV_OK) {
    json_next();
    json_open('{');
    json_name("id");
    text_or_null(notification.has_id, notification.id);
    json_name("time_ms");
    number_or_null(notification.has_time, notification.time_ms);
    json_name("resource_id");
    text(notification.resource_id);
    json_name("state");
    state(&notification);
    json_name("machines");
    machines(&notification);
    json_name("event");
    json_open('{');
    event_members(&notification.event);
    json_close('}');
    json_close('}');
  }
  json_close(']');
  json_name("left_out");
  printf("%lu", (unsigned long)schedev_notifications_left_out(&notifications));
  json_name("validation_code");
  text_or_null(schedev_notifications_validation_code(&notifications, &code) == SCHEDEV_OK, code);
  json_close('}');
  return 0;
}
