package coder

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"latentbeam/kernels"
	"latentbeam/stages"
)

// codeSteps returns the head of steps and adds their arrays.
func codeSteps(s *stages.Steps, add func([]byte)) *begunHead {
	if s == nil {
		return nil
	}
	h := &begunHead{Clip: s.Clip, Done: s.Done, Sampler: s.Sampler, Sampled: s.Sampled, Scale: s.Scale, Readings: s.Readings}
	array := func(a *stages.Array) arrayHead {
		add(kernels.F32.Bytes(a.Data))
		return arrayHead{a.Shape}
	}
	if s.Latents != nil {
		latents := array(s.Latents)
		h.Latents = &latents
	}
	for _, m := range s.Memory {
		h.Memory = append(h.Memory, namedHead{m.Name, array(m.Values)})
	}
	for _, c := range s.Clips {
		h.Clips = append(h.Clips, array(c))
	}
	return h
}

// steps decodes steps that codeSteps has written.
func (d *decoder) steps(h *begunHead) *stages.Steps {
	if h == nil {
		return nil
	}
	s := &stages.Steps{Clip: h.Clip, Done: h.Done, Sampler: h.Sampler, Sampled: h.Sampled, Scale: h.Scale, Readings: h.Readings,
		Latents: d.array(h.Latents)}
	for i := range h.Memory {
		s.Memory = append(s.Memory, stages.Remembered{Name: h.Memory[i].Name, Values: d.array(&h.Memory[i].arrayHead)})
	}
	for i := range h.Clips {
		s.Clips = append(s.Clips, d.array(&h.Clips[i]))
	}
	if err := ValidateSteps(s); d.err == nil && err != nil {
		d.err = fmt.Errorf("decode element: %w", err)
	}
	return s
}

// ValidateSteps returns an error if steps cannot belong to a row: shapes differ, or numbers are not finite.
func ValidateSteps(s *stages.Steps) error {
	if s.Clip < 0 || s.Done < 0 || len(s.Clips) != s.Clip || (s.Done > 0) != (s.Latents != nil) {
		return errors.New("steps of no sampling")
	}
	if s.Sampled && (s.Latents == nil || !(s.Scale >= 0 && s.Scale < 1e6)) {
		return fmt.Errorf("latents of a latent_scale of %g", s.Scale)
	}
	arrays := slices.Clone(s.Clips)
	if s.Latents != nil {
		arrays = append(arrays, s.Latents)
	}
	for _, m := range s.Memory {
		arrays = append(arrays, m.Values)
	}
	for _, a := range arrays {
		if a == nil || len(a.Shape) != 4 || !slices.Equal(a.Shape, arrays[0].Shape) {
			return errors.New("steps with arrays of several shapes")
		}
		if slices.ContainsFunc(a.Data, func(v float32) bool { return math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) }) {
			return errors.New("steps that are not finite")
		}
	}
	return nil
}

// EncodeSaved codes the steps of rows for the process that saves them.
func EncodeSaved(rows []stages.Saved) ([]byte, error) {
	b := &stages.Batch{}
	for i := range rows {
		b.Elements = append(b.Elements, &stages.Element{Key: rows[i].Key, Begun: &rows[i].Steps})
	}
	return EncodeBatch(b)
}

// DecodeSaved is the inverse of EncodeSaved.
func DecodeSaved(data []byte) (rows []stages.Saved, err error) {
	b, err := DecodeBatch(data)
	if err != nil {
		return nil, err
	}
	for _, e := range b.Elements {
		if e.Begun == nil {
			return nil, errCoded
		}
		rows = append(rows, stages.Saved{Key: e.Key, Steps: *e.Begun})
	}
	return rows, nil
}
