package c2pa

import (
	"bytes"
	"crypto/sha256"
	"crypto/sha512"
	"errors"
	"fmt"
	"hash"
	"strings"
	"time"

	"github.com/fxamacker/cbor/v2"
	"github.com/veraison/go-cose"
)

// Manifest is the content of a manifest from any program, with the result of its checks.
type Manifest struct {
	Label     string
	Generator string // the program that created it
	Sources   []string
	// Signer is the name in the certificate. This package does not decide whether the certificate can be trusted.
	Signer     string
	SelfSigned bool
	// Time is when a time stamp authority saw the signature; zero without a valid time stamp. StampedBy is the name in the
	// authority's certificate. StampProblem says why the time stamp is invalid, "" if it is valid.
	Time                    time.Time
	StampedBy, StampProblem string
	// Ingredients is the number of other manifests in the store.
	Ingredients int
	// Problem says why signature and assertions do not match, "" if they do.
	Problem string
	// Bound describes what the manifest says about the file's bytes; nil if it cannot be checked here.
	Bound *Bound
}

// Bound is a digest of all bytes of a file except some.
type Bound struct {
	Hash []byte
	New  func() hash.Hash
	// Ranges are excluded, each as start and length in bytes from the start of the file.
	Ranges [][2]int
	// Boxes are the excluded boxes of an ISO base media file; nil: another kind of file. The offsets of the other boxes are
	// part of the hash.
	Boxes []Box
}

// Box is a top-level box of an ISO base media file with certain bytes at certain positions, counted from its start.
type Box struct {
	Kind string
	At   map[int][]byte
}

// decoding decodes untrusted values: no deep nesting, no endless lists.
var decoding = func() cbor.DecMode {
	mode, err := cbor.DecOptions{MaxNestedLevels: 16, MaxArrayElements: 1 << 16, MaxMapPairs: 1 << 14}.DecMode()
	if err != nil {
		panic(err) // the options are constants
	}
	return mode
}()

// anyClaim has the fields of claims v1 and v2 that are read.
type anyClaim struct {
	Generator  string          `cbor:"claim_generator"`
	Info       cbor.RawMessage `cbor:"claim_generator_info"`
	Created    []anyHashedURI  `cbor:"created_assertions"`
	Gathered   []anyHashedURI  `cbor:"gathered_assertions"`
	Assertions []anyHashedURI  `cbor:"assertions"`
	Algorithm  string          `cbor:"alg"`
}

type anyHashedURI struct {
	URL       string `cbor:"url"`
	Hash      []byte `cbor:"hash"`
	Algorithm string `cbor:"alg"`
}

// maxStore limits a store of manifests in bytes.
const maxStore = 64 << 20

// Read reads the active manifest of a store, which is the last one.
func Read(store []byte) (*Manifest, error) {
	if len(store) > maxStore {
		return nil, fmt.Errorf("the manifest has %d bytes, more than %d", len(store), maxStore)
	}
	top, _, ok, err := blockOf(store)
	if err != nil {
		return nil, err
	}
	if !ok || top.kind != storeType {
		return nil, errors.New("it is not a store of C2PA manifests")
	}
	all, err := blocks(top.content)
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, errors.New("the store holds no manifest")
	}
	active := all[len(all)-1]
	m := &Manifest{Label: active.label, Ingredients: len(all) - 1}
	if err := m.read(active); err != nil {
		m.Problem = err.Error()
	}
	return m, nil
}

// read reads a manifest. An error says what does not match.
func (m *Manifest) read(of block) error {
	parts, err := blocks(of.content)
	if err != nil {
		return err
	}
	claimBlock, ok := find(parts, claimType, "c2pa.claim")
	if !ok {
		return errors.New("it has no claim")
	}
	text, err := claimBlock.cborOf()
	if err != nil {
		return err
	}
	var claim anyClaim
	if err := decoding.Unmarshal(text, &claim); err != nil {
		return fmt.Errorf("the claim cannot be read: %w", err)
	}
	m.Generator = claim.generator()
	assertions := map[string]block{}
	if list, ok := find(parts, assertionsType, assertionsBox); ok {
		all, err := blocks(list.content)
		if err != nil {
			return err
		}
		for _, a := range all {
			assertions[a.label] = a
			m.readAssertion(a, claim.Algorithm)
		}
	}
	signatureBlock, ok := find(parts, signatureType, signatureBox)
	if !ok {
		return errors.New("it has no signature")
	}
	signature, err := signatureBlock.cborOf()
	if err != nil {
		return err
	}
	var message cose.Sign1Message
	if err := message.UnmarshalCBOR(signature); err != nil {
		return fmt.Errorf("the signature cannot be read: %w", err)
	}
	if stamp, found, err := readStamp(&message); found {
		if m.StampedBy = stamp.Authority; err != nil {
			m.StampProblem = err.Error()
		} else {
			m.Time = stamp.Time
		}
	}
	chain, err := verify(&message, text)
	if len(chain) > 0 {
		m.Signer, m.SelfSigned = chain[0].Subject.String(), selfSigned(chain[0])
	}
	if err != nil {
		return fmt.Errorf("the signature is invalid: %w", err)
	}
	for _, uris := range [][]anyHashedURI{claim.Created, claim.Gathered, claim.Assertions} {
		for _, uri := range uris {
			if err := uri.check(assertions, claim.Algorithm); err != nil {
				return err
			}
		}
	}
	if m.Bound == nil {
		return errors.New("it has no binding to the bytes of a file that can be checked here")
	}
	return nil
}

