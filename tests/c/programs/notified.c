/* A session that gets notifications: the life of an event, late notifications, documents beside them, what is refused. With an
 * argument, it plays a scenario of the corpus instead: run.py passes each input as a line. */
#include <inttypes.h>

#include "expect.h"

#define START INT64_C(1600000000000) /* 2020-09-13T12:26:40Z */
#define ID "743c15d8-a994-46fc-93af-b84ee33f9a14"
#define MACHINE                                                                                                        \
  "/subscriptions/0b1c2d3e-4f50-4a6b-8c7d-9e0f1a2b3c4d/resourceGroups/web/providers/Microsoft.Compute/"                \
  "virtualMachines/db"
/* A message of Event Grid, sent at this minute. */
#define MESSAGE(status, minute)                                                                                        \
  "{\"id\":\"m\",\"eventType\":\"microsoft.maintenance/scheduledevents/write\",\"eventTime\":\"2020-09-13T12:" minute  \
  ":00Z\",\"data\":{\"resourceInfo\":{\"id\":\"" MACHINE "\",\"properties\":{\"EventId\":\"" ID                        \
  "\",\"EventStatus\":\"" status "\",\"EventType\":\"Reboot\",\"Resources\":[\"db\"]}}}}"
#define DOCUMENT_OF(incarnation, events) "{\"DocumentIncarnation\":" incarnation ",\"Events\":[" events "]}"
#define SCHEDULED                                                                                                      \
  "{\"EventId\":\"" ID "\",\"EventStatus\":\"Scheduled\",\"EventType\":\"Reboot\",\"Resources\":[\"db\"]}"

/* A session, the order of its notifications, and what it asked for and reported. */
struct host {
  schedev_session *session;
  schedev_notification_order order;
  int64_t now;
  /* What the metadata service returns. */
  const char *body;
  /* How preparations end. */
  uint32_t prepared;
  char log[1000];
  union {
    unsigned char bytes[31000];
    uint64_t align;
  } memory;
};

static void begin(struct host *host, uint32_t source) {
  static const schedev_text name = {"db", 2, false};
  static const schedev_names names = SCHEDEV_NAMES_INIT(&name, 1);
  static const schedev_rule rule = {.action = SCHEDEV_ACTION_PREPARE};
  const schedev_notification_order order = SCHEDEV_NOTIFICATION_ORDER_INIT;
  schedev_policy policy = SCHEDEV_POLICY_INIT;
  schedev_session_config config = SCHEDEV_SESSION_CONFIG_INIT;
  policy.rules = &rule;
  policy.rule_count = 1;
  config.policy = &policy;
  config.names = &names;
  config.source = source;
  host->order = order;
  host->now = START;
  host->log[0] = '\0';
  host->prepared = host->prepared == 0 ? SCHEDEV_PREPARATION_READY : host->prepared;
  EXPECT(schedev_session_init(host->memory.bytes, sizeof host->memory.bytes, &config, &host->session) == SCHEDEV_OK);
}

static void log_word(struct host *host, const char *word) {
  EXPECT(strlen(host->log) + strlen(word) + 2 < sizeof host->log);
  strcat(strcat(host->log, word), " ");
}

static void expect_log(struct host *host, const char *expected) {
  if (strcmp(host->log, expected) != 0) {
    fprintf(stderr, "%s\n instead of\n%s\n", host->log, expected);
    exit(1);
  }
  host->log[0] = '\0';
}

static schedev_notification parsed(const char *message, schedev_notifications *notifications) {
  schedev_notification_cursor cursor = SCHEDEV_CURSOR_INIT;
  schedev_notification notification;
  EXPECT(schedev_notifications_parse(message, strlen(message), notifications, NULL) == SCHEDEV_OK);
  EXPECT(schedev_notifications_next(notifications, &cursor, &notification) == SCHEDEV_OK);
  return notification;
}

static const char *notify(struct host *host, const char *message) {
  schedev_notifications notifications;
  schedev_notification notification = parsed(message, &notifications);
  uint32_t outcome = 0;
  EXPECT(schedev_session_on_notification(host->session, &host->order, &notification, host->now, &outcome) ==
         SCHEDEV_OK);
  return schedev_notification_outcome_word(outcome);
}

/* The request that approves what the session posts, to Azure Resource Manager. */
static void acknowledge(struct host *host) {
  const schedev_text resource = schedev_text_from(MACHINE);
  schedev_text id;
  char path[SCHEDEV_ACKNOWLEDGE_PATH_MAX_BYTES];
  size_t len, body_len;
  EXPECT(schedev_session_posted(host->session, 0, &id) == SCHEDEV_OK);
  EXPECT(schedev_acknowledge_request(resource, &id, 1, path, sizeof path, &len, NULL, 0, &body_len) == SCHEDEV_OK);
  EXPECT(strstr(path, "/virtualMachines/db/providers/Microsoft.Maintenance/scheduledevents/"));
}

