/*
 * Numbers as reports show them: SI prefixes and decibels. Pure functions, any thread.
 */
#ifndef CONVOLVD_REPORT_UNITS_H
#define CONVOLVD_REPORT_UNITS_H

enum { UNITS_TEXT = 48 };

/* "95 kHz", "254 us": six significant digits with the fitting SI prefix, nano to giga. Returns
 * `text`. */
const char *units_si(double value, const char *unit, char text[UNITS_TEXT]);

/* 20 log10 of an amplitude ratio [dB]; minus infinity for 0. */
double units_decibel(double ratio);

/* "60.1 dB"; levels beyond ±250 dB read "over 250 dB": double precision resolves no more. NAN reads
 * "none". Returns `text`. */
const char *units_db(double level_db, char text[UNITS_TEXT]);

#endif
