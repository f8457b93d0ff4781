// Compares attention with float64, for types, widths, layouts, key lengths and bias. Also checks that the bits of a query
// depend only on itself and its keys, and not on the kernel that computes it.
#include "testlib.h"
#include <algorithm>
#include <math.h>
#include <memory>
#include <stdio.h>

static const char *const type_names[] = {"f32", "bf16", "f16"};

// Layout of (lead0, lead1, L, H, D): dense; one of three parts of (lead0, L, lead1, 3, H, D), as q, k and v lie in
// the result of one product; with odd distances; D slowest.
enum Layout { DENSE, FUSED, ODD, REVERSED, LAYOUTS };

struct Shape { int lead0, lead1, len, heads, d; };

// Heads is one operand on the device, with NaN around it, and its values as float64.
struct Heads {
	Shape s;
	lb_heads h;
	size_t start;
	std::unique_ptr<Buffer> data;
	std::vector<double> value;

	Heads(int dtype, const Shape &shape, Layout l) : s(shape), h(), start(0)
	{
		lb_i64 n = (lb_i64)s.lead0 * s.lead1 * s.len * s.heads * s.d, d = s.d + (l == ODD ? 3 : 0);
		lb_i64 parts = l == FUSED ? 3 : 1;
		h.chan = 1;
		h.head = d;
		h.seq = d * s.heads;
		h.lead[1] = h.seq * s.len;
		h.lead[0] = h.lead[1] * s.lead1;
		if (l == FUSED) {
			h.lead[1] = 3 * s.heads * d;
			h.seq = h.lead[1] * s.lead1;
			h.lead[0] = h.seq * s.len;
			start = (size_t)(s.heads * d);
		} else if (l == REVERSED) {
			h.lead[0] = 1;
			h.lead[1] = s.lead0;
			h.seq = h.lead[1] * s.lead1;
			h.head = h.seq * s.len;
			h.chan = h.head * s.heads;
		} else if (l == ODD) {
			start = 1;
		}
		data = std::make_unique<Buffer>(dtype, (size_t)(n / s.d * d * parts));
		h.ptr = data->at(start);
		h.dtype = dtype;
		value.resize((size_t)n);
	}
	size_t index(int a, int b, int i, int head, int c) const
	{
		return start + (size_t)(a * h.lead[0] + b * h.lead[1] + i * h.seq + head * h.head + c * h.chan);
	}
	double &at(int a, int b, int i, int head, int c)
	{
		return value[((((size_t)a * s.lead1 + b) * s.len + i) * s.heads + head) * s.d + c];
	}
	template <class F> void each(F f)
	{
		for (int a = 0; a < s.lead0; a++)
			for (int b = 0; b < s.lead1; b++)
				for (int i = 0; i < s.len; i++)
					for (int head = 0; head < s.heads; head++)
						for (int c = 0; c < s.d; c++)
							f(a, b, i, head, c);
	}
	// random fills the operand; rows from lens[lead0] on stay NaN.
	void random(Random &r, const std::vector<int> &lens = {})
	{
		each([&](int a, int b, int i, int head, int c) {
			double v = r.next(h.dtype);
			if (!lens.empty() && i >= lens[a])
				return;
			at(a, b, i, head, c) = v;
			data->set(index(a, b, i, head, c), v);
		});
	}
};

struct Case {
	Shape q;
	int keys, dtype, dst;
	Layout layout;
	std::vector<int> lens;
	int bias; // type, or -1
	float scale;
};

struct Bias {
	std::unique_ptr<Buffer> data;
	lb_i64 head, query, key, start;
	std::vector<double> value;
};

static std::string name_of(const Case &c, const char *kernel)
{
	char s[200];
	snprintf(s, sizeof s, "%s %s -> %s (%d, %d, %d, %d, %d), %d keys, layout %d, %zu lengths, bias %d, scale %g", kernel,
		type_names[c.dtype], type_names[c.dst], c.q.lead0, c.q.lead1, c.q.len, c.q.heads, c.q.d, c.keys, c.layout,
		c.lens.size(), c.bias, c.scale);
	return s;
}

static Bias make_bias(const Case &c, Random &r)
{
	Bias b = {};
	bool odd = c.layout == ODD, reversed = c.layout == REVERSED;
	b.key = reversed ? c.q.heads * c.q.len : 1;
	b.query = reversed ? c.q.heads : c.keys + (odd ? 2 : 0);
	b.head = reversed ? 1 : b.query * c.q.len;
	b.start = odd ? 1 : 0;
	size_t n = (size_t)c.q.heads * c.q.len * c.keys;
	b.data = std::make_unique<Buffer>(c.bias, n + (odd ? (size_t)c.q.heads * c.q.len * 2 : 0));
	for (int h = 0; h < c.q.heads; h++)
		for (int i = 0; i < c.q.len; i++)
			for (int j = 0; j < c.keys; j++) {
				b.value.push_back(2 * r.next(c.bias));
				b.data->set((size_t)(b.start + h * b.head + i * b.query + j * b.key), b.value.back());
			}
	return b;
}

