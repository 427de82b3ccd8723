// Notifications in the session of scheduled_events.hpp: the life of an event, and the end that a document reports. With an
// argument, it plays a scenario of the corpus, as notified.c does.
#include <array>
#include <iostream>

#include "expect.h"
#include "scheduled_events.hpp"

namespace se = scheduled_events;

namespace {

/// A session and what it asked for and reported.
struct host {
  explicit host(se::session_source source) : session(config(source)) {}

  static se::session::config config(se::session_source source) {
    se::rule prepare;
    prepare.action = se::action::prepare;
    se::session::config made;
    made.policy = se::policy({prepare});
    made.names = {"db"};
    made.source = source;
    return made;
  }

  /// Passes a message of Event Grid on, sent at this minute.
  se::notification_outcome notify(std::string_view status, std::string_view minute) {
    std::string message = R"({"id":"m","eventType":"microsoft.maintenance/scheduledevents/write","eventTime":)";
    message.append(R"("2020-09-13T12:)").append(minute).append(R"(:00Z","data":{"resourceInfo":{"properties":)");
    return pass_on(message.append(event(status)).append("}}}"));
  }

  se::notification_outcome pass_on(const std::string &message) {
    schedev_notifications notifications;
    schedev_notification_cursor cursor = SCHEDEV_CURSOR_INIT;
    schedev_notification notification;
    EXPECT(schedev_notifications_parse(message.data(), message.size(), &notifications, nullptr) == SCHEDEV_OK);
    EXPECT(schedev_notifications_next(&notifications, &cursor, &notification) == SCHEDEV_OK);
    return session.on_notification(notification, now);
  }

  static std::string event(std::string_view status) {
    return R"({"EventId":"a","EventType":"Reboot","Resources":["db"],"EventStatus":")" + std::string(status) + "\"}";
  }

  /// Does what is due, and returns it.
  std::string work() {
    std::string log;
    for (;;) {
      const se::step::any step = session.next(now);
      se::response response;
      response.status = 200;
      if (const auto *wait = std::get_if<se::step::wait>(&step)) {
        // Requests are some time apart.
        if (wait->until - now >= std::chrono::milliseconds(500)) {
          return log;
        }
        now = wait->until;
      } else if (std::holds_alternative<se::step::get>(step)) {
        response.body = body;
        session.on_response(response, now);
      } else if (std::holds_alternative<se::step::post>(step)) {
        log += "post ";
        EXPECT(session.posted().size() == 1);
        session.on_response(response, now);
      } else if (const auto *due = std::get_if<se::step::prepare>(&step)) {
        log += "prepare ";
        EXPECT(session.prepared(due->attempt, prepared) == se::answer::accepted);
      } else if (const auto *ended = std::get_if<se::step::recover>(&step)) {
        log += "recover ";
        EXPECT(session.recovered(ended->attempt, true, now) == se::answer::accepted);
      } else if (const auto *change = std::get_if<se::step::change>(&step)) {
        log.append(se::word(change->what)).append(" ");
      } else {
        EXPECT(std::holds_alternative<se::step::decision>(step) || std::holds_alternative<se::step::problem>(step));
      }
    }
  }

  /// Does what is due after the next poll.
  std::string poll(std::string_view events) {
    body = R"({"DocumentIncarnation":)" + std::to_string(++incarnation) + R"(,"Events":[)" + std::string(events) + "]}";
    now += std::chrono::seconds(10);
    return work();
  }

  se::session session;
  se::preparation prepared = se::preparation::ready;
  se::millis_point now{std::chrono::milliseconds(INT64_C(1600000000000))};
  std::string body;
  int incarnation = 0;
};

void a_life() {
  host host(se::session_source::notifications);
  EXPECT(host.notify("Scheduled", "00") == se::notification_outcome::applied);
  EXPECT(host.work() == "scheduled prepare post ");
  EXPECT(host.notify("Scheduled", "00") == se::notification_outcome::applied);
  EXPECT(host.notify("Started", "10") == se::notification_outcome::applied);
  EXPECT(host.notify("Scheduled", "05") == se::notification_outcome::ignored);
  EXPECT(host.work() == "started ");
  EXPECT(host.notify("Completed", "20") == se::notification_outcome::applied);
  EXPECT(host.work() == "completed recover " && host.session.is_idle());
  EXPECT(host.notify("Started", "15") == se::notification_outcome::ignored && host.work().empty());
}

void beside_documents() {
  host host(se::session_source::both);
  EXPECT(host.poll("").empty());
  EXPECT(host.notify("Scheduled", "00") == se::notification_outcome::applied);
  EXPECT(host.work() == "scheduled prepare post ");
  EXPECT(host.poll(host::event("Scheduled")).empty());
  EXPECT((host.poll("") + host.poll("")) == "ended recover ");
  // The document has reported the end, so this is late.
  EXPECT(host.notify("Started", "10") == se::notification_outcome::ignored && host.poll("").empty());
}

void refused() {
  host host(se::session_source::documents);
  EXPECT(host.notify("Scheduled", "00") == se::notification_outcome::ignored);
  const schedev_notification none{};
  EXPECT(host.session.try_on_notification(none, host.now).error() == SCHEDEV_ERROR_ARGUMENT);
  const se::session moved = std::move(host.session);
  EXPECT(host.session.try_on_notification(none, host.now).error() == SCHEDEV_ERROR_NULL);
}

void play() {
  std::optional<host> player;
  std::string kind, text;
  for (std::int64_t at = 0; std::cin >> at >> kind && std::getline(std::cin >> std::ws, text);) {
    if (kind == "source") {
      host next(static_cast<se::session_source>(text[0] - '0'));
      if (player) {
        next.session.restore(player->session.snapshot());
        next.body = player->body;
        next.prepared = player->prepared;
      }
      player = std::move(next);
      continue;
    }
    if (kind == "prepared") {
      player->prepared = std::array{se::preparation::ready, se::preparation::failed, se::preparation::abandoned}.at(
          static_cast<std::size_t>(text[0] - '0'));
      continue;
    }
    player->now = se::millis_point(std::chrono::milliseconds(INT64_C(1600000000000) + at * 1000));
    if (kind == "notify") {
      std::cout << se::word(player->pass_on(text)) << ' ';
    } else {
      player->body = text;
    }
    std::cout << player->work() << '\n';
  }
}

} // namespace

int main(int argc, char **) {
  if (argc > 1) {
    play();
    return 0;
  }
  a_life();
  beside_documents();
  refused();
  return 0;
}
