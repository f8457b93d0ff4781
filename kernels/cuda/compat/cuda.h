/* gorgonia.org/cu v0.9.6 is written for CUDA 12. With this header it also compiles with CUDA 13, in which five calls have
 * other parameters. Put this directory before the toolkit's on the include path:
 * CGO_CFLAGS="-I.../kernels/cuda/compat -I/usr/local/cuda/include". With CUDA 12 it only includes the toolkit's header. */
#include_next <cuda.h>
#ifndef LATENTBEAM_CUDA_COMPAT_H
#define LATENTBEAM_CUDA_COMPAT_H
#if CUDA_VERSION >= 13000

static inline CUmemLocation lb_location(CUdevice device) {
	CUmemLocation at = {0};
	at.type = device == CU_DEVICE_CPU ? CU_MEM_LOCATION_TYPE_HOST : CU_MEM_LOCATION_TYPE_DEVICE;
	at.id = device == CU_DEVICE_CPU ? 0 : (int)device;
	return at;
}

static inline CUresult lb_ctx_create(CUcontext *ctx, unsigned int flags, CUdevice device) {
	return cuCtxCreate(ctx, 0, flags, device);
}

static inline CUresult lb_mem_advise(CUdeviceptr p, size_t bytes, CUmem_advise advice, CUdevice device) {
	return cuMemAdvise(p, bytes, advice, lb_location(device));
}

static inline CUresult lb_mem_prefetch(CUdeviceptr p, size_t bytes, CUdevice device, CUstream stream) {
	return cuMemPrefetchAsync(p, bytes, lb_location(device), 0, stream);
}

static inline CUresult lb_graph_edges(CUgraph graph, CUgraphNode *from, CUgraphNode *to, size_t *n) {
	return cuGraphGetEdges(graph, from, to, 0, n);
}

static inline CUresult lb_graph_depend(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t n) {
	return cuGraphAddDependencies(graph, from, to, 0, n);
}

#undef cuCtxCreate
#define cuCtxCreate lb_ctx_create
#undef cuMemAdvise
#define cuMemAdvise lb_mem_advise
#undef cuMemPrefetchAsync
#define cuMemPrefetchAsync lb_mem_prefetch
#undef cuGraphGetEdges
#define cuGraphGetEdges lb_graph_edges
#undef cuGraphAddDependencies
#define cuGraphAddDependencies lb_graph_depend

#endif
#endif
