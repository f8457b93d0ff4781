package hardware

import (
	"latentbeam/internal/cluster"
	"latentbeam/internal/config"
	"latentbeam/internal/devices"
	"latentbeam/pipelines/jobfile"
	"latentbeam/stages"
	"latentbeam/stages/layout"
)

// Machines are the devices of a job.
type Machines struct {
	Local devices.Pool   // devices of this process; empty if all devices are on other hosts
	Fleet *devices.Fleet // local devices and devices of other hosts; nil: no other hosts

	release func() // releases the local devices
}

// Request describes the devices that a job needs.
type Request struct {
	Config *config.Config
	Start  jobfile.Start
	Steps  []stages.Step
	// Planned are the devices of another machine, for which the job is only planned.
	Planned []layout.DeviceModel
	// Inspect says that the devices are only inspected and not acquired, because other processes may need them.
	Inspect bool
	// Away says that other processes compute, with their own devices.
	Away   bool
	Class  string // numeric class of the submitter, in which a worker must compute; "": any
	Before string // numeric class of the output's rows, used if the job asks for none
}

// Open opens the devices of this process for a job, and connects to the workers on other hosts.
func Open(w Request) (m Machines, err error) {
	if m.Local, m.release, err = openLocal(w); err != nil || w.Planned != nil {
		return m, err
	}
	if m.Fleet, err = dial(w.Config, w.Start, w.Steps, m.Local); err != nil {
		m.release()
		return Machines{}, err
	}
	return m, nil
}

// Workers returns all devices.
func (m Machines) Workers() devices.Pool {
	if m.Fleet != nil {
		return m.Fleet
	}
	return m.Local
}

// Close releases the devices.
func (m Machines) Close() {
	if m.Fleet != nil {
		m.Fleet.Close()
	}
	m.release()
}

// Facts returns what the devices of this process measured during the run; nil for CPU workers.
func (m Machines) Facts() any {
	if facts := m.Local.Capabilities().Facts; facts != nil {
		return facts()
	}
	return nil
}

// Exchanges counts how sets that span hosts exchanged tensors; nil: there was no exchange between hosts.
func (m Machines) Exchanges() *cluster.Links {
	if m.Fleet == nil {
		return nil
	}
	links := m.Fleet.Exchanges()
	if links.Linked+links.TCP == 0 {
		return nil
	}
	return &links
}
