// Compares convolutions with float64, and each tile with the others.
#include "operand.h"
#include <string.h>

struct Spec {
	int stride, stride_t, top, left, bottom, right, front, back, up;
};

struct Case {
	const char *name;
	Shape x, w; // (N, T, H, W, Cin), (Cout, Cin, KT, KH, KW)
	Spec spec;
};

// out_shape returns (N, T', H', W', Cout).
static Shape out_shape(const Case &c)
{
	const Spec &s = c.spec;
	return {c.x[0], (c.x[1] + s.front + s.back - c.w[2]) / s.stride_t + 1,
		(c.x[2] * s.up + s.top + s.bottom - c.w[3]) / s.stride + 1,
		(c.x[3] * s.up + s.left + s.right - c.w[4]) / s.stride + 1, c.w[0]};
}

static double sum_at(const Case &c, const Operand &x, const Operand &w, int n, int t, int y, int xx, int o)
{
	const Spec &s = c.spec;
	double sum = 0;
	for (int kt = 0; kt < c.w[2]; kt++)
		for (int ky = 0; ky < c.w[3]; ky++)
			for (int kx = 0; kx < c.w[4]; kx++) {
				int ti = t * s.stride_t - s.front + kt, yi = y * s.stride - s.top + ky, xi = xx * s.stride - s.left + kx;
				if (ti < 0 || ti >= c.x[1] || yi < 0 || yi >= c.x[2] * s.up || xi < 0 || xi >= c.x[3] * s.up)
					continue;
				size_t pixel = (((size_t)n * c.x[1] + ti) * c.x[2] + yi / s.up) * c.x[3] + xi / s.up;
				size_t tap = ((size_t)kt * c.w[3] + ky) * c.w[4] + kx, taps = (size_t)c.w[2] * c.w[3] * c.w[4];
				for (int ch = 0; ch < c.w[1]; ch++)
					sum += x.get(pixel * c.w[1] + ch) * w.get(((size_t)o * c.w[1] + ch) * taps + tap);
			}
	return sum;
}

static std::vector<double> right(const Case &c, const Operand &x, const Operand &w)
{
	Shape out = out_shape(c);
	std::vector<double> sums;
	for (int n = 0; n < out[0]; n++)
		for (int t = 0; t < out[1]; t++)
			for (int y = 0; y < out[2]; y++)
				for (int xx = 0; xx < out[3]; xx++)
					for (int o = 0; o < out[4]; o++)
						sums.push_back(sum_at(c, x, w, n, t, y, xx, o));
	return sums;
}

// The compute capability whose kernels are tested: one without products of warpgroups, or one with them.
static int arch;

// Conv is one convolution.
struct Conv {
	const Case &c;
	lb_conv_args p;

	Conv(const Case &c, const Operand &dst, const Operand &x, const Operand &w) : c(c), p()
	{
		const Spec &s = c.spec;
		p.out = shape_of(dst.shape, 4);
		p.cout = c.w[0];
		p.cin = c.w[1];
		p.depth = c.x[1], p.height = c.x[2], p.width = c.x[3];
		p.kt = c.w[2], p.kh = c.w[3], p.kw = c.w[4];
		p.stride_t = s.stride_t, p.stride = s.stride, p.up = s.up;
		p.front = s.front, p.top = s.top, p.left = s.left;
		p.x = x.view(4);
		p.ep.dst = dst.view(4);
		// The taps of w must be evenly spaced. The host ensures this.
		p.w = w.view(0).ptr;
		p.w_row = w.strides[0];
		p.w_col = w.strides[1];
		p.w_tap = w.strides[4];
		p.w_dtype = w.dtype();
	}
	void run(const char *kernel = nullptr) { launch(kernel ? kernel : lb_conv_name(lb_conv_pick(&p, arch)), &p); }
};

