/* Median, see median.h: a heap sort in place. */
#include "core/median.h"

#include <assert.h>

/* Moves values[at] down until no child of it is larger. */
static void sift_down(double *values, size_t at, size_t count)
{
    const double moved = values[at];
    for (size_t child; (child = 2 * at + 1) < count; at = child) {
        if (child + 1 < count && values[child] < values[child + 1])
            child++;
        if (values[child] <= moved)
            break;
        values[at] = values[child];
    }
    values[at] = moved;
}

double median(double *values, size_t count)
{
    assert(count > 0);
    for (size_t i = count / 2; i-- > 0;)
        sift_down(values, i, count);
    for (size_t end = count - 1; end > 0; end--) {
        const double largest = values[0];
        values[0] = values[end];
        values[end] = largest;
        sift_down(values, 0, end);
    }
    return count % 2 ? values[count / 2] : 0.5 * (values[count / 2 - 1] + values[count / 2]);
}
