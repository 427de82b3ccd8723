/* What every reader in C and C++ does with the fields it finds: the same as src/reading.rs. */
#ifndef BENCH_READING_H
#define BENCH_READING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum member {
  EVENT_ID,
  EVENT_TYPE,
  RESOURCE_TYPE,
  RESOURCES,
  EVENT_STATUS,
  NOT_BEFORE,
  DESCRIPTION,
  EVENT_SOURCE,
  DURATION,
  MEMBERS
};

/* The fields of one event, each as one number, and a bit for each member seen. */
struct record {
  uint64_t fields[MEMBERS];
  unsigned seen;
};

/* Parses a date with core, for every parser alike. INT64_MIN for an invalid date. */
#ifdef __cplusplus
extern "C"
#endif
    int64_t
    bench_not_before(const char *text, size_t length);

static inline uint64_t fold(uint64_t sum, uint64_t field) { return ((sum << 5) | (sum >> 59)) + field; }

static inline uint64_t digest(const char *text, size_t length) {
  if (length == 0)
    return 0;
  return (uint64_t)length | (uint64_t)(unsigned char)text[0] << 32 | (uint64_t)(unsigned char)text[length - 1] << 40;
}

static inline bool is(const char *name, const char *word, size_t length) { return memcmp(name, word, length) == 0; }

static inline enum member member_of(const char *name, size_t length) {
  switch (length) {
  case 7:
    return is(name, "EventId", 7) ? EVENT_ID : MEMBERS;
  case 9:
    return is(name, "EventType", 9)   ? EVENT_TYPE
           : is(name, "Resources", 9) ? RESOURCES
           : is(name, "NotBefore", 9) ? NOT_BEFORE
                                      : MEMBERS;
  case 11:
    return is(name, "EventStatus", 11)   ? EVENT_STATUS
           : is(name, "EventSource", 11) ? EVENT_SOURCE
           : is(name, "Description", 11) ? DESCRIPTION
                                         : MEMBERS;
  case 12:
    return is(name, "ResourceType", 12) ? RESOURCE_TYPE : MEMBERS;
  case 17:
    return is(name, "DurationInSeconds", 17) ? DURATION : MEMBERS;
  default:
    return MEMBERS;
  }
}

static inline bool is_incarnation(const char *name, size_t length) {
  return length == 19 && is(name, "DocumentIncarnation", 19);
}

static inline bool is_events(const char *name, size_t length) { return length == 6 && is(name, "Events", 6); }

/* Whether the member occurs for the first time. */
static inline bool first_time(struct record *record, enum member member) {
  unsigned bit = 1U << member;
  bool first = (record->seen & bit) == 0;
  record->seen |= bit;
  return first;
}

/* Keeps a member that is a string. */
static inline bool keep_text(struct record *record, enum member member, const char *text, size_t length) {
  if (member == NOT_BEFORE) {
    int64_t moment = bench_not_before(text, length);
    record->fields[member] = (uint64_t)moment;
    return moment != INT64_MIN;
  }
  record->fields[member] = digest(text, length);
  return true;
}

static inline uint64_t fold_record(uint64_t sum, const struct record *record) {
  for (int member = 0; member < MEMBERS; member++)
    sum = fold(sum, record->fields[member]);
  return sum;
}

#endif
