package stdit

import (
	"latentbeam/kernels"
	"latentbeam/stages/nn"
	"latentbeam/stages/sequence"
	"latentbeam/stages/weights"
)

// trunk is the common part of all versions' networks: blocks that are modulated by one vector of the timestep.
type trunk struct {
	Config
	modulation nn.Linear      // t_block.1 (6C, C), after a SiLU
	blocks     []block        // in the order in which they run
	own        sequence.Range // of blocks, or of pairs of blocks
	flow       *weights.Flow
}

// block is one block: attention, text and MLP.
type block struct {
	table         kernels.Tensor    // scale_shift_table (6, C): shift, scale, gate of attention, then of the MLP
	attn          nn.SelfAttention  // attn, along the patches of a frame; in temporal_blocks the frames of a patch
	cross         nn.CrossAttention // cross_attn
	mlp           nn.MLP            // mlp
	tableTemporal kernels.Tensor    // scale_shift_table_temporal (3, C) of STDiT2: shift, scale, gate
	attnTemp      nn.SelfAttention  // attn_temp of STDiT and STDiT2, along the frames of a patch
}

// loadTrunk loads depth blocks of each kind. Blocks of several kinds alternate.
func loadTrunk(cfg Config, w *weights.Weights, qkNorm bool, kinds ...string) trunk {
	c := cfg.HiddenSize
	t := trunk{Config: cfg, modulation: nn.LoadLinear(w.Sub("t_block.1"), c, 6*c), flow: w.Flow(),
		blocks: make([]block, len(kinds)*cfg.Depth)}
	for _, kind := range kinds {
		t.own = w.Blocks(cfg.Depth, kind)
	}
	for i := t.own.Lo; i < t.own.Hi; i++ {
		for k, kind := range kinds {
			w := w.Block(i, kind)
			t.blocks[len(kinds)*i+k] = block{
				table: w.Tensor("scale_shift_table", 6, c),
				attn:  nn.LoadSelfAttention(w.Sub("attn"), c, cfg.NumHeads, qkNorm),
				cross: nn.LoadCrossAttention(w.Sub("cross_attn"), c, cfg.NumHeads),
				mlp:   nn.LoadMLP(w.Sub("mlp"), c, cfg.mlpWidth(), c),
			}
		}
	}
	return t
}

func (t *trunk) passing() (sequence.Range, *weights.Flow) { return t.own, t.flow }

func (t *trunk) crosses() (out []nn.CrossAttention) {
	for i := range t.blocks {
		out = append(out, t.blocks[i].cross)
	}
	return out
}

// eachBlock calls forward for this rank's blocks in order. forward runs block i on the stream.
func (t *trunk) eachBlock(be kernels.Backend, s *stream, forward func(i int, b *block) error) error {
	kinds := len(t.blocks) / t.Depth
	for at := range t.flow.Each(t.own) {
		for i := kinds * at; i < kinds*(at+1); i++ {
			s.block(i)
			end := be.Scope()
			err := forward(i, &t.blocks[i])
			if end(); err != nil {
				return err
			}
		}
	}
	return nil
}

// addTextAndMLP adds the layers after attention in block i to a part: cross_attn(x, text), then gate_mlp *
// mlp(modulate(LN(x))), where rows 3, 4 and 5 of m are shift, scale and gate.
func (b *block) addTextAndMLP(be kernels.Backend, p *part, m modulation, i int) {
	p.p.addText(be, p.x, b.cross, i)
	defer be.Scope()()
	h := nn.Modulate(be, p.x, m.row(3), m.row(4)) // (n, T', W, C)
	b.mlp.AddTo(be, p.x, h, m.row(5))
}
