// Bulk copies of plain bytes: loads, stores, reductions, and groups of them.
#include "async.cuh"

// Doubles `n` chunks of 1 KiB, one after the other, with two buffers for what goes out.
extern "C" __global__ void double_chunks(const float* in, float* out, u32 n) {
    __shared__ __align__(128) float source[256];
    __shared__ __align__(128) float target[2][256];
    __shared__ u64 bar_storage;
    u32 bar = shared_address(&bar_storage);
    u32 t = threadIdx.x;
    if (t == 0) {
        mbarrier_init(bar, 1);
        fence_mbarrier_init();
    }
    __syncthreads();
    for (u32 i = 0; i < n; ++i) {
        if (t == 0) {
            mbarrier_expect(bar, 1024);
            asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                         ::"r"(shared_address(source)), "l"(in + 256 * i), "r"(1024), "r"(bar) : "memory");
            bulk_wait_read<1>();
        }
        __syncthreads();
        mbarrier_wait(bar, i & 1);
        for (u32 j = t; j < 256; j += blockDim.x) target[i & 1][j] = 2.0f * source[j];
        fence_proxy_async();
        __syncthreads();
        if (t == 0) {
            asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;"
                         ::"l"(out + 256 * i), "r"(shared_address(target[i & 1])), "r"(1024) : "memory");
            bulk_commit();
        }
    }
    if (t == 0) bulk_wait<0>();
}

// Every block adds its index plus one to 64 floats and takes the maximum of 64 integers.
extern "C" __global__ void reduce_blocks(float* sums, int* maxima) {
    __shared__ __align__(128) float ones[64];
    __shared__ __align__(128) int values[64];
    u32 t = threadIdx.x;
    ones[t] = 1.0f + blockIdx.x;
    values[t] = (int)(t % 3 == 0 ? blockIdx.x : t) - 10;
    fence_proxy_async();
    __syncthreads();
    if (t == 0) {
        asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;"
                     ::"l"(sums), "r"(shared_address(ones)), "r"(256) : "memory");
        asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.max.s32 [%0], [%1], %2;"
                     ::"l"(maxima), "r"(shared_address(values)), "r"(256) : "memory");
        bulk_commit();
        bulk_wait<0>();
    }
}

// Copies within a cluster of one block: shared to shared.
extern "C" __global__ void __cluster_dims__(1, 1, 1) shared_to_shared(u32* out) {
    __shared__ __align__(128) u32 a[64];
    __shared__ __align__(128) u32 b[64];
    __shared__ u64 bar_storage;
    u32 bar = shared_address(&bar_storage);
    u32 t = threadIdx.x;
    if (t == 0) {
        mbarrier_init(bar, 1);
        fence_mbarrier_init();
    }
    a[t] = 3 * t;
    fence_proxy_async();
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
    if (t == 0) {
        mbarrier_expect(bar, 256);
        asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                     ::"r"(shared_address(b)), "r"(shared_address(a)), "r"(256), "r"(bar) : "memory");
    }
    mbarrier_wait(bar, 0);
    out[t] = b[t];
}
