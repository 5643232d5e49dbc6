/*
 * An OpenCL library between the daemon and the real one, loaded with LD_PRELOAD: it counts the
 * calls that a device's run is made of, and from call n on it misbehaves.
 *
 *   FAULTY_MODE     fail   call n answers CL_OUT_OF_RESOURCES
 *                   die    call n and all after it answer CL_DEVICE_NOT_AVAILABLE
 *                   stall  call n never returns
 *                   mute   the work of call n and after never completes: events stay queued
 *                   hold   like mute, as long as the gate's file is there; then all events complete
 *                   wrong  kernels from call n on do not run: results are what memory held
 *                   late   call n takes FAULTY_MS longer; with a gate, one call each time the
 *                          gate's file is made, which the library then removes
 *                   fault  before call n a kernel writes where there is no memory: a GPU's driver
 *                          ends the context (a CPU's ends the process)
 *                   end    like die, and no further context can be made, as NVIDIA's driver
 *                          answers after a fault
 *                   memory clCreateBuffer answers CL_MEM_OBJECT_ALLOCATION_FAILURE as long as the
 *                          gate's file is there, on the device that was used first
 *   FAULTY_CALL     n, from 1; 0: never
 *   FAULTY_FINISH   n, from 1; 0: never: clFinish hangs, call n of it and all after it, which count
 *                   apart from the others; in any mode
 *   FAULTY_GATE     calls count only once this file is there
 *   FAULTY_MS       1000
 *   FAULTY_CONTEXTS how many contexts, in the order of their creation, misbehave; 1
 *   FAULTY_DEVICE   first: only contexts of the device that is used first are counted; others: only
 *                   those of other devices
 *   FAULTY_PCI      khr, nv: every device has a PCI address, told by cl_khr_pci_bus_info or by
 *                   cl_nv_device_attribute_query
 *   FAULTY_PCI_AT   the addresses in the order in which devices ask for them, such as
 *                   "0000:00:03.0 0001:3b:1f.2"; the last one is also of those that follow
 *   FAULTY_COUNT    a file that gets the number of calls counted, at exit
 *
 * Calls count only on the first FAULTY_CONTEXTS contexts, so that a second engine is sound.
 */
#define CL_TARGET_OPENCL_VERSION 120
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <CL/cl.h>
#include <CL/cl_ext.h>

enum { MOST = 256 };
enum mode {
    MODE_NONE,
    MODE_FAIL,
    MODE_DIE,
    MODE_STALL,
    MODE_MUTE,
    MODE_HOLD,
    MODE_WRONG,
    MODE_LATE,
    MODE_FAULT,
    MODE_END,
    MODE_MEMORY,
    MODES
};

static enum mode mode;
static long first_call, first_finish, contexts_wanted = 1, late_ms = 1000;
static const char *count_path, *gate;
static _Atomic long calls, finishes;
static _Atomic long contexts_made;
static cl_context contexts[MOST];
static cl_device_id first_device;
static bool first_device_only, other_devices_only;
static struct {
    cl_command_queue queue;
    long context;
    cl_kernel fault; /* NULL in other modes */
} queues[MOST];
static int queue_count;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

__attribute__((constructor)) static void read_environment(void)
{
    static const char *const names[MODES] = {"none",  "fail", "die",   "stall", "mute",  "hold",
                                             "wrong", "late", "fault", "end",   "memory"};
    const char *text = getenv("FAULTY_MODE");
    for (int i = 0; text != NULL && i < MODES; i++)
        if (strcmp(text, names[i]) == 0)
            mode = (enum mode)i;
    if ((text = getenv("FAULTY_CALL")) != NULL)
        first_call = atol(text);
    if ((text = getenv("FAULTY_FINISH")) != NULL)
        first_finish = atol(text);
    gate = getenv("FAULTY_GATE");
    if ((text = getenv("FAULTY_CONTEXTS")) != NULL)
        contexts_wanted = atol(text);
    if ((text = getenv("FAULTY_DEVICE")) != NULL) {
        first_device_only = strcmp(text, "first") == 0;
        other_devices_only = strcmp(text, "others") == 0;
    }
    if ((text = getenv("FAULTY_MS")) != NULL)
        late_ms = atol(text);
    count_path = getenv("FAULTY_COUNT");
}

