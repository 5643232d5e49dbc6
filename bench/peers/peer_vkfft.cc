/*
 * The peer of bench_gpu that fuses too: VkFFT's convolution (Debian's libvkfft-dev 1.2.26), forward,
 * multiply and inverse in one launch, in place over a GiB of windows of Q complex points: the work
 * of cufft_peer. OpenCL (VKFFT_BACKEND=3) or CUDA (VKFFT_BACKEND=1).
 *
 *     peer_vkfft [--mib 1024] [--verbose]
 *
 * Reads lines "Q ns" and answers each with the nanoseconds of one window and the relative error
 * against the definition in double, or with "- " and why there is no figure. The library may crash:
 * what calls it is a child (--worker), and a crash is an answer.
 *
 * Its release has no way to share a spectrum among windows, so that its convolution reads as many
 * spectra as windows. What its interface leaves is tried, checked, and the fastest right one counts:
 *
 *     rows      windows along its second dimension, a spectrum for each
 *     shared    the same where it takes several windows into one work-group: its kernel then reads
 *               spectra at Q·(f + Q·window in the group), the same ones for each group, which a
 *               table laid out so makes right (as plain rows the result is wrong)
 *     features  windows as "coordinate features", one a work-group
 *
 * each in one launch, and (but for shared) in 32 launches at rising offsets that read the same spectra,
 * few enough to stay in the cache.
 */
#ifndef VKFFT_BACKEND
#define VKFFT_BACKEND 3
#endif
#ifndef CL_TARGET_OPENCL_VERSION
#define CL_TARGET_OPENCL_VERSION 120
#endif
#include <vkFFT.h>

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <complex>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

typedef std::complex<float> point;

static const int answer_timeout_ms = 120000;
static const unsigned spectra_different = 64; /* as many channels */
static const double error_allowed = 1e-5;
static size_t total_bytes = size_t(1) << 30;
static bool verbose;

/* ---- the device ---------------------------------------------------------------------------------- */

#if VKFFT_BACKEND == 3
static cl_device_id device;
static cl_context context;
static cl_command_queue queue;
typedef cl_mem memory;

static bool device_open(std::string *name)
{
    cl_platform_id platforms[8];
    cl_uint count = 0;
    cl_int code;
    char text[256] = "";
    clGetPlatformIDs(8, platforms, &count);
    for (cl_device_type type : {CL_DEVICE_TYPE_GPU, CL_DEVICE_TYPE_CPU})
        for (cl_uint i = 0; i < count && device == nullptr; i++)
            if (clGetDeviceIDs(platforms[i], type, 1, &device, nullptr) != CL_SUCCESS)
                device = nullptr;
    if (device == nullptr)
        return false;
    clGetDeviceInfo(device, CL_DEVICE_NAME, sizeof text, text, nullptr);
    *name = std::string(text) + ", OpenCL";
    context = clCreateContext(nullptr, 1, &device, nullptr, nullptr, &code);
    queue = context == nullptr ? nullptr : clCreateCommandQueue(context, device, 0, &code);
    return queue != nullptr;
}

static memory memory_open(size_t bytes)
{
    cl_int code;
    return clCreateBuffer(context, CL_MEM_READ_WRITE, bytes, nullptr, &code);
}

static void memory_close(memory m)
{
    if (m != nullptr)
        clReleaseMemObject(m);
}

static bool memory_write(memory m, size_t at, const void *from, size_t bytes)
{
    return clEnqueueWriteBuffer(queue, m, CL_TRUE, at, bytes, from, 0, nullptr, nullptr) == CL_SUCCESS;
}

static bool memory_read(memory m, size_t at, void *to, size_t bytes)
{
    return clEnqueueReadBuffer(queue, m, CL_TRUE, at, bytes, to, 0, nullptr, nullptr) == CL_SUCCESS;
}

static void device_finish()
{
    clFinish(queue);
}

static void configure(VkFFTConfiguration *to)
{
    to->device = &device;
    to->context = &context;
}

static void launch_on(VkFFTLaunchParams *launch)
{
    launch->commandQueue = &queue;
}
#else
static CUdevice device;
typedef void *memory;

