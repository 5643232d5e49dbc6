/* OSC commands: see osc_commands.h. */
#include "control/osc_commands.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control/osc_arguments.h"
#include "control/osc_table.h"
#include "core/clock.h"
#include "io/net/address.h"
#include "io/osc/server.h"

enum {
    REQUESTERS = 64,
    COSTLY_A_SECOND = 16,
    UDP_PIECE_BYTES = 1200, /* of a text: its message fits an Ethernet frame */
    TCP_PIECE_BYTES = 16000,
};

/* Who sent a command, to be answered later. */
struct requester {
    struct osc_peer *peer;
    int32_t token; /* the entry of the peer may belong to another one by then */
    uint64_t call;
    int row;
    char stream[64]; /* "": none */
};

struct osc_commands {
    struct commands *commands;
    const struct osc_networks *control;
    struct requester requesters[REQUESTERS]; /* a ring */
    uint64_t next_requester;
    int64_t costly_since_ns; /* when a second of costly commands began */
    unsigned costly;         /* in it */
};

/* ---- the table --------------------------------------------------------------------------- */

int osc_commands_find(const struct osc_part *word, bool of_stream)
{
    for (int i = 0; i < CONTROL_WORDS; i++)
        if (command_table[i].osc != NULL && osc_arguments_suit(&command_table[i], of_stream) &&
            osc_part_matches(word->text, word->length, command_table[i].name,
                             strlen(command_table[i].name)))
            return i;
    return -1;
}

/* ---- answers ----------------------------------------------------------------------------- */

static const char *address_of(char text[128], const char *stream, const char *word)
{
    snprintf(text, 128, "/convolvd%s%s/%s", *stream != '\0' ? "/" : "", stream, word);
    return text;
}

static const char *address_asked(char text[128], const struct requester *requester)
{
    return address_of(text, requester->stream, command_table[requester->row].name);
}

static void send_changed(const struct requester *requester, const char *stream, const char *what,
                         uint64_t frame)
{
    char address[128];
    lo_message message = lo_message_new();
    lo_message_add_string(message, what);
    osc_add_wide(requester->peer, message, frame);
    osc_answer(requester->peer, address_of(address, stream, osc_table[OSC_CHANGED].word), message);
}

static void send_error(const struct requester *requester, const char *text)
{
    char address[128];
    osc_answer_error(requester->peer, address_asked(address, requester), text);
}

/* Whether the entry of the peer is still that of whoever asked. */
static bool is_there(const struct requester *requester)
{
    return requester->peer != NULL && requester->peer->used &&
           requester->peer->token == requester->token;
}

/* Bytes of the piece that begins here: no character is cut in two. */
static size_t piece_bytes(const char *text, size_t left, size_t most)
{
    if (left <= most)
        return left;
    while (((unsigned char)text[most] & 0xc0) == 0x80)
        most--;
    return most;
}

static unsigned count_pieces(const char *text, size_t bytes, size_t most)
{
    unsigned count = 0;
    for (size_t at = 0; at < bytes; at += piece_bytes(text + at, bytes - at, most))
        count++;
    return count;
}

/* A link that is full ends, and its peer with it. */
static void send_text(const struct requester *requester, const char *text, size_t bytes)
{
    const size_t most = requester->peer->link != NULL ? TCP_PIECE_BYTES : UDP_PIECE_BYTES;
    const unsigned pieces = count_pieces(text, bytes, most);
    char address[128], piece[TCP_PIECE_BYTES + 1];
    for (unsigned i = 1; i <= pieces && is_there(requester); i++) {
        const size_t part = piece_bytes(text, bytes, most);
        memcpy(piece, text, part);
        piece[part] = '\0';
        lo_message message = lo_message_new();
        lo_message_add_int32(message, (int32_t)i);
        lo_message_add_int32(message, (int32_t)pieces);
        lo_message_add_string(message, piece);
        osc_answer(requester->peer, address_asked(address, requester), message);
        text += part;
        bytes -= part;
    }
}

static void send_object(const struct requester *requester, const json_t *object)
{
    const json_t *error = json_object_get(object, "error");
    const json_t *frame = json_object_get(object, "frame");
    if (error != NULL) {
        send_error(requester, json_string_value(error));
    } else if (command_table[requester->row].change) {
        send_changed(requester, requester->stream, command_table[requester->row].name,
                     (uint64_t)json_integer_value(frame));
    } else {
        char *text = json_dumps(object, JSON_COMPACT);
        send_text(requester, text != NULL ? text : "", text != NULL ? strlen(text) : 0);
        free(text);
    }
}

