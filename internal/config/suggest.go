package config

import (
	"slices"
	"strings"

	"latentbeam/schemas"
)

// otherNames maps common names to the names of our keys, in addition to schemas.ToolNames. They are not accepted: a message only
// suggests the right name.
var otherNames = map[string]string{
	"guidance": "guidance_scale", "steps": "num_inference_steps", "num_steps": "num_inference_steps", "frames": "num_frames",
	"num_samples": "num_videos_per_prompt", "dir": "path", "directory": "path", "out": "output",
	"outputs": "output", "inputs": "input", "prompt": "prompts", "params": "defaults",
	"parameters": "defaults", "pipeline": "stages", "checkpoint": "model", "max_retries": "retries",
}

// suggestName returns "did you mean ...?" or a list of the known names.
func suggestName(name string, known []string) string {
	if near := Near(name, known); near != "" {
		return "did you mean " + near + "?"
	}
	if len(known) == 0 {
		return "remove it"
	}
	return "known here: " + strings.Join(slices.Sorted(slices.Values(known)), ", ")
}

// Near returns the known name that was probably meant by an unknown name, or "" if no name is similar.
func Near(name string, known []string) string {
	lower := strings.ToLower(name)
	if other, ok := otherNames[lower]; ok && slices.Contains(known, other) {
		return other
	}
	if tool, ok := schemas.ToolNameOf(lower); ok && slices.Contains(known, tool.Field) {
		return tool.Field
	}
	best, bestDistance := "", 1+max(1, min(3, len(name)/3))
	for _, k := range known {
		if d := distance(lower, k); d < bestDistance {
			best, bestDistance = k, d
		}
	}
	return best
}

// distance returns the edit distance between two names. A swap of neighbours counts as one edit.
func distance(a, b string) int {
	before, prev, cur := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		cur[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			cur[j] = min(prev[j]+1, cur[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				cur[j] = min(cur[j], before[j-2]+1)
			}
		}
		before, prev, cur = prev, cur, before
	}
	return prev[len(b)]
}