__attribute__((destructor)) static void write_count(void)
{
    /* A helper process of the daemon's, which makes no such call, leaves the daemon's count alone.
     */
    const bool counted = count_path != NULL && atomic_load(&calls) > 0;
    FILE *file = counted ? fopen(count_path, "w") : NULL;
    if (file == NULL)
        return;
    fprintf(file, "%ld\n", atomic_load(&calls));
    fclose(file);
}

#define REAL(name) ((__typeof__(&name))real(#name))
static void *real(const char *name)
{
    return dlsym(RTLD_NEXT, name);
}

static bool is_open(void)
{
    static _Atomic bool opened;
    if (mode == MODE_LATE && gate != NULL)
        return true;
    if (!atomic_load(&opened) && (gate == NULL || access(gate, F_OK) == 0))
        atomic_store(&opened, true);
    return atomic_load(&opened);
}

static bool is_watched(cl_command_queue queue)
{
    bool watched = false;
    pthread_mutex_lock(&mutex);
    for (int i = queue_count - 1; i >= 0; i--)
        if (queues[i].queue == queue) {
            watched = queues[i].context < contexts_wanted;
            break;
        }
    pthread_mutex_unlock(&mutex);
    return watched && is_open();
}

/* One call is late each time the gate's file is made. */
static bool is_late(long call)
{
    return gate != NULL ? unlink(gate) == 0 : call == first_call;
}

static const char fault_source[] =
    "kernel void fault(global int *at) { at[get_global_id(0) + (1L << 40)] = 1; }";

/* A kernel of this context that writes 4 TiB past its buffer, made beforehand. */
static cl_kernel make_fault(cl_context context, cl_device_id device)
{
    const char *source = fault_source;
    cl_int code;
    cl_program program = REAL(clCreateProgramWithSource)(context, 1, &source, NULL, &code);
    if (program == NULL || REAL(clBuildProgram)(program, 1, &device, "", NULL, NULL) != CL_SUCCESS)
        return NULL;
    cl_kernel kernel = REAL(clCreateKernel)(program, "fault", &code);
    cl_mem memory = REAL(clCreateBuffer)(context, CL_MEM_READ_WRITE, 4096, NULL, &code);
    if (kernel != NULL)
        REAL(clSetKernelArg)(kernel, 0, sizeof memory, &memory);
    return kernel;
}

static void launch_fault(cl_command_queue queue)
{
    const size_t items = 64;
    for (int i = queue_count - 1; i >= 0; i--)
        if (queues[i].queue == queue && queues[i].fault != NULL) {
            REAL(clEnqueueNDRangeKernel)
            (queue, queues[i].fault, 1, NULL, &items, NULL, 0, NULL, NULL);
            break;
        }
}

/* Counts a call; what becomes of it. */
static enum mode of_call(cl_command_queue queue, cl_int *code)
{
    if (!is_watched(queue))
        return MODE_NONE;
    const long call = atomic_fetch_add(&calls, 1) + 1;
    if (first_call == 0 || call < first_call)
        return MODE_NONE;
    switch (mode) {
    case MODE_FAIL:
        *code = CL_OUT_OF_RESOURCES;
        return call == first_call ? MODE_FAIL : MODE_NONE;
    case MODE_DIE:
    case MODE_END:
        *code = CL_DEVICE_NOT_AVAILABLE;
        return MODE_FAIL;
    case MODE_STALL:
        if (call == first_call)
            for (;;)
                pause();
        return MODE_NONE;
    case MODE_MUTE:
    case MODE_WRONG:
        return mode;
    case MODE_HOLD:
        return access(gate, F_OK) == 0 ? MODE_MUTE : MODE_NONE;
    case MODE_LATE:
        if (is_late(call))
            usleep((useconds_t)late_ms * 1000);
        return MODE_NONE;
    case MODE_FAULT:
        if (call == first_call)
            launch_fault(queue);
        return MODE_NONE;
    default:
        break;
    }
    return MODE_NONE;
}

static void *complete_once_the_gate_is_gone(void *context)
{
    cl_event event = context;
    while (access(gate, F_OK) == 0)
        usleep(10000);
    REAL(clSetUserEventStatus)(event, CL_COMPLETE);
    REAL(clReleaseEvent)(event);
    return NULL;
}

/* An event that never completes, or not as long as the gate's file is there, takes the place of the
 * command's. */