static void on_answered(void *context, const struct command_reply *reply)
{
    const struct requester *requester = context;
    if (is_there(requester) && reply->object != NULL)
        send_object(requester, reply->object);
    else if (is_there(requester) && reply->text != NULL)
        send_text(requester, reply->text, strcspn(reply->text, "\n"));
    json_decref(reply->object);
    free(reply->text);
}

static void on_repeated(void *context, uint64_t call, const struct change_answer *answer)
{
    static const enum command_word words[] = {[CHANGE_GAIN] = CONTROL_GAIN,
                                              [CHANGE_MUTE] = CONTROL_MUTE,
                                              [CHANGE_FILTER] = CONTROL_FILTER};
    const struct osc_commands *osc = context;
    for (int i = 0; i < REQUESTERS; i++) {
        const struct requester *requester = &osc->requesters[i];
        if (requester->call != call || !is_there(requester))
            continue;
        if (answer->error == 0)
            send_changed(requester, answer->stream, command_table[words[answer->kind]].name,
                         answer->frame);
        else
            send_error(requester, answer->text);
    }
}

/* ---- messages ---------------------------------------------------------------------------- */

bool osc_command_read(struct osc_command *command, int row, struct osc_peer *sender,
                      const struct osc_message *message)
{
    struct problem problem;
    uint16_t port;
    *command =
        (struct osc_command){.row = row, .sender = sender, .answered = sender, .message = message};
    int error =
        osc_arguments_read(&command_table[row], message, &command->request, &port, &problem);
    if (port != 0)
        command->answered = osc_peer_at(sender, port);
    if (command->answered == NULL)
        osc_answer_error(sender, message->address,
                         "too many addresses are served; try again later");
    else if (osc_peer_prove(command->answered) && error != 0)
        osc_answer_error(command->answered, message->address, problem.text);
    else if (error == 0 && command->answered->proven)
        return true;
    osc_command_end(command);
    return false;
}

void osc_command_end(struct osc_command *command)
{
    json_decref(command->request);
    command->request = NULL;
}

/* Whether one more may be run now. */
static bool may_cost(struct osc_commands *osc)
{
    const int64_t now_ns = clock_monotonic_ns();
    if (now_ns - osc->costly_since_ns >= NS_PER_SECOND) {
        osc->costly_since_ns = now_ns;
        osc->costly = 0;
    }
    return osc->costly++ < COSTLY_A_SECOND;
}

/* Nobody can have forged the address: it is proven before any message but blocks counts. */
static enum command_role role_of(const struct osc_commands *osc, const struct osc_peer *peer)
{
    return osc_networks_hold(osc->control, &peer->to) ? ROLE_CONTROL : ROLE_OBSERVE;
}

void osc_command_run(struct osc_commands *osc, const struct osc_command *command,
                     const char *stream)
{
    struct requester *requester = &osc->requesters[osc->next_requester++ % REQUESTERS];
    char address[ADDRESS_TEXT];
    struct caller caller = {.role = role_of(osc, command->sender),
                            .role_help = "list the address under `control` in [osc]"};
    snprintf(caller.name, sizeof caller.name, "OSC %s",
             address_text(&command->sender->to, address));
    commands_cancel(osc->commands, requester); /* one that 64 messages have overtaken */
    *requester = (struct requester){
        .peer = command->answered, .token = command->answered->token, .row = command->row};
    snprintf(requester->stream, sizeof requester->stream, "%s", stream != NULL ? stream : "");
    if (command_table[command->row].costly && !may_cost(osc)) {
        send_error(requester, "too many such questions in this second; ask again");
        return;
    }
    if (stream != NULL)
        json_object_set_new(command->request, "stream", json_string(stream));
    requester->call =
        commands_run(osc->commands, command->request, &caller, on_answered, requester);
}

/* ---- life -------------------------------------------------------------------------------- */

struct osc_commands *osc_commands_open(struct commands *commands,
                                       const struct osc_networks *control)
{
    struct osc_commands *osc = calloc(1, sizeof *osc);
    if (osc == NULL)
        return NULL;
    osc->commands = commands;
    osc->control = control;
    commands_on_repeat(commands, on_repeated, osc);
    return osc;
}

void osc_commands_close(struct osc_commands *osc)
{
    if (osc == NULL)
        return;
    for (int i = 0; i < REQUESTERS; i++)
        commands_cancel(osc->commands, &osc->requesters[i]);
    commands_on_repeat(osc->commands, NULL, NULL);
    free(osc);
}
