// scheduled_events.hpp - Azure Scheduled Events for C++17, over scheduled_events.h
//
// Header-only. It includes scheduled_events_document.hpp, which reads documents, and adds what acts on them: policies,
// trackers and sessions, which allocate memory.
//
// SPDX-License-Identifier: MIT OR Apache-2.0

#ifndef SCHEDULED_EVENTS_HPP
#define SCHEDULED_EVENTS_HPP

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "scheduled_events.h"
#include "scheduled_events_document.hpp"

namespace scheduled_events {

/// A time for sessions: milliseconds since 1970-01-01T00:00:00Z, from a clock that does not step. Read the system clock once
/// and add the time that std::chrono::steady_clock measures.
using millis_point = std::chrono::time_point<std::chrono::system_clock, std::chrono::milliseconds>;

enum class action : std::uint32_t {
  hold = SCHEDEV_ACTION_HOLD,
  approve = SCHEDEV_ACTION_APPROVE,
  prepare = SCHEDEV_ACTION_PREPARE,
  ignore = SCHEDEV_ACTION_IGNORE,
};

enum class scope : std::uint32_t {
  mine = SCHEDEV_SCOPE_MINE,
  others = SCHEDEV_SCOPE_OTHERS,
  any = SCHEDEV_SCOPE_ANY,
};

enum class change : std::uint32_t {
  scheduled = SCHEDEV_CHANGE_SCHEDULED,
  started = SCHEDEV_CHANGE_STARTED,
  started_without_notice = SCHEDEV_CHANGE_STARTED_WITHOUT_NOTICE,
  rescheduled = SCHEDEV_CHANGE_RESCHEDULED,
  updated = SCHEDEV_CHANGE_UPDATED,
  completed = SCHEDEV_CHANGE_COMPLETED,
  cancelled = SCHEDEV_CHANGE_CANCELLED,
  ended = SCHEDEV_CHANGE_ENDED,
};

/// Why a request got no response.
enum class cause : std::uint32_t {
  timeout = SCHEDEV_CAUSE_TIMEOUT,
  unreachable = SCHEDEV_CAUSE_UNREACHABLE,
  connection_lost = SCHEDEV_CAUSE_CONNECTION_LOST,
  too_large = SCHEDEV_CAUSE_TOO_LARGE,
};

enum class preparation : std::uint32_t {
  ready = SCHEDEV_PREPARATION_READY,
  failed = SCHEDEV_PREPARATION_FAILED,
};

/// What step::gate asks.
enum class gate_phase : std::uint32_t {
  prepare = SCHEDEV_GATE_PHASE_PREPARE,
  approve = SCHEDEV_GATE_PHASE_APPROVE,
};

enum class gate_answer : std::uint32_t {
  open = SCHEDEV_GATE_ANSWER_OPEN,
  another_approves = SCHEDEV_GATE_ANSWER_ANOTHER_APPROVES,
  closed = SCHEDEV_GATE_ANSWER_CLOSED,
};

/// The words that records use, such as "approve" and "started-without-notice".
inline std::string_view word(action value) { return schedev_action_word(static_cast<std::uint32_t>(value)); }
inline std::string_view word(change value) { return schedev_change_word(static_cast<std::uint32_t>(value)); }

/// What to do about an event, and why.
class decision {
public:
  decision() = default;
  explicit decision(const schedev_decision &c) : c_(c) {}
  scheduled_events::action action() const noexcept { return static_cast<scheduled_events::action>(c_.action); }
  /// The number of the rule that matched, from 1.
  std::optional<std::uint32_t> rule() const { return c_.rule > 0 ? std::optional(c_.rule) : std::nullopt; }
  std::string_view reason() const { return schedev_decision_reason(&c_); }
  std::optional<std::chrono::seconds> approve_after() const {
    return c_.has_approve_after ? std::optional(std::chrono::seconds(c_.approve_after_seconds)) : std::nullopt;
  }
  std::optional<std::chrono::seconds> time_left() const {
    return c_.has_time_left ? std::optional(std::chrono::seconds(c_.time_left_seconds)) : std::nullopt;
  }
  /// The time before which the event is neither prepared for nor approved.
  std::optional<seconds_point> act_from() const {
    return c_.has_act_from ? std::optional(detail::moment(c_.act_from_seconds)) : std::nullopt;
  }
  const schedev_decision &c() const noexcept { return c_; }

private:
  schedev_decision c_{};
};

/// One rule. It matches an event if all its conditions do.
struct rule {
  scheduled_events::action action = scheduled_events::action::hold;
  /// schedev_match_type and schedev_match_source, combined with |; 0 is any.
  std::uint32_t types = SCHEDEV_MATCH_TYPE_ANY;
  std::uint32_t sources = SCHEDEV_MATCH_SOURCE_ANY;
  std::optional<std::uint32_t> min_duration_seconds{};
  std::optional<std::uint32_t> max_duration_seconds{};
  scheduled_events::scope scope = scheduled_events::scope::mine;
  /// From when this NotBefore was first seen until NotBefore.
  std::optional<std::uint32_t> min_notice_seconds{};
  std::optional<std::uint32_t> max_notice_seconds{};
  /// How long before NotBefore to prepare or approve at the earliest.
  std::optional<std::uint32_t> prepare_before_seconds{};
};

/// A list of rules; the first rule that matches an event decides about it.
class policy {
public:
  static policy observe() { return policy({}); }
  static policy sample() {
    policy preset({});
    const schedev_policy *c = schedev_policy_sample();
    preset.rules_.assign(c->rules, c->rules + c->rule_count);
    return preset;
  }
  explicit policy(std::initializer_list<rule> rules) {
    for (const rule &one : rules) {
      rules_.push_back({static_cast<std::uint32_t>(one.action), static_cast<std::uint32_t>(one.scope), one.types,
                        one.sources, one.min_duration_seconds.value_or(0), one.max_duration_seconds.value_or(0),
                        one.min_duration_seconds.has_value(), one.max_duration_seconds.has_value(),
                        one.min_notice_seconds.value_or(0), one.max_notice_seconds.value_or(0),
                        one.prepare_before_seconds.value_or(0), one.min_notice_seconds.has_value(),
                        one.max_notice_seconds.has_value(), one.prepare_before_seconds.has_value()});
    }
  }
  /// Which machine approves an event that names several. If none of these is called, it is the first one in Resources for
  /// rules with action::approve; with action::prepare, such an event is prepared for and not approved.
  policy &lead_by_first_resource() {
    leader_ = SCHEDEV_LEADER_FIRST_RESOURCE;
    return *this;
  }
  policy &lead_by_rank(std::chrono::duration<std::uint32_t> take_over_after) {
    leader_ = SCHEDEV_LEADER_RANK;
    take_over_after_seconds_ = take_over_after.count();
    return *this;
  }
  policy &lead_by_everyone() {
    leader_ = SCHEDEV_LEADER_EVERYONE;
    return *this;
  }

