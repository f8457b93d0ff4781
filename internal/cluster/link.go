package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"latentbeam/kernels"
)

// offer is a rank's message to the others before and after its device is linked.
type offer struct {
	Kind string `json:"kind,omitempty"` // of the link that the rank's device supports
	Why  string `json:"why,omitempty"`  // reason for no link; "": the device can be linked
	ID   []byte `json:"id,omitempty"`   // of the new link, from rank 0
	Kept string `json:"kept,omitempty"` // label of an open link of an earlier group with the same rank and size
	// Follows says that the rank gave up only because another rank did.
	Follows bool `json:"follows,omitempty"`
}

// linkAll links the devices of ends, the ranks of this process, if the table allows it and all ranks can be linked; else it returns
// ends as they are. If the ranks cannot agree whether they are linked, the group ends with an error.
func (n *Node) linkAll(ctx context.Context, t Table, ends []*mesh, devices []kernels.Backend) (
	[]kernels.Transport, error) {
	out, errs := make([]kernels.Transport, len(ends)), make([]error, len(ends))
	var all sync.WaitGroup
	for i, m := range ends {
		if out[i] = m; t.Link && m.size > 1 {
			all.Go(func() { out[i], errs[i] = n.link(ctx, m, devices[i]) })
		}
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		for i, m := range ends {
			m.Close()
			if l, ok := out[i].(*linked); ok { // a group that has ended does not retain its link
				l.Close()
			}
		}
		return nil, fmt.Errorf("join group: %w", err)
	}
	return out, nil
}

// link lets the ranks agree on a link, in three rounds of messages: the kind of link that each rank supports, the id of the
// link, and whether each rank is linked. One round is enough if all ranks still have the same link of an earlier group.
// All ranks get the same messages, so all decide alike. If the devices cannot be linked, link returns m; it
// returns an error only if a connection fails.
func (n *Node) link(ctx context.Context, m *mesh, be kernels.Backend) (kernels.Transport, error) {
	dev, mine := n.offer(m, be)
	offers, err := m.swap(ctx, mine)
	if err != nil {
		return nil, err
	}
	if why := differ(offers); why != "" {
		n.links.countTCP(why)
		return m, nil
	}
	k := n.links.acquire(be.Device(), mine.Kept)
	if k != nil && slices.ContainsFunc(offers, func(o offer) bool { return o.Kept != k.label }) {
		k.link.Close() // it needs memory, and another rank no longer has this link
		k = nil
	}
	if k != nil {
		n.links.countLinked(mine.Kind)
		return newLinked(m, k, n), nil
	}
	id, why, err := m.invite(ctx, dev)
	var link kernels.Link
	if err == nil && why == "" {
		link, why, err = m.enter(ctx, dev, id, n.links.within)
	}
	switch {
	case err != nil:
		return nil, err
	case why != "":
		n.links.startAvoiding(why)
		n.links.countTCP(why)
		return m, nil
	}
	n.links.countLinked(mine.Kind)
	return newLinked(m, &kept{label: labelOf(id), device: be.Device(), rank: m.rank, size: m.size, dev: dev,
		link: link}, n), nil
}

// offer returns the linker of the rank's device, and the offer for the first round.
func (n *Node) offer(m *mesh, be kernels.Backend) (kernels.Linker, offer) {
	if n.links.avoided() {
		return nil, offer{Why: "not tried again for now, after a failure"}
	}
	dev := be.Capabilities().Linker
	if dev == nil {
		return nil, offer{Why: "the device " + be.Device() + " has no links"}
	}
	kind, err := dev.LinkKind()
	if err != nil {
		return nil, offer{Why: err.Error()}
	}
	return dev, offer{Kind: kind, Kept: n.links.idleLabel(be.Device(), dev, m.rank, m.size)}
}

