/* A session from start to end, with a restart, and a tracker. The program itself allocates nothing, so that valgrind counts
 * the allocations of the library. */
#include "expect.h"

static union {
  unsigned char bytes[1 << 17];
  uint64_t align;
} memory, second;

static const schedev_text name = {"VM_0", 4, false};
static const schedev_names names = SCHEDEV_NAMES_INIT(&name, 1);

static const char scheduled[] =
    "{\"DocumentIncarnation\":2,\"Events\":[{\"EventId\":\"a-1\",\"EventStatus\":\"Scheduled\","
    "\"EventType\":\"Preempt\",\"Resources\":[\"vm_0\"],\"NotBefore\":\"x\"}]}";
static const char moved[] =
    "{\"DocumentIncarnation\":3,\"Events\":[{\"EventId\":\"a-1\",\"EventStatus\":\"Scheduled\","
    "\"EventType\":\"Terminate\",\"Resources\":[\"vm_0\"],\"NotBefore\":\"Sun, 13 Sep 2020 14:00:00 GMT\","
    "\"DurationInSeconds\":9}]}";
static const char started[] = "{\"DocumentIncarnation\":3,\"Events\":[{\"EventId\":\"a-1\",\"EventStatus\":\"Started\","
                              "\"EventType\":\"Preempt\",\"Resources\":[\"vm_0\"]}]}";
static const char gone[] = "{\"DocumentIncarnation\":4,\"Events\":[]}";

static schedev_session *begin(unsigned char *place) {
  schedev_session *session = NULL;
  schedev_rule rules[1] = {
      {.action = SCHEDEV_ACTION_PREPARE, .scope = SCHEDEV_SCOPE_MINE, .event_types = SCHEDEV_MATCH_TYPE_PREEMPT}};
  schedev_policy policy = SCHEDEV_POLICY_INIT;
  schedev_session_config config = SCHEDEV_SESSION_CONFIG_INIT;
  policy.rules = rules;
  policy.rule_count = 1;
  config.policy = &policy;
  config.names = &names;
  config.seed = 42;
  EXPECT(schedev_session_size() <= sizeof memory.bytes);
  EXPECT(schedev_session_size() < 31000 && schedev_tracker_size() < 40000); /* The limits in the header. */
  EXPECT(schedev_session_init(place, sizeof memory.bytes, &config, &session) == SCHEDEV_OK);
  return session;
}

static schedev_step next(schedev_session *session, int64_t *now) {
  schedev_step step;
  for (;;) {
    EXPECT(schedev_session_next(session, *now, &step) == SCHEDEV_OK);
    if (step.kind != SCHEDEV_STEP_WAIT) {
      return step;
    }
    EXPECT(step.until_ms > *now);
    *now = step.until_ms;
  }
}

static void answer(schedev_session *session, const char *body, int64_t now, uint32_t expected) {
  schedev_response response = SCHEDEV_RESPONSE_INIT;
  schedev_outcome outcome;
  response.http_status = 200;
  response.body = body;
  response.body_len = strlen(body);
  EXPECT(schedev_session_on_response(session, &response, now, &outcome) == SCHEDEV_OK);
  EXPECT(outcome.kind == expected);
}

/* The step's record, without its time, is expected to be this one. */
static void expect_record(const schedev_step *step, const char *expected) {
  char record[SCHEDEV_STEP_JSON_MAX_BYTES];
  size_t len = 0;
  size_t needed = 0;
  EXPECT(schedev_step_json(step, NULL, NULL, NULL, 0, &needed) == SCHEDEV_ERROR_BUFFER_TOO_SMALL);
  EXPECT(schedev_step_json(step, NULL, NULL, record, sizeof record, &len) == SCHEDEV_OK && len == needed &&
         strlen(record) == len);
  EXPECT(strncmp(record, expected, strlen(expected)) == 0);
  EXPECT(strncmp(record + strlen(expected), ",\"time\":\"2020-09-13T", 20) == 0);
}

static void expect_change(schedev_session *session, int64_t *now, uint32_t change) {
  schedev_step step = next(session, now);
  EXPECT(step.kind == SCHEDEV_STEP_CHANGE && step.change == change);
  EXPECT(schedev_text_equal(step.event.event_id, "a-1", 3) && step.event.has_mine && step.event.mine);
  EXPECT(step.now_ms == *now);
  if (change == SCHEDEV_CHANGE_STARTED) {
    expect_record(&step,
                  "{\"record\":\"change\",\"change\":\"started\",\"event_id\":\"a-1\",\"event_type\":\"Preempt\","
                  "\"event_status\":\"Started\",\"resource_type\":null,\"resources\":null,\"not_before\":null,"
                  "\"description\":null,\"event_source\":null,\"duration_in_seconds\":null,\"mine\":true");
  }
}

