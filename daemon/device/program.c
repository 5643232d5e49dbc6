/*
 * Building programs and the cache of binaries, see program.h.
 */
#include "device/program.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/digest.h"
#include "core/log.h"
#include "core/replace_file.h"
#include "device/build_log.h"
#include "device/kernels.h"
#include "device/spill.h"
#include "device/traits.h"

/* No relaxed math: the error bound counts on it. */
static const char common_options[] = "-cl-std=CL1.2";
/* NVIDIA's compiler tells of spilled registers. */
static const char nvidia_options[] = "-cl-nv-verbose";

enum {
    BINARY_MAX_BYTES = 64 << 20,
    PATH_BYTES = 4096,
    OPTIONS_BYTES = PROGRAM_OPTIONS + sizeof common_options + sizeof nvidia_options,
};

/*
 * A cache file: a head, then the binary. The mark counts the versions of the head; the digest
 * covers the mark and all that follows the digest.
 */
struct cache_head {
    char mark[8];
    uint8_t digest[SHA256_DIGEST_SIZE];
    uint8_t spilled_bytes[4]; /* two's complement, the lowest byte first */
};

static const char cache_mark[sizeof((struct cache_head *)0)->mark] = "CVBIN2\n";

/* What program_build makes. */
struct built {
    cl_program program;    /* NULL: not yet */
    int32_t spilled_bytes; /* of a work-item; SPILL_UNKNOWN */
};

static void cache_key(const struct program_request *request, const char *source,
                      const char *options, char key[DIGEST_TEXT])
{
    struct sha256_ctx sha;
    sha256_init(&sha);
    digest_text(&sha, source);
    digest_text(&sha, options);
    digest_text(&sha, request->info->platform);
    digest_text(&sha, request->info->name);
    digest_text(&sha, request->info->driver);
    digest_text(&sha, request->info->version);
    digest_finish(&sha, key);
}

static bool cache_path(const struct program_request *request, const char *key,
                       char path[PATH_BYTES])
{
    return snprintf(path, PATH_BYTES, "%s/%s", request->cache_dir, key) < PATH_BYTES;
}

static void cache_digest(const struct cache_head *head, const uint8_t *binary, size_t bytes,
                         uint8_t digest[SHA256_DIGEST_SIZE])
{
    struct sha256_ctx sha;
    sha256_init(&sha);
    sha256_update(&sha, sizeof head->mark, (const uint8_t *)head->mark);
    sha256_update(&sha, sizeof head->spilled_bytes, head->spilled_bytes);
    sha256_update(&sha, bytes, binary);
    sha256_digest(&sha, SHA256_DIGEST_SIZE, digest);
}

/* The binary of a cache file, and how much it spills. NULL when the file is not whole or an earlier
 * version wrote it. */
static uint8_t *cache_read(const char *path, size_t *bytes, int32_t *spilled_bytes)
{
    FILE *file = fopen(path, "rbe");
    if (file == NULL)
        return NULL;
    struct stat status;
    struct cache_head head;
    uint8_t *data = NULL, digest[SHA256_DIGEST_SIZE];
    bool good = fstat(fileno(file), &status) == 0 && status.st_size > (off_t)sizeof head &&
                status.st_size <= BINARY_MAX_BYTES && fread(&head, sizeof head, 1, file) == 1 &&
                memcmp(head.mark, cache_mark, sizeof cache_mark) == 0;
    if (good) {
        *bytes = (size_t)status.st_size - sizeof head;
        data = malloc(*bytes);
        good = data != NULL && fread(data, *bytes, 1, file) == 1;
    }
    if (good) {
        cache_digest(&head, data, *bytes, digest);
        good = memcmp(digest, head.digest, sizeof digest) == 0;
    }
    fclose(file);
    if (!good) {
        free(data);
        return NULL;
    }
    uint32_t spilled = 0;
    for (size_t i = 0; i < sizeof head.spilled_bytes; i++)
        spilled |= (uint32_t)head.spilled_bytes[i] << 8 * i;
    *spilled_bytes = (int32_t)spilled;
    return data;
}

/* Written beside and renamed, so that a reader finds all of it or nothing. */
static void cache_write(const struct program_request *request, const char *key,
                        const struct built *built)
{
    size_t bytes = 0;
    if (clGetProgramInfo(built->program, CL_PROGRAM_BINARY_SIZES, sizeof bytes, &bytes, NULL) !=
            CL_SUCCESS ||
        bytes == 0 || bytes > BINARY_MAX_BYTES)
        return;
    uint8_t *data = malloc(bytes);
    char path[PATH_BYTES];
    if (data == NULL || !cache_path(request, key, path) ||
        clGetProgramInfo(built->program, CL_PROGRAM_BINARIES, sizeof data, &data, NULL) !=
            CL_SUCCESS) {
        free(data);
        return;
    }
    struct cache_head head;
    memcpy(head.mark, cache_mark, sizeof head.mark);
    for (size_t i = 0; i < sizeof head.spilled_bytes; i++)
        head.spilled_bytes[i] = (uint8_t)((uint32_t)built->spilled_bytes >> 8 * i);
    cache_digest(&head, data, bytes, head.digest);
    mkdir(request->cache_dir, 0755);
    struct problem problem;
    const struct file_part parts[] = {{&head, sizeof head}, {data, bytes}};
    if (replace_file(path, parts, sizeof parts / sizeof *parts, &problem) != 0)
        log_warning("%s; kernels are compiled at every start", problem.text);
    free(data);
}

