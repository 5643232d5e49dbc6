/* The commands: see commands.h. One function each, in a table indexed by enum command. */
#include "cli/commands.h"

#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <sysexits.h>
#include <unistd.h>

#include "convolve/engine.h"
#include "core/clock.h"
#include "core/log.h"
#include "io/recording/repair_copy.h"
#include "io/sound/devices.h"
#include "pipeline/takeover.h"
#include "report/check.h"
#include "report/sandbox.h"
#include "report/tuning.h"
#include "config/config.h"
#include "control/client.h"
#include "control/command_table.h"
#include "report/design.h"
#include "pipeline/loopback.h"
#include "service/service.h"
#include "control/osc_table.h"

static const char default_config[] = "/etc/convolvd/convolvd.conf";

static int fail(const struct problem *problem)
{
    log_error("%s", problem->text);
    return EXIT_FAILURE;
}

/* Prints and frees the messages. A failure that left none (out of memory) gets a line of its own.
 */
static void print_errors(struct config_errors *errors, int error, const char *path)
{
    fflush(stdout);
    config_errors_print(errors, stderr);
    if (error < 0 && errors->errors == 0)
        log_error("%s: %s", path, error_sentence(error));
    config_errors_free(errors);
}

struct config *command_config(const struct arguments *arguments)
{
    const char *path = arguments->config_path != NULL ? arguments->config_path : default_config;
    if (arguments->config_path == NULL && access(path, F_OK) != 0) {
        log_error("no configuration: there is no %s; write convolvd --config FILE (convolvd "
                  "--help-config explains what to put into it)",
                  default_config);
        return NULL;
    }
    struct config_errors errors = {0};
    struct config *config = NULL;
    int error = config_load(path, &config, &errors);
    print_errors(&errors, error, path);
    return error == 0 ? config : NULL;
}

/* What is at least this large goes back to the system when it is freed. By itself the C library
 * raises this limit up to 32 MiB, and a start with long filters keeps several times their size. */
enum { RETURNED_BYTES = 2 << 20 };

static int run_service(const struct arguments *arguments)
{
    mallopt(M_MMAP_THRESHOLD, RETURNED_BYTES);
    struct config *config = command_config(arguments);
    if (config == NULL)
        return EX_CONFIG; /* the unit does not try again */
    if (!arguments->verbose && !arguments->quiet)
        log_set_level(config->daemon.log_level);
    const struct service_options options = {
        .config = config,
        .kernels_dir = arguments->kernels_dir,
        .variant = arguments->variant,
        .status_json = arguments->status_json,
        .keep_log_level = arguments->verbose || arguments->quiet,
    };
    struct problem problem = {0};
    log_start();
    const int ended = service_run(&options, &problem);
    const int status = ended < 0 ? fail(&problem) : ended;
    log_stop(NS_PER_SECOND); /* a log that nobody reads does not keep the process */
    /* A driver whose call never returned may keep exit() from ending. */
    fflush(NULL);
    if (takeover_left_behind())
        _exit(status);
    config_free(config);
    return status;
}

