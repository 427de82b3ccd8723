/*
 * scheduled_events.h - read, track and decide on Azure Scheduled Events, without allocating
 *
 * Azure announces reboots, freezes, redeploys, spot evictions and terminations to the software inside a virtual machine
 * through a small JSON document at http://169.254.169.254/metadata/scheduledevents. This library reads that document,
 * tells what changed since the last one, decides what to do about it and writes the approval. It has no I/O, no clock,
 * no threads and no heap: the program brings its own HTTP, and hands over time and memory.
 *
 * cc agent.c $(pkg-config --cflags --libs scheduled_events) builds a program with it; CMake finds the package
 * scheduled_events, with the targets scheduled_events::scheduled_events and scheduled_events::static.
 *
 * There are two ways to use it. A session is the whole client as a state machine: it says when to poll, what to post,
 * when to prepare and when to recover. With functions of the program's own for time, HTTP and the work to be done, the
 * agent is this loop, and examples/c/agent.c is it in full, over libcurl:
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
 *         status = schedev_session_prepared(session, step.event.event_id, SCHEDEV_PREPARATION_READY);
 *         break;
 *       case SCHEDEV_STEP_RECOVER:
 *         take_back();
 *         status = schedev_session_recovered(session, step.event.event_id);
 *         break;
 *       default:
 *         report(&step);
 *       }
 *     }
 *
 * The other objects are its parts, for programs that do the rest themselves:
 *
 *     schedev_document document;
 *     schedev_event_cursor cursor = SCHEDEV_CURSOR_INIT;
 *     schedev_event event;
 *     schedev_text name;
 *     schedev_error error;
 *     if (schedev_document_parse(body, body_len, &document, &error) != SCHEDEV_OK) {
 *       fprintf(stderr, "%u:%u: %s\n", error.line, error.column, schedev_error_message(&error));
 *       return 1;
 *     }
 *     while (schedev_document_next(&document, &cursor, &event) == SCHEDEV_OK) {
 *       printf("%.*s:", (int)event.event_id.len, event.event_id.data);
 *       for (size_t i = 0; schedev_event_resource(&event, i, &name) == SCHEDEV_OK; i++) {
 *         printf(" %.*s", (int)name.len, name.data);
 *       }
 *       printf("\n");
 *     }
 *
 * Texts come from outside, with whatever bytes stand in them: escape them before they reach a terminal, a log or a
 * shell.
 *
 * CONVENTIONS
 *
 * Arguments come in this order: the object, inputs, outputs. Functions that can fail return a schedev_status: 0 is
 * SCHEDEV_OK, 1 is SCHEDEV_END, and the rest are errors. Each function's @return lists those that it can return; beside
 * them any can return SCHEDEV_ERROR_INTERNAL, which no input is known to cause.
 *
 * Outputs are written only on success; before that they may hold anything, and after a failure they hold what they held
 * before. There are two exceptions: `needed`, which tells the size of a result that did not fit, and `error`, which
 * tells why a document was refused. An object or a cursor that is changed is changed on success only, where nothing
 * else is said.
 *
 * Every enumeration travels as uint32_t in structs and arguments, so that its size never depends on a compiler; its
 * constants say what the numbers mean. A number that a function does not know is answered with SCHEDEV_ERROR_ARGUMENT.
 * A number that you do not know comes from a later version of the library: treat it as "other".
 *
 * NULL where a parameter may not be NULL is answered with SCHEDEV_ERROR_NULL, and a pointer that is not aligned for its
 * type with SCHEDEV_ERROR_ARGUMENT; parameters that may be NULL say so. An empty text, list or buffer is NULL and 0, or
 * anything and 0. Members are zero where the has_ member beside them is false. Lengths and sizes are in bytes, offsets
 * and indices count from 0. Every other number has its unit in its name; moments are seconds, or milliseconds (_ms),
 * since 1970-01-01T00:00:00Z.
 *
 * A function that writes to a buffer takes `capacity` and tells `needed`, the length of the result in bytes. With
 * capacity 0 it only tells. Results that are texts get a NUL behind them where there is room for one, which `needed`
 * does not count.
 *
 * OWNERSHIP
 *
 * Nothing is allocated and nothing is freed. A document, an event, a text or a cursor is a view of the bytes that were
 * parsed: keep those alive and unchanged as long as you use it. What else a function is given it needs during the call
 * only. Structs may be copied. Outputs must overlap neither each other nor inputs.
 *
 * Sessions and trackers live in memory that you hand over, less than 20 KB for a session and 40 KB for a tracker, and
 * copy what they need of their arguments. They may not be moved. They need no end: the memory is yours again when you
 * are done.
 *
 * Objects that were never initialised, or are zeroed, are recognised and refused; freed memory cannot be.
 *
 * THREADS
 *
 * There is no global state. Different objects can be used by different threads at the same time. One object can be read
 * by several threads at the same time: that is what a const pointer means. Whatever takes a pointer that is not const
 * needs that object for itself. No function blocks, or looks at the locale, the environment or errno.
 *
 * VERSIONS AND THE ABI
 *
 * Versions follow semver.org. The shared library's name ends in its ABI: libscheduled_events.so.0.1 for all versions
 * 0.1.x, and from 1.0 on the major version alone. A program runs with every library of its ABI that is as new as the
 * header that it was compiled with, or newer. So within one ABI:
 *
 * - functions and constants may be added; none changes or goes away, and no number gets another meaning.
 * - structs with a leading struct_size, which you fill in, may grow at their end. The library takes every size that the
 *   struct has had, and for the members that are missing what their _INIT macro says. A larger one is refused with
 *   SCHEDEV_ERROR_ARGUMENT: it may ask for what this library cannot do.
 * - structs with `reserved` members, which the library fills in, keep their size: new members take the place of these.
 * - all others keep size and layout. What is called `opaque` has room to spare for what the library keeps in it.
 *
 * This file is generated: edit the comments in ffi-c/src and ffi-c/header/scheduled_events.h.in instead.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */

#ifndef SCHEDULED_EVENTS_H
#define SCHEDULED_EVENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A result that must be looked at. */
#if defined(SCHEDEV_MUST_USE)
/* The program has its own. */
#elif defined(__GNUC__) || defined(__clang__)
#define SCHEDEV_MUST_USE __attribute__((warn_unused_result))
#else
#define SCHEDEV_MUST_USE
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

/**
 * The version of the library that is linked, such as "0.1.0". Compare it with SCHEDEV_VERSION_STRING, the version of
 * the header, where a program is to run with the library that it was compiled for.
 *
 * @return a constant text that ends with NUL.
 */
const char *schedev_version_string(void);

/* ---- Status ------------------------------------------------------------------------------------------------------ */

/**
 * What a call came to. 0 is success and 1 the end of an iteration; everything from 2 on is an error, and a call that
 * returns an error has written nothing, `needed` and a `schedev_error` excepted.
 *
 * The numbers never change and are never used again. Later versions may add some: treat one that you do not know as an
 * error.
 */
typedef enum schedev_status {
  /** It is done. */
  SCHEDEV_OK = 0,
  /** There is nothing more, or nothing at that index. Not an error. */
  SCHEDEV_END = 1,
  /** A pointer that must not be NULL is, or NULL comes with a length that is not 0. */
  SCHEDEV_ERROR_NULL = 2,
  /**
   * A value is none of those that the parameter can have; or an object was never initialised; or a cursor belongs to
   * another object.
   */
  SCHEDEV_ERROR_ARGUMENT = 3,
  /** A text that the caller passed is not UTF-8. */
  SCHEDEV_ERROR_UTF8 = 4,
  /** The buffer cannot hold the result; `needed` tells what it takes. */
  SCHEDEV_ERROR_BUFFER_TOO_SMALL = 5,
  /** The bytes are no Scheduled Events document; the `schedev_error` tells why and where. */
  SCHEDEV_ERROR_PARSE = 6,
  /** The text is no time, or one that does not exist. */
  SCHEDEV_ERROR_TIME = 7,
  /** A policy has more than SCHEDEV_RULES_MAX rules. */
  SCHEDEV_ERROR_TOO_MANY_RULES = 8,
  /** More than SCHEDEV_NAMES_MAX names were passed. */
  SCHEDEV_ERROR_TOO_MANY_NAMES = 9,
  /** A name has more than SCHEDEV_NAME_MAX_BYTES bytes. */
  SCHEDEV_ERROR_NAME_TOO_LONG = 10,
  /** The interval is below SCHEDEV_INTERVAL_MIN_MS. */
  SCHEDEV_ERROR_INTERVAL_TOO_SHORT = 11,
  /** The memory that the caller hands over is smaller than the object's size. */
  SCHEDEV_ERROR_MEMORY_TOO_SMALL = 12,
  /** The document holds more events than the tracker; nothing changed. */
  SCHEDEV_ERROR_TRACKER_FULL = 13,
  /** No such event is followed, or it does not wait for this answer. */
  SCHEDEV_ERROR_UNKNOWN_EVENT = 14,
  /** The bytes are no snapshot, or not a whole one, or were changed. The session is empty. */
  SCHEDEV_ERROR_SNAPSHOT_DAMAGED = 15,
  /** A later version of this library wrote the snapshot. The session is empty. */
  SCHEDEV_ERROR_SNAPSHOT_VERSION = 16,
  /** The snapshot holds more events than a session. The session is empty. */
  SCHEDEV_ERROR_SNAPSHOT_TOO_MANY_EVENTS = 17,
  /** A defect of this library was caught. Initialise the objects that took part anew. */
  SCHEDEV_ERROR_INTERNAL = 255,
} schedev_status;

