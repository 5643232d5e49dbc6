/*
 * Memory of a configuration: many small pieces that are made one after the other and freed together
 * with the configuration. One thread at a time.
 */
#ifndef CONVOLVD_CONFIG_MEMORY_H
#define CONVOLVD_CONFIG_MEMORY_H

#include <stddef.h>

struct config_memory;

struct config_memory *config_memory_open(void);
/* Zeroed; NULL when there is none (also for absurd sizes). */
void *config_alloc(struct config_memory *memory, size_t count, size_t bytes);
/* `length` bytes of `text`, terminated. */
char *config_copy(struct config_memory *memory, const char *text, size_t length);
/* config_memory_close then frees nothing, once for each call. */
void config_memory_hold(struct config_memory *memory);
void config_memory_close(struct config_memory *memory); /* NULL is fine */

#endif
