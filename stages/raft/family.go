package raft

import "latentbeam/stages/weights"

// Component is the name of RAFT among the components of models.
const Component = "raft"

// Family recognises RAFT by its tensors, with the names of princeton-vl/RAFT or torchvision's raft_large.
func Family() weights.Family {
	return weights.Family{
		Component: Component,
		Layouts:   []weights.Layout{parallel, torchvision},
		Guess: func(s weights.Shapes) ([]byte, error) {
			if s.Has("fnet.conv1.weight") || s.Has(parallel.Mark) || s.Has(torchvision.Mark) {
				return []byte("{}"), nil
			}
			return nil, nil
		},
		Load: weights.Loader(ParseConfig, Load, func(Config) string { return "RAFT, optical flow" }),
	}
}

// parallel is the layout of the published weights, which nn.DataParallel saved.
var parallel = weights.Layout{Mark: "module.fnet.conv1.weight", Rules: weights.Rules(`module\.(.*)`, "$1")}

// torchvision is torchvision's layout.
var torchvision = weights.Layout{Mark: "feature_encoder.convnormrelu.0.weight", Rules: weights.Rules(
	`feature_encoder\.convnormrelu\.0\.(.*)`, "fnet.conv1.$1",
	`feature_encoder\.(layer\d\.\d)\.convnormrelu(\d)\.0\.(.*)`, "fnet.$1.conv$2.$3",
	`feature_encoder\.(layer\d\.\d\.downsample\.0\..*)`, "fnet.$1",
	`feature_encoder\.conv\.(.*)`, "fnet.conv2.$1",
	`context_encoder\.convnormrelu\.0\.(.*)`, "cnet.conv1.$1",
	`context_encoder\.convnormrelu\.1\.(.*)`, "cnet.norm1.$1",
	`context_encoder\.(layer\d\.\d)\.convnormrelu(\d)\.0\.(.*)`, "cnet.$1.conv$2.$3",
	`context_encoder\.(layer\d\.\d)\.convnormrelu(\d)\.1\.(.*)`, "cnet.$1.norm$2.$3",
	`context_encoder\.(layer\d\.\d\.downsample\.\d\..*)`, "cnet.$1",
	`context_encoder\.conv\.(.*)`, "cnet.conv2.$1",
	`update_block\.motion_encoder\.convcorr(\d)\.0\.(.*)`, "update_block.encoder.convc$1.$2",
	`update_block\.motion_encoder\.convflow(\d)\.0\.(.*)`, "update_block.encoder.convf$1.$2",
	`update_block\.motion_encoder\.conv\.0\.(.*)`, "update_block.encoder.conv.$1",
	`update_block\.recurrent_block\.convgru(\d)\.conv([zrq])\.(.*)`, "update_block.gru.conv$2$1.$3",
	`mask_predictor\.convrelu\.0\.(.*)`, "update_block.mask.0.$1",
	`mask_predictor\.conv\.(.*)`, "update_block.mask.2.$1",
)}
