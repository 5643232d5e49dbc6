/* Marks: see marks.h. */
#include "io/recording/marks.h"

void marks_add(struct marks *marks, const struct sink_mark *mark)
{
    marks->list[marks->count++ % MARKS_MAX] = *mark;
}

json_t *marks_json(const struct marks *marks, uint64_t epoch, uint64_t from, uint64_t until)
{
    json_t *list = json_array();
    uint32_t i = marks->count > MARKS_MAX ? marks->count - MARKS_MAX : 0;
    for (; i < marks->count; i++) {
        const struct sink_mark *mark = &marks->list[i % MARKS_MAX];
        if (mark->epoch != epoch || mark->frame < from || mark->frame >= until)
            continue;
        json_array_append_new(
            list, json_pack("{s:I, s:I, s:s, s:s}", "frame", (json_int_t)mark->frame, "realtime_ns",
                            (json_int_t)mark->realtime_ns, "text", mark->text, "who", mark->who));
    }
    return list;
}
