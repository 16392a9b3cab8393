// The <% if is_mask %>mask<% else %>score_mod<% endif %> alone, over a rectangle of cells of one (b, h): what verification compares with the interpreter.
<% if is_mask -%>
// A warp computes a word of 32 keys, a lane one key.
<%- else -%>
// A thread computes one score, in place.
<%- endif %>

struct Params {
<%- for field in fields %>
  <$ field $>;
<%- endfor %>
};

<$ rules $>

extern "C" __global__ void __launch_bounds__(<$ threads $>) <$ entry $>(const __grid_constant__ Params p) {
<%- if is_mask %>
  const long long words = (p.cols + 31ll) / 32;
  const long long at = ((long long)blockIdx.x * <$ threads $> + threadIdx.x) / 32;
  if (p.rows * words <= at) return;
  const int i = (int)(at / words);
  const int j = (int)(at % words) * 32 + (int)(threadIdx.x % 32);
  // Past the last key the last one is looked at again, so that only cells of the call are evaluated.
  const int q = p.q0 + i;
  const int kv = p.kv0 + min(j, p.cols - 1);
  const MaskRow row = mask_row(p, p.b, p.h, q);
  const MaskCol col = mask_col(p, p.b, p.h, kv);
  const bool attends = mask_mod(p, p.b, p.h, q, kv, row, col);
  const unsigned word = __ballot_sync(0xffffffff, attends && j < p.cols);
  if (threadIdx.x % 32 == 0) p.bits[at] = word;
<%- else %>
  const long long at = (long long)blockIdx.x * <$ threads $> + threadIdx.x;
  if ((long long)p.rows * p.cols <= at) return;
  const int q = p.q0 + (int)(at / p.cols);
  const int kv = p.kv0 + (int)(at % p.cols);
  const ScoreRow row = score_row(p, p.b, p.h, q);
  const ScoreCol col = score_col(p, p.b, p.h, kv);
  p.scores[at] = score_mod(p, p.scores[at], p.b, p.h, q, kv, row, col);
<%- endif %>
}