  decision decide(const event &event, const names &mine, seconds_point now) const {
    const schedev_policy rules = c();
    const schedev_names own = mine.c();
    schedev_decision decided{};
    detail::check(schedev_decide(&rules, &event.c(), &own, now.time_since_epoch().count(), &decided));
    return decision(decided);
  }
  /// Valid as long as this policy exists and is not changed.
  schedev_policy c() const noexcept {
    return {sizeof(schedev_policy), rules_.data(), rules_.size(), leader_, take_over_after_seconds_};
  }

private:
  std::vector<schedev_rule> rules_;
  std::uint32_t leader_ = SCHEDEV_LEADER_NOT_SET;
  std::uint32_t take_over_after_seconds_ = 0;
};

/// Returns the POST body that approves these events.
inline std::string start_requests(const std::vector<text> &ids) {
  std::vector<schedev_text> views;
  for (const text &id : ids) {
    views.push_back(id.c());
  }
  return detail::written([&](char *out, std::size_t size, std::size_t *needed) {
    return schedev_start_requests(views.data(), views.size(), out, size, needed);
  });
}

/// What a session or a tracker keeps of an event. Its texts are valid until the next call that changes that object.
class tracked_event {
public:
  explicit tracked_event(const schedev_tracked_event &c) : c_(c) {}
  std::string_view id() const noexcept { return {c_.event_id.data, c_.event_id.len}; }
  /// The type as the document spells it; empty if there is none.
  std::string_view type_text() const noexcept { return {c_.event_type_text.data, c_.event_type_text.len}; }
  event_status status() const noexcept { return static_cast<event_status>(c_.event_status); }
  std::optional<seconds_point> not_before() const {
    return c_.has_not_before ? std::optional(detail::moment(c_.not_before_seconds)) : std::nullopt;
  }
  std::optional<std::chrono::seconds> duration() const {
    return c_.has_duration ? std::optional(std::chrono::seconds(c_.duration_seconds)) : std::nullopt;
  }
  std::optional<bool> mine() const { return c_.has_mine ? std::optional<bool>(c_.mine) : std::nullopt; }
  bool approved() const noexcept { return c_.approved; }

private:
  schedev_tracked_event c_;
};

namespace detail {

inline std::int64_t millis(millis_point moment) noexcept { return moment.time_since_epoch().count(); }

/// A deleter that does nothing, for a pointer into memory that another member owns. The unique_ptr makes the pointer NULL
/// when its owner is moved from, and every function refuses NULL.
struct no_delete {
  void operator()(void *) const noexcept {}
};

} // namespace detail

/// Reports what changed between two documents.
class tracker {
public:
  tracker() : memory_(new unsigned char[schedev_tracker_size()]) {
    schedev_tracker *made = nullptr;
    detail::check(schedev_tracker_init(memory_.get(), schedev_tracker_size(), &made));
    c_.reset(made);
  }
  /// Calls `on_change(change, const tracked_event &)` for each change. An exception of on_change is thrown again after the
  /// whole document was applied. Throws error if the document has too many events, and then nothing is changed. Returns
  /// how many events were ignored because their id repeats one, beyond those that are problems of the document.
  template <class OnChange>
  std::size_t observe(const document &next, const names &mine, seconds_point now, OnChange on_change) {
    struct state {
      OnChange &on_change;
      std::exception_ptr thrown;
    } context{on_change, nullptr};
    const auto report = [](void *opaque, std::uint32_t what, const schedev_tracked_event *event) {
      auto &called = *static_cast<state *>(opaque);
      if (!called.thrown) {
        try {
          called.on_change(static_cast<change>(what), tracked_event(*event));
        } catch (...) {
          called.thrown = std::current_exception();
        }
      }
    };
    const schedev_names own = mine.c();
    std::size_t ignored = 0;
    detail::check(schedev_tracker_observe(c_.get(), &next.c(), &own, now.time_since_epoch().count(), report, &context,
                                          &ignored, nullptr));
    if (context.thrown) {
      std::rethrow_exception(context.thrown);
    }
    return ignored;
  }
  /// Records that an event was approved; false if there is no such event.
  bool approved(std::string_view id) { return schedev_tracker_approved(c_.get(), detail::view(id)) == SCHEDEV_OK; }
  std::size_t size() const { return schedev_tracker_event_count(c_.get()); }

private:
  std::unique_ptr<unsigned char[]> memory_;
  std::unique_ptr<schedev_tracker, detail::no_delete> c_;
};

/// The steps of a session.
namespace step {
struct wait {
  millis_point until;
};
struct get {
  std::chrono::milliseconds timeout;
};
struct post {
  std::string_view body;
  std::chrono::milliseconds timeout;
};
/// Return `attempt` with the result, to session::prepared(), session::recovered() or session::gate_answered().
struct prepare {
  tracked_event event;
  std::uint32_t attempt;
};
struct recover {
  /// The event that ended last; session::recovering() returns all.
  tracked_event event;
  std::uint32_t attempt;
};
struct gate {
  tracked_event event;
  gate_phase phase;
  std::uint32_t attempt;
};
/// End what runs for this attempt, and report its result as usual.
struct cancel {
  std::uint32_t attempt;
};
struct report_change {
  scheduled_events::change change;
  tracked_event event;
};
struct report_decision {
  scheduled_events::decision decision;
  tracked_event event;
};
struct report_problem {
  scheduled_events::problem problem;
};
struct report_untracked {
  std::size_t own;
  std::size_t others;
};
/// A step of a later version of the library. Ignore it.
struct unknown {};

using any = std::variant<wait, get, post, prepare, recover, gate, cancel, report_change, report_decision,
                         report_problem, report_untracked, unknown>;
} // namespace step

/// An HTTP response.
struct response {
  std::uint32_t status = 0;
  std::string_view body{};
  std::optional<std::uint32_t> retry_after_seconds{};
};

/// The client as a state machine without I/O.
class session {
public:
  struct config {
    scheduled_events::policy policy = scheduled_events::policy::observe();
    scheduled_events::names names{};
    std::chrono::milliseconds interval{SCHEDEV_INTERVAL_MS};
    bool dry_run = false;
    std::uint64_t seed = 0;
    /// Whether to ask a gate before each preparation and each approval.
    bool gate = false;
    /// Whether to recover after every event of this machine that was seen Started.
    bool recover_all = false;
    /// An id of this machine that a clone does not have, and one of this boot; empty if unknown. They must outlive the
    /// construction of the session only.
    std::string_view machine_id{};
    std::string_view boot_id{};
  };

