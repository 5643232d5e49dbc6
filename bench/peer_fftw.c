/*
 * FFTW as the peer, see peer.h.
 *
 * A thread has either a share of the channels, or, when there are fewer channels than threads, a
 * share of the blocks (and then computes the tails of the block before its share once more).
 * Channels go in groups of 16; a group's filter spectra stay in the cache from block to block.
 */
#include "peer.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "team.h"
#include "transpose.h"

static const char *const names[PEER_METHODS] = {
    [PEER_OVERLAP_ADD] = "FFTW overlap-add",
    [PEER_OVERLAP_SAVE] = "FFTW overlap-save",
    [PEER_NEGACYCLIC] = "FFTW negacyclic",
};

const char *peer_name(enum peer_method method)
{
    return names[method];
}

#ifndef BENCH_FFTW

int peer_open(const struct peer_shape *shape, struct peer **out, struct problem *problem)
{
    (void)shape;
    *out = NULL;
    return problem_set(problem, ERROR_UNSUPPORTED,
                       "built without FFTW: install libfftw3-dev and build again to compare");
}

void peer_close(struct peer *peer)
{
    (void)peer;
}

void peer_run(struct peer *peer, enum peer_method method, uint64_t position, uint32_t blocks,
              float *output)
{
    (void)peer;
    (void)method;
    (void)position;
    (void)blocks;
    (void)output;
}

#else

#include <math.h>
#include <stdbool.h>

#include <fftw3.h>

enum { GROUP = 16, LOG_FFT_MAX = 24 };

/* What one thread works in. */
struct desk {
    float *frames;           /* [GROUP][N], one plane a channel */
    float *result;           /* [GROUP][N] */
    float *tails;            /* [GROUP][L], between a share's first blocks */
    fftwf_complex *product;  /* [N/2 + 1] */
    fftwf_complex *weighted; /* [N/2]: the window times the weights */
};

struct peer {
    struct peer_shape shape;
    uint32_t bins;
    fftwf_plan forward, inverse, turned_forward, turned_inverse;
    float *spectra;     /* [channels][bins] interleaved, 1/N folded in */
    float *weighted;    /* [channels][N/2] interleaved, the same for the weighted DFT */
    float *turn;        /* [N/2] interleaved: exp(i pi n / N) */
    float *tails[2];    /* [channels][L]: those of the last call, and those being made */
    uint32_t tails_now; /* which of them the next call reads */
    uint64_t tails_position;
    struct team *team;
    struct desk *desks; /* [threads] */
    /* the run in progress */
    enum peer_method method;
    uint64_t position;
    uint32_t blocks;
    float *output;
    bool tails_valid;
};

/* Plans are made once a size: they hold for every aligned array. */
static struct plans {
    fftwf_plan forward, inverse, turned_forward, turned_inverse;
} plans[LOG_FFT_MAX + 1];

static const struct plans *plans_for(uint32_t fft)
{
    uint32_t log = 0;
    while ((1u << log) < fft)
        log++;
    struct plans *entry = &plans[log];
    if (entry->forward != NULL)
        return entry;
    float *time = fftwf_alloc_real(fft);
    fftwf_complex *spectrum = fftwf_alloc_complex(fft / 2 + 1);
    fftwf_complex *weighted = fftwf_alloc_complex(fft / 2);
    if (time != NULL && spectrum != NULL && weighted != NULL) {
        entry->forward =
            fftwf_plan_dft_r2c_1d((int)fft, time, spectrum, FFTW_MEASURE | FFTW_PRESERVE_INPUT);
        entry->inverse = fftwf_plan_dft_c2r_1d((int)fft, spectrum, time, FFTW_MEASURE);
        entry->turned_forward =
            fftwf_plan_dft_1d((int)fft / 2, weighted, spectrum, FFTW_BACKWARD, FFTW_MEASURE);
        entry->turned_inverse =
            fftwf_plan_dft_1d((int)fft / 2, spectrum, weighted, FFTW_FORWARD, FFTW_MEASURE);
    }
    fftwf_free(time);
    fftwf_free(spectrum);
    fftwf_free(weighted);
    return entry->forward != NULL && entry->inverse != NULL && entry->turned_forward != NULL &&
                   entry->turned_inverse != NULL
               ? entry
               : NULL;
}

