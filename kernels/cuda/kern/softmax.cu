// Rows of scores become weights: dst = softmax(scale scores + bias). Attention of wide heads (512 channels in the VAE) is
// two matrix products with this kernel between them. A block computes a row. Each thread adds every 256th key, and the
// partial sums are added in a tree, so that the order depends only on the number of keys.
#include "args_attn.h"
#include "num.h"

constexpr int THREADS = 256;

// combine reduces one number of each thread by `op`; every thread gets the result.
template <class F> LB_ALWAYS f32 combine(f32 v, F op)
{
	f32 *part = (f32 *)smem();
	UNROLL
	for (u32 m = 16; m > 0; m /= 2)
		v = op(v, shfl_xor(v, m));
	BAR(1); // all threads have read the numbers of the previous call
	if (lane() == 0)
		part[warp_id()] = v;
	BAR(2);
	v = part[0];
	UNROLL
	for (int i = 1; i < THREADS / 32; i++)
		v = op(v, part[i]);
	return v;
}

KERNEL2(THREADS, 4) softmax(const lb_softmax_args p GRID_CONST)
{
	i64 row = bx();
	const f32 *scores = (const f32 *)global(p.scores) + row * p.pitch;
	f32 scale = p.scale * 1.44269504088896341f;
	auto score = [&](int k) {
		f32 bias = p.bias ? ld(p.bias, p.bias_dtype, row * p.bias_row + k * p.bias_key) * 1.44269504088896341f : 0;
		return fma_(scores[k], scale, bias);
	};
	f32 top = -__builtin_inff(), total = 0;
	for (int k = (int)tid(); k < p.keys; k += THREADS)
		top = max(top, score(k));
	top = combine(top, [](f32 a, f32 b) { return max(a, b); });
	for (int k = (int)tid(); k < p.keys; k += THREADS)
		total += ex2(score(k) - top);
	total = combine(total, [](f32 a, f32 b) { return a + b; });
	f32 factor = 1 / total;
	for (int k = (int)tid(); k < p.keys; k += THREADS)
		st(p.dst, p.dst_dtype, row * p.dst_pitch + k, ex2(score(k) - top) * factor);
}
