/* The notification profiles of a scale set: what Azure accepts, what it refuses and by which rule, and the JSON. */
#include "expect.h"

/* A call is refused by a rule: the status, the number, its word, and a message; there is no position. */
static void refused(schedev_status status, const schedev_error *error, uint32_t rule, const char *word) {
  EXPECT(status == SCHEDEV_ERROR_PROFILE && error->kind == rule);
  EXPECT(strcmp(schedev_profile_rule_word(error->kind), word) == 0);
  EXPECT(strlen(schedev_error_message(error)) > 20);
  EXPECT(error->line == 0 && error->column == 0 && error->offset == 0);
}

static void timeouts(void) {
  static const struct {
    const char *text;
    uint32_t rule;
    const char *word;
  } wrong[] = {
      {"", SCHEDEV_PROFILE_RULE_ISO_8601_DURATION, "iso-8601-duration"},
      {"10m", SCHEDEV_PROFILE_RULE_ISO_8601_DURATION, "iso-8601-duration"},
      {"P5M", SCHEDEV_PROFILE_RULE_ISO_8601_DURATION, "iso-8601-duration"},
      {"PT0S", SCHEDEV_PROFILE_RULE_AT_LEAST_5_MINUTES, "at-least-5-minutes"},
      {"PT4M59S", SCHEDEV_PROFILE_RULE_AT_LEAST_5_MINUTES, "at-least-5-minutes"},
      {"PT15M1S", SCHEDEV_PROFILE_RULE_AT_MOST_15_MINUTES, "at-most-15-minutes"},
  };
  schedev_error error;
  uint32_t seconds = 7;
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    schedev_status status = schedev_terminate_timeout_parse(wrong[i].text, strlen(wrong[i].text), &seconds, &error);
    refused(status, &error, wrong[i].rule, wrong[i].word);
    status = schedev_terminate_timeout_parse(wrong[i].text, strlen(wrong[i].text), &seconds, NULL);
    EXPECT(status == SCHEDEV_ERROR_PROFILE && seconds == 7);
  }
  EXPECT(schedev_terminate_timeout_parse(NULL, 0, &seconds, NULL) == SCHEDEV_ERROR_PROFILE);
  EXPECT(schedev_terminate_timeout_parse(NULL, 4, &seconds, NULL) == SCHEDEV_ERROR_NULL);
  EXPECT(schedev_terminate_timeout_parse("PT5M", 4, NULL, &error) == SCHEDEV_ERROR_NULL);
  EXPECT(schedev_terminate_timeout_parse("PT5\xff", 4, &seconds, &error) == SCHEDEV_ERROR_UTF8);
  EXPECT(schedev_terminate_timeout_parse("PT0H7M30S.", 9, &seconds, &error) == SCHEDEV_OK && seconds == 450);
  refused(schedev_os_image_timeout_parse("PT5M", 4, &seconds, &error), &error, SCHEDEV_PROFILE_RULE_EXACTLY_15_MINUTES,
          "exactly-15-minutes");
  EXPECT(schedev_os_image_timeout_parse("PT900S", 6, &seconds, &error) == SCHEDEV_OK);
  EXPECT(seconds == SCHEDEV_TERMINATE_TIMEOUT_MAX_SECONDS);

  char buffer[16];
  size_t needed = 0;
  for (seconds = 0; seconds <= 1000; seconds++) {
    uint32_t read = 0;
    schedev_status status = schedev_terminate_timeout_format(seconds, buffer, sizeof buffer, &needed, &error);
    if (seconds < SCHEDEV_TERMINATE_TIMEOUT_MIN_SECONDS) {
      refused(status, &error, SCHEDEV_PROFILE_RULE_AT_LEAST_5_MINUTES, "at-least-5-minutes");
    } else if (seconds > SCHEDEV_TERMINATE_TIMEOUT_MAX_SECONDS) {
      refused(status, &error, SCHEDEV_PROFILE_RULE_AT_MOST_15_MINUTES, "at-most-15-minutes");
    } else {
      EXPECT(status == SCHEDEV_OK && needed == strlen(buffer));
      EXPECT(schedev_terminate_timeout_parse(buffer, needed, &read, &error) == SCHEDEV_OK && read == seconds);
    }
  }
  EXPECT(schedev_terminate_timeout_format(450, buffer, 6, &needed, NULL) == SCHEDEV_ERROR_BUFFER_TOO_SMALL);
  EXPECT(needed == strlen("PT7M30S"));
}

