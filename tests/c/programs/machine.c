/* A machine that goes out of service and back: attempts, cancelled steps, recoveries, the gate, and restarts. */
#include "expect.h"

#define START INT64_C(1600000000000) /* 2020-09-13T12:26:40Z */
#define EVENT(id, type, more)                                                                                          \
  "{\"EventId\":\"" id "\",\"EventStatus\":\"Scheduled\",\"EventType\":\"" type "\",\"Resources\":[\"vm_0\"]" more "}"
#define DOCUMENT_OF(incarnation, events) "{\"DocumentIncarnation\":" incarnation ",\"Events\":[" events "]}"

static const schedev_text name = {"vm_0", 4, false};
static const schedev_names names = SCHEDEV_NAMES_INIT(&name, 1);

/* A session, and the service that it polls. */
struct host {
  schedev_session *session;
  int64_t now;
  const char *body;
  /* When the newest poll began. */
  int64_t polled;
  union {
    unsigned char bytes[1 << 15];
    uint64_t align;
  } memory;
};

static schedev_session_config base(void) {
  static const schedev_rule prepare = {.action = SCHEDEV_ACTION_PREPARE};
  static schedev_policy policy = SCHEDEV_POLICY_INIT;
  schedev_session_config config = SCHEDEV_SESSION_CONFIG_INIT;
  policy.rules = &prepare;
  policy.rule_count = 1;
  config.policy = &policy;
  config.names = &names;
  config.seed = 7;
  return config;
}

static void begin(struct host *host, const schedev_session_config *config, int64_t now) {
  host->now = now;
  host->body = DOCUMENT_OF("1", "");
  EXPECT(schedev_session_init(host->memory.bytes, sizeof host->memory.bytes, config, &host->session) == SCHEDEV_OK);
}

/* Answers polls and skips reports until there is another step, or until this time; the kind is 0 then. */
static schedev_step act_until(struct host *host, int64_t until) {
  schedev_step step;
  for (;;) {
    schedev_response response = SCHEDEV_RESPONSE_INIT;
    EXPECT(schedev_session_next(host->session, host->now, &step) == SCHEDEV_OK);
    switch (step.kind) {
    case SCHEDEV_STEP_WAIT:
      EXPECT(step.until_ms > host->now);
      if (step.until_ms >= until) {
        host->now = until;
        memset(&step, 0, sizeof step);
        return step;
      }
      host->now = step.until_ms;
      break;
    case SCHEDEV_STEP_GET:
      host->polled = host->now;
      response.http_status = 200;
      response.body = host->body;
      response.body_len = strlen(host->body);
      EXPECT(schedev_session_on_response(host->session, &response, host->now, NULL) == SCHEDEV_OK);
      break;
    case SCHEDEV_STEP_CHANGE:
    case SCHEDEV_STEP_DECISION:
    case SCHEDEV_STEP_PROBLEM:
    case SCHEDEV_STEP_UNTRACKED:
    case SCHEDEV_STEP_LAST_CALL:
      EXPECT(step.attempt == 0 && step.gate_phase == 0 && !step.own);
      break;
    default:
      return step;
    }
  }
}

/* The next step of this kind, which must come within a minute and before any other. */
static schedev_step expect_step(struct host *host, uint32_t kind) {
  schedev_step step = act_until(host, host->now + 60000);
  EXPECT(step.kind == kind);
  EXPECT((step.attempt != 0) == (kind != SCHEDEV_STEP_POST));
  EXPECT(step.own == (kind == SCHEDEV_STEP_RECOVER && step.event.mine));
  return step;
}

static void expect_nothing(struct host *host, int64_t milliseconds) {
  EXPECT(act_until(host, host->now + milliseconds).kind == 0);
}

static void approved(struct host *host) {
  schedev_response response = SCHEDEV_RESPONSE_INIT;
  response.http_status = 200;
  EXPECT(schedev_session_on_response(host->session, &response, host->now, NULL) == SCHEDEV_OK);
}

