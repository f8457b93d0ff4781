package layout

import (
	"fmt"
	"slices"

	"latentbeam/stages/cost"
	"latentbeam/stages/sequence"
)

// reserve is the part of a device's memory that is left free, for what no model of memory knows.
const reserve = 0.1

// MemoryUse is what one device holds at its fullest, in bytes.
type MemoryUse struct {
	Stage       string // that is at work then
	Weights     int64
	Activations int64 // of the stage at work, inputs and outputs included
	Exchange    int64 // the frames that are at a rank beside its columns
}

// Total returns everything together.
func (m MemoryUse) Total() int64 { return m.Weights + m.Activations + m.Exchange }

// room returns what a job may fill of a device.
func (d DeviceModel) room() int64 {
	if d.Mapped {
		return d.Memory
	}
	return int64(float64(d.Memory) * (1 - reserve))
}

// What NCCL takes of the memory of a device for its communicator, by its source (init.cc, transport/net.cc and
// transport/p2p.cc of 2.27); not measured, but users see 1.6 GB (NVIDIA/nccl issue 864). A connection has a buffer for
// each protocol, 4 MiB (Simple), 4.7 MiB (LL128) and 0.5 MiB (LL); to a peer there are two channels where some are on
// other hosts, in both directions.
const (
	linkPeer = 2 * 2 * (4<<20 + 120*640*8*8 + 512<<10)
	// linkBase is for what does not depend on the peers: pools of 32 channels x 16 steps x 128 KiB in both directions, and
	// rings of up to 32 channels in both, which versions before 2.22 connect at once.
	linkBase = 2*32*16*(128<<10) + linkPeer*32/2
)

// Linked is what a device keeps for its link with the others of a set of ranks on several hosts, of which it has one.
func Linked(ranks int) int64 { return linkBase + int64(ranks-1)*linkPeer }

// Offer returns what a batch may use on any one of devices with a memory of their own, beside so many bytes of
// weights, and links where they are on several hosts. It fills half of it at most: more gains little, and what is not
// as it was predicted has room.
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

// bytesOn returns what of m a device must have room for.
func (d DeviceModel) bytesOn(m MemoryUse) int64 {
	switch {
	case d.Mapped && d.Sharers == 0:
		return m.Activations + m.Exchange
	case d.Mapped:
		return m.Activations + m.Exchange + m.Weights/int64(d.Sharers)
	}
	return m.Total()
}

// memory returns what rank r of plan p holds at its fullest when its set works on k elements, beside the weights of
// all stages. Stages that cannot be split take their elements one by one.
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

// exchange returns the numbers that rank r holds for attention inside frames beside its columns: the tokens
// of its frames and the results for them, and q, k, v and o of its pieces, also where it gets tokens and makes
// them itself. Alone it needs none.
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
