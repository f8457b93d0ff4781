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
	Local devices.Pool   // of this process, empty where all are on other hosts
	Fleet *devices.Fleet // local and the devices of other hosts; nil where there are none

	end func() // releases the local devices
}

// Wanted is what a job wants of devices.
type Wanted struct {
	Config *config.Config
	Start  jobfile.Start
	Steps  []stages.Step
	// Planned are the devices of another machine, that the job is only planned for.
	Planned []layout.DeviceModel
	// Look says that devices are only looked at: others may want them.
	Look bool
	// Away says that others compute with their devices.
	Away   bool
	Class  string // numeric class of the submitter, which a worker must have; "": any
	Before string // that of the rows of the output, taken where the job asks for none
}

// Open opens the devices of this process for a job, and finds the devices of the workers on other hosts.
func Open(w Wanted) (m Machines, err error) {
	if m.Local, m.end, err = openLocal(w); err != nil || w.Planned != nil {
		return m, err
	}
	if m.Fleet, err = dial(w.Config, w.Start, w.Steps, m.Local); err != nil {
		m.end()
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
	m.end()
}

// Facts returns what the devices of this process have to say of the run, nil for those of a CPU.
func (m Machines) Facts() any {
	if facts := m.Local.Capabilities().Facts; facts != nil {
		return facts()
	}
	return nil
}

// Exchanges returns how sets over several hosts have exchanged; nil where links were out of the question.
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