/* ---- frames in and out ------------------------------------------------------------------- */

static inline float code_f32le(const void *sample)
{
    float value;
    memcpy(&value, sample, sizeof value);
    return value;
}

static inline float code_f32be(const void *sample)
{
    uint32_t word;
    float value;
    memcpy(&word, sample, sizeof word);
    word = __builtin_bswap32(word);
    memcpy(&value, &word, sizeof value);
    return value;
}

static inline float code_s16le(const void *sample)
{
    uint16_t word;
    memcpy(&word, sample, sizeof word);
    return (float)(int16_t)word;
}

static inline float code_s16be(const void *sample)
{
    uint16_t word;
    memcpy(&word, sample, sizeof word);
    return (float)(int16_t)__builtin_bswap16(word);
}

/*
 * L frames of `width` channels into planes; `first` is the first frame's first sample. One function
 * for each sample format, so that the loops hold nothing but the conversion.
 */
#define GATHER(name, bytes)                                                                        \
    static void gather_##name(const uint8_t *first, size_t frame_bytes, uint32_t frames,           \
                              uint32_t width, float scale, float *planes, size_t plane_floats)     \
    {                                                                                              \
        uint32_t n = 0;                                                                            \
        for (; width == GROUP && n + 16 <= frames; n += 16) {                                      \
            lanes16 rows[16];                                                                      \
            for (uint32_t i = 0; i < 16; i++) {                                                    \
                float lane[16];                                                                    \
                const uint8_t *frame = first + (n + i) * frame_bytes;                              \
                for (uint32_t c = 0; c < 16; c++)                                                  \
                    lane[c] = code_##name(frame + c * (bytes)) * scale;                            \
                memcpy(&rows[i], lane, sizeof lane);                                               \
            }                                                                                      \
            transpose16(rows);                                                                     \
            for (uint32_t c = 0; c < 16; c++)                                                      \
                memcpy(planes + c * plane_floats + n, &rows[c], sizeof rows[c]);                   \
        }                                                                                          \
        for (uint32_t c = 0; c < width; c++)                                                       \
            for (uint32_t i = n; i < frames; i++)                                                  \
                planes[c * plane_floats + i] =                                                     \
                    code_##name(first + i * frame_bytes + c * (bytes)) * scale;                    \
    }

GATHER(f32le, 4)
GATHER(f32be, 4)
GATHER(s16le, 2)
GATHER(s16be, 2)

static void gather(const struct peer *peer, uint64_t position, uint32_t channel, uint32_t width,
                   float *planes)
{
    const struct peer_shape *shape = &peer->shape;
    const struct ring *ring = shape->ring;
    const uint8_t *frame = ring->bytes + (position & (ring->frames - 1)) * ring->frame_bytes;
    const bool real = shape->sample == PEER_F32LE || shape->sample == PEER_F32BE;
    const size_t sample_bytes = real ? 4 : 2;
    const float scale = real ? shape->scale : shape->scale / 32768.0f;
    frame += channel * sample_bytes;
    switch (shape->sample) {
    case PEER_F32LE:
        gather_f32le(frame, ring->frame_bytes, shape->hop, width, scale, planes, shape->fft);
        break;
    case PEER_F32BE:
        gather_f32be(frame, ring->frame_bytes, shape->hop, width, scale, planes, shape->fft);
        break;
    case PEER_S16LE:
        gather_s16le(frame, ring->frame_bytes, shape->hop, width, scale, planes, shape->fft);
        break;
    case PEER_S16BE:
        gather_s16be(frame, ring->frame_bytes, shape->hop, width, scale, planes, shape->fft);
        break;
    }
}

static void scatter(const struct peer *peer, const float *planes, uint32_t width, float *output)
{
    const uint32_t frames = peer->shape.hop, channels = peer->shape.channels;
    const size_t plane_floats = peer->shape.fft;
    uint32_t n = 0;
    for (; width == GROUP && n + 16 <= frames; n += 16) {
        lanes16 rows[16];
        for (uint32_t c = 0; c < 16; c++)
            memcpy(&rows[c], planes + c * plane_floats + n, sizeof rows[c]);
        transpose16(rows);
        for (uint32_t i = 0; i < 16; i++)
            memcpy(output + (size_t)(n + i) * channels, &rows[i], sizeof rows[i]);
    }
    for (uint32_t c = 0; c < width; c++)
        for (uint32_t i = n; i < frames; i++)
            output[(size_t)i * channels + c] = planes[c * plane_floats + i];
}

