#include <scheduled_events.h>
#include <string.h>

/* Succeeds if the library has the version of the header and works. */
int main(void) {
  static const char body[] = "{\"Events\":[{\"EventId\":\"a\"}]}";
  schedev_document document;
  return strcmp(schedev_version_string(), SCHEDEV_VERSION_STRING) != 0 ||
         schedev_document_parse(body, sizeof body - 1, &document, NULL) != SCHEDEV_OK ||
         schedev_document_event_count(&document) != 1;
}
