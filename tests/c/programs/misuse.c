/* Invalid arguments: NULL, unknown numbers, objects that are not initialised. Each is refused, and nothing is written. */
#include "expect.h"

static const char body[] = DOCUMENT("Scheduled");
static const schedev_text plain = {"vm_0", 4, false};

/* Whether the bytes are as memset() has set them. */
static bool untouched(const void *memory, size_t size) {
  for (size_t i = 0; i < size; i++) {
    if (((const unsigned char *)memory)[i] != 0xa5) {
      return false;
    }
  }
  return true;
}

static void texts(void) {
  char buffer[16];
  size_t needed = 99;
  schedev_text escaped = {"a\\u00e9\\n", 9, true};
  schedev_text broken = {"\xff", 1, false};
  schedev_text null = {NULL, 3, false};
  schedev_text none = {NULL, 0, false};
  memset(buffer, 0xa5, sizeof buffer);
  EXPECT(schedev_text_copy(escaped, buffer, 3, &needed) == SCHEDEV_ERROR_BUFFER_TOO_SMALL && needed == 4);
  EXPECT(untouched(buffer, sizeof buffer));
  EXPECT(schedev_text_copy(escaped, buffer, 4, &needed) == SCHEDEV_OK && needed == 4);
  EXPECT(memcmp(buffer, "a\xc3\xa9\n\xa5", 5) == 0);
  EXPECT(schedev_text_copy(escaped, buffer, 5, &needed) == SCHEDEV_OK && strcmp(buffer, "a\xc3\xa9\n") == 0);
  EXPECT(schedev_text_copy(plain, NULL, 0, &needed) == SCHEDEV_ERROR_BUFFER_TOO_SMALL && needed == 4);
  EXPECT(schedev_text_copy(none, NULL, 0, &needed) == SCHEDEV_OK && needed == 0);
  EXPECT(schedev_text_copy(plain, NULL, 9, &needed) == SCHEDEV_ERROR_NULL);
  EXPECT(schedev_text_copy(plain, buffer, sizeof buffer, NULL) == SCHEDEV_ERROR_NULL);
  EXPECT(schedev_text_copy(null, buffer, sizeof buffer, &needed) == SCHEDEV_ERROR_NULL);
  EXPECT(schedev_text_copy(broken, buffer, sizeof buffer, &needed) == SCHEDEV_ERROR_UTF8);
  EXPECT(schedev_text_copy_printable(escaped, buffer, sizeof buffer, &needed) == SCHEDEV_OK && needed == 8);
  EXPECT(strcmp(buffer, "a\xc3\xa9\\u{a}") == 0);
  EXPECT(schedev_text_copy_printable(escaped, buffer, 7, &needed) == SCHEDEV_ERROR_BUFFER_TOO_SMALL && needed == 8);
  EXPECT(schedev_text_copy_printable(plain, buffer, 4, &needed) == SCHEDEV_OK && memcmp(buffer, plain.data, 4) == 0);
  EXPECT(schedev_text_copy_printable(broken, buffer, sizeof buffer, &needed) == SCHEDEV_ERROR_UTF8);
  EXPECT(schedev_text_copy_printable(none, NULL, 0, &needed) == SCHEDEV_OK && needed == 0);
  EXPECT(schedev_text_equal(escaped, "a\xc3\xa9\n", 4) && !schedev_text_equal(escaped, "a\xc3\xa9", 3));
  EXPECT(!schedev_text_equal(plain, "VM_0", 4) && schedev_text_equal_ignore_case(plain, "VM_0", 4));
  EXPECT(!schedev_text_equal(plain, NULL, 4) && schedev_text_equal(none, NULL, 0));
  EXPECT(schedev_text_from(NULL).len == 0 && schedev_text_from("vm_0").len == 4);
}

