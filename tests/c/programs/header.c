/* The header compiles alone, and its _INIT macros initialise. */
#include "scheduled_events.h"

schedev_policy header_policy = SCHEDEV_POLICY_INIT;
schedev_session_config header_config = SCHEDEV_SESSION_CONFIG_INIT;
schedev_response header_response = SCHEDEV_RESPONSE_INIT;
schedev_event_cursor header_events = SCHEDEV_CURSOR_INIT;
schedev_resource_cursor header_resources = SCHEDEV_CURSOR_INIT;
schedev_problem_cursor header_problems = SCHEDEV_CURSOR_INIT;
