/* Receive path: see receive_path.h. */
#include "io/receive_path.h"

const char *receive_path_name(enum receive_path path)
{
    static const char *const names[RECEIVE_PATHS + 1] = {
#define X(name, text) [RECEIVE_##name] = text,
        RECEIVE_PATH_TABLE(X)
#undef X
            [RECEIVE_AUTO] = "auto",
    };
    return (unsigned)path <= RECEIVE_PATHS ? names[(unsigned)path] : "?";
}
