// scheduled_events.hpp - Azure Scheduled Events for C++17, over scheduled_events.h
//
// Header-only: views of the caller's bytes, ranges, std::optional, scoped enumerations. parse() throws, try_parse() returns
// a result. Sessions, trackers, policies and copies of texts allocate memory; reading a document does not.
//
//     for (const auto &event : scheduled_events::document::parse(body).events()) {
//       if (event.type() == scheduled_events::event_type::preempt) { ... }
//     }
//
// Documents, events, texts and ranges are views of the bytes that were parsed: keep those bytes alive and unchanged. See
// scheduled_events.h for what the functions do, their units and their limits.
//
// SPDX-License-Identifier: MIT OR Apache-2.0

#ifndef SCHEDULED_EVENTS_HPP
#define SCHEDULED_EVENTS_HPP

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "scheduled_events.h"

namespace scheduled_events {

/// A time in documents: whole seconds, UTC.
using seconds_point = std::chrono::time_point<std::chrono::system_clock, std::chrono::seconds>;
/// A time for sessions: milliseconds since 1970-01-01T00:00:00Z, from a clock that does not step. Read the system clock once
/// and add the time that std::chrono::steady_clock measures.
using millis_point = std::chrono::time_point<std::chrono::system_clock, std::chrono::milliseconds>;

enum class event_type : std::uint32_t {
  none = SCHEDEV_EVENT_TYPE_NONE,
  freeze = SCHEDEV_EVENT_TYPE_FREEZE,
  reboot = SCHEDEV_EVENT_TYPE_REBOOT,
  redeploy = SCHEDEV_EVENT_TYPE_REDEPLOY,
  preempt = SCHEDEV_EVENT_TYPE_PREEMPT,
  terminate = SCHEDEV_EVENT_TYPE_TERMINATE,
  other = SCHEDEV_EVENT_TYPE_OTHER,
};

enum class event_status : std::uint32_t {
  none = SCHEDEV_EVENT_STATUS_NONE,
  scheduled = SCHEDEV_EVENT_STATUS_SCHEDULED,
  started = SCHEDEV_EVENT_STATUS_STARTED,
  other = SCHEDEV_EVENT_STATUS_OTHER,
};

enum class event_source : std::uint32_t {
  none = SCHEDEV_EVENT_SOURCE_NONE,
  platform = SCHEDEV_EVENT_SOURCE_PLATFORM,
  user = SCHEDEV_EVENT_SOURCE_USER,
  other = SCHEDEV_EVENT_SOURCE_OTHER,
};

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

/// Thrown if a call fails.
class error : public std::runtime_error {
public:
  explicit error(schedev_status status)
      : std::runtime_error(schedev_status_message(static_cast<std::uint32_t>(status))), status_(status) {}
  schedev_status status() const noexcept { return status_; }

protected:
  error(schedev_status status, const std::string &message) : std::runtime_error(message), status_(status) {}

private:
  schedev_status status_;
};

/// Why a document is refused, and where.
struct parse_failure {
  schedev_status status = SCHEDEV_ERROR_PARSE;
  schedev_error detail{};

