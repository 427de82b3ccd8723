// The program of reading.c with scheduled_events.hpp: same input, same output.
#include <cstdio>
#include <iostream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "binary.h"
#include "scheduled_events.hpp"

namespace se = scheduled_events;

namespace {

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    char escape[8];
    if (byte == '"' || byte == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20) {
      std::snprintf(escape, sizeof escape, "\\u%04x", static_cast<unsigned>(byte));
      out += escape;
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string shown(const se::text &text) {
  const std::string decoded = text.str();
  if (text != decoded || (text.view() && *text.view() != decoded)) {
    throw std::logic_error("a text does not equal its copy");
  }
  return quoted(decoded);
}

template <class T, class Show> std::string or_null(const std::optional<T> &value, Show show) {
  return value ? show(*value) : "null";
}

template <class Range, class Show> std::string list(const Range &range, Show show) {
  std::string out = "[";
  for (const auto &item : range) {
    out += (out.size() > 1 ? "," : "") + show(item);
  }
  return out + "]";
}

std::string shown(const se::event &event, const se::names &names) {
  const auto text = [](const se::text &view) { return shown(view); };
  std::string out = "{\"event_id\":" + shown(event.id());
  out += ",\"event_type\":" + or_null(event.type_text(), text);
  out += ",\"event_status\":" + or_null(event.status_text(), text);
  out += ",\"resource_type\":" + or_null(event.resource_type(), text);
  out += ",\"resources\":" + (event.has_resources() ? list(event.resources(), text) : "null");
  out +=
      ",\"not_before\":" + or_null(event.not_before(), [](se::seconds_point at) { return quoted(se::to_string(at)); });
  out += ",\"description\":" + or_null(event.description(), text);
  out += ",\"event_source\":" + or_null(event.source_text(), text);
  out += ",\"duration_in_seconds\":" +
         or_null(event.duration(), [](std::chrono::seconds length) { return std::to_string(length.count()); });
  out += ",\"mine\":" + or_null(event.owned_by(names), [](bool mine) { return std::string(mine ? "true" : "false"); });
  return out + "}";
}

std::string shown(const se::problem &problem, std::string_view body) {
  const schedev_position at = se::position_of(body, problem.offset());
  std::string out = "{\"event\":";
  out += or_null(problem.event_index(), [](std::size_t index) { return std::to_string(index); });
  out += ",\"member\":" + (problem.member() == se::member::none ? "null" : quoted(se::word(problem.member())));
  out += ",\"kind\":" + quoted(se::word(problem.kind()));
  return out + ",\"line\":" + std::to_string(at.line) + ",\"column\":" + std::to_string(at.column) + "}";
}

std::string reading(std::string_view body, const se::names &names, se::seconds_point now) {
  const auto read = se::document::try_parse(body);
  if (!read) {
    const se::parse_failure &failure = read.error();
    try {
      (void)se::document::parse(body);
      throw std::logic_error("parse() accepts a document that try_parse() refuses");
    } catch (const se::parse_error &thrown) {
      if (thrown.failure().offset() != failure.offset()) {
        throw std::logic_error("parse() and try_parse() disagree");
      }
    }
    return "{\"error\":{\"kind\":" + quoted(failure.kind()) + ",\"line\":" + std::to_string(failure.line()) +
           ",\"column\":" + std::to_string(failure.column()) + "}}";
  }
  const auto incarnation = read->incarnation();
  std::string out = "{\"incarnation\":";
  if (const auto *number = std::get_if<std::uint64_t>(&incarnation)) {
    out += std::to_string(*number);
  } else if (const auto *text = std::get_if<se::text>(&incarnation)) {
    out += shown(*text);
  } else {
    out += "null";
  }
  out += ",\"events\":" + list(read->events(), [&](const se::event &event) { return shown(event, names); });
  out += ",\"problems\":" + list(read->problems(), [&](const se::problem &problem) { return shown(problem, body); });
  const se::policy policy = se::policy::sample();
  return out + ",\"decisions\":" +
         list(read->events(),
              [&](const se::event &event) {
                const se::decision decision = policy.decide(event, names, now);
                return "{\"event_id\":" + shown(event.id()) + ",\"action\":" + quoted(se::word(decision.action())) +
                       ",\"rule\":" +
                       or_null(decision.rule(), [](std::uint32_t rule) { return std::to_string(rule); }) + "}";
              }) +
         "}";
}

} // namespace

int main() {
  use_binary_streams();
  const std::string input{std::istreambuf_iterator<char>(std::cin), {}};
  std::istringstream in(input);
  std::string now;
  while (in >> now) {
    bool underscored = false;
    std::size_t count = 0;
    std::size_t len = 0;
    in >> underscored >> count >> len;
    in.get();
    std::vector<std::string> items(count);
    for (std::string &item : items) {
      std::size_t size = 0;
      in >> size;
      in.get();
      item.resize(size);
      in.read(item.data(), static_cast<std::streamsize>(size));
    }
    std::string body(len, '\0');
    if (!in.read(body.data(), static_cast<std::streamsize>(len))) {
      return 2;
    }
    const se::names names(items);
    std::cout << reading(body, underscored ? names.underscored() : names,
                         se::parse_time(now).value_or(se::seconds_point()))
              << '\n';
  }
  return 0;
}