static void test_session(void) {
  static char snapshot[SCHEDEV_SNAPSHOT_MAX_BYTES];
  int64_t now = INT64_C(1600000000000);
  size_t len = 0;
  schedev_outcome outcome;
  schedev_text id;
  schedev_session *session = begin(memory.bytes);
  schedev_step step = next(session, &now);
  EXPECT(step.kind == SCHEDEV_STEP_GET && step.timeout_ms > 120000);
  EXPECT(schedev_text_equal(schedev_session_repeat_version(session), "2020-07-01", 10));
  EXPECT(schedev_session_on_failure(session, SCHEDEV_CAUSE_TIMEOUT, now, &outcome) == SCHEDEV_OK);
  EXPECT(outcome.kind == SCHEDEV_OUTCOME_POLL_FAILED && outcome.cause == SCHEDEV_CAUSE_TIMEOUT &&
         outcome.retry_in_ms > 0);
  EXPECT(next(session, &now).kind == SCHEDEV_STEP_GET);
  answer(session, "{\"error\":1}", now, SCHEDEV_OUTCOME_POLL_FAILED);
  EXPECT(next(session, &now).kind == SCHEDEV_STEP_GET);
  answer(session, scheduled, now, SCHEDEV_OUTCOME_DOCUMENT);
  expect_change(session, &now, SCHEDEV_CHANGE_SCHEDULED);
  step = next(session, &now);
  EXPECT(step.kind == SCHEDEV_STEP_DECISION && step.decision.action == SCHEDEV_ACTION_PREPARE &&
         step.decision.rule == 1);
  step = next(session, &now);
  EXPECT(step.kind == SCHEDEV_STEP_PREPARE && schedev_session_has_seen_event(session));
  EXPECT(!schedev_session_is_idle(session));

  /* The process dies while it prepares: its successor prepares again. */
  EXPECT(schedev_session_snapshot(session, snapshot, sizeof snapshot, &len) == SCHEDEV_OK);
  session = begin(second.bytes);
  snapshot[len - 1] ^= 1;
  EXPECT(schedev_session_restore(session, snapshot, len) == SCHEDEV_ERROR_SNAPSHOT_DAMAGED);
  snapshot[len - 1] ^= 1;
  EXPECT(schedev_session_restore(session, snapshot, len) == SCHEDEV_OK);
  do {
    step = next(session, &now);
    if (step.kind == SCHEDEV_STEP_GET) {
      answer(session, scheduled, now, SCHEDEV_OUTCOME_DOCUMENT);
    }
    EXPECT(step.kind != SCHEDEV_STEP_POST && step.kind != SCHEDEV_STEP_CHANGE);
  } while (step.kind != SCHEDEV_STEP_PREPARE);
  EXPECT(schedev_session_prepared(session, step.attempt, SCHEDEV_PREPARATION_READY, NULL) == SCHEDEV_OK);
  EXPECT(schedev_session_prepared(session, step.attempt, SCHEDEV_PREPARATION_READY, NULL) ==
         SCHEDEV_ERROR_UNKNOWN_EVENT);
  do {
    step = next(session, &now);
    if (step.kind == SCHEDEV_STEP_GET) {
      answer(session, scheduled, now, SCHEDEV_OUTCOME_UNCHANGED);
    }
  } while (step.kind != SCHEDEV_STEP_POST);
  EXPECT(step.body_len == 37 && memcmp(step.body, "{\"StartRequests\":[{\"EventId\":\"a-1\"}]}", 37) == 0);
  EXPECT(schedev_session_posted(session, 0, &id) == SCHEDEV_OK && schedev_text_equal(id, "a-1", 3));
  EXPECT(schedev_session_posted(session, 1, &id) == SCHEDEV_END);
  answer(session, "", now, SCHEDEV_OUTCOME_APPROVED);
  step = next(session, &now);
  EXPECT(step.kind == SCHEDEV_STEP_GET);
  answer(session, started, now, SCHEDEV_OUTCOME_DOCUMENT);
  expect_change(session, &now, SCHEDEV_CHANGE_STARTED);
  do {
    step = next(session, &now);
  } while (step.kind == SCHEDEV_STEP_DECISION);
  EXPECT(step.kind == SCHEDEV_STEP_GET);
  answer(session, gone, now, SCHEDEV_OUTCOME_DOCUMENT);
  expect_change(session, &now, SCHEDEV_CHANGE_COMPLETED);
  step = next(session, &now);
  EXPECT(step.kind == SCHEDEV_STEP_RECOVER);
  expect_record(&step,
                "{\"record\":\"recover\",\"event_id\":\"a-1\",\"event_ids\":[\"a-1\"],\"outcome\":null,"
                "\"event_type\":\"Preempt\",\"event_status\":\"Started\",\"resource_type\":null,\"resources\":null,"
                "\"not_before\":null,\"description\":null,\"event_source\":null,\"duration_in_seconds\":null,"
                "\"mine\":true");
  EXPECT(schedev_session_recovered(session, step.attempt, true, now, NULL) == SCHEDEV_OK);
  EXPECT(next(session, &now).kind == SCHEDEV_STEP_GET && schedev_session_is_idle(session));
}