static void ready(struct host *host, uint32_t attempt) {
  bool accepted = false;
  EXPECT(schedev_session_prepared(host->session, attempt, SCHEDEV_PREPARATION_READY, &accepted) == SCHEDEV_OK);
  EXPECT(accepted);
}

static bool in_service(const struct host *host) {
  int64_t since = 5;
  schedev_status status = schedev_session_out_of_service_since(host->session, &since);
  EXPECT(status == SCHEDEV_OK ? since >= START && since <= host->now : status == SCHEDEV_END && since == 5);
  return status == SCHEDEV_END;
}

/* The record of a step, up to its time. */
static void expect_record(const schedev_step *step, const char *expected) {
  static char record[SCHEDEV_STEP_JSON_MAX_BYTES];
  size_t len = 0;
  EXPECT(schedev_step_json(step, NULL, NULL, record, sizeof record, &len) == SCHEDEV_OK);
  EXPECT(strncmp(record, expected, strlen(expected)) == 0);
}

static bool has_record(const schedev_step *step) {
  size_t needed = 0;
  schedev_status status = schedev_step_json(step, NULL, NULL, NULL, 0, &needed);
  EXPECT(status == SCHEDEV_END || status == SCHEDEV_ERROR_BUFFER_TOO_SMALL);
  return status != SCHEDEV_END;
}

/* An event that changes its type is prepared for again, after what runs has ended. */
static void test_change_of_type(void) {
  static struct host host;
  bool accepted = true;
  schedev_session_config config = base();
  begin(&host, &config, START);
  expect_nothing(&host, 3000);
  EXPECT(in_service(&host));
  host.body = DOCUMENT_OF("2", EVENT("a", "Reboot", ""));
  schedev_step first = expect_step(&host, SCHEDEV_STEP_PREPARE);
  EXPECT(schedev_text_equal(first.event.event_type_text, "Reboot", 6) && !in_service(&host));

  host.body = DOCUMENT_OF("3", EVENT("a", "Redeploy", ""));
  schedev_step cancel = expect_step(&host, SCHEDEV_STEP_CANCEL);
  EXPECT(cancel.attempt == first.attempt && cancel.event.event_id.len == 0 && !has_record(&cancel));
  expect_nothing(&host, 10000);
  EXPECT(schedev_session_recovered(host.session, first.attempt, true, host.now, NULL) == SCHEDEV_ERROR_UNKNOWN_EVENT);
  EXPECT(schedev_session_prepared(host.session, first.attempt, SCHEDEV_PREPARATION_READY, &accepted) == SCHEDEV_OK);
  EXPECT(!accepted);

  schedev_step second = expect_step(&host, SCHEDEV_STEP_PREPARE);
  EXPECT(second.attempt != first.attempt && schedev_text_equal(second.event.event_type_text, "Redeploy", 8));
  accepted = true;
  EXPECT(schedev_session_prepared(host.session, first.attempt, SCHEDEV_PREPARATION_READY, &accepted) ==
         SCHEDEV_ERROR_UNKNOWN_EVENT);
  EXPECT(accepted); /* Outputs are written only on success. */
  expect_nothing(&host, 10000);
  ready(&host, second.attempt);
  (void)expect_step(&host, SCHEDEV_STEP_POST);
}

