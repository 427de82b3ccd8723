/*
 * Prints the contents of a document in the format of the corpus' expected files.
 *
 * Input: a line "NOW UNDERSCORED NAMES LENGTH", where NOW is a time and the others are numbers; for each name, a line with
 * its length, and its bytes; then the document of LENGTH bytes. Names and documents can contain NUL and line feeds.
 */
#include "binary.h"
#include "json.h"
#include "scheduled_events.h"

static void check(schedev_status status, const char *what) {
  if (status != SCHEDEV_OK) {
    fprintf(stderr, "error: %s: %s\n", what, schedev_status_message((uint32_t)status));
    exit(1);
  }
}

static void text(schedev_text view) {
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

static void text_or_null(bool there, schedev_text view) {
  if (there) {
    text(view);
  } else {
    printf("null");
  }
}

static void resources(schedev_event *event) {
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

static void event_record(schedev_event *event, const schedev_names *names) {
  char time[32];
  size_t needed;
  size_t rank;
  json_next();
  json_open('{');
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
  json_name("mine");
  if (names->count == 0) {
    printf("null");
  } else {
    printf("%s", schedev_event_rank(event, names, &rank) == SCHEDEV_OK ? "true" : "false");
  }
  json_close('}');
}

static void problem_record(const schedev_problem *problem, const char *body, size_t len) {
  schedev_position position;
  const char *member = schedev_member_name(problem->member);
  check(schedev_position_of(body, len, problem->offset, &position), "position");
  json_next();
  json_open('{');
  json_name("event");
  if (problem->has_event) {
    printf("%lu", (unsigned long)problem->event_index);
  } else {
    printf("null");
  }
  json_name("member");
  if (problem->member == SCHEDEV_MEMBER_NONE) {
    printf("null");
  } else {
    json_string(member, strlen(member));
  }
  json_name("kind");
  json_string(schedev_problem_kind_word(problem->kind), strlen(schedev_problem_kind_word(problem->kind)));
  json_name("line");
  printf("%u", (unsigned)position.line);
  json_name("column");
  printf("%u", (unsigned)position.column);
  json_close('}');
}

static void refused(const schedev_error *error) {
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

static void incarnation_of(const schedev_document *document) {
  schedev_incarnation incarnation;
  check(schedev_document_incarnation(document, &incarnation), "incarnation");
  json_name("incarnation");
  if (incarnation.kind == SCHEDEV_INCARNATION_NUMBER) {
    printf("%llu", (unsigned long long)incarnation.number);
  } else {
    text_or_null(incarnation.kind == SCHEDEV_INCARNATION_TEXT, incarnation.text);
  }
}

static void decisions_of(const schedev_document *document, const schedev_names *names, int64_t now) {
  schedev_event_cursor cursor = SCHEDEV_CURSOR_INIT;
  schedev_event event;
  json_name("decisions");
  json_open('[');
  while (schedev_document_next(document, &cursor, &event) == SCHEDEV_OK) {
    schedev_decision decision;
    check(schedev_decide(schedev_policy_sample(), &event, names, now, &decision), "decision");
    if (strlen(schedev_decision_reason(&decision)) == 0) {
      fprintf(stderr, "error: a decision without a reason\n");
      exit(1);
    }
    json_next();
    json_open('{');
    json_name("event_id");
    text(event.event_id);
    json_name("action");
    json_string(schedev_action_word(decision.action), strlen(schedev_action_word(decision.action)));
    json_name("rule");
    if (decision.rule > 0) {
      printf("%u", (unsigned)decision.rule);
    } else {
      printf("null");
    }
    json_close('}');
  }
  json_close(']');
}

int main(void) {
  use_binary_streams();
  char now_text[64];
  int underscored = 0;
  unsigned long count = 0;
  unsigned long len = 0;
  if (scanf("%63s %d %lu %lu", now_text, &underscored, &count, &len) != 4 || getchar() != '\n' ||
      count > SCHEDEV_NAMES_MAX) {
    return 2;
  }
  int64_t now = 0;
  (void)(schedev_time_parse(now_text, strlen(now_text), &now) == SCHEDEV_OK);
  schedev_text items[SCHEDEV_NAMES_MAX];
  for (unsigned long i = 0; i < count; i++) {
    unsigned long name_len = 0;
    if (scanf("%lu", &name_len) != 1 || getchar() != '\n') {
      return 2;
    }
    items[i].data = read_exactly(name_len);
    items[i].len = name_len;
    items[i].escaped = false;
  }
  schedev_names names = SCHEDEV_NAMES_INIT(items, count);
  names.underscored = underscored != 0;
  char *body = read_exactly(len);

  schedev_document document;
  schedev_error error;
  schedev_status status = schedev_document_parse(body, len, &document, &error);
  if (status == SCHEDEV_ERROR_PARSE) {
    refused(&error);
  } else {
    check(status, "parse");
    json_open('{');
    incarnation_of(&document);
    json_name("events");
    json_open('[');
    schedev_event_cursor events = SCHEDEV_CURSOR_INIT;
    schedev_event event;
    size_t seen = 0;
    while (schedev_document_next(&document, &events, &event) == SCHEDEV_OK) {
      event_record(&event, &names);
      seen++;
    }
    json_close(']');
    if (seen != schedev_document_event_count(&document)) {
      fprintf(stderr, "error: the count of events is wrong\n");
      return 1;
    }
    json_name("problems");
    json_open('[');
    schedev_problem_cursor problems = SCHEDEV_CURSOR_INIT;
    schedev_problem problem;
    while (schedev_document_next_problem(&document, &problems, &problem) == SCHEDEV_OK) {
      problem_record(&problem, body, len);
    }
    json_close(']');
    decisions_of(&document, &names, now);
    json_close('}');
  }
  putchar('\n');
  free(body);
  for (unsigned long i = 0; i < count; i++) {
    free((void *)(uintptr_t)items[i].data);
  }
  return 0;
}