/* The document has what a session does not keep. Ids are found with their escapes, and a result needs none. */
static void test_whole_records(void) {
  static const char body[] =
      "{\"Events\":[{\"EventId\":\"a\\u002D1\",\"EventStatus\":\"Scheduled\",\"EventType\":\"Preempt\","
      "\"ResourceType\":\"VirtualMachine\",\"Resources\":[\"vm_0\",\"b\\u0007\"],\n"
      "\"Description\":\"Evicted\",\"EventSource\":\"Platform\",\"NotBefore\":\"x\"}]}";
  char record[1024];
  size_t len = 0;
  int64_t now = INT64_C(1600000000000);
  schedev_document document, other;
  schedev_event event;
  schedev_session *session = begin(memory.bytes);
  EXPECT(schedev_document_parse(body, sizeof body - 1, &document, NULL) == SCHEDEV_OK);
  EXPECT(schedev_document_parse(gone, sizeof gone - 1, &other, NULL) == SCHEDEV_OK);
  schedev_step step = next(session, &now);
  answer(session, body, now, SCHEDEV_OUTCOME_DOCUMENT);
  step = next(session, &now);
  EXPECT(step.kind == SCHEDEV_STEP_CHANGE);
  EXPECT(schedev_step_json(&step, &document, NULL, record, sizeof record, &len) == SCHEDEV_OK);
  EXPECT(strstr(record,
                "\"event_id\":\"a-1\",\"event_type\":\"Preempt\",\"event_status\":\"Scheduled\","
                "\"resource_type\":\"VirtualMachine\",\"resources\":[\"vm_0\",\"b\\u0007\"],\"not_before\":null,"
                "\"description\":\"Evicted\",\"event_source\":\"Platform\",\"duration_in_seconds\":null,"
                "\"mine\":true,") != NULL);
  EXPECT(schedev_step_json(&step, &other, NULL, record, sizeof record, &len) == SCHEDEV_OK);
  EXPECT(strstr(record, "\"event_id\":\"a-1\"") != NULL && strstr(record, "\"description\":null") != NULL);
  EXPECT(schedev_document_find(&document, step.event.event_id, &event) == SCHEDEV_OK);
  EXPECT(schedev_text_equal(event.description, "Evicted", 7) && event.event_id.escaped);
  EXPECT(schedev_document_find(&document, schedev_text_from("A-1"), &event) == SCHEDEV_OK);
  EXPECT(schedev_document_find(&other, event.event_id, &event) == SCHEDEV_END);
  int prepared = 0;
  while (step.kind != SCHEDEV_STEP_PROBLEM) {
    step = next(session, &now);
    if (step.kind == SCHEDEV_STEP_PREPARE) {
      EXPECT(schedev_session_prepared(session, step.attempt, SCHEDEV_PREPARATION_READY, NULL) == SCHEDEV_OK);
      prepared++;
    }
  }
  EXPECT(prepared == 1);
  EXPECT(schedev_step_json(&step, &document, NULL, record, sizeof record, &len) == SCHEDEV_OK);
  EXPECT(strstr(record, "\"kind\":\"unreadable-time\",\"line\":2,\"column\":62,") != NULL);
}

