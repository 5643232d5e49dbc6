/* The state of the engine's seams, see engine_seams.h. */
#include "tests/support/engine_seams.h"

struct engine_seams engine_seams;
