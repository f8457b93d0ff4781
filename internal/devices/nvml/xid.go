package nvml

// Action is what to do about an event.
type Action int

// From harmless to grave.
const (
	Ignore  Action = iota // do nothing
	Restart               // the running batch is lost and is repeated; the device is healthy
	Drain                 // no more batches for this device until a person has inspected it
)

// String names the action.
func (a Action) String() string { return [...]string{"ignore", "restart", "drain"}[a] }

// xid is a range of NVIDIA's error numbers.
type xid struct {
	first, last uint64
	action      Action
	text        string
}

// xids follows NVIDIA's Xid catalogue (docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html, October
// 2025) by its immediate resolution: IGNORE is Ignore, RESTART_APP is Restart; resets, reboots, mechanical
// checks and the workflows for ECC and NVLink are Drain. Unlike the catalogue, and like NVIDIA's Kubernetes device plugin, 13, 31, 43, 45, 68 and 109
// count as faults of an application on a healthy device, perhaps of another application. If it was
// this process, its batch fails by itself. Numbers that are not listed are unused or about video.
var xids = []xid{
	{8, 8, Restart, "GPU stopped processing"},
	{11, 11, Restart, "corrupted command stream"},
	{13, 13, Ignore, "exception of an application"},
	{25, 25, Restart, "corrupted command stream"},
	{31, 31, Ignore, "memory page fault of an application"},
	{32, 32, Restart, "corrupted command stream"},
	{37, 38, Ignore, "driver firmware error"},
	{39, 41, Restart, "copy engine exception"},
	{43, 43, Ignore, "an application was stopped"},
	{44, 44, Ignore, "fault during a context switch"},
	{45, 45, Ignore, "cleanup after an earlier error"},
	{46, 46, Drain, "GPU stopped processing"},
	{48, 48, Drain, "double-bit ECC error"},
	{54, 54, Drain, "auxiliary power is not connected"},
	{60, 60, Restart, "video processor exception"},
	{62, 62, Drain, "micro-controller halted"},
	{63, 63, Ignore, "a row of memory is replaced at the next reset"},
	{64, 64, Drain, "a row of memory could not be replaced"},
	{66, 67, Ignore, "illegal access by the driver"},
	{68, 68, Ignore, "video decoder exception"},
	{69, 69, Restart, "graphics engine class error"},
	{70, 72, Restart, "copy engine exception"},
	{74, 74, Drain, "NVLink error"},
	{75, 77, Restart, "copy engine exception"},
	{79, 79, Drain, "GPU has fallen off the bus"},
	{80, 80, Restart, "corrupted data sent to the GPU"},
	{85, 85, Restart, "copy engine exception"},
	{92, 92, Ignore, "many single-bit ECC errors"},
	{93, 93, Ignore, "InfoROM wear limit"},
	{94, 94, Restart, "contained memory error"},
	{95, 95, Drain, "uncontained memory error"},
	{106, 107, Ignore, "test message"},
	{109, 109, Ignore, "context switch timeout of an application"},
	{110, 110, Drain, "security fault"},
	{119, 119, Drain, "system processor does not answer"},
	{120, 120, Drain, "system processor error"},
	{121, 121, Ignore, "chip-to-chip link error"},
	{126, 135, Restart, "copy engine exception"},
	{136, 136, Drain, "link training failed"},
	{137, 137, Ignore, "NVLink privilege error"},
	{140, 140, Drain, "unrecovered ECC error"},
	{141, 141, Ignore, "CUDA fast path error"},
	{143, 143, Drain, "initialization error"},
	{144, 150, Drain, "NVLink error"},
	{151, 151, Drain, "key rotation error"},
	{154, 154, Ignore, "recovery action changed"},
	{155, 155, Drain, "NVLink error"},
	{156, 156, Drain, "a part was retired until the next reset"},
	{157, 157, Ignore, "a part could not be retired"},
	{158, 158, Drain, "fatal timeout"},
	{160, 161, Ignore, "channel retirement"},
	{167, 167, Drain, "PCIe timeout"},
	{171, 172, Drain, "uncorrectable memory error"},
}

// lookup returns the entry of a number. An unlisted number counts as a fault of the device: draining a healthy
// device costs time, keeping a faulty one costs results.
func lookup(code uint64) xid {
	for _, x := range xids {
		if x.first <= code && code <= x.last {
			return x
		}
	}
	return xid{code, code, Drain, "not in our list of XIDs"}
}