/* ---- one block of one channel ------------------------------------------------------------ */

/* FFTW leaves the product to its users. */
static void multiply(float *restrict a, const float *restrict h, uint32_t bins)
{
    for (uint32_t k = 0; k < bins; k++) {
        const float re = a[2 * k] * h[2 * k] - a[2 * k + 1] * h[2 * k + 1];
        const float im = a[2 * k] * h[2 * k + 1] + a[2 * k + 1] * h[2 * k];
        a[2 * k] = re;
        a[2 * k + 1] = im;
    }
}

static void convolve(const struct peer *peer, struct desk *desk, uint32_t channel, uint32_t place)
{
    const size_t plane = (size_t)place * peer->shape.fft;
    fftwf_execute_dft_r2c(peer->forward, desk->frames + plane, desk->product);
    multiply((float *)desk->product, peer->spectra + (size_t)channel * peer->bins * 2, peer->bins);
    fftwf_execute_dft_c2r(peer->inverse, desk->product, desk->result + plane);
}

/* First half and second half of `time` as re and im, weighted. */
static void turn_window(const struct peer *peer, const float *restrict time,
                        float *restrict weighted)
{
    const uint32_t q = peer->shape.fft / 2;
    const float *restrict w = peer->turn, *restrict late = time + q;
    for (uint32_t n = 0; n < q; n++) {
        weighted[2 * n] = time[n] * w[2 * n] - late[n] * w[2 * n + 1];
        weighted[2 * n + 1] = time[n] * w[2 * n + 1] + late[n] * w[2 * n];
    }
}

/* The same window by complex transforms of half the length on the roots of u^(N/2) = i; only the
 * second half of the result is wanted. */
static void convolve_turned(const struct peer *peer, struct desk *desk, uint32_t channel,
                            uint32_t place)
{
    const uint32_t q = peer->shape.fft / 2;
    const size_t plane = (size_t)place * peer->shape.fft;
    turn_window(peer, desk->frames + plane, (float *)desk->weighted);
    fftwf_execute_dft(peer->turned_forward, desk->weighted, desk->product);
    multiply((float *)desk->product, peer->weighted + (size_t)channel * q * 2, q);
    fftwf_execute_dft(peer->turned_inverse, desk->product, desk->weighted);
    float *restrict late = desk->result + plane + q;
    const float *restrict w = peer->turn, *restrict z = (const float *)desk->weighted;
    for (uint32_t n = 0; n < q; n++)
        late[n] = z[2 * n + 1] * w[2 * n] - z[2 * n] * w[2 * n + 1];
}

/* The tails that the block at `position` leaves. */
static void make_tails(const struct peer *peer, struct desk *desk, uint64_t position,
                       uint32_t channel, uint32_t width)
{
    const uint32_t fft = peer->shape.fft, hop = peer->shape.hop;
    gather(peer, position, channel, width, desk->frames);
    for (uint32_t c = 0; c < width; c++) {
        convolve(peer, desk, channel + c, c);
        memcpy(desk->tails + (size_t)c * hop, desk->result + (size_t)c * fft + hop,
               hop * sizeof(float));
    }
}

