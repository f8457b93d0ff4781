// Tests operands of more than 2^31 elements. Their memory is mapped but mostly never used. Some blocks of a launch, the
// last one among them, are compared with float64. An index that does not fit into 32 bits causes a wrong number or a crash.
#include "testlib.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

// Sparse is a dense operand of bf16, zero except where it was filled. After it is a page that cannot be accessed.
struct Sparse {
	size_t n, bytes;
	unsigned char *data;

	explicit Sparse(size_t n) : n(n), bytes((n * 2 + 4095) / 4096 * 4096)
	{
		data = (unsigned char *)mmap(nullptr, bytes + 4096, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (data == MAP_FAILED || mprotect(data + bytes, 4096, PROT_NONE)) {
			perror("large: not tested, no address space"); // where memory may not be promised that is not there
			exit(finish("large"));
		}
	}
	~Sparse() { munmap(data, bytes + 4096); }
	Sparse(const Sparse &) = delete;
	// value returns the value of element i where the operand was filled.
	static double value(size_t i)
	{
		i *= 0x9e3779b97f4a7c15;
		return (double)((i >> 40) & 127) / 64 - 1;
	}
	void fill(size_t from, size_t count)
	{
		for (size_t i = from; i < from + count; i++)
			((uint16_t *)data)[i] = bits_of(value(i));
	}
	double get(size_t i) const
	{
		uint32_t b = (uint32_t)((uint16_t *)data)[i] << 16;
		float v;
		__builtin_memcpy(&v, &b, 4);
		return v;
	}
	static uint16_t bits_of(double v) // of few digits
	{
		float f = (float)v;
		uint32_t b;
		__builtin_memcpy(&b, &f, 4);
		return (uint16_t)(b >> 16);
	}
	lb_view view(std::vector<lb_i64> strides, lb_i64 col = 1) const
	{
		lb_view v = {};
		v.ptr = (lb_u64)data;
		v.col = col;
		v.dtype = LB_BF16;
		for (size_t i = 0; i < strides.size(); i++)
			v.stride[i] = strides[i];
		return v;
	}
};

static lb_shape axes(std::vector<int> dims)
{
	lb_shape s = {};
	for (int d : dims)
		s.dim[s.axes++] = d;
	return s;
}

// run runs block x, or the last one if x is -1, and returns the number of blocks.
static unsigned run(const char *kernel, const void *args, long long x = -1, unsigned y = 0)
{
	const lb_kernel *k = lb_emu_find(kernel);
	if (!k)
		return 0; // not for this compute capability
	lb_launch plan = lb_emu_plan(k, args);
	unsigned at = x < 0 ? plan.grid[0] - 1 : (unsigned)x;
	if (lb_emu_launch_block(k, args, &plan, at, y))
		fail("%s: no launch of (%u, %u, %u), block %u", kernel, plan.grid[0], plan.grid[1], plan.grid[2], at);
	return plan.grid[0];
}

static void same(const char *what, const Sparse &dst, size_t i, double want, double scale = 1)
{
	verify(std::string(what) + ", element " + std::to_string(i), LB_BF16, scale, dst.get(i), want);
}

static void maps()
{
	const size_t n = 0x7fffffff;
	Sparse x(n), y(n), dst(n);
	for (Sparse *s : {&x, &y})
		s->fill(n - 9000, 9000);
	lb_map_args a = {axes({(int)n}), dst.view({1}), x.view({1}), y.view({1}), LB_ADD, -1};
	run("map_binary", &a);
	for (size_t i = n - 4000; i < n; i++)
		same("map_binary", dst, i, x.get(i) + y.get(i));
	a.op = LB_IDENTITY;
	run("map_unary", &a);
	for (size_t i = n - 4000; i < n; i++)
		same("map_unary", dst, i, x.get(i));
}

// pairs: rows of two, element by element: a block counts eight times as many as there are.
static void pairs()
{
	const int rows = 0x3fffffff;
	Sparse x((size_t)rows * 3), dst((size_t)rows * 3);
	x.fill(0, 60000);
	lb_map_args a = {axes({rows, 2}), dst.view({3, 1}), x.view({3, 1}), {}, LB_IDENTITY, -1};
	unsigned blocks = run("map_unary", &a);
	for (unsigned b : {blocks / 4, blocks / 2, blocks / 2 + 1, blocks - 1})
		run("map_unary", &a, b);
	for (size_t i = 0; i < 60000; i++)
		same("map_unary, by a block beyond the end", dst, i, 0);
	run("map_unary", &a, 0);
	same("map_unary of pairs", dst, 4, x.get(4));
}

static void transposed()
{
	const int high = 45000, wide = 47000;
	Sparse x((size_t)high * wide), dst((size_t)high * wide);
	for (size_t r = high - 64; r < (size_t)high; r++)
		x.fill(r * wide + wide - 64, 64);
	lb_map_args a = {axes({wide, high}), dst.view({high, 1}), x.view({1, wide}), {}, LB_IDENTITY, -1};
	a.across = lb_copy_across(&a);
	run("transpose", &a);
	for (size_t r = high - high % 64; r < (size_t)high; r++)
		for (size_t c = wide - wide % 64; c < (size_t)wide; c++)
			same("transpose", dst, c * high + r, x.get(r * wide + c));
}

static void rope()
{
	const size_t rows = 59000000, d = 72;
	Sparse x(rows * d), dst(rows * d), cos(1000 * d / 2), sin(1000 * d / 2);
	x.fill((rows - 300) * d, 300 * d);
	cos.fill(0, cos.n);
	sin.fill(0, sin.n);
	lb_rope_args a = {axes({59000, 1000, 36}), dst.view({1000 * 72, 72, 2}), x.view({1000 * 72, 72, 2}), cos.view({0, 36, 1}),
		sin.view({0, 36, 1})};
	run("rope", &a);
	for (size_t row = rows - 10; row < rows; row++)
		for (size_t k = 0; k < d / 2; k++) {
			double c = cos.get(row % 1000 * 36 + k), s = sin.get(row % 1000 * 36 + k), u = x.get(row * d + 2 * k), v = x.get(row * d + 2 * k + 1);
			same("rope", dst, row * d + 2 * k, round_to(LB_BF16, u * c) - round_to(LB_BF16, v * s));
			same("rope", dst, row * d + 2 * k + 1, round_to(LB_BF16, v * c) + round_to(LB_BF16, u * s));
		}
}

static void gathers()
{
	const size_t table_rows = 1 << 21, columns = 4096, rows = 700000;
	Sparse table(table_rows * columns), dst(rows * columns);
	std::vector<int> ids(rows, (int)table_rows - 1);
	table.fill((table_rows - 1) * columns, columns);
	lb_gather_args a = {(int)rows, (int)columns, dst.view({columns}), table.view({columns}), (lb_u64)ids.data()};
	run("gather", &a);
	for (size_t c = 0; c < columns; c += 7)
		same("gather", dst, (rows - 1) * columns + c, table.get((table_rows - 1) * columns + c));
}

static void norms()
{
	for (size_t columns : {64, 1152, 2048}) {
		const size_t rows = 9000000000 / columns;
		Sparse x(rows * columns), dst(rows * columns);
		x.fill((rows - 70) * columns, 70 * columns);
		lb_norm_args a = {};
		a.rows = axes({(int)rows});
		a.columns = (int)columns;
		a.kind = LB_LAYER_NORM;
		a.dst = dst.view({(lb_i64)columns});
		a.x = x.view({(lb_i64)columns});
		for (const char *kernel : {lb_norm_name(lb_norm_pick(&a)), "norm_any"}) {
			run(kernel, &a);
			size_t first = (rows - 1) * columns;
			double mean = 0, square = 0;
			for (size_t c = 0; c < columns; c++)
				mean += x.get(first + c) / (double)columns;
			for (size_t c = 0; c < columns; c++)
				square += pow(x.get(first + c) - mean, 2) / (double)columns;
			for (size_t c = 0; c < columns; c++)
				same(kernel, dst, first + c, (x.get(first + c) - mean) / sqrt(square), 2);
		}
	}
}

// groups: the VAE's widest activations, 51 frames of 720 x 1280 with 128 channels.
static void groups()
{
	const size_t frames = 51, pixels = 720 * 1280, channels = 128, size = 4;
	Sparse x(frames * pixels * channels), dst(frames * pixels * channels);
	lb_group_norm_args a = {axes({(int)frames, 1, (int)pixels}), (int)channels, 32, dst.view({(lb_i64)(pixels * channels), 0, channels}),
		x.view({(lb_i64)(pixels * channels), 0, channels}), {}, {}, {}, {}, 0, 0, 1e-5f, LB_IDENTITY};
	std::vector<float> moments((size_t)lb_group_moments_bytes(&a) / 4, NAN), factors((size_t)lb_group_factors_bytes(&a) / 4, 0.5f);
	a.moments = (lb_u64)moments.data();
	a.factors = (lb_u64)factors.data();
	size_t chunk = (size_t)lb_group_chunk((int)channels), chunks = (size_t)lb_group_chunks(&a), from = (chunks - 1) * chunk;
	size_t first = ((frames - 1) * pixels + from) * channels;
	x.fill(first, x.n - first);
	run("group_moments", &a, -1, frames - 1);
	for (size_t g = 0; g < 32; g++) {
		double mean = 0;
		for (size_t p = from; p < pixels; p++)
			for (size_t c = 0; c < size; c++)
				mean += x.get(((frames - 1) * pixels + p) * channels + g * size + c) / (double)((pixels - from) * size);
		verify("group_moments", LB_F32, 10, moments[(((frames - 1) * 32 + g) * chunks + chunks - 1) * 2], mean);
	}
	run("group_apply", &a, -1, frames - 1);
	for (size_t i = first; i < x.n; i += 13)
		same("group_apply", dst, i, (x.get(i) - 0.5) * 0.5);
}

static void products()
{
	const size_t m = 3000001, k = 160, n = 4608;
	Sparse x(m * k), w(n * k), dst(m * n);
	x.fill((m - 200) * k, 200 * k);
	w.fill((n - 128) * k, 128 * k);
	lb_gemm_args a = {};
	a.rows = axes({(int)m});
	a.n = (int)n;
	a.k = (int)k;
	a.x = x.view({(lb_i64)k});
	a.w = (lb_u64)w.data;
	a.w_row = k;
	a.w_col = 1;
	a.w_dtype = LB_BF16;
	a.ep.dst = dst.view({(lb_i64)n});
	for (int g = 0; g < LB_GEMM_KERNELS; g++) {
		std::string name = lb_gemm_name((lb_gemm_kernel)g);
		if (name.find("_f16") != std::string::npos)
			continue;
		for (size_t j = n - 16; j < n; j++)
			((uint16_t *)dst.data)[(m - 1) * n + j] = 0x7fff;
		if (!run(name.c_str(), &a))
			continue;
		for (size_t j = n - 16; j < n; j++) {
			double want = 0;
			for (size_t i = 0; i < k; i++)
				want += x.get((m - 1) * k + i) * w.get(j * k + i);
			same(name.c_str(), dst, (m - 1) * n + j, want);
		}
	}
}

// convs: 3 x 3 x 3 over the same activations.
static void convs()
{
	const size_t frames = 51, high = 720, wide = 1280, c = 128;
	Sparse x(frames * high * wide * c), w(c * 27 * c), dst(frames * high * wide * c);
	for (size_t t = frames - 3; t < frames; t++)
		for (size_t y = high - 2; y < high; y++)
			x.fill(((t * high + y) * wide + wide - 140) * c, 140 * c);
	w.fill(0, 4 * 27 * c);
	lb_conv_args a = {};
	a.out = axes({1, (int)frames, (int)high, (int)wide});
	a.cout = a.cin = (int)c;
	a.depth = (int)frames, a.height = (int)high, a.width = (int)wide;
	a.kt = a.kh = a.kw = 3;
	a.stride_t = a.stride = a.up = 1;
	a.front = 2, a.top = a.left = 1;
	a.x = x.view({(lb_i64)(frames * high * wide * c), (lb_i64)(high * wide * c), (lb_i64)(wide * c), (lb_i64)c});
	a.w = (lb_u64)w.data;
	a.w_row = 27 * c;
	a.w_tap = c;
	a.w_col = 1;
	a.w_dtype = LB_BF16;
	a.ep.dst = a.x;
	a.ep.dst.ptr = (lb_u64)dst.data;
	for (const char *kernel : {"conv_bf16_128", "conv_bf16_64", "conv_wg_bf16_128", "conv_wg_bf16_64", "conv_f32_128"}) {
		const size_t pixel = frames * high * wide - 1;
		const size_t across = __builtin_strstr(kernel, "_64") ? 2 : 1; // tiles of columns; the first channels are in the first
		const lb_kernel *known = lb_emu_find(kernel);
		if (!known)
			continue;
		lb_launch plan = lb_emu_plan(known, &a);
		size_t down = plan.grid[0] / across, group = (down - 1) / 8 * 8;
		run(kernel, &a, (long long)(group * across + (down - 1 - group))); // see block_of
		for (size_t o = 0; o < 4; o++) {
			double want = 0;
			for (size_t kt = 0; kt < 3; kt++)
				for (size_t ky = 0; ky < 2; ky++)
					for (size_t kx = 0; kx < 2; kx++)
						for (size_t ch = 0; ch < c; ch++)
							want += x.get((((frames - 3 + kt) * high + high - 2 + ky) * wide + wide - 2 + kx) * c + ch) *
								w.get((o * 27 + (kt * 3 + ky) * 3 + kx) * c + ch);
			same(kernel, dst, pixel * c + o, want, 4);
			((uint16_t *)dst.data)[pixel * c + o] = 0;
		}
	}
}

// attend: queries, keys and values of one product's result, the last query of the last head of the last entry.
static void attend(const char *kernel, size_t lead0, size_t lead1, size_t length, size_t heads, size_t d)
{
	Sparse qkv(lead0 * lead1 * length * 3 * heads * d), dst(lead0 * lead1 * length * heads * d);
	auto operand = [&](const Sparse &s, size_t parts, size_t part) {
		lb_heads h = {};
		h.ptr = (lb_u64)s.data + part * heads * d * 2;
		h.chan = 1;
		h.head = (lb_i64)d;
		h.seq = (lb_i64)(parts * heads * d);
		h.lead[1] = h.seq * (lb_i64)length;
		h.lead[0] = h.lead[1] * (lb_i64)lead1;
		h.dtype = LB_BF16;
		return h;
	};
	size_t last = (lead0 * lead1 - 1) * length, row = 3 * heads * d;
	for (size_t i = 0; i < length; i++)
		for (size_t part = 0; part < 3; part++)
			qkv.fill((last + i) * row + (part * heads + heads - 1) * d, d);
	lb_attn_args a = {};
	a.q = operand(qkv, 3, 0);
	a.k = operand(qkv, 3, 1);
	a.v = operand(qkv, 3, 2);
	a.dst = operand(dst, 1, 0);
	a.scale = 0.1f;
	a.lead[0] = (int)lead0, a.lead[1] = (int)lead1;
	a.lq = a.lk = (int)length;
	a.heads = (int)heads;
	a.d = (int)d;
	if (!run(kernel, &a))
		return;
	auto at = [&](size_t i, size_t part, size_t c) { return qkv.get((last + i) * row + (part * heads + heads - 1) * d + c); };
	std::vector<double> weight(length), want(d);
	double sum = 0;
	for (size_t i = 0; i < length; i++) {
		for (size_t c = 0; c < d; c++)
			weight[i] += 0.1 * at(length - 1, 0, c) * at(i, 1, c);
		sum += weight[i] = exp(weight[i]);
	}
	for (size_t i = 0; i < length; i++)
		for (size_t c = 0; c < d; c++)
			want[c] += weight[i] / sum * at(i, 2, c);
	for (size_t c = 0; c < d; c++)
		same(kernel, dst, ((last + length - 1) * heads + heads - 1) * d + c, want[c]);
}

static void softmaxes()
{
	const size_t rows = 200000, keys = 14400;
	Sparse scores(rows * keys * 2), dst(rows * keys); // fp32
	float *last = (float *)scores.data + (rows - 1) * keys;
	double sum = 0;
	for (size_t i = 0; i < keys; i++)
		sum += exp(last[i] = (float)Sparse::value(i));
	lb_softmax_args a = {};
	a.scores = (lb_u64)scores.data;
	a.dst = (lb_u64)dst.data;
	a.pitch = a.dst_pitch = keys;
	a.dst_dtype = LB_BF16;
	a.rows = (int)rows;
	a.keys = (int)keys;
	a.scale = 1;
	run("softmax", &a);
	for (size_t i = 0; i < keys; i += 11)
		same("softmax", dst, (rows - 1) * keys + i, exp(last[i]) / sum);
}

int main()
{
	maps();
	pairs();
	transposed();
	rope();
	gathers();
	norms();
	groups();
	products();
	convs();
	for (const char *kernel : {"attn_bf16_72", "attn_wg_bf16_72", "attn_any"})
		attend(kernel, 900, 1, 3600, 16, 72); // images of 720p
	attend("attn_short_bf16_72", 4, 57600, 16, 16, 72); // their pixels through time
	softmaxes();
	return finish("large");
}