  /// The kind as a word: "unexpected-byte".
  std::string_view kind() const { return schedev_parse_error_word(detail.kind); }
  std::string_view message() const {
    return status == SCHEDEV_ERROR_PARSE ? schedev_error_message(&detail)
                                         : schedev_status_message(static_cast<std::uint32_t>(status));
  }
  std::size_t offset() const noexcept { return detail.offset; }
  std::uint32_t line() const noexcept { return detail.line; }
  std::uint32_t column() const noexcept { return detail.column; }
};

/// Thrown if a document is refused.
class parse_error : public error {
public:
  explicit parse_error(const parse_failure &failure)
      : error(failure.status, std::to_string(failure.line()) + ":" + std::to_string(failure.column()) + ": " +
                                  std::string(failure.message())),
        failure_(failure) {}
  const parse_failure &failure() const noexcept { return failure_; }

private:
  parse_failure failure_;
};

/// A value or an error.
template <class Value, class Error> class [[nodiscard]] result {
public:
  result(Value value) : either_(std::in_place_index<0>, std::move(value)) {}
  result(Error error) : either_(std::in_place_index<1>, std::move(error)) {}
  bool has_value() const noexcept { return either_.index() == 0; }
  explicit operator bool() const noexcept { return has_value(); }
  /// Throws std::bad_variant_access if there is no value.
  const Value &value() const & { return std::get<0>(either_); }
  Value &&value() && { return std::get<0>(std::move(either_)); }
  const Value &operator*() const & { return value(); }
  const Value *operator->() const { return &value(); }
  const Error &error() const { return std::get<1>(either_); }

private:
  std::variant<Value, Error> either_;
};

namespace detail {

inline void check(schedev_status status) {
  if (status != SCHEDEV_OK) {
    throw error(status);
  }
}

inline schedev_text view(std::string_view text) noexcept { return {text.data(), text.size(), false}; }

inline seconds_point moment(std::int64_t seconds) noexcept { return seconds_point(std::chrono::seconds(seconds)); }

inline std::int64_t millis(millis_point moment) noexcept { return moment.time_since_epoch().count(); }

/// A deleter that does nothing, for a pointer into memory that another member owns. The unique_ptr makes the pointer NULL
/// when its owner is moved from, and every function refuses NULL.
struct no_delete {
  void operator()(void *) const noexcept {}
};

/// Calls `write(buffer, capacity, &needed)` until the result fits.
template <class Write> std::string written(Write write) {
  std::string out(256, '\0');
  for (;;) {
    std::size_t needed = 0;
    const schedev_status status = write(out.data(), out.size(), &needed);
    out.resize(needed);
    if (status != SCHEDEV_ERROR_BUFFER_TOO_SMALL) {
      check(status);
      return out;
    }
  }
}

/// A range that is read with a cursor. `Source` has the types `cursor` and `value_type`, and
/// `bool next(cursor &, value_type &) const`.
template <class Source> class range {
public:
  class iterator {
  public:
    using iterator_category = std::input_iterator_tag;
    using value_type = typename Source::value_type;
    using difference_type = std::ptrdiff_t;
    using pointer = const value_type *;
    using reference = const value_type &;

    iterator() = default;
    explicit iterator(const Source &source) : source_(source) { ++*this; }
    reference operator*() const { return value_; }
    pointer operator->() const { return &value_; }
    iterator &operator++() {
      if (source_ && !source_->next(cursor_, value_)) {
        source_.reset();
      }
      return *this;
    }
    void operator++(int) { ++*this; }
    /// Iterators are equal if both or neither are at the end.
    friend bool operator==(const iterator &a, const iterator &b) {
      return a.source_.has_value() == b.source_.has_value();
    }
    friend bool operator!=(const iterator &a, const iterator &b) { return !(a == b); }

  private:
    std::optional<Source> source_;
    typename Source::cursor cursor_{};
    value_type value_{};
  };

  explicit range(const Source &source) : source_(source) {}
  iterator begin() const { return iterator(source_); }
  iterator end() const { return iterator(); }

private:
  Source source_;
};

} // namespace detail

/// A view of a string. It can have JSON escapes, which all functions but raw() decode.
class text {
public:
  text() = default;
  explicit text(schedev_text c) : c_(c) {}
  text(std::string_view plain) : c_(detail::view(plain)) {}

  std::string_view raw() const noexcept { return c_.len == 0 ? std::string_view() : std::string_view(c_.data, c_.len); }
  /// The text without a copy; nothing if it has escapes.
  std::optional<std::string_view> view() const noexcept {
    return c_.escaped ? std::nullopt : std::optional<std::string_view>(raw());
  }
  bool empty() const noexcept { return c_.len == 0; }
  std::string str() const {
    return detail::written(
        [this](char *out, std::size_t size, std::size_t *needed) { return schedev_text_copy(c_, out, size, needed); });
  }
  bool equals_ignore_case(std::string_view other) const {
    return schedev_text_equal_ignore_case(c_, other.data(), other.size());
  }
  friend bool operator==(const text &a, std::string_view b) { return schedev_text_equal(a.c_, b.data(), b.size()); }
  friend bool operator!=(const text &a, std::string_view b) { return !(a == b); }
  const schedev_text &c() const noexcept { return c_; }

private:
  schedev_text c_{};
};

/// The names of this machine. They are views: the strings must outlive this object. No names means that they are unknown.
class names {
public:
  names() = default;
  names(std::initializer_list<std::string_view> items) { assign(items.begin(), items.end()); }
  explicit names(const std::vector<std::string> &items) { assign(items.begin(), items.end()); }

