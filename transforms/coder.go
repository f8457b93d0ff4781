package transforms

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"

	"latentbeam/internal/media"
	"latentbeam/schemas"
	"latentbeam/stages"
)

// Between fused transforms elements are Go values handed over by reference. These coders serve runners
// that break the fusion: a JSON head with the row and the shapes, then every tensor as raw bytes.

// head is the JSON part of a coded element; the lengths are those of the parts behind it, in order.
type head struct {
	Row      schemas.PromptRow `json:"row"`
	Given    schemas.PromptRow `json:"given"`
	Key      schemas.Key       `json:"key"`
	Origin   schemas.Key       `json:"origin"`
	Readings map[string]string `json:"readings,omitempty"`
	Failed   *stages.Failure   `json:"failed,omitempty"`
	Shapes   [3][]int          `json:"shapes"` // text, negative text, latents
	Scale    float64           `json:"scale,omitempty"`
	Clip     *clipHead         `json:"clip,omitempty"`
	Video    *videoHead        `json:"video,omitempty"`
	Lengths  []int             `json:"lengths"`
}

type clipHead struct {
	Width, Height int
	FPS           float64
}

type videoHead struct{ Ext, Codec string }

var errCoded = errors.New("decode element: the bytes are not what the coder wrote")

func encodeElement(e *stages.Element) ([]byte, error) {
	h := head{Failed: e.Failed, Row: e.Row, Scale: e.LatentScale, Given: e.Given, Key: e.Key, Origin: e.Origin, Readings: e.Readings}
	var parts [][]byte
	add := func(p []byte) {
		h.Lengths = append(h.Lengths, len(p))
		parts = append(parts, p)
	}
	var text, negative *stages.Array
	if e.Text != nil {
		text, negative = e.Text.Embedding, e.Text.Negative
	}
	for i, a := range []*stages.Array{text, negative, e.Latents} {
		if a != nil {
			h.Shapes[i] = a.Shape
			add(schemas.PackFloats(a.Data))
		}
	}
	if c := e.Frames; c != nil {
		h.Clip = &clipHead{c.Width, c.Height, c.FPS}
		for _, f := range c.Frames {
			add(f)
		}
	}
	if v := e.Video; v != nil {
		h.Video = &videoHead{v.Ext, v.Codec}
		add(v.Data)
		add(e.Poster)
	}
	js, err := json.Marshal(h)
	if err != nil {
		return nil, fmt.Errorf("encode element %s: %w", e.Key, err)
	}
	out := binary.AppendUvarint(nil, uint64(len(js)))
	out = append(out, js...)
	for _, p := range parts {
		out = append(out, p...)
	}
	return out, nil
}

func decodeElement(data []byte) (*stages.Element, error) {
	n, used := binary.Uvarint(data)
	if used <= 0 || n > uint64(len(data)-used) {
		return nil, errCoded
	}
	var h head
	if err := json.Unmarshal(data[used:used+int(n)], &h); err != nil {
		return nil, fmt.Errorf("decode element: %w", err)
	}
	parts, err := split(data[used+int(n):], h.Lengths)
	if err != nil {
		return nil, err
	}
	e := &stages.Element{Failed: h.Failed, Row: h.Row, LatentScale: h.Scale, Given: h.Given, Key: h.Key, Origin: h.Origin, Readings: h.Readings}
	var arrays [3]*stages.Array
	for i, shape := range h.Shapes {
		if shape == nil {
			continue
		}
		if len(parts) == 0 {
			return nil, errCoded
		}
		values, err := schemas.UnpackFloats(parts[0], shape)
		if err != nil {
			return nil, fmt.Errorf("decode element: %w", err)
		}
		arrays[i], parts = &stages.Array{Shape: shape, Data: values}, parts[1:]
	}
	if arrays[0] != nil {
		e.Text = &stages.Text{Embedding: arrays[0], Negative: arrays[1]}
	}
	e.Latents = arrays[2]
	return e, h.media(e, parts)
}

// media restores what of the element is pixels.
func (h *head) media(e *stages.Element, parts [][]byte) error {
	if h.Video != nil {
		if len(parts) < 2 {
			return errCoded
		}
		last := len(parts) - 2
		e.Video = &media.Encoded{Data: parts[last], Ext: h.Video.Ext, Codec: h.Video.Codec}
		if len(parts[last+1]) > 0 {
			e.Poster = parts[last+1]
		}
		parts = parts[:last]
	}
	if h.Clip != nil {
		e.Frames = &media.Clip{Width: h.Clip.Width, Height: h.Clip.Height, FPS: h.Clip.FPS, Frames: parts}
		return e.Frames.Validate()
	}
	return nil
}

// split cuts data into parts of the given lengths, which must use it up.
func split(data []byte, lengths []int) ([][]byte, error) {
	var parts [][]byte
	for _, n := range lengths {
		if n < 0 || n > len(data) {
			return nil, errCoded
		}
		parts, data = append(parts, data[:n:n]), data[n:]
	}
	if len(data) > 0 {
		return nil, errCoded
	}
	return parts, nil
}

func encodeBatch(b *stages.Batch) ([]byte, error) {
	bucket, err := json.Marshal(b.Bucket)
	if err != nil {
		return nil, fmt.Errorf("encode batch: %w", err)
	}
	out := binary.AppendUvarint(nil, uint64(len(bucket)))
	out = append(out, bucket...)
	for _, e := range b.Elements {
		data, err := encodeElement(e)
		if err != nil {
			return nil, err
		}
		out = binary.AppendUvarint(out, uint64(len(data)))
		out = append(out, data...)
	}
	return out, nil
}

func decodeBatch(data []byte) (*stages.Batch, error) {
	bucket, data, err := chunk(data)
	if err != nil {
		return nil, err
	}
	b := &stages.Batch{}
	if err := json.Unmarshal(bucket, &b.Bucket); err != nil {
		return nil, fmt.Errorf("decode batch: %w", err)
	}
	for len(data) > 0 {
		var one []byte
		if one, data, err = chunk(data); err != nil {
			return nil, err
		}
		e, err := decodeElement(one)
		if err != nil {
			return nil, err
		}
		b.Elements = append(b.Elements, e)
	}
	return b, nil
}

// chunk cuts a length-prefixed piece off the front of data.
func chunk(data []byte) (piece, rest []byte, err error) {
	n, used := binary.Uvarint(data)
	if used <= 0 || n > uint64(len(data)-used) {
		return nil, nil, errCoded
	}
	data = data[used:]
	return data[:n:n], data[n:], nil
}
