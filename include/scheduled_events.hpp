// scheduled_events.hpp - Azure Scheduled Events for C++17, over scheduled_events.h
//
// Header-only: value types that view the caller's bytes, ranges, std::optional, strong enumerations. What can fail comes
// in two kinds: parse() throws, try_parse() returns a result; choose call by call. Only sessions, trackers, policies and
// the texts that are copied out allocate; reading a document does not.
//
//     for (const auto &event : scheduled_events::document::parse(body).events()) {
//       if (event.type() == scheduled_events::event_type::preempt) { ... }
//     }
//
// A document, and every event, text and range that comes from it, views the bytes that were parsed: keep these alive and
// unchanged. What the functions mean, their units and their limits stand in scheduled_events.h.
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

/// A moment as documents tell it: whole seconds, UTC.
using seconds_point = std::chrono::time_point<std::chrono::system_clock, std::chrono::seconds>;
/// A moment for the pace of polling. Take it from a clock that does not step.
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

enum class failure : std::uint32_t {
  timeout = SCHEDEV_CAUSE_TIMEOUT,
  unreachable = SCHEDEV_CAUSE_UNREACHABLE,
  connection_lost = SCHEDEV_CAUSE_CONNECTION_LOST,
  too_large = SCHEDEV_CAUSE_TOO_LARGE,
};

enum class preparation : std::uint32_t {
  ready = SCHEDEV_PREPARATION_READY,
  failed = SCHEDEV_PREPARATION_FAILED,
};

/// The words that records use: "approve", "started-without-notice".
inline std::string_view word(action value) { return schedev_action_word(static_cast<std::uint32_t>(value)); }
inline std::string_view word(change value) { return schedev_change_word(static_cast<std::uint32_t>(value)); }

/// A call that failed.
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

