/*
 * Taps from files: WAV, W64, RF64 and FLAC through libsndfile, .npy and text by parsers of our own.
 * The first bytes decide which of them a file is; its name serves messages, and tells when a file
 * is not what it is called. The bytes are not trusted: the parsers check each length before they
 * use it, and every tap is finite.
 *
 * No state; worker threads.
 */
#include "filter/taps.h"

#include <ctype.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "signal/sound_memory.h"
#include "signal/sound_file.h"

enum {
    SETS_MAX = 1024,          /* as many as a stream has channels */
    FILE_BYTES_MAX = 1 << 29, /* 2^20 complex128 taps for 32 channels; more is no filter */
    VALUES_MAX = 1 << 26,     /* numbers in all sets together: 512 MiB */
    TEXT_LINE_MAX = 256,      /* two numbers need 50 bytes */
    NPY_HEADER_MAX = 4096,
};

/* The file being read and where the taps go. */
struct reading {
    const char *name;
    const uint8_t *data;
    uint64_t bytes;
    struct taps **sets;
    uint32_t count;
    struct problem *problem;
};

static int sets_create(struct reading *r, uint32_t sets, uint64_t taps, bool complex_taps)
{
    if (taps < 1)
        return problem_set(r->problem, ERROR_FORMAT, "%s holds no taps; give at least one",
                           r->name);
    if (taps > TAPS_MAX)
        return problem_set(r->problem, ERROR_LIMIT,
                           "%s holds %llu taps; a filter has at most %d: shorten it", r->name,
                           (unsigned long long)taps, TAPS_MAX);
    if (sets < 1 || sets > SETS_MAX)
        return problem_set(r->problem, ERROR_LIMIT,
                           "%s holds %u sets of taps; give one, or one per channel, at most %d "
                           "(.npy: the shape is (channels, taps))",
                           r->name, sets, SETS_MAX);
    if (sets * taps * (complex_taps ? 2 : 1) > VALUES_MAX)
        return problem_set(r->problem, ERROR_LIMIT,
                           "%s holds %llu taps in all channels together; shorten it to %d", r->name,
                           (unsigned long long)(sets * taps), VALUES_MAX / 2);
    r->sets = calloc(sets, sizeof *r->sets);
    if (r->sets == NULL)
        return problem_set(r->problem, ERROR_MEMORY, "no memory for the taps of %s", r->name);
    for (r->count = 0; r->count < sets; r->count++) {
        int error = taps_create((uint32_t)taps, complex_taps, &r->sets[r->count], r->problem);
        if (error != 0)
            return problem_prefix(r->problem, error, "%s", r->name);
    }
    return 0;
}

static int sets_check_finite(const struct reading *r)
{
    for (uint32_t set = 0; set < r->count; set++) {
        const struct taps *taps = r->sets[set];
        for (uint32_t n = 0; n < taps->count; n++) {
            if (isfinite(taps->re[n]) && (taps->im == NULL || isfinite(taps->im[n])))
                continue;
            return problem_set(r->problem, ERROR_FORMAT,
                               "%s: tap %u of set %u is not a finite number; every tap must be",
                               r->name, n + 1, set + 1);
        }
    }
    return 0;
}

#define TAP_MAX 1e20

/* Spectra and results are float32: taps this large leave no room for a signal. */
static int sets_check_size(const struct reading *r)
{
    for (uint32_t set = 0; set < r->count; set++) {
        const struct taps *taps = r->sets[set];
        for (uint32_t n = 0; n < taps->count; n++)
            if (fabs(taps->re[n]) > TAP_MAX || (taps->im != NULL && fabs(taps->im[n]) > TAP_MAX))
                return problem_set(r->problem, ERROR_FORMAT,
                                   "%s: tap %u of set %u is beyond %g, too large for 32-bit "
                                   "floats; scale the taps",
                                   r->name, n + 1, set + 1, TAP_MAX);
    }
    return 0;
}

/* ---- WAV, W64, RF64, FLAC: libsndfile over memory ---------------------------------------- */

