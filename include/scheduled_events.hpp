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
#include <utility>
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
  advised = SCHEDEV_CHANGE_ADVISED,
  advice_withdrawn = SCHEDEV_CHANGE_ADVICE_WITHDRAWN,
};

enum class leader : std::uint32_t {
  not_set = SCHEDEV_LEADER_NOT_SET,
  rank = SCHEDEV_LEADER_RANK,
  everyone = SCHEDEV_LEADER_EVERYONE,
  first_resource = SCHEDEV_LEADER_FIRST_RESOURCE,
};

/// Why a decision was made.
enum class reason : std::uint32_t {
  user_initiated = SCHEDEV_REASON_USER_INITIATED,
  short_interruption = SCHEDEV_REASON_SHORT_INTERRUPTION,
  rule = SCHEDEV_REASON_RULE,
  no_rule = SCHEDEV_REASON_NO_RULE,
  observing = SCHEDEV_REASON_OBSERVING,
  other_machine = SCHEDEV_REASON_OTHER_MACHINE,
  other_machines_terminate = SCHEDEV_REASON_OTHER_MACHINES_TERMINATE,
  name_unknown = SCHEDEV_REASON_NAME_UNKNOWN,
  type_unknown = SCHEDEV_REASON_TYPE_UNKNOWN,
  already_started = SCHEDEV_REASON_ALREADY_STARTED,
  not_scheduled = SCHEDEV_REASON_NOT_SCHEDULED,
  unreliable = SCHEDEV_REASON_UNRELIABLE,
  another_leads = SCHEDEV_REASON_ANOTHER_LEADS,
  several_machines = SCHEDEV_REASON_SEVERAL_MACHINES,
  start_unknown = SCHEDEV_REASON_START_UNKNOWN,
  status_unknown = SCHEDEV_REASON_STATUS_UNKNOWN,
  names_no_machine = SCHEDEV_REASON_NAMES_NO_MACHINE,
  advice = SCHEDEV_REASON_ADVICE,
  advice_unapproved = SCHEDEV_REASON_ADVICE_UNAPPROVED,
  other = SCHEDEV_REASON_OTHER,
};

/// Why a request failed. The first four are what a program reports with session::on_failure().
enum class cause : std::uint32_t {
  none = SCHEDEV_CAUSE_NONE,
  timeout = SCHEDEV_CAUSE_TIMEOUT,
  unreachable = SCHEDEV_CAUSE_UNREACHABLE,
  connection_lost = SCHEDEV_CAUSE_CONNECTION_LOST,
  too_large = SCHEDEV_CAUSE_TOO_LARGE,
  redirect = SCHEDEV_CAUSE_REDIRECT,
  status = SCHEDEV_CAUSE_STATUS,
  empty_body = SCHEDEV_CAUSE_EMPTY_BODY,
  not_a_document = SCHEDEV_CAUSE_NOT_A_DOCUMENT,
  other = SCHEDEV_CAUSE_OTHER,
};

enum class outcome_kind : std::uint32_t {
  document = SCHEDEV_OUTCOME_DOCUMENT,
  unchanged = SCHEDEV_OUTCOME_UNCHANGED,
  stale = SCHEDEV_OUTCOME_STALE,
  poll_failed = SCHEDEV_OUTCOME_POLL_FAILED,
  approved = SCHEDEV_OUTCOME_APPROVED,
  approval_failed = SCHEDEV_OUTCOME_APPROVAL_FAILED,
  unexpected = SCHEDEV_OUTCOME_UNEXPECTED,
  other = SCHEDEV_OUTCOME_OTHER,
};

