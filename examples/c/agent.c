/*
 * An agent for production over libcurl: it polls, runs a program to prepare and one to recover, approves, and logs JSON Lines.
 *
 *     agent ENDPOINT VM-NAME STATE PREPARE RECOVER
 *     agent http://169.254.169.254 web_0 /var/lib/agent/state /usr/libexec/drain /usr/libexec/undrain
 *
 * PREPARE and RECOVER run without a shell, with the event in their environment, while the agent polls; what fails or takes
 * longer than COMMAND_TIMEOUT_MS is not approved, or run again. SIGTERM and SIGINT end the agent and what it runs. The state
 * file lets the next run continue; `scheduled-events watch --state` reads it, too, and one of them at a time may use it.
 *
 *     cc agent.c process.c requests.c state_file.c $(pkg-config --cflags --libs scheduled_events libcurl)
 */
#include <scheduled_events.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "process.h"
#include "requests.h"
#include "state_file.h"

#define COMMAND_TIMEOUT_MS 600000
#define COMMANDS_MAX (SCHEDEV_SESSION_EVENTS_MAX + 1)

struct command {
  program program;
  uint32_t attempt;
  bool recovers;
};

static char newest[REQUESTS_BODY_MAX]; /* The newest document's body: records need it until the next one. */
static struct command commands[COMMANDS_MAX];
static schedev_session *session;
static schedev_document document;
static bool has_document;
static schedev_machine machine; /* For the records. */
static int64_t ask_id_at = -1;  /* When to request the machine's id again; -1 if it is known, or is being requested. */

/* Ends the program if a call with correct arguments fails. */
static void check(schedev_status status) {
  if (status != SCHEDEV_OK) {
    fprintf(stderr, "error: %s\n", schedev_status_message((uint32_t)status));
    exit(1);
  }
}

/* Stores the session if it changed. A full disk does not stop the agent: it is logged, and tried again. */
static void save(void) {
  static char snapshot[SCHEDEV_SNAPSHOT_MAX_BYTES];
  size_t len;
  if (schedev_session_changed(session)) {
    check(schedev_session_snapshot(session, snapshot, sizeof snapshot, &len));
    if (state_replace(snapshot, len)) {
      check(schedev_session_saved(session));
    }
  }
}

/* Moves the state file away if the session cannot continue from it; the session is as new then. */
static void check_state(schedev_status status) {
  if (status != SCHEDEV_OK && !state_quarantine(schedev_status_message((uint32_t)status))) {
    exit(1);
  }
}

/* Starts a program for a step. If that is impossible, it has failed. */
static void start(const schedev_step *step, const char *path) {
  struct command *command = commands;
  char id[SCHEDEV_EVENT_ID_MAX_BYTES + 1], type[64];
  size_t len;
  while (command < commands + COMMANDS_MAX && command->program.process != 0) {
    command++;
  }
  check(schedev_text_copy(step->event.event_id, id, sizeof id, &len));
  check(schedev_text_copy(step->event.event_type_text, type, sizeof type, &len));
  bool recovers = step->kind == SCHEDEV_STEP_RECOVER;
  if (command < commands + COMMANDS_MAX && program_start(&command->program, path, id, type, COMMAND_TIMEOUT_MS)) {
    command->attempt = step->attempt;
    command->recovers = recovers;
  } else if (recovers) {
    check(schedev_session_recovered(session, step->attempt, false, now_ms(), NULL));
  } else {
    check(schedev_session_prepared(session, step->attempt, SCHEDEV_PREPARATION_FAILED, NULL));
  }
}

/* Ends the commands of this attempt, or all, and reports the results of those that are over. Returns whether any runs. */
static bool supervise(uint32_t cancelled, bool all) {
  bool runs = false;
  int code;
  for (struct command *command = commands; command < commands + COMMANDS_MAX; command++) {
    if (command->program.process == 0) {
      continue;
    }
    if (all || command->attempt == cancelled) {
      program_end(&command->program);
    }
    if (!program_is_over(&command->program, &code)) {
      runs = true;
    } else if (!all && command->recovers) { /* A session that began anew does not know the attempt. */
      (void)schedev_session_recovered(session, command->attempt, code == 0, now_ms(), NULL);
    } else if (!all) {
      uint32_t result = code == 0                  ? SCHEDEV_PREPARATION_READY
                        : code == DO_NOT_ASK_AGAIN ? SCHEDEV_PREPARATION_ABANDONED
                                                   : SCHEDEV_PREPARATION_FAILED;
      (void)schedev_session_prepared(session, command->attempt, result, NULL);
    }
  }
  return runs;
}

/* Passes the machine's id to the session, or lets it be requested again a few times: some services have none. */
static void identify(const struct answer *answer) {
  static const int64_t pauses[] = {1000, 8000, 60000};
  static size_t failures = 0;
  const schedev_text id = {answer->body, answer->body_len, false};
  if (answer->code != CURLE_OK) {
    ask_id_at = failures < sizeof pauses / sizeof *pauses ? now_ms() + pauses[failures++] : -1;
    return;
  }
  static char vm_id[64];
  check_state(schedev_session_set_machine_id(session, id));
  if (id.len <= sizeof vm_id) {
    memcpy(vm_id, id.data, id.len);
    machine.vm_id = (schedev_text){vm_id, id.len, false};
  }
}

