/*
 * convolv-design's plots: each kind of filter as PNG and SVG. A plot is not compared pixel by
 * pixel; the test reads what it must show: the size of the PNG, curves in their colour, the colours
 * of the f-k plane, and the errors for names and places that cannot be written.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cairo.h>
#include <cmocka.h>

#include "clients/design/filter_plot.h"
#include "clients/design/plot.h"
#include "config/config.h"
#include "tests/support/scratch.h"

static const char config_text[] = "[stream ae]\n"
                                  "source = rtp\n"
                                  "address = 127.0.0.1:5004\n"
                                  "rate = 500 kHz\n"
                                  "channels = 20\n"
                                  "format = s16be\n"
                                  "full scale = 10 V\n"
                                  "filter = bp\n"
                                  "[sink out]\n"
                                  "type = rtp\n"
                                  "stream = ae\n"
                                  "address = 127.0.0.1:5006\n"
                                  "[filter bp]\n"
                                  "type = bandpass\n"
                                  "low = 95 kHz\n"
                                  "high = 150 kHz\n"
                                  "transition = 10 kHz\n"
                                  "attenuation = 60 dB\n"
                                  "[filter analytic]\n"
                                  "type = bandpass\n"
                                  "low = 95 kHz\n"
                                  "high = 150 kHz\n"
                                  "transition = 10 kHz\n"
                                  "analytic = yes\n"
                                  "[stream array]\n"
                                  "source = rtp\n"
                                  "address = 127.0.0.1:5008\n"
                                  "rate = 500 kHz\n"
                                  "channels = 20\n"
                                  "format = s16be\n"
                                  "filter = fan\n"
                                  "[sink array-out]\n"
                                  "type = rtp\n"
                                  "stream = array\n"
                                  "address = 127.0.0.1:5010\n"
                                  "[filter fan]\n"
                                  "type = fk\n"
                                  "taps = 65\n"
                                  "spacing = 5 mm\n"
                                  "low = 40 kHz\n"
                                  "high = 150 kHz\n"
                                  "velocity low = 1600 m/s\n"
                                  "velocity high = 5000 m/s\n";

static struct config *load(void)
{
    struct config *config;
    struct config_errors errors = {0};
    if (config_load_text("test.conf", config_text, strlen(config_text), NULL, &config, &errors)) {
        config_errors_print(&errors, stderr);
        fail_msg("the test's own configuration does not load");
    }
    config_errors_free(&errors);
    return config;
}

static int draw(const char *filter, const char *path, struct problem *problem)
{
    struct config *config = load();
    struct filter_spec spec;
    struct design_subject subject;
    int error = design_subject_find(config, filter, &spec, &subject, problem);
    if (error == 0)
        error = filter_plot(&subject, path, problem);
    config_free(config);
    return error;
}

static bool near(uint32_t pixel, struct plot_colour colour)
{
    const double parts[] = {colour.r, colour.g, colour.b};
    for (int i = 0; i < 3; i++) {
        const int have = (int)(pixel >> (16 - 8 * i) & 0xff);
        if (abs(have - (int)(255 * parts[i] + 0.5)) > 2)
            return false;
    }
    return true;
}

/* Pixels of that colour in rows [from, until). */
static unsigned count_pixels(cairo_surface_t *image, struct plot_colour colour, int from, int until)
{
    unsigned count = 0;
    const unsigned char *data = cairo_image_surface_get_data(image);
    const int stride = cairo_image_surface_get_stride(image);
    for (int y = from; y < until; y++)
        for (int x = 0; x < PLOT_WIDTH; x++) {
            uint32_t pixel;
            memcpy(&pixel, data + (size_t)y * (size_t)stride + 4 * (size_t)x, sizeof pixel);
            count += near(pixel, colour);
        }
    return count;
}

static cairo_surface_t *drawn(const char *filter, const char *name)
{
    struct problem problem = {0};
    const char *path = scratch_path(name);
    if (draw(filter, path, &problem) != 0)
        fail_msg("%s", problem.text);
    cairo_surface_t *image = cairo_image_surface_create_from_png(path);
    assert_int_equal(cairo_surface_status(image), CAIRO_STATUS_SUCCESS);
    assert_int_equal(cairo_image_surface_get_width(image), PLOT_WIDTH);
    assert_int_equal(cairo_image_surface_get_height(image), PLOT_HEIGHT);
    return image;
}

static void a_filter_shows_magnitude_and_impulse_response(void **state)
{
    (void)state;
    enum { MIDDLE = 460 };
    static const struct {
        const char *filter;
        bool imaginary;
    } table[] = {{"bp", false}, {"analytic", true}};
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        cairo_surface_t *image = drawn(table[i].filter, "filter.png");
        assert_true(count_pixels(image, plot_blue, 0, MIDDLE) > 200);
        assert_true(count_pixels(image, plot_blue, MIDDLE, PLOT_HEIGHT) > 200);
        assert_int_equal(count_pixels(image, plot_orange, MIDDLE, PLOT_HEIGHT) > 200,
                         table[i].imaginary);
        cairo_surface_destroy(image);
    }
}

/* Full level in the fan is pale yellow, the stop-band dark blue. */
static void an_array_shows_its_fan(void **state)
{
    (void)state;
    cairo_surface_t *image = drawn("fan", "fan.png");
    assert_true(count_pixels(image, (struct plot_colour){0.99, 0.96, 0.66}, 0, PLOT_HEIGHT) > 1000);
    assert_true(count_pixels(image, (struct plot_colour){0.16, 0.09, 0.32}, 0, PLOT_HEIGHT) > 1000);
    cairo_surface_destroy(image);
}

static void svg_is_text(void **state)
{
    (void)state;
    static const char *const filters[] = {"bp", "fan"};
    for (int i = 0; i < 2; i++) {
        struct problem problem = {0};
        const char *path = scratch_path("plot.svg");
        assert_int_equal(draw(filters[i], path, &problem), 0);
        char head[6] = "";
        FILE *file = fopen(path, "rb");
        assert_non_null(file);
        assert_int_equal(fread(head, 1, 5, file), 5);
        fclose(file);
        assert_string_equal(head, "<?xml");
    }
}

static void what_cannot_be_drawn_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *filter, *out;
        int error;
        const char *words;
    } table[] = {
        {"none", "x.png", ERROR_CONFIG, "bp, analytic, fan"},
        {"bp", "taps.npy", ERROR_ARGUMENT, "convolvd --design writes taps"},
        {"bp", ".png", ERROR_ARGUMENT, ".svg"},
        {"bp", "/nowhere/at/all.png", ERROR_SYSTEM, "/nowhere/at/all.png"},
        /* not the array's: cairo leaks what is left of a picture with an image */
        {"bp", "/nowhere/at/all.svg", ERROR_SYSTEM, "/nowhere/at/all.svg"},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        struct problem problem = {0};
        assert_int_equal(draw(table[i].filter, table[i].out, &problem), table[i].error);
        if (strstr(problem.text, table[i].words) == NULL)
            fail_msg("'%s' lacks '%s'", problem.text, table[i].words);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_filter_shows_magnitude_and_impulse_response),
        cmocka_unit_test(an_array_shows_its_fan),
        cmocka_unit_test(svg_is_text),
        cmocka_unit_test(what_cannot_be_drawn_is_refused),
    };
    return cmocka_run_group_tests_name("filter plots", tests, NULL, NULL);
}
