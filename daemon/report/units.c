/* Numbers as reports show them: see units.h. */
#include "report/units.h"

#include <math.h>
#include <stdio.h>

const char *units_si(double value, const char *unit, char text[UNITS_TEXT])
{
    static const struct {
        double factor;
        const char *prefix;
    } prefixes[] = {{1e9, "G"},  {1e6, "M"},  {1e3, "k"}, {1, ""},
                    {1e-3, "m"}, {1e-6, "u"}, {1e-9, "n"}};
    enum { LAST = sizeof prefixes / sizeof prefixes[0] - 1, ONE = 3 };
    int i = 0;
    if (value == 0 || !isfinite(value))
        i = ONE;
    else
        while (i < LAST && fabs(value) < prefixes[i].factor * (1 - 1e-12))
            i++;
    snprintf(text, UNITS_TEXT, "%.6g %s%s", value / prefixes[i].factor, prefixes[i].prefix, unit);
    return text;
}

double units_decibel(double ratio)
{
    return 20 * log10(ratio);
}

const char *units_db(double level_db, char text[UNITS_TEXT])
{
    if (isnan(level_db))
        snprintf(text, UNITS_TEXT, "none");
    else if (fabs(level_db) > 250)
        snprintf(text, UNITS_TEXT, level_db > 0 ? "over 250 dB" : "under -250 dB");
    else if (fabs(level_db) < 1e-6)
        snprintf(text, UNITS_TEXT, "0 dB");
    else if (fabs(level_db) < 1)
        snprintf(text, UNITS_TEXT, "%.3g dB", level_db);
    else
        snprintf(text, UNITS_TEXT, "%.2f dB", level_db);
    return text;
}
