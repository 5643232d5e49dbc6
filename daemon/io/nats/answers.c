/* Answers of NATS servers: see answers.h. */
#include "io/nats/answers.h"

#include <inttypes.h>
#include <jansson.h>
#include <nettle/base64.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- acknowledgements -------------------------------------------------------------------- */

/* What stands behind "key": in a JSON object that a server wrote; NULL: there is no such key. */
static const char *value_of(const char *json, size_t bytes, const char *key)
{
    const size_t length = strlen(key);
    const char *at = memmem(json, bytes, key, length);
    return at != NULL ? at + length : NULL;
}

static bool number_at(const char *at, const char *end, uint64_t *number)
{
    const char *start = at;
    for (*number = 0; at < end && *at >= '0' && *at <= '9' && at - start < 19; at++)
        *number = *number * 10 + (uint64_t)(*at - '0');
    return at > start;
}

/* Up to the closing quotation mark, cut where it is too long. */
static void text_at(const char *at, const char *end, char text[NATS_TEXT_BYTES])
{
    const char *quote = memchr(at, '"', (size_t)(end - at));
    size_t length = quote != NULL ? (size_t)(quote - at) : (size_t)(end - at);
    length = length < NATS_TEXT_BYTES - 1 ? length : NATS_TEXT_BYTES - 1;
    memcpy(text, at, length);
    text[length] = '\0';
}

bool nats_ack_read(const char *json, size_t bytes, struct nats_ack *ack)
{
    static const char no_id[] = "wrong last msg ID: ";
    const char *end = json + bytes;
    *ack = (struct nats_ack){0};
    if (bytes == 0 || json[0] != '{')
        return false;
    if (value_of(json, bytes, "\"error\":") != NULL) {
        const char *text = value_of(json, bytes, "\"description\":\"");
        if (text != NULL)
            text_at(text, end, ack->text);
        ack->id_unknown = strcmp(ack->text, no_id) == 0;
        const char *code = value_of(json, bytes, "\"err_code\":");
        uint64_t number = 0;
        const bool coded = code != NULL && number_at(code, end, &number);
        const bool condition =
            coded ? number == NATS_CODE_WRONG_ID || number == NATS_CODE_WRONG_SEQUENCE
                  : strncmp(ack->text, "wrong last", 10) == 0;
        ack->fault = !condition;
        ack->full = coded && !condition;
        return true;
    }
    if (value_of(json, bytes, "\"duplicate\":true") != NULL) {
        snprintf(ack->text, sizeof ack->text, "the server has a record of this identity");
        return true;
    }
    const char *sequence = value_of(json, bytes, "\"seq\":");
    while (sequence != NULL && sequence < end && *sequence == ' ')
        sequence++;
    return sequence != NULL && number_at(sequence, end, &ack->sequence) && ack->sequence > 0;
}

/* ---- the API ----------------------------------------------------------------------------- */

/* "2026-11-22T21:49:45.955361318Z" as nanoseconds since the Unix epoch; 0: it is no time. */
static int64_t time_read(const char *text)
{
    struct tm tm = {0};
    const char *rest = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);
    if (rest == NULL || tm.tm_year < 70 || tm.tm_year > 200)
        return 0;
    int64_t ns = (int64_t)timegm(&tm) * 1000000000, unit = 100000000;
    if (*rest == '.')
        for (rest++; *rest >= '0' && *rest <= '9' && unit > 0; rest++, unit /= 10)
            ns += (*rest - '0') * unit;
    return ns;
}

static bool message_read(const json_t *message, struct nats_answer *answer)
{
    const char *data = json_string_value(json_object_get(message, "data"));
    const char *time = json_string_value(json_object_get(message, "time"));
    struct base64_decode_ctx decoder;
    answer->sequence = (uint64_t)json_integer_value(json_object_get(message, "seq"));
    answer->appended_ns = time != NULL ? time_read(time) : 0;
    if (answer->sequence == 0)
        return false;
    data = data != NULL ? data : "";
    const size_t length = strlen(data);
    answer->data = malloc(BASE64_DECODE_LENGTH(length) + 1);
    base64_decode_init(&decoder);
    answer->bytes = BASE64_DECODE_LENGTH(length);
    if (answer->data != NULL &&
        base64_decode_update(&decoder, &answer->bytes, answer->data, length, data) &&
        base64_decode_final(&decoder))
        return true;
    free(answer->data);
    answer->data = NULL;
    return false;
}