static int check(const struct arguments *arguments)
{
    struct config *config = command_config(arguments);
    if (config == NULL)
        return EXIT_FAILURE;
    struct config_errors errors = {0};
    int error = check_print(config, stdout, &errors);
    if (arguments->as_service && error == 0) {
        struct sandbox *sandbox = malloc(sizeof *sandbox);
        error = sandbox != NULL ? 0 : ERROR_MEMORY;
        if (sandbox != NULL) {
            sandbox_learn(config->path, sandbox);
            sandbox_check(config, sandbox, NULL, &errors);
        }
        free(sandbox);
        if (errors.errors > 0)
            error = ERROR_CONFIG;
    }
    print_errors(&errors, error, config->path);
    config_free(config);
    return error == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* Where it sits, of a device whose driver tells it. */
static void print_place(const struct device_info *device)
{
    if (device->pci[0] == '\0')
        return;
    printf("   PCI %s", device->pci);
    if (device->memory_node >= 0)
        printf(", memory node %d", device->memory_node);
    putchar('\n');
}

static int list_devices(const struct arguments *arguments)
{
    (void)arguments;
    enum { CAPACITY = 64 };
    struct device_info *devices = calloc(CAPACITY, sizeof *devices);
    struct problem problem;
    if (devices == NULL) {
        problem_set(&problem, ERROR_MEMORY, "out of memory");
        return fail(&problem);
    }
    int count = device_list(devices, CAPACITY, 0, &problem);
    for (int i = 0; i < count && i < CAPACITY; i++) {
        const struct device_info *device = &devices[i];
        printf("%d: %s\n   %s, %u compute units, %.1f GiB memory, %" PRIu64
               " KiB local\n   %s, %s, driver %s\n",
               i, device->name, device->gpu ? "GPU" : "CPU", device->compute_units,
               (double)device->memory_bytes / (1 << 30), device->local_bytes / 1024,
               device->platform, device->version, device->driver);
        print_place(device);
    }
    free(devices);
    if (sound_devices_print() != 0)
        log_warning("the sound devices could not be listed: no process for it");
    return count > 0 ? EXIT_SUCCESS : fail(&problem);
}

static int report_tuning(const struct arguments *arguments,
                         int (*print)(const struct config *config,
                                      const struct tuning_options *options, FILE *out,
                                      struct problem *problem))
{
    struct config *config = command_config(arguments);
    if (config == NULL)
        return EXIT_FAILURE;
    const struct tuning_options options = {
        .kernels_dir = arguments->kernels_dir,
        .variant = arguments->variant,
        .progress = !arguments->quiet,
    };
    struct problem problem = {0};
    int error = print(config, &options, stdout, &problem);
    int status = error == 0 ? EXIT_SUCCESS : fail(&problem);
    config_free(config);
    return status;
}

static int tune(const struct arguments *arguments)
{
    return report_tuning(arguments, tuning_measure);
}

static int explain(const struct arguments *arguments)
{
    return report_tuning(arguments, tuning_explain);
}

static int measure_loopback(const struct arguments *arguments)
{
    struct config *config = command_config(arguments);
    if (config == NULL)
        return EXIT_FAILURE;
    struct problem problem = {0};
    int error = loopback_measure(config, stdout, &problem);
    fflush(stdout);
    int status = error == 0 ? EXIT_SUCCESS : fail(&problem);
    config_free(config);
    return status;
}

static int list_variants(const struct arguments *arguments)
{
    (void)arguments;
    const char *name;
    for (int i = 0; (name = engine_variant_name(i)) != NULL; i++)
        puts(name);
    return EXIT_SUCCESS;
}

static int show_status(const struct arguments *arguments)
{
    struct problem problem = {0};
    if (client_show_status(arguments->socket_path, arguments->watch, &problem) == 0)
        return EXIT_SUCCESS;
    return fail(&problem);
}

static int print_help(const struct arguments *arguments)
{
    (void)arguments;
    arguments_print_help(stdout);
    return EXIT_SUCCESS;
}

static int print_help_osc(const struct arguments *arguments)
{
    (void)arguments;
    osc_table_print(stdout);
    return EXIT_SUCCESS;
}

static int print_help_control(const struct arguments *arguments)
{
    (void)arguments;
    command_table_print(stdout);
    return EXIT_SUCCESS;
}

static int print_help_config(const struct arguments *arguments)
{
    (void)arguments;
    schema_print_help(stdout);
    return EXIT_SUCCESS;
}

static int print_man(const struct arguments *arguments)
{
    unsigned count;
    const struct manual_option *options = arguments_manual(&count);
    if (schema_print_man(stdout, arguments->man_page, options, count) == 0)
        return EXIT_SUCCESS;
    log_error("%s: no such page; write --man convolvd or --man convolvd.conf", arguments->man_page);
    return EXIT_FAILURE;
}

static int print_version(const struct arguments *arguments)
{
    (void)arguments;
    puts("convolvd " CONVOLVD_VERSION);
    return EXIT_SUCCESS;
}

static int design(const struct arguments *arguments)
{
    struct config *config = command_config(arguments);
    if (config == NULL)
        return EXIT_FAILURE;
    struct problem problem = {0};
    int error =
        design_report_config(config, arguments->design_name, arguments->out_path, stdout, &problem);
    int status = error == 0 ? EXIT_SUCCESS : fail(&problem);
    config_free(config);
    return status;
}

static int repair(const struct arguments *arguments)
{
    struct repaired_copy copy;
    struct problem problem = {0};
    if (recording_repair_copy(arguments->repair_path, &copy, &problem) != 0)
        return fail(&problem);
    printf("%s: %" PRIu64 " frames (%.6g s); the header of %s announces %" PRIu64 "\n", copy.path,
           copy.frames, (double)copy.frames / copy.rate_hz, arguments->repair_path, copy.announced);
    return EXIT_SUCCESS;
}

int command_run(const struct arguments *arguments)
{
    static int (*const commands[])(const struct arguments *) = {
        [COMMAND_RUN] = run_service,
        [COMMAND_CHECK] = check,
        [COMMAND_DESIGN] = design,
        [COMMAND_LIST_DEVICES] = list_devices,
        [COMMAND_LIST_VARIANTS] = list_variants,
        [COMMAND_TUNE] = tune,
        [COMMAND_EXPLAIN] = explain,
        [COMMAND_MEASURE_LOOPBACK] = measure_loopback,
        [COMMAND_STATUS] = show_status,
        [COMMAND_REPAIR] = repair,
        [COMMAND_HELP] = print_help,
        [COMMAND_HELP_CONFIG] = print_help_config,
        [COMMAND_HELP_OSC] = print_help_osc,
        [COMMAND_HELP_CONTROL] = print_help_control,
        [COMMAND_MAN] = print_man,
        [COMMAND_VERSION] = print_version,
    };
    if (arguments->verbose)
        log_set_level(LOG_LEVEL_DEBUG);
    else if (arguments->quiet)
        log_set_level(LOG_LEVEL_WARNING);
    int status = commands[arguments->command](arguments);
    /* The command fails if its output could not be written, as on a full disk behind a redirection.
     */
    if (fflush(stdout) != 0 || ferror(stdout))
        return EXIT_FAILURE;
    return status;
}
