/*
 * scheduled_events.h - read Azure Scheduled Events, track them and decide what to do about them
 *
 * Azure announces reboots, freezes, redeploys, spot evictions and terminations to the software inside a virtual machine.
 * The announcement is a small JSON document at http://169.254.169.254/metadata/scheduledevents. This library parses that
 * document, reports what changed since the last one, decides what to do and writes the approval. It does no I/O, reads no
 * clock, starts no thread and allocates no memory: the program provides HTTP, time and memory.
 *
 * To build a program: cc agent.c $(pkg-config --cflags --libs scheduled_events). The CMake package is scheduled_events; its
 * targets are scheduled_events::scheduled_events and scheduled_events::static.
 *
 * There are two ways to use the library.
 *
 * A session is the whole client as a state machine. It returns what to do next: poll, wait, post, prepare or
 * recover. With functions of your own for time, HTTP and the work to do, an agent is this loop. examples/c/agent.c is a
 * complete one over libcurl.
 *
 *     schedev_session *session;
 *     schedev_session_config config = SCHEDEV_SESSION_CONFIG_INIT;
 *     config.policy = schedev_policy_sample();
 *     config.names = &names;
 *     schedev_status status = schedev_session_init(memory, schedev_session_size(), &config, &session);
 *     while (status == SCHEDEV_OK) {
 *       schedev_step step;
 *       status = schedev_session_next(session, now_ms(), &step);
 *       if (status != SCHEDEV_OK) {
 *         break;
 *       }
 *       switch (step.kind) {
 *       case SCHEDEV_STEP_GET:
 *       case SCHEDEV_STEP_POST:
 *         if (exchange(&step, &response)) {
 *           status = schedev_session_on_response(session, &response, now_ms(), NULL);
 *         } else {
 *           status = schedev_session_on_failure(session, SCHEDEV_CAUSE_TIMEOUT, now_ms(), NULL);
 *         }
 *         break;
 *       case SCHEDEV_STEP_WAIT:
 *         sleep_until_ms(step.until_ms);
 *         break;
 *       case SCHEDEV_STEP_PREPARE:
 *         drain();
 *         status = schedev_session_prepared(session, step.attempt, SCHEDEV_PREPARATION_READY, NULL);
 *         break;
 *       case SCHEDEV_STEP_RECOVER:
 *         return_to_service();
 *         status = schedev_session_recovered(session, step.attempt, true, now_ms(), NULL);
 *         break;
 *       default:
 *         report(&step);
 *       }
 *     }
 *
 * Here, drain() and return_to_service() block the loop. A program that runs them in the background goes on with the loop,
 * ends what runs for an attempt when SCHEDEV_STEP_CANCEL names it, and reports every result with the number of its attempt.
 *
 * The other objects are the parts of a session, for programs that do the rest themselves:
 *
 *     schedev_document document;
 *     schedev_event_cursor cursor = SCHEDEV_CURSOR_INIT;
 *     schedev_event event;
 *     schedev_text name;
 *     schedev_error error;
 *     char printable[512];
 *     size_t len;
 *     if (schedev_document_parse(body, body_len, &document, &error) != SCHEDEV_OK) {
 *       fprintf(stderr, "%u:%u: %s\n", error.line, error.column, schedev_error_message(&error));
 *       return 1;
 *     }
 *     while (schedev_document_next(&document, &cursor, &event) == SCHEDEV_OK) {
 *       for (size_t i = 0; schedev_event_resource(&event, i, &name) == SCHEDEV_OK; i++) {
 *         if (schedev_text_copy_printable(name, printable, sizeof printable, &len) == SCHEDEV_OK) {
 *           printf(" %s", printable);
 *         }
 *       }
 *       printf("\n");
 *     }
 *
 * The texts of a document come from outside and can contain any character. schedev_text_copy_printable() and
 * schedev_step_json() escape what must not reach a terminal or a log as it is. Never give texts to a shell.
 *
 * CONVENTIONS
 *
 * Arguments are in this order: the object, inputs, outputs. A function that can fail returns a schedev_status: SCHEDEV_OK
 * (0), SCHEDEV_END (1) or an error. Its @return lists the possible values. SCHEDEV_ERROR_INTERNAL is not listed: any
 * function can return it, but no input is known that causes it.
 *
 * Outputs are written only if the call succeeds, so they need not be initialised. There are two exceptions: `needed`, which
 * is also written if a buffer or a tracker is too small, and `error`, which describes why a document or a profile is
 * refused. A call that fails does not change its objects and cursors, unless its description says so.
 *
 * Enumerations are passed as uint32_t in structs and arguments, so that their size does not depend on the compiler. A
 * number that a function does not know is refused with SCHEDEV_ERROR_ARGUMENT. A number that your program does not know
 * comes from a later version of the library: treat it as "other".
 *
 * A parameter may be NULL only if its description says so; otherwise NULL is refused with SCHEDEV_ERROR_NULL. A pointer
 * that is not aligned for its type is refused with SCHEDEV_ERROR_ARGUMENT. An empty text, array or buffer is any pointer
 * with 0, NULL included.
 *
 * If a has_ member of an output is false, the member that it belongs to is zero. Lengths and sizes are in bytes. Offsets
 * and indices start at 0. Other numbers have their unit in their name. Times are counted from 1970-01-01T00:00:00Z, in
 * seconds or milliseconds (_ms).
 *
 * A function that writes to a buffer takes its `capacity` and returns in `needed` the length of the result. With capacity
 * 0 it only returns the length. A text is followed by a NUL if the buffer has a byte left; `needed` does not count it.
 *
 * A "static string" ends with NUL and is valid for ever.
 *
 * OWNERSHIP
 *
 * Nothing is allocated, and nothing has to be freed. Documents, events, texts and cursors are views of the bytes that were
 * parsed: keep those bytes alive and unchanged while you use a view. Other arguments are needed during the call only.
 * Structs may be copied. Outputs must not overlap each other or inputs.
 *
 * Sessions and trackers live in memory that you provide: less than 30 KB for a session, less than 40 KB for a tracker. They
 * copy what they need of their arguments. Do not move or copy them. When you are done, reuse the memory.
 *
 * An object that is zeroed or not initialised is recognised and refused, as long as its memory is yours. A cursor of
 * another document or event is recognised in most cases; see schedev_event_cursor and schedev_resource_cursor.
 *
 * THREADS
 *
 * There is no global state. Different threads can use different objects at the same time. Several threads can read one
 * object at the same time, which is what a const pointer means. A function that takes a pointer that is not const needs
 * exclusive access to the object. No function blocks, and none uses the locale, the environment or errno.
 *
 * VERSIONS AND THE ABI
 *
 * Versions follow semver.org. The name of the shared library ends with the version of the ABI: libscheduled_events.so.0.1
 * for all versions 0.1.x, and only the major version from 1.0 on. A program runs with every library of the same ABI that is
 * not older than the header it was compiled with. Within one ABI:
 *
 * - Functions and constants may be added. None is changed or removed, and no number gets another meaning.
 * - Structs with a leading struct_size, which the program fills in, may get new members at their end. The library accepts
 *   every earlier size; missing members have the values of the _INIT macro. A larger size is refused with
 *   SCHEDEV_ERROR_ARGUMENT, because it may ask for something that the library cannot do.
 * - Structs with `reserved` members keep their size: new members replace reserved ones. Zero such a struct before you fill it
 *   in, or use its _INIT macro: the library refuses reserved members that are not zero with SCHEDEV_ERROR_ARGUMENT.
 * - All other structs keep their size and layout: schedev_text and schedev_position, which have no more to say, and those with
 *   members named `opaque`, which are larger than needed.
 *
 * This file is generated. Edit the comments in ffi-c/src and ffi-c/header/scheduled_events.h.in instead.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */

#ifndef SCHEDULED_EVENTS_H
#define SCHEDULED_EVENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Marks functions whose result must be checked. */
#if defined(SCHEDEV_MUST_USE)
/* The program defines its own. */
#elif defined(__GNUC__) || defined(__clang__)
#define SCHEDEV_MUST_USE __attribute__((warn_unused_result))
#else
#define SCHEDEV_MUST_USE
#endif

/*
 * Marks functions of the library. On Windows, define SCHEDEV_STATIC if you link to the static library; the CMake package and
 * pkg-config --static do that.
 */
#if defined(SCHEDEV_API)
/* The program defines its own. */
#elif defined(_WIN32) && !defined(SCHEDEV_STATIC)
#define SCHEDEV_API __declspec(dllimport)
#elif !defined(_WIN32) && (defined(__GNUC__) || defined(__clang__))
#define SCHEDEV_API __attribute__((visibility("default")))
#else
#define SCHEDEV_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Version ----------------------------------------------------------------------------------------------------- */

/** The major version of this header. */
#define SCHEDEV_VERSION_MAJOR 0

/** The minor version of this header. */
#define SCHEDEV_VERSION_MINOR 1

/** The patch version of this header. */
#define SCHEDEV_VERSION_PATCH 0

/** The version of this header, such as "0.1.0". */
#define SCHEDEV_VERSION_STRING "0.1.0"

/** The version of this header as a number, for #if: 100 for version 0.1.0, 10203 for version 1.2.3. */
#define SCHEDEV_VERSION_NUMBER (SCHEDEV_VERSION_MAJOR * 10000 + SCHEDEV_VERSION_MINOR * 100 + SCHEDEV_VERSION_PATCH)

/**
 * Returns the version of the library at run time, such as "0.1.0". SCHEDEV_VERSION_STRING is the version of the header.
 *
 * @return a static string.
 */
SCHEDEV_API const char *schedev_version_string(void);

/**
 * Returns the version of the library at run time, as SCHEDEV_VERSION_NUMBER counts it.
 *
 * @return 10000 * major + 100 * minor + patch.
 */
SCHEDEV_API uint32_t schedev_version_number(void);

/* ---- Requests ---------------------------------------------------------------------------------------------------- */

/** The address of the metadata service on every machine. */
#define SCHEDEV_ENDPOINT "http://169.254.169.254"

/** The path of the document, for GET, and of approvals, for POST. "?api-version=" and a version follow. */
#define SCHEDEV_PATH "/metadata/scheduledevents"

/** The newest documented version of the API. */
#define SCHEDEV_API_VERSION "2020-07-01"

/** The API version from which on documents have advice, in preview: not every service knows it. */
#define SCHEDEV_ADVICE_API_VERSION "2024-07-09"

/** The path and the query of the name of this machine, as Resources spell it. The response is one line of text. */
#define SCHEDEV_NAME_PATH "/metadata/instance/compute/name?api-version=2021-02-01&format=text"

/** The path and the query of the id of this machine, which a clone does not have. The response is one line of text. */
#define SCHEDEV_VM_ID_PATH "/metadata/instance/compute/vmId?api-version=2021-02-01&format=text"

/** The name of the header that every request needs. */
#define SCHEDEV_HEADER_NAME "Metadata"

/** The value of that header. */
#define SCHEDEV_HEADER_VALUE "true"

/* ---- Status ------------------------------------------------------------------------------------------------------ */

/**
 * The result of a call. 0 is success, 1 is the end of an iteration, and everything else is an error. A call that fails
 * writes nothing but `needed` and a schedev_error.
 *
 * The numbers never change. Later versions may add some: treat an unknown number as an error.
 */
typedef enum schedev_status {
  /** Success. */
  SCHEDEV_OK = 0,
  /** No more items, or no item at this index. Not an error. */
  SCHEDEV_END = 1,
  /** A pointer is NULL that must not be, or NULL was passed with a length that is not 0. */
  SCHEDEV_ERROR_NULL = 2,
  /** An argument has an invalid value; or an object is not initialised; or a cursor belongs to another object. */
  SCHEDEV_ERROR_ARGUMENT = 3,
  /** A text is not UTF-8. */
  SCHEDEV_ERROR_UTF8 = 4,
  /** The buffer is too small for the result; `needed` has the size. */
  SCHEDEV_ERROR_BUFFER_TOO_SMALL = 5,
  /** The bytes are not a Scheduled Events document. The schedev_error says what is wrong and where. */
  SCHEDEV_ERROR_PARSE = 6,
  /** The text is not a valid time. */
  SCHEDEV_ERROR_TIME = 7,
  /** The policy has more than SCHEDEV_RULES_MAX rules. */
  SCHEDEV_ERROR_TOO_MANY_RULES = 8,
  /** There are more than SCHEDEV_NAMES_MAX names. */
  SCHEDEV_ERROR_TOO_MANY_NAMES = 9,
  /** A name has more than SCHEDEV_NAME_MAX_BYTES bytes. */
  SCHEDEV_ERROR_NAME_TOO_LONG = 10,
  /** The interval is shorter than SCHEDEV_INTERVAL_MIN_MS. */
  SCHEDEV_ERROR_INTERVAL_TOO_SHORT = 11,
  /** The memory is too small for the object. */
  SCHEDEV_ERROR_MEMORY_TOO_SMALL = 12,
  /** The document has more events than the tracker can hold. The tracker is unchanged. */
  SCHEDEV_ERROR_TRACKER_FULL = 13,
  /** There is no such event, or no step with this attempt number waits for this answer. */
  SCHEDEV_ERROR_UNKNOWN_EVENT = 14,
  /** The snapshot is incomplete, was changed, or is not a snapshot. */
  SCHEDEV_ERROR_SNAPSHOT_DAMAGED = 15,
  /** The snapshot was written by a later version of this library. */
  SCHEDEV_ERROR_SNAPSHOT_VERSION = 16,
  /** A preparation or a recovery is pending for more events than a session can hold. */
  SCHEDEV_ERROR_SNAPSHOT_TOO_MANY_EVENTS = 17,
  /** Another machine wrote the snapshot: the disk was cloned. */
  SCHEDEV_ERROR_SNAPSHOT_OTHER_MACHINE = 18,
  /** Azure refuses the notification profile or its time-out. The schedev_error has the schedev_profile_rule. */
  SCHEDEV_ERROR_PROFILE = 19,
  /** The text is not the id of a machine, a scale set or an availability set in Azure Resource Manager. */
  SCHEDEV_ERROR_RESOURCE_ID = 20,
  /** The id of an event is not a GUID. */
  SCHEDEV_ERROR_EVENT_ID = 21,
  /** A bug in this library was caught. Initialise the objects that were passed again. */
  SCHEDEV_ERROR_INTERNAL = 255,
} schedev_status;

/**
 * Returns a status as a message for people.
 *
 * @param code  a schedev_status, or any other number.
 * @return a static string, never NULL.
 */
SCHEDEV_API const char *schedev_status_message(uint32_t code);

/* ---- Texts ------------------------------------------------------------------------------------------------------- */

/**
 * A view of UTF-8 bytes that are kept elsewhere, without a NUL at the end. If the length is 0, the pointer may be NULL.
 *
 * Texts of a document point into the document's bytes. If `escaped` is false, which is the case for all documents that
 * Azure is known to send, the bytes are the characters. If it is true, the bytes have JSON escapes, such as a
 * backslash and an n for a line feed:
 * schedev_text_copy() decodes them, and every function that takes a text accepts them.
 */
typedef struct schedev_text {
  /** The first byte. */
  const char *data;
  /** The length in bytes. */
  size_t len;
  /** Whether the bytes have JSON escapes. */
  bool escaped;
} schedev_text;

/**
 * Returns a view of a C string.
 *
 * @param string  ends with NUL and must outlive the text; NULL is the empty text.
 * @return the view, without the NUL.
 */
SCHEDEV_API schedev_text schedev_text_from(const char *string);

/**
 * Copies a text and decodes its escapes.
 *
 * To get the size first, pass NULL and 0: the call returns SCHEDEV_ERROR_BUFFER_TOO_SMALL, or SCHEDEV_OK for an empty
 * text. A buffer of `needed` + 1 bytes holds the NUL, too. A decoded text can contain NUL characters itself.
 *
 * @param text      the text.
 * @param buffer    receives the text, and a NUL after it if a byte is left; NULL if capacity is 0.
 * @param capacity  the size of the buffer in bytes.
 * @param needed    receives the length of the decoded text in bytes, without the NUL, even if the buffer is too small.
 * @return SCHEDEV_OK; SCHEDEV_ERROR_BUFFER_TOO_SMALL, and the buffer is unchanged; SCHEDEV_ERROR_NULL;
 *         SCHEDEV_ERROR_UTF8.
 */
SCHEDEV_MUST_USE
SCHEDEV_API schedev_status schedev_text_copy(schedev_text text, char *buffer, size_t capacity, size_t *needed);

