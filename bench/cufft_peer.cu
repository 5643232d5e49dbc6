/*
 * The peer of bench_gpu on NVIDIA: cuFFT, forward, multiply, inverse, in three passes over a GiB of
 * windows of Q complex points (a real window of N = 2Q frames in the negacyclic form, so that
 * both do the same work), single precision, a spectrum for each of 64 channels.
 *
 *     nvcc -O3 -o cufft_peer bench/cufft_peer.cu -lcufft
 *
 * Reads lines "Q ns" and answers each with the nanoseconds of one window, the median of batches
 * that fill the given time, and the largest relative error of the pair of transforms.
 */
#include <cuda_runtime.h>
#include <cufft.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

static const size_t total_bytes = size_t(1) << 30;
static const unsigned channels = 64, points_most = 1u << 20;

static void need(int code, const char *what)
{
    if (code != 0) {
        std::fprintf(stderr, "cufft_peer: %s: error %d\n", what, code);
        std::exit(1);
    }
}

__global__ void fill(float *x, size_t count)
{
    const size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
    unsigned z = unsigned(i) * 2654435761u;
    z ^= z >> 15;
    z *= 2246822519u;
    z ^= z >> 13;
    if (i < count)
        x[i] = float(z >> 8) / 8388608.0f - 1.0f;
}

/* Two points an item; windows of a channel follow each other. */
__global__ void multiply(float4 *x, const float4 *h, unsigned pairs, unsigned windows_each, size_t count)
{
    const size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
    if (i >= count)
        return;
    const unsigned channel = unsigned(i / pairs) / windows_each;
    const float4 b = h[size_t(channel) * pairs + i % pairs], a = x[i];
    x[i] = make_float4(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x, a.z * b.z - a.w * b.w,
                       a.z * b.w + a.w * b.z);
}

__global__ void set(float2 *x, float value, size_t count)
{
    const size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
    if (i < count)
        x[i] = make_float2(value, 0);
}

int main()
{
    float2 *in, *out, *h;
    need(cudaMalloc(&in, total_bytes), "memory");
    need(cudaMalloc(&out, total_bytes), "memory");
    need(cudaMalloc(&h, sizeof(float2) * channels * points_most), "memory");
    fill<<<total_bytes / 4 / 256, 256>>>((float *)in, total_bytes / 4);
    unsigned points;
    long long for_ns;
    while (std::scanf("%u %lld", &points, &for_ns) == 2) {
        const unsigned windows = unsigned(total_bytes / sizeof(float2) / points);
        const unsigned each = std::max(1u, windows / channels);
        const size_t count = total_bytes / sizeof(float4);
        cufftHandle plan;
        need(cufftPlan1d(&plan, points, CUFFT_C2C, windows), "cufftPlan1d");
        set<<<(channels * size_t(points) + 255) / 256, 256>>>(h, 1.0f / points,
                                                              channels * size_t(points));
        auto convolve = [&] {
            cufftExecC2C(plan, in, out, CUFFT_FORWARD);
            multiply<<<count / 256, 256>>>((float4 *)out, (const float4 *)h, points / 2, each, count);
            cufftExecC2C(plan, out, out, CUFFT_INVERSE);
        };
        convolve();
        std::vector<float2> want(points), got(points);
        const size_t last = size_t(windows - 1) * points;
        need(cudaMemcpy(want.data(), in + last, points * sizeof(float2), cudaMemcpyDeviceToHost), "copy");
        need(cudaMemcpy(got.data(), out + last, points * sizeof(float2), cudaMemcpyDeviceToHost), "copy");
        double error = 0, size = 0;
        for (unsigned i = 0; i < points; i++) {
            error += std::pow(got[i].x - want[i].x, 2.0) + std::pow(got[i].y - want[i].y, 2.0);
            size += std::pow(want[i].x, 2.0) + std::pow(want[i].y, 2.0);
        }
        cudaEvent_t from, until;
        cudaEventCreate(&from);
        cudaEventCreate(&until);
        std::vector<float> took;
        double spent_ns = 0;
        while (spent_ns < for_ns) {
            cudaEventRecord(from);
            for (int i = 0; i < 4; i++)
                convolve();
            cudaEventRecord(until);
            cudaEventSynchronize(until);
            float ms = 0;
            cudaEventElapsedTime(&ms, from, until);
            took.push_back(ms / 4);
            spent_ns += ms * 1e6;
        }
        need(cudaGetLastError(), "cuFFT");
        std::sort(took.begin(), took.end());
        std::printf("%.6f %.3g\n", took[took.size() / 2] * 1e6 / windows, std::sqrt(error / size));
        std::fflush(stdout);
        cudaEventDestroy(from);
        cudaEventDestroy(until);
        cufftDestroy(plan);
    }
    return 0;
}
