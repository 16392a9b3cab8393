// A box of a tensor of each rank: loaded and dumped as it lies in shared memory, stored, and reduced.
#include "async.cuh"

struct Coordinates { int c[5]; };

extern "C" __global__ void load_1d(const __grid_constant__ TensorMap map, Coordinates at, u32 bytes, u32* out) {
    extern __shared__ __align__(1024) u32 box[];
    __shared__ u64 bar_storage;
    u32 bar = shared_address(&bar_storage);
    if (threadIdx.x == 0) {
        mbarrier_init(bar, 1);
        fence_mbarrier_init();
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        mbarrier_expect(bar, bytes);
        asm volatile("cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3}], [%2];"
                     ::"r"(shared_address(box)), "l"(&map), "r"(bar), "r"(at.c[0]) : "memory");
    }
    mbarrier_wait(bar, 0);
    for (u32 i = threadIdx.x; i < bytes / 4; i += blockDim.x) out[i] = box[i];
}

extern "C" __global__ void load_2d(const __grid_constant__ TensorMap map, Coordinates at, u32 bytes, u32* out) {
    extern __shared__ __align__(1024) u32 box[];
    __shared__ u64 bar_storage;
    u32 bar = shared_address(&bar_storage);
    if (threadIdx.x == 0) {
        mbarrier_init(bar, 1);
        fence_mbarrier_init();
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        mbarrier_expect(bar, bytes);
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];"
                     ::"r"(shared_address(box)), "l"(&map), "r"(bar), "r"(at.c[0]), "r"(at.c[1]) : "memory");
    }
    mbarrier_wait(bar, 0);
    for (u32 i = threadIdx.x; i < bytes / 4; i += blockDim.x) out[i] = box[i];
}

extern "C" __global__ void load_3d(const __grid_constant__ TensorMap map, Coordinates at, u32 bytes, u32* out) {
    extern __shared__ __align__(1024) u32 box[];
    __shared__ u64 bar_storage;
    u32 bar = shared_address(&bar_storage);
    if (threadIdx.x == 0) {
        mbarrier_init(bar, 1);
        fence_mbarrier_init();
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        mbarrier_expect(bar, bytes);
        asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], [%2];"
                     ::"r"(shared_address(box)), "l"(&map), "r"(bar), "r"(at.c[0]), "r"(at.c[1]), "r"(at.c[2]) : "memory");
    }
    mbarrier_wait(bar, 0);
    for (u32 i = threadIdx.x; i < bytes / 4; i += blockDim.x) out[i] = box[i];
}

extern "C" __global__ void load_4d(const __grid_constant__ TensorMap map, Coordinates at, u32 bytes, u32* out) {
    extern __shared__ __align__(1024) u32 box[];
    __shared__ u64 bar_storage;
    u32 bar = shared_address(&bar_storage);
    if (threadIdx.x == 0) {
        mbarrier_init(bar, 1);
        fence_mbarrier_init();
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        mbarrier_expect(bar, bytes);
        asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], [%2];"
                     ::"r"(shared_address(box)), "l"(&map), "r"(bar), "r"(at.c[0]), "r"(at.c[1]), "r"(at.c[2]), "r"(at.c[3]) : "memory");
    }
    mbarrier_wait(bar, 0);
    for (u32 i = threadIdx.x; i < bytes / 4; i += blockDim.x) out[i] = box[i];
}

extern "C" __global__ void load_5d(const __grid_constant__ TensorMap map, Coordinates at, u32 bytes, u32* out) {
    extern __shared__ __align__(1024) u32 box[];
    __shared__ u64 bar_storage;
    u32 bar = shared_address(&bar_storage);
    if (threadIdx.x == 0) {
        mbarrier_init(bar, 1);
        fence_mbarrier_init();
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        mbarrier_expect(bar, bytes);
        asm volatile("cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6, %7}], [%2];"
                     ::"r"(shared_address(box)), "l"(&map), "r"(bar), "r"(at.c[0]), "r"(at.c[1]), "r"(at.c[2]), "r"(at.c[3]), "r"(at.c[4]) : "memory");
    }
    mbarrier_wait(bar, 0);
    for (u32 i = threadIdx.x; i < bytes / 4; i += blockDim.x) out[i] = box[i];
}

extern "C" __global__ void store_1d(const __grid_constant__ TensorMap map, Coordinates at, u32 bytes, const u32* in) {
    extern __shared__ __align__(1024) u32 box[];
    for (u32 i = threadIdx.x; i < bytes / 4; i += blockDim.x) box[i] = in[i];
    fence_proxy_async();
    __syncthreads();
    if (threadIdx.x == 0) {
        asm volatile("cp.async.bulk.tensor.1d.global.shared::cta.tile.bulk_group [%0, {%2}], [%1];"
                     ::"l"(&map), "r"(shared_address(box)), "r"(at.c[0]) : "memory");
        bulk_commit();
        bulk_wait<0>();
    }
}

extern "C" __global__ void store_2d(const __grid_constant__ TensorMap map, Coordinates at, u32 bytes, const u32* in) {
    extern __shared__ __align__(1024) u32 box[];
    for (u32 i = threadIdx.x; i < bytes / 4; i += blockDim.x) box[i] = in[i];
    fence_proxy_async();
    __syncthreads();
    if (threadIdx.x == 0) {
        asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%2, %3}], [%1];"
                     ::"l"(&map), "r"(shared_address(box)), "r"(at.c[0]), "r"(at.c[1]) : "memory");
        bulk_commit();
        bulk_wait<0>();
    }
}

