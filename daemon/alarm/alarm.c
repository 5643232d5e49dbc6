/* Alarms: see alarm.h. */
#include "alarm/alarm.h"

#include <math.h>

static const struct {
    const char *name, *sentence;
    enum dimension dimension;
    bool of_channel, counts;
} quantities[ALARM_QUANTITIES] = {
#define X(name, text, dimension, channel, counts, sentence)                                        \
    {text, sentence, DIMENSION_##dimension, channel, counts},
    ALARM_QUANTITY_TABLE(X)
#undef X
};

const char *alarm_quantity_name(enum alarm_quantity quantity)
{
    return quantities[quantity].name;
}

const char *alarm_quantity_sentence(enum alarm_quantity quantity)
{
    return quantities[quantity].sentence;
}

enum dimension alarm_quantity_dimension(enum alarm_quantity quantity)
{
    return quantities[quantity].dimension;
}

bool alarm_quantity_of_channel(enum alarm_quantity quantity)
{
    return quantities[quantity].of_channel;
}

bool alarm_quantity_counts(enum alarm_quantity quantity)
{
    return quantities[quantity].counts;
}

bool alarm_quantity_of_analysis(enum alarm_quantity quantity)
{
    return quantity == ALARM_EVENTS || quantity == ALARM_SUM || quantity == ALARM_FIELD ||
           quantity == ALARM_DEAD;
}

static bool is_above(const struct alarm_rule *rule, double value)
{
    return rule->has_above && value > rule->above;
}

static bool is_below(const struct alarm_rule *rule, double value)
{
    return rule->has_below && value < rule->below;
}

/* Back within both limits, each drawn in by the hysteresis. */
static bool is_back(const struct alarm_rule *rule, double value)
{
    const double above = rule->above - rule->hysteresis * fabs(rule->above);
    const double below = rule->below + rule->hysteresis * fabs(rule->below);
    return !(rule->has_above && value > above) && !(rule->has_below && value < below);
}

static void enter(struct alarm *alarm, enum alarm_phase phase, int64_t now_ns)
{
    alarm->phase = phase;
    alarm->since_ns = now_ns;
}

bool alarm_beyond(const struct alarm_rule *rule, double value)
{
    return is_above(rule, value) || is_below(rule, value);
}

static enum alarm_change follow_active(struct alarm *alarm, const struct alarm_rule *rule,
                                       bool back, int64_t now_ns)
{
    if (!back || now_ns - alarm->since_ns < rule->hold_ns)
        return ALARM_SAME;
    enter(alarm, ALARM_IDLE, now_ns);
    return ALARM_ENDED;
}

enum alarm_change alarm_update(struct alarm *alarm, const struct alarm_rule *rule, double value,
                               int64_t now_ns)
{
    if (alarm->phase == ALARM_ACTIVE)
        return follow_active(alarm, rule, !isnan(value) && is_back(rule, value), now_ns);
    if (!alarm_beyond(rule, value)) {
        if (alarm->phase == ALARM_PENDING)
            enter(alarm, ALARM_IDLE, now_ns);
        return ALARM_SAME;
    }
    if (alarm->phase == ALARM_IDLE)
        enter(alarm, ALARM_PENDING, now_ns);
    if (now_ns - alarm->since_ns < rule->for_ns)
        return ALARM_SAME;
    enter(alarm, ALARM_ACTIVE, now_ns);
    alarm->above = is_above(rule, value);
    alarm->raised++;
    return ALARM_RAISED;
}

enum alarm_change alarm_clear(struct alarm *alarm, const struct alarm_rule *rule, int64_t now_ns)
{
    return alarm->phase == ALARM_ACTIVE ? follow_active(alarm, rule, true, now_ns)
                                        : alarm_update(alarm, rule, NAN, now_ns);
}

double alarm_limit(const struct alarm *alarm, const struct alarm_rule *rule)
{
    return alarm->above ? rule->above : rule->below;
}
