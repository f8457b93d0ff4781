package stages

import "testing"

// TestClassName: a list of a module and a class names the class.
func TestClassName(t *testing.T) {
	for config, want := range map[string]string{`{"_class_name": "WanPipeline"}`: "WanPipeline", `{"_class_name": ["pipeline", "WanPipeline"]}`: "WanPipeline",
		`{"_class_name": ["WanPipeline"]}`: "WanPipeline", `{}`: "", `{"_class_name": []}`: "", `{"_class_name": 7}`: "", `{"_class_name": null}`: ""} {
		if got := ClassOf([]byte(config)); got != want {
			t.Errorf("%s: %q, want %q", config, got, want)
		}
	}
}
