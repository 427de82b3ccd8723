/* Reads every field with yyjson: strictly, into its own tree, allocated as in its README. */
#include <yyjson.h>

#include "reading.h"

static bool read_event(yyjson_val *object, struct record *record) {
  size_t at, count;
  yyjson_val *name, *value;
  if (!yyjson_is_obj(object))
    return false;
  yyjson_obj_foreach(object, at, count, name, value) {
    enum member member = member_of(yyjson_get_str(name), yyjson_get_len(name));
    if (member == MEMBERS)
      continue;
    if (!first_time(record, member))
      return false;
    if (member == DURATION) {
      if (!yyjson_is_int(value))
        return false;
      record->fields[member] = (uint64_t)yyjson_get_sint(value);
    } else if (member == RESOURCES) {
      size_t element, elements;
      yyjson_val *resource;
      uint64_t sum = 0;
      if (!yyjson_is_arr(value))
        return false;
      yyjson_arr_foreach(value, element, elements, resource) {
        if (!yyjson_is_str(resource))
          return false;
        sum = fold(sum, digest(yyjson_get_str(resource), yyjson_get_len(resource)));
      }
      record->fields[member] = sum;
    } else {
      if (!yyjson_is_str(value))
        return false;
      if (!keep_text(record, member, yyjson_get_str(value), yyjson_get_len(value)))
        return false;
    }
  }
  return true;
}

static uint64_t read_tree(yyjson_doc *document) {
  size_t at, count;
  yyjson_val *name, *value, *events = NULL;
  uint64_t incarnation = 0, sum = 0;
  bool numbered = false;
  if (!yyjson_is_obj(yyjson_doc_get_root(document)))
    return 0;
  yyjson_obj_foreach(yyjson_doc_get_root(document), at, count, name, value) {
    if (is_incarnation(yyjson_get_str(name), yyjson_get_len(name))) {
      if (numbered || !yyjson_is_uint(value))
        return 0;
      numbered = true;
      incarnation = yyjson_get_uint(value);
    } else if (is_events(yyjson_get_str(name), yyjson_get_len(name))) {
      if (events)
        return 0;
      events = value;
    }
  }
  if (!yyjson_is_arr(events))
    return 0;
  yyjson_arr_foreach(events, at, count, value) {
    struct record record = {{0}, 0};
    if (!read_event(value, &record))
      return 0;
    sum = fold_record(sum, &record);
  }
  return fold(sum, incarnation);
}

/* Returns the checksum over every field, or 0 for an invalid document. */
uint64_t read_yyjson(const char *data, size_t length) {
  yyjson_doc *document = yyjson_read_opts((char *)(uintptr_t)data, length, YYJSON_READ_NOFLAG, NULL, NULL);
  uint64_t sum = document ? read_tree(document) : 0;
  yyjson_doc_free(document);
  return sum;
}

/* The same in memory that the caller keeps, as a program that parses repeatedly would do. */
uint64_t read_yyjson_pool(const char *data, size_t length, void *memory, size_t size) {
  yyjson_alc pool;
  if (!yyjson_alc_pool_init(&pool, memory, size))
    return 0;
  yyjson_doc *document = yyjson_read_opts((char *)(uintptr_t)data, length, YYJSON_READ_NOFLAG, &pool, NULL);
  return document ? read_tree(document) : 0;
}

size_t yyjson_memory(size_t length) { return yyjson_read_max_memory_usage(length, YYJSON_READ_NOFLAG) + 4096; }
