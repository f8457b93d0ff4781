// Compares LayerNorm, RMSNorm and GroupNorm with float64, with single steps, and each kernel with the others.
#include "operand.h"
#include <math.h>

enum { WEIGHT = 1, BIAS = 2, MODULATION = 4, ALL = 8 };

struct Case {
	int dt, kind, parts, act;
	double mean;
	Layout layout;
	Shape shape; // (N, H, W, C)
	int groups;
	int other; // type of weight, bias, scale and shift
};

static std::string name_of(const Case &c)
{
	char text[200];
	snprintf(text, sizeof text, "norm %d of %s %s (%d, %d, %d, %d), parts %d, act %d, mean %g", c.kind, dtype_names[c.dt],
		layout_names[c.layout], c.shape[0], c.shape[1], c.shape[2], c.shape[3], c.parts, c.act, c.mean);
	return text;
}

// Norm is one call with its operands.
struct Norm {
	Case c;
	Operand x, dst, weight, bias, scale, shift;

	Norm(const Case &c, Random &r)
		: c(c), x(c.dt, c.layout, c.shape, r), dst(c.dt, c.layout, c.shape), weight(c.other, c.layout, {c.shape[3]}, r),
		  bias(c.other, c.layout, {c.shape[3]}, r),
		  scale(Operand(c.other, c.layout, {c.shape[0], 1, 1, c.shape[3]}, r).expand(c.shape)),
		  shift(Operand(c.other, c.layout, {c.shape[0], 1, 1, c.shape[3]}, r).expand(c.shape))
	{
		if (c.mean != 0)
			for (size_t i = 0; i < count(c.shape); i++)
				x.set(i, x.get(i) + c.mean);
	}
	lb_view part(int bit, const Operand &o, size_t axes) const { return c.parts & bit ? o.view(axes) : lb_view{}; }
	lb_view vector(int bit, const Operand &o) const
	{
		lb_view v = part(bit, o, 0);
		return v;
	}

	void rows(const Operand &out, int first, int n, bool any) const // images first to first + n
	{
		lb_norm_args p = {shape_of(c.shape, 3), c.shape[3], c.kind, out.view(3), x.view(3), part(MODULATION, scale, 3),
			part(MODULATION, shift, 3), vector(WEIGHT, weight), vector(BIAS, bias), 1e-5f, c.act, {}, {}, 0, 0};
		p.rows.dim[0] = n;
		lb_view *views[] = {&p.dst, &p.x, &p.scale, &p.shift};
		for (lb_view *v : views)
			if (v->ptr)
				v->ptr += (lb_u64)(first * v->stride[0] * (v->dtype == LB_F32 ? 4 : 2));
		lb_map_merge(&p.rows, views, p.scale.ptr ? 4 : 2);
		launch(any ? "norm_any" : lb_norm_name(lb_norm_pick(&p)), &p);
	}
	void groups(const Operand &out, int first, int n, bool any) const
	{
		lb_group_norm_args p = {shape_of(c.shape, 3), c.shape[3], c.groups, out.view(3), x.view(3),
			part(MODULATION, scale, 3), part(MODULATION, shift, 3), vector(WEIGHT, weight), vector(BIAS, bias), 0, 0,
			1e-5f, c.act};
		p.pixels.dim[0] = n;
		bool even = true; // pixels of an image
		for (lb_view *v : {&p.dst, &p.x, &p.scale, &p.shift})
			even = even && v->stride[1] == v->stride[2] * c.shape[2];
		if (even && !any) {
			p.pixels.dim[1] = 1;
			p.pixels.dim[2] = c.shape[1] * c.shape[2];
		}
		for (lb_view *v : {&p.dst, &p.x, &p.scale, &p.shift})
			if (v->ptr)
				v->ptr += (lb_u64)(first * v->stride[0] * (v->dtype == LB_F32 ? 4 : 2));
		Buffer moments(LB_F32, (size_t)lb_group_moments_bytes(&p) / 4), factors(LB_F32, (size_t)lb_group_factors_bytes(&p) / 4);
		p.moments = moments.at(0);
		p.factors = factors.at(0);
		bool plain = lb_group_plain(&p) && !any;
		launch(plain ? "group_moments" : "group_moments_any", &p);
		launch("group_combine", &p);
		launch(plain ? "group_apply" : "group_apply_any", &p);
	}
	void run(const Operand &out, int first, int n, bool any = false) const
	{
		c.kind == LB_GROUP_NORM ? groups(out, first, n, any) : rows(out, first, n, any);
	}
};

static double act_of(int op, double x)
{
	switch (op) {
	case LB_SILU: return x / (1 + exp(-x));
	case LB_SIGMOID: return 1 / (1 + exp(-x));
	case LB_GELU_TANH: return 0.5 * x * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
	}
	return x;
}

