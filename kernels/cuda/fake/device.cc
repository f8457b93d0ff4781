// Devices, their primary contexts, and injected errors.
#include "fake.h"
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <unistd.h>

namespace fake {

static std::mutex mu;
static std::vector<std::unique_ptr<Device>> devices;
static thread_local Device *cur;

long long setting(const char *name, long long otherwise)
{
	const char *text = getenv(name);
	return text && *text ? strtoll(text, nullptr, 10) : otherwise;
}

static int count() { return (int)setting("FAKE_DEVICES", 2); }

Device *device(int index)
{
	if (index < 0 || index >= count())
		return nullptr;
	std::lock_guard<std::mutex> guard(mu);
	while ((int)devices.size() <= index) {
		devices.push_back(std::make_unique<Device>());
		devices.back()->index = (int)devices.size() - 1;
	}
	return devices[index].get();
}

Device *current() { return cur; }

int ready(Device *d)
{
	if (!d || !d->retained)
		return INVALID_CONTEXT;
	return d->broken;
}

static std::string wish()
{
	const char *text = getenv("FAKE_FAIL");
	return text ? text : "";
}

// fails reads FAKE_FAIL=CALL:N:CODE[!] or CALL:N:~MILLISECONDS, and returns the error of this call. The calls are counted
// from 1 again when the text changes.
int fails(const char *call)
{
	static std::string text;
	static long seen;
	std::unique_lock<std::mutex> guard(mu);
	std::string now = wish();
	if (text != now) {
		text = now;
		seen = 0;
	}
	size_t a = text.find(':'), b = text.find(':', a + 1);
	if (a == std::string::npos || b == std::string::npos || text.compare(0, a, call) != 0)
		return SUCCESS;
	if (++seen != atol(text.c_str() + a + 1))
		return SUCCESS;
	if (text[b + 1] == '~') {
		long milliseconds = atol(text.c_str() + b + 2);
		guard.unlock();
		for (; milliseconds > 0 && wish() == now; milliseconds--)
			usleep(1000);
		return SUCCESS;
	}
	int code = atoi(text.c_str() + b + 1);
	if (text.back() == '!' && cur)
		cur->broken = code;
	return code;
}

int enter(const char *call)
{
	if (int rc = ready(cur))
		return rc;
	return idle() ? SUCCESS : fails(call);
}

} // namespace fake

using namespace fake;

API cuInit(unsigned) { return count() > 0 ? fails("cuInit") : (int)NO_DEVICE; }

API cuDriverGetVersion(int *version)
{
	*version = (int)setting("FAKE_VERSION", 12060);
	return SUCCESS;
}

API cuDeviceGetCount(int *n)
{
	*n = count();
	return fails("cuDeviceGetCount");
}

API cuDeviceGet(int *handle, int index)
{
	*handle = index;
	return device(index) ? SUCCESS : INVALID_DEVICE;
}

API cuDeviceGetName(char *name, int size, int index)
{
	snprintf(name, size, "emulated GPU %d", index);
	return device(index) ? SUCCESS : INVALID_DEVICE;
}

API cuDeviceTotalMem_v2(size_t *bytes, int index)
{
	*bytes = (size_t)setting("FAKE_MEMORY", 4ll << 30);
	return device(index) ? SUCCESS : INVALID_DEVICE;
}

API cuDeviceGetUuid(unsigned char *uuid, int index)
{
	memcpy(uuid, "emulated GPU    ", 16);
	uuid[15] = (unsigned char)index;
	return device(index) ? SUCCESS : INVALID_DEVICE;
}

API cuDeviceGetUuid_v2(unsigned char *uuid, int index) { return cuDeviceGetUuid(uuid, index); }

API cuDeviceGetAttribute(int *value, int attribute, int index)
{
	int arch = (int)setting("FAKE_ARCH", 80);
	switch (attribute) {
	case 16: *value = 2; break;           // multiprocessors
	case 33: *value = index + 1; break;   // PCI bus
	case 75: *value = arch / 10; break;   // compute capability
	case 76: *value = arch % 10; break;
	case 97: *value = (arch >= 90 ? 227 : 163) << 10; break;   // shared memory of a block, if asked for
	default: *value = 0;
	}
	return device(index) ? SUCCESS : INVALID_DEVICE;
}

API cuDevicePrimaryCtxRetain(Device **context, int index)
{
	Device *d = device(index);
	if (!d)
		return INVALID_DEVICE;
	if (int rc = fails("cuDevicePrimaryCtxRetain"))
		return rc;
	d->retained = true;
	*context = d;
	return d->broken;
}

API cuDevicePrimaryCtxRelease_v2(int index) { return device(index) ? SUCCESS : INVALID_DEVICE; }

API cuDevicePrimaryCtxReset_v2(int index)
{
	Device *d = device(index);
	if (!d)
		return INVALID_DEVICE;
	std::lock_guard<std::recursive_mutex> guard(d->lock);
	reset_streams(d);
	reset_modules(d);
	reset_memory(d);
	d->peers.clear();
	if (setting("FAKE_RESET", 1))
		d->broken = 0;
	d->retained = false;
	return SUCCESS;
}

API cuCtxSetCurrent(Device *context)
{
	cur = context;
	return ready(cur);
}

API cuCtxGetCurrent(Device **context)
{
	*context = cur;
	return SUCCESS;
}

API cuDeviceCanAccessPeer(int *can, int a, int b)
{
	*can = a != b && setting("FAKE_PEERS", 1);
	return device(a) && device(b) ? SUCCESS : INVALID_DEVICE;
}

API cuCtxEnablePeerAccess(Device *peer, unsigned flags)
{
	CALL(cuCtxEnablePeerAccess);
	if (flags || !peer || !peer->retained || !setting("FAKE_PEERS", 1))
		return INVALID_VALUE;
	std::lock_guard<std::recursive_mutex> guard(cur->lock);
	return cur->peers.insert(peer).second ? SUCCESS : PEER_ENABLED;
}

static const struct {
	int code;
	const char *name, *text;
} texts[] = {
	{INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
	{OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
	{INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
	{INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
	{NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
	{218, "CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed"},
	{802, "CUDA_ERROR_SYSTEM_NOT_READY", "system not yet initialized"},
	{214, "CUDA_ERROR_ECC_UNCORRECTABLE", "uncorrectable ECC error encountered"},
	{INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
	{700, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
	{719, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
};

API cuGetErrorName(int code, const char **name)
{
	for (auto &t : texts)
		if (t.code == code) {
			*name = t.name;
			return SUCCESS;
		}
	return INVALID_VALUE;
}

API cuGetErrorString(int code, const char **text)
{
	for (auto &t : texts)
		if (t.code == code) {
			*text = t.text;
			return SUCCESS;
		}
	return INVALID_VALUE;
}
