package media

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"latentbeam/internal/system"
)

// errInterlaced says that the frames of a stream consist of two fields from different times.
var errInterlaced = errors.New("the video is interlaced")

// Limits of a y4m stream.
const (
	maxY4MHeader = 1 << 12 // length of the header line
	maxY4MFrame  = 1 << 10 // length of the line before each frame
)

// y4m reads YUV4MPEG2 (the man page yuv4mpeg(5) of mjpegtools) with 8 bits, progressive; ffmpeg reads interlaced streams.
// Colours are read as BT.601, as this package writes them, because the format does not say.
type y4m struct {
	info                   SourceInfo
	aspect                 [2]int // of a pixel, see Look
	in                     *bufio.Reader
	closer                 io.Closer
	full                   bool // full range
	deep                   bool // samples of 16 bits, which ffmpeg writes for tone mapping
	tone                   *toneMapper
	chromaW, chromaH       int // 0: no colour
	stepX, stepY           int // pixels for each chroma sample
	luma, chromaU, chromaV []byte
	release                func() // releases the memory for frames; nil: not acquired yet
}

func openY4M(ctx context.Context, path string) (Source, error) {
	f, err := system.OpenRegular(path)
	if err != nil {
		return nil, err
	}
	s, err := newY4M(f)
	if err == nil && s.deep {
		err = chromaError("444p16")
	}
	if err == nil {
		s.info.Aspect = s.aspect
		err = s.makeRoom(ctx, planesBytes+rgbBytes)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return s, nil
}

// newY4M reads the header of a stream. makeRoom must be called before the first frame.
func newY4M(r io.ReadCloser) (*y4m, error) {
	s := &y4m{in: bufio.NewReaderSize(r, 1<<16), closer: r}
	line, err := s.line(maxY4MHeader)
	if err != nil {
		return nil, fmt.Errorf("not a y4m file: %w", err)
	}
	words := strings.Split(line, " ")
	if words[0] != "YUV4MPEG2" {
		return nil, errors.New("not a y4m file: it does not begin with YUV4MPEG2")
	}
	chroma, interlaced := "420", false
	for _, w := range words[1:] {
		if w == "" {
			continue
		}
		value := w[1:]
		switch w[0] {
		case 'W':
			s.info.Width, err = strconv.Atoi(value)
		case 'H':
			s.info.Height, err = strconv.Atoi(value)
		case 'F':
			err = s.rate(value)
		case 'I':
			interlaced = value != "p" && value != "?"
		case 'A':
			s.aspect = aspectOf(value)
		case 'C':
			chroma = value
		case 'X':
			s.full = s.full || value == "COLORRANGE=FULL"
		}
		if err != nil {
			return nil, fmt.Errorf("y4m header %q: %w", w, err)
		}
	}
	if err := s.info.check(); err != nil {
		return nil, err
	}
	if interlaced {
		return nil, errInterlaced
	}
	return s, s.layout(chroma)
}

func (s *y4m) rate(value string) error {
	num, den, _ := strings.Cut(value, ":")
	var err, err2 error
	s.info.RateNum, err = strconv.ParseInt(num, 10, 32)
	s.info.RateDen, err2 = strconv.ParseInt(den, 10, 32)
	if err != nil || err2 != nil || s.info.RateNum < 0 || s.info.RateDen < 0 {
		return errors.New("not a frame rate such as F30:1")
	}
	if s.info.RateNum == 0 || s.info.RateDen == 0 {
		s.info.RateNum, s.info.RateDen = 0, 0 // unknown
	}
	return nil
}

// layout computes the layout of a frame for a chroma format.
func (s *y4m) layout(chroma string) error {
	switch chroma {
	case "420", "420jpeg", "420mpeg2", "420paldv":
		s.stepX, s.stepY = 2, 2
	case "422":
		s.stepX, s.stepY = 2, 1
	case "444":
		s.stepX, s.stepY = 1, 1
	case "444p16":
		s.stepX, s.stepY, s.deep = 1, 1, true
	case "mono":
	default:
		return chromaError(chroma)
	}
	if s.stepX > 0 {
		s.chromaW, s.chromaH = (s.info.Width+s.stepX-1)/s.stepX, (s.info.Height+s.stepY-1)/s.stepY
	}
	return nil
}

func chromaError(chroma string) error {
	return fmt.Errorf("y4m colour format C%s: 420, 422, 444 and mono of 8 bits are read", chroma)
}

// makeRoom acquires the memory for frames, with perPixel bytes a pixel.
func (s *y4m) makeRoom(ctx context.Context, perPixel int) (err error) {
	if s.release, err = s.info.acquireRoom(ctx, perPixel); err != nil {
		return err
	}
	sample := 1 // bytes
	if s.deep {
		sample = 2
	}
	s.luma = make([]byte, sample*s.info.Width*s.info.Height)
	s.chromaU, s.chromaV = make([]byte, sample*s.chromaW*s.chromaH), make([]byte, sample*s.chromaW*s.chromaH)
	return nil
}

// line reads up to a line feed and removes it.
func (s *y4m) line(most int) (string, error) {
	var b []byte
	for len(b) <= most {
		c, err := s.in.ReadByte()
		if err != nil {
			return string(b), err
		}
		if c == '\n' {
			return string(b), nil
		}
		b = append(b, c)
	}
	return "", fmt.Errorf("a line of more than %d bytes", most)
}

func (s *y4m) Info() SourceInfo { return s.info }

func (s *y4m) Close() error {
	s.freeMemory()
	return s.closer.Close()
}

// freeMemory releases the memory for frames.
func (s *y4m) freeMemory() {
	if s.release != nil {
		s.release()
	}
}

// readFrameHeader reads the line before a frame.
func (s *y4m) readFrameHeader() error {
	head, err := s.line(maxY4MFrame)
	if errors.Is(err, io.EOF) && head == "" {
		return io.EOF
	}
	if err != nil {
		return cutOffError(err)
	}
	if head != "FRAME" && !strings.HasPrefix(head, "FRAME ") {
		return errors.New("y4m: a frame does not begin with FRAME: the file is damaged")
	}
	return nil
}

// errCutOff says that a stream ends inside a frame.
var errCutOff = errors.New("y4m: the last frame is cut off")

// cutOffError converts an error from reading inside a frame.
func cutOffError(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errCutOff
	}
	return err
}