static int sound_read_frames(struct reading *r, SNDFILE *file, const SF_INFO *info)
{
    enum { PIECE = 4096 };
    uint32_t channels = (uint32_t)info->channels, done = 0;
    double *piece = malloc((size_t)PIECE * channels * sizeof *piece);
    if (piece == NULL)
        return problem_set(r->problem, ERROR_MEMORY, "no memory to read %s", r->name);
    while (done < r->sets[0]->count) {
        uint32_t left = r->sets[0]->count - done;
        sf_count_t got = sf_readf_double(file, piece, left < PIECE ? left : PIECE);
        if (got <= 0)
            break;
        for (uint32_t n = 0; n < (uint32_t)got; n++)
            for (uint32_t c = 0; c < channels; c++)
                r->sets[c]->re[done + n] = piece[(size_t)n * channels + c];
        done += (uint32_t)got;
    }
    free(piece);
    if (done < r->sets[0]->count)
        return problem_set(r->problem, ERROR_FORMAT,
                           "%s ends after %u of %u frames; write the file again", r->name, done,
                           r->sets[0]->count);
    return 0;
}

static int sound_load(struct reading *r)
{
    if (sound_head_is_w64_float((const uint8_t *)r->data, r->bytes))
        return problem_set(r->problem, ERROR_UNSUPPORTED, "%s " SOUND_W64_FLOAT_ADVICE, r->name);
    struct sound_memory memory = {.data = r->data, .bytes = r->bytes};
    SF_INFO info = {0};
    SNDFILE *file = sound_open_memory(&memory, &info);
    if (file == NULL)
        return problem_set(r->problem, ERROR_FORMAT,
                           "%s is not a sound file that can be read (%s); write taps as WAV, .npy "
                           "or text",
                           r->name, sf_strerror(NULL));
    int error = 0;
    if (info.channels < 1 || info.frames < 1)
        error = problem_set(r->problem, ERROR_FORMAT, "%s holds no taps; give at least one frame",
                            r->name);
    if (error == 0)
        error = sets_create(r, (uint32_t)info.channels, (uint64_t)info.frames, false);
    if (error == 0)
        error = sound_read_frames(r, file, &info);
    for (uint32_t c = 0; error == 0 && c < r->count; c++)
        r->sets[c]->file_rate_hz = info.samplerate;
    sf_close(file);
    return error;
}

/* ---- .npy (NumPy enhancement proposal 1) ------------------------------------------------- */

struct npy_header {
    bool complex_values, big_endian, fortran_order;
    uint32_t value_bytes; /* 4 or 8: of one real number */
    uint32_t dimensions;
    uint64_t shape[2];
    uint64_t data_offset;
};

static int npy_error(const struct reading *r, const char *what)
{
    return problem_set(r->problem, ERROR_FORMAT,
                       "%s: %s; save it with numpy.save(file, taps.astype('float64')) in the shape "
                       "(taps) or (channels, taps)",
                       r->name, what);
}

static const char *skip_blanks(const char *at)
{
    while (*at == ' ' || *at == '\t' || *at == '\n')
        at++;
    return at;
}

/* The value after 'key': in the header's dictionary, or NULL. The header is terminated and flat, so
 * the first place where the quoted key stands is the key. */
static const char *npy_value(const char *header, const char *key)
{
    char quoted[32];
    for (const char *quote = "'\""; *quote != '\0'; quote++) {
        snprintf(quoted, sizeof quoted, "%c%s%c", *quote, key, *quote);
        const char *at = strstr(header, quoted);
        if (at == NULL)
            continue;
        at = skip_blanks(at + strlen(quoted));
        return *at == ':' ? skip_blanks(at + 1) : NULL;
    }
    return NULL;
}

static int npy_parse_type(const struct reading *r, const char *value, struct npy_header *header)
{
    static const struct {
        const char *code;
        bool complex_values;
        uint32_t value_bytes;
    } types[] = {{"f4", false, 4}, {"f8", false, 8}, {"c8", true, 4}, {"c16", true, 8}};
    if (value == NULL || (*value != '\'' && *value != '"'))
        return npy_error(r, "its header names no simple data type");
    char quote = *value++;
    if (*value != '<' && *value != '>' && *value != '=')
        return npy_error(r, "its data type is not float32, float64, complex64 or complex128");
    header->big_endian = *value == '>' || (*value == '=' && BYTE_ORDER == BIG_ENDIAN);
    value++;
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        size_t length = strlen(types[i].code);
        if (strncmp(value, types[i].code, length) != 0 || value[length] != quote)
            continue;
        header->complex_values = types[i].complex_values;
        header->value_bytes = types[i].value_bytes;
        return 0;
    }
    return npy_error(r, "its data type is not float32, float64, complex64 or complex128");
}

