package gpus

import (
	"fmt"

	"latentbeam/internal/cluster"
	"latentbeam/kernels"
	"latentbeam/kernels/cuda"
	"latentbeam/schemas/fault"
)

// CUDA returns the Maker of kernels/cuda, whose backends hold at most memory bytes of tensors; 0: what there is.
// In a program that was built without CUDA, or on a host without a driver, nothing is visible.
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

// Staged returns the bytes that went from device to device through host memory.
func (m cudaMaker) Staged() int64 { return cuda.Staged() }

// Connect implements Maker. A backend copies from tensors of another device over their link, or through the host
// where they have none.
func (m cudaMaker) Connect(devices []kernels.Backend) ([]kernels.Transport, error) {
	return cluster.Shared(len(devices)), nil
}
