/* Frame ring: see frame_ring.h. */
#include "pipeline/frame_ring.h"

#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/error.h"

int frame_ring_open(struct frame_ring *ring, uint64_t capacity_bytes)
{
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    const uint64_t capacity = (capacity_bytes + page - 1) / page * page;
    memset(ring, 0, sizeof *ring);
    const int fd = memfd_create("convolvd-analysis", MFD_CLOEXEC);
    if (fd < 0)
        return ERROR_MEMORY;
    uint8_t *both = MAP_FAILED;
    if (ftruncate(fd, (off_t)capacity) == 0)
        both =
            mmap(NULL, 2 * capacity, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    bool mapped = both != MAP_FAILED;
    for (int half = 0; mapped && half < 2; half++)
        mapped = mmap(both + (uint64_t)half * capacity, capacity, PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_FIXED, fd, 0) != MAP_FAILED;
    close(fd);
    if (mapped) {
        ring->bytes = both;
        ring->capacity = capacity;
        return 0;
    }
    if (both != MAP_FAILED)
        munmap(both, 2 * capacity);
    return ERROR_MEMORY;
}

void frame_ring_close(struct frame_ring *ring)
{
    if (ring->bytes != NULL)
        munmap(ring->bytes, 2 * ring->capacity);
    memset(ring, 0, sizeof *ring);
}
