package schedule

import (
	"cmp"
	"errors"
	"slices"

	"latentbeam/internal/devices"
	"latentbeam/internal/engine/memory"
	"latentbeam/schemas"
	"latentbeam/stages"
	"latentbeam/stages/cost"
	"latentbeam/stages/layout"
)

// Foresight is the input of a prediction: all that is known of a run before it starts.
type Foresight struct {
	Steps      []stages.Step
	Pool       devices.Pool         // its devices are not leased
	Devices    []layout.DeviceModel // the pool's devices, as the cost model describes them
	Placements []cost.Placement     // where the weights of the steps are; empty: fully resident
	MaxBatch   int
	Facts      []memory.Fact
	Rows       []Expected // rows by shape
	// Width is the number of devices of a denoiser's batch; 0: the run chooses.
	Width int

	// Predictions may be shared by the outlooks of one job; nil: a new one.
	Predictions *Predictions
}

// Outlook predicts how a run will compute its batches. It is as good as the cost model.
type Outlook struct {
	Seconds float64
	Leases  []Lease // equal leases merged; by stage, most elements first
}

// Lease describes equal batches on equal numbers of devices.
type Lease struct {
	Stage    string
	Shape    schemas.Bucket
	Elements int
	Batches  int // waiting batches that were combined; 1: not combined
	Devices  int
	Times    int     // number of such leases
	Seconds  float64 // device seconds of all of them
}

// maxForeseen bounds the simulated batches. The middle of a longer job is extrapolated, because it repeats itself.
const maxForeseen = 300

// Outlook simulates the run on its own clock. The code of real runs assigns the devices and combines the batches
// (see turns and step.choose).
func (f Foresight) Outlook() (Outlook, error) {
	p, err := f.play()
	if err != nil {
		return Outlook{}, err
	}
	for p.moveBatches(); ; p.moveBatches() {
		if !p.turns.grant(p.Pool) {
			return Outlook{}, ErrNoDevice
		}
		p.startGranted()
		if p.retryFirst() {
			continue
		}
		first := p.first()
		if first < 0 {
			break
		}
		p.finish(first)
	}
	if len(p.waiting) > 0 {
		return Outlook{}, errors.New("foresee the run: its batches wait for each other")
	}
	return p.outlook(), nil
}

// outlook sums up the simulation. Rows that were not simulated are added at the pace of its middle part.
func (p *play) outlook() Outlook {
	out := Outlook{Seconds: p.clock.now.Seconds(), Leases: p.leases}
	slices.SortStableFunc(out.Leases, func(a, b Lease) int {
		return cmp.Or(cmp.Compare(p.index(a.Stage), p.index(b.Stage)), -cmp.Compare(a.Times*a.Elements, b.Times*b.Elements))
	})
	left := 0
	for _, c := range p.coming {
		left += c.whole - c.all
		shape := schemas.BucketOf(c.row.Row)
		for _, step := range p.Steps {
			i := slices.IndexFunc(out.Leases, func(l Lease) bool { return l.Stage == step.Name && l.Shape == shape })
			if i >= 0 {
				l := &out.Leases[i]
				more := (c.whole - c.all) / l.Elements
				l.Seconds += l.Seconds / float64(l.Times) * float64(more)
				l.Times += more
			}
		}
	}
	if n := len(p.ends); left > 0 && n > 4 {
		a, b := p.ends[n/4], p.ends[3*n/4]
		out.Seconds += float64(left) * (b.at - a.at).Seconds() / float64(b.rows-a.rows)
	}
	return out
}

func (p *play) index(stage string) int {
	return slices.IndexFunc(p.Steps, func(s stages.Step) bool { return s.Name == stage })
}