extern "C" __global__ void store_3d(const __grid_constant__ TensorMap map, Coordinates at, u32 bytes, const u32* in) {
    extern __shared__ __align__(1024) u32 box[];
    for (u32 i = threadIdx.x; i < bytes / 4; i += blockDim.x) box[i] = in[i];
    fence_proxy_async();
    __syncthreads();
    if (threadIdx.x == 0) {
        asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4}], [%1];"
                     ::"l"(&map), "r"(shared_address(box)), "r"(at.c[0]), "r"(at.c[1]), "r"(at.c[2]) : "memory");
        bulk_commit();
        bulk_wait<0>();
    }
}

extern "C" __global__ void store_4d(const __grid_constant__ TensorMap map, Coordinates at, u32 bytes, const u32* in) {
    extern __shared__ __align__(1024) u32 box[];
    for (u32 i = threadIdx.x; i < bytes / 4; i += blockDim.x) box[i] = in[i];
    fence_proxy_async();
    __syncthreads();
    if (threadIdx.x == 0) {
        asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4, %5}], [%1];"
                     ::"l"(&map), "r"(shared_address(box)), "r"(at.c[0]), "r"(at.c[1]), "r"(at.c[2]), "r"(at.c[3]) : "memory");
        bulk_commit();
        bulk_wait<0>();
    }
}

extern "C" __global__ void store_5d(const __grid_constant__ TensorMap map, Coordinates at, u32 bytes, const u32* in) {
    extern __shared__ __align__(1024) u32 box[];
    for (u32 i = threadIdx.x; i < bytes / 4; i += blockDim.x) box[i] = in[i];
    fence_proxy_async();
    __syncthreads();
    if (threadIdx.x == 0) {
        asm volatile("cp.async.bulk.tensor.5d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4, %5, %6}], [%1];"
                     ::"l"(&map), "r"(shared_address(box)), "r"(at.c[0]), "r"(at.c[1]), "r"(at.c[2]), "r"(at.c[3]), "r"(at.c[4]) : "memory");
        bulk_commit();
        bulk_wait<0>();
    }
}

extern "C" __global__ void reduce_1d(const __grid_constant__ TensorMap map, Coordinates at, u32 bytes, const u32* in) {
    extern __shared__ __align__(1024) u32 box[];
    for (u32 i = threadIdx.x; i < bytes / 4; i += blockDim.x) box[i] = in[i];
    fence_proxy_async();
    __syncthreads();
    if (threadIdx.x == 0) {
        asm volatile("cp.reduce.async.bulk.tensor.1d.global.shared::cta.add.tile.bulk_group [%0, {%2}], [%1];"
                     ::"l"(&map), "r"(shared_address(box)), "r"(at.c[0]) : "memory");
        bulk_commit();
        bulk_wait<0>();
    }
}

extern "C" __global__ void reduce_2d(const __grid_constant__ TensorMap map, Coordinates at, u32 bytes, const u32* in) {
    extern __shared__ __align__(1024) u32 box[];
    for (u32 i = threadIdx.x; i < bytes / 4; i += blockDim.x) box[i] = in[i];
    fence_proxy_async();
    __syncthreads();
    if (threadIdx.x == 0) {
        asm volatile("cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group [%0, {%2, %3}], [%1];"
                     ::"l"(&map), "r"(shared_address(box)), "r"(at.c[0]), "r"(at.c[1]) : "memory");
        bulk_commit();
        bulk_wait<0>();
    }
}

extern "C" __global__ void reduce_3d(const __grid_constant__ TensorMap map, Coordinates at, u32 bytes, const u32* in) {
    extern __shared__ __align__(1024) u32 box[];
    for (u32 i = threadIdx.x; i < bytes / 4; i += blockDim.x) box[i] = in[i];
    fence_proxy_async();
    __syncthreads();
    if (threadIdx.x == 0) {
        asm volatile("cp.reduce.async.bulk.tensor.3d.global.shared::cta.add.tile.bulk_group [%0, {%2, %3, %4}], [%1];"
                     ::"l"(&map), "r"(shared_address(box)), "r"(at.c[0]), "r"(at.c[1]), "r"(at.c[2]) : "memory");
        bulk_commit();
        bulk_wait<0>();
    }
}

extern "C" __global__ void reduce_4d(const __grid_constant__ TensorMap map, Coordinates at, u32 bytes, const u32* in) {
    extern __shared__ __align__(1024) u32 box[];
    for (u32 i = threadIdx.x; i < bytes / 4; i += blockDim.x) box[i] = in[i];
    fence_proxy_async();
    __syncthreads();
    if (threadIdx.x == 0) {
        asm volatile("cp.reduce.async.bulk.tensor.4d.global.shared::cta.add.tile.bulk_group [%0, {%2, %3, %4, %5}], [%1];"
                     ::"l"(&map), "r"(shared_address(box)), "r"(at.c[0]), "r"(at.c[1]), "r"(at.c[2]), "r"(at.c[3]) : "memory");
        bulk_commit();
        bulk_wait<0>();
    }
}

extern "C" __global__ void reduce_5d(const __grid_constant__ TensorMap map, Coordinates at, u32 bytes, const u32* in) {
    extern __shared__ __align__(1024) u32 box[];
    for (u32 i = threadIdx.x; i < bytes / 4; i += blockDim.x) box[i] = in[i];
    fence_proxy_async();
    __syncthreads();
    if (threadIdx.x == 0) {
        asm volatile("cp.reduce.async.bulk.tensor.5d.global.shared::cta.add.tile.bulk_group [%0, {%2, %3, %4, %5, %6}], [%1];"
                     ::"l"(&map), "r"(shared_address(box)), "r"(at.c[0]), "r"(at.c[1]), "r"(at.c[2]), "r"(at.c[3]), "r"(at.c[4]) : "memory");
        bulk_commit();
        bulk_wait<0>();
    }
}
