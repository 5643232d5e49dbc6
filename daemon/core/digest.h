/*
 * SHA-256 (nettle) of texts and files as the project writes it: lower-case hexadecimal. Names
 * configurations, taps, kernels and shapes.
 *
 * Any thread; one owner per context.
 */
#ifndef CONVOLVD_CORE_DIGEST_H
#define CONVOLVD_CORE_DIGEST_H

#include <nettle/sha2.h>

enum { DIGEST_TEXT = 2 * SHA256_DIGEST_SIZE + 1 };

/* A text with its final zero, so that "ab", "c" and "a", "bc" differ. */
void digest_text(struct sha256_ctx *sha, const char *text);

/* What was put in so far, terminated; the context begins anew. */
void digest_finish(struct sha256_ctx *sha, char hex[DIGEST_TEXT]);

#endif
