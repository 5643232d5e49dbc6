/*
 * Levels: the one parser of amplitudes that people write. A level is an amplitude with its unit, in
 * any SI prefix, or decibels with or without their reference:
 *
 *     100 uV     40 dB     40 dB(AE)     40 dBAE     40 dB re 1 uV     40 dBuV
 *     -20 dBFS   10 %      0.1 FS        shares of full scale, at the sensor
 *
 * Plain dB refer to 1 uV for volts, which is dB(AE), and to the references of ISO 1683 for other
 * units. A number without a unit is refused wherever a unit can be written: 40 is as likely to mean
 * 40 dB as 40 V. 0 needs no unit, and a channel in FS has none.
 *
 * Rows of options take a level with `.type = OPTION_OWN, .parse = level_parse`. That proves its
 * form; level_amplitude converts it once the channel is known.
 *
 * Pure functions, any thread.
 */
#ifndef CONVOLVD_CORE_LEVEL_H
#define CONVOLVD_CORE_LEVEL_H

#include "core/option.h"

#define LEVEL_WORDS "level, such as 40 dB(AE), 100 uV or -20 dBFS"

/* The unit of a channel that has no calibration: shares of full scale. */
#define LEVEL_FULL_SCALE_UNIT "FS"

/* The channel that a level is meant for. */
struct level_scale {
    const char *unit;
    double full_scale; /* at the sensor [unit]; 0: not known */
    double step;       /* of the converter, at the sensor [unit]; 0: not known */
};

/* The amplitude of 0 dB in `unit`, which may carry an SI prefix: 1 uV (EN 1330-9), 1 um/s2, 1 nm/s,
 * 1 pm, 1 uN and 1 uPa (ISO 1683:2015 table 1); 1 of any other unit. */
double level_reference(const char *unit);

/* What to write behind an amplitude of a channel in `unit`: "" where a number needs no unit. */
const char *level_unit(const char *unit);

/* Of option_row. A row whose minimum is below 0 takes negative amplitudes. */
int level_parse(const struct option_row *row, const char *text, struct option_value *value,
                struct problem *problem);

/* The amplitude of a level in the channel's unit. 0, or ERROR_CONFIG with what to write instead. */
int level_read(const char *text, const struct level_scale *scale, double *amplitude,
               struct problem *problem);

/* The amplitude of a value that level_parse has proven. False when reported; a NULL check reports
 * nothing. */
bool level_amplitude(const struct option_check *check, const char *key,
                     const struct option_value *value, const struct level_scale *scale,
                     double *out);

/* Warns of an amplitude that no sample can pass, that the converter cannot resolve, or that is a
 * share of full scale for want of a calibration. True when it did. `name` and `text` are repeated
 * in the message: "`NAME TEXT` is above …". */
bool level_warn(const struct option_check *check, const char *key, const char *name,
                const char *text, double amplitude, const struct level_scale *scale);

#endif
