package media

import (
	"context"
	"fmt"

	"latentbeam/internal/media/resize"
)

// Square returns the first frame of a file, prepared as in CLIP: the shorter side is resized to edge pixels with PIL's bicubic
// filter, and the middle crop x crop pixels are kept, (crop, crop, 3).
func Square(ctx context.Context, path string, edge, crop int) ([]byte, error) {
	if crop > edge {
		return nil, fmt.Errorf("%d pixels cannot be cut out of %d", crop, edge)
	}
	src, err := OpenSource(ctx, path, SourceOptions{Frames: 1})
	if err != nil {
		return nil, err
	}
	defer src.Close()
	info := src.Info()
	rgb := make([]byte, info.Height*info.Width*3)
	if err := src.Next(rgb); err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	scaled := resize.Size{Width: edge, Height: edge}
	if width, height := info.shown(); height > width { // the longer side is truncated to an integer
		scaled.Height = int(float64(edge*height) / float64(width))
	} else {
		scaled.Width = int(float64(edge*width) / float64(height))
	}
	if err := (SourceInfo{Width: scaled.Width, Height: scaled.Height}).check(); err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	middle := resize.Rect{X: (scaled.Width - crop) / 2, Y: (scaled.Height - crop) / 2, Width: crop, Height: crop}
	r, err := resize.New(resize.Bicubic, resize.Size{Width: info.Width, Height: info.Height}, scaled, middle)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	out := make([]byte, crop*crop*3)
	r.Resize(out, rgb)
	return out, nil
}
