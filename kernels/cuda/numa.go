//go:build cuda && linux

package cuda

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"unsafe"
)

// pciDevices is the directory in which Linux describes the devices on the bus.
const pciDevices = "/sys/bus/pci/devices"

// Policies of set_mempolicy(2).
const (
	policyDefault   = 0
	policyPreferred = 1
)

// maxNodes is the greatest number of NUMA nodes, the bits of a mask.
const maxNodes = 64

// nodeOf returns the NUMA node of the device at address pci; folder is the directory that describes the bus. It returns -1 if
// there is only one node or the node is not known.
func nodeOf(folder, pci string) int {
	text, err := os.ReadFile(filepath.Join(folder, strings.ToLower(pci), "numa_node"))
	if err != nil {
		return -1
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || n < 0 || n >= maxNodes {
		return -1
	}
	return n
}

// onNode runs f on a locked thread, so that memory allocated in f comes from a NUMA node if that has any free. If the kernel
// does not let the process choose, memory comes from any node, which is only slower.
func onNode(node int, f func()) {
	if node < 0 {
		f()
		return
	}
	mask := uint64(1) << node
	_, _, code := syscall.RawSyscall(syscall.SYS_SET_MEMPOLICY, policyPreferred,
		uintptr(unsafe.Pointer(&mask)), maxNodes+1)
	if code == 0 {
		defer syscall.RawSyscall(syscall.SYS_SET_MEMPOLICY, policyDefault, 0, 0)
	}
	f()
}
