/* Continues from a state file of the command, and writes a snapshot for the command: handover STATE MACHINE-ID BOOT-ID OUT */
#include "expect.h"
#include <stdio.h>
#include <stdlib.h>

static schedev_step next(schedev_session *session, int64_t *now) {
  schedev_step step;
  do {
    EXPECT(schedev_session_next(session, *now, &step) == SCHEDEV_OK);
    *now = step.kind == SCHEDEV_STEP_WAIT ? step.until_ms : *now;
  } while (step.kind == SCHEDEV_STEP_WAIT || step.kind == SCHEDEV_STEP_CHANGE || step.kind == SCHEDEV_STEP_DECISION);
  return step;
}

int main(int argc, char **argv) {
  static char bytes[1 << 20];
  static const char gone[] = "{\"DocumentIncarnation\":900,\"Events\":[]}";
  int64_t now = INT64_C(4000000000000);
  size_t len;
  schedev_session *session;
  schedev_tracked_event event;
  EXPECT(argc == 5);
  const schedev_text name = schedev_text_from("web_0");
  const schedev_names names = SCHEDEV_NAMES_INIT(&name, 1);
  schedev_session_config config = SCHEDEV_SESSION_CONFIG_INIT;
  config.names = &names;
  config.machine_id = schedev_text_from(argv[2]);
  config.boot_id = schedev_text_from(argv[3]);
  void *memory = malloc(schedev_session_size());
  EXPECT(schedev_session_init(memory, schedev_session_size(), &config, &session) == SCHEDEV_OK);
  FILE *file = fopen(argv[1], "rb");
  EXPECT(file != NULL);
  len = fread(bytes, 1, sizeof bytes, file);
  (void)fclose(file);

  /* What follows the snapshot is ignored, so its beginning is enough. */
  EXPECT(schedev_session_restore(session, bytes, len < SCHEDEV_SNAPSHOT_MAX_BYTES ? len : SCHEDEV_SNAPSHOT_MAX_BYTES) ==
         SCHEDEV_OK);
  EXPECT(schedev_session_event(session, 0, &event) == SCHEDEV_OK && event.mine);
  EXPECT(schedev_session_out_of_service_since(session, &now) == SCHEDEV_OK);
  EXPECT(next(session, &now).kind == SCHEDEV_STEP_GET);
  schedev_response response = SCHEDEV_RESPONSE_INIT;
  response.http_status = 200;
  response.body = gone;
  response.body_len = sizeof gone - 1;
  EXPECT(schedev_session_on_response(session, &response, now, NULL) == SCHEDEV_OK);
  EXPECT(next(session, &now).kind == SCHEDEV_STEP_RECOVER);

  /* The process ends before it has recovered: its successor has to. */
  EXPECT(schedev_session_changed(session));
  EXPECT(schedev_session_snapshot(session, bytes, sizeof bytes, &len) == SCHEDEV_OK);
  file = fopen(argv[4], "wb");
  EXPECT(file != NULL && fwrite(bytes, 1, len, file) == len && fclose(file) == 0);
  free(memory);
  return 0;
}
