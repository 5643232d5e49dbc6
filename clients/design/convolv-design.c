/*
 * convolv-design: draws a filter of a configuration, as the daemon would design it, to a PNG or SVG
 * file. The figures in words, and the taps, are convolvd --design's.
 */
#include <stdio.h>
#include <stdlib.h>

#include "clients/tools/options.h"
#include "config/config.h"
#include "core/descriptor.h"
#include "filter_plot.h"

static const char usage[] =
    "usage: convolv-design --config FILE --filter NAME --out FILE.png|.svg\n"
    "\n"
    "Draws a filter: magnitude and impulse response, or for a velocity "
    "filter its f-k plane.\n";

static struct {
    const char *config, *filter, *out;
} arguments = {.config = "/etc/convolvd/convolvd.conf"};

static const struct tool_option options[] = {
    {"config", TOOL_TEXT, DIMENSION_NUMBER, "FILE", &arguments.config, 0, 0,
     "/etc/convolvd/convolvd.conf",
     "The configuration; its streams give the rate and the channels."},
    {"filter", TOOL_TEXT, DIMENSION_NUMBER, "NAME", &arguments.filter, 0, 0, NULL,
     "The filter to draw, [filter NAME]."},
    {"out", TOOL_TEXT, DIMENSION_NUMBER, "FILE", &arguments.out, 0, 0, NULL,
     "Where to draw it: a name in .png or .svg."},
};

enum { OPTIONS = sizeof options / sizeof options[0] };

static int draw(struct problem *problem)
{
    if (arguments.filter == NULL || arguments.out == NULL)
        return problem_set(problem, ERROR_ARGUMENT, "give --filter NAME and --out FILE.png");
    struct config *config = NULL;
    struct config_errors errors = {0};
    int error = config_load(arguments.config, &config, &errors);
    config_errors_print(&errors, stderr);
    if (error < 0) {
        problem_set(problem, error, "%s cannot be used", arguments.config);
    } else {
        struct filter_spec spec;
        struct design_subject subject;
        error = design_subject_find(config, arguments.filter, &spec, &subject, problem);
        if (error == 0)
            error = filter_plot(&subject, arguments.out, problem);
    }
    config_errors_free(&errors);
    config_free(config);
    return error;
}

int main(int argc, char **argv)
{
    bool help = false, version = false;
    struct problem problem = {0};
    descriptor_open_standard();
    int error = tool_options_parse(options, OPTIONS, argc, argv, &help, &version, &problem);
    if (error == 0 && help) {
        tool_options_print_help(options, OPTIONS, usage);
        return EXIT_SUCCESS;
    }
    if (error == 0 && version) {
        puts("convolv-design " CONVOLVD_VERSION);
        return EXIT_SUCCESS;
    }
    if (error == 0)
        error = draw(&problem);
    if (error == 0)
        return EXIT_SUCCESS;
    fprintf(stderr, "convolv-design: %s\n", problem.text);
    return error == ERROR_ARGUMENT ? 2 : EXIT_FAILURE;
}