  explicit session(const config &options) : memory_(new unsigned char[schedev_session_size()]) {
    const schedev_policy policy = options.policy.c();
    const schedev_names names = options.names.c();
    const auto interval = options.interval.count();
    const schedev_session_config c = {sizeof(schedev_session_config),
                                      &policy,
                                      &names,
                                      options.seed,
                                      interval < 0            ? 0
                                      : interval > UINT32_MAX ? UINT32_MAX
                                                              : static_cast<std::uint32_t>(interval),
                                      options.dry_run,
                                      options.gate,
                                      options.recover_all,
                                      detail::view(options.machine_id),
                                      detail::view(options.boot_id)};
    schedev_session *made = nullptr;
    detail::check(schedev_session_init(memory_.get(), schedev_session_size(), &c, &made));
    c_.reset(made);
  }

  /// Returns the next step. Its views are valid until the next call that changes the session.
  step::any next(millis_point now) {
    detail::check(schedev_session_next(c_.get(), detail::millis(now), &step_));
    const schedev_step &c = step_;
    const std::chrono::milliseconds timeout(c.timeout_ms);
    switch (c.kind) {
    case SCHEDEV_STEP_WAIT:
      return step::wait{millis_point(std::chrono::milliseconds(c.until_ms))};
    case SCHEDEV_STEP_GET:
      return step::get{timeout};
    case SCHEDEV_STEP_POST:
      return step::post{text(c.body).raw(), timeout};
    case SCHEDEV_STEP_PREPARE:
      return step::prepare{tracked_event(c.event), c.attempt};
    case SCHEDEV_STEP_RECOVER:
      return step::recover{tracked_event(c.event), c.attempt};
    case SCHEDEV_STEP_GATE:
      return step::gate{tracked_event(c.event), static_cast<gate_phase>(c.gate_phase), c.attempt};
    case SCHEDEV_STEP_CANCEL:
      return step::cancel{c.attempt};
    case SCHEDEV_STEP_CHANGE:
      return step::report_change{static_cast<change>(c.change), tracked_event(c.event)};
    case SCHEDEV_STEP_DECISION:
      return step::report_decision{decision(c.decision), tracked_event(c.event)};
    case SCHEDEV_STEP_PROBLEM:
      return step::report_problem{problem(c.problem)};
    case SCHEDEV_STEP_UNTRACKED:
      return step::report_untracked{c.untracked_own, c.untracked_others};
    default:
      return step::unknown{};
    }
  }
  /// The last step as a JSON object on one line: a record as `scheduled-events watch --json` emits it; nothing if the
  /// step has no record. Call it before the next call that changes the session.
  std::optional<std::string> step_json() const {
    std::size_t needed = 0;
    if (schedev_step_json(&step_, nullptr, 0, &needed) == SCHEDEV_END) {
      return std::nullopt;
    }
    return detail::written([this](char *out, std::size_t size, std::size_t *length) {
      return schedev_step_json(&step_, out, size, length);
    });
  }
  schedev_outcome on_response(const response &received, millis_point now) {
    schedev_response c = SCHEDEV_RESPONSE_INIT;
    c.http_status = received.status;
    c.body = received.body.data();
    c.body_len = received.body.size();
    c.has_retry_after = received.retry_after_seconds.has_value();
    c.retry_after_seconds = received.retry_after_seconds.value_or(0);
    schedev_outcome outcome{};
    detail::check(schedev_session_on_response(c_.get(), &c, detail::millis(now), &outcome));
    return outcome;
  }
  schedev_outcome on_failure(cause why, millis_point now) {
    schedev_outcome outcome{};
    detail::check(schedev_session_on_failure(c_.get(), static_cast<std::uint32_t>(why), detail::millis(now), &outcome));
    return outcome;
  }
  /// The results of step::prepare, step::recover and step::gate. They return whether the result counts: false if the attempt
  /// was cancelled, or if the session does not wait for the result of this attempt.
  bool prepared(std::uint32_t attempt, preparation result) {
    bool accepted = false;
    (void)schedev_session_prepared(c_.get(), attempt, static_cast<std::uint32_t>(result), &accepted);
    return accepted;
  }
  bool recovered(std::uint32_t attempt, bool done, millis_point now) {
    bool accepted = false;
    (void)schedev_session_recovered(c_.get(), attempt, done, detail::millis(now), &accepted);
    return accepted;
  }
  bool gate_answered(std::uint32_t attempt, gate_answer answer, millis_point now) {
    bool accepted = false;
    (void)schedev_session_gate_answered(c_.get(), attempt, static_cast<std::uint32_t>(answer), detail::millis(now),
                                        &accepted);
    return accepted;
  }
  void set_names(const names &mine) {
    const schedev_names c = mine.c();
    detail::check(schedev_session_set_names(c_.get(), &c));
  }

