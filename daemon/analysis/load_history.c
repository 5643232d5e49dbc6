/* Load history: see load_history.h. */
#include "analysis/load_history.h"

#include <math.h>

struct load_history load_history_start(double drop)
{
    return (struct load_history){.drop = drop, .greatest = NAN};
}

struct load_mark load_history_put(struct load_history *history, double load)
{
    if (isnan(load))
        return (struct load_mark){.felicity = NAN};
    if (history->loaded && load <= history->peak - history->drop * fabs(history->peak)) {
        history->greatest = fmax(history->greatest, history->peak); /* fmax leaves NAN out */
        history->peak = load;
    }
    if (!history->loaded || load > history->peak)
        history->peak = load;
    history->loaded = true;
    return (struct load_mark){
        .kaiser = load<history->greatest, .felicity = history->greatest> 0
                      ? load / history->greatest
                      : NAN,
    };
}

void load_history_walk(struct load_history *history, struct codec *codec)
{
    codec_bool(codec, &history->loaded);
    codec_f64(codec, &history->peak);
    codec_f64(codec, &history->greatest);
}
