/*
 * What a daemon before may have left in systemd's descriptor store, besides the state of a stream
 * (fuzz_state). The first byte of an input says which part it is for:
 *
 *     0  the bytes of a state file; its checksum is made right. 4: and it is not sealed
 *     1  records, each behind its 16-bit length, in a file that is whole: it must be readable, and
 *        each record is taken as it is or left out
 *     2  what a source had counted (64 bytes and more), then datagrams as in fuzz_rtp
 *     3  descriptors {kind, bytes of the name, name}: only bound UDP sockets are adopted, and all
 *        that no source takes are closed
 */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "io/net/handover.h"
#include "service/state_file.h"
#include "tests/fuzz/fuzz_ingest.h"
#include "wire/crc32c.h"

enum { CHECKSUM_BYTES = 4, RECORDS_MAX = 16, NAME_MAX_BYTES = 40, SOCKETS = 8 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void read_file(int fd, bool sealed)
{
    struct state_file file;
    struct problem problem = {0};
    if (state_file_read(fd, &file, &problem) != 0) {
        REQUIRE(problem.text[0] != '\0' && file.bytes == NULL && file.records == NULL);
        return;
    }
    REQUIRE(sealed && (file.records != NULL || file.record_count == 0));
    for (uint32_t i = 0; i < file.record_count; i++) {
        const struct state_record *record = &file.records[i];
        REQUIRE(strlen(record->left.stream) < sizeof record->left.stream);
        REQUIRE(state_file_find(&file, record->left.stream) != NULL);
        REQUIRE(record->bytes >= file.bytes && record->count <= file.count &&
                (size_t)(record->bytes - file.bytes) <= file.count - record->count);
    }
    state_file_forget(&file);
}

static void any_file(const uint8_t *data, size_t bytes, bool sealed)
{
    uint8_t *copy = malloc(bytes + CHECKSUM_BYTES);
    REQUIRE(copy != NULL);
    memcpy(copy, data, bytes);
    struct codec codec = codec_writer(copy + bytes, CHECKSUM_BYTES);
    codec_u32(&codec, &(uint32_t){crc32c(0, copy, bytes)});
    int fd = memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    REQUIRE(fd >= 0 && write(fd, copy, bytes + CHECKSUM_BYTES) >= 0);
    if (sealed)
        REQUIRE(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) == 0);
    free(copy);
    read_file(fd, sealed);
    close(fd);
}

static void any_records(const uint8_t *data, size_t bytes)
{
    struct state_bytes records[RECORDS_MAX];
    uint32_t count = 0;
    for (size_t at = 0; bytes - at >= 2 && count < RECORDS_MAX; count++) {
        size_t length = data[at] | (size_t)data[at + 1] << 8;
        at += 2;
        length = length < bytes - at ? length : bytes - at;
        records[count] = (struct state_bytes){(uint8_t *)(uintptr_t)(data + at), length};
        at += length;
    }
    size_t written;
    const int fd = state_file_make(records, count, &written);
    struct state_file file;
    REQUIRE(fd >= 0 && state_file_read(fd, &file, NULL) == 0 && file.count == written);
    state_file_forget(&file);
    read_file(fd, true);
    close(fd);
}

static void any_count(const uint8_t *data, size_t bytes)
{
    struct network_options own = {.ingest = {.allow = {&fuzz_anybody, 1},
                                             .takeover_ns = NS_PER_SECOND,
                                             .max_dropout_ns = NS_PER_SECOND,
                                             .max_misorder_ns = 10 * NS_PER_MS}};
    const struct source_options options = {
        .stream = "fuzz",
        .rate_hz = 1e6,
        .frame_bytes = 4,
        .reorder_ns = NS_PER_MS,
        .max_gap_ns = NS_PER_SECOND,
        .own = &own,
    };
    const size_t state = bytes > 0 && (size_t)data[0] * 4 < bytes ? (size_t)data[0] * 4 : bytes;
    const struct ingest_protocol *protocols[] = {&rtp_protocol, &udp_sequence_protocol,
                                                 &udp_protocol};
    for (int i = 0; i < 3; i++) {
        struct codec before = codec_reader(data, state);
        fuzz_feed_after(protocols[i], &options, &before, data + state, bytes - state);
    }
}

static int descriptor(uint8_t kind)
{
    int fd = -1, pair[2];
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    switch (kind % 6) {
    case 0:
    case 1:
        fd = socket(AF_INET, kind % 6 == 0 ? SOCK_DGRAM : SOCK_STREAM, 0);
        REQUIRE(bind(fd, (struct sockaddr *)&address, sizeof address) == 0);
        break;
    case 2:
        REQUIRE(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) == 0);
        close(pair[1]);
        fd = pair[0];
        break;
    case 3:
        fd = memfd_create("fuzz", 0);
        break;
    case 4:
        fd = open("/dev/null", O_RDONLY);
        break;
    default:
        break; /* none */
    }
    return fd;
}

static void any_descriptors(const uint8_t *data, size_t bytes)
{
    struct handover *handover;
    REQUIRE(handover_open(&handover, NULL) == 0);
    int kept[SOCKETS], units[SOCKETS], others[SOCKETS];
    int kept_count = 0, unit_count = 0, other_count = 0;
    for (size_t at = 0, i = 0; bytes - at >= 2 && i < SOCKETS; i++) {
        const uint8_t kind = data[at];
        size_t length = data[at + 1] % NAME_MAX_BYTES;
        char name[NAME_MAX_BYTES] = "";
        at += 2;
        length = length < bytes - at ? length : bytes - at;
        memcpy(name, data + at, length);
        at += length;
        const int fd = descriptor(kind);
        const bool adopted = handover_adopt(handover, fd, name);
        REQUIRE(adopted == (kind % 6 == 0));
        if (!adopted)
            others[other_count++] = fd;
        else if (handover_kept(name))
            kept[kept_count++] = fd;
        else
            units[unit_count++] = fd;
    }
    char name[HANDOVER_NAME];
    for (uint32_t at = 0; handover_next(handover, &at, name) >= 0;)
        REQUIRE(handover_kept(name));
    handover_drop_unused(handover);
    for (int i = 0; i < kept_count; i++)
        REQUIRE(fcntl(kept[i], F_GETFD) < 0);
    for (int i = 0; i < unit_count; i++)
        REQUIRE(close(units[i]) == 0);
    for (int i = 0; i < other_count; i++)
        REQUIRE(others[i] < 0 || close(others[i]) == 0);
    handover_close(handover);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    log_set_level(LOG_LEVEL_ERROR);
    if (bytes == 0)
        return 0;
    switch (data[0] & 3) {
    case 0:
        any_file(data + 1, bytes - 1, !(data[0] & 4));
        break;
    case 1:
        any_records(data + 1, bytes - 1);
        break;
    case 2:
        any_count(data + 1, bytes - 1);
        break;
    default:
        any_descriptors(data + 1, bytes - 1);
        break;
    }
    return 0;
}