// attend computes attention by its definition.
static void attend(const Case &c, Heads &q, Heads &k, Heads &v, const Bias &bias, Heads &out)
{
	std::vector<double> w((size_t)c.keys);
	for (int a = 0; a < c.q.lead0; a++)
		for (int b = 0; b < c.q.lead1; b++)
			for (int h = 0; h < c.q.heads; h++)
				for (int i = 0; i < c.q.len; i++) {
					int keys = c.lens.empty() ? c.keys : c.lens[a];
					double top = -INFINITY, sum = 0;
					for (int j = 0; j < keys; j++) {
						w[j] = 0;
						for (int d = 0; d < c.q.d; d++)
							w[j] += q.at(a, b, i, h, d) * k.at(a, b, j, h, d);
						w[j] *= c.scale;
						if (c.bias >= 0)
							w[j] += bias.value[((size_t)h * c.q.len + i) * c.keys + j];
						top = fmax(top, w[j]);
					}
					for (int j = 0; j < keys; j++)
						sum += w[j] = exp(w[j] - top);
					for (int d = 0; d < c.q.d; d++) {
						double &o = out.at(a, b, i, h, d);
						o = 0;
						for (int j = 0; j < keys; j++)
							o += w[j] / sum * v.at(a, b, j, h, d);
					}
				}
}

static lb_attn_args arguments(const Case &c, const Heads &q, const Heads &k, const Heads &v, const Bias &bias)
{
	lb_attn_args a = {};
	a.q = q.h;
	a.k = k.h;
	a.v = v.h;
	a.lens = c.lens.empty() ? 0 : (lb_u64)c.lens.data();
	if (c.bias >= 0) {
		a.bias = bias.data->at((size_t)bias.start);
		a.bias_head = bias.head;
		a.bias_q = bias.query;
		a.bias_k = bias.key;
		a.bias_dtype = c.bias;
	}
	a.scale = c.scale;
	a.lead[0] = c.q.lead0;
	a.lead[1] = c.q.lead1;
	a.lq = c.q.len;
	a.lk = c.keys;
	a.heads = c.q.heads;
	a.d = c.q.d;
	return a;
}

// kernels_for lists the kernels that must give the same bits.
static std::vector<lb_attn_kernel> kernels_for(const lb_attn_args &a)
{
	lb_attn_kernel k = lb_attn_pick(&a, LB_ARCH / 10);
	if (k >= LB_ATTN_SHORT_BF16_64 && k < LB_ATTN_ANY)
		return {k, (lb_attn_kernel)(k - LB_ATTN_SHORT_BF16_64)};
	if (k >= LB_ATTN_WG_BF16_64)
		return {k, k}; // with more and with fewer blocks
	return {k};
}

// attention launches a kernel and, if it skips some entries, a second one for these, as the backend does.
static void attention(lb_attn_kernel kernel, lb_attn_args a)
{
	launch(lb_attn_name(kernel), &a);
	const int *lens = (const int *)a.lens;
	if (kernel < LB_ATTN_WG_BF16_64 || !lens || *std::min_element(lens, lens + a.lead[0]) > LB_ATTN_SHORT)
		return;
	a.most = LB_ATTN_SHORT;
	launch(lb_attn_name(lb_attn_pick(&a, LB_ARCH / 10)), &a);
}

