/*
 * Taps to files: .npy and text that taps_load reads back to the last bit. No state; worker
 * threads.
 */
#include "filter/taps.h"

#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* Little-endian whatever the machine. */
static void write_double(FILE *file, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    bits = htole64(bits);
    fwrite(&bits, sizeof bits, 1, file);
}

/* NumPy enhancement proposal 1: magic, version, header length, a dictionary padded to 64 bytes. */
static void write_npy(FILE *file, struct taps *const *sets, uint32_t count)
{
    bool complex_taps = sets[0]->im != NULL;
    char shape[32], header[128];
    if (count == 1)
        snprintf(shape, sizeof shape, "(%u,)", sets[0]->count);
    else
        snprintf(shape, sizeof shape, "(%u, %u)", count, sets[0]->count);
    int length =
        snprintf(header, sizeof header, "{'descr': '%s', 'fortran_order': False, 'shape': %s, }",
                 complex_taps ? "<c16" : "<f8", shape);
    while ((10 + length + 1) % 64 != 0)
        header[length++] = ' ';
    header[length++] = '\n';
    fwrite("\x93NUMPY\1\0", 1, 8, file);
    fputc(length & 0xff, file);
    fputc(length >> 8, file);
    fwrite(header, 1, (size_t)length, file);
    for (uint32_t set = 0; set < count; set++) {
        for (uint32_t n = 0; n < sets[set]->count; n++) {
            write_double(file, sets[set]->re[n]);
            if (complex_taps)
                write_double(file, sets[set]->im[n]);
        }
    }
}

static void write_text(FILE *file, const struct taps *taps, const char *comment)
{
    while (comment != NULL && *comment != '\0') {
        size_t length = strcspn(comment, "\n");
        fprintf(file, "# %.*s\n", (int)length, comment);
        comment += length + (comment[length] == '\n');
    }
    for (uint32_t n = 0; n < taps->count; n++) {
        if (taps->im != NULL)
            fprintf(file, "%.17g %.17g\n", taps->re[n], taps->im[n]);
        else
            fprintf(file, "%.17g\n", taps->re[n]);
    }
}

int taps_write(const char *path, struct taps *const *sets, uint32_t count, const char *comment,
               struct problem *problem)
{
    assert(count >= 1);
    size_t length = strlen(path);
    bool npy = length > 4 && strcasecmp(path + length - 4, ".npy") == 0;
    if (!npy && count > 1)
        return problem_set(problem, ERROR_UNSUPPORTED,
                           "%s: a text file holds one set of taps and this filter has %u, one per "
                           "channel; write a .npy file",
                           path, count);
    FILE *file = fopen(path, "wb");
    if (file == NULL)
        return problem_set(problem, ERROR_NO_FILE, "cannot write %s: %s", path, strerror(errno));
    if (npy)
        write_npy(file, sets, count);
    else
        write_text(file, sets[0], comment);
    bool failed = ferror(file) != 0;
    if (fclose(file) != 0 || failed)
        return problem_set(problem, ERROR_SYSTEM, "%s could not be written whole: %s", path,
                           strerror(errno));
    return 0;
}
