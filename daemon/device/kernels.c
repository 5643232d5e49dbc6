/*
 * Kernel sources: lookup and includes, see kernels.h. No state.
 */
#include "device/kernels.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { INCLUDES_MAX = 32, NAME_MAX_BYTES = 64, FILE_MAX_BYTES = 1 << 20 };

/* The text that grows, and the names already in it. */
struct assembly {
    const char *directory;
    char *text;
    size_t bytes, capacity;
    char seen[INCLUDES_MAX][NAME_MAX_BYTES];
    int seen_count;
    struct problem *problem;
};

static int append(struct assembly *assembly, const char *text, size_t bytes)
{
    if (assembly->bytes + bytes + 1 > assembly->capacity) {
        size_t capacity = (assembly->bytes + bytes + 1) * 2;
        char *grown = realloc(assembly->text, capacity);
        if (grown == NULL)
            return problem_set(assembly->problem, ERROR_MEMORY, "out of memory for kernel sources");
        assembly->text = grown;
        assembly->capacity = capacity;
    }
    memcpy(assembly->text + assembly->bytes, text, bytes);
    assembly->bytes += bytes;
    assembly->text[assembly->bytes] = '\0';
    return 0;
}

/* Reads DIRECTORY/name into *text; *text stays NULL when there is no such file. */
static int read_override(struct assembly *assembly, const char *name, char **text)
{
    *text = NULL;
    if (assembly->directory == NULL)
        return 0;
    char path[4096];
    if (snprintf(path, sizeof path, "%s/%s", assembly->directory, name) >= (int)sizeof path)
        return problem_set(assembly->problem, ERROR_LIMIT, "the path %s/%s is too long",
                           assembly->directory, name);
    FILE *file = fopen(path, "rbe");
    if (file == NULL) {
        if (errno == ENOENT)
            return 0;
        return problem_set(assembly->problem, ERROR_NO_FILE,
                           "%s: %s; make it readable or leave out --kernels", path,
                           strerror(errno));
    }
    char *bytes = malloc(FILE_MAX_BYTES + 1);
    size_t count = bytes == NULL ? 0 : fread(bytes, 1, FILE_MAX_BYTES + 1, file);
    fclose(file);
    if (bytes == NULL)
        return problem_set(assembly->problem, ERROR_MEMORY, "out of memory for kernel sources");
    if (count > FILE_MAX_BYTES) {
        free(bytes);
        return problem_set(assembly->problem, ERROR_LIMIT, "%s: longer than %d bytes", path,
                           FILE_MAX_BYTES);
    }
    bytes[count] = '\0';
    *text = bytes;
    return 0;
}

static const char *embedded(const char *name)
{
    for (const struct kernel_file *file = kernel_files; file->name != NULL; file++)
        if (strcmp(file->name, name) == 0)
            return file->text;
    return NULL;
}

/* The name in a line `#include "name"`, or NULL. */
static const char *included_name(const char *line, size_t length, size_t *name_bytes)
{
    static const char directive[] = "#include \"";
    if (length < sizeof directive || strncmp(line, directive, sizeof directive - 1) != 0)
        return NULL;
    const char *name = line + sizeof directive - 1;
    const char *end = memchr(name, '"', length - (sizeof directive - 1));
    if (end == NULL)
        return NULL;
    *name_bytes = (size_t)(end - name);
    return name;
}

static int add_file(struct assembly *assembly, const char *name, const char *includer)
{
    for (int i = 0; i < assembly->seen_count; i++)
        if (strcmp(assembly->seen[i], name) == 0)
            return 0;
    if (assembly->seen_count == INCLUDES_MAX || strlen(name) >= NAME_MAX_BYTES)
        return problem_set(assembly->problem, ERROR_LIMIT,
                           "%s: more than %d includes, or a name of more than %d characters",
                           includer, INCLUDES_MAX, NAME_MAX_BYTES - 1);
    memcpy(assembly->seen[assembly->seen_count++], name, strlen(name) + 1);

    char *override = NULL;
    int error = read_override(assembly, name, &override);
    if (error < 0)
        return error;
    const char *text = override != NULL ? override : embedded(name);
    if (text == NULL)
        return problem_set(assembly->problem, ERROR_NO_FILE,
                           "kernel file \"%s\" (wanted by %s) is neither built in%s%s", name,
                           includer, assembly->directory != NULL ? " nor in " : "",
                           assembly->directory != NULL ? assembly->directory : "");
    unsigned line_number = 0;
    char marker[NAME_MAX_BYTES + 32];
    snprintf(marker, sizeof marker, "#line 1 \"%s\"\n", name);
    error = append(assembly, marker, strlen(marker));
    for (const char *line = text; error == 0 && *line != '\0';) {
        const char *newline = strchr(line, '\n');
        size_t length = newline != NULL ? (size_t)(newline - line) + 1 : strlen(line);
        size_t name_bytes = 0;
        const char *included = included_name(line, length, &name_bytes);
        line_number++;
        if (included == NULL) {
            error = append(assembly, line, length);
        } else {
            char inner[NAME_MAX_BYTES] = "";
            if (name_bytes < sizeof inner)
                memcpy(inner, included, name_bytes);
            error = add_file(assembly, inner, name);
            snprintf(marker, sizeof marker, "\n#line %u \"%s\"\n", line_number + 1, name);
            if (error == 0)
                error = append(assembly, marker, strlen(marker));
        }
        line += length;
    }
    free(override);
    return error;
}

int kernel_source(const char *directory, const char *name, char **text, struct problem *problem)
{
    struct assembly assembly = {.directory = directory, .problem = problem};
    int error = add_file(&assembly, name, "the engine");
    if (error < 0) {
        free(assembly.text);
        return error;
    }
    *text = assembly.text;
    return 0;
}
