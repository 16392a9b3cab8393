// Copies of the older kind: groups, zero fill, and arrivals at an mbarrier.
#include "async.cuh"

// Reverses rows of 128 floats, `n` rows of which `valid` are there, through three stages. Missing rows are zeros.
extern "C" __global__ void reverse_rows(const float* in, float* out, u32 n, u32 valid) {
    __shared__ __align__(16) float row[3][128];
    u32 t = threadIdx.x;  // 32 threads, 16 bytes each
    auto load = [&](u32 i) {
        u32 bytes = i < valid ? 16 : 0;
        const float* from = in + (i < valid ? 128 * i : 0) + 4 * t;
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(&row[i % 3][4 * t])), "l"(from), "r"(bytes) : "memory");
    };
    for (u32 i = 0; i < 2; ++i) {
        if (i < n) load(i);
        asm volatile("cp.async.commit_group;" ::: "memory");
    }
    for (u32 i = 0; i < n; ++i) {
        asm volatile("cp.async.wait_group 1;" ::: "memory");
        __syncwarp();
        for (u32 j = t; j < 128; j += 32) out[128 * i + j] = row[i % 3][127 - j];
        __syncwarp();
        if (i + 2 < n) load(i + 2);
        asm volatile("cp.async.commit_group;" ::: "memory");
    }
}

// One warp copies 512 bytes; another waits for them at an mbarrier and stores them.
extern "C" __global__ void arrive_when_copied(const float* in, float* out) {
    __shared__ __align__(16) float row[128];
    __shared__ u64 bar_storage;
    u32 bar = shared_address(&bar_storage);
    if (threadIdx.x == 0) mbarrier_init(bar, 32);
    __syncthreads();
    if (threadIdx.x < 32) {
        asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" ::"r"(shared_address(&row[4 * threadIdx.x])), "l"(in + 4 * threadIdx.x) : "memory");
        asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(bar) : "memory");
    } else {
        mbarrier_wait(bar, 0);
        for (u32 j = threadIdx.x - 32; j < 128; j += 32) out[j] = row[j] + 1.0f;
    }
}

// States instead of parities: each warp adds what the other left, `n` times.
extern "C" __global__ void ping_pong(u32* out, u32 n) {
    __shared__ u32 value[2];
    __shared__ u64 bar_storage;
    u32 bar = shared_address(&bar_storage);
    u32 me = threadIdx.x / 32;
    if (threadIdx.x == 0) mbarrier_init(bar, 64);
    value[me] = me + 1;
    __syncthreads();
    u32 sum = 0;
    for (u32 i = 0; i < n; ++i) {
        sum += value[1 - me];
        for (int half = 0; half < 2; ++half) {
            u64 state;
            asm volatile("mbarrier.arrive.shared::cta.b64 %0, [%1];" : "=l"(state) : "r"(bar) : "memory");
            u32 done = 0;
            while (!done)
                asm volatile("{ .reg .pred p; mbarrier.test_wait.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                             : "=r"(done) : "r"(bar), "l"(state) : "memory");
            if (half == 0 && threadIdx.x % 32 == 0) value[me] = sum;
        }
    }
    if (threadIdx.x % 32 == 0) out[me] = sum;
}
