package media

import (
	"context"
	"fmt"
)

// Square returns the first frame of the file at path as CLIP's preprocessing makes it: the shorter side is resized to edge
// pixels by PIL's bicubic filter, and crop x crop pixels of the middle are cut out, (crop, crop, 3).
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
	f := &Fitter{from: [2]int{info.Height, info.Width}, to: [2]int{crop, crop}, scaled: [2]int{edge, edge}, smooth: true}
	short := min(info.Height, info.Width)
	for axis, n := range f.from { // the longer side is cut off to a whole number
		if n > short {
			f.scaled[axis] = int(float64(edge*n) / float64(short))
		}
	}
	if err := (Info{Width: f.scaled[1], Height: f.scaled[0]}).check(); err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	f.top, f.left = (f.scaled[0]-crop)/2, (f.scaled[1]-crop)/2
	f.rows, f.cols = bicubic(f.from[0], f.scaled[0])[f.top:][:crop], bicubic(f.from[1], f.scaled[1])[f.left:][:crop]
	out := make([]byte, crop*crop*3)
	f.resize(func(at int, v byte) { out[at] = v }, rgb)
	return out, nil
}
