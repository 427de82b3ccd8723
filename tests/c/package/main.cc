#include <scheduled_events.hpp>

/// The same in C++.
int main() {
  const auto document = scheduled_events::document::parse(R"({"Events":[{"EventId":"a"}]})");
  return scheduled_events::text("a").str() == document.events().begin()->id().str() ? 0 : 1;
}
