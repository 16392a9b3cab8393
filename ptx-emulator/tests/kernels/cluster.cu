// Clusters of several blocks: shared memory of one another, mbarriers of one another, and loads for all of them.
#include "async.cuh"

__device__ __forceinline__ u32 rank() {
    u32 r;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(r));
    return r;
}
__device__ __forceinline__ u32 in_block(u32 address, u32 rank) {
    u32 a;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(a) : "r"(address), "r"(rank));
    return a;
}
__device__ __forceinline__ void cluster_sync() {
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// Each block passes its numbers to the next in its cluster of four, and adds what it gets.
extern "C" __global__ void __cluster_dims__(4, 1, 1) pass_on(u32* out) {
    __shared__ u32 mine[64];
    __shared__ u32 got[64];
    u32 t = threadIdx.x;
    mine[t] = 100 * blockIdx.x + t;
    cluster_sync();
    u32 left;
    asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(left) : "r"(in_block(shared_address(&mine[t]), (rank() + 3) % 4)) : "memory");
    asm volatile("st.shared::cluster.u32 [%0], %1;" ::"r"(in_block(shared_address(&got[t]), (rank() + 1) % 4)), "r"(mine[t] + left) : "memory");
    cluster_sync();
    out[64 * blockIdx.x + t] = got[t];
}

// Two blocks load half a tile each, for both of them; each waits for the whole tile at its own mbarrier, and tells the other when it has read it.
extern "C" __global__ void __cluster_dims__(2, 1, 1) multicast(const __grid_constant__ TensorMap map, u32* out, u32 n_tiles) {
    __shared__ __align__(1024) u32 tile[2][32 * 32];
    __shared__ u64 full_storage[2], empty_storage[2];
    u32 t = threadIdx.x, me = rank();
    if (t == 0) {
        for (int i = 0; i < 2; ++i) {
            mbarrier_init(shared_address(&full_storage[i]), 1);
            mbarrier_init(shared_address(&empty_storage[i]), 2);
        }
        fence_mbarrier_init();
    }
    cluster_sync();
    u32 sum = 0;
#pragma unroll 1
    for (u32 i = 0; i < n_tiles; ++i) {
        u32 stage = i % 2, full = shared_address(&full_storage[stage]), empty = shared_address(&empty_storage[stage]);
        if (t == 0) {
            mbarrier_wait(empty, (i / 2 + 1) & 1);
            mbarrier_expect(full, 4096);
            asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%2, %3}], [%4], %5;"
                         ::"r"(shared_address(&tile[stage][512 * me])), "l"(&map), "r"(0), "r"((int)(32 * i + 16 * me)), "r"(full), "h"((unsigned short)3) : "memory");
        }
        mbarrier_wait(full, i / 2 & 1);
        for (u32 j = 0; j < 32; ++j) sum += tile[stage][32 * j + t] * (j + 1 + me);
        __syncthreads();
        if (t < 2)
            asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(in_block(empty, t)) : "memory");
    }
    cluster_sync();
    out[32 * blockIdx.x + t] = sum;
}
