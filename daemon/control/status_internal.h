/* Shared by status.c (table) and status_json.c (JSON); nobody else includes this. */
#ifndef CONVOLVD_CONTROL_STATUS_INTERNAL_H
#define CONVOLVD_CONTROL_STATUS_INTERNAL_H

struct status_quantile {
    const char *name;
    double quantile;
};

enum { STATUS_QUANTILES = 4 };
extern const struct status_quantile
    status_quantiles[STATUS_QUANTILES]; /* the maximum stands apart */

#endif
