/* Sliding windows: see window.h. */
#include "alarm/window.h"

#include <string.h>

static void keep(struct window *window, const double values[WINDOW_VALUES], int64_t now_ns)
{
    window->newest = window->count > 0 ? (window->newest + 1) % WINDOW_READINGS : 0;
    window->count += window->count < WINDOW_READINGS;
    window->readings[window->newest].at_ns = now_ns;
    memcpy(window->readings[window->newest].values, values,
           sizeof window->readings[window->newest].values);
}

struct window_growth window_read(struct window *window, const double values[WINDOW_VALUES],
                                 int64_t now_ns)
{
    struct window_growth growth = {.whole = false};
    if (window->count > 0 && values[0] < window->readings[window->newest].values[0])
        window->count = 0;
    if (window->count == 0 || now_ns - window->readings[window->newest].at_ns >=
                                  window->length_ns / (WINDOW_READINGS - 1))
        keep(window, values, now_ns);
    /* The newest reading that is old enough; none: the oldest. */
    uint32_t back = 0;
    int64_t at_ns;
    uint32_t index;
    do {
        index = (window->newest + WINDOW_READINGS - back) % WINDOW_READINGS;
        at_ns = window->readings[index].at_ns;
        back++;
    } while (back < window->count && now_ns - at_ns < window->length_ns);
    for (int i = 0; i < WINDOW_VALUES; i++)
        growth.values[i] = values[i] - window->readings[index].values[i];
    growth.span_ns = now_ns - at_ns;
    growth.whole = growth.span_ns >= window->length_ns && growth.span_ns > 0;
    return growth;
}