static cl_int never(cl_command_queue queue, cl_event *event)
{
    cl_context context;
    cl_int code =
        REAL(clGetCommandQueueInfo)(queue, CL_QUEUE_CONTEXT, sizeof context, &context, NULL);
    if (code == CL_SUCCESS && event != NULL)
        *event = REAL(clCreateUserEvent)(context, &code);
    pthread_t thread;
    if (mode == MODE_HOLD && code == CL_SUCCESS && event != NULL &&
        REAL(clRetainEvent)(*event) == CL_SUCCESS &&
        pthread_create(&thread, NULL, complete_once_the_gate_is_gone, *event) == 0)
        pthread_detach(thread);
    return code;
}

#define CALL(name, parameters, arguments)                                                          \
    cl_int name parameters                                                                         \
    {                                                                                              \
        cl_int code = CL_SUCCESS;                                                                  \
        switch (of_call(queue, &code)) {                                                           \
        case MODE_FAIL:                                                                            \
            return code;                                                                           \
        case MODE_MUTE:                                                                            \
            return never(queue, event);                                                            \
        default:                                                                                   \
            return REAL(name) arguments;                                                           \
        }                                                                                          \
    }

CALL(clEnqueueWriteBuffer,
     (cl_command_queue queue, cl_mem buffer, cl_bool blocking, size_t offset, size_t bytes,
      const void *from, cl_uint waits, const cl_event *list, cl_event *event),
     (queue, buffer, blocking, offset, bytes, from, waits, list, event))
CALL(clEnqueueReadBuffer,
     (cl_command_queue queue, cl_mem buffer, cl_bool blocking, size_t offset, size_t bytes,
      void *to, cl_uint waits, const cl_event *list, cl_event *event),
     (queue, buffer, blocking, offset, bytes, to, waits, list, event))
CALL(clEnqueueCopyBuffer,
     (cl_command_queue queue, cl_mem from, cl_mem to, size_t from_offset, size_t to_offset,
      size_t bytes, cl_uint waits, const cl_event *list, cl_event *event),
     (queue, from, to, from_offset, to_offset, bytes, waits, list, event))
CALL(clEnqueueFillBuffer,
     (cl_command_queue queue, cl_mem buffer, const void *pattern, size_t pattern_bytes,
      size_t offset, size_t bytes, cl_uint waits, const cl_event *list, cl_event *event),
     (queue, buffer, pattern, pattern_bytes, offset, bytes, waits, list, event))
CALL(clEnqueueMarkerWithWaitList,
     (cl_command_queue queue, cl_uint waits, const cl_event *list, cl_event *event),
     (queue, waits, list, event))

cl_int clEnqueueNDRangeKernel(cl_command_queue queue, cl_kernel kernel, cl_uint dimensions,
                              const size_t *offset, const size_t *global, const size_t *local,
                              cl_uint waits, const cl_event *list, cl_event *event)
{
    cl_int code = CL_SUCCESS;
    switch (of_call(queue, &code)) {
    case MODE_FAIL:
        return code;
    case MODE_MUTE:
        return never(queue, event);
    case MODE_WRONG:
        return REAL(clEnqueueMarkerWithWaitList)(queue, waits, list, event);
    default:
        return REAL(clEnqueueNDRangeKernel)(queue, kernel, dimensions, offset, global, local, waits,
                                            list, event);
    }
}

cl_int clFlush(cl_command_queue queue)
{
    cl_int code = CL_SUCCESS;
    return of_call(queue, &code) == MODE_FAIL ? code : REAL(clFlush)(queue);
}

cl_int clFinish(cl_command_queue queue)
{
    if (first_finish > 0 && is_watched(queue) && atomic_fetch_add(&finishes, 1) + 1 >= first_finish)
        for (;;)
            pause();
    cl_int code = CL_SUCCESS;
    return of_call(queue, &code) == MODE_FAIL ? code : REAL(clFinish)(queue);
}

cl_command_queue clCreateCommandQueue(cl_context context, cl_device_id device,
                                      cl_command_queue_properties properties, cl_int *code)
{
    cl_command_queue queue = REAL(clCreateCommandQueue)(context, device, properties, code);
    cl_kernel fault = queue != NULL && mode == MODE_FAULT ? make_fault(context, device) : NULL;
    pthread_mutex_lock(&mutex);
    for (long i = atomic_load(&contexts_made) - 1; queue != NULL && i >= 0; i--)
        if (i < MOST && contexts[i] == context && queue_count < MOST) {
            queues[queue_count].queue = queue;
            queues[queue_count].fault = fault;
            queues[queue_count++].context = i;
            break;
        }
    pthread_mutex_unlock(&mutex);
    return queue;
}

