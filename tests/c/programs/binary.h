/* Windows translates line ends of the standard streams; these programs read and write bytes. */
#ifndef TESTS_C_BINARY_H
#define TESTS_C_BINARY_H

#include <stdio.h>
#ifdef _WIN32
#include <fcntl.h>
#include <io.h>
#endif

static inline void use_binary_streams(void) {
#ifdef _WIN32
  (void)_setmode(_fileno(stdin), _O_BINARY);
  (void)_setmode(_fileno(stdout), _O_BINARY);
#endif
}

#endif
