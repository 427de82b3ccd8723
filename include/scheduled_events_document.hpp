// scheduled_events_document.hpp - reads Azure Scheduled Events documents in C++17, over scheduled_events.h
//
// Header-only: views of the caller's bytes, ranges, std::optional, scoped enumerations. Only copies of texts, such as
// text::str(), allocate memory.
//
// For each function that throws there is one whose name starts with try_, which returns a result or a status instead. With
// -fno-exceptions there are only those. No function needs RTTI.
//
//     for (const auto &event : scheduled_events::document::parse(body).events()) {
//       if (event.type() == scheduled_events::event_type::preempt) { ... }
//     }
//
// Documents, events, texts and ranges are views of the bytes that were parsed: keep those bytes alive and unchanged. See
// scheduled_events.h for what the functions do, their units and their limits. scheduled_events.hpp also decides, tracks and
// approves.
//
// SPDX-License-Identifier: MIT OR Apache-2.0

#ifndef SCHEDULED_EVENTS_DOCUMENT_HPP
#define SCHEDULED_EVENTS_DOCUMENT_HPP

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
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
  std::string_view message() const {
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
      : error(failure.status, std::to_string(failure.line()) + ":" + std::to_string(failure.column()) + ": " +
                                  std::string(failure.message())),
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
#if SCHEDEV_EXCEPTIONS
  std::string str() const { return detail::checked(try_str()); }
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
  names(std::initializer_list<std::string_view> items) { assign(items.begin(), items.end()); }
  explicit names(const std::vector<std::string> &items) { assign(items.begin(), items.end()); }

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
#endif
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

} // namespace scheduled_events

#endif // SCHEDULED_EVENTS_DOCUMENT_HPP