enum class preparation : std::uint32_t {
  ready = SCHEDEV_PREPARATION_READY,
  failed = SCHEDEV_PREPARATION_FAILED,
  abandoned = SCHEDEV_PREPARATION_ABANDONED,
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

/// What has to happen next for an event.
enum class waits_for : std::uint32_t {
  document = SCHEDEV_WAITS_FOR_DOCUMENT,
  due_time = SCHEDEV_WAITS_FOR_DUE_TIME,
  gate_to_prepare = SCHEDEV_WAITS_FOR_GATE_TO_PREPARE,
  preparation = SCHEDEV_WAITS_FOR_PREPARATION,
  gate_to_approve = SCHEDEV_WAITS_FOR_GATE_TO_APPROVE,
  turn = SCHEDEV_WAITS_FOR_TURN,
  approval = SCHEDEV_WAITS_FOR_APPROVAL,
  start = SCHEDEV_WAITS_FOR_START,
  start_unapproved = SCHEDEV_WAITS_FOR_START_UNAPPROVED,
  start_unprepared = SCHEDEV_WAITS_FOR_START_UNPREPARED,
  cancelled_command = SCHEDEV_WAITS_FOR_CANCELLED_COMMAND,
  end = SCHEDEV_WAITS_FOR_END,
  withdrawal = SCHEDEV_WAITS_FOR_WITHDRAWAL,
  recovery = SCHEDEV_WAITS_FOR_RECOVERY,
  other = SCHEDEV_WAITS_FOR_OTHER,
};

/// Where the events of a session come from.
enum class session_source : std::uint32_t {
  documents = SCHEDEV_SESSION_SOURCE_DOCUMENTS,
  notifications = SCHEDEV_SESSION_SOURCE_NOTIFICATIONS,
  both = SCHEDEV_SESSION_SOURCE_BOTH,
};

/// What a session made of a notification.
enum class notification_outcome : std::uint32_t {
  applied = SCHEDEV_NOTIFICATION_OUTCOME_APPLIED,
  ignored = SCHEDEV_NOTIFICATION_OUTCOME_IGNORED,
  untracked = SCHEDEV_NOTIFICATION_OUTCOME_UNTRACKED,
};

/// The words that records use, such as "approve" and "started-without-notice".
inline std::string_view word(action value) { return schedev_action_word(static_cast<std::uint32_t>(value)); }
inline std::string_view word(scope value) { return schedev_scope_word(static_cast<std::uint32_t>(value)); }
inline std::string_view word(change value) { return schedev_change_word(static_cast<std::uint32_t>(value)); }
inline std::string_view word(leader value) { return schedev_leader_word(static_cast<std::uint32_t>(value)); }
inline std::string_view word(reason value) { return schedev_reason_word(static_cast<std::uint32_t>(value)); }
inline std::string_view word(cause value) { return schedev_cause_word(static_cast<std::uint32_t>(value)); }
inline std::string_view word(outcome_kind value) {
  return schedev_outcome_kind_word(static_cast<std::uint32_t>(value));
}
inline std::string_view word(preparation value) { return schedev_preparation_word(static_cast<std::uint32_t>(value)); }
inline std::string_view word(gate_phase value) { return schedev_gate_phase_word(static_cast<std::uint32_t>(value)); }
inline std::string_view word(gate_answer value) { return schedev_gate_answer_word(static_cast<std::uint32_t>(value)); }
inline std::string_view word(waits_for value) { return schedev_waits_for_word(static_cast<std::uint32_t>(value)); }
inline std::string_view word(notification_outcome value) {
  return schedev_notification_outcome_word(static_cast<std::uint32_t>(value));
}

/// What a session made of a result that was reported to it.
enum class answer {
  /// It counts.
  accepted,
  /// It does not count: the attempt was cancelled.
  cancelled,
  /// The session does not wait for the result of this attempt. Nothing changed.
  unexpected,
};

inline std::string_view word(answer value) {
  return value == answer::accepted ? "accepted" : value == answer::cancelled ? "cancelled" : "unexpected";
}

/// What to do about an event, and why.
class decision {
public:
  decision() = default;
  explicit decision(const schedev_decision &c) : c_(c) {}
  scheduled_events::action action() const noexcept { return static_cast<scheduled_events::action>(c_.action); }
  /// The number of the rule that matched, from 1.
  std::optional<std::uint32_t> rule() const { return c_.rule > 0 ? std::optional(c_.rule) : std::nullopt; }
  /// The reason, and the message of it for people.
  scheduled_events::reason reason() const noexcept { return static_cast<scheduled_events::reason>(c_.reason); }
  std::string_view message() const { return schedev_decision_reason(&c_); }
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
  /// A policy without rules, which holds every event.
  policy() = default;
  static policy observe() { return policy(); }
  static policy sample() {
    policy preset;
    const schedev_policy *c = schedev_policy_sample();
    preset.rules_.assign(c->rules, c->rules + c->rule_count);
    return preset;
  }
  policy(std::initializer_list<rule> rules) : policy(rules.begin(), rules.end()) {}
  explicit policy(const std::vector<rule> &rules) : policy(rules.begin(), rules.end()) {}
  /// The rules of any range. Too many are refused by the functions that the policy is passed to.
  template <class Iterator> policy(Iterator first, Iterator last) {
    for (; first != last; ++first) {
      add(*first);
    }
  }
  /// The rules and the leader of a policy in C, such as `scheduled-events check --policy FILE --as c` prints.
  explicit policy(const schedev_policy &c)
      : rules_(c.rules, c.rules + c.rule_count), leader_(c.leader),
        take_over_after_seconds_(c.take_over_after_seconds) {}
  /// Adds a rule after the others.
  policy &add(const rule &one) {
    schedev_rule c{};
    c.action = static_cast<std::uint32_t>(one.action);
    c.scope = static_cast<std::uint32_t>(one.scope);
    c.event_types = one.types;
    c.event_sources = one.sources;
    set(one.min_duration_seconds, c.min_duration_seconds, c.has_min_duration);
    set(one.max_duration_seconds, c.max_duration_seconds, c.has_max_duration);
    set(one.min_notice_seconds, c.min_notice_seconds, c.has_min_notice);
    set(one.max_notice_seconds, c.max_notice_seconds, c.has_max_notice);
    set(one.prepare_before_seconds, c.prepare_before_seconds, c.has_prepare_before);
    rules_.push_back(c);
    return *this;
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

  result<decision> try_decide(const event &event, const names &mine, seconds_point now) const {
    const schedev_policy rules = c();
    const schedev_names own = mine.c();
    schedev_decision decided{};
    const schedev_status status = schedev_decide(&rules, &event.c(), &own, now.time_since_epoch().count(), &decided);
    return detail::value_if(status, decision(decided));
  }
#if SCHEDEV_EXCEPTIONS
  decision decide(const event &event, const names &mine, seconds_point now) const {
    return detail::checked(try_decide(event, mine, now));
  }
#endif
  /// Valid as long as this policy exists and is not changed.
  schedev_policy c() const noexcept {
    return {sizeof(schedev_policy), rules_.data(), rules_.size(), leader_, take_over_after_seconds_};
  }

private:
  static void set(const std::optional<std::uint32_t> &value, std::uint32_t &seconds, bool &has) {
    seconds = value.value_or(0);
    has = value.has_value();
  }

  std::vector<schedev_rule> rules_;
  std::uint32_t leader_ = SCHEDEV_LEADER_NOT_SET;
  std::uint32_t take_over_after_seconds_ = 0;
};

/// Returns the POST body that approves these events.
inline result<std::string> try_start_requests(const std::vector<text> &ids) {
  std::vector<schedev_text> views;
  for (const text &id : ids) {
    views.push_back(id.c());
  }
  return detail::written([&](char *out, std::size_t size, std::size_t *needed) {
    return schedev_start_requests(views.data(), views.size(), out, size, needed);
  });
}

#if SCHEDEV_EXCEPTIONS
inline std::string start_requests(const std::vector<text> &ids) { return detail::checked(try_start_requests(ids)); }
#endif

/// What a session or a tracker keeps of an event. document::find() has the other members, as long as the newest document does.
/// Its texts are valid until the next call that changes that object.
class tracked_event {
public:
  tracked_event() = default;
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
  schedev_tracked_event c_{};
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
    // The memory is large enough, so this cannot fail.
    if (schedev_tracker_init(memory_.get(), schedev_tracker_size(), &made) == SCHEDEV_OK) {
      c_.reset(made);
    }
  }
  /// Calls `on_change(change, const tracked_event &)` for each change. If the document has too many events, it is an error, and
  /// nothing is changed. Returns how many events were ignored because their id repeats one, beyond those that are problems of
  /// the document. An exception of on_change is thrown again after the whole document was applied.
  template <class OnChange>
  result<std::size_t> try_observe(const document &next, const names &mine, seconds_point now, OnChange on_change) {
    struct state {
      OnChange &on_change;
      std::exception_ptr thrown;
    } context{on_change, nullptr};
    const auto report = [](void *opaque, std::uint32_t what, const schedev_tracked_event *event) {
      auto &called = *static_cast<state *>(opaque);
#if SCHEDEV_EXCEPTIONS
      if (!called.thrown) {
        try {
          called.on_change(static_cast<change>(what), tracked_event(*event));
        } catch (...) {
          called.thrown = std::current_exception();
        }
      }
#else
      called.on_change(static_cast<change>(what), tracked_event(*event));
#endif
    };
    const schedev_names own = mine.c();
    std::size_t ignored = 0;
    const schedev_status status = schedev_tracker_observe(c_.get(), &next.c(), &own, now.time_since_epoch().count(),
                                                          report, &context, &ignored, nullptr);
#if SCHEDEV_EXCEPTIONS
    if (context.thrown) {
      std::rethrow_exception(context.thrown);
    }
#endif
    return detail::value_if(status, ignored);
  }
  /// Records that an event was approved; false if there is no such event. The id may have escapes.
  result<bool> try_approved(const text &id) {
    const schedev_status status = schedev_tracker_approved(c_.get(), id.c());
    return detail::value_if(status == SCHEDEV_ERROR_UNKNOWN_EVENT ? SCHEDEV_OK : status, status == SCHEDEV_OK);
  }
  result<bool> try_approved(std::string_view id) { return try_approved(text(id)); }
#if SCHEDEV_EXCEPTIONS
  template <class OnChange>
  std::size_t observe(const document &next, const names &mine, seconds_point now, OnChange on_change) {
    return detail::checked(try_observe(next, mine, now, on_change));
  }
  bool approved(const text &id) { return detail::checked(try_approved(id)); }
  bool approved(std::string_view id) { return approved(text(id)); }
#endif
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
  /// The version of the API that the request names.
  std::string_view api_version;
};
struct post {
  std::string_view body;
  std::chrono::milliseconds timeout;
  std::string_view api_version;
};
/// Return `attempt` with the result, to session::prepared(), session::recovered() or session::gate_answered().
struct prepare {
  tracked_event event;
  std::uint32_t attempt;
  /// Whether it is the last call: the gate has not answered yes.
  bool by_last_call;
};
struct recover {
  /// The event that ended last; session::recovering() returns all, this one first.
  tracked_event event;
  std::uint32_t attempt;
  /// Whether it is this machine that recovers, and not another one from its event.
  bool own;
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
struct change {
  scheduled_events::change what;
  tracked_event event;
};
struct decision {
  scheduled_events::decision what;
  tracked_event event;
};
struct problem {
  scheduled_events::problem what;
};
/// How many events are not followed: of this machine, and of others.
struct untracked {
  std::size_t own;
  std::size_t others;
};
/// The machine prepares for the event although the gate has not answered yes; approving it still takes that.
struct last_call {
  tracked_event event;
};
/// The service does not know the version of the API that has advice. It is tried again once a day, and reported once.
struct no_advice {};
/// A step of a later version of the library. Ignore it.
struct unknown {};

using any = std::variant<wait, get, post, prepare, recover, gate, cancel, change, decision, problem, untracked,
                         last_call, no_advice, unknown>;
} // namespace step

/// An HTTP response.
struct response {
  std::uint32_t status = 0;
  std::string_view body{};
  std::optional<std::uint32_t> retry_after_seconds{};
};

/// The outcome of a request.
class outcome {
public:
  outcome() = default;
  explicit outcome(const schedev_outcome &c) : c_(c) {}
  outcome_kind kind() const noexcept { return static_cast<outcome_kind>(c_.kind); }
  /// Why the request failed; none if it did not.
  scheduled_events::cause cause() const noexcept { return static_cast<scheduled_events::cause>(c_.cause); }
  /// The status, if that is the cause.
  std::optional<std::uint32_t> http_status() const {
    return c_.http_status > 0 ? std::optional(c_.http_status) : std::nullopt;
  }
  /// For a failed poll: the time until the next one.
  std::chrono::milliseconds retry_in() const { return std::chrono::milliseconds(c_.retry_in_ms); }
  /// What is wrong with the body, if that is the cause.
  std::optional<parse_failure> failure() const {
    return cause() == scheduled_events::cause::not_a_document
               ? std::optional(parse_failure{SCHEDEV_ERROR_PARSE, c_.error})
               : std::nullopt;
  }
  const schedev_outcome &c() const noexcept { return c_; }

private:
  schedev_outcome c_{};
};

/// The machine that records are of. Its texts are views; those that are unknown are empty.
struct machine {
  std::string_view name{};
  /// Its vmId.
  std::string_view vm_id{};
};

/// What an event of a session waits for, and why. The event is valid until the next call that changes the session.
class waiting {
public:
  explicit waiting(const schedev_waiting &c) : c_(c) {}
  tracked_event event() const { return tracked_event(c_.event); }
  scheduled_events::waits_for waits_for() const noexcept {
    return static_cast<scheduled_events::waits_for>(c_.waits_for);
  }
  /// The number of the preparation, recovery or question to the gate that runs, and since when.
  std::optional<std::uint32_t> attempt() const { return c_.has_attempt ? std::optional(c_.attempt) : std::nullopt; }
  std::optional<seconds_point> since() const {
    return c_.has_attempt ? std::optional(detail::moment(c_.since_seconds)) : std::nullopt;
  }
  /// When what it waits for happens at the earliest, or is tried again.
  std::optional<seconds_point> until() const {
    return c_.has_until ? std::optional(detail::moment(c_.until_seconds)) : std::nullopt;
  }
  /// What the policy decided in the newest document; nothing before the first one after a start.
  std::optional<scheduled_events::decision> decision() const {
    return c_.has_decision ? std::optional(scheduled_events::decision(c_.decision)) : std::nullopt;
  }
  /// Whether the machine prepares, or has prepared, by the last call.
  bool by_last_call() const noexcept { return c_.by_last_call; }

private:
  schedev_waiting c_{};
};

/// The client as a state machine without I/O.
class session {
public:
  struct config {
    scheduled_events::policy policy{};
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
    /// How many seconds before NotBefore the machine prepares although the gate has not answered yes; SCHEDEV_LAST_CALL_NEVER.
    std::uint32_t last_call_seconds = SCHEDEV_LAST_CALL_STANDARD;
    /// How often a failed preparation is given again at most; 0 for never.
    std::uint8_t prepare_retries = SCHEDEV_PREPARE_RETRIES_UNLIMITED;
    /// Where events come from.
    session_source source = session_source::documents;
    /// The version of the API that every request names, as for machine_id; empty for one that follows from the rules.
    std::string_view api_version{};
    /// Whether the program needs advice although no rule names it.
    bool needs_advice = false;
  };

#if SCHEDEV_EXCEPTIONS
  explicit session(const config &options) : session() { detail::check(begin(options)); }
#endif
  /// A session, or what is wrong with the configuration.
  static result<session> try_make(const config &options) {
    session made;
    const schedev_status status = made.begin(options);
    return detail::value_if(status, std::move(made));
  }

