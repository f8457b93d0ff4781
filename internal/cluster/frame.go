package cluster

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"io"

	"latentbeam/kernels"
)

// frameMagic begins every frame between ranks; its last byte is the version.
const frameMagic = "LBX\x01"

// wireFrame is a frame's head in its wire format, big-endian.
type wireFrame struct {
	Magic             [4]byte
	Kind, OpLength    byte
	Op                [kernels.MaxOp]byte
	Plan, Step, Block uint64
	From              uint32
	Layout, Length    uint64
}

// frameSize is the length of a frame's head.
var frameSize = binary.Size(wireFrame{})

// The kinds of frames.
const (
	partsFrame = 1 // all parts of one exchange, concatenated, little-endian
	abortFrame = 2 // ends the group; the body is the cause
	headFrame  = 3 // announces parts that move over a link; no body, length counts the parts
	byeFrame   = 4 // this rank no longer needs the others; no body
)

// The layout field of an abort frame is the kind of its cause.
const (
	otherCause = 0
	notFinite  = 1 // a fault.NotFinite
	linkFailed = 2 // a linkError
)

// frame is the head of a frame that one rank sends another.
type frame struct {
	kind   byte
	tag    kernels.Tag
	from   uint32
	layout uint64 // hash of the parts' shapes and types
	length uint64 // of the body in bytes
	cause  string // the body of an abortFrame
}

func (f *frame) encode() []byte {
	w := wireFrame{Magic: [4]byte([]byte(frameMagic)), Kind: f.kind, OpLength: byte(len(f.tag.Op)), Plan: f.tag.Plan,
		Step: uint64(f.tag.Step), Block: uint64(f.tag.Block), From: f.from, Layout: f.layout, Length: f.length}
	copy(w.Op[:], f.tag.Op)
	b, _ := binary.Append(nil, binary.BigEndian, &w) // never fails: the size is fixed
	return b
}

// readFrame reads a head, and the cause of an abortFrame. It validates all fields that do not depend on the exchange.
func readFrame(r io.Reader) (*frame, error) {
	b := make([]byte, frameSize)
	if _, err := io.ReadFull(r, b); err != nil {
		return nil, err
	}
	f, err := decodeFrame(b)
	if err != nil || f.kind != abortFrame {
		return f, err
	}
	text := make([]byte, f.length)
	if _, err := io.ReadFull(r, text); err != nil {
		return nil, err
	}
	f.cause = string(text)
	return f, nil
}

func decodeFrame(b []byte) (*frame, error) {
	var w wireFrame
	if _, err := binary.Decode(b, binary.BigEndian, &w); err != nil {
		return nil, err
	}
	switch {
	case string(w.Magic[:]) != frameMagic:
		return nil, fmt.Errorf("not a frame of this version: it begins with %q", w.Magic)
	case w.Kind < partsFrame || w.Kind > byeFrame:
		return nil, fmt.Errorf("a frame of unknown kind %d", w.Kind)
	case w.OpLength > kernels.MaxOp:
		return nil, fmt.Errorf("a frame whose operation has %d bytes", w.OpLength)
	case w.Kind == abortFrame && w.Length > maxCause:
		return nil, fmt.Errorf("an abort frame of %d bytes", w.Length)
	}
	tag := kernels.Tag{Op: string(w.Op[:w.OpLength]), Plan: w.Plan, Step: int(int64(w.Step)), Block: int(int64(w.Block))}
	return &frame{kind: w.Kind, tag: tag, from: w.From, layout: w.Layout, length: w.Length}, nil
}

// layoutOf returns a hash of the parts' shapes and types, which both ends compare, and their total size in bytes.
func layoutOf(parts []kernels.Tensor) (hash uint64, bytes int) {
	h := fnv.New64a()
	for _, t := range parts {
		fmt.Fprintf(h, "%v%v;", t.DType, t.Shape)
		bytes += t.Len() * t.DType.Size()
	}
	return h.Sum64(), bytes
}
