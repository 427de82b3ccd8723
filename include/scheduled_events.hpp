// scheduled_events.hpp - Azure Scheduled Events for C++17, over scheduled_events.h
//
// Header-only. Documents are views of the caller's bytes: ranges, std::optional, scoped enumerations. Policies, trackers and sessions
// act on them.
//
//     for (const auto &event : scheduled_events::document::parse(body).events()) {
//       if (event.type() == scheduled_events::event_type::preempt) { ... }
//     }
//
// For each function that throws there is one whose name starts with try_, which returns a result or a status instead. With
// -fno-exceptions there are only those. No function needs RTTI.
//
// Documents, events, texts and ranges are views of the bytes that were parsed: keep those bytes alive and unchanged. A string that
// would be destroyed at once is refused by the compiler. Only copies of texts, such as text::str(), policies, trackers and sessions
// allocate memory.
//
// Streams: operator<< writes enumerations as their words, and texts of events with all characters escaped that could act on a terminal.
//
// See scheduled_events.h for what the functions do, their units and their limits.
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
#include <ostream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "scheduled_events.h"

// 1 if the functions that throw are declared.
#if !defined(SCHEDEV_EXCEPTIONS)
#if defined(__cpp_exceptions) || defined(_CPPUNWIND)
#define SCHEDEV_EXCEPTIONS 1
#else
#define SCHEDEV_EXCEPTIONS 0
#endif
#endif

namespace scheduled_events {

// ---- Documents ----

/// A time in documents: whole seconds, UTC.
using seconds_point = std::chrono::time_point<std::chrono::system_clock, std::chrono::seconds>;

enum class event_type : std::uint32_t {
  none = SCHEDEV_EVENT_TYPE_NONE,
  freeze = SCHEDEV_EVENT_TYPE_FREEZE,
  reboot = SCHEDEV_EVENT_TYPE_REBOOT,
  redeploy = SCHEDEV_EVENT_TYPE_REDEPLOY,
  preempt = SCHEDEV_EVENT_TYPE_PREEMPT,
  terminate = SCHEDEV_EVENT_TYPE_TERMINATE,
  spot_rebalance_recommendation = SCHEDEV_EVENT_TYPE_SPOT_REBALANCE_RECOMMENDATION,
  other = SCHEDEV_EVENT_TYPE_OTHER,
};

enum class event_status : std::uint32_t {
  none = SCHEDEV_EVENT_STATUS_NONE,
  scheduled = SCHEDEV_EVENT_STATUS_SCHEDULED,
  started = SCHEDEV_EVENT_STATUS_STARTED,
  advisory = SCHEDEV_EVENT_STATUS_ADVISORY,
  other = SCHEDEV_EVENT_STATUS_OTHER,
};

enum class event_source : std::uint32_t {
  none = SCHEDEV_EVENT_SOURCE_NONE,
  platform = SCHEDEV_EVENT_SOURCE_PLATFORM,
  user = SCHEDEV_EVENT_SOURCE_USER,
  other = SCHEDEV_EVENT_SOURCE_OTHER,
};

enum class member : std::uint32_t {
  none = SCHEDEV_MEMBER_NONE,
  event_id = SCHEDEV_MEMBER_EVENT_ID,
  event_status = SCHEDEV_MEMBER_EVENT_STATUS,
  event_type = SCHEDEV_MEMBER_EVENT_TYPE,
  resource_type = SCHEDEV_MEMBER_RESOURCE_TYPE,
  resources = SCHEDEV_MEMBER_RESOURCES,
  not_before = SCHEDEV_MEMBER_NOT_BEFORE,
  description = SCHEDEV_MEMBER_DESCRIPTION,
  event_source = SCHEDEV_MEMBER_EVENT_SOURCE,
  duration_in_seconds = SCHEDEV_MEMBER_DURATION_IN_SECONDS,
  document_incarnation = SCHEDEV_MEMBER_DOCUMENT_INCARNATION,
  events = SCHEDEV_MEMBER_EVENTS,
  other = SCHEDEV_MEMBER_OTHER,
};

enum class problem_kind : std::uint32_t {
  missing = SCHEDEV_PROBLEM_MISSING,
  repeated = SCHEDEV_PROBLEM_REPEATED,
  empty = SCHEDEV_PROBLEM_EMPTY,
  too_long = SCHEDEV_PROBLEM_TOO_LONG,
  wrong_type = SCHEDEV_PROBLEM_WRONG_TYPE,
  not_an_object = SCHEDEV_PROBLEM_NOT_AN_OBJECT,
  out_of_range = SCHEDEV_PROBLEM_OUT_OF_RANGE,
  not_an_integer = SCHEDEV_PROBLEM_NOT_AN_INTEGER,
  unreadable_time = SCHEDEV_PROBLEM_UNREADABLE_TIME,
  other = SCHEDEV_PROBLEM_OTHER,
};

enum class parse_error_kind : std::uint32_t {
  none = SCHEDEV_PARSE_ERROR_NONE,
  unexpected_end = SCHEDEV_PARSE_ERROR_UNEXPECTED_END,
  unexpected_byte = SCHEDEV_PARSE_ERROR_UNEXPECTED_BYTE,
  control_character = SCHEDEV_PARSE_ERROR_CONTROL_CHARACTER,
  invalid_escape = SCHEDEV_PARSE_ERROR_INVALID_ESCAPE,
  lone_surrogate = SCHEDEV_PARSE_ERROR_LONE_SURROGATE,
  invalid_utf8 = SCHEDEV_PARSE_ERROR_INVALID_UTF8,
  invalid_number = SCHEDEV_PARSE_ERROR_INVALID_NUMBER,
  too_deep = SCHEDEV_PARSE_ERROR_TOO_DEEP,
  not_an_object = SCHEDEV_PARSE_ERROR_NOT_AN_OBJECT,
  no_events = SCHEDEV_PARSE_ERROR_NO_EVENTS,
  repeated_member = SCHEDEV_PARSE_ERROR_REPEATED_MEMBER,
  trailing_data = SCHEDEV_PARSE_ERROR_TRAILING_DATA,
  other = SCHEDEV_PARSE_ERROR_OTHER,
};

/// The words that documents and records use, such as "Freeze" and "unreadable-time".
inline std::string_view word(event_type value) { return schedev_event_type_word(static_cast<std::uint32_t>(value)); }
inline std::string_view word(event_status value) {
  return schedev_event_status_word(static_cast<std::uint32_t>(value));
}
inline std::string_view word(event_source value) {
  return schedev_event_source_word(static_cast<std::uint32_t>(value));
}
inline std::string_view word(member value) { return schedev_member_name(static_cast<std::uint32_t>(value)); }
inline std::string_view word(problem_kind value) {
  return schedev_problem_kind_word(static_cast<std::uint32_t>(value));
}
inline std::string_view word(parse_error_kind value) {
  return schedev_parse_error_word(static_cast<std::uint32_t>(value));
}
/// The message of a status.
inline std::string_view message(schedev_status status) {
  return schedev_status_message(static_cast<std::uint32_t>(status));
}

#if SCHEDEV_EXCEPTIONS
#if defined(__clang__)
#pragma clang diagnostic push
// A header has no other file for the virtual functions of its classes.
#pragma clang diagnostic ignored "-Wweak-vtables"
#endif
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
#if defined(__clang__)
#pragma clang diagnostic pop
#endif
#endif

/// Why a document is refused, and where.
struct parse_failure {
  schedev_status status = SCHEDEV_ERROR_PARSE;
  schedev_error detail{};