  /// Returns the next step. Its views are valid until the next call that changes the session. An error other than a session
  /// that was moved from is not known.
  result<step::any> try_next(millis_point now) {
    const schedev_status status = schedev_session_next(c_.get(), detail::millis(now), &step_);
    if (order_ && status == SCHEDEV_OK && step_.kind == SCHEDEV_STEP_CHANGE &&
        ((step_.change >= SCHEDEV_CHANGE_COMPLETED && step_.change <= SCHEDEV_CHANGE_ENDED) ||
         step_.change == SCHEDEV_CHANGE_ADVICE_WITHDRAWN)) {
      (void)schedev_notification_order_end(order_.get(), step_.event.event_id);
    }
    return detail::value_if(status, status == SCHEDEV_OK ? last_step() : step::any(step::unknown{}));
  }
  /// The last step as a JSON object on one line: a record as `scheduled-events watch --json` emits it; nothing if the
  /// step has no record. Call it before the next call that changes the session. The newest document has what the session does
  /// not keep, such as descriptions; without it they are null.
  result<std::optional<std::string>> try_step_json(const document *newest = nullptr,
                                                   const machine &machine = scheduled_events::machine()) const {
    const schedev_document *c = newest == nullptr ? nullptr : &newest->c();
    const schedev_machine of{detail::view(machine.name), detail::view(machine.vm_id), {0, 0, 0, 0}};
    std::size_t needed = 0;
    if (schedev_step_json(&step_, c, &of, nullptr, 0, &needed) == SCHEDEV_END) {
      return std::optional<std::string>();
    }
    auto json = detail::written([this, c, &of](char *out, std::size_t size, std::size_t *length) {
      return schedev_step_json(&step_, c, &of, out, size, length);
    });
    if (!json) {
      return json.error();
    }
    return std::optional(*std::move(json));
  }
  result<outcome> try_on_response(const response &received, millis_point now) {
    schedev_response c{};
    c.struct_size = sizeof c;
    c.http_status = received.status;
    c.body = received.body.data();
    c.body_len = received.body.size();
    c.has_retry_after = received.retry_after_seconds.has_value();
    c.retry_after_seconds = received.retry_after_seconds.value_or(0);
    schedev_outcome made{};
    const schedev_status status = schedev_session_on_response(c_.get(), &c, detail::millis(now), &made);
    return detail::value_if(status, outcome(made));
  }
  /// The version of the API for the requests that are sent beside a step::get while it has no answer: after 5 s, then every 10 s.
  std::string_view repeat_version() const {
    const schedev_text version = schedev_session_repeat_version(c_.get());
    return {version.data, version.len};
  }
  /// The answer that is passed on next is one to such a request.
  void repeat_answered() { (void)schedev_session_repeat_answered(c_.get()); }
  result<outcome> try_on_failure(cause why, millis_point now) {
    schedev_outcome made{};
    const schedev_status status =
        schedev_session_on_failure(c_.get(), static_cast<std::uint32_t>(why), detail::millis(now), &made);
    return detail::value_if(status, outcome(made));
  }
  /// Applies a notification that schedev_notifications_next() gave, if the source of the session includes notifications. Late
  /// ones are ignored: the session keeps the order of its events.
  result<notification_outcome> try_on_notification(const schedev_notification &received, millis_point now) {
    if (!order_) {
      order_ = std::make_unique<schedev_notification_order>();
    }
    std::uint32_t made = 0;
    const schedev_status status =
        schedev_session_on_notification(c_.get(), order_.get(), &received, detail::millis(now), &made);
    return detail::value_if(status, static_cast<notification_outcome>(made));
  }
  /// The results of step::prepare, step::recover and step::gate.
  result<answer> try_prepared(std::uint32_t attempt, preparation done) {
    bool counts = false;
    const schedev_status status =
        schedev_session_prepared(c_.get(), attempt, static_cast<std::uint32_t>(done), &counts);
    return answered(status, counts);
  }
  result<answer> try_recovered(std::uint32_t attempt, bool done, millis_point now) {
    bool counts = false;
    const schedev_status status = schedev_session_recovered(c_.get(), attempt, done, detail::millis(now), &counts);
    return answered(status, counts);
  }
  result<answer> try_gate_answered(std::uint32_t attempt, gate_answer given, millis_point now) {
    bool counts = false;
    const auto number = static_cast<std::uint32_t>(given);
    const schedev_status status =
        schedev_session_gate_answered(c_.get(), attempt, number, detail::millis(now), &counts);
    return answered(status, counts);
  }
  [[nodiscard]] schedev_status try_set_names(const names &mine) {
    const schedev_names c = mine.c();
    return schedev_session_set_names(c_.get(), &c);
  }
  /// Sets an id that was not known when the session was made. If the session was restored from the snapshot of another
  /// machine, it is as new.
  [[nodiscard]] schedev_status try_set_machine_id(std::string_view id) {
    return schedev_session_set_machine_id(c_.get(), detail::view(id));
  }

