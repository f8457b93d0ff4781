package amt

import "latentbeam/stages/weights"

// Component is the name of AMT among the components of models.
const Component = "amt"

// mark is a tensor that only AMT-S has: the encoders of AMT-L and AMT-G have other blocks.
const mark = "feat_encoder.layer1.0.conv3.weight"

// Family recognises AMT by its tensors, in the names of MCG-NKU/AMT.
func Family() weights.Family {
	return weights.Family{
		Component: Component,
		Layouts:   []weights.Layout{parallel},
		Guess: func(s weights.Shapes) ([]byte, error) {
			if s.Has(mark) || s.Has(parallel.Mark) {
				return []byte("{}"), nil
			}
			return nil, nil
		},
		Load: weights.Loader(ParseConfig, Load, func(Config) string { return "AMT-S, frames between frames" }),
	}
}

// parallel is the layout of weights that were saved by nn.DataParallel.
var parallel = weights.Layout{Mark: "module." + mark, Rules: weights.Rules(`module\.(.*)`, "$1")}
