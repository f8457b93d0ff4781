//go:build cuda && linux

#define _GNU_SOURCE
#include "lt.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

/* Values of cublasLt's enumerations. */
enum {
	STATUS_NOT_SUPPORTED = 15,
	TYPE_F32 = 0, TYPE_F16 = 2, TYPE_BF16 = 14, /* cudaDataType_t */
	COMPUTE_F32 = 68,
	TRANSPOSE_NONE = 0, TRANSPOSE = 1,
	DESC_TRANSPOSE_A = 3, DESC_TRANSPOSE_B = 4, DESC_EPILOGUE = 7, DESC_BIAS_POINTER = 8, DESC_BIAS_TYPE = 26,
	EPILOGUE_NONE = 1, EPILOGUE_BIAS = 4,
	PREFER_WORKSPACE = 1, PREFER_REDUCTIONS = 3, PREFER_ALIGNMENT = 5, /* of a, then b, c and d */
	REDUCTION_NONE = 0,
	ALIGNMENT = 16,
};

/* heuristic is cublasLtMatmulHeuristicResult_t. */
typedef struct {
	uint64_t algo[8];
	size_t workspace;
	int state;
	float waves;
	int reserved[4];
} heuristic;

static size_t (*version)(void);
static int (*create)(void **);
static int (*desc_create)(void **, int, int), (*desc_set)(void *, int, const void *, size_t), (*desc_destroy)(void *);
static int (*layout_create)(void **, int, uint64_t, uint64_t, int64_t), (*layout_destroy)(void *);
static int (*prefer_create)(void **), (*prefer_set)(void *, int, const void *, size_t), (*prefer_destroy)(void *);
static int (*get_heuristic)(void *, void *, void *, void *, void *, void *, void *, int, heuristic *, int *);
static int (*matmul)(void *, void *, const void *, const void *, void *, const void *, void *, const void *,
	const void *, void *, void *, void *, const void *, void *, size_t, void *);

int lb_lt_open(const char *path, char *message, size_t n)
{
	static const struct {
		void *entry;
		const char *name;
	} entries[] = {
		{&version, "cublasLtGetVersion"}, {&create, "cublasLtCreate"},
		{&desc_create, "cublasLtMatmulDescCreate"}, {&desc_set, "cublasLtMatmulDescSetAttribute"},
		{&desc_destroy, "cublasLtMatmulDescDestroy"},
		{&layout_create, "cublasLtMatrixLayoutCreate"}, {&layout_destroy, "cublasLtMatrixLayoutDestroy"},
		{&prefer_create, "cublasLtMatmulPreferenceCreate"}, {&prefer_set, "cublasLtMatmulPreferenceSetAttribute"},
		{&prefer_destroy, "cublasLtMatmulPreferenceDestroy"},
		{&get_heuristic, "cublasLtMatmulAlgoGetHeuristic"}, {&matmul, "cublasLtMatmul"},
	};
	void *h = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!h) {
		snprintf(message, n, "%s", dlerror());
		return -1;
	}
	for (size_t i = 0; i < sizeof entries / sizeof entries[0]; i++) {
		void *entry = dlsym(h, entries[i].name);
		if (!entry) {
			snprintf(message, n, "it has no %s", entries[i].name);
			return -1;
		}
		*(void **)entries[i].entry = entry;
	}
	return 0;
}

size_t lb_lt_version(void) { return version(); }

int lb_lt_create(void **handle) { return create(handle); }

/* operation has the descriptors of a product. */
typedef struct {
	void *desc, *w, *x, *d;
} operation;

static void give_back(operation *o)
{
	if (o->desc)
		desc_destroy(o->desc);
	if (o->w)
		layout_destroy(o->w);
	if (o->x)
		layout_destroy(o->x);
	if (o->d)
		layout_destroy(o->d);
}

/* describe fills o. cublasLt is column-major, so it computes d^T (n, m) = w (k, n)^T x (k, m). */
static int describe(operation *o, const lb_lt_product *p)
{
	int rc, type = p->bf16 ? TYPE_BF16 : TYPE_F16, t = TRANSPOSE, none = TRANSPOSE_NONE;
	int epilogue = p->bias ? EPILOGUE_BIAS : EPILOGUE_NONE;
	memset(o, 0, sizeof *o);
	if ((rc = desc_create(&o->desc, COMPUTE_F32, TYPE_F32)) ||
		(rc = desc_set(o->desc, DESC_TRANSPOSE_A, &t, sizeof t)) ||
		(rc = desc_set(o->desc, DESC_TRANSPOSE_B, &none, sizeof none)) ||
		(rc = desc_set(o->desc, DESC_EPILOGUE, &epilogue, sizeof epilogue)))
		return rc;
	if (p->bias && ((rc = desc_set(o->desc, DESC_BIAS_TYPE, &type, sizeof type)) ||
			(rc = desc_set(o->desc, DESC_BIAS_POINTER, &p->bias, sizeof p->bias))))
		return rc;
	if ((rc = layout_create(&o->w, type, p->k, p->n, p->ldw)) || (rc = layout_create(&o->x, type, p->k, p->m, p->ldx)))
		return rc;
	return layout_create(&o->d, type, p->n, p->m, p->ldd);
}

/* choose asks cublasLt for its best algorithm that does not split sums. */
static int choose(void *handle, operation *o, size_t most_workspace, lb_lt_algo *algo)
{
	void *preference = NULL;
	heuristic best;
	int got = 0, reductions = REDUCTION_NONE, alignment = ALIGNMENT, rc;
	uint64_t workspace = most_workspace;
	if ((rc = prefer_create(&preference)))
		return rc;
	if (!(rc = prefer_set(preference, PREFER_WORKSPACE, &workspace, sizeof workspace)) &&
		!(rc = prefer_set(preference, PREFER_REDUCTIONS, &reductions, sizeof reductions))) {
		for (int i = 0; i < 4 && !rc; i++)
			rc = prefer_set(preference, PREFER_ALIGNMENT + i, &alignment, sizeof alignment);
	}
	if (!rc)
		rc = get_heuristic(handle, o->desc, o->w, o->x, o->d, o->d, preference, 1, &best, &got);
	prefer_destroy(preference);
	if (rc)
		return rc;
	if (!got || best.state)
		return STATUS_NOT_SUPPORTED;
	memcpy(algo->algo, best.algo, sizeof algo->algo);
	algo->workspace = best.workspace;
	return 0;
}

int lb_lt_choose(void *handle, const lb_lt_product *p, size_t most_workspace, lb_lt_algo *algo)
{
	operation o;
	int rc = describe(&o, p);
	if (!rc)
		rc = choose(handle, &o, most_workspace, algo);
	give_back(&o);
	return rc;
}

int lb_lt_run(void *handle, const lb_lt_product *p, const lb_lt_algo *algo, uint64_t workspace, void *stream)
{
	operation o;
	float one = 1, zero = 0;
	int rc = describe(&o, p);
	if (!rc)
		rc = matmul(handle, o.desc, &one, (void *)p->w, o.w, (void *)p->x, o.x, &zero, (void *)p->d, o.d, (void *)p->d,
			o.d, algo->algo, (void *)workspace, algo->workspace, stream);
	give_back(&o);
	return rc;
}
