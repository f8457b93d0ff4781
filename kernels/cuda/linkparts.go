//go:build cuda && linux

package cuda

import (
	"gorgonia.org/cu"

	"latentbeam/kernels"
)

// bundle is the data that passes between this rank and one peer, in one direction.
type bundle struct {
	peer  int
	at    cu.DevicePtr
	bytes int
	views []*operand // the tensors
	dense []*operand // their places in the bundle; nil: the bundle is the tensor itself
}

// bundles groups parts by peer and leaves out empty ones.
func (b *Backend) bundles(op string, parts []kernels.Part) ([]*bundle, error) {
	var out []*bundle
	of := map[int]*bundle{}
	for _, p := range parts {
		o, ok := b.resolve(op, p.View)
		if !ok || !b.checkPresent(op, []string{"part"}, o) {
			return nil, b.err
		}
		if p.View.Len() == 0 {
			continue
		}
		if of[p.Peer] == nil {
			of[p.Peer] = &bundle{peer: p.Peer}
			out = append(out, of[p.Peer])
		}
		of[p.Peer].views = append(of[p.Peer].views, o[0])
	}
	for _, one := range out {
		if err := one.allocate(b); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// allocate allocates the memory of a bundle. Both ends compute the same length, because they know the same shapes.
func (p *bundle) allocate(b *Backend) error {
	if v := p.views[0]; len(p.views) == 1 && v.Contiguous() {
		p.at, p.bytes = v.ptr, v.Len()*v.DType.Size()
		return nil
	}
	var offsets []int
	for _, v := range p.views {
		offsets = append(offsets, p.bytes)
		p.bytes += v.Len() * v.DType.Size()
		if len(p.views) > 1 {
			p.bytes = (p.bytes + tensorAlign - 1) / tensorAlign * tensorAlign
		}
	}
	var err error
	if p.at, err = b.arena.acquire(p.bytes); err != nil {
		return err
	}
	for i, v := range p.views {
		p.dense = append(p.dense, &operand{Tensor: kernels.NewTensor(v.DType, nil, v.Shape...),
			ptr: p.at + cu.DevicePtr(offsets[i])})
	}
	return nil
}

// pack copies the tensors to the bundle, unpack the bundle to the tensors.
func (p *bundle) pack(b *Backend) {
	for i, d := range p.dense {
		b.copyOf("send", d, p.views[i])
	}
}

func (p *bundle) unpack(b *Backend) {
	for i, d := range p.dense {
		b.copyOf("receive", p.views[i], d)
	}
}
