package pages

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go/format"
)

// zstdWindow limits how far a zstd stream may look back: twice what its strongest usual level needs.
const zstdWindow = 256 << 20

// pageData is the uncompressed data of a page, consumed from the front. It is in memory, or still in the file if it is not
// compressed, so that tensors are not read just to be checked.
type pageData struct {
	memory []byte // when file is nil
	file   io.ReaderAt
	at     int64
	size   int // remaining bytes
}

// next consumes and returns the next n bytes.
func (d *pageData) next(n int) ([]byte, error) {
	if n < 0 || n > d.size {
		return nil, errors.New("its data ends early")
	}
	d.size -= n
	if d.file == nil {
		out := d.memory[:n]
		d.memory = d.memory[n:]
		return out, nil
	}
	out := make([]byte, n)
	_, err := d.file.ReadAt(out, d.at)
	d.at += int64(n)
	return out, err
}

// skip consumes the next n bytes.
func (d *pageData) skip(n int) error {
	if n < 0 || n > d.size {
		return errors.New("its data ends early")
	}
	d.size -= n
	if d.file == nil {
		d.memory = d.memory[n:]
	} else {
		d.at += int64(n)
	}
	return nil
}

// unpacker decompresses pages into one buffer, never more than they claim.
type unpacker struct {
	buffer bytes.Buffer
	packed []byte
	zstd   *zstd.Decoder
	gzip   *gzip.Reader
}

// close frees the decoders.
func (u *unpacker) close() {
	if u.zstd != nil {
		u.zstd.Close()
	}
}

// open checks that the packed bytes at an offset decompress to exactly plain bytes, and returns these. They are valid until the
// next call.
func (u *unpacker) open(f io.ReaderAt, codec format.CompressionCodec, at int64, packed, plain int) (
	pageData, error) {
	if codec == format.Uncompressed {
		if packed != plain {
			return pageData{}, fmt.Errorf("it has %d bytes and claims %d", packed, plain)
		}
		return pageData{file: f, at: at, size: plain}, nil
	}
	if packed == 0 && plain == 0 { // a page with only nulls
		return pageData{}, nil
	}
	in := io.NewSectionReader(f, at, int64(packed))
	if codec == format.Snappy {
		return u.snappy(in, packed, plain)
	}
	out, err := u.stream(codec, in)
	if err != nil {
		return pageData{}, fmt.Errorf("its data is damaged: %w", err)
	}
	u.buffer.Reset()
	n, err := io.Copy(&u.buffer, io.LimitReader(out, int64(plain)+1))
	if err != nil {
		return pageData{}, fmt.Errorf("its data is damaged: %w", err)
	}
	if n != int64(plain) {
		return pageData{}, fmt.Errorf("its data does not have the %d bytes that its header claims", plain)
	}
	return pageData{memory: u.buffer.Bytes(), size: plain}, nil
}

// stream starts to decompress zstd or gzip.
func (u *unpacker) stream(codec format.CompressionCodec, in io.Reader) (io.Reader, error) {
	switch codec {
	case format.Zstd:
		if u.zstd == nil {
			var err error
			u.zstd, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
				zstd.WithDecoderMaxWindow(zstdWindow))
			if err != nil {
				return nil, err
			}
		}
		return u.zstd, u.zstd.Reset(in)
	case format.Gzip:
		if u.gzip == nil {
			u.gzip = new(gzip.Reader)
		}
		return u.gzip, u.gzip.Reset(in)
	}
	return nil, CheckCodec(codec)
}

func (u *unpacker) snappy(in io.Reader, packed, plain int) (pageData, error) {
	if cap(u.packed) < packed {
		u.packed = make([]byte, packed)
	}
	u.packed = u.packed[:packed]
	if _, err := io.ReadFull(in, u.packed); err != nil {
		return pageData{}, err
	}
	if claimed, err := snappy.DecodedLen(u.packed); err != nil || claimed != plain {
		return pageData{}, fmt.Errorf("its data does not have the %d bytes that its header claims", plain)
	}
	u.buffer.Reset()
	u.buffer.Grow(plain)
	out, err := snappy.Decode(u.buffer.AvailableBuffer()[:plain], u.packed)
	if err != nil {
		return pageData{}, fmt.Errorf("its data is damaged: %w", err)
	}
	return pageData{memory: out, size: plain}, nil
}
