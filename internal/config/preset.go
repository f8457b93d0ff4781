package config

import (
	"fmt"
	"latentbeam/internal/config/document"
	"slices"
	"strings"
)

// Preset is a published inference configuration, as part of a job's YAML.
type Preset struct {
	Name string
	Text string // YAML
}

// Presets returns the published configurations of Open-Sora 1.0 to 1.3 (configs/opensora*/inference of the reference, with the
// sizes and lengths for which its documentation has measurements), of Wan 2.1 and 2.2, and of Open-Sora-Plan 1.2 and 1.3. For
// another aspect ratio than 9:16, a job with Open-Sora sets defaults.aspect_ratio. For upright videos, a job with Wan swaps height
// and width.
func Presets() []Preset {
	var all []Preset
	add := func(name, text string) { all = append(all, Preset{"opensora-" + name, text + presetStages}) }
	for _, c := range []struct {
		frames, side, fps int
		space, time       float64
	}{{16, 256, 8, 0.5, 1}, {16, 512, 8, 1, 1}, {64, 512, 12, 1, 2.0 / 3}} {
		name := fmt.Sprintf("v1.0-%dx%dx%d", c.frames, c.side, c.side)
		add(name, fmt.Sprintf(preset10, c.frames, c.side, c.side, c.fps, c.space, c.time))
	}
	resolutions := []string{"144p", "240p", "360p", "480p", "720p", "1080p"}
	combine := func(version, text string, resolutions []string, lengths ...string) {
		for _, r := range resolutions {
			for _, l := range lengths {
				add(version+"-"+r+"-"+l, fmt.Sprintf(text, r, presetFrames(l)))
			}
		}
	}
	combine("v1.1", preset11, resolutions, "image", "16f", "32f", "64f")
	combine("v1.2", preset12, resolutions, "image", "2s", "4s", "8s", "16s")
	combine("v1.3", preset13, resolutions, "image", "49f", "65f", "81f", "97f", "113f")
	for _, w := range wanPresets {
		all = append(all, Preset{"wan" + w.name, fmt.Sprintf(presetWan, w.height, w.width, w.frames, w.fps, w.steps, w.guidance,
			w.second, w.images, w.shift) + presetStages})
	}
	for _, p := range planPresets {
		all = append(all, Preset{"osplan-" + p.name, fmt.Sprintf(presetPlan, p.height, p.width, p.frames, p.fps) + presetStages})
	}
	return all
}

// planPresets are the published sizes of Open-Sora-Plan. Steps and guidance in presetPlan come from its scripts.
var planPresets = []struct {
	name                       string
	height, width, frames, fps int
}{
	{"v1.2-29x480p", 480, 640, 29, 24}, {"v1.2-93x480p", 480, 640, 93, 24}, {"v1.2-29x720p", 720, 1280, 29, 24},
	{"v1.2-93x720p", 720, 1280, 93, 24}, {"v1.3-93x640p", 352, 640, 93, 18},
}

// wanPresets are the sizes and steps in Wan's documentation and code, with the shifts from the documentation of diffusers. The
// shift 12 for A14B is from Wan's own code.
var wanPresets = []struct {
	name                              string
	height, width, frames, fps, steps int
	guidance                          float64
	second                            string // ", guidance_scale_2: 3" for models with two denoisers
	images                            string // stages that encode images
	shift                             float64
}{
	{"2.1-t2v-1.3b-480p", 480, 832, 81, 16, 50, 5, "", "", 3},
	{"2.1-t2v-14b-480p", 480, 832, 81, 16, 50, 5, "", "", 3},
	{"2.1-t2v-14b-720p", 720, 1280, 81, 16, 50, 5, "", "", 5},
	{"2.1-i2v-14b-480p", 480, 832, 81, 16, 40, 5, "", "- encode_image: {frames: all}\n- embed_image\n", 3},
	{"2.1-i2v-14b-720p", 720, 1280, 81, 16, 40, 5, "", "- encode_image: {frames: all}\n- embed_image\n", 5},
	{"2.2-t2v-a14b-480p", 480, 832, 81, 16, 40, 4, ", guidance_scale_2: 3", "", 12},
	{"2.2-t2v-a14b-720p", 720, 1280, 81, 16, 40, 4, ", guidance_scale_2: 3", "", 12},
	{"2.2-i2v-a14b-480p", 480, 832, 81, 16, 40, 3.5, ", guidance_scale_2: 3.5", "- encode_image: {frames: all}\n", 5},
	{"2.2-i2v-a14b-720p", 720, 1280, 81, 16, 40, 3.5, ", guidance_scale_2: 3.5", "- encode_image: {frames: all}\n", 5},
	{"2.2-ti2v-5b-720p", 704, 1280, 121, 24, 50, 5, "", "- encode_image\n", 5},
}

// presetFrames returns num_frames for the length in the name of a preset.
func presetFrames(length string) string {
	if length == "image" {
		return "1"
	}
	return strings.TrimSuffix(length, "f")
}