// right computes the norm by its definition in float64. If dst has 16 bits, it rounds between steps.
static std::vector<double> right(const Norm &n)
{
	const Case &c = n.c;
	int channels = c.shape[3], dt = c.dt;
	size_t image = count(c.shape) / (size_t)c.shape[0], all = count(c.shape);
	std::vector<double> y(all), mean(all), factor(all);
	std::vector<double> sum(all), squares(all), size(all);
	auto key = [&](size_t i) {
		if (c.kind != LB_GROUP_NORM)
			return i / (size_t)channels;
		return i / image * (size_t)c.groups + i % (size_t)channels / (size_t)(channels / c.groups);
	};
	for (size_t i = 0; i < all; i++) {
		sum[key(i)] += n.x.get(i);
		size[key(i)]++;
	}
	for (size_t i = 0; i < all; i++) {
		double d = n.x.get(i) - (c.kind == LB_RMS_NORM ? 0 : sum[key(i)] / size[key(i)]);
		y[i] = d;
		squares[key(i)] += d * d;
	}
	for (size_t i = 0; i < all; i++) {
		double v = y[i] / sqrt(squares[key(i)] / size[key(i)] + 1e-5f);
		size_t ch = i % (size_t)channels;
		if (c.parts & WEIGHT)
			v = (c.kind == LB_RMS_NORM ? round_to(dt, v) : v) * n.weight.get(ch);
		if (c.parts & BIAS)
			v += n.bias.get(ch);
		if (c.parts & MODULATION) {
			v = round_to(dt, round_to(dt, v) * round_to(dt, 1 + n.scale.get(i)));
			v += n.shift.get(i);
		}
		if (c.act != LB_IDENTITY)
			v = act_of(c.act, round_to(dt, v));
		y[i] = v;
	}
	return y;
}

static void norm(const Case &c)
{
	Random r(count(c.shape) + (size_t)c.parts);
	std::string what = name_of(c);
	Norm n(c, r);
	std::vector<double> want = right(n);
	n.run(n.dst, 0, c.shape[0]);
	double scale = c.mean == 0 ? (c.parts & ~WEIGHT ? 4 : 2) : 12; // half a unit of 1000 is 5e-5 of the deviation
	for (size_t i = 0; i < want.size(); i++)
		if (!verify(what, c.dt, scale, n.dst.get(i), want[i]))
			break;
	n.dst.untouched(what);

	Operand other(c.dt, c.layout, c.shape); // by the kernel that takes anything
	n.run(other, 0, c.shape[0], true);
	Operand alone(c.dt, c.layout, c.shape); // one image after the other
	for (int i = 0; i < c.shape[0]; i++)
		n.run(alone, i, 1);
	n.run(n.x, 0, c.shape[0]); // in place
	for (size_t i = 0; i < want.size(); i++) {
		if (other.bits(i) != n.dst.bits(i))
			return fail("%s: element %zu is %g by the general kernel, %g by the quick one", what.c_str(), i, other.get(i),
				n.dst.get(i));
		if (alone.bits(i) != n.dst.bits(i))
			return fail("%s: element %zu is %g alone, %g in the batch", what.c_str(), i, alone.get(i), n.dst.get(i));
		if (n.x.bits(i) != n.dst.bits(i))
			return fail("%s: element %zu is %g in place, want %g", what.c_str(), i, n.x.get(i), n.dst.get(i));
	}
}

// heads checks the queries of (tokens, 3, heads, width) in place. Their rows need two axes.
static void heads(int dt, int tokens, int count_of, int width)
{
	Random r(31);
	Operand qkv(dt, DENSE, {tokens, 3, count_of, width}, r), weight(dt, DENSE, {width}, r), other(dt, DENSE, qkv.shape);
	size_t row = (size_t)count_of * (size_t)width;
	for (size_t i = 0; i < count(qkv.shape); i++)
		other.set(i, qkv.get(i));
	for (const Operand *o : {&qkv, &other}) {
		lb_norm_args p = {};
		p.rows = shape_of({tokens, count_of});
		p.columns = width;
		p.kind = LB_RMS_NORM;
		p.x.ptr = o->buffer->at(0);
		p.x.stride[0] = 3 * (lb_i64)row;
		p.x.stride[1] = width;
		p.x.col = 1;
		p.x.dtype = dt;
		p.dst = p.x;
		p.weight = weight.view(0);
		p.eps = 1e-6f;
		launch(o == &other ? "norm_any" : lb_norm_name(lb_norm_pick(&p)), &p);
	}
	for (size_t i = 0; i < count(qkv.shape); i++)
		if (qkv.bits(i) != other.bits(i))
			return fail("heads of %d: element %zu is %g by the quick kernel, %g by the general one", width, i, qkv.get(i),
				other.get(i));
}

// narrow checks rows of fp32 whose numbers differ from their large mean by few units in the last place.
static void narrow()
{
	const int rows = 9, columns = 200;
	Random r(4);
	Operand x(LB_F32, DENSE, {rows, columns}), dst(LB_F32, DENSE, x.shape);
	for (size_t i = 0; i < count(x.shape); i++)
		x.set(i, 1000 + r.next() / 1000);
	lb_norm_args p = {shape_of(x.shape, 1), columns, LB_LAYER_NORM, dst.view(1), x.view(1), {}, {}, {}, {}, 0, 0, {}, {}, 0, 0};
	launch(lb_norm_name(lb_norm_pick(&p)), &p);
	for (int row = 0; row < rows; row++) {
		double mean = 0, square = 0;
		for (int i = 0; i < columns; i++)
			mean += x.get((size_t)(row * columns + i)) / columns;
		for (int i = 0; i < columns; i++)
			square += pow(x.get((size_t)(row * columns + i)) - mean, 2) / columns;
		for (int i = 0; i < columns; i++) {
			size_t at = (size_t)(row * columns + i);
			if (!verify("narrow rows", LB_F32, 2, dst.get(at), (x.get(at) - mean) / sqrt(square)))
				return;
		}
	}
}