/* A session is worth storing when it changed, not at every poll. */
static void test_changed(void) {
  static char snapshot[SCHEDEV_SNAPSHOT_MAX_BYTES + 8];
  size_t len = 0;
  int64_t now = INT64_C(1600000000000);
  schedev_session *session = begin(memory.bytes);
  EXPECT(schedev_session_changed(session) && schedev_session_saved(session) == SCHEDEV_OK);
  for (int polls = 0; polls < 3; polls++) {
    EXPECT(next(session, &now).kind == SCHEDEV_STEP_GET);
    answer(session, gone, now, polls == 0 ? SCHEDEV_OUTCOME_DOCUMENT : SCHEDEV_OUTCOME_UNCHANGED);
    EXPECT(!schedev_session_changed(session));
  }
  EXPECT(next(session, &now).kind == SCHEDEV_STEP_GET);
  answer(session, scheduled, now, SCHEDEV_OUTCOME_DOCUMENT);
  EXPECT(schedev_session_changed(session));
  EXPECT(schedev_session_snapshot(session, snapshot, sizeof snapshot, &len) == SCHEDEV_OK);
  EXPECT(schedev_session_changed(session) && schedev_session_saved(session) == SCHEDEV_OK);
  EXPECT(!schedev_session_changed(session));
  memcpy(snapshot + len, "and more", 8);
  session = begin(second.bytes);
  EXPECT(schedev_session_restore(session, snapshot, len + 8) == SCHEDEV_OK && !schedev_session_changed(session));
}

struct changes {
  uint32_t kinds[8];
  size_t count;
};

static void on_change(void *context, uint32_t change, const schedev_tracked_event *event) {
  struct changes *seen = (struct changes *)context;
  EXPECT(seen->count < 8 && schedev_text_equal(event->event_id, "a-1", 3));
  seen->kinds[seen->count++] = change;
}

static void test_tracker(void) {
  schedev_tracker *tracker = NULL;
  struct changes seen = {{0}, 0};
  const char *const bodies[] = {scheduled, scheduled, moved, started, gone, gone};
  EXPECT(schedev_tracker_size() <= sizeof memory.bytes);
  EXPECT(schedev_tracker_init(memory.bytes, 10, &tracker) == SCHEDEV_ERROR_MEMORY_TOO_SMALL);
  EXPECT(schedev_tracker_init(memory.bytes, sizeof memory.bytes, &tracker) == SCHEDEV_OK);
  for (size_t i = 0; i < 6; i++) {
    schedev_document document;
    schedev_tracked_event event;
    size_t ignored = 7;
    EXPECT(schedev_document_parse(bodies[i], strlen(bodies[i]), &document, NULL) == SCHEDEV_OK);
    EXPECT(schedev_tracker_observe(tracker, &document, &names, 0, on_change, &seen, &ignored, NULL) == SCHEDEV_OK);
    EXPECT(ignored == 0);
    EXPECT(schedev_tracker_event_count(tracker) == schedev_document_event_count(&document));
    EXPECT(schedev_tracker_event(tracker, 0, &event) == (i < 4 ? SCHEDEV_OK : SCHEDEV_END));
    /* Type and duration are those of the newest document. */
    EXPECT(i > 3 || schedev_text_equal(event.event_type_text, i == 2 ? "Terminate" : "Preempt", i == 2 ? 9 : 7));
    EXPECT(i > 3 || (event.has_duration == (i == 2) && event.duration_seconds == (i == 2 ? 9 : 0)));
    EXPECT(schedev_tracker_approved(tracker, schedev_text_from("A-1")) ==
           (i < 4 ? SCHEDEV_OK : SCHEDEV_ERROR_UNKNOWN_EVENT));
  }
  /* One document moved NotBefore and changed other members: two changes. */
  EXPECT(seen.count == 5 && seen.kinds[0] == SCHEDEV_CHANGE_SCHEDULED && seen.kinds[1] == SCHEDEV_CHANGE_RESCHEDULED);
  EXPECT(seen.kinds[2] == SCHEDEV_CHANGE_UPDATED && seen.kinds[3] == SCHEDEV_CHANGE_STARTED);
  EXPECT(seen.kinds[4] == SCHEDEV_CHANGE_COMPLETED);
}

