/* Results with known samples and their recordings; recording_files.h describes them. */
#include "tests/support/recording_files.h"

#include <dirent.h>
#include <setjmp.h>
#include <sndfile.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/log.h"
#include "core/random.h"
#include "tests/support/scratch.h"

int recording_set_up(void **state)
{
    (void)state;
    log_set_level(LOG_LEVEL_ERROR);
    return 0;
}

int recording_clean(void **state)
{
    (void)state;
    scratch_clear();
    return 0;
}

float recording_value(uint64_t epoch, uint64_t frame, unsigned channel)
{
    struct random_state r = {epoch * 1000003 + frame * 2 + channel};
    return (float)((int)(random_u64(&r) >> 48) - 32768) / 32768.0f * 2.0f;
}

struct result recording_result(uint64_t epoch, uint64_t first, uint32_t frames)
{
    static float samples[400000 * RECORDING_CHANNELS];
    assert_true(frames * RECORDING_CHANNELS <= sizeof samples / sizeof samples[0]);
    for (uint32_t i = 0; i < frames; i++) {
        for (unsigned c = 0; c < RECORDING_CHANNELS; c++)
            samples[i * RECORDING_CHANNELS + c] = recording_value(epoch, first + i, c);
    }
    return (struct result){
        .epoch = epoch,
        .first_frame = first,
        .timeline_frame = first + epoch * 1000000,
        .frames = frames,
        .channels = RECORDING_CHANNELS,
        .samples = samples,
        .rate_hz = RECORDING_RATE,
        .capture_ns = RECORDING_ORIGIN_NS + (int64_t)first * 1000,
        .clock = CLOCK_SOURCE_RECEIVE,
        .clock_error_ns = 1500,
        .delay_frames = 31.5,
    };
}

struct recording_options *recording_own(const struct sink_options *options)
{
    return options->own;
}

struct sink_options recording_options(const char *name, const char *format)
{
    static const char *const units[RECORDING_CHANNELS] = {"V", "mV"};
    static struct recording_options own;
    own = (struct recording_options){.path = scratch_path(name), .container = "wav"};
    struct sink_options options = {
        .name = "rec",
        .stream = {.name = "vessel",
                   .rate_hz = RECORDING_RATE,
                   .channels = RECORDING_CHANNELS,
                   .units = units,
                   .delay_frames = 31.5,
                   .taps_longest = 64,
                   .taps_hash = "aa",
                   .config_hash = "bb",
                   .device = "cpu",
                   .driver = "1",
                   .loss_detectable = true},
        .full_scale = 2.0,
        .own = &own,
    };
    assert_int_equal(sample_format_parse(format, &options.format), 0);
    if (options.format.kind == SAMPLE_FLOAT)
        options.full_scale = 1.0;
    return options;
}

int recording_names(char names[][256], int capacity)
{
    struct dirent **entries;
    int found = scandir(scratch_folder(), &entries, NULL, alphasort), count = 0;
    assert_true(found >= 0);
    for (int i = 0; i < found; i++) {
        size_t length = strlen(entries[i]->d_name);
        bool sidecar = length > 5 && strcmp(entries[i]->d_name + length - 5, ".json") == 0;
        if (entries[i]->d_name[0] != '.' && !sidecar && count < capacity)
            snprintf(names[count++], 256, "%s", entries[i]->d_name);
        free(entries[i]);
    }
    free(entries);
    return count;
}

json_t *recording_sidecar(const char *name)
{
    char path[500];
    json_error_t error;
    snprintf(path, sizeof path, "%s/%s.json", scratch_folder(), name);
    json_t *root = json_load_file(path, 0, &error);
    if (root == NULL)
        fail_msg("%s: %s", path, error.text);
    return root;
}

json_int_t sidecar_integer(const json_t *root, const char *key)
{
    json_t *value = json_object_get(root, key);
    if (!json_is_integer(value))
        fail_msg("sidecar: no integer \"%s\"", key);
    return json_integer_value(value);
}

uint64_t expect_recorded(const char *name, uint64_t epoch, uint64_t first, double scale)
{
    json_t *root = recording_sidecar(name);
    assert_int_equal(sidecar_integer(root, "epoch"), epoch);
    assert_int_equal(sidecar_integer(root, "first_frame"), first);
    uint64_t frames = (uint64_t)sidecar_integer(root, "frames");
    json_decref(root);
    char path[400];
    snprintf(path, sizeof path, "%s/%s", scratch_folder(), name);
    SF_INFO info = {0};
    SNDFILE *file = sf_open(path, SFM_READ, &info);
    if (file == NULL)
        fail_msg("%s: %s", path, sf_strerror(NULL));
    assert_int_equal(info.samplerate, RECORDING_RATE);
    assert_int_equal(info.channels, RECORDING_CHANNELS);
    if ((uint64_t)info.frames < frames)
        fail_msg("%s holds %lld frames, its sidecar says %llu", name, (long long)info.frames,
                 (unsigned long long)frames);
    for (uint64_t n = 0; n < (uint64_t)info.frames; n++) {
        double values[RECORDING_CHANNELS];
        assert_int_equal(sf_readf_double(file, values, 1), 1);
        for (unsigned c = 0; c < RECORDING_CHANNELS; c++) {
            double want = (double)recording_value(epoch, first + n, c);
            if (values[c] * scale != want)
                fail_msg("%s, frame %llu, channel %u: %.9g, want %.9g", name,
                         (unsigned long long)(first + n), c, values[c] * scale, want);
        }
    }
    sf_close(file);
    return (uint64_t)info.frames;
}
