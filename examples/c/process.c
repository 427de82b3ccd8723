/*
 * The clock and the signals of the agent: SIGTERM and SIGINT stop it, and SIGCHLD wakes it up.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>
#include <unistd.h>

static int wake[2]; /* A pipe that signals write to. */
static volatile sig_atomic_t stopped;

static void on_signal(int number) {
  int saved = errno;
  if (number != SIGCHLD) {
    stopped = 1;
  }
  (void)!write(wake[1], "", 1); /* If the pipe is full, the loop wakes up anyway. */
  errno = saved;
}

/* Installs the handlers, however the signals were handled before; false and errno if that fails. */
static bool catch_signals(void) {
  const int signals[] = {SIGCHLD, SIGTERM, SIGINT};
  struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
  sigset_t blocked;
  (void)sigemptyset(&blocked);
  if (pipe(wake) != 0) {
    return false;
  }
  for (int end = 0; end < 2; end++) {
    if (fcntl(wake[end], F_SETFL, O_NONBLOCK) != 0 || fcntl(wake[end], F_SETFD, FD_CLOEXEC) != 0) {
      return false;
    }
  }
  for (int i = 0; i < 3; i++) {
    (void)sigaddset(&blocked, signals[i]);
    if (sigaction(signals[i], &action, NULL) != 0) {
      return false;
    }
  }
  return sigprocmask(SIG_UNBLOCK, &blocked, NULL) == 0;
}

/* Empties the pipe. */
static void drain_wakeups(void) {
  char ignored[64];
  while (read(wake[0], ignored, sizeof ignored) > 0) {
  }
}

/* A clock that does not step: the wall clock at the start plus the time measured by the monotonic clock. */
static int64_t now_ms(void) {
  static int64_t anchor = 0;
  struct timespec wall, steady;
  clock_gettime(CLOCK_REALTIME, &wall);
  clock_gettime(CLOCK_MONOTONIC, &steady);
  int64_t passed = (int64_t)steady.tv_sec * 1000 + steady.tv_nsec / 1000000;
  if (anchor == 0) {
    anchor = (int64_t)wall.tv_sec * 1000 + wall.tv_nsec / 1000000 - passed;
  }
  return anchor + passed;
}