/**
 * What a status means, in a few words for a person.
 *
 * @param code  a schedev_status, or any other number.
 * @return a constant text that ends with NUL; never NULL.
 */
const char *schedev_status_message(uint32_t code);

/* ---- Texts ------------------------------------------------------------------------------------------------------- */

/**
 * A text: a view of bytes that somebody else keeps. UTF-8, not ended by NUL. An empty or absent text has a length
 * of 0, and then the pointer may be NULL.
 *
 * Texts of a document point into the document's bytes and are as they stand there. Where `escaped` is false, as in
 * every real document so far, these bytes are the characters. Where it is true they hold escapes of JSON, such as
 * \u00e9: schedev_text_copy() decodes them, and every function that takes a text understands them.
 */
typedef struct schedev_text {
  /** The first byte. */
  const char *data;
  /** The length in bytes. */
  size_t len;
  /** Whether the bytes hold escapes of JSON. */
  bool escaped;
} schedev_text;

/**
 * The text of a C string.
 *
 * @param string  ends with NUL, and lives as long as the text is used; NULL is the empty text.
 * @return a view of it, the NUL left out.
 */
schedev_text schedev_text_from(const char *string);

/**
 * Copies a text, escapes decoded.
 *
 * To learn the size beforehand pass NULL and 0: the call then returns SCHEDEV_ERROR_BUFFER_TOO_SMALL, or SCHEDEV_OK for
 * an empty text. A buffer of `needed` + 1 bytes always gets its NUL. Mind that a decoded text can hold NULs of its own.
 *
 * @param text      the text.
 * @param buffer    receives the text, and a NUL behind it where there is room for one; NULL where capacity is 0.
 * @param capacity  the bytes that the buffer holds.
 * @param needed    receives the length of the decoded text in bytes, the NUL not counted, also where it does not fit.
 * @return SCHEDEV_OK; SCHEDEV_ERROR_BUFFER_TOO_SMALL, and the buffer is as it was; SCHEDEV_ERROR_NULL;
 *         SCHEDEV_ERROR_UTF8.
 */
SCHEDEV_MUST_USE
schedev_status schedev_text_copy(schedev_text text, char *buffer, size_t capacity, size_t *needed);

/**
 * Whether a text, escapes decoded, equals these bytes exactly.
 *
 * @param text  the text.
 * @param name  the bytes to compare with; NULL where len is 0.
 * @param len   their length.
 * @return whether they are equal; false for a NULL that comes with a length.
 */
bool schedev_text_equal(schedev_text text, const char *name, size_t len);

/**
 * Whether a text, escapes decoded, equals these bytes but for the case of ASCII letters, which is how Azure compares
 * event ids and the names of machines.
 *
 * @param text  the text.
 * @param name  the bytes to compare with; NULL where len is 0.
 * @param len   their length.
 * @return whether they are equal; false for a NULL that comes with a length.
 */
bool schedev_text_equal_ignore_case(schedev_text text, const char *name, size_t len);

/* ---- Times ------------------------------------------------------------------------------------------------------- */

/**
 * Reads a time: RFC 1123 ("Mon, 19 Sep 2016 18:29:47 GMT") or ISO 8601 ("2018-04-12T16:58:30.1458776Z"). Fractions of
 * a second are cut off, an offset is converted, and no offset means UTC.
 *
 * @param data     the text, UTF-8; NULL where len is 0.
 * @param len      its length in bytes.
 * @param seconds  receives the seconds since 1970-01-01T00:00:00Z, leap seconds not counted.
 * @return SCHEDEV_OK; SCHEDEV_ERROR_TIME for what is no time; SCHEDEV_ERROR_UTF8; SCHEDEV_ERROR_NULL.
 */
SCHEDEV_MUST_USE
schedev_status schedev_time_parse(const char *data, size_t len, int64_t *seconds);

/**
 * Writes a moment as RFC 3339 in UTC, such as "2022-04-11T22:26:58Z".
 *
 * @param seconds   seconds since 1970-01-01T00:00:00Z.
 * @param buffer    receives the text, and a NUL where there is room for it; NULL where capacity is 0.
 * @param capacity  the bytes that the buffer holds; 32 are enough for any moment and its NUL.
 * @param needed    receives the length of the text in bytes, the NUL not counted, also where it does not fit.
 * @return SCHEDEV_OK; SCHEDEV_ERROR_BUFFER_TOO_SMALL; SCHEDEV_ERROR_NULL.
 */
SCHEDEV_MUST_USE
schedev_status schedev_time_format(int64_t seconds, char *buffer, size_t capacity, size_t *needed);

/* ---- Errors ------------------------------------------------------------------------------------------------------ */

/** Why a document was refused. */
typedef enum schedev_parse_error {
  /** No error. */
  SCHEDEV_PARSE_ERROR_NONE = 0,
  /** The input ends inside a value: a cut-off body, or an empty one. */
  SCHEDEV_PARSE_ERROR_UNEXPECTED_END = 1,
  /** A byte that cannot stand there. */
  SCHEDEV_PARSE_ERROR_UNEXPECTED_BYTE = 2,
  /** A raw byte below 0x20 inside a string. */
  SCHEDEV_PARSE_ERROR_CONTROL_CHARACTER = 3,
  /** A backslash that starts no escape of RFC 8259. */
  SCHEDEV_PARSE_ERROR_INVALID_ESCAPE = 4,
  /** Half of a surrogate pair. */
  SCHEDEV_PARSE_ERROR_LONE_SURROGATE = 5,
  /** Bytes that are not UTF-8. */
  SCHEDEV_PARSE_ERROR_INVALID_UTF8 = 6,
  /** A number outside the grammar, such as "01" or "1.". */
  SCHEDEV_PARSE_ERROR_INVALID_NUMBER = 7,
  /** More than 32 objects and arrays inside each other. */
  SCHEDEV_PARSE_ERROR_TOO_DEEP = 8,
  /** The document is a value, but no object. */
  SCHEDEV_PARSE_ERROR_NOT_AN_OBJECT = 9,
  /** The document has no "Events", or they are no array. */
  SCHEDEV_PARSE_ERROR_NO_EVENTS = 10,
  /** A member that the document defines stands twice in one object. */
  SCHEDEV_PARSE_ERROR_REPEATED_MEMBER = 11,
  /** Something follows the document. */
  SCHEDEV_PARSE_ERROR_TRAILING_DATA = 12,
  /** A kind that this version of the header does not name. */
  SCHEDEV_PARSE_ERROR_OTHER = 255,
} schedev_parse_error;

/** Why a document was refused, and where. The caller's; written when a function returns SCHEDEV_ERROR_PARSE. */
typedef struct schedev_error {
  /** A schedev_parse_error. */
  uint32_t kind;
  /** The line, from 1; lines end with a line feed. */
  uint32_t line;
  /** The column, from 1, in characters; a byte order mark is not counted. */
  uint32_t column;
  /** The byte, from 0; the length of the input where it ended too early. */
  size_t offset;
} schedev_error;

/**
 * What is wrong, in a few words for a person, the place left aside: "unexpected byte".
 *
 * @param error  the error; NULL counts as no error.
 * @return a constant text that ends with NUL; never NULL.
 */
const char *schedev_error_message(const schedev_error *error);

/**
 * A schedev_parse_error as a word: "unexpected-byte".
 *
 * @param kind  a schedev_parse_error, or any other number.
 * @return a constant text that ends with NUL; "other" for a number that has no word.
 */
const char *schedev_parse_error_word(uint32_t kind);

/** A place in a text, as editors count. */
typedef struct schedev_position {
  /** The line, from 1; lines end with a line feed. */
  uint32_t line;
  /** The column, from 1, in characters; a byte order mark is not counted. */
  uint32_t column;
} schedev_position;

/**
 * The line and the column of a byte, such as the one of a schedev_problem. Runs over the text up to there, so it is for
 * messages, not for loops.
 *
 * @param data      the text; NULL where len is 0.
 * @param len       its length in bytes.
 * @param offset    the byte, from 0; beyond the end it counts as the end.
 * @param position  receives the place.
 * @return SCHEDEV_OK; SCHEDEV_ERROR_NULL.
 */
SCHEDEV_MUST_USE
schedev_status schedev_position_of(const char *data, size_t len, size_t offset, schedev_position *position);