/**
 * Copies a text as schedev_text_copy() does, and escapes what could act on a terminal, forge a line of a log, or hide or reorder the
 * text around it: an ESC becomes a
 * backslash and u{1b}. Print texts of events in this form only.
 *
 * @param text      the text.
 * @param buffer    receives the text, and a NUL after it if a byte is left; NULL if capacity is 0.
 * @param capacity  the size of the buffer in bytes.
 * @param needed    receives the length of the text in bytes, without the NUL, even if the buffer is too small.
 * @return SCHEDEV_OK; SCHEDEV_ERROR_BUFFER_TOO_SMALL, and the buffer is unchanged; SCHEDEV_ERROR_NULL;
 *         SCHEDEV_ERROR_UTF8.
 */
SCHEDEV_MUST_USE
SCHEDEV_API schedev_status schedev_text_copy_printable(schedev_text text, char *buffer, size_t capacity,
                                                       size_t *needed);

/**
 * Whether a text, decoded, equals these bytes.
 *
 * @param text  the text.
 * @param name  the bytes to compare with; NULL if len is 0.
 * @param len   the length of name.
 * @return true if they are equal; false if name is NULL and len is not 0.
 */
SCHEDEV_API bool schedev_text_equal(schedev_text text, const char *name, size_t len);

/**
 * Whether a text, decoded, equals these bytes if ASCII case is ignored. Azure compares event ids and names of machines
 * in this way.
 *
 * @param text  the text.
 * @param name  the bytes to compare with; NULL if len is 0.
 * @param len   the length of name.
 * @return true if they are equal; false if name is NULL and len is not 0.
 */
SCHEDEV_API bool schedev_text_equal_ignore_case(schedev_text text, const char *name, size_t len);

/* ---- Times ------------------------------------------------------------------------------------------------------- */

/**
 * Parses a time: RFC 1123 ("Mon, 19 Sep 2016 18:29:47 GMT") or ISO 8601 ("2018-04-12T16:58:30.1458776Z"). Fractions of a
 * second are cut off. A time with an offset is converted to UTC; one without an offset is UTC.
 *
 * @param data     the text, UTF-8; NULL if len is 0.
 * @param len      its length in bytes.
 * @param seconds  receives the seconds since 1970-01-01T00:00:00Z, without leap seconds.
 * @return SCHEDEV_OK; SCHEDEV_ERROR_TIME if it is not a valid time; SCHEDEV_ERROR_UTF8; SCHEDEV_ERROR_NULL.
 */
SCHEDEV_MUST_USE
SCHEDEV_API schedev_status schedev_time_parse(const char *data, size_t len, int64_t *seconds);

/**
 * Formats a time as RFC 3339 in UTC, such as "2022-04-11T22:26:58Z".
 *
 * @param seconds   the seconds since 1970-01-01T00:00:00Z.
 * @param buffer    receives the text, and a NUL after it if a byte is left; NULL if capacity is 0.
 * @param capacity  the size of the buffer in bytes; 32 bytes are enough for every time.
 * @param needed    receives the length of the text in bytes, without the NUL, even if the buffer is too small.
 * @return SCHEDEV_OK; SCHEDEV_ERROR_BUFFER_TOO_SMALL; SCHEDEV_ERROR_NULL.
 */
SCHEDEV_MUST_USE
SCHEDEV_API schedev_status schedev_time_format(int64_t seconds, char *buffer, size_t capacity, size_t *needed);

/* ---- Errors ------------------------------------------------------------------------------------------------------ */

/** Why a document is refused. */
typedef enum schedev_parse_error {
  /** No error. */
  SCHEDEV_PARSE_ERROR_NONE = 0,
  /** The input ends before the document does: it is truncated, or empty. */
  SCHEDEV_PARSE_ERROR_UNEXPECTED_END = 1,
  /** A byte that JSON does not allow there. */
  SCHEDEV_PARSE_ERROR_UNEXPECTED_BYTE = 2,
  /** A byte below 0x20 inside a string. */
  SCHEDEV_PARSE_ERROR_CONTROL_CHARACTER = 3,
  /** A backslash that does not start an escape of RFC 8259. */
  SCHEDEV_PARSE_ERROR_INVALID_ESCAPE = 4,
  /** An escape of one half of a surrogate pair without the other. */
  SCHEDEV_PARSE_ERROR_LONE_SURROGATE = 5,
  /** Bytes that are not UTF-8. */
  SCHEDEV_PARSE_ERROR_INVALID_UTF8 = 6,
  /** A number that JSON does not allow, such as "01" or "1.". */
  SCHEDEV_PARSE_ERROR_INVALID_NUMBER = 7,
  /** More than 32 nested objects and arrays. */
  SCHEDEV_PARSE_ERROR_TOO_DEEP = 8,
  /** The document is not an object. */
  SCHEDEV_PARSE_ERROR_NOT_AN_OBJECT = 9,
  /** The document has no "Events", or it is not an array. */
  SCHEDEV_PARSE_ERROR_NO_EVENTS = 10,
  /** An object has a known member twice. */
  SCHEDEV_PARSE_ERROR_REPEATED_MEMBER = 11,
  /** Data after the end of the document. */
  SCHEDEV_PARSE_ERROR_TRAILING_DATA = 12,
  /** A kind that this version of the header does not name. */
  SCHEDEV_PARSE_ERROR_OTHER = 255,
} schedev_parse_error;

/** The size of schedev_error.message, the NUL included. No message is longer. */
#define SCHEDEV_ERROR_MESSAGE_MAX_BYTES 128

/**
 * Why a document is refused, and where, if a function returns SCHEDEV_ERROR_PARSE; or the rule by which a profile is refused,
 * if it returns SCHEDEV_ERROR_PROFILE, which has no position: line, column and offset are 0. Otherwise it is not written.
 */
typedef struct schedev_error {
  /** A schedev_parse_error or a schedev_profile_rule. No number is in both. */
  uint32_t kind;
  /** The line, from 1. Lines end with a line feed. */
  uint32_t line;
  /** The column in characters, from 1. A byte order mark is not counted. */
  uint32_t column;
  /** The offset of the invalid byte; the length of the input if it is truncated. */
  size_t offset;
  /**
   * What was found and what was expected, in printable ASCII and with a NUL at its end: read it with
   * schedev_error_message().
   */
  char message[SCHEDEV_ERROR_MESSAGE_MAX_BYTES];
  /** For later versions: zero. */
  uint64_t reserved[2];
} schedev_error;

/**
 * Returns what is wrong as a message for people, without the position: what was found and what was expected.
 *
 * @param error  the error; NULL is no error.
 * @return a string, never NULL: the error's own message, valid as long as the error, or a static one.
 */
SCHEDEV_API const char *schedev_error_message(const schedev_error *error);

/**
 * Returns a schedev_parse_error as a word, such as "unexpected-byte".
 *
 * @param kind  a schedev_parse_error, or any other number.
 * @return a static string; "other" if the number has no word.
 */
SCHEDEV_API const char *schedev_parse_error_word(uint32_t kind);

/** A line and a column, as editors count them. */
typedef struct schedev_position {
  /** The line, from 1. Lines end with a line feed. */
  uint32_t line;
  /** The column in characters, from 1. A byte order mark is not counted. */
  uint32_t column;
} schedev_position;

/**
 * Returns the line and column of an offset, such as that of a schedev_problem. It reads the text up to there.
 *
 * @param data      the text; NULL if len is 0.
 * @param len       its length in bytes.
 * @param offset    the offset in bytes; the end of the text if it is larger than len.
 * @param position  receives the line and column.
 * @return SCHEDEV_OK; SCHEDEV_ERROR_NULL.
 */
SCHEDEV_MUST_USE
SCHEDEV_API schedev_status schedev_position_of(const char *data, size_t len, size_t offset, schedev_position *position);

/* ---- Documents --------------------------------------------------------------------------------------------------- */

/** Initialises a cursor of any type: schedev_event_cursor cursor = SCHEDEV_CURSOR_INIT; */
#define SCHEDEV_CURSOR_INIT                                                                                            \
  {                                                                                                                    \
    { 0 }                                                                                                              \
  }

/**
 * A parsed document: a view of the caller's bytes, which must stay unchanged while the document is used. Opaque. It may
 * be copied, and there is nothing to free.
 */
typedef struct schedev_document {
  /** Private. */
  uint64_t opaque[96];
} schedev_document;

/**
 * Parses a document.
 *
 * The document must be valid JSON (RFC 8259, UTF-8, with or without a byte order mark), an object with an array
 * "Events", and must not repeat a known member of an object. Everything else is tolerated: unknown members are skipped,
 * unknown words are kept, and each invalid member of an event is reported as a schedev_problem.
 *
 * The number of events and resources is not limited. The time is linear in the length, and nothing is allocated.
 *
 * @param data      the body of the HTTP response. It must outlive the document and all that is read from it.
 * @param len       its length in bytes.
 * @param document  receives the document.
 * @param error     receives what is wrong and where if the document is refused; may be NULL.
 * @return SCHEDEV_OK; SCHEDEV_ERROR_PARSE; SCHEDEV_ERROR_NULL; SCHEDEV_ERROR_ARGUMENT.
 */
SCHEDEV_MUST_USE
SCHEDEV_API schedev_status schedev_document_parse(const char *data, size_t len, schedev_document *document,
                                                  schedev_error *error);

/** The kind of an incarnation. */
typedef enum schedev_incarnation_kind {
  /** The document has no incarnation, or an invalid one. */
  SCHEDEV_INCARNATION_ABSENT = 0,
  /** An integer. */
  SCHEDEV_INCARNATION_NUMBER = 1,
  /** A string. */
  SCHEDEV_INCARNATION_TEXT = 2,
} schedev_incarnation_kind;

/**
 * The document's incarnation, which changes whenever the document changes. Compare it for equality only: it skips
 * numbers, and it starts again after a day without polls.
 */
typedef struct schedev_incarnation {
  /** A schedev_incarnation_kind. */
  uint32_t kind;
  /** The integer; 0 for other kinds. */
  uint64_t number;
  /** The string; empty for other kinds. */
  schedev_text text;
  /** For later versions: zero. */
  uint64_t reserved[2];
} schedev_incarnation;

/**
 * Returns the document's incarnation.
 *
 * @param document     the document.
 * @param incarnation  receives the incarnation.
 * @return SCHEDEV_OK; SCHEDEV_ERROR_NULL; SCHEDEV_ERROR_ARGUMENT if the document is not initialised.
 */
SCHEDEV_MUST_USE
SCHEDEV_API schedev_status schedev_document_incarnation(const schedev_document *document,
                                                        schedev_incarnation *incarnation);

/**
 * Returns the number of events that schedev_document_next() gives.
 *
 * @param document  the document.
 * @return the number; 0 if document is NULL or not initialised.
 */
SCHEDEV_API size_t schedev_document_event_count(const schedev_document *document);

/* ---- Events ------------------------------------------------------------------------------------------------------ */

/** The longest EventId, in bytes. Azure's are GUIDs of 36. */
#define SCHEDEV_EVENT_ID_MAX_BYTES 64

/** What happens to the machine. */
typedef enum schedev_event_type {
  /** The event has no type. */
  SCHEDEV_EVENT_TYPE_NONE = 0,
  /** The machine pauses for a few seconds. Memory, open files and connections are kept. */
  SCHEDEV_EVENT_TYPE_FREEZE = 1,
  /** The machine restarts. Memory is lost. */
  SCHEDEV_EVENT_TYPE_REBOOT = 2,
  /** The machine moves to another host. Memory and temporary disks are lost. */
  SCHEDEV_EVENT_TYPE_REDEPLOY = 3,
  /** The spot machine is evicted, with a notice of at least 30 seconds. Temporary disks are lost. */
  SCHEDEV_EVENT_TYPE_PREEMPT = 4,
  /** The machine is deleted. */
  SCHEDEV_EVENT_TYPE_TERMINATE = 5,
  /** Advice: the spot machine may be evicted soon, or not at all. */
  SCHEDEV_EVENT_TYPE_SPOT_REBALANCE_RECOMMENDATION = 6,
  /** A type that this library does not know. See event_type_text. */
  SCHEDEV_EVENT_TYPE_OTHER = 255,
} schedev_event_type;

/** The progress of an event. An event that is over is no longer in the document. */
typedef enum schedev_event_status {
  /** The event has no status. */
  SCHEDEV_EVENT_STATUS_NONE = 0,
  /** Announced. It can be approved. */
  SCHEDEV_EVENT_STATUS_SCHEDULED = 1,
  /** In progress. */
  SCHEDEV_EVENT_STATUS_STARTED = 2,
  /** Advice, which never starts. */
  SCHEDEV_EVENT_STATUS_ADVISORY = 3,
  /** A status that this library does not know. See event_status_text. */
  SCHEDEV_EVENT_STATUS_OTHER = 255,
} schedev_event_status;

/** Who caused an event. */
typedef enum schedev_event_source {
  /** The event has no source. */
  SCHEDEV_EVENT_SOURCE_NONE = 0,
  /** Azure. */
  SCHEDEV_EVENT_SOURCE_PLATFORM = 1,
  /** A user who has access to the machine's resource. */
  SCHEDEV_EVENT_SOURCE_USER = 2,
  /** A source that this library does not know. See event_source_text. */
  SCHEDEV_EVENT_SOURCE_OTHER = 255,
} schedev_event_source;

/**
 * Returns a schedev_event_type as a word, such as "Freeze".
 *
 * @param event_type  a schedev_event_type, or any other number.
 * @return a static string; "other" if the number has no word.
 */
SCHEDEV_API const char *schedev_event_type_word(uint32_t event_type);

/**
 * Returns a schedev_event_status as a word, such as "Scheduled".
 *
 * @param status  a schedev_event_status, or any other number.
 * @return a static string; "other" if the number has no word.
 */
SCHEDEV_API const char *schedev_event_status_word(uint32_t status);

/**
 * Returns a schedev_event_source as a word, such as "Platform".
 *
 * @param source  a schedev_event_source, or any other number.
 * @return a static string; "other" if the number has no word.
 */
SCHEDEV_API const char *schedev_event_source_word(uint32_t source);

/**
 * One event: a maintenance, an eviction or a deletion of one or more machines.
 *
 * Texts are views of the document's bytes. Members that are absent or invalid in the document are empty here; invalid
 * ones are also reported as schedev_problem. The struct may be copied. Writing to its members has no effect on functions
 * that take an event, such as schedev_decide(): they read the document.
 */
typedef struct schedev_event {
  /** EventId. It identifies the event for its whole life. Compare it ignoring ASCII case. */
  schedev_text event_id;
  /** EventType, as the document spells it. */
  schedev_text event_type_text;
  /** EventStatus, as the document spells it. */
  schedev_text event_status_text;
  /** EventSource, as the document spells it. */
  schedev_text event_source_text;
  /** ResourceType: "VirtualMachine". */
  schedev_text resource_type;
  /** Description: a sentence for people. */
  schedev_text description;
  /** NotBefore as the document spells it, if it is not a valid time. */
  schedev_text not_before_unreadable;
  /**
   * NotBefore: the event does not start before this time unless it is approved. Seconds since 1970-01-01T00:00:00Z,
   * if has_not_before.
   */
  int64_t not_before_seconds;
  /** The index of the event in Events, elements that are left out counted, from 0. */
  size_t index;
  /** EventType: a schedev_event_type. */
  uint32_t event_type;
  /** EventStatus: a schedev_event_status. */
  uint32_t event_status;
  /** EventSource: a schedev_event_source. */
  uint32_t event_source;
  /** DurationInSeconds: the expected length of the interruption, if has_duration. */
  uint32_t duration_seconds;
  /**
   * The first invalid member among those that decisions depend on: a schedev_member, SCHEDEV_MEMBER_NONE if all are
   * valid. An event with an invalid one is never approved, whatever the policy.
   */
  uint32_t unreliable_member;
  /** Whether NotBefore is known. It is blank after the start of the event. */
  bool has_not_before;
  /** Whether the duration is known. Azure writes -1 if it is not. */
  bool has_duration;
  /** Whether the event has a ResourceType. */
  bool has_resource_type;
  /** Whether the event has Resources. */
  bool has_resources;
  /** Whether the event has a Description. */
  bool has_description;
  /**
   * Whether it is advice and no maintenance: the type is SPOT_REBALANCE_RECOMMENDATION, or the status ADVISORY. There is nothing
   * to approve.
   */
  bool advice;
  /** Private. */
  uint64_t opaque[48];
} schedev_event;