cl_context clCreateContext(const cl_context_properties *properties, cl_uint count,
                           const cl_device_id *devices,
                           void(CL_CALLBACK *notify)(const char *, const void *, size_t, void *),
                           void *user, cl_int *code)
{
    if (mode == MODE_END && gate != NULL && access(gate, F_OK) == 0) {
        *code = -9999;
        return NULL;
    }
    cl_context context = REAL(clCreateContext)(properties, count, devices, notify, user, code);
    pthread_mutex_lock(&mutex);
    if (first_device == NULL)
        first_device = devices[0];
    const bool is_first = devices[0] == first_device;
    if (is_first ? !other_devices_only : !first_device_only) {
        const long made = atomic_fetch_add(&contexts_made, 1);
        if (context != NULL && made < MOST)
            contexts[made] = context;
    }
    pthread_mutex_unlock(&mutex);
    return context;
}

cl_mem clCreateBuffer(cl_context context, cl_mem_flags flags, size_t bytes, void *host,
                      cl_int *code)
{
    cl_device_id device = NULL;
    REAL(clGetContextInfo)(context, CL_CONTEXT_DEVICES, sizeof device, &device, NULL);
    if (mode != MODE_MEMORY || device != first_device || access(gate, F_OK) != 0)
        return REAL(clCreateBuffer)(context, flags, bytes, host, code);
    *code = CL_MEM_OBJECT_ALLOCATION_FAILURE;
    return NULL;
}

/* ---- PCI addresses ----------------------------------------------------------------------- */

/* The address of the k-th device that asks. */
static cl_device_pci_bus_info_khr address_of(cl_device_id device)
{
    static cl_device_id asked[8];
    static int count;
    pthread_mutex_lock(&mutex);
    int at = 0;
    while (at < count && asked[at] != device)
        at++;
    if (at == count && count < 8)
        asked[count++] = device;
    pthread_mutex_unlock(&mutex);
    const char *text = getenv("FAULTY_PCI_AT");
    cl_device_pci_bus_info_khr address = {0};
    for (int used = 0; text != NULL && at >= 0; at--, text += used)
        if (sscanf(text, " %x:%x:%x.%x%n", &address.pci_domain, &address.pci_bus,
                   &address.pci_device, &address.pci_function, &used) != 4)
            break;
    return address;
}

static cl_int answer(const void *value, size_t bytes, void *to, size_t room, size_t *needs)
{
    if (needs != NULL)
        *needs = bytes;
    if (to != NULL && room < bytes)
        return CL_INVALID_VALUE;
    if (to != NULL)
        memcpy(to, value, bytes);
    return CL_SUCCESS;
}

cl_int clGetDeviceInfo(cl_device_id device, cl_device_info what, size_t room, void *to,
                       size_t *needs)
{
    const char *way = getenv("FAULTY_PCI");
    const bool khronos = way != NULL && strcmp(way, "khr") == 0;
    const cl_int code = REAL(clGetDeviceInfo)(device, what, room, to, needs);
    if (way == NULL)
        return code;
    if (what == CL_DEVICE_EXTENSIONS && code == CL_SUCCESS && to != NULL)
        strncat(to, khronos ? " cl_khr_pci_bus_info" : " cl_nv_device_attribute_query",
                room - strlen(to) - 1);
    const cl_device_pci_bus_info_khr address = address_of(device);
    const cl_uint slot = address.pci_device * 8 + address.pci_function;
    if (khronos && what == CL_DEVICE_PCI_BUS_INFO_KHR)
        return answer(&address, sizeof address, to, room, needs);
    if (!khronos && what == 0x4008)
        return answer(&address.pci_bus, sizeof address.pci_bus, to, room, needs);
    if (!khronos && what == 0x4009)
        return answer(&slot, sizeof slot, to, room, needs);
    if (!khronos && what == 0x400A)
        return answer(&address.pci_domain, sizeof address.pci_domain, to, room, needs);
    return code;
}
