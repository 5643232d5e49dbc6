/*
 * CRC-32C (Castagnoli; RFC 3720, appendix B.4): detects damage to a stored or handed-over record.
 * It is no defence against one who forges it.
 *
 * Pure function, any thread.
 */
#ifndef CONVOLVD_WIRE_CRC32C_H
#define CONVOLVD_WIRE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* The checksum of what `before` is the checksum of (0: nothing), followed by these bytes. */
uint32_t crc32c(uint32_t before, const void *bytes, size_t count);

#endif
