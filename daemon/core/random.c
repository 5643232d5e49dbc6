/* Seeded random numbers: see random.h. One owner per state. */
#include "core/random.h"

#include <math.h>

double random_normal(struct random_state *r)
{
    double u = 1.0 - random_unit(r); /* (0, 1]: the logarithm stays finite */
    double v = random_unit(r);
    return sqrt(-2.0 * log(u)) * cos(2.0 * 3.14159265358979323846 * v);
}
