package layout

import (
	"fmt"

	"latentbeam/stages/cost"
	"latentbeam/stages/sequence"
)

// Forward is the prediction for one evaluation of the denoiser on a set of devices.
type Forward struct {
	Plan    *sequence.Plan
	Compute float64 // seconds of the busiest device, at least its kernel launches
	Wire    float64 // seconds of the exchanges
	Sent    int64   // bytes that the busiest device sends
	AllSent int64   // bytes that all devices send
	Waste   float64 // work of the busiest device beyond its fair share, with padding: 0.01 is one percent
}

// Seconds returns the time of the step. Exchanges do not overlap with computation.
func (f Forward) Seconds() float64 { return f.Compute + f.Wire }

// partitions lists the partitions.
var partitions = []sequence.Partition{sequence.Uneven, sequence.Pad}

// Partitions returns the partitions that the option `partition` allows: "auto", "pad" or "uneven".
func Partitions(option string) ([]sequence.Partition, error) {
	if option == "auto" || option == "" {
		return partitions, nil
	}
	p, err := sequence.ParsePartition(option)
	if err != nil {
		return nil, fmt.Errorf("%w, or auto", err)
	}
	return []sequence.Partition{p}, nil
}

// Cheapest returns the allowed partition of k elements over a set of devices with the shortest predicted step. It tries Uneven
// both with ranges of queries and with whole heads, which do not repeat keys.
func Cheapest(s cost.Split, k int, devices []DeviceModel) (Forward, error) {
	if g := s.Grid; g.Shards() > 1 && len(devices) == g.Ranks() {
		f, err := sharing(s).onGrid(k, devices)
		f.Compute = max(f.Compute, starting(s.Kernels.Calls/float64(g.Pipeline), devices))
		return f, err
	}
	var best Forward
	least, deciders := 0.0, deciding(devices)
	allowed := s.Partitions
	if len(allowed) == 0 {
		allowed = partitions
	}
	for _, kind := range allowed {
		shapes := []sequence.Shape{sharing(s).batch(k)}
		if kind == sequence.Uneven && s.Shape.QueryTile != 0 {
			whole := sharing(s).batch(k)
			whole.QueryTile = 0
			shapes = append(shapes, whole)
		}
		for _, shape := range shapes {
			p, err := sequence.New(shape, kind, rates(deciders))
			if err != nil {
				return Forward{}, err
			}
			if t := sharing(s).predict(p, deciders).Seconds(); best.Plan == nil || t < least {
				best, least = sharing(s).predict(p, devices), t
			}
		}
	}
	best.Compute = max(best.Compute, starting(s.Kernels.Calls, devices))
	return best, nil
}

// predict returns the predicted time of a step with plan p.
func (s sharing) predict(p *sequence.Plan, devices []DeviceModel) Forward {
	f := Forward{Plan: p}
	bandwidth, latency := wire(devices)
	var rate, local, shared float64
	for r, traffic := range p.Sent() {
		d, l := devices[r], p.Load(r, s.Costs)
		local, shared = max(local, l.Local/d.Rate), max(shared, l.Shared/d.Rate)
		rate += d.Rate
		sent := traffic.Total() * int64(s.Pairs*s.Bytes)
		f.Sent, f.AllSent = max(f.Sent, sent), f.AllSent+sent
	}
	f.Compute = float64(s.Pairs) * (local + shared)
	if f.AllSent > 0 {
		f.Wire = float64(f.Sent)/bandwidth + float64(2*s.Pairs)*latency // to the ranks that compute frames, and back
	}
	f.Waste = f.Compute/(float64(s.Pairs)*p.Shape.Total(s.Costs)/rate) - 1
	return f
}
