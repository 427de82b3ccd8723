// What the compiler must refuse: run.py compiles this file once for each number. Number 0 is what it must accept.
#include "scheduled_events.hpp"

namespace se = scheduled_events;

std::string make();
void use(const char *pointer);

std::string make() { return "vm_0"; }

void use(const char *pointer) {
  std::string body = make();
  const std::string constant = make();
  const std::vector<std::string> items{body};
  se::rule rule;
#if REFUSED == 0
  for (const std::string_view view : {std::string_view(pointer), std::string_view(body)}) {
    (void)se::document::try_parse(view);
  }
  (void)se::document::try_parse("{}");
  (void)se::document::try_parse(pointer);
  (void)se::document::try_parse(body);
  (void)se::document::try_parse(constant);
  (void)se::document::parse(body);
  (void)se::names({"vm_0", pointer, body, constant, std::string_view(body)});
  (void)se::names(items);
  (void)se::text(constant);
  rule.types = {se::event_type::preempt, se::event_type::terminate};
  rule.max_duration = std::chrono::minutes(1);
#elif REFUSED == 1
  (void)se::document::parse(make());
#elif REFUSED == 2
  (void)se::document::try_parse(body + "}");
#elif REFUSED == 3
  (void)se::document::try_parse(std::move(constant));
#elif REFUSED == 4
  (void)se::names(std::vector<std::string>(items));
#elif REFUSED == 5
  (void)se::names({"vm_0", make()});
#elif REFUSED == 6
  se::session::config config;
  config.names = {make()};
#elif REFUSED == 7
  (void)se::text(make());
#elif REFUSED == 8
  rule.max_duration = 60; // Without a unit.
#elif REFUSED == 9
  rule.types = {se::event_source::user};
#elif REFUSED == 10
  rule.types = SCHEDEV_MATCH_TYPE_REBOOT;
#else
#error "no such number"
#endif
}
