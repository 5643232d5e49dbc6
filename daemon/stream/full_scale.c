/* Full scale: see full_scale.h. */
#include "stream/full_scale.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "stream/ports.h"
#include "stream/presence.h"
#include "stream/state.h"

enum {
    SHARE = 19,
    OF = 20,         /* 95 % of full scale */
    MARKS = 512,     /* of one result, unless there are more channels … */
    MARKS_LEAST = 2, /* … of each channel */
    PENDING = 64,    /* inherited marks of one channel that are not delivered; a power of two */
};

/* What packets brought of one channel, oldest first; from and until are ring positions. */
struct inherited {
    struct input_saturation marks[PENDING];
    uint32_t first, next;
};

struct full_scale {
    /* immutable after open */
    uint32_t channels;
    uint32_t quota; /* marks of one channel in one result */
    struct sample_format format;
    float *gate; /* [channels]: a block with a smaller peak holds no such code; NULL: a chain */

    /* of one epoch, at the input's rate */
    uint64_t epoch, seen; /* input before `seen` has been looked at */
    uint64_t *until;      /* [channels]: results before it rest on such inputs seen so far */

    struct inherited *inherited; /* [channels] of a chain; else NULL */

    /* of the result under work */
    struct input_saturation *marks; /* [channels * quota] */
    uint32_t count, channel_first;  /* all, and those before the channel */
    uint64_t from, end;
};

/* ---- life -------------------------------------------------------------------------------- */

/* Peaks are single floats, with the offset taken off: a little less than exact. */
static float gate_of(const struct channel_scale *scale)
{
    const double factor = channel_scale_factor(scale);
    return (float)(factor * SHARE / OF * (1 - 1e-5) - fabs(scale->offset) * (1 + 1e-5));
}

int full_scale_open(uint32_t channels, const struct sample_format *format,
                    const struct channel_scale *scales, struct full_scale **out)
{
    struct full_scale *f = calloc(1, sizeof *f);
    if (f == NULL)
        return ERROR_MEMORY;
    f->channels = channels;
    f->quota = MARKS / channels > MARKS_LEAST ? MARKS / channels : MARKS_LEAST;
    f->format = *format;
    f->epoch = UINT64_MAX;
    f->until = calloc(channels, sizeof *f->until);
    f->marks = calloc((size_t)channels * f->quota, sizeof *f->marks);
    if (scales != NULL)
        f->gate = calloc(channels, sizeof *f->gate);
    else
        f->inherited = calloc(channels, sizeof *f->inherited);
    if (f->until == NULL || f->marks == NULL || (f->gate == NULL && f->inherited == NULL)) {
        full_scale_close(f);
        return ERROR_MEMORY;
    }
    for (uint32_t c = 0; scales != NULL && c < channels; c++)
        f->gate[c] = gate_of(&scales[c]);
    *out = f;
    return 0;
}

void full_scale_close(struct full_scale *f)
{
    if (f == NULL)
        return;
    free(f->gate);
    free(f->until);
    free(f->inherited);
    free(f->marks);
    free(f);
}

/* ---- marks of one result ----------------------------------------------------------------- */

/* Frames [from, until) of the results rest on an input of the channel. Those of a channel come in
 * order of `from`. */
static void add_mark(struct full_scale *f, uint32_t channel, uint64_t from, uint64_t until)
{
    if (until > f->until[channel])
        f->until[channel] = until;
    from = from > f->from ? from : f->from;
    until = until < f->end ? until : f->end;
    if (from >= until)
        return;
    struct input_saturation *last = f->count > f->channel_first ? &f->marks[f->count - 1] : NULL;
    if (last != NULL && (from <= last->until || f->count - f->channel_first == f->quota))
        last->until = until > last->until ? until : last->until;
    else
        f->marks[f->count++] = (struct input_saturation){from, until, channel};
}

/* Input frames [from, until) of the channel are such: the filter spreads them. */
static void add_input(struct stream *s, uint32_t channel, uint64_t from, uint64_t until)
{
    add_mark(s->full_scale, channel, from, until + s->taps_longest - 1);
}

