package nntest

import (
	"fmt"
	"os"
	"testing"

	"latentbeam/kernels"
	"latentbeam/kernels/cpu"
	"latentbeam/kernels/cuda"
)

// DeviceEnv names the device that measurements run on: "cuda:0", or nothing for the CPU.
const DeviceEnv = "LATENTBEAM_BENCH_DEVICE"

// Device returns a new backend on the device of DeviceEnv.
func Device(t testing.TB) kernels.Backend {
	t.Helper()
	name := os.Getenv(DeviceEnv)
	if name == "" {
		return cpu.New(0)
	}
	var index int
	if _, err := fmt.Sscanf(name, "cuda:%d", &index); err != nil {
		t.Fatalf("%s=%s: give cuda:0, or nothing for the CPU", DeviceEnv, name)
	}
	be, err := cuda.New(index, cuda.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return be
}