  /// Sets how far the time of day is ahead of the clock of try_next(), which does not step: NotBefore is a time of day.
  [[nodiscard]] schedev_status try_set_time_of_day_ahead(std::chrono::milliseconds ahead) {
    return schedev_session_set_time_of_day_ahead(c_.get(), ahead.count());
  }

  /// What each event waits for, in the order of try_events().
  result<std::vector<scheduled_events::waiting>> try_waiting(millis_point now) const {
    std::vector<scheduled_events::waiting> all;
    schedev_waiting one{};
    schedev_status status = SCHEDEV_OK;
    while ((status = schedev_session_waiting(c_.get(), all.size(), detail::millis(now), &one)) == SCHEDEV_OK) {
      all.emplace_back(one);
    }
    return detail::value_if(status == SCHEDEV_END ? SCHEDEV_OK : status, std::move(all));
  }
  /// The ids of the events that the recovery of this machine is for.
  result<std::vector<std::string>> try_recovering() const { return ids_of(schedev_session_recovering); }
  /// Since when this machine is out of service; nothing if it is in service.
  result<std::optional<millis_point>> try_out_of_service_since() const {
    return since(schedev_session_out_of_service_since);
  }
  /// Since when advice cannot be seen; nothing if it can, or if nothing needs it.
  result<std::optional<millis_point>> try_advice_unseen_since() const {
    return since(schedev_session_advice_unseen_since);
  }
  /// The ids of the events that the POST in progress approves.
  result<std::vector<std::string>> try_posted() const { return ids_of(schedev_session_posted); }
  result<std::vector<tracked_event>> try_events() const {
    std::vector<tracked_event> events;
    schedev_tracked_event event{};
    schedev_status status = SCHEDEV_OK;
    while ((status = schedev_session_event(c_.get(), events.size(), &event)) == SCHEDEV_OK) {
      events.emplace_back(event);
    }
    return detail::value_if(status == SCHEDEV_END ? SCHEDEV_OK : status, std::move(events));
  }
  bool has_seen_event() const { return schedev_session_has_seen_event(c_.get()); }
  bool is_idle() const { return schedev_session_is_idle(c_.get()); }

