package stages

import (
	"encoding/json"
	"testing"
)

// TestClassName: a class that is given as a list of module and class has the name of the class.
func TestClassName(t *testing.T) {
	for config, want := range map[string]string{`"WanPipeline"`: "WanPipeline", `["pipeline", "WanPipeline"]`: "WanPipeline",
		`["WanPipeline"]`: "WanPipeline", `[]`: "", `7`: "", `null`: ""} {
		var got ClassName
		if err := json.Unmarshal([]byte(config), &got); got != ClassName(want) || (err == nil) != (want != "" || config == "null") {
			t.Errorf("%s: %q, want %q: %v", config, got, want, err)
		}
	}
}
