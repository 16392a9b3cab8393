// The instructions that C++ has no words for. Addresses of shared memory are 32-bit, as the instructions take them.

__device__ __forceinline__ float minus_infinity() {
  return __int_as_float(0xff800000);
}

// Starts a copy of 16 bytes from global to shared memory; with `bytes` = 0 nothing is read, and zeros are written.
__device__ __forceinline__ void copy_async(unsigned to, const void* from, int bytes) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}

// Closes a group of copies.
__device__ __forceinline__ void copy_commit() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}

// Waits until no more than `PENDING` of this thread's groups are under way.
template <int PENDING>
__device__ __forceinline__ void copy_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}

// Four 8 × 8 matrices of 16-bit elements; lane i names row i % 8 of matrix i / 8, and gets two elements of each: row
// lane / 4, columns 2 (lane % 4) and the next. Read as 32-bit elements, a matrix is 8 × 4, and a lane gets one of each.
__device__ __forceinline__ void load_matrices(unsigned (&x)[4], unsigned address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
               : "r"(address)
               : "memory");
}
<%- if is_f32 %>

__device__ __forceinline__ float load_float(unsigned address) {
  float x;
  asm volatile("ld.shared.f32 %0, [%1];" : "=f"(x) : "r"(address) : "memory");
  return x;
}

// The nearest number of TF32, ties away from zero.
__device__ __forceinline__ unsigned to_tf32(float x) {
  unsigned y;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(y) : "f"(x));
  return y;
}

// C += A B over 16 × 8 × 8 elements.
__device__ __forceinline__ void mma_tf32(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// A float as the sum of two TF32 numbers, which keep 22 of its 24 bits.
struct Split {
  unsigned hi, lo;
};

__device__ __forceinline__ Split split(float x) {
  const unsigned hi = to_tf32(x);
  return {hi, to_tf32(__fsub_rn(x, __uint_as_float(hi)))};
}

// Four elements of a fragment, each as a sum of two.
struct SplitFragment {
  unsigned hi[4], lo[4];
};

__device__ __forceinline__ SplitFragment split(float x0, float x1, float x2, float x3) {
  const Split y0 = split(x0), y1 = split(x1), y2 = split(x2), y3 = split(x3);
  return {{y0.hi, y1.hi, y2.hi, y3.hi}, {y0.lo, y1.lo, y2.lo, y3.lo}};
}

__device__ __forceinline__ SplitFragment split(const unsigned (&x)[4]) {
  return split(__uint_as_float(x[0]), __uint_as_float(x[1]), __uint_as_float(x[2]), __uint_as_float(x[3]));
}

// C += A B, nearly as exact as with floats: the small products first, and low times low not at all.
__device__ __forceinline__ void mma(float (&c)[4], const SplitFragment& a, const Split& b0, const Split& b1) {
  mma_tf32(c, a.hi, b0.lo, b1.lo);
  mma_tf32(c, a.lo, b0.hi, b1.hi);
  mma_tf32(c, a.hi, b0.hi, b1.hi);
}
<%- else %>

// The same, each matrix transposed: row and column change places.
__device__ __forceinline__ void load_matrices_transposed(unsigned (&x)[4], unsigned address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
               : "r"(address)
               : "memory");
}

// C += A B over 16 × 8 × 16 elements.
__device__ __forceinline__ void mma(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.<$ dtype $>.<$ dtype $>.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Two floats, rounded to <$ dtype $>, the first in the low half.
__device__ __forceinline__ unsigned pack(float low, float high) {
  unsigned x;
  asm("cvt.rn.<$ dtype $>x2.f32 %0, %1, %2;" : "=r"(x) : "f"(high), "f"(low));
  return x;
}
<%- endif %>

// 2^x to within 2 units in the last place; 0 for minus infinity.
__device__ __forceinline__ float exp2_fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

__device__ __forceinline__ float log2_fast(float x) {
  float y;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// The greatest value, and the sum, over the four lanes that share a row of a fragment.
__device__ __forceinline__ float quad_max(float x) {
  x = fmaxf(x, __shfl_xor_sync(0xffffffff, x, 1));
  return fmaxf(x, __shfl_xor_sync(0xffffffff, x, 2));
}

__device__ __forceinline__ float quad_sum(float x) {
  x = __fadd_rn(x, __shfl_xor_sync(0xffffffff, x, 1));
  return __fadd_rn(x, __shfl_xor_sync(0xffffffff, x, 2));
}
