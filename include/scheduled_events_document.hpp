// scheduled_events_document.hpp - reads Azure Scheduled Events documents in C++17, over scheduled_events.h
//
// Header-only: views of the caller's bytes, ranges, std::optional, scoped enumerations. parse() throws, try_parse() returns
// a result. Only copies of texts, such as text::str(), allocate memory.
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

} // namespace scheduled_events

#endif // SCHEDULED_EVENTS_DOCUMENT_HPP
