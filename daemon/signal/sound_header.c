/* Sound headers: see sound_header.h. */
#include "signal/sound_header.h"

#include <math.h>
#include <string.h>

/* A header with more chunks than this is not walked to its end. */
enum { CHUNKS_MAX = 4096 };

const char *sound_container_name(enum sound_container container)
{
    static const char *const names[] = {
        [SOUND_OTHER] = "",    [SOUND_WAV] = "WAV", [SOUND_RF64] = "RF64", [SOUND_W64] = "W64",
        [SOUND_AIFF] = "AIFF", [SOUND_CAF] = "CAF", [SOUND_AU] = "AU",     [SOUND_FLAC] = "FLAC",
    };
    return names[container];
}

/* ---- bytes ------------------------------------------------------------------------------- */

struct walk {
    const struct sound_bytes *bytes;
    struct sound_header *header;
    bool big; /* endian */
};

static bool get(const struct walk *w, uint64_t at, void *to, size_t count)
{
    return at <= w->bytes->length && count <= w->bytes->length - at &&
           w->bytes->read(w->bytes->context, at, to, count);
}

static uint64_t number(const uint8_t *at, int count, bool big)
{
    uint64_t value = 0;
    for (int i = 0; i < count; i++)
        value = value << 8 | at[big ? i : count - 1 - i];
    return value;
}

/* The number at an offset; 0 past the end of the file. */
static uint64_t number_at(const struct walk *w, uint64_t at, int count)
{
    uint8_t text[8];
    return get(w, at, text, (size_t)count) ? number(text, count, w->big) : 0;
}

static struct sound_patch *patch(struct walk *w, uint64_t at)
{
    struct sound_patch *next = &w->header->patches[w->header->patch_count++];
    *next = (struct sound_patch){.at = at};
    return next;
}

static void patch_number(struct walk *w, uint64_t at, uint64_t value, int count)
{
    struct sound_patch *p = patch(w, at);
    p->bytes = (uint32_t)count;
    for (int i = 0; i < count; i++)
        p->value[w->big ? count - 1 - i : i] = (uint8_t)(value >> (8 * i));
}

static void patch_text(struct walk *w, uint64_t at, const char *text)
{
    struct sound_patch *p = patch(w, at);
    p->bytes = (uint32_t)strlen(text);
    memcpy(p->value, text, p->bytes);
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* ---- chunks ------------------------------------------------------------------------------ */

/* Both shapes of chunk: {name, size} and, in W64, {GUID, size with these 24 bytes}. */
struct chunk_rule {
    uint32_t name_bytes, size_bytes, align;
    bool size_includes_head;
};

static const struct chunk_rule riff_rule = {4, 4, 2, false};
static const struct chunk_rule w64_rule = {16, 8, 8, true};
static const struct chunk_rule caf_rule = {4, 8, 1, false};

struct chunk {
    char name[5];
    uint64_t at, body, size; /* of the name, of what follows the size field, of the body */
};

static uint32_t head_bytes(const struct chunk_rule *rule)
{
    return rule->name_bytes + rule->size_bytes;
}

static bool read_chunk(const struct walk *w, const struct chunk_rule *rule, uint64_t at,
                       struct chunk *chunk)
{
    uint8_t head[24];
    if (!get(w, at, head, head_bytes(rule)))
        return false;
    *chunk = (struct chunk){.at = at, .body = at + head_bytes(rule)};
    memcpy(chunk->name, head, 4);
    chunk->size = number(head + rule->name_bytes, (int)rule->size_bytes, w->big);
    if (rule->size_includes_head)
        chunk->size = chunk->size > head_bytes(rule) ? chunk->size - head_bytes(rule) : 0;
    return true;
}

/* Offset behind the chunk; UINT64_MAX: past what any file has. */
static uint64_t behind(const struct chunk_rule *rule, const struct chunk *chunk)
{
    uint64_t end;
    if (__builtin_add_overflow(chunk->body, chunk->size, &end) || end > INT64_MAX)
        return UINT64_MAX;
    return (end + rule->align - 1) / rule->align * rule->align;
}

static bool is_name(const struct chunk *chunk, const char *name)
{
    return strncmp(chunk->name, name, 4) == 0;
}

/* Names of chunks that writers put behind the samples, and of tags that belong to no chunk. */
static bool is_known_name(const char *name)
{
    static const char *const known[] = {
        "LIST", "list", "id3 ", "ID3 ", "bext", "cue ", "smpl",  "fact", "JUNK", "junk", "PAD ",
        "iXML", "axml", "chna", "PEAK", "afsp", "DISP", "inst",  "plst", "cart", "_PMX", "minf",
        "elm1", "regn", "umid", "levl", "MARK", "INST", "COMT",  "APPL", "NAME", "AUTH", "(c) ",
        "ANNO", "SAUR", "AESD", "MIDI", "FVER", "free", "info",  "strg", "mark", "uuid", "peak",
        "summ", "TAG",  "ID3",  "APET", "data", "SSND", "marker"};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strncmp(name, known[i], strlen(known[i]) < 4 ? strlen(known[i]) : 4) == 0)
            return true;
    return false;
}

