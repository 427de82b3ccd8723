// The programs that agent.cc runs.
#ifndef PROCESS_HPP
#define PROCESS_HPP

#include <chrono>
#include <cstdint>
#include <scheduled_events.hpp>
#include <string>
#include <thread>
#include <vector>

#include "process.h"

/// A program that runs for an attempt.
struct command {
  program running;
  std::uint32_t attempt;
  bool recovers;
};

/// The programs that run, which end with this object.
class commands {
public:
  commands() = default;
  commands(const commands &) = delete;
  commands &operator=(const commands &) = delete;
  ~commands() { end(); }

  /// Returns false if the program cannot be started.
  bool start(const char *path, const scheduled_events::tracked_event &event, std::uint32_t attempt, bool recovers,
             std::chrono::milliseconds timeout) {
    const std::string id = event.id().str(), type = event.type_text().str();
    program started{};
    if (!program_start(&started, path, id.c_str(), type.c_str(), timeout.count())) {
      return false;
    }
    running_.push_back({started, attempt, recovers});
    return true;
  }

  /// Calls on_end(command, exit code) for each program that is over; -1 if it was ended.
  template <class OnEnd> void supervise(OnEnd on_end) {
    for (auto at = running_.begin(); at != running_.end();) {
      int exit_code = -1;
      if (program_is_over(&at->running, &exit_code)) {
        const command over = *at;
        at = running_.erase(at);
        on_end(over, exit_code);
      } else {
        ++at;
      }
    }
  }

  /// Ends the program of an attempt; its result is reported as usual.
  void cancel(std::uint32_t attempt) {
    for (command &each : running_) {
      if (each.attempt == attempt) {
        program_end(&each.running);
      }
    }
  }

  /// Ends all programs, and waits until they are over.
  void end() noexcept {
    while (!running_.empty()) {
      std::for_each(running_.begin(), running_.end(), [](command &each) { program_end(&each.running); });
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      supervise([](const command &, bool) {});
    }
  }

private:
  std::vector<command> running_;
};

#endif
