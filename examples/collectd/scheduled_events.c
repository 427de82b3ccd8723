/*
 * A collectd plugin: Azure Scheduled Events as notifications and values. README.md says how to build and configure it.
 *
 * A thread polls and dispatches notifications. Read threads take the values from the session, which is locked only
 * between requests: a silent service delays none of them. The plugin observes: it never approves an event.
 */
#include <collectd.h>
#include <daemon/plugin.h>

#include <curl/curl.h>
#include <scheduled_events.h>
#include <stdatomic.h>
#define PLUGIN "scheduled_events"

static const char *endpoint = "http://169.254.169.254", *machine = NULL, *state_file = PLUGIN ".state";
static CURL *curl;
static char body[1u << 20]; /* of the last response, body_len bytes */
static size_t body_len;
static pthread_t thread;
static atomic_bool running, stopping;
static int64_t anchor_ms; /* how far the wall clock was ahead of the monotonic one at the start */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the next three */
static schedev_session *session;
static uint32_t cause; /* a schedev_cause: why the last poll failed */
static bool has_document;

static int64_t clock_ms(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}
static int64_t now_ms(void) { return anchor_ms + clock_ms(CLOCK_MONOTONIC); }

/* A body that is larger than any document makes the transfer fail. */
static size_t on_body(char *data, size_t size, size_t count, void *context) {
  (void)context;
  size_t len = size * count <= sizeof body - body_len ? size * count : 0;
  memcpy(body + body_len, data, len);
  body_len += len;
  return len;
}

/* The first request may take two minutes: a shutdown ends it. */
static int on_progress(void *context, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d) {
  (void)context, (void)a, (void)b, (void)c, (void)d;
  return stopping;
}

static CURLcode get(const char *path, uint32_t timeout_ms, long *http_status) {
  char url[1024];
  (void)snprintf(url, sizeof url, "%s%s", endpoint, path);
  body_len = 0;
  curl_easy_setopt(curl, CURLOPT_URL, url);
  curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, (long)timeout_ms);
  CURLcode code = curl_easy_perform(curl);
  curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, http_status);
  return code;
}

/* Polls once. Logs when polls begin to fail, fail for another reason, or succeed again. */
static void poll_service(uint32_t timeout_ms) {
  static bool named = false;
  long http_status;
  if (!named && machine == NULL && get(SCHEDEV_NAME_PATH, 2000, &http_status) == CURLE_OK && http_status == 200) {
    schedev_names names = SCHEDEV_NAMES_INIT((&(schedev_text){body, body_len, false}), 1);
    pthread_mutex_lock(&lock);
    named = schedev_session_set_names(session, &names) == SCHEDEV_OK;
    pthread_mutex_unlock(&lock);
  }
  CURLcode code = get(SCHEDEV_PATH "?api-version=" SCHEDEV_API_VERSION, timeout_ms, &http_status);
  uint32_t failure = code == CURLE_OPERATION_TIMEDOUT ? SCHEDEV_CAUSE_TIMEOUT
                     : code == CURLE_COULDNT_CONNECT  ? SCHEDEV_CAUSE_UNREACHABLE
                     : code == CURLE_WRITE_ERROR      ? SCHEDEV_CAUSE_TOO_LARGE
                                                      : SCHEDEV_CAUSE_CONNECTION_LOST;
  schedev_outcome outcome = {.cause = SCHEDEV_CAUSE_OTHER};
  schedev_response response = {
      .struct_size = sizeof response, .body = body, .body_len = body_len, .http_status = (uint32_t)http_status};
  pthread_mutex_lock(&lock);
  (void)(code == CURLE_OK ? schedev_session_on_response(session, &response, now_ms(), &outcome)
                          : schedev_session_on_failure(session, failure, now_ms(), &outcome));
  bool changed = cause != outcome.cause;
  cause = outcome.cause;
  has_document |= cause == SCHEDEV_CAUSE_NONE;
  pthread_mutex_unlock(&lock);
  if (changed && cause == SCHEDEV_CAUSE_NONE) {
    NOTICE(PLUGIN ": polls succeed again");
  } else if (changed && !stopping) {
    const char *detail = cause == SCHEDEV_CAUSE_NOT_A_DOCUMENT ? schedev_error_message(&outcome.error) : "";
    WARNING(PLUGIN ": poll failed: %s, HTTP status %ld %s", schedev_cause_word(cause), http_status, detail);
  }
}