static void documents(void) {
  schedev_document document, zeroed;
  schedev_error error;
  schedev_event event;
  schedev_text name;
  schedev_event_cursor cursor = SCHEDEV_CURSOR_INIT;
  memset(&zeroed, 0, sizeof zeroed);
  memset(&document, 0xa5, sizeof document);
  memset(&event, 0xa5, sizeof event);
  memset(&error, 0xa5, sizeof error);
  EXPECT(schedev_document_parse(NULL, 1, &document, &error) == SCHEDEV_ERROR_NULL);
  EXPECT(schedev_document_parse(body, sizeof body - 1, NULL, &error) == SCHEDEV_ERROR_NULL);
  EXPECT(schedev_document_parse(body, SIZE_MAX, &document, &error) == SCHEDEV_ERROR_ARGUMENT);
  EXPECT(untouched(&error, sizeof error));
  EXPECT(schedev_document_parse(NULL, 0, &document, &error) == SCHEDEV_ERROR_PARSE);
  EXPECT(error.kind == SCHEDEV_PARSE_ERROR_UNEXPECTED_END && error.line == 1 && error.column == 1);
  EXPECT(schedev_document_parse("[]", 2, &document, NULL) == SCHEDEV_ERROR_PARSE);
  EXPECT(untouched(&document, sizeof document));
  EXPECT(schedev_document_next(&document, &cursor, &event) == SCHEDEV_ERROR_ARGUMENT);
  EXPECT(schedev_document_next(&zeroed, &cursor, &event) == SCHEDEV_ERROR_ARGUMENT);
  EXPECT(schedev_document_next(NULL, &cursor, &event) == SCHEDEV_ERROR_NULL);
  EXPECT(schedev_document_event_count(NULL) == 0 && schedev_document_event_count(&zeroed) == 0);

  EXPECT(schedev_document_parse(body, sizeof body - 1, &document, NULL) == SCHEDEV_OK);
  EXPECT(schedev_document_next(&document, NULL, &event) == SCHEDEV_ERROR_NULL);
  EXPECT(schedev_document_next(&document, &cursor, NULL) == SCHEDEV_ERROR_NULL);
  schedev_event_cursor stray;
  memset(&stray, 0xa5, sizeof stray);
  EXPECT(schedev_document_next(&document, &stray, &event) == SCHEDEV_ERROR_ARGUMENT);
  EXPECT(untouched(&event, sizeof event));
  EXPECT(schedev_event_resource(&event, 0, &name) == SCHEDEV_ERROR_ARGUMENT);
  EXPECT(schedev_document_next(&document, &cursor, &event) == SCHEDEV_OK);
  EXPECT(event.unreliable_member == SCHEDEV_MEMBER_RESOURCES || event.unreliable_member != SCHEDEV_MEMBER_NONE);

  /* Indices in any order. */
  const size_t order[] = {0, 1, 2, 1, 0, 9, 2, SIZE_MAX, 0, SIZE_MAX, 3, 1};
  const char *const names[] = {"vm_0", "vm_1", "vm_2"};
  for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
    schedev_status status = schedev_event_resource(&event, order[i], &name);
    EXPECT(status == (order[i] < 3 ? SCHEDEV_OK : SCHEDEV_END));
    EXPECT(status != SCHEDEV_OK || schedev_text_equal(name, names[order[i]], 4));
  }
  EXPECT(schedev_event_resource(&event, 0, NULL) == SCHEDEV_ERROR_NULL);
  EXPECT(schedev_event_resource(NULL, 0, &name) == SCHEDEV_ERROR_NULL);

  /* A cursor that has given nothing can be used with another document. */
  static const char empty_body[] = "{\"Events\":[]}";
  schedev_document empty;
  schedev_event_cursor fresh = SCHEDEV_CURSOR_INIT;
  EXPECT(schedev_document_parse(empty_body, sizeof empty_body - 1, &empty, NULL) == SCHEDEV_OK);
  EXPECT(schedev_document_next(&empty, &fresh, &event) == SCHEDEV_END);
  EXPECT(schedev_document_next(&document, &fresh, &event) == SCHEDEV_OK);

  schedev_problem_cursor none = SCHEDEV_CURSOR_INIT;
  schedev_problem problem;
  EXPECT(schedev_document_next_problem(&empty, &none, &problem) == SCHEDEV_END);
  EXPECT(none.opaque[0] == 0);

  /* A document in the memory of an earlier one: a cursor of the earlier one is refused if the incarnation differs. */
  static char buffer[256];
  static const char two[] = "{\"DocumentIncarnation\":1,\"Events\":[{\"EventId\":\"a\"},{\"EventId\":\"b\"}]}";
  static const char next[] = "{\"DocumentIncarnation\":2,\"Events\":[{\"EventId\":\"c\"},{\"EventId\":\"d\"}]}";
  static const char same[] =
      "{\"DocumentIncarnation\":1,\"Events\":[\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"12\"]}";
  schedev_document reused;
  schedev_event another;
  schedev_event_cursor old = SCHEDEV_CURSOR_INIT;
  EXPECT(sizeof two == sizeof next && sizeof two == sizeof same);
  memcpy(buffer, two, sizeof two);
  EXPECT(schedev_document_parse(buffer, sizeof two - 1, &reused, NULL) == SCHEDEV_OK);
  EXPECT(schedev_document_next(&reused, &old, &another) == SCHEDEV_OK);
  schedev_event_cursor stale = old;
  schedev_document copy = reused;
  EXPECT(schedev_document_next(&copy, &old, &another) == SCHEDEV_OK);
  memcpy(buffer, next, sizeof next);
  EXPECT(schedev_document_parse(buffer, sizeof next - 1, &reused, NULL) == SCHEDEV_OK);
  EXPECT(schedev_document_next(&reused, &old, &another) == SCHEDEV_ERROR_ARGUMENT);
  /* With the same length and incarnation it is not recognised, and the call is still safe. */
  memcpy(buffer, same, sizeof same);
  EXPECT(schedev_document_parse(buffer, sizeof same - 1, &reused, NULL) == SCHEDEV_OK);
  EXPECT(schedev_document_next(&reused, &stale, &another) <= SCHEDEV_END);

  /* An empty name is refused. */
  schedev_text nothing = schedev_text_from("");
  schedev_names nameless = {.items = &nothing, .count = 1};
  schedev_decision undecided;
  EXPECT(schedev_decide(schedev_policy_sample(), &event, &nameless, 0, &undecided) == SCHEDEV_ERROR_ARGUMENT);

  /* A cursor of another document or event is refused. */
  static const char other_body[] = DOCUMENT("Started");
  schedev_document other;
  EXPECT(schedev_document_parse(other_body, sizeof other_body - 1, &other, NULL) == SCHEDEV_OK);
  EXPECT(schedev_document_next(&other, &cursor, &event) == SCHEDEV_ERROR_ARGUMENT);
  schedev_resource_cursor resources = SCHEDEV_CURSOR_INIT;
  schedev_text places[4];
  size_t count = 0;
  EXPECT(schedev_event_next_resources(&event, &resources, places, 2, &count) == SCHEDEV_OK && count == 2);
  EXPECT(schedev_text_equal(places[1], "vm_1", 4));
  EXPECT(schedev_event_next_resources(&event, &resources, places, 0, &count) == SCHEDEV_ERROR_ARGUMENT);
  EXPECT(schedev_event_next_resources(&event, &resources, NULL, 4, &count) == SCHEDEV_ERROR_NULL);
  EXPECT(schedev_event_next_resources(&event, NULL, places, 4, &count) == SCHEDEV_ERROR_NULL);
  EXPECT(schedev_event_next_resources(NULL, &resources, places, 4, &count) == SCHEDEV_ERROR_NULL);
  EXPECT(schedev_event_next_resources(&event, &resources, places, 4, NULL) == SCHEDEV_ERROR_NULL && count == 2);
  EXPECT(schedev_event_next_resources(&event, &resources, places, 4, &count) == SCHEDEV_OK && count == 1);
  EXPECT(schedev_text_equal(places[0], "vm_2", 4));
  EXPECT(schedev_event_next_resources(&event, &resources, places, 4, &count) == SCHEDEV_END && count == 1);
  EXPECT(schedev_document_next(&document, &cursor, &event) == SCHEDEV_OK);
  EXPECT(schedev_event_next_resources(&event, &resources, places, 4, &count) == SCHEDEV_ERROR_ARGUMENT);
  while (schedev_document_next(&document, &cursor, &event) == SCHEDEV_OK) {
  }
  EXPECT(schedev_document_next(&document, &cursor, &event) == SCHEDEV_END);
}

