package host

import (
	"context"
	"fmt"
	"log/slog"
	"slices"

	"latentbeam/internal/devices"
	"latentbeam/kernels"
	"latentbeam/schemas/fault"
	"latentbeam/stages"
	"latentbeam/stages/cost"
)

// Load brings every step's weights to a device, so that a checkpoint that does not fit is known first, and no set waits
// for them later. A pool that is only planned for, or is empty, gets none.
func (h *Stages) Load(ctx context.Context) error {
	if h.devices.Capabilities().Planned || h.devices.Size() == 0 {
		return nil
	}
	h.loaded, h.isLoaded = h.Held(), true
	for tries := h.devices.Size(); ; tries-- {
		dev, release, err := devices.Lease(ctx, h.devices)
		if err != nil {
			return err
		}
		err = h.loadOn(dev)
		release(err == nil)
		if tries <= 1 || !fault.IsDeviceLost(err) { // else the job goes on with those that are left
			return err
		}
		slog.Warn("a device is lost while it is brought its weights", "error", err)
	}
}

// Looking returns the stages that only look, as a job of their own on the same devices: a run that makes no result brings their
// weights alone to devices. The memory that was counted for the weights of all stages is free.
func (h *Stages) Looking() *Stages {
	h.devices.Forget(h)
	looking := &Stages{Config: h.Config, Model: h.Model, Defaults: h.Defaults, Facts: h.Facts, devices: h.devices}
	for i, s := range h.Steps {
		if s.Looks {
			looking.Steps, looking.places = append(looking.Steps, s), append(looking.places, i)
		}
	}
	return looking
}

// place is where a step stands in the file.
func (h *Stages) place(i int) string {
	if h.places != nil {
		i = h.places[i]
	}
	return fmt.Sprintf("stages.%d", i)
}

// Reload loads again where weights lie otherwise since then: what another step left on a device would be in the way.
func (h *Stages) Reload(ctx context.Context) error {
	if h.isLoaded && slices.EqualFunc(h.loaded, h.Held(), cost.Held.Same) {
		return nil
	}
	return h.Load(ctx)
}

// loadOn brings the weights of the steps to a device. The loss of the device says nothing about the weights.
func (h *Stages) loadOn(dev kernels.Backend) error {
	for i, s := range h.Steps {
		err := loadStep(s, dev)
		if fault.IsDeviceLost(err) {
			return err
		}
		if err != nil {
			return h.Config.Errorf(h.place(i), "%v", err)
		}
	}
	return nil
}

// loadStep brings the weights of a stage to a device: where they are cut, all the parts that ranks on it can have.
func loadStep(s stages.Step, dev kernels.Backend) error {
	can := s.Capabilities()
	if can.Loading == nil {
		return nil
	}
	if n := can.Shards(); n > 1 {
		if dev.Device() != "cpu" {
			return nil // it has no room for the parts of others; each gets its own with its first batch
		}
		for shard := range n {
			if err := can.Loading.LoadShard(dev, shard); err != nil {
				return err
			}
		}
		return nil
	}
	return can.Loading.Load(dev)
}