// Skip skips frames without converting them.
func (s *y4m) Skip(n int) (int, error) {
	for i := range n {
		if err := s.readFrameHeader(); errors.Is(err, io.EOF) {
			return i, nil
		} else if err != nil {
			return i, err
		}
		if _, err := s.in.Discard(len(s.luma) + len(s.chromaU) + len(s.chromaV)); err != nil {
			return i, cutOffError(err)
		}
	}
	return n, nil
}

// Next reads one frame and converts it, with one chroma sample for all of its pixels.
func (s *y4m) Next(rgb []byte) error {
	if err := s.readFrameHeader(); err != nil {
		return err
	}
	for _, plane := range [][]byte{s.luma, s.chromaU, s.chromaV} {
		if _, err := io.ReadFull(s.in, plane); err != nil {
			return cutOffError(err)
		}
	}
	if s.deep {
		for i := range len(s.luma) / 2 {
			s.tone.pixel(rgb[3*i:][:3], binary.LittleEndian.Uint16(s.luma[2*i:]), binary.LittleEndian.Uint16(s.chromaU[2*i:]),
				binary.LittleEndian.Uint16(s.chromaV[2*i:]))
		}
		return nil
	}
	w := s.info.Width
	for y := range s.info.Height {
		luma, out := s.luma[y*w:][:w], rgb[y*w*3:][:w*3]
		for x, c := range luma {
			du, dv := int32(0), int32(0)
			if s.stepX > 0 {
				at := y/s.stepY*s.chromaW + x/s.stepX
				du, dv = int32(s.chromaU[at])-128, int32(s.chromaV[at])-128
			}
			s.convert(out[3*x:][:3], int32(c), du, dv)
		}
	}
	return nil
}

// convert converts BT.601 values to a pixel.
func (s *y4m) convert(rgb []byte, luma, du, dv int32) {
	scale, black := int32(fromY), int32(16)
	ry, gu, gv, bu := int32(rFromV), int32(gFromU), int32(gFromV), int32(bFromU)
	if s.full { // the same without scaling 219 and 224 steps to 255
		scale, black = 1<<fracBits, 0
		ry, gu, gv, bu = fullRFromV, fullGFromU, fullGFromV, fullBFromU
	}
	l := scale*(luma-black) + 1<<(fracBits-1)
	rgb[0] = clip8((l + ry*dv) >> fracBits)
	rgb[1] = clip8((l + gu*du + gv*dv) >> fracBits)
	rgb[2] = clip8((l + bu*du) >> fracBits)
}

// BT.601 at full range (JFIF), in 16 fractional bits.
const (
	fullRFromV             = 91881 // 1.402
	fullGFromU, fullGFromV = -22554, -46802
	fullBFromU             = 116130 // 1.772
)