static void decisions(void) {
  schedev_document document;
  schedev_event event;
  schedev_event_cursor cursor = SCHEDEV_CURSOR_INIT;
  schedev_decision decision;
  schedev_rule rule, rules[SCHEDEV_RULES_MAX + 1];
  schedev_policy policy = SCHEDEV_POLICY_INIT;
  schedev_text items[SCHEDEV_NAMES_MAX + 1];
  char long_name[SCHEDEV_NAME_MAX_BYTES + 1];
  memset(&rule, 0, sizeof rule);
  memset(rules, 0, sizeof rules);
  memset(&decision, 0xa5, sizeof decision);
  memset(long_name, 'x', sizeof long_name);
  for (size_t i = 0; i <= SCHEDEV_NAMES_MAX; i++) {
    items[i] = plain;
  }
  schedev_names names = SCHEDEV_NAMES_INIT(items, 1);
  EXPECT(schedev_document_parse(body, sizeof body - 1, &document, NULL) == SCHEDEV_OK);
  EXPECT(schedev_document_next(&document, &cursor, &event) == SCHEDEV_OK);
  EXPECT(schedev_decide(NULL, &event, &names, 0, &decision) == SCHEDEV_ERROR_NULL);
  EXPECT(schedev_decide(&policy, NULL, &names, 0, &decision) == SCHEDEV_ERROR_NULL);
  EXPECT(schedev_decide(&policy, &event, &names, 0, NULL) == SCHEDEV_ERROR_NULL);
  policy.struct_size--;
  EXPECT(schedev_decide(&policy, &event, &names, 0, &decision) == SCHEDEV_ERROR_ARGUMENT);
  policy.struct_size++;
  policy.leader = 4;
  EXPECT(schedev_decide(&policy, &event, &names, 0, &decision) == SCHEDEV_ERROR_ARGUMENT);
  policy.leader = SCHEDEV_LEADER_EVERYONE;
  policy.rule_count = 1;
  EXPECT(schedev_decide(&policy, &event, &names, 0, &decision) == SCHEDEV_ERROR_NULL);
  policy.rules = &rule;
  uint32_t *const numbers[] = {&rule.action, &rule.scope, &rule.event_types, &rule.event_sources};
  const uint32_t beyond[] = {4, 3, 128, 8};
  for (size_t i = 0; i < 4; i++) {
    *numbers[i] = beyond[i];
    EXPECT(schedev_decide(&policy, &event, &names, 0, &decision) == SCHEDEV_ERROR_ARGUMENT);
    *numbers[i] = 0;
  }
  rule.reserved[4] = 1;
  EXPECT(schedev_decide(&policy, &event, &names, 0, &decision) == SCHEDEV_ERROR_ARGUMENT);
  rule.reserved[4] = 0;
  names.reserved[1] = 1;
  EXPECT(schedev_decide(&policy, &event, &names, 0, &decision) == SCHEDEV_ERROR_ARGUMENT);
  names.reserved[1] = 0;
  policy.rules = rules;
  policy.rule_count = SCHEDEV_RULES_MAX + 1;
  EXPECT(schedev_decide(&policy, &event, &names, 0, &decision) == SCHEDEV_ERROR_TOO_MANY_RULES);
  policy.rule_count = SCHEDEV_RULES_MAX;
  names.count = SCHEDEV_NAMES_MAX + 1;
  EXPECT(schedev_decide(&policy, &event, &names, 0, &decision) == SCHEDEV_ERROR_TOO_MANY_NAMES);
  names.count = 1;
  items[0].data = long_name;
  items[0].len = sizeof long_name;
  EXPECT(schedev_decide(&policy, &event, &names, 0, &decision) == SCHEDEV_ERROR_NAME_TOO_LONG);
  items[0].data = "\xc3";
  items[0].len = 1;
  EXPECT(schedev_decide(&policy, &event, &names, 0, &decision) == SCHEDEV_ERROR_UTF8);
  EXPECT(untouched(&decision, sizeof decision));
  items[0] = plain;
  EXPECT(schedev_decide(&policy, &event, &names, 0, &decision) == SCHEDEV_OK);
  EXPECT(decision.action == SCHEDEV_ACTION_HOLD && decision.reason == SCHEDEV_REASON_UNRELIABLE);
  EXPECT(schedev_decide(schedev_policy_observe(), &event, NULL, 0, &decision) == SCHEDEV_OK);
  EXPECT(strcmp(schedev_decision_reason(NULL), "") == 0);
}