// packed returns w with the taps before the channels, at multiples of 8 elements.
static Operand packed(const Operand &w)
{
	int taps = w.shape[2] * w.shape[3] * w.shape[4], channels = (w.shape[1] + 7) / 8 * 8;
	Operand out(w.dtype(), DENSE, {w.shape[0], taps, channels});
	out.shape = w.shape;
	out.strides = {(lb_i64)taps * channels, 1, (lb_i64)w.shape[3] * w.shape[4] * channels, (lb_i64)w.shape[4] * channels,
		channels};
	for (size_t i = 0; i < count(w.shape); i++)
		out.set(i, w.get(i));
	return out;
}

static void same(const std::string &what, const Operand &a, const Operand &b)
{
	for (size_t i = 0; i < count(a.shape); i++)
		if (a.bits(i) != b.bits(i))
			return fail("%s: element %zu is %g and %g", what.c_str(), i, a.get(i), b.get(i));
}

// warpgroups computes a convolution with warpgroups, even if they would not be chosen. Both tiles must give the same bits.
static void warpgroups(const std::string &what, const Case &c, const std::vector<double> &want, const Operand &x, const Operand &w)
{
	std::string kernel = std::string("conv_wg_") + dtype_names[x.dtype()];
	Operand large(x.dtype(), DENSE, out_shape(c)), small(x.dtype(), DENSE, out_shape(c));
	Conv(c, large, x, w).run((kernel + "_128").c_str());
	Conv(c, small, x, w).run((kernel + "_64").c_str());
	same(what + ", tiles of warpgroups", large, small);
	for (size_t i = 0; i < want.size(); i++)
		if (!verify(what + ", warpgroups", x.dtype(), 1, large.get(i), want[i]))
			return;
}

// tiles computes a convolution again with every tile.
static void tiles(const std::string &what, const Case &c, const Operand &dst, const Operand &x, const Operand &w)
{
	bool plain = x.dtype() == LB_F32 || (x.dtype() == LB_BF16 && LB_ARCH < 800);
	std::string type = plain ? "f32" : dtype_names[x.dtype()];
	for (const char *tile : {"_128", "_64", "_32"}) {
		if (plain && !strcmp(tile, "_64"))
			continue;
		Operand other(dst.dtype(), DENSE, dst.shape);
		Conv(c, other, x, w).run(("conv_" + type + tile).c_str());
		same(what + ", tile " + tile, dst, other);
	}
}

static void conv(const Case &c, int dt, Layout l, int out_dt)
{
	Random r(count(c.x));
	std::string what = std::string(c.name) + " " + dtype_names[dt] + " to " + dtype_names[out_dt] + " " + layout_names[l];
	Operand x(dt, l, c.x, r), w = Operand(dt, DENSE, c.w, r), dst(out_dt, l, out_shape(c));
	std::vector<double> want = right(c, x, w);
	Conv plain(c, dst, x, w);
	plain.run();
	for (size_t i = 0; i < want.size(); i++)
		if (!verify(what, out_dt, 1, dst.get(i), want[i]))
			break;
	dst.untouched(what);

	Operand fast = packed(w);
	if (l == DENSE && dt == out_dt) {
		Operand again(out_dt, l, dst.shape);
		Conv(c, again, x, fast).run();
		same(what + ", packed weight", dst, again);
		if (arch == 90 && dt != LB_F32)
			warpgroups(what, c, want, x, fast);
		else
			tiles(what, c, dst, x, fast);
	}

	Operand bias(dt, l, {c.w[0]}, r), residual(out_dt, l, dst.shape, r);
	Conv full(c, dst, x, fast);
	full.p.ep.bias = bias.view(0).ptr;
	full.p.ep.bias_stride = bias.strides[0];
	full.p.ep.bias_dtype = dt;
	full.p.ep.residual = residual.view(4);
	full.run();
	for (size_t i = 0; i < want.size(); i++) {
		double v = round_to(out_dt, want[i] + bias.get(i % (size_t)c.w[0])) + residual.get(i);
		double scale = want[i] < 0 ? -want[i] : want[i];
		if (!verify(what + ", bias and residual", out_dt, 2 * scale + 2, dst.get(i), v)) // rounded twice
			break;
	}
	if (l != DENSE)
		return;
	full.p.ep.dst = residual.view(4);
	full.run();
	same(what + ", onto its residual", dst, residual);
}