static void checks(void) {
  schedev_notification_profile profile = SCHEDEV_NOTIFICATION_PROFILE_INIT;
  schedev_error error;
  EXPECT(schedev_terminate_check(&profile, true, "2019-03-01", 10, &error) == SCHEDEV_OK);
  profile.enable = true;
  EXPECT(schedev_terminate_check(&profile, false, SCHEDEV_COMPUTE_API_VERSION_MIN,
                                 strlen(SCHEDEV_COMPUTE_API_VERSION_MIN), &error) == SCHEDEV_OK);
  refused(schedev_terminate_check(&profile, true, "2021-07-01", 10, &error), &error, SCHEDEV_PROFILE_RULE_NOT_ON_SPOT,
          "not-on-spot");
  refused(schedev_terminate_check(&profile, false, "2019-02-28", 10, &error), &error,
          SCHEDEV_PROFILE_RULE_COMPUTE_API_VERSION, "compute-api-version");
  refused(schedev_terminate_check(&profile, false, NULL, 0, &error), &error, SCHEDEV_PROFILE_RULE_COMPUTE_API_VERSION,
          "compute-api-version");
  /* A time-out of 0 is too short; one without its flag was set by mistake. */
  profile.has_not_before_timeout = true;
  refused(schedev_terminate_check(&profile, false, "2021-07-01", 10, &error), &error,
          SCHEDEV_PROFILE_RULE_AT_LEAST_5_MINUTES, "at-least-5-minutes");
  profile.has_not_before_timeout = false;
  profile.not_before_timeout_seconds = 600;
  EXPECT(schedev_terminate_check(&profile, false, "2021-07-01", 10, &error) == SCHEDEV_ERROR_ARGUMENT);
  EXPECT(schedev_terminate_check(NULL, false, "2021-07-01", 10, &error) == SCHEDEV_ERROR_NULL);
  EXPECT(schedev_terminate_check(&profile, false, NULL, 10, &error) == SCHEDEV_ERROR_NULL);
  profile.struct_size += sizeof(void *);
  EXPECT(schedev_terminate_check(&profile, false, "2021-07-01", 10, &error) == SCHEDEV_ERROR_ARGUMENT);
}

static void json(void) {
  schedev_notification_profile deletions = SCHEDEV_NOTIFICATION_PROFILE_INIT;
  schedev_notification_profile images = SCHEDEV_NOTIFICATION_PROFILE_INIT;
  schedev_error error;
  char buffer[192];
  size_t needed = 0;
  EXPECT(schedev_notification_json(NULL, NULL, buffer, sizeof buffer, &needed, &error) == SCHEDEV_OK);
  EXPECT(strcmp(buffer, "{}") == 0);
  EXPECT(schedev_notification_json(&deletions, NULL, buffer, sizeof buffer, &needed, &error) == SCHEDEV_OK);
  EXPECT(strcmp(buffer, "{\"terminateNotificationProfile\":{\"enable\":false}}") == 0);
  deletions.not_before_timeout_seconds = 899;
  images.not_before_timeout_seconds = 900;
  deletions.has_not_before_timeout = images.has_not_before_timeout = true;
  EXPECT(schedev_notification_json(&deletions, &images, buffer, sizeof buffer, &needed, &error) == SCHEDEV_OK);
  EXPECT(strcmp(buffer, "{\"terminateNotificationProfile\":{\"notBeforeTimeout\":\"PT14M59S\",\"enable\":false},"
                        "\"osImageNotificationProfile\":{\"notBeforeTimeout\":\"PT15M\",\"enable\":false}}") == 0);
  EXPECT(needed == strlen(buffer));
  memset(buffer, 0, sizeof buffer);
  EXPECT(schedev_notification_json(&deletions, &images, NULL, 0, &needed, &error) == SCHEDEV_ERROR_BUFFER_TOO_SMALL);
  EXPECT(schedev_notification_json(&deletions, &images, buffer, needed - 1, &needed, &error) ==
         SCHEDEV_ERROR_BUFFER_TOO_SMALL);
  EXPECT(buffer[0] == '\0' && needed < sizeof buffer);
  refused(schedev_notification_json(&deletions, &deletions, buffer, sizeof buffer, &needed, &error), &error,
          SCHEDEV_PROFILE_RULE_EXACTLY_15_MINUTES, "exactly-15-minutes");
  deletions.not_before_timeout_seconds = 0;
  refused(schedev_notification_json(&deletions, NULL, buffer, sizeof buffer, &needed, &error), &error,
          SCHEDEV_PROFILE_RULE_AT_LEAST_5_MINUTES, "at-least-5-minutes");
  EXPECT(schedev_notification_json(&images, NULL, buffer, sizeof buffer, NULL, &error) == SCHEDEV_ERROR_NULL);
  EXPECT(buffer[0] == '\0');
}

int main(void) {
  timeouts();
  checks();
  json();
  for (uint32_t number = 0; number < 1000; number++) {
    EXPECT(strlen(schedev_profile_rule_word(number)) > 0);
  }
  return 0;
}
