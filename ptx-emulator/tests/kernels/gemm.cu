// C = A B^T with a TMA pipeline and wgmma: one warp loads, a warp group multiplies, one of its lanes gives stages back,
// and C leaves through shared memory and a bulk store.
#include "async.cuh"

constexpr int STAGES = 2, TILE = 64, TILE_BYTES = TILE * TILE * 2;

struct Shared {
    unsigned short a[STAGES][TILE * TILE];
    unsigned short b[STAGES][TILE * TILE];
    float c[TILE * TILE];
    u64 full[STAGES];
    u64 empty[STAGES];
};

__device__ __forceinline__ void load_tile(u32 to, const TensorMap* map, int x, int y, u32 bar) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
                 ::"r"(to), "l"(map), "r"(x), "r"(y), "r"(bar) : "memory");
}

// A descriptor of rows of 128 bytes, 128-byte swizzle: groups of eight rows lie 1024 bytes apart.
__device__ __forceinline__ u64 descriptor(u32 address) {
    return (u64)(address >> 4 & 0x3fff) | 1ull << 16 | 64ull << 32 | 1ull << 62;
}

__device__ __forceinline__ void multiply(float (&d)[32], u64 a, u64 b) {
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, %32, %33, 1, 1, 1, 0, 0;"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]) : "l"(a), "l"(b));
}

extern "C" __global__ void __launch_bounds__(256) gemm(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b,
                                                       const __grid_constant__ TensorMap c, int k_tiles) {
    extern __shared__ __align__(1024) unsigned char raw[];
    Shared& s = *reinterpret_cast<Shared*>(raw);
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; ++i) {
            mbarrier_init(shared_address(&s.full[i]), 1);
            mbarrier_init(shared_address(&s.empty[i]), 1);
        }
        fence_mbarrier_init();
    }
    __syncthreads();
    if (threadIdx.x < 128) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
        if (threadIdx.x == 0) {
#pragma unroll 1
            for (int i = 0; i < k_tiles; ++i) {
                int stage = i % STAGES;
                u32 full = shared_address(&s.full[stage]);
                mbarrier_wait(shared_address(&s.empty[stage]), (i / STAGES + 1) & 1);
                mbarrier_expect(full, 2 * TILE_BYTES);
                load_tile(shared_address(s.a[stage]), &a, i * TILE, blockIdx.x * TILE, full);
                load_tile(shared_address(s.b[stage]), &b, i * TILE, blockIdx.y * TILE, full);
            }
        }
        return;
    }
    asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
    int t = threadIdx.x - 128;
    float d[32];
    for (int i = 0; i < 32; ++i) d[i] = 0.0f;
#pragma unroll 1
    for (int i = 0; i < k_tiles; ++i) {
        int stage = i % STAGES;
        mbarrier_wait(shared_address(&s.full[stage]), i / STAGES & 1);
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
        for (int k = 0; k < 4; ++k) multiply(d, descriptor(shared_address(s.a[stage]) + 32 * k), descriptor(shared_address(s.b[stage]) + 32 * k));
        asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;" ::: "memory");
        if (t == 0) mbarrier_arrive(shared_address(&s.empty[stage]));
    }
    int row = t / 32 * 16 + t % 32 / 4, column = t % 4 * 2;
    for (int j = 0; j < 8; ++j)
        for (int half = 0; half < 2; ++half)
            for (int i = 0; i < 2; ++i) s.c[(row + 8 * half) * TILE + 8 * j + column + i] = d[4 * j + 2 * half + i];
    fence_proxy_async();
    asm volatile("bar.sync 1, 128;" ::: "memory");
    if (t == 0) {
        asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];"
                     ::"l"(&c), "r"((int)(blockIdx.y * TILE)), "r"((int)(blockIdx.x * TILE)), "r"(shared_address(s.c)) : "memory");
        bulk_commit();
        bulk_wait<0>();
    }
}