/* ---- Documents --------------------------------------------------------------------------------------------------- */

/** What every cursor is before its first use: schedev_event_cursor cursor = SCHEDEV_CURSOR_INIT; */
#define SCHEDEV_CURSOR_INIT                                                                                            \
  {                                                                                                                    \
    { 0 }                                                                                                              \
  }

/**
 * A document that was checked: a view of the caller's bytes, which must stay as they are while it is used. Opaque; it
 * may be copied, and there is nothing to free.
 */
typedef struct schedev_document {
  /** Not for the caller. */
  uint64_t opaque[96];
} schedev_document;

/**
 * Checks a document and keeps a view of it.
 *
 * Parsing is strict about form: the bytes must be one JSON text (RFC 8259, UTF-8, a leading byte order mark allowed)
 * that is an object with an array Events, in which no known member stands twice. It is tolerant about meaning: unknown
 * members and words are skipped or kept, and what is odd in one event is a schedev_problem of that event.
 *
 * There is no limit on events or resources but the length of the input. Time is linear in it; nothing is allocated.
 *
 * @param data      the body of the answer; it is not changed, and must outlive what is read from the document.
 * @param len       its length in bytes.
 * @param document  receives the view.
 * @param error     receives kind and place where the document is refused; may be NULL.
 * @return SCHEDEV_OK; SCHEDEV_ERROR_PARSE; SCHEDEV_ERROR_NULL.
 */
SCHEDEV_MUST_USE
schedev_status schedev_document_parse(const char *data, size_t len, schedev_document *document, schedev_error *error);

/** What stands in an incarnation. */
typedef enum schedev_incarnation_kind {
  /** No incarnation, or one that cannot be understood. */
  SCHEDEV_INCARNATION_ABSENT = 0,
  /** A whole number. */
  SCHEDEV_INCARNATION_NUMBER = 1,
  /** A text. */
  SCHEDEV_INCARNATION_TEXT = 2,
} schedev_incarnation_kind;

/**
 * The document's incarnation, which changes with every change of the document. Compare it for equality only: it skips
 * numbers, and starts again when nobody polled for a day.
 */
typedef struct schedev_incarnation {
  /** A schedev_incarnation_kind. */
  uint32_t kind;
  /** The number; 0 for the other kinds. */
  uint64_t number;
  /** The text; empty for the other kinds. */
  schedev_text text;
} schedev_incarnation;

/**
 * The document's incarnation.
 *
 * @param document     the document.
 * @param incarnation  receives it.
 * @return SCHEDEV_OK; SCHEDEV_ERROR_NULL; SCHEDEV_ERROR_ARGUMENT for a document that was not initialised.
 */
SCHEDEV_MUST_USE
schedev_status schedev_document_incarnation(const schedev_document *document, schedev_incarnation *incarnation);

/**
 * How many events schedev_document_next() gives.
 *
 * @param document  the document.
 * @return the count; 0 for NULL, or for a document that was not initialised.
 */
size_t schedev_document_event_count(const schedev_document *document);

/* ---- Events ------------------------------------------------------------------------------------------------------ */

/** The longest EventId, in bytes. A real one is a GUID of 36. */
#define SCHEDEV_EVENT_ID_MAX_BYTES 64

/** The impact that an event will have. */
typedef enum schedev_event_type {
  /** The event names no type. */
  SCHEDEV_EVENT_TYPE_NONE = 0,
  /** The machine pauses for a few seconds; memory, open files and connections survive. */
  SCHEDEV_EVENT_TYPE_FREEZE = 1,
  /** The machine restarts; memory is lost. */
  SCHEDEV_EVENT_TYPE_REBOOT = 2,
  /** The machine moves to another host; memory and temporary disks are lost. */
  SCHEDEV_EVENT_TYPE_REDEPLOY = 3,
  /** The spot machine is evicted; temporary disks are lost. Notice: 30 seconds at least. */
  SCHEDEV_EVENT_TYPE_PREEMPT = 4,
  /** The machine is to be deleted. */
  SCHEDEV_EVENT_TYPE_TERMINATE = 5,
  /** A word that this library does not know; the event's text has it. */
  SCHEDEV_EVENT_TYPE_OTHER = 255,
} schedev_event_type;

/** How far an event has come. One that is over is absent from the document. */
typedef enum schedev_event_status {
  /** The event names no status. */
  SCHEDEV_EVENT_STATUS_NONE = 0,
  /** Announced; it can be approved. */
  SCHEDEV_EVENT_STATUS_SCHEDULED = 1,
  /** Under way. */
  SCHEDEV_EVENT_STATUS_STARTED = 2,
  /** A word that this library does not know; the event's text has it. */
  SCHEDEV_EVENT_STATUS_OTHER = 255,
} schedev_event_status;

/** Who caused an event. */
typedef enum schedev_event_source {
  /** The event names no source. */
  SCHEDEV_EVENT_SOURCE_NONE = 0,
  /** Azure itself. */
  SCHEDEV_EVENT_SOURCE_PLATFORM = 1,
  /** A person or program with rights on the machine. */
  SCHEDEV_EVENT_SOURCE_USER = 2,
  /** A word that this library does not know; the event's text has it. */
  SCHEDEV_EVENT_SOURCE_OTHER = 255,
} schedev_event_source;

/**
 * One event: a maintenance, an eviction or a deletion of one or more machines.
 *
 * The members are a reading: texts view the document's bytes, or constants of the library, and are empty where the
 * document says nothing. What the document says in a way that cannot be understood is absent too, and a
 * schedev_problem. The struct may be copied. It is for reading: functions that take an event, schedev_decide() among
 * them, look at the document's own words, not at what a caller wrote over these members.
 */
typedef struct schedev_event {
  /** EventId: opaque, the same through the event's life. Compare it without ASCII case, echo it unchanged. */
  schedev_text event_id;
  /** EventType, the word itself. */
  schedev_text event_type_text;
  /** EventStatus, the word itself. */
  schedev_text event_status_text;
  /** EventSource, the word itself. */
  schedev_text event_source_text;
  /** ResourceType: "VirtualMachine" so far. */
  schedev_text resource_type;
  /** Description: a sentence for people. */
  schedev_text description;
  /** NotBefore as it stands, where no time can be read from it. */
  schedev_text not_before_unreadable;
  /**
   * NotBefore: the event does not start before this moment, unless it is approved. Seconds since
   * 1970-01-01T00:00:00Z, if has_not_before.
   */
  int64_t not_before_seconds;
  /** Where the event stands in the document's Events, elements that are left out counted, from 0. */
  size_t index;
  /** EventType, a schedev_event_type. */
  uint32_t event_type;
  /** EventStatus, a schedev_event_status. */
  uint32_t event_status;
  /** EventSource, a schedev_event_source. */
  uint32_t event_source;
  /** DurationInSeconds: how long the interruption is expected to last, if has_duration. */
  uint32_t duration_seconds;
  /**
   * The first member with a problem among those that decisions rest on, a schedev_member; SCHEDEV_MEMBER_NONE where
   * there is none. An event that has one is held, whatever a policy says.
   */
  uint32_t unreliable_member;
  /** Whether NotBefore is known. It is blank once an event has started. */
  bool has_not_before;
  /** Whether the duration is known; Azure writes -1 where it is not. */
  bool has_duration;
  /** Whether ResourceType is there. */
  bool has_resource_type;
  /** Whether Resources is there. */
  bool has_resources;
  /** Whether Description is there. */
  bool has_description;
  /** Not for the caller. */
  uint64_t opaque[48];
} schedev_event;

/**
 * Where an iteration over a document's events stands. Opaque; start with SCHEDEV_CURSOR_INIT. It is tied to the
 * document's bytes, and may be copied.
 */
typedef struct schedev_event_cursor {
  /** Not for the caller. */
  uint64_t opaque[8];
} schedev_event_cursor;

/**
 * The next event, in the document's order. An element of Events that is no object, has no EventId, or repeats one is
 * left out, and stands among the problems.
 *
 * All but the first are read a second time for it, since nothing is stored: where that counts, see
 * schedev_document_parse_each().
 *
 * @param document  the document.
 * @param cursor    where the iteration stands; moved on. It starts as SCHEDEV_CURSOR_INIT.
 * @param event     receives the event.
 * @return SCHEDEV_OK; SCHEDEV_END when there are no more; SCHEDEV_ERROR_NULL; SCHEDEV_ERROR_ARGUMENT for a document or
 *         cursor that was not initialised, or a cursor of another document.
 */
SCHEDEV_MUST_USE
schedev_status schedev_document_next(const schedev_document *document, schedev_event_cursor *cursor,
                                     schedev_event *event);