static void overlap_add(struct peer *peer, struct desk *desk, uint32_t channel, uint32_t width,
                        uint32_t from, uint32_t until)
{
    const uint32_t fft = peer->shape.fft, hop = peer->shape.hop;
    for (uint32_t c = 0; c < width; c++)
        memset(desk->frames + (size_t)c * fft + hop, 0, hop * sizeof(float));
    if (from == 0 && peer->tails_valid)
        memcpy(desk->tails, peer->tails[peer->tails_now] + (size_t)channel * hop,
               (size_t)width * hop * sizeof(float));
    else
        make_tails(peer, desk, peer->position + (uint64_t)from * hop - hop, channel, width);
    for (uint32_t j = from; j < until; j++) {
        gather(peer, peer->position + (uint64_t)j * hop, channel, width, desk->frames);
        for (uint32_t c = 0; c < width; c++) {
            convolve(peer, desk, channel + c, c);
            float *restrict head = desk->result + (size_t)c * fft;
            float *restrict tail = desk->tails + (size_t)c * hop;
            for (uint32_t i = 0; i < hop; i++) {
                head[i] += tail[i];
                tail[i] = head[hop + i];
            }
        }
        scatter(peer, desk->result, width,
                peer->output + (size_t)j * hop * peer->shape.channels + channel);
    }
    if (until == peer->blocks)
        memcpy(peer->tails[!peer->tails_now] + (size_t)channel * hop, desk->tails,
               (size_t)width * hop * sizeof(float));
}

static void overlap_save(struct peer *peer, struct desk *desk, uint32_t channel, uint32_t width,
                         uint32_t from, uint32_t until)
{
    const bool weighted = peer->method == PEER_NEGACYCLIC;
    const uint32_t fft = peer->shape.fft, hop = peer->shape.hop;
    gather(peer, peer->position + (uint64_t)from * hop - hop, channel, width, desk->frames);
    for (uint32_t j = from; j < until; j++) {
        gather(peer, peer->position + (uint64_t)j * hop, channel, width, desk->frames + hop);
        for (uint32_t c = 0; c < width; c++) {
            (weighted ? convolve_turned : convolve)(peer, desk, channel + c, c);
            float *window = desk->frames + (size_t)c * fft;
            memcpy(window, window + hop, hop * sizeof(float));
        }
        scatter(peer, desk->result + hop, width,
                peer->output + (size_t)j * hop * peer->shape.channels + channel);
    }
}

static void share(void *context, uint32_t member)
{
    struct peer *peer = context;
    const uint32_t channels = peer->shape.channels, threads = peer->shape.threads;
    const bool by_channel = channels >= threads;
    const uint32_t all = by_channel ? channels : peer->blocks;
    const uint32_t from = (uint32_t)((uint64_t)all * member / threads);
    const uint32_t until = (uint32_t)((uint64_t)all * (member + 1) / threads);
    const uint32_t channel_from = by_channel ? from : 0,
                   channel_until = by_channel ? until : channels;
    const uint32_t block_from = by_channel ? 0 : from,
                   block_until = by_channel ? peer->blocks : until;
    if (from == until)
        return;
    for (uint32_t c = channel_from; c < channel_until; c += GROUP) {
        const uint32_t width = channel_until - c < GROUP ? channel_until - c : GROUP;
        if (peer->method == PEER_OVERLAP_ADD)
            overlap_add(peer, &peer->desks[member], c, width, block_from, block_until);
        else
            overlap_save(peer, &peer->desks[member], c, width, block_from, block_until);
    }
}

void peer_run(struct peer *peer, enum peer_method method, uint64_t position, uint32_t blocks,
              float *output)
{
    assert(blocks <= peer->shape.blocks_max && position % peer->shape.hop == 0);
    peer->method = method;
    peer->position = position;
    peer->blocks = blocks;
    peer->output = output;
    peer->tails_valid = method == PEER_OVERLAP_ADD && peer->tails_position == position;
    team_run(peer->team, share, peer);
    if (method == PEER_OVERLAP_ADD) {
        peer->tails_now = !peer->tails_now;
        peer->tails_position = position + (uint64_t)blocks * peer->shape.hop;
    }
}

/* ---- open and close ---------------------------------------------------------------------- */

