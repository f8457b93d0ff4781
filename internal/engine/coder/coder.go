package coder

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"

	"latentbeam/kernels"
	"latentbeam/schemas"
	"latentbeam/stages"
)

// Fused transforms pass elements by reference. These coders are for runners that do not fuse, and for runners
// that measure the size of elements. A coded element is a JSON head with the row and the shapes, then every
// tensor, frame and file as raw bytes.

// head is the JSON part of a coded element. A field of stages.Element that is missing here is lost.
type head struct {
	Row      schemas.PromptRow  `json:"row"`
	Given    schemas.PromptRow  `json:"given"`
	Wrong    map[string]string  `json:"wrong,omitempty"`
	Key      []byte             `json:"key,omitempty"` // nil: zero
	Origin   []byte             `json:"origin,omitempty"`
	Unread   string             `json:"unread,omitempty"`
	Readings map[string]string  `json:"readings,omitempty"`
	Looked   looked             `json:"looked,omitempty"`
	Blind    blind              `json:"blind,omitempty"`
	Form     int                `json:"form,omitempty"`
	Settled  *schemas.Result    `json:"settled,omitempty"`
	Failed   *stages.Failure    `json:"failed,omitempty"`
	Scale    float64            `json:"scale,omitempty"`
	Arrays   [arrays]*arrayHead `json:"arrays"` // nil: absent
	Frames   *clipHead          `json:"frames,omitempty"`
	Video    *videoHead         `json:"video,omitempty"`
	Poster   bool               `json:"poster,omitempty"`
	Media    *string            `json:"media,omitempty"` // the extension of a file that a stage made
	Refs     []*arrayHead       `json:"references,omitempty"`
	Later    []laterHead        `json:"later,omitempty"` // texts of later clips
	Begun    *begunHead         `json:"begun,omitempty"`
	Lengths  []int              `json:"lengths"` // bytes of each part after the head, in order
}

// blind is Element.LookFailed.
type blind map[string]*stages.Failure

// looked is Element.Looked.
type looked map[string]map[string]string

// The arrays of an element, in the order in which they are coded.
const (
	textArray = iota
	negativeArray
	latentsArray
	imageArray
	rawArray
	arrays
)

type arrayHead struct {
	Shape []int `json:"shape"`
}

type laterHead struct {
	Clip int
	arrayHead
}

// begunHead is the head of stages.Steps. Its arrays are the latents, if any, then the sampler's memories, then the clips.
type begunHead struct {
	Clip     int
	Done     int
	Sampler  string            `json:",omitempty"`
	Sampled  bool              `json:",omitempty"`
	Readings map[string]string `json:",omitempty"`
	Scale    float64           `json:",omitempty"`
	Latents  *arrayHead        `json:",omitempty"`
	Memory   []namedHead       `json:",omitempty"`
	Clips    []arrayHead       `json:",omitempty"`
}

type namedHead struct {
	Name string
	arrayHead
}

type clipHead struct {
	Width, Height int
	FPS           float64
	Frames        int
}

type videoHead struct {
	Ext, Codec            string
	Recon                 *clipHead
	Width, Height, Frames int
	Markable              bool `json:",omitempty"`
}

var errCoded = errors.New("decode element: the bytes are not what the coder wrote")

