/*
 * Shared by the tests of the configuration: the smallest valid configuration around any key of
 * the schema, and a world without files.
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

/* True when a message stands at `line`, is a warning or an error as said, and holds `words`. */
bool sample_message(const struct config_errors *errors, unsigned line, bool warning,
                    const char *words);

/* All messages, for a failing test; free with free(). */
char *sample_messages(const struct config_errors *errors);

/*
 * Writes into `text` a configuration in which `key` of a section of type `type` (an index, as
 * schema_type_name) is set to `value` in the returned line; everything else is valid. NULL value:
 * without the key.
 */
unsigned sample_around(const struct schema_key *key, int type, const char *value, char *text,
                       size_t bytes);

/* A value that is good for the key, whatever the type. */
const char *sample_good(const struct schema_key *key);

#endif
