/* convolvd. The command line decides what the program does; see cli/cli.h. */
#include "cli/cli.h"
#include "core/descriptor.h"

int main(int argc, char **argv)
{
    descriptor_open_standard();
    return cli_main(argc, argv);
}
