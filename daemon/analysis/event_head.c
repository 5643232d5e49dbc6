/* Heads of events: see event_head.h. */
#include "analysis/event_head.h"

struct analysis_event event_head(const struct analysis_event *event)
{
    struct analysis_event head = *event;
    head.body = NULL;
    head.body_bytes = 0;
    head.samples = NULL;
    head.sample_count = 0;
    head.first_sample = 0;
    return head;
}

bool event_head_walk(struct analysis_event *head, struct codec *codec)
{
    uint32_t clock = head->clock;
    codec_u32(codec, &head->channel);
    codec_u64(codec, &head->epoch);
    codec_u64(codec, &head->record);
    codec_u64(codec, &head->frame);
    codec_i64(codec, &head->capture_ns);
    codec_u32(codec, &clock);
    codec_i64(codec, &head->clock_error_ns);
    codec_f64(codec, &head->delay_frames);
    codec_i64(codec, &head->arrival_ns);
    codec_u32(codec, &head->flags);
    codec_u32(codec, &head->causes);
    codec_u32(codec, &head->parameter_count);
    if (clock >= CLOCK_SOURCES || head->parameter_count > ANALYSIS_PARAMETERS_MAX)
        return false;
    head->clock = (enum clock_source)clock;
    for (uint32_t i = 0; i < head->parameter_count; i++)
        codec_f64(codec, &head->parameters[i]);
    return true;
}
