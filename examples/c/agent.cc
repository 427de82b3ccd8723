// The agent of agent.c in C++17: it polls, prepares, approves and recovers until the events are over, and logs JSON Lines.
//
//     agent-cc ENDPOINT VM-NAME        such as: agent-cc http://169.254.169.254 web_0
#include <algorithm>
#include <curl/curl.h>
#include <iostream>
#include <memory>
#include <scheduled_events.hpp>
#include <string>
#include <thread>
#include <variant>

namespace se = scheduled_events;

namespace {

constexpr std::size_t body_max = 1 << 20;

/// A clock that does not step: the wall clock at the start plus the time measured by the monotonic clock.
se::millis_point now() {
  static const auto wall = std::chrono::system_clock::now();
  static const auto start = std::chrono::steady_clock::now();
  return std::chrono::time_point_cast<std::chrono::milliseconds>(
      wall + std::chrono::duration_cast<std::chrono::system_clock::duration>(std::chrono::steady_clock::now() - start));
}

/// The metadata service.
class service {
public:
  explicit service(const std::string &endpoint)
      : url_(endpoint + SCHEDEV_PATH "?api-version=" SCHEDEV_API_VERSION), curl_(curl_easy_init(), curl_easy_cleanup) {}

  /// Sends a request, a POST if there is a body: the response, or why there is none.
  std::variant<se::response, se::cause> send(const std::string *post, std::chrono::milliseconds timeout) {
    const std::unique_ptr<curl_slist, decltype(&curl_slist_free_all)> headers(
        curl_slist_append(curl_slist_append(nullptr, SCHEDEV_HEADER_NAME ": " SCHEDEV_HEADER_VALUE),
                          "Content-Type: application/json"),
        curl_slist_free_all);
    CURL *curl = curl_.get();
    body_.clear();
    curl_easy_reset(curl);
    if (post != nullptr) {
      curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE, static_cast<long>(post->size()));
      curl_easy_setopt(curl, CURLOPT_POSTFIELDS, post->data());
    }
    curl_easy_setopt(curl, CURLOPT_URL, url_.c_str());
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers.get());
    curl_easy_setopt(curl, CURLOPT_PROXY, "");
    curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, static_cast<long>(timeout.count()));
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, &service::on_body);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, &body_);
    switch (curl_easy_perform(curl)) {
    case CURLE_OK:
      break;
    case CURLE_OPERATION_TIMEDOUT:
      return se::cause::timeout;
    case CURLE_COULDNT_CONNECT:
      return se::cause::unreachable;
    case CURLE_WRITE_ERROR:
      return se::cause::too_large;
    default:
      return se::cause::connection_lost;
    }
    long status = 0;
    curl_off_t retry_after = 0;
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    curl_easy_getinfo(curl, CURLINFO_RETRY_AFTER, &retry_after);
    se::response response;
    response.status = static_cast<std::uint32_t>(status);
    response.body = body_;
    if (retry_after > 0) {
      response.retry_after_seconds = static_cast<std::uint32_t>(std::min<curl_off_t>(retry_after, 3600));
    }
    return response;
  }

private:
  static std::size_t on_body(const char *data, std::size_t size, std::size_t count, void *context) {
    auto &body = *static_cast<std::string *>(context);
    if (size * count > body_max - body.size()) {
      return 0; // Larger than any document: the transfer fails.
    }
    body.append(data, size * count);
    return size * count;
  }

  std::string url_;
  std::string body_;
  std::unique_ptr<CURL, decltype(&curl_easy_cleanup)> curl_;
};

/// Performs the steps of a session.
class agent {
public:
  agent(const std::string &endpoint, const se::session::config &config) : service_(endpoint), session_(config) {}

  void run() {
    while (!(session_.has_seen_event() && session_.is_idle())) {
      const auto step = session_.next(now());
      if (const auto record = session_.step_json()) {
        std::cout << *record << std::endl;
      }
      std::visit([this](const auto &kind) { perform(kind); }, step);
    }
  }

private:
  void perform(const se::step::wait &step) { std::this_thread::sleep_for(step.until - now()); }
  void perform(const se::step::get &step) { exchange(nullptr, step.timeout); }
  void perform(const se::step::post &step) {
    const std::string body(step.body);
    exchange(&body, step.timeout);
  }
  // A real agent drains the machine and returns it to service here.
  void perform(const se::step::prepare &step) { session_.prepared(step.attempt, se::preparation::ready); }
  void perform(const se::step::recover &step) { session_.recovered(step.attempt, true, now()); }
  /// The other steps are reports, which were logged, and steps that this agent does not get: it has no gate, and nothing
  /// runs while it calls next().
  template <class Report> void perform(const Report &) {}

  void exchange(const std::string *post, std::chrono::milliseconds timeout) {
    const auto result = service_.send(post, timeout);
    if (const auto *response = std::get_if<se::response>(&result)) {
      session_.on_response(*response, now());
    } else {
      session_.on_failure(std::get<se::cause>(result), now());
    }
  }

  service service_;
  se::session session_;
};

} // namespace

int main(int argc, char **argv) {
  if (argc != 3) {
    std::cerr << "usage: agent-cc ENDPOINT VM-NAME\n";
    return 2;
  }
  se::rule prepare; // every event of this machine
  prepare.action = se::action::prepare;
  se::session::config config;
  config.policy = se::policy({prepare});
  config.names = se::names({argv[2]});
  config.seed = static_cast<std::uint64_t>(now().time_since_epoch().count());
  try {
    agent(argv[1], config).run();
  } catch (const std::exception &failed) {
    std::cerr << "error: " << failed.what() << '\n';
    return 1;
  }
  return 0;
}
