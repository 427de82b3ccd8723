/*
 * The state file of the agents, as the command `scheduled-events watch --state` uses it: locked for one process, private,
 * replaced atomically and durably, and never reached through a link.
 */
#ifndef STATE_FILE_H
#define STATE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Reads the beginning of a file that no other user can write; -1 and errno if that fails: ENOENT if there is none, EPERM if
 * another user owns or can write it, or if it is not a regular file, and ELOOP if it is a link. */
ssize_t read_file(const char *path, char *bytes, size_t capacity);

/* Locks the state file until the process ends, and reads its beginning; `len` receives the length, -1 if there is no file. Waits
 * a second for another process to release it. The lock is the file STATE.lock, whose first line is the id of the process.
 * False if that fails, which is logged. */
bool state_open(const char *path, char *bytes, size_t capacity, ssize_t *len);

/* Replaces the state file: after a crash there is the old one or the new one. False if that fails, such as on a full disk, or
 * if another process may use the file, because the lock file was replaced; one that was removed is created again. A failure
 * is logged once, and for a second after it nothing is tried. */
bool state_replace(const char *bytes, size_t len);

/* Moves a state file that cannot be used for this reason to the first free name of STATE.damaged-1, STATE.damaged-2, ..., and
 * logs that. False if it cannot be moved. */
bool state_quarantine(const char *reason);

#ifdef __cplusplus
}
#endif

#endif
