/* Pickers: see picker.h. */
#include "analysis/picker.h"

#include <float.h>
#include <math.h>

/* Mean square less squared mean of n values with these sums. */
static double variance(double sum, double square, double n)
{
    const double mean = sum / n, value = square / n - mean * mean;
    return value > (double)FLT_MIN ? value : (double)FLT_MIN;
}

int64_t picker_aic(const float *x, uint32_t n)
{
    double left = 0, left_square = 0, right = 0, right_square = 0, least = INFINITY;
    int64_t index = n < 2 ? -1 : 0;
    for (uint32_t i = 0; i < n; i++) {
        right += (double)x[i];
        right_square += (double)x[i] * (double)x[i];
    }
    for (uint32_t i = 0; i + 1 < n; i++) {
        const double value = x[i], square = value * value;
        left += value;
        left_square += square;
        right -= value;
        right_square -= square;
        const double before = i + 1, behind = n - 1 - i;
        const double criterion = before * log(variance(left, left_square, before)) +
                                 (behind - 1) * log(variance(right, right_square, behind));
        if (criterion < least) {
            least = criterion;
            index = i;
        }
    }
    return index;
}

int64_t picker_hinkley(const float *x, uint32_t n, double alpha)
{
    double whole = 0, part = 0, least = INFINITY;
    int64_t index = n < 1 ? -1 : 0;
    for (uint32_t i = 0; i < n; i++)
        whole += (double)x[i] * (double)x[i];
    const double trend = whole / (alpha * n);
    for (uint32_t i = 0; i < n; i++) {
        part += (double)x[i] * (double)x[i];
        const double criterion = part - i * trend;
        if (criterion < least) {
            least = criterion;
            index = i;
        }
    }
    return index;
}

int64_t picker_energy_ratio(const float *x, uint32_t n, uint32_t w)
{
    double before = 0, behind = 0, most = -INFINITY;
    int64_t index = -1;
    if (w < 1 || n / 2 < w || n - w <= w)
        return -1;
    for (uint32_t i = 0; i < w; i++) {
        before += (double)x[i] * (double)x[i];
        behind += (double)x[w + i] * (double)x[w + i];
    }
    for (uint32_t i = w; i < n - w; i++) {
        const double entering = x[i + w], here = x[i], leaving = x[i - w];
        before += here * here;
        behind += entering * entering;
        before -= leaving * leaving;
        behind -= here * here;
        const double ratio = behind / ((double)FLT_MIN + before);
        if (ratio > most) {
            most = ratio;
            index = i;
        }
    }
    return index;
}

double picker_crossing(float before, float first, double threshold)
{
    if (!((before > 0 && first > 0) || (before < 0 && first < 0)))
        return 0;
    const double low = fabs((double)before), high = fabs((double)first);
    return high > low && threshold >= low ? (threshold - low) / (high - low) - 1 : 0;
}