/* ---- codes ------------------------------------------------------------------------------- */

/* A word as a code in the upper bits of 32, whatever its format. */
static inline int32_t code_of(struct sample_format format, uint32_t word)
{
    const unsigned spare = 32u - (format.left ? 8u * format.bytes : format.bits);
    const uint32_t kept = ~UINT32_C(0) << (32 - format.bits);
    return (int32_t)((word << spare & kept) ^
                     (format.kind == SAMPLE_UNSIGNED ? UINT32_C(1) << 31 : 0));
}

static inline bool is_near(struct sample_format format, const uint8_t *wire)
{
    uint32_t word = 0;
    for (unsigned i = 0; i < format.bytes; i++)
        word |= (uint32_t)wire[i] << 8 * (format.big_endian ? format.bytes - 1u - i : i);
    if (format.kind == SAMPLE_FLOAT) {
        float value;
        memcpy(&value, &word, sizeof value);
        return isfinite(value) && fabs((double)value) * OF >= SHARE;
    }
    /* The least code that is not below 95 %, as code_of has it. */
    const int64_t half = INT64_C(1) << (format.bits - 1);
    const int64_t least = (half * SHARE + OF - 1) / OF * (INT64_C(1) << (32 - format.bits));
    const int64_t code = code_of(format, word);
    return code >= least || code <= -least;
}

/* `frames` frames that lie in a row in the ring; `from` is the first one's number. */
static inline void read_codes(struct stream *s, struct sample_format format, uint32_t channel,
                              const uint8_t *bytes, uint64_t from, uint64_t frames)
{
    const uint32_t stride = s->ring->frame_bytes;
    for (uint64_t i = 0; i < frames; i++)
        if (is_near(format, bytes + i * stride))
            add_input(s, channel, from + i, from + i + 1);
}

/* With code of its own for the commonest formats. */
static void read_run(struct stream *s, uint32_t channel, const uint8_t *bytes, uint64_t from,
                     uint64_t frames)
{
    static const struct sample_format s16le = {SAMPLE_SIGNED, 2, 16, false, false},
                                      s16be = {SAMPLE_SIGNED, 2, 16, true, false};
    const struct sample_format format = s->full_scale->format;
    if (memcmp(&format, &s16le, sizeof format) == 0)
        read_codes(s, (struct sample_format){SAMPLE_SIGNED, 2, 16, false, false}, channel, bytes,
                   from, frames);
    else if (memcmp(&format, &s16be, sizeof format) == 0)
        read_codes(s, (struct sample_format){SAMPLE_SIGNED, 2, 16, true, false}, channel, bytes,
                   from, frames);
    else
        read_codes(s, format, channel, bytes, from, frames);
}

/* Input frames [from, until) of the channel, as far as they have come. */
static void read_ring(struct stream *s, const struct epoch *e, uint32_t channel, uint64_t from,
                      uint64_t until)
{
    const struct ring *ring = s->ring;
    const uint64_t end = e->base + until;
    uint64_t position = e->base + from;
    while ((position = presence_find(s, position, end, true)) < end) {
        const uint64_t slot = position & (ring->frames - 1), to_wrap = ring->frames - slot;
        uint64_t run_end = presence_find(s, position, end, false);
        run_end = run_end - position > to_wrap ? position + to_wrap : run_end;
        read_run(s, channel,
                 ring->bytes + slot * ring->frame_bytes +
                     (size_t)channel * s->full_scale->format.bytes,
                 position - e->base, run_end - position);
        position = run_end;
    }
}

/* Those of a source: blocks whose peak passes the gate, and what has no report: inputs before this
 * batch whose results were shed, or handed on by another pipeline. */
static void mark_codes(struct stream *s, const struct epoch *e, const struct block_report *reports,
                       uint64_t first_block, uint32_t channel, uint64_t from, uint64_t until)
{
    const struct full_scale *f = s->full_scale;
    const uint64_t batch = first_block * s->hop;
    if (from < batch) {
        read_ring(s, e, channel, from, batch < until ? batch : until);
        from = batch;
    }
    while (from < until) {
        const uint64_t block = from / s->hop, end = (block + 1) * s->hop;
        const uint64_t next = end < until ? end : until;
        if (reports[(block - first_block) * f->channels + channel].peak >= f->gate[channel])
            read_ring(s, e, channel, from, next);
        from = next;
    }
}

