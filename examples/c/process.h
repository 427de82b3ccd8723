/*
 * What the agents need of the system: a clock, signals, and programs that they run.
 */
#ifndef PROCESS_H
#define PROCESS_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Whether SIGTERM or SIGINT has arrived. */
extern volatile sig_atomic_t stopped;

/* Installs the handlers, however the signals were handled before: SIGTERM and SIGINT stop the agent, and SIGCHLD wakes it up.
 * Returns what becomes readable then, or -1 and errno. */
int catch_signals(void);

/* Reads what catch_signals() returned until it is empty. */
void drain_wakeups(void);

/* Milliseconds since 1970 on a clock that does not step: the wall clock at the start plus the time measured by the monotonic
 * clock. */
int64_t now_ms(void);

/* A program that runs. */
typedef struct {
  pid_t process;  /* Also the id of its process group; 0 if there is none. */
  int64_t end_at; /* When it is ended, and 5 s later killed. */
  bool is_ended;
} program;

/* Runs a program without a shell, in a process group of its own, with the event in its environment. False if that is
 * impossible. */
bool program_start(program *started, const char *path, const char *event_id, const char *event_type,
                   int64_t timeout_ms);

/* Ends the program with SIGTERM, or with SIGKILL if it was ended 5 s ago. */
void program_end(program *running);

/* The exit code of a program that need not be run again: EX_CONFIG of sysexits.h. */
enum { DO_NOT_ASK_AGAIN = 78 };

/* Whether the program is over; what it left running is killed. `exit_code` receives that with which it ended by itself, or -1. Ends
 * it if its time is over. */
bool program_is_over(program *running, int *exit_code);

#ifdef __cplusplus
}
#endif

#endif
