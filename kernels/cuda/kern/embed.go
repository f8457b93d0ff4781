// Package kern has the CUDA kernels: their sources (.cu, with the macros of lb.h), the PTX that is made from them, and what the host
// needs to load them. README.md says how to add a kernel. kernels/cuda calls the driver; this package does not.
package kern

import (
	"bytes"
	"embed"
	"fmt"
	"strings"

	"github.com/klauspost/compress/zstd"
)

//go:embed ptx/*.zst kernels.def
var files embed.FS

// Targets are the architectures for which PTX is made, newest first. A device uses the first one that it can run: "sm_90a" and
// "sm_100a" run on this compute capability only, "sm_75" and "sm_80" on this one and all later ones.
var Targets = []string{"sm_100a", "sm_90a", "sm_80", "sm_75"}

// Target returns the target for a device of compute capability major.minor, or an error if the device is too old.
func Target(major, minor int) (string, error) {
	switch arch := 10*major + minor; {
	case arch == 100:
		return "sm_100a", nil
	case arch == 90:
		return "sm_90a", nil
	case arch >= 80:
		return "sm_80", nil
	case arch >= 75:
		return "sm_75", nil
	}
	return "", fmt.Errorf("choose kernels: compute capability %d.%d is below 7.5 (Turing)", major, minor)
}

// Kernel is a kernel: its unit (PTX module), its name in the unit, the C struct of its arguments, and the compute capability for
// which it exists: 75 and later, 80 and later, or only 90.
type Kernel struct {
	Unit, Name, Args string
	Arch             int
}

// Exists reports whether the kernel is in the PTX of a target.
func (k Kernel) Exists(target string) bool {
	switch k.Arch {
	case 90:
		return target == "sm_90a"
	case 80:
		return target != "sm_75"
	}
	return true
}

// Kernels returns all kernels in the order of kernels.def.
func Kernels() ([]Kernel, error) {
	text, err := files.ReadFile("kernels.def")
	if err != nil {
		return nil, fmt.Errorf("list kernels: %w", err)
	}
	var out []Kernel
	for i, line := range strings.Split(string(text), "\n") {
		inner, ok := strings.CutPrefix(line, "K(")
		if !ok {
			continue
		}
		k, err := parseKernel(inner)
		if err != nil {
			return nil, fmt.Errorf("list kernels: kernels.def line %d: %w", i+1, err)
		}
		out = append(out, k)
	}
	return out, nil
}

// parseKernel parses "unit, name, args, launch(...), arch)".
func parseKernel(s string) (Kernel, error) {
	fields := strings.SplitN(s, ",", 4)
	if len(fields) != 4 {
		return Kernel{}, fmt.Errorf("%q has not five fields", s)
	}
	for i := range fields {
		fields[i] = strings.TrimSpace(fields[i])
	}
	k := Kernel{Unit: fields[0], Name: fields[1], Args: fields[2]}
	last := strings.TrimSuffix(fields[3][strings.LastIndexByte(fields[3], ',')+1:], ")")
	if _, err := fmt.Sscan(last, &k.Arch); err != nil {
		return Kernel{}, fmt.Errorf("least architecture %q of %s: %w", last, k.Name, err)
	}
	return k, nil
}

// PTX returns the PTX of a unit for a target, with the zero byte at its end that the driver needs.
func PTX(target, unit string) ([]byte, error) {
	packed, err := files.ReadFile("ptx/" + unit + ".ptx.zst")
	if err != nil {
		return nil, fmt.Errorf("load kernels: no PTX of unit %q", unit)
	}
	unpack, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1))
	if err != nil {
		return nil, fmt.Errorf("load kernels: %w", err)
	}
	defer unpack.Close()
	modules, err := unpack.DecodeAll(packed, nil)
	if err != nil {
		return nil, fmt.Errorf("load kernels: unpack unit %q: %w", unit, err)
	}
	for text := range bytes.SplitAfterSeq(modules, []byte{0}) {
		if bytes.Contains(text, []byte("\n.target "+target+"\n")) {
			return text, nil
		}
	}
	return nil, fmt.Errorf("load kernels: no PTX of unit %q for %s", unit, target)
}
