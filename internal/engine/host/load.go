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

// Load loads the weights of every step onto one device, so that a checkpoint that does not fit fails early and no set waits
// for weights later. It does nothing for an empty pool or a pool that only a plan uses.
func (h *Stages) Load(ctx context.Context) error {
	if h.devices.Capabilities().Planned || h.devices.Size() == 0 {
		return nil
	}
	h.loaded, h.isLoaded = h.Placements(), true
	for tries := h.devices.Size(); ; tries-- {
		dev, release, err := devices.Lease(ctx, h.devices)
		if err != nil {
			return err
		}
		err = h.loadOn(dev)
		release(err == nil)
		if tries <= 1 || !fault.IsDeviceLost(err) { // after a lost device, try the next one
			return err
		}
		slog.Warn("a device is lost while it is brought its weights", "error", err)
	}
}

// Looking returns the stages that only measure, as Stages of their own on the same devices. A run that computes no result loads only
// their weights. Looking frees the memory that was reserved for the weights of all stages.
func (h *Stages) Looking() *Stages {
	h.devices.Forget(h)
	looking := &Stages{Config: h.Config, Model: h.Model, Defaults: h.Defaults, Facts: h.Facts, devices: h.devices}
	for i, s := range h.Steps {
		if s.MeasuresOnly {
			looking.Steps, looking.places = append(looking.Steps, s), append(looking.places, i)
		}
	}
	return looking
}

// place returns the path of a step in the configuration file.
func (h *Stages) place(i int) string {
	if h.places != nil {
		i = h.places[i]
	}
	return fmt.Sprintf("stages.%d", i)
}

// Reload loads the weights again if their arrangement has changed since Load, because old weights of another step would occupy memory.
func (h *Stages) Reload(ctx context.Context) error {
	if h.isLoaded && slices.EqualFunc(h.loaded, h.Placements(), cost.Placement.Same) {
		return nil
	}
	return h.Load(ctx)
}

// loadOn loads the weights of the steps onto a device. Other errors than the loss of the device name the step's place in the file.
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

// loadStep loads the weights of a stage onto a device. On the CPU it loads all shards, because ranks share the memory.
func loadStep(s stages.Step, dev kernels.Backend) error {
	can := s.Capabilities()
	if can.Loading == nil {
		return nil
	}
	if n := can.Shards(); n > 1 {
		if dev.Device() != "cpu" {
			return nil // no room for shards of other ranks; each device loads its shard with its first batch
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
