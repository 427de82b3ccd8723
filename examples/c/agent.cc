// The agent of agent.c in C++17, with the same arguments, programs, state file and log:
//
//     agent-cc ENDPOINT VM-NAME STATE PREPARE RECOVER
//
//     cc -c process.c state_file.c
//     c++ -std=c++17 agent.cc process.o state_file.o $(pkg-config --cflags --libs scheduled_events libcurl)
#include <algorithm>
#include <array>
#include <cstdint>
#include <curl/curl.h>
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
#include "state_file.h"

namespace se = scheduled_events;
using namespace std::chrono_literals;
using std::chrono::milliseconds;

namespace {

constexpr std::size_t body_max = 1 << 20;
constexpr milliseconds command_timeout = 10min;
constexpr milliseconds id_timeout = 5s;

se::millis_point now() { return se::millis_point(milliseconds(now_ms())); }

/// A deleter that calls a function.
template <auto function> struct calls {
  template <class Object> void operator()(Object *object) const noexcept { function(object); }
};

using header_list = std::unique_ptr<curl_slist, calls<curl_slist_free_all>>;

/// A handle for one request at a time, and the body of its response.
class transfer {
public:
  transfer() : curl_(curl_easy_init()) {
    if (curl_ == nullptr) {
      throw std::bad_alloc();
    }
  }

  CURL *handle() const noexcept { return curl_.get(); }
  std::string &body() noexcept { return body_; }

  void prepare(const std::string &url, const header_list &headers, milliseconds timeout) {
    body_.clear();
    curl_easy_reset(handle());
    set(CURLOPT_URL, url.c_str());
    set(CURLOPT_HTTPHEADER, headers.get());
    set(CURLOPT_PROXY, "");
    set(CURLOPT_FOLLOWLOCATION, 0L);
    set(CURLOPT_CONNECTTIMEOUT_MS, 2000L);
    set(CURLOPT_TIMEOUT_MS, static_cast<long>(timeout.count()));
    set(CURLOPT_NOSIGNAL, 1L);
    set(CURLOPT_WRITEFUNCTION, &transfer::on_body);
    set(CURLOPT_WRITEDATA, &body_);
  }

  template <class Value> void set(CURLoption option, Value value) { curl_easy_setopt(handle(), option, value); }

  template <class Value> Value info(CURLINFO what) const {
    Value value{};
    curl_easy_getinfo(handle(), what, &value);
    return value;
  }

private:
  static std::size_t on_body(const char *data, std::size_t size, std::size_t count, std::string *body) {
    if (size * count > body_max - body->size()) {
      return 0; // Larger than any document: the transfer fails.
    }
    body->append(data, size * count);
    return size * count;
  }

  std::unique_ptr<CURL, calls<curl_easy_cleanup>> curl_;
  std::string body_;
};

/// Performs the steps of a session.
class agent {
public:
  agent(const std::string &endpoint, const char *prepare, const char *recover, const se::session::config &config)
      : url_(endpoint + SCHEDEV_PATH "?api-version="), id_url_(endpoint + SCHEDEV_VM_ID_PATH), prepare_(prepare),
        recover_(recover), session_(config), multi_(curl_multi_init()),
        headers_(curl_slist_append(curl_slist_append(nullptr, SCHEDEV_HEADER_NAME ": " SCHEDEV_HEADER_VALUE),
                                   "Content-Type: application/json")) {}

  void restore(std::string_view state) { check_state(session_.try_restore(state)); }

  /// Runs until a signal arrives, which makes `wakeups` readable.
  void run(int wakeups) {
    wakeups_ = wakeups;
    prepare_id();
    identify(curl_easy_perform(id_.handle())); // Before anything is done because of the state of another machine.
    while (stopped == 0) {
      commands_.supervise(
          [this](const command &over, bool succeeded) { report(over.attempt, over.recovers, succeeded); });
      if (ask_id_at_ && now() >= *ask_id_at_) {
        ask_id_at_.reset();
        prepare_id();
        curl_multi_add_handle(multi_.get(), id_.handle());
      }
      const auto step = session_.next(now());
      if (const auto record = session_.step_json(document_ ? &*document_ : nullptr)) {
        std::cout << *record << std::endl;
      }
      save();
      std::visit([this](const auto &kind) { perform(kind); }, step);
      advance();
    }
    commands_.end();
    save();
  }

private:
  void perform(const se::step::get &step) { request(step); }
  void perform(const se::step::post &step) {
    request(step, [&] {
      poll_.set(CURLOPT_POSTFIELDSIZE, static_cast<long>(step.body.size()));
      poll_.set(CURLOPT_COPYPOSTFIELDS, step.body.data());
    });
  }
  void perform(const se::step::prepare &step) { start(prepare_, step.event, step.attempt, false); }
  void perform(const se::step::recover &step) { start(recover_, step.event, step.attempt, true); }
  void perform(const se::step::cancel &step) { commands_.cancel(step.attempt); }
  void perform(const se::step::wait &step) {
    curl_waitfd woken{wakeups_, CURL_WAIT_POLLIN, 0};
    const auto pause = std::clamp<milliseconds>(step.until - now(), 0ms, 1s);
    curl_multi_poll(multi_.get(), &woken, 1, static_cast<int>(pause.count()), nullptr);
    drain_wakeups();
  }
  /// The other steps are reports, which were logged.
  template <class Report> void perform(const Report &) {}