/* The machine is recovered once nothing keeps it out of service, for all events, and again until that succeeds. */
static void test_recovery(void) {
  static struct host host;
  schedev_text id;
  bool accepted = false;
  schedev_session_config config = base();
  begin(&host, &config, START);
  host.body = DOCUMENT_OF("2", EVENT("a", "Reboot", "") "," EVENT("b", "Reboot", ""));
  schedev_step first = expect_step(&host, SCHEDEV_STEP_PREPARE);
  schedev_step second = expect_step(&host, SCHEDEV_STEP_PREPARE);
  EXPECT(schedev_text_equal(first.event.event_id, "a", 1) && schedev_text_equal(second.event.event_id, "b", 1));
  ready(&host, first.attempt);
  ready(&host, second.attempt);
  (void)expect_step(&host, SCHEDEV_STEP_POST);
  approved(&host);
  host.body = DOCUMENT_OF("3", EVENT("b", "Reboot", ""));
  expect_nothing(&host, 10000);
  EXPECT(schedev_session_recovering(host.session, 0, &id) == SCHEDEV_OK && schedev_text_equal(id, "a", 1));
  EXPECT(schedev_session_recovering(host.session, 1, &id) == SCHEDEV_END && !in_service(&host));

  host.body = DOCUMENT_OF("4", "");
  schedev_step failing = expect_step(&host, SCHEDEV_STEP_RECOVER);
  EXPECT(schedev_text_equal(failing.event.event_id, "b", 1));
  EXPECT(schedev_session_recovering(host.session, 0, &id) == SCHEDEV_OK && schedev_text_equal(id, "b", 1));
  EXPECT(schedev_session_recovering(host.session, 1, &id) == SCHEDEV_OK && schedev_text_equal(id, "a", 1));
  EXPECT(schedev_session_recovering(host.session, 2, &id) == SCHEDEV_END);
  expect_record(&failing, "{\"record\":\"recover\",\"event_id\":\"b\",\"event_ids\":[\"b\",\"a\"],\"outcome\":null,");
  EXPECT(schedev_session_recovered(host.session, failing.attempt, false, host.now, &accepted) == SCHEDEV_OK);
  EXPECT(accepted && !schedev_session_is_idle(host.session));
  expect_nothing(&host, 4900);
  schedev_step retried = expect_step(&host, SCHEDEV_STEP_RECOVER);
  EXPECT(retried.attempt != failing.attempt);
  EXPECT(schedev_session_recovered(host.session, failing.attempt, true, host.now, NULL) == SCHEDEV_ERROR_UNKNOWN_EVENT);

  /* An event that has to be prepared for cancels the recovery, which is then for three events. */
  host.body = DOCUMENT_OF("5", EVENT("c", "Reboot", ""));
  EXPECT(expect_step(&host, SCHEDEV_STEP_CANCEL).attempt == retried.attempt);
  expect_nothing(&host, 10000);
  EXPECT(schedev_session_recovered(host.session, retried.attempt, true, host.now, &accepted) == SCHEDEV_OK);
  EXPECT(!accepted);
  ready(&host, expect_step(&host, SCHEDEV_STEP_PREPARE).attempt);
  (void)expect_step(&host, SCHEDEV_STEP_POST);
  approved(&host);
  host.body = DOCUMENT_OF("6", "");
  schedev_step last = expect_step(&host, SCHEDEV_STEP_RECOVER);
  expect_record(&last, "{\"record\":\"recover\",\"event_id\":\"c\",\"event_ids\":[\"c\",\"a\",\"b\"],");
  EXPECT(!in_service(&host));
  EXPECT(schedev_session_recovered(host.session, last.attempt, true, host.now, &accepted) == SCHEDEV_OK && accepted);
  EXPECT(in_service(&host) && schedev_session_recovering(host.session, 0, &id) == SCHEDEV_END);
  expect_nothing(&host, 600000);
  EXPECT(schedev_session_is_idle(host.session));
}

/* Another machine's event is recovered from by itself, whatever this machine waits for. */
static void test_other_machine(void) {
  static struct host host;
  const schedev_rule rule = {.action = SCHEDEV_ACTION_PREPARE, .scope = SCHEDEV_SCOPE_ANY};
  const char other[] =
      "{\"EventId\":\"o\",\"EventStatus\":\"Scheduled\",\"EventType\":\"Reboot\",\"Resources\":[\"x\"]}";
  char body[512];
  schedev_text id;
  schedev_policy policy = SCHEDEV_POLICY_INIT;
  schedev_session_config config = base();
  policy.rules = &rule;
  policy.rule_count = 1;
  config.policy = &policy;
  begin(&host, &config, START);
  (void)snprintf(body, sizeof body, DOCUMENT_OF("2", "%s,%s,%s"), EVENT("a", "Reboot", ""), EVENT("b", "Reboot", ""),
                 other);
  host.body = body;
  for (int i = 0; i < 3; i++) {
    schedev_step step = expect_step(&host, SCHEDEV_STEP_PREPARE);
    EXPECT(schedev_session_prepared(host.session, step.attempt, SCHEDEV_PREPARATION_FAILED, NULL) == SCHEDEV_OK);
  }
  host.body = DOCUMENT_OF("3", EVENT("b", "Reboot", ""));
  schedev_step step = expect_step(&host, SCHEDEV_STEP_RECOVER);
  EXPECT(schedev_session_recovering(host.session, 0, &id) == SCHEDEV_OK && schedev_text_equal(id, "a", 1));
  EXPECT(schedev_session_recovering(host.session, 1, &id) == SCHEDEV_END);
  expect_record(&step, "{\"record\":\"recover\",\"event_id\":\"o\",\"event_ids\":[\"o\"],\"outcome\":null,");
  EXPECT(schedev_session_recovered(host.session, step.attempt, true, host.now, NULL) == SCHEDEV_OK &&
         !in_service(&host));
}