  /// The same names for documents of API version 2017-03-01, which puts a "_" before each name in Resources.
  names underscored() const {
    names copy = *this;
    copy.underscored_ = true;
    return copy;
  }
  bool unknown() const noexcept { return count_ == 0; }
  schedev_names c() const noexcept { return {items_.data(), count_, underscored_}; }

private:
  template <class Iterator> void assign(Iterator first, Iterator last) {
    for (; first != last; ++first) {
      if (count_ == items_.size()) {
        throw error(SCHEDEV_ERROR_TOO_MANY_NAMES);
      }
      items_[count_++] = detail::view(*first);
    }
  }

  std::array<schedev_text, SCHEDEV_NAMES_MAX> items_{};
  std::size_t count_ = 0;
  bool underscored_ = false;
};

/// One event of a document.
class event {
public:
  event() = default;

  text id() const { return text(c_.event_id); }
  event_type type() const noexcept { return static_cast<event_type>(c_.event_type); }
  event_status status() const noexcept { return static_cast<event_status>(c_.event_status); }
  event_source source() const noexcept { return static_cast<event_source>(c_.event_source); }
  /// The words as the document spells them.
  std::optional<text> type_text() const { return some(c_.event_type != 0, c_.event_type_text); }
  std::optional<text> status_text() const { return some(c_.event_status != 0, c_.event_status_text); }
  std::optional<text> source_text() const { return some(c_.event_source != 0, c_.event_source_text); }
  std::optional<text> resource_type() const { return some(c_.has_resource_type, c_.resource_type); }
  std::optional<text> description() const { return some(c_.has_description, c_.description); }
  std::optional<seconds_point> not_before() const {
    return c_.has_not_before ? std::optional(detail::moment(c_.not_before_seconds)) : std::nullopt;
  }
  std::optional<text> unreadable_not_before() const {
    return some(c_.not_before_unreadable.len > 0, c_.not_before_unreadable);
  }
  std::optional<std::chrono::seconds> duration() const {
    return c_.has_duration ? std::optional(std::chrono::seconds(c_.duration_seconds)) : std::nullopt;
  }
  std::size_t index() const noexcept { return c_.index; }
  bool has_resources() const noexcept { return c_.has_resources; }

private:
  struct names_of {
    /// Names are read in batches, which is faster than one by one.
    struct cursor {
      schedev_resource_cursor at;
      std::array<schedev_text, 8> names;
      std::size_t next;
      std::size_t count;
    };
    using value_type = text;
    schedev_event event;
    bool next(cursor &at, text &name) const {
      if (at.next == at.count) {
        if (schedev_event_next_resources(&event, &at.at, at.names.data(), at.names.size(), &at.count) != SCHEDEV_OK) {
          return false;
        }
        at.next = 0;
      }
      name = text(at.names[at.next++]);
      return true;
    }
  };

public:
  /// The names of the machines that the event affects.
  detail::range<names_of> resources() const { return detail::range<names_of>({c_}); }
  /// The index of this machine among them.
  std::optional<std::size_t> rank(const names &mine) const {
    const schedev_names c = mine.c();
    std::size_t rank = 0;
    const schedev_status status = schedev_event_rank(&c_, &c, &rank);
    if (status == SCHEDEV_END) {
      return std::nullopt;
    }
    detail::check(status);
    return rank;
  }
  /// Whether the event affects this machine; nothing if its names are unknown.
  std::optional<bool> owned_by(const names &mine) const {
    return mine.unknown() ? std::nullopt : std::optional(rank(mine).has_value());
  }
  const schedev_event &c() const noexcept { return c_; }

private:
  friend class document;
  static std::optional<text> some(bool present, const schedev_text &c) {
    return present ? std::optional(text(c)) : std::nullopt;
  }

