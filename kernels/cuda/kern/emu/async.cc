#include "async.h"
#include <string.h>

namespace emu {

namespace {

// What sums are while they are under way: a NaN of its own.
const u32 under_way = 0x7fc0beef;

f32 widen(bool bf16, u16 h) { return bf16 ? float_of((u32)h << 16) : from_f16(h); }

// overlaps reports whether two sets of sums have a register in common and are not the same.
bool overlaps(const Multiply &a, const Multiply &b)
{
	return a.d != b.d && a.d < b.d + b.n / 2 && b.d < a.d + a.n / 2;
}

} // namespace

void Async::begin(u8 *shared, size_t bytes, u32 warps)
{
	memory_ = shared;
	bytes_ = bytes;
	view_.clear();
	warps_.assign(warps, Warp());
	for (Warp &w : warps_)
		w.batches.assign(1, 0);
	issues_.assign((warps + 3) / 4, {});
}

bool Async::busy(u32 warp) const { return !warps_[warp].products.empty(); }

const char *Async::step(Op op, u32 warp, Lane *lanes)
{
	Warp &w = warps_[warp];
	if (view_.empty())
		view_.assign(bytes_ + 1, 0xff);
	switch (op) {
	case PROXY_FENCE:
		memcpy(view_.data(), memory_, bytes_);
		return nullptr;
	case WG_ARRIVE:
		w.arrived = true;
		return nullptr;
	case WG_COMMIT:
		w.arrived = false;
		w.batches.push_back(0);
		return nullptr;
	case WG_WAIT: {
		w.arrived = false;
		int done = (int)w.batches.size() - 1 - (int)lanes[0].in[0];
		u32 products = 0;
		for (int i = 0; i < done; i++)
			products += w.batches[(size_t)i];
		if (done > 0)
			w.batches.erase(w.batches.begin(), w.batches.begin() + done);
		return complete(w, warp, products);
	}
	default:
		return issue(warp, lanes);
	}
}

// chunk finds eight elements that lie side by side, by a descriptor: those of row mn from term k on or, where the columns lie
// side by side, the columns from mn on of term k. See matrix_at in wgmma.h. fresh: in the memory as it is, not in the view of it.
const char *Async::chunk(u64 m, bool mn_major, u32 mn, u32 k, u32 warp, bool fresh, u16 *to) const
{
	u32 start = (u32)(m & 0x3fff) << 4, lead = (u32)(m >> 16 & 0x3fff) << 4, stride = (u32)(m >> 32 & 0x3fff) << 4;
	u32 kind = (u32)(m >> 62), width = kind ? 256 >> kind : 16, bits = kind ? 0x70 >> (kind - 1) & 0x70 : 0;
	u32 at = start;
	if (m & ~(0x3fffull | 0x3fffull << 16 | 0x3fffull << 32 | 3ull << 62))
		return "wgmma: a descriptor with a base offset, or with bits that mean nothing";
	if (!mn_major)
		at += mn / 8 * stride + mn % 8 * width + k / 8 * (kind ? 16 : lead);
	else if (kind)
		at += mn / (width / 2) * lead + mn % (width / 2) * 2 + k / 8 * stride + k % 8 * width;
	else
		at += mn / 8 * stride + k / 8 * lead + k % 8 * 16;
	at ^= at >> 3 & bits;
	if (at < shared_base || at + 16 > shared_base + bytes_)
		return "wgmma: a matrix reaches outside of shared memory";
	if (fresh)
		product_reads(warp, memory_ + at - shared_base, 16);
	memcpy(to, (fresh ? memory_ : view_.data()) + at - shared_base, 16);
	return nullptr;
}

// read takes the operands of a warp: its 16 rows of a, all of b.
const char *Async::read(const Multiply *of, u32 warp, bool fresh, u16 (*a)[16], std::vector<u16> *b) const
{
	const char *wrong = nullptr;
	for (int l = 0; of[0].a && l < 32; l++)
		for (int i = 0; i < 8; i++)
			a[l / 4 + i / 2 % 2 * 8][l % 4 * 2 + i / 4 * 8 + i % 2] = (u16)(of[l].a[i / 2] >> (i % 2 * 16));
	for (u32 r = 0; !of[0].a && r < 16; r++)
		for (u32 k = 0; k < 16 && !wrong; k += 8)
			wrong = chunk(of[0].am, false, warp % 4 * 16 + r, k, warp, fresh, &a[r][k]);
	b->resize((size_t)of[0].n * 16);
	for (u32 n = 0; n < (u32)of[0].n; n += 8)
		for (u32 i = 0; i < 16 && !wrong; i++) {
			u16 eight[8];
			u32 row = of[0].b_mn ? n : n + i / 2, k = of[0].b_mn ? i : i % 2 * 8;
			wrong = chunk(of[0].bm, of[0].b_mn, row, k, warp, fresh, eight);
			for (u32 e = 0; e < 8; e++)
				(*b)[of[0].b_mn ? (row + e) * 16 + k : row * 16 + k + e] = eight[e];
		}
	return wrong;
}

// issue begins a product. Its sums are NaN from now on.
const char *Async::issue(u32 warp, Lane *lanes)
{
	Warp &w = warps_[warp];
	Product p, now;
	for (int l = 0; l < 32; l++)
		p.of[l] = *(const Multiply *)lanes[l].address;
	const Multiply &m = p.of[0];
	if (warp / 4 * 4 + 4 > warps_.size())
		return "wgmma: not four warps";
	if (!w.arrived)
		return "wgmma without wgmma.fence since the last batch or wait";
	std::vector<Issue> &issues = issues_[warp / 4];
	Issue i = {m.am, m.bm, m.n, m.bf16, m.b_mn, m.keep};
	if (w.issued == issues.size())
		issues.push_back(i);
	const Issue &first = issues[w.issued++];
	for (const Multiply &o : p.of)
		if (o.am != first.a || o.bm != first.b || o.n != first.n || o.bf16 != first.bf16 || o.b_mn != first.b_mn ||
		    o.keep != first.keep)
			return "wgmma: threads of a warpgroup do not mean the same product";
	if (const char *wrong = read(p.of, warp, false, p.a, &p.b))
		return wrong;
	if (const char *wrong = read(p.of, warp, true, now.a, &now.b))
		return wrong;
	if (memcmp(p.a, now.a, sizeof p.a) || p.b != now.b)
		return "wgmma reads what was written to shared memory without fence.proxy.async after it";
	size_t each = (size_t)m.n / 2;
	p.sums.resize(32 * each);
	f32 sums[16][256];
	for (size_t l = 0; l < 32; l++) {
		const f32 *before = p.of[l].d;
		for (const Product &o : w.products) {
			if (overlaps(o.of[l], p.of[l]))
				return "wgmma: the sums of two products under way have registers in common";
			if (o.of[l].d == p.of[l].d)
				before = o.sums.data() + l * (size_t)o.of[l].n / 2;
		}
		for (size_t e = 0; e < each; e++)
			sums[l / 4 + e / 2 % 2 * 8][e / 4 * 8 + l % 4 * 2 + e % 2] = m.keep ? before[e] : 0;
	}
	f32 a[16][16], b[16];
	for (int r = 0; r < 16; r++)
		for (int k = 0; k < 16; k++)
			a[r][k] = widen(m.bf16, p.a[r][k]);
	for (int n = 0; n < m.n; n++) {
		for (size_t k = 0; k < 16; k++)
			b[k] = widen(m.bf16, p.b[(size_t)n * 16 + k]);
		for (int r = 0; r < 16; r++) {
			f32 sum = 0; // from the last term on: other bits than those of mma, so that tests see who mixes them
			for (int k = 15; k >= 0; k--)
				sum += a[r][k] * b[k];
			sums[r][n] += sum;
		}
	}
	for (size_t l = 0; l < 32; l++)
		for (size_t e = 0; e < each; e++) {
			p.sums[l * each + e] = sums[l / 4 + e / 2 % 2 * 8][e / 4 * 8 + l % 4 * 2 + e % 2];
			p.of[l].d[e] = float_of(under_way);
		}
	w.products.push_back(std::move(p));
	w.batches.back()++;
	return nullptr;
}

// complete ends the oldest products: their sums are there, unless later ones go on with them.
const char *Async::complete(Warp &w, u32 warp, u32 products)
{
	for (u32 i = 0; i < products; i++) {
		Product now;
		Product &p = w.products[i];
		if (const char *wrong = read(p.of, warp, true, now.a, &now.b))
			return wrong;
		if (memcmp(p.a, now.a, sizeof p.a) || p.b != now.b)
			return "operands of wgmma were changed before it had been waited for";
		size_t each = (size_t)p.of[0].n / 2;
		for (size_t l = 0; l < 32; l++) {
			for (size_t e = 0; e < each; e++)
				if (bits_of(p.of[l].d[e]) != under_way)
					return "sums of wgmma were changed before it had been waited for";
			bool later = false;
			for (size_t j = i + 1; j < w.products.size(); j++)
				later = later || w.products[j].of[l].d == p.of[l].d;
			if (!later)
				memcpy(p.of[l].d, p.sums.data() + l * each, each * 4);
		}
	}
	w.products.erase(w.products.begin(), w.products.begin() + products);
	return nullptr;
}

} // namespace emu