/* ---- what comes from another stream -------------------------------------------------------- */

void full_scale_inherit(struct stream *s, const struct epoch *e, const struct packet *packet)
{
    struct full_scale *f = s->full_scale;
    if (f == NULL || f->inherited == NULL)
        return;
    for (uint32_t i = 0; i < packet->saturated_count; i++) {
        struct input_saturation mark = packet->saturated[i];
        if (mark.until <= e->source_origin || mark.channel >= f->channels)
            continue;
        mark.from = e->base + (mark.from > e->source_origin ? mark.from - e->source_origin : 0);
        mark.until = e->base + mark.until - e->source_origin;
        struct inherited *pending = &f->inherited[mark.channel];
        struct input_saturation *last = &pending->marks[(pending->next - 1) % PENDING];
        if (pending->next - pending->first == PENDING)
            last->until = mark.until > last->until ? mark.until : last->until;
        else
            pending->marks[pending->next++ % PENDING] = mark;
    }
}

static void mark_inherited(struct stream *s, const struct epoch *e, uint32_t channel,
                           uint64_t until)
{
    struct inherited *pending = &s->full_scale->inherited[channel];
    while (pending->first != pending->next) {
        const struct input_saturation *mark = &pending->marks[pending->first % PENDING];
        if (mark->from >= e->base + until)
            return;
        pending->first++;
        if (mark->until > e->base)
            add_input(s, channel, mark->from > e->base ? mark->from - e->base : 0,
                      mark->until - e->base);
    }
}

/* ---- results ----------------------------------------------------------------------------- */

static void begin_epoch(struct full_scale *f, uint64_t epoch)
{
    if (f->epoch == epoch)
        return;
    f->epoch = epoch;
    f->seen = 0;
    memset(f->until, 0, f->channels * sizeof *f->until);
}

/* Marks in kept frames, without those that hold none. */
static void keep_marks(const struct stream *s, struct result *result)
{
    struct full_scale *f = s->full_scale;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < f->count; i++) {
        struct input_saturation mark = f->marks[i];
        mark.from = decimation_output(&s->kept, mark.from);
        mark.until = decimation_output(&s->kept, mark.until);
        if (mark.from < mark.until)
            f->marks[kept++] = mark;
    }
    result->saturated_inputs = f->marks;
    result->saturated_input_count = kept;
}

void full_scale_mark(struct stream *s, const struct epoch *e, const struct block_report *reports,
                     uint64_t first_block, uint64_t from, uint64_t until, struct result *result)
{
    struct full_scale *f = s->full_scale;
    if (f == NULL)
        return;
    begin_epoch(f, e->number);
    const uint64_t reach = s->taps_longest - 1, behind = from > reach ? from - reach : 0;
    const uint64_t look = f->seen > behind ? f->seen : behind;
    const uint64_t input = until < e->head ? until : e->head;
    f->from = from;
    f->end = until;
    f->count = 0;
    for (uint32_t c = 0; c < f->channels; c++) {
        f->channel_first = f->count;
        if (f->until[c] > from)
            add_mark(f, c, from, f->until[c]);
        if (f->gate == NULL)
            mark_inherited(s, e, c, until);
        else if (look < input)
            mark_codes(s, e, reports, first_block, c, look, input);
    }
    f->seen = input;
    keep_marks(s, result);
}

void full_scale_align(struct stream *s, struct result *result)
{
    const uint64_t shift = (uint64_t)result->delay_frames, first = result->first_frame + shift;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < result->saturated_input_count; i++) {
        struct input_saturation mark = s->full_scale->marks[i];
        if (mark.until <= first)
            continue;
        mark.from = (mark.from > first ? mark.from : first) - shift;
        mark.until -= shift;
        s->full_scale->marks[kept++] = mark;
    }
    result->saturated_input_count = kept;
}
