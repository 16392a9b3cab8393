// Attention, forward, for sm_80 and later: O = softmax(S) V with S =<% if has_score %> score_mod(sm_scale Q Kᵀ)<% else %> sm_scale Q Kᵀ<% endif %>.
//
// A block of threads computes TILE_Q rows of one head, and walks over the tiles of keys that the block mask keeps.
// What that mask calls full is computed without a look at the rule; what it leaves out is not even loaded.
//
//   Q, K, V, O   queries, keys, values and output of one head, a row per position
//   S, P         the scores of a tile, and what they weigh: P = exp(S - m)
//   m, l         of each row: the greatest score so far, and the sum of P so far
//   b, h         batch entry and query head
//   row, kv      positions in this call; the rule sees q_offset + row and kv_offset + kv
//   fragment     16 rows by 8 columns of sums, spread over a warp: a lane has rows lane / 4 and lane / 4 + 8, and of
//                each the columns 2 (lane % 4) and the next
//
// A key that is left out weighs 0. Where it shares a tile with keys that are not, its V must be finite: 0 · inf is NaN.
<%- if is_f32 %>
// Q and K must be finite: where they are not, the score is NaN.
<%- endif %>
//
// References
//   Dao 2023, FlashAttention-2, arXiv:2307.08691, section 3
<%- if is_f32 %>
//   Ootomo, Yokota 2022, Recovering Single Precision Accuracy from Tensor Cores, arXiv:2203.03341
<%- endif %>

<% if is_f32 -%>
typedef float Element;
<%- else -%>
typedef unsigned short Element;  // the bits of <$ dtype $>
<%- endif %>
<%- if out_is_f32 %>
typedef float Output;
<%- else %>
typedef unsigned short Output;  // the bits of <$ out_dtype $>
<%- endif %>

struct Params {
<%- for field in params %>
  <$ field $>;
<%- endfor %>
};

constexpr int THREADS = <$ threads $>;
constexpr int TILE_Q = <$ tile_q $>, TILE_KV = <$ tile_kv $>;
constexpr int D_V = <$ d_v $>;
constexpr int ROW_BLOCKS = <$ row_blocks $>;  // fragments of a warp, one below the other
constexpr int KEY_BLOCKS = <$ key_blocks $>;  // fragments of S side by side
constexpr int VALUE_BLOCKS = <$ value_blocks $>;  // fragments of O side by side
<%- if d_v_padded %>, the last one of padding<%- endif %>
constexpr int STEPS = <$ k_steps $>;  // products that make up one of Q and K, 32 bytes of a row each
<%- if d_qk_padded %>, the last half padding<%- endif %>
constexpr int WARP_ROWS = <$ rows_per_warp $>;  // rows of a warp
constexpr int LANE_ROWS = <$ rows $>;  // rows of a lane, which are eight apart

// A tile in shared memory: rows of chunks of 16 bytes. Chunk c of row r lies at c ^ (r >> SHIFT & MASK), so that eight
// chunks below one another lie in different banks. LANES threads copy a row; chunks from FILLED on are 0.
<%- for t in tiles %>
struct <$ t.name $>Tile {
  enum : int { AT = <$ t.at $>, ROWS = <$ t.rows $>, PITCH = <$ t.pitch $>, CHUNKS = <$ t.chunks $>, FILLED = <$ t.filled $> };
  enum : int { LANES = <$ t.lanes $>, SHIFT = <$ t.shift $>, MASK = <$ t.mask $> };
};
<%- endfor %>
<%- if two_stages %>
constexpr unsigned K_STAGE = <$ k_stage $>, V_STAGE = <$ v_stage $>;  // bytes from the first tile of K, and of V, to the second
<%- endif %>

constexpr float LOG2_E = 0x1.715476p+0f, LN_2 = 0x1.62e430p-1f;

<$ prelude $>
<%- if rules %>

<$ rules $>
<%- endif %>

template <class Tile>
__device__ __forceinline__ unsigned swizzle(int row) {
  return (row >> Tile::SHIFT & Tile::MASK) * 16;
}

