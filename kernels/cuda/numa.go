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

// pciDevices is where Linux describes what is on the bus.
const pciDevices = "/sys/bus/pci/devices"

// Policies of set_mempolicy(2).
const (
	policyDefault   = 0
	policyPreferred = 1
)

// mostNodes is how many NUMA nodes are told apart, the bits of a mask.
const mostNodes = 64

// nodeOf returns the NUMA node that a device at address pci is on, below the folder that describes the bus; -1 where
// there is only one, or none is known.
func nodeOf(folder, pci string) int {
	text, err := os.ReadFile(filepath.Join(folder, strings.ToLower(pci), "numa_node"))
	if err != nil {
		return -1
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || n < 0 || n >= mostNodes {
		return -1
	}
	return n
}

// onNode runs f, whose memory comes from a NUMA node where that has any, on a locked thread. Where the kernel does
// not let a process choose, it comes from anywhere: that costs time only.
func onNode(node int, f func()) {
	if node < 0 {
		f()
		return
	}
	mask := uint64(1) << node
	_, _, code := syscall.RawSyscall(syscall.SYS_SET_MEMPOLICY, policyPreferred,
		uintptr(unsafe.Pointer(&mask)), mostNodes+1)
	if code == 0 {
		defer syscall.RawSyscall(syscall.SYS_SET_MEMPOLICY, policyDefault, 0, 0)
	}
	f()
}
