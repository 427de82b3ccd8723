/*
 * An agent over libcurl: it polls, prepares, approves and recovers until the events are over, and logs JSON Lines.
 *
 *     agent ENDPOINT VM-NAME        such as: agent http://169.254.169.254 web_0
 * A real agent drains the machine and returns it to service where this one only logs, and keeps a snapshot in a file.
 */
#include <curl/curl.h>
#include <scheduled_events.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BODY_MAX (1u << 20)

struct answer {
  char body[BODY_MAX];
  size_t len;
};

static size_t on_body(char *data, size_t size, size_t count, void *context) {
  struct answer *answer = context;
  size_t len = size * count;
  if (len > BODY_MAX - answer->len) {
    return 0; /* Larger than any document: the transfer fails. */
  }
  memcpy(answer->body + answer->len, data, len);
  answer->len += len;
  return len;
}

/* A clock that does not step: the wall clock at the start plus the time measured by the monotonic clock. */
static int64_t now_ms(void) {
  static int64_t anchor = 0;
  struct timespec wall, steady;
  clock_gettime(CLOCK_REALTIME, &wall);
  clock_gettime(CLOCK_MONOTONIC, &steady);
  int64_t passed = (int64_t)steady.tv_sec * 1000 + steady.tv_nsec / 1000000;
  if (anchor == 0) {
    anchor = (int64_t)wall.tv_sec * 1000 + wall.tv_nsec / 1000000 - passed;
  }
  return anchor + passed;
}

/* Sends the request of a step, and passes the response or the failure to the session. */
static schedev_status request(schedev_session *session, const schedev_step *step, CURL *curl, const char *url) {
  static struct answer answer;
  struct curl_slist *headers = curl_slist_append(NULL, "Metadata: true");
  answer.len = 0;
  curl_easy_reset(curl);
  if (step->kind == SCHEDEV_STEP_POST) {
    headers = curl_slist_append(headers, "Content-Type: application/json");
    curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE, (long)step->body_len);
    curl_easy_setopt(curl, CURLOPT_COPYPOSTFIELDS, step->body);
  }
  curl_easy_setopt(curl, CURLOPT_URL, url);
  curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
  curl_easy_setopt(curl, CURLOPT_PROXY, "");
  curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 0L);
  curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, (long)step->timeout_ms);
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_body);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &answer);
  CURLcode code = curl_easy_perform(curl);
  curl_slist_free_all(headers);
  if (code != CURLE_OK) {
    uint32_t cause = code == CURLE_OPERATION_TIMEDOUT ? SCHEDEV_CAUSE_TIMEOUT
                     : code == CURLE_COULDNT_CONNECT  ? SCHEDEV_CAUSE_UNREACHABLE
                     : code == CURLE_WRITE_ERROR      ? SCHEDEV_CAUSE_TOO_LARGE
                                                      : SCHEDEV_CAUSE_CONNECTION_LOST;
    return schedev_session_on_failure(session, cause, now_ms(), NULL);
  }
  schedev_response response = SCHEDEV_RESPONSE_INIT;
  long http_status = 0;
  curl_off_t retry_after = 0;
  curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &http_status);
  curl_easy_getinfo(curl, CURLINFO_RETRY_AFTER, &retry_after);
  response.http_status = (uint32_t)http_status;
  response.body = answer.body;
  response.body_len = answer.len;
  response.has_retry_after = retry_after > 0;
  response.retry_after_seconds = retry_after > 3600 ? 3600u : (uint32_t)retry_after;
  return schedev_session_on_response(session, &response, now_ms(), NULL);
}

int main(int argc, char **argv) {
  if (argc != 3) {
    fprintf(stderr, "usage: agent ENDPOINT VM-NAME\n");
    return 2;
  }
  char url[512];
  (void)snprintf(url, sizeof url, "%s/metadata/scheduledevents?api-version=2020-07-01", argv[1]);
  schedev_text name = schedev_text_from(argv[2]);
  schedev_names names = SCHEDEV_NAMES_INIT(&name, 1);
  schedev_rule prepare = {.action = SCHEDEV_ACTION_PREPARE}; /* every event of this machine */
  schedev_policy policy = SCHEDEV_POLICY_INIT;
  policy.rules = &prepare;
  policy.rule_count = 1;
  schedev_session_config config = SCHEDEV_SESSION_CONFIG_INIT;
  config.policy = &policy;
  config.names = &names;
  config.seed = (uint64_t)now_ms();
  void *memory = malloc(schedev_session_size());
  CURL *curl = curl_easy_init();
  schedev_session *session;
  schedev_step step;
  schedev_status status = schedev_session_init(memory, schedev_session_size(), &config, &session);
  while (status == SCHEDEV_OK && !(schedev_session_has_seen_event(session) && schedev_session_is_idle(session))) {
    status = schedev_session_next(session, now_ms(), &step);
    if (status != SCHEDEV_OK) {
      break;
    }
    char record[SCHEDEV_STEP_JSON_MAX_BYTES];
    size_t length;
    if (schedev_step_json(&step, NULL, record, sizeof record, &length) == SCHEDEV_OK) {
      printf("%s\n", record);
    }
    if (step.kind == SCHEDEV_STEP_GET || step.kind == SCHEDEV_STEP_POST) {
      status = request(session, &step, curl, url);
    } else if (step.kind == SCHEDEV_STEP_PREPARE) {
      status = schedev_session_prepared(session, step.attempt, SCHEDEV_PREPARATION_READY, NULL);
    } else if (step.kind == SCHEDEV_STEP_RECOVER) {
      status = schedev_session_recovered(session, step.attempt, true, now_ms(), NULL);
    } else if (step.kind == SCHEDEV_STEP_WAIT && step.until_ms > now_ms()) {
      int64_t left = step.until_ms - now_ms();
      struct timespec pause = {left / 1000, left % 1000 * 1000000};
      nanosleep(&pause, NULL);
    }
    (void)fflush(stdout);
  }
  if (status != SCHEDEV_OK) {
    fprintf(stderr, "error: %s\n", schedev_status_message((uint32_t)status));
  }
  curl_easy_cleanup(curl);
  free(memory);
  return status == SCHEDEV_OK ? 0 : 1;
}