// layouts checks that the layout of operands in memory changes no bit.
static void layouts(int dt, int kind, const Shape &shape)
{
	std::vector<uint32_t> want;
	for (int l = DENSE; l < LAYOUTS; l++) {
		Random r(77);
		Norm n({dt, kind, MODULATION | WEIGHT, LB_IDENTITY, 0, (Layout)l, shape, 2, dt}, r);
		n.run(n.dst, 0, shape[0]);
		for (size_t i = 0; i < count(shape); i++) {
			if (l == DENSE)
				want.push_back(n.dst.bits(i));
			else if (n.dst.bits(i) != want[i])
				return fail("norm %d of %s, %s: element %zu has other bits than dense", kind, dtype_names[dt],
					layout_names[l], i);
		}
	}
}

// chance checks a random case.
static void chance(Random &r)
{
	int kind = r.below(3), dt = r.below(3), groups = 1 + r.below(8), channels = groups * r.length(60);
	if (kind != LB_GROUP_NORM && r.maybe(3))
		channels = r.length(3000);
	int most = 1 + 4000 / channels;
	norm({dt, kind, r.below(ALL), r.maybe(2) ? LB_IDENTITY : r.below(4), 0, (Layout)r.below(LAYOUTS),
		{1 + r.below(3), r.length(9), r.length(most), channels}, groups, r.maybe(2) ? dt : r.below(3)});
}

int main()
{
	by_chance(chance);
	for (int kind = LB_LAYER_NORM; kind <= LB_GROUP_NORM; kind++)
		for (int l = DENSE; l < LAYOUTS; l++) {
			Layout layout = (Layout)l;
			for (int parts = 0; parts < ALL; parts++)
				norm({LB_F32, kind, parts, parts % 3, 0, layout, {2, 5, 17, 12}, 4, LB_F32});
			for (int dt = LB_F32; dt <= LB_F16; dt++) {
				norm({dt, kind, 0, LB_IDENTITY, 0, layout, {1, 3, 1, 36}, 4, dt});
				norm({dt, kind, WEIGHT | BIAS, LB_SILU, 0, layout, {2, 3, 4, 64}, 32, dt});
				norm({dt, kind, WEIGHT, LB_IDENTITY, 0, layout, {2, 3, 5, 72}, 8, dt});
				norm({dt, kind, MODULATION, LB_IDENTITY, 0, layout, {2, 2, 3, 1152}, 32, dt});
				norm({dt, kind, WEIGHT | BIAS | MODULATION, LB_SIGMOID, 0, layout, {1, 2, 3, 400}, 4, LB_F32});
			}
			for (const Shape &shape : {Shape{1, 1, 1, 4}, Shape{3, 1, 2, 4}, Shape{1, 40, 40, 8}})
				norm({LB_F32, kind, WEIGHT | BIAS | MODULATION, LB_SILU, 0, layout, shape, 4, LB_F32});
			norm({LB_F32, kind, 0, LB_IDENTITY, 1000, layout, {2, 9, 9, 60}, 4, LB_F32});
			norm({LB_F32, kind, 0, LB_IDENTITY, 1000, layout, {1, 60, 20, 8}, 2, LB_F32});
		}
	narrow();
	for (int dt = LB_BF16; dt <= LB_F16; dt++)
		for (int width : {40, 64, 72, 128, 320, 1152})
			heads(dt, 7, 3, width);
	for (int dt = LB_F32; dt <= LB_F16; dt++) {
		norm({dt, LB_GROUP_NORM, WEIGHT | BIAS, LB_SILU, 0, DENSE, {2, 37, 16, 128}, 32, dt});
		norm({dt, LB_GROUP_NORM, WEIGHT | BIAS, LB_SILU, 0, DENSE, {1, 5, 13, 512}, 32, dt});
		norm({dt, LB_GROUP_NORM, WEIGHT | BIAS, LB_IDENTITY, 0, DENSE, {1, 1, 3, 2048}, 1024, dt});
		norm({dt, LB_RMS_NORM, WEIGHT, LB_IDENTITY, 0, DENSE, {1, 1, 3, 4096}, 1, dt});
		norm({dt, LB_LAYER_NORM, WEIGHT | BIAS, LB_IDENTITY, 0, DENSE, {1, 1, 3, 2049}, 1, dt});
		for (int c : {2, 22, 64, 72, 300})
			for (int kind = LB_LAYER_NORM; kind <= LB_GROUP_NORM; kind++)
				layouts(dt, kind, {2, 5, 3, c});
	}
	return finish("norm");
}