// parts computes some queries of some heads again, without the others.
static void parts(const Case &c, lb_attn_args a, Heads &whole)
{
	int q0 = a.lq / 3, n = (a.lq + 2) / 4, h0 = a.heads - 1, lead = a.lead[0] - 1;
	if (n == 0)
		return;
	Heads part(c.dst, {1, a.lead[1], n, 1, a.d}, DENSE);
	for (lb_heads *h : {&a.q, &a.k, &a.v})
		h->ptr += (lb_u64)((lead * h->lead[0] + h0 * h->head) * (h->dtype == LB_F32 ? 4 : 2));
	a.q.ptr += (lb_u64)(q0 * a.q.seq * (a.q.dtype == LB_F32 ? 4 : 2));
	a.dst = part.h;
	a.lens += a.lens ? (lb_u64)lead * 4 : 0;
	if (a.bias)
		a.bias += (lb_u64)((h0 * a.bias_head + q0 * a.bias_q) * (a.bias_dtype == LB_F32 ? 4 : 2));
	a.lead[0] = 1;
	a.lq = n;
	a.heads = 1;
	if (a.lens) // and without the keys that are not valid
		a.lk = *(const int *)a.lens;
	lb_attn_kernel kernel = lb_attn_pick(&a, LB_ARCH / 10);
	attention(kernel, a);
	part.each([&](int, int b, int i, int, int ch) {
		if (part.data->bits(part.index(0, b, i, 0, ch)) != whole.data->bits(whole.index(lead, b, q0 + i, h0, ch)))
			fail("%s: query %d alone has other bits", name_of(c, lb_attn_name(kernel)).c_str(), q0 + i);
	});
}

static void check(const Case &c, Random &r)
{
	Shape keys = c.q;
	keys.len = c.keys;
	Heads q(c.dtype, c.q, c.layout), k(c.dtype, keys, c.layout), v(c.dtype, keys, c.layout);
	Heads want(c.dst, c.q, DENSE);
	q.random(r);
	k.random(r, c.lens);
	v.random(r, c.lens);
	Bias bias = {};
	if (c.bias >= 0)
		bias = make_bias(c, r);
	attend(c, q, k, v, bias, want);
	lb_attn_args a = arguments(c, q, k, v, bias);
	std::unique_ptr<Heads> first;
	for (lb_attn_kernel kernel : kernels_for(a)) {
		auto dst = std::make_unique<Heads>(c.dst, c.q, c.layout);
		a.dst = dst->h;
		std::string what = name_of(c, lb_attn_name(kernel));
		a.blocks = first ? 2 : 0;
		attention(kernel, a);
		std::vector<bool> ours(dst->data->size());
		int tolerance = c.dst == LB_F32 ? c.dtype : c.dst; // the weights have the type of the values
		dst->each([&](int a, int b, int i, int h, int d) {
			size_t at = dst->index(a, b, i, h, d);
			ours[at] = true;
			verify(what, tolerance, 0, dst->data->get(at), want.at(a, b, i, h, d));
			if (first && first->data->bits(at) != dst->data->bits(at))
				fail("%s: other bits than the other kernel", what.c_str());
		});
		for (size_t i = 0; i < ours.size(); i++)
			if (!ours[i] && dst->data->get(i) == dst->data->get(i))
				fail("%s: element %zu beside the destination was written", what.c_str(), i);
		if (!first)
			first = std::move(dst);
	}
	parts(c, a, *first);
}

// wide checks attention by two products and the kernel softmax, which is used for heads of many channels.
static void wide(int dtype, int queries, int keys, int d, bool with_bias, Random &r)
{
	Case c = {{1, 1, queries, 1, d}, keys, dtype, dtype, DENSE, {}, with_bias ? LB_F32 : -1, 0.1f};
	Heads q(dtype, c.q, DENSE), k(dtype, {1, 1, keys, 1, d}, DENSE), v(dtype, {1, 1, keys, 1, d}, REVERSED);
	Heads want(dtype, c.q, DENSE), dst(dtype, c.q, DENSE);
	for (Heads *h : {&q, &k, &v})
		h->random(r);
	Bias bias = {};
	if (with_bias)
		bias = make_bias(c, r);
	attend(c, q, k, v, bias, want);
	Buffer scores(LB_F32, (size_t)queries * keys), weights(dtype, (size_t)queries * keys);
	auto product = [&](lb_u64 x, int x_dtype, const lb_heads &w, int n, bool transposed, lb_u64 to, int dst_dtype) {
		lb_gemm_args a = {};
		a.rows.axes = 1;
		a.rows.dim[0] = queries;
		a.n = n;
		a.k = queries ? (transposed ? keys : d) : 0;
		a.x.ptr = x;
		a.x.stride[0] = a.k;
		a.x.col = a.ep.dst.col = 1;
		a.x.dtype = x_dtype;
		a.w = w.ptr;
		a.w_row = transposed ? w.chan : w.seq;
		a.w_col = transposed ? w.seq : w.chan;
		a.w_dtype = dtype;
		a.ep.dst.ptr = to;
		a.ep.dst.stride[0] = n;
		a.ep.dst.dtype = dst_dtype;
		launch(lb_gemm_name(lb_gemm_pick(&a, LB_ARCH / 10)), &a);
	};
	product(q.h.ptr, dtype, k.h, keys, false, scores.at(0), LB_F32);
	lb_softmax_args a = {};
	a.scores = scores.at(0);
	a.dst = weights.at(0);
	a.dst_dtype = dtype;
	a.pitch = a.dst_pitch = a.keys = keys;
	a.rows = queries;
	a.scale = c.scale;
	if (with_bias) {
		a.bias = bias.data->at(0);
		a.bias_row = bias.query;
		a.bias_key = bias.key;
	}
	launch("softmax", &a);
	product(weights.at(0), dtype, v.h, d, true, dst.h.ptr, dtype);
	want.each([&](int, int, int i, int, int ch) {
		verify(name_of(c, "softmax"), dtype, 0, dst.data->get(dst.index(0, 0, i, 0, ch)), want.at(0, 0, i, 0, ch));
	});
}

