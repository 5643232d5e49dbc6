/*
 * Copies to, from and inside the device's memory that it refuses, and batches that fail while they
 * run, see engine_seams.h. Only what the device thread enqueues counts, not the workers' uploads.
 */
#include <stdatomic.h>

#include "device/opencl.h"
#include "tests/support/engine_seams.h"

/* Counts down to the event that the test has asked for. Any thread. */
static bool is_due(_Atomic uint32_t *left)
{
    uint32_t now = atomic_load(left);
    while (now > 0 && !atomic_compare_exchange_weak(left, &now, now - 1))
        ;
    return now == 1;
}

cl_int __real_clEnqueueWriteBuffer(cl_command_queue queue, cl_mem buffer, cl_bool blocking,
                                   size_t offset, size_t bytes, const void *from, cl_uint waits,
                                   const cl_event *wait_list, cl_event *event);
cl_int __wrap_clEnqueueWriteBuffer(cl_command_queue queue, cl_mem buffer, cl_bool blocking,
                                   size_t offset, size_t bytes, const void *from, cl_uint waits,
                                   const cl_event *wait_list, cl_event *event);
cl_int __wrap_clEnqueueWriteBuffer(cl_command_queue queue, cl_mem buffer, cl_bool blocking,
                                   size_t offset, size_t bytes, const void *from, cl_uint waits,
                                   const cl_event *wait_list, cl_event *event)
{
    if (!blocking && is_due(&engine_seams.refused_copy))
        return CL_OUT_OF_RESOURCES;
    if (!blocking && is_due(&engine_seams.lost_copy))
        return CL_SUCCESS;
    return __real_clEnqueueWriteBuffer(queue, buffer, blocking, offset, bytes, from, waits,
                                       wait_list, event);
}

cl_int __real_clEnqueueReadBuffer(cl_command_queue queue, cl_mem buffer, cl_bool blocking,
                                  size_t offset, size_t bytes, void *to, cl_uint waits,
                                  const cl_event *wait_list, cl_event *event);
cl_int __wrap_clEnqueueReadBuffer(cl_command_queue queue, cl_mem buffer, cl_bool blocking,
                                  size_t offset, size_t bytes, void *to, cl_uint waits,
                                  const cl_event *wait_list, cl_event *event);
cl_int __wrap_clEnqueueReadBuffer(cl_command_queue queue, cl_mem buffer, cl_bool blocking,
                                  size_t offset, size_t bytes, void *to, cl_uint waits,
                                  const cl_event *wait_list, cl_event *event)
{
    if (blocking && is_due(&engine_seams.refused_read))
        return CL_OUT_OF_RESOURCES;
    return __real_clEnqueueReadBuffer(queue, buffer, blocking, offset, bytes, to, waits, wait_list,
                                      event);
}

cl_int __real_clEnqueueCopyBuffer(cl_command_queue queue, cl_mem from, cl_mem to,
                                  size_t from_offset, size_t to_offset, size_t bytes, cl_uint waits,
                                  const cl_event *wait_list, cl_event *event);
cl_int __wrap_clEnqueueCopyBuffer(cl_command_queue queue, cl_mem from, cl_mem to,
                                  size_t from_offset, size_t to_offset, size_t bytes, cl_uint waits,
                                  const cl_event *wait_list, cl_event *event);
cl_int __wrap_clEnqueueCopyBuffer(cl_command_queue queue, cl_mem from, cl_mem to,
                                  size_t from_offset, size_t to_offset, size_t bytes, cl_uint waits,
                                  const cl_event *wait_list, cl_event *event)
{
    if (is_due(&engine_seams.refused_copy))
        return CL_OUT_OF_RESOURCES;
    return __real_clEnqueueCopyBuffer(queue, from, to, from_offset, to_offset, bytes, waits,
                                      wait_list, event);
}

/* Completions come from a callback, or from the engine's own polls: a batch is seen to be complete
 * once. */
struct completion {
    void(CL_CALLBACK *done)(cl_event event, cl_int status, void *context);
    void *context;
};

enum { COMPLETIONS = 256 };
static struct completion completions[COMPLETIONS];
static _Atomic uint32_t completion_next;

static void CL_CALLBACK fail_when_due(cl_event event, cl_int status, void *context)
{
    const struct completion *completion = context;
    if (is_due(&engine_seams.failed_completion))
        status = CL_OUT_OF_RESOURCES;
    completion->done(event, status, completion->context);
}

cl_int __real_clSetEventCallback(cl_event event, cl_int status,
                                 void(CL_CALLBACK *done)(cl_event, cl_int, void *), void *context);
cl_int __wrap_clSetEventCallback(cl_event event, cl_int status,
                                 void(CL_CALLBACK *done)(cl_event, cl_int, void *), void *context);
cl_int __wrap_clSetEventCallback(cl_event event, cl_int status,
                                 void(CL_CALLBACK *done)(cl_event, cl_int, void *), void *context)
{
    struct completion *completion =
        &completions[atomic_fetch_add(&completion_next, 1) % COMPLETIONS];
    *completion = (struct completion){done, context};
    return __real_clSetEventCallback(event, status, fail_when_due, completion);
}

cl_int __real_clGetEventInfo(cl_event event, cl_event_info what, size_t bytes, void *value,
                             size_t *size);
cl_int __wrap_clGetEventInfo(cl_event event, cl_event_info what, size_t bytes, void *value,
                             size_t *size);
cl_int __wrap_clGetEventInfo(cl_event event, cl_event_info what, size_t bytes, void *value,
                             size_t *size)
{
    const cl_int code = __real_clGetEventInfo(event, what, bytes, value, size);
    if (what == CL_EVENT_COMMAND_EXECUTION_STATUS && code == CL_SUCCESS &&
        *(const cl_int *)value == CL_COMPLETE && is_due(&engine_seams.failed_completion))
        *(cl_int *)value = CL_OUT_OF_RESOURCES;
    return code;
}