static bool device_open(std::string *name)
{
    char text[256] = "";
    if (cuInit(0) != CUDA_SUCCESS || cudaSetDevice(0) != cudaSuccess || cudaFree(nullptr) != cudaSuccess ||
        cuDeviceGet(&device, 0) != CUDA_SUCCESS)
        return false;
    cuDeviceGetName(text, sizeof text, device);
    *name = std::string(text) + ", CUDA";
    return true;
}

static memory memory_open(size_t bytes)
{
    void *m = nullptr;
    return cudaMalloc(&m, bytes) == cudaSuccess ? m : nullptr;
}

static void memory_close(memory m)
{
    cudaFree(m);
}

static bool memory_write(memory m, size_t at, const void *from, size_t bytes)
{
    return cudaMemcpy((char *)m + at, from, bytes, cudaMemcpyHostToDevice) == cudaSuccess;
}

static bool memory_read(memory m, size_t at, void *to, size_t bytes)
{
    return cudaMemcpy(to, (char *)m + at, bytes, cudaMemcpyDeviceToHost) == cudaSuccess;
}

static void device_finish()
{
    cudaDeviceSynchronize();
}

static void configure(VkFFTConfiguration *to)
{
    to->device = &device;
}

static void launch_on(VkFFTLaunchParams *)
{
}
#endif

/* ---- one way ------------------------------------------------------------------------------------- */

enum way { ROWS, SHARED, FEATURES };
static const char *const way_names[] = {"rows", "shared", "features"};

struct convolver {
    enum way way;
    unsigned points;
    uint64_t windows, pieces, group; /* of all; launches; windows in a work-group */
    uint64_t buffer_bytes, kernel_bytes;
    memory kernel;
    VkFFTApplication app;
    bool opened;
};

static memory data; /* windows, convolved in place */
static std::vector<point> pattern; /* what they begin as, again and again */

/* Taps of modulus 1 at every frequency (Zadoff and Chu), so that convolving in place neither grows nor
 * fades: exp(i·pi·u·k²/Q) / sqrt Q, u odd. */
static point tap(unsigned points, uint64_t window, uint64_t k)
{
    const uint64_t u = 2 * (window % spectra_different) + 1;
    const double angle = M_PI * double(u * (k * k % (2 * points)) % (2 * points)) / points;
    return point(std::polar(1 / std::sqrt(double(points)), angle));
}

static VkFFTConfiguration shape(const struct convolver *c, uint64_t windows)
{
    VkFFTConfiguration configuration = {};
    configuration.FFTdim = 1;
    configuration.size[0] = c->points;
    configuration.size[1] = c->way == FEATURES ? 1 : windows;
    configuration.size[2] = 1;
    configuration.coordinateFeatures = c->way == FEATURES ? windows : 1;
    configuration.normalize = 1;
    configure(&configuration);
    return configuration;
}

