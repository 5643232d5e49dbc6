/* Showing: see showing.h. */
#include "stream/showing.h"

#include <string.h>

#include "stream/watch.h"

static bool is_looked_at(const struct batch *batch, bool *shows)
{
    bool kept = false;
    for (uint32_t i = 0; i < batch->count; i++) {
        const struct stream *stream = batch->items[i].owner;
        *shows = *shows || (stream != NULL && stream_shows(stream));
        kept = kept || (stream != NULL && stream_keeps(stream, batch));
    }
    return kept;
}

void showing_hold(struct showing *showing, struct batch *batch)
{
    if (is_looked_at(batch, &showing->more))
        showing->held[showing->held_count++] = batch;
    else
        engine_batch_release(showing->engine, batch);
}

static void release_oldest(struct showing *showing)
{
    engine_batch_release(showing->engine, showing->held[0]);
    showing->held_count--;
    memmove(showing->held, showing->held + 1, showing->held_count * sizeof(struct batch *));
}

/* Whether a viewer has not looked at all of the oldest batch. */
static bool is_kept(const struct showing *showing, struct stream *const *streams, int count)
{
    bool kept = false;
    for (int i = 0; i < count && !kept; i++)
        kept = stream_keeps(streams[i], showing->held[0]);
    return kept;
}

bool showing_is_due(const struct showing *showing)
{
    return showing->more &&
           (engine_device(showing->engine)->gpu || engine_in_flight(showing->engine) == 0 ||
            showing->held_count > HELD_IDLY);
}

/* The next stream that has something to show; NULL: none. */
static struct stream *choose(struct showing *showing, struct stream *const *streams, int count)
{
    for (int i = 0; i < count; i++) {
        struct stream *stream = streams[showing->next++ % (uint32_t)count];
        if (stream_shows(stream))
            return stream;
    }
    return NULL;
}

void showing_turn(struct showing *showing, struct stream *const *streams, int count)
{
    struct stream *stream = choose(showing, streams, count);
    showing->more = stream != NULL;
    if (stream != NULL)
        stream_show(stream);
    while (showing->held_count > 0 && !is_kept(showing, streams, count))
        release_oldest(showing);
}

bool showing_give_up(struct showing *showing, struct stream *const *streams, int count)
{
    if (showing->held_count == 0)
        return false;
    for (int i = 0; i < count; i++)
        stream_forget_shown(streams[i], showing->held[0]);
    release_oldest(showing);
    return true;
}

void showing_forget(struct showing *showing, struct stream *const *streams, int count)
{
    for (int i = 0; i < count; i++)
        stream_forget_shown(streams[i], NULL);
    showing_release(showing);
}

void showing_release(struct showing *showing)
{
    while (showing->held_count > 0)
        release_oldest(showing);
}
