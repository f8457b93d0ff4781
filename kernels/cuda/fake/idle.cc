// A device that computes nothing (FAKE_IDLE). A launch takes FAKE_PACE nanoseconds, which pass beside the host.
#include "fake.h"
#include <algorithm>
#include <atomic>
#include <unistd.h>

namespace fake {

// pace is read from the environment again only after a wait, because reading takes longer than the rest of a launch.
static std::atomic<double> pace = -1;

bool idle()
{
	static const bool is = setting("FAKE_IDLE", 0) != 0;
	return is;
}

int idle_launch(Stream *s)
{
	if (pace < 0)
		pace = 1e-9 * (double)setting("FAKE_PACE", 0);
	if (pace > 0)
		s->until = std::max(s->until, now()) + pace;
	return SUCCESS;
}

// idle_wait sleeps until shortly before the end and then spins, because a sleep ends late.
int idle_wait(double until)
{
	const double late = 200e-6;
	for (double left; (left = until - now()) > 0;)
		if (left > late)
			usleep((useconds_t)(1e6 * (left - late)));
	pace = -1;
	return SUCCESS;
}

} // namespace fake
