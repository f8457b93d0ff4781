/* The part of cublasLt that is used, by dlopen. */
#ifndef LATENTBEAM_LT_H
#define LATENTBEAM_LT_H

#include <stddef.h>
#include <stdint.h>

/* lb_lt_algo is how a product is computed; the first member is cublasLt's own, opaque. */
typedef struct {
	uint64_t algo[8];
	size_t workspace; /* bytes of device memory that it needs */
} lb_lt_algo;

/* lb_lt_product is d (m, n) = x (m, k) w (n, k)^T [+ bias (n)]: matrices of one 16-bit type, rows at distances of
 * ldx, ldw and ldd elements. */
typedef struct {
	int bf16; /* else fp16 */
	int64_t m, n, k, ldx, ldw, ldd;
	uint64_t x, w, bias, d; /* device pointers; bias may be 0 */
} lb_lt_product;

/* lb_lt_open opens the library; where it cannot, it returns -1 and a message. */
int lb_lt_open(const char *path, char *message, size_t n);
size_t lb_lt_version(void);

/* The others return a cublasStatus_t. lb_lt_create needs a current context. */
int lb_lt_create(void **handle);
int lb_lt_choose(void *handle, const lb_lt_product *p, size_t most_workspace, lb_lt_algo *algo);
int lb_lt_run(void *handle, const lb_lt_product *p, const lb_lt_algo *algo, uint64_t workspace, void *stream);

#endif