/* Spectra of `windows` windows in `kernel`, by the library's own transform. 0, or its error. */
static int spectra_fill(struct convolver *c, uint64_t windows)
{
    const uint64_t once = std::min<uint64_t>(windows, std::max(spectra_different, (1u << 20) / c->points));
    std::vector<point> taps(once * c->points);
    for (uint64_t w = 0; w < once; w++)
        for (uint64_t k = 0; k < c->points; k++)
            taps[w * c->points + k] = w < spectra_different
                                          ? tap(c->points, w, k)
                                          : taps[(w - spectra_different) * c->points + k];
    uint64_t bytes = windows * c->points * sizeof(point);
    const uint64_t step = taps.size() * sizeof(point);
    memory spectra = memory_open(bytes);
    if (spectra == memory())
        return VKFFT_ERROR_FAILED_TO_ALLOCATE;
    c->kernel = spectra;
    c->kernel_bytes = bytes;
    for (uint64_t at = 0; at < bytes; at += step)
        if (!memory_write(spectra, at, taps.data(), std::min(step, bytes - at)))
            return VKFFT_ERROR_FAILED_TO_COPY;
    VkFFTConfiguration configuration = shape(c, windows);
    configuration.kernelConvolution = 1;
    configuration.buffer = &spectra;
    configuration.bufferSize = &bytes;
    VkFFTApplication app = {};
    VkFFTLaunchParams launch = {};
    launch_on(&launch);
    int error = initializeVkFFT(&app, configuration);
    if (error == VKFFT_SUCCESS) {
        error = VkFFTAppend(&app, -1, &launch);
        device_finish();
        deleteVkFFT(&app);
    }
    if (error != VKFFT_SUCCESS || c->way != SHARED)
        return error;
    const bool read = memory_read(spectra, 0, taps.data(), bytes);
    memory_close(spectra);
    std::vector<point> table(windows * c->points * c->points);
    for (uint64_t w = 0; w < windows; w++)
        for (uint64_t f = 0; f < c->points; f++)
            table[c->points * (f + c->points * w)] = taps[w * c->points + f];
    c->kernel_bytes = table.size() * sizeof(point);
    c->kernel = memory_open(c->kernel_bytes);
    return read && c->kernel != memory() && memory_write(c->kernel, 0, table.data(), c->kernel_bytes)
               ? 0
               : VKFFT_ERROR_FAILED_TO_ALLOCATE;
}

static int convolver_open(struct convolver *c)
{
    const uint64_t windows = c->windows / c->pieces;
    int error = spectra_fill(c, c->way == SHARED ? c->group : windows);
    if (error != 0)
        return error;
    c->buffer_bytes = total_bytes;
    VkFFTConfiguration configuration = shape(c, windows);
    configuration.performConvolution = 1;
    configuration.kernel = &c->kernel;
    configuration.kernelSize = &c->kernel_bytes;
    configuration.buffer = &data;
    configuration.bufferSize = &c->buffer_bytes;
    configuration.specifyOffsetsAtLaunch = c->pieces > 1;
    error = initializeVkFFT(&c->app, configuration);
    c->opened = error == VKFFT_SUCCESS;
    if (c->opened && c->way != FEATURES)
        c->group = std::max<uint64_t>(1, c->app.localFFTPlan->axes[0][0].axisBlock[1]);
    return error;
}

static void convolver_close(struct convolver *c)
{
    if (c->opened)
        deleteVkFFT(&c->app);
    if (c->kernel != memory())
        memory_close(c->kernel);
    c->opened = false;
    c->kernel = memory();
}

static int convolver_run(struct convolver *c)
{
    int error = 0;
    for (uint64_t i = 0; i < c->pieces && error == 0; i++) {
        VkFFTLaunchParams launch = {};
        launch_on(&launch);
        launch.bufferOffset = total_bytes / c->pieces * i;
        error = VkFFTAppend(&c->app, -1, &launch);
    }
    return error;
}

/* One convolution of fresh windows against the definition, at points drawn at random. */
static double convolver_error(struct convolver *c)
{
    const uint64_t q = c->points, shared = c->way == SHARED ? c->group : c->windows / c->pieces;
    for (size_t at = 0; at < total_bytes; at += pattern.size() * sizeof(point))
        if (!memory_write(data, at, pattern.data(), pattern.size() * sizeof(point)))
            return INFINITY;
    if (convolver_run(c) != 0)
        return INFINITY;
    device_finish();
    double error = 0, size = 0;
    std::vector<point> got(q);
    unsigned state = 1;
    for (unsigned i = 0; i < 96; i++) {
        state = state * 1664525u + 1013904223u;
        const uint64_t w = i == 0 ? 0 : i == 1 ? c->windows - 1 : state % c->windows, n = state / 3 % q;
        const uint64_t h = w % shared; /* whose spectrum */
        std::complex<double> want = 0;
        if (!memory_read(data, w * q * sizeof(point), got.data(), q * sizeof(point)))
            return INFINITY;
        for (uint64_t k = 0; k < q; k++)
            want += std::complex<double>(tap(c->points, h, k)) *
                    std::complex<double>(pattern[(w * q + (n + q - k) % q) % pattern.size()]);
        error += std::norm(want - std::complex<double>(got[n]));
        size += std::norm(want);
    }
    const double relative = std::sqrt(error / size);
    return std::isfinite(relative) ? relative : INFINITY;
}

