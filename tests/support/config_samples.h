/*
 * Small configurations for the tests of config/: the smallest valid one around any key of the
 * schema, and a config_world that answers questions about files without touching any. Test thread.
 */
#ifndef CONVOLVD_TESTS_CONFIG_SAMPLES_H
#define CONVOLVD_TESTS_CONFIG_SAMPLES_H

#include "config/config.h"
#include "config/schema.h"

/* Recordings named *.wav have 2 channels of s16le at 48 kHz; names that contain "missing" do not
 * exist. */
extern const struct config_world sample_world;

/* Loads text in that world. */
int sample_load(const char *text, struct config **config, struct config_errors *errors);

/* True when a message at `line` is a warning (or, without, an error) and contains `words`. */
bool sample_message(const struct config_errors *errors, unsigned line, bool warning,
                    const char *words);

/* All messages, for a failing test; free with free(). */
char *sample_messages(const struct config_errors *errors);

/* Whether some message holds `words`. */
bool sample_says(const struct config_errors *errors, const char *words);

/*
 * Writes into `text` a configuration in which `key` of a section of type `type` (an index, as
 * schema_type_name) is set to `value` in the returned line; everything else is valid. NULL value:
 * without the key.
 */
unsigned sample_around(const struct schema_key *key, int type, const char *value, char *text,
                       size_t bytes);

/* A valid value for the key, whatever its type. */
const char *sample_good(const struct schema_key *key);

#endif