const (
	preset10 = `defaults: {num_frames: %d, height: %d, width: %d, fps: %d, num_inference_steps: 100,
  guidance_scale: 7, max_sequence_length: 120}
stages:
- encode_text
- denoise: {version: "1.0", space_scale: %v, time_scale: %v}
`
	// The model gets fps 24 and makes every third frame, so the video has 8 frames a second.
	preset11 = `defaults: {resolution: %s, aspect_ratio: "9:16", num_frames: %s, fps: 8, num_inference_steps: 100,
  guidance_scale: 7, max_sequence_length: 200, condition_frame_length: 4}
stages:
- encode_text
- encode_reference
- denoise: {version: "1.1", frame_interval: 3}
`
	preset12 = `defaults: {resolution: %s, aspect_ratio: "9:16", num_frames: %s, fps: 24, num_inference_steps: 30,
  guidance_scale: 7, max_sequence_length: 300, aes: 6.5, condition_frame_length: 5}
stages:
- encode_text: {scores: "1.2"}
- encode_reference
- denoise: {version: "1.2"}
`
	preset13 = `defaults: {resolution: %s, aspect_ratio: "9:16", num_frames: %s, fps: 24, num_inference_steps: 30,
  guidance_scale: 7.5, max_sequence_length: 300, condition_frame_length: 5}
stages:
- encode_text: {scores: "1.3"}
- encode_reference
- denoise: {version: "1.3"}
`
	presetWan = `defaults: {height: %d, width: %d, num_frames: %d, fps: %d, num_inference_steps: %d, guidance_scale: %v%s,
  max_sequence_length: 512}
stages:
- encode_text
%s- denoise: {flow_shift: %v}
`
	presetPlan = `defaults: {height: %d, width: %d, num_frames: %d, fps: %d, num_inference_steps: 100, guidance_scale: 7.5,
  max_sequence_length: 512}
stages:
- encode_text
- denoise
`
	presetStages = `- decode_vae
- encode_video
`
)

// nearestPresets is how many names the message about an unknown preset suggests.
const nearestPresets = 5

// usePreset adds the keys of the named preset that the file does not have.
func (c *Config) usePreset(problems *document.Error) {
	e := c.root.Lookup("preset")
	if e == nil || e.Value.Kind != document.TextKind || e.Value.Text == "" {
		return // not given, or a wrong type, which decode reports
	}
	name := e.Value.Text
	presets := Presets()
	i := slices.IndexFunc(presets, func(p Preset) bool { return p.Name == name })
	if i < 0 {
		near := nearest(name, presets)
		problems.Add(e.Value.Pos, fmt.Sprintf("preset %q is not known", document.Clip(name, document.ValueRunes)),
			"the nearest are "+strings.Join(near, ", "))
		// The rest of the file is checked with the nearest preset.
		i = slices.IndexFunc(presets, func(p Preset) bool { return p.Name == near[0] })
	}
	root, err := document.Parse(&document.Text{Name: presetSource + presets[i].Name, Text: []byte(presets[i].Text)}, "")
	if err != nil {
		problems.Problems = append(problems.Problems, err.Problems...)
		return
	}
	addMissing(c.root, root)
}

// nearest returns the names of presets that are most similar to name.
func nearest(name string, presets []Preset) []string {
	var names []string
	for _, p := range presets {
		names = append(names, p.Name)
	}
	if len(name) > 2*len(names[0]) { // nothing is similar, and distance takes time len(name)*len(other)
		return names[:nearestPresets]
	}
	slices.SortStableFunc(names, func(a, b string) int { return distance(name, a) - distance(name, b) })
	return names[:nearestPresets]
}

// ScalesApart reports whether the file or a flag, not a preset, gives guidance_scale_2. If not, a guidance_scale of a row holds for
// both denoisers, as in diffusers.
func (c *Config) ScalesApart() bool {
	e := c.root.Lookup("defaults")
	if e == nil {
		return false
	}
	e = e.Value.Lookup("guidance_scale_2")
	return e != nil && e.Value.Kind != document.NullKind &&
		(e.Value.Pos.Source == nil || !strings.HasPrefix(e.Value.Pos.Source.Name, presetSource))
}

// presetSource is what messages put before the name of a preset when they say where a value comes from.
const presetSource = "preset "

// addMissing adds the keys of under that n does not have. If n has a list of stages, it keeps that list and only adds missing
// options to its stages.
func addMissing(n, under *document.Node) {
	for _, p := range under.Pairs {
		e := n.Lookup(p.Key)
		switch {
		case givenOtherwise(n, p.Key):
		case e == nil:
			n.Pairs = append(n.Pairs, p)
		case e.Value.Kind == document.NullKind:
			e.Value = p.Value
		case e.Value.Kind == document.MapKind && p.Value.Kind == document.MapKind:
			addMissing(e.Value, p.Value)
		case e.Value.Kind == document.ListKind && p.Value.Kind == document.ListKind:
			addMissingOptions(e.Value, p.Value)
		}
	}
}

// givenOtherwise reports whether a map already decides key by other keys: a size is given by its sides or by its name, and a
// guidance_scale of a file holds for both denoisers. If a file gives only resolution or only aspect_ratio, the preset adds the
// other one.
func givenOtherwise(n *document.Node, key string) bool {
	switch key {
	case "height", "width":
		return n.Lookup("resolution") != nil
	case "guidance_scale_2":
		return n.Lookup("guidance_scale") != nil
	case "resolution", "aspect_ratio":
		return n.Lookup("height") != nil || n.Lookup("width") != nil
	}
	return false
}

func addMissingOptions(list, under *document.Node) {
	for _, item := range under.Items {
		s, ok := stageOf(item)
		if !ok || s.Options.node == nil {
			continue
		}
		entry, options := stageEntry(list, s.Name)
		switch {
		case entry == nil:
		case entry == options: // a bare name
			*entry = *item
		case options.Kind == document.NullKind:
			*options = *s.Options.node
		case options.Kind == document.MapKind:
			addMissing(options, s.Options.node)
		}
	}
}
