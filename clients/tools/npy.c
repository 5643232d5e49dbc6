/*
 * NumPy arrays: see npy.h. Version 1.0 of the format: "\x93NUMPY", 1, 0, u16 header bytes, a
 * Python dict literal padded with spaces and a newline to a multiple of 64.
 */
#include "npy.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { HEADER_BYTES = 128, PREFIX_BYTES = 10, READ_HEADER_MAX = 4096, HOLE_VALUES = 4096 };

struct npy {
    const char *path;
    const char *type; /* "f8", "f4" */
    int descriptor;
    uint32_t channels;
    uint64_t frames; /* so far */
};

static int write_whole(struct npy *npy, const void *bytes, size_t count, uint64_t offset,
                       struct problem *problem)
{
    const char *from = bytes;
    while (count > 0) {
        ssize_t written = pwrite(npy->descriptor, from, count, (off_t)offset);
        if (written <= 0)
            return problem_set(problem, ERROR_SYSTEM, "%s: cannot write: %s", npy->path,
                               strerror(errno));
        from += written;
        offset += (uint64_t)written;
        count -= (size_t)written;
    }
    return 0;
}

static int write_header(struct npy *npy, struct problem *problem)
{
    char header[HEADER_BYTES + 1] = "\x93NUMPY\x01";
    header[7] = 0;
    header[8] = HEADER_BYTES - PREFIX_BYTES;
    header[9] = 0;
    int used = snprintf(header + PREFIX_BYTES, HEADER_BYTES - PREFIX_BYTES,
                        "{'descr': '<%s', 'fortran_order': False, 'shape': (%llu, %u), }",
                        npy->type, (unsigned long long)npy->frames, npy->channels);
    memset(header + PREFIX_BYTES + used, ' ', (size_t)(HEADER_BYTES - PREFIX_BYTES - used));
    header[HEADER_BYTES - 1] = '\n';
    return write_whole(npy, header, HEADER_BYTES, 0, problem);
}

int npy_create(const char *path, uint32_t channels, struct npy **out, struct problem *problem)
{
    *out = NULL;
    struct npy *npy = calloc(1, sizeof *npy);
    if (npy == NULL || (npy->path = strdup(path)) == NULL) {
        free(npy);
        return problem_set(problem, ERROR_MEMORY, "out of memory");
    }
    npy->type = "f8";
    npy->channels = channels;
    npy->descriptor = open(path, O_CREAT | O_TRUNC | O_RDWR | O_CLOEXEC, 0666);
    int status = npy->descriptor < 0
                     ? problem_set(problem, ERROR_NO_FILE, "%s: cannot be written: %s", path,
                                   strerror(errno))
                     : write_header(npy, problem);
    if (status != 0) {
        if (npy->descriptor >= 0)
            close(npy->descriptor);
        free((void *)npy->path);
        free(npy);
        return status;
    }
    *out = npy;
    return 0;
}

static uint64_t offset_of(const struct npy *npy, uint64_t frame)
{
    return HEADER_BYTES + frame * npy->channels * sizeof(double);
}

int npy_write(struct npy *npy, uint64_t first, uint64_t frames, const double *values,
              struct problem *problem)
{
    uint64_t hole = first > npy->frames ? (first - npy->frames) * npy->channels : 0;
    uint64_t offset = offset_of(npy, npy->frames);
    double unknown[HOLE_VALUES];
    for (size_t i = 0; i < HOLE_VALUES && i < hole; i++)
        unknown[i] = NAN;
    while (hole > 0) {
        size_t now = hole < HOLE_VALUES ? (size_t)hole : HOLE_VALUES;
        int status = write_whole(npy, unknown, now * sizeof(double), offset, problem);
        if (status != 0)
            return status;
        offset += now * sizeof(double);
        hole -= now;
    }
    if (first + frames > npy->frames)
        npy->frames = first + frames;
    return write_whole(npy, values, (size_t)frames * npy->channels * sizeof(double),
                       offset_of(npy, first), problem);
}

