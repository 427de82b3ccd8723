/* Uses a function that needs the library, not only its header. */
#include <scheduled_events.h>
#include <stdio.h>
#include <string.h>

int main(void) {
  static const char DOCUMENT[] = "{\"DocumentIncarnation\":1,\"Events\":[]}";
  schedev_document document;
  if (strcmp(schedev_version_string(), SCHEDEV_VERSION_STRING) != 0 ||
      schedev_document_parse(DOCUMENT, sizeof DOCUMENT - 1, &document, NULL) != SCHEDEV_OK) {
    return 1;
  }
  printf("scheduled_events %s\n", schedev_version_string());
  return 0;
}
