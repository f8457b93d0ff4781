package stages

import (
	"errors"
	"fmt"
	"strings"

	"latentbeam/stages/weights/gguf"
	"latentbeam/stages/weights/safetensors"
)

// architectures are the components that a GGUF holds, by what it says of itself. Other words are those of models that are not known
// here. Files of some programs say nothing, or the name of the program.
var architectures = map[string]string{"wan": "transformer", "t5": "text_encoder", "t5encoder": "text_encoder", "": "", "pig": "", "cow": ""}

// openGGUF opens a GGUF for a component of a model; "": for any.
func openGGUF(component, path string) (*safetensors.File, error) {
	f, err := gguf.Open(path)
	if err != nil {
		return nil, err
	}
	of := f.Metadata()[gguf.Architecture]
	is, known := architectures[of]
	switch {
	case !known:
		err = fmt.Errorf("open %s: this GGUF is of architecture %q, which is no model known here: a denoiser is \"wan\", a text encoder "+
			"\"t5encoder\" or \"t5\"", path, of)
	case component == "", is == "", is == strings.TrimSuffix(component, "_2"):
		return f, nil
	default:
		err = fmt.Errorf("open %s: this GGUF of architecture %q is a %s, not a %s", path, of, is, component)
	}
	return nil, errors.Join(err, f.Close())
}

// openGGUFModel opens a model of one component, the GGUF at path.
func openGGUFModel(name, path string) (*Model, error) {
	f, err := openGGUF("", path)
	if err != nil {
		return nil, fmt.Errorf("open model: %w", err)
	}
	component := architectures[f.Metadata()[gguf.Architecture]]
	if err := f.Close(); err != nil {
		return nil, err
	}
	if component == "" {
		return nil, fmt.Errorf("open model: %s does not say which model it is: name it as a component: model: {transformer: %s}", path, path)
	}
	m, err := OpenComponents(map[string]string{component: path})
	if err == nil {
		m.Name = name
	}
	return m, err
}
