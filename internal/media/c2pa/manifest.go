package c2pa

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/fxamacker/cbor/v2"
)

// Claim is what a manifest says about a file.
type Claim struct {
	ID     string // of the file: manifests of different files have different labels
	Source string // kind of source in IPTC's vocabulary: an address
	// Model and Weights are the name of the model and the digest of its weights; "": unspecified.
	Model, Weights string
	// Parameters are further facts about how the file was made, such as its prompt.
	Parameters map[string]string
}

// Binding says which bytes of a file a manifest is bound to: the digest of everything except the manifest.
type Binding struct {
	Hash [sha256.Size]byte
	// Start and Length are the position of the manifest in files that are not ISO base media files. Length 0: the file is an
	// ISO base media file, whose boxes are excluded by kind.
	Start, Length int
}

// generator is the name of this program in claims.
const generator = "latentbeam"

// Labels of assertions and of the claim.
const (
	actionsLabel  = "c2pa.actions.v2"
	bmffLabel     = "c2pa.hash.bmff.v3"
	dataHashLabel = "c2pa.hash.data"
	claimLabel    = "c2pa.claim.v2"
	assertionsBox = "c2pa.assertions"
	signatureBox  = "c2pa.signature"
)

// encoding is the deterministic encoding of values (RFC 8949, section 4.2.1).
var encoding = func() cbor.EncMode {
	mode, err := cbor.CoreDetEncOptions().EncMode()
	if err != nil {
		panic(err) // the options come from the library
	}
	return mode
}()

// UUID is the extended type of the uuid box with a manifest in an ISO base media file (C2PA 2.2, section A.5.1).
var UUID = []byte{0xd8, 0xfe, 0xc3, 0xd6, 0x1b, 0x0e, 0x48, 0x3c, 0x92, 0x97, 0x58, 0x28, 0x87, 0x7e, 0xc4, 0x81}

// Excluded are the boxes of an ISO base media file that a manifest is not bound to, besides its own box.
var Excluded = []string{"ftyp", "mfra", "free", "skip"}

type hashedURI struct {
	URL  string `cbor:"url"`
	Hash []byte `cbor:"hash"`
}

type exclusion struct {
	XPath string     `cbor:"xpath"`
	Data  []dataMark `cbor:"data,omitempty"`
}

type dataMark struct {
	Offset int    `cbor:"offset"`
	Value  []byte `cbor:"value"`
}

type byteRange struct {
	Start  int `cbor:"start"`
	Length int `cbor:"length"`
}

type action struct {
	Action        string         `cbor:"action"`
	Source        string         `cbor:"digitalSourceType,omitempty"`
	SoftwareAgent *agent         `cbor:"softwareAgent,omitempty"`
	Parameters    map[string]any `cbor:"parameters,omitempty"`
}

type agent struct {
	Name string `cbor:"name"`
}

type actions struct {
	Actions []action `cbor:"actions"`
	All     bool     `cbor:"allActionsIncluded"`
}

type claimMap struct {
	InstanceID string      `cbor:"instanceID"`
	Generator  agent       `cbor:"claim_generator_info"`
	Signature  string      `cbor:"signature"`
	Created    []hashedURI `cbor:"created_assertions"`
	Gathered   []hashedURI `cbor:"gathered_assertions,omitempty"`
	Algorithm  string      `cbor:"alg"`
}

// uuid returns a UUID made from a digest (RFC 9562, version 8).
func uuid(sum [sha256.Size]byte) string {
	sum[6], sum[8] = sum[6]&0x0f|0x80, sum[8]&0x3f|0x80
	h := hex.EncodeToString(sum[:16])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

// Manifest returns a store with one manifest. Its length does not depend on the hash.
func (s *Signer) Manifest(c Claim, b Binding) ([]byte, error) { return s.manifest(c, b, false) }

// Blank returns a store with the length of Manifest's, without a time stamp.
func (s *Signer) Blank(c Claim, b Binding) ([]byte, error) { return s.manifest(c, b, true) }

func (s *Signer) manifest(c Claim, b Binding, blank bool) ([]byte, error) {
	id := uuid(sha256.Sum256([]byte("latentbeam c2pa/1\n" + s.Certificate() + "\n" + c.ID)))
	label := "urn:c2pa:" + id
	made := action{Action: "c2pa.created", Source: c.Source, SoftwareAgent: &agent{generator}}
	if c.Model != "" || c.Weights != "" || len(c.Parameters) > 0 {
		made.Parameters = map[string]any{}
		for name, value := range map[string]string{"model": c.Model, "weights_sha256": c.Weights} {
			if value != "" {
				made.Parameters["latentbeam."+name] = value
			}
		}
		for name, value := range c.Parameters {
			made.Parameters["latentbeam."+name] = value
		}
	}
	var assertions []byte
	var uris []hashedURI
	for _, a := range []struct {
		label string
		value any
	}{{actionsLabel, actions{[]action{made}, true}}, {b.label(), b.value()}} {
		text, err := encoding.Marshal(a.value)
		if err != nil {
			return nil, fmt.Errorf("assertion %s: %w", a.label, err)
		}
		one := super(cborType, a.label, box("cbor", text))
		sum := sha256.Sum256(one[8:])
		uris = append(uris, hashedURI{"self#jumbf=" + assertionsBox + "/" + a.label, sum[:]})
		assertions = append(assertions, one...)
	}
	claim, err := encoding.Marshal(claimMap{InstanceID: "xmp:iid:" + id, Generator: agent{generator},
		Signature: "self#jumbf=/c2pa/" + label + "/" + signatureBox, Created: uris, Algorithm: "sha256"})
	if err != nil {
		return nil, fmt.Errorf("claim: %w", err)
	}
	signature, err := s.sign(claim, blank)
	if err != nil {
		return nil, err
	}
	return super(storeType, "c2pa", super(manifestType, label,
		super(assertionsType, assertionsBox, assertions),
		super(claimType, claimLabel, box("cbor", claim)),
		super(signatureType, signatureBox, box("cbor", signature)))), nil
}

func (b Binding) label() string {
	if b.Length > 0 {
		return dataHashLabel
	}
	return bmffLabel
}

// value returns the assertion of the binding.
func (b Binding) value() any {
	if b.Length > 0 {
		return map[string]any{"exclusions": []byteRange{{b.Start, b.Length}}, "alg": "sha256", "hash": b.Hash[:],
			"name": "the file", "pad": []byte{}}
	}
	left := []exclusion{{XPath: "/uuid", Data: []dataMark{{8, UUID}}}}
	for _, kind := range Excluded {
		left = append(left, exclusion{XPath: "/" + kind})
	}
	return map[string]any{"exclusions": left, "alg": "sha256", "hash": b.Hash[:], "name": "the file"}
}
