package store

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io"
)

// compareBlock is how much of an existing file compare holds in memory, in bytes.
const compareBlock = 256 << 10

// compare returns nil where the file name holds exactly data, else the conflict.
func (d *Dir) compare(name string, data []byte) (*ConflictError, error) {
	f, err := d.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	hash := sha256.New()
	block := make([]byte, min(compareBlock, max(f.Size(), 1)))
	equal, rest := f.Size() == int64(len(data)), data
	for {
		n, err := f.Read(block)
		hash.Write(block[:n])
		equal = equal && n <= len(rest) && bytes.Equal(block[:n], rest[:n])
		rest = rest[min(n, len(rest)):]
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
	}
	if equal && len(rest) == 0 {
		return nil, nil
	}
	want := sha256.Sum256(data)
	return &ConflictError{
		Name: name, HaveSize: f.Size(), WantSize: int64(len(data)),
		HaveSHA: hex.EncodeToString(hash.Sum(nil)), WantSHA: hex.EncodeToString(want[:]),
	}, nil
}
