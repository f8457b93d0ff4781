package stages

import (
	"errors"
	"fmt"
	"strings"

	"latentbeam/stages/weights/gguf"
	"latentbeam/stages/weights/safetensors"
)

// architectures maps general.architecture of a GGUF to the component that the file holds. Some programs write no architecture,
// or their own name; these map to "". Other words belong to models that are not supported here.
var architectures = map[string]string{"wan": "transformer", "t5": "text_encoder", "t5encoder": "text_encoder", "": "", "pig": "", "cow": ""}

// openGGUF opens a GGUF that must hold the given component of a model; "" accepts any.
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

// openGGUFModel opens the GGUF at path as a model of one component.
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