/* Nanoseconds of one window: the median of rounds, of four convolutions each, that fill the time. */
static double convolver_time(struct convolver *c, double for_ns)
{
    typedef std::chrono::steady_clock clock;
    std::vector<double> took;
    double spent_ns = 0;
    device_finish();
    while (spent_ns < for_ns) {
        const clock::time_point from = clock::now();
        for (int i = 0; i < 4; i++)
            convolver_run(c);
        device_finish();
        const double ns = std::chrono::duration<double, std::nano>(clock::now() - from).count();
        took.push_back(ns / 4 / double(c->windows));
        spent_ns += ns;
    }
    std::sort(took.begin(), took.end());
    return took[took.size() / 2];
}

/* ---- the child that calls the library ----------------------------------------------------------- */

struct best {
    struct convolver convolver;
    double ns, error;
    std::string problems; /* of the ways that are of no use */
};

/* Tries one way, in so many launches; keeps the faster of it and the best so far. How many windows
 * went into a work-group. */
static uint64_t attempt(struct best *best, enum way way, unsigned points, uint64_t pieces, uint64_t group)
{
    char text[160] = "";
    struct convolver c = {};
    c.way = way;
    c.points = points;
    c.windows = total_bytes / sizeof(point) / points;
    c.pieces = pieces;
    c.group = group;
    if (c.windows / pieces < spectra_different)
        return 1;
    const int code = convolver_open(&c);
    const double error = code == 0 ? convolver_error(&c) : INFINITY;
    double ns = INFINITY;
    if (code != 0)
        snprintf(text, sizeof text, "%s in %d launches: its error %d", way_names[way], int(pieces), code);
    else if (!(error <= error_allowed))
        snprintf(text, sizeof text, "%s in %d launches: wrong by %.1e", way_names[way], int(pieces), error);
    else
        ns = convolver_time(&c, 5e6);
    if (verbose)
        fprintf(stderr, "Q %u %s, %d launches, group %d: %.2f ns/window, error %.1e %s\n", points,
                way_names[way], int(pieces), int(c.group), ns, error, text);
    if (text[0] != '\0')
        best->problems += std::string(best->problems.empty() ? "" : "; ") + text;
    group = c.group;
    if (!(ns < best->ns)) {
        convolver_close(&c);
        return group;
    }
    convolver_close(&best->convolver);
    best->convolver = c;
    /* the library keeps pointers to what it was given */
    best->convolver.app.configuration.kernel = &best->convolver.kernel;
    best->convolver.app.configuration.kernelSize = &best->convolver.kernel_bytes;
    best->convolver.app.configuration.bufferSize = &best->convolver.buffer_bytes;
    best->ns = ns;
    best->error = error;
    return group;
}

/* All ways; the fastest right one. */
static void choose(struct best *best, unsigned points)
{
    convolver_close(&best->convolver);
    best->convolver = {};
    best->ns = INFINITY;
    best->problems.clear();
    const uint64_t group = attempt(best, ROWS, points, 1, 1);
    if (group > 1 && group * points * points * sizeof(point) <= total_bytes)
        attempt(best, SHARED, points, 1, group);
    attempt(best, ROWS, points, 32, 1);
    if (group > 1 || !best->convolver.opened) {
        attempt(best, FEATURES, points, 1, 1);
        attempt(best, FEATURES, points, 32, 1);
    }
    best->convolver.points = points;
}

