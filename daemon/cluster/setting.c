/*
 * Settings in a log: see setting.h. One walk over the fields counts, writes and reads. Gains and
 * mutes are runs of outputs that share them, as mostly all do.
 *
 * Pure functions, any thread.
 */
#include "cluster/setting.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "core/codec.h"

enum { FORM = 1 };

/* Frame numbers beyond this are no stream's (wire/record.c). */
static const uint64_t number_max = UINT64_C(1) << 60;

bool setting_configured(const struct setting *s)
{
    bool configured = s->filter[0] == '\0';
    for (uint32_t o = 0; o < s->outputs; o++)
        configured = configured && s->gain[o] == 1 && !s->muted[o];
    return configured;
}

static bool same_output(const struct setting *a, uint32_t i, const struct setting *b, uint32_t k)
{
    return memcmp(&a->gain[i], &b->gain[k], sizeof a->gain[i]) == 0 && a->muted[i] == b->muted[k];
}

bool setting_equal(const struct setting *a, const struct setting *b)
{
    if (setting_configured(a) && setting_configured(b))
        return true;
    bool equal = strcmp(a->filter, b->filter) == 0 && a->outputs == b->outputs;
    for (uint32_t o = 0; equal && o < a->outputs; o++)
        equal = same_output(a, o, b, o);
    return equal;
}

bool setting_past(const struct setting_change *c, uint64_t epoch, uint64_t next)
{
    return epoch > c->epoch || (epoch == c->epoch && next >= c->until);
}

/* ---- bytes ------------------------------------------------------------------------------- */

static void walk_gain(struct codec *c, float *gain)
{
    uint32_t bits;
    memcpy(&bits, gain, sizeof bits);
    codec_u32(c, &bits);
    memcpy(gain, &bits, sizeof bits);
}

/* The outputs from `o` on that share its gain and mute. */
static uint32_t run_at(const struct setting *s, uint32_t o)
{
    uint32_t end = o + 1;
    while (end < s->outputs && same_output(s, o, s, end))
        end++;
    return end - o;
}

static void walk_outputs(struct codec *c, struct setting *s)
{
    codec_u32(c, &s->outputs);
    c->failed = c->failed || s->outputs > SETTING_OUTPUTS_MAX;
    for (uint32_t o = 0; !c->failed && o < s->outputs;) {
        uint32_t run = codec_reads(c) ? 0 : run_at(s, o);
        codec_u32(c, &run);
        walk_gain(c, &s->gain[o]);
        codec_bool(c, &s->muted[o]);
        c->failed = c->failed || run == 0 || run > s->outputs - o || !isfinite(s->gain[o]);
        for (uint32_t i = 1; codec_reads(c) && !c->failed && i < run; i++) {
            s->gain[o + i] = s->gain[o];
            s->muted[o + i] = s->muted[o];
        }
        o += run;
    }
}

static void walk_setting(struct codec *c, struct setting *s)
{
    uint8_t length = (uint8_t)strlen(s->filter);
    const uint8_t *name = (const uint8_t *)s->filter;
    codec_u8(c, &length);
    c->failed = c->failed || length >= SETTING_NAME;
    if (c->failed)
        return;
    codec_span(c, &name, length);
    if (codec_reads(c) && name != NULL) {
        memcpy(s->filter, name, length);
        s->filter[length] = '\0';
        c->failed = c->failed || strlen(s->filter) != length;
    }
    walk_outputs(c, s);
}

static void walk(struct codec *c, struct setting_change *x)
{
    uint8_t form = FORM;
    codec_u8(c, &form);
    c->failed = c->failed || form != FORM;
    codec_u8(c, &x->how);
    codec_u32(c, &x->fade_frames);
    codec_u64(c, &x->epoch);
    codec_u64(c, &x->frame);
    codec_u64(c, &x->until);
    codec_u64(c, &x->since);
    walk_setting(c, &x->before);
    walk_setting(c, &x->after);
}

/* A walk that writes changes nothing. */
static struct setting_change *unchanged(const struct setting_change *change)
{
    return (struct setting_change *)change;
}

size_t setting_bytes(const struct setting_change *change)
{
    struct codec c = codec_counter();
    walk(&c, unchanged(change));
    return c.at;
}

void setting_write(const struct setting_change *change, uint8_t *bytes)
{
    struct codec c = codec_writer(bytes, setting_bytes(change));
    walk(&c, unchanged(change));
    assert(!c.failed);
}

bool setting_read(const uint8_t *bytes, size_t count, struct setting_change *x)
{
    memset(x, 0, sizeof *x);
    if (count == 0)
        return false;
    struct codec c = codec_reader(bytes, count);
    walk(&c, x);
    return !c.failed && c.at == count && x->how <= SETTING_CLEAR &&
           (x->how == SETTING_FADE) == (x->fade_frames > 0) && x->epoch <= number_max &&
           x->frame <= x->until && x->until <= number_max && x->since <= number_max;
}
