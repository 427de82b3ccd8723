#include "process.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define KILL_AFTER_MS 5000

volatile sig_atomic_t stopped;
static int wake[2]; /* A pipe that signals write to. */

static void on_signal(int number) {
  int saved = errno;
  if (number != SIGCHLD) {
    stopped = 1;
  }
  (void)!write(wake[1], "", 1); /* If the pipe is full, the loop wakes up anyway. */
  errno = saved;
}

int catch_signals(void) {
  const int signals[] = {SIGCHLD, SIGTERM, SIGINT};
  struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
  sigset_t blocked;
  (void)sigemptyset(&blocked);
  if (pipe(wake) != 0) {
    return -1;
  }
  for (int end = 0; end < 2; end++) {
    if (fcntl(wake[end], F_SETFL, O_NONBLOCK) != 0 || fcntl(wake[end], F_SETFD, FD_CLOEXEC) != 0) {
      return -1;
    }
  }
  for (int i = 0; i < 3; i++) {
    (void)sigaddset(&blocked, signals[i]);
    if (sigaction(signals[i], &action, NULL) != 0) {
      return -1;
    }
  }
  return sigprocmask(SIG_UNBLOCK, &blocked, NULL) == 0 ? wake[0] : -1;
}

void drain_wakeups(void) {
  char ignored[64];
  while (read(wake[0], ignored, sizeof ignored) > 0) {
  }
}

int64_t now_ms(void) {
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

bool program_start(program *started, const char *path, const char *event_id, const char *event_type,
                   int64_t timeout_ms) {
  pid_t process = fork();
  if (process == 0) {
    (void)setpgid(0, 0);
    if (setenv("SCHEDULED_EVENTS_EVENT_ID", event_id, 1) != 0 ||
        setenv("SCHEDULED_EVENTS_EVENT_TYPE", event_type, 1) != 0) {
      _exit(126);
    }
    execl(path, path, (char *)NULL);
    _exit(127);
  }
  if (process < 0) {
    return false;
  }
  (void)setpgid(process, process);
  *started = (program){process, now_ms() + timeout_ms, false};
  return true;
}

void program_end(program *running) {
  if (!running->is_ended) {
    running->is_ended = true;
    running->end_at = now_ms() + KILL_AFTER_MS;
    (void)kill(-running->process, SIGTERM);
  } else if (now_ms() >= running->end_at) {
    (void)kill(-running->process, SIGKILL);
  }
}

bool program_is_over(program *running, int *exit_code) {
  int result;
  if (waitpid(running->process, &result, WNOHANG) != running->process) {
    if (now_ms() >= running->end_at) {
      program_end(running);
    }
    return false;
  }
  *exit_code = WIFEXITED(result) && !running->is_ended ? WEXITSTATUS(result) : -1;
  (void)kill(-running->process, SIGKILL);
  running->process = 0;
  return true;
}