/**
 * A position among the events of a document. Opaque; initialise it with SCHEDEV_CURSOR_INIT. It may be copied.
 *
 * Start a new cursor for each document. A cursor of another document is refused with SCHEDEV_ERROR_ARGUMENT, unless that
 * document was in the same memory with the same length and incarnation: then which events follow is unspecified.
 */
typedef struct schedev_event_cursor {
  /** Private. */
  uint64_t opaque[8];
} schedev_event_cursor;

/**
 * Gives the next event, in the order of the document. Elements of Events that are not objects, have no EventId or repeat
 * one are left out; schedev_document_next_problem() reports them. Only the first 64 ids of a document are compared; trackers
 * and sessions compare all of them.
 *
 * Nothing is stored, so that each event but the first is read a second time.
 *
 * @param document  the document.
 * @param cursor    the position, which moves to the next event. Start with SCHEDEV_CURSOR_INIT.
 * @param event     receives the event.
 * @return SCHEDEV_OK; SCHEDEV_END after the last event; SCHEDEV_ERROR_NULL; SCHEDEV_ERROR_ARGUMENT if the document or
 *         the cursor is not initialised, or if the cursor belongs to another document.
 */
SCHEDEV_MUST_USE
SCHEDEV_API schedev_status schedev_document_next(const schedev_document *document, schedev_event_cursor *cursor,
                                                 schedev_event *event);

/**
 * Finds the event of this id: the first one, ASCII case ignored. With the id of a schedev_tracked_event and the newest
 * document, it returns what sessions and trackers do not keep, such as Description and Resources.
 *
 * @param document  the document.
 * @param event_id  the id.
 * @param event     receives the event.
 * @return SCHEDEV_OK; SCHEDEV_END if there is no such event; SCHEDEV_ERROR_NULL; SCHEDEV_ERROR_UTF8; SCHEDEV_ERROR_ARGUMENT
 *         if the document is not initialised.
 */
SCHEDEV_MUST_USE
SCHEDEV_API schedev_status schedev_document_find(const schedev_document *document, schedev_text event_id,
                                                 schedev_event *event);

/**
 * Returns one name of the event's Resources. Elements that are not strings are not counted.
 *
 * A loop from 0 upwards reads Resources once, because the event remembers its position; that is why it is not const. A
 * lower index starts from the beginning again. schedev_event_next_resources() does the same for a const event.
 *
 * @param event  the event.
 * @param index  the index of the name, from 0.
 * @param name   receives the name.
 * @return SCHEDEV_OK; SCHEDEV_END if there are fewer names; SCHEDEV_ERROR_NULL; SCHEDEV_ERROR_ARGUMENT if the event is
 *         not initialised.
 */
SCHEDEV_MUST_USE
SCHEDEV_API schedev_status schedev_event_resource(schedev_event *event, size_t index, schedev_text *name);

/**
 * A position among the Resources of an event. Opaque; initialise it with SCHEDEV_CURSOR_INIT. It may be copied.
 *
 * Start a new cursor for each event. A cursor of another event is refused with SCHEDEV_ERROR_ARGUMENT, unless that event
 * was parsed from the same memory.
 */
typedef struct schedev_resource_cursor {
  /** Private. */
  uint64_t opaque[10];
} schedev_resource_cursor;

/**
 * Gives the next names of the event's Resources, as many as the array holds. Elements that are not strings are skipped.
 *
 * @param event     the event.
 * @param cursor    the position, which moves on. Start with SCHEDEV_CURSOR_INIT.
 * @param names     receives the names.
 * @param capacity  the number of names that the array holds, at least 1.
 * @param count     receives the number of names written, at least 1. If it is less than capacity, there are no more.
 * @return SCHEDEV_OK; SCHEDEV_END after the last name; SCHEDEV_ERROR_NULL; SCHEDEV_ERROR_ARGUMENT if the event or the
 *         cursor is not initialised, if the cursor belongs to another event, or if capacity is 0.
 */
SCHEDEV_MUST_USE
SCHEDEV_API schedev_status schedev_event_next_resources(const schedev_event *event, schedev_resource_cursor *cursor,
                                                        schedev_text *names, size_t capacity, size_t *count);

/* ---- Problems ---------------------------------------------------------------------------------------------------- */

/** The members that documents and events define. */
typedef enum schedev_member {
  /** No member. */
  SCHEDEV_MEMBER_NONE = 0,
  SCHEDEV_MEMBER_EVENT_ID = 1,
  SCHEDEV_MEMBER_EVENT_STATUS = 2,
  SCHEDEV_MEMBER_EVENT_TYPE = 3,
  SCHEDEV_MEMBER_RESOURCE_TYPE = 4,
  SCHEDEV_MEMBER_RESOURCES = 5,
  SCHEDEV_MEMBER_NOT_BEFORE = 6,
  SCHEDEV_MEMBER_DESCRIPTION = 7,
  SCHEDEV_MEMBER_EVENT_SOURCE = 8,
  SCHEDEV_MEMBER_DURATION_IN_SECONDS = 9,
  SCHEDEV_MEMBER_DOCUMENT_INCARNATION = 10,
  SCHEDEV_MEMBER_EVENTS = 11,
  /** A member that this version of the header does not name. */
  SCHEDEV_MEMBER_OTHER = 255,
} schedev_member;

/**
 * Returns the name of a member as documents spell it, such as "EventId".
 *
 * @param member  a schedev_member, or any other number.
 * @return a static string; empty if the number has no name.
 */
SCHEDEV_API const char *schedev_member_name(uint32_t member);

/** What is wrong with a member. */
typedef enum schedev_problem_kind {
  /** The event has no EventId. It is left out. */
  SCHEDEV_PROBLEM_MISSING = 1,
  /**
   * An earlier event of the document has the same EventId. This one is left out. Only the first 64 ids of a document are
   * compared.
   */
  SCHEDEV_PROBLEM_REPEATED = 2,
  /** The EventId, the EventType or the EventStatus is empty. An empty type or status is read as absent. */
  SCHEDEV_PROBLEM_EMPTY = 3,
  /** The EventId has more than SCHEDEV_EVENT_ID_MAX_BYTES bytes. */
  SCHEDEV_PROBLEM_TOO_LONG = 4,
  /** The value has the wrong JSON type. */
  SCHEDEV_PROBLEM_WRONG_TYPE = 5,
  /** An element of Events is not an object. It is left out. */
  SCHEDEV_PROBLEM_NOT_AN_OBJECT = 6,
  /** The number is outside the range that its meaning allows. */
  SCHEDEV_PROBLEM_OUT_OF_RANGE = 7,
  /** The value is not an integer: a number with a fraction, or a string that is not a number. */
  SCHEDEV_PROBLEM_NOT_AN_INTEGER = 8,
  /** NotBefore is neither an RFC 1123 nor an ISO 8601 time, or a date that does not exist. */
  SCHEDEV_PROBLEM_UNREADABLE_TIME = 9,
  /** A kind that this version of the header does not name. */
  SCHEDEV_PROBLEM_OTHER = 255,
} schedev_problem_kind;

/**
 * Returns a schedev_problem_kind as a word, such as "unreadable-time".
 *
 * @param kind  a schedev_problem_kind, or any other number.
 * @return a static string; "other" if the number has no word.
 */
SCHEDEV_API const char *schedev_problem_kind_word(uint32_t kind);

/**
 * An invalid part of a document: a member of an event, a member of the document, or an element of Events. The rest of
 * the document is used.
 */
typedef struct schedev_problem {
  /** A schedev_problem_kind. */
  uint32_t kind;
  /** A schedev_member; SCHEDEV_MEMBER_NONE if the problem is not in a member, as for an element that is not an object. */
  uint32_t member;
  /** The index of the event in Events, elements that are left out counted, from 0. */
  size_t event_index;
  /** The offset of the invalid value in the document, or of the event if a member is missing. */
  size_t offset;
  /** Whether the problem is in an event, not in the document itself. */
  bool has_event;
  /** For later versions: zero. */
  uint64_t reserved[2];
} schedev_problem;

/**
 * A position among the problems of a document. Opaque; initialise it with SCHEDEV_CURSOR_INIT. It may be copied. As for
 * schedev_event_cursor, start a new one for each document.
 */
typedef struct schedev_problem_cursor {
  /** Private. */
  uint64_t opaque[128];
} schedev_problem_cursor;

/**
 * Gives the next problem: those of the document itself first, then those of each event, in the order of the document.
 *
 * @param document  the document.
 * @param cursor    the position, which moves to the next problem. Start with SCHEDEV_CURSOR_INIT.
 * @param problem   receives the problem.
 * @return SCHEDEV_OK; SCHEDEV_END after the last problem; SCHEDEV_ERROR_NULL; SCHEDEV_ERROR_ARGUMENT if the document or
 *         the cursor is not initialised, or if the cursor belongs to another document.
 */
SCHEDEV_MUST_USE
SCHEDEV_API schedev_status schedev_document_next_problem(const schedev_document *document,
                                                         schedev_problem_cursor *cursor, schedev_problem *problem);

/* ---- Names of this machine --------------------------------------------------------------------------------------- */

/** The maximum number of names of a machine. */
#define SCHEDEV_NAMES_MAX 8

/** The longest name, in bytes. */
#define SCHEDEV_NAME_MAX_BYTES 128

/**
 * The names of this machine in Resources. If there are none, or if a NULL takes the place of the struct, the names are
 * unknown: it is unknown which events concern this machine, and nothing is approved. An empty name is refused with
 * SCHEDEV_ERROR_ARGUMENT. Initialise the struct with SCHEDEV_NAMES_INIT, or zero it first.
 *
 * Resources are resource names, not host names: the name of the VM, or {scale-set}_{instance-id} in a uniform scale set.
 * The metadata service returns it at /metadata/instance/compute/name. Names are compared as a whole, ignoring ASCII case.
 */
typedef struct schedev_names {
  /** The names, at most SCHEDEV_NAMES_MAX of at most SCHEDEV_NAME_MAX_BYTES bytes each; NULL if there are none. */
  const schedev_text *items;
  /** The number of names. */
  size_t count;
  /** Whether documents put a "_" before each name in Resources, as API version 2017-03-01 does. */
  bool underscored;
  /** For later versions: zero. */
  uint64_t reserved[2];
} schedev_names;

/** Initialises the names of this machine from an array of texts. */
#define SCHEDEV_NAMES_INIT(items, count)                                                                               \
  {                                                                                                                    \
    (items), (count), false, { 0 }                                                                                     \
  }

/**
 * Returns the position of this machine in the event's Resources.
 *
 * @param event  the event.
 * @param names  the names of this machine; NULL if they are unknown.
 * @param rank   receives the index of the first of these names, from 0.
 * @return SCHEDEV_OK; SCHEDEV_END if the event does not name this machine, or if the names are unknown;
 *         SCHEDEV_ERROR_NULL; SCHEDEV_ERROR_ARGUMENT; SCHEDEV_ERROR_UTF8; SCHEDEV_ERROR_TOO_MANY_NAMES;
 *         SCHEDEV_ERROR_NAME_TOO_LONG.
 */
SCHEDEV_MUST_USE
SCHEDEV_API schedev_status schedev_event_rank(const schedev_event *event, const schedev_names *names, size_t *rank);

/* ---- Policies and decisions -------------------------------------------------------------------------------------- */

/** The maximum number of rules of a policy. */
#define SCHEDEV_RULES_MAX 32

/** What to do about an event. */
typedef enum schedev_action {
  /** Report it; never approve it. */
  SCHEDEV_ACTION_HOLD = 0,
  /** Approve it now. */
  SCHEDEV_ACTION_APPROVE = 1,
  /** Prepare for it, and approve it when the host reports that it is ready. */
  SCHEDEV_ACTION_PREPARE = 2,
  /** Neither prepare nor approve it. */
  SCHEDEV_ACTION_IGNORE = 3,
} schedev_action;

/** Whose events a rule matches. */
typedef enum schedev_scope {
  /** Events whose Resources name this machine. */
  SCHEDEV_SCOPE_MINE = 0,
  /** Events whose Resources do not. */
  SCHEDEV_SCOPE_OTHERS = 1,
  /** All events. */
  SCHEDEV_SCOPE_ANY = 2,
} schedev_scope;

/** Which machine approves an event that names several machines. One approval is for all of them. */
typedef enum schedev_leader {
  /**
   * Not set: SCHEDEV_LEADER_FIRST_RESOURCE for rules with SCHEDEV_ACTION_APPROVE. With SCHEDEV_ACTION_PREPARE, the event
   * is prepared for and not approved, because nobody knows whether the other machines are ready.
   */
  SCHEDEV_LEADER_NOT_SET = 0,
  /** Each machine after a delay: the i-th in Resources, from 0, waits i times take_over_after_seconds. */
  SCHEDEV_LEADER_RANK = 1,
  /** Every machine. */
  SCHEDEV_LEADER_EVERYONE = 2,
  /** The first machine in Resources. If it is down, the event starts at NotBefore. */
  SCHEDEV_LEADER_FIRST_RESOURCE = 3,
} schedev_leader;

/**
 * Returns a schedev_scope as a word, such as "mine".
 *
 * @param scope  a schedev_scope, or any other number.
 * @return a static string; "unknown" if the number has no word.
 */
SCHEDEV_API const char *schedev_scope_word(uint32_t scope);

/**
 * Returns a schedev_leader as a word, such as "first-resource".
 *
 * @param leader  a schedev_leader, or any other number.
 * @return a static string; "unknown" if the number has no word.
 */
SCHEDEV_API const char *schedev_leader_word(uint32_t leader);

/** Event types that a rule matches; combine them with |. 0 matches every type but advice. */
typedef enum schedev_match_type {
  /** Every type but advice. */
  SCHEDEV_MATCH_TYPE_ANY = 0,
  SCHEDEV_MATCH_TYPE_FREEZE = 1,
  SCHEDEV_MATCH_TYPE_REBOOT = 2,
  SCHEDEV_MATCH_TYPE_REDEPLOY = 4,
  SCHEDEV_MATCH_TYPE_PREEMPT = 8,
  SCHEDEV_MATCH_TYPE_TERMINATE = 16,
  /** Every other word. */
  SCHEDEV_MATCH_TYPE_OTHER = 32,
  /** Advice, whatever its type. ANY and OTHER do not match it. */
  SCHEDEV_MATCH_TYPE_SPOT_REBALANCE_RECOMMENDATION = 64,
} schedev_match_type;

/** Event sources that a rule matches; combine them with |. 0 matches every source, and events without one. */
typedef enum schedev_match_source {
  SCHEDEV_MATCH_SOURCE_ANY = 0,
  SCHEDEV_MATCH_SOURCE_PLATFORM = 1,
  SCHEDEV_MATCH_SOURCE_USER = 2,
  /** Every other word. */
  SCHEDEV_MATCH_SOURCE_OTHER = 4,
} schedev_match_source;

/** One rule. It matches an event if all its conditions do. Zero it first: a zeroed rule holds every event of this machine. */
typedef struct schedev_rule {
  /** What to do: a schedev_action. */
  uint32_t action;
  /** Whose events: a schedev_scope. */
  uint32_t scope;
  /** Event types: schedev_match_type, combined with |. */
  uint32_t event_types;
  /** Event sources: schedev_match_source, combined with |. */
  uint32_t event_sources;
  /** The shortest duration, inclusive, if has_min_duration. An unknown duration never matches a range. */
  uint32_t min_duration_seconds;
  /** The longest duration, inclusive, if has_max_duration. */
  uint32_t max_duration_seconds;
  /** Whether there is a shortest duration. */
  bool has_min_duration;
  /** Whether there is a longest duration. */
  bool has_max_duration;
  /**
   * The shortest notice, inclusive, if has_min_notice: the time from when this NotBefore was first seen until NotBefore.
   * An unknown NotBefore never matches a range.
   */
  uint32_t min_notice_seconds;
  /** The longest notice, inclusive, if has_max_notice. */
  uint32_t max_notice_seconds;
  /**
   * How long before NotBefore the event is prepared for or approved at the earliest, if has_prepare_before. If NotBefore
   * is unknown, the event is prepared for and not approved.
   */
  uint32_t prepare_before_seconds;
  /** Whether there is a shortest notice. */
  bool has_min_notice;
  /** Whether there is a longest notice. */
  bool has_max_notice;
  /** Whether there is an earliest time. */
  bool has_prepare_before;
  /** For later versions: zero. */
  uint32_t reserved[5];
} schedev_rule;

