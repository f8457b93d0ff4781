// Declarations that the files of the fake driver share.
#pragma once
#include "../kern/emu/launch.h"
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#define API extern "C" __attribute__((visibility("default"))) int

namespace fake {

// Answers (CUresult).
enum {
	SUCCESS = 0,
	INVALID_VALUE = 1,
	OUT_OF_MEMORY = 2,
	NO_DEVICE = 100,
	INVALID_DEVICE = 101,
	INVALID_IMAGE = 200,
	INVALID_CONTEXT = 201,
	NO_BINARY = 209,
	INVALID_HANDLE = 400,
	NOT_FOUND = 500,
	PENDING = -1, // work in a stream that is not finished yet
	NOT_READY = 600,
	PEER_ENABLED = 704,
};

struct Event;

// A Stream is a queue of work, which is done when a thread waits for it.
struct Stream {
	struct Device *device;
	std::deque<std::function<int()>> work;
	double until = 0; // when an idle device would have done its work, in seconds
};

// An Event is reached when its stream has reached the marker of the last record.
struct Event {
	struct Device *device;
	Stream *stream = nullptr; // where it was recorded
	long marker = 0;          // how often it was recorded
	long reached = 0;
	double at = 0; // seconds
};

struct Module {
	struct Device *device;
	std::string text;
};

struct Function {
	struct Device *device;
	const lb_kernel *kernel;
	unsigned shared = 48 << 10, threads = 1024; // most
};

// A Device with its primary context. Streams run under its lock, so devices run side by side.
struct Device {
	int index;
	std::recursive_mutex lock;
	bool retained = false;
	int broken = 0; // error of all calls after an error that ended the context; 0: none
	size_t used = 0;
	std::map<uint64_t, size_t> memory; // device memory by address
	std::set<Device *> peers;
	std::set<Stream *> streams;
	std::set<Event *> events;
	std::set<Module *> modules;
	std::set<Function *> functions;
};

Device *device(int index);      // null if there is none
Device *current();              // of the calling thread, or null
long long setting(const char *name, long long otherwise); // of the environment
int ready(Device *d);           // error of any call in d's context
int fails(const char *call);    // error that FAKE_FAIL gives to this call
int enter(const char *call);    // both, for the current device
std::atomic<uint64_t> *counter(const char *call); // how often a call was made: FAKE_COUNTS

void *take(size_t bytes);       // memory whose end touches a guard page
void give(void *p, size_t bytes);
bool inside(Device *d, uint64_t p, size_t bytes); // whether all of it is memory of d
void reset_memory(Device *d);

int run(Stream *s);             // do all work of a stream
double now();                   // seconds
int look(Stream *s);            // do the work that waits for no other stream; NOT_READY: there is more
int run_until(Stream *s, Event *e, long marker);
int run_all(Device *d);
void reset_streams(Device *d);
void reset_modules(Device *d);

// For an idle device (idle.cc), which does no work but takes the time of work.
bool idle();
int idle_launch(Stream *s);
int idle_wait(double until);

} // namespace fake

// CALL begins a call of the driver: it counts the call, and returns the error if there is one.
#define CALL(name) \
	do { \
		static std::atomic<uint64_t> *made = fake::counter(#name); \
		++*made; \
		if (int rc = fake::enter(#name)) \
			return rc; \
	} while (0)

// WORK is CALL for calls that an idle device answers at once.
#define WORK(name, answer) \
	CALL(name); \
	if (fake::idle()) \
		return answer
