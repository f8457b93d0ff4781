package gpus

import (
	"fmt"

	"latentbeam/internal/cluster"
	"latentbeam/kernels"
	"latentbeam/kernels/cuda"
	"latentbeam/schemas/fault"
)

// CUDA returns the Maker of kernels/cuda. A backend holds at most memory bytes of tensors; 0: no limit.
// Without CUDA in the program, or without a driver on the host, no device is visible.
func CUDA(memory int64) Maker { return cudaMaker{memory} }

type cudaMaker struct{ memory int64 }

// Visible implements Maker.
func (m cudaMaker) Visible() (out []Visible, err error) {
	devices, err := cuda.Devices()
	for _, d := range devices {
		out = append(out, Visible{UUID: d.UUID, Name: d.Name, Memory: d.Memory, Class: d.Class(), TooOld: d.TooOld()})
	}
	return out, err
}

// Open implements Maker.
func (m cudaMaker) Open(uuid string) (kernels.Backend, error) {
	devices, err := cuda.Devices()
	if err != nil {
		return nil, err
	}
	for _, d := range devices {
		if d.UUID == uuid {
			return cuda.New(d.Index, cuda.Options{Memory: m.memory})
		}
	}
	return nil, fault.DeviceLost(fmt.Errorf("CUDA shows no device %s", uuid))
}

// Staged returns the number of bytes that were copied between devices through host memory.
func (m cudaMaker) Staged() int64 { return cuda.Staged() }

// Connect implements Maker. A backend copies from another device over their link, or through the host if they have
// none.
func (m cudaMaker) Connect(devices []kernels.Backend) ([]kernels.Transport, error) {
	return cluster.Shared(len(devices)), nil
}