  /// Whether a snapshot is worth storing.
  bool changed() const { return schedev_session_changed(c_.get()); }
  /// Records that a snapshot of the session as it is now was stored.
  void saved() { (void)schedev_session_saved(c_.get()); }
  /// What the session must remember across a restart.
  result<std::string> try_snapshot() const {
    return detail::written([this](char *out, std::size_t size, std::size_t *needed) {
      return schedev_session_snapshot(c_.get(), out, size, needed);
    });
  }
  /// If the snapshot is invalid, the session is as new.
  [[nodiscard]] schedev_status try_restore(std::string_view snapshot) {
    return schedev_session_restore(c_.get(), snapshot.data(), snapshot.size());
  }

#if SCHEDEV_EXCEPTIONS
  step::any next(millis_point now) { return detail::checked(try_next(now)); }
  std::optional<std::string> step_json(const document *newest = nullptr,
                                       const machine &machine = scheduled_events::machine()) const {
    return detail::checked(try_step_json(newest, machine));
  }
  outcome on_response(const response &received, millis_point now) {
    return detail::checked(try_on_response(received, now));
  }
  outcome on_failure(cause why, millis_point now) { return detail::checked(try_on_failure(why, now)); }
  notification_outcome on_notification(const schedev_notification &received, millis_point now) {
    return detail::checked(try_on_notification(received, now));
  }
  answer prepared(std::uint32_t attempt, preparation done) { return detail::checked(try_prepared(attempt, done)); }
  answer recovered(std::uint32_t attempt, bool done, millis_point now) {
    return detail::checked(try_recovered(attempt, done, now));
  }
  answer gate_answered(std::uint32_t attempt, gate_answer given, millis_point now) {
    return detail::checked(try_gate_answered(attempt, given, now));
  }
  void set_names(const names &mine) { detail::check(try_set_names(mine)); }
  void set_machine_id(std::string_view id) { detail::check(try_set_machine_id(id)); }
  void set_time_of_day_ahead(std::chrono::milliseconds ahead) { detail::check(try_set_time_of_day_ahead(ahead)); }
  std::vector<scheduled_events::waiting> waiting(millis_point now) const { return detail::checked(try_waiting(now)); }
  std::vector<std::string> recovering() const { return detail::checked(try_recovering()); }
  std::optional<millis_point> out_of_service_since() const { return detail::checked(try_out_of_service_since()); }
  std::optional<millis_point> advice_unseen_since() const { return detail::checked(try_advice_unseen_since()); }
  std::vector<std::string> posted() const { return detail::checked(try_posted()); }
  std::vector<tracked_event> events() const { return detail::checked(try_events()); }
  std::string snapshot() const { return detail::checked(try_snapshot()); }
  void restore(std::string_view snapshot) { detail::check(try_restore(snapshot)); }
#endif

private:
  session() : memory_(new unsigned char[schedev_session_size()]) {}

