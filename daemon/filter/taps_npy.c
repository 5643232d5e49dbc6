/*
 * Taps from .npy files (NumPy enhancement proposal 1, versions 1 to 3): float32, float64, complex64
 * and complex128 in either byte order, C or Fortran order, shape (taps) or (channels, taps).
 *
 * No state; worker threads.
 */
#include "filter/taps_reading.h"

#include <ctype.h>
#include <endian.h>
#include <stdio.h>
#include <string.h>

enum { NPY_HEADER_MAX = 4096 };

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

int reading_npy(struct reading *r)
{
    struct npy_header header = {0};
    int error = npy_parse_header(r, &header);
    if (error != 0)
        return error;
    uint64_t sets = header.dimensions == 2 ? header.shape[0] : 1;
    uint64_t count = header.shape[header.dimensions - 1];
    if (sets > TAPS_SETS_MAX)
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
    error = reading_create(r, (uint32_t)sets, count, header.complex_values);
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