/* True when the bytes from `at` on are chunks or a tag, not samples that the header does not count.
 * Notes a second chunk of samples. */
static bool is_chunks(struct walk *w, const struct chunk_rule *rule, uint64_t at, const char *data)
{
    struct chunk chunk;
    bool first = true;
    for (int i = 0; i < CHUNKS_MAX && read_chunk(w, rule, at, &chunk); i++) {
        if (!is_known_name(chunk.name))
            return !first;
        w->header->two_data_chunks |= is_name(&chunk, data) && chunk.size > 0;
        first = false;
        at = behind(rule, &chunk);
    }
    return !first;
}

/* The header's claim about its samples: `size` bytes from data_at on. */
struct claim {
    uint64_t size;
    bool open;          /* the header leaves the length open */
    uint64_t announced; /* frames, where another field says so; UINT64_MAX: none does */
};

/* Compares the claim with the file. */
static void compare(struct walk *w, const struct chunk_rule *rule, const struct claim *claim,
                    const char *data)
{
    struct sound_header *h = w->header;
    const uint64_t there = w->bytes->length > h->data_at ? w->bytes->length - h->data_at : 0;
    if (h->frame_bytes == 0)
        return;
    h->announced = claim->size / h->frame_bytes;
    if (claim->announced != UINT64_MAX && claim->announced > h->announced)
        h->announced = claim->announced;
    h->held = there / h->frame_bytes;
    if (claim->open) {
        h->length = SOUND_LENGTH_UNKNOWN;
        h->announced = 0;
        return;
    }
    if (h->announced > h->held) {
        h->length = SOUND_LENGTH_SHORT;
        return;
    }
    const struct chunk chunk = {.body = h->data_at, .size = claim->size};
    const uint64_t end = h->data_at + claim->size, padded = behind(rule, &chunk);
    const bool more = w->bytes->length - end >= h->frame_bytes && padded < w->bytes->length;
    if (more && !is_chunks(w, rule, padded, data) && !is_chunks(w, rule, end, data)) {
        h->length = SOUND_LENGTH_UNFINISHED;
        return;
    }
    h->length = SOUND_LENGTH_WHOLE;
    h->held = claim->size / h->frame_bytes;
}

static bool needs_patches(const struct walk *w)
{
    return w->header->length == SOUND_LENGTH_SHORT || w->header->length == SOUND_LENGTH_UNFINISHED;
}

/* ---- WAV, RF64 --------------------------------------------------------------------------- */

/* Sizes that writers leave in the header of a WAV that they cannot seek back to. */
static bool is_open_size(uint64_t size)
{
    static const uint64_t marks[] = {0xFFFFFFFF, 0x80000000, 0x7FFFFFFF, 0x7FFFF000};
    enum { ROUNDED = 128 }; /* down to whole frames, or less by the header */
    for (size_t i = 0; i < sizeof marks / sizeof marks[0]; i++)
        if (size <= marks[i] && marks[i] - size < ROUNDED)
            return true;
    return false;
}

