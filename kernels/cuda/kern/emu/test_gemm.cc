// Compares matrix products with float64, for sizes, types, layouts, epilogues and parts. Also checks that the bits of a row
// do not depend on other rows.
#include "testmatrix.h"
#include <math.h>
#include <memory>
#include <stdio.h>

static const char *const type_names[] = {"f32", "bf16", "f16"};

// Case is one matrix product.
struct Case {
	int m, n, k, dx, dw, dd; // types of x, w and dst
	Layout layout;
	std::vector<int> parts;
	bool onto;
	bool bias;
	int act;
	int gate, residual; // types, or -1; residual 9: dst itself
	int axes = 1;       // of the rows
};

static double activate(int op, double x)
{
	switch (op) {
	case LB_SILU: return x / (1 + exp(-x));
	case LB_SIGMOID: return 1 / (1 + exp(-x));
	case LB_GELU_TANH: return 0.5 * x * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
	}
	return x;
}

static std::string name_of(const Case &c, const char *kernel)
{
	char s[200];
	snprintf(s, sizeof s, "%s (%d, %d, %d) %s %s -> %s layout %d, %zu borders, onto %d, bias %d, act %d, gate %d, residual %d",
		kernel, c.m, c.n, c.k, type_names[c.dx], type_names[c.dw], type_names[c.dd], c.layout, c.parts.size(), c.onto, c.bias,
		c.act, c.gate, c.residual);
	return s;
}

// The compute capabilities whose kernels are tested: one without products of warpgroups and, if compiled, one with them.
static const std::vector<int> archs = LB_ARCH >= 900 ? std::vector<int>{80, 90} : std::vector<int>{LB_ARCH / 10};

// kernels_for lists all kernels that can compute a case on a device. All must give the same bits.
static std::vector<lb_gemm_kernel> kernels_for(const lb_gemm_args &a, int arch)
{
	int first = lb_gemm_pick(&a, arch);
	if (first >= LB_GEMM_WG_BF16_128) {
		int base = LB_GEMM_WG_BF16_128 + (first - LB_GEMM_WG_BF16_128) / 4 * 4;
		if ((first - base) / 2)
			return {(lb_gemm_kernel)(base + 2), (lb_gemm_kernel)(base + 3)};
		return {(lb_gemm_kernel)base, (lb_gemm_kernel)(base + 1), (lb_gemm_kernel)(base + 2), (lb_gemm_kernel)(base + 3)};
	}
	if (first >= LB_GEMM_F32_128)
		return {LB_GEMM_F32_128, LB_GEMM_F32_32};
	int base = first / 3 * 3;
	std::vector<lb_gemm_kernel> out;
	for (int k = base; k < base + 3; k++)
		out.push_back((lb_gemm_kernel)k);
	if (first % 6 < 3) // without parts the kernels for parts do as well
		for (int k = base + 3; k < base + 6; k++)
			out.push_back((lb_gemm_kernel)k);
	return out;
}

// spread describes the same rows on two axes.
static lb_gemm_args spread(lb_gemm_args a, const Case &c)
{
	a.rows.axes = 2;
	a.rows.dim[0] = c.axes;
	a.rows.dim[1] = c.m / c.axes;
	for (lb_view *v : {&a.x, &a.onto, &a.ep.dst, &a.ep.gate, &a.ep.residual}) {
		v->stride[1] = v->stride[0];
		v->stride[0] *= a.rows.dim[1];
	}
	return a;
}