/* True where the leader and the followers that it has heard from within a second are most of the
 * replicas. */
static bool is_led(const json_t *cluster)
{
    static const json_int_t within_ns = 1000000000;
    const json_t *replicas = json_object_get(cluster, "replicas");
    const size_t others = json_array_size(replicas);
    size_t heard = 1;
    for (size_t i = 0; i < others; i++) {
        const json_t *other = json_array_get(replicas, i);
        heard += json_integer_value(json_object_get(other, "active")) < within_ns &&
                 !json_is_true(json_object_get(other, "offline"));
    }
    return json_object_get(cluster, "leader") != NULL && 2 * heard > others + 1;
}

bool nats_answer_read(const char *json, size_t bytes, struct nats_answer *answer)
{
    *answer = (struct nats_answer){0};
    json_t *root = json_loadb(json, bytes, 0, NULL);
    const json_t *error = json_object_get(root, "error"), *state = json_object_get(root, "state"),
                 *message = json_object_get(root, "message");
    bool read = json_is_object(root);
    if (error != NULL) {
        const char *text = json_string_value(json_object_get(error, "description"));
        answer->failed = true;
        answer->code = (int)json_integer_value(json_object_get(error, "err_code"));
        snprintf(answer->text, sizeof answer->text, "%s", text != NULL ? text : "?");
    } else if (message != NULL) {
        read = message_read(message, answer);
    } else if (state != NULL) {
        answer->has_state = true;
        answer->replicas = (uint32_t)json_integer_value(
            json_object_get(json_object_get(root, "config"), "num_replicas"));
        answer->led = is_led(json_object_get(root, "cluster"));
        answer->made = json_is_true(json_object_get(root, "did_create"));
        answer->first = (uint64_t)json_integer_value(json_object_get(state, "first_seq"));
        answer->last = (uint64_t)json_integer_value(json_object_get(state, "last_seq"));
    }
    json_decref(root);
    return read;
}

/* ---- places ------------------------------------------------------------------------------ */

/* $JS.ACK.STREAM.CONSUMER.delivered.sequence.delivered-by-consumer.time.pending; newer servers put
 * a domain and an account before STREAM, and a token behind. */
bool nats_place_read(const char *reply, struct nats_place *place)
{
    enum { PLAIN = 9, WITH_DOMAIN = 11, SEQUENCE = 5, TOKENS_MAX = 16 };
    const char *tokens[TOKENS_MAX] = {0};
    int count = 0;
    if (reply == NULL || strncmp(reply, "$JS.ACK.", 8) != 0)
        return false;
    for (const char *at = reply; at != NULL && count < TOKENS_MAX; count++) {
        tokens[count] = at;
        at = strchr(at, '.');
        at = at != NULL ? at + 1 : NULL;
    }
    if (count < PLAIN || (count > PLAIN && count < WITH_DOMAIN))
        return false;
    const char **at = tokens + SEQUENCE + (count == PLAIN ? 0 : 2);
    const char *end = reply + strlen(reply);
    uint64_t number = 0;
    const char *dash = memrchr(at[-2], '-', (size_t)(at[-1] - at[-2]));
    if (dash != NULL)
        number_at(dash + 1, end, &number);
    place->consumer = (uint32_t)number;
    return number_at(at[0], end, &place->sequence) && number_at(at[1], end, &place->delivered) &&
           place->sequence > 0 && place->delivered > 0;
}

void nats_id(char text[NATS_ID_BYTES], uint64_t sequence, uint64_t term, uint64_t owner)
{
    snprintf(text, NATS_ID_BYTES, "%" PRIu64 ".%" PRIu64 ".%016" PRIx64, sequence, term, owner);
}