struct riff {
    uint64_t ds64_at, spare_at; /* bodies of a ds64 and of a JUNK chunk in its place; 0: none */
    uint64_t fact_at;           /* its number of frames; 0: none */
    uint64_t data_at;           /* the name of the chunk */
};

/* The bytes of a frame, if a header's own figure is that of its channels and bits; else 0. */
static uint32_t agreed_frame_bytes(const struct sound_header *h, uint64_t stated)
{
    return stated > 0 && stated == (uint64_t)h->channels * ((h->bits + 7) / 8) ? (uint32_t)stated
                                                                               : 0;
}

static void read_riff_format(struct walk *w, uint64_t at)
{
    struct sound_header *h = w->header;
    const uint64_t tag = number_at(w, at, 2), block = number_at(w, at + 12, 2);
    h->channels = (uint32_t)number_at(w, at + 2, 2);
    h->rate_hz = number_at(w, at + 4, 4);
    h->bits = (uint32_t)number_at(w, at + 14, 2);
    const bool plain = tag == 1 || tag == 3 || tag == 0xFFFE;
    h->floats = tag == 3 || (tag == 0xFFFE && number_at(w, at + 24, 2) == 3);
    /* libsndfile goes by the bits where the two fields differ, so its length counts then. */
    h->frame_bytes = plain ? agreed_frame_bytes(h, block) : 0;
}

static void patch_riff(struct walk *w, const struct riff *riff)
{
    enum { NAME_RIFF = 0, SIZE_RIFF = 4, DS64_BYTES = 28 };
    struct sound_header *h = w->header;
    const uint64_t data = h->held * h->frame_bytes;
    const uint64_t whole = h->data_at + data + (data & 1) - 8;
    const bool large = whole > UINT32_MAX || h->container == SOUND_RF64;
    if (!large) {
        patch_number(w, SIZE_RIFF, whole, 4);
        patch_number(w, riff->data_at + 4, data, 4);
    } else if (riff->ds64_at == 0 && riff->spare_at == 0) {
        h->unpatchable = true;
        return;
    } else {
        const uint64_t at = riff->ds64_at > 0 ? riff->ds64_at : riff->spare_at;
        patch_text(w, NAME_RIFF, "RF64");
        patch_number(w, SIZE_RIFF, UINT32_MAX, 4);
        patch_text(w, at - 8, "ds64");
        patch_number(w, at, whole, 8);
        patch_number(w, at + 8, data, 8);
        patch_number(w, at + 16, h->held, 8);
        patch_number(w, riff->data_at + 4, UINT32_MAX, 4);
    }
    if (riff->fact_at > 0)
        patch_number(w, riff->fact_at, large ? UINT32_MAX : h->held, 4);
}

static void read_riff(struct walk *w)
{
    enum { FIRST = 12, DS64_BYTES = 28 };
    struct sound_header *h = w->header;
    struct riff riff = {0};
    struct claim claim = {.announced = UINT64_MAX};
    struct chunk chunk;
    uint64_t at = FIRST;
    for (int i = 0; i < CHUNKS_MAX && read_chunk(w, &riff_rule, at, &chunk); i++) {
        if (is_name(&chunk, "ds64") && chunk.size >= DS64_BYTES)
            riff.ds64_at = chunk.body;
        else if (is_name(&chunk, "JUNK") && chunk.size == DS64_BYTES && at == FIRST)
            riff.spare_at = chunk.body;
        else if (is_name(&chunk, "fmt "))
            read_riff_format(w, chunk.body);
        else if (is_name(&chunk, "fact") && chunk.size >= 4)
            riff.fact_at = chunk.body;
        else if (is_name(&chunk, "data"))
            riff.data_at = at;
        if (riff.data_at > 0)
            break;
        at = behind(&riff_rule, &chunk);
    }
    h->no_data = riff.data_at == 0;
    if (h->no_data)
        return;
    h->data_at = chunk.body;
    claim.size = chunk.size;
    if (riff.ds64_at > 0 && h->container == SOUND_RF64 && chunk.size == UINT32_MAX) {
        const uint64_t wide = number_at(w, riff.ds64_at + 8, 8);
        claim.size = wide > INT64_MAX ? 0 : wide;
    } else {
        claim.open = is_open_size(chunk.size) && h->data_at + chunk.size > w->bytes->length;
    }
    compare(w, &riff_rule, &claim, "data");
    if (needs_patches(w))
        patch_riff(w, &riff);
}

