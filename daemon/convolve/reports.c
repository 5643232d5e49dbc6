/* Reports of a batch, see reports.h. */
#include "convolve/reports.h"

#include <math.h>
#include <string.h>

#include "convolve/plan/plan.h"

/* ---- where they lie ---------------------------------------------------------------------- */

static uint64_t rows_of(uint64_t bytes)
{
    return (bytes + sizeof(struct block_report) - 1) / sizeof(struct block_report);
}

struct reports_room reports_room(const struct plan *plan, uint32_t blocks)
{
    const uint64_t reports = (uint64_t)blocks * plan->info.inputs;
    const uint64_t counts = result_format_native(&plan->info.results)
                                ? 0
                                : (uint64_t)blocks * plan->info.outputs * sizeof(uint32_t);
    if (plan->packing == PACKS_NOTHING)
        return (struct reports_room){.copied = (uint64_t)blocks * plan->report_rows};
    return (struct reports_room){.copied = rows_of(reports * sizeof(uint64_t)),
                                 .full = reports + rows_of(counts)};
}

void reports_place(struct engine *engine, struct slot *slot, struct batch_item *item)
{
    const struct plan *plan = item->plan;
    const struct reports_room room = reports_room(plan, item->blocks);
    float *output = (float *)(void *)engine->device.output.host;
    struct block_report *full = (struct block_report *)(void *)(output + slot->full_offset);
    struct block_report *samples = (struct block_report *)(void *)(output + slot->samples_offset);
    full += slot->full_used;
    slot->full_used += room.full;
    slot->reports_used += room.copied;
    struct block_report *copied = samples - slot->reports_used;
    const bool packs = plan->packing != PACKS_NOTHING;
    item->reports = packs ? full : copied;
    item->packed = packs ? (const uint64_t *)(const void *)copied : NULL;
    item->saturated =
        item->blocks == 0 || result_format_native(&plan->info.results)
            ? NULL
            : (const uint32_t *)(const void *)(item->reports +
                                               (uint64_t)item->blocks * plan->info.inputs);
}

/* ---- packed ones ------------------------------------------------------------------------- */

static uint64_t count_of(const struct batch_item *item)
{
    return (uint64_t)item->blocks * item->plan->info.inputs;
}

bool reports_any_full(const struct batch_item *item)
{
    uint64_t all = 0;
    for (uint64_t i = 0; item->packed != NULL && i < count_of(item); i++)
        all |= item->packed[i];
    return (all & PACKED_FULL) != 0;
}

static float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* The field of `bits` bits, `above` the lowest. */
static uint32_t field(uint64_t word, uint32_t above, uint32_t bits)
{
    return (uint32_t)(word >> above) & ((1u << bits) - 1);
}

static int32_t signed_field(uint64_t word, uint32_t above, uint32_t bits)
{
    return (int32_t)(field(word, above, bits) << (32 - bits)) >> (32 - bits);
}

/* A number that can be 0: the float of so many bits from that of `least` on, which is 2^23. */
static float number(uint32_t bits, uint32_t least)
{
    return bits == 0 ? 0 : float_of(bits - PACKED_FIRST + least);
}

/* What the sums of a block are, of codes. */
struct sums {
    float sum, squares, peak;
};

static struct sums unpack_int16(uint64_t word)
{
    return (struct sums){
        .sum = (float)signed_field(word, 39, 24),
        .squares = number(field(word, 0, 24) << PACKED_INT16_DIGITS, PACKED_ONE),
        .peak = (float)field(word, 24, 15),
    };
}

static struct sums unpack_float(uint64_t word, uint32_t hop)
{
    const float peak = number(field(word, 0, 29), PACKED_LEAST);
    uint32_t bits;
    memcpy(&bits, &peak, sizeof bits);
    const float power = float_of(bits & 0x7f800000u);
    const float squares = float_of((field(word, 29, 17) << PACKED_FLOAT_DIGITS) + PACKED_ONE);
    return (struct sums){
        .sum = (float)signed_field(word, 46, 17) * (float)hop * 0x1p-15f * power,
        .squares = squares * power * power,
        .peak = peak,
    };
}

/* The sums in physical values, and unless the full report counts all else of a report. Fields are
 * written one by one: a struct that is copied whole takes five times as long. */
static void unpack(uint64_t word, struct sums codes, float scale, uint32_t hop,
                   struct block_report *report)
{
    if (word == PACKED_FULL)
        return;
    report->sum = codes.sum * scale;
    report->sum_squares = codes.squares * (scale * scale);
    report->peak = codes.peak * fabsf(scale);
    if (word & PACKED_FULL)
        return;
    report->overload = report->nonfinite = report->nonfinite_last = 0;
    report->nonfinite_first = UINT32_MAX;
    report->present = hop;
}

static void unpack_item(const struct batch_item *item)
{
    const struct plan *plan = item->plan;
    const struct row *rows = plan->stages[0].rows; /* of each input, in their order */
    const uint32_t inputs = plan->info.inputs, hop = plan->hop;
    for (uint32_t block = 0; block < item->blocks; block++) {
        const uint64_t *words = item->packed + (uint64_t)block * inputs;
        struct block_report *reports = item->reports + (uint64_t)block * inputs;
        if (plan->packing == PACKS_INT16)
            for (uint32_t i = 0; i < inputs; i++)
                unpack(words[i], unpack_int16(words[i]), rows[i].scale, hop, &reports[i]);
        else
            for (uint32_t i = 0; i < inputs; i++)
                unpack(words[i], unpack_float(words[i], hop), rows[i].scale, hop, &reports[i]);
    }
}

/* Such plans have an output for each input. */
static void clear_counts(const struct batch_item *item)
{
    uint32_t *saturated = (uint32_t *)(uintptr_t)item->saturated;
    for (uint64_t i = 0; saturated != NULL && i < count_of(item); i++)
        saturated[i] = item->packed[i] & PACKED_FULL ? saturated[i] : 0;
}

void reports_unpack(const struct slot *slot)
{
    for (uint32_t i = 0; i < slot->batch.count; i++)
        if (slot->batch.items[i].packed != NULL) {
            unpack_item(&slot->batch.items[i]);
            clear_counts(&slot->batch.items[i]);
        }
}
