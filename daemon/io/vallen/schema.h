/*
 * Schema: the tables, indexes and views of .pridb, .tradb and .trfdb, as Vallen's software and the
 * Python package vallenae expect them, with the rows that describe columns.
 *
 *     .pridb  ae_data, ae_params, ae_markers, ae_fieldinfo, ae_globalinfo, acq_setup,
 *             data_integrity; view_ae_data, view_ae_markers
 *     .tradb  tr_data, tr_params, tr_fieldinfo, tr_globalinfo; view_tr_data
 *     .trfdb  trf_data, trf_fieldinfo, trf_globalinfo
 *
 * All texts are UTF-8; the micro sign is U+00B5. One connection, one thread.
 */
#ifndef CONVOLVD_IO_VALLEN_SCHEMA_H
#define CONVOLVD_IO_VALLEN_SCHEMA_H

#include <sqlite3.h>
#include <stdint.h>

#include "analysis/analysis.h"
#include "io/vallen/names.h"

/* The column SetType. */
enum vallen_set {
    VALLEN_SET_PARAMETRIC = 1,
    VALLEN_SET_HIT = 2,
    VALLEN_SET_STATUS = 3,
    VALLEN_SET_LABEL = 4,
    VALLEN_SET_DATE_TIME = 5,
    VALLEN_SET_SECTION = 6,
};

/* RMS is stored in this part of ADC_µV. */
#define VALLEN_RMS_FACTOR 0.0065536

/* Columns of trf_data before those of the analysis' fields. */
#define VALLEN_TRF_COLUMNS                                                                         \
    "\"TRAI\" INT UNIQUE, \"epoch\" REAL, \"record\" REAL, \"frame\" REAL, "                       \
    "\"flags\" REAL, \"causes\" REAL"
enum { VALLEN_TRF_LEADING = 6 };

/* What a channel's codes are worth. Row 1 of *_params is channel 0 (parametric sets), row 1 + n
 * channel n. */
struct vallen_scale {
    double step_v; /* one code of a transient, in volts at the sensor */
    double tr_mv;  /* the same as the column TR_mV says it */
    double adc_uv; /* of Thr, Amp and RMS: half a step */
    double adc_te, adc_ss;
};

/* From the value of code 32768 in volts at the sensor, > 0. */
struct vallen_scale vallen_scale_of(double full_scale_v);

/* Each makes an empty file whole: tables, views, indexes, parameters, field info. Returns SQLite's
 * result code. `parameters`: how many columns PA0, PA1 … there are; their values are stored as they
 * are (PAn_mV 1). */
int vallen_schema_pridb(sqlite3 *db, const struct vallen_scale *scales, uint32_t channels,
                        uint32_t parameters);
int vallen_schema_tradb(sqlite3 *db, const struct vallen_scale *scales, uint32_t channels);
int vallen_schema_trfdb(sqlite3 *db, const struct analysis_field *fields, uint32_t count);

/* With which the tables of each file begin: "ae", "tr", "trf". */
const char *vallen_prefix(enum vallen_file file);

/* A row of *_globalinfo; `table` is "ae", "tr" or "trf". The value is stored as text. */
int vallen_schema_info(sqlite3 *db, const char *table, const char *key, const char *value);

#endif