/* ---- W64 --------------------------------------------------------------------------------- */

static void read_w64(struct walk *w)
{
    enum { RIFF_SIZE = 16, FIRST = 40, SIZE_FIELD = 16 };
    struct sound_header *h = w->header;
    struct claim claim = {.announced = UINT64_MAX};
    struct chunk chunk;
    uint64_t at = FIRST, fact_at = 0;
    bool found = false;
    for (int i = 0; i < CHUNKS_MAX && !found && read_chunk(w, &w64_rule, at, &chunk); i++) {
        if (is_name(&chunk, "fmt "))
            read_riff_format(w, chunk.body);
        else if (is_name(&chunk, "fact") && chunk.size >= 8)
            fact_at = chunk.body;
        found = is_name(&chunk, "data");
        if (!found)
            at = behind(&w64_rule, &chunk);
    }
    h->no_data = !found;
    if (!found)
        return;
    h->data_at = chunk.body;
    claim.size = chunk.size;
    claim.open = chunk.size > INT64_MAX / 2;
    compare(w, &w64_rule, &claim, "data");
    if (!needs_patches(w))
        return;
    const uint64_t data = h->held * h->frame_bytes;
    patch_number(w, RIFF_SIZE, h->data_at + data, 8);
    patch_number(w, at + SIZE_FIELD, 24 + data, 8);
    if (fact_at > 0)
        patch_number(w, fact_at, h->held, 8);
}

/* ---- AIFF, CAF, AU ----------------------------------------------------------------------- */

/* An 80-bit float. */
static uint64_t extended(const uint8_t *at)
{
    const int exponent = (int)number(at, 2, true);
    const double value = ldexp((double)number(at + 2, 8, true), exponent - 16383 - 63);
    return exponent < 0x8000 && value < 0x1p62 ? (uint64_t)llround(value) : UINT64_MAX;
}

/* Bytes of a sample of AIFF-C; 0: compressed. */
static uint32_t aiff_sample_bytes(const struct walk *w, uint64_t common, uint32_t bits)
{
    static const char *const plain[] = {"NONE", "twos", "sowt", "raw ", "in24", "in32",
                                        "42ni", "23ni", "fl32", "FL32", "fl64", "FL64"};
    char name[5] = "";
    if (!get(w, common + 18, name, 4))
        return 0;
    for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++)
        if (strncmp(name, plain[i], 4) == 0)
            return (bits + 7) / 8;
    return 0;
}

static void read_aiff_common(struct walk *w, const struct chunk *chunk, bool compressed,
                             struct claim *claim)
{
    struct sound_header *h = w->header;
    uint8_t rate[10];
    h->channels = (uint32_t)number_at(w, chunk->body, 2);
    claim->announced = number_at(w, chunk->body + 2, 4);
    h->bits = (uint32_t)number_at(w, chunk->body + 6, 2);
    if (get(w, chunk->body + 8, rate, sizeof rate))
        h->rate_hz = extended(rate);
    const uint32_t sample =
        compressed ? aiff_sample_bytes(w, chunk->body, h->bits) : (h->bits + 7) / 8;
    h->frame_bytes = h->channels * sample;
    char kind[2] = "";
    h->floats = compressed && get(w, chunk->body + 18, kind, 2) &&
                (memcmp(kind, "fl", 2) == 0 || memcmp(kind, "FL", 2) == 0);
}

