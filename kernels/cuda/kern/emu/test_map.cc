// Compares Copy, Unary, Binary, transpose, Rope and Gather with float64.
#include "operand.h"
#include <math.h>
#include <string.h>

static double unary(int op, double x)
{
	switch (op) {
	case LB_SILU: return x / (1 + exp(-x));
	case LB_SIGMOID: return 1 / (1 + exp(-x));
	case LB_GELU_TANH: return 0.5 * x * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
	}
	return x;
}

static lb_map_args arranged(const Shape &shape, const lb_view &dst, const lb_view &a, const lb_view &b, int op)
{
	lb_map_args p = {shape_of(shape), dst, a, b, op, -1};
	lb_view *views[] = {&p.dst, &p.a, &p.b};
	lb_map_arrange(&p.shape, views, b.ptr ? 3 : 2);
	return p;
}

static void run_unary(const Operand &dst, const Operand &x, int op)
{
	lb_map_args p = arranged(dst.shape, dst.view(), x.view(), {}, op);
	p.across = lb_copy_across(&p);
	launch("map_unary", &p);
	if (p.across < 0)
		return;
	std::vector<uint32_t> want;
	for (size_t i = 0; i < count(dst.shape); i++) {
		want.push_back(dst.bits(i));
		const_cast<Operand &>(dst).set(i, NAN);
	}
	launch("transpose", &p);
	for (size_t i = 0; i < want.size(); i++)
		if (want[i] != dst.bits(i))
			return fail("transpose %s: element %zu is %x, want %x", dtype_names[dst.dtype()], i, dst.bits(i), want[i]);
}

static void elementwise(int dt, int other, Layout l, Layout m, const Shape &shape)
{
	Random r(count(shape));
	std::string what = std::string(dtype_names[dt]) + " " + layout_names[l] + " to " + dtype_names[other] + " " +
		layout_names[m] + " of " + std::to_string(count(shape));
	Operand x(dt, l, shape, r), y(dt, DENSE, shape, r);
	for (int op = LB_IDENTITY; op <= LB_SIGMOID; op++) {
		Operand dst(other, m, shape);
		run_unary(dst, x, op);
		for (size_t i = 0; i < count(shape); i++)
			if (!verify(what + ", unary " + std::to_string(op), other, 1, dst.get(i), unary(op, x.get(i))))
				break;
		dst.untouched(what);
	}
	for (int op = LB_ADD; op <= LB_MUL; op++) {
		Operand dst(other, m, shape);
		lb_map_args p = arranged(shape, dst.view(), x.view(), y.view(), op);
		launch("map_binary", &p);
		for (size_t i = 0; i < count(shape); i++) {
			double want = op == LB_ADD ? x.get(i) + y.get(i) : x.get(i) * y.get(i);
			if (!verify(what + ", binary " + std::to_string(op), other, 1, dst.get(i), want))
				break;
		}
		dst.untouched(what);
	}
}

// expanded checks a gate that is repeated over rows, and a number that is repeated over channels, in place.
static void expanded(int dt)
{
	Random r(5);
	Shape shape = {3, 7, 40};
	for (const Shape &small : {Shape{3, 1, 40}, Shape{1, 1, 40}, Shape{3, 7, 1}, Shape{1, 1, 1}}) {
		Operand x(dt, DENSE, shape, r), gate(LB_BF16, DENSE, small, r), wide = gate.expand(shape);
		std::vector<double> before;
		for (size_t i = 0; i < count(shape); i++)
			before.push_back(x.get(i));
		lb_map_args p = arranged(shape, x.view(), x.view(), wide.view(), LB_MUL);
		launch("map_binary", &p);
		for (size_t i = 0; i < count(shape); i++)
			if (!verify("expanded", dt, 1, x.get(i), before[i] * wide.get(i)))
				break;
	}
}

// range checks the activations for numbers from far below zero to far above.
static void range()
{
	std::vector<double> values = {1e-30, -1e-30, 1e30, -1e30, 0, 88.4, -88.4, 88.8, -88.8, INFINITY, -INFINITY, NAN};
	for (double v = -200; v <= 200; v += 0.37)
		values.push_back(v);
	Operand x(LB_F32, DENSE, {(int)values.size()}), dst = Operand(LB_F32, DENSE, x.shape);
	for (size_t i = 0; i < values.size(); i++)
		x.set(i, values[i]);
	for (int op = LB_IDENTITY; op <= LB_SIGMOID; op++) {
		run_unary(dst, x, op);
		for (size_t i = 0; i < values.size(); i++) {
			double v = x.get(i), want = v == -INFINITY && op != LB_IDENTITY ? (op == LB_SIGMOID ? 0 : NAN) : unary(op, v);
			if (v == -INFINITY && op != LB_IDENTITY && op != LB_SIGMOID)
				continue; // -inf * 0: no value of a healthy model
			verify("range of " + std::to_string(op), LB_F32, 1, dst.get(i), want);
			if (want != 0 && v > -4 && !(fabs(dst.get(i) / want - 1) <= 4e-6) && isfinite(want))
				fail("op %d of %g is %g, want %g", op, v, dst.get(i), want);
		}
	}
}