/**
 * The name of a machine that the event concerns, by its place in Resources. Elements that are no strings do not count.
 *
 * Asking for 0, 1, 2 and so on goes over Resources once: the event remembers where it stands, which is why it is not
 * const. Going back starts again at the front. Where the event must not change, use schedev_event_next_resources().
 *
 * @param event  the event.
 * @param index  the place, from 0.
 * @param name   receives the name.
 * @return SCHEDEV_OK; SCHEDEV_END where there are fewer; SCHEDEV_ERROR_NULL; SCHEDEV_ERROR_ARGUMENT for an event that
 *         was not initialised.
 */
SCHEDEV_MUST_USE
schedev_status schedev_event_resource(schedev_event *event, size_t index, schedev_text *name);

/**
 * Where an iteration over an event's Resources stands. Opaque; start with SCHEDEV_CURSOR_INIT. It is tied to the
 * document's bytes, and may be copied.
 */
typedef struct schedev_resource_cursor {
  /** Not for the caller. */
  uint64_t opaque[10];
} schedev_resource_cursor;

/**
 * The next names in the event's Resources, as many as the array has room for: a few dozen places spare most of the
 * calls, however many machines the event concerns. Elements that are no strings are skipped.
 *
 * @param event     the event.
 * @param cursor    where the iteration stands; moved on. It starts as SCHEDEV_CURSOR_INIT.
 * @param names     receives the names, from the front.
 * @param capacity  the names that the array has room for, at least 1.
 * @param count     receives how many were written, at least 1. Fewer than capacity were the last.
 * @return SCHEDEV_OK; SCHEDEV_END when there are no more; SCHEDEV_ERROR_NULL; SCHEDEV_ERROR_ARGUMENT for an event or
 *         cursor that was not initialised, a cursor of another event, or a capacity of 0.
 */
SCHEDEV_MUST_USE
schedev_status schedev_event_next_resources(const schedev_event *event, schedev_resource_cursor *cursor,
                                            schedev_text *names, size_t capacity, size_t *count);

/** The most names that schedev_event_callback is given with an event. */
#define SCHEDEV_NAMES_AT_ONCE_MAX 16

/**
 * Shown an event by schedev_document_parse_each(). It must return normally: neither longjmp() nor an exception may
 * leave it.
 *
 * @param context  what was passed to schedev_document_parse_each().
 * @param event    the event, good until the callback returns; a copy is good as long as the document's bytes.
 * @param names    the names in the event's Resources, good as long as the event; NULL where they are more than
 *                 SCHEDEV_NAMES_AT_ONCE_MAX, and then schedev_event_next_resources() reads them.
 * @param count    how many they are; 0 where names is NULL.
 */
typedef void (*schedev_event_callback)(void *context, const schedev_event *event, const schedev_text *names,
                                       size_t count);

/**
 * Checks a document as schedev_document_parse() does, and shows each event, and the names in its Resources, while it
 * reads it. That takes half the time of going over the events afterwards, which reads them a second time.
 *
 * Nothing that was shown counts where the call fails. An event that repeats an id is shown too: where
 * schedev_document_event_count() is less than what was shown, schedev_document_next() gives those that stand.
 *
 * @param data      the body of the answer; it is not changed, and must outlive what is read from the document.
 * @param len       its length in bytes.
 * @param on_event  shown each event, in the document's order.
 * @param context   passed on to on_event.
 * @param document  receives the view.
 * @param error     receives kind and place where the document is refused; may be NULL.
 * @return SCHEDEV_OK; SCHEDEV_ERROR_PARSE; SCHEDEV_ERROR_NULL.
 */
SCHEDEV_MUST_USE
schedev_status schedev_document_parse_each(const char *data, size_t len, schedev_event_callback on_event, void *context,
                                           schedev_document *document, schedev_error *error);

/* ---- Problems ---------------------------------------------------------------------------------------------------- */

