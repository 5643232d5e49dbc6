/*
 * Direct mode, without a card: for every format and map the callback's output is the convolution by
 * its definition, from the first frame on; filters that take more than half a period are refused
 * with the figures.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "core/random.h"
#include "io/sound/direct.h"
#include "signal/reference.h"

enum { PERIOD = 64, PERIODS = 40, FRAMES = PERIOD * PERIODS, CHANNELS = 3, TAPS = 150 };

struct given {
    const char *capture, *playback; /* formats */
    uint16_t map_in[CHANNELS], map_out[CHANNELS];
    uint32_t device_in, device_out;
    double full_scale_in, offset, full_scale_out;
    double within; /* of full scale */
};

struct rig {
    struct sound_request request;
    struct taps *taps[CHANNELS];
    struct edge edges[CHANNELS];
    struct channel_scale scales[CHANNELS];
    struct plan_spec plan;
};

static void make_rig(struct rig *rig, const struct given *given, uint32_t count)
{
    static const enum output_form outputs[CHANNELS] = {OUTPUT_REAL, OUTPUT_REAL, OUTPUT_REAL};
    struct random_state random = {11};
    memset(rig, 0, sizeof *rig);
    struct sound_side *in = &rig->request.capture, *out = &rig->request.playback;
    rig->request.rate_hz = 48000;
    in->channels = out->channels = CHANNELS;
    in->device_channels = given->device_in;
    out->device_channels = given->device_out;
    assert_int_equal(sample_format_parse(given->capture, &in->format), 0);
    assert_int_equal(sample_format_parse(given->playback, &out->format), 0);
    for (uint32_t c = 0; c < CHANNELS; c++) {
        in->map[c] = given->map_in[c];
        out->map[c] = given->map_out[c];
        rig->scales[c] =
            (struct channel_scale){.full_scale = given->full_scale_in, .offset = given->offset};
        assert_int_equal(taps_create(count, false, &rig->taps[c], NULL), 0);
        for (uint32_t k = 0; k < count; k++)
            rig->taps[c]->re[k] = random_normal(&random) / (double)count;
        rig->edges[c] = (struct edge){.input = (uint16_t)c,
                                      .output = (uint16_t)(CHANNELS - 1 - c),
                                      .taps = (uint16_t)c,
                                      .gain = 0.5F};
    }
    rig->plan = (struct plan_spec){
        .inputs = CHANNELS,
        .format = in->format,
        .scales = rig->scales,
        .taps = (const struct taps *const *)rig->taps,
        .taps_count = CHANNELS,
        .edges = rig->edges,
        .edge_count = CHANNELS,
        .outputs = outputs,
        .outputs_count = CHANNELS,
        .hop = PERIOD,
    };
}

static void free_rig(struct rig *rig)
{
    for (uint32_t c = 0; c < CHANNELS; c++)
        taps_free(rig->taps[c]);
}

static int make(struct rig *rig, double full_scale, struct sound_direct *direct,
                struct problem *problem)
{
    void *packed;
    size_t bytes;
    struct sound_direct_times times;
    assert_int_equal(sound_direct_pack(&rig->plan, full_scale, &packed, &bytes, problem), 0);
    int error = sound_direct_make(packed, bytes, &rig->request, PERIOD, direct, &times, problem);
    /* A truncated pack is refused; nothing is read past its end. */
    assert_int_equal(sound_direct_make(packed, bytes / 2, &rig->request, PERIOD,
                                       &(struct sound_direct){0}, &times, NULL),
                     ERROR_FORMAT);
    free(packed);
    return error;
}

static const struct given table[] = {
    {"f32le", "f32le", {0, 1, 2}, {0, 1, 2}, 3, 3, 1, 0, 1, 1e-6},
    {"f32le", "f32le", {4, 0, 2}, {1, 5, 3}, 6, 7, 1, 0, 1, 1e-6},
    {"s16le", "s24le", {2, 1, 0}, {0, 2, 1}, 3, 4, 10, 0.25, 5, 1e-6},
    {"s32le", "s16le", {0, 1, 3}, {2, 1, 0}, 4, 3, 1, 0, 1, 2e-5},
    {"u8", "s32le", {0, 1, 2}, {0, 1, 2}, 3, 3, 1, 0.1, 1, 1e-6},
};

