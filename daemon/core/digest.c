/* Digests: see digest.h. */
#include "core/digest.h"

#include <nettle/base16.h>
#include <stdint.h>
#include <string.h>

void digest_text(struct sha256_ctx *sha, const char *text)
{
    sha256_update(sha, strlen(text) + 1, (const uint8_t *)text);
}

void digest_finish(struct sha256_ctx *sha, char hex[DIGEST_TEXT])
{
    uint8_t digest[SHA256_DIGEST_SIZE];
    sha256_digest(sha, sizeof digest, digest);
    base16_encode_update(hex, sizeof digest, digest);
    hex[DIGEST_TEXT - 1] = '\0';
}
