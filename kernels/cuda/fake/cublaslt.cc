// A fake of cublasLt with the calls and attributes that kernels/cuda/cublaslt uses. Products run on streams of the fake
// driver, and add their terms in index order.
#include "fake.h"
#include <cstring>

namespace {

struct Desc {
	int transpose[2] = {0, 0}, epilogue = 1, bias_type = 0;
	uint64_t bias = 0;
};

struct Layout {
	int type;
	uint64_t rows, columns;
	int64_t ld;
};

struct Heuristic {
	uint64_t algo[8];
	size_t workspace;
	int state;
	float waves;
	int reserved[4];
};

enum { NOT_INITIALIZED = 1, INVALID_VALUE = 7, NOT_SUPPORTED = 15, F16 = 2, BF16 = 14, EPILOGUE_BIAS = 4 };

float load(int type, const uint16_t *p)
{
	if (type == BF16) {
		uint32_t u = (uint32_t)*p << 16;
		float f;
		memcpy(&f, &u, 4);
		return f;
	}
	_Float16 h;
	memcpy(&h, p, 2);
	return (float)h;
}

void store(int type, uint16_t *p, float f)
{
	if (type == BF16) {
		uint32_t u;
		memcpy(&u, &f, 4);
		*p = f != f ? 0x7fff : (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
		return;
	}
	_Float16 h = (_Float16)f;
	memcpy(p, &h, 2);
}

// multiply computes d = w^T x + bias, in column-major order.
void multiply(const Desc &o, const Layout &w, const Layout &x, const Layout &d, const uint16_t *wp, const uint16_t *xp,
	uint16_t *dp)
{
	for (uint64_t row = 0; row < d.columns; row++)
		for (uint64_t col = 0; col < d.rows; col++) {
			float sum = 0;
			for (uint64_t k = 0; k < w.rows; k++)
				sum += load(w.type, wp + col * w.ld + k) * load(x.type, xp + row * x.ld + k);
			if (o.epilogue == EPILOGUE_BIAS)
				sum += load(o.bias_type, (const uint16_t *)o.bias + col);
			store(d.type, dp + row * d.ld + col, sum);
		}
}

} // namespace

extern "C" __attribute__((visibility("default"))) size_t cublasLtGetVersion() { return 120603; }

API cublasLtCreate(void **handle)
{
	*handle = fake::current();
	return *handle ? 0 : NOT_INITIALIZED;
}

API cublasLtMatmulDescCreate(Desc **d, int compute, int scale)
{
	*d = new Desc;
	return compute == 68 && scale == 0 ? 0 : NOT_SUPPORTED;
}

API cublasLtMatmulDescDestroy(Desc *d)
{
	delete d;
	return 0;
}

API cublasLtMatmulDescSetAttribute(Desc *d, int attribute, const void *value, size_t bytes)
{
	if (attribute == 8 && bytes == 8)
		return memcpy(&d->bias, value, 8), 0;
	if (bytes != 4)
		return INVALID_VALUE;
	switch (attribute) {
	case 3: return memcpy(&d->transpose[0], value, 4), 0;
	case 4: return memcpy(&d->transpose[1], value, 4), 0;
	case 7: return memcpy(&d->epilogue, value, 4), 0;
	case 26: return memcpy(&d->bias_type, value, 4), 0;
	}
	return INVALID_VALUE;
}

API cublasLtMatrixLayoutCreate(Layout **l, int type, uint64_t rows, uint64_t columns, int64_t ld)
{
	*l = new Layout{type, rows, columns, ld};
	return (type == F16 || type == BF16) && ld >= (int64_t)rows ? 0 : INVALID_VALUE;
}

API cublasLtMatrixLayoutDestroy(Layout *l)
{
	delete l;
	return 0;
}

API cublasLtMatmulPreferenceCreate(void **p)
{
	*p = new int;
	return 0;
}

API cublasLtMatmulPreferenceDestroy(void *p)
{
	delete (int *)p;
	return 0;
}

API cublasLtMatmulPreferenceSetAttribute(void *, int attribute, const void *, size_t bytes)
{
	bool wide = attribute == 1;
	return (wide || attribute == 3 || (attribute >= 5 && attribute <= 8)) && bytes == (wide ? 8 : 4) ? 0 : INVALID_VALUE;
}

static bool fits(const Desc *o, const Layout *w, const Layout *x, const Layout *d)
{
	return o->transpose[0] == 1 && o->transpose[1] == 0 && w->rows == x->rows && w->columns == d->rows &&
		x->columns == d->columns && w->type == x->type && x->type == d->type;
}

API cublasLtMatmulAlgoGetHeuristic(void *, Desc *o, Layout *w, Layout *x, Layout *c, Layout *d, void *, int want,
	Heuristic *h, int *got)
{
	*got = 0;
	if (!fits(o, w, x, d) || c != d || want < 1)
		return INVALID_VALUE;
	memset(h, 0, sizeof *h);
	h->algo[0] = 0xb1a5;
	h->workspace = 1 << 10;
	*got = 1;
	return 0;
}

API cublasLtMatmul(void *handle, Desc *o, const float *alpha, const uint16_t *wp, Layout *w, const uint16_t *xp, Layout *x,
	const float *beta, const uint16_t *, Layout *, uint16_t *dp, Layout *d, const uint64_t *algo, void *workspace,
	size_t bytes, fake::Stream *s)
{
	fake::Device *device = fake::current();
	if (handle != device || fake::ready(device))
		return NOT_INITIALIZED;
	if (!fits(o, w, x, d) || *alpha != 1 || *beta != 0 || algo[0] != 0xb1a5 || ((uint64_t)wp | (uint64_t)xp | (uint64_t)dp) % 16 ||
		!fake::inside(device, (uint64_t)workspace, bytes))
		return INVALID_VALUE;
	std::lock_guard<std::recursive_mutex> guard(device->lock);
	if (!device->streams.count(s))
		return INVALID_VALUE;
	s->work.push_back([=, o = *o, w = *w, x = *x, d = *d] { return multiply(o, w, x, d, wp, xp, dp), 0; });
	return 0;
}