static void read_aiff(struct walk *w, bool compressed)
{
    enum { FORM_SIZE = 4, FIRST = 12, SSND_HEAD = 8 };
    struct sound_header *h = w->header;
    struct claim claim = {.announced = UINT64_MAX};
    struct chunk chunk;
    uint64_t at = FIRST, common_at = 0, data_at = 0, offset = 0;
    w->big = true;
    for (int i = 0; i < CHUNKS_MAX && read_chunk(w, &riff_rule, at, &chunk); i++) {
        if (is_name(&chunk, "COMM")) {
            common_at = chunk.body;
            read_aiff_common(w, &chunk, compressed, &claim);
        } else if (is_name(&chunk, "SSND") && data_at == 0) {
            data_at = at;
            offset = number_at(w, chunk.body, 4);
            h->data_at = chunk.body + SSND_HEAD + offset;
            claim.size = chunk.size > SSND_HEAD + offset ? chunk.size - SSND_HEAD - offset : 0;
        }
        at = behind(&riff_rule, &chunk);
    }
    h->no_data = data_at == 0;
    if (h->no_data || common_at == 0)
        return;
    if (claim.announced == 0 && claim.size == 0)
        claim.announced = UINT64_MAX;
    compare(w, &riff_rule, &claim, "SSND");
    if (!needs_patches(w))
        return;
    const uint64_t data = h->held * h->frame_bytes, end = h->data_at + data + (data & 1);
    h->unpatchable = end - FORM_SIZE - 4 > UINT32_MAX;
    if (h->unpatchable)
        return;
    patch_number(w, FORM_SIZE, end - FORM_SIZE - 4, 4);
    patch_number(w, common_at + 2, h->held, 4);
    patch_number(w, data_at + 4, SSND_HEAD + offset + data, 4);
}

static void read_caf(struct walk *w)
{
    enum { FIRST = 8, EDITS = 4 };
    struct sound_header *h = w->header;
    struct claim claim = {.announced = UINT64_MAX};
    struct chunk chunk;
    uint64_t at = FIRST;
    bool found = false;
    w->big = true;
    for (int i = 0; i < CHUNKS_MAX && !found && read_chunk(w, &caf_rule, at, &chunk); i++) {
        if (is_name(&chunk, "desc")) {
            const uint64_t rate = number_at(w, chunk.body, 8);
            double value;
            memcpy(&value, &rate, sizeof value);
            h->rate_hz = value >= 0 && value < 0x1p62 ? (uint64_t)llround(value) : UINT64_MAX;
            h->channels = (uint32_t)number_at(w, chunk.body + 24, 4);
            h->bits = (uint32_t)number_at(w, chunk.body + 28, 4);
            h->floats = number_at(w, chunk.body + 12, 4) & 1;
            if (number_at(w, chunk.body + 20, 4) == 1) /* frames of a packet */
                h->frame_bytes = agreed_frame_bytes(h, number_at(w, chunk.body + 16, 4));
        }
        found = is_name(&chunk, "data");
        if (!found)
            at = behind(&caf_rule, &chunk);
    }
    h->no_data = !found;
    if (!found)
        return;
    h->data_at = chunk.body + EDITS;
    claim.open = chunk.size > INT64_MAX; /* -1: up to the end of the file */
    claim.size = chunk.size > EDITS && !claim.open ? chunk.size - EDITS : 0;
    compare(w, &caf_rule, &claim, "data");
    if (needs_patches(w) || claim.open) /* libsndfile refuses -1 */
        patch_number(w, at + 4, EDITS + h->held * h->frame_bytes, 8);
}