/* A document compares its first 64 ids; the tracker ignores the ids that repeat after those. */
static void test_repeated_ids(void) {
  static char body[64 * 70];
  schedev_tracker *tracker = NULL;
  schedev_document document;
  size_t ignored = 7;
  size_t len = (size_t)snprintf(body, sizeof body, "{\"Events\":[{\"EventId\":\"0\"}");
  for (int i = 1; i < 66; i++) {
    len += (size_t)snprintf(body + len, sizeof body - len, ",{\"EventId\":\"%d\"}", i);
  }
  len += (size_t)snprintf(body + len, sizeof body - len, ",{\"EventId\":\"65\"},{\"EventId\":\"65\"}]}");
  EXPECT(schedev_document_parse(body, len, &document, NULL) == SCHEDEV_OK);
  EXPECT(schedev_tracker_init(memory.bytes, sizeof memory.bytes, &tracker) == SCHEDEV_OK);
  EXPECT(schedev_tracker_observe(tracker, &document, NULL, 0, NULL, NULL, &ignored, NULL) == SCHEDEV_OK);
  EXPECT(ignored == 2 && schedev_tracker_event_count(tracker) == 66);
  EXPECT(schedev_tracker_observe(tracker, &document, NULL, 0, NULL, NULL, NULL, NULL) == SCHEDEV_OK);
}

static void test_full_tracker(void) {
  static char body[64 * (SCHEDEV_TRACKER_EVENTS_MAX + 2)];
  schedev_tracker *tracker = NULL;
  schedev_document document;
  size_t needed = 0;
  size_t ignored = 7;
  size_t len = (size_t)snprintf(body, sizeof body, "{\"Events\":[{\"EventId\":\"0\"}");
  for (int i = 1; i <= SCHEDEV_TRACKER_EVENTS_MAX; i++) {
    len += (size_t)snprintf(body + len, sizeof body - len, ",{\"EventId\":\"%d\"}", i);
  }
  len += (size_t)snprintf(body + len, sizeof body - len, "]}");
  EXPECT(schedev_document_parse(body, len, &document, NULL) == SCHEDEV_OK);
  EXPECT(schedev_tracker_init(memory.bytes, sizeof memory.bytes, &tracker) == SCHEDEV_OK);
  EXPECT(schedev_tracker_observe(tracker, &document, NULL, 0, on_change, NULL, &ignored, &needed) ==
         SCHEDEV_ERROR_TRACKER_FULL);
  EXPECT(needed == SCHEDEV_TRACKER_EVENTS_MAX + 1 && ignored == 7 && schedev_tracker_event_count(tracker) == 0);
}

static const char advice[] = "{\"Events\":[{\"EventId\":\"a-1\",\"EventStatus\":\"Advisory\","
                             "\"EventType\":\"SpotRebalanceRecommendation\",\"Resources\":[\"vm_0\"]}]}";

/* A session that prepares for advice if `types` has it, and approves everything else. */
static schedev_session *begin_advised(uint32_t types) {
  schedev_session *session = NULL;
  schedev_rule rules[2] = {{.action = SCHEDEV_ACTION_PREPARE, .event_types = types},
                           {.action = SCHEDEV_ACTION_APPROVE}};
  schedev_policy policy = SCHEDEV_POLICY_INIT;
  schedev_session_config config = SCHEDEV_SESSION_CONFIG_INIT;
  policy.rules = rules;
  policy.rule_count = 2;
  config.policy = &policy;
  config.names = &names;
  EXPECT(schedev_session_init(memory.bytes, sizeof memory.bytes, &config, &session) == SCHEDEV_OK);
  return session;
}

static bool asks_for(const schedev_step *step, const char *version) {
  return step->kind == SCHEDEV_STEP_GET && schedev_text_equal(step->api_version, version, strlen(version));
}

static void refuse(schedev_session *session, uint32_t http_status, int64_t now) {
  schedev_response response = SCHEDEV_RESPONSE_INIT;
  response.http_status = http_status;
  EXPECT(schedev_session_on_response(session, &response, now, NULL) == SCHEDEV_OK);
}