  schedev_event c_{};
};

/// An invalid part of a document that is accepted.
class problem {
public:
  problem() = default;
  explicit problem(const schedev_problem &c) : c_(c) {}
  std::optional<std::size_t> event_index() const { return c_.has_event ? std::optional(c_.event_index) : std::nullopt; }
  /// The name of the invalid member; nothing if the problem is not in a member.
  std::optional<std::string_view> member() const {
    return c_.member == SCHEDEV_MEMBER_NONE ? std::nullopt
                                            : std::optional<std::string_view>(schedev_member_name(c_.member));
  }
  std::string_view kind() const { return schedev_problem_kind_word(c_.kind); }
  std::size_t offset() const noexcept { return c_.offset; }
  const schedev_problem &c() const noexcept { return c_; }

private:
  schedev_problem c_{};
};

/// A parsed document: a view of the bytes.
class document {
  struct events_of {
    using cursor = schedev_event_cursor;
    using value_type = event;
    schedev_document document;
    bool next(cursor &at, event &out) const { return schedev_document_next(&document, &at, &out.c_) == SCHEDEV_OK; }
  };
  struct problems_of {
    using cursor = schedev_problem_cursor;
    using value_type = problem;
    schedev_document document;
    bool next(cursor &at, problem &out) const {
      schedev_problem c;
      if (schedev_document_next_problem(&document, &at, &c) != SCHEDEV_OK) {
        return false;
      }
      out = problem(c);
      return true;
    }
  };
  friend class event;

public:
  /// Throws parse_error.
  static document parse(std::string_view body) {
    auto read = try_parse(body);
    if (!read) {
      throw parse_error(read.error());
    }
    return *read;
  }
  static result<document, parse_failure> try_parse(std::string_view body) {
    document read;
    parse_failure failure;
    failure.status = schedev_document_parse(body.data(), body.size(), &read.c_, &failure.detail);
    if (failure.status != SCHEDEV_OK) {
      return failure;
    }
    return read;
  }

  detail::range<events_of> events() const { return detail::range<events_of>({c_}); }
  std::size_t event_count() const { return schedev_document_event_count(&c_); }
  detail::range<problems_of> problems() const { return detail::range<problems_of>({c_}); }
  /// The incarnation: absent, a number or a text. Compare it for equality only.
  std::variant<std::monostate, std::uint64_t, text> incarnation() const {
    schedev_incarnation c;
    detail::check(schedev_document_incarnation(&c_, &c));
    switch (c.kind) {
    case SCHEDEV_INCARNATION_NUMBER:
      return c.number;
    case SCHEDEV_INCARNATION_TEXT:
      return text(c.text);
    default:
      return std::monostate();
    }
  }
  const schedev_document &c() const noexcept { return c_; }

private:
  document() = default;
  schedev_document c_{};
};

/// The line and column of an offset, from 1.
inline schedev_position position_of(std::string_view body, std::size_t offset) {
  schedev_position position{};
  detail::check(schedev_position_of(body.data(), body.size(), offset, &position));
  return position;
}

/// Formats a time as RFC 3339, such as "2022-04-11T22:26:58Z".
inline std::string to_string(seconds_point moment) {
  return detail::written([=](char *out, std::size_t size, std::size_t *needed) {
    return schedev_time_format(moment.time_since_epoch().count(), out, size, needed);
  });
}

/// Parses an RFC 1123 or ISO 8601 time.
inline std::optional<seconds_point> parse_time(std::string_view written) {
  std::int64_t seconds = 0;
  const bool read = schedev_time_parse(written.data(), written.size(), &seconds) == SCHEDEV_OK;
  return read ? std::optional(detail::moment(seconds)) : std::nullopt;
}

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
  std::vector<std::string> recovering() const {
    std::vector<std::string> ids;
    schedev_text id;
    while (schedev_session_recovering(c_.get(), ids.size(), &id) == SCHEDEV_OK) {
      ids.emplace_back(id.data, id.len);
    }
    return ids;
  }
  /// Since when this machine is out of service; nothing if it is in service.
  std::optional<millis_point> out_of_service_since() const {
    std::int64_t since = 0;
    const bool out = schedev_session_out_of_service_since(c_.get(), &since) == SCHEDEV_OK;
    return out ? std::optional(millis_point(std::chrono::milliseconds(since))) : std::nullopt;
  }
  /// The ids of the events that the POST in progress approves.
  std::vector<std::string> posted() const {
    std::vector<std::string> ids;
    schedev_text id;
    while (schedev_session_posted(c_.get(), ids.size(), &id) == SCHEDEV_OK) {
      ids.emplace_back(id.data, id.len);
    }
    return ids;
  }
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
  std::unique_ptr<unsigned char[]> memory_;
  std::unique_ptr<schedev_session, detail::no_delete> c_;
  schedev_step step_{};
};

} // namespace scheduled_events

#endif // SCHEDULED_EVENTS_HPP
