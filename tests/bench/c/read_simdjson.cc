// Reads every field with simdjson on demand.
#include <simdjson.h>

#include "reading.h"

using namespace simdjson;

namespace {

bool read_event(ondemand::object object, record &record) {
  for (auto field : object) {
    std::string_view name, text;
    if (field.unescaped_key().get(name))
      return false;
    member member = member_of(name.data(), name.size());
    if (member == MEMBERS)
      continue;
    if (!first_time(&record, member))
      return false;
    if (member == DURATION) {
      int64_t duration;
      if (field.value().get_int64().get(duration))
        return false;
      record.fields[member] = static_cast<uint64_t>(duration);
    } else if (member == RESOURCES) {
      ondemand::array resources;
      uint64_t sum = 0;
      if (field.value().get_array().get(resources))
        return false;
      for (auto resource : resources) {
        if (resource.get_string().get(text))
          return false;
        sum = fold(sum, digest(text.data(), text.size()));
      }
      record.fields[member] = sum;
    } else {
      if (field.value().get_string().get(text))
        return false;
      if (!keep_text(&record, member, text.data(), text.size()))
        return false;
    }
  }
  return true;
}

} // namespace

// Returns the checksum over every field, or 0 for an invalid document. `capacity` is the number of readable bytes: simdjson
// needs 64 more than the text.
extern "C" uint64_t read_simdjson(const char *data, size_t length, size_t capacity) {
  static thread_local ondemand::parser parser;
  ondemand::document document;
  ondemand::object root;
  uint64_t incarnation = 0, sum = 0;
  bool numbered = false, listed = false;
  if (parser.iterate(data, length, capacity).get(document) || document.get_object().get(root))
    return 0;
  for (auto field : root) {
    std::string_view name;
    if (field.unescaped_key().get(name))
      return 0;
    if (is_incarnation(name.data(), name.size())) {
      if (numbered || field.value().get_uint64().get(incarnation))
        return 0;
      numbered = true;
    } else if (is_events(name.data(), name.size())) {
      ondemand::array events;
      if (listed || field.value().get_array().get(events))
        return 0;
      listed = true;
      for (auto element : events) {
        ondemand::object object;
        record record = {{0}, 0};
        if (element.get_object().get(object) || !read_event(object, record))
          return 0;
        sum = fold_record(sum, &record);
      }
    }
  }
  const char *rest;
  bool ended = document.current_location().get(rest) == OUT_OF_BOUNDS;
  return listed && ended ? fold(sum, incarnation) : 0;
}
