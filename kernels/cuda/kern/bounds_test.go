package kern

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// Registers of a multiprocessor. Warps allocate them in units of 256, eight for each lane (CUDA C++ Programming Guide, technical
// specifications for each compute capability).
const (
	registersOfSM = 64 << 10
	registerLot   = 8
	mostThreads   = 1024
)

// registers are the registers per thread that ptxas uses for each kernel and target; the keys are "kernel target".
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
				t.Errorf("%s for %s: %d kernels, %d of them with bounds", unit, target, n, len(found))
			}
			for _, m := range found {
				threads, _ := strconv.Atoi(m[2])
				blocks, _ := strconv.Atoi(m[3])
				blocks = max(blocks, 1)
				lots := (used[m[1]+" "+target] + registerLot - 1) / registerLot * registerLot
				if threads%32 != 0 || threads > mostThreads || lots == 0 || lots*threads*blocks > registersOfSM {
					t.Errorf("%s for %s: %d blocks of %d threads with %d registers each", m[1], target, blocks, threads, lots)
				}
			}
			if strings.Contains(text, "wgmma") && !strings.Contains(text, ".shared .align 1024 .b8 lb_shared_") {
				t.Errorf("%s for %s: products of warpgroups, and shared memory that may begin anywhere", unit, target)
			}
		}
	}
}