/* What the first event waits for. */
static schedev_waiting waiting(const struct host *host) {
  schedev_waiting waiting;
  schedev_tracked_event event;
  EXPECT(schedev_session_waiting(host->session, 0, host->now, &waiting) == SCHEDEV_OK);
  EXPECT(schedev_session_event(host->session, 0, &event) == SCHEDEV_OK);
  EXPECT(waiting.event.event_id.data == event.event_id.data);
  return waiting;
}

static void test_waiting(void) {
  static struct host host;
  schedev_waiting shown = {.waits_for = 7};
  schedev_session_config config = base();
  begin(&host, &config, START);
  EXPECT(schedev_session_waiting(host.session, 0, host.now, &shown) == SCHEDEV_END && shown.waits_for == 7);
  host.body = DOCUMENT_OF("2", EVENT("a", "Reboot", ",\"NotBefore\":\"Sun, 13 Sep 2020 12:36:40 GMT\""));
  schedev_step prepare = expect_step(&host, SCHEDEV_STEP_PREPARE);
  shown = waiting(&host);
  EXPECT(shown.waits_for == SCHEDEV_WAITS_FOR_PREPARATION && shown.has_attempt && shown.attempt == prepare.attempt);
  EXPECT(shown.since_seconds == host.now / 1000 && !shown.has_until && !shown.by_last_call);
  EXPECT(shown.has_decision && shown.decision.rule == 1 && shown.decision.action == SCHEDEV_ACTION_PREPARE);
  EXPECT(schedev_session_waiting(host.session, 1, host.now, &shown) == SCHEDEV_END);

  EXPECT(schedev_session_prepared(host.session, prepare.attempt, SCHEDEV_PREPARATION_FAILED, NULL) == SCHEDEV_OK);
  shown = waiting(&host);
  EXPECT(shown.waits_for == SCHEDEV_WAITS_FOR_PREPARATION && !shown.has_attempt && shown.attempt == 0);
  EXPECT(shown.has_until && shown.until_seconds == host.now / 1000 + 5 && shown.since_seconds == 0);

  /* All times are times of day. */
  EXPECT(schedev_session_set_time_of_day_ahead(host.session, 60000) == SCHEDEV_OK);
  EXPECT(waiting(&host).until_seconds == host.now / 1000 + 65);
  EXPECT(strcmp(schedev_waits_for_word(shown.waits_for), "preparation") == 0);
  EXPECT(strcmp(schedev_waits_for_word(99), "other") == 0);
}

