/*
 * The requests of an agent over libcurl, one thread: they run in the background, and their answers are read one by one.
 *
 * The first GET may take two minutes, since the service starts for it, but nobody waits for one connection: it is sent again
 * beside itself after 5 s and then every 10 s, at most three at a time, and the first answer counts. These requests name another
 * version of the API, since a service may accept those for a preview and never answer them.
 */
#ifndef REQUESTS_H
#define REQUESTS_H

#include <curl/curl.h>
#include <scheduled_events.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define REQUESTS_BODY_MAX (1u << 20) /* Larger than any document. */

/* An answer, or the failure of a request. The body is valid until the next call. */
struct answer {
  bool is_id;    /* For the machine's id, not for the events. */
  bool repeated; /* To a GET that was sent beside another one. */
  CURLcode code;
  uint32_t http_status;
  uint32_t retry_after_seconds; /* 0 without one. */
  const char *body;
  size_t body_len;
};

/* Prepares requests to a service such as http://169.254.169.254. */
bool requests_open(const char *endpoint);

/* Sends a GET with this version of the API, and with the other one if it is sent again. One request is made at a time: the next
 * one after its answer. */
void requests_get(schedev_text api_version, schedev_text repeat_version, uint32_t timeout_ms);

/* Sends a POST with this version of the API. */
void requests_post(schedev_text api_version, const char *body, size_t body_len, uint32_t timeout_ms);

/* Asks for the machine's id. */
void requests_send_id(void);

/* Goes on with the requests, and returns whether one has an answer. */
bool requests_answer(struct answer *answer);

/* Waits for requests, for a file to become readable, and at most this long. */
void requests_wait(int readable, int64_t milliseconds);

void requests_close(void);

#ifdef __cplusplus
}
#endif

#endif
