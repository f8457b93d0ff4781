package transport

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"io"

	"latentbeam/kernels"
)

// frameMagic begins every frame between ranks; its last byte is the version.
const frameMagic = "LBX\x01"

// frameSize is the length of a frame's head: magic, kind, length of the op, op, then plan, step, block,
// sender, layout and the length of what follows, all big-endian.
const frameSize = 4 + 1 + 1 + kernels.MaxOp + 8 + 8 + 8 + 4 + 8 + 8

// The kinds of frames.
const (
	partsFrame = 1 // the parts of one exchange, one after the other, little-endian
	abortFrame = 2 // the end of the group; the body is the cause
	headFrame  = 3 // announces parts that go over a link; no body follows, length is that of the parts
	byeFrame   = 4 // this rank needs the others no more; no body
)

// What kind of cause an abort frame gives is its layout.
const (
	otherCause = 0
	notFinite  = 1 // one of fault.NotFinite
	linkFailed = 2 // a linkError
)

// frame is the head of what one rank sends another.
type frame struct {
	kind   byte
	tag    kernels.Tag
	from   uint32
	layout uint64 // hash of the parts' shapes and types
	length uint64 // of the body in bytes
	cause  string // the body of an abortFrame
}

func (f *frame) encode() []byte {
	b := make([]byte, 0, frameSize)
	b = append(b, frameMagic...)
	b = append(b, f.kind, byte(len(f.tag.Op)))
	b = append(b, f.tag.Op...)
	b = append(b, make([]byte, kernels.MaxOp-len(f.tag.Op))...)
	b = binary.BigEndian.AppendUint64(b, f.tag.Plan)
	b = binary.BigEndian.AppendUint64(b, uint64(f.tag.Step))
	b = binary.BigEndian.AppendUint64(b, uint64(f.tag.Block))
	b = binary.BigEndian.AppendUint32(b, f.from)
	b = binary.BigEndian.AppendUint64(b, f.layout)
	return binary.BigEndian.AppendUint64(b, f.length)
}

// readFrame reads a head, and the cause of an abortFrame. It makes all checks that need no expected value.
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
	if string(b[:4]) != frameMagic {
		return nil, fmt.Errorf("not a frame of this version: it begins with %q", b[:4])
	}
	f := &frame{kind: b[4]}
	if f.kind < partsFrame || f.kind > byeFrame {
		return nil, fmt.Errorf("a frame of unknown kind %d", f.kind)
	}
	if int(b[5]) > kernels.MaxOp {
		return nil, fmt.Errorf("a frame whose operation has %d bytes", b[5])
	}
	f.tag.Op = string(b[6 : 6+b[5]])
	b = b[6+kernels.MaxOp:]
	f.tag.Plan = binary.BigEndian.Uint64(b)
	f.tag.Step = int(int64(binary.BigEndian.Uint64(b[8:])))
	f.tag.Block = int(int64(binary.BigEndian.Uint64(b[16:])))
	f.from = binary.BigEndian.Uint32(b[24:])
	f.layout = binary.BigEndian.Uint64(b[28:])
	f.length = binary.BigEndian.Uint64(b[36:])
	if f.kind == abortFrame && f.length > maxCause {
		return nil, fmt.Errorf("an abort frame of %d bytes", f.length)
	}
	return f, nil
}

// layoutOf describes parts in the hash that both ends compare, and their bytes in all.
func layoutOf(parts []kernels.Tensor) (hash uint64, bytes int) {
	h := fnv.New64a()
	for _, t := range parts {
		fmt.Fprintf(h, "%v%v;", t.DType, t.Shape)
		bytes += t.Len() * t.DType.Size()
	}
	return h.Sum64(), bytes
}