/// Why and where a document was refused.
struct refusal {
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

/// A document that was refused.
class parse_error : public error {
public:
  explicit parse_error(const refusal &why)
      : error(why.status,
              std::to_string(why.line()) + ":" + std::to_string(why.column()) + ": " + std::string(why.message())),
        why_(why) {}
  const refusal &why() const noexcept { return why_; }

private:
  refusal why_;
};

/// A value, or why there is none.
template <class Value, class Error> class [[nodiscard]] result {
public:
  result(Value value) : either_(std::in_place_index<0>, std::move(value)) {}
  result(Error error) : either_(std::in_place_index<1>, std::move(error)) {}
  bool has_value() const noexcept { return either_.index() == 0; }
  explicit operator bool() const noexcept { return has_value(); }
  /// Throws std::bad_variant_access where there is none.
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

/// For pointers into memory that something else frees. Held by a unique_ptr they are NULL once moved from, which every
/// function answers with an error.
struct forget {
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

/// A range that is read front to back with a cursor, zeroed at first. `Source` has `cursor`, `value_type` and
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
    /// All that matters is whether an iteration has ended.
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

/// A text: a view, maybe with escapes of JSON, which everything but raw() decodes.
class text {
public:
  text() = default;
  explicit text(schedev_text c) : c_(c) {}
  text(std::string_view plain) : c_(detail::view(plain)) {}

  std::string_view raw() const noexcept { return c_.len == 0 ? std::string_view() : std::string_view(c_.data, c_.len); }
  /// The text without a copy, where it has no escapes; real documents have none.
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

/// The names of this machine: views, which must outlive it. None at all means that they are unknown.
class names {
public:
  names() = default;
  names(std::initializer_list<std::string_view> items) { assign(items.begin(), items.end()); }
  explicit names(const std::vector<std::string> &items) { assign(items.begin(), items.end()); }

  /// The same names for documents of API version 2017-03-01, which puts one "_" before each resource's name.
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
  /// The words themselves, which is where unknown ones are.
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
    /// Names come a handful at a time, which costs less than one by one.
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
  /// The names of the machines concerned, as texts.
  detail::range<names_of> resources() const { return detail::range<names_of>({c_}); }
  /// Where this machine stands among them.
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
  /// Whether the event concerns this machine; nothing while its names are unknown.
  std::optional<bool> owned_by(const names &mine) const {
    return mine.unknown() ? std::nullopt : std::optional(rank(mine).has_value());
  }
  const schedev_event &c() const noexcept { return c_; }

private:
  friend class document;
  static std::optional<text> some(bool there, const schedev_text &c) {
    return there ? std::optional(text(c)) : std::nullopt;
  }

  schedev_event c_{};
};

/// Something odd in a document that is not refused.
class problem {
public:
  problem() = default;
  explicit problem(const schedev_problem &c) : c_(c) {}
  std::optional<std::size_t> event_index() const { return c_.has_event ? std::optional(c_.event_index) : std::nullopt; }
  /// The member's name on the wire; nothing where none is concerned.
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

/// A document that was checked: a view of the bytes.
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
  static result<document, refusal> try_parse(std::string_view body) {
    document read;
    refusal why;
    why.status = schedev_document_parse(body.data(), body.size(), &read.c_, &why.detail);
    if (why.status != SCHEDEV_OK) {
      return why;
    }
    return read;
  }

  detail::range<events_of> events() const { return detail::range<events_of>({c_}); }
  std::size_t event_count() const { return schedev_document_event_count(&c_); }
  detail::range<problems_of> problems() const { return detail::range<problems_of>({c_}); }
  /// Nothing, a number or a text: for equality only.
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

/// A line and a column, from 1.
inline schedev_position position_of(std::string_view body, std::size_t offset) {
  schedev_position position{};
  detail::check(schedev_position_of(body.data(), body.size(), offset, &position));
  return position;
}

/// RFC 3339: "2022-04-11T22:26:58Z".
inline std::string to_string(seconds_point moment) {
  return detail::written([=](char *out, std::size_t size, std::size_t *needed) {
    return schedev_time_format(moment.time_since_epoch().count(), out, size, needed);
  });
}

/// Reads RFC 1123 and ISO 8601.
inline std::optional<seconds_point> parse_time(std::string_view written) {
  std::int64_t seconds = 0;
  const bool read = schedev_time_parse(written.data(), written.size(), &seconds) == SCHEDEV_OK;
  return read ? std::optional(detail::moment(seconds)) : std::nullopt;
}

/// What is done about an event, and why.
class decision {
public:
  decision() = default;
  explicit decision(const schedev_decision &c) : c_(c) {}
  scheduled_events::action action() const noexcept { return static_cast<scheduled_events::action>(c_.action); }
  /// The number of the rule that says so, from 1.
  std::optional<std::uint32_t> rule() const { return c_.rule > 0 ? std::optional(c_.rule) : std::nullopt; }
  std::string_view reason() const { return schedev_decision_reason(&c_); }
  std::optional<std::chrono::seconds> approve_after() const {
    return c_.has_approve_after ? std::optional(std::chrono::seconds(c_.approve_after_seconds)) : std::nullopt;
  }
  std::optional<std::chrono::seconds> time_left() const {
    return c_.has_time_left ? std::optional(std::chrono::seconds(c_.time_left_seconds)) : std::nullopt;
  }
  const schedev_decision &c() const noexcept { return c_; }

private:
  schedev_decision c_{};
};

/// One rule. It matches where everything that it names matches; one that names nothing matches this machine's events.
struct rule {
  scheduled_events::action action = scheduled_events::action::hold;
  /// schedev_match_type and schedev_match_source, joined with |; 0 is any.
  std::uint32_t types = SCHEDEV_MATCH_TYPE_ANY;
  std::uint32_t sources = SCHEDEV_MATCH_SOURCE_ANY;
  std::optional<std::uint32_t> min_duration_seconds{};
  std::optional<std::uint32_t> max_duration_seconds{};
  scheduled_events::scope scope = scheduled_events::scope::mine;
};

/// Rules in order, of which the first that matches decides.
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
                        one.min_duration_seconds.has_value(), one.max_duration_seconds.has_value()});
    }
  }
  /// Who approves an event that names several machines; the first resource where nothing else is said.
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
  /// Good as long as this policy, unchanged.
  schedev_policy c() const noexcept {
    return {sizeof(schedev_policy), rules_.data(), rules_.size(), leader_, take_over_after_seconds_};
  }

private:
  std::vector<schedev_rule> rules_;
  std::uint32_t leader_ = SCHEDEV_LEADER_FIRST_RESOURCE;
  std::uint32_t take_over_after_seconds_ = 0;
};

