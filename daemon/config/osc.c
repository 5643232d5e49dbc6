/* [osc] of the configuration: the server's addresses and who may speak to it. */
#include "config/internal.h"

#include <string.h>

#include "core/network.h"

/* The texts of a list of networks; *out stays NULL where the key is not written. `none` alone,
 * where `empty` has it, is a list of no networks. */
static int build_networks(struct build *build, const struct raw_section *section, enum schema_id id,
                          bool empty, const char *const **out, uint32_t *count)
{
    const struct raw_setting *setting = raw_setting_of(section, id);
    if (setting->given != GIVEN_SET)
        return 0;
    const char **texts = config_alloc(build->memory, setting->value_count, sizeof *texts);
    if (texts == NULL)
        return ERROR_MEMORY;
    *out = texts;
    if (empty && setting->value_count == 1 && strcmp(setting->values[0].text, "none") == 0)
        return 0;
    for (unsigned i = 0; i < setting->value_count; i++) {
        struct network network;
        texts[i] = setting->values[i].text;
        if (network_parse(texts[i], &network) != 0)
            config_error(build->errors, setting->place,
                         "`%s = %s` is no address and no network; write 192.0.2.7, 10.0.0.0/8, "
                         "2001:db8::/32%s",
                         schema_key(id)->row.key, texts[i], empty ? ", any or none" : " or any");
    }
    *count = setting->value_count;
    return 0;
}

bool concerns_osc(const struct build *build)
{
    bool used = raw_find(build->raw, SECTION_OSC, "")->place.line > 0;
    for (uint32_t i = 0; i < build->config->stream_count; i++) {
        const struct source_ops *driver = source_at(build->stream_sections[i]->type);
        used = used || (driver != NULL && driver->osc_server);
    }
    for (uint32_t i = 0; i < build->config->sink_count; i++) {
        const struct sink_ops *driver = sink_at(build->sink_sections[i]->type);
        used = used || (driver != NULL && driver->osc_server);
    }
    return used;
}

int build_osc(struct build *build)
{
    const struct raw_section *section = raw_find(build->raw, SECTION_OSC, "");
    struct config_osc *osc = &build->config->osc;
    const struct option_value *tcp = value_of(section, KEY_OSC_TCP_ADDRESS);
    osc->used = concerns_osc(build);
    osc->address = value_of(section, KEY_OSC_ADDRESS)->text;
    osc->tcp_address = tcp != NULL ? tcp->text : NULL;
    osc->lease_ns = value_of(section, KEY_OSC_LEASE)->integer;
    osc->tcp_timeout_ns = value_of(section, KEY_OSC_TCP_TIMEOUT)->integer;
    osc->tcp_idle_ns = value_of(section, KEY_OSC_TCP_IDLE)->integer;
    osc->receive_buffer_bytes = (uint64_t)value_of(section, KEY_OSC_RECEIVE_BUFFER)->integer;
    int status =
        build_networks(build, section, KEY_OSC_ALLOW, false, &osc->allow, &osc->allow_count);
    if (status == 0)
        status =
            build_networks(build, section, KEY_OSC_TRUST, false, &osc->trust, &osc->trust_count);
    if (status == 0)
        status = build_networks(build, section, KEY_OSC_CONTROL, true, &osc->control,
                                &osc->control_count);
    return status;
}
