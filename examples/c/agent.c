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
 *     cc agent.c process.c state_file.c $(pkg-config --cflags --libs scheduled_events libcurl)
 */
#include <curl/curl.h>
#include <scheduled_events.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "process.h"
#include "state_file.h"

#define BODY_MAX (1u << 20)
#define COMMAND_TIMEOUT_MS 600000
#define COMMANDS_MAX (SCHEDEV_SESSION_EVENTS_MAX + 1)

struct body {
  char bytes[BODY_MAX];
  size_t len;
};

struct command {
  program program;
  uint32_t attempt;
  bool recovers;
};

static struct body bodies[2], *incoming = &bodies[0], *newest = &bodies[1], machine_id;
static struct command commands[COMMANDS_MAX];
static schedev_session *session;
static schedev_document document;
static bool has_document;
static int64_t ask_id_at = -1; /* When to request the machine's id again; -1 if it is known, or is being requested. */

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
  bool runs = false, done;
  for (struct command *command = commands; command < commands + COMMANDS_MAX; command++) {
    if (command->program.process == 0) {
      continue;
    }
    if (all || command->attempt == cancelled) {
      program_end(&command->program);
    }
    if (!program_is_over(&command->program, &done)) {
      runs = true;
    } else if (!all && command->recovers) { /* A session that began anew does not know the attempt. */
      (void)schedev_session_recovered(session, command->attempt, done, now_ms(), NULL);
    } else if (!all) {
      uint32_t result = done ? SCHEDEV_PREPARATION_READY : SCHEDEV_PREPARATION_FAILED;
      (void)schedev_session_prepared(session, command->attempt, result, NULL);
    }
  }
  return runs;
}

static size_t on_body(char *data, size_t size, size_t count, void *context) {
  struct body *body = context;
  size_t len = size * count;
  if (len > BODY_MAX - body->len) {
    return 0; /* Larger than any document: the transfer fails. */
  }
  memcpy(body->bytes + body->len, data, len);
  body->len += len;
  return len;
}

static void prepare_transfer(CURL *curl, struct curl_slist *headers, const char *url, struct body *body,
                             long timeout_ms) {
  body->len = 0;
  curl_easy_reset(curl);
  curl_easy_setopt(curl, CURLOPT_URL, url);
  curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
  curl_easy_setopt(curl, CURLOPT_PROXY, "");
  curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 0L);
  curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, 2000L);
  curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, timeout_ms);
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_FAILONERROR, (long)(body == &machine_id));
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_body);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, body);
}

/* Passes the machine's id to the session, or lets it be requested again a few times: some services have none. */
static void identify(CURLcode code) {
  static const int64_t pauses[] = {1000, 8000, 60000};
  static size_t failures = 0;
  const schedev_text id = {machine_id.bytes, machine_id.len, false};
  if (code != CURLE_OK) {
    ask_id_at = failures < sizeof pauses / sizeof *pauses ? now_ms() + pauses[failures++] : -1;
    return;
  }
  check_state(schedev_session_set_machine_id(session, id));
}

/* Passes the result of a transfer to the session. */
static void finish(CURL *curl, CURLcode code) {
  schedev_response response = SCHEDEV_RESPONSE_INIT;
  schedev_outcome outcome;
  long http_status = 0;
  curl_off_t retry_after = 0;
  if (code != CURLE_OK) {
    uint32_t cause = code == CURLE_OPERATION_TIMEDOUT ? SCHEDEV_CAUSE_TIMEOUT
                     : code == CURLE_COULDNT_CONNECT  ? SCHEDEV_CAUSE_UNREACHABLE
                     : code == CURLE_WRITE_ERROR      ? SCHEDEV_CAUSE_TOO_LARGE
                                                      : SCHEDEV_CAUSE_CONNECTION_LOST;
    check(schedev_session_on_failure(session, cause, now_ms(), &outcome));
  } else {
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &http_status);
    curl_easy_getinfo(curl, CURLINFO_RETRY_AFTER, &retry_after);
    response.http_status = (uint32_t)http_status;
    response.body = incoming->bytes;
    response.body_len = incoming->len;
    response.has_retry_after = retry_after > 0;
    response.retry_after_seconds = retry_after > 3600 ? 3600u : (uint32_t)retry_after;
    check(schedev_session_on_response(session, &response, now_ms(), &outcome));
  }
  if (outcome.kind == SCHEDEV_OUTCOME_DOCUMENT) { /* Records need it until the next one. */
    struct body *kept = incoming;
    incoming = newest;
    newest = kept;
    has_document = schedev_document_parse(newest->bytes, newest->len, &document, NULL) == SCHEDEV_OK;
  } else if (outcome.cause != SCHEDEV_CAUSE_NONE) {
    fprintf(stderr, "warning: a request failed: %s\n", schedev_cause_word(outcome.cause));
  }
}

