/*
 * The compiler: compiles in a process of its own while streams run, because drivers hold launches
 * of the whole process up while they compile.
 *
 * NVIDIA's driver compiles a program when it is built, and for most of a second no block of any
 * stream comes back. PoCL compiles a kernel for a local size when it first runs, and meanwhile
 * holds a lock that every launch of the process needs (pocl_dlhandle_lock). So a child process,
 * the program itself with another argument, opens the same device and builds the program, or
 * launches the kernel once, on zeros. That leaves the code in the cache of programs and in the
 * driver's own cache, from where the daemon loads it in milliseconds. What becomes of the child
 * does not matter: without it the daemon compiles.
 *
 * The child has the rights of the daemon, no descriptors but /dev/null, and a low priority. It ends
 * with the daemon.
 *
 * Worker threads.
 */
#ifndef CONVOLVD_DEVICE_COMPILER_H
#define CONVOLVD_DEVICE_COMPILER_H

#include <stdbool.h>
#include <stdint.h>

#include "core/clock.h"

struct program_request;

#define COMPILER_ARGUMENT "--compile-kernel"

/* What a child has to come to its end. After one that hangs, none is started any more. */
#define COMPILER_DEADLINE_NS (30 * NS_PER_SECOND)

/* How a kernel of a program is launched. */
struct compiler_launch {
    const char *function;
    uint32_t items;                     /* the local size */
    uint64_t local_bytes, shared_bytes; /* of the arguments in local memory */
    uint32_t numbers;                   /* arguments behind the common ones */
};

/* The main of this program answers COMPILER_ARGUMENT: from now on children may be started. Before
 * other threads run. */
void compiler_offer(int64_t child_deadline_ns);
/* From now on compiler_build starts children: blocks of streams are computed. ANY. */
void compiler_streams_run(void);

/* Has a child build a program that the cache of programs lacks. Waits for it, at most for the
 * deadline. False: the daemon is to build it; the log says why, unless no streams run. */
bool compiler_build(const struct program_request *request);
/* Has a child launch a kernel of the program. Waits as long. Does nothing unless the program offers
 * it. */
void compiler_run(const struct program_request *request, const struct compiler_launch *launch);

/* The words behind COMPILER_ARGUMENT. */
enum {
    COMPILER_WORD_DEVICE = 2,
    COMPILER_WORD_KERNELS,
    COMPILER_WORD_CACHE,
    COMPILER_WORD_FILE,
    COMPILER_WORD_OPTIONS,
    COMPILER_PROGRAM_WORDS, /* a program has no more; a kernel that is to be launched has: */
    COMPILER_WORD_FUNCTION = COMPILER_PROGRAM_WORDS,
    COMPILER_WORD_ITEMS,
    COMPILER_WORD_LOCAL,
    COMPILER_WORD_SHARED,
    COMPILER_WORD_NUMBERS,
    COMPILER_KERNEL_WORDS,
};

#endif