/* NotBefore is a time of day: it comes sooner if the machine was suspended while the program's clock stood still. */
static void test_time_of_day(void) {
  static struct host host;
  schedev_session_config config = base();
  schedev_rule rule = {.action = SCHEDEV_ACTION_PREPARE, .prepare_before_seconds = 60, .has_prepare_before = true};
  schedev_policy policy = SCHEDEV_POLICY_INIT;
  policy.rules = &rule;
  policy.rule_count = 1;
  config.policy = &policy;
  begin(&host, &config, START);
  host.body = DOCUMENT_OF("2", EVENT("a", "Reboot", ",\"NotBefore\":\"Sun, 13 Sep 2020 12:36:40 GMT\""));
  expect_nothing(&host, 10000);
  schedev_waiting shown = waiting(&host);
  EXPECT(shown.waits_for == SCHEDEV_WAITS_FOR_DUE_TIME && shown.until_seconds == START / 1000 + 540);
  EXPECT(schedev_session_set_time_of_day_ahead(host.session, 530000) == SCHEDEV_OK);
  (void)expect_step(&host, SCHEDEV_STEP_PREPARE);
  EXPECT(host.now < START + 20000);
}

/* A policy that changes while an event waits: the next document is decided with it. */
static void test_another_policy(void) {
  static struct host host;
  schedev_session_config config = base();
  schedev_policy wrong = SCHEDEV_POLICY_INIT;
  const schedev_policy *prepare = config.policy;
  config.policy = NULL;
  begin(&host, &config, START);
  host.body = DOCUMENT_OF("2", EVENT("a", "Reboot", ""));
  expect_nothing(&host, 3000);
  EXPECT(waiting(&host).decision.reason == SCHEDEV_REASON_OBSERVING);
  wrong.leader = 99;
  EXPECT(schedev_session_set_policy(host.session, &wrong) == SCHEDEV_ERROR_ARGUMENT);
  expect_nothing(&host, 3000);
  EXPECT(schedev_session_set_policy(host.session, prepare) == SCHEDEV_OK);
  ready(&host, expect_step(&host, SCHEDEV_STEP_PREPARE).attempt);
  EXPECT(schedev_session_set_policy(host.session, NULL) == SCHEDEV_OK);
  expect_nothing(&host, 3000); /* It is not approved any more. */
  EXPECT(schedev_session_set_policy(NULL, prepare) == SCHEDEV_ERROR_NULL);
}

/* Every event that was seen Started is recovered from, if the configuration says so. */
static void test_recover_all(void) {
  for (int all = 0; all < 2; all++) {
    static struct host host;
    schedev_session_config config = base();
    config.recover_all = all == 1;
    begin(&host, &config, START);
    host.body = "{\"Events\":[{\"EventId\":\"a\",\"EventStatus\":\"Started\",\"EventType\":\"Freeze\",\"Resources\":["
                "\"vm_0\"]}]}";
    expect_nothing(&host, 3000);
    EXPECT(in_service(&host) == (all == 0));
    host.body = DOCUMENT_OF("2", "");
    EXPECT(act_until(&host, host.now + 10000).kind == (all == 1 ? SCHEDEV_STEP_RECOVER : 0));
  }
}

static void answer_gate(struct host *host, uint32_t phase, uint32_t answer) {
  bool accepted = false;
  schedev_step step = expect_step(host, SCHEDEV_STEP_GATE);
  EXPECT(step.gate_phase == phase && step.event.event_id.len == 1 && !has_record(&step));
  EXPECT(schedev_session_gate_answered(host->session, step.attempt, answer, host->now, &accepted) == SCHEDEV_OK);
  EXPECT(accepted);
}

