//go:build cuda && linux

#define _GNU_SOURCE
#include "nccl.h"

#include <dlfcn.h>
#include <stdio.h>

enum {
	OLDEST = 21400, /* the first version with communicators that do not block */
	MAGIC = 0xcafebeef,
	INT8 = 0, /* ncclDataType_t */
};

/* config is ncclConfig_t of version 2.14. It contains its size and version, so that newer versions read no more of it. */
typedef struct {
	size_t size;
	unsigned int magic, version;
	int blocking;
} config;

static int (*get_version)(int *), (*get_id)(lb_nccl_id *), (*init)(void **, int, lb_nccl_id, int, config *);
static int (*get_state)(void *, int *), (*abort_comm)(void *);
static int (*group_start)(void), (*group_end)(void);
static int (*send)(const void *, size_t, int, int, void *, void *), (*receive)(void *, size_t, int, int, void *, void *);
static const char *(*text)(int), *(*last)(void *);

static const struct {
	void *entry;
	const char *name;
} entries[] = {
	{&get_version, "ncclGetVersion"}, {&text, "ncclGetErrorString"}, {&last, "ncclGetLastError"},
	{&get_id, "ncclGetUniqueId"}, {&init, "ncclCommInitRankConfig"}, {&get_state, "ncclCommGetAsyncError"},
	{&abort_comm, "ncclCommAbort"}, {&group_start, "ncclGroupStart"}, {&group_end, "ncclGroupEnd"},
	{&send, "ncclSend"}, {&receive, "ncclRecv"},
};

int lb_nccl_open(const char *path, int *version, char *message, size_t n)
{
	void *h = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!h) {
		snprintf(message, n, "%s", dlerror());
		return -1;
	}
	for (size_t i = 0; i < sizeof entries / sizeof entries[0]; i++) {
		void *entry = dlsym(h, entries[i].name);
		if (!entry) {
			snprintf(message, n, "%s has no %s: version 2.14 or newer is needed", path, entries[i].name);
			return -1;
		}
		*(void **)entries[i].entry = entry;
	}
	int rc = get_version(version);
	if (!rc && *version >= OLDEST)
		return 0;
	snprintf(message, n, "%s is version %d, %d or newer is needed", path, *version, OLDEST);
	return -1;
}

/* begun turns the result of a call that is in progress into success. */
static int begun(int result) { return result == LB_NCCL_IN_PROGRESS ? 0 : result; }

int lb_nccl_id_new(lb_nccl_id *id) { return get_id(id); }

int lb_nccl_init(void **comm, int size, const lb_nccl_id *id, int rank)
{
	config c = {sizeof c, MAGIC, OLDEST, 0};
	*comm = NULL;
	return begun(init(comm, size, *id, rank, &c));
}

int lb_nccl_state(void *comm)
{
	int state = 0, rc = get_state(comm, &state);
	return rc ? rc : state;
}

int lb_nccl_exchange(void *comm, const lb_nccl_piece *pieces, int n, void *stream)
{
	int rc = group_start();
	if (rc)
		return rc;
	for (int i = 0; i < n && !rc; i++) {
		const lb_nccl_piece *p = pieces + i;
		void *at = (void *)p->address;
		rc = begun(p->receive ? receive(at, p->bytes, INT8, p->peer, comm, stream)
			: send(at, p->bytes, INT8, p->peer, comm, stream));
	}
	int end = begun(group_end());
	return rc ? rc : end;
}

int lb_nccl_abort(void *comm) { return abort_comm(comm); }

const char *lb_nccl_text(int result) { return text(result); }

const char *lb_nccl_last(void *comm) { return last(comm); }