static void rope(int dt, int other, Layout l, const Shape &shape, bool in_place, bool odd = false)
{
	Random r(9);
	Shape half = shape, angles = shape;
	half.back() /= 2;
	angles = half;
	angles[0] = angles[2] = 1; // (1, L, 1, D/2)
	Shape wide = angles;
	wide.back() += odd;
	Operand x(dt, l, shape, r), cos(dt, DENSE, wide, r), sin(dt, DENSE, angles, r);
	cos.shape = angles; // its rows may begin anywhere
	Operand dst = in_place ? x : Operand(other, l, shape), c = cos.expand(half), s = sin.expand(half);
	std::vector<double> want(count(shape));
	for (size_t i = 0; i < want.size(); i += 2) {
		double a = x.get(i), b = x.get(i + 1), cc = c.get(i / 2), ss = s.get(i / 2);
		auto product = [&](double u, double v) { return round_to(dst.dtype(), (float)u * (float)v); };
		want[i] = round_to(dst.dtype(), (float)product(a, cc) - (float)product(b, ss));
		want[i + 1] = round_to(dst.dtype(), (float)product(b, cc) + (float)product(a, ss));
	}
	lb_rope_args p = {shape_of(half), dst.view(), x.view(), c.view(), s.view()};
	size_t last = shape.size() - 1;
	p.dst.stride[last] *= 2;
	p.x.stride[last] *= 2;
	lb_view *views[] = {&p.dst, &p.x, &p.cos, &p.sin};
	lb_map_merge(&p.shape, views, 4);
	launch("rope", &p);
	for (size_t i = 0; i < want.size(); i++)
		if (dst.get(i) != want[i])
			return fail("rope %s %s of %d: element %zu is %g, want %g", dtype_names[dt], layout_names[l], shape.back(),
				i, dst.get(i), want[i]);
	dst.untouched("rope");
}

static void gather(int dt, int other, Layout l, int columns)
{
	Random r(3);
	std::vector<int> ids = {10, 0, 3, 3, 7};
	Operand table(dt, l, {11, columns}, r), dst(other, l, {(int)ids.size(), columns});
	Buffer device(LB_F32, ids.size()); // int32 has the size of F32
	memcpy((void *)device.at(0), ids.data(), ids.size() * 4);
	lb_gather_args p = {(int)ids.size(), columns, dst.view(), table.view(), device.at(0)};
	launch("gather", &p);
	for (size_t i = 0; i < ids.size() * (size_t)columns; i++) {
		double want = round_to(other, table.get((size_t)ids[i / (size_t)columns] * (size_t)columns + i % (size_t)columns));
		if (dst.get(i) != want)
			return fail("gather %s %s: element %zu is %g, want %g", dtype_names[dt], layout_names[l], i, dst.get(i), want);
	}
	dst.untouched("gather");
}

// chance checks a random case of a random kernel.
static void chance(Random &r)
{
	Shape shape;
	for (int left = 20000; shape.size() < 4 && left > 1; left /= shape.back()) {
		shape.push_back(r.length(left < 150 ? left : 150));
		if (!r.maybe(3) && shape.size() > 1)
			break;
	}
	int dt = r.below(3), other = r.below(3);
	elementwise(dt, other, (Layout)r.below(LAYOUTS), (Layout)r.below(LAYOUTS), shape);
	int d = 2 * r.length(80);
	rope(dt, r.maybe(2) ? dt : other, (Layout)r.below(LAYOUTS), {1 + r.below(3), r.length(20), 1 + r.below(4), d}, false,
		r.maybe(2));
	gather(dt, other, (Layout)r.below(LAYOUTS), r.length(100));
}

int main()
{
	by_chance(chance);
	const Shape shapes[] = {{1}, {7}, {3, 5}, {2, 3, 1, 5}, {2, 70, 70}, {3, 24, 40}, {130, 1}, {70, 40}, {33, 3, 65}, {5, 64, 72}, {9000}};
	for (int dt = LB_F32; dt <= LB_F16; dt++)
		for (int l = DENSE; l < LAYOUTS; l++) {
			for (const Shape &shape : shapes) {
				elementwise(dt, dt, (Layout)l, DENSE, shape);
				elementwise(dt, (dt + 1) % 3, DENSE, (Layout)l, shape);
			}
			elementwise(dt, dt, (Layout)l, (Layout)l, {2, 3, 17});
			for (int other : {dt, (dt + 1) % 3})
				for (int d : {2, 6, 22, 64, 72, 300})
					rope(dt, other, (Layout)l, {2, 5, 3, d}, other == dt);
			rope(dt, dt, (Layout)l, {2, 5, 3, 72}, false, true);
			gather(dt, dt, (Layout)l, 37);
			gather(dt, (dt + 2) % 3, (Layout)l, 64);
		}
	for (int dt = LB_F32; dt <= LB_F16; dt++)
		expanded(dt);
	range();
	return finish("map");
}
