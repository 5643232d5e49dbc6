/* What a harness cannot accept: prints the condition and ends the program, which fuzzers report. */
#ifndef CONVOLVD_TESTS_FUZZ_REQUIRE_H
#define CONVOLVD_TESTS_FUZZ_REQUIRE_H

#include <stdio.h>
#include <stdlib.h>

#define REQUIRE(condition)                                                                         \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition);          \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

#endif
