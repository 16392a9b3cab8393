// C = A B on mma.sync, with cp.async in two stages, and the same kernel with one fault each.
//
// A is [m][k], B is [k][n], both bf16 by rows; C is f32. k is a multiple of 8, n of 16. A block of two warps computes 32 x 16, 32 along k at a time.
#include "tensor.cuh"

constexpr int TILE_M = 32, TILE_N = 16, TILE_K = 32;

enum Fault {
    CORRECT,
    NO_BARRIER_AFTER_WAIT,    // a warp reads what the other one's copies bring
    WARP_BARRIER_BEFORE_REUSE,// a stage is refilled after a barrier of the warp, while the other warp still reads it
    WAIT_TOO_LAX,             // wait_group 2 instead of 1
    NO_COMMIT,                // copies belong to no group, and no wait covers them
    WRONG_SWIZZLE,            // A is read with another swizzle than it was written with
    MISALIGNED_ROWS,          // ldmatrix steps 72 bytes from row to row instead of 64
    WIDE_ROWS,                // ldmatrix steps 80 bytes: into the next stage
    LOAD_BOUND,               // row <= m instead of row < m
    STORE_BOUND,              // C is stored without looking at m
    DIVERGENT_BARRIER,        // lanes with rows beyond m skip the barrier
    ONE_WARP_BARRIER,         // a whole warp skips it
    BARRIER_COUNT,            // a named barrier that awaits 96 threads of 64
    NO_ZERO_FILL,             // rows beyond m are not copied, and not filled either
    THREE_STAGES,             // the stage index runs to 3 where there are 2
    DIVERGENT_MMA,            // half of a warp executes mma
    NO_TRANS,                 // B is loaded without .trans
    LAST_TILE,                // the loop ends one tile early
};

struct Shared {
    u8 b[2][TILE_K * TILE_N * 2];
    u8 a[2][TILE_M * TILE_K * 2];
};

// Rows of A are 64 bytes, four chunks: the chunk is xored so that eight rows below each other lie in different banks.
__device__ __forceinline__ int place_a(int row, int chunk) { return row * 64 + ((chunk ^ (row >> 1 & 3)) << 4); }
__device__ __forceinline__ int place_b(int row, int chunk) { return row * 32 + ((chunk ^ (row >> 2 & 1)) << 4); }

template <int FAULT>
__device__ __forceinline__ void load(Shared& s, int stage, const u16* a, const u16* b, int m, int n, int k, int first_k) {
    int t = threadIdx.x;
#pragma unroll 1
    for (int i = 0; i < 2; ++i) {
        int row = t / 4 + 16 * i, chunk = t % 4, column = first_k + chunk * 8, global_row = blockIdx.y * TILE_M + row;
        bool inside = (FAULT == LOAD_BOUND ? global_row <= m : global_row < m) && column < k;
        const u16* from = inside ? a + (u64)global_row * k + column : a;
        if (FAULT != NO_ZERO_FILL || inside) cp_async(shared_address(s.a[stage]) + place_a(row, chunk), from, inside ? 16 : 0);
    }
    int row = t / 2, chunk = t % 2, global_row = first_k + row;
    bool inside = global_row < k;
    const u16* from = inside ? b + (u64)global_row * n + blockIdx.x * TILE_N + chunk * 8 : b;
    cp_async(shared_address(s.b[stage]) + place_b(row, chunk), from, inside ? 16 : 0);
}

