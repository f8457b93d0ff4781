// GroupNorm, channels last. A block holds a chunk of pixels in registers: each thread has eight channels of
// LB_GROUP_VECTORS pixels. Squares are taken around the mean of the chunk, and chunks are combined in the order of their
// index. So the result does not depend on the batch, and the variance stays exact for large means.
#include "normal.h"

// held describes a thread's part of the chunk.
struct held {
	i32 channel;  // the first of eight
	i32 channels; // how many of these eight exist
	u32 pixel, step, end;

	LB_ALWAYS held(const lb_group_norm_args &p)
	{
		u32 per = ((u32)p.columns + 7) / 8, lanes = LB_NORM_THREADS / per, mine = tid() / per;
		u32 all = (u32)p.pixels.dim[1] * (u32)p.pixels.dim[2];
		channel = (i32)(tid() % per) * 8;
		channels = min(p.columns - channel, 8);
		pixel = bx() * lanes * LB_GROUP_VECTORS + mine;
		step = lanes;
		u32 full = (bx() + 1) * lanes * LB_GROUP_VECTORS;
		end = mine >= lanes ? 0 : full < all ? full : all;
	}
};

DEV i64 pixel_at(const lb_group_norm_args &p, const lb_view &v, u32 pixel)
{
	u32 width = (u32)p.pixels.dim[2], y = 0;
	if (p.pixels.dim[1] > 1) {
		y = pixel / width;
		pixel -= y * width;
	}
	return by() * v.stride[0] + y * v.stride[1] + pixel * v.stride[2];
}

// group_sums adds the threads' numbers of each channel (8 at part + 8 * thread) over the channels of a group and the
// pixels, in a tree that depends only on the shape. It calls `use` with the sum of every group.
template <class F> DEV void group_sums(const lb_group_norm_args &p, const f32 *part, F use)
{
	u32 per = ((u32)p.columns + 7) / 8, lanes = LB_NORM_THREADS / per, size = (u32)(p.columns / p.groups);
	u32 share = 32; // threads of a group
	while (share > 1 && share * (u32)p.groups > LB_NORM_THREADS)
		share /= 2;
	for (u32 g0 = 0; g0 < (u32)p.groups; g0 += LB_NORM_THREADS / share) {
		u32 g = g0 + tid() / share, first = tid() % share;
		f32 sum = 0;
		if (g < (u32)p.groups) {
			u32 row = first / size, col = first % size;
			for (u32 i = first; i < size * lanes; i += share) {
				sum += part[row * per * 8 + g * size + col];
				for (col += share; col >= size; col -= size)
					row++;
			}
		}
		sum = lanes_sum(sum, share);
		if (g < (u32)p.groups && first == 0)
			use(g, sum);
	}
}

// pixels_of returns the number of pixels of a chunk.
DEV u32 pixels_of(const lb_group_norm_args &p, u32 chunk)
{
	u32 size = LB_NORM_THREADS / (((u32)p.columns + 7) / 8) * LB_GROUP_VECTORS;
	u32 left = (u32)p.pixels.dim[1] * (u32)p.pixels.dim[2] - chunk * size;
	return left < size ? left : size;
}

// Plain holds N vectors of a thread in registers, from number k0 on. It is for operands of type T in whole vectors, and
// evenly spaced pixels.
template <class T, int N> struct Plain {
	static constexpr int UNROLLED = N;
	u4 v[N];

	LB_ALWAYS Plain(const lb_group_norm_args &p, const held &t, u32 k0 = 0)
	{
		const u16 *x = (const u16 *)global(p.x.ptr) + by() * p.x.stride[0] + t.channel;
		UNROLL
		for (u32 k = 0; k < N; k++) {
			u32 pixel = t.pixel + (k0 + k) * t.step;
			v[k] = pixel < t.end ? ld16(x + pixel * p.x.stride[2]) : u4{0, 0, 0, 0};
		}
	}
	LB_ALWAYS void get(const lb_group_norm_args &, const held &, u32 k, f32 *out) const { widen8<T>(out, v[k]); }
	LB_ALWAYS bool exact(const lb_group_norm_args &) const { return false; }
};

// Any is for operands of any kind. It reads them again for each use.
struct Any {
	static constexpr int UNROLLED = 1;
	bool wide;

