package store

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io"
)

// compareBlock is how many bytes of an existing object Compare has in memory.
const compareBlock = 256 << 10

// Compare returns nil if the existing object has the bytes of want, otherwise the conflict. A store compares when a name is
// taken, because its own earlier call may have created the object without an acknowledgement.
func Compare(there Reader, want Object) (*ConflictError, error) {
	from := io.NewSectionReader(there, 0, there.Size())
	hash := sha256.New()
	block := make([]byte, min(compareBlock, max(there.Size(), 1)))
	equal, rest := there.Size() == int64(len(want.Data)), want.Data
	for {
		n, err := from.Read(block)
		hash.Write(block[:n])
		equal = equal && n <= len(rest) && bytes.Equal(block[:n], rest[:min(n, len(rest))])
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
	sum := sha256.Sum256(want.Data)
	return &ConflictError{
		Name: want.Name, HaveSize: there.Size(), WantSize: int64(len(want.Data)),
		HaveSHA: hex.EncodeToString(hash.Sum(nil)), WantSHA: hex.EncodeToString(sum[:]),
	}, nil
}
