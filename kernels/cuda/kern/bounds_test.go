package kern

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// Limits of a multiprocessor (CUDA C++ Programming Guide, technical specifications for each compute capability).
const (
	registersOfSM = 64 << 10 // registers
	registerUnit  = 8        // a warp allocates registers in units of 256, which are 8 for each of its 32 threads
	mostThreads   = 1024     // threads of a block
)

// registers returns how many registers per thread ptxas uses for each kernel and target. The keys are "KERNEL TARGET".
func registers(t *testing.T) map[string]int {
	t.Helper()
	text, err := os.ReadFile("ptxas.txt")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]int{}
	for _, line := range strings.Split(strings.TrimSpace(string(text)), "\n")[1:] {
		f := strings.Fields(line)
		if out[f[0]+" "+f[1]], err = strconv.Atoi(f[2]); err != nil {
			t.Fatalf("ptxas.txt: %q: %v", line, err)
		}
	}
	return out
}

// TestBounds: every kernel declares the threads of its blocks, and a multiprocessor has enough registers for the number of blocks that
// the kernel declares. Shared memory that warpgroup products read is aligned to 1024 bytes, because their swizzle needs it.
func TestBounds(t *testing.T) {
	used := registers(t)
	entry := regexp.MustCompile(`(?s)\.entry (\w+)\([^)]*\)\s*\.maxntid (\d+)[^\n]*\n(?:\.minnctapersm (\d+)\n)?`)
	for _, target := range Targets {
		for _, unit := range units(t) {
			ptx, err := PTX(target, unit)
			if err != nil {
				t.Fatal(err)
			}
			text := string(ptx)
			found := entry.FindAllStringSubmatch(text, -1)
			if n := strings.Count(text, ".entry "); n != len(found) {
				t.Errorf("%s for %s: only %d of %d kernels declare the threads of their blocks", unit, target, len(found), n)
			}
			for _, m := range found {
				threads, _ := strconv.Atoi(m[2])
				blocks, _ := strconv.Atoi(m[3])
				blocks = max(blocks, 1)
				perThread := (used[m[1]+" "+target] + registerUnit - 1) / registerUnit * registerUnit
				if threads%32 != 0 || threads > mostThreads || perThread == 0 || perThread*threads*blocks > registersOfSM {
					t.Errorf("%s for %s: %d blocks of %d threads with %d registers each do not fit a multiprocessor", m[1], target, blocks,
						threads, perThread)
				}
			}
			if strings.Contains(text, "wgmma") && !strings.Contains(text, ".shared .align 1024 .b8 lb_shared_") {
				t.Errorf("%s for %s has products of warpgroups, but its shared memory is not aligned to 1024 bytes", unit, target)
			}
		}
	}
}
