package nn

import (
	"slices"
	"testing"
)

func TestBlocksInOrder(t *testing.T) {
	for name, want := range map[string]string{
		"encoder.block.3.layer.0.SelfAttention.q.weight": "encoder.block.3",
		"spatial_blocks.12.mlp.fc1.weight":               "spatial_blocks.12",
		"shared.weight":                                  "",
		"final_layer.linear.weight":                      "",
	} {
		if got := block(name); got != want {
			t.Errorf("%s is in %q, want %q", name, got, want)
		}
	}
	names := []string{"spatial_blocks.10", "temporal_blocks.2", "", "spatial_blocks.2"}
	slices.SortFunc(names, byNumber)
	if want := []string{"", "spatial_blocks.2", "temporal_blocks.2", "spatial_blocks.10"}; !slices.Equal(names, want) {
		t.Errorf("order %v, want %v", names, want)
	}
}
