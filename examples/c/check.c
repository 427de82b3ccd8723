/*
 * Prints the events of a saved Scheduled Events document, and what the sample policy would do about them.
 *
 *     check FILE [VM-NAME]
 */
#include <scheduled_events.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Reads a whole file; NULL if that fails. */
static char *read_file(const char *path, size_t *len) {
  FILE *file = fopen(path, "rb");
  char *bytes = NULL;
  size_t capacity = 0;
  *len = 0;
  while (file != NULL) {
    if (*len == capacity) {
      capacity = capacity * 2 + 4096;
      char *more = realloc(bytes, capacity);
      if (more == NULL) {
        break;
      }
      bytes = more;
    }
    size_t read = fread(bytes + *len, 1, capacity - *len, file);
    if (read == 0) {
      fclose(file);
      return bytes;
    }
    *len += read;
  }
  if (file != NULL) {
    fclose(file);
  }
  free(bytes);
  return NULL;
}

/* Prints a text without control characters, which a terminal would act on. */
static void print_text(schedev_text text) {
  char decoded[256];
  size_t len;
  if (schedev_text_copy(text, decoded, sizeof decoded, &len) != SCHEDEV_OK) {
    printf("(%zu bytes)", len);
    return;
  }
  for (size_t i = 0; i < len; i++) {
    putchar((unsigned char)decoded[i] < 0x20 || decoded[i] == 0x7f ? '?' : decoded[i]);
  }
}

static int print_event(schedev_event *event, const schedev_names *names) {
  char when[32] = "unknown";
  size_t needed;
  schedev_text name;
  schedev_decision decision;
  schedev_status status = schedev_decide(schedev_policy_sample(), event, names, (int64_t)time(NULL), &decision);
  if (status != SCHEDEV_OK) {
    fprintf(stderr, "error: %s\n", schedev_status_message((uint32_t)status));
    return 1;
  }
  if (event->has_not_before &&
      schedev_time_format(event->not_before_seconds, when, sizeof when, &needed) != SCHEDEV_OK) {
    return 1;
  }
  print_text(event->event_id);
  printf("\n  ");
  print_text(event->event_type_text);
  printf(", ");
  print_text(event->event_status_text);
  printf(", not before %s", when);
  if (event->has_duration) {
    printf(", for %u s", (unsigned)event->duration_seconds);
  }
  printf("\n  resources:");
  for (size_t i = 0; schedev_event_resource(event, i, &name) == SCHEDEV_OK; i++) {
    putchar(' ');
    print_text(name);
  }
  printf("\n  would %s: %s\n", schedev_action_word(decision.action), schedev_decision_reason(&decision));
  return 0;
}

int main(int argc, char **argv) {
  if (argc < 2) {
    fprintf(stderr, "usage: check FILE [VM-NAME]\n");
    return 2;
  }
  schedev_text name = schedev_text_from(argc > 2 ? argv[2] : NULL);
  schedev_names names = SCHEDEV_NAMES_INIT(&name, argc > 2 ? 1u : 0u);
  size_t len;
  char *body = read_file(argv[1], &len);
  schedev_document document;
  schedev_error error;
  if (body == NULL) {
    fprintf(stderr, "error: cannot read %s\n", argv[1]);
    return 1;
  }
  if (schedev_document_parse(body, len, &document, &error) != SCHEDEV_OK) {
    fprintf(stderr, "error: %s:%u:%u: %s\n", argv[1], (unsigned)error.line, (unsigned)error.column,
            schedev_error_message(&error));
    free(body);
    return 3;
  }
  schedev_event_cursor events = SCHEDEV_CURSOR_INIT;
  schedev_event event;
  int failed = 0;
  while (schedev_document_next(&document, &events, &event) == SCHEDEV_OK) {
    failed |= print_event(&event, &names);
  }
  schedev_problem_cursor problems = SCHEDEV_CURSOR_INIT;
  schedev_problem problem;
  while (schedev_document_next_problem(&document, &problems, &problem) == SCHEDEV_OK) {
    schedev_position at;
    if (schedev_position_of(body, len, problem.offset, &at) == SCHEDEV_OK) {
      printf("%s:%u:%u: %s %s\n", argv[1], (unsigned)at.line, (unsigned)at.column,
             schedev_problem_kind_word(problem.kind), schedev_member_name(problem.member));
    }
  }
  free(body);
  return failed;
}
