// scheduled_events.hpp without exceptions and RTTI: each failure is a result or a status, and everything has its word.
#include <sstream>

#include "expect.h"
#include "scheduled_events.hpp"

namespace se = scheduled_events;

namespace {

const std::string_view body =
    R"({"Events":[{"EventId":"a\u002D1","EventStatus":"Scheduled","EventType":"Reboot","Resources":["vm_0"],)"
    R"("Description":"Restart","EventSource":"User","NotBefore":"x"}]})";
const se::millis_point start{std::chrono::milliseconds(INT64_C(1600000000000))};

void documents() {
  EXPECT(se::document::try_parse("{").error().code() == se::parse_error_kind::unexpected_end);
  const se::document document = *se::document::try_parse(body);
  const se::event event = *document.try_find(std::string_view("A-1")).value();
  EXPECT(event.id().try_str().value() == "a-1" && event.source() == se::event_source::user);
  EXPECT(!document.try_find(std::string_view("b")).value());
  EXPECT(document.try_find(std::string_view("\xff")).error() == SCHEDEV_ERROR_UTF8);
  EXPECT(event.try_rank({"vm_0"}).value() == std::optional<std::size_t>(0));
  EXPECT(!event.try_rank({"vm_1"}).value() && event.try_owned_by({"vm_1"}).value() == std::optional(false));
  const std::vector<std::string> many(SCHEDEV_NAMES_MAX + 1, "vm");
  EXPECT(event.try_rank(se::names(many)).error() == SCHEDEV_ERROR_TOO_MANY_NAMES);
  EXPECT(se::text(std::string_view("\xff")).try_str().error() == SCHEDEV_ERROR_UTF8);
  EXPECT(se::try_start_requests({}).error() == SCHEDEV_ERROR_ARGUMENT);
  EXPECT(se::try_start_requests({event.id()}).value() == R"({"StartRequests":[{"EventId":"a-1"}]})");
  const se::problem problem = *document.problems().begin();
  EXPECT(problem.kind() == se::problem_kind::unreadable_time && problem.member() == se::member::not_before);

  se::tracker tracker;
  int changes = 0;
  const auto count = [&](se::change what, const se::tracked_event &) { changes += what == se::change::scheduled; };
  EXPECT(tracker.try_observe(document, {}, se::seconds_point(), count).value() == 0 && changes == 1);
  EXPECT(tracker.try_approved(event.id()).value() && tracker.try_approved("A-1").value());
  EXPECT(!tracker.try_approved("b").value() && tracker.try_approved("\xff").error() == SCHEDEV_ERROR_UTF8);
}

void policies() {
  std::vector<se::rule> rules(SCHEDEV_RULES_MAX);
  rules[0].action = se::action::prepare;
  se::policy policy(rules);
  const se::document document = *se::document::try_parse(body);
  const se::event event = *document.events().begin();
  const se::decision decision = policy.try_decide(event, {"vm_0"}, se::seconds_point()).value();
  EXPECT(decision.action() == se::action::prepare && decision.reason() == se::reason::rule && decision.rule() == 1U);
  EXPECT(decision.message() == "a rule matches" && se::word(decision.reason()) == "rule");
  policy.add({});
  EXPECT(policy.try_decide(event, {"vm_0"}, se::seconds_point()).error() == SCHEDEV_ERROR_TOO_MANY_RULES);
  for (const auto negative : {&se::rule::min_duration, &se::rule::max_duration, &se::rule::min_notice,
                              &se::rule::max_notice, &se::rule::prepare_before}) {
    se::rule rule;
    rule.*negative = std::chrono::seconds(-1);
    EXPECT(se::policy({rule}).try_decide(event, {"vm_0"}, se::seconds_point()).error() == SCHEDEV_ERROR_ARGUMENT);
    rule.*negative = std::chrono::seconds::max();
    EXPECT(se::policy({rule}).try_decide(event, {"vm_0"}, se::seconds_point()).has_value());
  }
  policy = se::policy::sample();
  policy.lead_by_rank(std::chrono::seconds(-1));
  EXPECT(policy.try_decide(event, {"vm_0"}, se::seconds_point()).error() == SCHEDEV_ERROR_ARGUMENT);
  se::rule typed;
  typed.action = se::action::prepare;
  typed.types = {se::event_type::reboot, se::event_type::preempt};
  typed.sources = {se::event_source::user};
  EXPECT(typed.types.contains(se::event_type::preempt) && !typed.types.contains(se::event_type::freeze));
  EXPECT(typed.types.mask() == (SCHEDEV_MATCH_TYPE_REBOOT | SCHEDEV_MATCH_TYPE_PREEMPT) && !typed.types.empty());
  EXPECT(se::policy({typed}).try_decide(event, {"vm_0"}, se::seconds_point())->rule() == 1U);
  typed.sources = {se::event_source::platform};
  EXPECT(!se::policy({typed}).try_decide(event, {"vm_0"}, se::seconds_point())->rule());
  typed.sources = {se::event_source::none};
  EXPECT(se::policy({typed}).try_decide(event, {"vm_0"}, se::seconds_point()).error() == SCHEDEV_ERROR_ARGUMENT);
  const se::policy same(se::policy::sample().c());
  EXPECT(same.try_decide(event, {"vm_0"}, se::seconds_point())->rule() == 1U);
}

void sessions() {
  se::session::config config;
  config.interval = std::chrono::milliseconds(1);
  EXPECT(se::session::try_make(config).error() == SCHEDEV_ERROR_INTERVAL_TOO_SHORT);
  config.interval = std::chrono::seconds(1);
  for (const std::chrono::seconds invalid : {std::chrono::seconds(0), std::chrono::seconds(-1)}) {
    config.last_call = se::last_call(invalid);
    EXPECT(se::session::try_make(config).error() == SCHEDEV_ERROR_ARGUMENT);
  }
  for (const se::last_call &valid :
       {se::last_call::never(), se::last_call(std::chrono::seconds::max()), se::last_call()}) {
    config.last_call = valid;
    EXPECT(se::session::try_make(config).has_value());
  }
  se::rule prepare;
  prepare.action = se::action::prepare;
  config.policy = se::policy({prepare});
  config.names = {"vm_0"};
  se::session session = *se::session::try_make(config);
  EXPECT(session.changed());
  session.saved();
  EXPECT(std::holds_alternative<se::step::get>(*session.try_next(start)));
  se::response response;
  response.status = 503;
  response.retry_after = std::chrono::seconds(-1);
  EXPECT(session.try_on_response(response, start).error() == SCHEDEV_ERROR_ARGUMENT);
  response.retry_after = std::chrono::seconds(2);
  const se::outcome failed = *session.try_on_response(response, start);
  EXPECT(failed.kind() == se::outcome_kind::poll_failed && failed.cause() == se::cause::status &&
         failed.http_status() == 503U && failed.retry_in().count() > 0);
  EXPECT(!session.changed());
  se::millis_point now = start + std::chrono::minutes(1);
  EXPECT(std::holds_alternative<se::step::get>(*session.try_next(now)));
  response.status = 200;
  response.body = body;
  EXPECT(session.try_on_response(response, now)->kind() == se::outcome_kind::document && session.changed());
  const se::document document = *se::document::try_parse(body);
  std::uint32_t attempt = 0;
  bool problem = false;
  while (attempt == 0 || !problem) {
    const se::step::any step = *session.try_next(now);
    if (const auto *due = std::get_if<se::step::prepare>(&step)) {
      attempt = due->attempt;
      EXPECT(session.try_step_json(&document)->value().find(R"("description":"Restart")") != std::string::npos);
      EXPECT(session.try_step_json()->value().find(R"("description":null)") != std::string::npos);
    } else if (const auto *found = std::get_if<se::step::problem>(&step)) {
      problem = found->what.kind() == se::problem_kind::unreadable_time;
    }
  }
  EXPECT(session.try_prepared(attempt, se::preparation::ready).value() == se::answer::accepted);
  EXPECT(session.try_prepared(attempt, se::preparation::ready).value() == se::answer::unexpected);
  EXPECT(session.try_events()->size() == 1 && session.try_out_of_service_since().value() == now);
  EXPECT(session.try_restore("damaged") == SCHEDEV_ERROR_SNAPSHOT_DAMAGED);
  const std::vector<std::string> many(SCHEDEV_NAMES_MAX + 1, "vm");
  EXPECT(session.try_set_names(se::names(many)) == SCHEDEV_ERROR_TOO_MANY_NAMES);

  EXPECT(session.try_set_policy(se::policy::observe()) == SCHEDEV_OK);
  prepare.max_notice = std::chrono::seconds(-1);
  EXPECT(session.try_set_policy(se::policy({prepare})) == SCHEDEV_ERROR_ARGUMENT);

  // An error is not a "no": a session that was moved from has no answers.
  const se::session moved = std::move(session);
  EXPECT(session.try_prepared(1, se::preparation::ready).error() == SCHEDEV_ERROR_NULL);
  EXPECT(session.try_out_of_service_since().error() == SCHEDEV_ERROR_NULL);
  EXPECT(session.try_events().error() == SCHEDEV_ERROR_NULL && session.try_posted().error() == SCHEDEV_ERROR_NULL);
  EXPECT(session.try_snapshot().error() == SCHEDEV_ERROR_NULL && moved.try_snapshot().has_value());
}

void words() {
  EXPECT(se::word(se::event_type::preempt) == "Preempt" && se::word(se::event_status::started) == "Started");
  EXPECT(se::word(se::event_source::platform) == "Platform" && se::word(se::member::resources) == "Resources");
  EXPECT(se::word(se::action::hold) == "hold" && se::word(se::scope::others) == "others");
  EXPECT(se::word(se::leader::first_resource) == "first-resource" && se::word(se::change::ended) == "ended");
  EXPECT(se::word(se::cause::empty_body) == "empty-body" && se::word(se::outcome_kind::stale) == "stale");
  EXPECT(se::word(se::preparation::failed) == "failed" && se::word(se::gate_phase::approve) == "approve");
  EXPECT(se::word(se::notification_outcome::untracked) == "untracked");
  EXPECT(se::word(se::gate_answer::another_approves) == "another-approves");
  EXPECT(se::word(se::answer::cancelled) == "cancelled" && se::message(SCHEDEV_OK) == "success");
}

template <class Value> std::string shown(const Value &value) {
  std::ostringstream out;
  out << value;
  return out.str();
}

void streams() {
  const se::document document = *se::document::try_parse(
      R"({"Events":[{"EventId":"a\u001b[2J","EventStatus":"Scheduled","EventType":"Reboot","Resources":["vm_0"],)"
      R"("NotBefore":"Mon, 11 Apr 2022 22:26:58 GMT","Description":7}]})");
  const se::event event = *document.events().begin();
  EXPECT(shown(event.id()) == R"(a\u{1b}[2J)" && shown(se::text("plain")) == "plain");
  EXPECT(shown(event) == R"(Reboot a\u{1b}[2J: Scheduled, not before 2022-04-11T22:26:58Z)");
  EXPECT(shown(se::event_type::preempt) == "Preempt" && shown(se::answer::accepted) == "accepted");
  EXPECT(shown(*document.problems().begin()) == "event 0, Description: wrong-type");
  EXPECT(shown(se::policy::sample().try_decide(event, {"vm_0"}, se::seconds_point()).value()) ==
         "hold, no rule matches");
  EXPECT(shown(se::document::try_parse("{").error()).find("1:2: ") == 0);
  std::ostringstream out;
  out << se::text("\xff");
  EXPECT(out.fail());

  se::session::config config;
  config.names = {"vm_0"};
  se::session session = *se::session::try_make(config);
  EXPECT(std::holds_alternative<se::step::get>(*session.try_next(start)));
  se::response response;
  response.status = 503;
  EXPECT(shown(*session.try_on_response(response, start)) == "poll-failed, status 503");
  const se::millis_point later = start + std::chrono::minutes(1);
  EXPECT(std::holds_alternative<se::step::get>(*session.try_next(later)));
  response.status = 200;
  response.body = body;
  EXPECT(shown(*session.try_on_response(response, later)) == "document");
  EXPECT(shown(session.try_events()->at(0)) == "Reboot a-1: Scheduled");
  EXPECT(shown(session.try_waiting(later)->at(0)) == "Reboot a-1: Scheduled; waits for start-unapproved");
}

} // namespace

int main() {
  streams();
  documents();
  policies();
  sessions();
  words();
  return 0;
}
