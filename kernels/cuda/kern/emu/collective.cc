#include "../lb.h"
#include "collective.h"

namespace emu {

f32 from_f16(u16 h)
{
	u32 sign = (u32)(h & 0x8000) << 16, exp = h >> 10 & 31, frac = h & 0x3ff;
	if (exp == 0)
		return float_of(sign | bits_of((f32)frac * 0x1p-24f));
	if (exp == 31)
		return float_of(sign | 0x7f800000 | frac << 13);
	return float_of(sign | (exp + 127 - 15) << 23 | frac << 13);
}

u16 to_f16(f32 v)
{
	u32 bits = bits_of(v), abs = bits & 0x7fffffff;
	u16 sign = bits >> 16 & 0x8000;
	if (abs > 0x7f800000)
		return sign | 0x7e00;
	if (abs >= 0x47800000)
		return sign | 0x7c00;
	if (abs < 0x38800000) // adding 0.5 rounds at the step of subnormals
		return sign | (u16)(bits_of(float_of(abs) + 0.5f) - bits_of(0.5f));
	return sign | (u16)((abs - ((127 - 15) << 23) + 0xfff + (abs >> 13 & 1)) >> 13);
}

namespace {

f32 from_bf16(u16 h) { return float_of((u32)h << 16); }

// ldmatrix: lane 8 m + r names row r of matrix m; lane l gets the elements 2 (l % 4) and the next of row l / 4.
void load(Lane *lanes, int matrices, bool transpose, u64 *conflicts)
{
	for (int m = 0; m < matrices; m++) {
		u32 banks = 0;
		for (int r = 0; r < 8; r++) {
			u64 at = (u64)lanes[m * 8 + r].address;
			if (at & 15)
				__builtin_trap(); // misaligned, as on the device
			*conflicts += banks >> (at / 16 & 7) & 1;
			banks |= 1u << (at / 16 & 7);
		}
		auto at = [&](int row, int col) { return (u32)((const u16 *)lanes[m * 8 + row].address)[col]; };
		for (int l = 0; l < 32; l++) {
			int row = l / 4, col = l % 4 * 2;
			lanes[l].out[m] = transpose ? at(col, row) | at(col + 1, row) << 16 : at(row, col) | at(row, col + 1) << 16;
		}
	}
}

// product: the fragments of a (16, depth), row-major, and b (depth, 8), column-major, as PTX spreads them.
template <f32 widen(u16)> void product(Lane *lanes, int depth)
{
	f32 a[16][16], b[8][16];
	int na = depth / 4;
	for (int l = 0; l < 32; l++) {
		int row = l / 4, col = l % 4 * 2;
		for (int i = 0; i < na; i++)
			for (int h = 0; h < 2; h++)
				a[row + i % 2 * 8][col + i / 2 * 8 + h] = widen((u16)(lanes[l].in[i] >> (16 * h)));
		for (int i = 0; i < depth / 8; i++)
			for (int h = 0; h < 2; h++)
				b[row][col + i * 8 + h] = widen((u16)(lanes[l].in[na + i] >> (16 * h)));
	}
	for (int l = 0; l < 32; l++)
		for (int i = 0; i < 4; i++) {
			int row = l / 4 + i / 2 * 8, n = l % 4 * 2 + i % 2;
			f32 sum = 0;
			for (int k = 0; k < depth; k++)
				sum += a[row][k] * b[n][k];
			lanes[l].out[i] = bits_of(sum);
		}
}

} // namespace

void compute(Op op, Lane *lanes, u64 *conflicts)
{
	switch (op) {
	case SHFL_XOR:
		for (int i = 0; i < 32; i++)
			lanes[i].out[0] = lanes[(i ^ lanes[i].in[1]) & 31].in[0];
		break;
	case SHFL:
		for (int i = 0; i < 32; i++)
			lanes[i].out[0] = lanes[lanes[i].in[1] & 31].in[0];
		break;
	case WARP_BAR: break;
	case LDM4: load(lanes, 4, false, conflicts); break;
	case LDM4T: load(lanes, 4, true, conflicts); break;
	case LDM2: load(lanes, 2, false, conflicts); break;
	case LDM2T: load(lanes, 2, true, conflicts); break;
	case MMA16_BF16: product<from_bf16>(lanes, 16); break;
	case MMA8_BF16: product<from_bf16>(lanes, 8); break;
	case MMA16_F16: product<from_f16>(lanes, 16); break;
	case MMA8_F16: product<from_f16>(lanes, 8); break;
	default: __builtin_trap(); // Async has the others
	}
}

} // namespace emu
