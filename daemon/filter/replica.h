/*
 * Matched filters: h[n] = conj(s[S-1-n]), where the replica s is the pulse that the transducer was
 * sent, window included: a linear chirp, a tone burst, a Barker code (R. H. Barker, "Group
 * synchronizing of binary digital systems", 1953), one of a pair of complementary codes (M. J. E.
 * Golay, "Complementary series", IRE Trans. Inf. Theory 7, 1961), or a file. The delay is S-1
 * frames, so the time stamp of a peak is the onset of the echo.
 *
 * An analytic matched filter takes s + j·Hilbert(s); the magnitude of its output is the
 * envelope of what the real one gives.
 *
 * Worker threads; pure functions.
 */
#ifndef CONVOLVD_FILTER_REPLICA_H
#define CONVOLVD_FILTER_REPLICA_H

#include <stdbool.h>
#include <stdint.h>

#include "core/error.h"
#include "filter/taps.h"
#include "signal/pulse_window.h"

enum replica_kind {
    REPLICA_CHIRP,
    REPLICA_TONE_BURST,
    REPLICA_BARKER,
    REPLICA_GOLAY,
    REPLICA_FILE,
};

enum normalise {
    NORMALISE_AMPLITUDE, /* an echo a·s peaks at exactly a */
    NORMALISE_ENERGY,    /* white noise of RMS 1 comes out with RMS 1 */
    NORMALISE_NONE,
};

/* Zero means "not given" for every number unless stated. */
struct replica_spec {
    enum replica_kind kind;
    enum normalise normalise;
    enum pulse_window window;
    double tukey_alpha; /* tapered fraction, 0 … 1; tukey only, filter_defaults sets 0.25 */
    /* chirp: sin(2 pi (start t + (stop - start) t² / (2 length))) */
    double start_hz, stop_hz; /* 0 < f < Nyquist; either may be the higher */
    double length_s;
    /* tone burst: so many cycles of carrier_hz, windowed over their whole duration */
    double cycles;
    /* codes: chip k is code[k]·sin(2 pi carrier t), with two of the three below given (the third
     * follows) or all three agreeing; carrier_hz = 0 and cycles_per_chip = 0: the bare chips */
    double carrier_hz, chip_rate_hz, cycles_per_chip;
    uint32_t barker_length; /* 2, 3, 4, 5, 7, 11 or 13 */
    uint32_t golay_order;   /* 2^order chips, 1 … 16 */
    bool golay_b;           /* the second code of the pair */
    const char *path;       /* REPLICA_FILE: s as taps_load reads it; borrowed */
    bool analytic;
};

/* Ranges and combinations, without reading files: 0 or ERROR_CONFIG; begins with the key at fault.
 */
int replica_check(const struct replica_spec *spec, double rate_hz, struct problem *problem);

/* The replica s itself (one set, or one per channel of the file), delay 0. */
int replica_make(const struct replica_spec *spec, double rate_hz, struct taps ***sets,
                 uint32_t *count, struct problem *problem);

/* The matched filters of the replicas. */
int replica_matched(const struct replica_spec *spec, double rate_hz, struct taps ***sets,
                    uint32_t *count, struct problem *problem);

/* What the autocorrelation of the pulse looks like behind its matched filter. */
struct matched_measure {
    double mainlobe_frames;            /* full width at -6 dB of the envelope */
    double mainlobe_first_null_frames; /* half width up to the first minimum */
    double sidelobe_db;                /* highest sidelobe under the peak, > 0; NaN: none */
    double pair_sidelobe_db;           /* Golay: the same after a and b are added; NaN otherwise */
};
int replica_measure(const struct replica_spec *spec, double rate_hz, const struct taps *matched,
                    struct matched_measure *measure, struct problem *problem);

#endif