/// The POST body that approves these events.
inline std::string start_requests(const std::vector<text> &ids) {
  std::vector<schedev_text> views;
  for (const text &id : ids) {
    views.push_back(id.c());
  }
  return detail::written([&](char *out, std::size_t size, std::size_t *needed) {
    return schedev_start_requests(views.data(), views.size(), out, size, needed);
  });
}

/// What is remembered of an event; its texts are good until the session or tracker is told or asked the next thing.
class tracked_event {
public:
  explicit tracked_event(const schedev_tracked_event &c) : c_(c) {}
  std::string_view id() const noexcept { return {c_.event_id.data, c_.event_id.len}; }
  /// The type as the wire spells it; empty where the event names none.
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

/// What changed between one document and the next.
class tracker {
public:
  tracker() : memory_(new unsigned char[schedev_tracker_size()]) {
    schedev_tracker *made = nullptr;
    detail::check(schedev_tracker_init(memory_.get(), schedev_tracker_size(), &made));
    c_.reset(made);
  }
  /// Tells each change to `on_change(change, const tracked_event &)`. What that throws is thrown again from here, once
  /// the whole document was taken in. Throws error where the document holds too many events, and then nothing changed.
  template <class OnChange>
  void observe(const document &next, const names &mine, seconds_point now, OnChange on_change) {
    struct state {
      OnChange &on_change;
      std::exception_ptr thrown;
    } context{on_change, nullptr};
    const auto tell = [](void *opaque, std::uint32_t what, const schedev_tracked_event *event) {
      auto &told = *static_cast<state *>(opaque);
      if (!told.thrown) {
        try {
          told.on_change(static_cast<change>(what), tracked_event(*event));
        } catch (...) {
          told.thrown = std::current_exception();
        }
      }
    };
    const schedev_names own = mine.c();
    detail::check(
        schedev_tracker_observe(c_.get(), &next.c(), &own, now.time_since_epoch().count(), tell, &context, nullptr));
    if (context.thrown) {
      std::rethrow_exception(context.thrown);
    }
  }
  /// Notes that an approval succeeded; false where no such event is tracked.
  bool approved(std::string_view id) { return schedev_tracker_approved(c_.get(), detail::view(id)) == SCHEDEV_OK; }
  std::size_t size() const { return schedev_tracker_event_count(c_.get()); }

private:
  std::unique_ptr<unsigned char[]> memory_;
  std::unique_ptr<schedev_tracker, detail::forget> c_;
};

/// What a session says.
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
struct prepare {
  tracked_event event;
};
struct recover {
  tracked_event event;
};
struct changed {
  scheduled_events::change change;
  tracked_event event;
};
struct decided {
  scheduled_events::decision decision;
  tracked_event event;
};
struct odd {
  scheduled_events::problem problem;
};
struct untracked {
  std::size_t own;
  std::size_t others;
};
/// Something that a later version of the library says; skip it.
struct unknown {};

using any = std::variant<wait, get, post, prepare, recover, changed, decided, odd, untracked, unknown>;
} // namespace step

/// An HTTP answer.
struct response {
  std::uint32_t status = 0;
  std::string_view body{};
  std::optional<std::uint32_t> retry_after_seconds{};
};

/// The whole client as a state machine without I/O, in memory of its own.
class session {
public:
  struct config {
    scheduled_events::policy policy = scheduled_events::policy::observe();
    scheduled_events::names names{};
    std::chrono::milliseconds interval{SCHEDEV_INTERVAL_MS};
    bool dry_run = false;
    std::uint64_t seed = 0;
  };

