package catalog

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"latentbeam/stages"
	"latentbeam/stages/diffuse/dit"
	"latentbeam/stages/diffuse/sampler"
	"latentbeam/stages/wan"
)

// pipelines maps the classes in model_index.json to their families.
func pipelines() map[string]dit.Family {
	all := map[string]dit.Family{}
	for _, d := range Denoisers() {
		for class := range d.Pipelines {
			all[class] = d
		}
	}
	return all
}

// refused has the classes of Wan that are not supported yet.
var refused = map[string]string{
	"WanVideoToVideoPipeline": "video to video",
	"WanVACEPipeline":         "video editing",
	"WanAnimatePipeline":      "animation of people",
}

// ErrUnsupported says that this program has no stages for a class of pipelines.
var ErrUnsupported = errors.New("not supported yet")

// Pipeline describes what a whole model does, by the class in its model_index.json. The error lists the known classes.
func Pipeline(class string) (string, error) {
	all := pipelines()
	if family, ok := all[class]; ok {
		return family.Pipelines[class], nil
	}
	known := strings.Join(slices.Sorted(maps.Keys(all)), ", ")
	switch does := refused[class]; {
	case does != "":
		return "", fmt.Errorf("model_index.json names %s (%s), which is %w; there are %s", class, does, ErrUnsupported, known)
	case class == "":
		return "", fmt.Errorf("model_index.json is missing or names no _class_name; there are %s", known)
	}
	return "", fmt.Errorf("model_index.json names %s, which is not known; there are %s", class, known)
}

// Scheduler describes how a scheduler_config.json samples for a model of the class; "" if the class does not read it.
func Scheduler(class string, config []byte) (string, error) {
	if class == wan.DMDName {
		return "dmd, in place of scheduler_config.json", nil
	}
	process := pipelines()[class].Process
	if process == "" {
		return "", nil
	}
	scheduler, err := sampler.ParseScheduler(config, process)
	if err != nil {
		return "", err
	}
	return scheduler.String(), nil
}

// StagesOf returns the stages of a job that names only a whole model and a kind of input, each as an entry of the YAML.
func StagesOf(index stages.Index, input stages.Kind) ([]string, error) {
	if _, err := Pipeline(string(index.ClassName)); err != nil {
		return nil, err
	}
	var images []string
	switch {
	case index.ExpandTimesteps: // text and image
		images = []string{"encode_image"}
	case index.ClassName == wan.ImageName:
		images = []string{"encode_image: {frames: all}"}
	}
	if e := index.ImageEncoder; index.ClassName == wan.ImageName && len(e) > 0 && e[0] != nil {
		images = append(images, "embed_image")
	}
	last := []string{"decode_vae", "encode_video"}
	switch input {
	case stages.KindMedia:
		return []string{"encode_vae", "encode_text"}, nil
	case stages.KindLatents:
		return last, nil
	}
	all := slices.Concat(images, []string{"denoise"}, last)
	if input == stages.KindText {
		return all, nil
	}
	return append([]string{"encode_text"}, all...), nil
}
