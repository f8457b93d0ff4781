package system

import (
	"os"
	"regexp"
)

// modelName matches the name of a processor in /proc/cpuinfo.
var modelName = regexp.MustCompile(`(?m)^model name\s*: *(.*?)\s*$`)

// ProcessorName returns the name of the first processor, "" if the system does not say it.
func ProcessorName() string {
	info, _ := os.ReadFile("/proc/cpuinfo")
	if m := modelName.FindSubmatch(info); m != nil {
		return string(m[1])
	}
	return ""
}