// EncodeElement codes an element for another process.
func EncodeElement(e *stages.Element) ([]byte, error) {
	h := head{Row: e.Row, Given: e.Given, Wrong: e.Wrong, Key: keyBytes(e.Key), Origin: keyBytes(e.Origin),
		Unread: e.Unread, Readings: e.Readings, Looked: e.Looked, Blind: e.LookFailed, Form: e.Form, Settled: e.Settled,
		Failed: e.Failed, Scale: e.LatentScale, Poster: e.Poster != nil}
	var parts [][]byte
	add := func(p []byte) {
		h.Lengths = append(h.Lengths, len(p))
		parts = append(parts, p)
	}
	clip := func(c *schemas.Clip) *clipHead {
		if c == nil {
			return nil
		}
		for _, f := range c.Frames {
			add(f)
		}
		return &clipHead{c.Width, c.Height, c.FPS, len(c.Frames)}
	}
	for i, a := range arraysOf(e) {
		if a != nil {
			h.Arrays[i] = &arrayHead{a.Shape}
			add(kernels.F32.Bytes(a.Data))
		}
	}
	if e.Text != nil {
		for _, l := range e.Text.Later {
			h.Later = append(h.Later, laterHead{l.Clip, arrayHead{l.Embedding.Shape}})
			add(kernels.F32.Bytes(l.Embedding.Data))
		}
	}
	for _, a := range e.References {
		h.Refs = append(h.Refs, &arrayHead{a.Shape})
		add(kernels.F32.Bytes(a.Data))
	}
	h.Begun = codeSteps(e.Begun, add)
	h.Frames = clip(e.Frames)
	if v := e.Video; v != nil {
		add(v.Data)
		h.Video = &videoHead{v.Ext, v.Codec, clip(v.Recon), v.Width, v.Height, v.Frames, v.Markable}
	}
	if h.Poster {
		add(e.Poster)
	}
	if m := e.Media; m != nil {
		add(m.Data)
		h.Media = &m.Ext
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

// keyBytes returns the bytes of a key, or nil for the zero key.
func keyBytes(k schemas.Key) []byte {
	if k == (schemas.Key{}) {
		return nil
	}
	return k[:]
}

// keyOf is the inverse of keyBytes.
func keyOf(data []byte) (k schemas.Key, err error) {
	if len(data) != 0 && len(data) != len(k) {
		return k, errCoded
	}
	copy(k[:], data)
	return k, nil
}

func arraysOf(e *stages.Element) (a [arrays]*stages.Array) {
	if e.Text != nil {
		a[textArray], a[negativeArray] = e.Text.Embedding, e.Text.Negative
	}
	a[latentsArray], a[imageArray], a[rawArray] = e.Latents, e.ImageEmbedding, e.RawLatents
	return a
}

// DecodeElement is the inverse of EncodeElement.
func DecodeElement(data []byte) (*stages.Element, error) {
	js, data, err := chunk(data)
	if err != nil {
		return nil, err
	}
	var h head
	if err := json.Unmarshal(js, &h); err != nil {
		return nil, fmt.Errorf("decode element: %w", err)
	}
	key, err := keyOf(h.Key)
	origin, originErr := keyOf(h.Origin)
	d := decoder{lengths: h.Lengths, data: data, err: cmp.Or(err, originErr)}
	e := &stages.Element{Row: h.Row, Given: h.Given, Wrong: h.Wrong, Key: key, Origin: origin, Unread: h.Unread,
		Readings: h.Readings, Looked: h.Looked, LookFailed: h.Blind, Form: h.Form, Settled: h.Settled, Failed: h.Failed, LatentScale: h.Scale}
	text, negative := d.array(h.Arrays[textArray]), d.array(h.Arrays[negativeArray])
	if text != nil {
		e.Text = &stages.Text{Embedding: text, Negative: negative}
	}
	e.Latents = d.array(h.Arrays[latentsArray])
	e.ImageEmbedding = d.array(h.Arrays[imageArray])
	e.RawLatents = d.array(h.Arrays[rawArray])
	for _, l := range h.Later {
		if e.Text == nil {
			return nil, errCoded
		}
		e.Text.Later = append(e.Text.Later, stages.LaterText{Clip: l.Clip, Embedding: d.array(&l.arrayHead)})
	}
	for _, a := range h.Refs {
		e.References = append(e.References, d.array(a))
	}
	e.Begun = d.steps(h.Begun)
	e.Frames = d.clip(h.Frames)
	if v := h.Video; v != nil {
		e.Video = &schemas.Encoded{Data: d.part(), Ext: v.Ext, Codec: v.Codec, Recon: d.clip(v.Recon),
			Width: v.Width, Height: v.Height, Frames: v.Frames, Markable: v.Markable}
	}
	if h.Poster {
		e.Poster = d.part()
	}
	if h.Media != nil {
		e.Media = &schemas.MediaFile{Data: d.part(), Ext: *h.Media}
	}
	if d.err == nil && (len(d.lengths) > 0 || len(d.data) > 0) {
		d.err = errCoded
	}
	if d.err != nil {
		return nil, d.err
	}
	return e, nil
}

// decoder splits the bytes after a head into parts. After an error it returns only nil.
type decoder struct {
	lengths []int
	data    []byte
	err     error
}

func (d *decoder) part() []byte {
	if d.err == nil && (len(d.lengths) == 0 || d.lengths[0] < 0 || d.lengths[0] > len(d.data)) {
		d.err = errCoded
	}
	if d.err != nil {
		return nil
	}
	n := d.lengths[0]
	part := d.data[:n:n]
	d.lengths, d.data = d.lengths[1:], d.data[n:]
	return part
}

func (d *decoder) array(h *arrayHead) *stages.Array {
	if h == nil {
		return nil
	}
	data := d.part()
	if d.err != nil {
		return nil
	}
	values, err := schemas.UnpackFloats(data, h.Shape)
	if err != nil {
		d.err = fmt.Errorf("decode element: %w", err)
		return nil
	}
	return &stages.Array{Shape: h.Shape, Data: values}
}

func (d *decoder) clip(h *clipHead) *schemas.Clip {
	if h == nil {
		return nil
	}
	c := &schemas.Clip{Width: h.Width, Height: h.Height, FPS: h.FPS}
	for i := 0; i < h.Frames && d.err == nil; i++ {
		c.Frames = append(c.Frames, d.part())
	}
	return c
}

// EncodeBatch codes a batch for another process.
func EncodeBatch(b *stages.Batch) ([]byte, error) {
	bucket, err := json.Marshal(b.Bucket)
	if err != nil {
		return nil, fmt.Errorf("encode batch: %w", err)
	}
	out := binary.AppendUvarint(nil, uint64(len(bucket)))
	out = append(out, bucket...)
	for _, e := range b.Elements {
		data, err := EncodeElement(e)
		if err != nil {
			return nil, err
		}
		out = binary.AppendUvarint(out, uint64(len(data)))
		out = append(out, data...)
	}
	return out, nil
}

// DecodeBatch is the inverse of EncodeBatch.
func DecodeBatch(data []byte) (*stages.Batch, error) {
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
		e, err := DecodeElement(one)
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
