/* Arenas: memory that host and kernels address by offset; see arena.h. */
#include "device/arena.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { GUARD_BYTES = ARENA_ALIGN_BYTES };

static const uint8_t guard_pattern = 0xA5;

static uint64_t round_up(uint64_t bytes)
{
    return (bytes + ARENA_ALIGN_BYTES - 1) / ARENA_ALIGN_BYTES * ARENA_ALIGN_BYTES;
}

int arena_open(struct arena *arena, const char *name, uint64_t bytes,
               const struct device_info *info, bool guards, struct problem *problem)
{
    memset(arena, 0, sizeof *arena);
    arena->name = name;
    arena->guards = guards;
    arena->wanted_bytes = bytes;
    arena->bytes = round_up(bytes);
    uint64_t largest = info->allocation_max_bytes / ARENA_ALIGN_BYTES * ARENA_ALIGN_BYTES;
    if (largest > 0 && arena->bytes > largest)
        arena->bytes = largest;
    void *host = mmap(NULL, arena->bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (host == MAP_FAILED)
        return problem_set(
            problem, ERROR_MEMORY,
            "cannot reserve %llu MiB for the %s: make it smaller or raise the address "
            "space limit (ulimit -v)",
            (unsigned long long)(arena->bytes >> 20), name);
    /* Huge pages mean fewer page faults; a kernel without them refuses, which costs only time. */
    madvise(host, arena->bytes, MADV_HUGEPAGE);
    arena->host = host;
    pthread_mutex_init(&arena->mutex, NULL);
    return 0;
}

void arena_close(struct arena *arena)
{
    if (arena->host == NULL)
        return;
    assert(arena->device == NULL);
    munmap(arena->host, arena->bytes);
    free(arena->pieces);
    pthread_mutex_destroy(&arena->mutex);
    memset(arena, 0, sizeof *arena);
}

int arena_upload(struct arena *arena, cl_command_queue queue, uint64_t offset, uint64_t bytes,
                 struct problem *problem)
{
    if (!arena->mirrored || bytes == 0)
        return 0;
    cl_int code = clEnqueueWriteBuffer(queue, arena->device, CL_TRUE, offset, bytes,
                                       arena->host + offset, 0, NULL, NULL);
    return code == CL_SUCCESS ? 0 : opencl_problem(problem, code, arena->name);
}

int arena_attach(struct arena *arena, cl_context context, cl_command_queue queue, bool mirrored,
                 struct problem *problem)
{
    cl_int code = CL_SUCCESS;
    arena->mirrored = mirrored;
    arena->device = clCreateBuffer(
        context, mirrored ? CL_MEM_READ_WRITE : CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR,
        arena->bytes, mirrored ? NULL : arena->host, &code);
    if (arena->device == NULL) {
        opencl_problem(problem, code, arena->name);
        return problem_prefix(problem, ERROR_DEVICE,
                              "cannot get %llu MiB of device memory, lower `%s`",
                              (unsigned long long)(arena->bytes >> 20), arena->name);
    }
    /* The pinned buffer only makes copies faster: a failure is ignored. */
    if (mirrored && arena->copied)
        arena->pinned = clCreateBuffer(context, CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR,
                                       arena->bytes, arena->host, &code);
    int error = 0;
    for (uint32_t i = 0; error == 0 && i < arena->count; i++)
        error = arena_upload(arena, queue, arena->pieces[i].from,
                             arena->pieces[i].until - arena->pieces[i].from, problem);
    return error;
}

void arena_release(struct arena *arena)
{
    if (arena->device != NULL)
        clReleaseMemObject(arena->device);
    if (arena->pinned != NULL)
        clReleaseMemObject(arena->pinned);
    arena->device = arena->pinned = NULL;
}

bool arena_is_shared(struct arena *arena, cl_context context, cl_command_queue queue)
{
    static const uint8_t mark[16] = "shared memory?";
    struct problem problem;
    if (arena_attach(arena, context, queue, false, &problem) < 0)
        return false;
    uint8_t before[sizeof mark];
    memcpy(before, arena->host, sizeof mark);
    const bool shared = clEnqueueWriteBuffer(queue, arena->device, CL_TRUE, 0, sizeof mark, mark, 0,
                                             NULL, NULL) == CL_SUCCESS &&
                        memcmp(arena->host, mark, sizeof mark) == 0;
    arena_release(arena);
    memcpy(arena->host, before, sizeof mark);
    return shared;
}

int arena_take(struct arena *arena, cl_command_queue queue, uint64_t bytes, uint64_t *offset,
               struct problem *problem)
{
    const uint64_t guard = arena->guards ? GUARD_BYTES : 0;
    const uint64_t need = round_up(bytes > 0 ? bytes : 1) + 2 * guard;
    int error = 0;
    pthread_mutex_lock(&arena->mutex);
    if (arena->count == arena->capacity) {
        uint32_t capacity = arena->capacity == 0 ? 16 : 2 * arena->capacity;
        struct arena_piece *grown = realloc(arena->pieces, capacity * sizeof *grown);
        if (grown == NULL) {
            pthread_mutex_unlock(&arena->mutex);
            return problem_set(problem, ERROR_MEMORY, "out of memory");
        }
        arena->pieces = grown;
        arena->capacity = capacity;
    }
    uint64_t from = 0;
    uint32_t place = 0;
    while (place < arena->count && arena->pieces[place].from - from < need)
        from = arena->pieces[place++].until;
    uint64_t used = 0;
    for (uint32_t i = 0; i < arena->count; i++)
        used += arena->pieces[i].until - arena->pieces[i].from;
    if (place == arena->count && arena->bytes - from < need) {
        pthread_mutex_unlock(&arena->mutex);
        bool clamped = arena->bytes < arena->wanted_bytes;
        return problem_set(
            problem, ERROR_FULL,
            "the device's %s is full: %llu KiB wanted, %llu of %llu KiB used; %s `%s`", arena->name,
            (unsigned long long)(need >> 10), (unsigned long long)(used >> 10),
            (unsigned long long)(arena->bytes >> 10),
            clamped ? "this device gives no more in one piece: use fewer streams or "
                      "shorter filters within"
                    : "raise",
            arena->name);
    }
    memmove(&arena->pieces[place + 1], &arena->pieces[place],
            (arena->count - place) * sizeof *arena->pieces);
    arena->pieces[place] = (struct arena_piece){from, from + need, bytes};
    arena->count++;
    *offset = from + guard;
    /* The piece itself needs no clearing: new pages are zero, and arena_give zeroes used ones. */
    if (guard > 0) {
        memset(arena->host + from, guard_pattern, guard);
        memset(arena->host + from + guard + bytes, guard_pattern, need - guard - bytes);
    }
    error = arena_upload(arena, queue, from, need, problem);
    pthread_mutex_unlock(&arena->mutex);
    return error;
}

void arena_populate(struct arena *arena, uint64_t offset, uint64_t bytes)
{
#ifdef MADV_POPULATE_WRITE
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    const uint64_t from = offset / page * page;
    madvise(arena->host + from, offset + bytes - from, MADV_POPULATE_WRITE);
#else
    (void)arena, (void)offset, (void)bytes;
#endif
}

void arena_give(struct arena *arena, uint64_t offset)
{
    const uint64_t guard = arena->guards ? GUARD_BYTES : 0;
    pthread_mutex_lock(&arena->mutex);
    uint32_t place = 0;
    while (place < arena->count && arena->pieces[place].from + guard != offset)
        place++;
    assert(place < arena->count);
    uint8_t *bytes = arena->host + arena->pieces[place].from;
    const uint64_t count = arena->pieces[place].until - arena->pieces[place].from;
    /* Zero the piece: return its pages to the system, unless the driver has pinned them. */
    if (arena->copied)
        memset(bytes, 0, count);
    else
        madvise(bytes, count, MADV_DONTNEED);
    memmove(&arena->pieces[place], &arena->pieces[place + 1],
            (arena->count - place - 1) * sizeof *arena->pieces);
    arena->count--;
    pthread_mutex_unlock(&arena->mutex);
}

static int check_zone(struct arena *arena, cl_command_queue queue, uint64_t from, uint64_t until,
                      const struct arena_piece *piece, struct problem *problem)
{
    uint8_t seen[2 * GUARD_BYTES];
    assert(until - from <= sizeof seen);
    const uint8_t *zone = arena->host + from;
    if (arena->mirrored) {
        cl_int code = clEnqueueReadBuffer(queue, arena->device, CL_TRUE, from, until - from, seen,
                                          0, NULL, NULL);
        if (code != CL_SUCCESS)
            return opencl_problem(problem, code, arena->name);
        zone = seen;
    }
    for (uint64_t i = 0; i < until - from; i++)
        if (zone[i] != guard_pattern)
            return problem_set(
                problem, ERROR_DEVICE,
                "%s: byte %lld of a piece of %llu bytes was written; please report this",
                arena->name, (long long)(from + i) - (long long)(piece->from + GUARD_BYTES),
                (unsigned long long)piece->bytes);
    return 0;
}

int arena_check(struct arena *arena, cl_command_queue queue, struct problem *problem)
{
    if (!arena->guards)
        return 0;
    int error = 0;
    pthread_mutex_lock(&arena->mutex);
    for (uint32_t i = 0; error == 0 && i < arena->count; i++) {
        const struct arena_piece *piece = &arena->pieces[i];
        error = check_zone(arena, queue, piece->from, piece->from + GUARD_BYTES, piece, problem);
        if (error == 0)
            error = check_zone(arena, queue, piece->from + GUARD_BYTES + piece->bytes, piece->until,
                               piece, problem);
    }
    pthread_mutex_unlock(&arena->mutex);
    return error;
}