// invite lets rank 0 tell the others the id of a new link; why says why rank 0 has no id. Only call it if the link will be
// used: NCCL starts a thread and opens a port for each id, and never frees them.
func (m *mesh) invite(ctx context.Context, dev kernels.Linker) (id []byte, why string, err error) {
	var mine offer
	if m.rank == 0 {
		if mine.ID, err = dev.NewLink(); err != nil {
			mine.Why = err.Error()
		}
	}
	offers, err := m.swap(ctx, mine)
	if err != nil {
		return nil, "", err
	}
	return offers[0].ID, differ(offers), nil
}

// differ returns the reason why ranks with these offers cannot be linked; "": they can.
func differ(offers []offer) string {
	whys, kinds := map[string][]int{}, map[string][]int{}
	for r, o := range offers {
		switch {
		case o.Why == "":
			kinds[o.Kind] = append(kinds[o.Kind], r)
		case !o.Follows:
			whys[o.Why] = append(whys[o.Why], r)
		}
	}
	var texts []string
	for why, ranks := range whys {
		texts = append(texts, fmt.Sprintf("ranks %v: %s", ranks, why))
	}
	if len(whys) == 0 && len(kinds) > 1 {
		for kind, ranks := range kinds {
			texts = append(texts, fmt.Sprintf("ranks %v have %s", ranks, kind))
		}
	}
	slices.Sort(texts)
	return strings.Join(texts, "; ")
}

var errOther = errors.New("another rank could not be linked")

// enter links the rank's device. If this or another device cannot be linked, why gives the reason and no device is linked.
func (m *mesh) enter(ctx context.Context, dev kernels.Linker, id []byte, patience time.Duration) (
	link kernels.Link, why string, err error) {
	within, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("not linked within %v", patience))
	defer cancel()
	within, leave := context.WithCancelCause(within)
	defer leave(nil)
	heard := m.receiveOffers(ctx, func(o offer, err error) {
		if err != nil || o.Why != "" {
			leave(errOther)
		}
	})
	var mine offer
	link, failure := dev.Link(within, id, m.rank, m.size)
	if failure != nil {
		mine = offer{Why: failure.Error(), Follows: errors.Is(failure, errOther)}
	}
	err = m.sendOffers(ctx, mine)
	offers, lost := heard()
	if err = errors.Join(err, lost); err == nil {
		offers[m.rank] = mine
		why = differ(offers)
	}
	if failure == nil && (err != nil || why != "") {
		link.Close()
	}
	return link, why, err
}

// swap sends this rank's offer to all others and returns the offers of all ranks.
func (m *mesh) swap(ctx context.Context, mine offer) ([]offer, error) {
	heard := m.receiveOffers(ctx, func(offer, error) {})
	err := m.sendOffers(ctx, mine)
	offers, lost := heard()
	if err = errors.Join(err, lost); err != nil {
		return nil, err
	}
	offers[m.rank] = mine
	return offers, nil
}

// receiveOffers receives one offer from each other rank and calls got with it. all waits for the offers and returns them.
func (m *mesh) receiveOffers(ctx context.Context, got func(offer, error)) (all func() ([]offer, error)) {
	offers, errs := make([]offer, m.size), make([]error, m.size)
	stop := context.AfterFunc(ctx, m.expire)
	var listening sync.WaitGroup
	for r, p := range m.peers {
		if p == nil {
			continue
		}
		listening.Go(func() {
			if _, err := (&Conn{Conn: p.Conn}).Receive(&offers[r]); err != nil {
				errs[r] = fmt.Errorf("rank %d says nothing about links: %w", r, err)
			}
			got(offers[r], errs[r])
		})
	}
	return func() ([]offer, error) {
		listening.Wait()
		stop()
		return offers, errors.Join(errs...)
	}
}

// sendOffers sends an offer to every other rank.
func (m *mesh) sendOffers(ctx context.Context, o offer) error {
	stop := context.AfterFunc(ctx, m.expire)
	defer stop()
	errs := make([]error, m.size)
	var telling sync.WaitGroup
	for r, p := range m.peers {
		if p != nil {
			telling.Go(func() { errs[r] = (&Conn{Conn: p.Conn}).Send(o, nil) })
		}
	}
	telling.Wait()
	return errors.Join(errs...)
}