static void make_spectra(struct peer *peer)
{
    const struct peer_shape *shape = &peer->shape;
    float *time = peer->desks[0].frames;
    for (uint32_t c = 0; c < shape->channels; c++) {
        float *spectrum = peer->spectra + (size_t)c * peer->bins * 2;
        memset(time, 0, shape->fft * sizeof(float));
        memcpy(time, shape->taps[c], shape->taps_count * sizeof(float));
        fftwf_execute_dft_r2c(peer->forward, time, peer->desks[0].product);
        memcpy(spectrum, peer->desks[0].product, peer->bins * 2 * sizeof(float));
        for (uint32_t i = 0; i < 2 * peer->bins; i++)
            spectrum[i] /= (float)shape->fft;
        const uint32_t q = shape->fft / 2;
        float *weighted = peer->weighted + (size_t)c * q * 2;
        turn_window(peer, time, (float *)peer->desks[0].weighted);
        fftwf_execute_dft(peer->turned_forward, peer->desks[0].weighted, peer->desks[0].product);
        for (uint32_t i = 0; i < 2 * q; i++)
            weighted[i] = ((const float *)peer->desks[0].product)[i] / (float)q;
    }
}

static bool desk_open(struct desk *desk, const struct peer_shape *shape)
{
    desk->frames = fftwf_alloc_real((size_t)GROUP * shape->fft);
    desk->result = fftwf_alloc_real((size_t)GROUP * shape->fft);
    desk->tails = fftwf_alloc_real((size_t)GROUP * shape->hop);
    desk->product = fftwf_alloc_complex(shape->fft / 2 + 1);
    desk->weighted = fftwf_alloc_complex(shape->fft / 2);
    return desk->weighted != NULL && desk->frames != NULL && desk->result != NULL &&
           desk->tails != NULL && desk->product != NULL;
}

int peer_open(const struct peer_shape *shape, struct peer **out, struct problem *problem)
{
    assert(shape->hop * 2 == shape->fft && shape->taps_count <= shape->hop + 1 &&
           shape->ring->frames % shape->hop == 0);
    *out = NULL;
    const struct plans *made = plans_for(shape->fft);
    struct peer *peer = calloc(1, sizeof *peer);
    if (made == NULL || peer == NULL)
        goto no_memory;
    const size_t tail_floats = (size_t)shape->channels * shape->hop;
    peer->shape = *shape;
    peer->bins = shape->fft / 2 + 1;
    peer->forward = made->forward;
    peer->inverse = made->inverse;
    peer->turned_forward = made->turned_forward;
    peer->turned_inverse = made->turned_inverse;
    peer->tails_position = UINT64_MAX;
    peer->spectra = fftwf_alloc_real((size_t)shape->channels * peer->bins * 2);
    peer->weighted = fftwf_alloc_real((size_t)shape->channels * shape->fft);
    peer->turn = fftwf_alloc_real(shape->fft);
    peer->tails[0] = fftwf_alloc_real(tail_floats);
    peer->tails[1] = fftwf_alloc_real(tail_floats);
    peer->desks = calloc(shape->threads, sizeof *peer->desks);
    peer->team = team_open(shape->threads);
    if (peer->spectra == NULL || peer->weighted == NULL || peer->turn == NULL ||
        peer->tails[0] == NULL || peer->tails[1] == NULL || peer->desks == NULL ||
        peer->team == NULL)
        goto no_memory;
    for (uint32_t t = 0; t < shape->threads; t++)
        if (!desk_open(&peer->desks[t], shape))
            goto no_memory;
    for (uint32_t n = 0; n < shape->fft / 2; n++) {
        peer->turn[2 * n] = (float)cos(M_PI * n / shape->fft);
        peer->turn[2 * n + 1] = (float)sin(M_PI * n / shape->fft);
    }
    make_spectra(peer);
    *out = peer;
    return 0;

no_memory:
    peer_close(peer);
    return problem_set(problem, ERROR_MEMORY, "out of memory for FFTW at %u points", shape->fft);
}

void peer_close(struct peer *peer)
{
    if (peer == NULL)
        return;
    team_close(peer->team);
    for (uint32_t t = 0; peer->desks != NULL && t < peer->shape.threads; t++) {
        fftwf_free(peer->desks[t].frames);
        fftwf_free(peer->desks[t].result);
        fftwf_free(peer->desks[t].tails);
        fftwf_free(peer->desks[t].product);
        fftwf_free(peer->desks[t].weighted);
    }
    free(peer->desks);
    fftwf_free(peer->spectra);
    fftwf_free(peer->weighted);
    fftwf_free(peer->turn);
    fftwf_free(peer->tails[0]);
    fftwf_free(peer->tails[1]);
    free(peer);
}

#endif