  explicit session(const config &how) : memory_(new unsigned char[schedev_session_size()]) {
    const schedev_policy policy = how.policy.c();
    const schedev_names names = how.names.c();
    const auto interval = how.interval.count();
    const schedev_session_config c = {sizeof(schedev_session_config),
                                      &policy,
                                      &names,
                                      how.seed,
                                      interval < 0            ? 0
                                      : interval > UINT32_MAX ? UINT32_MAX
                                                              : static_cast<std::uint32_t>(interval),
                                      how.dry_run};
    schedev_session *made = nullptr;
    detail::check(schedev_session_init(memory_.get(), schedev_session_size(), &c, &made));
    c_.reset(made);
  }

  /// What to do now; its views are good until the next call.
  step::any next(millis_point now) {
    schedev_step c;
    detail::check(schedev_session_next(c_.get(), detail::millis(now), &c));
    const std::chrono::milliseconds timeout(c.timeout_ms);
    switch (c.kind) {
    case SCHEDEV_STEP_WAIT:
      return step::wait{millis_point(std::chrono::milliseconds(c.until_ms))};
    case SCHEDEV_STEP_GET:
      return step::get{timeout};
    case SCHEDEV_STEP_POST:
      return step::post{text(c.body).raw(), timeout};
    case SCHEDEV_STEP_PREPARE:
      return step::prepare{tracked_event(c.event)};
    case SCHEDEV_STEP_RECOVER:
      return step::recover{tracked_event(c.event)};
    case SCHEDEV_STEP_CHANGE:
      return step::changed{static_cast<change>(c.change), tracked_event(c.event)};
    case SCHEDEV_STEP_DECISION:
      return step::decided{decision(c.decision), tracked_event(c.event)};
    case SCHEDEV_STEP_PROBLEM:
      return step::odd{problem(c.problem)};
    case SCHEDEV_STEP_UNTRACKED:
      return step::untracked{c.untracked_own, c.untracked_others};
    default:
      return step::unknown{};
    }
  }
  schedev_outcome on_response(const response &answer, millis_point now) {
    schedev_response c = SCHEDEV_RESPONSE_INIT;
    c.http_status = answer.status;
    c.body = answer.body.data();
    c.body_len = answer.body.size();
    c.has_retry_after = answer.retry_after_seconds.has_value();
    c.retry_after_seconds = answer.retry_after_seconds.value_or(0);
    schedev_outcome outcome{};
    detail::check(schedev_session_on_response(c_.get(), &c, detail::millis(now), &outcome));
    return outcome;
  }
  schedev_outcome on_failure(failure cause, millis_point now) {
    schedev_outcome outcome{};
    detail::check(
        schedev_session_on_failure(c_.get(), static_cast<std::uint32_t>(cause), detail::millis(now), &outcome));
    return outcome;
  }
  /// The answers to step::prepare and step::recover; false where the event does not wait for them.
  bool prepared(std::string_view id, preparation how) {
    return schedev_session_prepared(c_.get(), detail::view(id), static_cast<std::uint32_t>(how)) == SCHEDEV_OK;
  }
  bool recovered(std::string_view id) { return schedev_session_recovered(c_.get(), detail::view(id)) == SCHEDEV_OK; }
  void set_names(const names &mine) {
    const schedev_names c = mine.c();
    detail::check(schedev_session_set_names(c_.get(), &c));
  }

  /// The ids that the POST under way approves.
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

  /// What a restart must not forget.
  std::string snapshot() const {
    return detail::written([this](char *out, std::size_t size, std::size_t *needed) {
      return schedev_session_snapshot(c_.get(), out, size, needed);
    });
  }
  /// Throws error, and is empty then.
  void restore(std::string_view snapshot) {
    detail::check(schedev_session_restore(c_.get(), snapshot.data(), snapshot.size()));
  }

private:
  std::unique_ptr<unsigned char[]> memory_;
  std::unique_ptr<schedev_session, detail::forget> c_;
};

} // namespace scheduled_events

#endif // SCHEDULED_EVENTS_HPP
