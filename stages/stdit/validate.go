package stdit

import (
	"cmp"
	"fmt"

	"latentbeam/kernels"
	"latentbeam/stages/weights"
)

// Limits of a configuration, several times larger than the largest published model.
const (
	maxChannels = 1024
	maxWidth    = 1 << 16
	maxDepth    = 1024
	maxPatch    = 16
	maxText     = 4096
	maxMLPRatio = 64
	maxWindow   = 1024
	maxSqSize   = 1 << 16
)

func (c Config) validate() error {
	if err := cmp.Or(
		weights.Within("in_channels", c.InChannels, maxChannels),
		weights.Within("hidden_size", c.HiddenSize, maxWidth), weights.Within("depth", c.Depth, maxDepth),
		weights.Within("num_heads", c.NumHeads, maxWidth), weights.Within("patch_size[0]", c.PatchSize[0], maxPatch),
		weights.Within("patch_size[1]", c.PatchSize[1], maxPatch),
		weights.Within("patch_size[2]", c.PatchSize[2], maxPatch),
		weights.Within("caption_channels", c.CaptionChannels, maxWidth),
		weights.Within("model_max_length", c.ModelMaxLength, maxText),
	); err != nil {
		return fmt.Errorf("stdit config.json: %w", err)
	}
	if c.HiddenSize%c.NumHeads != 0 || c.HiddenSize%4 != 0 {
		return fmt.Errorf("stdit config.json: hidden_size %d must be divisible by num_heads %d and by 4",
			c.HiddenSize, c.NumHeads)
	}
	if !(c.SpaceScale > 0) || !(c.TimeScale > 0) {
		return fmt.Errorf("stdit config.json: space_scale %g and time_scale %g must be positive",
			c.SpaceScale, c.TimeScale)
	}
	if !(c.MLPRatio > 0 && c.MLPRatio <= maxMLPRatio) || c.mlpWidth() < 1 {
		return fmt.Errorf("stdit config.json: mlp_ratio is %g, must be above 0 and at most %d",
			c.MLPRatio, maxMLPRatio)
	}
	if c.DType == kernels.F16 && c.Version != OpenSora10 {
		return fmt.Errorf("stdit: only Open-Sora 1.0 supports dtype fp16, %s was published for bf16: give bf16 or fp32",
			c.Version)
	}
	if c.DType > kernels.F16 {
		return fmt.Errorf("stdit: dtype %v is not supported, give fp32, bf16 or fp16", c.DType)
	}
	if c.Version == OpenSora10 {
		return nil
	}
	return c.validateLater()
}

// validateLater checks the keys that only the versions from 1.1 on have.
func (c Config) validateLater() error {
	d := c.HiddenSize / c.NumHeads
	switch {
	case !(c.InputSqSize > 0 && c.InputSqSize <= maxSqSize):
		return fmt.Errorf("stdit config.json: input_sq_size is %g, must be 1 to %d", c.InputSqSize, maxSqSize)
	case d%2 != 0:
		return fmt.Errorf("stdit config.json: heads of width %d, rotary positions need an even one", d)
	case c.Version == OpenSora11 && c.HiddenSize%3 != 0:
		return fmt.Errorf("stdit config.json: hidden_size %d must be divisible by 3 in STDiT2", c.HiddenSize)
	case c.SkipTemporal:
		return fmt.Errorf("stdit config.json: skip_temporal makes images only and is not supported")
	case c.SkipYEmbedder:
		return fmt.Errorf("stdit config.json: skip_y_embedder is for training on stored text features; " +
			"set it to false")
	case c.UseSpatialRope && c.KernelSize == nil:
		return fmt.Errorf("stdit config.json: use_spatial_rope needs kernel_size")
	}
	if k := c.KernelSize; k != nil {
		if min(k[0], k[1]) < 1 || max(k[0], k[1]) > maxWindow || k[2] != -1 {
			return fmt.Errorf("stdit config.json: kernel_size is %v, must be rows and columns of 1 to %d, and -1 "+
				"for all frames", *k, maxWindow)
		}
		if d%6 != 0 {
			return fmt.Errorf("stdit config.json: heads of width %d, with kernel_size it must be divisible by 6", d)
		}
	}
	return nil
}
