/* Names behind changes: see change_who.h. */
#include "control/change_who.h"

#include <stdio.h>
#include <string.h>

const char *change_who_of(const struct change_request *first, const struct change_request *merged,
                          uint32_t count, bool filter, char name[EVENT_WHO_BYTES])
{
    static const char others[] = " and others";
    const char *found = NULL;
    bool several = false;
    for (uint32_t i = 0; i <= count; i++) {
        const struct change_request *request = i == 0 ? first : &merged[i - 1];
        if ((request->kind == CHANGE_FILTER) != filter)
            continue;
        several = several || (found != NULL && strcmp(found, request->who) != 0);
        found = found != NULL ? found : request->who;
    }
    const size_t room = EVENT_WHO_BYTES - sizeof others;
    snprintf(name, EVENT_WHO_BYTES, "%.*s%s", (int)room, found != NULL ? found : "",
             several ? others : "");
    return name;
}

static char *name_of(struct change_who *who, uint32_t change)
{
    return who->names[change % 2];
}

const char *change_who_now(const struct change_who *who)
{
    return who->changes > 0 ? name_of((struct change_who *)who, who->changes) : NULL;
}

const char *change_who_next(struct change_who *who, const char *name)
{
    char *next = name_of(who, who->changes + 1);
    snprintf(next, EVENT_WHO_BYTES, "%s", name);
    return next;
}

void change_who_take(struct change_who *who, bool named)
{
    who->changes_before = who->changes;
    who->changes += named;
}

void change_who_take_back(struct change_who *who)
{
    who->changes = who->changes_before;
}
