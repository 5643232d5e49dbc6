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
#include "device/kernels.h"

/* No relaxed math: the error bound counts on it. */
static const char common_options[] = "-cl-std=CL1.2";

enum {
    BINARY_MAX_BYTES = 64 << 20,
    PATH_BYTES = 4096,
    SPILLED_BYTES_MOST =
        16, /* of an item, that nobody needs to know of: it cost nothing measured */
};

static const char file_mark[8] = "CVBIN1\n";

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

long program_spilled_bytes(const char *log)
{
    static const char what[] = " bytes spill stores";
    long most = 0;
    for (const char *at = log; (at = strstr(at, what)) != NULL; at += sizeof what - 1) {
        const char *digits = at;
        while (digits > log && digits[-1] >= '0' && digits[-1] <= '9')
            digits--;
        const long bytes = strtol(digits, NULL, 10);
        most = bytes > most ? bytes : most;
    }
    return most;
}

/* A cache file is a mark, the digest of the binary, the binary. NULL when it is not whole. */
static uint8_t *cache_read(const char *path, size_t *bytes)
{
    FILE *file = fopen(path, "rbe");
    if (file == NULL)
        return NULL;
    struct stat status;
    uint8_t *data = NULL, digest[SHA256_DIGEST_SIZE], head[sizeof file_mark + SHA256_DIGEST_SIZE];
    bool good = fstat(fileno(file), &status) == 0 && status.st_size > (off_t)sizeof head &&
                status.st_size <= BINARY_MAX_BYTES && fread(head, sizeof head, 1, file) == 1 &&
                memcmp(head, file_mark, sizeof file_mark) == 0;
    if (good) {
        *bytes = (size_t)status.st_size - sizeof head;
        data = malloc(*bytes);
        good = data != NULL && fread(data, *bytes, 1, file) == 1;
    }
    if (good) {
        struct sha256_ctx sha;
        sha256_init(&sha);
        sha256_update(&sha, *bytes, data);
        sha256_digest(&sha, sizeof digest, digest);
        good = memcmp(digest, head + sizeof file_mark, sizeof digest) == 0;
    }
    fclose(file);
    if (!good) {
        free(data);
        return NULL;
    }
    return data;
}

/* Written beside and renamed, so that a reader finds all of it or nothing. */
static void cache_write(const struct program_request *request, const char *key, cl_program program)
{
    size_t bytes = 0;
    if (clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof bytes, &bytes, NULL) !=
            CL_SUCCESS ||
        bytes == 0 || bytes > BINARY_MAX_BYTES)
        return;
    uint8_t *data = malloc(bytes), digest[SHA256_DIGEST_SIZE];
    char path[PATH_BYTES];
    if (data == NULL || !cache_path(request, key, path) ||
        clGetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof data, &data, NULL) != CL_SUCCESS) {
        free(data);
        return;
    }
    struct sha256_ctx sha;
    sha256_init(&sha);
    sha256_update(&sha, bytes, data);
    sha256_digest(&sha, sizeof digest, digest);
    mkdir(request->cache_dir, 0755);
    struct problem problem;
    const struct file_part parts[] = {
        {file_mark, sizeof file_mark}, {digest, sizeof digest}, {data, bytes}};
    if (replace_file(path, parts, sizeof parts / sizeof *parts, &problem) != 0)
        log_warning("%s; kernels are compiled at every start", problem.text);
    free(data);
}

static int build_problem(const struct program_request *request, cl_program program, cl_int code,
                         struct problem *problem)
{
    size_t bytes = 0;
    char *text = NULL;
    if (clGetProgramBuildInfo(program, request->device, CL_PROGRAM_BUILD_LOG, 0, NULL, &bytes) ==
            CL_SUCCESS &&
        bytes > 0 && (text = calloc(1, bytes + 1)) != NULL)
        clGetProgramBuildInfo(program, request->device, CL_PROGRAM_BUILD_LOG, bytes, text, NULL);
    log_error("%s does not build on %s (%s):\n%s", request->file, request->info->name,
              opencl_error_name(code), text != NULL ? text : "");
    problem_set(problem, ERROR_PROGRAM, "%s does not build on %s: %.300s", request->file,
                request->info->name, text != NULL ? text : opencl_error_name(code));
    free(text);
    return ERROR_PROGRAM;
}

/* NVIDIA's compiler says with -cl-nv-verbose what each kernel takes. Registers that do not fit go
 * to memory: the results are right, but slow. */
static void check_spills(const struct program_request *request, cl_program program)
{
    size_t bytes = 0;
    char *text = NULL;
    if (strstr(request->options, "-cl-nv-verbose") == NULL ||
        clGetProgramBuildInfo(program, request->device, CL_PROGRAM_BUILD_LOG, 0, NULL, &bytes) !=
            CL_SUCCESS ||
        bytes == 0 || (text = calloc(1, bytes + 1)) == NULL)
        return;
    clGetProgramBuildInfo(program, request->device, CL_PROGRAM_BUILD_LOG, bytes, text, NULL);
    const long spilled = program_spilled_bytes(text);
    if (spilled > SPILLED_BYTES_MOST)
        log_info("%s keeps %ld bytes of an item's registers in memory on %s: it is slower than "
                 "it could be",
                 request->file, spilled, request->info->name);
    free(text);
}

static int build_source(const struct program_request *request, const char *source,
                        const char *options, cl_program *out, struct problem *problem)
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
            check_spills(request, program);
            *out = program;
            return 0;
        }
        int error = attempt == 2 ? build_problem(request, program, code, problem) : 0;
        clReleaseProgram(program);
        if (error < 0)
            return error;
    }
}

/* NULL: the cache has no binary that the driver takes. */
static cl_program build_cached(const struct program_request *request, const char *key,
                               const char *options)
{
    char path[PATH_BYTES];
    size_t bytes = 0;
    cl_int code = CL_SUCCESS, status = CL_SUCCESS;
    cl_program program = NULL;
    if (request->cache_dir == NULL || !cache_path(request, key, path))
        return NULL;
    uint8_t *binary = cache_read(path, &bytes);
    const uint8_t *binaries = binary;
    if (binary != NULL)
        program = clCreateProgramWithBinary(request->context, 1, &request->device, &bytes,
                                            &binaries, &status, &code);
    free(binary);
    if (program != NULL &&
        (code != CL_SUCCESS || status != CL_SUCCESS ||
         clBuildProgram(program, 1, &request->device, options, NULL, NULL) != CL_SUCCESS)) {
        clReleaseProgram(program);
        program = NULL;
    }
    return program;
}

int program_build(const struct program_request *request, cl_program *out, struct problem *problem)
{
    char *source = NULL, options[PROGRAM_OPTIONS + sizeof common_options + 1], key[DIGEST_TEXT];
    int error = kernel_source(request->kernels_dir, request->file, &source, problem);
    if (error < 0)
        return error;
    snprintf(options, sizeof options, "%s %s", common_options, request->options);
    cache_key(request, source, options, key);

    cl_program program = build_cached(request, key, options);
    if (program == NULL && request->build_apart != NULL && request->build_apart(request))
        program = build_cached(request, key, options);
    if (program == NULL) {
        error = build_source(request, source, options, &program, problem);
        if (error == 0 && request->cache_dir != NULL)
            cache_write(request, key, program);
    }
    free(source);
    if (error == 0)
        *out = program;
    return error;
}