static void approvals(void) {
  char buffer[64];
  size_t needed = 0;
  schedev_text ids[2] = {{"a\"b", 3, false}, {"a\\\"b", 4, true}};
  memset(buffer, 0xa5, sizeof buffer);
  EXPECT(schedev_start_requests(NULL, 0, buffer, sizeof buffer, &needed) == SCHEDEV_ERROR_ARGUMENT);
  EXPECT(schedev_start_requests(NULL, 1, buffer, sizeof buffer, &needed) == SCHEDEV_ERROR_NULL);
  EXPECT(schedev_start_requests(ids, 2, buffer, 10, &needed) == SCHEDEV_ERROR_BUFFER_TOO_SMALL && needed == 57);
  EXPECT(untouched(buffer, sizeof buffer));
  EXPECT(schedev_start_requests(ids, 2, buffer, sizeof buffer, &needed) == SCHEDEV_OK);
  EXPECT(strcmp(buffer, "{\"StartRequests\":[{\"EventId\":\"a\\\"b\"},{\"EventId\":\"a\\\"b\"}]}") == 0);
}

static void sessions(void) {
  size_t size = schedev_session_size();
  unsigned char *memory = malloc(size + 16);
  schedev_session_config config = SCHEDEV_SESSION_CONFIG_INIT;
  schedev_session *session = NULL;
  schedev_step step;
  schedev_waiting shown;
  schedev_response response = SCHEDEV_RESPONSE_INIT;
  schedev_tracked_event event;
  schedev_text id;
  size_t needed;
  bool accepted;
  int64_t since = 7;
  memset(&accepted, 0xa5, sizeof accepted);
  EXPECT(memory != NULL);
  memset(memory, 0, size + 16);
  EXPECT(schedev_session_init(NULL, size, &config, &session) == SCHEDEV_ERROR_NULL);
  EXPECT(schedev_session_init(memory, size, NULL, &session) == SCHEDEV_ERROR_NULL);
  EXPECT(schedev_session_init(memory, size, &config, NULL) == SCHEDEV_ERROR_NULL);
  EXPECT(schedev_session_init(memory, 100, &config, &session) == SCHEDEV_ERROR_MEMORY_TOO_SMALL);
  config.interval_ms = SCHEDEV_INTERVAL_MIN_MS - 1;
  EXPECT(schedev_session_init(memory, size, &config, &session) == SCHEDEV_ERROR_INTERVAL_TOO_SHORT);
  config.interval_ms = SCHEDEV_INTERVAL_MIN_MS;
  config.struct_size = 0;
  EXPECT(schedev_session_init(memory, size, &config, &session) == SCHEDEV_ERROR_ARGUMENT);
  config.struct_size = sizeof config;
  const schedev_text invalid[] = {{NULL, 3, false}, {"\xff", 1, false}, {"\\u0041", 6, true}};
  const schedev_status refused[] = {SCHEDEV_ERROR_NULL, SCHEDEV_ERROR_UTF8, SCHEDEV_ERROR_ARGUMENT};
  for (size_t i = 0; i < 3; i++) {
    config.machine_id = invalid[i];
    EXPECT(schedev_session_init(memory, size, &config, &session) == refused[i]);
    config.machine_id = schedev_text_from(NULL);
    config.boot_id = invalid[i];
    EXPECT(schedev_session_init(memory, size, &config, &session) == refused[i]);
    config.boot_id = schedev_text_from("");
  }
  EXPECT(session == NULL);
  EXPECT(schedev_session_next((schedev_session *)(void *)memory, 0, &step) == SCHEDEV_ERROR_ARGUMENT);
  EXPECT(schedev_session_next(NULL, 0, &step) == SCHEDEV_ERROR_NULL);
  EXPECT(!schedev_session_is_idle(NULL) && !schedev_session_has_seen_event(NULL) && !schedev_session_changed(NULL));
  EXPECT(schedev_session_saved(NULL) == SCHEDEV_ERROR_NULL);
  EXPECT(schedev_session_repeat_answered(NULL) == SCHEDEV_ERROR_NULL && schedev_session_repeat_version(NULL).len == 0);
  EXPECT(schedev_session_advice_unseen_since(NULL, NULL) == SCHEDEV_ERROR_NULL);
  EXPECT(schedev_session_set_time_of_day_ahead(NULL, 0) == SCHEDEV_ERROR_NULL);
  EXPECT(schedev_session_waiting(NULL, 0, 0, &shown) == SCHEDEV_ERROR_NULL);
  for (size_t shift = 0; shift < 16; shift++) {
    EXPECT(schedev_session_init(memory + shift, size, &config, &session) == SCHEDEV_OK);
    EXPECT((unsigned char *)session >= memory + shift && (uintptr_t)session % 8 == 0);
  }
  EXPECT(schedev_session_next(session, 0, NULL) == SCHEDEV_ERROR_NULL);
  EXPECT(schedev_session_waiting(session, 0, 0, NULL) == SCHEDEV_ERROR_NULL);
  EXPECT(schedev_session_set_time_of_day_ahead(session, INT64_MIN) == SCHEDEV_OK);
  EXPECT(schedev_session_waiting(session, 0, INT64_MIN, &shown) == SCHEDEV_END);
  memset(&step, 0, sizeof step);
  EXPECT(schedev_step_json(NULL, NULL, NULL, NULL, 0, &needed) == SCHEDEV_ERROR_NULL);
  EXPECT(schedev_step_json(&step, NULL, NULL, NULL, 0, NULL) == SCHEDEV_ERROR_NULL);
  EXPECT(schedev_step_json(&step, NULL, NULL, NULL, 0, &needed) == SCHEDEV_END);
  step.kind = SCHEDEV_STEP_DECISION;
  EXPECT(schedev_step_json(&step, NULL, NULL, NULL, 0, &needed) == SCHEDEV_ERROR_ARGUMENT);
  step.kind = SCHEDEV_STEP_UNTRACKED;
  EXPECT(schedev_step_json(&step, NULL, NULL, NULL, 0, &needed) == SCHEDEV_ERROR_BUFFER_TOO_SMALL && needed > 50);
  EXPECT(schedev_session_next(session, INT64_MIN, &step) == SCHEDEV_OK);
  EXPECT(schedev_session_next(session, INT64_MAX, &step) == SCHEDEV_OK);
  response.http_status = 70000;
  EXPECT(schedev_session_on_response(session, &response, 0, NULL) == SCHEDEV_ERROR_ARGUMENT);
  EXPECT(schedev_session_on_response(session, NULL, 0, NULL) == SCHEDEV_ERROR_NULL);
  EXPECT(schedev_session_on_failure(session, SCHEDEV_CAUSE_STATUS, 0, NULL) == SCHEDEV_ERROR_ARGUMENT);
  EXPECT(schedev_session_on_failure(session, 77, 0, NULL) == SCHEDEV_ERROR_ARGUMENT);
  EXPECT(schedev_session_prepared(session, 1, SCHEDEV_PREPARATION_READY, &accepted) == SCHEDEV_ERROR_UNKNOWN_EVENT);
  EXPECT(schedev_session_prepared(session, 1, 0, &accepted) == SCHEDEV_ERROR_ARGUMENT);
  EXPECT(schedev_session_prepared(NULL, 1, SCHEDEV_PREPARATION_READY, &accepted) == SCHEDEV_ERROR_NULL);
  EXPECT(schedev_session_recovered(session, 1, true, 0, &accepted) == SCHEDEV_ERROR_UNKNOWN_EVENT);
  EXPECT(schedev_session_recovered(NULL, 1, true, 0, &accepted) == SCHEDEV_ERROR_NULL);
  EXPECT(schedev_session_gate_answered(session, 1, SCHEDEV_GATE_ANSWER_OPEN, 0, &accepted) ==
         SCHEDEV_ERROR_UNKNOWN_EVENT);
  EXPECT(schedev_session_gate_answered(session, 1, 0, 0, &accepted) == SCHEDEV_ERROR_ARGUMENT);
  EXPECT(schedev_session_gate_answered(session, 1, 4, 0, &accepted) == SCHEDEV_ERROR_ARGUMENT);
  EXPECT(schedev_session_gate_answered(NULL, 1, SCHEDEV_GATE_ANSWER_OPEN, 0, &accepted) == SCHEDEV_ERROR_NULL);
  EXPECT(untouched(&accepted, sizeof accepted));
  EXPECT(schedev_session_recovering(session, 0, &id) == SCHEDEV_END);
  EXPECT(schedev_session_recovering(session, 0, NULL) == SCHEDEV_ERROR_NULL);
  EXPECT(schedev_session_recovering(NULL, 0, &id) == SCHEDEV_ERROR_NULL);
  EXPECT(schedev_session_out_of_service_since(session, &since) == SCHEDEV_END && since == 7);
  EXPECT(schedev_session_out_of_service_since(session, NULL) == SCHEDEV_ERROR_NULL);
  EXPECT(schedev_session_out_of_service_since(NULL, &since) == SCHEDEV_ERROR_NULL);
  EXPECT(schedev_session_posted(session, 0, &id) == SCHEDEV_END);
  EXPECT(schedev_session_event(session, 0, &event) == SCHEDEV_END);
  EXPECT(schedev_session_snapshot(session, NULL, 0, &needed) == SCHEDEV_ERROR_BUFFER_TOO_SMALL && needed > 0);
  EXPECT(schedev_session_restore(session, "SEVS", 4) == SCHEDEV_ERROR_SNAPSHOT_DAMAGED);
  EXPECT(schedev_session_restore(session, NULL, 4) == SCHEDEV_ERROR_NULL);
  EXPECT(schedev_session_set_machine_id(NULL, schedev_text_from("id")) == SCHEDEV_ERROR_NULL);
  EXPECT(schedev_session_set_machine_id(session, (schedev_text){NULL, 2, false}) == SCHEDEV_ERROR_NULL);
  EXPECT(schedev_session_set_machine_id(session, (schedev_text){"\\n", 2, true}) == SCHEDEV_ERROR_ARGUMENT);
  EXPECT(schedev_session_set_machine_id(session, schedev_text_from("\xff")) == SCHEDEV_ERROR_UTF8);
  free(memory);
}