/**
 * A list of rules; the first rule that matches an event decides about it. Initialise it with SCHEDEV_POLICY_INIT, which
 * has no rules and holds every event. The command `scheduled-events check --policy FILE.toml --as c` prints a policy file of the
 * command as a C header that defines one.
 *
 * Whatever the rules, these are never approved: an event that is not Scheduled, an event with an invalid member that
 * decisions depend on, a Terminate of another machine, and any event while the names of this machine are unknown.
 */
typedef struct schedev_policy {
  /** sizeof(schedev_policy). */
  size_t struct_size;
  /** The rules, in order; NULL if there are none. */
  const schedev_rule *rules;
  /** The number of rules, at most SCHEDEV_RULES_MAX. */
  size_t rule_count;
  /** A schedev_leader. */
  uint32_t leader;
  /** For SCHEDEV_LEADER_RANK: the delay per machine before this one in Resources. */
  uint32_t take_over_after_seconds;
} schedev_policy;

/** Initialises a policy without rules, which holds every event. */
#define SCHEDEV_POLICY_INIT                                                                                            \
  { sizeof(schedev_policy), NULL, 0, SCHEDEV_LEADER_NOT_SET, 0 }

/**
 * Returns the preset that approves nothing: it has no rules, so that every event is held.
 *
 * @return a static policy.
 */
SCHEDEV_API const schedev_policy *schedev_policy_observe(void);

/**
 * Returns the preset that is based on Microsoft's published sample: it approves events that a user caused (rule 1) and
 * freezes of at most 8 seconds (rule 2), for this machine only, and holds everything else. It is stricter than the sample:
 * an event of several machines is approved by the first of them only, and one with an invalid member is held.
 *
 * @return a static policy.
 */
SCHEDEV_API const schedev_policy *schedev_policy_sample(void);

/** Why a decision was made. */
typedef enum schedev_reason {
  /** The rule is for events that a user caused. */
  SCHEDEV_REASON_USER_INITIATED = 1,
  /** The rule has a maximum duration, and the event is shorter. */
  SCHEDEV_REASON_SHORT_INTERRUPTION = 2,
  /** The rule matches. */
  SCHEDEV_REASON_RULE = 3,
  /** This machine's event, but no rule matches. */
  SCHEDEV_REASON_NO_RULE = 4,
  /** The policy has no rules. */
  SCHEDEV_REASON_OBSERVING = 5,
  /** The event does not name this machine, and no rule matches. */
  SCHEDEV_REASON_OTHER_MACHINE = 6,
  /** It is a Terminate of another machine. */
  SCHEDEV_REASON_OTHER_MACHINES_TERMINATE = 7,
  /** The names of this machine are unknown. */
  SCHEDEV_REASON_NAME_UNKNOWN = 8,
  /** The event has no EventType. */
  SCHEDEV_REASON_TYPE_UNKNOWN = 9,
  /** The event has started. */
  SCHEDEV_REASON_ALREADY_STARTED = 10,
  /** The event has an EventStatus that this library does not know. */
  SCHEDEV_REASON_NOT_SCHEDULED = 11,
  /** A member that decisions depend on is invalid, so that the event is not approved; see the decision's member. */
  SCHEDEV_REASON_UNRELIABLE = 12,
  /** The event names several machines, and another one approves it. */
  SCHEDEV_REASON_ANOTHER_LEADS = 13,
  /**
   * The event names several machines. It is prepared for and not approved, because nobody knows whether the others are
   * ready. A gate, or the policy's leader, decides that.
   */
  SCHEDEV_REASON_SEVERAL_MACHINES = 14,
  /** The rule has prepare_before_seconds, and NotBefore is unknown: the event is not approved. */
  SCHEDEV_REASON_START_UNKNOWN = 15,
  /** The event has no EventStatus: it is not approved. It counts as announced, and may already run. */
  SCHEDEV_REASON_STATUS_UNKNOWN = 16,
  /** The event has no Resources, or an empty list. */
  SCHEDEV_REASON_NAMES_NO_MACHINE = 17,
  /** The event is advice, and no rule names its type. */
  SCHEDEV_REASON_ADVICE = 18,
  /** The event is advice, which is never approved, whatever the rule says. */
  SCHEDEV_REASON_ADVICE_UNAPPROVED = 19,
  /** A reason that this version of the header does not name. */
  SCHEDEV_REASON_OTHER = 255,
} schedev_reason;

/**
 * Returns a schedev_reason as a word, such as "no-rule".
 *
 * @param reason  a schedev_reason, or any other number.
 * @return a static string; "other" if the number has no word.
 */
SCHEDEV_API const char *schedev_reason_word(uint32_t reason);

/** What to do about an event, and why. */
typedef struct schedev_decision {
  /** A schedev_action. */
  uint32_t action;
  /** A schedev_reason. schedev_decision_reason() returns it as a message. */
  uint32_t reason;
  /** For SCHEDEV_REASON_UNRELIABLE: the invalid schedev_member. */
  uint32_t member;
  /** The number of the rule that matched, from 1; 0 if none did. */
  uint32_t rule;
  /**
   * How long this machine waits before it approves the event, counted from when it first saw the event, if
   * has_approve_after. With SCHEDEV_ACTION_PREPARE the host must be ready, too.
   */
  uint32_t approve_after_seconds;
  /** Whether this machine approves the event. */
  bool has_approve_after;
  /** Whether time_left_seconds is known. */
  bool has_time_left;
  /** Whether there is an earliest time. */
  bool has_act_from;
  /** The seconds from now to NotBefore, if has_time_left. Negative after NotBefore. */
  int64_t time_left_seconds;
  /**
   * The time before which the event is neither prepared for nor approved, in seconds since 1970-01-01T00:00:00Z, if
   * has_act_from.
   */
  int64_t act_from_seconds;
  /** For later versions: zero. */
  uint64_t reserved[3];
} schedev_decision;

/**
 * Decides what to do about an event.
 *
 * @param policy       the policy: your own, schedev_policy_observe() or schedev_policy_sample().
 * @param event        the event.
 * @param names        the names of this machine; NULL if they are unknown, and then every event is held.
 * @param now_seconds  the time, in seconds since 1970-01-01T00:00:00Z. time_left_seconds is counted from it, and so is the
 *                     notice that rules match; a session counts the notice from when it first saw this NotBefore.
 * @param decision     receives the decision.
 * @return SCHEDEV_OK; SCHEDEV_ERROR_NULL; SCHEDEV_ERROR_ARGUMENT if the policy has an invalid struct_size or
 *         unknown constants, or if the event is not initialised; SCHEDEV_ERROR_TOO_MANY_RULES;
 *         SCHEDEV_ERROR_TOO_MANY_NAMES; SCHEDEV_ERROR_NAME_TOO_LONG; SCHEDEV_ERROR_UTF8.
 */
SCHEDEV_MUST_USE
SCHEDEV_API schedev_status schedev_decide(const schedev_policy *policy, const schedev_event *event,
                                          const schedev_names *names, int64_t now_seconds, schedev_decision *decision);

/**
 * Returns the reason of a decision as a message for people, such as "short interruption".
 *
 * @param decision  the decision; NULL has no reason.
 * @return a static string; empty if there is no reason.
 */
SCHEDEV_API const char *schedev_decision_reason(const schedev_decision *decision);

/**
 * Returns a schedev_action as a word, such as "approve".
 *
 * @param action  a schedev_action, or any other number.
 * @return a static string; "unknown" if the number has no word.
 */
SCHEDEV_API const char *schedev_action_word(uint32_t action);

/* ---- Changes ----------------------------------------------------------------------------------------------------- */

/**
 * A change of an event. The first one is SCHEDULED or STARTED_WITHOUT_NOTICE. RESCHEDULED and UPDATED follow any number
 * of times, and STARTED at most once, after SCHEDULED. The last one is COMPLETED, CANCELLED or ENDED. Advice has
 * ADVISED first and ADVICE_WITHDRAWN last. A document can
 * change an event in two ways: then RESCHEDULED is reported first, and UPDATED second.
 */
typedef enum schedev_change {
  /** New, and not started. */
  SCHEDEV_CHANGE_SCHEDULED = 1,
  /** Started; it was Scheduled before. */
  SCHEDEV_CHANGE_STARTED = 2,
  /** New, and already started, as after a hardware failure. */
  SCHEDEV_CHANGE_STARTED_WITHOUT_NOTICE = 3,
  /** NotBefore changed. */
  SCHEDEV_CHANGE_RESCHEDULED = 4,
  /** Another member changed. */
  SCHEDEV_CHANGE_UPDATED = 5,
  /** Gone after it had started. */
  SCHEDEV_CHANGE_COMPLETED = 6,
  /** Gone before NotBefore, while it was Scheduled and not approved. */
  SCHEDEV_CHANGE_CANCELLED = 7,
  /** Gone while it was Scheduled, after its approval or after NotBefore: it is unknown whether it took place. */
  SCHEDEV_CHANGE_ENDED = 8,
  /** Advice is new. */
  SCHEDEV_CHANGE_ADVISED = 9,
  /** Advice is gone. What it advised of may happen all the same. */
  SCHEDEV_CHANGE_ADVICE_WITHDRAWN = 10,
} schedev_change;

/**
 * Returns a schedev_change as a word, such as "started-without-notice".
 *
 * @param change  a schedev_change, or any other number.
 * @return a static string; "unknown" if the number has no word.
 */
SCHEDEV_API const char *schedev_change_word(uint32_t change);

/**
 * What a tracker or a session keeps of an event. The texts are views of the memory of that tracker or session, valid
 * until the next call that takes it as a pointer that is not const. The other members are in the newest document, as long as
 * the event is: schedev_document_find() returns them.
 */
typedef struct schedev_tracked_event {
  /** The event's id, as first seen. An id of more than SCHEDEV_EVENT_ID_MAX_BYTES is cut and ends with a hash. */
  schedev_text event_id;
  /** The event's type as the newest document with a readable type spells it, cut to 28 bytes; empty if it has none. */
  schedev_text event_type_text;
  /**
   * The last known NotBefore, in seconds since 1970-01-01T00:00:00Z, if has_not_before. It is kept when the event
   * starts, although documents blank it then.
   */
  int64_t not_before_seconds;
  /** The expected length of the interruption in the newest document in which it is readable, if has_duration. */
  uint32_t duration_seconds;
  /** A schedev_event_status: STARTED from its start on, SCHEDULED, ADVISORY for advice, or OTHER if it never had one of these. */
  uint32_t event_status;
  /** Whether not_before_seconds is known. */
  bool has_not_before;
  /** Whether duration_seconds is known. */
  bool has_duration;
  /** Whether mine is known. It is not while the names of this machine are unknown. */
  bool has_mine;
  /** Whether the event concerns this machine, if has_mine. */
  bool mine;
  /** Whether the event was approved. */
  bool approved;
  /** For later versions: zero. */
  uint64_t reserved[4];
} schedev_tracked_event;

/* ---- Sessions ---------------------------------------------------------------------------------------------------- */

/**
 * The maximum number of events that a session follows. If a document has more, this machine's events come first; the
 * others are counted and reported.
 */
#define SCHEDEV_SESSION_EVENTS_MAX 64

/** The default time between two polls, in milliseconds. */
#define SCHEDEV_INTERVAL_MS 1000

/** The shortest time between two polls, in milliseconds. */
#define SCHEDEV_INTERVAL_MIN_MS 200

/**
 * For last_call_seconds: half of the notice before NotBefore, at most five minutes; at once for a Preempt, and for a notice of
 * less than a minute.
 */
#define SCHEDEV_LAST_CALL_STANDARD 0

/** For last_call_seconds: never. Without the gate's yes, Azure takes the machine down unprepared. */
#define SCHEDEV_LAST_CALL_NEVER 4294967295

/** For schedev_session_config: a failed preparation is given again as often as there is time. */
#define SCHEDEV_PREPARE_RETRIES_UNLIMITED 255

/**
 * The client as a state machine without I/O. Call schedev_session_next() for the next step, perform it, and pass the
 * result back. A session lives in the caller's memory, and there is nothing to free.
 *
 * A session schedules polls, reports changes, decides, asks for preparations, approves events when the host is ready,
 * retries what failed, and asks for recoveries. While a request or a preparation is in progress, it goes on with
 * everything else.
 *
 * The machine is either in service or out of service. The first preparation for one of its events takes it out of service.
 * It is recovered once nothing keeps it out: no event of this machine that was prepared for, and none that has started.
 */
typedef struct schedev_session schedev_session;

/** Where the events of a session come from. */
typedef enum schedev_session_source {
  /** The documents of the machine's metadata service, which the session polls. */
  SCHEDEV_SESSION_SOURCE_DOCUMENTS = 0,
  /**
   * Notifications outside the machine, for schedev_session_on_notification(). The session never polls. Send what
   * schedev_acknowledge_request() writes for the ids of schedev_session_posted() in place of the body of
   * SCHEDEV_STEP_POST, and pass its response on. After a restart, pass the notifications that are known, such as the rows of
   * Resource Graph, before you call schedev_session_next(). The posted events can be of the machine and of its set: send a
   * request for each of these resources, and report a failure if one fails.
   */
  SCHEDEV_SESSION_SOURCE_NOTIFICATIONS = 1,
  /**
   * Documents and notifications: an event is the same one in both. A notification makes an event known before the document
   * has it, and reports its end; in between, the document counts.
   */
  SCHEDEV_SESSION_SOURCE_BOTH = 2,
} schedev_session_source;

/**
 * The configuration of a session. Initialise it with SCHEDEV_SESSION_CONFIG_INIT: a policy that only observes, unknown
 * names and ids, one poll per second, no gate.
 */
typedef struct schedev_session_config {
  /** sizeof(schedev_session_config). */
  size_t struct_size;
  /** The policy; NULL is schedev_policy_observe(). It is copied. */
  const schedev_policy *policy;
  /** The names of this machine; NULL if they are unknown. They are copied. */
  const schedev_names *names;
  /** A number that differs between machines, such as a random one. It spreads retries over time. */
  uint64_t seed;
  /** The time between two polls in milliseconds, at least SCHEDEV_INTERVAL_MIN_MS. */
  uint32_t interval_ms;
  /** Whether to only decide and report: no preparation, no approval. */
  bool dry_run;
  /**
   * Whether to ask a gate before each preparation and each approval, with SCHEDEV_STEP_GATE. The policy's leader is
   * ignored then.
   */
  bool gate;
  /**
   * Whether to recover after every event of this machine that was seen Started, not only after those that were prepared
   * for.
   */
  bool recover_all;
  /**
   * How often a failed preparation is given again at most, for one event as it is; 0 for never, or
   * SCHEDEV_PREPARE_RETRIES_UNLIMITED.
   */
  uint8_t prepare_retries;
  /**
   * An id of this machine that a clone does not have, such as vmId in the instance metadata; empty if it is unknown. A
   * snapshot of another machine is refused. It can have any length, but no JSON escapes; only its hash is kept, in which
   * hyphens, white space and ASCII case do not count.
   */
  schedev_text machine_id;
  /**
   * An id of this boot of the machine, such as the contents of /proc/sys/kernel/random/boot_id; empty if it is unknown.
   * What was ready before a reboot is not ready after it. The limits are those of machine_id.
   */
  schedev_text boot_id;
  /**
   * Only with gate: how many seconds before NotBefore the machine prepares although the gate has not answered yes, or
   * SCHEDEV_LAST_CALL_STANDARD, or SCHEDEV_LAST_CALL_NEVER. Azure starts an event at NotBefore whether it was approved or not.
   * Approving still takes the gate's yes.
   */
  uint32_t last_call_seconds;
  /** Where events come from: a schedev_session_source. */
  uint32_t source;
  /**
   * The version of the API that every request names, at most 32 bytes without escapes. If it is empty, the session chooses:
   * SCHEDEV_API_VERSION, and SCHEDEV_ADVICE_API_VERSION for GET if needs_advice or a rule matches
   * SCHEDEV_MATCH_TYPE_SPOT_REBALANCE_RECOMMENDATION, as long as the service knows it. See api_version of schedev_step.
   */
  schedev_text api_version;
  /** Whether the program needs advice although no rule names it. */
  bool needs_advice;
} schedev_session_config;

/** Initialises a configuration. */
#define SCHEDEV_SESSION_CONFIG_INIT                                                                                    \
  {                                                                                                                    \
    sizeof(schedev_session_config), NULL, NULL, 0, SCHEDEV_INTERVAL_MS, false, false, false,                           \
        SCHEDEV_PREPARE_RETRIES_UNLIMITED, {NULL, 0, false}, {NULL, 0, false}, SCHEDEV_LAST_CALL_STANDARD,             \
        SCHEDEV_SESSION_SOURCE_DOCUMENTS, {NULL, 0, false}, false                                                      \
  }

