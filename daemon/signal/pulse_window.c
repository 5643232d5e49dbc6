/* Windows: see pulse_window.h. */
#include "signal/pulse_window.h"

#include <math.h>
#include <stddef.h>

#define PI 3.14159265358979323846

const char *pulse_window_name(int window)
{
    static const char *const names[] = {
#define X(name, text) [PULSE_WINDOW_##name] = text,
        PULSE_WINDOW_TABLE(X)
#undef X
    };
    return window >= 0 && window < PULSE_WINDOWS ? names[window] : NULL;
}

double pulse_window_value(enum pulse_window window, double alpha, double place)
{
    if (window == PULSE_WINDOW_HANN)
        alpha = 1;
    if (window == PULSE_WINDOW_NONE)
        return 1;
    if (!(place >= 0 && place <= 1))
        return 0;
    if (alpha == 0)
        return 1;
    double rim = fmin(place, 1 - place) / (alpha / 2); /* 0 at the end, 1 where the taper ends */
    return rim >= 1 ? 1 : 0.5 - 0.5 * cos(PI * rim);
}
