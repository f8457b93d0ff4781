package stages

import (
	"slices"
	"testing"
	"testing/fstest"
)

// TestLorasOfExperts: of two denoisers each gets its adapters in the order of the list, other components none.
func TestLorasOfExperts(t *testing.T) {
	m, err := EmbeddedModel("two", fstest.MapFS{"transformer_2/config.json": &fstest.MapFile{Data: []byte("{}")}})
	if err != nil {
		t.Fatal(err)
	}
	list := []Lora{{Path: "/a", Expert: ExpertHigh}, {Path: "/b", Expert: ExpertBoth}, {Path: "/c", Expert: ExpertLow}}
	if err := m.AddLoras(list); err != nil {
		t.Fatal(err)
	}
	for component, want := range map[string]string{"transformer": "/a/b", "transformer_2": "/b/c", "vae": "", "text_encoder": ""} {
		got := ""
		for _, l := range m.LorasOf(component) {
			got += l.Path
		}
		if got != want {
			t.Errorf("%s gets %q, want %q", component, got, want)
		}
	}
	if !slices.EqualFunc(m.Loras, list, func(a, b Lora) bool { return a.Path == b.Path }) {
		t.Errorf("the list changed: %v", m.Loras)
	}
}