// generator returns the name of a claim's program.
func (c anyClaim) generator() string {
	var one struct {
		Name string `cbor:"name"`
	}
	if decoding.Unmarshal(c.Info, &one) == nil && one.Name != "" {
		return one.Name
	}
	var several []struct {
		Name string `cbor:"name"`
	}
	if decoding.Unmarshal(c.Info, &several) == nil && len(several) > 0 {
		return several[0].Name
	}
	return c.Generator
}

// check compares an assertion with its digest in the claim.
func (u anyHashedURI) check(assertions map[string]block, algorithm string) error {
	label := u.URL[strings.LastIndexByte(u.URL, '/')+1:]
	a, ok := assertions[label]
	if !ok {
		return fmt.Errorf("the assertion %s of the claim is not there", label)
	}
	if u.Algorithm != "" {
		algorithm = u.Algorithm
	}
	hash := newHash(algorithm)
	if hash == nil {
		return fmt.Errorf("the assertion %s has a digest of an unknown kind %q", label, algorithm)
	}
	h := hash()
	h.Write(a.data)
	if !bytes.Equal(h.Sum(nil), u.Hash) {
		return fmt.Errorf("the assertion %s was changed", label)
	}
	return nil
}

// newHash returns a hash by its name in claims, nil for an unknown one.
func newHash(name string) func() hash.Hash {
	switch name {
	case "sha256", "":
		return sha256.New
	case "sha384":
		return sha512.New384
	case "sha512":
		return sha512.New
	}
	return nil
}

// readAssertion reads the facts of an assertion that readers of files need.
func (m *Manifest) readAssertion(a block, algorithm string) {
	text, err := a.cborOf()
	if err != nil {
		return // of another form
	}
	switch {
	case strings.HasPrefix(a.label, "c2pa.actions"):
		var found struct {
			Actions []action `cbor:"actions"`
		}
		_ = decoding.Unmarshal(text, &found) // as far as it can be decoded
		for _, one := range found.Actions {
			if one.Source != "" {
				m.Sources = append(m.Sources, one.Source)
			}
		}
	case strings.HasPrefix(a.label, "c2pa.hash.bmff"):
		m.bmff(a.label, text, algorithm)
	case strings.HasPrefix(a.label, "c2pa.hash.data"):
		var found struct {
			Exclusions []byteRange `cbor:"exclusions"`
			Algorithm  string      `cbor:"alg"`
			Hash       []byte      `cbor:"hash"`
		}
		if decoding.Unmarshal(text, &found) != nil {
			return
		}
		m.bind(found.Hash, found.Algorithm, algorithm)
		for _, r := range found.Exclusions {
			if m.Bound != nil {
				m.Bound.Ranges = append(m.Bound.Ranges, [2]int{r.Start, r.Length})
			}
		}
	}
}

// bmff reads the binding to an ISO base media file. A binding that excludes parts of boxes, or has a hash tree, is not checked
// here.
func (m *Manifest) bmff(label string, text []byte, algorithm string) {
	var found struct {
		Exclusions []struct {
			XPath  string            `cbor:"xpath"`
			Data   []dataMark        `cbor:"data"`
			Length *int              `cbor:"length"`
			Subset []cbor.RawMessage `cbor:"subset"`
			Flags  []byte            `cbor:"flags"`
		} `cbor:"exclusions"`
		Algorithm string            `cbor:"alg"`
		Hash      []byte            `cbor:"hash"`
		Merkle    []cbor.RawMessage `cbor:"merkle"`
	}
	if decoding.Unmarshal(text, &found) != nil || found.Hash == nil || found.Merkle != nil || !strings.HasSuffix(label, ".v2") &&
		!strings.HasSuffix(label, ".v3") {
		return
	}
	left := []Box{}
	for _, e := range found.Exclusions {
		kind := strings.TrimPrefix(e.XPath, "/")
		if len(kind) != 4 || e.Length != nil || e.Subset != nil || e.Flags != nil {
			return
		}
		b := Box{Kind: kind, At: map[int][]byte{}}
		for _, d := range e.Data {
			b.At[d.Offset] = d.Value
		}
		left = append(left, b)
	}
	if m.bind(found.Hash, found.Algorithm, algorithm); m.Bound != nil {
		m.Bound.Boxes = left
	}
}

func (m *Manifest) bind(digest []byte, own, algorithm string) {
	if own != "" {
		algorithm = own
	}
	if n := newHash(algorithm); n != nil && m.Bound == nil {
		m.Bound = &Bound{Hash: digest, New: n}
	}
}

// Ours reports whether a store was made by Manifest: it has one manifest, from this program.
func Ours(store []byte) bool {
	m, err := Read(store)
	return err == nil && m.Generator == generator && m.Ingredients == 0
}
