// Compares the norm of queries and keys with their rotation with float64, with the general kernel, and with the norm and
// the rotation one after the other.
#include "operand.h"
#include <math.h>

struct Case {
	int dt, out, other; // types of x, of dst, of weights and angles
	Layout layout;
	Shape shape;  // (B, L, N, H, D)
	int weights;  // 0: none, 1: (D), 2: (N, 1, D), 3: of each row
	bool turns, first, in_place;
};

static std::string name_of(const Case &c)
{
	char text[200];
	snprintf(text, sizeof text, "%s %s (%d, %d, %d, %d, %d) to %s, others %s, weights %d, %s", dtype_names[c.dt],
		layout_names[c.layout], c.shape[0], c.shape[1], c.shape[2], c.shape[3], c.shape[4], dtype_names[c.out],
		dtype_names[c.other], c.weights, !c.turns ? "not turned" : c.first ? "turned first" : "turned");
	return text;
}

// Turned is one call with its operands.
struct Turned {
	Case c;
	Shape half, weights;
	Operand x, weight, cos, sin;

	Turned(const Case &c, Random &r)
		: c(c), half(halved(c.shape)), weights(weights_of(c)), x(c.dt, c.layout, c.shape, r),
		  weight(Operand(c.other, c.layout, weights, r).expand(c.shape)),
		  cos(Operand(c.other, c.layout, {1, c.shape[1], 1, 1, half[4]}, r).expand(half)),
		  sin(Operand(c.other, c.layout, {1, c.shape[1], 1, 1, half[4]}, r).expand(half))
	{
	}
	static Shape halved(Shape s)
	{
		s[4] /= 2;
		return s;
	}
	static Shape weights_of(const Case &c)
	{
		const Shape &s = c.shape;
		return c.weights == 3 ? s : c.weights == 2 ? Shape{1, 1, s[2], 1, s[4]} : Shape{1, 1, 1, 1, s[4]};
	}

	// args returns the arguments of a norm of from to dst, with or without the rotation.
	lb_norm_args args(const Operand &dst, const Operand &from, bool turns) const
	{
		lb_norm_args p = {};
		p.rows = shape_of(c.shape, 4);
		p.columns = c.shape[4];
		p.kind = LB_RMS_NORM;
		p.dst = dst.view(4);
		p.x = from.view(4);
		p.eps = 1e-6f;
		lb_view *views[5] = {&p.dst, &p.x};
		int n = 2;
		if (c.weights) {
			p.weight = weight.view(4);
			views[n++] = &p.weight;
		}
		if (turns) {
			p.cos = cos.view(4);
			p.sin = sin.view(4);
			p.rope_first = c.first;
			views[n++] = &p.cos;
			views[n++] = &p.sin;
		}
		lb_map_merge(&p.rows, views, n);
		return p;
	}
	void rope(const Operand &dst, const Operand &from) const
	{
		lb_rope_args p = {shape_of(half), dst.view(), from.view(), cos.view(), sin.view()};
		p.dst.stride[4] *= 2;
		p.x.stride[4] *= 2;
		lb_view *views[] = {&p.dst, &p.x, &p.cos, &p.sin};
		lb_map_merge(&p.shape, views, 4);
		launch("rope", &p);
	}
	// steps computes the norm by the general kernel, and then the rotation.
	void steps(const Operand &dst) const
	{
		if (c.turns && c.first)
			rope(dst, x);
		lb_norm_args p = args(dst, c.turns && c.first ? dst : x, false);
		launch("norm_any", &p);
		if (c.turns && !c.first)
			rope(dst, dst);
	}
};

// turn_row rotates a row by the definition, with products rounded to the type of dst.
static void turn_row(const Turned &n, size_t row, std::vector<double> &v)
{
	size_t pairs = v.size() / 2;
	int dt = n.c.out;
	for (size_t j = 0; j < pairs; j++) {
		double a = v[2 * j], b = v[2 * j + 1], c = n.cos.get(row * pairs + j), s = n.sin.get(row * pairs + j);
		v[2 * j] = round_to(dt, round_to(dt, a * c) - round_to(dt, b * s));
		v[2 * j + 1] = round_to(dt, round_to(dt, b * c) + round_to(dt, a * s));
	}
}

// right computes a row by the definition in float64, rounded between steps.
static std::vector<double> right(const Turned &n, size_t row)
{
	size_t d = (size_t)n.c.shape[4];
	std::vector<double> v(d);
	double squares = 0;
	for (size_t i = 0; i < d; i++)
		v[i] = n.x.get(row * d + i);
	if (n.c.turns && n.c.first)
		turn_row(n, row, v);
	for (double x : v)
		squares += x * x;
	for (size_t i = 0; i < d; i++) {
		v[i] = round_to(n.c.out, v[i] / sqrt(squares / (double)d + 1e-6f));
		if (n.c.weights)
			v[i] = round_to(n.c.out, v[i] * n.weight.get(row * d + i));
	}
	if (n.c.turns && !n.c.first)
		turn_row(n, row, v);
	return v;
}

