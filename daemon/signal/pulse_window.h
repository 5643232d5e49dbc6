/*
 * Windows of pulses, by the place in the pulse: 0 at its beginning, 1 at its end. The generator,
 * the rig and the replica of a matched filter all use these, so that they mean the same pulse.
 *
 *     none   1
 *     hann   (1 - cos(2 pi u)) / 2
 *     tukey  (1 - cos(2 pi u / a)) / 2 in the first a/2, the mirror image in the last, 1 between
 *            (F. J. Harris, "On the use of windows for harmonic analysis", Proc. IEEE 66, 1978)
 *
 * Pure functions, any thread.
 */
#ifndef CONVOLVD_SIGNAL_PULSE_WINDOW_H
#define CONVOLVD_SIGNAL_PULSE_WINDOW_H

#define PULSE_WINDOW_TABLE(X)                                                                      \
    X(NONE, "none")                                                                                \
    X(HANN, "hann")                                                                                \
    X(TUKEY, "tukey")

enum pulse_window {
#define X(name, text) PULSE_WINDOW_##name,
    PULSE_WINDOW_TABLE(X)
#undef X
        PULSE_WINDOWS,
};

/* NULL past the end of the table. */
const char *pulse_window_name(int window);

/* alpha: the tapered fraction of a Tukey window, both ends together, 0 … 1. Outside 0 ≤ place ≤ 1 a
 * window is 0, and none is 1. */
double pulse_window_value(enum pulse_window window, double alpha, double place);

#endif
