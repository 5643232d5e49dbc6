/*
 * Which device a configuration gets. PoCL lists the CPU twice here, as two devices; a seam makes
 * either of them fail to open, as a GPU does whose driver or memory is in trouble.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "config/config.h"
#include "pipeline/devices.h"
#include "pipeline/loops.h"
#include "tests/support/engine_seams.h"

static struct config *load(const char *device)
{
    char text[512];
    snprintf(text, sizeof text,
             "[device]\ndevice = %s\ninput memory = 1 MiB\nspectrum memory = 1 MiB\n"
             "state memory = 1 MiB\nbatch memory = 64 KiB\n"
             "[stream s]\nsource = generator\nrate = 48 kHz\nchannels = 1\nformat = f32le\n"
             "waveform = sine\nfrequency = 1 kHz\nfilter = f\n"
             "[filter f]\ntype = identity\n[sink o]\ntype = rtp\nstream = s\n"
             "address = 127.0.0.1:5006\n",
             device);
    struct config *config;
    struct config_errors errors = {0};
    if (config_load_text("test.conf", text, strlen(text), NULL, &config, &errors) != 0) {
        config_errors_print(&errors, stderr);
        fail_msg("the test's own configuration does not load");
    }
    config_errors_free(&errors);
    return config;
}

static void progress(void *context, uint32_t loop)
{
    (void)context;
    (void)loop;
}

static void each_word_gets_its_device(void **state)
{
    (void)state;
    static const struct {
        const char *device;
        uint32_t refused; /* bits */
        int expect;       /* index, or an error */
        const char *words;
    } table[] = {
        {"auto", 0, 0, NULL},
        {"auto", 1, 1, NULL}, /* the first does not open: the next */
        {"auto", 3, ERROR_DEVICE, "device 1 is refused"},
        {"1", 1, 1, NULL},
        {"cpu", 0, 0, NULL},
        {"cpu", 1, ERROR_DEVICE, "device 0 is refused"}, /* only auto chooses another */
        {"0", 1, ERROR_DEVICE, "device 0 is refused"},
    };
    uv_loop_t loop;
    struct loops *loops;
    assert_int_equal(uv_loop_init(&loop), 0);
    assert_int_equal(loops_open(&loop, 0, &loops, NULL), 0);
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        struct problem problem = {0};
        struct devices *devices;
        struct config *config = load(table[i].device);
        const struct devices_options options = {.loops = loops, .progress = progress};
        assert_int_equal(devices_open(&options, &devices, &problem), 0);
        engine_seams.refused_devices = table[i].refused;
        int error = devices_prepare(devices, config, &problem);
        struct placement *placement = NULL;
        struct plan *plan = NULL;
        double load = 0;
        if (error == 0)
            error = devices_place(devices, config, &config->streams[0], NULL, 0, NULL, &placement,
                                  &load, &plan, &problem);
        engine_seams.refused_devices = 0;
        const int got = placement != NULL ? placement->index : error;
        if (got != table[i].expect)
            fail_msg("case %zu: %d, %s", i, got, problem.text);
        if (table[i].words != NULL && strstr(problem.text, table[i].words) == NULL)
            fail_msg("case %zu: '%s' lacks '%s'", i, problem.text, table[i].words);
        assert_null(plan);
        devices_close(devices);
        uv_run(&loop, UV_RUN_DEFAULT);
        devices_free(devices);
        config_free(config);
    }
    loops_close(loops);
    assert_int_equal(uv_loop_close(&loop), 0);
}

int main(void)
{
    setenv("POCL_DEVICES", "pthread pthread", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_word_gets_its_device),
    };
    return cmocka_run_group_tests_name("devices", tests, NULL, NULL);
}
