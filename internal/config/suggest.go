package config

import (
	"slices"
	"strings"

	"latentbeam/schemas"
)

// otherNames are names that people use for ours, beside schemas.ToolNames; they suggest, they are not accepted.
var otherNames = map[string]string{
	"guidance": "guidance_scale", "steps": "num_inference_steps", "num_steps": "num_inference_steps", "frames": "num_frames",
	"num_samples": "num_videos_per_prompt", "dir": "path", "directory": "path", "out": "output",
	"outputs": "output", "inputs": "input", "prompt": "prompts", "params": "defaults",
	"parameters": "defaults", "pipeline": "stages", "checkpoint": "model", "max_retries": "retries",
}

// suggest returns "did you mean ...?" or the list of what is known.
func suggest(name string, known []string) string {
	if near := Near(name, known); near != "" {
		return "did you mean " + near + "?"
	}
	if len(known) == 0 {
		return "remove it"
	}
	return "known here: " + strings.Join(slices.Sorted(slices.Values(known)), ", ")
}

// Near returns which of the known names is likely meant by one that is none of them, "" where none is.
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

// distance is the edit distance between two names, counting a swap of neighbours as one edit.
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
