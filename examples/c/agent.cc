// The agent of agent.c in C++17, with the same arguments, programs, state file and log:
//
//     agent-cc ENDPOINT VM-NAME STATE PREPARE RECOVER
//
//     cc -c process.c requests.c state_file.c
//     c++ -std=c++17 agent.cc process.o requests.o state_file.o $(pkg-config --cflags --libs scheduled_events libcurl)
#include <algorithm>
#include <array>
#include <cstdint>
#include <exception>
#include <iostream>
#include <memory>
#include <new>
#include <optional>
#include <random>
#include <scheduled_events.hpp>
#include <stdexcept>
#include <string>
#include <string_view>
#include <variant>

#include "process.hpp"
#include "requests.h"
#include "state_file.h"

namespace se = scheduled_events;
using namespace std::chrono_literals;
using std::chrono::milliseconds;

namespace {

constexpr milliseconds command_timeout = 10min;

se::millis_point now() { return se::millis_point(milliseconds(now_ms())); }

/// Performs the steps of a session.
class agent {
public:
  agent(const char *endpoint, std::string_view name, const char *prepare, const char *recover,
        const se::session::config &config)
      : prepare_(prepare), recover_(recover), session_(config) {
    machine_.name = name;
    if (!requests_open(endpoint)) {
      throw std::runtime_error("libcurl cannot start");
    }
  }
  agent(const agent &) = delete;
  agent &operator=(const agent &) = delete;
  ~agent() { requests_close(); }

  void restore(std::string_view state) { check_state(session_.try_restore(state)); }

  /// Runs until a signal arrives, which makes `wakeups` readable.
  void run(int wakeups) {
    wakeups_ = wakeups;
    answer answer;
    requests_send_id();
    while (!requests_answer(&answer)) { // Before anything is done because of the state of another machine.
      requests_wait(-1, 1000);
    }
    identify(answer);
    while (stopped == 0) {
      commands_.supervise(
          [this](const command &over, int exit_code) { report(over.attempt, over.recovers, exit_code); });
      if (ask_id_at_ && now() >= *ask_id_at_) {
        ask_id_at_.reset();
        requests_send_id();
      }
      const auto step = session_.next(now());
      if (const auto record = session_.step_json(document_ ? &*document_ : nullptr, machine_)) {
        std::cout << *record << std::endl;
      }
      save();
      std::visit([this](const auto &kind) { perform(kind); }, step);
      if (requests_answer(&answer)) {
        answer.is_id ? identify(answer) : finish(answer);
      }
    }
    commands_.end();
    save();
  }

private:
  void perform(const se::step::get &step) {
    requests_get(text(step.api_version), text(session_.repeat_version()), milliseconds_of(step.timeout));
  }
  void perform(const se::step::post &step) {
    requests_post(text(step.api_version), step.body.data(), step.body.size(), milliseconds_of(step.timeout));
  }
  void perform(const se::step::prepare &step) { start(prepare_, step.event, step.attempt, false); }
  void perform(const se::step::recover &step) { start(recover_, step.event, step.attempt, true); }
  void perform(const se::step::cancel &step) { commands_.cancel(step.attempt); }
  void perform(const se::step::wait &step) {
    requests_wait(wakeups_, std::chrono::duration_cast<milliseconds>(step.until - now()).count());
    drain_wakeups();
  }
  /// The other steps are reports, which were logged.
  template <class Report> void perform(const Report &) {}

  void start(const char *path, const se::tracked_event &event, std::uint32_t attempt, bool recovers) {
    if (!commands_.start(path, event, attempt, recovers, command_timeout)) {
      report(attempt, recovers, -1);
    }
  }

  void report(std::uint32_t attempt, bool recovers, int exit_code) {
    if (recovers) {
      session_.recovered(attempt, exit_code == 0, now());
    } else {
      session_.prepared(attempt, exit_code == 0                  ? se::preparation::ready
                                 : exit_code == DO_NOT_ASK_AGAIN ? se::preparation::abandoned
                                                                 : se::preparation::failed);
    }
  }

  static schedev_text text(std::string_view text) { return {text.data(), text.size(), false}; }

  static std::uint32_t milliseconds_of(milliseconds time) { return static_cast<std::uint32_t>(time.count()); }