  /// The ids of the events that the recovery of this machine is for.
  std::vector<std::string> recovering() const { return ids_of(schedev_session_recovering); }
  /// Since when this machine is out of service; nothing if it is in service.
  std::optional<millis_point> out_of_service_since() const {
    std::int64_t since = 0;
    const bool out = schedev_session_out_of_service_since(c_.get(), &since) == SCHEDEV_OK;
    return out ? std::optional(millis_point(std::chrono::milliseconds(since))) : std::nullopt;
  }
  /// The ids of the events that the POST in progress approves.
  std::vector<std::string> posted() const { return ids_of(schedev_session_posted); }
  std::vector<tracked_event> events() const {
    std::vector<tracked_event> events;
    schedev_tracked_event event;
    while (schedev_session_event(c_.get(), events.size(), &event) == SCHEDEV_OK) {
      events.emplace_back(event);
    }
    return events;
  }
  bool has_seen_event() const { return schedev_session_has_seen_event(c_.get()); }
  bool is_idle() const { return schedev_session_is_idle(c_.get()); }

  /// What the session must remember across a restart.
  std::string snapshot() const {
    return detail::written([this](char *out, std::size_t size, std::size_t *needed) {
      return schedev_session_snapshot(c_.get(), out, size, needed);
    });
  }
  /// Throws error if the snapshot is invalid; the session is then as new.
  void restore(std::string_view snapshot) {
    detail::check(schedev_session_restore(c_.get(), snapshot.data(), snapshot.size()));
  }

private:
  /// The ids that a function returns by their index.
  std::vector<std::string> ids_of(schedev_status (*id_at)(const schedev_session *, std::size_t, schedev_text *)) const {
    std::vector<std::string> ids;
    schedev_text id;
    while (id_at(c_.get(), ids.size(), &id) == SCHEDEV_OK) {
      ids.emplace_back(id.data, id.len);
    }
    return ids;
  }

  std::unique_ptr<unsigned char[]> memory_;
  std::unique_ptr<schedev_session, detail::no_delete> c_;
  schedev_step step_{};
};

} // namespace scheduled_events

#endif // SCHEDULED_EVENTS_HPP
