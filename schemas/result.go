package schemas

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
)

// The names of the tensors that a ledger record can hold beside its Result. Tensors are little-endian fp32, row-major; the
// Result holds their shapes.
const (
	BlobText         = "text_embedding"
	BlobNegativeText = "negative_text_embedding"
	BlobLaterText    = "later_text_embedding"
	BlobLatents      = "vae_latent"
)

// Result is the content of a ledger record for one key: everything about an output that does not follow from the prompt row. It
// holds no facts of a run (time, device, attempt), so equal keys have equal results.
type Result struct {
	Video             *VideoFile        `json:"video,omitempty"`
	TextShape         []int             `json:"text_shape,omitempty"`          // (L, C)
	NegativeTextShape []int             `json:"negative_text_shape,omitempty"` // (L, C)
	LaterTexts        []LaterText       `json:"later_texts,omitempty"`
	LatentsShape      []int             `json:"latents_shape,omitempty"` // (C, T, H, W)
	TextSHA256        string            `json:"text_sha256,omitempty"`   // of the blobs' bytes, hex
	LatentsSHA256     string            `json:"latents_sha256,omitempty"`
	LatentScale       float64           `json:"latent_scale,omitempty"` // stored = the VAE's latent * this
	LatentSpace       string            `json:"latent_space,omitempty"` // raw or model; "": a record of an earlier release
	Readings          map[string]string `json:"readings,omitempty"`
	Prompt            string            `json:"prompt,omitempty"` // the row's prompt, if a stage replaced it
	Failure           *FailureFacts     `json:"failure,omitempty"`
}

// Reading is a record in a ledger of readings: the values that one measure read from one result or file.
type Reading struct {
	Measure  string            `json:"measure"`
	Readings map[string]string `json:"readings,omitempty"`
	Failure  *FailureFacts     `json:"failure,omitempty"`
}

// LaterText describes a text embedding that is used from clip number Clip of a video on. All later texts of a row are joined in
// one tensor.
type LaterText struct {
	Clip   int `json:"clip"`
	Tokens int `json:"tokens"`
}

// LaterShape returns the shape (L, C) of the tensor of all later texts.
func (r Result) LaterShape() []int {
	tokens := 0
	for _, t := range r.LaterTexts {
		tokens += t.Tokens
	}
	if tokens == 0 || len(r.TextShape) != 2 {
		return []int{0}
	}
	return []int{tokens, r.TextShape[1]}
}

// VideoFile describes a published video or image; paths are relative to the output.
type VideoFile struct {
	Path string `json:"path"`
	// Source is the address of an input video that the job only measured. Path is "" then, and the output has no copy.
	Source string `json:"source,omitempty"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
	Poster string `json:"poster,omitempty"`
	// PosterBytes is 0 in records of earlier versions.
	PosterBytes int64  `json:"poster_bytes,omitempty"`
	Codec       string `json:"codec"`
	// Width, Height and NumFrames are set if the video differs from the row's values. Autoencoders make sides that are
	// multiples of 8, and a row of several clips has more frames than its num_frames.
	Width     int `json:"width,omitempty"`
	Height    int `json:"height,omitempty"`
	NumFrames int `json:"num_frames,omitempty"`
	// Marks lists the marks of synthetic media in the file, as in the output's marks.json; "": none. If there are marks,
	// UnmarkedSHA256 is the digest of the file without them.
	Marks          string `json:"marks,omitempty"`
	UnmarkedSHA256 string `json:"unmarked_sha256,omitempty"`
}

// ContentSHA256 returns the digest of the file without marks. It is the same for equal keys.
func (v *VideoFile) ContentSHA256() string { return cmp.Or(v.UnmarkedSHA256, v.SHA256) }

// At returns the address of the video: relative to the output, or in the input.
func (v *VideoFile) At() string { return cmp.Or(v.Path, v.Source) }

// MaxMessageBytes is the length at which the text of an error is cut.
const MaxMessageBytes = 4 << 10

// FailureFacts say why a key failed.
type FailureFacts struct {
	Class   string `json:"class"`
	Stage   string `json:"stage"`
	Message string `json:"message"`
}

// UnpackFloats reads an array of the given shape, little-endian fp32.
func UnpackFloats(data []byte, shape []int) ([]float32, error) {
	n := 1
	for _, d := range shape {
		if d < 0 || (d > 0 && n > len(data)/d) {
			return nil, fmt.Errorf("unpack floats: shape %v does not fit %d bytes", shape, len(data))
		}
		n *= d
	}
	if len(data) != 4*n {
		return nil, fmt.Errorf("unpack floats: shape %v needs %d bytes, there are %d", shape, 4*n, len(data))
	}
	values := make([]float32, n)
	for i := range values {
		values[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
	}
	return values, nil
}

// WidenBF16 returns the float32 values of little-endian bfloat16 values, as bytes.
func WidenBF16(data []byte) []byte {
	out := make([]byte, 2*len(data))
	for i := 0; i+1 < len(data); i += 2 {
		out[2*i+2], out[2*i+3] = data[i], data[i+1]
	}
	return out
}

// NarrowBF16 converts float32 values to bfloat16, both as little-endian bytes. Every value must be exact in bfloat16.
func NarrowBF16(data []byte) []byte {
	out := make([]byte, len(data)/2)
	for i := 0; i+1 < len(out); i += 2 {
		out[i], out[i+1] = data[2*i+2], data[2*i+3]
	}
	return out
}

// IsFinal reports whether the failed row would fail again if nothing else changes. Failures of stages in programs (the user's
// own programs) are not final, because a program may have been fixed since. "worker" and "publish" fail for reasons outside of
// the row.
func (f *FailureFacts) IsFinal(programs []string) bool {
	return f.Class == "row" && !slices.Contains(programs, f.Stage) && f.Stage != "worker" && f.Stage != "publish"
}
