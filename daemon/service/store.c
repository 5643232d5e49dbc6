/* The store: see store.h. */
#include "service/store.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "core/codec.h"
#include "core/crc32c.h"
#include "core/log.h"
#include "pipeline/heritage.h"
#include "pipeline/succession.h"

#define STORE_NAME "convolvd-state"

enum { STORE_VERSION = 1, HEADER_BYTES = 12, CHECKSUM_BYTES = 4 };

static const uint32_t magic = 0x53445643;            /* "CVDS" */
static const uint64_t bytes_max = UINT64_C(4) << 30; /* of all records together */

struct store_record {
    char name[HERITAGE_NAME];
    const uint8_t *bytes;
    size_t count;
    struct plan_pin pin;
};

struct store {
    int fd;         /* -1: nothing was left */
    uint8_t *bytes; /* mapped */
    size_t count;
    struct store_record *records;
    uint32_t record_count;
};

/* ---- taking out -------------------------------------------------------------------------- */

/* Each record with its name and plan; one that cannot be read is left out. */
static int read_records(struct store *store, struct problem *problem)
{
    struct codec c = codec_reader(store->bytes, store->count);
    uint32_t mark, version, count, sum;
    codec_u32(&c, &mark);
    codec_u32(&c, &version);
    codec_u32(&c, &count);
    if (c.failed || mark != magic || store->count < HEADER_BYTES + CHECKSUM_BYTES)
        return problem_set(problem, ERROR_FORMAT, "it is no state of this daemon");
    if (version != STORE_VERSION)
        return problem_set(problem, ERROR_UNSUPPORTED, "it has version %u, and this is version %d",
                           version, STORE_VERSION);
    c.bytes -= CHECKSUM_BYTES;
    struct codec tail = codec_reader(store->bytes + c.bytes, CHECKSUM_BYTES);
    codec_u32(&tail, &sum);
    if (sum != crc32c(0, store->bytes, c.bytes) || count > PIPELINES_MAX)
        return problem_set(problem, ERROR_FORMAT, "it is damaged");
    store->records = calloc(count > 0 ? count : 1, sizeof *store->records);
    for (uint32_t i = 0; store->records != NULL && i < count; i++) {
        struct store_record *record = &store->records[store->record_count];
        uint64_t bytes;
        codec_u64(&c, &bytes);
        codec_span(&c, &record->bytes, (size_t)bytes);
        if (c.failed)
            return problem_set(problem, ERROR_FORMAT, "a record does not fit");
        record->count = (size_t)bytes;
        struct problem why;
        if (succession_peek(record->bytes, record->count, record->name, &record->pin, &why) == 0)
            store->record_count++;
        else
            log_warning("stream %s begins a new epoch: %s", record->name, why.text);
    }
    return 0;
}

/* Maps what can no longer change under the reader. */
static int map(struct store *store, int fd, struct problem *problem)
{
    struct stat facts;
    const int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || !(seals & F_SEAL_WRITE) || !(seals & F_SEAL_SHRINK) ||
        fstat(fd, &facts) != 0 || facts.st_size <= 0 || (uint64_t)facts.st_size > bytes_max)
        return problem_set(problem, ERROR_FORMAT, "it is not sealed, or no memory file");
    void *bytes = mmap(NULL, (size_t)facts.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (bytes == MAP_FAILED)
        return problem_set(problem, ERROR_SYSTEM, "it cannot be mapped: %s", strerror(errno));
    store->bytes = bytes;
    store->count = (size_t)facts.st_size;
    return 0;
}

static void forget(struct store *store)
{
    if (store->bytes != NULL)
        munmap(store->bytes, store->count);
    if (store->fd >= 0)
        close(store->fd);
    free(store->records);
    *store = (struct store){.fd = -1};
}

static void take(struct store *store)
{
    struct problem problem;
    int error = map(store, store->fd, &problem);
    if (error == 0)
        error = read_records(store, &problem);
    if (error < 0) {
        log_warning("the state of the daemon before cannot be used: %s; every stream begins a new "
                    "epoch",
                    problem.text);
        store->record_count = 0;
    }
}

int store_open(struct store **out, struct problem *problem)
{
    struct store *store = calloc(1, sizeof *store);
    if (store == NULL)
        return problem_set(problem, ERROR_MEMORY, "out of memory");
    char **names = NULL;
    const int passed = sd_listen_fds_with_names(0, &names);
    store->fd = -1;
    for (int i = 0; i < passed; i++) {
        if (strcmp(names[i], STORE_NAME) == 0)
            store->fd = SD_LISTEN_FDS_START + i; /* the newest; closed after handover_adopt */
        free(names[i]);
    }
    free(names);
    if (store->fd >= 0) {
        take(store);
        sd_notify(0, "FDSTOREREMOVE=1\nFDNAME=" STORE_NAME);
    }
    *out = store;
    return 0;
}

void store_close(struct store *store)
{
    if (store == NULL)
        return;
    forget(store);
    free(store);
}

/* ---- giving ------------------------------------------------------------------------------ */

static const struct store_record *find(const struct store *store, const struct pipeline *pipeline)
{
    for (uint32_t i = 0; i < store->record_count; i++)
        if (strcmp(store->records[i].name, pipeline->stream_config->name) == 0)
            return &store->records[i];
    return NULL;
}

