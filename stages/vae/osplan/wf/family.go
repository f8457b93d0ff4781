package wf

import (
	"encoding/json"
	"fmt"

	"latentbeam/stages/weights"
)

// Guess makes the config.json of a WFVAEModel. No tensor contains the interpolation, scale and shift; they are known only for
// the published model with 8 channels.
func Guess(s weights.Shapes) ([]byte, error) {
	c := NewPublished()
	if n := s.Dim("decoder.conv_in.conv.weight", 1); n != c.LatentDim {
		return nil, fmt.Errorf("the autoencoder is a WFVAEModel of %d latent channels, only that of %d is known without one: "+
			"put the config.json that it was published with beside it", n, c.LatentDim)
	}
	c.BaseChannels = s.Dim("encoder.down1.0.weight", 0)
	c.EncoderEnergyFlow, c.DecoderEnergyFlow = s.Dim("encoder.connect_l1.weight", 0), c.BaseChannels
	for c.EncoderBlocks = 0; s.Has(fmt.Sprintf("encoder.down1.%d.conv1.weight", c.EncoderBlocks+1)); c.EncoderBlocks++ {
	}
	c.DecoderBlocks = s.Count("decoder.up2.%d.conv1.conv.weight")
	c.ConnectBlocks = s.Count("decoder.connect_l1.%d.conv1.conv.weight")
	c.UseAttention = s.Has("encoder.mid.1.q.conv.weight")
	return json.Marshal(struct {
		ClassName string `json:"_class_name"`
		*Config
	}{"WFVAEModel", c})
}
