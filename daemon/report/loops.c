/* Loops, for `--check`: see loops.h. */
#include "report/loops.h"

#include "pipeline/loop_choice.h"

void loops_report(const struct config *config, FILE *out)
{
    if (config->device.loops == 0)
        return;
    fprintf(out, "loops: %u run streams, beside the main one\n", config->device.loops);
    for (uint32_t i = 0; i < config->stream_count; i++) {
        const char *needs = stream_needs_main_loop(config, &config->streams[i]);
        if (needs != NULL)
            fprintf(out, "  stream %-9s stays on the main loop: it, or its chain, uses %s\n",
                    config->streams[i].name, needs);
    }
    fputc('\n', out);
}