// alone checks that an item has the same bits alone and in a batch.
static void alone(const Case &c, int dt)
{
	Random r(8);
	Operand x(dt, DENSE, c.x, r), w = packed(Operand(dt, DENSE, c.w, r)), all(dt, DENSE, out_shape(c)), one = all;
	one.buffer = std::make_shared<Buffer>(dt, count(all.shape));
	Conv(c, all, x, w).run();
	for (int i = 0; i < c.x[0]; i++) {
		Conv item(c, one, x, w);
		item.p.out.dim[0] = 1;
		item.p.x.ptr += (lb_u64)(i * item.p.x.stride[0]) * (dt == LB_F32 ? 4 : 2);
		item.p.ep.dst.ptr += (lb_u64)(i * item.p.ep.dst.stride[0]) * (dt == LB_F32 ? 4 : 2);
		item.run();
	}
	same(std::string(c.name) + " alone", all, one);
}

// unasked computes a convolution with warpgroups for which they would not be chosen.
static void unasked(const Case &c, int dt)
{
	Random r(count(c.x));
	Operand x(dt, DENSE, c.x, r), w(dt, DENSE, c.w, r);
	if (dt != LB_F32)
		warpgroups(std::string(c.name) + " " + dtype_names[dt], c, right(c, x, w), x, packed(w));
}

static void all(const Case *cases, size_t n)
{
	for (const Case *c = cases; c < cases + n; c++)
		for (int dt = LB_F32; dt <= LB_F16; dt++) {
			if (arch == 90 && (dt == LB_F32 || c->w[0] < LB_CONV_WG_LEAST || c->w[1] < LB_CONV_WG_LEAST)) {
				unasked(*c, dt); // else as on devices without warpgroups
				continue;
			}
			for (int l = DENSE; l < LAYOUTS; l++)
				conv(*c, dt, (Layout)l, dt);
			conv(*c, dt, DENSE, LB_F32);
			if (c->x[0] > 1 && c->w[1] > 0)
				alone(*c, dt);
		}
}

// chance checks a random case.
static void chance(Random &r)
{
	int up = r.maybe(4) ? 2 : 1, ts[3], taps[3];
	Spec s = {1 + r.below(2), 1 + r.below(2), r.below(3), r.below(3), r.below(3), r.below(3), r.below(3), r.below(2), up};
	for (int i = 0; i < 3; i++) {
		taps[i] = r.maybe(4) ? 1 : 1 + r.below(3);
		ts[i] = taps[i] + r.below(6);
	}
	int cin = r.length(90), cout = r.length(140), dt = r.below(3);
	Case c = {"by chance", {1 + r.below(2), ts[0], ts[1], ts[2], cin}, {cout, cin, taps[0], taps[1], taps[2]}, s};
	for (int with : LB_ARCH >= 900 ? std::vector<int>{80, 90} : std::vector<int>{LB_ARCH / 10}) {
		arch = with;
		if (arch == 90 && dt != LB_F32)
			unasked(c, dt);
		else
			conv(c, dt, (Layout)r.below(LAYOUTS), r.maybe(3) ? r.below(3) : dt);
	}
}