static void numbers(void) {
  int64_t seconds = 7;
  char buffer[40];
  size_t needed;
  EXPECT(schedev_time_parse("tomorrow", 8, &seconds) == SCHEDEV_ERROR_TIME && seconds == 7);
  EXPECT(schedev_time_parse("1970-01-01T00:01:00Z", 20, &seconds) == SCHEDEV_OK && seconds == 60);
  EXPECT(schedev_time_format(INT64_MIN, buffer, sizeof buffer, &needed) == SCHEDEV_OK);
  EXPECT(schedev_time_format(INT64_MAX, buffer, sizeof buffer, &needed) == SCHEDEV_OK);
  for (uint32_t number = 0; number < 1000; number++) {
    EXPECT(strlen(schedev_status_message(number)) > 0 && strlen(schedev_parse_error_word(number)) > 0);
    EXPECT(strlen(schedev_problem_kind_word(number)) > 0 && schedev_member_name(number) != NULL);
    EXPECT(strlen(schedev_action_word(number)) > 0 && strlen(schedev_change_word(number)) > 0);
    EXPECT(strlen(schedev_cause_word(number)) > 0);
  }
  EXPECT(strcmp(schedev_version_string(), SCHEDEV_VERSION_STRING) == 0);
  EXPECT(schedev_version_number() == SCHEDEV_VERSION_NUMBER);
}

