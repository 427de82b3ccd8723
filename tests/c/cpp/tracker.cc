// A tracker through scheduled_events.hpp: changes, repeated ids, a full tracker, an exception of the caller.
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

#include "scheduled_events.hpp"

namespace se = scheduled_events;

namespace {

void expect(bool condition, const char *what) {
  if (!condition) {
    std::fprintf(stderr, "tracker.cc: %s\n", what);
    std::exit(1);
  }
}

/// A document of events with the ids "0" to `last`, and `repeats` more with the id `last`.
std::string body(int last, int repeats) {
  std::string out = R"({"Events":[{"EventId":"0"})";
  for (int i = 1; i <= last + repeats; i++) {
    out += R"(,{"EventId":")" + std::to_string(i < last ? i : last) + R"("})";
  }
  return out + "]}";
}

const se::seconds_point start{};

void reports_changes_and_ignored_events() {
  se::tracker tracker;
  const std::string many = body(65, 2);
  std::vector<std::string> ids;
  const auto on_change = [&](se::change what, const se::tracked_event &event) {
    expect(what == se::change::scheduled, "the change");
    ids.push_back(event.id().str());
  };
  expect(tracker.observe(se::document::parse(many), {}, start, on_change) == 2, "two ids repeat after the first 64");
  expect(ids.size() == 66 && tracker.size() == 66, "66 events");
  const std::string one = body(0, 0);
  const auto count = [](se::change, const se::tracked_event &) {};
  expect(tracker.observe(se::document::parse(one), {}, start, count) == 0, "no id repeats");
  expect(tracker.size() == 1, "one event is left");
}

void a_full_tracker_changes_nothing() {
  se::tracker tracker;
  const std::string many = body(SCHEDEV_TRACKER_EVENTS_MAX, 0);
  try {
    tracker.observe(se::document::parse(many), {}, start, [](se::change, const se::tracked_event &) {});
    expect(false, "too many events were accepted");
  } catch (const se::error &thrown) {
    expect(thrown.status() == SCHEDEV_ERROR_TRACKER_FULL && tracker.size() == 0, "the tracker is full");
  }
}

void an_exception_leaves_after_the_whole_document() {
  se::tracker tracker;
  const std::string three = body(2, 0);
  try {
    tracker.observe(se::document::parse(three), {}, start,
                    [](se::change, const se::tracked_event &) { throw std::logic_error("the caller's"); });
    expect(false, "the exception is lost");
  } catch (const std::logic_error &) {
    expect(tracker.size() == 3, "the document was applied");
  }
}

} // namespace

int main() {
  reports_changes_and_ignored_events();
  a_full_tracker_changes_nothing();
  an_exception_leaves_after_the_whole_document();
}