/** Returns the size of memory that a session needs, in bytes, whatever the alignment of the memory. */
SCHEDEV_API size_t schedev_session_size(void);

/**
 * Initialises a session.
 *
 * @param memory   the memory for the session, with any alignment. It must not move while the session is used.
 * @param size     its size in bytes, at least schedev_session_size().
 * @param config   the configuration, which is copied.
 * @param session  receives the session, a pointer into that memory.
 * @return SCHEDEV_OK; SCHEDEV_ERROR_MEMORY_TOO_SMALL; SCHEDEV_ERROR_NULL; SCHEDEV_ERROR_ARGUMENT if a struct_size is
 *         invalid, a constant unknown, or if machine_id, boot_id or api_version has escapes, or api_version is too long; SCHEDEV_ERROR_INTERVAL_TOO_SHORT;
 *         SCHEDEV_ERROR_TOO_MANY_NAMES; SCHEDEV_ERROR_NAME_TOO_LONG; SCHEDEV_ERROR_TOO_MANY_RULES; SCHEDEV_ERROR_UTF8.
 */
SCHEDEV_MUST_USE
SCHEDEV_API schedev_status schedev_session_init(void *memory, size_t size, const schedev_session_config *config,
                                                schedev_session **session);

/**
 * Sets the names of this machine. The next document is decided with them, and the next notification of an event that no
 * document has shown.
 *
 * @param session  the session.
 * @param names    the names, which are copied; NULL if they are unknown.
 * @return SCHEDEV_OK; SCHEDEV_ERROR_TOO_MANY_NAMES; SCHEDEV_ERROR_NAME_TOO_LONG; SCHEDEV_ERROR_UTF8; SCHEDEV_ERROR_NULL;
 *         SCHEDEV_ERROR_ARGUMENT if the session is not initialised. After an error the names are unchanged.
 */
SCHEDEV_MUST_USE
SCHEDEV_API schedev_status schedev_session_set_names(schedev_session *session, const schedev_names *names);

/**
 * Sets another policy, such as after the operator has changed it. The events are decided again with the next document; what only
 * notifications have shown, with the next one of it. A preparation that was given goes on, and what it led to counts.
 *
 * @param session  the session.
 * @param policy   the policy, which is copied; NULL is schedev_policy_observe().
 * @return SCHEDEV_OK; SCHEDEV_ERROR_TOO_MANY_RULES; SCHEDEV_ERROR_NULL; SCHEDEV_ERROR_ARGUMENT if the session is not initialised, if
 *         struct_size is invalid, or a constant unknown. After an error the policy is unchanged.
 */
SCHEDEV_MUST_USE
SCHEDEV_API schedev_status schedev_session_set_policy(schedev_session *session, const schedev_policy *policy);

/**
 * Sets the id of this machine, if it was not known to schedev_session_init(): the metadata service may not have answered then.
 *
 * @param session     the session.
 * @param machine_id  the id, as in schedev_session_config. An empty one changes nothing.
 * @return SCHEDEV_OK; SCHEDEV_ERROR_SNAPSHOT_OTHER_MACHINE if the session was restored from the snapshot of another machine, and
 *         it has this id and is otherwise as after schedev_session_init(); SCHEDEV_ERROR_NULL; SCHEDEV_ERROR_ARGUMENT if the
 *         session is not initialised, or if the id has escapes; SCHEDEV_ERROR_UTF8.
 */
SCHEDEV_MUST_USE
SCHEDEV_API schedev_status schedev_session_set_machine_id(schedev_session *session, schedev_text machine_id);

/**
 * Sets how far the time of day is ahead of now_ms of schedev_session_next(), which must not step; initially 0. NotBefore is a time of
 * day: it is reached sooner if the system clock was set forward, or if the machine was suspended while the clock of now_ms stood
 * still.
 *
 * @param session   the session.
 * @param ahead_ms  the time of day minus now_ms, in milliseconds; negative if the system clock was set back.
 * @return SCHEDEV_OK; SCHEDEV_ERROR_NULL; SCHEDEV_ERROR_ARGUMENT if the session is not initialised.
 */
SCHEDEV_API schedev_status schedev_session_set_time_of_day_ahead(schedev_session *session, int64_t ahead_ms);

/** What the program has to do next. */
typedef enum schedev_step_kind {
  /** Nothing to do until until_ms, unless a preparation, a recovery or a question to the gate ends earlier. */
  SCHEDEV_STEP_WAIT = 1,
  /**
   * Send GET http://169.254.169.254/metadata/scheduledevents?api-version=2020-07-01 with the header "Metadata: true",
   * and with the version in api_version, without a proxy, and do not follow redirects; SCHEDEV_ENDPOINT and the macros after it have the parts. Pass the
   * response to schedev_session_on_response(), or call schedev_session_on_failure() if there is none.
   */
  SCHEDEV_STEP_GET = 2,
  /**
   * Send body with POST to the same URL, in the same way, with the same header. schedev_session_posted() returns the ids
   * of the events that it approves, also after the result.
   */
  SCHEDEV_STEP_POST = 3,
  /**
   * Prepare for event, which takes the machine out of service. Call schedev_session_prepared() with attempt when that has
   * ended, now or later.
   */
  SCHEDEV_STEP_PREPARE = 4,
  /**
   * No event keeps the machine out of service any more: return it to service. Call schedev_session_recovered() with
   * attempt when that has ended, now or later. event is the one that ended last; schedev_session_recovering() returns the
   * ids of all events that the recovery is for, that one first. For another machine that a rule covers, the step is given when its event
   * is over.
   */
  SCHEDEV_STEP_RECOVER = 5,
  /** To report: event changed, see change. */
  SCHEDEV_STEP_CHANGE = 6,
  /** To report: decision about event, which is new or has changed. */
  SCHEDEV_STEP_DECISION = 7,
  /** To report: problem in the newest document. */
  SCHEDEV_STEP_PROBLEM = 8,
  /** To report: the document has more events than the session can follow, see untracked_own and untracked_others. */
  SCHEDEV_STEP_UNTRACKED = 9,
  /**
   * Only if the configuration has gate: ask whether the machine may go on, see gate_phase. Call
   * schedev_session_gate_answered() with attempt when the answer is known, now or later.
   */
  SCHEDEV_STEP_GATE = 10,
  /**
   * End what runs for attempt, and report its result as usual. The result does not count, but until then no other step
   * is given for the event, except a preparation by the last call, or for the recovery. A program in which nothing runs during schedev_session_next() does not
   * get this step.
   */
  SCHEDEV_STEP_CANCEL = 11,
  /**
   * To report: the last call for event. The machine prepares for it although the gate has not answered yes; approving it still takes
   * that.
   */
  SCHEDEV_STEP_LAST_CALL = 12,
  /** To report, once: the service does not know the version of the API that has advice. It is tried again once a day. */
  SCHEDEV_STEP_NO_ADVICE = 13,
} schedev_step_kind;

/** What SCHEDEV_STEP_GATE asks. */
typedef enum schedev_gate_phase {
  /** Before the preparation: may this machine go out of service? */
  SCHEDEV_GATE_PHASE_PREPARE = 1,
  /** Before the approval: may the event start, on all machines that it affects? */
  SCHEDEV_GATE_PHASE_APPROVE = 2,
} schedev_gate_phase;

/**
 * Returns a schedev_gate_phase as a word, such as "approve".
 *
 * @param phase  a schedev_gate_phase, or any other number.
 * @return a static string; "unknown" if the number has no word.
 */
SCHEDEV_API const char *schedev_gate_phase_word(uint32_t phase);

/**
 * What the program has to do next. Each member names the kinds that it belongs to; for others it is zero. Texts are views
 * of the session's memory, valid until the next call that changes the session.
 */
typedef struct schedev_step {
  /** A schedev_step_kind. Ignore a step of an unknown kind. */
  uint32_t kind;
  /**
   * GET, POST: the time-out of the request in milliseconds. For the first request it is over two minutes: then do not rely on one
   * connection. After 5 s send the GET again beside it, and then every 10 s, at most three at a time, each with a time-out of less
   * than 20 s and the version of schedev_session_repeat_version(). The first answer counts; if it is one to such a request, call schedev_session_repeat_answered()
   * before schedev_session_on_response().
   */
  uint32_t timeout_ms;
  /** All kinds: the now_ms of the call that returned the step. */
  int64_t now_ms;
  /** WAIT: when to call schedev_session_next() again, on the same clock as now_ms. */
  int64_t until_ms;
  /**
   * PREPARE, RECOVER, GATE: the number to return with the answer. CANCEL: the number of the step to end. No two steps of
   * a session have the same number, also across restarts.
   */
  uint32_t attempt;
  /** GATE: a schedev_gate_phase. */
  uint32_t gate_phase;
  /** GET, POST: the version of the API. It has no escapes. */
  schedev_text api_version;
  /** POST: the body, which is JSON: body_len bytes, without a NUL. */
  const char *body;
  /** POST: the length of the body in bytes. */
  size_t body_len;
  /** PREPARE, RECOVER, GATE, CHANGE, DECISION, LAST_CALL: the event. */
  schedev_tracked_event event;
  /** DECISION: the decision. */
  schedev_decision decision;
  /** PROBLEM: the problem. */
  schedev_problem problem;
  /** CHANGE: a schedev_change. */
  uint32_t change;
  /** PREPARE: whether it is the last call: the gate has not answered yes. */
  bool by_last_call;
  /**
   * RECOVER: whether it is this machine that recovers, from all events that ended while it was out of service. Otherwise it is the
   * event's other machine, from this event only.
   */
  bool own;
  /** UNTRACKED: the number of this machine's events that are not followed, those with the latest NotBefore. */
  size_t untracked_own;
  /** UNTRACKED: the number of other machines' events that are not followed. */
  size_t untracked_others;
  /** RECOVER: private, for schedev_step_json(). */
  const schedev_session *session;
  /** For later versions: zero. */
  uint64_t reserved[4];
} schedev_step;

/**
 * Returns the next step. Call it after each call that changes the session, and when a wait is over. There is one request
 * at a time: until its response or failure is passed back, only other steps are given.
 *
 * Each step is given once. Store a snapshot before you perform it, if it must not be given again after a restart.
 *
 * @param session  the session.
 * @param now_ms   the time, in milliseconds since 1970-01-01T00:00:00Z, from a clock that does not step: read the wall
 *                 clock once and add the time that a monotonic clock measures.
 * @param step     receives the step.
 * @return SCHEDEV_OK; SCHEDEV_ERROR_NULL; SCHEDEV_ERROR_ARGUMENT if the session is not initialised.
 */
SCHEDEV_MUST_USE
SCHEDEV_API schedev_status schedev_session_next(schedev_session *session, int64_t now_ms, schedev_step *step);

/**
 * The largest record of a step without a document and a schedev_machine, in bytes, its NUL included: a recovery from
 * SCHEDEV_SESSION_EVENTS_MAX events whose ids are of control characters. Other records have less than 1024 bytes.
 */
#define SCHEDEV_STEP_JSON_MAX_BYTES 26624

/** The machine that records are of, for schedev_step_json(). Zero it before you fill it in. */
typedef struct schedev_machine {
  /** Its name, as Resources spell it: the response to SCHEDEV_NAME_PATH. Empty if it is unknown. */
  schedev_text name;
  /** Its vmId: the response to SCHEDEV_VM_ID_PATH. Empty if it is unknown. */
  schedev_text vm_id;
  /** For later versions: zero. */
  uint64_t reserved[4];
} schedev_machine;

/**
 * Writes a step as a JSON object on one line, without a line feed: a record as the command `scheduled-events watch
 * --json` emits it. docs/use/records.md describes the members.
 *
 * PREPARE, RECOVER, CHANGE, DECISION, LAST_CALL, PROBLEM, UNTRACKED and NO_ADVICE have a record: "prepare", "recover", "change",
 * for LAST_CALL "gate", and so on. The others have none. The members of an event are those of the newest document, but for its status, its NotBefore and whether it
 * is this machine's, of which the session knows more. A session does not keep an event's resources, description, source and
 * resource type, nor where a problem is: they are null without the document, or if the event is no longer in it. The outcome of "prepare" and
 * "recover" is null, because the step is their beginning. Each record ends with "time", and with "machine" and "vm_id" as far as
 * machine has them. Control characters, invisible characters and those that change the
 * direction of text are escaped, so that the record is safe to print.
 *
 * @param step      a step from schedev_session_next(), before the next call that changes the session.
 * @param document  the newest document; NULL if it is not at hand.
 * @param machine   this machine, whose texts have no escapes; NULL if it is unknown.
 * @param buffer    receives the record, and a NUL after it if a byte is left; NULL if capacity is 0.
 * @param capacity  the size of the buffer in bytes; without a document and a
 *                  machine, SCHEDEV_STEP_JSON_MAX_BYTES are always enough.
 * @param needed    receives the length of the record in bytes, without the NUL, even if the buffer is too small.
 * @return SCHEDEV_OK; SCHEDEV_END if the step has no record; SCHEDEV_ERROR_BUFFER_TOO_SMALL, and the buffer is
 *         unchanged; SCHEDEV_ERROR_NULL; SCHEDEV_ERROR_ARGUMENT or SCHEDEV_ERROR_UTF8 if the step was changed,
 *         if the document is not initialised, or if a text of the machine has escapes or is not UTF-8.
 */
SCHEDEV_MUST_USE
SCHEDEV_API schedev_status schedev_step_json(const schedev_step *step, const schedev_document *document,
                                             const schedev_machine *machine, char *buffer, size_t capacity,
                                             size_t *needed);

/** An HTTP response. Initialise it with SCHEDEV_RESPONSE_INIT. */
typedef struct schedev_response {
  /** sizeof(schedev_response). */
  size_t struct_size;
  /** The body; NULL if body_len is 0. */
  const char *body;
  /** The length of the body in bytes. */
  size_t body_len;
  /** The status code. */
  uint32_t http_status;
  /** The Retry-After header in seconds, if has_retry_after. If the header has a date, convert it. */
  uint32_t retry_after_seconds;
  /** Whether the response has a Retry-After header. */
  bool has_retry_after;
} schedev_response;

/** Initialises a response. */
#define SCHEDEV_RESPONSE_INIT                                                                                          \
  { sizeof(schedev_response), NULL, 0, 0, 0, false }

/** The kinds of outcome of a request. */
typedef enum schedev_outcome_kind {
  /** A new document was applied. */
  SCHEDEV_OUTCOME_DOCUMENT = 1,
  /** The document is the same as the last one. */
  SCHEDEV_OUTCOME_UNCHANGED = 2,
  /** The service returned an older document again. It is ignored unless the service keeps returning it. */
  SCHEDEV_OUTCOME_STALE = 3,
  /** The poll failed, see cause. It ends no event. The next poll follows after retry_in_ms. */
  SCHEDEV_OUTCOME_POLL_FAILED = 4,
  /** The approval succeeded; schedev_session_posted() returns the ids of its events. */
  SCHEDEV_OUTCOME_APPROVED = 5,
  /** The approval failed, see cause. It is tried again as long as the event is Scheduled. */
  SCHEDEV_OUTCOME_APPROVAL_FAILED = 6,
  /** No request was in progress. Nothing was done. */
  SCHEDEV_OUTCOME_UNEXPECTED = 7,
  /** An outcome that this version of the header does not name. */
  SCHEDEV_OUTCOME_OTHER = 255,
} schedev_outcome_kind;

/**
 * Returns a schedev_outcome_kind as a word, such as "poll-failed".
 *
 * @param kind  a schedev_outcome_kind, or any other number.
 * @return a static string; "other" if the number has no word.
 */
SCHEDEV_API const char *schedev_outcome_kind_word(uint32_t kind);