/* Copies a text from the document. What could end a line, or separates collectd's identifiers, becomes an underscore. */
static void copy_word(schedev_text text, char *word, size_t capacity) {
  size_t len;
  if (text.len == 0 || schedev_text_copy(text, word, capacity - 1, &len) != SCHEDEV_OK) {
    len = (size_t)snprintf(word, capacity, "unknown");
  }
  for (size_t i = 0; i < len; i++) {
    word[i] = isascii(word[i]) && (isalnum(word[i]) || word[i] == '-' || word[i] == '.') ? word[i] : '_';
  }
  word[len] = '\0';
}

static void notify(const schedev_step *step) {
  const schedev_tracked_event *event = &step->event;
  if (event->has_mine && !event->mine) {
    return;
  }
  notification_t n = {.severity = NOTIF_WARNING, .time = cdtime(), .plugin = PLUGIN, .type = "event"};
  char id[SCHEDEV_EVENT_ID_MAX_BYTES + 1], time[40] = "unknown", record[SCHEDEV_STEP_JSON_MAX_BYTES];
  size_t len;
  schedev_document document;
  (void)(event->has_not_before && schedev_time_format(event->not_before_seconds, time, sizeof time, &len));
  if (step->change == SCHEDEV_CHANGE_STARTED || step->change == SCHEDEV_CHANGE_STARTED_WITHOUT_NOTICE) {
    n.severity = NOTIF_FAILURE;
  } else if (step->change >= SCHEDEV_CHANGE_COMPLETED && step->change <= SCHEDEV_CHANGE_ENDED) {
    n.severity = NOTIF_OKAY;
  }
  copy_word(event->event_id, id, sizeof id);
  copy_word(event->event_type_text, n.type_instance, sizeof n.type_instance);
  (void)snprintf(n.host, sizeof n.host, "%s", hostname_g);
  (void)snprintf(n.message, sizeof n.message, "%s %s, not before %s, event %s", n.type_instance,
                 schedev_change_word(step->change), time, id);
  bool parsed = schedev_document_parse(body, body_len, &document, NULL) == SCHEDEV_OK;
  if (schedev_step_json(step, parsed ? &document : NULL, NULL, record, sizeof record, &len) == SCHEDEV_OK) {
    plugin_notification_meta_add_string(&n, "record", record);
  }
  plugin_dispatch_notification(&n);
  plugin_notification_meta_free(n.meta);
}

/* With the state file, a restart neither repeats a notification nor misses the end of an event. */
static void restore(void) {
  char snapshot[SCHEDEV_SNAPSHOT_MAX_BYTES];
  FILE *file = fopen(state_file, "rb");
  if (file != NULL) {
    schedev_status status = schedev_session_restore(session, snapshot, fread(snapshot, 1, sizeof snapshot, file));
    if (status != SCHEDEV_OK) {
      WARNING(PLUGIN ": %s: %s", state_file, schedev_status_message((uint32_t)status));
    }
    fclose(file);
  }
}

static void save(void) {
  char snapshot[SCHEDEV_SNAPSHOT_MAX_BYTES], temporary[PATH_MAX];
  size_t len;
  (void)snprintf(temporary, sizeof temporary, "%s.new", state_file);
  FILE *file = fopen(temporary, "wb");
  bool written = file != NULL && schedev_session_snapshot(session, snapshot, sizeof snapshot, &len) == SCHEDEV_OK &&
                 fwrite(snapshot, 1, len, file) == len && fflush(file) == 0 && fsync(fileno(file)) == 0;
  if ((file != NULL && fclose(file) != 0) || !written || rename(temporary, state_file) != 0) {
    WARNING(PLUGIN ": cannot write %s: %s", state_file, strerror(errno));
  }
}

