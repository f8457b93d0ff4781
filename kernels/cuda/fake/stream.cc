// Streams and events. Work is done in order, when a thread waits for it.
#include "fake.h"
#include <algorithm>
#include <chrono>
#include <unistd.h>

namespace fake {

double now()
{
	return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

static int step(Stream *s)
{
	int rc = s->work.front()();
	if (rc == PENDING)
		return rc;
	s->work.pop_front();
	if (rc) { // an error of work in a stream ends the context
		s->device->broken = rc;
		s->work.clear();
	}
	return rc;
}

// wait is step, but it waits for other streams.
static int wait(Stream *s)
{
	int rc;
	while ((rc = step(s)) == PENDING)
		usleep(50);
	return rc;
}

int run(Stream *s)
{
	std::lock_guard<std::recursive_mutex> guard(s->device->lock);
	while (!s->work.empty())
		if (int rc = wait(s))
			return rc;
	return s->device->broken;
}

int look(Stream *s)
{
	std::lock_guard<std::recursive_mutex> guard(s->device->lock);
	while (!s->work.empty())
		if (int rc = step(s))
			return rc == PENDING ? (int)NOT_READY : rc;
	return s->device->broken;
}

int run_until(Stream *s, Event *e, long marker)
{
	std::lock_guard<std::recursive_mutex> guard(s->device->lock);
	while (e->reached < marker && !s->work.empty())
		if (int rc = wait(s))
			return rc;
	return s->device->broken;
}

int run_all(Device *d)
{
	std::lock_guard<std::recursive_mutex> guard(d->lock);
	for (Stream *s : d->streams)
		if (int rc = run(s))
			return rc;
	return SUCCESS;
}

// Destroyed streams and events keep their memory, because another stream of the device may still have to wait for them, and
// because the handle of a new one must differ from every old handle.
void reset_streams(Device *d)
{
	for (Stream *s : d->streams)
		s->work.clear();
	d->streams.clear();
	d->events.clear();
}

static bool is_stream(Stream *s)
{
	std::lock_guard<std::recursive_mutex> guard(current()->lock);
	return current()->streams.count(s);
}

static bool is_event(Event *e)
{
	std::lock_guard<std::recursive_mutex> guard(current()->lock);
	return current()->events.count(e);
}

} // namespace fake

using namespace fake;

API cuCtxSynchronize()
{
	WORK(cuCtxSynchronize, SUCCESS);
	return run_all(current());
}

API cuStreamCreate(Stream **s, unsigned)
{
	CALL(cuStreamCreate);
	std::lock_guard<std::recursive_mutex> guard(current()->lock);
	*s = new Stream{current(), {}};
	current()->streams.insert(*s);
	return SUCCESS;
}

API cuStreamDestroy_v2(Stream *s)
{
	CALL(cuStreamDestroy_v2);
	if (!is_stream(s))
		return INVALID_HANDLE;
	int rc = run(s);
	std::lock_guard<std::recursive_mutex> guard(current()->lock);
	current()->streams.erase(s);
	for (Event *e : current()->events)
		if (e->stream == s)
			e->stream = nullptr;
	s->work.clear();
	return rc;
}

API cuStreamSynchronize(Stream *s)
{
	WORK(cuStreamSynchronize, idle_wait(s->until));
	return is_stream(s) ? run(s) : (int)INVALID_HANDLE;
}

API cuStreamQuery(Stream *s)
{
	WORK(cuStreamQuery, (now() < s->until ? (int)NOT_READY : (int)SUCCESS));
	return is_stream(s) ? look(s) : (int)INVALID_HANDLE;
}

API cuStreamWaitEvent(Stream *s, Event *e, unsigned)
{
	WORK(cuStreamWaitEvent, (s->until = std::max(s->until, e->at), SUCCESS));
	if (!is_stream(s) || !is_event(e))
		return INVALID_HANDLE;
	if (!e->stream || e->stream == s)
		return SUCCESS;
	std::lock_guard<std::recursive_mutex> guard(current()->lock);
	Stream *other = e->stream;
	long marker = e->marker;
	s->work.push_back([=] { return run_until(other, e, marker); });
	return SUCCESS;
}

API cuEventCreate(Event **e, unsigned)
{
	CALL(cuEventCreate);
	std::lock_guard<std::recursive_mutex> guard(current()->lock);
	*e = new Event{current()};
	current()->events.insert(*e);
	return SUCCESS;
}

API cuEventDestroy_v2(Event *e)
{
	CALL(cuEventDestroy_v2);
	if (!is_event(e))
		return INVALID_HANDLE;
	if (e->stream)
		run_until(e->stream, e, e->marker);
	std::lock_guard<std::recursive_mutex> guard(current()->lock);
	current()->events.erase(e);
	return SUCCESS;
}

API cuEventRecord(Event *e, Stream *s)
{
	WORK(cuEventRecord, (e->at = std::max(s->until, now()), SUCCESS));
	if (!is_stream(s) || !is_event(e))
		return INVALID_HANDLE;
	std::lock_guard<std::recursive_mutex> guard(current()->lock);
	long marker = ++e->marker;
	e->stream = s;
	s->work.push_back([=] {
		e->reached = marker;
		e->at = now();
		return SUCCESS;
	});
	return SUCCESS;
}

API cuEventSynchronize(Event *e)
{
	WORK(cuEventSynchronize, idle_wait(e->at));
	if (!is_event(e))
		return INVALID_HANDLE;
	return e->stream ? run_until(e->stream, e, e->marker) : (int)SUCCESS;
}

API cuEventElapsedTime(float *ms, Event *from, Event *to)
{
	WORK(cuEventElapsedTime, (*ms = (float)(1e3 * (to->at - from->at)), SUCCESS));
	if (!is_event(from) || !is_event(to))
		return INVALID_HANDLE;
	if (from->reached < from->marker || to->reached < to->marker || !from->marker || !to->marker)
		return NOT_READY;
	*ms = (float)(1e3 * (to->at - from->at));
	return SUCCESS;
}
