/* Spilled registers, see spill.h. No state. */
#include "device/spill.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* The number whose last digit stands before `end`, at most INT32_MAX; SPILL_UNKNOWN: no digit
 * stands there. */
static int32_t number_before(const char *begin, const char *end)
{
    const char *digits = end;
    while (digits > begin && isdigit((unsigned char)digits[-1]))
        digits--;
    if (digits == end)
        return SPILL_UNKNOWN;
    const long long number = strtoll(digits, NULL, 10);
    return number < INT32_MAX ? (int32_t)number : INT32_MAX;
}

int32_t spill_of_log(const char *log)
{
    static const char what[] = " bytes spill stores";
    int32_t most = SPILL_UNKNOWN;
    for (const char *at = log; (at = strstr(at, what)) != NULL; at += sizeof what - 1) {
        const int32_t bytes = number_before(log, at);
        most = bytes > most ? bytes : most;
    }
    return most;
}
