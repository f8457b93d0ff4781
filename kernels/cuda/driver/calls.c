//go:build cuda && linux

#include "calls.h"
#include "loader.h"

#include <stdint.h>

enum {
	NOT_FOUND = 500,        /* CUDA_ERROR_NOT_FOUND: the driver is older than the call */
	MAX_DYNAMIC_SHARED = 8, /* CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES */
	PREFERRED_CARVEOUT = 9, /* CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT: percent */
	HOST_PORTABLE = 1,      /* CU_MEMHOSTALLOC_PORTABLE */
	ERROR_LOG = 5,          /* CU_JIT_ERROR_LOG_BUFFER */
	ERROR_LOG_BYTES = 6,    /* CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES */
};

int cuLaunchKernel(void *, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int,
	unsigned int, void *, void **, void **); /* in tramp.S */

int lb_launch(void *function, unsigned int x, unsigned int y, unsigned int z, unsigned int threads, unsigned int shared,
	void *stream, void *args) {
	void *params[1] = {args};
	return cuLaunchKernel(function, x, y, z, threads, 1, 1, shared, stream, params, NULL);
}

int cuEventElapsedTime(float *, void *, void *); /* in tramp.S */

int lb_elapsed(float *ms, void **from, void **to, int n) {
	int rc = 0;
	for (int i = 0; i < n && rc == 0; i++)
		rc = cuEventElapsedTime(ms + i, from[i], to[i]);
	return rc;
}

int cuModuleLoadDataEx(void **, const void *, unsigned int, int *, void **); /* in tramp.S */
int cuModuleUnload(void *);

void lb_compile_log(const char *ptx, char *log, unsigned int bytes) {
	int options[] = {ERROR_LOG, ERROR_LOG_BYTES};
	void *values[] = {log, (void *)(uintptr_t)bytes}, *module = NULL;
	log[0] = log[bytes - 1] = 0;
	if (cuModuleLoadDataEx(&module, ptx, 2, options, values) == 0) {
		cuModuleUnload(module);
	}
	log[bytes - 1] = 0;
}

int lb_allow_shared(void *function, int bytes) {
	int (*set)(void *, int, int) = (int (*)(void *, int, int))lb_driver_symbol("cuFuncSetAttribute");
	int rc = set ? set(function, MAX_DYNAMIC_SHARED, bytes) : NOT_FOUND;
	if (rc == 0)
		set(function, PREFERRED_CARVEOUT, 100); /* a hint to the driver: prefer shared memory, so that more blocks fit */
	return rc;
}

int lb_host_alloc(void **p, size_t bytes) {
	int (*alloc)(void **, size_t, unsigned int) =
		(int (*)(void **, size_t, unsigned int))lb_driver_symbol("cuMemHostAlloc");
	return alloc ? alloc(p, bytes, HOST_PORTABLE) : NOT_FOUND;
}

int lb_device_uuid(unsigned char uuid[16], int device) {
	int (*get)(unsigned char *, int) = (int (*)(unsigned char *, int))lb_driver_symbol("cuDeviceGetUuid_v2");
	return get ? get(uuid, device) : NOT_FOUND;
}

void lb_error_texts(int code, const char **name, const char **text) {
	int (*get_name)(int, const char **) = (int (*)(int, const char **))lb_driver_symbol("cuGetErrorName");
	int (*get_text)(int, const char **) = (int (*)(int, const char **))lb_driver_symbol("cuGetErrorString");
	*name = *text = NULL;
	if (get_name) {
		get_name(code, name);
	}
	if (get_text) {
		get_text(code, text);
	}
}