  void start(const char *path, const se::tracked_event &event, std::uint32_t attempt, bool recovers) {
    if (!commands_.start(path, event, attempt, recovers, command_timeout)) {
      report(attempt, recovers, false);
    }
  }

  void report(std::uint32_t attempt, bool recovers, bool succeeded) {
    if (recovers) {
      session_.recovered(attempt, succeeded, now());
    } else {
      session_.prepared(attempt, succeeded ? se::preparation::ready : se::preparation::failed);
    }
  }

  template <class Step, class Prepare = void (*)()>
  void request(
      const Step &step, Prepare more = [] {}) {
    poll_.prepare(url_ + std::string(step.api_version), headers_, step.timeout);
    more();
    curl_multi_add_handle(multi_.get(), poll_.handle());
  }

  /// Passes on the results of the transfers that have ended.
  void advance() {
    int count = 0;
    curl_multi_perform(multi_.get(), &count);
    while (const CURLMsg *message = curl_multi_info_read(multi_.get(), &count)) {
      CURL *ended = message->easy_handle;
      const CURLcode code = message->data.result;
      curl_multi_remove_handle(multi_.get(), ended);
      ended == id_.handle() ? identify(code) : finish(code);
    }
  }

  void finish(CURLcode code) {
    const se::outcome outcome =
        code == CURLE_OK ? session_.on_response(response(), now()) : session_.on_failure(cause_of(code), now());
    if (outcome.kind() == se::outcome_kind::document) {
      newest_.swap(poll_.body()); // Records need it until the next one.
      const auto parsed = se::document::try_parse(newest_);
      document_ = parsed ? std::optional(*parsed) : std::nullopt;
    } else if (outcome.cause() != se::cause::none) {
      std::cerr << "warning: a request failed: " << se::word(outcome.cause()) << '\n';
    }
  }

  se::response response() {
    se::response made;
    made.status = static_cast<std::uint32_t>(poll_.info<long>(CURLINFO_RESPONSE_CODE));
    made.body = poll_.body();
    if (const auto retry_after = poll_.info<curl_off_t>(CURLINFO_RETRY_AFTER); retry_after > 0) {
      made.retry_after_seconds = static_cast<std::uint32_t>(std::min<curl_off_t>(retry_after, 3600));
    }
    return made;
  }

  static se::cause cause_of(CURLcode code) {
    return code == CURLE_OPERATION_TIMEDOUT ? se::cause::timeout
           : code == CURLE_COULDNT_CONNECT  ? se::cause::unreachable
           : code == CURLE_WRITE_ERROR      ? se::cause::too_large
                                            : se::cause::connection_lost;
  }

  void prepare_id() {
    id_.prepare(id_url_, headers_, id_timeout);
    id_.set(CURLOPT_FAILONERROR, 1L);
  }

  /// Passes the machine's id to the session, or lets it be requested again a few times: some services have none.
  void identify(CURLcode code) {
    constexpr std::array<milliseconds, 3> pauses{1s, 8s, 60s};
    if (code == CURLE_OK) {
      check_state(session_.try_set_machine_id(id_.body()));
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

  std::string url_, id_url_;
  const char *prepare_, *recover_;
  se::session session_;
  std::string newest_{};
  std::optional<se::document> document_{}; // A view of newest_.
  std::unique_ptr<CURLM, calls<curl_multi_cleanup>> multi_;
  header_list headers_;
  transfer poll_{}, id_{};
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
  config.boot_id = {boot_id.data(), static_cast<std::size_t>(std::max<ssize_t>(boot_id_len, 0))};
  agent agent(arguments[1], arguments[4], arguments[5], config);

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
