package wan

import (
	"encoding/json"
	"errors"
	"fmt"

	"latentbeam/stages/weights"
)

// Guess makes the config.json of an AutoencoderKLWan. No tensor contains the means and deviations of latents; they are known
// only for the published sizes.
func Guess(s weights.Shapes) ([]byte, error) {
	c := map[string]any{
		"_class_name": "AutoencoderKLWan", "base_dim": s.Dim("encoder.conv_in.weight", 0),
		"z_dim": s.Dim("decoder.conv_in.weight", 1), "in_channels": s.Dim("encoder.conv_in.weight", 1),
		"out_channels": s.Dim("decoder.conv_out.weight", 0),
	}
	levels := levelsOfWan21
	if s.Has("encoder.down_blocks.0.resnets.0.norm1.gamma") {
		levels, c["is_residual"] = levelsOfWan22, true
	}
	widths, halved, blocks := levels(s)
	base := max(1, s.Dim("encoder.conv_in.weight", 0))
	var mult []int
	for _, width := range widths {
		mult = append(mult, width/base)
	}
	if len(mult) > 0 {
		c["decoder_base_dim"] = s.Dim("decoder.conv_out.weight", 1) / max(1, mult[0])
	}
	c["dim_mult"], c["temperal_downsample"], c["num_res_blocks"] = mult, halved, blocks
	for p := 2; 3*p*p <= s.Dim("encoder.conv_in.weight", 1); p++ {
		if 3*p*p == s.Dim("encoder.conv_in.weight", 1) {
			c["patch_size"] = p
		}
	}
	var err error
	if c["latents_mean"], c["latents_std"], err = statistics(s.Dim("decoder.conv_in.weight", 1)); err != nil {
		return nil, err
	}
	return json.Marshal(c)
}

// levelsOfWan21 reads Wan 2.1's list of blocks and halvings. It returns the channels of each level, which levels halve the
// frames, and the number of blocks in a level.
func levelsOfWan21(s weights.Shapes) (widths []int, halved []bool, blocks int) {
	for i := 0; ; i++ {
		at := fmt.Sprintf("encoder.down_blocks.%d.", i)
		switch width := s.Dim(at+"conv2.weight", 0); {
		case width > 0 && len(widths) == len(halved): // first block of a level
			widths = append(widths, width)
			if len(widths) == 1 {
				blocks++
			}
		case width > 0 && len(widths) == 1:
			blocks++
		case width > 0:
		case s.Has(at + "resample.1.weight"):
			halved = append(halved, s.Has(at+"time_conv.weight"))
		default:
			return widths, halved, blocks
		}
	}
}

// levelsOfWan22 reads the levels of Wan 2.2.
func levelsOfWan22(s weights.Shapes) (widths []int, halved []bool, blocks int) {
	blocks = s.Count("encoder.down_blocks.0.resnets.%d.conv2.weight")
	for i := range s.Count("encoder.down_blocks.%d.resnets.0.conv2.weight") {
		at := fmt.Sprintf("encoder.down_blocks.%d.", i)
		widths = append(widths, s.Dim(at+"resnets.0.conv2.weight", 0))
		if s.Has(at + "downsampler.resample.1.weight") {
			halved = append(halved, s.Has(at+"downsampler.time_conv.weight"))
		}
	}
	return widths, halved, blocks
}

// statistics returns the published means and deviations for latents with this number of channels.
func statistics(channels int) (mean, std []float64, err error) {
	switch one, two := New(), NewTI2V5B(); channels {
	case one.ZDim:
		return one.LatentsMean, one.LatentsStd, nil
	case two.ZDim:
		return two.LatentsMean, two.LatentsStd, nil
	}
	return nil, nil, errors.New("the autoencoder is one of Wan's, but of no published size: write a config.json with its " +
		"latents_mean and latents_std")
}