static int npy_parse_shape(const struct reading *r, const char *value, struct npy_header *header)
{
    if (value == NULL || *value != '(')
        return npy_error(r, "its header has no shape");
    value = skip_blanks(value + 1);
    while (*value != ')') {
        if (!isdigit((unsigned char)*value))
            return npy_error(r, "the shape in its header cannot be read");
        if (header->dimensions == 2)
            return npy_error(r, "it has more than two dimensions");
        uint64_t extent = 0;
        for (; isdigit((unsigned char)*value); value++) {
            extent = 10 * extent + (uint64_t)(*value - '0');
            if (extent > UINT32_MAX)
                return npy_error(r, "it is larger than any filter");
        }
        header->shape[header->dimensions++] = extent;
        value = skip_blanks(value);
        if (*value == ',')
            value = skip_blanks(value + 1);
    }
    if (header->dimensions == 0)
        return npy_error(r, "it is a single number, not an array");
    return 0;
}

static int npy_parse_header(const struct reading *r, struct npy_header *header)
{
    if (r->bytes < 10)
        return npy_error(r, "it ends inside its header");
    uint32_t major = r->data[6];
    if (major < 1 || major > 3)
        return npy_error(r, "its version is unknown (1, 2 and 3 are known)");
    uint64_t start = major == 1 ? 10 : 12;
    if (r->bytes < start)
        return npy_error(r, "it ends inside its header");
    uint32_t length = r->data[8] | (uint32_t)r->data[9] << 8;
    if (major > 1)
        length |= (uint32_t)r->data[10] << 16 | (uint32_t)r->data[11] << 24;
    if (length > NPY_HEADER_MAX || length > r->bytes - start)
        return npy_error(r, "it ends inside its header");

    char text[NPY_HEADER_MAX + 1];
    memcpy(text, r->data + start, length);
    text[length] = '\0';
    header->data_offset = start + length;
    const char *order = npy_value(text, "fortran_order");
    if (order == NULL || (strncmp(order, "True", 4) != 0 && strncmp(order, "False", 5) != 0))
        return npy_error(r, "its header has no fortran_order");
    header->fortran_order = order[0] == 'T';
    int error = npy_parse_type(r, npy_value(text, "descr"), header);
    return error != 0 ? error : npy_parse_shape(r, npy_value(text, "shape"), header);
}

static double npy_number(const uint8_t *at, const struct npy_header *header)
{
    if (header->value_bytes == 4) {
        uint32_t bits;
        float value;
        memcpy(&bits, at, sizeof bits);
        bits = header->big_endian ? be32toh(bits) : le32toh(bits);
        memcpy(&value, &bits, sizeof value);
        return (double)value;
    }
    uint64_t bits;
    double value;
    memcpy(&bits, at, sizeof bits);
    bits = header->big_endian ? be64toh(bits) : le64toh(bits);
    memcpy(&value, &bits, sizeof value);
    return value;
}

static int npy_load(struct reading *r)
{
    struct npy_header header = {0};
    int error = npy_parse_header(r, &header);
    if (error != 0)
        return error;
    uint64_t sets = header.dimensions == 2 ? header.shape[0] : 1;
    uint64_t count = header.shape[header.dimensions - 1];
    if (sets > SETS_MAX)
        return problem_set(r->problem, ERROR_LIMIT,
                           "%s has the shape (%llu, %llu): %llu channels; the shape is (channels, "
                           "taps), save its transpose",
                           r->name, (unsigned long long)sets, (unsigned long long)count,
                           (unsigned long long)sets);
    uint32_t tap_bytes = header.value_bytes * (header.complex_values ? 2 : 1);
    if (r->bytes - header.data_offset != sets * count * tap_bytes)
        return problem_set(r->problem, ERROR_FORMAT,
                           "%s holds %llu bytes of taps where its header promises %llu; save it "
                           "again",
                           r->name, (unsigned long long)(r->bytes - header.data_offset),
                           (unsigned long long)(sets * count * tap_bytes));
    error = sets_create(r, (uint32_t)sets, count, header.complex_values);
    if (error != 0)
        return error;
    for (uint32_t set = 0; set < r->count; set++) {
        for (uint32_t n = 0; n < r->sets[set]->count; n++) {
            uint64_t index = header.fortran_order ? n * sets + set : set * count + n;
            const uint8_t *at = r->data + header.data_offset + index * tap_bytes;
            r->sets[set]->re[n] = npy_number(at, &header);
            if (header.complex_values)
                r->sets[set]->im[n] = npy_number(at + header.value_bytes, &header);
        }
    }
    return 0;
}

