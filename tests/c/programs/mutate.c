/*
 * Parses every prefix of the given documents, and COUNT mutations of them, and passes them to a session.
 *
 *     mutate COUNT FILE...
 *
 * Each document is in memory of exactly its size, so that a sanitizer detects an invalid read.
 */
#include "expect.h"

static uint64_t state = 0x9e3779b97f4a7c15;

static uint64_t next_random(void) {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return state;
}

static union {
  unsigned char bytes[1 << 17];
  uint64_t align;
} memory;

static schedev_session *session;
static int64_t now = 0;
static unsigned long accepted = 0;

static void read_text(schedev_text text) {
  char buffer[32];
  size_t needed = 0;
  schedev_status status = schedev_text_copy(text, buffer, sizeof buffer, &needed);
  EXPECT(status == SCHEDEV_OK ? needed <= sizeof buffer : status == SCHEDEV_ERROR_BUFFER_TOO_SMALL);
  EXPECT(status != SCHEDEV_OK || schedev_text_equal(text, buffer, needed));
}

static void read_event(schedev_event *event) {
  schedev_resource_cursor cursor = SCHEDEV_CURSOR_INIT;
  schedev_decision decision;
  schedev_text name = schedev_text_from("web_0");
  schedev_text resources[3];
  size_t count;
  schedev_names names = SCHEDEV_NAMES_INIT(&name, 1);
  names.underscored = next_random() % 2 == 0;
  char body[128];
  size_t needed;
  read_text(event->event_id);
  read_text(event->event_type_text);
  read_text(event->event_status_text);
  read_text(event->event_source_text);
  read_text(event->resource_type);
  read_text(event->description);
  read_text(event->not_before_unreadable);
  while (schedev_event_next_resources(event, &cursor, resources, 1 + next_random() % 3, &count) == SCHEDEV_OK) {
    for (size_t i = 0; i < count; i++) {
      read_text(resources[i]);
    }
  }
  EXPECT(schedev_event_resource(event, next_random() % 4, &name) <= SCHEDEV_END);
  schedev_status decided = schedev_decide(schedev_policy_sample(), event, &names, now, &decision);
  if (name.len == 0) {
    EXPECT(decided == SCHEDEV_ERROR_ARGUMENT);
    return;
  }
  EXPECT(decided == SCHEDEV_OK);
  EXPECT(decision.action != SCHEDEV_ACTION_APPROVE || event->unreliable_member == SCHEDEV_MEMBER_NONE);
  EXPECT(schedev_start_requests(&event->event_id, 1, body, sizeof body, &needed) <= SCHEDEV_ERROR_BUFFER_TOO_SMALL);
}

static void read_document(const char *body, size_t len) {
  schedev_document document;
  schedev_error error;
  schedev_status status = schedev_document_parse(body, len, &document, &error);
  if (status != SCHEDEV_OK) {
    EXPECT(status == SCHEDEV_ERROR_PARSE && error.offset <= len && error.line > 0 && error.column > 0);
  } else {
    schedev_event_cursor events = SCHEDEV_CURSOR_INIT;
    schedev_problem_cursor problems = SCHEDEV_CURSOR_INIT;
    schedev_event event;
    schedev_problem problem;
    accepted++;
    while (schedev_document_next(&document, &events, &event) == SCHEDEV_OK) {
      read_event(&event);
    }
    while (schedev_document_next_problem(&document, &problems, &problem) == SCHEDEV_OK) {
      EXPECT(problem.offset < len);
    }
  }
  /* The session gets the same bytes as a response. */
  schedev_step step;
  schedev_response response = SCHEDEV_RESPONSE_INIT;
  response.http_status = 200;
  response.body = body;
  response.body_len = len;
  for (int i = 0; i < 4; i++) {
    EXPECT(schedev_session_next(session, now, &step) == SCHEDEV_OK);
    if (step.kind == SCHEDEV_STEP_GET || step.kind == SCHEDEV_STEP_POST) {
      EXPECT(schedev_session_on_response(session, &response, now, NULL) == SCHEDEV_OK);
    } else if (step.kind == SCHEDEV_STEP_WAIT) {
      now = step.until_ms;
    } else if (step.kind == SCHEDEV_STEP_PREPARE) {
      EXPECT(schedev_session_prepared(session, step.attempt, SCHEDEV_PREPARATION_READY, NULL) == SCHEDEV_OK);
    } else if (step.kind == SCHEDEV_STEP_RECOVER) {
      EXPECT(schedev_session_recovered(session, step.attempt, true, now, NULL) == SCHEDEV_OK);
    }
  }
}

