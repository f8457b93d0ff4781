// A fake of NCCL with the calls that kernels/cuda/nccl uses. Ranks in any processes of this machine find each other by
// names of sockets, and exchange over these sockets when their streams execute it. As in the real NCCL, a rank whose peer
// is gone waits until it is aborted, and memory must belong to the device. Work is done only when a thread waits for
// it.
#include "fake.h"
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace {

using namespace fake;

// Results (ncclResult_t).
enum { OK = 0, SYSTEM = 2, INTERNAL = 3, BAD_ARGUMENT = 4, BAD_USAGE = 5, REMOTE = 6, IN_PROGRESS = 7 };

struct Id {
	char internal[128];
};

struct Config {
	size_t size;
	unsigned magic, version;
	int blocking;
};

// Hello is the first message on a connection.
struct Hello {
	int rank, ranks, process, device;
};

struct Piece {
	char *at;
	size_t bytes;
	int peer;
	bool receive;
	size_t done = 0; // bytes transferred, including the eight bytes of the length
	uint64_t length = 0;
};

struct Op {
	Stream *stream;
	std::vector<Piece> pieces;
	bool stalled;
};

struct Comm {
	std::mutex mu;
	Device *device;
	int rank, ranks, listener = -1, missing;
	std::string name;
	std::vector<int> peers; // connections by rank
	std::vector<int> waiting; // connections that have not sent their Hello
	std::atomic<int> state{IN_PROGRESS};
	std::atomic<bool> aborted{false};
	std::vector<Op> begun; // groups that are not in a stream yet

	~Comm()
	{
		hang_up();
	}

	void hang_up()
	{
		if (listener >= 0)
			close(listener);
		for (int fd : peers)
			if (fd >= 0)
				close(fd);
		for (int fd : waiting)
			close(fd);
		listener = -1;
		peers.assign(ranks, -1);
		waiting.clear();
	}
};

std::mutex comms_mu;
std::map<Comm *, std::shared_ptr<Comm>> comms;

std::shared_ptr<Comm> find(void *p)
{
	std::lock_guard<std::mutex> guard(comms_mu);
	auto it = comms.find((Comm *)p);
	if (it == comms.end()) {
		fprintf(stderr, "fake NCCL: a call with a communicator that is no more\n");
		return nullptr;
	}
	return it->second;
}

// place returns the abstract name of a rank's socket, for which there is no file.
sockaddr_un place(const std::string &name, int rank, socklen_t *n)
{
	sockaddr_un a = {};
	a.sun_family = AF_UNIX;
	int length = snprintf(a.sun_path + 1, sizeof a.sun_path - 1, "%s.%d", name.c_str(), rank);
	*n = (socklen_t)(offsetof(sockaddr_un, sun_path) + 1 + (size_t)length);
	return a;
}

// seat takes a connection of rank h.
int seat(Comm *c, const Hello &h, int fd)
{
	if (h.ranks != c->ranks || h.rank < 0 || h.rank >= c->ranks || c->peers[h.rank] >= 0)
		return BAD_ARGUMENT;
	if (h.process == getpid() && h.device == c->device->index) {
		fprintf(stderr, "fake NCCL: ranks %d and %d are on one device\n", h.rank, c->rank);
		return BAD_USAGE;
	}
	c->peers[h.rank] = fd;
	c->missing--;
	return OK;
}

// call tries to connect to the lower ranks that are not connected yet.
int call(Comm *c)
{
	for (int r = 0; r < c->rank; r++) {
		if (c->peers[r] >= 0)
			continue;
		socklen_t n;
		sockaddr_un a = place(c->name, r, &n);
		int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		Hello me = {c->rank, c->ranks, getpid(), c->device->index}, it = {r, c->ranks, 0, -1};
		if (connect(fd, (sockaddr *)&a, n) || write(fd, &me, sizeof me) != sizeof me) {
			close(fd);
			continue; // the rank does not listen yet
		}
		if (int rc = seat(c, it, fd))
			return rc;
	}
	return OK;
}

// welcome accepts the connections of higher ranks.
int welcome(Comm *c)
{
	for (int fd; (fd = accept4(c->listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0;)
		c->waiting.push_back(fd);
	for (size_t i = 0; i < c->waiting.size();) {
		Hello h;
		if (read(c->waiting[i], &h, sizeof h) != sizeof h) {
			i++;
			continue;
		}
		int fd = c->waiting[i];
		c->waiting.erase(c->waiting.begin() + (long)i);
		if (int rc = seat(c, h, fd))
			return rc;
	}
	return OK;
}

// move transfers a part of a piece. It returns 1 if the piece is complete, 0 if not yet, -1 if the peer is gone.
int move(Comm *c, Piece &p)
{
	const size_t head = sizeof p.length;
	int fd = c->peers[p.peer];
	while (p.done < head + p.bytes) {
		char *at = p.done < head ? (char *)&p.length + p.done : p.at + (p.done - head);
		size_t n = p.done < head ? head - p.done : head + p.bytes - p.done;
		ssize_t k = p.receive ? read(fd, at, n) : send(fd, at, n, MSG_NOSIGNAL);
		if (k < 0 && (errno == EAGAIN || errno == EINTR))
			return 0;
		if (k <= 0)
			return -1;
		if ((p.done += (size_t)k) == head && p.length != p.bytes) {
			fprintf(stderr, "fake NCCL: rank %d gets %zu bytes of rank %d and counts on %zu\n", c->rank,
				(size_t)p.length, p.peer, p.bytes);
			return -1;
		}
	}
	return 1;
}

// progress is the step of a stream for an exchange.
int progress(Comm *c, Op &op)
{
	std::lock_guard<std::mutex> guard(c->mu);
	if (c->aborted)
		return SUCCESS;
	if (op.stalled)
		return PENDING;
	bool all = true;
	for (Piece &p : op.pieces) {
		int rc = c->state == REMOTE ? 0 : move(c, p);
		if (rc < 0)
			c->state = REMOTE;
		all = all && rc > 0;
	}
	return all ? (int)SUCCESS : (int)PENDING;
}

struct Group {
	int depth = 0;
	std::map<Comm *, Op> ops;
};
thread_local Group group;

int add(const char *call, void *at, size_t bytes, int type, int peer, void *comm, Stream *stream, bool receive)
{
	auto c = find(comm);
	if (!c || type || !group.depth)
		return BAD_ARGUMENT;
	if (int rc = fails(call))
		return rc;
	if (current() != c->device || peer < 0 || peer >= c->ranks || peer == c->rank || !bytes ||
		!inside(c->device, (uint64_t)at, bytes)) {
		fprintf(stderr, "fake NCCL: %s of %zu bytes with rank %d is not one of this device\n", call, bytes, peer);
		return BAD_ARGUMENT;
	}
	Op &op = group.ops[c.get()];
	op.stream = stream;
	Piece p = {(char *)at, bytes, peer, receive};
	p.length = receive ? 0 : bytes;
	op.pieces.push_back(p);
	return OK;
}

void forget(std::shared_ptr<Comm> c)
{
	std::lock_guard<std::mutex> guard(comms_mu);
	comms.erase(c.get());
}

} // namespace

API ncclGetVersion(int *version)
{
	*version = (int)setting("FAKE_NCCL", 22703);
	return OK;
}

extern "C" __attribute__((visibility("default"))) const char *ncclGetErrorString(int result)
{
	static const char *const texts[] = {"no error", "unhandled cuda error", "unhandled system error", "internal error",
		"invalid argument", "invalid usage", "remote process exited or there was a network error"};
	return result >= 0 && result <= REMOTE ? texts[result] : "unknown result code";
}

extern "C" __attribute__((visibility("default"))) const char *ncclGetLastError(void *) { return ""; }

API ncclGetUniqueId(Id *id)
{
	memset(id, 0, sizeof *id);
	unsigned char random[16];
	if (getrandom(random, sizeof random, 0) != sizeof random)
		return SYSTEM;
	strcpy(id->internal, "fakenccl-");
	for (unsigned char r : random)
		sprintf(id->internal + strlen(id->internal), "%02x", r);
	return fails("ncclGetUniqueId");
}

API ncclCommInitRankConfig(void **comm, int ranks, Id id, int rank, Config *config)
{
	if (int rc = fails("ncclCommInitRankConfig"))
		return rc;
	if (config->size < sizeof *config || config->magic != 0xcafebeef || config->version < 21400 || config->blocking)
		return BAD_ARGUMENT;
	if (ready(current()))
		return 1; // as the runtime, which the real one goes by
	auto c = std::make_shared<Comm>();
	c->device = current();
	c->rank = rank;
	c->ranks = ranks;
	c->missing = ranks - 1;
	c->peers.assign(ranks, -1);
	c->name = std::string(id.internal, strnlen(id.internal, sizeof id.internal));
	c->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	socklen_t n;
	sockaddr_un a = place(c->name, rank, &n);
	if (bind(c->listener, (sockaddr *)&a, n) || listen(c->listener, ranks))
		return SYSTEM;
	*comm = c.get();
	std::lock_guard<std::mutex> guard(comms_mu);
	comms[c.get()] = c;
	return IN_PROGRESS;
}

API ncclCommGetAsyncError(void *comm, int *state)
{
	auto c = find(comm);
	if (!c)
		return BAD_ARGUMENT;
	std::lock_guard<std::mutex> guard(c->mu);
	if (c->state == IN_PROGRESS && c->missing > 0) {
		int rc = call(c.get());
		if (!rc)
			rc = welcome(c.get());
		if (rc)
			c->state = rc;
		else if (!c->missing)
			c->state = OK;
	} else if (c->state == IN_PROGRESS)
		c->state = OK;
	*state = c->state;
	if (c->state)
		return OK;
	for (Op &op : c->begun) { // only now is it in the stream
		auto work = std::make_shared<Op>(std::move(op));
		std::lock_guard<std::recursive_mutex> lock(c->device->lock);
		if (!c->device->streams.count(work->stream))
			return BAD_ARGUMENT;
		work->stream->work.push_back([c, work] { return progress(c.get(), *work); });
	}
	c->begun.clear();
	return OK;
}

API ncclGroupStart()
{
	group.depth++;
	return fails("ncclGroupStart");
}

API ncclSend(const void *at, size_t count, int type, int peer, void *comm, Stream *stream)
{
	return add("ncclSend", (void *)at, count, type, peer, comm, stream, false);
}

API ncclRecv(void *at, size_t count, int type, int peer, void *comm, Stream *stream)
{
	return add("ncclRecv", at, count, type, peer, comm, stream, true);
}

API ncclGroupEnd()
{
	if (--group.depth)
		return group.depth < 0 ? (int)BAD_USAGE : (int)OK;
	auto ops = std::move(group.ops);
	group.ops.clear();
	if (int rc = fails("ncclGroupEnd"))
		return rc;
	for (auto &[p, op] : ops) {
		auto c = find(p);
		if (!c || c->state)
			return BAD_ARGUMENT;
		op.stalled = fails("ncclStall");
		std::lock_guard<std::mutex> guard(c->mu);
		c->begun.push_back(std::move(op));
		c->state = IN_PROGRESS;
	}
	return IN_PROGRESS;
}

API ncclCommAbort(void *comm)
{
	auto c = find(comm);
	if (!c)
		return BAD_ARGUMENT;
	c->aborted = true;
	{
		std::lock_guard<std::mutex> guard(c->mu);
		c->hang_up();
	}
	forget(c);
	return OK;
}