/** Why a request failed. */
typedef enum schedev_cause {
  /** It did not fail. */
  SCHEDEV_CAUSE_NONE = 0,
  /** No response in time. */
  SCHEDEV_CAUSE_TIMEOUT = 1,
  /** The connection could not be established. */
  SCHEDEV_CAUSE_UNREACHABLE = 2,
  /** The connection was lost, or the response is not HTTP. */
  SCHEDEV_CAUSE_CONNECTION_LOST = 3,
  /** The response is larger than the program accepts. */
  SCHEDEV_CAUSE_TOO_LARGE = 4,
  /** A redirect, which must not be followed; see http_status. */
  SCHEDEV_CAUSE_REDIRECT = 5,
  /** Another status than 200, such as 304 or 503; see http_status. */
  SCHEDEV_CAUSE_STATUS = 6,
  /** Status 200 with an empty body. */
  SCHEDEV_CAUSE_EMPTY_BODY = 7,
  /** The body is not a document; see error. */
  SCHEDEV_CAUSE_NOT_A_DOCUMENT = 8,
  /** A cause that this version of the header does not name. */
  SCHEDEV_CAUSE_OTHER = 255,
} schedev_cause;

/**
 * Returns a schedev_cause as a word, such as "timeout".
 *
 * @param cause  a schedev_cause, or any other number.
 * @return a static string; "other" if the number has no word.
 */
SCHEDEV_API const char *schedev_cause_word(uint32_t cause);

/** The outcome of a request. */
typedef struct schedev_outcome {
  /** A schedev_outcome_kind. */
  uint32_t kind;
  /** A schedev_cause, if the request failed. */
  uint32_t cause;
  /** The HTTP status, if that is the cause. */
  uint32_t http_status;
  /** POLL_FAILED: the time until the next poll in milliseconds. */
  uint32_t retry_in_ms;
  /** What is wrong with the body, if that is the cause. */
  schedev_error error;
  /** For later versions: zero. */
  uint64_t reserved[2];
} schedev_outcome;

/**
 * Passes the response to the request in progress. Only a document can end an event.
 *
 * @param session   the session.
 * @param response  the response. It is not needed after the call.
 * @param now_ms    the time, as for schedev_session_next().
 * @param outcome   receives the result; may be NULL.
 * @return SCHEDEV_OK, also if the request failed, see outcome; SCHEDEV_ERROR_NULL; SCHEDEV_ERROR_ARGUMENT if the session
 *         is not initialised, if struct_size is invalid, or if http_status is above 65535.
 */
SCHEDEV_API schedev_status schedev_session_on_response(schedev_session *session, const schedev_response *response,
                                                       int64_t now_ms, schedev_outcome *outcome);

/**
 * Returns the version of the API for the requests that are sent beside the GET in progress while it has no answer: the one that every
 * service knows. See timeout_ms of schedev_step.
 *
 * @param session  the session.
 * @return the version, valid until the session is initialised again; empty if session is NULL or not initialised.
 */
SCHEDEV_API schedev_text schedev_session_repeat_version(const schedev_session *session);

/**
 * Says that the response which is passed on next is one to such a request, and so in that version: what it does not have may still be
 * there. Call it before schedev_session_on_response().
 *
 * @param session  the session.
 * @return SCHEDEV_OK; SCHEDEV_ERROR_NULL; SCHEDEV_ERROR_ARGUMENT if the session is not initialised.
 */
SCHEDEV_API schedev_status schedev_session_repeat_answered(schedev_session *session);

/**
 * Reports that the request in progress got no response.
 *
 * @param session  the session.
 * @param cause    SCHEDEV_CAUSE_TIMEOUT, SCHEDEV_CAUSE_UNREACHABLE, SCHEDEV_CAUSE_CONNECTION_LOST or
 *                 SCHEDEV_CAUSE_TOO_LARGE.
 * @param now_ms   the time, as for schedev_session_next().
 * @param outcome  receives the result; may be NULL.
 * @return SCHEDEV_OK; SCHEDEV_ERROR_NULL; SCHEDEV_ERROR_ARGUMENT if the session is not initialised, or for another
 *         cause.
 */
SCHEDEV_API schedev_status schedev_session_on_failure(schedev_session *session, uint32_t cause, int64_t now_ms,
                                                      schedev_outcome *outcome);

/** The result of a preparation, for schedev_session_prepared(). */
typedef enum schedev_preparation {
  /** The host is ready for the event. */
  SCHEDEV_PREPARATION_READY = 1,
  /**
   * The host could not prepare. SCHEDEV_STEP_PREPARE is given again after 5 seconds, later each time and at most a minute later,
   * while the event is Scheduled, its start is not nearer than this attempt took, and prepare_retries are left.
   */
  SCHEDEV_PREPARATION_FAILED = 2,
  /**
   * The host could not prepare, and need not be asked again. The event is not approved, unless it becomes another one that is
   * prepared for anew.
   */
  SCHEDEV_PREPARATION_ABANDONED = 3,
} schedev_preparation;

/**
 * Returns a schedev_preparation as a word, such as "ready".
 *
 * @param preparation  a schedev_preparation, or any other number.
 * @return a static string; "unknown" if the number has no word.
 */
SCHEDEV_API const char *schedev_preparation_word(uint32_t preparation);

/**
 * Reports the result of a preparation, after SCHEDEV_STEP_PREPARE. Report it also if the preparation was cancelled: only
 * then can the next one for the event start.
 *
 * @param session      the session.
 * @param attempt      the attempt number of the step.
 * @param preparation  a schedev_preparation.
 * @param accepted     receives whether the result counts: false if the attempt was cancelled, as SCHEDEV_STEP_CANCEL
 *                     reported or will report; may be NULL.
 * @return SCHEDEV_OK, also if the result does not count; SCHEDEV_ERROR_UNKNOWN_EVENT if the session does not wait for the
 *         result of a preparation with this attempt number, and nothing changed; SCHEDEV_ERROR_NULL;
 *         SCHEDEV_ERROR_ARGUMENT if the session is not initialised, or for another preparation.
 */
SCHEDEV_API schedev_status schedev_session_prepared(schedev_session *session, uint32_t attempt, uint32_t preparation,
                                                    bool *accepted);

/**
 * Reports the end of a recovery, after SCHEDEV_STEP_RECOVER. One that is not done is given again, after 5 seconds at first
 * and 5 minutes at last, until it is done or a preparation replaces it. Report the end also if the recovery was cancelled.
 *
 * @param session   the session.
 * @param attempt   the attempt number of the step.
 * @param done      whether the machine is back in service.
 * @param now_ms    the time, as for schedev_session_next().
 * @param accepted  receives whether the result counts: false if the attempt was cancelled; may be NULL.
 * @return SCHEDEV_OK, also if the result does not count; SCHEDEV_ERROR_UNKNOWN_EVENT if the session does not wait for the
 *         result of a recovery with this attempt number, and nothing changed; SCHEDEV_ERROR_NULL; SCHEDEV_ERROR_ARGUMENT
 *         if the session is not initialised.
 */
SCHEDEV_API schedev_status schedev_session_recovered(schedev_session *session, uint32_t attempt, bool done,
                                                     int64_t now_ms, bool *accepted);

/** The answer of the gate, for schedev_session_gate_answered(). */
typedef enum schedev_gate_answer {
  /** Go on. */
  SCHEDEV_GATE_ANSWER_OPEN = 1,
  /** Another machine approves the event for this one, too. In the phase SCHEDEV_GATE_PHASE_PREPARE it is as CLOSED. */
  SCHEDEV_GATE_ANSWER_ANOTHER_APPROVES = 2,
  /** Not yet. */
  SCHEDEV_GATE_ANSWER_CLOSED = 3,
} schedev_gate_answer;

/**
 * Returns a schedev_gate_answer as a word, such as "open".
 *
 * @param answer  a schedev_gate_answer, or any other number.
 * @return a static string; "unknown" if the number has no word.
 */
SCHEDEV_API const char *schedev_gate_answer_word(uint32_t answer);

/**
 * Reports the answer of the gate, after SCHEDEV_STEP_GATE. A gate that is not open is asked again after 5 seconds, until
 * NotBefore. An event is approved only if a poll that began after the answer shows it unchanged. Report an answer also if
 * the question was cancelled.
 *
 * @param session   the session.
 * @param attempt   the attempt number of the step.
 * @param answer    a schedev_gate_answer.
 * @param now_ms    the time, as for schedev_session_next().
 * @param accepted  receives whether the answer counts: false if the attempt was cancelled; may be NULL.
 * @return SCHEDEV_OK, also if the answer does not count; SCHEDEV_ERROR_UNKNOWN_EVENT if the session does not wait for the
 *         answer to a question with this attempt number, and nothing changed; SCHEDEV_ERROR_NULL; SCHEDEV_ERROR_ARGUMENT
 *         if the session is not initialised, or for another answer.
 */
SCHEDEV_API schedev_status schedev_session_gate_answered(schedev_session *session, uint32_t attempt, uint32_t answer,
                                                         int64_t now_ms, bool *accepted);

/**
 * Returns the id of an event that the recovery of this machine is for: those that ended while the machine was out of
 * service, the one that ended last first. After a SCHEDEV_STEP_RECOVER for another machine, the step's event is not among them, and the recovery is for
 * that event only.
 *
 * @param session   the session.
 * @param index     the index, from 0.
 * @param event_id  receives the id, valid until the next call that changes the session.
 * @return SCHEDEV_OK; SCHEDEV_END if there are fewer; SCHEDEV_ERROR_NULL; SCHEDEV_ERROR_ARGUMENT if the session is not
 *         initialised.
 */
SCHEDEV_MUST_USE
SCHEDEV_API schedev_status schedev_session_recovering(const schedev_session *session, size_t index,
                                                      schedev_text *event_id);

/**
 * Returns since when this machine is out of service: since the first preparation that it was not recovered from.
 *
 * @param session   the session.
 * @param since_ms  receives the time, on the clock of schedev_session_next().
 * @return SCHEDEV_OK; SCHEDEV_END if the machine is in service; SCHEDEV_ERROR_NULL; SCHEDEV_ERROR_ARGUMENT if the session
 *         is not initialised.
 */
SCHEDEV_MUST_USE
SCHEDEV_API schedev_status schedev_session_out_of_service_since(const schedev_session *session, int64_t *since_ms);

/**
 * Returns since when advice cannot be seen: the version of the API that has it brings no documents, several times in a row, while the
 * other one does. It is asked for again after a minute, then less often. Advice that was announced holds for an hour.
 *
 * @param session   the session.
 * @param since_ms  receives the time, on the clock of schedev_session_next().
 * @return SCHEDEV_OK; SCHEDEV_END if advice can be seen, or nothing needs it; SCHEDEV_ERROR_NULL; SCHEDEV_ERROR_ARGUMENT if the
 *         session is not initialised.
 */
SCHEDEV_MUST_USE
SCHEDEV_API schedev_status schedev_session_advice_unseen_since(const schedev_session *session, int64_t *since_ms);

/**
 * Returns the id of an event that the POST in progress approves, and after its result of one that it was for, until the
 * next call of schedev_session_next() or schedev_session_on_notification().
 *
 * @param session   the session.
 * @param index     the index, from 0.
 * @param event_id  receives the id, valid until the next call that changes the session.
 * @return SCHEDEV_OK; SCHEDEV_END if there are fewer; SCHEDEV_ERROR_NULL; SCHEDEV_ERROR_ARGUMENT if the session is not
 *         initialised.
 */
SCHEDEV_MUST_USE
SCHEDEV_API schedev_status schedev_session_posted(const schedev_session *session, size_t index, schedev_text *event_id);

/**
 * Returns one event that the session follows. Events that are gone are followed until they are recovered from.
 *
 * @param session  the session.
 * @param index    the index, from 0.
 * @param event    receives the event. Its texts are valid until the next call that changes the session.
 * @return SCHEDEV_OK; SCHEDEV_END if there are fewer; SCHEDEV_ERROR_NULL; SCHEDEV_ERROR_ARGUMENT if the session is not
 *         initialised.
 */
SCHEDEV_MUST_USE
SCHEDEV_API schedev_status schedev_session_event(const schedev_session *session, size_t index,
                                                 schedev_tracked_event *event);

/** What has to happen next for an event. */
typedef enum schedev_waits_for {
  /**
   * The next document: the first one since the start or since the names changed, or the one that has to confirm the event
   * after the gate opened.
   */
  SCHEDEV_WAITS_FOR_DOCUMENT = 1,
  /** The time before which the rule neither prepares nor approves, see prepare_before_seconds of schedev_rule. */
  SCHEDEV_WAITS_FOR_DUE_TIME = 2,
  /** The gate before the preparation. */
  SCHEDEV_WAITS_FOR_GATE_TO_PREPARE = 3,
  /** The preparation, which runs or is about to start, or which failed and is tried again. */
  SCHEDEV_WAITS_FOR_PREPARATION = 4,
  /** The gate before the approval. */
  SCHEDEV_WAITS_FOR_GATE_TO_APPROVE = 5,
  /** The machines before this one, which approve first: SCHEDEV_LEADER_RANK. */
  SCHEDEV_WAITS_FOR_TURN = 6,
  /** The approval, which is about to be posted, or posted again after a failure. */
  SCHEDEV_WAITS_FOR_APPROVAL = 7,
  /** The start of the event: it is approved. */
  SCHEDEV_WAITS_FOR_START = 8,
  /**
   * The start of the event without an approval: the decision is not to approve it, or its NotBefore has passed before the
   * gate opened.
   */
  SCHEDEV_WAITS_FOR_START_UNAPPROVED = 9,
  /** The start of the event without an approval: the preparation failed. */
  SCHEDEV_WAITS_FOR_START_UNPREPARED = 10,
  /** The end of what runs for an attempt that was cancelled. */
  SCHEDEV_WAITS_FOR_CANCELLED_COMMAND = 11,
  /** The end of the event, which has started. */
  SCHEDEV_WAITS_FOR_END = 12,
  /** The withdrawal of the advice, or the eviction that it advised of. */
  SCHEDEV_WAITS_FOR_WITHDRAWAL = 13,
  /** The recovery: the event is over. */
  SCHEDEV_WAITS_FOR_RECOVERY = 14,
  /** Something that this version of the header does not name. */
  SCHEDEV_WAITS_FOR_OTHER = 255,
} schedev_waits_for;

/**
 * Returns a schedev_waits_for as a word, such as "gate-to-prepare".
 *
 * @param waits_for  a schedev_waits_for, or any other number.
 * @return a static string; "other" if the number has no word.
 */
SCHEDEV_API const char *schedev_waits_for_word(uint32_t waits_for);

/** What an event of a session waits for, and why. All times are times of day, in seconds since 1970-01-01T00:00:00Z. */
typedef struct schedev_waiting {
  /** The event. */
  schedev_tracked_event event;
  /** What the policy decided about it in the newest document, if has_decision. */
  schedev_decision decision;
  /** Since when attempt runs, if has_attempt. */
  int64_t since_seconds;
  /** When what it waits for happens at the earliest, or is tried again, if has_until. */
  int64_t until_seconds;
  /** A schedev_waits_for. */
  uint32_t waits_for;
  /** The number of the preparation, recovery or question to the gate that runs, if has_attempt. */
  uint32_t attempt;
  /** Whether the event waits for something that runs. */
  bool has_attempt;
  /** Whether until_seconds is known. */
  bool has_until;
  /** Whether decision is known. It is not before the first document after a start. */
  bool has_decision;
  /** Whether the machine prepares, or has prepared, by the last call: the gate has not answered yes since. */
  bool by_last_call;
  /** For later versions: zero. */
  uint64_t reserved[4];
} schedev_waiting;

/**
 * Returns what one event of the session waits for: what a status page shows. Asking changes nothing.
 *
 * @param session  the session.
 * @param index    the index, from 0; the same event as for schedev_session_event().
 * @param now_ms   the time, as for schedev_session_next().
 * @param waiting  receives the event and what it waits for. Its texts are valid until the next call that changes the session.
 * @return SCHEDEV_OK; SCHEDEV_END if there are fewer events; SCHEDEV_ERROR_NULL; SCHEDEV_ERROR_ARGUMENT if the session is not
 *         initialised.
 */
SCHEDEV_MUST_USE
SCHEDEV_API schedev_status schedev_session_waiting(const schedev_session *session, size_t index, int64_t now_ms,
                                                   schedev_waiting *waiting);

/**
 * Whether the session has seen an event, including before a restored snapshot was taken.
 *
 * @param session  the session.
 * @return whether it has; false if session is NULL or not initialised.
 */
SCHEDEV_API bool schedev_session_has_seen_event(const schedev_session *session);

/**
 * Whether nothing is left to do: a document was read since the start, the newest one has no events, and nothing waits to
 * be reported, prepared or recovered. With SCHEDEV_SESSION_SOURCE_NOTIFICATIONS, documents do not count.
 *
 * @param session  the session.
 * @return whether it is idle; false if session is NULL or not initialised.
 */
SCHEDEV_API bool schedev_session_is_idle(const schedev_session *session);

