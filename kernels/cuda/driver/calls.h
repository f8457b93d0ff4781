/* Driver calls that gorgonia.org/cu v0.9.6 does not have. Each returns a CUresult. */
#ifndef LATENTBEAM_CALLS_H
#define LATENTBEAM_CALLS_H

#include <stddef.h>

/* lb_launch runs a kernel on x y z blocks of threads, with shared bytes of shared memory each. It takes one structure,
 * at args, which is copied before the call returns. */
int lb_launch(void *function, unsigned int x, unsigned int y, unsigned int z, unsigned int threads, unsigned int shared,
	void *stream, void *args);

/* lb_elapsed sets the milliseconds between n pairs of events, up to the first that fails. */
int lb_elapsed(float *ms, void **from, void **to, int n);

/* lb_compile_log compiles a module again, of which the driver has said that it cannot, for what its compiler says: into
 * log, of so many bytes, with a zero at its end. */
void lb_compile_log(const char *ptx, char *log, unsigned int bytes);

/* lb_allow_shared lets a kernel have more than 48 KiB of shared memory. */
int lb_allow_shared(void *function, int bytes);

/* lb_host_alloc gives page-locked memory that every device may read and write (CU_MEMHOSTALLOC_PORTABLE). */
int lb_host_alloc(void **p, size_t bytes);

/* lb_device_uuid sets the identity of a device, of its own where it is a part (MIG) of a GPU. */
int lb_device_uuid(unsigned char uuid[16], int device);

/* lb_error_texts sets the name and the description of a CUresult; null where the driver has none. */
void lb_error_texts(int code, const char **name, const char **text);

#endif
