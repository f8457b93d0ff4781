package vae

import (
	"context"
	"errors"

	"latentbeam/kernels"
	"latentbeam/schemas"
	"latentbeam/stages"
	"latentbeam/stages/sequence"

	"latentbeam/stages/vae/stream"
)

// pieces returns the number of parts of a row's clip that devices can encode independently: rows of latents, for autoencoders
// whose decoders share rows too.
func (s *encodeStage) pieces(row *schemas.PromptRow) int {
	if s.Config.Banded {
		return max(1, row.Height/s.Config.Downscale())
	}
	return 1
}

// Width returns the number of devices that can encode a clip together, 1 if it cannot be shared.
func (s *encodeStage) Width(row *schemas.PromptRow) int {
	if s.pieces(row) == 1 {
		return 1
	}
	return 0
}

// RunSet encodes each clip on all devices, each with some rows. Rank 0 reads the clips and gets the latents.
func (s *encodeStage) RunSet(ctx context.Context, set *stages.Set, batch []*stages.Element) error {
	if set.Ranks() == 1 {
		return s.Run(ctx, set.Devices[0], batch)
	}
	return set.Run(ctx, func(ctx context.Context, dev kernels.Backend, g *kernels.Group) error {
		clips := newReaders(ctx, dev, batch, s.sample, s.isKnown) // rank 0's
		defer clips.closeAll()
		for i := range batch {
			if err := ctx.Err(); err != nil {
				return context.Cause(ctx)
			}
			g.Step(i)
			if err := s.share(ctx, &encodeShare{encodeStage: s, dev: dev, group: g, step: i, speeds: set.Speeds}, clips); err != nil {
				return err
			}
			clips.close(i)
		}
		return nil
	})
}

// share encodes one rank's part of an element.
func (s *encodeStage) share(ctx context.Context, sh *encodeShare, clips *readers) error {
	e := clips.batch[sh.step]
	c := clipOf(&e.Row, func([]float32, int, int) error { return errUnread })
	if sh.group.Rank() != 0 {
		_, err := sh.latents(c, nil)
		return ifRead(err)
	}
	received := false
	err := s.encode(sh.dev, clips, sh.step, func(c Video, draw Noise) (*stages.Array, error) {
		received = true
		return sh.latents(c, draw)
	})
	if !received { // the latents are known, or the clip cannot be opened; the other ranks wait for its frames
		if _, err := sh.latents(c, nil); ifRead(err) != nil {
			return err
		}
	}
	return unreadable(ctx, "encode_vae", e, err)
}

// errUnread is the error on other ranks if rank 0 does not read the clip to its end.
var errUnread = errors.New("rank 0 does not read the clip")

// ifRead returns err, or nil if it is errUnread.
func ifRead(err error) error {
	if errors.Is(err, errUnread) {
		return nil
	}
	return err
}

// encodeShare is one rank's part in encoding one clip.
type encodeShare struct {
	*encodeStage
	dev    kernels.Backend
	group  *kernels.Group
	step   int // index of the element
	speeds []float64

	clip  Video            // only rank 0 reads its pixels
	rows  []sequence.Range // rows of the latents for each rank
	whole []float32        // on rank 0: all rows of the frames that were read
}

// latents returns the latents (C, T', h, w) of a clip on rank 0, nil on other ranks. Only rank 0 reads the pixels of c.
func (s *encodeShare) latents(c Video, draw Noise) (*stages.Array, error) {
	defer s.dev.Scope()()
	shape, err := s.Config.LatentShape(c.Frames, c.Height, c.Width)
	if err != nil {
		return nil, err
	}
	s.clip = c
	if s.rows, err = sequence.Cut(shape[2], s.speeds); err != nil {
		return nil, err
	}
	mine, err := s.band()
	if err != nil {
		return nil, err
	}
	line := shape[3] * 2 * shape[0] // number of moments in a row
	sizes := make([]int, len(s.rows))
	for rank, r := range s.rows {
		sizes[rank] = r.Len() * line
	}
	parts, err := gather(s.dev, s.group, "moments", kernels.F32, shape[1], sizes, mine)
	if err != nil || s.group.Rank() != 0 {
		return nil, err
	}
	model, err := s.On(s.dev)
	if err != nil {
		return nil, err
	}
	moments := make([]float32, 0, shape[1]*shape[2]*line)
	for i := range shape[1] {
		for rank, part := range parts {
			moments = append(moments, part[i*sizes[rank]:][:sizes[rank]]...)
		}
	}
	return model.Sample(c, moments, draw)
}

