/* Threads that read one document, and each run a session of their own. */
#include <pthread.h>

#include "expect.h"

#define THREADS 8
#define ROUNDS 2000

static const char body[] = DOCUMENT("Scheduled");
static schedev_document shared;
static schedev_event shared_event;

static void *work(void *context) {
  uint64_t *sum = (uint64_t *)context;
  void *memory = malloc(schedev_session_size());
  EXPECT(memory != NULL);
  for (int round = 0; round < ROUNDS; round++) {
    schedev_event_cursor cursor = SCHEDEV_CURSOR_INIT;
    schedev_resource_cursor resources = SCHEDEV_CURSOR_INIT;
    schedev_event event;
    schedev_text names[2];
    size_t count;
    schedev_decision decision;
    while (schedev_document_next(&shared, &cursor, &event) == SCHEDEV_OK) {
      *sum += event.event_id.len + event.event_type;
    }
    while (schedev_event_next_resources(&shared_event, &resources, names, 2, &count) == SCHEDEV_OK) {
      for (size_t i = 0; i < count; i++) {
        *sum += names[i].len;
      }
    }
    EXPECT(schedev_decide(schedev_policy_sample(), &shared_event, NULL, 0, &decision) == SCHEDEV_OK);
    *sum += decision.reason;

    schedev_session_config config = SCHEDEV_SESSION_CONFIG_INIT;
    schedev_session *session;
    schedev_step step;
    schedev_response response = SCHEDEV_RESPONSE_INIT;
    response.http_status = 200;
    response.body = body;
    response.body_len = sizeof body - 1;
    EXPECT(schedev_session_init(memory, schedev_session_size(), &config, &session) == SCHEDEV_OK);
    EXPECT(schedev_session_next(session, 1000, &step) == SCHEDEV_OK && step.kind == SCHEDEV_STEP_GET);
    EXPECT(schedev_session_on_response(session, &response, 1000, NULL) == SCHEDEV_OK);
    EXPECT(schedev_session_next(session, 1000, &step) == SCHEDEV_OK && step.kind == SCHEDEV_STEP_CHANGE);
    *sum += step.change;
  }
  free(memory);
  return NULL;
}

int main(void) {
  pthread_t threads[THREADS];
  uint64_t sums[THREADS] = {0};
  schedev_event_cursor cursor = SCHEDEV_CURSOR_INIT;
  EXPECT(schedev_document_parse(body, sizeof body - 1, &shared, NULL) == SCHEDEV_OK);
  EXPECT(schedev_document_next(&shared, &cursor, &shared_event) == SCHEDEV_OK);
  for (int i = 0; i < THREADS; i++) {
    EXPECT(pthread_create(&threads[i], NULL, work, &sums[i]) == 0);
  }
  for (int i = 0; i < THREADS; i++) {
    EXPECT(pthread_join(threads[i], NULL) == 0);
  }
  for (int i = 1; i < THREADS; i++) {
    EXPECT(sums[i] == sums[0] && sums[i] > 0);
  }
  printf("%d threads agree\n", THREADS);
  return 0;
}
