package kern

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var include = regexp.MustCompile(`(?m)^#include "([^"/]+)"`)

// sources adds a file, and the files that it includes except the emulation, to the set.
func sources(t *testing.T, name string, set map[string][]byte) {
	t.Helper()
	if _, ok := set[name]; ok {
		return
	}
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	set[name] = text
	for _, m := range include.FindAllSubmatch(text, -1) {
		sources(t, string(m[1]), set)
	}
}

// hash returns the SHA-256 of the files of a set, in the order of their names.
func hash(set map[string][]byte) string {
	var names []string
	for name := range set {
		names = append(names, name)
	}
	slices.Sort(names)
	h := sha256.New()
	for _, name := range names {
		h.Write(set[name])
	}
	return fmt.Sprintf("%x", h.Sum(nil))
}

// TestFresh: the committed PTX was made from the current sources, by the digests in ptx/SOURCES and HeadersHash. `make -C kernels/cuda/kern ptx`
// makes it.
func TestFresh(t *testing.T) {
	var want []string
	for _, unit := range units(t) {
		set := map[string][]byte{}
		sources(t, unit+".cu", set)
		want = append(want, unit+" "+hash(set))
	}
	text, err := os.ReadFile("ptx/SOURCES")
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.TrimSpace(string(text)); got != strings.Join(want, "\n") {
		t.Errorf("ptx/SOURCES is\n%s\nbut the sources are\n%s\nrun make -C kernels/cuda/kern ptx", got, strings.Join(want, "\n"))
	}
	set := map[string][]byte{}
	names, err := filepath.Glob("args*.h")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range append(names, "kernels.h") {
		if set[name], err = os.ReadFile(name); err != nil {
			t.Fatal(err)
		}
	}
	if h := hash(set)[:16]; h != HeadersHash {
		t.Errorf("HeadersHash is %s, the headers have %s: run make -C kernels/cuda/kern ptx", HeadersHash, h)
	}
}

// units returns the compilation units (.cu files) of kernels.def, sorted.
func units(t *testing.T) []string {
	t.Helper()
	all, err := Kernels()
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, k := range all {
		out = append(out, k.Unit)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// TestKernels: the PTX of each target contains exactly the kernels that the table has for this target.
func TestKernels(t *testing.T) {
	all, err := Kernels()
	if err != nil {
		t.Fatal(err)
	}
	entry := regexp.MustCompile(`\.entry (\w+)\(`)
	for _, target := range Targets {
		for _, unit := range units(t) {
			ptx, err := PTX(target, unit)
			if err != nil {
				t.Error(err)
				continue
			}
			if ptx[len(ptx)-1] != 0 || !bytes.Contains(ptx, []byte(".target "+target)) {
				t.Errorf("PTX of %s is not for %s, or has no zero at its end", unit, target)
			}
			var got, want []string
			for _, m := range entry.FindAllSubmatch(ptx, -1) {
				got = append(got, string(m[1]))
			}
			for _, k := range all {
				if k.Unit == unit && k.Exists(target) {
					want = append(want, k.Name)
				}
			}
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Errorf("PTX of %s for %s has %v, kernels.def %v", unit, target, got, want)
			}
		}
	}
	if _, err := PTX("sm_80", "nothing"); err == nil {
		t.Error("PTX of an unknown unit gave no error")
	}
}

// TestTarget: each device uses the newest PTX that it can run.
func TestTarget(t *testing.T) {
	for _, c := range []struct {
		major, minor int
		want         string
	}{{7, 5, "sm_75"}, {8, 0, "sm_80"}, {8, 9, "sm_80"}, {9, 0, "sm_90a"}, {10, 0, "sm_100a"}, {10, 3, "sm_80"},
		{12, 0, "sm_80"}, {7, 0, ""}} {
		got, err := Target(c.major, c.minor)
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("compute capability %d.%d: got target %q, %v; want %q", c.major, c.minor, got, err, c.want)
		}
	}
}