void store_introduce(const struct store *store, struct pipeline *pipeline)
{
    const struct store_record *record = find(store, pipeline);
    if (record == NULL || (pipeline->pin = malloc(sizeof *pipeline->pin)) == NULL)
        return;
    *pipeline->pin = record->pin;
}

void store_give(struct store *store, struct pipelines *pipelines)
{
    struct pipeline *pipeline;
    for (uint32_t at = 0; (pipeline = pipelines_next(pipelines, PIPELINES_RUNNING, &at)) != NULL;) {
        const struct store_record *record = find(store, pipeline);
        struct problem problem;
        if (record == NULL)
            continue;
        if (succession_read(pipeline, record->bytes, record->count, &problem) < 0) {
            log_notice("stream %s begins a new epoch: %s", pipeline->stream_config->name,
                       problem.text);
            continue;
        }
        log_notice("stream %s goes on where the daemon before stopped, at frame %" PRIu64,
                   pipeline->stream_config->name, stream_next_frame(pipeline->stream));
    }
    forget(store);
}

/* ---- keeping ----------------------------------------------------------------------------- */

bool store_available(void)
{
    const char *path = getenv("NOTIFY_SOCKET");
    return path != NULL && path[0] != '\0';
}

void store_pause(struct pipelines *pipelines)
{
    struct pipeline *pipeline;
    for (uint32_t at = 0; (pipeline = pipelines_next(pipelines, PIPELINES_ALL, &at)) != NULL;) {
        if (pipeline->upstream != NULL)
            continue;
        if (!pipeline->retired && succession_possible(pipeline))
            pipeline_pause(pipeline);
        else
            pipeline_stop(pipeline);
    }
}

bool store_ready(const struct pipelines *pipelines)
{
    const struct pipeline *pipeline;
    for (uint32_t at = 0; (pipeline = pipelines_next(pipelines, PIPELINES_RUNNING, &at)) != NULL;)
        if (succession_possible(pipeline) && !succession_ready(pipeline))
            return false;
    return true;
}

/* A memory file of these bytes that nobody can change any more; -1: errno says why. */
static int sealed_file(const uint8_t *bytes, size_t count)
{
    int fd = memfd_create(STORE_NAME, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    size_t done = 0;
    while (fd >= 0 && done < count) {
        const ssize_t wrote = write(fd, bytes + done, count - done);
        if (wrote < 0 && errno != EINTR)
            break;
        done += wrote > 0 ? (size_t)wrote : 0;
    }
    if (fd >= 0 && done == count &&
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) == 0)
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

struct kept {
    struct pipeline *pipeline;
    uint8_t *bytes;
    size_t count;
};

/* Takes the records of the pipelines that are ready into list[PIPELINES_MAX]. */
static uint32_t take_records(struct pipelines *pipelines, struct kept *list)
{
    struct pipeline *pipeline;
    uint32_t count = 0;
    for (uint32_t at = 0; (pipeline = pipelines_next(pipelines, PIPELINES_RUNNING, &at)) != NULL;) {
        if (!succession_possible(pipeline))
            continue;
        struct kept kept = {0};
        if (succession_ready(pipeline))
            kept.bytes = succession_write(pipeline, &kept.count);
        if (kept.bytes != NULL) {
            kept.pipeline = pipeline;
            list[count++] = kept;
        } else {
            log_notice("stream %s cannot be handed over: its epoch ends",
                       pipeline->stream_config->name);
        }
    }
    for (uint32_t i = 0; i < count; i++)
        succession_leave(list[i].pipeline);
    return count;
}

static void put_records(struct codec *c, const struct kept *list, uint32_t count)
{
    uint32_t mark = magic, version = STORE_VERSION;
    codec_u32(c, &mark);
    codec_u32(c, &version);
    codec_u32(c, &count);
    for (uint32_t i = 0; i < count; i++) {
        uint64_t bytes = list[i].count;
        const uint8_t *span = list[i].bytes;
        codec_u64(c, &bytes);
        codec_span(c, &span, list[i].count);
    }
    uint32_t sum = c->to != NULL ? crc32c(0, c->to, c->at) : 0;
    codec_u32(c, &sum);
}

void store_keep(struct pipelines *pipelines)
{
    struct kept *list = calloc(PIPELINES_MAX, sizeof *list);
    if (list == NULL)
        return;
    const uint32_t count = take_records(pipelines, list);
    struct codec counter = codec_counter();
    put_records(&counter, list, count);
    uint8_t *bytes = malloc(counter.at);
    int fd = -1;
    if (bytes != NULL) {
        struct codec writer = codec_writer(bytes, counter.at);
        put_records(&writer, list, count);
        fd = sealed_file(bytes, counter.at);
    }
    if (fd < 0 || sd_pid_notify_with_fds(0, 0, "FDSTORE=1\nFDNAME=" STORE_NAME, &fd, 1) <= 0)
        log_warning("systemd did not take the state of %" PRIu32 " stream%s (%s): the next daemon "
                    "begins new epochs",
                    count, count == 1 ? "" : "s", strerror(errno));
    else
        log_notice("%" PRIu32 " stream%s handed over to the next daemon, %zu KiB", count,
                   count == 1 ? "" : "s", (counter.at + 1023) / 1024);
    if (fd >= 0)
        close(fd);
    for (uint32_t i = 0; i < count; i++)
        free(list[i].bytes);
    free(bytes);
    free(list);
}
