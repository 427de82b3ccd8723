// scheduled_events_terminate.hpp - the notification profiles of a scale set in C++17, over scheduled_events.h
//
// Header-only. A scale set announces deletions, reimages and OS upgrades if its model asks for it. This header writes that part
// of the model and refuses what Azure refuses, with the rule:
//
//     scheduled_events::notification_profile deletions;
//     deletions.enable = true;
//     deletions.not_before_timeout = std::chrono::minutes(10);
//     deletions.check_terminate(false, "2021-07-01");
//     std::string json = scheduled_events::notification_json(deletions);
//
// As in scheduled_events_document.hpp, functions whose names start with try_ return a result and do not throw.
//
// SPDX-License-Identifier: MIT OR Apache-2.0

#ifndef SCHEDULED_EVENTS_TERMINATE_HPP
#define SCHEDULED_EVENTS_TERMINATE_HPP

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "scheduled_events.h"
#include "scheduled_events_document.hpp"

namespace scheduled_events {

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
  std::string_view message() const {
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
      : error(failure.status, std::string(failure.message())), failure_(failure) {}
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

} // namespace scheduled_events

#endif // SCHEDULED_EVENTS_TERMINATE_HPP
