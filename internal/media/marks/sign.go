package marks

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"time"

	"latentbeam/internal/media/c2pa"
)

// purpose follows the version and flags in a box with a manifest. Eight bytes with the offset of other boxes follow.
const purpose = "\x00\x00\x00\x00manifest\x00"

// credentials returns a uuid box with a store of manifests (C2PA 2.2, section A.5.1).
func credentials(store []byte) []byte {
	return newBox("uuid", c2pa.UUID, []byte(purpose), make([]byte, 8), store)
}

// storeOf returns the store of manifests in a box, nil for another box.
func storeOf(data []byte, b box) []byte {
	rest, ok := bytes.CutPrefix(payloadOf(data, b, c2pa.UUID), []byte(purpose))
	if !ok || len(rest) < 8 {
		return nil
	}
	return rest[8:]
}

// signMP4 inserts a signed manifest after the first box, ftyp.
func signMP4(data []byte, s *c2pa.Signer, claim c2pa.Claim) ([]byte, error) {
	top, _, err := movie(data)
	if err != nil {
		return nil, err
	}
	if top[0].kind != "ftyp" {
		return nil, errors.New("the mp4 does not begin with ftyp")
	}
	blank, err := s.Blank(claim, c2pa.Binding{})
	if err != nil {
		return nil, err
	}
	at := top[0].end
	out, err := replace(data, nil, at, at, credentials(blank))
	if err != nil {
		return nil, err
	}
	h := sha256.New()
	left := []c2pa.Box{{Kind: "uuid", At: map[int][]byte{8: c2pa.UUID}}}
	for _, kind := range c2pa.Excluded {
		left = append(left, c2pa.Box{Kind: kind})
	}
	if err := hashBoxes(h, out, left); err != nil {
		return nil, err
	}
	signed, err := s.Manifest(claim, c2pa.Binding{Hash: [sha256.Size]byte(h.Sum(nil))})
	if err != nil {
		return nil, err
	}
	if len(signed) != len(blank) {
		return nil, errors.New("the length of the manifest depends on its hash")
	}
	copy(out[at:], credentials(signed))
	return out, nil
}

// hashBoxes hashes the boxes of a file, each after its offset, except the excluded ones (C2PA 2.2, section 18.8).
func hashBoxes(h hash.Hash, data []byte, left []c2pa.Box) error {
	top, err := boxes(data, 0, len(data), true)
	if err != nil {
		return err
	}
	for _, b := range top {
		if out := leftOut(data, b, left); out {
			continue
		}
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(b.start)))
		h.Write(data[b.start:b.end])
	}
	return nil
}

// leftOut reports whether a box is excluded.
func leftOut(data []byte, b box, left []c2pa.Box) bool {
	for _, l := range left {
		if l.Kind != b.kind {
			continue
		}
		same := true
		for at, want := range l.At {
			same = same && at >= 0 && at+len(want) <= b.size() && bytes.Equal(data[b.start+at:b.start+at+len(want)], want)
		}
		if same {
			return true
		}
	}
	return false
}

// pngCredentials is the chunk of a png with a store of manifests (C2PA 2.2, section A.3.4).
const pngCredentials = "caBX"

// signPNG inserts a signed manifest after IHDR. The manifest contains its own position, so its length depends on itself.
func signPNG(data []byte, s *c2pa.Signer, claim c2pa.Claim) ([]byte, error) {
	h := sha256.New()
	h.Write(data)
	b := c2pa.Binding{Hash: [sha256.Size]byte(h.Sum(nil)), Start: pngHead, Length: 1}
	for range 8 {
		blank, err := s.Blank(claim, b)
		if err != nil {
			return nil, err
		}
		length := len(newChunk(pngCredentials, blank))
		if length == b.Length {
			store, err := s.Manifest(claim, b)
			return insert(data, pngHead, newChunk(pngCredentials, store)), err
		}
		b.Length = length
	}
	return nil, errors.New("the length of the manifest does not converge")
}

// invalidReason returns why a manifest is not valid for its file, "" if it is valid.
func invalidReason(data []byte, m *c2pa.Manifest) string {
	if m.Problem != "" {
		return m.Problem
	}
	b, h := m.Bound, m.Bound.New()
	if b.Boxes != nil {
		if err := hashBoxes(h, data, b.Boxes); err != nil {
			return fmt.Sprintf("the file is damaged: %v", err)
		}
	} else {
		at := 0
		for _, r := range b.Ranges {
			if r[0] < at || r[1] < 0 || r[0] > len(data) || r[1] > len(data)-r[0] {
				return "it excludes bytes that the file does not have"
			}
			h.Write(data[at:r[0]])
			at = r[0] + r[1]
		}
		h.Write(data[at:])
	}
	if !bytes.Equal(h.Sum(nil), b.Hash) {
		return "the file was changed after it was signed"
	}
	return ""
}

// signature returns the mark for a store of manifests.
func signature(data []byte, where string, store []byte) Found {
	f := Found{Name: C2PA, Where: where}
	m, err := c2pa.Read(store)
	if err != nil {
		f.Problem = err.Error()
		return f
	}
	if len(m.Sources) > 0 {
		f.Value = m.Sources[0]
	}
	f.Generator, f.Signer, f.SelfSigned, f.Problem = m.Generator, m.Signer, m.SelfSigned, invalidReason(data, m)
	f.StampedBy, f.StampProblem = m.StampedBy, m.StampProblem
	if !m.Time.IsZero() {
		f.Time = m.Time.Format(time.RFC3339)
	}
	return f
}