static void log_step(const schedev_step *step) {
  static char record[SCHEDEV_STEP_JSON_MAX_BYTES]; /* Enough unless texts of the document are very long. */
  size_t len = 0;
  const schedev_document *known = has_document ? &document : NULL;
  schedev_status status = schedev_step_json(step, known, record, sizeof record, &len);
  if (status == SCHEDEV_ERROR_BUFFER_TOO_SMALL) {
    status = schedev_step_json(step, NULL, record, sizeof record, &len);
  }
  if (status == SCHEDEV_OK) {
    printf("%s\n", record);
    (void)fflush(stdout);
  }
}

int main(int argc, char **argv) {
  static char state[SCHEDEV_STATE_READ_BYTES], boot_id[64], url[1024], id_url[1024];
  if (argc != 6) {
    fprintf(stderr, "usage: agent ENDPOINT VM-NAME STATE PREPARE RECOVER\n");
    return 2;
  }
  int wakeups = catch_signals();
  if (wakeups < 0) {
    perror("signals");
    return 1;
  }
  CURL *curl = curl_easy_init(), *id_curl = curl_easy_init();
  CURLM *multi = curl_multi_init();
  struct curl_slist *headers = curl_slist_append(NULL, SCHEDEV_HEADER_NAME ": " SCHEDEV_HEADER_VALUE);
  headers = curl_slist_append(headers, "Content-Type: application/json");
  (void)snprintf(id_url, sizeof id_url, "%s%s", argv[1], SCHEDEV_VM_ID_PATH);

  const schedev_text name = schedev_text_from(argv[2]);
  const schedev_names names = SCHEDEV_NAMES_INIT(&name, 1);
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
  prepare_transfer(id_curl, headers, id_url, &machine_id, 5000);
  identify(curl_easy_perform(id_curl)); /* Before anything is done because of the state of another machine. */

  while (!stopped) {
    schedev_step step;
    CURLMsg *message;
    int count;
    (void)supervise(0, false);
    if (ask_id_at >= 0 && now_ms() >= ask_id_at) {
      ask_id_at = -1;
      prepare_transfer(id_curl, headers, id_url, &machine_id, 5000);
      curl_multi_add_handle(multi, id_curl);
    }
    check(schedev_session_next(session, now_ms(), &step));
    log_step(&step);
    save();
    switch (step.kind) {
    case SCHEDEV_STEP_POST:
    case SCHEDEV_STEP_GET:
      (void)snprintf(url, sizeof url, "%s%s?api-version=%.*s", argv[1], SCHEDEV_PATH, (int)step.api_version.len,
                     step.api_version.data);
      prepare_transfer(curl, headers, url, incoming, (long)step.timeout_ms);
      if (step.kind == SCHEDEV_STEP_POST) {
        curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE, (long)step.body_len);
        curl_easy_setopt(curl, CURLOPT_COPYPOSTFIELDS, step.body);
      }
      curl_multi_add_handle(multi, curl);
      break;
    case SCHEDEV_STEP_PREPARE:
    case SCHEDEV_STEP_RECOVER:
      start(&step, argv[step.kind == SCHEDEV_STEP_PREPARE ? 4 : 5]);
      break;
    case SCHEDEV_STEP_CANCEL:
      (void)supervise(step.attempt, false);
      break;
    case SCHEDEV_STEP_WAIT: {
      struct curl_waitfd woken = {wakeups, CURL_WAIT_POLLIN, 0};
      int64_t pause = step.until_ms - now_ms();
      curl_multi_poll(multi, &woken, 1, pause < 0 ? 0 : pause > 1000 ? 1000 : (int)pause, NULL);
      drain_wakeups();
      break;
    }
    } /* The others are reports, which were logged. */
    curl_multi_perform(multi, &count);
    while ((message = curl_multi_info_read(multi, &count)) != NULL) {
      CURL *ended = message->easy_handle;
      CURLcode code = message->data.result;
      curl_multi_remove_handle(multi, ended);
      ended == curl ? finish(curl, code) : identify(code);
    }
  }
  while (supervise(0, true)) {
    curl_multi_poll(multi, NULL, 0, 20, NULL);
  }
  save();
  curl_multi_cleanup(multi);
  curl_easy_cleanup(id_curl);
  curl_easy_cleanup(curl);
  curl_slist_free_all(headers);
  free(memory);
  return 0;
}
