/*
 * Errors: one shape for the whole daemon. A function that can fail returns 0 or a negative enum
 * error; where a user will read the reason, it also fills a struct problem with one sentence that
 * says what is wrong and what to do. Names and general sentences come from the table below, so that
 * logs, --help and tests cannot disagree.
 *
 * Any thread; no state.
 */
#ifndef CONVOLVD_CORE_ERROR_H
#define CONVOLVD_CORE_ERROR_H

/*  name, value, sentence */
#define ERROR_TABLE(X)                                                                             \
    X(ARGUMENT, -1, "an argument is outside its range")                                            \
    X(MEMORY, -2, "out of memory")                                                                 \
    X(SYSTEM, -3, "a system call failed")                                                          \
    X(NO_FILE, -4, "a file could not be opened")                                                   \
    X(FORMAT, -5, "data is not in the expected format")                                            \
    X(CONFIG, -6, "the configuration is not valid")                                                \
    X(NO_DEVICE, -7, "no usable OpenCL device")                                                    \
    X(DEVICE, -8, "the OpenCL device reported an error")                                           \
    X(PROGRAM, -9, "an OpenCL program did not build")                                              \
    X(ACCURACY, -10, "a plan or design missed its error bound")                                    \
    X(UNSUPPORTED, -11, "not possible with this combination")                                      \
    X(FULL, -12, "no room")                                                                        \
    X(CLOSED, -13, "already closed")                                                               \
    X(ADDRESS, -14, "an address could not be used")                                                \
    X(LIMIT, -15, "a limit was exceeded")                                                          \
    X(ABSENT, -16, "a network interface or address is not there yet")                              \
    X(DRIVER, -17, "the device's driver works no more in this process")

enum error {
    ERROR_NONE = 0,
#define X(name, value, sentence) ERROR_##name = value,
    ERROR_TABLE(X)
#undef X
};

/* What went wrong, for people. `text` never ends in a newline and is always terminated. */
struct problem {
    enum error error;
    char text[512];
};

/* "ARGUMENT" for ERROR_ARGUMENT; "?" for a value not in the table. */
const char *error_name(int error);

/* The general sentence of the table. */
const char *error_sentence(int error);

/* Fills `problem` (may be NULL) and returns `error`, so that `return problem_set(...)` reads well.
 */
int problem_set(struct problem *problem, enum error error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Puts "prefix: " before the text already there (may be NULL); returns problem->error or `error`.
 */
int problem_prefix(struct problem *problem, int error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* clang's analyser reads one file at a time: without these it does not know that both functions
 * return the error they are given, and follows paths on which a failure counts as success. */
#ifdef __clang_analyzer__
#define problem_set(problem, error, ...) (problem_set(problem, error, __VA_ARGS__), (int)(error))
#define problem_prefix(problem, error, ...)                                                        \
    (problem_prefix(problem, error, __VA_ARGS__), (int)(error))
#endif

#endif
