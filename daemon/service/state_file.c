/* State file: see state_file.h. */
#include "service/state_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/codec.h"
#include "core/descriptor.h"
#include "core/log.h"
#include "pipeline/pipelines.h"
#include "wire/crc32c.h"

enum { FILE_VERSION = 1, HEADER_BYTES = 12, CHECKSUM_BYTES = 4 };

static const uint32_t magic = 0x53445643;            /* "CVDS" */
static const uint64_t bytes_max = UINT64_C(4) << 30; /* of all records together */

/* ---- reading ----------------------------------------------------------------------------- */

static int walk_records(struct state_file *file, uint32_t count, struct codec *c,
                        struct problem *problem)
{
    file->records = calloc(count > 0 ? count : 1, sizeof *file->records);
    if (file->records == NULL)
        return problem_set(problem, ERROR_MEMORY, "there is no memory for it");
    for (uint32_t i = 0; i < count; i++) {
        struct state_record *record = &file->records[file->record_count];
        uint64_t bytes;
        codec_u64(c, &bytes);
        codec_span(c, &record->bytes, (size_t)bytes);
        if (c->failed)
            return problem_set(problem, ERROR_FORMAT, "a record does not fit");
        record->count = (size_t)bytes;
        struct problem why;
        if (succession_peek(record->bytes, record->count, &record->left, &record->pin, &why) == 0)
            file->record_count++;
        else
            log_warning("stream %s begins a new epoch: %s", record->left.stream, why.text);
    }
    return 0;
}

static int read_records(struct state_file *file, struct problem *problem)
{
    struct codec c = codec_reader(file->bytes, file->count);
    uint32_t mark, version, count, sum;
    codec_u32(&c, &mark);
    codec_u32(&c, &version);
    codec_u32(&c, &count);
    if (c.failed || mark != magic || file->count < HEADER_BYTES + CHECKSUM_BYTES)
        return problem_set(problem, ERROR_FORMAT, "it is no state of this daemon");
    if (version != FILE_VERSION)
        return problem_set(problem, ERROR_UNSUPPORTED, "it has version %u, and this is version %d",
                           version, FILE_VERSION);
    c.bytes -= CHECKSUM_BYTES;
    struct codec tail = codec_reader(file->bytes + c.bytes, CHECKSUM_BYTES);
    codec_u32(&tail, &sum);
    if (sum != crc32c(0, file->bytes, c.bytes) || count > PIPELINES_MAX)
        return problem_set(problem, ERROR_FORMAT, "it is damaged");
    return walk_records(file, count, &c, problem);
}

/* Maps what can no longer change under the reader. */
static int map(struct state_file *file, int fd, struct problem *problem)
{
    struct stat facts;
    const int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || !(seals & F_SEAL_WRITE) || !(seals & F_SEAL_SHRINK) ||
        fstat(fd, &facts) != 0 || facts.st_size <= 0 || (uint64_t)facts.st_size > bytes_max)
        return problem_set(problem, ERROR_FORMAT, "it is not sealed, or no memory file");
    void *bytes = mmap(NULL, (size_t)facts.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (bytes == MAP_FAILED)
        return problem_set(problem, ERROR_SYSTEM, "it cannot be mapped: %s", strerror(errno));
    file->bytes = bytes;
    file->count = (size_t)facts.st_size;
    return 0;
}

int state_file_read(int fd, struct state_file *out, struct problem *problem)
{
    *out = (struct state_file){0};
    int error = map(out, fd, problem);
    if (error == 0)
        error = read_records(out, problem);
    if (error < 0)
        state_file_forget(out);
    return error;
}

const struct state_record *state_file_find(const struct state_file *file, const char *name)
{
    for (uint32_t i = 0; i < file->record_count; i++)
        if (strcmp(file->records[i].left.stream, name) == 0)
            return &file->records[i];
    return NULL;
}

void state_file_forget(struct state_file *file)
{
    if (file->bytes != NULL)
        munmap(file->bytes, file->count);
    free(file->records);
    *file = (struct state_file){0};
}

/* ---- writing ----------------------------------------------------------------------------- */

static void put_records(struct codec *c, const struct state_bytes *records, uint32_t count)
{
    uint32_t mark = magic, version = FILE_VERSION;
    codec_u32(c, &mark);
    codec_u32(c, &version);
    codec_u32(c, &count);
    for (uint32_t i = 0; i < count; i++) {
        uint64_t bytes = records[i].count;
        const uint8_t *span = records[i].bytes;
        codec_u64(c, &bytes);
        codec_span(c, &span, records[i].count);
    }
    uint32_t sum = c->to != NULL ? crc32c(0, c->to, c->at) : 0;
    codec_u32(c, &sum);
}

static int sealed_file(const uint8_t *bytes, size_t count)
{
    int fd = memfd_create("convolvd-state", MFD_CLOEXEC | MFD_ALLOW_SEALING);
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
    descriptor_close(fd);
    return -1;
}

int state_file_make(const struct state_bytes *records, uint32_t count, size_t *bytes)
{
    struct codec counter = codec_counter();
    put_records(&counter, records, count);
    uint8_t *text = malloc(counter.at);
    int fd = -1;
    *bytes = counter.at;
    if (text != NULL) {
        struct codec writer = codec_writer(text, counter.at);
        put_records(&writer, records, count);
        fd = sealed_file(text, counter.at);
    }
    free(text);
    return fd;
}
