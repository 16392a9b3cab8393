// Lanes and warps that exchange values through shared memory, and the same with one fault each.
#include "tensor.cuh"

enum Fault {
    CORRECT,
    NO_SYNCWARP_AFTER_WRITE,   // lanes read what other lanes of the warp have just written
    NO_SYNCWARP_BEFORE_WRITE,  // lanes overwrite what other lanes of the warp have just read
    HALF_SYNCWARP,             // the barrier of the warp names half of its lanes
    SYNCWARP_FOR_SYNCTHREADS,  // other warps are awaited by a barrier of this one
    SHUFFLE_FROM_IDLE_LANE,    // a lane that left the branch is read
    READ_BEYOND_SHARED,        // the last warp reads one float past the array
    SKIPPED_WRITE,             // lane 31 never writes its place
    DOUBLE_WRITE,              // two lanes write different values to one place
    ATOMIC_AND_PLAIN,          // a counter that other warps add to is read without a barrier
};

// out[i] is the sum of x over the warp of i, reversed by lanes, plus x of the same lane in the next warp, plus the sum of the block.
template <int FAULT> __device__ __forceinline__ void exchange(const float* x, float* out) {
    __shared__ float mine[4][32];
    __shared__ float theirs[4][32];
    __shared__ int counter;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (threadIdx.x == 0) counter = 0;
    float value = x[blockIdx.x * 128 + threadIdx.x];
    if (FAULT != SKIPPED_WRITE || lane != 31) mine[warp][FAULT == DOUBLE_WRITE ? lane / 2 * 2 : lane] = value;
    if (FAULT == DOUBLE_WRITE) mine[warp][lane / 2 * 2 + 1] = value;
    if (FAULT == HALF_SYNCWARP) {
        if (lane < 16) asm volatile("bar.warp.sync 0x0000ffff;" ::: "memory");
    } else if (FAULT != NO_SYNCWARP_AFTER_WRITE) {
        asm volatile("bar.warp.sync 0xffffffff;" ::: "memory");
    }
    float reversed = mine[warp][31 - lane];
    if (FAULT != NO_SYNCWARP_BEFORE_WRITE) asm volatile("bar.warp.sync 0xffffffff;" ::: "memory");
    mine[warp][lane] = reversed + value;
    theirs[warp][lane] = value;
    if (FAULT == SYNCWARP_FOR_SYNCTHREADS) asm volatile("bar.warp.sync 0xffffffff;" ::: "memory");
    else __syncthreads();
    int next = FAULT == READ_BEYOND_SHARED ? warp + 1 : (warp + 1) % 4;
    float neighbour = theirs[next][lane];
    atomicAdd(&counter, (int)value);
    if (FAULT != ATOMIC_AND_PLAIN) __syncthreads();
    int total = counter;
    float sum = mine[warp][lane];
    if (FAULT == SHUFFLE_FROM_IDLE_LANE) {
        if (lane < 16) asm volatile("shfl.sync.idx.b32 %0, %0, 20, 31, 0x0000ffff;" : "+f"(sum));
    }
    out[blockIdx.x * 128 + threadIdx.x] = sum + neighbour + (float)total;
}

#define KERNEL(name, fault) \
    extern "C" __global__ void __launch_bounds__(128) name(const float* x, float* out) { exchange<fault>(x, out); }
KERNEL(correct, CORRECT)
KERNEL(no_syncwarp_after_write, NO_SYNCWARP_AFTER_WRITE)
KERNEL(no_syncwarp_before_write, NO_SYNCWARP_BEFORE_WRITE)
KERNEL(half_syncwarp, HALF_SYNCWARP)
KERNEL(syncwarp_for_syncthreads, SYNCWARP_FOR_SYNCTHREADS)
KERNEL(shuffle_from_idle_lane, SHUFFLE_FROM_IDLE_LANE)
KERNEL(read_beyond_shared, READ_BEYOND_SHARED)
KERNEL(skipped_write, SKIPPED_WRITE)
KERNEL(double_write, DOUBLE_WRITE)
KERNEL(atomic_and_plain, ATOMIC_AND_PLAIN)
