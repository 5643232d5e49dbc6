/*
 * State file: the records of all streams of one daemon (pipeline/succession.h) in a memory file
 * that nobody can change any more, with a version and a checksum.
 *
 *     "CVDS" │ version │ records │ { bytes (64 bits) │ record } … │ CRC-32C of all before
 *
 * Numbers are little-endian. What is not sealed, damaged or of another version is refused, and says
 * why; a record that cannot be read is left out, with a warning, and the others stay.
 *
 * One owner; state_file_find: any thread.
 */
#ifndef CONVOLVD_SERVICE_STATE_FILE_H
#define CONVOLVD_SERVICE_STATE_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "core/error.h"
#include "pipeline/heritage.h"
#include "pipeline/succession.h"

struct state_record {
    struct heritage left; /* with the stream's name */
    const uint8_t *bytes; /* of the file's */
    size_t count;
    struct plan_pin pin; /* the plan that goes on */
};

struct state_file {
    uint8_t *bytes; /* mapped; NULL: none was read */
    size_t count;
    struct state_record *records;
    uint32_t record_count;
};

/* Maps the file of this descriptor, which stays the caller's. 0, ERROR_FORMAT, ERROR_UNSUPPORTED,
 * ERROR_SYSTEM or ERROR_MEMORY; then *out is empty. */
int state_file_read(int fd, struct state_file *out, struct problem *problem);
/* The record of this stream; NULL: there is none. */
const struct state_record *state_file_find(const struct state_file *file, const char *name);
void state_file_forget(struct state_file *file);

struct state_bytes {
    uint8_t *bytes;
    size_t count;
};

/* A sealed memory file of these records, with *bytes of them; -1: errno says why. */
int state_file_make(const struct state_bytes *records, uint32_t count, size_t *bytes);

#endif