template <int FAULT> __device__ __forceinline__ void gemm(const u16* a, const u16* b, float* c, int m, int n, int k) {
    __shared__ __align__(128) Shared s;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    int rows_here = m - (blockIdx.y * TILE_M + warp * 16);
    float sums[2][4] = {};
    int tiles = (k + TILE_K - 1) / TILE_K;
    load<FAULT>(s, 0, a, b, m, n, k, 0);
    if (FAULT != NO_COMMIT) cp_commit();
#pragma unroll 1
    for (int i = 0; i < (FAULT == LAST_TILE ? tiles - 1 : tiles); ++i) {
        int next = FAULT == THREE_STAGES ? (i + 1) % 3 : (i + 1) & 1;
        if (i + 1 < tiles) load<FAULT>(s, next, a, b, m, n, k, (i + 1) * TILE_K);
        if (FAULT != NO_COMMIT) cp_commit();
        cp_wait<FAULT == WAIT_TOO_LAX ? 2 : 1>();
        if (FAULT == DIVERGENT_BARRIER) {
            if (lane / 4 < rows_here) __syncthreads();
        } else if (FAULT == ONE_WARP_BARRIER) {
            if (warp == 0) __syncthreads();
        } else if (FAULT == BARRIER_COUNT) {
            asm volatile("bar.sync 1, 96;" ::: "memory");
        } else if (FAULT != NO_BARRIER_AFTER_WAIT) {
            __syncthreads();
        }
        int stage = FAULT == THREE_STAGES ? i % 3 : i & 1;
#pragma unroll 1
        for (int kk = 0; kk < TILE_K / 16; ++kk) {
            u32 fa[4], fb[4];
            int row = warp * 16 + lane % 16, chunk = kk * 2 + lane / 16;
            int at = FAULT == WRONG_SWIZZLE ? row * 64 + ((chunk ^ (row & 3)) << 4)
                   : FAULT == MISALIGNED_ROWS ? row * 72 + (chunk << 4)
                   : FAULT == WIDE_ROWS ? row * 80 + (chunk << 4) : place_a(row, chunk);
            ldmatrix_x4(fa, shared_address(s.a[stage]) + at);
            u32 b_at = shared_address(s.b[stage]) + place_b(kk * 16 + lane % 16, lane / 16);
            if (FAULT == NO_TRANS) ldmatrix_x4(fb, b_at); else ldmatrix_x4_trans(fb, b_at);
            if (FAULT != DIVERGENT_MMA || lane < 16) {
                mma_bf16(sums[0], fa, fb[0], fb[1]);
                mma_bf16(sums[1], fa, fb[2], fb[3]);
            }
        }
        if (FAULT == WARP_BARRIER_BEFORE_REUSE) asm volatile("bar.warp.sync 0xffffffff;" ::: "memory");
        else __syncthreads();
    }
#pragma unroll
    for (int octet = 0; octet < 2; ++octet) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            int row = blockIdx.y * TILE_M + warp * 16 + lane / 4 + half * 8, column = blockIdx.x * TILE_N + octet * 8 + lane % 4 * 2;
            if (FAULT == STORE_BOUND || row < m)
                *reinterpret_cast<float2*>(c + (u64)row * n + column) = make_float2(sums[octet][2 * half], sums[octet][2 * half + 1]);
        }
    }
}

#define KERNEL(name, fault) \
    extern "C" __global__ void __launch_bounds__(64) name(const u16* a, const u16* b, float* c, int m, int n, int k) { gemm<fault>(a, b, c, m, n, k); }
KERNEL(correct, CORRECT)
KERNEL(no_barrier_after_wait, NO_BARRIER_AFTER_WAIT)
KERNEL(warp_barrier_before_reuse, WARP_BARRIER_BEFORE_REUSE)
KERNEL(wait_too_lax, WAIT_TOO_LAX)
KERNEL(no_commit, NO_COMMIT)
KERNEL(wrong_swizzle, WRONG_SWIZZLE)
KERNEL(misaligned_rows, MISALIGNED_ROWS)
KERNEL(wide_rows, WIDE_ROWS)
KERNEL(load_bound, LOAD_BOUND)
KERNEL(store_bound, STORE_BOUND)
KERNEL(divergent_barrier, DIVERGENT_BARRIER)
KERNEL(one_warp_barrier, ONE_WARP_BARRIER)
KERNEL(barrier_count, BARRIER_COUNT)
KERNEL(no_zero_fill, NO_ZERO_FILL)
KERNEL(three_stages, THREE_STAGES)
KERNEL(divergent_mma, DIVERGENT_MMA)
KERNEL(no_trans, NO_TRANS)
KERNEL(last_tile, LAST_TILE)