static void test_definition(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        const struct given *given = &table[i];
        struct random_state random = {5};
        struct sound_direct direct = {0};
        struct problem problem = {0};
        struct rig rig;
        make_rig(&rig, given, TAPS);
        const struct sound_side *in = &rig.request.capture, *out = &rig.request.playback;
        const size_t in_bytes = (size_t)in->device_channels * in->format.bytes;
        const size_t out_bytes = (size_t)out->device_channels * out->format.bytes;
        uint8_t *input = calloc(FRAMES, in_bytes), *output = malloc(FRAMES * out_bytes);
        double *x = calloc(FRAMES, sizeof *x), *y = calloc(FRAMES + TAPS, sizeof *y);
        assert_true(input && output && x && y);
        memset(output, 0x55, FRAMES * out_bytes);
        for (size_t n = 0; n < (size_t)FRAMES * in->device_channels; n++)
            sample_encode(&in->format, 0.2 * random_normal(&random), input + n * in->format.bytes);
        if (make(&rig, given->full_scale_out, &direct, &problem) != 0)
            fail_msg("case %zu: %s", i, problem.text);
        for (uint32_t done = 0, frames; done < FRAMES; done += frames) {
            frames = done % 3 == 0 ? PERIOD : 17; /* periods that vary, too */
            frames = frames < FRAMES - done ? frames : FRAMES - done;
            direct.process(direct.context, input + done * in_bytes, output + done * out_bytes,
                           frames);
        }
        for (uint32_t c = 0; c < CHANNELS; c++) {
            for (uint32_t n = 0; n < FRAMES; n++)
                x[n] = sample_decode(&in->format,
                                     input + n * in_bytes + in->map[c] * in->format.bytes) *
                           given->full_scale_in -
                       given->offset;
            reference_convolve_direct(x, FRAMES, rig.taps[c]->re, TAPS, y);
            for (uint32_t n = 0; n < FRAMES; n++) {
                double got =
                    sample_decode(&out->format, output + n * out_bytes +
                                                    out->map[CHANNELS - 1 - c] * out->format.bytes);
                double want = 0.5 * y[n] / given->full_scale_out;
                if (fabs(got - want) > given->within)
                    fail_msg("case %zu, channel %u, frame %u: %g instead of %g", i, c, n, got,
                             want);
            }
        }
        for (uint32_t d = 0; d < out->device_channels; d++) { /* nobody's channels are silent */
            bool used = d == out->map[0] || d == out->map[1] || d == out->map[2];
            for (uint32_t n = 0; n < FRAMES && !used; n++)
                assert_true(sample_decode(&out->format,
                                          output + n * out_bytes + d * out->format.bytes) == 0);
        }
        sound_direct_free(&direct);
        free_rig(&rig);
        free(input), free(output), free(x), free(y);
    }
}

static void test_too_slow(void **state)
{
    (void)state;
    struct sound_direct direct = {0};
    struct problem problem = {0};
    struct rig rig;
    make_rig(&rig, &table[0], TAPS);
    rig.request.rate_hz = 1e12; /* a period of 64 ps */
    assert_int_equal(make(&rig, 1, &direct, &problem), ERROR_UNSUPPORTED);
    assert_non_null(strstr(problem.text, "3 channels with 150 taps take"));
    assert_non_null(strstr(problem.text, "mode = continuous"));
    assert_null(direct.process);
    sound_direct_free(&direct);
    free_rig(&rig);
}

/* Other filters while it runs: the old ones' results to the bit until the new one's history is
 * full, one period between them, then the new ones' of all input, also of that before the change.
 */
static void test_change(void **state)
{
    (void)state;
    enum { OFFERED = 5, SETTLED = OFFERED + (TAPS + PERIOD - 1) / PERIOD };
    struct random_state random = {6};
    struct sound_direct directs[3] = {0};
    struct problem problem = {0};
    struct rig rig, other;
    float x[FRAMES][CHANNELS], y[3][FRAMES][CHANNELS];
    make_rig(&rig, &table[0], TAPS);
    make_rig(&other, &table[0], TAPS);
    for (uint32_t c = 0; c < CHANNELS; c++)
        for (uint32_t k = 0; k < TAPS; k++)
            other.taps[c]->re[k] = random_normal(&random) / TAPS;
    for (uint32_t n = 0; n < FRAMES; n++)
        for (uint32_t c = 0; c < CHANNELS; c++)
            x[n][c] = (float)random_normal(&random);
    if (make(&rig, 1, &directs[0], &problem) != 0 || make(&rig, 1, &directs[1], &problem) != 0 ||
        make(&other, 1, &directs[2], &problem) != 0)
        fail_msg("%s", problem.text);
    struct sound_direct next = {0};
    assert_int_equal(make(&other, 1, &next, &problem), 0);
    for (uint32_t p = 0; p < PERIODS; p++) {
        if (p == OFFERED) {
            assert_true(sound_direct_settled(&directs[0]));
            sound_direct_offer(&directs[0], &next);
            assert_null(next.context);
        }
        for (int d = 0; d < 3; d++)
            directs[d].process(directs[d].context, x[p * PERIOD], y[d][p * PERIOD], PERIOD);
        assert_int_equal(sound_direct_settled(&directs[0]), p < OFFERED || p >= SETTLED);
    }
    assert_memory_equal(y[0], y[1], SETTLED * PERIOD * sizeof y[0][0]);
    assert_memory_equal(y[0][(SETTLED + 1) * PERIOD - 1], y[2][(SETTLED + 1) * PERIOD - 1],
                        sizeof y[0][0]);
    for (uint32_t n = SETTLED * PERIOD; n < FRAMES; n++)
        for (uint32_t c = 0; c < CHANNELS; c++) {
            const double share = fmin(1, (double)(n - SETTLED * PERIOD + 1) / PERIOD);
            const double want = (double)y[1][n][c] * (1 - share) + (double)y[2][n][c] * share;
            if (fabs((double)y[0][n][c] - want) > 1e-6)
                fail_msg("frame %u, channel %u: %g instead of %g", n, c, (double)y[0][n][c], want);
        }
    for (int d = 0; d < 3; d++)
        sound_direct_free(&directs[d]);
    /* a convolver that was offered and never used is freed too */
    assert_int_equal(make(&rig, 1, &directs[0], &problem), 0);
    assert_int_equal(make(&other, 1, &next, &problem), 0);
    sound_direct_offer(&directs[0], &next);
    sound_direct_free(&directs[0]);
    free_rig(&rig);
    free_rig(&other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_definition),
        cmocka_unit_test(test_too_slow),
        cmocka_unit_test(test_change),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