// Starts copying the rows from `from` on; those from `valid` on are not read, and are 0.
template <class Tile>
__device__ __forceinline__ void load_tile(unsigned tile, const Element* from, long long stride, int valid) {
  constexpr int STEP = THREADS / Tile::LANES;
  const int lane = threadIdx.x % Tile::LANES;
#pragma unroll
  for (int i = 0; i < (Tile::ROWS + STEP - 1) / STEP; ++i) {
    const int row = i * STEP + threadIdx.x / Tile::LANES;
    if (Tile::ROWS % STEP != 0 && Tile::ROWS <= row) break;
    // Even an address that is not read lies in the tensor.
    const Element* from_row = from + min(row, valid - 1) * stride;
    const int bytes = row < valid ? 16 : 0;
#pragma unroll
    for (int c = 0; c < Tile::CHUNKS; c += Tile::LANES) {
      const int chunk = c + lane;
      const bool filled = Tile::FILLED == Tile::CHUNKS || chunk < Tile::FILLED;
      copy_async(tile + row * Tile::PITCH + (chunk * 16 ^ swizzle<Tile>(row)),
                 from_row + (filled ? chunk * int(16 / sizeof(Element)) : 0), filled ? bytes : 0);
    }
  }
}

// The tiles of keys that the block mask keeps, in ascending order.
struct Walk {
  const uint2* run;
  const uint2* runs_end;
  unsigned tile, tiles_end, limit;
  bool full;

  __device__ __forceinline__ bool next() {
    ++tile;
    while (tiles_end <= tile) {
      if (run == runs_end) return false;
      const uint2 r = *run++;
      tile = r.x;
      tiles_end = min(r.x + r.y / 2, limit);
      full = r.y % 2 == 1;
    }
    return true;
  }
};

__device__ __forceinline__ Walk walk(const Params& p, unsigned b, unsigned h, unsigned tile_q) {
  const unsigned plane = p.plane_of[b * p.plane_batch_stride + h * p.plane_head_stride];
  const unsigned* start = p.row_start + (plane * (p.mask_rows + 1ll) + tile_q / p.tiles_per_row);
  const unsigned limit = (p.kv_len + TILE_KV - 1u) / TILE_KV;
  return {p.runs + start[0], p.runs + start[1], 0, 0, limit, false};
}

// Which key of a tile the columns of a lane's fragments are.
__device__ __forceinline__ int key_of_lane(int lane, int column) {
  return column / 2 * 8 + lane % 4 * 2 + column % 2;
}

// exp(score - origin), where the scores are <% if has_score %>natural<% else %>in units of ln 2<% endif %>.
__device__ __forceinline__ float weight(float score, float origin) {
<%- if has_score %>
  // The difference first: a score near the greatest float, times log2 e, would be infinite.
  return exp2_fast(__fmul_rn(__fsub_rn(score, origin), LOG2_E));
<%- else %>
  return exp2_fast(__fsub_rn(score, origin));
<%- endif %>
}

__device__ __forceinline__ void store_pair(Output* to, float x0, float x1) {
<%- if out_is_f32 %>
  *reinterpret_cast<float2*>(to) = make_float2(x0, x1);
<%- else %>
  *reinterpret_cast<unsigned*>(to) = pack(x0, x1);
<%- endif %>
}