// chance checks a random case.
static void chance(Random &r)
{
	int d = r.maybe(4) ? r.length(128) : r.maybe(2) ? 64 : 72, dt = r.below(3);
	Case c = {{1 + r.below(3), 1 + r.below(2), r.length(270), 1 + r.below(3), d}, r.length(400), dt, r.maybe(3) ? r.below(3) : dt,
		(Layout)r.below(LAYOUTS), {}, r.maybe(3) ? r.below(3) : -1, r.maybe(6) ? -0.3f : 0.3f};
	if (r.maybe(3)) // short ones
		c.q.len = r.length(64), c.keys = r.length(64);
	for (int i = 0; r.maybe(2) && i < c.q.lead0; i++)
		c.lens.push_back(r.below(c.keys + 1));
	c.lens.resize(c.lens.empty() ? 0 : (size_t)c.q.lead0, c.keys);
	check(c, r);
}

int main()
{
	Random r(3);
	by_chance(chance);
	for (int t = LB_F32; t <= LB_F16; t++)
		for (int d : {64, 72}) {
			for (int l = 0; l < LAYOUTS; l++) {
				check({{1, 2, 70, 2, d}, 150, t, t, (Layout)l, {}, -1, 0.3f}, r);
				check({{3, 1, 20, 2, d}, 40, t, t, (Layout)l, {40, 0, 17}, l == 1 ? -1 : LB_F32, 0.2f}, r);
				check({{2, 1, 130, 1, d}, 130, t, t, (Layout)l, {130, 65}, l % 2 ? LB_F32 : -1, 0.2f}, r);
			}
			check({{1, 3, 16, 3, d}, 16, t, t, FUSED, {}, -1, 0.12f}, r); // frames
			check({{1, 1, 64, 1, d}, 64, t, t, DENSE, {}, t, -0.4f}, r);
			check({{1, 1, 3, 1, d}, 70, t, LB_F32, DENSE, {}, -1, -0.4f}, r);
			check({{1, 1, 129, 1, d}, 1, t, LB_F16, DENSE, {}, -1, 1}, r);
			check({{4, 1, 90, 1, d}, 150, t, LB_F32, FUSED, {64, 65, 0, 150}, -1, 0.3f}, r); // both kinds of entries
			check({{1, 1, 300, 1, d}, 128, t, t, FUSED, {}, -1, 0.3f}, r);
			check({{1, 2, 40, 2, d}, 700, t, LB_F32, DENSE, {}, -1, 0.3f}, r); // stages come round
			check({{3, 1, 130, 1, d}, 390, t, t, ODD, {257, 384, 390}, -1, 0.5f}, r);
			check({{1, 1, 70, 1, d}, 200, t, t, DENSE, {}, -1, -0.3f}, r);
		}
	for (int t = LB_F32; t <= LB_F16; t++)
		for (int d : {1, 9, 40, 136, 300})
			check({{2, 1, 5, 2, d}, 70, t, t, (Layout)(d % LAYOUTS), {70, 33}, d == 40 ? LB_F32 : -1, 0.5f}, r);
	for (int t = LB_F32; t <= LB_F16; t++) {
		wide(t, 7, 300, 136, true, r);
		wide(t, 3, 1, 130, false, r);
		wide(t, 2, 1000, 16, false, r);
	}
	check({{1, 1, 66, 1, 40}, 200, LB_F32, LB_F32, DENSE, {}, LB_BF16, 1.7f}, r);
	check({{1, 1, 4, 1, 8}, 0, LB_F32, LB_F32, DENSE, {}, -1, 1}, r);
	check({{1, 1, 4, 1, 64}, 0, LB_BF16, LB_BF16, DENSE, {}, -1, 1}, r);
	if (lb_emu_conflicts())
		fail("%llu conflicts of banks", lb_emu_conflicts());
	return finish("attention");
}
