/*
 * Clock line: the robust straight line through the receive times of a stream's packets. It turns
 * frame numbers into times, and its slope is the source's true rate.
 *
 * The network makes a packet late, never early, so the line runs through the least delayed packets.
 * Time is cut into slots; each slot keeps its least residual against the nominal rate. The slope is
 * the median of the slopes between all pairs of slots (Theil 1950, Sen 1968), which ignores up to
 * 29 % of bad slots. When all slots are filled, neighbours merge and the slots grow, from 50 ms to
 * 4 s each: the line is usable at once and improves for two minutes.
 *
 * Times are monotonic; frames are numbered as the source counts. One owner; never allocates.
 */
#ifndef CONVOLVD_STREAM_CLOCK_LINE_H
#define CONVOLVD_STREAM_CLOCK_LINE_H

#include <stdbool.h>
#include <stdint.h>

enum { CLOCK_LINE_SLOTS = 32 };

struct clock_slot {
    uint64_t frame;     /* of the least delayed packet */
    double residual_ns; /* receive − nominal time of that frame */
    double spread_ns;   /* largest − least residual in the slot */
};

struct clock_line {
    double rate_hz;  /* nominal */
    uint64_t frame0; /* origin */
    int64_t time0_ns;
    bool started;
    struct clock_slot slots[CLOCK_LINE_SLOTS];
    int count; /* closed slots */
    struct clock_slot open;
    int64_t open_until_ns, slot_ns;
    double slope;        /* ns of residual per ns of nominal time */
    double intercept_ns; /* residual at frame0 */
    double bound_ns, jitter_ns;
    double packet_ns;         /* duration of the longest packet */
    uint64_t receipts;        /* receive times: of packets, or of batches that share one */
    int64_t last_ns;          /* the newest */
    struct clock_slot newest; /* the newest packet; its spread is 0 */
};

void clock_line_reset(struct clock_line *line, double rate_hz);

/* The frame before `frame_end` was complete when its packet was received: its last frame reached
 * the kernel at receive_ns. frame_end = number of the first frame after the packet; frames: how
 * many the packet brought, or all packets that share the receive time. */
void clock_line_add(struct clock_line *line, uint64_t frame_end, uint64_t frames,
                    int64_t receive_ns);

/* Monotonic time of a frame: when it was captured, as far as receive times tell; within
 * CLOCK_FAR_NS of the origin's, however far away the frame is. */
int64_t clock_line_time_ns(const struct clock_line *line, double frame);

/*
 * Half-width within which the line is trusted [ns]; the network's constant least delay is not in
 * it. The sum of what the packets have shown (how far slots lie off the line, and how much later
 * than the least delayed packet others were received) and of what they cannot have shown yet: a
 * queue or jitter that has held up all packets so far. That share is a packet's duration until 64
 * packets have come, and falls with their number from then on. Packets of one receive time count
 * as one. What lies off the line counts at once, before its slot is closed: how early the least
 * delayed packet of the open slot came, and how late the newest packet.
 */
int64_t clock_line_error_ns(const struct clock_line *line);
/* The same without the packets since the newest closed slot. */
int64_t clock_line_base_error_ns(const struct clock_line *line);

/* Whether clock_line_add may have left the line so, of one that was read from bytes: each number
 * finite and within CLOCK_FAR_NS, so that no sum of a few overflows; slots of a length that it
 * makes. */
bool clock_line_holds(const struct clock_line *line);

/* Measured rate; ppm against nominal. False while fewer than three slots are closed. */
bool clock_line_rate(const struct clock_line *line, double *rate_hz, double *ppm);

#endif