extern "C" __global__ void __launch_bounds__(THREADS, <$ min_blocks $>) <$ entry $>(const __grid_constant__ Params p) {
  extern __shared__ __align__(128) unsigned char shared[];
  const unsigned base = __cvta_generic_to_shared(shared);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;

  // The last rows come first: under a causal mask they have the most to do.
  const unsigned tiles_q = (p.q_len + TILE_Q - 1u) / TILE_Q;
  const unsigned tile_q = tiles_q - 1 - blockIdx.x % tiles_q;
  const unsigned h = blockIdx.x / tiles_q % p.num_q_heads, b = blockIdx.x / tiles_q / p.num_q_heads;
  const int first_row = tile_q * TILE_Q;
  const int lane_row = first_row + warp * WARP_ROWS + lane / 4;

  const Element* q = p.q + b * p.q_batch_stride + h * p.q_head_stride + first_row * p.q_row_stride;
  const Element* k = p.k + b * p.k_batch_stride + h / p.group * p.k_head_stride;
  const Element* v = p.v + b * p.v_batch_stride + h / p.group * p.v_head_stride;
<%- if has_rule %>

  // Rows past the end take the place of the last one: the rule must not see positions that there are not.
  const int rule_b = p.b_offset + b, rule_h = p.h_offset + h;
  int q_idx[LANE_ROWS];
<%- if has_mask %>
  MaskRow mask_rows[LANE_ROWS];
<%- endif %>
<%- if has_score %>
  ScoreRow score_rows[LANE_ROWS];
<%- endif %>
#pragma unroll
  for (int r = 0; r < LANE_ROWS; ++r) {
    q_idx[r] = p.q_offset + min(lane_row + 8 * r, p.q_len - 1);
<%- if has_mask %>
    mask_rows[r] = mask_row(p, rule_b, rule_h, q_idx[r]);
<%- endif %>
<%- if has_score %>
    score_rows[r] = score_row(p, rule_b, rule_h, q_idx[r]);
<%- endif %>
  }
<%- endif %>

  // Where this lane's part of a load begins: 16 rows by 32 bytes, as four matrices.
  const int load_row = lane % 16, load_chunk = lane / 16 * 16;
  const unsigned q_row = base + QTile::AT + (warp * WARP_ROWS + load_row) * QTile::PITCH;
  const unsigned k_row = base + KTile::AT + load_row * KTile::PITCH;
  const unsigned qk_swizzle = load_chunk ^ swizzle<KTile>(load_row);
<%- if is_f32 %>
  const unsigned v_row = base + VTile::AT + lane % 4 * 2 * VTile::PITCH + lane / 4 * 4;
<%- else %>
  const unsigned v_row = base + VTile::AT + load_row * VTile::PITCH;
  const unsigned v_swizzle = load_chunk ^ swizzle<VTile>(load_row);
<%- endif %>

  Walk ahead = walk(p, b, h, tile_q);
  bool more = ahead.next();
  if (more) {
    const int kv = ahead.tile * TILE_KV;
    load_tile<QTile>(base + QTile::AT, q, p.q_row_stride, p.q_len - first_row);
    load_tile<KTile>(base + KTile::AT, k + kv * p.k_row_stride, p.k_row_stride, p.kv_len - kv);
    copy_commit();
<%- if two_stages %>
    load_tile<VTile>(base + VTile::AT, v + kv * p.v_row_stride, p.v_row_stride, p.kv_len - kv);
    copy_commit();
<%- endif %>
  }
<%- if not has_score %>

  // Scores are kept in units of ln 2, which makes 2^x of exp(x).
  const float sm_scale = __fmul_rn(p.sm_scale, LOG2_E);
<%- endif %>

  float m[LANE_ROWS], l[LANE_ROWS];
#pragma unroll
  for (int r = 0; r < LANE_ROWS; ++r) {
    m[r] = minus_infinity();
    l[r] = 0;
  }
  float o[ROW_BLOCKS][VALUE_BLOCKS][4] = {};
<%- if two_stages %>
  unsigned stage = 0;
<%- endif %>
  while (more) {
    const int first_kv = ahead.tile * TILE_KV;
<%- if has_mask %>
    const bool full = ahead.full;
<%- endif %>
    more = ahead.next();
    const int next_kv = ahead.tile * TILE_KV;
<%- if two_stages %>
    const unsigned k_tile = k_row + stage * K_STAGE, v_tile = v_row + stage * V_STAGE;
    stage ^= 1;

    // K is there, and all warps are through with the one before, which the next may overwrite.
    copy_wait<1>();
    __syncthreads();
    if (more) {
      load_tile<KTile>(base + KTile::AT + stage * K_STAGE, k + next_kv * p.k_row_stride, p.k_row_stride,
                       p.kv_len - next_kv);
    }
    copy_commit();
<%- else %>
    const unsigned k_tile = k_row, v_tile = v_row;

    // K is there, and all warps are through with the last V, which this one may overwrite.
    copy_wait<0>();
    __syncthreads();
    load_tile<VTile>(base + VTile::AT, v + first_kv * p.v_row_stride, p.v_row_stride, p.kv_len - first_kv);
    copy_commit();
<%- endif %>

    // S = Q Kᵀ
    float s[ROW_BLOCKS][KEY_BLOCKS][4] = {};
#pragma unroll
    for (int step = 0; step < STEPS; ++step) {
      const unsigned column = step * 32 ^ qk_swizzle;
<%- if is_f32 %>
      SplitFragment a[ROW_BLOCKS];
#pragma unroll
      for (int i = 0; i < ROW_BLOCKS; ++i) {
        unsigned x[4];
        load_matrices(x, q_row + i * 16 * QTile::PITCH + column);
        a[i] = split(x);
      }
#pragma unroll
      for (int j = 0; j < KEY_BLOCKS; j += 2) {
        unsigned x[4];
        load_matrices(x, k_tile + j * 8 * KTile::PITCH + column);
        const SplitFragment y = split(x);
#pragma unroll
        for (int i = 0; i < ROW_BLOCKS; ++i) {
          mma(s[i][j], a[i], {y.hi[0], y.lo[0]}, {y.hi[2], y.lo[2]});
          mma(s[i][j + 1], a[i], {y.hi[1], y.lo[1]}, {y.hi[3], y.lo[3]});
        }
      }
<%- else %>
      unsigned a[ROW_BLOCKS][4];
#pragma unroll
      for (int i = 0; i < ROW_BLOCKS; ++i) load_matrices(a[i], q_row + i * 16 * QTile::PITCH + column);
#pragma unroll
      for (int j = 0; j < KEY_BLOCKS; j += 2) {
        unsigned x[4];
        load_matrices(x, k_tile + j * 8 * KTile::PITCH + column);
#pragma unroll
        for (int i = 0; i < ROW_BLOCKS; ++i) {
          mma(s[i][j], a[i], x[0], x[2]);
          mma(s[i][j + 1], a[i], x[1], x[3]);
        }
      }
<%- endif %>
    }
<%- if two_stages %>

    // V is there, and all warps are through with the one before, which the next may overwrite.
    copy_wait<1>();
    __syncthreads();
    if (more) {
      load_tile<VTile>(base + VTile::AT + stage * V_STAGE, v + next_kv * p.v_row_stride, p.v_row_stride,
                       p.kv_len - next_kv);
    }
    copy_commit();
<%- else %>

    // V is there, and all warps are through with K, which the next one may overwrite.
    copy_wait<0>();
    __syncthreads();
    if (more) {
      load_tile<KTile>(base + KTile::AT, k + next_kv * p.k_row_stride, p.k_row_stride, p.kv_len - next_kv);
    }
    copy_commit();
<%- endif %>
<%- if has_score %>

    // S = score_mod(sm_scale S). Keys past the end take the place of the last one, as rows do.
#pragma unroll
    for (int j = 0; j < 2 * KEY_BLOCKS; ++j) {
      const int kv = p.kv_offset + min(first_kv + key_of_lane(lane, j), p.kv_len - 1);
      const ScoreCol col = score_col(p, rule_b, rule_h, kv);
#pragma unroll
      for (int r = 0; r < LANE_ROWS; ++r) {
        float& x = s[r / 2][j / 2][r % 2 * 2 + j % 2];
        x = score_mod(p, __fmul_rn(x, p.sm_scale), rule_b, rule_h, q_idx[r], kv, score_rows[r], col);
      }
    }
<%- else %>

    // S = sm_scale S
#pragma unroll
    for (int i = 0; i < ROW_BLOCKS; ++i) {
#pragma unroll
      for (int j = 0; j < KEY_BLOCKS; ++j) {
#pragma unroll
        for (int c = 0; c < 4; ++c) s[i][j][c] = __fmul_rn(s[i][j][c], sm_scale);
      }
    }
<%- endif %>
<%- if has_mask %>

    // S = -∞ where the rule says so. Keys past the end take the place of the last one, as rows do.
    if (!full) {
#pragma unroll
      for (int j = 0; j < 2 * KEY_BLOCKS; ++j) {
        const int kv = p.kv_offset + min(first_kv + key_of_lane(lane, j), p.kv_len - 1);
        const MaskCol col = mask_col(p, rule_b, rule_h, kv);
#pragma unroll
        for (int r = 0; r < LANE_ROWS; ++r) {
          const bool keep = mask_mod(p, rule_b, rule_h, q_idx[r], kv, mask_rows[r], col);
          if (!keep) s[r / 2][j / 2][r % 2 * 2 + j % 2] = minus_infinity();
        }
      }
    }
<%- endif %>

    // S = -∞ past the last key, in the one tile that reaches there
    if (p.kv_len - first_kv < TILE_KV) {
#pragma unroll
      for (int j = 0; j < 2 * KEY_BLOCKS; ++j) {
        const bool past = p.kv_len - first_kv <= key_of_lane(lane, j);
#pragma unroll
        for (int r = 0; r < LANE_ROWS; ++r) {
          if (past) s[r / 2][j / 2][r % 2 * 2 + j % 2] = minus_infinity();
        }
      }
    }

#pragma unroll
    for (int r = 0; r < LANE_ROWS; ++r) {
      // m' = max(m, max S)
      float top = m[r];
#pragma unroll
      for (int j = 0; j < 2 * KEY_BLOCKS; ++j) top = fmaxf(top, s[r / 2][j / 2][r % 2 * 2 + j % 2]);
      top = quad_max(top);
      // -∞ - -∞ is NaN; a row that has met no score yet must weigh its keys 0 instead.
      const float origin = top == minus_infinity() ? 0 : top;

      // P = exp(S - m')
      float sum = 0;
#pragma unroll
      for (int j = 0; j < 2 * KEY_BLOCKS; ++j) {
        float& x = s[r / 2][j / 2][r % 2 * 2 + j % 2];
        x = weight(x, origin);
        sum = __fadd_rn(sum, x);
      }

      // l = exp(m - m') l + ΣP, O = exp(m - m') O
      const float shrink = weight(m[r], origin);
      m[r] = top;
      l[r] = __fmaf_rn(l[r], shrink, sum);
#pragma unroll
      for (int n = 0; n < 2 * VALUE_BLOCKS; ++n) {
        float& x = o[r / 2][n / 2][r % 2 * 2 + n % 2];
        x = __fmul_rn(x, shrink);
      }
    }

    // O += P V
<%- if is_f32 %>
    // A lane has P of keys 2 t and 2 t + 1, t = lane % 4, where a product wants t and t + 4 of the eight. The order of the
    // keys does not matter to the sum, so V is read in the order that P is in.
#pragma unroll
    for (int j = 0; j < KEY_BLOCKS; ++j) {
      SplitFragment a[ROW_BLOCKS];
#pragma unroll
      for (int i = 0; i < ROW_BLOCKS; ++i) a[i] = split(s[i][j][0], s[i][j][2], s[i][j][1], s[i][j][3]);
#pragma unroll
      for (int n = 0; n < VALUE_BLOCKS; ++n) {
        const unsigned at = v_tile + j * 8 * VTile::PITCH + n * 32;
        const Split even = split(load_float(at)), odd = split(load_float(at + VTile::PITCH));
#pragma unroll
        for (int i = 0; i < ROW_BLOCKS; ++i) mma(o[i][n], a[i], even, odd);
      }
    }
<%- else %>
    // Two fragments of P side by side are just what a product wants of its left factor.
#pragma unroll
    for (int j = 0; j < KEY_BLOCKS; j += 2) {
      unsigned a[ROW_BLOCKS][4];
#pragma unroll
      for (int i = 0; i < ROW_BLOCKS; ++i) {
        a[i][0] = pack(s[i][j][0], s[i][j][1]);
        a[i][1] = pack(s[i][j][2], s[i][j][3]);
        a[i][2] = pack(s[i][j + 1][0], s[i][j + 1][1]);
        a[i][3] = pack(s[i][j + 1][2], s[i][j + 1][3]);
      }
#pragma unroll
      for (int n = 0; n < VALUE_BLOCKS; n += 2) {
        unsigned x[4];
        load_matrices_transposed(x, v_tile + j * 8 * VTile::PITCH + (n * 16 ^ v_swizzle));
#pragma unroll
        for (int i = 0; i < ROW_BLOCKS; ++i) {
          mma(o[i][n], a[i], x[0], x[1]);
          mma(o[i][n + 1], a[i], x[2], x[3]);
        }
      }
    }
<%- endif %>
  }

  // O = O / l, lse = m + ln l
  Output* out = p.out + b * p.out_batch_stride + h * p.out_head_stride + lane % 4 * 2;
#pragma unroll
  for (int r = 0; r < LANE_ROWS; ++r) {
    const int row = lane_row + 8 * r;
    l[r] = quad_sum(l[r]);
    if (p.q_len <= row) continue;
    // A row that attends to nothing is 0, neither 0 / 0 nor what a V that is not finite made of it.
    const bool empty = l[r] == 0;
    const float factor = __frcp_rn(l[r]);
#pragma unroll
    for (int n = 0; n < D_V / 8; ++n) {
      const float x0 = o[r / 2][n][r % 2 * 2], x1 = o[r / 2][n][r % 2 * 2 + 1];
      store_pair(out + row * p.out_row_stride + n * 8, empty ? 0 : __fmul_rn(x0, factor),
                 empty ? 0 : __fmul_rn(x1, factor));
    }
    if (lane % 4 != 0) continue;
    const long long at = ((long long)b * p.num_q_heads + h) * p.q_len + row;
<%- if has_score %>
    const float top = m[r], lse = __fadd_rn(top, __fmul_rn(log2_fast(l[r]), LN_2));
<%- else %>
    const float top = __fmul_rn(m[r], LN_2), lse = __fmul_rn(__fadd_rn(m[r], log2_fast(l[r])), LN_2);
<%- endif %>
    // A score of +∞ or NaN has made l NaN, and so lse; the greatest score says so, too.
    const bool is_nan = l[r] != l[r];
    if (p.lse != nullptr) p.lse[at] = lse;
    if (p.row_max != nullptr) p.row_max[at] = is_nan ? l[r] : top;
  }
}
