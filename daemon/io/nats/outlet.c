/* What other sinks of a partition get: see outlet.h. */
#include "io/nats/outlet.h"

#include "core/clock.h"

/* Output frames by which `frame` lies behind the beginning of its block; 0 where blocks do not
 * begin with an output frame. */
static uint64_t behind_block(const struct term_plan *plan, uint64_t frame)
{
    return plan->hop % plan->decimate == 0 ? frame % (plan->hop / plan->decimate) : 0;
}

static uint64_t shifted(uint64_t frame, uint64_t shift, uint64_t least)
{
    const int64_t at = (int64_t)(frame + shift);
    return at > (int64_t)least ? (uint64_t)at : least;
}

/* The ranges that touch frames [first, until), as LOG numbers them, behind the gap before them. */
static void clip(struct nats_outlet *o, const struct result *in, uint64_t shift, uint64_t until)
{
    struct result *r = &o->result;
    for (uint32_t i = 0; i < in->invalid_count && r->invalid_count < OUTLET_RANGES; i++) {
        const struct invalid_range *range = &in->invalid[i];
        const uint64_t from = shifted(range->from, shift, r->first_frame),
                       end = shifted(range->until, shift, r->first_frame);
        if (from < end && from < until)
            o->invalid[r->invalid_count++] =
                (struct invalid_range){from, end < until ? end : until, range->cause};
    }
    r->partial_from = shifted(in->partial_from, shift, r->first_frame);
    r->partial_until = shifted(in->partial_until, shift, r->first_frame);
}

const struct result *nats_outlet_result(struct nats_outlet *o, const struct term *term,
                                        const struct result *in)
{
    struct result *r = &o->result;
    const struct term_cut cut = term_cut(term, in->epoch, in->first_frame, in->frames);
    if (in->frames == 0 || cut.part != TERM_NEW)
        return NULL;
    const uint64_t again = behind_block(&term->plan, cut.first);
    const uint32_t skip = again < cut.skip ? cut.skip - (uint32_t)again : 0;
    const uint64_t shift = cut.first - cut.skip - in->first_frame;
    *r = *in;
    r->epoch = cut.epoch;
    r->first_frame = in->first_frame + shift + skip;
    r->timeline_frame = cut.timeline - (cut.skip - skip);
    r->frames = in->frames - skip;
    r->flags &= ~(uint32_t)RESULT_EPOCH_START;
    r->flags |= r->first_frame == 0 ? RESULT_EPOCH_START : 0;
    if (r->samples != NULL)
        r->samples += (size_t)skip * r->channels;
    if (r->wire != NULL)
        r->wire += (size_t)skip * r->channels * r->wire_format.format.bytes;
    r->capture_ns += clock_round_ns((double)skip * 1e9 / r->rate_hz);
    r->taps_from = shifted(in->taps_from, shift, 0);
    r->gains_from = shifted(in->gains_from, shift, 0);
    r->saturated_input_count = 0;
    r->invalid = o->invalid;
    r->invalid_count = 0;
    if (cut.from < cut.first) /* nobody computes them */
        o->invalid[r->invalid_count++] =
            (struct invalid_range){cut.from, cut.first, INVALID_OVERLOAD};
    clip(o, in, shift, cut.next);
    return r;
}