  /// The kind as a word: "unexpected-byte".
  std::string_view kind() const { return word(code()); }
  parse_error_kind code() const noexcept { return static_cast<parse_error_kind>(detail.kind); }
  std::string message() const {
    return status == SCHEDEV_ERROR_PARSE ? schedev_error_message(&detail)
                                         : schedev_status_message(static_cast<std::uint32_t>(status));
  }
  std::size_t offset() const noexcept { return detail.offset; }
  std::uint32_t line() const noexcept { return detail.line; }
  std::uint32_t column() const noexcept { return detail.column; }
};

#if SCHEDEV_EXCEPTIONS
#if defined(__clang__)
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wweak-vtables"
#endif
/// Thrown if a document is refused.
class parse_error : public error {
public:
  explicit parse_error(const parse_failure &failure)
      : error(failure.status,
              std::to_string(failure.line()) + ":" + std::to_string(failure.column()) + ": " + failure.message()),
        failure_(failure) {}
  const parse_failure &failure() const noexcept { return failure_; }

private:
  parse_failure failure_;
};
#if defined(__clang__)
#pragma clang diagnostic pop
#endif
#endif

/// A value or an error.
template <class Value, class Error = schedev_status> class [[nodiscard]] result {
public:
  result(Value value) : either_(std::in_place_index<0>, std::move(value)) {}
  result(Error error) : either_(std::in_place_index<1>, std::move(error)) {}
  bool has_value() const noexcept { return either_.index() == 0; }
  explicit operator bool() const noexcept { return has_value(); }
  /// Without a value it throws std::bad_variant_access, or ends the program if there are no exceptions.
  const Value &value() const & { return std::get<0>(either_); }
  Value &value() & { return std::get<0>(either_); }
  Value &&value() && { return std::get<0>(std::move(either_)); }
  const Value &operator*() const & { return value(); }
  Value &operator*() & { return value(); }
  Value &&operator*() && { return std::move(*this).value(); }
  const Value *operator->() const { return &value(); }
  Value *operator->() { return &value(); }
  const Error &error() const { return std::get<1>(either_); }

private:
  std::variant<Value, Error> either_;
};

namespace detail {

#if SCHEDEV_EXCEPTIONS
inline void check(schedev_status status) {
  if (status != SCHEDEV_OK) {
    throw error(status);
  }
}

/// The value, or the error as an exception.
template <class Value> Value checked(result<Value> either) {
  if (!either) {
    throw error(either.error());
  }
  return std::move(either).value();
}
#endif

/// The value if the call succeeded.
template <class Value> result<Value> value_if(schedev_status status, Value value) {
  if (status != SCHEDEV_OK) {
    return status;
  }
  return result<Value>(std::move(value));
}

/// For overloads that refuse a temporary that owns its characters, such as a std::string: a view of it would dangle at once.
template <class String>
using if_temporary =
    std::enable_if_t<!std::is_reference_v<String> && std::is_convertible_v<String &, std::string_view> &&
                     !std::is_trivially_destructible_v<String>>;

/// A view of a string that is not a temporary.
class borrowed {
public:
  template <class String, class = std::enable_if_t<std::is_convertible_v<const String &, std::string_view>>>
  borrowed(const String &text) : view_(text) {}
  template <class String, class = if_temporary<String>> borrowed(String &&) = delete;
  operator std::string_view() const noexcept { return view_; }

private:
  std::string_view view_;
};

inline schedev_text view(std::string_view text) noexcept { return {text.data(), text.size(), false}; }

inline seconds_point moment(std::int64_t seconds) noexcept { return seconds_point(std::chrono::seconds(seconds)); }

/// Calls `write(buffer, capacity, &needed)` until the result fits.
template <class Write> result<std::string> written(Write write) {
  std::string out(256, '\0');
  for (;;) {
    std::size_t needed = 0;
    const schedev_status status = write(out.data(), out.size(), &needed);
    out.resize(needed);
    if (status == SCHEDEV_OK) {
      return out;
    }
    if (status != SCHEDEV_ERROR_BUFFER_TOO_SMALL) {
      return status;
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
  template <class String, class = detail::if_temporary<String>> explicit text(String &&) = delete;

  std::string_view raw() const noexcept { return c_.len == 0 ? std::string_view() : std::string_view(c_.data, c_.len); }
  /// The text without a copy; nothing if it has escapes.
  std::optional<std::string_view> view() const noexcept {
    return c_.escaped ? std::nullopt : std::optional<std::string_view>(raw());
  }
  bool empty() const noexcept { return c_.len == 0; }
  /// The decoded text; an error if the bytes are not UTF-8, which those of documents are.
  result<std::string> try_str() const {
    return detail::written(
        [this](char *out, std::size_t size, std::size_t *needed) { return schedev_text_copy(c_, out, size, needed); });
  }
  /// The decoded text with all characters escaped that could act on a terminal, forge a line of a log, or hide or reorder the text
  /// around it.
  result<std::string> try_printable() const {
    return detail::written([this](char *out, std::size_t size, std::size_t *needed) {
      return schedev_text_copy_printable(c_, out, size, needed);
    });
  }
#if SCHEDEV_EXCEPTIONS
  std::string str() const { return detail::checked(try_str()); }
  std::string printable() const { return detail::checked(try_printable()); }
#endif
  bool equals_ignore_case(std::string_view other) const {
    return schedev_text_equal_ignore_case(c_, other.data(), other.size());
  }
  friend bool operator==(const text &a, std::string_view b) { return schedev_text_equal(a.c_, b.data(), b.size()); }
  friend bool operator!=(const text &a, std::string_view b) { return !(a == b); }
  const schedev_text &c() const noexcept { return c_; }

private:
  schedev_text c_{};
};

/// The names of this machine. They are views: the strings must outlive this object. No names means that they are unknown. Too
/// many names are refused by the functions that they are passed to.
class names {
public:
  names() = default;
  names(std::initializer_list<detail::borrowed> items) { assign(items.begin(), items.end()); }
  explicit names(const std::vector<std::string> &items) { assign(items.begin(), items.end()); }
  explicit names(const std::vector<std::string> &&) = delete;

  /// The same names for documents of API version 2017-03-01, which puts a "_" before each name in Resources.
  names underscored() const {
    names copy = *this;
    copy.underscored_ = true;
    return copy;
  }
  bool unknown() const noexcept { return count_ == 0; }
  schedev_names c() const noexcept { return {items_.data(), count_, underscored_, {0, 0}}; }

private:
  template <class Iterator> void assign(Iterator first, Iterator last) {
    for (; first != last && count_ < items_.size(); ++first) {
      items_[count_++] = detail::view(*first);
    }
  }

  /// One more than is allowed, so that too many are noticed.
  std::array<schedev_text, SCHEDEV_NAMES_MAX + 1> items_{};
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
  /// Whether it is advice and no maintenance, by its type or its status: there is nothing to approve.
  bool is_advice() const noexcept { return c_.advice; }
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
  /// The index of this machine among them; nothing if it is not.
  result<std::optional<std::size_t>> try_rank(const names &mine) const {
    const schedev_names c = mine.c();
    std::size_t rank = 0;
    const schedev_status status = schedev_event_rank(&c_, &c, &rank);
    if (status == SCHEDEV_END) {
      return std::optional<std::size_t>();
    }
    return detail::value_if(status, std::optional(rank));
  }
  /// Whether the event affects this machine; nothing if its names are unknown.
  result<std::optional<bool>> try_owned_by(const names &mine) const {
    const auto rank = try_rank(mine);
    if (!rank) {
      return rank.error();
    }
    return mine.unknown() ? std::optional<bool>() : std::optional<bool>(rank->has_value());
  }
#if SCHEDEV_EXCEPTIONS
  std::optional<std::size_t> rank(const names &mine) const { return detail::checked(try_rank(mine)); }
  std::optional<bool> owned_by(const names &mine) const { return detail::checked(try_owned_by(mine)); }
#endif
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
  /// The invalid member; none if the problem is not in a member.
  scheduled_events::member member() const noexcept { return static_cast<scheduled_events::member>(c_.member); }
  problem_kind kind() const noexcept { return static_cast<problem_kind>(c_.kind); }
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
#if SCHEDEV_EXCEPTIONS
  /// Throws parse_error.
  static document parse(std::string_view body) {
    auto read = try_parse(body);
    if (!read) {
      throw parse_error(read.error());
    }
    return *read;
  }
  template <class String, class = detail::if_temporary<String>> static document parse(String &&body) = delete;
#endif
  template <class String, class = detail::if_temporary<String>>
  static result<document, parse_failure> try_parse(String &&body) = delete;
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
  /// The event of this id, such as that of a tracked event; nothing if there is none.
  result<std::optional<event>> try_find(const text &id) const {
    event found;
    const schedev_status status = schedev_document_find(&c_, id.c(), &found.c_);
    if (status == SCHEDEV_END) {
      return std::optional<event>();
    }
    return detail::value_if(status, std::optional(found));
  }
#if SCHEDEV_EXCEPTIONS
  std::optional<event> find(const text &id) const { return detail::checked(try_find(id)); }
#endif
  detail::range<problems_of> problems() const { return detail::range<problems_of>({c_}); }
  /// The incarnation: absent, a number or a text. Compare it for equality only.
  std::variant<std::monostate, std::uint64_t, text> incarnation() const {
    schedev_incarnation c{};
    // It fails for a document that is not initialised only, which does not exist here.
    if (schedev_document_incarnation(&c_, &c) != SCHEDEV_OK) {
      return std::monostate();
    }
    if (c.kind == SCHEDEV_INCARNATION_NUMBER) {
      return c.number;
    }
    if (c.kind == SCHEDEV_INCARNATION_TEXT) {
      return text(c.text);
    }
    return std::monostate();
  }
  const schedev_document &c() const noexcept { return c_; }

private:
  document() = default;
  schedev_document c_{};
};

/// The line and column of an offset, from 1.
inline schedev_position position_of(std::string_view body, std::size_t offset) {
  schedev_position position{};
  // It fails for NULL with a length only, which a string_view does not have.
  return schedev_position_of(body.data(), body.size(), offset, &position) == SCHEDEV_OK ? position : schedev_position{};
}

/// Formats a time as RFC 3339, such as "2022-04-11T22:26:58Z".
inline std::string to_string(seconds_point moment) {
  // Every time can be written.
  return detail::written([=](char *out, std::size_t size, std::size_t *needed) {
           return schedev_time_format(moment.time_since_epoch().count(), out, size, needed);
         })
      .value();
}

/// Parses an RFC 1123 or ISO 8601 time; nothing if the text is not one.
inline std::optional<seconds_point> parse_time(std::string_view written) {
  std::int64_t seconds = 0;
  const bool read = schedev_time_parse(written.data(), written.size(), &seconds) == SCHEDEV_OK;
  return read ? std::optional(detail::moment(seconds)) : std::nullopt;
}

// ---- Policies, trackers and sessions ----

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

namespace detail {

/// A bit that no rule may have, so that every function refuses it.
constexpr std::uint32_t invalid_bit = std::uint32_t(1) << 31;

constexpr std::uint32_t bit(event_type type) noexcept {
  switch (type) {
  case event_type::freeze:
    return SCHEDEV_MATCH_TYPE_FREEZE;
  case event_type::reboot:
    return SCHEDEV_MATCH_TYPE_REBOOT;
  case event_type::redeploy:
    return SCHEDEV_MATCH_TYPE_REDEPLOY;
  case event_type::preempt:
    return SCHEDEV_MATCH_TYPE_PREEMPT;
  case event_type::terminate:
    return SCHEDEV_MATCH_TYPE_TERMINATE;
  case event_type::spot_rebalance_recommendation:
    return SCHEDEV_MATCH_TYPE_SPOT_REBALANCE_RECOMMENDATION;
  case event_type::other:
    return SCHEDEV_MATCH_TYPE_OTHER;
  case event_type::none:
    break;
  }
  return invalid_bit;
}

constexpr std::uint32_t bit(event_source source) noexcept {
  switch (source) {
  case event_source::platform:
    return SCHEDEV_MATCH_SOURCE_PLATFORM;
  case event_source::user:
    return SCHEDEV_MATCH_SOURCE_USER;
  case event_source::other:
    return SCHEDEV_MATCH_SOURCE_OTHER;
  case event_source::none:
    break;
  }
  return invalid_bit;
}

/// Whether a time is not negative, and its seconds for C: UINT32_MAX, over a hundred years, is the largest time.
inline bool seconds_of(std::chrono::seconds time, std::uint32_t &seconds) noexcept {
  const std::chrono::seconds most(UINT32_MAX);
  seconds = static_cast<std::uint32_t>((time > most ? most : time).count());
  return time.count() >= 0;
}

} // namespace detail

/// The event types, or the sources, that a rule matches, such as {event_type::preempt, event_type::terminate}. The empty set is all
/// of them, advice apart. `none` can be in no rule: a policy with it is refused.
template <class Enum> class one_of {
public:
  constexpr one_of() = default;
  constexpr one_of(std::initializer_list<Enum> items) {
    for (const Enum item : items) {
      mask_ |= detail::bit(item);
    }
  }
  constexpr bool contains(Enum item) const noexcept { return (mask_ & detail::bit(item)) != 0; }
  constexpr bool empty() const noexcept { return mask_ == 0; }
  /// The schedev_match_type or schedev_match_source.
  constexpr std::uint32_t mask() const noexcept { return mask_; }

private:
  std::uint32_t mask_ = 0;
};

/// One rule. It matches an event if all its conditions do. Times are not negative: a policy with such a rule is refused.
struct rule {
  scheduled_events::action action = scheduled_events::action::hold;
  one_of<event_type> types{};
  one_of<event_source> sources{};
  std::optional<std::chrono::seconds> min_duration{};
  std::optional<std::chrono::seconds> max_duration{};
  scheduled_events::scope scope = scheduled_events::scope::mine;
  /// From when this NotBefore was first seen until NotBefore.
  std::optional<std::chrono::seconds> min_notice{};
  std::optional<std::chrono::seconds> max_notice{};
  /// How long before NotBefore to prepare or approve at the earliest.
  std::optional<std::chrono::seconds> prepare_before{};
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
  /// The rules of any range. Too many rules, and invalid ones, are refused by the functions that the policy is passed to.
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
    c.event_types = one.types.mask();
    c.event_sources = one.sources.mask();
    const bool valid = set(one.min_duration, c.min_duration_seconds, c.has_min_duration) &&
                       set(one.max_duration, c.max_duration_seconds, c.has_max_duration) &&
                       set(one.min_notice, c.min_notice_seconds, c.has_min_notice) &&
                       set(one.max_notice, c.max_notice_seconds, c.has_max_notice) &&
                       set(one.prepare_before, c.prepare_before_seconds, c.has_prepare_before);
    if (!valid) {
      c.event_types = detail::invalid_bit;
    }
    rules_.push_back(c);
    return *this;
  }
  /// Which machine approves an event that names several. If none of these is called, it is the first one in Resources for
  /// rules with action::approve; with action::prepare, such an event is prepared for and not approved.
  policy &lead_by_first_resource() {
    leader_ = SCHEDEV_LEADER_FIRST_RESOURCE;
    return *this;
  }
  policy &lead_by_rank(std::chrono::seconds take_over_after) {
    // An unknown leader is refused.
    leader_ =
        detail::seconds_of(take_over_after, take_over_after_seconds_) ? std::uint32_t(SCHEDEV_LEADER_RANK) : UINT32_MAX;
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
  static bool set(const std::optional<std::chrono::seconds> &time, std::uint32_t &seconds, bool &has) {
    has = time.has_value();
    return detail::seconds_of(time.value_or(std::chrono::seconds(0)), seconds);
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
  text id() const { return text(c_.event_id); }
  /// The type as the document spells it; empty if there is none.
  text type_text() const { return text(c_.event_type_text); }
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
  /// The Retry-After header. If it has a date, convert it.
  std::optional<std::chrono::seconds> retry_after{};
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

/// The machine that records are of. What is unknown is empty.
struct machine {
  std::string name{};
  /// Its vmId.
  std::string vm_id{};
};

/// When a machine prepares although its gate has not answered yes: Azure starts an event at NotBefore whether it was approved or not.
class last_call {
public:
  /// Half of the notice before NotBefore, at most five minutes; at once for a Preempt, and for a notice of less than a minute.
  last_call() = default;
  /// This long before NotBefore: more than no time.
  explicit last_call(std::chrono::seconds before) {
    valid_ = detail::seconds_of(before, seconds_) && seconds_ > 0;
    seconds_ = seconds_ < SCHEDEV_LAST_CALL_NEVER ? seconds_ : SCHEDEV_LAST_CALL_NEVER - 1;
  }
  /// Without the gate's yes, Azure takes the machine down unprepared.
  static last_call never() {
    last_call made;
    made.seconds_ = SCHEDEV_LAST_CALL_NEVER;
    return made;
  }

private:
  friend class session;
  std::uint32_t seconds_ = SCHEDEV_LAST_CALL_STANDARD;
  bool valid_ = true;
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
    /// An id of this machine that a clone does not have, and one of this boot; empty if unknown.
    std::string machine_id{};
    std::string boot_id{};
    scheduled_events::last_call last_call{};
    /// How often a failed preparation is given again at most; nothing for as often as there is time.
    std::optional<std::uint8_t> prepare_retries{};
    /// Where events come from.
    session_source source = session_source::documents;
    /// The version of the API that every request names; empty for one that follows from the rules.
    std::string api_version{};
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
    c.has_retry_after = received.retry_after.has_value();
    if (!detail::seconds_of(received.retry_after.value_or(std::chrono::seconds(0)), c.retry_after_seconds)) {
      return SCHEDEV_ERROR_ARGUMENT;
    }
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
  /// The next document is decided with it; what was prepared for counts.
  [[nodiscard]] schedev_status try_set_policy(const policy &rules) {
    const schedev_policy c = rules.c();
    return schedev_session_set_policy(c_.get(), &c);
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
  void set_policy(const policy &rules) { detail::check(try_set_policy(rules)); }
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
    if (!options.last_call.valid_) {
      return SCHEDEV_ERROR_ARGUMENT;
    }
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
    c.last_call_seconds = options.last_call.seconds_;
    c.prepare_retries = options.prepare_retries.value_or(SCHEDEV_PREPARE_RETRIES_UNLIMITED);
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

// ---- Notification profiles of a scale set ----

/// A rule of Azure by which a profile or its time-out is refused.
enum class profile_rule : std::uint32_t {
  none = 0,
  iso_8601_duration = SCHEDEV_PROFILE_RULE_ISO_8601_DURATION,
  at_least_5_minutes = SCHEDEV_PROFILE_RULE_AT_LEAST_5_MINUTES,
  at_most_15_minutes = SCHEDEV_PROFILE_RULE_AT_MOST_15_MINUTES,
  exactly_15_minutes = SCHEDEV_PROFILE_RULE_EXACTLY_15_MINUTES,
  not_on_spot = SCHEDEV_PROFILE_RULE_NOT_ON_SPOT,
  compute_api_version = SCHEDEV_PROFILE_RULE_COMPUTE_API_VERSION,
};

inline std::string_view word(profile_rule value) {
  return schedev_profile_rule_word(static_cast<std::uint32_t>(value));
}

/// Why a profile or its time-out is refused.
struct profile_failure {
  schedev_status status = SCHEDEV_ERROR_PROFILE;
  schedev_error detail{};

  /// The rule of Azure; profile_rule::none if `status` is not SCHEDEV_ERROR_PROFILE.
  profile_rule rule() const noexcept { return static_cast<profile_rule>(detail.kind); }
  std::string message() const {
    return status == SCHEDEV_ERROR_PROFILE ? schedev_error_message(&detail)
                                           : schedev_status_message(static_cast<std::uint32_t>(status));
  }
};

#if SCHEDEV_EXCEPTIONS
#if defined(__clang__)
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wweak-vtables"
#endif
/// Thrown if a profile or its time-out is refused.
class profile_error : public error {
public:
  explicit profile_error(const profile_failure &failure)
      : error(failure.status, failure.message()), failure_(failure) {}
  const profile_failure &failure() const noexcept { return failure_; }

private:
  profile_failure failure_;
};
#if defined(__clang__)
#pragma clang diagnostic pop
#endif
#endif

namespace detail {

#if SCHEDEV_EXCEPTIONS
template <class Value> Value accepted(result<Value, profile_failure> either) {
  if (!either) {
    throw profile_error(either.error());
  }
  return std::move(either).value();
}
#endif

/// The seconds of a time-out. One that no uint32_t holds becomes one that is refused for the same reason.
inline std::uint32_t timeout_seconds(std::chrono::seconds timeout) noexcept {
  const std::chrono::seconds least(0), most(UINT32_MAX);
  return static_cast<std::uint32_t>((timeout < least ? least : timeout > most ? most : timeout).count());
}

using parse_timeout = schedev_status (*)(const char *, std::size_t, std::uint32_t *, schedev_error *);

inline result<std::chrono::seconds, profile_failure> timeout(parse_timeout parse, std::string_view text) {
  profile_failure failure;
  std::uint32_t seconds = 0;
  failure.status = parse(text.data(), text.size(), &seconds, &failure.detail);
  if (failure.status != SCHEDEV_OK) {
    return failure;
  }
  return std::chrono::seconds(seconds);
}

/// Calls `write(buffer, capacity, &needed, &error)`.
template <class Write> result<std::string, profile_failure> profile_text(Write write) {
  profile_failure failure;
  auto text = written(
      [&](char *out, std::size_t size, std::size_t *needed) { return write(out, size, needed, &failure.detail); });
  if (!text) {
    failure.status = text.error();
    return failure;
  }
  return std::move(text).value();
}

} // namespace detail

/// Parses the time-out of a Terminate event, such as "PT10M": 5 to 15 minutes in ISO 8601.
inline result<std::chrono::seconds, profile_failure> try_parse_terminate_timeout(std::string_view text) {
  return detail::timeout(schedev_terminate_timeout_parse, text);
}

/// Parses the time-out of an OS image event, which can only be 15 minutes.
inline result<std::chrono::seconds, profile_failure> try_parse_os_image_timeout(std::string_view text) {
  return detail::timeout(schedev_os_image_timeout_parse, text);
}

/// Formats the time-out of a Terminate event in ISO 8601.
inline result<std::string, profile_failure> try_format_terminate_timeout(std::chrono::seconds timeout) {
  return detail::profile_text([&](char *out, std::size_t size, std::size_t *needed, schedev_error *error) {
    return schedev_terminate_timeout_format(detail::timeout_seconds(timeout), out, size, needed, error);
  });
}

/// Whether something is announced, and how long its event waits for its approval.
struct notification_profile {
  bool enable = false;
  /// 5 to 15 minutes for deletions, 15 minutes for OS images; without it, the JSON has none, and Azure takes 5 minutes for
  /// deletions.
  std::optional<std::chrono::seconds> not_before_timeout{};

  /// Checks that a scale set accepts the profile for deletions: `is_spot` is whether its instances are Spot machines, and
  /// `api_version` the version of the compute API. The value is true.
  result<bool, profile_failure> try_check_terminate(bool is_spot, std::string_view api_version) const {
    profile_failure failure;
    const schedev_notification_profile profile = c();
    failure.status =
        schedev_terminate_check(&profile, is_spot, api_version.data(), api_version.size(), &failure.detail);
    if (failure.status != SCHEDEV_OK) {
      return failure;
    }
    return true;
  }
#if SCHEDEV_EXCEPTIONS
  void check_terminate(bool is_spot, std::string_view api_version) const {
    (void)detail::accepted(try_check_terminate(is_spot, api_version));
  }
#endif
  schedev_notification_profile c() const noexcept {
    const auto timeout = not_before_timeout.value_or(std::chrono::seconds(0));
    return {sizeof(schedev_notification_profile), detail::timeout_seconds(timeout), not_before_timeout.has_value(),
            enable};
  }
};

/// Writes scheduledEventsProfile of the REST API. A profile that is not there is left out.
inline result<std::string, profile_failure>
try_notification_json(const std::optional<notification_profile> &terminate,
                      const std::optional<notification_profile> &os_image = std::nullopt) {
  const schedev_notification_profile deletions = terminate.value_or(notification_profile()).c();
  const schedev_notification_profile images = os_image.value_or(notification_profile()).c();
  return detail::profile_text([&](char *out, std::size_t size, std::size_t *needed, schedev_error *error) {
    return schedev_notification_json(terminate ? &deletions : nullptr, os_image ? &images : nullptr, out, size, needed,
                                     error);
  });
}

#if SCHEDEV_EXCEPTIONS
inline std::chrono::seconds parse_terminate_timeout(std::string_view text) {
  return detail::accepted(try_parse_terminate_timeout(text));
}
inline std::chrono::seconds parse_os_image_timeout(std::string_view text) {
  return detail::accepted(try_parse_os_image_timeout(text));
}
inline std::string format_terminate_timeout(std::chrono::seconds timeout) {
  return detail::accepted(try_format_terminate_timeout(timeout));
}
inline std::string notification_json(const std::optional<notification_profile> &terminate,
                                     const std::optional<notification_profile> &os_image = std::nullopt) {
  return detail::accepted(try_notification_json(terminate, os_image));
}
#endif

// ---- Streams ----

/// Writes the word of an enumeration.
template <class Enum, class = std::enable_if_t<std::is_enum_v<Enum>>, class = decltype(word(std::declval<Enum>()))>
std::ostream &operator<<(std::ostream &out, Enum value) {
  return out << word(value);
}

/// Writes a text that is safe to print. The stream fails if the bytes are not UTF-8.
inline std::ostream &operator<<(std::ostream &out, const text &value) {
  const auto printable = value.try_printable();
  if (!printable) {
    out.setstate(std::ios_base::failbit);
    return out;
  }
  return out << *printable;
}

namespace detail {

inline void write_event(std::ostream &out, const text &type, const text &id, event_status status,
                        const std::optional<seconds_point> &not_before) {
  out << (type.empty() ? text("event") : type) << ' ' << id << ": " << status;
  if (not_before) {
    out << ", not before " << to_string(*not_before);
  }
}

} // namespace detail

/// Writes a line such as "Reboot C7061BAC: Scheduled, not before 2022-04-11T22:26:58Z".
inline std::ostream &operator<<(std::ostream &out, const event &value) {
  detail::write_event(out, value.type_text().value_or(text()), value.id(), value.status(), value.not_before());
  return out;
}
inline std::ostream &operator<<(std::ostream &out, const tracked_event &value) {
  detail::write_event(out, value.type_text(), value.id(), value.status(), value.not_before());
  return out;
}

/// Writes a line such as "approve, short interruption".
inline std::ostream &operator<<(std::ostream &out, const decision &value) {
  return out << value.action() << ", " << value.message();
}

/// Writes a line such as "event 0, NotBefore: unreadable-time".
inline std::ostream &operator<<(std::ostream &out, const problem &value) {
  if (const auto index = value.event_index()) {
    out << "event " << *index << ", ";
  }
  if (value.member() != member::none) {
    out << value.member() << ": ";
  }
  return out << value.kind();
}

/// Writes a line such as "1:12: expected a value, found the end of the document".
inline std::ostream &operator<<(std::ostream &out, const parse_failure &value) {
  return out << value.line() << ':' << value.column() << ": " << value.message();
}
inline std::ostream &operator<<(std::ostream &out, const profile_failure &value) { return out << value.message(); }

/// Writes a line such as "poll-failed, status 503".
inline std::ostream &operator<<(std::ostream &out, const outcome &value) {
  out << value.kind();
  if (value.cause() != cause::none) {
    out << ", " << value.cause();
  }
  if (const auto status = value.http_status()) {
    out << ' ' << *status;
  }
  return out;
}

/// Writes a line such as "Reboot C7061BAC: Scheduled; waits for preparation".
inline std::ostream &operator<<(std::ostream &out, const waiting &value) {
  return out << value.event() << "; waits for " << value.waits_for();
}

} // namespace scheduled_events

#endif // SCHEDULED_EVENTS_HPP
