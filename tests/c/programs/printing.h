/* Prints texts, events and errors in the format of the corpus' expected files. */
#ifndef TESTS_C_PRINTING_H
#define TESTS_C_PRINTING_H

#include "json.h"
#include "scheduled_events.h"

static inline void check(schedev_status status, const char *what) {
  if (status != SCHEDEV_OK) {
    fprintf(stderr, "error: %s: %s\n", what, schedev_status_message((uint32_t)status));
    exit(1);
  }
}

static inline void text(schedev_text view) {
  size_t needed = 0;
  schedev_status status = schedev_text_copy(view, NULL, 0, &needed);
  char *decoded = (char *)malloc(needed + 1);
  if (decoded == NULL || (status != SCHEDEV_ERROR_BUFFER_TOO_SMALL && needed > 0)) {
    exit(1);
  }
  check(schedev_text_copy(view, decoded, needed + 1, &needed), "text");
  if (decoded[needed] != '\0' || !schedev_text_equal(view, decoded, needed)) {
    fprintf(stderr, "error: a text does not equal its copy\n");
    exit(1);
  }
  json_string(decoded, needed);
  free(decoded);
}

static inline void text_or_null(bool there, schedev_text view) {
  if (there) {
    text(view);
  } else {
    printf("null");
  }
}

static inline void resources(schedev_event *event) {
  if (!event->has_resources) {
    printf("null");
    return;
  }
  schedev_resource_cursor cursor = SCHEDEV_CURSOR_INIT;
  schedev_text names[2];
  schedev_text same;
  size_t count;
  size_t index = 0;
  json_open('[');
  while (schedev_event_next_resources(event, &cursor, names, 2, &count) == SCHEDEV_OK) {
    for (size_t i = 0; i < count; i++) {
      check(schedev_event_resource(event, index++, &same), "resource");
      if (same.data != names[i].data || same.len != names[i].len) {
        fprintf(stderr, "error: the index and the cursor disagree\n");
        exit(1);
      }
      json_next();
      text(names[i]);
    }
  }
  if (schedev_event_resource(event, index, &same) != SCHEDEV_END) {
    fprintf(stderr, "error: the index goes further than the cursor\n");
    exit(1);
  }
  json_close(']');
}

/* The nine members that an event has by itself. */
static inline void event_members(schedev_event *event) {
  char time[32];
  size_t needed;
  json_name("event_id");
  text(event->event_id);
  json_name("event_type");
  text_or_null(event->event_type != SCHEDEV_EVENT_TYPE_NONE, event->event_type_text);
  json_name("event_status");
  text_or_null(event->event_status != SCHEDEV_EVENT_STATUS_NONE, event->event_status_text);
  json_name("resource_type");
  text_or_null(event->has_resource_type, event->resource_type);
  json_name("resources");
  resources(event);
  json_name("not_before");
  if (event->has_not_before) {
    check(schedev_time_format(event->not_before_seconds, time, sizeof time, &needed), "time");
    json_string(time, needed);
  } else {
    printf("null");
  }
  json_name("description");
  text_or_null(event->has_description, event->description);
  json_name("event_source");
  text_or_null(event->event_source != SCHEDEV_EVENT_SOURCE_NONE, event->event_source_text);
  json_name("duration_in_seconds");
  if (event->has_duration) {
    printf("%u", (unsigned)event->duration_seconds);
  } else {
    printf("null");
  }
}

static inline void refused(const schedev_error *error) {
  json_open('{');
  json_name("error");
  json_open('{');
  json_name("kind");
  json_string(schedev_parse_error_word(error->kind), strlen(schedev_parse_error_word(error->kind)));
  json_name("line");
  printf("%u", (unsigned)error->line);
  json_name("column");
  printf("%u", (unsigned)error->column);
  json_close('}');
  json_close('}');
}

#endif
