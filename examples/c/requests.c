#include "requests.h"

#include <stdio.h>
#include <string.h>

#include "process.h"

#define POLLS_MAX 3
#define ID (&transfers[POLLS_MAX])
#define ID_TIMEOUT_MS 5000
#define REPEAT_AFTER_MS 5000
#define REPEAT_EVERY_MS 10000
#define REPEAT_TIMEOUT_MS 19500 /* So that the next one can always be sent. */

struct transfer {
  CURL *curl;
  size_t len;
  bool open;
  bool repeated;
  char body[REQUESTS_BODY_MAX];
};

static struct transfer transfers[POLLS_MAX + 1]; /* The last one is for the machine's id. */
static CURLM *multi;
static struct curl_slist *headers;
static const char *service;
static char id_url[1024];
static int64_t repeat_at = -1; /* When to send a GET beside those that have no answer; -1 for never. */
static char repeat_version_text[33];

static size_t on_body(char *data, size_t size, size_t count, void *context) {
  struct transfer *transfer = context;
  size_t len = size * count;
  if (len > REQUESTS_BODY_MAX - transfer->len) {
    return 0; /* Larger than any document: the transfer fails. */
  }
  memcpy(transfer->body + transfer->len, data, len);
  transfer->len += len;
  return len;
}

static void open_transfer(struct transfer *transfer, const char *url, const char *body, size_t body_len,
                          uint32_t timeout_ms) {
  CURL *curl = transfer->curl;
  transfer->len = 0;
  transfer->open = true;
  curl_easy_reset(curl);
  curl_easy_setopt(curl, CURLOPT_URL, url);
  curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
  curl_easy_setopt(curl, CURLOPT_PROXY, "");
  curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 0L);
  curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, 2000L);
  curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, (long)timeout_ms);
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_FAILONERROR, (long)(transfer == ID));
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_body);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, transfer);
  if (body != NULL) {
    curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE, (long)body_len);
    curl_easy_setopt(curl, CURLOPT_COPYPOSTFIELDS, body);
  }
  curl_multi_add_handle(multi, curl);
}

static void close_transfer(struct transfer *transfer) {
  if (transfer->open) {
    curl_multi_remove_handle(multi, transfer->curl);
    transfer->open = false;
  }
}

bool requests_open(const char *endpoint) {
  multi = curl_multi_init();
  headers = curl_slist_append(NULL, SCHEDEV_HEADER_NAME ": " SCHEDEV_HEADER_VALUE);
  headers = curl_slist_append(headers, "Content-Type: application/json");
  (void)snprintf(id_url, sizeof id_url, "%s%s", endpoint, SCHEDEV_VM_ID_PATH);
  service = endpoint;
  bool opened = multi != NULL && headers != NULL;
  for (struct transfer *transfer = transfers; transfer <= ID; transfer++) {
    transfer->curl = curl_easy_init();
    opened = opened && transfer->curl != NULL;
  }
  return opened;
}

static void send_request(schedev_text api_version, const char *body, size_t body_len, uint32_t timeout_ms,
                         bool repeated) {
  char url[1024];
  struct transfer *transfer = transfers;
  while (transfer < ID && transfer->open) {
    transfer++;
  }
  if (transfer < ID) { /* Otherwise enough requests have no answer. */
    (void)snprintf(url, sizeof url, "%s%s?api-version=%.*s", service, SCHEDEV_PATH, (int)api_version.len,
                   api_version.data);
    transfer->repeated = repeated;
    open_transfer(transfer, url, body, body_len, timeout_ms);
  }
}

void requests_get(schedev_text api_version, schedev_text repeat_version, uint32_t timeout_ms) {
  send_request(api_version, NULL, 0, timeout_ms, false);
  if (timeout_ms > REPEAT_AFTER_MS) {
    repeat_at = now_ms() + REPEAT_AFTER_MS;
    (void)snprintf(repeat_version_text, sizeof repeat_version_text, "%.*s", (int)repeat_version.len,
                   repeat_version.data);
  }
}

void requests_post(schedev_text api_version, const char *body, size_t body_len, uint32_t timeout_ms) {
  send_request(api_version, body, body_len, timeout_ms, false);
}

void requests_send_id(void) { open_transfer(ID, id_url, NULL, 0, ID_TIMEOUT_MS); }

/* Whether a transfer that ended counts: a failure only if no other request may still be answered. */
static bool counts(const struct transfer *ended, CURLcode code) {
  for (const struct transfer *transfer = transfers; ended != ID && code != CURLE_OK && transfer < ID; transfer++) {
    if (transfer->open) {
      return false;
    }
  }
  return true;
}

bool requests_answer(struct answer *answer) {
  CURLMsg *message;
  int count;
  if (repeat_at >= 0 && now_ms() >= repeat_at) {
    send_request(schedev_text_from(repeat_version_text), NULL, 0, REPEAT_TIMEOUT_MS, true);
    repeat_at = now_ms() + REPEAT_EVERY_MS;
  }
  curl_multi_perform(multi, &count);
  while ((message = curl_multi_info_read(multi, &count)) != NULL) {
    struct transfer *ended = transfers;
    CURLcode code = message->data.result;
    while (ended->curl != message->easy_handle) {
      ended++;
    }
    close_transfer(ended);
    if (counts(ended, code)) {
      long status = 0;
      curl_off_t retry_after = 0;
      curl_easy_getinfo(ended->curl, CURLINFO_RESPONSE_CODE, &status);
      curl_easy_getinfo(ended->curl, CURLINFO_RETRY_AFTER, &retry_after);
      for (struct transfer *other = transfers; ended != ID && other < ID; other++) {
        close_transfer(other);
      }
      repeat_at = ended == ID ? repeat_at : -1;
      bool repeated = ended != ID && ended->repeated;
      *answer = (struct answer){ended == ID, repeated, code, (uint32_t)status, 0, ended->body, ended->len};
      answer->retry_after_seconds = retry_after > 3600 ? 3600u : retry_after > 0 ? (uint32_t)retry_after : 0;
      return true;
    }
  }
  return false;
}

void requests_wait(int readable, int64_t milliseconds) {
  struct curl_waitfd woken = {readable, CURL_WAIT_POLLIN, 0};
  int64_t until_repeat = repeat_at < 0 ? 1000 : repeat_at - now_ms();
  int64_t pause = milliseconds < until_repeat ? milliseconds : until_repeat;
  curl_multi_poll(multi, &woken, readable < 0 ? 0 : 1, pause < 0 ? 0 : pause > 1000 ? 1000 : (int)pause, NULL);
}

void requests_close(void) {
  for (struct transfer *transfer = transfers; transfer <= ID; transfer++) {
    close_transfer(transfer);
    curl_easy_cleanup(transfer->curl);
  }
  curl_multi_cleanup(multi);
  curl_slist_free_all(headers);
}
