// The session of scheduled_events.hpp: attempts, cancelled steps, a recovery of two events, the gate, and another machine.
#include "expect.h"
#include "scheduled_events.hpp"

namespace se = scheduled_events;

namespace {

se::session::config config() {
  se::rule prepare;
  prepare.action = se::action::prepare;
  se::session::config made;
  made.policy = se::policy({prepare});
  made.names = {"vm_0"};
  made.machine_id = "this machine";
  return made;
}

/// A session and the service that it polls.
struct host {
  explicit host(const se::session::config &options) : session(options) {}

  /// The next step of this kind, before any other but reports.
  template <class Step> Step expect() {
    for (int count = 0; count < 1000; ++count) {
      const se::step::any step = session.next(now);
      if (const auto *found = std::get_if<Step>(&step)) {
        return *found;
      }
      if (const auto *wait = std::get_if<se::step::wait>(&step)) {
        now = wait->until;
      } else if (std::holds_alternative<se::step::get>(step)) {
        se::response response;
        response.status = 200;
        response.body = body;
        session.on_response(response, now);
      } else {
        EXPECT(std::holds_alternative<se::step::change>(step) || std::holds_alternative<se::step::decision>(step));
      }
    }
    EXPECT(false); // The step does not come.
    std::abort();
  }

  void serve(std::initializer_list<std::string_view> ids, std::string_view type) {
    body = "{\"DocumentIncarnation\":" + std::to_string(++incarnation) + ",\"Events\":[";
    for (const std::string_view id : ids) {
      body += (body.back() == '[' ? "" : ",") + std::string("{\"EventId\":\"").append(id) +
              "\",\"EventStatus\":\"Scheduled\",\"EventType\":\"" + std::string(type) + "\",\"Resources\":[\"vm_0\"]}";
    }
    body += "]}";
  }