/** The members that the document and its events define. */
typedef enum schedev_member {
  /** None of them. */
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
 * A member's name on the wire: "EventId".
 *
 * @param member  a schedev_member, or any other number.
 * @return a constant text that ends with NUL; empty for a number that has no name.
 */
const char *schedev_member_name(uint32_t member);

/** What is odd about a member. */
typedef enum schedev_problem_kind {
  /** The event has no EventId: it is left out. */
  SCHEDEV_PROBLEM_MISSING = 1,
  /** An event with this EventId stands earlier in the document: this one is left out. */
  SCHEDEV_PROBLEM_REPEATED = 2,
  /** The EventId is empty. */
  SCHEDEV_PROBLEM_EMPTY = 3,
  /** The EventId has more than SCHEDEV_EVENT_ID_MAX_BYTES bytes. */
  SCHEDEV_PROBLEM_TOO_LONG = 4,
  /** The member's value has a type that it cannot have. */
  SCHEDEV_PROBLEM_WRONG_TYPE = 5,
  /** An element of Events is no object: it is left out. */
  SCHEDEV_PROBLEM_NOT_AN_OBJECT = 6,
  /** A number that is larger or smaller than its meaning allows. */
  SCHEDEV_PROBLEM_OUT_OF_RANGE = 7,
  /** A number with a fraction, or a text that is no number, where a whole number is meant. */
  SCHEDEV_PROBLEM_NOT_AN_INTEGER = 8,
  /** A NotBefore that is neither RFC 1123 nor ISO 8601, or a date that does not exist. */
  SCHEDEV_PROBLEM_UNREADABLE_TIME = 9,
  /** A kind that this version of the header does not name. */
  SCHEDEV_PROBLEM_OTHER = 255,
} schedev_problem_kind;

/**
 * A schedev_problem_kind as a word: "unreadable-time".
 *
 * @param kind  a schedev_problem_kind, or any other number.
 * @return a constant text that ends with NUL; "other" for a number that has no word.
 */
const char *schedev_problem_kind_word(uint32_t kind);

/** Something odd in one event, or in the document's own members, that does not refuse the document. */
typedef struct schedev_problem {
  /** A schedev_problem_kind. */
  uint32_t kind;
  /** A schedev_member; SCHEDEV_MEMBER_NONE where no member is concerned, as for an element that is no object. */
  uint32_t member;
  /** Where the event stands in the document's Events, elements that are left out counted, from 0. */
  size_t event_index;
  /** The first byte of the value concerned, or of the event where a member is missing, from 0. */
  size_t offset;
  /** Whether an event is concerned, not the document itself. */
  bool has_event;
} schedev_problem;

/**
 * Where an iteration over a document's problems stands. Opaque; start with SCHEDEV_CURSOR_INIT. It is tied to the
 * document's bytes, and may be copied.
 */
typedef struct schedev_problem_cursor {
  /** Not for the caller. */
  uint64_t opaque[128];
} schedev_problem_cursor;

/**
 * The next problem: the document's own first, then those of each event, in the order in which they stand.
 *
 * @param document  the document.
 * @param cursor    where the iteration stands; moved on. It starts as SCHEDEV_CURSOR_INIT.
 * @param problem   receives the problem.
 * @return SCHEDEV_OK; SCHEDEV_END when there are no more; SCHEDEV_ERROR_NULL; SCHEDEV_ERROR_ARGUMENT for a document or
 *         cursor that was not initialised, or a cursor of another document.
 */
SCHEDEV_MUST_USE
schedev_status schedev_document_next_problem(const schedev_document *document, schedev_problem_cursor *cursor,
                                             schedev_problem *problem);

/* ---- Names of this machine --------------------------------------------------------------------------------------- */

/** The most names that a machine can have here. */
#define SCHEDEV_NAMES_MAX 8

/** The longest name, in bytes. */
#define SCHEDEV_NAME_MAX_BYTES 128

/**
 * The names under which this machine stands in an event's Resources. No names at all, or a NULL in place of the struct,
 * means that they are unknown; then whose an event is cannot be told, and nothing is approved.
 *
 * Resources are resource names, not host names: the VM's name, or {scale-set}_{instance-id} in a uniform scale set.
 * The metadata service tells it (/metadata/instance/compute/name). Names match whole and without regard to the case of
 * ASCII letters.
 */
typedef struct schedev_names {
  /** The names, at most SCHEDEV_NAMES_MAX of at most SCHEDEV_NAME_MAX_BYTES bytes; NULL where there are none. */
  const schedev_text *items;
  /** How many. */
  size_t count;
  /** Whether the documents put one "_" before each resource's name, as API version 2017-03-01 does. */
  bool underscored;
} schedev_names;

/**
 * Where this machine stands in the event's Resources.
 *
 * @param event  the event.
 * @param names  the names of this machine; NULL where they are unknown.
 * @param rank   receives the place, from 0.
 * @return SCHEDEV_OK; SCHEDEV_END where the event does not name this machine, or the names are unknown;
 *         SCHEDEV_ERROR_NULL; SCHEDEV_ERROR_ARGUMENT; SCHEDEV_ERROR_UTF8; SCHEDEV_ERROR_TOO_MANY_NAMES;
 *         SCHEDEV_ERROR_NAME_TOO_LONG.
 */
SCHEDEV_MUST_USE
schedev_status schedev_event_rank(const schedev_event *event, const schedev_names *names, size_t *rank);

/* ---- Policies and decisions -------------------------------------------------------------------------------------- */

/** The most rules that a policy holds. */
#define SCHEDEV_RULES_MAX 32

/** What is done about an event. */
typedef enum schedev_action {
  /** Report it, never approve it. */
  SCHEDEV_ACTION_HOLD = 0,
  /** Approve it at once. */
  SCHEDEV_ACTION_APPROVE = 1,
  /** Prepare for it, and approve it once the host says that it is ready. */
  SCHEDEV_ACTION_PREPARE = 2,
  /** Neither prepare nor approve; it is of no interest. */
  SCHEDEV_ACTION_IGNORE = 3,
} schedev_action;

/** Whose events a rule matches. */
typedef enum schedev_scope {
  /** Those whose Resources name this machine. */
  SCHEDEV_SCOPE_MINE = 0,
  /** Those whose Resources do not. */
  SCHEDEV_SCOPE_OTHERS = 1,
  /** All that the document announces. */
  SCHEDEV_SCOPE_ANY = 2,
} schedev_scope;

/** Who approves an event that names several machines, this one among them, since an approval lets it proceed for all. */
typedef enum schedev_leader {
  /** The first machine in Resources. Nobody replaces it when it is dead; the event then starts at NotBefore. */
  SCHEDEV_LEADER_FIRST_RESOURCE = 0,
  /** Each machine waits in turn: the i-th in Resources, from 0, waits i times take_over_after_seconds. */
  SCHEDEV_LEADER_RANK = 1,
  /** Every machine approves for itself. */
  SCHEDEV_LEADER_EVERYONE = 2,
} schedev_leader;

/** The event types that a rule matches, to be joined with |. 0 is every type. */
typedef enum schedev_match_type {
  /** Every type. */
  SCHEDEV_MATCH_TYPE_ANY = 0,
  SCHEDEV_MATCH_TYPE_FREEZE = 1,
  SCHEDEV_MATCH_TYPE_REBOOT = 2,
  SCHEDEV_MATCH_TYPE_REDEPLOY = 4,
  SCHEDEV_MATCH_TYPE_PREEMPT = 8,
  SCHEDEV_MATCH_TYPE_TERMINATE = 16,
  /** Every word beside those. */
  SCHEDEV_MATCH_TYPE_OTHER = 32,
} schedev_match_type;

/** The event sources that a rule matches, to be joined with |. 0 is every source, and events that name none. */
typedef enum schedev_match_source {
  SCHEDEV_MATCH_SOURCE_ANY = 0,
  SCHEDEV_MATCH_SOURCE_PLATFORM = 1,
  SCHEDEV_MATCH_SOURCE_USER = 2,
  /** Every word beside those. */
  SCHEDEV_MATCH_SOURCE_OTHER = 4,
} schedev_match_source;

/**
 * One rule. It matches where everything that it names matches; a zeroed rule holds every event of this machine.
 * The layout is fixed: a later version that can match more will have another struct beside this one.
 */
typedef struct schedev_rule {
  /** A schedev_action: what it does. */
  uint32_t action;
  /** A schedev_scope: whose events it matches. */
  uint32_t scope;
  /** schedev_match_type, joined with |. */
  uint32_t event_types;
  /** schedev_match_source, joined with |. */
  uint32_t event_sources;
  /**
   * The shortest interruption that it matches, this one included, if has_min_duration. An unknown duration never
   * matches a range.
   */
  uint32_t min_duration_seconds;
  /** The longest interruption that it matches, this one included, if has_max_duration. */
  uint32_t max_duration_seconds;
  /** Whether there is a shortest interruption. */
  bool has_min_duration;
  /** Whether there is a longest interruption. */
  bool has_max_duration;
} schedev_rule;

/**
 * Rules in order, of which the first that matches decides, and who of several machines speaks for all. Start from
 * SCHEDEV_POLICY_INIT, which is the policy that holds everything.
 *
 * Some things no rule can change. An event that is not Scheduled is never approved, nor is one with a problem in a
 * member that decisions rest on, nor any while this machine's names are unknown; nor is another machine's Terminate.
 */
typedef struct schedev_policy {
  /** sizeof(schedev_policy), which lets the struct grow. */
  size_t struct_size;
  /** The rules, first to last; NULL where there are none. */
  const schedev_rule *rules;
  /** How many, at most SCHEDEV_RULES_MAX. */
  size_t rule_count;
  /** A schedev_leader. */
  uint32_t leader;
  /** For SCHEDEV_LEADER_RANK: the seconds to wait for each machine that stands before this one. */
  uint32_t take_over_after_seconds;
} schedev_policy;

/** The policy that holds everything, to start from. */
#define SCHEDEV_POLICY_INIT                                                                                            \
  { sizeof(schedev_policy), NULL, 0, SCHEDEV_LEADER_FIRST_RESOURCE, 0 }

/**
 * The preset that never approves anything: every event is held.
 *
 * @return a constant.
 */
const schedev_policy *schedev_policy_observe(void);

/**
 * The preset that does what Microsoft's published sample does: approve what a user started (rule 1) and freezes of less
 * than nine seconds (rule 2), of this machine only; hold the rest.
 *
 * @return a constant.
 */
const schedev_policy *schedev_policy_sample(void);

/** Why a decision is as it is. */
typedef enum schedev_reason {
  /** The rule is about events that a user started. */
  SCHEDEV_REASON_USER_INITIATED = 1,
  /** The rule allows interruptions up to some length. */
  SCHEDEV_REASON_SHORT_INTERRUPTION = 2,
  /** The rule matches. */
  SCHEDEV_REASON_RULE = 3,
  /** This machine's event, but no rule matches. */
  SCHEDEV_REASON_NO_RULE = 4,
  /** The policy has no rules at all. */
  SCHEDEV_REASON_OBSERVING = 5,
  /** The event does not name this machine, and no rule is about such events. */
  SCHEDEV_REASON_OTHER_MACHINE = 6,
  /** Another machine's deletion is that machine's to approve, whatever a rule says. */
  SCHEDEV_REASON_OTHER_MACHINES_TERMINATE = 7,
  /** This machine's name is not known. */
  SCHEDEV_REASON_NAME_UNKNOWN = 8,
  /** The event has no EventType. */
  SCHEDEV_REASON_TYPE_UNKNOWN = 9,
  /** The event is under way. */
  SCHEDEV_REASON_ALREADY_STARTED = 10,
  /** The event's status is absent, or a word that this library does not know. */
  SCHEDEV_REASON_NOT_SCHEDULED = 11,
  /** A member that decisions rest on has a problem; the decision names it. */
  SCHEDEV_REASON_UNRELIABLE = 12,
  /** The event names several machines, and another one approves for all. */
  SCHEDEV_REASON_ANOTHER_LEADS = 13,
  /** A reason that this version of the header does not name. */
  SCHEDEV_REASON_OTHER = 255,
} schedev_reason;

/** What is done about an event, and why. */
typedef struct schedev_decision {
  /** A schedev_action. */
  uint32_t action;
  /** A schedev_reason. schedev_decision_reason() puts it into words. */
  uint32_t reason;
  /** For SCHEDEV_REASON_UNRELIABLE the schedev_member concerned. */
  uint32_t member;
  /** The number of the rule that says so, from 1; 0 where no rule was asked. */
  uint32_t rule;
  /**
   * The seconds to wait, from when the event was first seen, before this machine approves it, if has_approve_after.
   * With SCHEDEV_ACTION_PREPARE the host must be ready too.
   */
  uint32_t approve_after_seconds;
  /** Whether this machine ever approves the event. */
  bool has_approve_after;
  /** Whether the time that is left is known. */
  bool has_time_left;
  /** The seconds from now to NotBefore, negative once it has passed, if has_time_left. */
  int64_t time_left_seconds;
} schedev_decision;

/**
 * Decides about one event.
 *
 * @param policy       the policy; schedev_policy_sample() and schedev_policy_observe() are there to be used.
 * @param event        the event.
 * @param names        the names of this machine; NULL where they are unknown, and then every event is held.
 * @param now_seconds  the time, in seconds since 1970-01-01T00:00:00Z; only the time that is left depends on it.
 * @param decision     receives the decision.
 * @return SCHEDEV_OK; SCHEDEV_ERROR_NULL; SCHEDEV_ERROR_ARGUMENT for a policy that has a wrong struct_size or unknown
 *         constants, or an event that was not initialised; SCHEDEV_ERROR_TOO_MANY_RULES; SCHEDEV_ERROR_TOO_MANY_NAMES;
 *         SCHEDEV_ERROR_NAME_TOO_LONG; SCHEDEV_ERROR_UTF8.
 */
SCHEDEV_MUST_USE
schedev_status schedev_decide(const schedev_policy *policy, const schedev_event *event, const schedev_names *names,
                              int64_t now_seconds, schedev_decision *decision);

/**
 * A decision's reason, in a few words for a person: "short interruption".
 *
 * @param decision  the decision; NULL has no reason.
 * @return a constant text that ends with NUL; empty where there is no reason.
 */
const char *schedev_decision_reason(const schedev_decision *decision);

/**
 * A schedev_action as a word: "approve".
 *
 * @param action  a schedev_action, or any other number.
 * @return a constant text that ends with NUL; "unknown" for a number that has no word.
 */
const char *schedev_action_word(uint32_t action);

/* ---- Approvals --------------------------------------------------------------------------------------------------- */

/**
 * Writes the POST body that approves events: {"StartRequests":[{"EventId":"..."}]}. It lets Azure start them early, for
 * all their Resources. Ids are echoed as they were read.
 *
 * To learn the size beforehand pass NULL and 0.
 *
 * @param ids       the ids, such as those of schedev_event.
 * @param count     how many, at least 1.
 * @param buffer    receives the body, and a NUL behind it where there is room for one; NULL where capacity is 0.
 * @param capacity  the bytes that the buffer holds.
 * @param needed    receives the length of the body in bytes, the NUL not counted, also where it does not fit.
 * @return SCHEDEV_OK; SCHEDEV_ERROR_BUFFER_TOO_SMALL, and the buffer is as it was; SCHEDEV_ERROR_NULL;
 *         SCHEDEV_ERROR_ARGUMENT for no ids at all; SCHEDEV_ERROR_UTF8.
 */
SCHEDEV_MUST_USE
schedev_status schedev_start_requests(const schedev_text *ids, size_t count, char *buffer, size_t capacity,
                                      size_t *needed);

/* ---- Trackers ---------------------------------------------------------------------------------------------------- */

/** The most events that a tracker remembers. */
#define SCHEDEV_TRACKER_EVENTS_MAX 256

/**
 * A change in the life of one event. SCHEDULED or STARTED_WITHOUT_NOTICE comes first; then RESCHEDULED and UPDATED, any
 * number of times; STARTED at most once, after SCHEDULED; and one of COMPLETED, CANCELLED and ENDED last.
 */
typedef enum schedev_change {
  /** Seen for the first time, not started yet. */
  SCHEDEV_CHANGE_SCHEDULED = 1,
  /** Under way, and seen scheduled before. */
  SCHEDEV_CHANGE_STARTED = 2,
  /** Under way when it was first seen, as after a hardware failure. */
  SCHEDEV_CHANGE_STARTED_WITHOUT_NOTICE = 3,
  /** NotBefore moved. */
  SCHEDEV_CHANGE_RESCHEDULED = 4,
  /** Another member changed. */
  SCHEDEV_CHANGE_UPDATED = 5,
  /** It was under way, and is gone. */
  SCHEDEV_CHANGE_COMPLETED = 6,
  /** It was scheduled, not approved, NotBefore still ahead, and is gone. */
  SCHEDEV_CHANGE_CANCELLED = 7,
  /** It was scheduled, approved or past NotBefore, and is gone: whether it happened cannot be told. */
  SCHEDEV_CHANGE_ENDED = 8,
} schedev_change;

/**
 * A schedev_change as a word: "started-without-notice".
 *
 * @param change  a schedev_change, or any other number.
 * @return a constant text that ends with NUL; "unknown" for a number that has no word.
 */
const char *schedev_change_word(uint32_t change);

/**
 * What is remembered of an event after its document is gone. Its texts view the memory of the tracker or the session
 * that it comes from, and are good until that is told or asked the next thing.
 */
typedef struct schedev_tracked_event {
  /** The event's id, as it was first spelt. Of an id beyond SCHEDEV_EVENT_ID_MAX_BYTES it is the beginning and a hash. */
  schedev_text event_id;
  /** The event's type as the wire spells it, at most 28 bytes of it; empty where the event names none. */
  schedev_text event_type_text;
  /**
   * The last NotBefore that was known, in seconds since 1970-01-01T00:00:00Z, if has_not_before. Documents blank it
   * when the event starts.
   */
  int64_t not_before_seconds;
  /** The last expected interruption, if has_duration. */
  uint32_t duration_seconds;
  /** A schedev_event_status; SCHEDEV_EVENT_STATUS_OTHER also where it never had one. It never goes back from started. */
  uint32_t event_status;
  /** Whether NotBefore was ever known. */
  bool has_not_before;
  /** Whether the duration is known. */
  bool has_duration;
  /** Whether it is known if the event concerns this machine; it is not while the names are unknown. */
  bool has_mine;
  /** Whether the event concerns this machine, if has_mine. */
  bool mine;
  /** Whether an approval of the event succeeded. */
  bool approved;
} schedev_tracked_event;

/**
 * Remembers the events of the last document and tells what the next one changes. It lives in memory that the caller
 * hands over; there is nothing to free. A session has its own: this is for hosts that do everything else themselves.
 */
typedef struct schedev_tracker schedev_tracker;

/**
 * Told of each change by schedev_tracker_observe(). It must return normally: neither longjmp() nor an exception may
 * leave it; and it must not call functions with the same tracker.
 *
 * @param context  what was passed to schedev_tracker_observe().
 * @param change   a schedev_change.
 * @param event    what is now known of the event, good until the callback returns.
 */
typedef void (*schedev_change_callback)(void *context, uint32_t change, const schedev_tracked_event *event);

/** The bytes of memory that a tracker takes, wherever that memory starts. */
size_t schedev_tracker_size(void);

/**
 * Makes a tracker that has seen nothing.
 *
 * @param memory   where it is to live, at any alignment; it must not move while the tracker is used.
 * @param size     the bytes there, at least schedev_tracker_size().
 * @param tracker  receives the tracker, which lies in that memory.
 * @return SCHEDEV_OK; SCHEDEV_ERROR_MEMORY_TOO_SMALL; SCHEDEV_ERROR_NULL.
 */
SCHEDEV_MUST_USE
schedev_status schedev_tracker_init(void *memory, size_t size, schedev_tracker **tracker);

/**
 * Takes a document and tells each change: those of known events first, then those that are gone, then new ones.
 *
 * Give it documents only: a failed poll, an empty body or a 304 says nothing, so it ends nothing.
 *
 * @param tracker      the tracker.
 * @param document     the newest document.
 * @param names        the names of this machine; NULL where they are unknown.
 * @param now_seconds  the time, in seconds since 1970-01-01T00:00:00Z.
 * @param on_change    told of each change; may be NULL.
 * @param context      passed on to on_change.
 * @param needed       receives how many events the document holds where they are too many; may be NULL.
 * @return SCHEDEV_OK; SCHEDEV_ERROR_TRACKER_FULL beyond SCHEDEV_TRACKER_EVENTS_MAX events, and then nothing is changed
 *         and nothing told; SCHEDEV_ERROR_NULL; SCHEDEV_ERROR_ARGUMENT for a tracker or document that was not
 *         initialised; SCHEDEV_ERROR_TOO_MANY_NAMES; SCHEDEV_ERROR_NAME_TOO_LONG; SCHEDEV_ERROR_UTF8.
 */
SCHEDEV_MUST_USE
schedev_status schedev_tracker_observe(schedev_tracker *tracker, const schedev_document *document,
                                       const schedev_names *names, int64_t now_seconds,
                                       schedev_change_callback on_change, void *context, size_t *needed);

/**
 * Notes that an approval of this event succeeded, by which CANCELLED and ENDED are told apart.
 *
 * @param tracker   the tracker.
 * @param event_id  the event's id.
 * @return SCHEDEV_OK; SCHEDEV_ERROR_UNKNOWN_EVENT; SCHEDEV_ERROR_NULL; SCHEDEV_ERROR_ARGUMENT for a tracker that was
 *         not initialised; SCHEDEV_ERROR_UTF8.
 */
schedev_status schedev_tracker_approved(schedev_tracker *tracker, schedev_text event_id);

/**
 * How many events are tracked.
 *
 * @param tracker  the tracker.
 * @return the count; 0 for NULL, or for a tracker that was not initialised.
 */
size_t schedev_tracker_event_count(const schedev_tracker *tracker);

/**
 * One of the events that were in the last document, in no particular order.
 *
 * @param tracker  the tracker.
 * @param index    from 0 up to schedev_tracker_event_count().
 * @param event    receives the event, whose texts are good until the next document is observed.
 * @return SCHEDEV_OK; SCHEDEV_END where there are fewer; SCHEDEV_ERROR_NULL; SCHEDEV_ERROR_ARGUMENT for a tracker that
 *         was not initialised.
 */
SCHEDEV_MUST_USE
schedev_status schedev_tracker_event(const schedev_tracker *tracker, size_t index, schedev_tracked_event *event);

/* ---- Sessions ---------------------------------------------------------------------------------------------------- */

/**
 * The most events that a session follows at a time. This machine's own come first; others beyond it are counted and
 * reported.
 */
#define SCHEDEV_SESSION_EVENTS_MAX 64

/** The usual time between two polls, in milliseconds. */
#define SCHEDEV_INTERVAL_MS 1000

/** The shortest time between two polls, in milliseconds. */
#define SCHEDEV_INTERVAL_MIN_MS 200

/**
 * The whole client as a state machine without I/O: ask schedev_session_next() what to do, do it, and tell what came of
 * it. It lives in memory that the caller hands over; there is nothing to free.
 *
 * A session keeps the pace of polling, tells changes, decides, says when to prepare, approves when the host is ready,
 * repeats what failed, and says when to recover. While a request is under way, or the host prepares, it goes on with
 * everything else.
 */
typedef struct schedev_session schedev_session;

/**
 * How a session is to behave. Start from SCHEDEV_SESSION_CONFIG_INIT: the policy that only observes, unknown names, a
 * poll each second.
 */
typedef struct schedev_session_config {
  /** sizeof(schedev_session_config), which lets the struct grow. */
  size_t struct_size;
  /** What to do about events; NULL is schedev_policy_observe(). It is copied. */
  const schedev_policy *policy;
  /** The names of this machine; NULL until they are known. They are copied. */
  const schedev_names *names;
  /** Any number that differs between machines; it spreads retries. */
  uint64_t seed;
  /** Milliseconds between two polls, SCHEDEV_INTERVAL_MIN_MS at least. */
  uint32_t interval_ms;
  /** Decide and report, but neither prepare nor approve. */
  bool dry_run;
} schedev_session_config;

/** The configuration to start from. */
#define SCHEDEV_SESSION_CONFIG_INIT                                                                                    \
  { sizeof(schedev_session_config), NULL, NULL, 0, SCHEDEV_INTERVAL_MS, false }

/** The bytes of memory that a session takes, wherever that memory starts. */
size_t schedev_session_size(void);

/**
 * Makes a session that has seen nothing.
 *
 * @param memory   where it is to live, at any alignment; it must not move while the session is used.
 * @param size     the bytes there, at least schedev_session_size().
 * @param config   how it is to behave; it is not needed after the call.
 * @param session  receives the session, which lies in that memory.
 * @return SCHEDEV_OK; SCHEDEV_ERROR_MEMORY_TOO_SMALL; SCHEDEV_ERROR_NULL; SCHEDEV_ERROR_ARGUMENT for a wrong
 *         struct_size or unknown constants; SCHEDEV_ERROR_INTERVAL_TOO_SHORT; SCHEDEV_ERROR_TOO_MANY_NAMES;
 *         SCHEDEV_ERROR_NAME_TOO_LONG; SCHEDEV_ERROR_TOO_MANY_RULES; SCHEDEV_ERROR_UTF8.
 */
SCHEDEV_MUST_USE
schedev_status schedev_session_init(void *memory, size_t size, const schedev_session_config *config,
                                    schedev_session **session);

/**
 * Sets this machine's names once they are known, or anew. The next poll decides all events again.
 *
 * @param session  the session.
 * @param names    the names, which are copied; NULL where they are unknown.
 * @return SCHEDEV_OK; otherwise the names stay as they were: SCHEDEV_ERROR_TOO_MANY_NAMES; SCHEDEV_ERROR_NAME_TOO_LONG;
 *         SCHEDEV_ERROR_UTF8; SCHEDEV_ERROR_NULL; SCHEDEV_ERROR_ARGUMENT for a session that was not initialised.
 */
SCHEDEV_MUST_USE
schedev_status schedev_session_set_names(schedev_session *session, const schedev_names *names);

/** What the host is to do next. */
typedef enum schedev_step_kind {
  /** Nothing to do before until_ms. Ask again then, or when there is something to tell the session. */
  SCHEDEV_STEP_WAIT = 1,
  /**
   * Send GET http://169.254.169.254/metadata/scheduledevents?api-version=2020-07-01 with the header "Metadata: true",
   * and If-None-Match where if_none_match is not empty, past all proxies; then feed the answer to
   * schedev_session_on_response(), or its absence to schedev_session_on_failure(). Do not follow redirects.
   */
  SCHEDEV_STEP_GET = 2,
  /**
   * Send body with POST to the same URL, with the same header, and feed back what comes of it likewise.
   * schedev_session_posted() names the events that it approves.
   */
  SCHEDEV_STEP_POST = 3,
  /** Get ready for event, and say so with schedev_session_prepared(), now or later. */
  SCHEDEV_STEP_PREPARE = 4,
  /** event is gone: take the machine back into service, and say so with schedev_session_recovered(), now or later. */
  SCHEDEV_STEP_RECOVER = 5,
  /** To report: change happened to event. */
  SCHEDEV_STEP_CHANGE = 6,
  /** To report: decision about event is new, or differs from the last one. */
  SCHEDEV_STEP_DECISION = 7,
  /** To report: something is odd in the newest document, to whose bytes problem refers. */
  SCHEDEV_STEP_PROBLEM = 8,
  /** To report: the document holds more events than the session; the numbers of those it has no room for changed. */
  SCHEDEV_STEP_UNTRACKED = 9,
} schedev_step_kind;

/**
 * What the host is to do next: the kind, and the members that the kind says. The others are zero. Texts, the body
 * included, view the session's memory and are good until the session is told or asked the next thing.
 */
typedef struct schedev_step {
  /** A schedev_step_kind. Skip one that you do not know. */
  uint32_t kind;
  /** GET, POST: how long the request may take, in milliseconds. The very first may take over two minutes. */
  uint32_t timeout_ms;
  /** WAIT: when to ask again, in milliseconds on the same clock as the now_ms of the call. */
  int64_t until_ms;
  /** GET: the ETag of the document that was read last; empty where there is none to send. */
  schedev_text if_none_match;
  /** POST: the body, JSON. */
  schedev_text body;
  /** PREPARE, RECOVER, CHANGE, DECISION: the event. */
  schedev_tracked_event event;
  /** DECISION: the decision. */
  schedev_decision decision;
  /** PROBLEM: the problem. */
  schedev_problem problem;
  /** CHANGE: a schedev_change. */
  uint32_t change;
  /** UNTRACKED: this machine's own events without room, those with the latest deadlines. The session is too small. */
  size_t untracked_own;
  /** UNTRACKED: other machines' events without room. */
  size_t untracked_others;
  /** For later versions; zero. */
  uint64_t reserved[4];
} schedev_step;

/**
 * What to do now. Ask after everything that was told, and when a wait is over. Requests come one at a time: until the
 * answer to one is fed back, only other steps are said.
 *
 * A step is said once. Take a snapshot after it, and store that before acting on it, where a restart must not repeat it.
 *
 * @param session  the session.
 * @param now_ms   the time, in milliseconds since 1970-01-01T00:00:00Z on a clock that does not step: read the wall
 *                 clock once, and add what a monotonic clock says has passed.
 * @param step     receives what to do.
 * @return SCHEDEV_OK; SCHEDEV_ERROR_NULL; SCHEDEV_ERROR_ARGUMENT for a session that was not initialised.
 */
SCHEDEV_MUST_USE
schedev_status schedev_session_next(schedev_session *session, int64_t now_ms, schedev_step *step);

/** An HTTP answer. Start from SCHEDEV_RESPONSE_INIT. */
typedef struct schedev_response {
  /** sizeof(schedev_response), which lets the struct grow. */
  size_t struct_size;
  /** The body; NULL where body_len is 0. */
  const char *body;
  /** Its length in bytes. */
  size_t body_len;
  /**
   * The ETag header as it stands; empty where there is none. One that is not printable ASCII, or longer than 128
   * bytes, counts as none.
   */
  schedev_text etag;
  /** The status code. */
  uint32_t http_status;
  /** The Retry-After header, if has_retry_after; the host converts a date. */
  uint32_t retry_after_seconds;
  /** Whether there is a Retry-After header. */
  bool has_retry_after;
} schedev_response;

/** The answer to start from. */
#define SCHEDEV_RESPONSE_INIT                                                                                          \
  { sizeof(schedev_response), NULL, 0, {NULL, 0, false}, 0, 0, false }

/** What an answer, or its absence, led to. */
typedef enum schedev_outcome_kind {
  /** A new document was taken in. */
  SCHEDEV_OUTCOME_DOCUMENT = 1,
  /** The document is the one that was read last. */
  SCHEDEV_OUTCOME_UNCHANGED = 2,
  /** A document that had been superseded came again; it is not believed unless it stays. */
  SCHEDEV_OUTCOME_STALE = 3,
  /** The poll failed and ended nothing; the next comes after retry_in_ms. cause says why. */
  SCHEDEV_OUTCOME_POLL_FAILED = 4,
  /** The approval succeeded. */
  SCHEDEV_OUTCOME_APPROVED = 5,
  /** The approval failed, and is repeated later as long as the event is Scheduled. cause says why. */
  SCHEDEV_OUTCOME_APPROVAL_FAILED = 6,
  /** No request was under way; nothing was done. */
  SCHEDEV_OUTCOME_UNEXPECTED = 7,
  /** An outcome that this version of the header does not name. */
  SCHEDEV_OUTCOME_OTHER = 255,
} schedev_outcome_kind;

/** Why a request failed. */
typedef enum schedev_cause {
  /** It did not fail. */
  SCHEDEV_CAUSE_NONE = 0,
  /** No answer in time. */
  SCHEDEV_CAUSE_TIMEOUT = 1,
  /** No connection could be made. */
  SCHEDEV_CAUSE_UNREACHABLE = 2,
  /** The connection broke, or the answer is no HTTP. */
  SCHEDEV_CAUSE_BROKEN_OFF = 3,
  /** The answer is larger than the host accepts. */
  SCHEDEV_CAUSE_TOO_LARGE = 4,
  /** A redirect, which is never followed; http_status has the status. */
  SCHEDEV_CAUSE_REDIRECT = 5,
  /** Another status than was hoped for; http_status has it. */
  SCHEDEV_CAUSE_STATUS = 6,
  /** 200 with an empty body, which says nothing. */
  SCHEDEV_CAUSE_EMPTY_BODY = 7,
  /** The body is no document; error has kind and place. */
  SCHEDEV_CAUSE_NOT_A_DOCUMENT = 8,
  /** A cause that this version of the header does not name. */
  SCHEDEV_CAUSE_OTHER = 255,
} schedev_cause;

/**
 * A schedev_cause as a word: "timeout".
 *
 * @param cause  a schedev_cause, or any other number.
 * @return a constant text that ends with NUL; "other" for a number that has no word.
 */
const char *schedev_cause_word(uint32_t cause);

/** What an answer, or its absence, led to. */
typedef struct schedev_outcome {
  /** A schedev_outcome_kind. */
  uint32_t kind;
  /** A schedev_cause, where something failed. */
  uint32_t cause;
  /** The HTTP status, where that is the cause. */
  uint32_t http_status;
  /** POLL_FAILED: milliseconds until the next poll. */
  uint32_t retry_in_ms;
  /** What is wrong with the body, where that is the cause. */
  schedev_error error;
  /** For later versions; zero. */
  uint64_t reserved[2];
} schedev_outcome;

/**
 * Takes the answer to the request under way. Only a document can end an event; every other answer says nothing.
 *
 * @param session   the session.
 * @param response  the answer; it is not needed after the call.
 * @param now_ms    the time, as for schedev_session_next().
 * @param outcome   receives what it led to; may be NULL.
 * @return SCHEDEV_OK, also where the request failed, which the outcome tells; SCHEDEV_ERROR_NULL;
 *         SCHEDEV_ERROR_ARGUMENT for a session that was not initialised, a wrong struct_size, or a status above 65535.
 */
schedev_status schedev_session_on_response(schedev_session *session, const schedev_response *response, int64_t now_ms,
                                           schedev_outcome *outcome);

/**
 * Notes that the request under way got no usable answer.
 *
 * @param session  the session.
 * @param cause    SCHEDEV_CAUSE_TIMEOUT, SCHEDEV_CAUSE_UNREACHABLE, SCHEDEV_CAUSE_BROKEN_OFF or SCHEDEV_CAUSE_TOO_LARGE.
 * @param now_ms   the time, as for schedev_session_next().
 * @param outcome  receives what it led to; may be NULL.
 * @return SCHEDEV_OK; SCHEDEV_ERROR_NULL; SCHEDEV_ERROR_ARGUMENT for a session that was not initialised, or another
 *         cause.
 */
schedev_status schedev_session_on_failure(schedev_session *session, uint32_t cause, int64_t now_ms,
                                          schedev_outcome *outcome);

/** The host's answer to SCHEDEV_STEP_PREPARE. */
typedef enum schedev_preparation {
  /** Ready: Azure may go ahead. */
  SCHEDEV_PREPARATION_READY = 1,
  /** Not ready, and not going to be: the event is never approved. */
  SCHEDEV_PREPARATION_FAILED = 2,
} schedev_preparation;

/**
 * The host's answer to SCHEDEV_STEP_PREPARE.
 *
 * @param session      the session.
 * @param event_id     the id of the step's event.
 * @param preparation  a schedev_preparation.
 * @return SCHEDEV_OK; SCHEDEV_ERROR_UNKNOWN_EVENT where no preparation of this event is under way;
 *         SCHEDEV_ERROR_NULL; SCHEDEV_ERROR_ARGUMENT for a session that was not initialised, or another preparation;
 *         SCHEDEV_ERROR_UTF8.
 */
schedev_status schedev_session_prepared(schedev_session *session, schedev_text event_id, uint32_t preparation);

/**
 * The host's answer to SCHEDEV_STEP_RECOVER, whatever came of it; the event is forgotten.
 *
 * @param session   the session.
 * @param event_id  the id of the step's event.
 * @return SCHEDEV_OK; SCHEDEV_ERROR_UNKNOWN_EVENT where no recovery of this event is under way; SCHEDEV_ERROR_NULL;
 *         SCHEDEV_ERROR_ARGUMENT for a session that was not initialised; SCHEDEV_ERROR_UTF8.
 */
schedev_status schedev_session_recovered(schedev_session *session, schedev_text event_id);

/**
 * The id of an event that the POST under way approves.
 *
 * @param session   the session.
 * @param index     from 0.
 * @param event_id  receives the id, which is good until the session is told or asked the next thing.
 * @return SCHEDEV_OK; SCHEDEV_END where there are fewer; SCHEDEV_ERROR_NULL; SCHEDEV_ERROR_ARGUMENT for a session that
 *         was not initialised.
 */
SCHEDEV_MUST_USE
schedev_status schedev_session_posted(const schedev_session *session, size_t index, schedev_text *event_id);

/**
 * One of the events that are followed, those among them that are gone and not recovered from yet.
 *
 * @param session  the session.
 * @param index    from 0.
 * @param event    receives the event, whose texts are good until the session is told or asked the next thing.
 * @return SCHEDEV_OK; SCHEDEV_END where there are fewer; SCHEDEV_ERROR_NULL; SCHEDEV_ERROR_ARGUMENT for a session that
 *         was not initialised.
 */
SCHEDEV_MUST_USE
schedev_status schedev_session_event(const schedev_session *session, size_t index, schedev_tracked_event *event);

/**
 * Whether an event was seen, in this run or before the snapshot.
 *
 * @param session  the session.
 * @return whether; false for NULL, or for a session that was not initialised.
 */
bool schedev_session_has_seen_event(const schedev_session *session);

/**
 * Whether the newest document, read since the start, announces nothing, and nothing is left to report, to prepare or to
 * recover from.
 *
 * @param session  the session.
 * @return whether; false for NULL, or for a session that was not initialised.
 */
bool schedev_session_is_idle(const schedev_session *session);

/* ---- Snapshots --------------------------------------------------------------------------------------------------- */

/** The most bytes that a snapshot takes: a buffer of this size is never too small. */
#define SCHEDEV_SNAPSHOT_MAX_BYTES 8192

/**
 * Writes what a restart must not forget: binary, with a version and a checksum. Take one whenever the session was told
 * or said something, and store it before acting on what it said.
 *
 * @param session   the session.
 * @param buffer    receives the snapshot; NULL where capacity is 0.
 * @param capacity  the bytes that the buffer holds; SCHEDEV_SNAPSHOT_MAX_BYTES are always enough.
 * @param needed    receives the length of the snapshot in bytes, also where it does not fit.
 * @return SCHEDEV_OK; SCHEDEV_ERROR_BUFFER_TOO_SMALL, and the buffer is as it was; SCHEDEV_ERROR_NULL;
 *         SCHEDEV_ERROR_ARGUMENT for a session that was not initialised.
 */
SCHEDEV_MUST_USE
schedev_status schedev_session_snapshot(const schedev_session *session, char *buffer, size_t capacity, size_t *needed);

/**
 * Takes up where a snapshot left off. Policy, names and pace stay as the session was configured.
 *
 * What had been said and not been answered is said again: a preparation or a recovery that had not ended, a change that
 * had not been reported. Nothing is approved before the first document has confirmed that the event is still Scheduled.
 *
 * @param session  the session; what it knew is forgotten.
 * @param data     the snapshot; NULL where len is 0.
 * @param len      its length in bytes.
 * @return SCHEDEV_OK; otherwise the session is empty: SCHEDEV_ERROR_SNAPSHOT_DAMAGED; SCHEDEV_ERROR_SNAPSHOT_VERSION;
 *         SCHEDEV_ERROR_SNAPSHOT_TOO_MANY_EVENTS; or, and then it is as it was, SCHEDEV_ERROR_NULL;
 *         SCHEDEV_ERROR_ARGUMENT for a session that was not initialised.
 */
SCHEDEV_MUST_USE
schedev_status schedev_session_restore(schedev_session *session, const char *data, size_t len);

#ifdef __cplusplus
}
#endif

#endif /* SCHEDULED_EVENTS_H */
