package wan

import (
	"fmt"
	"slices"
	"strconv"

	"latentbeam/stages/weights"
)

// Original is the layout in which the autoencoder of Wan 2.1 was published (Wan2.1_VAE.pth). Both layouts number the encoder's
// blocks in one list. The decoder's blocks are levels of three here; each level but the last ends with the layer that enlarges.
var Original = weights.Layout{Mark: "encoder.downsamples.0.residual.0.gamma", Rules: slices.Concat(ends(),
	inResidual(`encoder\.downsamples\.(\d+)`, "encoder.down_blocks.$1", 1),
	weights.Rules(`encoder\.downsamples\.(\d+)\.(.*)`, "encoder.down_blocks.$1.$2"), decoderLevels())}

// Original22 is the layout for Wan 2.2 (Wan2.2_VAE.pth). Each level has its own list, and its last entry changes the size.
var Original22 = weights.Layout{Mark: "encoder.downsamples.0.downsamples.0.residual.0.gamma", Rules: slices.Concat(ends(),
	inResidual(`encoder\.downsamples\.(\d+)\.downsamples\.(\d+)`, "encoder.down_blocks.$1.resnets.$2", 2),
	weights.Rules(`encoder\.downsamples\.(\d+)\.downsamples\.\d+\.(.*)`, "encoder.down_blocks.$1.downsampler.$2"),
	inResidual(`decoder\.upsamples\.(\d+)\.upsamples\.(\d+)`, "decoder.up_blocks.$1.resnets.$2", 2),
	weights.Rules(`decoder\.upsamples\.(\d+)\.upsamples\.\d+\.(.*)`, "decoder.up_blocks.$1.upsampler.$2"))}

// ends returns the rules for layers before and after the levels. They are the same in both versions.
func ends() []weights.Rule {
	return slices.Concat(weights.Rules(
		`conv1\.(.*)`, "quant_conv.$1",
		`conv2\.(.*)`, "post_quant_conv.$1",
		`(encoder|decoder)\.conv1\.(.*)`, "$1.conv_in.$2",
		`(encoder|decoder)\.head\.0\.gamma`, "$1.norm_out.gamma",
		`(encoder|decoder)\.head\.2\.(.*)`, "$1.conv_out.$2",
		`(encoder|decoder)\.middle\.1\.(.*)`, "$1.mid_block.attentions.0.$2",
	), inResidual(`(encoder|decoder)\.middle\.0`, "$1.mid_block.resnets.0", 1),
		inResidual(`(encoder|decoder)\.middle\.2`, "$1.mid_block.resnets.1", 1))
}

// inResidual returns the rules for the parts of a residual block. groups is the number of groups in the patterns from and to.
func inResidual(from, to string, groups int) []weights.Rule {
	rest := fmt.Sprint("$", groups+1)
	return weights.Rules(from+`\.residual\.0\.gamma`, to+".norm1.gamma", from+`\.residual\.2\.(.*)`, to+".conv1."+rest,
		from+`\.residual\.3\.gamma`, to+".norm2.gamma", from+`\.residual\.6\.(.*)`, to+".conv2."+rest,
		from+`\.shortcut\.(.*)`, to+".conv_shortcut."+rest)
}

// decoderLevels returns the rules for the decoder's single list of blocks.
func decoderLevels() (out []weights.Rule) {
	const levels, blocks = 4, 3
	for level := range levels {
		for block := range blocks + 1 {
			from := `(decoder)\.upsamples\.` + strconv.Itoa(level*(blocks+1)+block)
			to := "$1.up_blocks." + strconv.Itoa(level)
			if block == blocks {
				out = append(out, weights.Rules(from+`\.(.*)`, to+".upsamplers.0.$2")...)
			} else {
				out = append(out, inResidual(from, to+".resnets."+strconv.Itoa(block), 1)...)
			}
		}
	}
	return out
}