/* Does what is due. */
static void work(struct host *host) {
  schedev_step step;
  schedev_response response = SCHEDEV_RESPONSE_INIT;
  response.http_status = 200;
  for (;;) {
    EXPECT(schedev_session_next(host->session, host->now, &step) == SCHEDEV_OK);
    switch (step.kind) {
    case SCHEDEV_STEP_WAIT:
      /* Requests are some time apart. */
      if (step.until_ms - host->now >= 500) {
        return;
      }
      host->now = step.until_ms;
      break;
    case SCHEDEV_STEP_GET:
      response.body = host->body;
      response.body_len = strlen(host->body);
      EXPECT(schedev_session_on_response(host->session, &response, host->now, NULL) == SCHEDEV_OK);
      break;
    case SCHEDEV_STEP_POST:
      log_word(host, "post");
      acknowledge(host);
      EXPECT(schedev_session_on_response(host->session, &response, host->now, NULL) == SCHEDEV_OK);
      break;
    case SCHEDEV_STEP_PREPARE:
      log_word(host, "prepare");
      EXPECT(schedev_session_prepared(host->session, step.attempt, host->prepared, NULL) == SCHEDEV_OK);
      break;
    case SCHEDEV_STEP_RECOVER:
      log_word(host, "recover");
      EXPECT(schedev_session_recovered(host->session, step.attempt, true, host->now, NULL) == SCHEDEV_OK);
      break;
    case SCHEDEV_STEP_CHANGE:
      log_word(host, schedev_change_word(step.change));
      if (step.change >= SCHEDEV_CHANGE_COMPLETED && step.change != SCHEDEV_CHANGE_ADVISED) {
        EXPECT(schedev_notification_order_end(&host->order, step.event.event_id) == SCHEDEV_OK);
      }
      break;
    default:
      EXPECT(step.kind == SCHEDEV_STEP_DECISION || step.kind == SCHEDEV_STEP_PROBLEM);
    }
  }
}

static void poll(struct host *host, const char *body) {
  host->body = body;
  host->now += 10000;
  work(host);
}

/* From the announcement to the recovery, without a document. */
static void a_life(void) {
  static struct host host;
  begin(&host, SCHEDEV_SESSION_SOURCE_NOTIFICATIONS);
  work(&host);
  EXPECT(schedev_session_is_idle(host.session));
  EXPECT(strcmp(notify(&host, MESSAGE("Scheduled", "00")), "applied") == 0);
  work(&host);
  expect_log(&host, "scheduled prepare post ");
  EXPECT(strcmp(notify(&host, MESSAGE("Scheduled", "00")), "applied") == 0);
  EXPECT(strcmp(notify(&host, MESSAGE("Started", "10")), "applied") == 0);
  EXPECT(strcmp(notify(&host, MESSAGE("Scheduled", "05")), "ignored") == 0);
  work(&host);
  expect_log(&host, "started ");
  EXPECT(strcmp(notify(&host, MESSAGE("Completed", "20")), "applied") == 0);
  work(&host);
  expect_log(&host, "completed recover ");
  EXPECT(schedev_session_is_idle(host.session));
  EXPECT(strcmp(notify(&host, MESSAGE("Started", "15")), "ignored") == 0);
  work(&host);
  expect_log(&host, "");
}

/* The first of the two makes an event known, and the first one ends it. */
static void beside_documents(void) {
  static struct host host;
  begin(&host, SCHEDEV_SESSION_SOURCE_BOTH);
  poll(&host, DOCUMENT_OF("1", ""));
  EXPECT(strcmp(notify(&host, MESSAGE("Scheduled", "00")), "applied") == 0);
  work(&host);
  expect_log(&host, "scheduled prepare post ");
  poll(&host, DOCUMENT_OF("2", SCHEDULED));
  expect_log(&host, "");
  EXPECT(strcmp(notify(&host, MESSAGE("Scheduled", "05")), "ignored") == 0);
  poll(&host, DOCUMENT_OF("3", ""));
  poll(&host, DOCUMENT_OF("3", ""));
  expect_log(&host, "ended recover ");
  EXPECT(strcmp(notify(&host, MESSAGE("Started", "10")), "ignored") == 0);
  poll(&host, DOCUMENT_OF("3", ""));
  expect_log(&host, "");
  begin(&host, SCHEDEV_SESSION_SOURCE_DOCUMENTS);
  EXPECT(strcmp(notify(&host, MESSAGE("Scheduled", "00")), "ignored") == 0);
}

