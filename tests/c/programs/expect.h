/* An assertion that NDEBUG does not disable, and a document. */
#ifndef TESTS_C_EXPECT_H
#define TESTS_C_EXPECT_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scheduled_events.h"

#define EXPECT(condition)                                                                                              \
  do {                                                                                                                 \
    if (!(condition)) {                                                                                                \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                                                  \
      exit(1);                                                                                                         \
    }                                                                                                                  \
  } while (0)

#define DOCUMENT(status)                                                                                               \
  "{\"DocumentIncarnation\":2,\"Events\":[{\"EventId\":\"C7061BAC-AFDC-4513-B24B-AA5F13A16123\",\"EventStatus\":"      \
  "\"" status "\",\"EventType\":\"Reboot\",\"ResourceType\":\"VirtualMachine\",\"Resources\":[\"vm_0\",\"vm\\u005f1\"" \
  ",7,\"vm_2\"],\"NotBefore\":\"Mon, 11 Apr 2022 22:26:58 GMT\",\"Description\":\"\",\"EventSource\":\"User\","        \
  "\"DurationInSeconds\":\"x\"},{\"EventId\":\"b\"},{\"EventId\":\"B\"},3]}"

#define EMPTY "{\"DocumentIncarnation\":3,\"Events\":[]}"

#endif