/* Passes an answer about events to the session. */
static void finish(const struct answer *answer) {
  schedev_response response = SCHEDEV_RESPONSE_INIT;
  schedev_outcome outcome;
  if (answer->repeated) {
    check(schedev_session_repeat_answered(session));
  }
  if (answer->code != CURLE_OK) {
    uint32_t cause = answer->code == CURLE_OPERATION_TIMEDOUT ? SCHEDEV_CAUSE_TIMEOUT
                     : answer->code == CURLE_COULDNT_CONNECT  ? SCHEDEV_CAUSE_UNREACHABLE
                     : answer->code == CURLE_WRITE_ERROR      ? SCHEDEV_CAUSE_TOO_LARGE
                                                              : SCHEDEV_CAUSE_CONNECTION_LOST;
    check(schedev_session_on_failure(session, cause, now_ms(), &outcome));
  } else {
    response.http_status = answer->http_status;
    response.body = answer->body;
    response.body_len = answer->body_len;
    response.has_retry_after = answer->retry_after_seconds > 0;
    response.retry_after_seconds = answer->retry_after_seconds;
    check(schedev_session_on_response(session, &response, now_ms(), &outcome));
  }
  if (outcome.kind == SCHEDEV_OUTCOME_DOCUMENT) {
    memcpy(newest, answer->body, answer->body_len);
    has_document = schedev_document_parse(newest, answer->body_len, &document, NULL) == SCHEDEV_OK;
  } else if (outcome.cause != SCHEDEV_CAUSE_NONE) {
    fprintf(stderr, "warning: a request failed: %s\n", schedev_cause_word(outcome.cause));
  }
}

static void log_step(const schedev_step *step) {
  static char record[SCHEDEV_STEP_JSON_MAX_BYTES]; /* Enough unless texts of the document are very long. */
  size_t len = 0;
  const schedev_document *known = has_document ? &document : NULL;
  schedev_status status = schedev_step_json(step, known, &machine, record, sizeof record, &len);
  if (status == SCHEDEV_ERROR_BUFFER_TOO_SMALL) {
    status = schedev_step_json(step, NULL, &machine, record, sizeof record, &len);
  }
  if (status == SCHEDEV_OK) {
    printf("%s\n", record);
    (void)fflush(stdout);
  }
}

int main(int argc, char **argv) {
  static char state[SCHEDEV_STATE_READ_BYTES], boot_id[64];
  if (argc != 6) {
    fprintf(stderr, "usage: agent ENDPOINT VM-NAME STATE PREPARE RECOVER\n");
    return 2;
  }
  int wakeups = catch_signals();
  if (wakeups < 0) {
    perror("signals");
    return 1;
  }
  if (!requests_open(argv[1])) {
    fprintf(stderr, "error: libcurl cannot start\n");
    return 1;
  }

  const schedev_text name = schedev_text_from(argv[2]);
  const schedev_names names = SCHEDEV_NAMES_INIT(&name, 1);
  machine.name = name;
  const schedev_rule prepare = {.action = SCHEDEV_ACTION_PREPARE}; /* Every event of this machine. */
  schedev_policy policy = SCHEDEV_POLICY_INIT;
  policy.rules = &prepare;
  policy.rule_count = 1;
  schedev_session_config config = SCHEDEV_SESSION_CONFIG_INIT;
  config.policy = &policy;
  config.names = &names;
  config.seed = (uint64_t)now_ms() ^ (uint64_t)getpid() << 40;
  ssize_t got = read_file("/proc/sys/kernel/random/boot_id", boot_id, sizeof boot_id);
  config.boot_id = (schedev_text){boot_id, got > 0 ? (size_t)got : 0, false};
  void *memory = malloc(schedev_session_size());
  check(schedev_session_init(memory, schedev_session_size(), &config, &session));
  if (!state_open(argv[3], state, sizeof state, &got)) {
    return 1;
  }
  if (got >= 0) {
    check_state(schedev_session_restore(session, state, (size_t)got));
  }
  struct answer answer;
  requests_send_id();
  while (!requests_answer(&answer)) { /* Before anything is done because of the state of another machine. */
    requests_wait(-1, 1000);
  }
  identify(&answer);

  while (!stopped) {
    schedev_step step;
    (void)supervise(0, false);
    if (ask_id_at >= 0 && now_ms() >= ask_id_at) {
      ask_id_at = -1;
      requests_send_id();
    }
    check(schedev_session_next(session, now_ms(), &step));
    log_step(&step);
    save();
    switch (step.kind) {
    case SCHEDEV_STEP_GET:
      requests_get(step.api_version, schedev_session_repeat_version(session), step.timeout_ms);
      break;
    case SCHEDEV_STEP_POST:
      requests_post(step.api_version, step.body, step.body_len, step.timeout_ms);
      break;
    case SCHEDEV_STEP_PREPARE:
    case SCHEDEV_STEP_RECOVER:
      start(&step, argv[step.kind == SCHEDEV_STEP_PREPARE ? 4 : 5]);
      break;
    case SCHEDEV_STEP_CANCEL:
      (void)supervise(step.attempt, false);
      break;
    case SCHEDEV_STEP_WAIT:
      requests_wait(wakeups, step.until_ms - now_ms());
      drain_wakeups();
      break;
    } /* The others are reports, which were logged. */
    if (requests_answer(&answer)) {
      answer.is_id ? identify(&answer) : finish(&answer);
    }
  }
  while (supervise(0, true)) {
    requests_wait(-1, 20);
  }
  save();
  requests_close();
  free(memory);
  return 0;
}
