package media

import (
	"context"
	"fmt"

	"latentbeam/internal/media/h264"
	"latentbeam/internal/media/mp4"
	"latentbeam/schemas"
)

// embedded is the pure-Go H.264 encoder behind an MP4 writer.
type embedded struct{ qp, gop int }

func newH264(o Options) (Encoder, error) {
	gop, err := within("gop", o.GOP, 1, h264.MaxGOP, h264.DefaultGOP)
	if err != nil {
		return nil, err
	}
	qp, err := within("qp", o.QP, h264.MinQP, h264.MaxQP, h264.DefaultQP)
	if err != nil {
		return nil, err
	}
	return embedded{qp, gop}, nil
}

func (e embedded) Version() string { return "" }

func (e embedded) Encode(ctx context.Context, c *schemas.Clip) (*schemas.Encoded, error) {
	num, den := frameRate(c.FPS)
	config := h264.Config{
		Width: c.Width, Height: c.Height, FPSNum: num, FPSDen: den, QP: e.qp, GOP: e.gop,
	}
	recon := &schemas.Clip{Width: c.Width, Height: c.Height, FPS: c.FPS, Frames: make([][]byte, len(c.Frames))}
	read := func(i int, p *h264.Picture) { toYUV(p, c.Frames[i]) }
	show := func(i int, p *h264.Picture) {
		recon.Frames[i] = make([]byte, c.Width*c.Height*3)
		toRGB(recon.Frames[i], p)
	}
	stream, err := h264.Encode(ctx, config, len(c.Frames), read, show)
	if err != nil {
		return nil, fmt.Errorf("encode video: %w", err)
	}
	data, err := mp4.Mux(config, stream)
	if err != nil {
		return nil, fmt.Errorf("write mp4 of %dx%d, %d frames: %w", c.Width, c.Height, len(c.Frames), err)
	}
	return &schemas.Encoded{Data: data, Ext: ".mp4", Codec: "h264", Recon: recon}, nil
}