static void read_au(struct walk *w, bool big)
{
    /* Bytes of a sample by encoding; 0: compressed. */
    static const uint8_t sample_bytes[] = {0, 0, 1, 2, 3, 4, 4, 8};
    struct sound_header *h = w->header;
    w->big = big;
    const uint64_t size = number_at(w, 8, 4), encoding = number_at(w, 12, 4);
    h->data_at = number_at(w, 4, 4);
    h->rate_hz = number_at(w, 16, 4);
    h->channels = (uint32_t)number_at(w, 20, 4);
    if (encoding < sizeof sample_bytes && h->channels <= 1024) {
        h->frame_bytes = h->channels * sample_bytes[encoding];
        h->bits = 8u * sample_bytes[encoding];
        h->floats = encoding >= 6;
    }
    const struct claim claim = {.size = size, .open = size == UINT32_MAX, .announced = UINT64_MAX};
    compare(w, &riff_rule, &claim, "data");
    if (needs_patches(w))
        patch_number(w, 8, least(h->held * h->frame_bytes, UINT32_MAX), 4);
}

/* ---- FLAC -------------------------------------------------------------------------------- */

/* Clears the total in STREAMINFO, so that libsndfile reads to the end of the file whatever it says;
 * the caller compares. */
static void read_flac(struct walk *w, uint64_t at)
{
    enum { PACKED = 18, PACKED_BYTES = 8 };
    struct sound_header *h = w->header;
    w->big = true;
    h->container = SOUND_FLAC;
    const uint64_t packed = number_at(w, at + PACKED, PACKED_BYTES);
    h->rate_hz = packed >> 44;
    h->channels = (uint32_t)(packed >> 41 & 7) + 1;
    h->bits = (uint32_t)(packed >> 36 & 31) + 1;
    h->announced = packed & 0xFFFFFFFFF;
    if (h->announced == 0)
        return;
    h->length = SOUND_LENGTH_WHOLE;
    h->held = h->announced;
    patch_number(w, at + PACKED, packed & ~UINT64_C(0xFFFFFFFFF), PACKED_BYTES);
}

/* The offset behind an ID3v2 tag. */
static uint64_t behind_id3(const uint8_t head[12])
{
    enum { TAG_HEAD = 10 };
    if (memcmp(head, "ID3", 3) != 0)
        return 0;
    return TAG_HEAD + ((uint64_t)(head[6] & 127) << 21 | (uint64_t)(head[7] & 127) << 14 |
                       (uint64_t)(head[8] & 127) << 7 | (uint64_t)(head[9] & 127));
}

void sound_header_read(const struct sound_bytes *bytes, struct sound_header *header)
{
    struct walk w = {.bytes = bytes, .header = header};
    uint8_t head[12] = {0};
    *header = (struct sound_header){0};
    if (!get(&w, 0, head, sizeof head))
        return;
    uint64_t flac_at = behind_id3(head);
    uint8_t flac[4] = {0};
    if (get(&w, flac_at, flac, sizeof flac) && memcmp(flac, "fLaC", 4) == 0) {
        read_flac(&w, flac_at);
        return;
    }
    const bool wave = memcmp(head + 8, "WAVE", 4) == 0;
    if (wave && (memcmp(head, "RIFF", 4) == 0 || memcmp(head, "RIFX", 4) == 0)) {
        header->container = SOUND_WAV;
        w.big = head[3] == 'X';
        read_riff(&w);
    } else if (wave && (memcmp(head, "RF64", 4) == 0 || memcmp(head, "BW64", 4) == 0)) {
        header->container = SOUND_RF64;
        read_riff(&w);
    } else if (memcmp(head, "riff\x2E\x91\xCF\x11", 8) == 0) {
        header->container = SOUND_W64;
        read_w64(&w);
    } else if (memcmp(head, "FORM", 4) == 0 && memcmp(head + 8, "AIF", 3) == 0) {
        header->container = SOUND_AIFF;
        read_aiff(&w, head[11] == 'C');
    } else if (memcmp(head, "caff", 4) == 0) {
        header->container = SOUND_CAF;
        read_caf(&w);
    } else if (memcmp(head, ".snd", 4) == 0 || memcmp(head, "dns.", 4) == 0) {
        header->container = SOUND_AU;
        read_au(&w, head[0] == '.');
    }
}
