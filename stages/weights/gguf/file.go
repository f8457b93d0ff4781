package gguf

import (
	"errors"
	"fmt"

	"latentbeam/internal/system"
	"latentbeam/stages/weights/safetensors"
)

// Open maps the file at path into memory, checks it and returns its tensors. Tensors in blocks are widened to F32 when they are
// read.
func Open(path string) (*safetensors.File, error) {
	mark := safetensors.MarkFile(path)
	content, unmap, err := system.MapFile(path)
	if err != nil {
		return nil, fmt.Errorf("open gguf: %w", err)
	}
	f, err := toFile(safetensors.Other{Content: content, Mapped: true, Mark: mark, Close: unmap})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open %s: %w", path, err), unmap())
	}
	return f, nil
}

// New is Open for data, the content of a GGUF file.
func New(data []byte) (*safetensors.File, error) { return toFile(safetensors.Other{Content: data}) }

// Keys of the Metadata of a File that was read from a GGUF.
const (
	Architecture = "general.architecture"
	Name         = "general.name"
	// Tokenizer is a spiece.model made from the tokenizer in the file. NoTokenizer says why there is none.
	Tokenizer, NoTokenizer = "tokenizer", "no tokenizer"
)

func toFile(o safetensors.Other) (*safetensors.File, error) {
	h, err := parse(o.Content)
	if err != nil {
		return nil, fmt.Errorf("gguf: %w", err)
	}
	if v, ok := h.values["split.count"]; ok {
		if n, _ := v.number(); n > 1 {
			return nil, fmt.Errorf("gguf: this is one of %d parts of a model: join them with `llama-gguf-split --merge`", n)
		}
	}
	o.Tensors, o.Metadata = h.tensors, map[string]string{Architecture: h.values[Architecture].text(), Name: h.values[Name].text()}
	if data, err := h.tokenizer(); err != nil {
		o.Metadata[NoTokenizer] = err.Error()
	} else if data != nil {
		o.Metadata[Tokenizer] = string(data)
	}
	f, err := safetensors.Show(o)
	if err != nil {
		return nil, fmt.Errorf("gguf: %w", err)
	}
	return f, nil
}
