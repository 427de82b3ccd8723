/*
 * The state file of the agents: private, replaced atomically and durably, and never through a link.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Reads the beginning of a file that no other user can write; -1 and errno if that fails: ENOENT if there is none, EPERM if
 * another user owns or can write it, or if it is not a regular file, and ELOOP if it is a link. */
static inline ssize_t read_file(const char *path, char *bytes, size_t capacity) {
  struct stat found;
  size_t len = 0;
  int file = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) {
    return -1;
  }
  if (fstat(file, &found) != 0 || !S_ISREG(found.st_mode) || (found.st_mode & 022) != 0 ||
      (found.st_uid != geteuid() && found.st_uid != 0)) {
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

/* Writes all bytes and makes them durable. */
static inline bool write_all(int file, const char *bytes, size_t len) {
  while (len > 0) {
    ssize_t more = write(file, bytes, len);
    if (more <= 0) {
      return false;
    }
    bytes += more;
    len -= (size_t)more;
  }
  return fsync(file) == 0;
}

/* Replaces a file: after a crash there is the old one or the new one. False and errno if that fails. */
static inline bool replace_file(const char *path, const char *bytes, size_t len) {
  char temporary[4096], folder[4096];
  const char *slash = strrchr(path, '/');
  int length = snprintf(temporary, sizeof temporary, "%s.tmp", path);
  if (length < 0 || (size_t)length >= sizeof temporary) {
    errno = ENAMETOOLONG;
    return false;
  }
  (void)snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - path) + 1 : 1, slash ? path : ".");
  (void)unlink(temporary); /* A crash may have left it, or somebody else may have put a link there. */
  int file = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (file < 0) {
    return false;
  }
  bool written = write_all(file, bytes, len);
  written = close(file) == 0 && written && rename(temporary, path) == 0;
  int directory = written ? open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
  written = directory >= 0 && fsync(directory) == 0;
  if (directory >= 0) {
    (void)close(directory);
  }
  return written;
}