/* ---- text -------------------------------------------------------------------------------- */

/* One line's numbers. */
struct text_line {
    int numbers; /* 0: blank or comment */
    double value[2];
};

static int text_error(const struct reading *r, uint64_t line, const char *what)
{
    return problem_set(r->problem, ERROR_FORMAT,
                       "%s:%llu: %s; write one tap a line, `re` or `re im`, with '#' before "
                       "comments",
                       r->name, (unsigned long long)line, what);
}

static int text_parse_line(const struct reading *r, const uint8_t *at, size_t length,
                           uint64_t number, struct text_line *line)
{
    line->numbers = 0;
    const uint8_t *comment = memchr(at, '#', length);
    if (comment != NULL)
        length = (size_t)(comment - at);
    while (length > 0 &&
           (at[length - 1] == ' ' || at[length - 1] == '\t' || at[length - 1] == '\r'))
        length--;
    if (length >= TEXT_LINE_MAX)
        return text_error(r, number, "the line is too long for a tap");
    if (memchr(at, '\0', length) != NULL)
        return text_error(r, number, "this is not text");
    char text[TEXT_LINE_MAX];
    memcpy(text, at, length);
    text[length] = '\0';

    const char *from = text;
    for (;;) {
        from += strspn(from, " \t");
        if (line->numbers == 1 && *from == ',')
            from += 1 + strspn(from + 1, " \t");
        if (*from == '\0')
            return 0;
        if (line->numbers == 2)
            return text_error(r, number, "there are more than two numbers");
        char *end;
        double value = strtod(from, &end);
        if (end == from || (*end != '\0' && strchr(" \t,", *end) == NULL))
            return text_error(r, number, "this is not a number");
        if (!isfinite(value))
            return text_error(r, number, "the tap is not a finite number");
        line->value[line->numbers++] = value;
        from = end;
    }
}

/* Walks the lines twice: first to count and prove (sets still NULL), then to store. */
static int text_walk(struct reading *r, uint64_t *taps, int *numbers)
{
    uint64_t line_number = 0, count = 0;
    bool store = r->sets != NULL;
    const uint8_t *at = r->data, *end = r->data + r->bytes;
    if (r->bytes >= 3 && memcmp(at, "\xef\xbb\xbf", 3) == 0)
        at += 3; /* the byte order mark some editors write */
    while (at < end) {
        const uint8_t *newline = memchr(at, '\n', (size_t)(end - at));
        size_t length = (size_t)((newline == NULL ? end : newline) - at);
        struct text_line line;
        int error = text_parse_line(r, at, length, ++line_number, &line);
        if (error != 0)
            return error;
        at = newline == NULL ? end : newline + 1;
        if (line.numbers == 0)
            continue;
        if (*numbers == 0)
            *numbers = line.numbers;
        if (line.numbers != *numbers)
            return text_error(r, line_number,
                              "some lines have one number and some two (real or complex taps?)");
        if (store) {
            r->sets[0]->re[count] = line.value[0];
            if (line.numbers == 2)
                r->sets[0]->im[count] = line.value[1];
        }
        count++;
    }
    *taps = count;
    return 0;
}

static int text_load(struct reading *r)
{
    uint64_t taps = 0;
    int numbers = 0;
    int error = text_walk(r, &taps, &numbers);
    if (error == 0)
        error = sets_create(r, 1, taps, numbers == 2);
    return error != 0 ? error : text_walk(r, &taps, &numbers);
}

/* ---- which ------------------------------------------------------------------------------- */

struct file_type {
    const char *suffix, *magic;
    int (*load)(struct reading *r);
};

