// A pipeline with a producer warp and two consumer warp groups: four stages of tiles that TMA loads, each summed by its consumers.
#include "async.cuh"

constexpr int STAGES = 4, ROWS = 32, COLUMNS = 32, TILE_BYTES = ROWS * COLUMNS * 4;

struct Shared {
    float tiles[STAGES][ROWS * COLUMNS];
    u64 full[STAGES];
    u64 empty[STAGES];
};

// Each row of `out` is a column sum over `n_tiles` tiles of 32 x 32 that lie below each other.
extern "C" __global__ void __launch_bounds__(384) column_sums(const __grid_constant__ TensorMap map, float* out, int n_tiles) {
    extern __shared__ __align__(1024) unsigned char raw[];
    Shared& s = *reinterpret_cast<Shared*>(raw);
    int group = threadIdx.x / 128;
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; ++i) {
            mbarrier_init(shared_address(&s.full[i]), 1);
            mbarrier_init(shared_address(&s.empty[i]), 2);
        }
        fence_mbarrier_init();
    }
    __syncthreads();
    if (group == 0) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        if (threadIdx.x < 32 && elect()) {
            asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
#pragma unroll 1
            for (int i = 0; i < n_tiles; ++i) {
                int stage = i % STAGES;
                u32 full = shared_address(&s.full[stage]);
                mbarrier_wait(shared_address(&s.empty[stage]), (i / STAGES + 1) & 1);
                mbarrier_expect(full, TILE_BYTES);
                asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
                             ::"r"(shared_address(s.tiles[stage])), "l"(&map), "r"((int)(blockIdx.x * COLUMNS)), "r"(i * ROWS), "r"(full) : "memory");
            }
        }
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
        int t = threadIdx.x % 128;
        float sum = 0.0f;
#pragma unroll 1
        for (int i = 0; i < n_tiles; ++i) {
            int stage = i % STAGES;
            mbarrier_wait(shared_address(&s.full[stage]), (i / STAGES) & 1);
            // A row is 128 bytes, swizzled: its 16-byte chunks are permuted by the row. A group takes every other row, a warp every fourth of these.
            for (int r = group - 1 + 2 * (t / 32); r < ROWS; r += 8) {
                int column = t % 32;
                sum += s.tiles[stage][r * COLUMNS + ((column / 4 ^ r % 8) * 4 + column % 4)];
            }
            asm volatile("bar.sync %0, 128;" ::"r"(group) : "memory");
            if (t == 0) mbarrier_arrive(shared_address(&s.empty[stage]));
        }
        atomicAdd(out + blockIdx.x * COLUMNS + t % 32, sum);
    }
}
