/*
 * Digests: SHA-256 (nettle) of texts and files in lower-case hexadecimal, which names
 * configurations, taps, kernels and shapes.
 *
 * Any thread; one owner per context.
 */
#ifndef CONVOLVD_CORE_DIGEST_H
#define CONVOLVD_CORE_DIGEST_H

#include <nettle/sha2.h>

enum { DIGEST_TEXT = 2 * SHA256_DIGEST_SIZE + 1 };

/* Adds a text with its final zero, so that "ab", "c" and "a", "bc" differ. */
void digest_text(struct sha256_ctx *sha, const char *text);

/* Writes the digest of everything added, terminated, and resets the context. */
void digest_finish(struct sha256_ctx *sha, char hex[DIGEST_TEXT]);

#endif
