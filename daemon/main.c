/* convolvd: arguments → command. Everything else has a room of its own. */
#include <stdlib.h>

#include "core/log.h"
#include "service/arguments.h"
#include "service/commands.h"

int main(int argc, char **argv)
{
    struct arguments arguments;
    struct problem problem;
    if (arguments_parse(argc, argv, &arguments, &problem) < 0) {
        log_error("%s", problem.text);
        return EXIT_FAILURE;
    }
    return command_run(&arguments);
}