  result<std::optional<millis_point>> since(schedev_status (*get)(const schedev_session *, std::int64_t *)) const {
    std::int64_t time = 0;
    const schedev_status status = get(c_.get(), &time);
    if (status == SCHEDEV_END) {
      return std::optional<millis_point>();
    }
    return detail::value_if(status, std::optional(millis_point(std::chrono::milliseconds(time))));
  }

  schedev_status begin(const config &options) {
    const schedev_policy policy = options.policy.c();
    const schedev_names names = options.names.c();
    const auto interval = options.interval.count();
    schedev_session_config c{};
    c.struct_size = sizeof c;
    c.policy = &policy;
    c.names = &names;
    c.seed = options.seed;
    c.interval_ms = interval < 0 ? 0 : interval > UINT32_MAX ? UINT32_MAX : static_cast<std::uint32_t>(interval);
    c.dry_run = options.dry_run;
    c.gate = options.gate;
    c.recover_all = options.recover_all;
    c.machine_id = detail::view(options.machine_id);
    c.boot_id = detail::view(options.boot_id);
    c.last_call_seconds = options.last_call_seconds;
    c.prepare_retries = options.prepare_retries;
    c.source = static_cast<std::uint32_t>(options.source);
    c.api_version = detail::view(options.api_version);
    c.needs_advice = options.needs_advice;
    schedev_session *made = nullptr;
    const schedev_status status = schedev_session_init(memory_.get(), schedev_session_size(), &c, &made);
    c_.reset(made);
    if (options.source != session_source::documents) {
      order_ = std::make_unique<schedev_notification_order>();
    }
    return status;
  }