/* The gate is asked before the preparation and before the approval, and again if it is not open. */
static void test_gate(void) {
  static struct host host;
  bool accepted = true;
  schedev_session_config config = base();
  config.gate = true;
  begin(&host, &config, START);
  host.body = DOCUMENT_OF("2", EVENT("a", "Reboot", ",\"NotBefore\":\"Sun, 13 Sep 2020 14:00:00 GMT\""));
  answer_gate(&host, SCHEDEV_GATE_PHASE_PREPARE, SCHEDEV_GATE_ANSWER_CLOSED);
  expect_nothing(&host, 4900);
  EXPECT(in_service(&host));

  /* A question about an event that changes is cancelled, and the gate is asked anew. */
  schedev_step outdated = expect_step(&host, SCHEDEV_STEP_GATE);
  host.body = DOCUMENT_OF("3", EVENT("a", "Reboot", ",\"NotBefore\":\"Sun, 13 Sep 2020 15:00:00 GMT\""));
  EXPECT(expect_step(&host, SCHEDEV_STEP_CANCEL).attempt == outdated.attempt);
  EXPECT(schedev_session_gate_answered(host.session, outdated.attempt, SCHEDEV_GATE_ANSWER_OPEN, host.now, &accepted) ==
         SCHEDEV_OK);
  EXPECT(!accepted);
  EXPECT(schedev_session_gate_answered(host.session, outdated.attempt, SCHEDEV_GATE_ANSWER_OPEN, host.now, NULL) ==
         SCHEDEV_ERROR_UNKNOWN_EVENT);
  answer_gate(&host, SCHEDEV_GATE_PHASE_PREPARE, SCHEDEV_GATE_ANSWER_ANOTHER_APPROVES);
  answer_gate(&host, SCHEDEV_GATE_PHASE_PREPARE, SCHEDEV_GATE_ANSWER_OPEN);
  ready(&host, expect_step(&host, SCHEDEV_STEP_PREPARE).attempt);
  answer_gate(&host, SCHEDEV_GATE_PHASE_APPROVE, SCHEDEV_GATE_ANSWER_ANOTHER_APPROVES);
  expect_nothing(&host, 4900);
  answer_gate(&host, SCHEDEV_GATE_PHASE_APPROVE, SCHEDEV_GATE_ANSWER_OPEN);
  int64_t opened = host.polled;
  (void)expect_step(&host, SCHEDEV_STEP_POST);
  EXPECT(host.polled > opened); /* A poll after the answer shows the event unchanged. */
}

/* The machine prepares by the last call, whatever its gate does, and is not approved without the gate's yes. */
static void test_last_call(void) {
  static struct host host;
  /* At 12:36:40, ten minutes after the start. */
  const char *body = DOCUMENT_OF("2", EVENT("a", "Reboot", ",\"NotBefore\":\"Sun, 13 Sep 2020 12:36:40 GMT\""));
  const struct {
    uint32_t seconds;
    int64_t after_ms;
  } cases[] = {{SCHEDEV_LAST_CALL_STANDARD, 300000}, {120, 480000}, {SCHEDEV_LAST_CALL_NEVER, 0}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    schedev_session_config config = base();
    schedev_step step;
    config.gate = true;
    config.last_call_seconds = cases[i].seconds;
    begin(&host, &config, START);
    host.body = body;
    do {
      step = act_until(&host, START + 700000);
      if (step.kind == SCHEDEV_STEP_GATE) {
        EXPECT(step.gate_phase == SCHEDEV_GATE_PHASE_PREPARE);
        EXPECT(schedev_session_gate_answered(host.session, step.attempt, SCHEDEV_GATE_ANSWER_CLOSED, host.now, NULL) ==
               SCHEDEV_OK);
      } else if (step.kind == SCHEDEV_STEP_PREPARE) {
        EXPECT(host.now == START + cases[i].after_ms);
        ready(&host, step.attempt);
      } else {
        EXPECT(step.kind == 0);
      }
    } while (step.kind != 0);
    EXPECT(in_service(&host) == (cases[i].after_ms == 0));
  }
}

/* Restores the state of one machine and boot with another configuration. */
static schedev_status restart(struct host *host, const schedev_session_config *config) {
  static char snapshot[SCHEDEV_SNAPSHOT_MAX_BYTES];
  const char *body = host->body;
  size_t len = 0;
  EXPECT(schedev_session_snapshot(host->session, snapshot, sizeof snapshot, &len) == SCHEDEV_OK);
  begin(host, config, host->now + 1000);
  host->body = body;
  return schedev_session_restore(host->session, snapshot, len);
}

