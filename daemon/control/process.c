/* Names of the phases: see process.h. */
#include "control/process.h"

const char *process_phase_name(enum process_phase phase)
{
    static const char *const names[] = {
        [PROCESS_PREPARING] = "preparing",     [PROCESS_RUNNING] = "running",
        [PROCESS_DRAINING] = "stopping",       [PROCESS_CLOSING_SINKS] = "stopping",
        [PROCESS_CLOSING_SOURCES] = "stopped", [PROCESS_STOPPED] = "stopped",
    };
    return names[phase];
}