int npy_shorten(struct npy *npy, uint64_t frames, struct problem *problem)
{
    if (npy == NULL || npy->frames <= frames)
        return 0;
    if (ftruncate(npy->descriptor, (off_t)offset_of(npy, frames)) != 0)
        return problem_set(problem, ERROR_SYSTEM, "%s: cannot be shortened: %s", npy->path,
                           strerror(errno));
    npy->frames = frames;
    return 0;
}

int npy_close(struct npy *npy, struct problem *problem)
{
    if (npy == NULL)
        return 0;
    int status = write_header(npy, problem);
    if (close(npy->descriptor) != 0 && status == 0)
        status =
            problem_set(problem, ERROR_SYSTEM, "%s: cannot write: %s", npy->path, strerror(errno));
    free((void *)npy->path);
    free(npy);
    return status;
}

int npy_write_floats(int descriptor, const char *path, const float *values, uint64_t frames,
                     uint32_t channels, struct problem *problem)
{
    struct npy npy = {path, "f4", descriptor, channels, frames};
    const int status = write_header(&npy, problem);
    return status != 0 ? status
                       : write_whole(&npy, values, (size_t)frames * channels * sizeof *values,
                                     HEADER_BYTES, problem);
}

/* ---- reading ----------------------------------------------------------------------------- */

static int refuse(const char *path, struct problem *problem)
{
    return problem_set(problem, ERROR_FORMAT,
                       "%s: not an array this tool reads: save it as float64 or float32 of shape "
                       "(frames, channels), C order",
                       path);
}

/* Header of an array: shape and element size. */
static int read_header(FILE *file, const char *path, uint64_t *frames, uint32_t *channels,
                       size_t *element, struct problem *problem)
{
    unsigned char prefix[12];
    char text[READ_HEADER_MAX + 1];
    if (fread(prefix, 1, PREFIX_BYTES, file) != PREFIX_BYTES || memcmp(prefix, "\x93NUMPY", 6) != 0)
        return refuse(path, problem);
    size_t bytes = prefix[8] | (size_t)prefix[9] << 8;
    if (prefix[6] > 1) {
        if (fread(prefix + PREFIX_BYTES, 1, 2, file) != 2 || prefix[10] != 0 || prefix[11] != 0)
            return refuse(path, problem);
    }
    if (bytes > READ_HEADER_MAX || fread(text, 1, bytes, file) != bytes)
        return refuse(path, problem);
    text[bytes] = '\0';
    const char *shape = strstr(text, "'shape': (");
    unsigned long long rows = 0, columns = 1;
    int found = shape != NULL ? sscanf(shape, "'shape': (%llu, %llu", &rows, &columns) : 0;
    *element = strstr(text, "'<f8'") != NULL ? 8 : strstr(text, "'<f4'") != NULL ? 4 : 0;
    if (found < 1 || *element == 0 || strstr(text, "'fortran_order': True") != NULL ||
        columns < 1 || columns > 65536 || rows > (UINT64_C(1) << 40) / columns)
        return refuse(path, problem);
    *frames = rows;
    *channels = (uint32_t)columns;
    return 0;
}

int npy_read(const char *path, double **values, uint64_t *frames, uint32_t *channels,
             struct problem *problem)
{
    *values = NULL;
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        return problem_set(problem, ERROR_NO_FILE, "%s: %s", path, strerror(errno));
    size_t element = 0;
    int status = read_header(file, path, frames, channels, &element, problem);
    struct stat about;
    uint64_t count = status == 0 ? *frames * *channels : 0;
    /* Never trust a header with an allocation: the bytes must be there. */
    if (status == 0 &&
        (fstat(fileno(file), &about) != 0 || (uint64_t)about.st_size < count * element))
        status = refuse(path, problem);
    double *array = status == 0 ? malloc(count * sizeof *array + 1) : NULL;
    if (status == 0 && array == NULL)
        status = problem_set(problem, ERROR_MEMORY, "%s: out of memory", path);
    for (uint64_t i = 0; status == 0 && i < count; i++) {
        float single;
        bool read =
            element == 8 ? fread(&array[i], 8, 1, file) == 1 : fread(&single, 4, 1, file) == 1;
        if (!read)
            status = refuse(path, problem);
        else if (element == 4)
            array[i] = (double)single;
    }
    fclose(file);
    if (status != 0) {
        free(array);
        return status;
    }
    *values = array;
    return 0;
}