static void test_restarts(void) {
  static struct host host;
  schedev_text id;
  schedev_session_config config = base(), copy;
  config.machine_id = schedev_text_from("02aab8a4-74ef-476e-8182-f6d2ba4166a6");
  config.boot_id = schedev_text_from("first");
  config.gate = true; /* So that the event is not approved. */
  for (int rebooted = 0; rebooted < 2; rebooted++) {
    begin(&host, &config, START);
    host.body = DOCUMENT_OF("2", EVENT("a", "Reboot", ""));
    answer_gate(&host, SCHEDEV_GATE_PHASE_PREPARE, SCHEDEV_GATE_ANSWER_OPEN);
    schedev_step prepare = expect_step(&host, SCHEDEV_STEP_PREPARE);
    ready(&host, prepare.attempt);
    copy = config;
    copy.boot_id = schedev_text_from(rebooted ? "second" : "first");
    EXPECT(restart(&host, &copy) == SCHEDEV_OK && !in_service(&host));
    /* What was ready before a reboot is not ready after it. */
    schedev_step step = expect_step(&host, SCHEDEV_STEP_GATE);
    EXPECT(step.gate_phase == (rebooted ? SCHEDEV_GATE_PHASE_PREPARE : SCHEDEV_GATE_PHASE_APPROVE));
    EXPECT(step.attempt > prepare.attempt);
  }
  /* The program dies while it recovers: its successor recovers, with a number of its own. */
  host.body = DOCUMENT_OF("3", "");
  (void)expect_step(&host, SCHEDEV_STEP_CANCEL);
  EXPECT(restart(&host, &config) == SCHEDEV_OK);
  schedev_step recover = expect_step(&host, SCHEDEV_STEP_RECOVER);
  EXPECT(restart(&host, &config) == SCHEDEV_OK);
  EXPECT(schedev_session_recovered(host.session, recover.attempt, true, host.now, NULL) == SCHEDEV_ERROR_UNKNOWN_EVENT);
  EXPECT(expect_step(&host, SCHEDEV_STEP_RECOVER).attempt != recover.attempt);

  /* The disk of this machine was cloned. */
  copy = config;
  copy.machine_id = schedev_text_from("other");
  EXPECT(restart(&host, &copy) == SCHEDEV_ERROR_SNAPSHOT_OTHER_MACHINE);
  EXPECT(in_service(&host) && !schedev_session_has_seen_event(host.session));
  EXPECT(schedev_session_recovering(host.session, 0, &id) == SCHEDEV_END);

  /* The same, found out later. */
  copy.machine_id = schedev_text_from("");
  for (int same = 0; same < 2; same++) {
    begin(&host, &config, START);
    host.body = DOCUMENT_OF("2", EVENT("a", "Reboot", ""));
    (void)expect_step(&host, SCHEDEV_STEP_GATE);
    EXPECT(restart(&host, &copy) == SCHEDEV_OK && schedev_session_has_seen_event(host.session));
    EXPECT(schedev_session_set_machine_id(host.session, copy.machine_id) == SCHEDEV_OK);
    EXPECT(schedev_session_set_machine_id(host.session, same ? config.machine_id : schedev_text_from("other")) ==
           (same ? SCHEDEV_OK : SCHEDEV_ERROR_SNAPSHOT_OTHER_MACHINE));
    EXPECT(schedev_session_has_seen_event(host.session) == same);
  }
}

static schedev_decision decide(const char *resources, const char *not_before, const schedev_rule *rule,
                               uint32_t leader) {
  char body[256];
  schedev_document document;
  schedev_event event;
  schedev_event_cursor cursor = SCHEDEV_CURSOR_INIT;
  schedev_policy policy = SCHEDEV_POLICY_INIT;
  schedev_decision decision;
  (void)snprintf(body, sizeof body,
                 "{\"Events\":[{\"EventId\":\"a\",\"EventStatus\":\"Scheduled\",\"EventType\":\"Reboot\","
                 "\"Resources\":[%s],\"NotBefore\":\"%s\"}]}",
                 resources, not_before);
  policy.rules = rule;
  policy.rule_count = 1;
  policy.leader = leader;
  EXPECT(schedev_document_parse(body, strlen(body), &document, NULL) == SCHEDEV_OK);
  EXPECT(schedev_document_next(&document, &cursor, &event) == SCHEDEV_OK);
  EXPECT(schedev_decide(&policy, &event, &names, START / 1000, &decision) == SCHEDEV_OK);
  return decision;
}