// band returns the moments (T', rows, w, 2C) of this rank's rows.
func (s *encodeShare) band() ([]float32, error) {
	if s.rows[s.group.Rank()].Len() == 0 { // it still takes part in the exchanges of all ranks
		for first, n := 0, 1; first < s.clip.Frames; first, n = first+n, stream.Factor {
			if err := s.next(nil, first, n); err != nil {
				return nil, err
			}
		}
		return nil, nil
	}
	bands, err := bandsOf(s.group, s.step, s.rows)
	if err != nil {
		return nil, err
	}
	model, err := s.On(s.dev)
	if err != nil {
		return nil, err
	}
	mine := Video{Frames: s.clip.Frames, Height: s.pixelRows(s.group.Rank()).Len(), Width: s.clip.Width, Pixels: s.next}
	return model.EncodeBand(s.dev, mine, bands)
}

// pixelRows returns a rank's rows of pixels. The last rows of a clip may be fewer than a latent position spans.
func (s *encodeShare) pixelRows(rank int) sequence.Range {
	d, r := s.Config.Downscale(), s.rows[rank]
	out := sequence.Range{Lo: r.Lo * d, Hi: r.Hi * d}
	if r.Len() > 0 && r.Hi == s.rows[len(s.rows)-1].Hi {
		out.Hi = s.clip.Height
	}
	return out
}

// next fills dst (n, rows, W, 3) with this rank's rows of the frames first to first+n. Rank 0 reads the frames. Every rank must
// call it for all frames of a clip in the same order.
func (s *encodeShare) next(dst []float32, first, n int) error {
	defer s.dev.Scope()()
	if s.group.Rank() != 0 {
		if err := s.agree(nil); err != nil {
			return err
		}
		return s.receive(dst, n)
	}
	size := n * s.clip.Height * s.clip.Width * 3
	if len(s.whole) < size {
		s.whole = make([]float32, size)
	}
	if err := s.agree(s.clip.Pixels(s.whole[:size], first, n)); err != nil {
		return err
	}
	s.copyRows(dst, 0, n)
	return s.scatterRows(n)
}

// scatterRows sends n frames from rank 0 to the other ranks, to each its rows.
func (s *encodeShare) scatterRows(n int) error {
	var send []kernels.Part
	for rank, r := range s.rows[1:] {
		if rank++; r.Len() > 0 {
			x := s.part(rank, n)
			own := make([]float32, x.Len())
			s.copyRows(own, rank, n)
			s.dev.Upload(x, own)
			send = append(send, kernels.Part{Peer: rank, View: x})
		}
	}
	return s.group.Exchange("pixels", send, nil)
}

// receive receives this rank's rows from rank 0.
func (s *encodeShare) receive(dst []float32, n int) error {
	me := s.group.Rank()
	if s.rows[me].Len() == 0 {
		return s.group.Exchange("pixels", nil, nil)
	}
	x := s.part(me, n)
	if err := s.group.Exchange("pixels", nil, []kernels.Part{{Peer: 0, View: x}}); err != nil {
		return err
	}
	return s.dev.Download(dst, x)
}

// part allocates a rank's rows of n frames: (n, rows, 3 W).
func (s *encodeShare) part(rank, n int) kernels.Tensor {
	return s.dev.Alloc(kernels.F32, n, s.pixelRows(rank).Len(), s.clip.Width*3)
}

// copyRows copies a rank's rows from the n frames that were read.
func (s *encodeShare) copyRows(dst []float32, rank, n int) {
	line, r := s.clip.Width*3, s.pixelRows(rank)
	for i := range n {
		copy(dst[i*r.Len()*line:][:r.Len()*line], s.whole[(i*s.clip.Height+r.Lo)*line:])
	}
}

// agree tells all ranks whether rank 0 could read. Rank 0 gets its error back, other ranks get errUnread.
func (s *encodeShare) agree(unread error) error {
	state, read := s.dev.Alloc(kernels.F32, 1), []float32{1}
	if unread != nil {
		read[0] = 0
	}
	if s.group.Rank() == 0 {
		s.dev.Upload(state, read)
	}
	if err := s.group.Broadcast("read", 0, state); err != nil || s.group.Rank() == 0 {
		return errors.Join(err, unread)
	}
	if err := s.dev.Download(read, state); err != nil {
		return err
	}
	if read[0] == 0 {
		return errUnread
	}
	return nil
}
