#include "state_file.h"
#include "process.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define LOCK_WAIT_MS 1000
#define SAVE_RETRY_MS 1000
#define LOCK_FILE_MAX (256 * 1024) /* A larger file is something else. */

static char state_path[PATH_MAX], lock_path[PATH_MAX], temporary_path[PATH_MAX], folder[PATH_MAX];
static int lock = -1;
static char failure[PATH_MAX + 200]; /* Why the last function failed. */

static bool fail(const char *name, const char *reason) {
  (void)snprintf(failure, sizeof failure, "%s: %s", name, reason);
  return false;
}

/* Fails for a reason of the system, which remains in errno. */
static bool fail_for(const char *name, int reason) {
  (void)fail(name, strerror(reason));
  errno = reason;
  return false;
}

static bool set_paths(const char *path) {
  const char *slash = strrchr(path, '/');
  if (strlen(path) > PATH_MAX - 32) {
    return fail_for(path, ENAMETOOLONG);
  }
  (void)snprintf(state_path, sizeof state_path, "%s", path);
  (void)snprintf(lock_path, sizeof lock_path, "%s.lock", path);
  (void)snprintf(temporary_path, sizeof temporary_path, "%s.tmp", path);
  (void)snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - path) + 1 : 1, slash ? path : ".");
  return true;
}

static bool is_trusted(const struct stat *found) { return found->st_uid == geteuid() || found->st_uid == 0; }

/* Whether a file is a regular one that no other user can write. */
static bool is_private(const struct stat *found) {
  return S_ISREG(found->st_mode) && (found->st_mode & 022) == 0 && is_trusted(found);
}

static bool is_same(const struct stat *one, const struct stat *other) {
  return one->st_dev == other->st_dev && one->st_ino == other->st_ino;
}

ssize_t read_file(const char *path, char *bytes, size_t capacity) {
  struct stat found;
  size_t len = 0;
  int file = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) {
    return -1;
  }
  if (fstat(file, &found) != 0 || !is_private(&found)) {
    (void)close(file);
    errno = EPERM;
    return -1;
  }
  for (ssize_t got = 1; got > 0 && len < capacity; len += (size_t)got) {
    got = read(file, bytes + len, capacity - len);
    if (got < 0) {
      (void)close(file);
      return -1;
    }
  }
  (void)close(file);
  return (ssize_t)len;
}

/* Checks what can be known before the lock file is created. */
static bool check_paths(void) {
  struct stat found;
  if (stat(folder, &found) != 0) {
    return fail_for(folder, errno);
  }
  if (!S_ISDIR(found.st_mode) || !is_trusted(&found)) {
    return fail(folder, "not a folder of this user");
  }
  if (lstat(state_path, &found) != 0) {
    return errno == ENOENT || fail_for(state_path, errno);
  }
  return is_private(&found) || fail(state_path, "not a regular file that only this user can write");
}

/* Locks a lock file that is open. The reason of a failure is EWOULDBLOCK if trying again may help. */
static bool lock_file(int file) {
  struct stat held, found;
  char line[12] = "";
  if (fstat(file, &held) != 0 || !is_private(&held) || held.st_size > LOCK_FILE_MAX) {
    errno = EPERM;
    return fail(lock_path, "not a lock file that only this user can write");
  }
  if (flock(file, LOCK_EX | LOCK_NB) != 0) {
    int reason = errno;
    (void)!pread(file, line, 10, 0);
    (void)snprintf(failure, sizeof failure, "%s: in use by process %ld", state_path, strtol(line, NULL, 10));
    errno = reason;
    return false;
  }
  if (lstat(lock_path, &found) != 0 || !is_same(&found, &held)) {
    return fail_for(lock_path, EWOULDBLOCK); /* It was replaced meanwhile. */
  }
  /* Only the first line: the commands that a run of scheduled-events left running are listed below it. */
  int len = snprintf(line, sizeof line, "%-10ld\n", (long)getpid());
  return (fchmod(file, 0600) == 0 && pwrite(file, line, (size_t)len, 0) == len) || fail_for(lock_path, errno);
}

