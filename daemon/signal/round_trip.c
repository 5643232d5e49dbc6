/* Round trip: see round_trip.h. */
#include "signal/round_trip.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "signal/reference.h"

enum {
    EDGE_FRAMES = ROUND_TRIP_CHIRP_FRAMES / 8, /* raised cosine at both ends */
    PEAK_FRAMES = 64,                          /* what belongs to the peak, on each side */
};

static const double from_turns = 0.02, to_turns = 0.40; /* a frame */

static double chirp_value(uint32_t n)
{
    double t = n, length = ROUND_TRIP_CHIRP_FRAMES;
    double phase = from_turns * t + 0.5 * (to_turns - from_turns) * t * t / length;
    uint32_t end = ROUND_TRIP_CHIRP_FRAMES - 1 - n, near = n < end ? n : end;
    double edge = near < EDGE_FRAMES ? 0.5 - 0.5 * cos(M_PI * (near + 0.5) / EDGE_FRAMES) : 1;
    return edge * sin(2 * M_PI * phase);
}

void round_trip_chirp(float *chirp)
{
    for (uint32_t n = 0; n < ROUND_TRIP_CHIRP_FRAMES; n++)
        chirp[n] = (float)chirp_value(n);
}

/* Parts of a frame by which a parabola through three neighbours has its top beside the middle one.
 */
static double top(double before, double middle, double after)
{
    double bend = before - 2 * middle + after;
    return bend < 0 ? 0.5 * (before - after) / bend : 0;
}

int round_trip_find(const double *heard, uint64_t frames, struct round_trip *out)
{
    double reversed[ROUND_TRIP_CHIRP_FRAMES], energy = 0;
    *out = (struct round_trip){0};
    for (uint32_t n = 0; n < ROUND_TRIP_CHIRP_FRAMES; n++) {
        reversed[n] = chirp_value(ROUND_TRIP_CHIRP_FRAMES - 1 - n);
        energy += reversed[n] * reversed[n];
    }
    double *matched = malloc((frames + ROUND_TRIP_CHIRP_FRAMES) * sizeof *matched);
    if (matched == NULL || frames < ROUND_TRIP_CHIRP_FRAMES + 2 ||
        reference_convolve(heard, frames, reversed, ROUND_TRIP_CHIRP_FRAMES, matched) < 0) {
        free(matched);
        return frames < ROUND_TRIP_CHIRP_FRAMES + 2 ? ERROR_ARGUMENT : ERROR_MEMORY;
    }
    /* Value n of it belongs to a chirp that began ROUND_TRIP_CHIRP_FRAMES - 1 before. */
    const double *at = matched + ROUND_TRIP_CHIRP_FRAMES - 1;
    uint64_t starts = frames - ROUND_TRIP_CHIRP_FRAMES + 1, peak = 0;
    for (uint64_t n = 1; n < starts; n++)
        peak = fabs(at[n]) > fabs(at[peak]) ? n : peak;
    double elsewhere = 1e-300, most = fabs(at[peak]);
    for (uint64_t n = 0; n < starts; n++)
        if (n + PEAK_FRAMES < peak || n > peak + PEAK_FRAMES)
            elsewhere = fmax(elsewhere, fabs(at[n]));
    double sign = at[peak] < 0 ? -1 : 1;
    double part =
        top(sign * at[(int64_t)peak - 1], most, sign * at[peak + 1]); /* both lie in `matched` */
    *out = (struct round_trip){
        .found = most > 0 && most / elsewhere >= ROUND_TRIP_CLEAR,
        .frames = (double)peak + part,
        .clearness = fmin(most / elsewhere, 1e6),
        .level = most / energy,
    };
    free(matched);
    return 0;
}
