/* What the reports print about a velocity filter: see fk.h. convolv-design draws its f-k plane. */
#include "report/fk.h"

#include <math.h>
#include <stdlib.h>

#include "core/quantity.h"

enum { TEXT = 48 };

static double other_edge(const struct fk_spec *spec)
{
    return spec->velocity_high != 0 ? spec->velocity_high : -spec->velocity_low;
}

/* "25.3 dB"; figures beyond double's reach and those there is no wave for are said so. */
static const char *db_text(double db, char text[TEXT])
{
    if (isnan(db))
        snprintf(text, TEXT, "no wave to judge");
    else if (fabs(db) > 200)
        snprintf(text, TEXT, "%s 200 dB", db > 0 ? "over" : "under -");
    else
        snprintf(text, TEXT, "%.2f dB", db);
    return text;
}

static const char *direction(const struct fk_spec *spec)
{
    double a = spec->velocity_low, b = other_edge(spec);
    return a > 0 && b > 0   ? "towards higher channels"
           : a < 0 && b < 0 ? "towards channel 1"
                            : "and all faster ones, of both directions";
}

static void figures_row(FILE *out, const char *indent, const char *where, double ripple_db,
                        double rejection_db, double resolution)
{
    char ripple[TEXT], rejection[TEXT];
    fprintf(out, "%s%-18s ripple %-16s rejection %s, resolution 1/(M spacing) = %.4g /m\n", indent,
            where, db_text(ripple_db, ripple), db_text(rejection_db, rejection), resolution);
}

void fk_report_figures(FILE *out, const struct fk_spec *spec, double rate_hz,
                       const struct fk_measure *m, const char *label, const char *indent)
{
    char spacing[TEXT], where[TEXT], text[TEXT];
    struct quantity_pair band;
    uint32_t last = spec->channels - 1;
    double band_high = spec->high_hz > 0 ? spec->high_hz : rate_hz / 2;
    fprintf(out, "%s%s of %.6g to %.6g m/s %s\n", label,
            spec->reject ? "rejects waves" : "passes waves", spec->velocity_low, other_edge(spec),
            direction(spec));
    quantity_print_pair(DIMENSION_FREQUENCY, spec->low_hz, band_high, &band);
    fprintf(out, "%sfrom %s to %s; %u channels %s apart, spatial Nyquist 1/(2 spacing) = %.4g /m\n",
            indent, band.first, band.second, spec->channels,
            quantity_print(DIMENSION_LENGTH, spec->spacing_m, spacing, sizeof spacing),
            m->nyquist_per_m);
    fprintf(out, "%sthe fan is wider than the resolution above %s\n", indent,
            quantity_print(DIMENSION_FREQUENCY, m->resolved_hz, text, sizeof text));
    snprintf(where, sizeof where, "channels %u to %u", m->middle_from + 1, m->middle_until);
    figures_row(out, indent, where, m->middle_ripple_db, m->middle_rejection_db,
                m->resolution_per_m);
    figures_row(out, indent, "end channels", fmax(m->ripple_db[0], m->ripple_db[last]),
                fmin(m->rejection_db[0], m->rejection_db[last]), m->resolution_per_m);
    fprintf(out, "%s%-18s %-23s rejection %s, resolution 1/(M spacing) = %.4g /m\n", indent,
            "all channels", "mean power", db_text(m->array_rejection_db, text),
            m->resolution_per_m);
}

/* ---- the table --------------------------------------------------------------------------- */

enum { COLUMNS = 5, ROWS = 17, EDGE_ROW = 4, EDGE_ROWS = 8 }; /* edges at rows 4 and 4 + 8 */

int fk_report_table(FILE *out, const struct fk_spec *spec, double rate_hz, struct taps *const *sets,
                    struct problem *problem)
{
    double *spectra = malloc(COLUMNS * 2 * (2 * (size_t)spec->channels - 1) * sizeof *spectra);
    if (spectra == NULL)
        return problem_set(problem, ERROR_MEMORY, "no memory for the table of a velocity filter");
    size_t stride = 2 * (2 * (size_t)spec->channels - 1);
    double band_high = spec->high_hz > 0 ? spec->high_hz : rate_hz / 2;
    double smear = fk_transition_hz(spec, rate_hz) / 2;
    double from = spec->low_hz + smear, until = band_high - smear, frequency[COLUMNS];
    fprintf(out, "#\n# %16s", "velocity");
    for (int c = 0; c < COLUMNS; c++) {
        char text[TEXT];
        frequency[c] = from + (until - from) * c / (COLUMNS - 1);
        fk_spectra(spec, sets, rate_hz, frequency[c], spectra + c * stride);
        fprintf(out, " %12s", quantity_print(DIMENSION_FREQUENCY, frequency[c], text, sizeof text));
    }
    fprintf(out, "   level at channel %u\n", spec->channels / 2 + 1);
    /* Even steps in slowness, twice as far out as the fan reaches; both edges among them. */
    double a = 1 / spec->velocity_low, b = 1 / other_edge(spec);
    double gains[FK_CHANNELS_MAX];
    for (int r = 0; r < ROWS; r++) {
        double slowness = fmin(a, b) + fabs(a - b) * (r - EDGE_ROW) / EDGE_ROWS;
        if (fabs(slowness) < 1e-9 * fabs(a - b))
            fprintf(out, "# %16s", "infinite");
        else
            fprintf(out, "# %12.6g m/s", 1 / slowness);
        for (int c = 0; c < COLUMNS; c++) {
            double wavenumber = slowness * frequency[c];
            if (fabs(wavenumber) * 2 * spec->spacing_m > 1 + 1e-9) {
                fprintf(out, " %12s", "aliased");
                continue;
            }
            fk_gains(spec, spectra + c * stride, wavenumber, gains);
            fprintf(out, " %9.2f dB", 20 * log10(fmax(gains[spec->channels / 2], 1e-15)));
        }
        fprintf(out, "%s\n", r == EDGE_ROW || r == EDGE_ROW + EDGE_ROWS ? "   edge" : "");
    }
    free(spectra);
    return 0;
}
