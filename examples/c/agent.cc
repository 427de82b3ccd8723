// The same agent in C++17, over a transport that the program brings along. Here it is a script of answers, so that the
// example runs anywhere; a real one would wrap its HTTP library.
//
//     agent-cc [VM-NAME]
#include <iostream>
#include <scheduled_events.hpp>
#include <string>
#include <utility>
#include <vector>

namespace se = scheduled_events;

/// What an agent needs of HTTP.
class transport {
public:
  virtual ~transport() = default;
  virtual se::response get(std::chrono::milliseconds timeout) = 0;
  virtual se::response post(std::string_view body, std::chrono::milliseconds timeout) = 0;
};

/// Answers as the metadata service would: nothing, a reboot announced, the same started once approved, and nothing again.
class script : public transport {
public:
  explicit script(std::string vm) : vm_(std::move(vm)) {}

  se::response get(std::chrono::milliseconds) override {
    polls_++;
    const char *status = polls_ < 2 || polls_ > 6 ? nullptr : approved_ ? "Started" : "Scheduled";
    body_ = "{\"DocumentIncarnation\":" + std::to_string(polls_) + ",\"Events\":[";
    if (status != nullptr) {
      body_ += std::string("{\"EventId\":\"C7061BAC-AFDC-4513-B24B-AA5F13A16123\",\"EventStatus\":\"") + status +
               "\",\"EventType\":\"Reboot\",\"ResourceType\":\"VirtualMachine\",\"Resources\":[\"" + vm_ +
               "\"],\"EventSource\":\"Platform\"}";
    }
    body_ += "]}";
    return {200, body_, {}};
  }
  se::response post(std::string_view body, std::chrono::milliseconds) override {
    std::cout << "POST " << body << '\n';
    approved_ = true;
    return {200, {}, {}};
  }

private:
  std::string vm_;
  std::string body_;
  int polls_ = 0;
  bool approved_ = false;
};

/// Does what the session says. The time is made up, so the example takes none.
class agent {
public:
  agent(transport &http, se::session::config config) : http_(http), session_(config) {}

  void run() {
    while (!(session_.has_seen_event() && session_.is_idle())) {
      std::visit([this](const auto &step) { act(step); }, session_.next(now_));
    }
  }

private:
  void act(const se::step::wait &step) { now_ = step.until; }
  void act(const se::step::get &step) { session_.on_response(http_.get(step.timeout), now_); }
  void act(const se::step::post &step) { session_.on_response(http_.post(step.body, step.timeout), now_); }
  void act(const se::step::prepare &step) {
    std::cout << step.event.id() << ": prepare\n";
    session_.prepared(step.event.id(), se::preparation::ready);
  }
  void act(const se::step::recover &step) {
    std::cout << step.event.id() << ": recover\n";
    session_.recovered(step.event.id());
  }
  void act(const se::step::changed &step) { std::cout << step.event.id() << ": " << se::word(step.change) << '\n'; }
  void act(const se::step::decided &step) {
    std::cout << step.event.id() << ": " << se::word(step.decision.action()) << " (" << step.decision.reason() << ")\n";
  }
  void act(const se::step::odd &step) { std::cout << "odd: " << step.problem.kind() << '\n'; }
  void act(const se::step::untracked &step) { std::cout << "no room for " << step.own << " own events\n"; }
  void act(const se::step::unknown &) {}

  transport &http_;
  se::session session_;
  se::millis_point now_{std::chrono::seconds(1'600'000'000)};
};

int main(int argc, char **argv) {
  const std::string vm = argc > 1 ? argv[1] : "web_0";
  script http(vm);
  se::rule prepare;
  prepare.action = se::action::prepare;
  se::session::config config;
  config.policy = se::policy({prepare});
  config.names = se::names({vm});
  agent(http, config).run();
  return 0;
}