static const struct file_type file_types[] = {
    {".wav", "RIFF", sound_load}, {".wav", "RIFX", sound_load},  {".rf64", "RF64", sound_load},
    {".w64", "riff", sound_load}, {".flac", "fLaC", sound_load}, {".npy", "\x93NUMPY", npy_load},
};

static bool ends_with(const char *name, const char *suffix)
{
    size_t length = strlen(name), tail = strlen(suffix);
    return length >= tail && strcasecmp(name + length - tail, suffix) == 0;
}

static int dispatch(struct reading *r)
{
    for (size_t i = 0; i < sizeof file_types / sizeof file_types[0]; i++) {
        size_t length = strlen(file_types[i].magic);
        if (r->bytes >= length && memcmp(r->data, file_types[i].magic, length) == 0)
            return file_types[i].load(r);
    }
    for (size_t i = 0; i < sizeof file_types / sizeof file_types[0]; i++)
        if (ends_with(r->name, file_types[i].suffix))
            return problem_set(r->problem, ERROR_FORMAT,
                               "%s does not begin like a %s file; write it again, or name text "
                               "taps .txt",
                               r->name, file_types[i].suffix);
    return text_load(r);
}

static void hash_file(const struct reading *r)
{
    struct sha256_ctx hash;
    char hex[DIGEST_TEXT];
    sha256_init(&hash);
    sha256_update(&hash, r->bytes, r->data);
    digest_finish(&hash, hex);
    for (uint32_t i = 0; i < r->count; i++)
        memcpy(r->sets[i]->hash, hex, sizeof hex);
}

int taps_load_memory(const char *name, const void *data, uint64_t bytes, struct taps ***sets,
                     uint32_t *count, struct problem *problem)
{
    *sets = NULL;
    *count = 0;
    if (bytes == 0)
        return problem_set(problem, ERROR_FORMAT, "%s is empty; give at least one tap", name);
    if (bytes > FILE_BYTES_MAX)
        return problem_set(problem, ERROR_LIMIT, "%s has %llu bytes; taps files have at most %d",
                           name, (unsigned long long)bytes, FILE_BYTES_MAX);
    struct reading r = {.name = name, .data = data, .bytes = bytes, .problem = problem};
    int error = dispatch(&r);
    if (error == 0)
        error = sets_check_finite(&r);
    if (error == 0)
        error = sets_check_size(&r);
    if (error != 0) {
        taps_sets_free(r.sets, r.count);
        return error;
    }
    hash_file(&r);
    *sets = r.sets;
    *count = r.count;
    return 0;
}

static int read_whole(int fd, uint8_t *data, uint64_t bytes)
{
    uint64_t done = 0;
    while (done < bytes) {
        ssize_t got = read(fd, data + done, bytes - done);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return ERROR_SYSTEM;
        done += (uint64_t)got;
    }
    return 0;
}

int taps_load(const char *path, struct taps ***sets, uint32_t *count, struct problem *problem)
{
    *sets = NULL;
    *count = 0;
    uint8_t *data = NULL;
    int error = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* never hang on a FIFO */
    struct stat status;
    if (fd < 0 || fstat(fd, &status) != 0) {
        error = problem_set(problem, ERROR_NO_FILE,
                            "cannot read the taps file %s: %s; check the path and its permissions",
                            path, strerror(errno));
        goto done;
    }
    if (!S_ISREG(status.st_mode)) {
        error =
            problem_set(problem, ERROR_NO_FILE, "%s is not a regular file; name a taps file", path);
        goto done;
    }
    if (status.st_size > FILE_BYTES_MAX) {
        error = problem_set(problem, ERROR_LIMIT, "%s has %lld bytes; taps files have at most %d",
                            path, (long long)status.st_size, FILE_BYTES_MAX);
        goto done;
    }
    data = malloc((size_t)status.st_size + 1);
    if (data == NULL) {
        error = problem_set(problem, ERROR_MEMORY, "no memory to read %s", path);
        goto done;
    }
    if (read_whole(fd, data, (uint64_t)status.st_size) != 0) {
        error = problem_set(problem, ERROR_SYSTEM, "%s could not be read to its end: %s", path,
                            strerror(errno));
        goto done;
    }
    error = taps_load_memory(path, data, (uint64_t)status.st_size, sets, count, problem);

done:
    free(data);
    if (fd >= 0)
        close(fd);
    return error;
}
