package catalog

import (
	"fmt"
	"slices"
	"strings"

	"latentbeam/stages"
	"latentbeam/stages/wan"
)

// pipelines are the classes that a model_index.json may name, with what they do.
var pipelines = map[string]string{
	"OpenSoraPipeline": "text to video",
	wan.PipelineName:   "text to video",
	wan.DMDName:        "text to video in three steps",
}

// refused are the classes of Wan that there is no pipeline for yet.
var refused = map[string]string{
	"WanImageToVideoPipeline": "image to video",
	"WanVideoToVideoPipeline": "video to video",
	"WanVACEPipeline":         "video editing",
	"WanAnimatePipeline":      "animation of people",
}

// Pipeline returns what a whole model does, by the class that its model_index.json names. The error says which classes
// there are.
func Pipeline(class string) (string, error) {
	if does, ok := pipelines[class]; ok {
		return does, nil
	}
	var names []string
	for name := range pipelines {
		names = append(names, name)
	}
	slices.Sort(names)
	known := strings.Join(names, ", ")
	switch does := refused[class]; {
	case does != "":
		return "", fmt.Errorf("model_index.json names %s (%s), which is not supported yet; there are %s", class, does, known)
	case class == "":
		return "", fmt.Errorf("model_index.json is missing or names no _class_name; there are %s", known)
	}
	return "", fmt.Errorf("model_index.json names %s, which is not known; there are %s", class, known)
}

// Scheduler says how a scheduler_config.json of a model of the class samples, "" where the class does not read it.
func Scheduler(class string, config []byte) (string, error) {
	if class == wan.DMDName {
		return "dmd, in place of scheduler_config.json", nil
	}
	if class != wan.PipelineName {
		return "", nil
	}
	return wan.DescribeScheduler(config)
}

// StagesOf returns the stages of a job that starts from a kind of input and names only a whole model of the class.
func StagesOf(class string, input stages.Kind) ([]string, error) {
	if _, err := Pipeline(class); err != nil {
		return nil, err
	}
	all := []string{"encode_text", "denoise", "decode_vae", "encode_video"}
	switch input {
	case stages.KindMedia:
		return []string{"encode_vae", "encode_text"}, nil
	case stages.KindText:
		return all[1:], nil
	case stages.KindLatents:
		return all[2:], nil
	}
	return all, nil
}
