/* The entry of the program: see cli.h. */
#include "cli/cli.h"

#include <stdlib.h>
#include <string.h>

#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/init.h"
#include "core/descriptor.h"
#include "core/log.h"
#include "device/compiler.h"
#include "device/compiler_child.h"
#include "io/sound/devices.h"
#include "io/sound/helper.h"

bool cli_helper(int argc, char **argv, int *status)
{
    descriptor_open_standard();
    if (argc > 2 && strcmp(argv[1], COMPILER_ARGUMENT) == 0) {
        *status = compiler_main(argc, argv);
        return true;
    }
    compiler_offer(COMPILER_DEADLINE_NS);
    if (argc == 2 && strcmp(argv[1], SOUND_DEVICES_ARGUMENT) == 0)
        sound_devices_main();
    if (argc != 2 || strcmp(argv[1], SOUND_HELPER_ARGUMENT) != 0)
        return false;
    *status = sound_helper_main();
    return true;
}

int cli_main(int argc, char **argv)
{
    struct arguments arguments;
    struct problem problem;
    int status;
    if (cli_helper(argc, argv, &status))
        return status;
    init_fork();
    if (arguments_parse(argc, argv, &arguments, &problem) < 0) {
        log_error("%s", problem.text);
        return EXIT_FAILURE;
    }
    return command_run(&arguments);
}