static void *run(void *unused) {
  schedev_step step = {0};
  while (!stopping) {
    pthread_mutex_lock(&lock);
    (void)!schedev_session_next(session, now_ms(), &step); /* cannot fail: the session is initialised */
    pthread_mutex_unlock(&lock);
    if (step.kind == SCHEDEV_STEP_WAIT) {
      int64_t left = step.until_ms - now_ms(); /* at most 250 ms at a time, for a shutdown */
      usleep((useconds_t)(left < 0 ? 0 : left > 250 ? 250 : left) * 1000);
    } else if (step.kind == SCHEDEV_STEP_GET) {
      poll_service(step.timeout_ms);
    } else if (step.kind == SCHEDEV_STEP_CHANGE) {
      notify(&step);
      save(); /* after the notification, which is repeated if a crash comes between */
    }
  }
  return unused;
}

static void submit(const char *type, const char *instance, gauge_t value) {
  value_list_t list = {.values = &(value_t){.gauge = value}, .values_len = 1, .plugin = PLUGIN};
  (void)snprintf(list.type, sizeof list.type, "%s", type);
  (void)snprintf(list.type_instance, sizeof list.type_instance, "%s", instance);
  plugin_dispatch_values(&list);
}

static int on_read(void) {
  unsigned scheduled = 0, started = 0, others = 0;
  gauge_t left = NAN; /* until the earliest NotBefore of this machine's events */
  schedev_tracked_event event;
  pthread_mutex_lock(&lock);
  for (size_t i = 0; schedev_session_event(session, i, &event) == SCHEDEV_OK; i++) {
    bool mine = event.mine || !event.has_mine, begun = event.event_status == SCHEDEV_EVENT_STATUS_STARTED;
    *(!mine ? &others : begun ? &started : &scheduled) += 1;
    if (mine && !begun && event.has_not_before) {
      left = fmin(left, fmax(0, (gauge_t)event.not_before_seconds - (gauge_t)now_ms() / 1000));
    }
  }
  bool known = has_document;
  submit("bool", "reachable", known && cause == SCHEDEV_CAUSE_NONE);
  pthread_mutex_unlock(&lock);
  if (known) {
    submit("count", "scheduled", scheduled);
    submit("count", "started", started);
    submit("count", "others", others);
    submit("timeleft", "not_before", left);
  }
  return 0;
}

static int on_config(const char *key, const char *value) {
  const char *copy = strdup(value);
  *(strcasecmp(key, "Endpoint") == 0 ? &endpoint : strcasecmp(key, "Machine") == 0 ? &machine : &state_file) = copy;
  return copy == NULL;
}

static int on_init(void) {
  static struct curl_slist header = {SCHEDEV_HEADER_NAME ": " SCHEDEV_HEADER_VALUE, NULL};
  schedev_text name = {machine, machine ? strlen(machine) : 0, false};
  schedev_names names = SCHEDEV_NAMES_INIT(&name, machine != NULL);
  schedev_session_config config = SCHEDEV_SESSION_CONFIG_INIT; /* observes, and approves nothing */
  config.names = &names;
  config.seed = (uint64_t)(anchor_ms = clock_ms(CLOCK_REALTIME) - clock_ms(CLOCK_MONOTONIC));
  size_t size = schedev_session_size();
  schedev_status status = schedev_session_init(malloc(size), size, &config, &session);
  if (status != SCHEDEV_OK || curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK || !(curl = curl_easy_init())) {
    ERROR(PLUGIN ": cannot start: %s", schedev_status_message((uint32_t)status));
    return -1;
  }
  curl_easy_setopt(curl, CURLOPT_HTTPHEADER, &header);
  curl_easy_setopt(curl, CURLOPT_PROXY, "");
  curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, 2000L);
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
  curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, on_progress);
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_body);
  restore();
  running = plugin_thread_create(&thread, run, NULL, PLUGIN) == 0;
  return running ? 0 : -1;
}

static int on_shutdown(void) {
  stopping = true;
  return running ? pthread_join(thread, NULL) : 0;
}

void module_register(void) {
  static const char *keys[] = {"Endpoint", "Machine", "StateFile"}; /* collectd keeps the pointer */
  plugin_register_config(PLUGIN, on_config, keys, sizeof keys / sizeof *keys);
  plugin_register_init(PLUGIN, on_init);
  plugin_register_read(PLUGIN, on_read);
  plugin_register_shutdown(PLUGIN, on_shutdown);
}