static void turned(const Case &c)
{
	Random r(count(c.shape) + (size_t)c.weights);
	std::string what = name_of(c);
	Turned n(c, r);
	Operand steps(c.out, DENSE, c.shape), any(c.out, c.layout, c.shape);
	n.steps(steps);
	lb_norm_args p = n.args(any, n.x, c.turns);
	launch("norm_any", &p);
	any.untouched(what);
	size_t d = (size_t)c.shape[4], rows = d ? count(c.shape) / d : 0;
	for (size_t row = 0; row < rows; row++) {
		std::vector<double> want = right(n, row);
		for (size_t i = 0; i < d; i++)
			if (!verify(what, c.out, 3, any.get(row * d + i), want[i]))
				return;
	}
	Operand dst = c.in_place ? n.x : Operand(c.out, c.layout, c.shape);
	p = n.args(dst, n.x, c.turns);
	launch(lb_norm_name(lb_norm_pick(&p)), &p);
	dst.untouched(what);
	for (size_t i = 0; i < count(c.shape); i++) {
		if (any.bits(i) != steps.bits(i))
			return fail("%s: element %zu is %g at once, %g in steps", what.c_str(), i, any.get(i), steps.get(i));
		if (dst.bits(i) != steps.bits(i))
			return fail("%s: element %zu is %g by %s, %g in steps", what.c_str(), i, dst.get(i),
				lb_norm_name(lb_norm_pick(&p)), steps.get(i));
	}
}

// fused checks queries and keys inside (L, 3, H, D) in place, by the kernel for them. The values must not change.
static void fused(int dt, int tokens, int heads, int width, bool first)
{
	Case c = {dt, dt, dt, DENSE, {1, tokens, 2, heads, width}, 2, true, first, false};
	Random r(41);
	Turned n(c, r);
	Operand qkv(dt, DENSE, {1, tokens, 3, heads, width}, r), qk = qkv, want(dt, DENSE, c.shape);
	qk.shape = c.shape;
	std::vector<uint32_t> before;
	for (size_t i = 0; i < count(qkv.shape); i++)
		before.push_back(qkv.bits(i));
	for (size_t i = 0; i < count(c.shape); i++)
		n.x.set(i, qk.get(i));
	n.steps(want);
	lb_norm_args p = n.args(qk, qk, true);
	lb_norm_kernel k = lb_norm_pick(&p), expect = width <= 64 ? LB_QKNORM_64 : LB_QKNORM_128;
	if (k != expect)
		return fail("heads of %d are done by %s", width, lb_norm_name(k));
	launch(lb_norm_name(k), &p);
	for (size_t i = 0; i < count(c.shape); i++)
		if (qk.bits(i) != want.bits(i))
			return fail("heads of %d in a projection: element %zu is %g, want %g", width, i, qk.get(i), want.get(i));
	size_t token = 3 * (size_t)heads * (size_t)width;
	for (size_t i = 0; i < before.size(); i++)
		if (i % token >= token / 3 * 2 && qkv.bits(i) != before[i])
			return fail("heads of %d: value %zu was written", width, i);
}

int main()
{
	for (int dt = LB_F32; dt <= LB_F16; dt++)
		for (int l = DENSE; l < LAYOUTS; l++)
			for (int weights = 0; weights <= 3; weights++)
				for (int how = 0; how < 3; how++) { // not turned, turned, turned first
					Layout layout = (Layout)l;
					bool turns = how > 0, first = how > 1;
					for (int d : {2, 8, 22, 64, 72, 128, 136})
						turned({dt, dt, dt, layout, {2, 5, 2, 3, d}, weights, turns, first, d % 16 == 8});
					turned({dt, (dt + 1) % 3, (dt + 2) % 3, layout, {1, 3, 2, 2, 40}, weights, turns, first, false});
					turned({dt, dt, LB_F32, layout, {1, 3, 2, 2, 72}, weights, turns, first, true});
				}
	for (int dt = LB_F32; dt <= LB_F16; dt++)
		for (bool first : {false, true}) {
			turned({dt, dt, dt, DENSE, {1, 3, 2, 1, 1300}, 2, true, first, true}); // a block for each row
			turned({dt, dt, dt, DENSE, {1, 1, 1, 1, 72}, 1, true, first, false});
			for (int d : {64, 72}) // neighbouring rows have other angles
				turned({dt, dt, dt, DENSE, {1, 13, 1, 1, d}, 3, true, first, true});
		}
	for (int dt = LB_BF16; dt <= LB_F16; dt++)
		for (int width : {8, 40, 64, 72, 128})
			for (bool first : {false, true}) {
				fused(dt, 7, 5, width, first);
				fused(dt, 37, 16, width, first);
				fused(dt, 2, 67, width, first);
			}
	return finish("qknorm");
}