int main()
{
	by_chance(chance);
	const Spec none = {1, 1, 0, 0, 0, 0, 0, 0, 1}, around = {1, 1, 1, 1, 1, 1, 0, 0, 1}, twice = {1, 1, 1, 1, 1, 1, 0, 0, 2};
	const Spec causal = {1, 1, 1, 1, 1, 1, 2, 0, 1}, half = {1, 2, 1, 1, 1, 1, 1, 0, 1}, halves = {2, 2, 1, 1, 1, 1, 2, 0, 1};
	const Spec causal_twice = {1, 1, 1, 1, 1, 1, 2, 0, 2};
	const Case cases[] = {
		{"1x1", {2, 1, 5, 7, 9}, {6, 9, 1, 1, 1}, none},
		{"3x3 same", {2, 1, 5, 7, 3}, {4, 3, 1, 3, 3}, around},
		{"3x3 valid", {1, 1, 5, 3, 5}, {2, 5, 1, 3, 3}, none},
		{"3x3 long sum", {1, 1, 4, 4, 70}, {3, 70, 1, 3, 3}, around},
		{"3x3 of 64 channels", {1, 1, 9, 8, 64}, {136, 64, 1, 3, 3}, around},
		{"3x3 of 72 channels", {2, 1, 3, 5, 72}, {70, 72, 1, 3, 3}, around},
		{"stride 2, right and bottom", {2, 1, 6, 8, 3}, {5, 3, 1, 3, 3}, {2, 1, 0, 0, 1, 1, 0, 0, 1}},
		{"patches", {1, 1, 4, 6, 4}, {7, 4, 1, 2, 2}, {2, 1, 0, 0, 0, 0, 0, 0, 1}},
		{"upsample 2", {2, 1, 3, 4, 3}, {4, 3, 1, 3, 3}, twice},
		{"upsample 3", {1, 1, 3, 4, 8}, {4, 8, 1, 3, 3}, {2, 1, 1, 0, 1, 2, 0, 0, 3}},
		{"uneven kernel", {1, 1, 6, 7, 2}, {3, 2, 1, 2, 5}, {1, 1, 2, 0, 0, 3, 0, 0, 1}},
		{"more padding than image", {1, 1, 1, 1, 2}, {3, 2, 1, 3, 3}, {1, 1, 4, 3, 2, 1, 0, 0, 1}},
		{"many pixels", {1, 1, 20, 19, 16}, {40, 16, 1, 3, 3}, around},
		{"no channel", {1, 1, 5, 5, 0}, {3, 0, 1, 3, 3}, none},
		{"causal", {2, 4, 3, 5, 3}, {4, 3, 3, 3, 3}, causal},
		{"one frame", {1, 1, 4, 4, 3}, {2, 3, 3, 3, 3}, causal},
		{"causal, long sum", {1, 3, 3, 2, 30}, {3, 30, 3, 3, 3}, causal},
		{"half the frames", {2, 6, 3, 4, 3}, {5, 3, 3, 3, 3}, half},
		{"half of everything", {1, 5, 4, 7, 3}, {5, 3, 3, 3, 3}, halves},
		{"video upsample 2", {1, 3, 2, 3, 3}, {4, 3, 3, 3, 3}, causal_twice},
		{"time only", {1, 7, 2, 3, 4}, {3, 4, 4, 1, 1}, {1, 1, 0, 0, 0, 0, 1, 2, 1}},
		{"uneven video kernel", {1, 4, 5, 6, 2}, {3, 2, 4, 2, 3}, {1, 1, 0, 0, 0, 3, 0, 2, 1}},
		{"more padding than frames", {1, 1, 2, 2, 2}, {3, 2, 3, 1, 1}, {1, 1, 0, 0, 0, 0, 4, 3, 1}},
		{"video patches", {1, 4, 4, 6, 4}, {7, 4, 2, 2, 2}, {2, 2, 0, 0, 0, 0, 0, 0, 1}},
		{"many pixels of a video", {1, 6, 9, 8, 8}, {12, 8, 3, 3, 3}, causal},
	};
	for (int with : LB_ARCH >= 900 ? std::vector<int>{80, 90} : std::vector<int>{LB_ARCH / 10}) {
		arch = with;
		all(cases, sizeof cases / sizeof cases[0]);
	}
	return finish("conv");
}
