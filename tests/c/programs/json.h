/* Writes JSON to stdout. */
#ifndef TESTS_C_JSON_H
#define TESTS_C_JSON_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool json_started = false;

/* Writes a comma before all items but the first. */
static inline void json_next(void) {
  if (json_started) {
    putchar(',');
  }
  json_started = true;
}

static inline void json_open(char bracket) {
  putchar(bracket);
  json_started = false;
}

static inline void json_close(char bracket) {
  putchar(bracket);
  json_started = true;
}

static inline void json_string(const char *data, size_t len) {
  putchar('"');
  for (size_t i = 0; i < len; i++) {
    unsigned char byte = (unsigned char)data[i];
    if (byte == '"' || byte == '\\') {
      putchar('\\');
      putchar(byte);
    } else if (byte < 0x20) {
      printf("\\u%04x", byte);
    } else {
      putchar(byte);
    }
  }
  putchar('"');
}

static inline void json_name(const char *name) {
  json_next();
  json_string(name, strlen(name));
  putchar(':');
}

/* Reads `len` bytes of stdin into memory of exactly that size, so that a sanitizer detects an invalid read. */
static inline char *read_exactly(size_t len) {
  char *bytes = (char *)malloc(len);
  if ((bytes == NULL && len > 0) || fread(bytes, 1, len, stdin) != len) {
    fprintf(stderr, "error: the input is truncated\n");
    exit(2);
  }
  return bytes;
}

#endif