static void check(const Case &c, Random &r, int arch)
{
	Matrix x(c.dx, c.m, c.k, c.layout), w(c.dw, c.n, c.k, c.layout), bias(c.dd, 1, c.n, c.layout);
	Matrix gate(c.gate < 0 ? 0 : c.gate, c.m, c.n, c.layout), onto(LB_F32, c.m, c.n, c.layout);
	Matrix residual(c.residual == 9 ? c.dd : c.residual < 0 ? 0 : c.residual, c.m, c.n, c.layout);
	for (Matrix *m : {&x, &w, &bias, &gate, &onto, &residual})
		m->random(r);
	std::vector<double> want((size_t)c.m * c.n);
	for (int i = 0; i < c.m; i++)
		for (int j = 0; j < c.n; j++) {
			double sum = c.onto ? onto.at(i, j) : 0;
			for (int k = 0; k < c.k; k++)
				sum += x.at(i, k) * w.at(j, k);
			sum += c.bias ? bias.at(0, j) : 0; // and from here on rounded step by step
			if (c.act != LB_IDENTITY)
				sum = activate(c.act, round_to(c.dd, sum));
			if (c.gate >= 0)
				sum = round_to(c.dd, sum) * gate.at(i, j);
			if (c.residual >= 0)
				sum = round_to(c.dd, sum) + residual.at(i, j);
			want[(size_t)i * c.n + j] = sum;
		}
	lb_gemm_args a = {};
	a.rows = one_axis(c.m);
	a.n = c.n;
	a.k = c.k;
	a.x = x.view();
	a.w = w.view().ptr;
	a.w_row = w.row;
	a.w_col = w.col;
	a.w_dtype = c.dw;
	a.parts = (int)c.parts.size();
	for (int i = 0; i < a.parts; i++)
		a.part[i] = c.parts[i];
	if (c.onto)
		a.onto = onto.view();
	a.ep.act = c.act;
	if (c.bias) {
		a.ep.bias = bias.view().ptr;
		a.ep.bias_stride = bias.col;
		a.ep.bias_dtype = c.dd;
	}
	if (c.gate >= 0)
		a.ep.gate = gate.view();
	if (c.residual >= 0)
		a.ep.residual = residual.view();
	std::unique_ptr<Matrix> first;
	for (lb_gemm_kernel k : kernels_for(a, arch)) {
		auto dst = std::make_unique<Matrix>(c.dd, c.m, c.n, c.layout);
		if (c.residual == 9)
			for (int i = 0; i < c.m; i++)
				for (int j = 0; j < c.n; j++)
					dst->data.set(dst->index(i, j), residual.at(i, j));
		a.ep.dst = dst->view();
		if (c.residual == 9)
			a.ep.residual = a.ep.dst;
		std::string what = name_of(c, lb_gemm_name(k));
		lb_gemm_args now = c.axes > 1 ? spread(a, c) : a;
		launch(lb_gemm_name(k), &now);
		dst->outside(what);
		for (int i = 0; i < c.m; i++)
			for (int j = 0; j < c.n; j++) {
				if (first && first->bits(i, j) != dst->bits(i, j))
					fail("%s: other bits than another tile at (%d, %d)", what.c_str(), i, j);
				verify(what, c.dd, sqrt((double)c.k) / 3, dst->get(i, j), want[(size_t)i * c.n + j]);
			}
		if (!first)
			first = std::move(dst);
	}
}

static void check(const Case &c, Random &r)
{
	for (int arch : archs)
		check(c, r, arch);
}

// alone checks that `count` rows from `from` on get the same bits without the other rows.
static void alone(int arch, int dtype, int m, int n, int k, int from, int count)
{
	Random r(7);
	Matrix x(dtype, m, k, DENSE), w(dtype, n, k, DENSE), whole(dtype, m, n, DENSE), part(dtype, count, n, DENSE);
	x.random(r);
	w.random(r);
	lb_gemm_args a = {};
	a.rows = one_axis(m);
	a.n = n;
	a.k = k;
	a.x = x.view();
	a.w = w.view().ptr;
	a.w_row = k;
	a.w_col = 1;
	a.w_dtype = dtype;
	a.ep.dst = whole.view();
	launch(lb_gemm_name(lb_gemm_pick(&a, arch)), &a);
	a.rows = one_axis(count);
	a.x = x.view(from);
	a.ep.dst = part.view();
	launch(lb_gemm_name(lb_gemm_pick(&a, arch)), &a);
	for (int i = 0; i < count; i++)
		for (int j = 0; j < n; j++)
			if (part.bits(i, j) != whole.bits(from + i, j)) {
				fail("rows %d to %d of a product of %s: other bits than among all", from, from + count, type_names[dtype]);
				return;
			}
}