  se::session session;
  se::millis_point now{std::chrono::milliseconds(INT64_C(1600000000000))};
  std::string body = R"({"DocumentIncarnation":0,"Events":[]})";
  int incarnation = 0;
};

void attempts_and_recovery() {
  host host(config());
  host.serve({"a"}, "Reboot");
  const auto first = host.expect<se::step::prepare>();
  EXPECT(host.session.out_of_service_since() == host.now);
  const auto waiting = host.session.waiting(host.now);
  EXPECT(waiting.size() == 1 && waiting[0].event().id() == "a" && !waiting[0].until());
  EXPECT(waiting[0].waits_for() == se::waits_for::preparation && waiting[0].attempt() == first.attempt);
  EXPECT(waiting[0].since() == std::chrono::time_point_cast<std::chrono::seconds>(host.now));
  EXPECT(waiting[0].decision().value().rule() == 1u && !waiting[0].by_last_call());
  EXPECT(se::word(waiting[0].waits_for()) == "preparation");
  host.session.set_time_of_day_ahead(std::chrono::seconds(5));
  EXPECT(host.session.waiting(host.now)[0].since().value() == *waiting[0].since() + std::chrono::seconds(5));
  host.serve({"a", "b"}, "Redeploy");
  EXPECT(host.expect<se::step::cancel>().attempt == first.attempt);
  EXPECT(!host.session.step_json());
  EXPECT(host.session.prepared(first.attempt, se::preparation::ready) == se::answer::cancelled);
  for (const char *id : {"a", "b"}) {
    const auto step = host.expect<se::step::prepare>();
    EXPECT(step.event.id() == id && step.event.type_text() == "Redeploy" && step.attempt != first.attempt);
    EXPECT(host.session.prepared(step.attempt, se::preparation::failed) == se::answer::accepted);
    EXPECT(host.session.prepared(step.attempt, se::preparation::ready) == se::answer::unexpected);
  }
  host.serve({"b"}, "Redeploy");
  (void)host.expect<se::step::change>();
  host.serve({}, "");
  const auto failing = host.expect<se::step::recover>();
  EXPECT(failing.own);
  const std::string json = host.session.step_json(nullptr, {"vm_0", "02aab8a4"}).value();
  const std::string_view end = R"(,"machine":"vm_0","vm_id":"02aab8a4"})";
  EXPECT(json.substr(json.size() - end.size()) == end);
  EXPECT(json.find(R"("event_id":"b","event_ids":["b","a"])") != std::string::npos);
  EXPECT((host.session.recovering() == std::vector<std::string>{"b", "a"}));
  EXPECT(host.session.recovered(failing.attempt, false, host.now) == se::answer::accepted);
  const auto retried = host.expect<se::step::recover>();
  EXPECT(host.session.recovered(failing.attempt, true, host.now) == se::answer::unexpected);
  EXPECT(host.session.recovered(retried.attempt, true, host.now) == se::answer::accepted);
  EXPECT(!host.session.out_of_service_since() && host.session.recovering().empty());
}

void gate_and_other_machine() {
  se::session::config options = config();
  options.gate = true;
  host host(options);
  host.serve({"a"}, "Reboot");
  auto gate = host.expect<se::step::gate>();
  EXPECT(gate.phase == se::gate_phase::prepare && gate.event.id() == "a");
  EXPECT(host.session.gate_answered(gate.attempt, se::gate_answer::open, host.now) == se::answer::accepted);
  EXPECT(host.session.gate_answered(gate.attempt, se::gate_answer::open, host.now) == se::answer::unexpected);
  EXPECT(host.session.prepared(host.expect<se::step::prepare>().attempt, se::preparation::ready) ==
         se::answer::accepted);
  gate = host.expect<se::step::gate>();
  EXPECT(gate.phase == se::gate_phase::approve);
  EXPECT(host.session.gate_answered(gate.attempt, se::gate_answer::open, host.now) == se::answer::accepted);
  EXPECT(host.expect<se::step::post>().body == R"({"StartRequests":[{"EventId":"a"}]})");

  options.last_call = se::last_call(std::chrono::minutes(15));
  struct host ungated(options);
  ungated.serve({"a"}, "Reboot");
  gate = ungated.expect<se::step::gate>();
  EXPECT(ungated.session.gate_answered(gate.attempt, se::gate_answer::closed, ungated.now) == se::answer::accepted);
  EXPECT(ungated.expect<se::step::last_call>().event.id() == "a");
  EXPECT(ungated.session.step_json().value().find(R"("outcome":"last-call")") != std::string::npos);
  EXPECT(ungated.expect<se::step::prepare>().event.id() == "a");

  const std::string snapshot = host.session.snapshot();
  options.machine_id = "a clone of this machine";
  se::session other(options);
  try {
    other.restore(snapshot);
    EXPECT(false); // It is not refused.
  } catch (const se::error &refused) {
    EXPECT(refused.status() == SCHEDEV_ERROR_SNAPSHOT_OTHER_MACHINE);
  }
  options.machine_id = {};
  se::session late(options);
  late.restore(snapshot);
  EXPECT(late.try_set_machine_id("this machine") == SCHEDEV_OK && late.has_seen_event());
  EXPECT(late.try_set_machine_id("a clone of this machine") == SCHEDEV_ERROR_SNAPSHOT_OTHER_MACHINE &&
         !late.has_seen_event());
}

void rules() {
  se::rule rule;
  rule.action = se::action::prepare;
  rule.max_notice = std::chrono::minutes(10);
  rule.prepare_before = std::chrono::minutes(1);
  se::policy policy({rule});
  const auto document = se::document::parse(
      R"({"Events":[{"EventId":"a","EventStatus":"Scheduled","EventType":"Reboot","Resources":["vm_0","vm_1"],)"
      R"("NotBefore":"Sun, 13 Sep 2020 12:36:40 GMT"}]})");
  const se::event event = *document.events().begin();
  const se::seconds_point now{std::chrono::seconds(1600000000)};
  const se::decision decision = policy.decide(event, {"vm_0"}, now);
  EXPECT(decision.action() == se::action::prepare && !decision.approve_after());
  EXPECT(decision.act_from() == now + std::chrono::seconds(540));
  EXPECT(policy.lead_by_first_resource().decide(event, {"vm_0"}, now).approve_after().has_value());
  EXPECT(!policy.decide(event, {"vm_0"}, now - std::chrono::seconds(1)).rule());
}

} // namespace

int main() {
  attempts_and_recovery();
  gate_and_other_machine();
  rules();
  return 0;
}
