/* The part of NCCL that is used, by dlopen. */
#ifndef LATENTBEAM_NCCL_H
#define LATENTBEAM_NCCL_H

#include <stddef.h>
#include <stdint.h>

/* lb_nccl_id is ncclUniqueId. */
typedef struct {
	char internal[128];
} lb_nccl_id;

/* lb_nccl_piece is bytes of device memory that one rank sends to another or receives from it. */
typedef struct {
	uint64_t address, bytes;
	int peer, receive;
} lb_nccl_piece;

/* lb_nccl_open opens the library; where it cannot, it returns -1 and a message. */
int lb_nccl_open(const char *path, int *version, char *message, size_t n);

/* The others return a ncclResult_t; what has only begun is 0. A communicator is made in the thread's current context. */
int lb_nccl_id_new(lb_nccl_id *id);
int lb_nccl_init(void **comm, int size, const lb_nccl_id *id, int rank);
int lb_nccl_state(void *comm); /* LB_NCCL_IN_PROGRESS: what was begun is not done */
int lb_nccl_exchange(void *comm, const lb_nccl_piece *pieces, int n, void *stream);
int lb_nccl_abort(void *comm);

/* lb_nccl_text is what NCCL says of a result, and lb_nccl_last of the last error, of comm or of the process. */
const char *lb_nccl_text(int result);
const char *lb_nccl_last(void *comm);

enum { LB_NCCL_IN_PROGRESS = 7 };

#endif
