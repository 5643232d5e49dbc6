/* Flat lines: see flat_lines.h. */
#include "control/flat_lines.h"

#include "stream/received.h"

/* Codes looked at in each run, runs looked at in each turn, and codes that a turn compares beside
 * those of the first channel: 50 to 63 us, measured with 1 to 64 channels of 16 bits. */
enum { LOOK_CODES = 4, LOOK_RUNS = 4, READ_CODES = 1 << 16 };

/* Where the channel's codes lie in a run. */
static const uint8_t *codes_of(const struct flat_channel *channel, const struct received_run *run)
{
    return run->bytes + (uint32_t)channel->reader->channel *
                            channel->pipeline->stream_config->source.format.bytes;
}

static void count_none(struct alarm_reader *reader, enum flat_mode mode)
{
    reader->mode = mode;
    reader->flat.frames = 0;
}

/* ---- a few codes ------------------------------------------------------------------------- */

/* The run may be flat. Remembers its last code. */
static bool look_at(const struct flat_channel *channel, const struct received_run *run)
{
    const struct source_options *source = &channel->pipeline->stream_config->source;
    struct alarm_reader *reader = channel->reader;
    const uint8_t *codes = codes_of(channel, run);
    const uint32_t bytes = source->format.bytes, stride = source->frame_bytes;
    const bool may = flat_may_be(&reader->flat, codes, bytes, stride, run->count, LOOK_CODES);
    if (!may)
        count_none(reader, FLAT_LIVE);
    else if (reader->mode == FLAT_PROVEN)
        reader->flat.frames += run->count;
    return may;
}

static void suspect(struct flat_lines *lines, const struct flat_channel *channel)
{
    struct alarm_reader *reader = channel->reader;
    if (reader->mode == FLAT_LIVE) {
        reader->mode = FLAT_SUSPECT; /* a wave may have had equal values where it was looked at */
    } else if (reader->mode == FLAT_SUSPECT && lines->reading_count < FLAT_READERS_MAX) {
        count_none(reader, FLAT_READ);
        lines->reading[lines->reading_count++] = *channel;
    }
}

void flat_lines_look(struct flat_lines *lines, const struct flat_channel *channel)
{
    struct alarm_reader *reader = channel->reader;
    struct received_run run;
    bool may = true, seen = false;
    if (reader->mode == FLAT_READ)
        return;
    for (int i = 0;
         may && i < LOOK_RUNS && received_run(channel->pipeline->stream, reader->next, &run); i++) {
        reader->next = run.position + run.count;
        seen = true;
        may = look_at(channel, &run);
    }
    if (seen && may)
        suspect(lines, channel);
}

/* ---- every code -------------------------------------------------------------------------- */

/* Reads what has come; false: the channel lives, or has been flat for long enough. */
static bool read_channel(const struct flat_channel *channel, bool first, uint64_t *budget)
{
    const struct source_options *source = &channel->pipeline->stream_config->source;
    struct alarm_reader *reader = channel->reader;
    struct received_run run;
    if (reader->next < received_begin(channel->pipeline->stream))
        count_none(reader, FLAT_READ); /* some were overwritten before they were read */
    while (received_run(channel->pipeline->stream, reader->next, &run)) {
        if (!first && run.count > *budget) {
            count_none(reader, FLAT_READ);
            reader->next = received_end(channel->pipeline->stream);
            return true;
        }
        *budget -= run.count < *budget ? run.count : *budget;
        reader->next = run.position + run.count;
        if (!flat_read(&reader->flat, codes_of(channel, &run), source->format.bytes,
                       source->frame_bytes, run.count)) {
            count_none(reader, FLAT_LIVE);
            return false;
        }
    }
    if (reader->flat.frames < channel->frames_wanted)
        return true;
    reader->mode = FLAT_PROVEN;
    return false;
}

void flat_lines_read(struct flat_lines *lines)
{
    uint64_t budget = READ_CODES;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < lines->reading_count; i++)
        if (read_channel(&lines->reading[i], kept == 0, &budget))
            lines->reading[kept++] = lines->reading[i];
    lines->reading_count = kept;
}

void flat_lines_forget(struct flat_lines *lines)
{
    lines->reading_count = 0;
}
