/* Kaiser's window and length formulas: see kaiser.h. */
#include "filter/kaiser.h"

#include <math.h>

/* Kaiser's D: (attenuation - 7.95) / 14.36, constant where the window is rectangular. */
static double kaiser_width(double attenuation_db)
{
    return attenuation_db > 21 ? (attenuation_db - 7.95) / 14.36 : 0.9222;
}

double kaiser_length(double attenuation_db, double transition)
{
    return kaiser_width(attenuation_db) / transition + 1;
}

double kaiser_transition(double attenuation_db, uint32_t taps)
{
    return kaiser_width(attenuation_db) / (taps - 1);
}

double kaiser_attenuation(uint32_t taps, double transition)
{
    return 7.95 + 14.36 * transition * (taps - 1);
}

double kaiser_beta(double attenuation_db)
{
    if (attenuation_db > 50)
        return 0.1102 * (attenuation_db - 8.7);
    if (attenuation_db > 21)
        return 0.5842 * pow(attenuation_db - 21, 0.4) + 0.07886 * (attenuation_db - 21);
    return 0;
}

/* Modified Bessel function of the first kind, order zero, by its series (all terms positive). */
static double bessel_i0(double x)
{
    double sum = 1, term = 1, quarter = x * x / 4;
    for (int k = 1; term > sum * 1e-17; k++) {
        term *= quarter / ((double)k * k);
        sum += term;
    }
    return sum;
}

void kaiser_window(double *window, uint32_t count, double beta)
{
    double middle = (count - 1) / 2.0, whole = bessel_i0(beta);
    for (uint32_t n = 0; n <= (count - 1) / 2; n++) {
        double x = middle > 0 ? (n - middle) / middle : 0;
        double value = bessel_i0(beta * sqrt(fmax(0, 1 - x * x))) / whole;
        window[n] = value;
        window[count - 1 - n] = value;
    }
}