	LB_ALWAYS Any(const lb_group_norm_args &p, const held &) : wide(aligned(p.pixels, p.x)) {}
	LB_ALWAYS void get(const lb_group_norm_args &p, const held &t, u32 k, f32 *out) const
	{
		u32 pixel = t.pixel + k * t.step;
		bool there = pixel < t.end;
		get8(out, p.x, wide, there ? pixel_at(p, p.x, pixel) + t.channel * p.x.col : 0, p.x.col, there ? t.channels : 0);
	}
	LB_ALWAYS bool exact(const lb_group_norm_args &p) const { return p.x.dtype == LB_F32; }
};

#define UNROLL_OF(n) _Pragma(LB_TEXT(unroll n))
#define LB_TEXT(x) #x

// moments writes, for each group of a chunk, its mean and the sum of squares around the mean. In fp32, the rounding error
// of the mean is measured and corrected. With 16-bit operands it is smaller than the precision of x.
template <class Source> DEV void moments(const lb_group_norm_args &p)
{
	f32 *first = (f32 *)smem(), *second = first + LB_NORM_THREADS * 8, *means = second + LB_NORM_THREADS * 8;
	held t(p);
	Source x(p, t);
	f32 v[8], sum[8] = {}, squares[8] = {}, mean[8];
	UNROLL_OF(Source::UNROLLED)
	for (u32 k = 0; k < LB_GROUP_VECTORS; k++) {
		x.get(p, t, k, v);
		UNROLL
		for (int j = 0; j < 8; j++)
			sum[j] += v[j];
	}
	UNROLL
	for (int j = 0; j < 8; j++)
		first[tid() * 8 + j] = sum[j];
	BAR(20);
	i32 size = p.columns / p.groups, group = t.channel / size, in = t.channel % size;
	f32 count = (f32)pixels_of(p, bx()) * (f32)size;
	group_sums(p, first, [&](u32 g, f32 all) { means[g] = all / count; });
	BAR(21);
	UNROLL
	for (int j = 0; j < 8; j++) {
		mean[j] = means[min(group, p.groups - 1)];
		sum[j] = 0;
		if (++in == size) {
			in = 0;
			group++;
		}
	}
	UNROLL_OF(Source::UNROLLED)
	for (u32 k = 0; k < LB_GROUP_VECTORS; k++) {
		if (t.pixel + k * t.step >= t.end)
			continue;
		x.get(p, t, k, v);
		UNROLL
		for (int j = 0; j < 8; j++) {
			f32 d = v[j] - mean[j];
			squares[j] = fma_(d, d, squares[j]);
			if (x.exact(p))
				sum[j] += d;
		}
	}
	UNROLL
	for (int j = 0; j < 8; j++) {
		second[tid() * 8 + j] = squares[j];
		if (x.exact(p))
			first[tid() * 8 + j] = sum[j];
	}
	BAR(22);
	f32 *out = (f32 *)global(p.moments) + ((u64)by() * (u32)p.groups * grid_x() + bx()) * 2;
	bool exact = x.exact(p);
	group_sums(p, second, [&](u32 g, f32 all) {
		out[(u64)g * grid_x() * 2] = means[g];
		out[(u64)g * grid_x() * 2 + 1] = all;
	});
	if (exact)
		group_sums(p, first, [&](u32 g, f32 rest) { out[(u64)g * grid_x() * 2] += rest / count; }); // the same thread
}

KERNEL2(256, 2) group_moments(const lb_group_norm_args p GRID_CONST)
{
	if (p.x.dtype == LB_BF16)
		moments<Plain<bf16, LB_GROUP_VECTORS>>(p);
	else
		moments<Plain<f16, LB_GROUP_VECTORS>>(p);
}

KERNEL2(256, 2) group_moments_any(const lb_group_norm_args p GRID_CONST) { moments<Any>(p); }

// moment is the result of group_moments for a group of a chunk. There are (images, groups, chunks) of them.
struct alignas(8) moment { f32 mean, squares; };

