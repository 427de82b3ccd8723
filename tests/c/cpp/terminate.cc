// The notification profiles of a scale set through scheduled_events.hpp.
#include "expect.h"
#include "scheduled_events.hpp"

namespace se = scheduled_events;
using std::chrono::minutes;
using std::chrono::seconds;

namespace {

void timeouts() {
  EXPECT(se::try_parse_terminate_timeout("PT7M30S").value() == seconds(450));
  EXPECT(se::try_parse_terminate_timeout("PT4M").error().rule() == se::profile_rule::at_least_5_minutes);
  EXPECT(se::try_parse_terminate_timeout("PT4\xff").error().status == SCHEDEV_ERROR_UTF8);
  EXPECT(se::try_parse_terminate_timeout("PT4\xff").error().rule() == se::profile_rule::none);
  EXPECT(se::try_parse_terminate_timeout("PT4\xff").error().message() == se::message(SCHEDEV_ERROR_UTF8));
  EXPECT(se::try_parse_os_image_timeout("PT15M").value() == minutes(15));
  EXPECT(se::try_parse_os_image_timeout("PT5M").error().rule() == se::profile_rule::exactly_15_minutes);
  EXPECT(se::try_format_terminate_timeout(minutes(10)).value() == "PT10M");
  // Times that no uint32_t holds.
  for (const seconds wrong : {seconds::min(), seconds(-300), seconds(0), seconds(299)}) {
    EXPECT(se::try_format_terminate_timeout(wrong).error().rule() == se::profile_rule::at_least_5_minutes);
  }
  for (const seconds wrong : {seconds::max(), seconds(INT64_C(0x100000000) + 300), seconds(901)}) {
    EXPECT(se::try_format_terminate_timeout(wrong).error().rule() == se::profile_rule::at_most_15_minutes);
  }
  EXPECT(se::word(se::profile_rule::not_on_spot) == "not-on-spot");
}

void profiles() {
  se::notification_profile deletions;
  EXPECT(se::try_notification_json(deletions).value() == R"({"terminateNotificationProfile":{"enable":false}})");
  deletions.enable = true;
  deletions.not_before_timeout = minutes(5);
  // The body of the example of Microsoft's page.
  EXPECT(se::try_notification_json(deletions).value() ==
         R"({"terminateNotificationProfile":{"notBeforeTimeout":"PT5M","enable":true}})");
  se::notification_profile images;
  images.enable = true;
  EXPECT(se::try_notification_json(std::nullopt, images).value() ==
         R"({"osImageNotificationProfile":{"enable":true}})");
  EXPECT(se::try_notification_json({}).value() == "{}");
  EXPECT(se::try_notification_json(std::nullopt, deletions).error().rule() == se::profile_rule::exactly_15_minutes);
  EXPECT(deletions.try_check_terminate(false, SCHEDEV_COMPUTE_API_VERSION_MIN).value());
  const se::profile_failure spot = deletions.try_check_terminate(true, "2021-07-01").error();
  EXPECT(spot.rule() == se::profile_rule::not_on_spot);
  EXPECT(spot.message() == "terminate notifications cannot be enabled on Spot instances");
  EXPECT(deletions.try_check_terminate(false, {}).error().rule() == se::profile_rule::compute_api_version);
  // A time-out of 0 is not "no time-out".
  deletions.not_before_timeout = seconds(0);
  EXPECT(se::try_notification_json(deletions).error().rule() == se::profile_rule::at_least_5_minutes);
}

#if SCHEDEV_EXCEPTIONS
void exceptions() {
  EXPECT(se::parse_terminate_timeout("PT15M") == minutes(15) && se::parse_os_image_timeout("PT900S") == minutes(15));
  EXPECT(se::format_terminate_timeout(seconds(450)) == "PT7M30S");
  se::notification_profile deletions;
  deletions.enable = true;
  deletions.check_terminate(false, "2021-07-01");
  EXPECT(se::notification_json(deletions) == R"({"terminateNotificationProfile":{"enable":true}})");
  bool thrown = false;
  try {
    deletions.check_terminate(false, "2018-10-01");
  } catch (const se::profile_error &refused) {
    thrown = refused.failure().rule() == se::profile_rule::compute_api_version &&
             refused.status() == SCHEDEV_ERROR_PROFILE && refused.what() == refused.failure().message();
  }
  EXPECT(thrown);
}
#endif

} // namespace

int main() {
  timeouts();
  profiles();
#if SCHEDEV_EXCEPTIONS
  exceptions();
#endif
  return 0;
}