static void test_rules(void) {
  static const char *const start = "Sun, 13 Sep 2020 12:36:40 GMT"; /* In ten minutes. */
  schedev_rule rule = {.action = SCHEDEV_ACTION_PREPARE};
  schedev_decision decision = decide("\"vm_0\"", start, &rule, SCHEDEV_LEADER_NOT_SET);
  EXPECT(decision.action == SCHEDEV_ACTION_PREPARE && decision.has_approve_after && !decision.has_act_from);

  /* The ranges of the notice are inclusive, and zero means something only with its flag. */
  const struct {
    uint32_t min, max;
    bool matches;
  } ranges[] = {{600, 600, true}, {601, UINT32_MAX, false}, {0, 599, false}, {0, 0, false}, {0, 600, true}};
  for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
    rule.min_notice_seconds = ranges[i].min;
    rule.max_notice_seconds = ranges[i].max;
    rule.has_min_notice = rule.has_max_notice = true;
    bool matched = decide("\"vm_0\"", start, &rule, SCHEDEV_LEADER_NOT_SET).rule == 1;
    EXPECT(matched == ranges[i].matches);
    EXPECT(decide("\"vm_0\"", "", &rule, SCHEDEV_LEADER_NOT_SET).rule == 0);
    rule.has_min_notice = rule.has_max_notice = false;
    EXPECT(decide("\"vm_0\"", start, &rule, SCHEDEV_LEADER_NOT_SET).rule == 1);
  }

  rule.prepare_before_seconds = 60;
  EXPECT(!decide("\"vm_0\"", start, &rule, SCHEDEV_LEADER_NOT_SET).has_act_from);
  rule.has_prepare_before = true;
  decision = decide("\"vm_0\"", start, &rule, SCHEDEV_LEADER_NOT_SET);
  EXPECT(decision.has_act_from && decision.act_from_seconds == START / 1000 + 540);
  decision = decide("\"vm_0\"", "", &rule, SCHEDEV_LEADER_NOT_SET);
  EXPECT(decision.action == SCHEDEV_ACTION_PREPARE && decision.reason == SCHEDEV_REASON_START_UNKNOWN);
  EXPECT(!decision.has_approve_after && !decision.has_act_from && decision.act_from_seconds == 0);

  /* Who approves an event of several machines. */
  rule.has_prepare_before = false;
  decision = decide("\"vm_0\",\"vm_1\"", start, &rule, SCHEDEV_LEADER_NOT_SET);
  EXPECT(decision.action == SCHEDEV_ACTION_PREPARE && decision.reason == SCHEDEV_REASON_SEVERAL_MACHINES);
  EXPECT(!decision.has_approve_after && strstr(schedev_decision_reason(&decision), "leader") != NULL);
  EXPECT(decide("\"vm_0\",\"vm_1\"", start, &rule, SCHEDEV_LEADER_FIRST_RESOURCE).has_approve_after);
  EXPECT(!decide("\"vm_1\",\"vm_0\"", start, &rule, SCHEDEV_LEADER_FIRST_RESOURCE).has_approve_after);
  EXPECT(decide("\"vm_1\",\"vm_0\"", start, &rule, SCHEDEV_LEADER_EVERYONE).has_approve_after);
  rule.action = SCHEDEV_ACTION_APPROVE;
  EXPECT(decide("\"vm_0\",\"vm_1\"", start, &rule, SCHEDEV_LEADER_NOT_SET).action == SCHEDEV_ACTION_APPROVE);
  decision = decide("\"vm_1\",\"vm_0\"", start, &rule, SCHEDEV_LEADER_NOT_SET);
  EXPECT(decision.action == SCHEDEV_ACTION_HOLD && decision.reason == SCHEDEV_REASON_ANOTHER_LEADS);
}

int main(void) {
  test_change_of_type();
  test_recovery();
  test_other_machine();
  test_waiting();
  test_time_of_day();
  test_another_policy();
  test_recover_all();
  test_gate();
  test_last_call();
  test_restarts();
  test_rules();
  return 0;
}