/* More events than the session follows. */
static void too_many(void) {
  static struct host host;
  char message[] = MESSAGE("Scheduled", "00");
  char *digits = strstr(message, ID);
  begin(&host, SCHEDEV_SESSION_SOURCE_NOTIFICATIONS);
  for (int i = 0; i <= SCHEDEV_SESSION_EVENTS_MAX; i++) {
    digits[0] = (char)('A' + i / 26);
    digits[1] = (char)('A' + i % 26);
    EXPECT(strcmp(notify(&host, message), i < SCHEDEV_SESSION_EVENTS_MAX ? "applied" : "untracked") == 0);
  }
}

static void refused(void) {
  static struct host host;
  static schedev_notification_order wrong, copy;
  schedev_notifications notifications;
  schedev_notification notification = parsed(MESSAGE("Scheduled", "00"), &notifications), none;
  const schedev_text id = {ID, sizeof ID - 1, false}, broken = {"\xff", 1, false};
  schedev_session_config config = SCHEDEV_SESSION_CONFIG_INIT;
  schedev_session *session = NULL;
  uint32_t outcome = 77;
  begin(&host, SCHEDEV_SESSION_SOURCE_NOTIFICATIONS);
  memset(&none, 0, sizeof none);
  memset(&wrong, 1, sizeof wrong);
  EXPECT(schedev_session_on_notification(NULL, &host.order, &notification, START, &outcome) == SCHEDEV_ERROR_NULL);
  EXPECT(schedev_session_on_notification(host.session, NULL, &notification, START, &outcome) == SCHEDEV_ERROR_NULL);
  EXPECT(schedev_session_on_notification(host.session, &host.order, NULL, START, &outcome) == SCHEDEV_ERROR_NULL);
  EXPECT(schedev_session_on_notification(host.session, &host.order, &none, START, &outcome) == SCHEDEV_ERROR_ARGUMENT);
  EXPECT(schedev_session_on_notification(host.session, &wrong, &notification, START, &outcome) ==
         SCHEDEV_ERROR_ARGUMENT);
  EXPECT(schedev_notification_order_end(NULL, id) == SCHEDEV_ERROR_NULL);
  EXPECT(schedev_notification_order_end(&wrong, id) == SCHEDEV_ERROR_ARGUMENT);
  EXPECT(schedev_notification_order_end(&host.order, broken) == SCHEDEV_ERROR_UTF8);
  EXPECT(outcome == 77 && !schedev_session_has_seen_event(host.session));
  /* What was refused has not changed the order, and a copy of it is as good. */
  EXPECT(schedev_session_on_notification(host.session, &host.order, &notification, START, NULL) == SCHEDEV_OK);
  EXPECT(schedev_session_has_seen_event(host.session));
  copy = host.order;
  EXPECT(schedev_notification_order_end(&copy, id) == SCHEDEV_OK);
  EXPECT(schedev_session_on_notification(host.session, &copy, &notification, START, &outcome) == SCHEDEV_OK);
  EXPECT(outcome == SCHEDEV_NOTIFICATION_OUTCOME_IGNORED);
  EXPECT(strcmp(schedev_notification_outcome_word(0), "other") == 0);
  config.source = 3;
  EXPECT(schedev_session_init(host.memory.bytes, sizeof host.memory.bytes, &config, &session) ==
         SCHEDEV_ERROR_ARGUMENT);
}

/* Reads lines with the time in seconds, the kind of input and its text, and prints what the session does after each. */
static void play(void) {
  static struct host host;
  static char kind[20], text[2000], document[2000], snapshot[20000];
  int64_t at;
  size_t len = 0;
  host.body = document;
  while (scanf("%" SCNd64 " %19s %1999[^\n]", &at, kind, text) == 3) {
    if (strcmp(kind, "source") == 0) {
      /* A new session, which continues from the snapshot of the one before. */
      EXPECT(at == 0 || schedev_session_snapshot(host.session, snapshot, sizeof snapshot, &len) == SCHEDEV_OK);
      begin(&host, (uint32_t)(text[0] - '0'));
      EXPECT(at == 0 || schedev_session_restore(host.session, snapshot, len) == SCHEDEV_OK);
      continue;
    }
    if (strcmp(kind, "prepared") == 0) {
      host.prepared = SCHEDEV_PREPARATION_READY + (uint32_t)(text[0] - '0');
      continue;
    }
    host.now = START + at * 1000;
    if (strcmp(kind, "notify") == 0) {
      log_word(&host, notify(&host, text));
    } else {
      strcpy(document, text);
    }
    work(&host);
    printf("%s\n", host.log);
    host.log[0] = '\0';
  }
}

int main(int argc, char **argv) {
  (void)argv;
  if (argc > 1) {
    play();
    return 0;
  }
  a_life();
  beside_documents();
  too_many();
  refused();
  return 0;
}