static int build_problem(const struct program_request *request, cl_program program, cl_int code,
                         struct problem *problem)
{
    char *text = build_log_read(program, request->device);
    log_error("%s does not build on %s (%s):\n%s", request->file, request->info->name,
              opencl_error_name(code), text != NULL ? text : "");
    problem_set(problem, ERROR_PROGRAM, "%s does not build on %s: %.300s", request->file,
                request->info->name, text != NULL ? text : opencl_error_name(code));
    free(text);
    return ERROR_PROGRAM;
}

static int32_t spilled_bytes_of(const struct program_request *request, cl_program program)
{
    char *text = build_log_read(program, request->device);
    const int32_t bytes = text != NULL ? spill_of_log(text) : SPILL_UNKNOWN;
    if (spill_harms(bytes))
        log_info("%s keeps %d bytes of an item's registers in memory on %s: it is slower than it "
                 "could be",
                 request->file, bytes, request->info->name);
    free(text);
    return bytes;
}

static int build_source(const struct program_request *request, const char *source,
                        const char *options, struct built *built, struct problem *problem)
{
    /* Twice: PoCL's own cache is shared by all processes of a user, and a build has been seen to
     * fail that met what another was writing there. */
    for (int attempt = 1;; attempt++) {
        cl_int code;
        cl_program program = clCreateProgramWithSource(request->context, 1, &source, NULL, &code);
        if (program == NULL)
            return opencl_problem(problem, code, "clCreateProgramWithSource");
        code = clBuildProgram(program, 1, &request->device, options, NULL, NULL);
        if (code == CL_SUCCESS) {
            *built = (struct built){program, spilled_bytes_of(request, program)};
            return 0;
        }
        int error = attempt == 2 ? build_problem(request, program, code, problem) : 0;
        clReleaseProgram(program);
        if (error < 0)
            return error;
    }
}

/* False: the cache has no binary that the driver takes. */
static bool build_cached(const struct program_request *request, const char *key,
                         const char *options, struct built *built)
{
    char path[PATH_BYTES];
    size_t bytes = 0;
    cl_int code = CL_SUCCESS, status = CL_SUCCESS;
    cl_program program = NULL;
    int32_t spilled_bytes = SPILL_UNKNOWN;
    if (request->cache_dir == NULL || !cache_path(request, key, path))
        return false;
    uint8_t *binary = cache_read(path, &bytes, &spilled_bytes);
    const uint8_t *binaries = binary;
    if (binary != NULL)
        program = clCreateProgramWithBinary(request->context, 1, &request->device, &bytes,
                                            &binaries, &status, &code);
    free(binary);
    if (program == NULL)
        return false;
    if (code != CL_SUCCESS || status != CL_SUCCESS ||
        clBuildProgram(program, 1, &request->device, options, NULL, NULL) != CL_SUCCESS) {
        clReleaseProgram(program);
        return false;
    }
    *built = (struct built){program, spilled_bytes};
    return true;
}

int program_build(const struct program_request *request, cl_program *out, int32_t *spilled_bytes,
                  struct problem *problem)
{
    char *source = NULL, options[OPTIONS_BYTES], key[DIGEST_TEXT];
    int error = kernel_source(request->kernels_dir, request->file, &source, problem);
    if (error < 0)
        return error;
    const bool nvidia = device_is_nvidia(request->info);
    snprintf(options, sizeof options, "%s%s%s %s", common_options, nvidia ? " " : "",
             nvidia ? nvidia_options : "", request->options);
    cache_key(request, source, options, key);

    struct built built = {NULL, SPILL_UNKNOWN};
    bool found = build_cached(request, key, options, &built);
    if (!found && request->build_apart != NULL && request->build_apart(request))
        found = build_cached(request, key, options, &built);
    if (!found) {
        error = build_source(request, source, options, &built, problem);
        if (error == 0 && request->cache_dir != NULL)
            cache_write(request, key, &built);
    }
    free(source);
    if (error < 0)
        return error;
    *out = built.program;
    if (spilled_bytes != NULL)
        *spilled_bytes = built.spilled_bytes;
    return 0;
}
