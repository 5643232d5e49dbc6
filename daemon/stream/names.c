/*
 * The names of the values in the tables of packet.h, result.h and stream.h, for status, sidecars
 * and messages; "?" for a value outside its table. Constant data, any thread.
 */
#include <stddef.h>

#include "stream/packet.h"
#include "stream/result.h"
#include "stream/stream.h"

#define NAME_OF(table, value)                                                                      \
    ((unsigned)(value) < sizeof(table) / sizeof((table)[0]) ? (table)[(unsigned)(value)] : "?")

const char *invalid_cause_name(enum invalid_cause cause)
{
    static const char *const names[] = {
#define X(name, text) [INVALID_##name] = text,
        INVALID_TABLE(X)
#undef X
    };
    return NAME_OF(names, cause);
}

const char *clock_source_name(enum clock_source source)
{
    static const char *const names[] = {
#define X(name, text) [CLOCK_SOURCE_##name] = text,
        CLOCK_TABLE(X)
#undef X
    };
    return NAME_OF(names, source);
}

const char *stage_name(enum stage stage)
{
    static const char *const names[] = {
#define X(name, text) [STAGE_##name] = text,
        STAGE_TABLE(X)
#undef X
    };
    return NAME_OF(names, stage);
}

const char *shed_name(enum shed shed)
{
    static const char *const names[] = {
#define X(name, text) [SHED_##name] = text,
        SHED_TABLE(X)
#undef X
    };
    return NAME_OF(names, shed);
}