  void finish(const answer &answer) {
    if (answer.repeated) {
      session_.repeat_answered();
    }
    const se::outcome outcome = answer.code == CURLE_OK ? session_.on_response(response(answer), now())
                                                        : session_.on_failure(cause_of(answer.code), now());
    if (outcome.kind() == se::outcome_kind::document) {
      newest_.assign(answer.body, answer.body_len); // Records need it until the next one.
      const auto parsed = se::document::try_parse(newest_);
      document_ = parsed ? std::optional(*parsed) : std::nullopt;
    } else if (outcome.cause() != se::cause::none) {
      std::cerr << "warning: a request failed: " << se::word(outcome.cause()) << '\n';
    }
  }

  static se::response response(const answer &answer) {
    se::response made;
    made.status = answer.http_status;
    made.body = {answer.body, answer.body_len};
    if (answer.retry_after_seconds > 0) {
      made.retry_after = std::chrono::seconds(answer.retry_after_seconds);
    }
    return made;
  }

  static se::cause cause_of(CURLcode code) {
    return code == CURLE_OPERATION_TIMEDOUT ? se::cause::timeout
           : code == CURLE_COULDNT_CONNECT  ? se::cause::unreachable
           : code == CURLE_WRITE_ERROR      ? se::cause::too_large
                                            : se::cause::connection_lost;
  }

  /// Passes the machine's id to the session, or lets it be requested again a few times: some services have none.
  void identify(const answer &answer) {
    constexpr std::array<milliseconds, 3> pauses{1s, 8s, 60s};
    if (answer.code == CURLE_OK) {
      machine_.vm_id.assign(answer.body, answer.body_len);
      check_state(session_.try_set_machine_id(machine_.vm_id));
    } else if (id_failures_ < pauses.size()) {
      ask_id_at_ = now() + pauses.at(id_failures_++);
    }
  }

  /// Moves the state file away if the session cannot continue from it; the session is as new then.
  static void check_state(schedev_status status) {
    const char *reason = schedev_status_message(static_cast<std::uint32_t>(status));
    if (status != SCHEDEV_OK && !state_quarantine(reason)) {
      throw std::runtime_error(reason);
    }
  }

  /// Stores the session if it changed. A full disk does not stop the agent: it is logged, and tried again.
  void save() {
    if (session_.changed()) {
      const std::string snapshot = session_.snapshot();
      if (state_replace(snapshot.data(), snapshot.size())) {
        session_.saved();
      }
    }
  }

  const char *prepare_, *recover_;
  se::session session_;
  se::machine machine_{}; // For the records.
  std::string newest_{};
  std::optional<se::document> document_{}; // A view of newest_.
  std::optional<se::millis_point> ask_id_at_{};
  std::size_t id_failures_ = 0;
  int wakeups_ = -1;
  commands commands_{};
};

int run(char **arguments) {
  const int wakeups = catch_signals();
  if (wakeups < 0) {
    throw std::runtime_error("cannot catch signals");
  }
  std::array<char, 64> boot_id{};
  const ssize_t boot_id_len = read_file("/proc/sys/kernel/random/boot_id", boot_id.data(), boot_id.size());
  se::rule prepare; // Every event of this machine.
  prepare.action = se::action::prepare;
  se::session::config config;
  config.policy = se::policy({prepare});
  config.names = se::names({arguments[2]});
  config.seed = std::random_device()();
  config.boot_id.assign(boot_id.data(), static_cast<std::size_t>(std::max<ssize_t>(boot_id_len, 0)));
  agent agent(arguments[1], arguments[2], arguments[4], arguments[5], config);

  std::string state(SCHEDEV_STATE_READ_BYTES, '\0');
  ssize_t len = -1;
  if (!state_open(arguments[3], state.data(), state.size(), &len)) {
    return 1;
  }
  if (len >= 0) {
    agent.restore({state.data(), static_cast<std::size_t>(len)});
  }
  agent.run(wakeups);
  return 0;
}

} // namespace

int main(int argc, char **argv) {
  if (argc != 6) {
    std::cerr << "usage: agent-cc ENDPOINT VM-NAME STATE PREPARE RECOVER\n";
    return 2;
  }
  try {
    return run(argv);
  } catch (const std::exception &failed) {
    std::cerr << "error: " << failed.what() << '\n';
    return 1;
  }
}
