package pipelines

import (
	"context"

	"latentbeam/internal/cluster"
	"latentbeam/internal/devices"
	"latentbeam/internal/engine/host"
	"latentbeam/pipelines/hardware"
	"latentbeam/schemas"
)

// machines are the devices of a job.
type machines struct {
	local devices.Pool   // of this process, none where all are on other hosts
	fleet *devices.Fleet // local and the devices of other hosts; nil where there are none
}

// facts returns what the devices of this process have to say of the run, nil for those of a CPU.
func (m machines) facts() any {
	if facts := m.local.Capabilities().Facts; facts != nil {
		return facts()
	}
	return nil
}

// exchanges returns how sets over several hosts have exchanged; nil where links were out of the question.
func (m machines) exchanges() *cluster.Links {
	if m.fleet == nil {
		return nil
	}
	links := m.fleet.Exchanges()
	if links.Linked+links.TCP == 0 {
		return nil
	}
	return &links
}

// openDevices opens the devices of this process and finds those of the workers on other hosts.
func (j *Job) openDevices() (devices.Pool, error) {
	steps, defaults := j.host.Steps, &j.host.Defaults
	if !j.Opts.worker {
		j.before = j.Opts.outputs.class(context.Background(), j.Config.Output.Path, part(j.Opts))
	}
	devices, end, err := hardware.Open(hardware.Wanted{Config: j.Config, File: j.Opts.Start.File, Planned: j.Opts.Devices,
		Look: j.Opts.Look, Away: j.spread.away, Class: j.Opts.class, Before: j.before})
	if err != nil {
		return nil, err
	}
	j.machines.local = devices
	j.host.On(host.NewDevices(devices))
	j.close = append(j.close, end)
	if j.Opts.Devices != nil {
		return devices, j.host.Arrange([]schemas.PromptRow{*defaults}, 0)
	}
	if j.machines.fleet, err = hardware.Dial(j.Config, j.Opts.Start, steps, devices); err != nil {
		return nil, err
	}
	workers := devices
	if j.machines.fleet != nil {
		workers = j.machines.fleet
		j.close = append(j.close, j.machines.fleet.Close)
	}
	j.host.Facts = j.Opts.outputs.recall(context.Background(), j.Config.Output.Path, part(j.Opts), workers.Class())
	if err := j.host.Arrange([]schemas.PromptRow{*defaults}, 0); err != nil {
		return nil, err
	}
	return workers, hardware.CheckWidths(j.Config, steps, defaults, workers.Size())
}
