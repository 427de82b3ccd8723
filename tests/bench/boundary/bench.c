/*
 * The time to parse a document and read every field, in C and in Rust, in one process. Ratios are of the fastest rounds, which other load disturbs least. The goal is 1.10.
 */
#include <scheduled_events.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ROUNDS 401

uint64_t core_read(const char *data, size_t len);

static uint64_t sum_of(schedev_text text) { return text.len == 0 ? 0 : text.len + (unsigned char)text.data[0]; }

static uint64_t sum_of_event(const schedev_event *event) {
  return sum_of(event->event_id) + sum_of(event->event_type_text) + sum_of(event->event_status_text) +
         sum_of(event->event_source_text) + sum_of(event->resource_type) + sum_of(event->description) +
         (uint64_t)event->not_before_seconds + event->duration_seconds;
}

static uint64_t sum_of_names(const schedev_event *event) {
  schedev_resource_cursor cursor = SCHEDEV_CURSOR_INIT;
  schedev_text names[32];
  size_t count = 32;
  uint64_t sum = 0;
  while (count == 32 && schedev_event_next_resources(event, &cursor, names, 32, &count) == SCHEDEV_OK) {
    for (size_t i = 0; i < count; i++) {
      sum += sum_of(names[i]);
    }
  }
  return sum;
}

/* Parses, and reads the events in a second pass. */
static uint64_t c_read(const char *data, size_t len) {
  schedev_document document;
  schedev_event_cursor cursor = SCHEDEV_CURSOR_INIT;
  schedev_event event;
  uint64_t sum = 0;
  if (schedev_document_parse(data, len, &document, NULL) != SCHEDEV_OK) {
    return 0;
  }
  while (schedev_document_next(&document, &cursor, &event) == SCHEDEV_OK) {
    sum += sum_of_event(&event) + sum_of_names(&event);
  }
  return sum;
}

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* A compact document with members in the documented order, as Azure sends it. */
static char *document(int events, int resources, size_t *len) {
  size_t capacity = 64 + (size_t)events * (420 + (size_t)resources * 16);
  char *text = malloc(capacity);
  size_t at = 0;
  if (text == NULL) {
    exit(1);
  }
  at += (size_t)snprintf(text, capacity, "{\"DocumentIncarnation\":2,\"Events\":[");
  for (int i = 0; i < events; i++) {
    at +=
        (size_t)snprintf(text + at, capacity - at,
                         "%s{\"EventId\":\"C7061BAC-AFDC-4513-B24B-%012X\",\"EventStatus\":\"Scheduled\",\"EventType\":"
                         "\"Freeze\",\"ResourceType\":\"VirtualMachine\",\"Resources\":[",
                         i > 0 ? "," : "", (unsigned)i);
    for (int k = 0; k < resources; k++) {
      at += (size_t)snprintf(text + at, capacity - at, "%s\"WestNO_%d\"", k > 0 ? "," : "", k);
    }
    at +=
        (size_t)snprintf(text + at, capacity - at,
                         "],\"NotBefore\":\"Mon, 11 Apr 2022 22:26:58 GMT\",\"Description\":\"Virtual machine is being "
                         "paused because of a memory-preserving Live Migration operation.\",\"EventSource\":"
                         "\"Platform\",\"DurationInSeconds\":5}");
  }
  at += (size_t)snprintf(text + at, capacity - at, "]}");
  *len = at;
  return text;
}

typedef uint64_t (*reader)(const char *, size_t);

static void ratio(const char *name, int events, int resources) {
  const reader readers[] = {c_read, core_read};
  double fastest[] = {1e18, 1e18};
  size_t len;
  char *text = document(events, resources, &len);
  long times = (long)(400000 / len) + 1;
  volatile uint64_t kept = 0;
  if (core_read(text, len) != c_read(text, len) || c_read(text, len) == 0) {
    fprintf(stderr, "error: C and core read different values\n");
    exit(1);
  }
  for (int turn = 0; turn < 2 * ROUNDS; turn++) {
    int i = (turn + turn / 2) % 2;
    double start = seconds();
    for (long k = 0; k < times; k++) {
      kept += readers[i](text, len);
    }
    double took = (seconds() - start) / (double)times * 1e9;
    fastest[i] = took < fastest[i] ? took : fastest[i];
  }
  printf("%-2s %3d x %-4d %6zu B   C %7.0f ns, core %7.0f ns, ratio %.2f\n", name, events, resources, len, fastest[0],
         fastest[1], fastest[0] / fastest[1]);
  free(text);
}

int main(void) {
  ratio("S", 1, 2);
  ratio("M", 10, 4);
  ratio("L", 100, 10);
  ratio("X", 1, 1000);
  return 0;
}