/* ---- Snapshots --------------------------------------------------------------------------------------------------- */

/** The largest snapshot, in bytes. */
#define SCHEDEV_SNAPSHOT_MAX_BYTES 12288

/**
 * How much of a state file to read, in bytes: the command and Python track 1,024 events, so that their snapshots can be larger
 * than SCHEDEV_SNAPSHOT_MAX_BYTES, but not than this.
 */
#define SCHEDEV_STATE_READ_BYTES 196608

/**
 * Whether a snapshot is worth storing: it would differ from the one that was restored, or from the session as it was when
 * schedev_session_saved() was called. Ask after each step, and store the snapshot before acting on the step. Most polls change
 * nothing.
 *
 * @param session  the session.
 * @return whether it has changed, which is true for a new session; false if session is NULL or not initialised.
 */
SCHEDEV_API bool schedev_session_changed(const schedev_session *session);

/**
 * Records that a snapshot of the session as it is now was stored. Call it once the file is safe, before the next call that
 * changes the session.
 *
 * @param session  the session.
 * @return SCHEDEV_OK; SCHEDEV_ERROR_NULL; SCHEDEV_ERROR_ARGUMENT if the session is not initialised.
 */
SCHEDEV_API schedev_status schedev_session_saved(schedev_session *session);

/**
 * Writes what the session must remember across a restart, in a binary format with a version and a checksum. The command
 * `scheduled-events watch --state` and Python read it, too, if machine_id and boot_id of the configuration are what they use:
 * vmId, see SCHEDEV_VM_ID_PATH, and the contents of /proc/sys/kernel/random/boot_id.
 *
 * @param session   the session.
 * @param buffer    receives the snapshot; NULL if capacity is 0.
 * @param capacity  the size of the buffer in bytes; SCHEDEV_SNAPSHOT_MAX_BYTES are always enough.
 * @param needed    receives the length of the snapshot in bytes, even if the buffer is too small.
 * @return SCHEDEV_OK; SCHEDEV_ERROR_BUFFER_TOO_SMALL, and the buffer is unchanged; SCHEDEV_ERROR_NULL;
 *         SCHEDEV_ERROR_ARGUMENT if the session is not initialised.
 */
SCHEDEV_MUST_USE
SCHEDEV_API schedev_status schedev_session_snapshot(const schedev_session *session, char *buffer, size_t capacity,
                                                    size_t *needed);

/**
 * Restores a session from a snapshot, which may be one of the command or of Python: a state file of theirs starts with one, within
 * the first SCHEDEV_STATE_READ_BYTES. Policy, names and interval stay as the session was configured.
 *
 * Of more than SCHEDEV_SESSION_EVENTS_MAX events, those with a preparation or a recovery are restored, then this machine's own
 * with the earliest deadlines, then others. SCHEDEV_STEP_UNTRACKED counts those of the next document that are left out.
 *
 * Steps that were given and not answered are given again: a preparation or a recovery that had not ended, a change that
 * had not been reported. Nothing is approved until a document confirms that the event is still Scheduled, and nothing is
 * recovered until a document shows what keeps the machine out of service. If the machine was rebooted since, as the boot_id
 * of the configuration shows, events that it was ready for and that were not approved are prepared for again.
 *
 * @param session  the session. Its present state is lost.
 * @param data     the snapshot, and any data after it, which is ignored; NULL if len is 0.
 * @param len      the length of both in bytes.
 * @return SCHEDEV_OK; SCHEDEV_ERROR_SNAPSHOT_DAMAGED, SCHEDEV_ERROR_SNAPSHOT_VERSION,
 *         SCHEDEV_ERROR_SNAPSHOT_TOO_MANY_EVENTS (a preparation or a recovery is pending for more events than fit) or
 *         SCHEDEV_ERROR_SNAPSHOT_OTHER_MACHINE (it has another machine_id), and the session is as after schedev_session_init(); SCHEDEV_ERROR_NULL or SCHEDEV_ERROR_ARGUMENT (the session is not
 *         initialised), and it is unchanged.
 */
SCHEDEV_MUST_USE
SCHEDEV_API schedev_status schedev_session_restore(schedev_session *session, const char *data, size_t len);

/* ---- Trackers ---------------------------------------------------------------------------------------------------- */

/** The maximum number of events of a tracker. */
#define SCHEDEV_TRACKER_EVENTS_MAX 256

/**
 * Keeps the events of the last document and reports what the next one changes. It lives in the caller's memory, and
 * there is nothing to free. A session has its own tracker; this one is for programs that do not use a session.
 */
typedef struct schedev_tracker schedev_tracker;

/**
 * Called by schedev_tracker_observe() for each change. It must return normally: neither longjmp() nor a C++ exception may
 * leave it. It must not call functions with the same tracker.
 *
 * @param context  what was passed to schedev_tracker_observe().
 * @param change   a schedev_change.
 * @param event    the event after the change, valid until the callback returns.
 */
typedef void (*schedev_change_callback)(void *context, uint32_t change, const schedev_tracked_event *event);

/** Returns the size of memory that a tracker needs, in bytes, whatever the alignment of the memory. */
SCHEDEV_API size_t schedev_tracker_size(void);

/**
 * Initialises a tracker without events.
 *
 * @param memory   the memory for the tracker, with any alignment. It must not move while the tracker is used.
 * @param size     its size in bytes, at least schedev_tracker_size().
 * @param tracker  receives the tracker, a pointer into that memory.
 * @return SCHEDEV_OK; SCHEDEV_ERROR_MEMORY_TOO_SMALL; SCHEDEV_ERROR_NULL.
 */
SCHEDEV_MUST_USE
SCHEDEV_API schedev_status schedev_tracker_init(void *memory, size_t size, schedev_tracker **tracker);

/**
 * Compares a document with the last one and reports each change: first those of events that are still there, then the
 * events that are gone, then the new ones.
 *
 * Pass documents only: a failed poll, an empty body or a 304 does not end an event. If several events have one id, the
 * first one counts and the others are ignored. Those among the first events of a document are its problems, which
 * schedev_document_next_problem() returns; the tracker counts the others.
 *
 * @param tracker      the tracker.
 * @param document     the newest document.
 * @param names        the names of this machine; NULL if they are unknown.
 * @param now_seconds  the time, in seconds since 1970-01-01T00:00:00Z.
 * @param on_change    called for each change; may be NULL.
 * @param context      passed to on_change.
 * @param ignored      receives how many events the tracker ignored because of their ids; may be NULL.
 * @param needed       receives the number of events of the document if it has too many; may be NULL.
 * @return SCHEDEV_OK; SCHEDEV_ERROR_TRACKER_FULL if the document has more than SCHEDEV_TRACKER_EVENTS_MAX events, and
 *         then nothing is changed or reported; SCHEDEV_ERROR_NULL; SCHEDEV_ERROR_ARGUMENT if the tracker or the document
 *         is not initialised; SCHEDEV_ERROR_TOO_MANY_NAMES; SCHEDEV_ERROR_NAME_TOO_LONG; SCHEDEV_ERROR_UTF8.
 */
SCHEDEV_MUST_USE
SCHEDEV_API schedev_status schedev_tracker_observe(schedev_tracker *tracker, const schedev_document *document,
                                                   const schedev_names *names, int64_t now_seconds,
                                                   schedev_change_callback on_change, void *context, size_t *ignored,
                                                   size_t *needed);

/**
 * Records that an event was approved. If the event disappears while it is Scheduled, this is what distinguishes ENDED
 * from CANCELLED.
 *
 * @param tracker   the tracker.
 * @param event_id  the event's id.
 * @return SCHEDEV_OK; SCHEDEV_ERROR_UNKNOWN_EVENT; SCHEDEV_ERROR_NULL; SCHEDEV_ERROR_ARGUMENT if the tracker is not
 *         initialised; SCHEDEV_ERROR_UTF8.
 */
SCHEDEV_API schedev_status schedev_tracker_approved(schedev_tracker *tracker, schedev_text event_id);

/**
 * Returns the number of events in the tracker.
 *
 * @param tracker  the tracker.
 * @return the number; 0 if tracker is NULL or not initialised.
 */
SCHEDEV_API size_t schedev_tracker_event_count(const schedev_tracker *tracker);

/**
 * Returns one event of the last document. The events are in no particular order.
 *
 * @param tracker  the tracker.
 * @param index    the index, from 0 to schedev_tracker_event_count() - 1.
 * @param event    receives the event. Its texts are valid until the next document is observed.
 * @return SCHEDEV_OK; SCHEDEV_END if there are fewer events; SCHEDEV_ERROR_NULL; SCHEDEV_ERROR_ARGUMENT if the tracker is
 *         not initialised.
 */
SCHEDEV_MUST_USE
SCHEDEV_API schedev_status schedev_tracker_event(const schedev_tracker *tracker, size_t index,
                                                 schedev_tracked_event *event);

/* ---- Approvals --------------------------------------------------------------------------------------------------- */

/**
 * Writes the POST body that approves events: {"StartRequests":[{"EventId":"..."}]}. An approval lets Azure start the
 * events now, for all machines in their Resources.
 *
 * To get the size first, pass NULL and 0.
 *
 * @param ids       the ids of the events.
 * @param count     the number of ids, at least 1.
 * @param buffer    receives the body, and a NUL after it if a byte is left; NULL if capacity is 0.
 * @param capacity  the size of the buffer in bytes.
 * @param needed    receives the length of the body in bytes, without the NUL, even if the buffer is too small.
 * @return SCHEDEV_OK; SCHEDEV_ERROR_BUFFER_TOO_SMALL, and the buffer is unchanged; SCHEDEV_ERROR_NULL;
 *         SCHEDEV_ERROR_ARGUMENT if count is 0; SCHEDEV_ERROR_UTF8.
 */
SCHEDEV_MUST_USE
SCHEDEV_API schedev_status schedev_start_requests(const schedev_text *ids, size_t count, char *buffer, size_t capacity,
                                                  size_t *needed);

/* ---- Outside the machine ----------------------------------------------------------------------------------------- */

/**
 * Parsed notifications: a view of the caller's bytes, which must stay unchanged while it is used. Opaque. It may be copied,
 * and there is nothing to free.
 */
typedef struct schedev_notifications {
  /** Private. */
  uint64_t opaque[24];
} schedev_notifications;

/**
 * Parses notifications: a message of Event Grid in its own schema or in that of CloudEvents 1.0, an array of them, a row of
 * Resource Graph, or its answer with an array of rows. A Storage queue holds messages in Base64, which the program decodes.
 *
 * The body must be valid JSON (RFC 8259, UTF-8, with or without a byte order mark), an object or an array, and must not
 * repeat a known member of an object. What is no Scheduled Event of a machine is left out and counted. The time is linear in
 * the length, and nothing is allocated. Azure publishes these in preview.
 *
 * @param data           the body. It must outlive the notifications and all that is read from them.
 * @param len            its length in bytes.
 * @param notifications  receives the notifications.
 * @param error          receives what is wrong and where if the body is refused; may be NULL.
 * @return SCHEDEV_OK; SCHEDEV_ERROR_PARSE; SCHEDEV_ERROR_NULL; SCHEDEV_ERROR_ARGUMENT.
 */
SCHEDEV_MUST_USE
SCHEDEV_API schedev_status schedev_notifications_parse(const char *data, size_t len,
                                                       schedev_notifications *notifications, schedev_error *error);

/**
 * Returns how many messages and rows are left out: other topics, the maintenance of AKS, a validation, and what has no event
 * that can be identified.
 *
 * @param notifications  the notifications.
 * @return the number; 0 if notifications is NULL or not initialised.
 */
SCHEDEV_API size_t schedev_notifications_left_out(const schedev_notifications *notifications);

/**
 * Returns the code of Event Grid's validation. A web hook answers {"validationResponse": code}.
 *
 * @param notifications  the notifications.
 * @param code           receives the code.
 * @return SCHEDEV_OK; SCHEDEV_END if there is none; SCHEDEV_ERROR_NULL; SCHEDEV_ERROR_ARGUMENT if notifications is not
 *         initialised.
 */
SCHEDEV_MUST_USE
SCHEDEV_API schedev_status schedev_notifications_validation_code(const schedev_notifications *notifications,
                                                                 schedev_text *code);

/** How far an event is, as a notification says. */
typedef enum schedev_notification_state {
  /** The event has no status. */
  SCHEDEV_NOTIFICATION_STATE_NONE = 0,
  /** Announced. It can be approved. */
  SCHEDEV_NOTIFICATION_STATE_SCHEDULED = 1,
  /** In progress. */
  SCHEDEV_NOTIFICATION_STATE_STARTED = 2,
  /** Over. */
  SCHEDEV_NOTIFICATION_STATE_COMPLETED = 3,
  /** Over, and it did not start. */
  SCHEDEV_NOTIFICATION_STATE_CANCELED = 4,
  /** Advice, which is never approved. */
  SCHEDEV_NOTIFICATION_STATE_ADVISORY = 5,
  /** A word that this library does not know. See event_status_text of the event. */
  SCHEDEV_NOTIFICATION_STATE_OTHER = 255,
} schedev_notification_state;

/**
 * One notification: that an event is in some state. The struct may be copied; its texts are views of the caller's bytes.
 *
 * Notifications arrive at least once and in any order. An event goes from Scheduled to Started to Completed or Canceled,
 * never back: ignore a notification of an earlier state, and one that is older than what is known of the same state.
 */
typedef struct schedev_notification {
  /** The event, with the members that it has in a document. */
  schedev_event event;
  /** The id of the message, if has_id. A message that is delivered again has the same one; a row of Resource Graph has none. */
  schedev_text id;
  /**
   * The resource that the event is of, as received: a machine, or the set that its machines are in, with or without the
   * event after it. Empty if it is absent.
   */
  schedev_text resource_id;
  /**
   * When the event changed, or if that is unknown, when the message was sent: milliseconds since 1970-01-01T00:00:00Z, if
   * has_time. A row of Resource Graph has no time.
   */
  int64_t time_ms;
  /** A schedev_notification_state. */
  uint32_t state;
  /** Whether there is an id. */
  bool has_id;
  /** Whether there is a time. */
  bool has_time;
  /** For later versions: zero. */
  uint64_t reserved[4];
} schedev_notification;

/**
 * A position among notifications. Opaque; initialise it with SCHEDEV_CURSOR_INIT. It may be copied. Start a new cursor for
 * each body.
 */
typedef struct schedev_notification_cursor {
  /** Private. */
  uint64_t opaque[24];
} schedev_notification_cursor;

/**
 * Gives the next notification, in the order of the body.
 *
 * @param notifications  the notifications.
 * @param cursor         the position, which moves to the next one. Start with SCHEDEV_CURSOR_INIT.
 * @param notification   receives the notification.
 * @return SCHEDEV_OK; SCHEDEV_END after the last one; SCHEDEV_ERROR_NULL; SCHEDEV_ERROR_ARGUMENT if the notifications or the
 *         cursor are not initialised, or if the cursor belongs to others.
 */
SCHEDEV_MUST_USE
SCHEDEV_API schedev_status schedev_notifications_next(const schedev_notifications *notifications,
                                                      schedev_notification_cursor *cursor,
                                                      schedev_notification *notification);

/**
 * Writes the id of one of an event's machines, as Azure Resource Manager has it. Compare such ids ignoring ASCII case.
 *
 * To get the size first, pass NULL and 0.
 *
 * @param resource_id  the resource that the event is of: resource_id of a schedev_notification.
 * @param name         a name from the Resources of the event.
 * @param buffer       receives the id, and a NUL after it if a byte is left; NULL if capacity is 0.
 * @param capacity     the size of the buffer in bytes.
 * @param needed       receives the length of the id in bytes, without the NUL, even if the buffer is too small.
 * @return SCHEDEV_OK; SCHEDEV_ERROR_BUFFER_TOO_SMALL, and the buffer is unchanged; SCHEDEV_ERROR_RESOURCE_ID if resource_id
 *         is not the id of a machine or a set, or no machine can have the name; SCHEDEV_ERROR_NULL; SCHEDEV_ERROR_UTF8.
 */
SCHEDEV_MUST_USE
SCHEDEV_API schedev_status schedev_machine_id(schedev_text resource_id, schedev_text name, char *buffer,
                                              size_t capacity, size_t *needed);

/** The longest path that schedev_acknowledge_request() writes for names in ASCII, and a NUL. */
#define SCHEDEV_ACKNOWLEDGE_PATH_MAX_BYTES 512

