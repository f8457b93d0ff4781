package score

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"latentbeam/kernels"
	"latentbeam/stages"
	"latentbeam/stages/amt"
	towers "latentbeam/stages/clip"
	"latentbeam/stages/musiq"
	"latentbeam/stages/raft"
	"latentbeam/stages/vit"
	"latentbeam/stages/weights"
	"latentbeam/stages/weights/safetensors"
)

// The names of weights, as in the option `weights`.
const (
	clipB32       = "clip_b32"
	clipL14       = "clip_l14"
	dinoB16       = "dino"
	raftThings    = "raft"
	aestheticHead = "aesthetic_head"
	musiqSPAQ     = "musiq"
	amtS          = "amt"
)

// publishedWeights describes for each name the weights that the published measure uses.
var publishedWeights = map[string]string{
	clipB32:       "CLIP ViT-B/32 (openai/clip-vit-base-patch32)",
	clipL14:       "CLIP ViT-L/14 (openai/clip-vit-large-patch14)",
	dinoB16:       "DINO ViT-B/16 (facebook/dino-vitb16)",
	raftThings:    "RAFT (raft-things.pth, or torchvision's raft_large)",
	musiqSPAQ:     "MUSIQ for SPAQ (musiq_spaq_ckpt-358bb6af.pth of pyiqa)",
	amtS:          "AMT-S (amt-s.pth of MCG-NKU/AMT)",
	aestheticHead: "LAION's linear head for ViT-L/14 (sa_0_4_vit_l_14_linear.pth)",
}

// openTowers caches the models that several measures of a stage use, so that each is in memory once.
type openTowers map[string]tower

// tower is an open model.
type tower interface {
	// Bytes returns the size of its weights on a device: the total and the parts.
	Bytes(dt kernels.DType) (all int64, parts []int64)
}

// openTower opens the weights with a name, once for a stage.
func openTower[C, M any](o *options, name string, f weights.Family, parse func([]byte) (C, error),
	load func(C, *weights.Weights) (*M, error)) (*weights.Component[C, M], error) {
	if c, is := o.opened[name].(*weights.Component[C, M]); is {
		return c, nil
	}
	m, err := stages.OpenComponents(map[string]string{name: o.Weights[name]})
	if err != nil {
		return nil, wrongWeights(name, err)
	}
	m.Guess = func(_ string, file *safetensors.File) ([]byte, error) {
		config, err := f.Guess(weights.ShapesOf(file.Infos()))
		if config == nil && err == nil {
			err = fmt.Errorf("they are of another model: its tensors are %s", firstNames(weights.ShapesOf(file.Infos())))
		}
		return config, err
	}
	m.Names = func(tensors []safetensors.TensorInfo) map[string]string {
		shapes := weights.ShapesOf(tensors)
		for _, l := range f.Layouts {
			if names := l.Names(shapes); names != nil {
				return names
			}
		}
		return nil
	}
	c, err := weights.OpenComponent(m, name, parse, load)
	if err == nil {
		err = c.Check()
	}
	if err != nil {
		return nil, wrongWeights(name, err)
	}
	if o.opened == nil {
		o.opened = openTowers{}
	}
	o.opened[name] = c
	return c, nil
}

// wrongWeights adds to an error which weights a name needs.
func wrongWeights(name string, err error) error {
	e := stages.Errorf("weights", "score: weights of %s: %w", name, err)
	e.Fix = fmt.Sprintf("give weights: {%s: PATH} of %s; docs/measures.md says where they are", name, publishedWeights[name])
	return e
}

// openCLIP opens a whole CLIP.
func openCLIP(o *options, name string) (*weights.Component[towers.PairConfig, towers.Pair], error) {
	return openTower(o, name, towers.PairFamily(), towers.ParsePair, towers.LoadPair)
}

func openDINO(o *options) (*weights.Component[vit.Config, vit.DINO], error) {
	return openTower(o, dinoB16, vit.Family(), vit.ParseConfig, vit.Load)
}

func openRAFT(o *options) (*weights.Component[raft.Config, raft.RAFT], error) {
	return openTower(o, raftThings, raft.Family(), raft.ParseConfig, raft.Load)
}

// headConfig is the configuration of a linear head.
type headConfig struct {
	Width int `json:"width"`
}

// head is a linear layer from an embedding to one number.
type head struct {
	weight, bias kernels.Tensor // (1, width), (1)
}

func openHead(o *options) (*weights.Component[headConfig, head], error) {
	return openTower(o, aestheticHead, headFamily(), parseHead, loadHead)
}

func parseHead(data []byte) (c headConfig, err error) { return c, json.Unmarshal(data, &c) }

func loadHead(c headConfig, w *weights.Weights) (*head, error) {
	h := &head{w.Tensor("weight", 1, c.Width), w.Tensor("bias", 1)}
	return h, w.Check()
}

// headFamily recognises the head by its two tensors.
func headFamily() weights.Family {
	return weights.Family{
		Component: aestheticHead,
		Guess: func(s weights.Shapes) ([]byte, error) {
			if !s.Has("weight") || !s.Has("bias") || len(s) != 2 || s.Dim("weight", 0) != 1 {
				return nil, nil
			}
			return json.Marshal(headConfig{s.Dim("weight", 1)})
		},
		Load: weights.Loader(parseHead, loadHead, func(c headConfig) string {
			return fmt.Sprintf("linear head of an aesthetic predictor, for embeddings of width %d", c.Width)
		}),
	}
}

// Families returns the families of the models that measures use.
func Families() []weights.Family {
	return []weights.Family{towers.PairFamily(), vit.Family(), raft.Family(), musiq.Family(), amt.Family(), headFamily()}
}

// firstNames lists a few tensors.
func firstNames(s weights.Shapes) string {
	const most = 3
	names := slices.Sorted(maps.Keys(s))
	if len(names) > most {
		return strings.Join(names[:most], ", ") + " and others"
	}
	return strings.Join(names, ", ")
}