static void test_advice(void) {
  int64_t now = INT64_C(1600000000000);
  schedev_step step;
  uint32_t status;

  /* A rule that names it prepares for it, and nothing approves it. */
  schedev_session *session = begin_advised(SCHEDEV_MATCH_TYPE_SPOT_REBALANCE_RECOMMENDATION);
  step = next(session, &now);
  EXPECT(asks_for(&step, SCHEDEV_ADVICE_API_VERSION));
  answer(session, advice, now, SCHEDEV_OUTCOME_DOCUMENT);
  step = next(session, &now);
  EXPECT(step.kind == SCHEDEV_STEP_CHANGE && step.change == SCHEDEV_CHANGE_ADVISED);
  EXPECT(step.event.event_status == SCHEDEV_EVENT_STATUS_ADVISORY);
  step = next(session, &now);
  EXPECT(step.kind == SCHEDEV_STEP_DECISION && step.decision.action == SCHEDEV_ACTION_PREPARE &&
         step.decision.reason == SCHEDEV_REASON_ADVICE_UNAPPROVED && !step.decision.has_approve_after);
  step = next(session, &now);
  EXPECT(step.kind == SCHEDEV_STEP_PREPARE);
  EXPECT(schedev_session_prepared(session, step.attempt, SCHEDEV_PREPARATION_READY, NULL) == SCHEDEV_OK);
  EXPECT(next(session, &now).kind == SCHEDEV_STEP_GET);
  answer(session, gone, now, SCHEDEV_OUTCOME_DOCUMENT);
  step = next(session, &now);
  EXPECT(step.kind == SCHEDEV_STEP_CHANGE && step.change == SCHEDEV_CHANGE_ADVICE_WITHDRAWN);
  EXPECT(next(session, &now).kind == SCHEDEV_STEP_RECOVER);

  /* No other rule matches it. */
  session = begin_advised(SCHEDEV_MATCH_TYPE_OTHER);
  step = next(session, &now);
  EXPECT(asks_for(&step, SCHEDEV_API_VERSION));
  answer(session, advice, now, SCHEDEV_OUTCOME_DOCUMENT);
  EXPECT(next(session, &now).change == SCHEDEV_CHANGE_ADVISED);
  step = next(session, &now);
  EXPECT(step.decision.action == SCHEDEV_ACTION_HOLD && step.decision.reason == SCHEDEV_REASON_ADVICE);
  EXPECT(next(session, &now).kind == SCHEDEV_STEP_GET);

  /* A service that does not know the version is asked for the other one at once. */
  for (status = 400; status <= 404; status += 4) {
    session = begin_advised(SCHEDEV_MATCH_TYPE_SPOT_REBALANCE_RECOMMENDATION);
    step = next(session, &now);
    EXPECT(asks_for(&step, SCHEDEV_ADVICE_API_VERSION));
    const int64_t asked = now;
    refuse(session, status, now);
    step = next(session, &now);
    EXPECT(asks_for(&step, SCHEDEV_API_VERSION) && now - asked <= 200);
    answer(session, gone, now, SCHEDEV_OUTCOME_DOCUMENT);
    step = next(session, &now);
    EXPECT(step.kind == SCHEDEV_STEP_NO_ADVICE);
    expect_record(&step, "{\"record\":\"no-advice\",\"api_version\":\"2024-07-09\"");
    step = next(session, &now);
    EXPECT(asks_for(&step, SCHEDEV_API_VERSION));
  }

  /* One that accepts requests for it and never answers them is seen in the other one. Then the version pauses. */
  session = begin_advised(SCHEDEV_MATCH_TYPE_SPOT_REBALANCE_RECOMMENDATION);
  int64_t since = 0;
  for (int misses = 0; misses < 4; misses++) {
    step = next(session, &now);
    EXPECT(asks_for(&step, SCHEDEV_ADVICE_API_VERSION));
    EXPECT(schedev_text_equal(schedev_session_repeat_version(session), "2020-07-01", 10));
    EXPECT(schedev_session_advice_unseen_since(session, &since) == SCHEDEV_END);
    now += 5000;
    EXPECT(schedev_session_repeat_answered(session) == SCHEDEV_OK);
    /* The same document again, which with the last miss counts for more. */
    answer(session, gone, now, misses == 1 || misses == 2 ? SCHEDEV_OUTCOME_UNCHANGED : SCHEDEV_OUTCOME_DOCUMENT);
  }
  EXPECT(schedev_session_advice_unseen_since(session, &since) == SCHEDEV_OK && since > 0);
  step = next(session, &now);
  EXPECT(asks_for(&step, SCHEDEV_API_VERSION));
}

int main(void) {
  test_session();
  test_advice();
  test_whole_records();
  test_changed();
  test_tracker();
  test_repeated_ids();
  test_full_tracker();
  return 0;
}
