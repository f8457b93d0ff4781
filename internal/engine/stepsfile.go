package engine

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"latentbeam/internal/engine/coder"
	"latentbeam/internal/engine/keys"
	"latentbeam/kernels"
	"latentbeam/schemas"
	"latentbeam/stages"
	"latentbeam/stages/weights/safetensors"
)

// Saved steps are a safetensors file: latents, memory.NAME for the sampler's state, clip.N for earlier clips,
// all (C, T, H, W) in fp32. The metadata name the row; sha256 covers all other metadata and all tensors.

// stepsVersion is the version of the file format.
const stepsVersion = "1"

// Names of tensors, and their prefixes.
const (
	latentsTensor = "latents"
	memoryPrefix  = "memory."
	clipPrefix    = "clip."
)

// writeSteps writes the file of a row.
func writeSteps(w io.Writer, row *stages.Saved, class string) error {
	tensors := map[string]safetensors.Tensor{}
	add := func(name string, a *stages.Array) {
		tensors[name] = safetensors.Tensor{DType: "F32", Shape: a.Shape, Data: kernels.F32.Bytes(a.Data)}
	}
	if row.Latents != nil {
		add(latentsTensor, row.Latents)
	}
	var order []string
	for _, m := range row.Memory {
		if strings.Contains(m.Name, ",") {
			return fmt.Errorf("the sampler remembers %q: a name with a comma cannot be kept", m.Name)
		}
		add(memoryPrefix+m.Name, m.Values)
		order = append(order, m.Name)
	}
	for i, c := range row.Clips {
		add(clipPrefix+strconv.Itoa(i), c)
	}
	metadata := map[string]string{"key": row.Key.String(), "step": strconv.Itoa(row.Done), "clip": strconv.Itoa(row.Clip),
		"class": class, "scheduler": row.Sampler, "memory": strings.Join(order, ","), "version": stepsVersion}
	if row.Sampled {
		metadata["latent_scale"] = strconv.FormatFloat(row.Scale, 'g', -1, 64)
	}
	if len(row.Readings) > 0 {
		readings, err := json.Marshal(row.Readings) // with sorted names
		if err != nil {
			return err
		}
		metadata["readings"] = string(readings)
	}
	metadata["sha256"] = stepsDigest(metadata, tensors)
	return safetensors.Write(w, tensors, metadata)
}

// stepsDigest is the SHA-256 over metadata and tensors, each with its length.
func stepsDigest(metadata map[string]string, tensors map[string]safetensors.Tensor) string {
	h := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(metadata)) {
		if name != "sha256" {
			h.Write(keys.AppendText(nil, name, metadata[name]))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(tensors)) {
		t := tensors[name]
		h.Write(keys.AppendText(nil, name, t.DType, fmt.Sprint(t.Shape)))
		h.Write(t.Data)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// readSteps reads the file of a row. It returns an error if the file belongs to another row or class.
func readSteps(data []byte, key schemas.Key, class string) (*stages.Steps, error) {
	f, err := safetensors.New(data)
	if err != nil {
		return nil, err
	}
	metadata, tensors := f.Metadata(), map[string]safetensors.Tensor{}
	for _, name := range f.Names() {
		tensors[name], _ = f.Tensor(name)
	}
	for name, want := range map[string]string{"version": stepsVersion, "key": key.String(), "class": class,
		"sha256": stepsDigest(metadata, tensors)} {
		if got := metadata[name]; got != want {
			return nil, fmt.Errorf("its %s is %q, want %q", name, got, want)
		}
	}
	s := &stages.Steps{Sampler: metadata["scheduler"]}
	for name, into := range map[string]*int{"step": &s.Done, "clip": &s.Clip} {
		if *into, err = strconv.Atoi(metadata[name]); err != nil {
			return nil, fmt.Errorf("its %s: %w", name, err)
		}
	}
	if text := metadata["latent_scale"]; text != "" {
		s.Sampled = true
		if s.Scale, err = strconv.ParseFloat(text, 64); err != nil {
			return nil, fmt.Errorf("its latent_scale is %.40q", text)
		}
	}
	if text := metadata["readings"]; text != "" {
		if err := json.Unmarshal([]byte(text), &s.Readings); err != nil {
			return nil, fmt.Errorf("its readings: %w", err)
		}
	}
	array := func(name string) *stages.Array {
		t, there := tensors[name]
		values, problem := schemas.UnpackFloats(t.Data, t.Shape)
		if !there || problem != nil || t.DType != "F32" {
			err = errors.Join(err, fmt.Errorf("tensor %s is missing or no fp32", name))
			return nil
		}
		return &stages.Array{Shape: t.Shape, Data: values}
	}
	if s.Done > 0 {
		s.Latents = array(latentsTensor)
	}
	for _, name := range strings.Split(metadata["memory"], ",") {
		if name != "" {
			s.Memory = append(s.Memory, stages.Remembered{Name: name, Values: array(memoryPrefix + name)})
		}
	}
	for i := 0; i < s.Clip && err == nil; i++ {
		s.Clips = append(s.Clips, array(clipPrefix+strconv.Itoa(i)))
	}
	if err == nil {
		err = coder.ValidateSteps(s)
	}
	return s, err
}
