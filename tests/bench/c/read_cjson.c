/* Reads every field with cJSON. */
#include <cjson/cJSON.h>

#include "reading.h"

static bool read_event(const cJSON *object, struct record *record) {
  const cJSON *value;
  if (!cJSON_IsObject(object))
    return false;
  cJSON_ArrayForEach(value, object) {
    enum member member = member_of(value->string, strlen(value->string));
    if (member == MEMBERS)
      continue;
    if (!first_time(record, member))
      return false;
    if (member == DURATION) {
      if (!cJSON_IsNumber(value) || value->valuedouble != (double)(int64_t)value->valuedouble)
        return false;
      record->fields[member] = (uint64_t)(int64_t)value->valuedouble;
    } else if (member == RESOURCES) {
      const cJSON *resource;
      uint64_t sum = 0;
      if (!cJSON_IsArray(value))
        return false;
      cJSON_ArrayForEach(resource, value) {
        if (!cJSON_IsString(resource))
          return false;
        sum = fold(sum, digest(resource->valuestring, strlen(resource->valuestring)));
      }
      record->fields[member] = sum;
    } else {
      if (!cJSON_IsString(value))
        return false;
      if (!keep_text(record, member, value->valuestring, strlen(value->valuestring)))
        return false;
    }
  }
  return true;
}

static uint64_t read_tree(const cJSON *document) {
  const cJSON *value, *events = NULL;
  uint64_t incarnation = 0, sum = 0;
  bool numbered = false;
  if (!cJSON_IsObject(document))
    return 0;
  cJSON_ArrayForEach(value, document) {
    if (is_incarnation(value->string, strlen(value->string))) {
      if (numbered || !cJSON_IsNumber(value))
        return 0;
      numbered = true;
      incarnation = (uint64_t)value->valuedouble;
    } else if (is_events(value->string, strlen(value->string))) {
      if (events)
        return 0;
      events = value;
    }
  }
  if (!cJSON_IsArray(events))
    return 0;
  cJSON_ArrayForEach(value, events) {
    struct record record = {{0}, 0};
    if (!read_event(value, &record))
      return 0;
    sum = fold_record(sum, &record);
  }
  return fold(sum, incarnation);
}

/* Returns the checksum over every field, or 0 for an invalid document. */
uint64_t read_cjson(const char *data, size_t length) {
  const char *end = NULL;
  cJSON *document = cJSON_ParseWithLengthOpts(data, length, &end, false);
  uint64_t sum = document ? read_tree(document) : 0;
  while (end && end < data + length && memchr(" \t\r\n", *end, 4))
    end++;
  if (end != data + length)
    sum = 0;
  cJSON_Delete(document);
  return sum;
}
