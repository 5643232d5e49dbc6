/* OSC on the wire: see osc.h. Pure functions, any thread. */
#include "wire/osc.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum { BUNDLE_HEADER_BYTES = 16, IMMEDIATELY = 1 };

static const char bundle_mark[8] = "#bundle";

const char *osc_fault_name(enum osc_fault fault)
{
    static const char *const names[] = {[OSC_OK] = "none",
#define X(name, text) [OSC_FAULT_##name] = text,
                                        OSC_FAULT_TABLE(X)
#undef X
    };
    return (unsigned)fault < OSC_FAULTS ? names[(unsigned)fault] : "?";
}

const char *osc_tolerated_name(enum osc_tolerated tolerated)
{
    static const char *const names[] = {
#define X(name, text) [OSC_TOLERATED_##name] = text,
        OSC_TOLERATED_TABLE(X)
#undef X
    };
    return (unsigned)tolerated < OSC_TOLERATED ? names[(unsigned)tolerated] : "?";
}

static uint32_t be32(const uint8_t *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static uint64_t be64(const uint8_t *at)
{
    return (uint64_t)be32(at) << 32 | be32(at + 4);
}

static size_t padded(size_t bytes)
{
    return (bytes + 3) & ~(size_t)3;
}

static bool zeros(const uint8_t *from, const uint8_t *until)
{
    for (; from < until; from++)
        if (*from != 0)
            return false;
    return true;
}

/* Bytes of an item with its padding, which may be cut off at the end. Notes padding that is not as
 * it should be. */
static size_t with_padding(const uint8_t *at, size_t bytes, size_t left, uint32_t *tolerated)
{
    const size_t whole = padded(bytes) < left ? padded(bytes) : left;
    if (whole < padded(bytes) || !zeros(at + bytes, at + whole))
        *tolerated |= 1u << OSC_TOLERATED_PADDING;
    return whole;
}

/* Bytes of a string with its end and its padding; 0: it does not end within `left`. */
static size_t string_bytes(const uint8_t *at, size_t left, uint32_t *tolerated)
{
    const uint8_t *end = memchr(at, 0, left);
    return end != NULL ? with_padding(at, (size_t)(end - at) + 1, left, tolerated) : 0;
}

/* ---- one message ------------------------------------------------------------------------- */

/* An address is printable, and its wildcards are few and closed. */
static enum osc_fault check_address(const char *address)
{
    if (address[0] != '/')
        return OSC_FAULT_ADDRESS;
    unsigned wildcards = 0;
    char open = 0;
    for (const char *at = address; *at != '\0'; at++) {
        if (*at < 0x21 || *at > 0x7e || *at == '#')
            return OSC_FAULT_ADDRESS;
        bool opens = *at == '[' || *at == '{';
        bool closes = *at == ']' || *at == '}';
        if ((opens || *at == '/') && open != 0)
            return OSC_FAULT_PATTERN;
        if (closes && *at != open)
            return OSC_FAULT_PATTERN;
        wildcards += opens || *at == '*' || *at == '?';
        if (opens)
            open = *at == '[' ? ']' : '}';
        else if (closes)
            open = 0;
    }
    return open != 0 || wildcards > OSC_WILDCARDS_MAX ? OSC_FAULT_PATTERN : OSC_OK;
}

/* Bytes of an argument of this type at `at`, 0 for those that have none; SIZE_MAX: it does not fit,
 * or (fault set) is wrong. */
static size_t argument_bytes(char type, const uint8_t *at, size_t left, enum osc_fault *fault,
                             uint32_t *tolerated)
{
    size_t bytes;
    switch (type) {
    case 'T':
    case 'F':
    case 'N':
    case 'I':
        return 0;
    case 'i':
    case 'f':
    case 'c':
    case 'm':
        return left >= 4 ? 4 : SIZE_MAX;
    case 'h':
    case 't':
    case 'd':
        return left >= 8 ? 8 : SIZE_MAX;
    case 's':
    case 'S':
        bytes = left > 0 ? string_bytes(at, left, tolerated) : 0;
        return bytes > 0 ? bytes : SIZE_MAX;
    case 'b':
        if (left < 4 || be32(at) > left - 4)
            return SIZE_MAX;
        return 4 + with_padding(at + 4, be32(at), left - 4, tolerated);
    default:
        *fault = OSC_FAULT_TYPES;
        return SIZE_MAX;
    }
}

static enum osc_fault check_arguments(struct osc_message *message, size_t left)
{
    const uint8_t *at = message->arguments;
    for (uint32_t i = 0; i < message->count; i++) {
        enum osc_fault fault = OSC_OK;
        size_t bytes = argument_bytes(message->types[i], at, left, &fault, &message->tolerated);
        if (fault != OSC_OK)
            return fault;
        if (bytes == SIZE_MAX)
            return OSC_FAULT_ARGUMENTS;
        at += bytes;
        left -= bytes;
    }
    if (left > 0)
        message->tolerated |= 1u << OSC_TOLERATED_SURPLUS;
    return OSC_OK;
}

/* A message without type tags, whose arguments fill it to its end. */
static enum osc_fault read_untagged(struct osc_message *message, size_t left,
                                    const char *(*signature)(const char *address))
{
    const char *types = left == 0 ? "" : signature != NULL ? signature(message->address) : NULL;
    if (types == NULL)
        return OSC_FAULT_UNTAGGED;
    message->types = types;
    message->count = (uint32_t)strlen(types);
    message->arguments = message->data + message->bytes - left;
    const enum osc_fault fault = check_arguments(message, left);
    if (fault != OSC_OK || message->tolerated & 1u << OSC_TOLERATED_SURPLUS)
        return OSC_FAULT_UNTAGGED;
    message->tolerated |= 1u << OSC_TOLERATED_UNTAGGED;
    return OSC_OK;
}

static enum osc_fault read_message(const uint8_t *data, size_t bytes,
                                   const char *(*signature)(const char *address),
                                   struct osc_message *message)
{
    enum osc_fault fault;
    *message = (struct osc_message){.data = data, .bytes = bytes, .address = (const char *)data};
    size_t address = string_bytes(data, bytes, &message->tolerated);
    if (address == 0 || address > padded(OSC_ADDRESS_MAX + 1))
        return OSC_FAULT_ADDRESS;
    if ((fault = check_address(message->address)) != OSC_OK)
        return fault;
    size_t left = bytes - address;
    const uint8_t *types = data + address;
    if (left == 0 || types[0] != ',')
        return read_untagged(message, left, signature);
    size_t types_bytes = string_bytes(types, left, &message->tolerated);
    if (types_bytes == 0)
        return OSC_FAULT_TYPES;
    message->types = (const char *)types + 1;
    message->count = (uint32_t)strlen(message->types);
    message->arguments = types + types_bytes;
    return check_arguments(message, left - types_bytes);
}

/* ---- bundles ----------------------------------------------------------------------------- */

struct walk {
    const char *(*signature)(const char *address);
    struct osc_counts *counts;                                       /* NULL: not counted */
    void (*visit)(void *context, const struct osc_message *message); /* NULL: proven only */
    void *context;
};

static bool is_bundle(const uint8_t *data, size_t bytes)
{
    return bytes >= sizeof bundle_mark && memcmp(data, bundle_mark, sizeof bundle_mark) == 0;
}

/* Recursion is OSC_DEPTH_MAX deep at most. */
static enum osc_fault walk_element(const struct walk *walk, const uint8_t *data, size_t bytes,
                                   uint64_t time_tag, unsigned depth)
{
    if (!is_bundle(data, bytes)) {
        struct osc_message message;
        enum osc_fault fault = read_message(data, bytes, walk->signature, &message);
        if (fault != OSC_OK)
            return fault;
        message.time_tag = time_tag;
        if (walk->counts != NULL) {
            walk->counts->messages++;
            for (int i = 0; i < OSC_TOLERATED; i++)
                walk->counts->tolerated[i] += message.tolerated >> i & 1;
        }
        if (walk->visit != NULL)
            walk->visit(walk->context, &message);
        return OSC_OK;
    }
    if (depth == OSC_DEPTH_MAX)
        return OSC_FAULT_DEPTH;
    if (bytes < BUNDLE_HEADER_BYTES)
        return OSC_FAULT_BUNDLE;
    uint64_t tag = be64(data + sizeof bundle_mark);
    if (walk->counts != NULL) {
        walk->counts->bundles++;
        walk->counts->dated += tag != IMMEDIATELY;
        if (depth >= walk->counts->depth)
            walk->counts->depth = depth + 1;
    }
    for (size_t at = BUNDLE_HEADER_BYTES; at < bytes;) {
        size_t left = bytes - at;
        if (left < 4)
            return OSC_FAULT_BUNDLE;
        size_t element = be32(data + at);
        if (element == 0 || element % 4 != 0 || element > left - 4)
            return OSC_FAULT_BUNDLE;
        enum osc_fault fault = walk_element(walk, data + at + 4, element, tag, depth + 1);
        if (fault != OSC_OK)
            return fault;
        at += 4 + element;
    }
    return OSC_OK;
}

enum osc_fault osc_walk(const uint8_t *data, size_t bytes, struct osc_counts *counts,
                        void (*visit)(void *context, const struct osc_message *message),
                        void *context)
{
    return osc_walk_untagged(data, bytes, counts, NULL, visit, context);
}

enum osc_fault osc_walk_untagged(const uint8_t *data, size_t bytes, struct osc_counts *counts,
                                 const char *(*signature)(const char *address),
                                 void (*visit)(void *context, const struct osc_message *message),
                                 void *context)
{
    const struct walk proof = {.signature = signature};
    const struct walk real = {
        .signature = signature, .counts = counts, .visit = visit, .context = context};
    enum osc_fault fault = OSC_FAULT_SIZE;
    if (bytes > 0 && bytes <= OSC_PACKET_MAX)
        fault = walk_element(&proof, data, bytes, IMMEDIATELY, 0);
    if (counts != NULL) {
        counts->packets++;
        counts->faults[fault]++;
    }
    if (fault == OSC_OK)
        walk_element(&real, data, bytes, IMMEDIATELY, 0);
    return fault;
}

/* ---- arguments --------------------------------------------------------------------------- */

char osc_peek(const struct osc_reader *reader)
{
    return reader->index < reader->message->count ? reader->message->types[reader->index] : '\0';
}

static size_t left_of(const struct osc_reader *reader)
{
    return (size_t)(reader->message->data + reader->message->bytes - reader->at);
}

void osc_skip(struct osc_reader *reader)
{
    enum osc_fault fault = OSC_OK;
    char type = osc_peek(reader);
    if (type == '\0')
        return;
    uint32_t tolerated = 0;
    size_t bytes = argument_bytes(type, reader->at, left_of(reader), &fault, &tolerated);
    assert(bytes != SIZE_MAX); /* the walker has proven it */
    reader->at += bytes;
    reader->index++;
}

bool osc_read_string(struct osc_reader *reader, const char **text)
{
    char type = osc_peek(reader);
    if (type != 's' && type != 'S')
        return false;
    *text = (const char *)reader->at;
    osc_skip(reader);
    return true;
}

bool osc_read_blob(struct osc_reader *reader, const uint8_t **data, size_t *bytes)
{
    if (osc_peek(reader) != 'b')
        return false;
    *bytes = be32(reader->at);
    *data = reader->at + 4;
    osc_skip(reader);
    return true;
}

bool osc_read_number(struct osc_reader *reader, double *value)
{
    uint32_t word;
    uint64_t wide;
    float narrow;
    switch (osc_peek(reader)) {
    case 'i':
        *value = (int32_t)be32(reader->at);
        break;
    case 'f':
        word = be32(reader->at);
        memcpy(&narrow, &word, sizeof narrow);
        *value = narrow;
        break;
    case 'h':
        *value = (double)(int64_t)be64(reader->at);
        break;
    case 'd':
        wide = be64(reader->at);
        memcpy(value, &wide, sizeof *value);
        break;
    default:
        return false;
    }
    osc_skip(reader);
    return true;
}

bool osc_read_wide(struct osc_reader *reader, uint64_t *value)
{
    struct osc_reader at = *reader;
    double number;
    switch (osc_peek(reader)) {
    case 'h':
        *value = be64(reader->at);
        osc_skip(reader);
        return true;
    case 'i':
        osc_skip(&at);
        if (osc_peek(&at) != 'i')
            return false;
        *value = (uint64_t)be32(reader->at) << 32 | be32(at.at);
        osc_skip(&at);
        *reader = at;
        return true;
    case 'f':
    case 'd':
        if (!osc_read_number(&at, &number) || !(number >= 0 && number <= 0x1p53) ||
            number != floor(number))
            return false;
        *value = (uint64_t)number;
        *reader = at;
        return true;
    default:
        return false;
    }
}

/* ---- addresses --------------------------------------------------------------------------- */

/* One character against [abc], [a-z], [!a-z]; `end` is its bracket. */
static bool in_set(const char *set, const char *end, char character)
{
    bool negated = set < end && *set == '!', found = false;
    for (set += negated; set < end; set++) {
        if (end - set > 2 && set[1] == '-') {
            found = found || (character >= set[0] && character <= set[2]);
            set += 2;
        } else {
            found = found || character == *set;
        }
    }
    return found != negated;
}

/* At most OSC_WILDCARDS_MAX stars: at most quadratic in a part of 255 bytes. */
bool osc_part_matches(const char *pattern, size_t pattern_length, const char *name,
                      size_t name_length)
{
    const char *end = pattern + pattern_length, *name_end = name + name_length;
    for (; pattern < end; pattern++) {
        const char *close;
        switch (*pattern) {
        case '*':
            for (const char *rest = name; rest <= name_end; rest++)
                if (osc_part_matches(pattern + 1, (size_t)(end - pattern - 1), rest,
                                     (size_t)(name_end - rest)))
                    return true;
            return false;
        case '?':
            if (name == name_end)
                return false;
            name++;
            break;
        case '[':
            close = memchr(pattern, ']', (size_t)(end - pattern));
            if (close == NULL || name == name_end || !in_set(pattern + 1, close, *name))
                return false;
            name++;
            pattern = close;
            break;
        case '{':
            close = memchr(pattern, '}', (size_t)(end - pattern));
            if (close == NULL)
                return false;
            for (const char *word = pattern + 1; word <= close;) {
                const char *comma = memchr(word, ',', (size_t)(close - word));
                size_t length = (size_t)((comma != NULL ? comma : close) - word);
                if (length <= (size_t)(name_end - name) && memcmp(word, name, length) == 0 &&
                    osc_part_matches(close + 1, (size_t)(end - close - 1), name + length,
                                     (size_t)(name_end - name) - length))
                    return true;
                word += length + 1;
            }
            return false;
        default:
            if (name == name_end || *name != *pattern)
                return false;
            name++;
        }
    }
    return name == name_end;
}

int osc_address_parts(const char *address, struct osc_part *parts, int capacity)
{
    static const char root[] = "/convolvd";
    if (strncmp(address, root, sizeof root - 1) != 0)
        return -1;
    const char *at = address + sizeof root - 1;
    if (*at != '/' && *at != '\0')
        return -1;
    int count = 0;
    while (*at == '/') {
        size_t length = strcspn(++at, "/");
        if (count == capacity)
            return -1;
        parts[count++] = (struct osc_part){at, length};
        at += length;
    }
    return count;
}

/* ---- building ---------------------------------------------------------------------------- */

static uint8_t *take(struct osc_writer *writer, size_t bytes)
{
    if (writer->full || bytes > writer->capacity - writer->bytes) {
        writer->full = true;
        return NULL;
    }
    uint8_t *at = writer->data + writer->bytes;
    writer->bytes += bytes;
    return at;
}

void osc_put_int(struct osc_writer *writer, int32_t value)
{
    uint8_t *at = take(writer, 4);
    for (int i = 0; at != NULL && i < 4; i++)
        at[i] = (uint8_t)((uint32_t)value >> (24 - 8 * i));
}

void osc_put_float(struct osc_writer *writer, float value)
{
    int32_t word;
    memcpy(&word, &value, sizeof word);
    osc_put_int(writer, word);
}

void osc_put_string(struct osc_writer *writer, const char *text)
{
    size_t length = strlen(text), bytes = padded(length + 1);
    uint8_t *at = take(writer, bytes);
    if (at == NULL)
        return;
    memcpy(at, text, length);
    memset(at + length, 0, bytes - length);
}

void osc_begin(struct osc_writer *writer, const char *address, const char *types)
{
    writer->bytes = 0;
    writer->full = false;
    osc_put_string(writer, address);
    osc_put_string(writer, types);
}

void osc_put_wide(struct osc_writer *writer, uint64_t value)
{
    osc_put_int(writer, (int32_t)(uint32_t)(value >> 32));
    osc_put_int(writer, (int32_t)(uint32_t)value);
}

uint8_t *osc_put_blob(struct osc_writer *writer, size_t bytes)
{
    osc_put_int(writer, (int32_t)bytes);
    uint8_t *at = take(writer, padded(bytes));
    if (at != NULL)
        memset(at + bytes, 0, padded(bytes) - bytes);
    return at;
}
