/* Sizes of an analysis stage's rings: see analysis_sizes.h. */
#include "pipeline/analysis_sizes.h"

static const uint64_t queue_least = 1 << 20, queue_most = 64 << 20, queue_of_events = 4 << 20,
                      outbox = 16 << 20;

/* Of the messages beside the frame ring: results as short as 16 frames fill both alike. */
enum {
    MESSAGE_BYTES = 512,
    MESSAGE_FRAMES = 16,
    MESSAGES_LEAST = 256 << 10,
    MESSAGES_MOST = 8 << 20
};

static uint64_t frames_of(double seconds, double rate_hz, uint64_t frame_bytes)
{
    const double bytes = seconds * rate_hz * (double)frame_bytes;
    return bytes < (double)queue_least  ? queue_least
           : bytes > (double)queue_most ? queue_most
                                        : (uint64_t)bytes;
}

/* How long it waits for parameters of other streams, while at most half of the queue fills. */
static double waiting_s(const struct analysis_options *options)
{
    for (uint32_t i = 0; options->parameter_streams != NULL && i < options->parameter_values; i++)
        if (options->parameter_streams[i] != NULL)
            return (double)options->parameter_age_ns / 1e9;
    return 0;
}

struct analysis_sizes analysis_sizes(const struct analysis_ops *ops,
                                     const struct analysis_options *options, uint64_t queue_bytes)
{
    const uint64_t frame_bytes = options->stream.channels * sizeof(float);
    struct analysis_sizes sizes = {.queue_bytes = queue_bytes, .outbox_bytes = outbox};
    if (ops->of_events) {
        sizes.queue_bytes = queue_bytes > 0 ? queue_bytes : queue_of_events;
        sizes.message_bytes = sizes.queue_bytes;
        return sizes;
    }
    if (queue_bytes == 0)
        sizes.queue_bytes =
            frames_of(1 + 2 * waiting_s(options), options->stream.rate_hz, frame_bytes);
    if (ops->history != NULL)
        sizes.history_frames = ops->history(options);
    sizes.ring_bytes = sizes.queue_bytes + sizes.history_frames * frame_bytes;
    const uint64_t bytes = sizes.ring_bytes / frame_bytes / MESSAGE_FRAMES * MESSAGE_BYTES;
    sizes.message_bytes = bytes < MESSAGES_LEAST  ? MESSAGES_LEAST
                          : bytes > MESSAGES_MOST ? MESSAGES_MOST
                                                  : bytes;
    return sizes;
}