// cut checks that two workers that divide a sum at a border get the bits of one worker.
static void cut(int arch, int dtype, int m, int n, int k, const std::vector<int> &parts, int at)
{
	Random r(9);
	Matrix x(dtype, m, k, DENSE), w(dtype, n, k, DENSE);
	Matrix whole(LB_F32, m, n, DENSE), sum(LB_F32, m, n, DENSE), both(LB_F32, m, n, PADDED);
	x.random(r);
	w.random(r);
	auto run = [&](int from, int end, const lb_view &dst, const lb_view *onto) {
		lb_gemm_args a = {};
		a.rows = one_axis(m);
		a.n = n;
		a.k = end - from;
		a.x = x.view();
		a.x.ptr = x.data.at(from);
		a.w = w.data.at(from);
		a.w_row = k;
		a.w_col = 1;
		a.w_dtype = dtype;
		a.ep.dst = dst;
		for (int p : parts)
			if (p > from && p < end)
				a.part[a.parts++] = p - from;
		if (onto)
			a.onto = *onto;
		launch(lb_gemm_name(lb_gemm_pick(&a, arch)), &a);
	};
	run(0, k, whole.view(), nullptr);
	run(0, at, sum.view(), nullptr);
	lb_view onto = sum.view();
	run(at, k, both.view(), &onto);
	for (int i = 0; i < m; i++)
		for (int j = 0; j < n; j++)
			if (whole.bits(i, j) != both.bits(i, j)) {
				fail("a sum of %d %s, cut at %d: other bits than on one worker", k, type_names[dtype], at);
				return;
			}
}

// chance checks a random case.
static void chance(Random &r)
{
	int dt = r.below(3);
	auto type = [&] { return r.maybe(4) ? r.below(3) : dt; };
	Case c = {r.length(150), r.length(140), r.maybe(20) ? 0 : r.length(260), type(), type(), type(), (Layout)r.below(LAYOUTS), {},
		r.maybe(5), r.maybe(2), r.below(4), r.maybe(3) ? r.below(3) : -1, r.maybe(2) ? -1 : r.maybe(3) ? 9 : r.below(3)};
	for (int at = 0; r.maybe(2) && (at += r.length(40)) < c.k;)
		c.parts.push_back(at);
	for (int axes : {2, 3, 5})
		if (c.m % axes == 0)
			c.axes = axes;
	check(c, r);
}

int main()
{
	Random r(1);
	by_chance(chance);
	const int none = -1;
	for (int dt = 0; dt < 3; dt++) {
		for (int m : {1, 15, 17, 40, 65, 130})
			check({m, 1 + m * 7 % 100, 1 + m * 5 % 67, dt, dt, dt, DENSE, {}, false, false, 0, none, none}, r);
		check({129, 136, 72, dt, dt, dt, DENSE, {}, false, true, LB_GELU_TANH, dt, dt}, r);
		check({20, 24, 0, dt, dt, dt, DENSE, {}, false, true, 0, none, none}, r); // nothing to sum
		check({33, 40, 330, dt, dt, LB_F32, DENSE, {}, false, false, 0, none, none}, r);
	}
	for (int dx = 0; dx < 3; dx++)
		for (int dw = 0; dw < 3; dw++)
			for (int l = 0; l < LAYOUTS; l++)
				check({9, 70, 35, dx, dw, dx, (Layout)l, {}, false, true, LB_SILU, none, dw}, r);
	for (int act = 0; act < 4; act++)
		for (int dd = 0; dd < 3; dd++)
			check({19, 16, 40, LB_BF16, LB_BF16, dd, act % 2 ? DENSE : PADDED, {}, false, act > 1, act, dd, act % 2 ? 9 : (dd + 1) % 3}, r);
	check({65, 130, 1152 / 4, LB_F32, LB_F32, LB_F32, DENSE, {72, 144, 200}, true, true, 0, none, LB_F32}, r);
	check({17, 33, 96, LB_BF16, LB_BF16, LB_F32, DENSE, {16, 32, 48, 64, 80}, true, true, 0, none, LB_F32}, r);
	check({17, 33, 150, LB_F16, LB_F16, LB_F16, REVERSED, {2, 10, 66}, true, true, LB_SILU, none, LB_F32}, r);
	for (int dt = 0; dt < 3; dt++) {
		Random again(2);
		check({70, 139, 1000, dt, dt, dt, DENSE, {}, false, false, 0, none, none}, again); // often around the ring
	}
	for (int arch : archs)
		for (int dt = 0; dt < 3; dt++) {
			alone(arch, dt, 150, 37, 100, 0, 1);
			alone(arch, dt, 150, 37, 100, 77, 66);
			cut(arch, dt, 13, 40, 232, {72, 144, 162}, 72);
			cut(arch, dt, 13, 40, 232, {72, 144, 162}, 162);
			cut(arch, dt, 5, 16, 230, {30, 190}, 30); // what follows begins at an odd place
		}
	if (lb_emu_conflicts())
		fail("%llu conflicts of banks", lb_emu_conflicts());
	return finish("gemm");
}