  step::any last_step() const {
    const schedev_step &c = step_;
    const std::chrono::milliseconds timeout(c.timeout_ms);
    switch (c.kind) {
    case SCHEDEV_STEP_WAIT:
      return step::wait{millis_point(std::chrono::milliseconds(c.until_ms))};
    case SCHEDEV_STEP_GET:
      return step::get{timeout, std::string_view(c.api_version.data, c.api_version.len)};
    case SCHEDEV_STEP_POST:
      return step::post{std::string_view(c.body, c.body_len), timeout,
                        std::string_view(c.api_version.data, c.api_version.len)};
    case SCHEDEV_STEP_PREPARE:
      return step::prepare{tracked_event(c.event), c.attempt, c.by_last_call};
    case SCHEDEV_STEP_RECOVER:
      return step::recover{tracked_event(c.event), c.attempt, c.own};
    case SCHEDEV_STEP_GATE:
      return step::gate{tracked_event(c.event), static_cast<gate_phase>(c.gate_phase), c.attempt};
    case SCHEDEV_STEP_CANCEL:
      return step::cancel{c.attempt};
    case SCHEDEV_STEP_CHANGE:
      return step::change{static_cast<change>(c.change), tracked_event(c.event)};
    case SCHEDEV_STEP_DECISION:
      return step::decision{decision(c.decision), tracked_event(c.event)};
    case SCHEDEV_STEP_PROBLEM:
      return step::problem{problem(c.problem)};
    case SCHEDEV_STEP_UNTRACKED:
      return step::untracked{c.untracked_own, c.untracked_others};
    case SCHEDEV_STEP_LAST_CALL:
      return step::last_call{tracked_event(c.event)};
    case SCHEDEV_STEP_NO_ADVICE:
      return step::no_advice{};
    default:
      return step::unknown{};
    }
  }
  static result<answer> answered(schedev_status status, bool counts) {
    if (status == SCHEDEV_ERROR_UNKNOWN_EVENT) {
      return answer::unexpected;
    }
    return detail::value_if(status, counts ? answer::accepted : answer::cancelled);
  }

  /// The ids that a function returns by their index.
  result<std::vector<std::string>> ids_of(schedev_status (*id_at)(const schedev_session *, std::size_t,
                                                                  schedev_text *)) const {
    std::vector<std::string> ids;
    schedev_text id{};
    schedev_status status = SCHEDEV_OK;
    while ((status = id_at(c_.get(), ids.size(), &id)) == SCHEDEV_OK) {
      ids.emplace_back(id.data, id.len);
    }
    return detail::value_if(status == SCHEDEV_END ? SCHEDEV_OK : status, std::move(ids));
  }

  std::unique_ptr<unsigned char[]> memory_;
  std::unique_ptr<schedev_session, detail::no_delete> c_;
  /// What is known of events from notifications; nothing if there were none.
  std::unique_ptr<schedev_notification_order> order_;
  schedev_step step_{};
};

} // namespace scheduled_events

#endif // SCHEDULED_EVENTS_HPP
