/* Pauses after wrong logins: see login_pause.h. */
#include "login_pause.h"

#include <stddef.h>
#include <string.h>

#include "core/clock.h"

struct login_address login_address(const uint8_t *bytes, unsigned count)
{
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
    struct login_address address = {{0}};
    if (count == 4) {
        memcpy(address.bytes, mapped, sizeof mapped);
        memcpy(address.bytes + sizeof mapped, bytes, 4);
    } else if (count == 16) {
        const bool is_mapped = memcmp(bytes, mapped, sizeof mapped) == 0;
        memcpy(address.bytes, bytes, is_mapped ? 16 : 8);
    }
    return address;
}

/* One login of the global bound; false: all are spent. */
static bool spend(struct login_pauses *pauses, int64_t now_ns)
{
    const int64_t each_ns = LOGIN_REFILL_MS * NS_PER_MS / LOGIN_BURST;
    const int64_t refill = (now_ns - pauses->refilled_ns) / each_ns;
    if (refill >= pauses->spent) {
        pauses->spent = 0;
        pauses->refilled_ns = now_ns;
    } else if (refill > 0) {
        pauses->spent -= (unsigned)refill;
        pauses->refilled_ns += refill * each_ns;
    }
    if (pauses->spent == LOGIN_BURST)
        return false;
    pauses->spent++;
    return true;
}

/* The row of this address; where it has none, an unused row or else the oldest one. */
static size_t find_row(const struct login_pauses *pauses, const struct login_address *address,
                       bool *known)
{
    size_t row = 0;
    *known = true;
    for (size_t i = 0; i < LOGIN_ADDRESSES; i++) {
        if (pauses->rows[i].used && memcmp(&pauses->rows[i].address, address, sizeof *address) == 0)
            return i;
        if (pauses->rows[row].used &&
            (!pauses->rows[i].used || pauses->rows[i].wrong_ns < pauses->rows[row].wrong_ns))
            row = i;
    }
    *known = false;
    return row;
}

bool login_pauses_wrong(struct login_pauses *pauses, const struct login_address *address,
                        int64_t now_ns)
{
    bool known;
    const size_t row = find_row(pauses, address, &known);
    if (known && now_ns - pauses->rows[row].wrong_ns < LOGIN_PAUSE_MS * NS_PER_MS)
        return false;
    if (!spend(pauses, now_ns))
        return false;
    pauses->rows[row].used = true;
    pauses->rows[row].address = *address;
    pauses->rows[row].wrong_ns = now_ns;
    return true;
}
