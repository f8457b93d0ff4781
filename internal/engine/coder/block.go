package coder

import (
	"fmt"
	"sync"

	"github.com/klauspost/compress/zstd"

	"latentbeam/schemas/fault"
	"latentbeam/stages"
)

// packer and unpacker compress and decompress blocks. Both are safe for concurrent use.
var (
	packer = sync.OnceValue(func() *zstd.Encoder {
		w, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest))
		if err != nil {
			panic(err) // the options are constants
		}
		return w
	})
	unpacker = sync.OnceValue(func() *zstd.Decoder {
		r, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1))
		if err != nil {
			panic(err) // the options are constants
		}
		return r
	})
)

// PackBlock encodes and compresses a block for a file.
func PackBlock(b *stages.Batch) ([]byte, error) {
	data, err := EncodeBatch(b)
	if err != nil {
		return nil, err
	}
	return packer().EncodeAll(data, nil), nil
}

// UnpackBlock is the inverse of PackBlock. It detects changed bytes and returns an error for a retry.
func UnpackBlock(data []byte) (*stages.Batch, error) {
	plain, err := unpacker().DecodeAll(data, nil)
	if err == nil {
		var b *stages.Batch
		if b, err = DecodeBatch(plain); err == nil {
			return b, nil
		}
	}
	return nil, fault.TryAgain(fmt.Errorf("read a block of rows: %w", err))
}