/**
 * Writes the request to Azure Resource Manager that approves events outside the machine: POST, to the path after
 * https://management.azure.com, with the body, which is empty for one event and JSON for several. An approval lets Azure
 * start the events now, for all machines in their Resources. In preview at Azure.
 *
 * To get the sizes first, pass NULL and 0 for both buffers.
 *
 * @param resource_id    the resource that the events are of: resource_id of a schedev_notification.
 * @param ids            the ids of the events, GUIDs.
 * @param count          the number of ids, at least 1.
 * @param path           receives the path with its query, and a NUL after it if a byte is left; NULL if path_capacity is 0.
 * @param path_capacity  the size of path in bytes.
 * @param path_needed    receives the length of the path, without the NUL, even if a buffer is too small.
 * @param body           receives the body, and a NUL after it if a byte is left; NULL if body_capacity is 0.
 * @param body_capacity  the size of body in bytes.
 * @param body_needed    receives the length of the body, without the NUL, even if a buffer is too small.
 * @return SCHEDEV_OK; SCHEDEV_ERROR_BUFFER_TOO_SMALL; SCHEDEV_ERROR_RESOURCE_ID if resource_id is not the id of a machine or a
 *         set; SCHEDEV_ERROR_EVENT_ID if an id is not a GUID; SCHEDEV_ERROR_ARGUMENT if count is 0; SCHEDEV_ERROR_NULL;
 *         SCHEDEV_ERROR_UTF8.
 */
SCHEDEV_MUST_USE
SCHEDEV_API schedev_status schedev_acknowledge_request(schedev_text resource_id, const schedev_text *ids, size_t count,
                                                       char *path, size_t path_capacity, size_t *path_needed,
                                                       char *body, size_t body_capacity, size_t *body_needed);

/**
 * What is known of the last SCHEDEV_SESSION_EVENTS_MAX events from their notifications, which arrive at least once and in any
 * order. It recognises those that are late, also after the end of their event. Opaque; initialise it with
 * SCHEDEV_NOTIFICATION_ORDER_INIT. It may be copied. Sessions of several machines may share one: pass each notification to all
 * of them before the next one.
 *
 * If there are more events, those that are over are forgotten first. After a restart, start with a new one.
 */
typedef struct schedev_notification_order {
  /** Private. */
  uint64_t opaque[1024];
} schedev_notification_order;

/** Initialises an order. */
#define SCHEDEV_NOTIFICATION_ORDER_INIT                                                                                \
  {                                                                                                                    \
    { 0 }                                                                                                              \
  }

/** What a session made of a notification. */
typedef enum schedev_notification_outcome {
  /** The session follows the event, which is as the notification says. If it is over, its end is reported next. */
  SCHEDEV_NOTIFICATION_OUTCOME_APPLIED = 1,
  /**
   * The notification is late, its event is over or was never followed, a document says more about it, or the source of the
   * session is documents alone.
   */
  SCHEDEV_NOTIFICATION_OUTCOME_IGNORED = 2,
  /** The session follows as many events as it can. Pass the notification again when one of them is over. */
  SCHEDEV_NOTIFICATION_OUTCOME_UNTRACKED = 3,
} schedev_notification_outcome;

/**
 * Returns a schedev_notification_outcome as a word, such as "applied".
 *
 * @param outcome  a schedev_notification_outcome, or any other number.
 * @return a static string; "other" if the number has no word.
 */
SCHEDEV_API const char *schedev_notification_outcome_word(uint32_t outcome);

/**
 * Applies a notification, if the session's source includes notifications. Then call schedev_session_next(), as after each
 * result. Pass repeated notifications, too: after a restart, nothing is approved before its event was seen again.
 *
 * A session compares the names in Resources alone, and machines of two resource groups can have the same name: pass the
 * notifications of this machine only. See schedev_machine_id().
 *
 * @param session       the session.
 * @param order         what is known of events from the notifications before it.
 * @param notification  the notification, as schedev_notifications_next() gave it; its event and its time count. It is not needed
 *                      after the call.
 * @param now_ms        the time, as for schedev_session_next().
 * @param outcome       receives a schedev_notification_outcome; may be NULL.
 * @return SCHEDEV_OK, also if the notification is ignored; SCHEDEV_ERROR_NULL; SCHEDEV_ERROR_ARGUMENT if the session or the
 *         notification is not initialised, or if the order is neither initialised nor zeroed.
 */
SCHEDEV_API schedev_status schedev_session_on_notification(schedev_session *session, schedev_notification_order *order,
                                                           const schedev_notification *notification, int64_t now_ms,
                                                           uint32_t *outcome);

/**
 * Records that an event is over, as a document says that does not have it any more. With SCHEDEV_SESSION_SOURCE_BOTH, call
 * it for each SCHEDEV_STEP_CHANGE with SCHEDEV_CHANGE_COMPLETED, SCHEDEV_CHANGE_CANCELLED,
 * SCHEDEV_CHANGE_ENDED or SCHEDEV_CHANGE_ADVICE_WITHDRAWN, so that a late notification does not start the event again.
 *
 * @param order     the order.
 * @param event_id  the event's id.
 * @return SCHEDEV_OK; SCHEDEV_ERROR_NULL; SCHEDEV_ERROR_ARGUMENT if the order is neither initialised nor zeroed;
 *         SCHEDEV_ERROR_UTF8.
 */
SCHEDEV_API schedev_status schedev_notification_order_end(schedev_notification_order *order, schedev_text event_id);

/* ---- Spot machines ----------------------------------------------------------------------------------------------- */

/** Where an interruptible workload is in its life cycle. */
typedef enum schedev_spot_phase {
  /** It checks that it is healthy, and processes nothing yet. */
  SCHEDEV_SPOT_WARMUP = 1,
  /** It processes, and saves checkpoints regularly. */
  SCHEDEV_SPOT_PROCESSING = 2,
  /** An event that stops it is announced: it saves a last checkpoint and stops. */
  SCHEDEV_SPOT_EVICTED = 3,
  /** It is stopped, and the machine may go away at any time. */
  SCHEDEV_SPOT_SHUTDOWN = 4,
  /** The machine is back: it restores its latest checkpoint. */
  SCHEDEV_SPOT_RECOVER = 5,
  /** It is about to continue, through a warm-up. */
  SCHEDEV_SPOT_RESUME = 6,
} schedev_spot_phase;

/** What moves a workload from one phase to the next. */
typedef enum schedev_spot_signal {
  /** The warm-up succeeded. */
  SCHEDEV_SPOT_SIGNAL_WARMED_UP = 1,
  /** An event that stops the workload was announced. */
  SCHEDEV_SPOT_SIGNAL_NOTICE = 2,
  /** The machine may be evicted soon, or not at all. A workload that processes saves a checkpoint, and goes on. */
  SCHEDEV_SPOT_SIGNAL_ADVISED = 3,
  /** The event was cancelled, or is over and the machine still runs. */
  SCHEDEV_SPOT_SIGNAL_WITHDRAWN = 4,
  /** The workload has stopped. */
  SCHEDEV_SPOT_SIGNAL_STOPPED = 5,
  /** The machine or the program that keeps the workload has started again. */
  SCHEDEV_SPOT_SIGNAL_RESTARTED = 6,
  /** The latest checkpoint is restored, if there is one. */
  SCHEDEV_SPOT_SIGNAL_RECOVERED = 7,
  /** The workload is about to process again. */
  SCHEDEV_SPOT_SIGNAL_RESUMED = 8,
} schedev_spot_signal;

/**
 * Returns the phase of a workload after a signal. The life cycle is that of Microsoft's guidance for interruptible workloads.
 *
 * @param phase   the schedev_spot_phase now.
 * @param signal  a schedev_spot_signal.
 * @param next    receives the next schedev_spot_phase.
 * @return SCHEDEV_OK; SCHEDEV_END if the signal has no meaning in this phase, which continues; SCHEDEV_ERROR_ARGUMENT for an
 *         unknown phase or signal; SCHEDEV_ERROR_NULL.
 */
SCHEDEV_MUST_USE
SCHEDEV_API schedev_status schedev_spot_next_phase(uint32_t phase, uint32_t signal, uint32_t *next);

/**
 * Returns a schedev_spot_phase as a word, such as "warm-up".
 *
 * @param phase  a schedev_spot_phase, or any other number.
 * @return a static string; "unknown" if the number has no word.
 */
SCHEDEV_API const char *schedev_spot_phase_word(uint32_t phase);

/* ---- Terminate notifications ------------------------------------------------------------------------------------- */

/** The oldest version of the compute API that knows schedev_notification_profile. */
#define SCHEDEV_COMPUTE_API_VERSION_MIN "2019-03-01"

/** The shortest time-out of a Terminate event, in seconds. It is also Azure's default. */
#define SCHEDEV_TERMINATE_TIMEOUT_MIN_SECONDS 300

/** The longest time-out of a Terminate event, and the only one of an OS image event, in seconds. */
#define SCHEDEV_TERMINATE_TIMEOUT_MAX_SECONDS 900

/**
 * A rule of Azure by which a profile or its time-out is refused. The numbers are not those of a schedev_parse_error: a
 * schedev_error has one or the other.
 */
typedef enum schedev_profile_rule {
  /** A time-out is a duration in ISO 8601. Here: days, hours, minutes and seconds as whole numbers, such as "PT5M". */
  SCHEDEV_PROFILE_RULE_ISO_8601_DURATION = 64,
  /** The time-out of a Terminate event is at least 5 minutes. */
  SCHEDEV_PROFILE_RULE_AT_LEAST_5_MINUTES = 65,
  /** The time-out of a Terminate event is at most 15 minutes. */
  SCHEDEV_PROFILE_RULE_AT_MOST_15_MINUTES = 66,
  /** The time-out of an OS image event is 15 minutes. */
  SCHEDEV_PROFILE_RULE_EXACTLY_15_MINUTES = 67,
  /** Terminate notifications cannot be enabled on Spot instances. */
  SCHEDEV_PROFILE_RULE_NOT_ON_SPOT = 68,
  /** The compute API knows the profile since version SCHEDEV_COMPUTE_API_VERSION_MIN. */
  SCHEDEV_PROFILE_RULE_COMPUTE_API_VERSION = 69,
} schedev_profile_rule;

/**
 * Returns a schedev_profile_rule as a word, such as "at-least-5-minutes".
 *
 * @param rule  a schedev_profile_rule, or any other number.
 * @return a static string; "other" if the number has no word.
 */
SCHEDEV_API const char *schedev_profile_rule_word(uint32_t rule);

/**
 * Whether something is announced, and how long its event waits for its approval: terminateNotificationProfile, for deletions,
 * or osImageNotificationProfile, for reimages and OS upgrades, of the REST API. Initialise it with
 * SCHEDEV_NOTIFICATION_PROFILE_INIT, which announces nothing.
 */
typedef struct schedev_notification_profile {
  /** sizeof(schedev_notification_profile). */
  size_t struct_size;
  /**
   * The time-out in seconds, if has_not_before_timeout: SCHEDEV_TERMINATE_TIMEOUT_MIN_SECONDS to
   * SCHEDEV_TERMINATE_TIMEOUT_MAX_SECONDS for deletions, the latter for OS images. 0 is refused as too short. Without
   * has_not_before_timeout, everything but 0 is refused with SCHEDEV_ERROR_ARGUMENT.
   */
  uint32_t not_before_timeout_seconds;
  /** Whether there is a time-out. Without one, the JSON has none, and Azure takes 5 minutes for deletions. */
  bool has_not_before_timeout;
  /** Whether it is announced. */
  bool enable;
} schedev_notification_profile;

/** Initialises a profile that announces nothing. */
#define SCHEDEV_NOTIFICATION_PROFILE_INIT                                                                              \
  { sizeof(schedev_notification_profile), 0, false, false }

/**
 * Parses the time-out of a Terminate event: a duration in ISO 8601 such as "PT10M", with days, hours, minutes and seconds as
 * whole numbers.
 *
 * @param data     the text, UTF-8; NULL if len is 0.
 * @param len      its length in bytes.
 * @param seconds  receives the time-out in seconds.
 * @param error    receives the rule by which the time-out is refused; may be NULL.
 * @return SCHEDEV_OK; SCHEDEV_ERROR_PROFILE if Azure refuses it; SCHEDEV_ERROR_UTF8; SCHEDEV_ERROR_NULL.
 */
SCHEDEV_MUST_USE
SCHEDEV_API schedev_status schedev_terminate_timeout_parse(const char *data, size_t len, uint32_t *seconds,
                                                           schedev_error *error);

/**
 * Parses the time-out of an OS image event, which can only be 15 minutes, such as "PT15M" or "PT900S".
 *
 * @param data     the text, UTF-8; NULL if len is 0.
 * @param len      its length in bytes.
 * @param seconds  receives SCHEDEV_TERMINATE_TIMEOUT_MAX_SECONDS.
 * @param error    receives the rule by which the time-out is refused; may be NULL.
 * @return SCHEDEV_OK; SCHEDEV_ERROR_PROFILE if Azure refuses it; SCHEDEV_ERROR_UTF8; SCHEDEV_ERROR_NULL.
 */
SCHEDEV_MUST_USE
SCHEDEV_API schedev_status schedev_os_image_timeout_parse(const char *data, size_t len, uint32_t *seconds,
                                                          schedev_error *error);

/**
 * Formats the time-out of a Terminate event in ISO 8601, such as "PT10M" or "PT7M30S".
 *
 * @param seconds   the time-out in seconds.
 * @param buffer    receives the text, and a NUL after it if a byte is left; NULL if capacity is 0.
 * @param capacity  the size of the buffer in bytes; 16 bytes are enough for every time-out.
 * @param needed    receives the length of the text in bytes, without the NUL, even if the buffer is too small.
 * @param error     receives the rule by which the time-out is refused; may be NULL.
 * @return SCHEDEV_OK; SCHEDEV_ERROR_PROFILE if Azure refuses it; SCHEDEV_ERROR_BUFFER_TOO_SMALL; SCHEDEV_ERROR_NULL.
 */
SCHEDEV_MUST_USE
SCHEDEV_API schedev_status schedev_terminate_timeout_format(uint32_t seconds, char *buffer, size_t capacity,
                                                            size_t *needed, schedev_error *error);

/**
 * Checks that a scale set accepts a profile for deletions. An OS image profile needs no such check: schedev_notification_json()
 * checks its time-out.
 *
 * @param profile          the profile.
 * @param is_spot          whether the instances of the scale set are Spot machines.
 * @param api_version      the version of the compute API, a date such as "2021-07-01"; NULL if its length is 0.
 * @param api_version_len  its length in bytes.
 * @param error            receives the rule by which the profile is refused; may be NULL.
 * @return SCHEDEV_OK; SCHEDEV_ERROR_PROFILE if Azure refuses it; SCHEDEV_ERROR_ARGUMENT; SCHEDEV_ERROR_UTF8;
 *         SCHEDEV_ERROR_NULL.
 */
SCHEDEV_MUST_USE
SCHEDEV_API schedev_status schedev_terminate_check(const schedev_notification_profile *profile, bool is_spot,
                                                   const char *api_version, size_t api_version_len,
                                                   schedev_error *error);

/**
 * Writes the JSON of what a scale set announces: scheduledEventsProfile of the REST API, in
 * properties.virtualMachineProfile. For example:
 * {"terminateNotificationProfile":{"notBeforeTimeout":"PT10M","enable":true}}.
 *
 * @param terminate  the profile for deletions; NULL leaves it out.
 * @param os_image   the profile for reimages and OS upgrades; NULL leaves it out.
 * @param buffer     receives the JSON, and a NUL after it if a byte is left; NULL if capacity is 0.
 * @param capacity   the size of the buffer in bytes; 192 bytes are always enough.
 * @param needed     receives the length of the JSON in bytes, without the NUL, even if the buffer is too small.
 * @param error      receives the rule by which a profile is refused; may be NULL.
 * @return SCHEDEV_OK; SCHEDEV_ERROR_PROFILE if Azure refuses it; SCHEDEV_ERROR_BUFFER_TOO_SMALL; SCHEDEV_ERROR_ARGUMENT;
 *         SCHEDEV_ERROR_NULL.
 */
SCHEDEV_MUST_USE
SCHEDEV_API schedev_status schedev_notification_json(const schedev_notification_profile *terminate,
                                                     const schedev_notification_profile *os_image, char *buffer,
                                                     size_t capacity, size_t *needed, schedev_error *error);

#ifdef __cplusplus
}
#endif

#endif /* SCHEDULED_EVENTS_H */
