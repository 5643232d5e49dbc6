/* CRC-32C: see crc32c.h. Eight tables, so that one step takes eight bytes (Intel's slicing-by-8).
 */
#include "wire/crc32c.h"

#include <pthread.h>

enum { SLICES = 8 };

static uint32_t tables[SLICES][256];
static pthread_once_t made = PTHREAD_ONCE_INIT;

static void make_tables(void)
{
    const uint32_t polynomial = 0x82F63B78; /* reflected */
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t value = i;
        for (int bit = 0; bit < 8; bit++)
            value = value >> 1 ^ (value & 1 ? polynomial : 0);
        tables[0][i] = value;
    }
    for (uint32_t i = 0; i < 256; i++)
        for (int slice = 1; slice < SLICES; slice++)
            tables[slice][i] = tables[slice - 1][i] >> 8 ^ tables[0][tables[slice - 1][i] & 0xFF];
}

uint32_t crc32c(uint32_t before, const void *bytes, size_t count)
{
    pthread_once(&made, make_tables);
    const uint8_t *at = bytes;
    uint32_t crc = ~before;
    for (; count >= SLICES; count -= SLICES, at += SLICES)
        crc = tables[7][(crc ^ at[0]) & 0xFF] ^ tables[6][(crc >> 8 ^ at[1]) & 0xFF] ^
              tables[5][(crc >> 16 ^ at[2]) & 0xFF] ^ tables[4][crc >> 24 ^ at[3]] ^
              tables[3][at[4]] ^ tables[2][at[5]] ^ tables[1][at[6]] ^ tables[0][at[7]];
    for (; count > 0; count--, at++)
        crc = crc >> 8 ^ tables[0][(crc ^ *at) & 0xFF];
    return ~crc;
}
