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

// TestNodeOf tests what nodeOf makes of the files of Linux, including missing and invalid ones.
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
			t.Errorf("%s is on node %d, want %d", pci, got, want)
		}
	}
}

// TestOnNode: the memory policy of the thread is changed only while f runs, if the kernel allows it.
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
		t.Errorf("the policy inside is %d", within)
	}
	if after := policy(); after != before {
		t.Errorf("the policy was %d and is %d", before, after)
	}
	ran := false
	onNode(maxNodes-1, func() { ran = true }) // a node that does not exist
	if !ran || policy() != before {
		t.Errorf("ran %v, policy %d", ran, policy())
	}
}
