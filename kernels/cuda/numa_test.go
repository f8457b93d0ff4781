//go:build cuda && linux

package cuda

import (
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"unsafe"
)

// TestNodeOf: nodeOf reads the NUMA node of a device from Linux' files. It is -1 if the file is missing or invalid.
func TestNodeOf(t *testing.T) {
	folder := t.TempDir()
	for pci, text := range map[string]string{"0000:3b:00.0": "1\n", "0000:01:00.0": "-1\n", "0000:02:00.0": "64\n",
		"0000:03:00.0": "x"} {
		if err := os.MkdirAll(filepath.Join(folder, pci), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, pci, "numa_node"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for pci, want := range map[string]int{"0000:3B:00.0": 1, "0000:01:00.0": -1, "0000:02:00.0": -1, "0000:03:00.0": -1,
		"0000:99:00.0": -1} {
		if got := nodeOf(folder, pci); got != want {
			t.Errorf("nodeOf %s: got %d, want %d", pci, got, want)
		}
	}
}

// TestOnNode: onNode sets the memory policy of the thread while its function runs, if the kernel allows it, and restores it. It calls the
// function also if the node does not exist.
func TestOnNode(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	policy := func() int {
		var p int32
		if _, _, code := syscall.RawSyscall(syscall.SYS_GET_MEMPOLICY, uintptr(unsafe.Pointer(&p)), 0, 0); code != 0 {
			t.Skip(code)
		}
		return int(p)
	}
	before, within := policy(), -1
	onNode(0, func() { within = policy() })
	if within != policyPreferred && within != before {
		t.Errorf("while the function runs, the policy is %d, want %d", within, policyPreferred)
	}
	if after := policy(); after != before {
		t.Errorf("the policy was %d before onNode and is %d after it", before, after)
	}
	ran := false
	onNode(maxNodes-1, func() { ran = true }) // a node that does not exist
	if !ran || policy() != before {
		t.Errorf("a node that does not exist: the function ran: %v, the policy is %d, want %d", ran, policy(), before)
	}
}
