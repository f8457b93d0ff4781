package system

import "runtime/debug"

// oftenPercent is how much garbage there may be beside what is in use where memory counts more than time, in per cent.
const oftenPercent = 30

// CollectOften lets less garbage gather until the function that it returns is called, where GOGC does not ask for less already. For
// work that comes behind a job's own and must not need more memory than that.
func CollectOften() (restore func()) {
	before := debug.SetGCPercent(oftenPercent)
	if before >= 0 && before <= oftenPercent {
		debug.SetGCPercent(before)
	}
	return func() { debug.SetGCPercent(before) }
}
