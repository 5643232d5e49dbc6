/*
 * Words: how kernels move the samples of a wire format. They read and write words of 2 and 4 bytes
 * as this machine's integers, others byte by byte, the lowest first. Pure, any thread.
 */
#ifndef CONVOLVD_CONVOLVE_PLAN_WORDS_H
#define CONVOLVD_CONVOLVE_PLAN_WORDS_H

#include "wire/format.h"

/* Whether a kernel must swap the bytes of this format's words. */
static inline bool word_swapped(const struct sample_format *format)
{
    const bool whole = format->bytes == 2 || format->bytes == 4;
    const bool big_endian_host = __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__;
    return format->bytes > 1 && format->big_endian != (whole && big_endian_host);
}

#endif