static int worker()
{
    std::string name;
    pattern.resize(size_t(1) << 21);
    if (!device_open(&name) || (data = memory_open(total_bytes)) == memory()) {
        printf("- no device with %zu MiB\n", total_bytes >> 20);
        return 1;
    }
    for (int fault : {SIGSEGV, SIGFPE, SIGABRT}) /* drivers may have taken them over */
        signal(fault, SIG_DFL);
    unsigned state = 12345;
    for (point &x : pattern) {
        float parts[2];
        for (float &part : parts) {
            state = state * 1664525u + 1013904223u;
            part = float(int(state)) * 0x1p-31f;
        }
        x = point(parts[0], parts[1]);
    }
    struct best best = {};
    double for_ns;
    unsigned points;
    while (scanf("%u %lf", &points, &for_ns) == 2) {
        if (points != best.convolver.points)
            choose(&best, points);
        if (best.convolver.opened)
            printf("%.6f %.3g %s in %d launches, %s\n", convolver_time(&best.convolver, for_ns), best.error,
                   way_names[best.convolver.way], int(best.convolver.pieces), name.c_str());
        else
            printf("- %s\n", best.problems.c_str());
        fflush(stdout);
    }
    convolver_close(&best.convolver);
    memory_close(data);
    return 0;
}

/* ---- the parent that outlives it ---------------------------------------------------------------- */

struct child {
    pid_t pid;
    FILE *ask, *answer;
};

static bool child_start(struct child *child, char **argv)
{
    int to[2], from[2];
    if (pipe2(to, O_CLOEXEC) != 0 || pipe2(from, O_CLOEXEC) != 0)
        return false;
    child->pid = fork();
    if (child->pid == 0) {
        dup2(to[0], STDIN_FILENO);
        dup2(from[1], STDOUT_FILENO);
        std::vector<char *> arguments(1, argv[0]);
        char flag[] = "--worker";
        arguments.push_back(flag);
        for (int i = 1; argv[i] != nullptr; i++)
            arguments.push_back(argv[i]);
        arguments.push_back(nullptr);
        execv("/proc/self/exe", arguments.data());
        _exit(127);
    }
    close(to[0]);
    close(from[1]);
    child->ask = fdopen(to[1], "w");
    child->answer = fdopen(from[0], "r");
    return child->pid > 0 && child->ask != nullptr && child->answer != nullptr;
}

/* How it ended. */
static std::string child_stop(struct child *child)
{
    char text[80];
    int status = 0;
    fclose(child->ask);
    fclose(child->answer);
    waitpid(child->pid, &status, 0);
    if (WIFSIGNALED(status))
        snprintf(text, sizeof text, "%s (signal %d)", WTERMSIG(status) == SIGKILL ? "hung" : "crashed",
                 WTERMSIG(status));
    else
        snprintf(text, sizeof text, "ended with status %d", WEXITSTATUS(status));
    child->pid = 0;
    return text;
}

static int parent(char **argv)
{
    std::map<unsigned, std::string> broken; /* sizes that ended a worker, and how */
    struct child child = {};
    unsigned points;
    double for_ns;
    signal(SIGPIPE, SIG_IGN);
    while (scanf("%u %lf", &points, &for_ns) == 2) {
        char line[1024];
        if (broken.count(points) == 0) {
            if (child.pid == 0 && !child_start(&child, argv))
                return 1;
            fprintf(child.ask, "%u %.0f\n", points, for_ns);
            fflush(child.ask);
            struct pollfd ready = {fileno(child.answer), POLLIN, 0};
            if (poll(&ready, 1, answer_timeout_ms) == 0)
                kill(child.pid, SIGKILL);
            if (fgets(line, sizeof line, child.answer) == nullptr)
                broken[points] = child_stop(&child);
        }
        if (broken.count(points) != 0)
            printf("- %s\n", broken[points].c_str());
        else
            fputs(line, stdout);
        fflush(stdout);
    }
    if (child.pid != 0)
        child_stop(&child);
    return 0;
}

int main(int argc, char **argv)
{
    bool works = false;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--worker") == 0)
            works = true;
        else if (strcmp(argv[i], "--verbose") == 0)
            verbose = true;
        else if (strcmp(argv[i], "--mib") == 0 && i + 1 < argc && atoi(argv[i + 1]) >= 16)
            total_bytes = size_t(atoi(argv[++i])) << 20;
        else
            return fputs("usage: peer_vkfft [--mib 1024] [--verbose] < lines \"Q ns\"\n", stderr), 2;
    }
    return works ? worker() : parent(argv);
}