static size_t load(const char *path, char **bytes) {
  FILE *file = fopen(path, "rb");
  EXPECT(file != NULL);
  EXPECT(fseek(file, 0, SEEK_END) == 0);
  size_t len = (size_t)ftell(file);
  rewind(file);
  *bytes = (char *)malloc(len + 1);
  EXPECT(*bytes != NULL && fread(*bytes, 1, len, file) == len);
  fclose(file);
  return len;
}

/* Changes, removes, duplicates or moves a few bytes. */
static size_t mutate(char *bytes, size_t len, size_t capacity) {
  static const char marks[] = "{}[],:\"\\u0eE+-.tfn \n\0\xc3\xff";
  for (uint64_t changes = 1 + next_random() % 4; changes > 0 && len > 0; changes--) {
    size_t at = (size_t)(next_random() % len);
    size_t span = 1 + (size_t)(next_random() % (len - at < 24 ? len - at : 24));
    switch (next_random() % 5) {
    case 0:
      bytes[at] = (char)(bytes[at] ^ (1 << next_random() % 8));
      break;
    case 1:
      bytes[at] = marks[next_random() % (sizeof marks - 1)];
      break;
    case 2:
      memmove(bytes + at, bytes + at + span, len - at - span);
      len -= span;
      break;
    case 3:
      if (len + span <= capacity) {
        memmove(bytes + at + span, bytes + at, len - at);
        len += span;
      }
      break;
    default:
      memmove(bytes + at, bytes + next_random() % (len - span + 1), span);
      break;
    }
  }
  return len;
}

int main(int argc, char **argv) {
  EXPECT(argc > 2);
  unsigned long count = strtoul(argv[1], NULL, 10);
  unsigned long prefixes = 0;
  schedev_rule rule = {.action = SCHEDEV_ACTION_PREPARE, .scope = SCHEDEV_SCOPE_ANY};
  schedev_text name = schedev_text_from("web_0");
  schedev_names names = SCHEDEV_NAMES_INIT(&name, 1);
  schedev_policy policy = SCHEDEV_POLICY_INIT;
  schedev_session_config config = SCHEDEV_SESSION_CONFIG_INIT;
  policy.rules = &rule;
  policy.rule_count = 1;
  config.policy = &policy;
  config.names = &names;
  EXPECT(schedev_session_init(memory.bytes, sizeof memory.bytes, &config, &session) == SCHEDEV_OK);
  for (int i = 2; i < argc; i++) {
    char *whole;
    size_t len = load(argv[i], &whole);
    for (size_t end = 0; end <= len; end++, prefixes++) {
      char *exact = (char *)malloc(end);
      EXPECT(exact != NULL || end == 0);
      memcpy(exact, whole, end);
      read_document(exact, end);
      free(exact);
    }
    unsigned long share = count / (unsigned long)(argc - 2) + 1;
    for (unsigned long n = 0; n < share; n++) {
      char mutated[4096];
      size_t size = len < sizeof mutated / 2 ? len : sizeof mutated / 2;
      memcpy(mutated, whole, size);
      size = mutate(mutated, size, sizeof mutated);
      char *exact = (char *)malloc(size);
      EXPECT(exact != NULL || size == 0);
      memcpy(exact, mutated, size);
      read_document(exact, size);
      free(exact);
    }
    free(whole);
  }
  printf("%lu prefixes and %lu mutations, %lu of them valid\n", prefixes,
         (count / (unsigned long)(argc - 2) + 1) * (unsigned long)(argc - 2), accepted);
  return 0;
}
