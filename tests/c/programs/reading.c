/*
 * Prints the contents of documents in the format of the corpus' expected files, each in a line.
 *
 * Input, any number of times: a line "NOW UNDERSCORED NAMES LENGTH", where NOW is a time and the others are numbers; for each name, a line with
 * its length, and its bytes; then the document of LENGTH bytes. Names and documents can contain NUL and line feeds.
 */
#include "binary.h"
#include "printing.h"

static void event_record(schedev_event *event, const schedev_names *names) {
  size_t rank;
  json_next();
  json_open('{');
  event_members(event);
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

/* Reads and prints one; the result is an exit code, or -1 at the end of the input. */
static int next_document(void) {
  char now_text[64];
  int underscored = 0;
  unsigned long count = 0;
  unsigned long len = 0;
  int found = scanf("%63s %d %lu %lu", now_text, &underscored, &count, &len);
  if (found == EOF) {
    return -1;
  }
  if (found != 4 || getchar() != '\n' || count > SCHEDEV_NAMES_MAX) {
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

int main(void) {
  int code;
  use_binary_streams();
  do {
    code = next_document();
  } while (code == 0);
  return code < 0 ? 0 : code;
}