// group_combine combines the chunks of a group of an image, and writes mean and weight / sqrt(variance + eps) for each of
// its channels.
KERNEL(256) group_combine(const lb_group_norm_args p GRID_CONST)
{
	f32 *spare = (f32 *)smem();
	u32 chunk = LB_NORM_THREADS / (((u32)p.columns + 7) / 8) * LB_GROUP_VECTORS;
	u32 all = (u32)p.pixels.dim[1] * (u32)p.pixels.dim[2], chunks = (all + chunk - 1) / chunk;
	u32 size = (u32)(p.columns / p.groups);
	const moment *in = (const moment *)global(p.moments) + ((u64)by() * (u32)p.groups + bx()) * chunks;
	f32 near = in[0].mean, mean = 0, squares = 0, unused = 0, count = (f32)all * (f32)size;
	UNROLL_OF(4)
	for (u32 i = tid(); i < chunks; i += LB_NORM_THREADS)
		mean += (f32)pixels_of(p, i) * (f32)size * (in[i].mean - near);
	sum2(mean, unused, LB_NORM_THREADS, spare);
	mean = near + mean / count;
	UNROLL_OF(4)
	for (u32 i = tid(); i < chunks; i += LB_NORM_THREADS) {
		f32 d = in[i].mean - mean;
		squares += in[i].squares + (f32)pixels_of(p, i) * (f32)size * (d * d);
	}
	sum2(squares, unused, LB_NORM_THREADS, spare);
	f32 factor = inverse_root(squares / count + p.eps);
	f32 *means = (f32 *)global(p.factors) + (u64)by() * (u32)p.columns * 2 + bx() * size;
	for (u32 c = tid(); c < size; c += LB_NORM_THREADS) {
		f32 w = p.weight.ptr ? ld(p.weight.ptr, p.weight.dtype, (bx() * size + c) * p.weight.col) : 1.0f;
		means[c] = mean;
		means[(u32)p.columns + c] = factor * w;
	}
}

// scaled has the results of group_combine for eight channels: (x - mean) factor + bias.
struct scaled {
	f32 mean[8], factor[8], bias[8];

	LB_ALWAYS scaled(const lb_group_norm_args &p, const held &t)
	{
		const f32 *means = (const f32 *)global(p.factors) + (u64)by() * (u32)p.columns * 2 + t.channel;
		UNROLL
		for (int j = 0; j < 8; j++) {
			mean[j] = j < t.channels ? means[j] : 0.0f;
			factor[j] = j < t.channels ? means[p.columns + j] : 0.0f;
			bias[j] = 0;
		}
		if (p.bias.ptr)
			get8(bias, p.bias, false, t.channel * p.bias.col, p.bias.col, t.channels);
	}
	LB_ALWAYS void apply(f32 *y) const
	{
		UNROLL
		for (int j = 0; j < 8; j++)
			y[j] = (y[j] - mean[j]) * factor[j] + bias[j];
	}
};

// apply_plain is for calls of the models: one type, whole vectors, no modulation, at most an activation.
template <class T> DEV void apply_plain(const lb_group_norm_args &p)
{
	constexpr int BATCH = LB_GROUP_VECTORS / 2;
	held t(p);
	scaled s(p, t);
	u16 *dst = (u16 *)global(p.dst.ptr) + by() * p.dst.stride[0] + t.channel;
	NO_UNROLL
	for (u32 k0 = 0; k0 < LB_GROUP_VECTORS; k0 += BATCH) {
		Plain<T, BATCH> x(p, t, k0);
		UNROLL
		for (u32 k = 0; k < BATCH; k++) {
			u32 pixel = t.pixel + (k0 + k) * t.step;
			if (pixel >= t.end)
				continue;
			f32 y[8];
			x.get(p, t, k, y);
			s.apply(y);
			if (p.act == LB_SILU) {
				round8<T>(y);
				act8_of<LB_SILU>(y);
			}
			st16(dst + pixel * p.dst.stride[2], narrow8<T>(y));
		}
	}
}

KERNEL2(256, 2) group_apply(const lb_group_norm_args p GRID_CONST)
{
	if (p.x.dtype == LB_BF16)
		apply_plain<bf16>(p);
	else
		apply_plain<f16>(p);
}

KERNEL2(256, 2) group_apply_any(const lb_group_norm_args p GRID_CONST)
{
	held t(p);
	Any x(p, t);
	scaled s(p, t);
	after k;
	k.dst = aligned(p.pixels, p.dst);
	k.scale = p.scale.ptr && aligned(p.pixels, p.scale);
	k.shift = p.shift.ptr && aligned(p.pixels, p.shift);
	NO_UNROLL
	for (u32 i = 0; i < LB_GROUP_VECTORS; i++) {
		u32 pixel = t.pixel + i * t.step;
		if (pixel >= t.end)
			return;
		f32 y[8];
		x.get(p, t, i, y);
		s.apply(y);
		k.at_dst = pixel_at(p, p.dst, pixel) + t.channel * p.dst.col;
		k.at_scale = pixel_at(p, p.scale, pixel) + t.channel * p.scale.col;
		k.at_shift = pixel_at(p, p.shift, pixel) + t.channel * p.shift.col;
		follow(y, p.dst, p.scale, p.shift, p.act, k, t.channels);
	}
}