static void spot(void) {
  uint32_t phase = SCHEDEV_SPOT_PROCESSING;
  for (uint32_t number = 0; number < 1000; number++) {
    EXPECT(strlen(schedev_spot_phase_word(number)) > 0);
    EXPECT(number - 1 < 6 ||
           schedev_spot_next_phase(number, SCHEDEV_SPOT_SIGNAL_NOTICE, &phase) == SCHEDEV_ERROR_ARGUMENT);
  }
  EXPECT(schedev_spot_next_phase(phase, SCHEDEV_SPOT_SIGNAL_NOTICE, NULL) == SCHEDEV_ERROR_NULL);
  EXPECT(schedev_spot_next_phase(phase, SCHEDEV_SPOT_SIGNAL_RESUMED, &phase) == SCHEDEV_END);
  EXPECT(phase == SCHEDEV_SPOT_PROCESSING);
  EXPECT(schedev_spot_next_phase(phase, SCHEDEV_SPOT_SIGNAL_NOTICE, &phase) == SCHEDEV_OK);
  EXPECT(strcmp(schedev_spot_phase_word(phase), "evicted") == 0);
}

int main(void) {
  texts();
  documents();
  decisions();
  approvals();
  sessions();
  numbers();
  spot();
  printf("every invalid call was refused\n");
  return 0;
}
