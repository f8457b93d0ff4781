package score

import (
	"context"

	"latentbeam/internal/media/resize"
	"latentbeam/kernels"
	"latentbeam/schemas"
	"latentbeam/stages/musiq"
	"latentbeam/stages/weights"
)

// imagingSide is the longest side of frames for MUSIQ, in pixels. Larger frames are reduced, as in VBench.
const imagingSide = 512

// imagingViews returns the views for frames of a size. first reduces a frame; it is nil if frames keep their size.
func imagingViews(height, width int) (views *musiq.Views, first *resize.Interpolator, err error) {
	if longer := max(height, width); longer > imagingSide {
		scale := float64(imagingSide) / float64(longer)
		to := resize.Size{Width: max(1, int(scale*float64(width))), Height: max(1, int(scale*float64(height)))}
		first, err = resize.NewInterpolator(resize.Bilinear, resize.Size{Width: width, Height: height}, to, resize.Rect{Width: to.Width, Height: to.Height})
		if err != nil {
			return nil, nil, err
		}
		height, width = to.Height, to.Width
	}
	views, err = musiq.NewViews(height, width)
	return views, first, err
}

func openImaging(o *options) (*opened, error) {
	m, err := openTower(o, musiqSPAQ, musiq.Family(), musiq.ParseConfig, musiq.Load)
	if err != nil {
		return nil, err
	}
	begin := func(_ context.Context, dev kernels.Backend, c clip) (meter, error) {
		net, err := m.On(dev)
		if err != nil {
			return nil, err
		}
		views, first, err := imagingViews(c.height, c.width)
		if err != nil {
			return nil, err
		}
		read := func(dst []float32, f frame) {
			image := make([]float32, views.Pixels())
			if first != nil {
				first.Interpolate(image, f.rgb)
			} else {
				for i, v := range f.rgb {
					image[i] = float32(v)
				}
			}
			views.Patches(dst, image)
		}
		return c.featureMeter(musiqSPAQ, c.allFrames(), func() *features {
			return &features{dev: dev, read: read, size: views.Len(), tower: func(patches []float32, _ int) (kernels.Tensor, error) {
				return net.Rate(dev, patches, views)
			}}
		}, func(_ context.Context, all [][]float32, into map[string]string) error {
			sum := 0.0
			for _, q := range all {
				sum += float64(q[0])
			}
			const percent = 100
			into[imagingName] = precise(sum / float64(len(all)) / percent)
			return nil
		}), nil
	}
	return &opened{weights: m.Digest(), begin: begin, load: m.Load, rehearse: func(row *schemas.PromptRow) (r rehearsal, known bool) {
		net, err := musiq.Load(m.Config, weights.ShapesOnly())
		if err != nil || row.Height < 1 || row.Width < 1 || row.NumFrames < 1 {
			return r, false
		}
		views, _, err := imagingViews(row.Height, row.Width)
		if err != nil {
			return r, false
		}
		return rehearsal{of: musiqSPAQ, at: resize.Size{Width: row.Width, Height: row.Height}, times: batches(row.NumFrames),
			run: func(be kernels.Backend) error {
				_, err := net.Rate(be, make([]float32, batchFrames*views.Len()), views)
				return err
			}}, true
	}}, nil
}