/* Opens and locks the lock file. */
static bool take_lock(int flags) {
  int file = open(lock_path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | flags, 0600);
  if (file < 0) {
    return fail_for(lock_path, errno);
  }
  if (!lock_file(file)) {
    int reason = errno;
    (void)close(file);
    errno = reason;
    return false;
  }
  if (lock >= 0) {
    (void)close(lock);
  }
  lock = file;
  return true;
}

static bool lock_and_read(const char *path, char *bytes, size_t capacity, ssize_t *len) {
  const struct timespec pause = {0, 10000000};
  if (!set_paths(path) || !check_paths()) {
    return false;
  }
  for (int waited_ms = 0; !take_lock(0); waited_ms += 10) {
    if (errno != EWOULDBLOCK || waited_ms >= LOCK_WAIT_MS) {
      return false;
    }
    (void)nanosleep(&pause, NULL);
  }
  *len = read_file(path, bytes, capacity);
  return *len >= 0 || errno == ENOENT || fail_for(path, errno);
}

bool state_open(const char *path, char *bytes, size_t capacity, ssize_t *len) {
  bool opened = lock_and_read(path, bytes, capacity, len);
  if (!opened) {
    fprintf(stderr, "error: cannot use the state file: %s\n", failure);
  }
  return opened;
}

/* Checks that the lock file is still the one that is locked. */
static bool check_lock(void) {
  struct stat held, found;
  if (fstat(lock, &held) != 0) {
    return fail_for(lock_path, errno);
  }
  if (lstat(lock_path, &found) != 0) {
    return errno == ENOENT ? take_lock(O_EXCL) : fail_for(lock_path, errno);
  }
  return is_same(&found, &held) ||
         fail(lock_path, "replaced, so another process may use the state file; stop one of them");
}

/* Writes all bytes to a file that does not exist, and makes them durable. */
static bool write_new(const char *path, const char *bytes, size_t len) {
  int file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (file < 0) {
    return fail_for(path, errno);
  }
  for (ssize_t more = 1; len > 0 && more > 0; bytes += more, len -= (size_t)more) {
    more = write(file, bytes, len);
    if (more <= 0) {
      break;
    }
  }
  bool written = (len == 0 && fsync(file) == 0) || fail_for(path, errno);
  return (close(file) == 0 || fail_for(path, errno)) && written;
}

static bool sync_folder(void) {
  int directory = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  bool synced = directory >= 0 && fsync(directory) == 0;
  if (directory >= 0) {
    (void)close(directory);
  }
  return synced || fail_for(folder, errno);
}

static bool replace(const char *bytes, size_t len) {
  if (!check_lock()) {
    return false;
  }
  (void)unlink(temporary_path); /* A crash may have left it, or somebody else may have put a link there. */
  if (!write_new(temporary_path, bytes, len)) {
    (void)unlink(temporary_path);
    return false;
  }
  return rename(temporary_path, state_path) == 0 ? sync_folder() : fail_for(state_path, errno);
}

bool state_replace(const char *bytes, size_t len) {
  static int64_t failed_at = 0;
  if (failed_at != 0 && now_ms() - failed_at < SAVE_RETRY_MS) {
    return false;
  }
  bool replaced = replace(bytes, len);
  if (!replaced && failed_at == 0) {
    fprintf(stderr, "warning: cannot write the state file: %s\n", failure);
  }
  failed_at = replaced ? 0 : now_ms();
  return replaced;
}

bool state_quarantine(const char *reason) {
  struct stat found;
  char moved_to[PATH_MAX + 32];
  long number = 0;
  do {
    (void)snprintf(moved_to, sizeof moved_to, "%s.damaged-%ld", state_path, ++number);
  } while (lstat(moved_to, &found) == 0);
  if (rename(state_path, moved_to) != 0) {
    fprintf(stderr, "error: the state file %s cannot be moved to %s: %s\n", state_path, moved_to, strerror(errno));
    return false;
  }
  fprintf(stderr, "warning: the state file was moved to %s: %s\n", moved_to, reason);
  return true;
}
