package wan

import (
	"strconv"

	"latentbeam/stages/nn"
)

// Original is the layout in which the autoencoder of Wan 2.1 was published (Wan2.1_VAE.pth). Blocks of the encoder
// have one list in both layouts. Those of the decoder are levels of three here, with what enlarges behind each but the last.
var Original = nn.Layout{Mark: "encoder.downsamples.0.residual.0.gamma", Rules: append(nn.Rules(
	`conv1\.(.*)`, "quant_conv.$1",
	`conv2\.(.*)`, "post_quant_conv.$1",
	`(encoder|decoder)\.conv1\.(.*)`, "$1.conv_in.$2",
	`(encoder|decoder)\.head\.0\.gamma`, "$1.norm_out.gamma",
	`(encoder|decoder)\.head\.2\.(.*)`, "$1.conv_out.$2",
	`(encoder|decoder)\.middle\.1\.(.*)`, "$1.mid_block.attentions.0.$2",
), append(append(inResidual(`(encoder|decoder)\.middle\.0`, "$1.mid_block.resnets.0"),
	inResidual(`(encoder|decoder)\.middle\.2`, "$1.mid_block.resnets.1")...),
	append(append(inResidual(`encoder\.downsamples\.(\d+)`, "encoder.down_blocks.$1"),
		nn.Rules(`encoder\.downsamples\.(\d+)\.(.*)`, "encoder.down_blocks.$1.$2")...), decoderLevels()...)...)...)}

// inResidual are the rules for the parts of a residual block. Each pattern has one group.
func inResidual(from, to string) []nn.Rule {
	return nn.Rules(from+`\.residual\.0\.gamma`, to+".norm1.gamma", from+`\.residual\.2\.(.*)`, to+".conv1.$2",
		from+`\.residual\.3\.gamma`, to+".norm2.gamma", from+`\.residual\.6\.(.*)`, to+".conv2.$2",
		from+`\.shortcut\.(.*)`, to+".conv_shortcut.$2")
}

// decoderLevels are the rules for the one list of the decoder's blocks.
func decoderLevels() (out []nn.Rule) {
	const levels, blocks = 4, 3
	for level := range levels {
		for block := range blocks + 1 {
			from := `(decoder)\.upsamples\.` + strconv.Itoa(level*(blocks+1)+block)
			to := "$1.up_blocks." + strconv.Itoa(level)
			if block == blocks {
				out = append(out, nn.Rules(from+`\.(.*)`, to+".upsamplers.0.$2")...)
			} else {
				out = append(out, inResidual(from, to+".resnets."+strconv.Itoa(block))...)
			}
		}
	}
	return out
}
