/*
 * The head of an event: all that an analysis of events keeps of one, without its body and samples.
 *
 * Pure functions, any thread.
 */
#ifndef CONVOLVD_ANALYSIS_EVENT_HEAD_H
#define CONVOLVD_ANALYSIS_EVENT_HEAD_H

#include "analysis/analysis.h"

/* The event without what it points to. */
struct analysis_event event_head(const struct analysis_event *event);

/* What lies in a head but kind, number and ordered. False when what was read is no head. */
bool event_head_walk(struct analysis_event *head, struct codec *codec);

#endif
