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

// Foresight is what is known of a run before it begins.
type Foresight struct {
	Steps    []stages.Step
	Pool     devices.Pool         // whose devices are not leased
	Devices  []layout.DeviceModel // the same, as the cost model knows them
	Held     []cost.Held          // how the weights of the steps lie; none: whole
	MaxBatch int
	Facts    []memory.Fact
	Rows     []Expected // by shape
	// Width is how many devices a batch of the denoiser has, instead of what the run would choose; 0: that.
	Width int

	// Predictions are shared by the outlooks of one job; nil: this one has its own.
	Predictions *Predictions
}

// Outlook is what a run will do with its batches, as far as the cost model is right.
type Outlook struct {
	Seconds float64
	Leases  []Lease // those that are alike as one, by stage in order, the most frequent first
}

// Lease is a batch on its devices.
type Lease struct {
	Stage    string
	Shape    schemas.Bucket
	Elements int
	Batches  int // that were taken together as they waited for devices, 1 for one alone
	Devices  int
	Times    int     // how many of these there are
	Seconds  float64 // of all their devices together
}

// maxForeseen bounds the batches that are played through: what comes before the end of a longer job goes on alike.
const maxForeseen = 300

// Outlook plays the run through on a clock of its own. The code of a real run assigns devices and joins batches
// (see turns and stage.choose).
func (f Foresight) Outlook() (Outlook, error) {
	p, err := f.play()
	if err != nil {
		return Outlook{}, err
	}
	for p.pass(); ; p.pass() {
		if !p.turns.grant(p.Pool) {
			return Outlook{}, ErrNoDevice
		}
		p.start()
		if p.late() {
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

// outlook sums up. What was left out is added at the pace of the middle of what was played.
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
