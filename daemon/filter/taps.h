/*
 * Taps: the impulse response of one FIR filter, in double, with its declared delay and what that
 * rests on. Loaded from WAV, .npy or text (taps_file.c), or designed (design.c, replica.c, fk.c).
 * Immutable once made.
 *
 * Worker threads; nothing here runs on the loop.
 */
#ifndef CONVOLVD_FILTER_TAPS_H
#define CONVOLVD_FILTER_TAPS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/digest.h"
#include "core/error.h"

enum { TAPS_MAX = 1 << 20, TAPS_HASH_TEXT = DIGEST_TEXT };

/* Where delay_frames comes from. */
enum delay_source {
    DELAY_DESIGN,   /* known by construction */
    DELAY_CONFIG,   /* the user said so */
    DELAY_SYMMETRY, /* taps from a file found (anti)symmetric: (S-1)/2 */
    DELAY_ASSUMED,  /* none of these: 0, with a warning */
};

struct taps {
    uint32_t count;      /* S, 1…TAPS_MAX */
    double *re;          /* [count] */
    double *im;          /* [count], NULL for real taps */
    double delay_frames; /* output frame n answers input up to n; the wave is this much earlier */
    enum delay_source delay_source;
    double file_rate_hz;       /* the rate a WAV file names; 0: not from a file, or it names none */
    char hash[TAPS_HASH_TEXT]; /* SHA-256, hex: of the file, or of the taps (re then im, LE) */
    _Atomic uint32_t holders;  /* of taps_hold */
};

/* A taps object with zeroed taps. Returns 0 or ERROR_MEMORY / ERROR_ARGUMENT. */
int taps_create(uint32_t count, bool complex_taps, struct taps **out, struct problem *problem);
/* The taps stay until as many calls of taps_free as holders, and one more, have given them up. Any
 * thread. */
void taps_hold(const struct taps *taps);
void taps_free(struct taps *taps); /* NULL is fine */

/* Frees an array of taps as taps_load and filter_make return it; NULL is fine. */
void taps_sets_free(struct taps **sets, uint32_t count);

/* Sets hash from the taps' bytes. */
void taps_hash(struct taps *taps);

/* (S-1)/2 when the taps are symmetric or antisymmetric (complex: Hermitian too) within 1e-9 of the
 * largest, else -1. */
double taps_symmetry_delay(const struct taps *taps);

/*
 * Loads a file by its content type:
 *
 *   - WAV, W64, RF64, FLAC (libsndfile): one set of taps per channel of the file.
 *   - .npy (versions 1–3; float32/64, complex64/128, either byte order, C or Fortran order; shape
 *     (S) or (C, S)).
 *   - Text: one tap a line, `re` or `re im`; '#' starts a comment; blank lines are skipped.
 *
 * On success *sets is an array of *count taps (taps_sets_free). Every tap is finite. Errors name
 * file and line and say what to do. Hostile input safe (fuzzed).
 */
int taps_load(const char *path, struct taps ***sets, uint32_t *count, struct problem *problem);

/* The same from memory, for tests and fuzzing; `name` decides the type as a path would. */
int taps_load_memory(const char *name, const void *data, uint64_t bytes, struct taps ***sets,
                     uint32_t *count, struct problem *problem);

/*
 * Writes one or several sets of taps that have one length. The name decides: .npy (version 1.0,
 * little-endian float64 or complex128, shape (S) or (C, S)), anything else text (one set only; 17
 * digits, so that reading it back gives the same taps). `comment` (may be NULL) stands at the top
 * of text, each line after "# ".
 */
int taps_write(const char *path, struct taps *const *sets, uint32_t count, const char *comment,
               struct problem *problem);

#endif
