package layout

import (
	"fmt"
	"slices"

	"latentbeam/stages/cost"
	"latentbeam/stages/sequence"
)

// reserve is the part of a device's memory that is kept free for memory that no model predicts.
const reserve = 0.1

// MemoryUse is the peak memory of one device in bytes.
type MemoryUse struct {
	Stage       string // the stage that is running at the peak
	Weights     int64
	Activations int64 // of the running stage, with inputs and outputs
	Exchange    int64 // frames that a rank holds for attention, besides its columns
}

// Total returns the sum.
func (m MemoryUse) Total() int64 { return m.Weights + m.Activations + m.Exchange }

// room returns how much of a device's memory a job may use.
func (d DeviceModel) room() int64 {
	if d.Mapped {
		return d.Memory
	}
	return int64(float64(d.Memory) * (1 - reserve))
}

// Memory that NCCL uses on a device for its communicator, according to its source (init.cc, transport/net.cc and
// transport/p2p.cc of 2.27). It was not measured; users report 1.6 GB (NVIDIA/nccl issue 864). A connection has a buffer for
// each protocol: 4 MiB (Simple), 4.7 MiB (LL128) and 0.5 MiB (LL). If some ranks are on other hosts, two channels in each
// direction connect a device with a peer.
const (
	linkPeer = 2 * 2 * (4<<20 + 120*640*8*8 + 512<<10)
	// linkBase is the part that does not depend on the peers: pools of 32 channels x 16 steps x 128 KiB in both directions, and
	// rings of up to 32 channels in both, which versions before 2.22 connect at once.
	linkBase = 2*32*16*(128<<10) + linkPeer*32/2
)

// Linked returns the memory that a device needs for its link with the other ranks of a set on several hosts.
func Linked(ranks int) int64 { return linkBase + int64(ranks-1)*linkPeer }

// Offer returns the memory that a batch may use on any of the devices, which have memory of their own, after weights bytes of
// weights, and links if they are on several hosts. The target is at most half of the room: a larger batch gains little, and the
// rest allows for errors of the prediction.
func Offer(devices []DeviceModel, weights int64) cost.Memory {
	if len(devices) == 0 {
		return cost.Memory{}
	}
	limit := least(devices) - weights
	if slices.ContainsFunc(devices, func(d DeviceModel) bool { return d.Node != devices[0].Node }) {
		limit -= Linked(len(devices))
	}
	limit = max(0, limit)
	return cost.Memory{Target: limit / 2, Limit: limit}
}

// bytesOn returns how much of m a device must have room for.
func (d DeviceModel) bytesOn(m MemoryUse) int64 {
	switch {
	case d.Mapped && d.Sharers == 0:
		return m.Activations + m.Exchange
	case d.Mapped:
		return m.Activations + m.Exchange + m.Weights/int64(d.Sharers)
	}
	return m.Total()
}

// memory returns the peak memory of rank r of plan p when its set computes k elements, with the weights of all stages. Stages
// that cannot be split compute their elements one by one.
func memory(stages []cost.Estimate, p *sequence.Plan, k, r int) (fullest MemoryUse, err error) {
	var all int64
	for _, s := range stages {
		all += s.Weights
		if s.Split != nil {
			r = s.Split.Share(r, p)
		}
	}
	for _, s := range stages {
		m := MemoryUse{Stage: s.Name, Weights: all}
		n := 1
		if s.Split != nil {
			n = k
			m.Exchange = exchange(p, r) * int64(s.Split.Bytes)
		}
		if s.Need != nil {
			if m.Activations, err = s.Need(n); err != nil {
				return m, fmt.Errorf("memory of %s: %w", s.Name, err)
			}
		}
		if s.Split != nil {
			columns := p.Shape.Batch * p.Shape.Positions
			m.Activations = int64(float64(m.Activations) * float64(p.ColumnSlots(r)) / float64(columns))
		}
		if m.Total() > fullest.Total() {
			fullest = m
		}
	}
	return fullest, nil
}

// exchange returns how many numbers rank r holds for attention inside frames, besides its columns: the tokens of its frames and
// their results, and q, k, v and o of its pieces, also for pieces that it computes from tokens. A rank alone holds none.
func exchange(p *sequence.Plan, r int) (n int64) {
	if !p.Moves() {
		return 0
	}
	s := p.Shape
	n = int64(2*p.FrameSlots(r)+len(p.Copies(r))) * int64(p.Keys) * int64(s.Width())
	for _, c := range p.Pieces(r) {
		n += 2 * int64(c.Heads.Len()) * int64(c.Queries.Len()+s.Positions) * int64(s.HeadSize)
	}
	if s.Full {
		for _, c := range p.Full()[r] {
			n += 2 * int64(c.Heads.Len()) * int64(c.Queries.Len()+s.Frames*s.Positions) * int64(s.HeadSize)
		}
	}
	return n
}
