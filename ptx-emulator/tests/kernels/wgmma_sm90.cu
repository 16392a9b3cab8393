// C = A B on wgmma, operands written to shared memory by ordinary stores, and the same kernel with one fault each.
//
// A is [m][k], B is [k][n], both bf16 by rows, whole tiles of 64; C is f32. A block is one warp group and computes 64 x 64, 64 along k at a time.
#include "tensor.cuh"

enum Fault {
    CORRECT,
    NO_PROXY_FENCE,          // ordinary stores are read by the asynchronous proxy
    NO_BARRIER_AFTER_STORE,  // a warp's part of the tile is not awaited
    WARP_BARRIER_BEFORE_STORE, // the tile is overwritten while products of other warps may still read it
    NO_WAIT,                 // accumulators are stored while the products are still under way
    WAIT_TOO_LAX,            // the tile is overwritten while one group is still under way
    NO_COMMIT,               // products belong to no group, and no wait covers them
    WRONG_SWIZZLE,           // descriptors say 64 bytes, the tile is swizzled by 128
    WRONG_STRIDE,            // rows of 8 x 128 bytes are said to be 512 bytes apart
    WRONG_MAJOR,             // B is said to be K-major
    STEP_TOO_FAR,            // A steps 64 bytes along k instead of 32, past its rows
    ONE_WARP_MISSING,        // three warps of four execute wgmma
    TILE_BEYOND_SHARED,      // B is said to begin where shared memory ends
};

// Byte offset in a tile of rows of 128 bytes with the 128-byte swizzle.
__device__ __forceinline__ int place(int row, int chunk) { return row * 128 + ((chunk ^ (row & 7)) << 4); }

__device__ __forceinline__ void load(u8* tile, const u16* from, u64 pitch) {
    // A thread moves four chunks of 16 bytes.
#pragma unroll 1
    for (int i = threadIdx.x; i < 512; i += 128) {
        int row = i / 8, chunk = i % 8;
        *reinterpret_cast<uint4*>(tile + place(row, chunk)) = *reinterpret_cast<const uint4*>(from + row * pitch + chunk * 8);
    }
}

template <int MAJOR_B> __device__ __forceinline__ void wgmma_64(float (&d)[32], u64 a, u64 b, int scale) {
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, %32, %33, p, 1, 1, 0, %35;\n}"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
          "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
          "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
          "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
        : "l"(a), "l"(b), "r"(scale), "n"(MAJOR_B));
}

template <int FAULT> __device__ __forceinline__ void gemm(const u16* a, const u16* b, float* c, int n, int k) {
    __shared__ __align__(1024) u8 tiles[2][8192];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    u32 a_at = shared_address(tiles[0]), b_at = shared_address(tiles[1]);
    if (FAULT == TILE_BEYOND_SHARED) b_at += 8192;
    float d[32] = {};
#pragma unroll 1
    for (int first_k = 0; first_k < k; first_k += 64) {
        load(tiles[0], a + (u64)blockIdx.y * 64 * k + first_k, k);
        load(tiles[1], b + (u64)first_k * n + blockIdx.x * 64, n);
        if (FAULT != NO_PROXY_FENCE) fence_proxy_async();
        if (FAULT != NO_BARRIER_AFTER_STORE) __syncthreads();
        if (FAULT != ONE_WARP_MISSING || warp != 3) {
            wgmma_fence();
#pragma unroll
            for (int kk = 0; kk < 4; ++kk) {
                // 16 elements along k are 32 bytes of a row of A, and 16 rows of B.
                u64 da = descriptor(a_at + kk * (FAULT == STEP_TOO_FAR ? 64 : 32), 16, FAULT == WRONG_STRIDE ? 512 : 1024, FAULT == WRONG_SWIZZLE ? B64 : B128);
                u64 db = descriptor(b_at + kk * 2048, 8192, 1024, B128);
                wgmma_64<FAULT == WRONG_MAJOR ? 0 : 1>(d, da, db, first_k + kk > 0);
            }
            if (FAULT != NO_COMMIT) wgmma_commit();
            if (FAULT == WAIT_TOO_LAX) wgmma_wait<1>();
            else if (FAULT != NO_WAIT) wgmma_wait<0>();
        }
        if (FAULT == WARP_BARRIER_BEFORE_STORE) asm volatile("bar.warp.sync 0xffffffff;" ::: "memory");
        else __syncthreads();
    }
    if (FAULT == WAIT_TOO_LAX) wgmma_wait<0>();
    float* to = c + (u64)(blockIdx.y * 64 + warp * 16 + lane / 4) * n + blockIdx.x * 64 + lane % 4 * 2;
#pragma unroll
    for (int i = 0; i < 32; i += 2) *reinterpret_cast<float2*>(to + (u64)(i / 2 % 2) * 8 * n + i / 4 * 8) = make_float2(d[i], d[i + 1]);
}

#define KERNEL(name, fault) \
    extern "C" __global__ void __launch_bounds__(128) name(const u16* a, const u16* b, float* c, int n, int k) { gemm<fault>(a, b, c, n, k); }
KERNEL(correct, CORRECT)
KERNEL(no_proxy_fence, NO_PROXY_FENCE)
KERNEL(no_barrier_after_store, NO_BARRIER_AFTER_STORE)
KERNEL(warp_barrier_before_store, WARP_BARRIER_BEFORE_STORE)
KERNEL(no_wait, NO_WAIT)
KERNEL(wait_too_lax, WAIT_TOO_LAX)
KERNEL(no_commit, NO_COMMIT)
KERNEL(wrong_swizzle, WRONG_SWIZZLE)
KERNEL(wrong_stride, WRONG_STRIDE)
KERNEL(wrong_major, WRONG_MAJOR)
KERNEL(step_too_far, STEP_TOO_FAR)
KERNEL(one_warp_missing, ONE_WARP_MISSING)
KERNEL(tile_beyond_shared, TILE_BEYOND_SHARED)
