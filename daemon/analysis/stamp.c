/* Where and when a stretch of frames begins: see stamp.h. */
#include "analysis/stamp.h"

#include <math.h>

struct stamp stamp_of(const struct analysis_run *run, uint64_t frame, double rate_hz)
{
    return (struct stamp){
        .epoch = run->epoch,
        .record = run->record,
        .frame = frame,
        .capture_ns = run->capture_ns + llrint((double)(frame - run->first_frame) / rate_hz * 1e9),
        .clock = run->clock,
        .clock_error_ns = run->clock_error_ns,
        .delay_frames = run->aligned ? 0 : run->delay_frames,
    };
}

void stamp_event(const struct stamp *stamp, double rate_hz, struct analysis_event *event)
{
    event->epoch = stamp->epoch;
    event->record = stamp->record;
    event->frame = stamp->frame;
    event->capture_ns = stamp->capture_ns;
    event->clock = (enum clock_source)stamp->clock;
    event->clock_error_ns = stamp->clock_error_ns;
    event->delay_frames = stamp->delay_frames;
    event->arrival_ns = stamp->capture_ns - llrint(stamp->delay_frames / rate_hz * 1e9);
}

bool stamp_walk(struct stamp *stamp, struct codec *codec)
{
    codec_u64(codec, &stamp->epoch);
    codec_u64(codec, &stamp->record);
    codec_u64(codec, &stamp->frame);
    codec_i64(codec, &stamp->capture_ns);
    codec_u32(codec, &stamp->clock);
    codec_i64(codec, &stamp->clock_error_ns);
    codec_f64(codec, &stamp->delay_frames);
    return stamp->clock < CLOCK_SOURCES && isfinite(stamp->delay_frames);
}
