/* convolvd. The command line decides what the program does; see cli/cli.h. */
#include "cli/cli.h"

int main(int argc, char **argv)
{
    return cli_main(argc, argv);
}
