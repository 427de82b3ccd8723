/*
 * Follows the documents of its input with one tracker, and prints each change and the body that approves what the sample
 * policy approves. The input is any number of requests in the format of reading.c. This newlib has no %zu.
 */
#include "../programs/json.h"
#include "scheduled_events.h"

static void on_change(void *context, uint32_t change, const schedev_tracked_event *event) {
  (void)context;
  printf("  %s ", schedev_change_word(change));
  json_string(event->event_id.data, event->event_id.len);
  printf(" %lld %u %d\n", (long long)event->not_before_seconds, (unsigned)event->event_status, event->mine);
}

static void approve(schedev_tracker *tracker, const schedev_document *document, const schedev_names *names,
                    int64_t now) {
  schedev_event_cursor cursor = SCHEDEV_CURSOR_INIT;
  schedev_event event;
  schedev_decision decision;
  char body[1024];
  size_t len;
  while (schedev_document_next(document, &cursor, &event) == SCHEDEV_OK) {
    if (schedev_decide(schedev_policy_sample(), &event, names, now, &decision) == SCHEDEV_OK &&
        decision.action == SCHEDEV_ACTION_APPROVE) {
      int written = (int)schedev_start_requests(&event.event_id, 1, body, sizeof body, &len);
      int known = (int)schedev_tracker_approved(tracker, event.event_id);
      printf("  approve %d %d %s\n", written, known, written == SCHEDEV_OK ? body : "");
    }
  }
}

int main(void) {
  char now_text[64];
  int underscored;
  unsigned long count, len;
  schedev_tracker *tracker;
  if (schedev_tracker_init(malloc(schedev_tracker_size()), schedev_tracker_size(), &tracker) != SCHEDEV_OK) {
    return 1;
  }
  for (int index = 0; scanf("%63s %d %lu %lu", now_text, &underscored, &count, &len) == 4; index++) {
    int64_t now = 0;
    schedev_text items[SCHEDEV_NAMES_MAX];
    schedev_document document;
    schedev_error error;
    (void)(schedev_time_parse(now_text, strlen(now_text), &now) == SCHEDEV_OK);
    if (getchar() != '\n' || count > SCHEDEV_NAMES_MAX) {
      return 2;
    }
    for (unsigned long i = 0; i < count; i++) {
      unsigned long name_len;
      if (scanf("%lu", &name_len) != 1 || getchar() != '\n') {
        return 2;
      }
      items[i] = (schedev_text){read_exactly(name_len), name_len, false};
    }
    schedev_names names = SCHEDEV_NAMES_INIT(items, count);
    names.underscored = underscored != 0;
    char *body = read_exactly(len);
    printf("%d\n", index);
    if (schedev_document_parse(body, len, &document, &error) != SCHEDEV_OK) {
      printf("  refused %u:%u: %s\n", (unsigned)error.line, (unsigned)error.column, schedev_error_message(&error));
    } else {
      size_t ignored = 0, needed = 0;
      int status = (int)schedev_tracker_observe(tracker, &document, &names, now, on_change, NULL, &ignored, &needed);
      size_t events = schedev_tracker_event_count(tracker);
      printf("  observed %d %u %u, %u events\n", status, (unsigned)ignored, (unsigned)needed, (unsigned)events);
      approve(tracker, &document, &names, now);
    }
    free(body);
    for (unsigned long i = 0; i < count; i++) {
      free((void *)(uintptr_t)items[i].data);
    }
  }
  return 0;
}
