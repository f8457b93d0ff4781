package c2pa

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/sha256"
	"crypto/x509"
	"encoding/asn1"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"strings"

	"github.com/fxamacker/cbor/v2"
	"github.com/veraison/go-cose"

	"latentbeam/internal/media/timestamp"
)

// Signer signs manifests with a key and its certificate.
type Signer struct {
	chain [][]byte // DER, the key's certificate first
	key   crypto.Signer
	alg   cose.Algorithm
	stamp func(message []byte) (token []byte, err error) // gets a token from a time stamp authority; nil: no time stamps
}

// WithTimeStamps returns a signer whose signatures have a time stamp (RFC 3161). stamp returns the token for a message. Equal
// arguments then give different bytes, but of the same length.
func (s *Signer) WithTimeStamps(stamp func(message []byte) (token []byte, err error)) *Signer {
	with := *s
	with.stamp = stamp
	return &with
}

// The key usages that readers of manifests accept (C2PA 2.2, section 14.5.1.1): certificates for claims, for documents and for
// mail.
var uses = []asn1.ObjectIdentifier{{1, 3, 6, 1, 4, 1, 62558, 2, 1}, {1, 3, 6, 1, 5, 5, 7, 3, 36}, {1, 3, 6, 1, 5, 5, 7, 3, 4}}

// NewSigner reads a certificate chain, the key's certificate first, and the key, both in PEM. The key must be P-256 or Ed25519.
// Certificates that readers of manifests would refuse are an error.
func NewSigner(certificates, key []byte) (*Signer, error) {
	s := &Signer{}
	for rest := certificates; ; {
		var p *pem.Block
		if p, rest = pem.Decode(rest); p == nil {
			break
		}
		if p.Type == "CERTIFICATE" {
			s.chain = append(s.chain, p.Bytes)
		}
	}
	if len(s.chain) == 0 {
		return nil, errors.New("the certificate file holds no PEM block CERTIFICATE")
	}
	leaf, err := x509.ParseCertificate(s.chain[0])
	if err != nil {
		return nil, fmt.Errorf("the first certificate: %w", err)
	}
	if err := suitable(leaf); err != nil {
		return nil, err
	}
	if s.key, err = parseKey(key); err != nil {
		return nil, err
	}
	switch k := s.key.Public().(type) {
	case *ecdsa.PublicKey:
		if k.Curve != elliptic.P256() {
			return nil, fmt.Errorf("the key is of the curve %s: give one of P-256 or Ed25519", k.Curve.Params().Name)
		}
		s.alg = cose.AlgorithmES256
		if !k.Equal(leaf.PublicKey) {
			err = errOtherKey
		}
	case ed25519.PublicKey:
		s.alg = cose.AlgorithmEdDSA
		if !k.Equal(leaf.PublicKey) {
			err = errOtherKey
		}
	default:
		err = errors.New("the key is neither P-256 nor Ed25519")
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

var errOtherKey = errors.New("the first certificate is for another key")

// suitable returns an error for certificates that readers of manifests refuse.
func suitable(c *x509.Certificate) error {
	allowed := false
	for _, use := range uses {
		for _, has := range c.UnknownExtKeyUsage {
			allowed = allowed || has.Equal(use)
		}
	}
	for _, use := range c.ExtKeyUsage {
		allowed = allowed || use == x509.ExtKeyUsageEmailProtection
	}
	var wrong []string
	if c.IsCA {
		wrong = append(wrong, "it is of a certificate authority")
	}
	if c.KeyUsage&x509.KeyUsageDigitalSignature == 0 {
		wrong = append(wrong, "its keyUsage lacks digitalSignature")
	}
	if !allowed {
		wrong = append(wrong, "its extendedKeyUsage has none of c2pa-kp-claimSigning (1.3.6.1.4.1.62558.2.1), documentSigning and emailProtection")
	}
	if len(c.AuthorityKeyId) == 0 {
		wrong = append(wrong, "it lacks an authorityKeyIdentifier")
	}
	if len(wrong) > 0 {
		return fmt.Errorf("readers of C2PA refuse signatures by the first certificate: %s", strings.Join(wrong, "; "))
	}
	return nil
}

// parseKey parses a key in PEM. No error contains the key.
func parseKey(text []byte) (crypto.Signer, error) {
	for {
		var p *pem.Block
		if p, text = pem.Decode(text); p == nil {
			return nil, errors.New("the key file holds no PEM block PRIVATE KEY or EC PRIVATE KEY")
		}
		switch p.Type {
		case "PRIVATE KEY":
			key, err := x509.ParsePKCS8PrivateKey(p.Bytes)
			if s, ok := key.(crypto.Signer); err == nil && ok {
				return s, nil
			}
			return nil, errors.New("the key cannot be read as PKCS #8")
		case "EC PRIVATE KEY":
			key, err := x509.ParseECPrivateKey(p.Bytes)
			if err != nil {
				return nil, errors.New("the key cannot be read as SEC 1")
			}
			return key, nil
		case "ENCRYPTED PRIVATE KEY":
			return nil, errors.New("the key is encrypted: give it in a file that only you can read, without a password")
		}
	}
}

// Certificate returns the SHA-256 of the key's certificate in hex.
func (s *Signer) Certificate() string {
	sum := sha256.Sum256(s.chain[0])
	return hex.EncodeToString(sum[:])
}

// sameBytes signs without randomness, so that equal contents have equal signatures (RFC 6979, RFC 8032).
type sameBytes struct {
	key crypto.Signer
	alg cose.Algorithm
}

// Algorithm implements cose.Signer.
func (s sameBytes) Algorithm() cose.Algorithm { return s.alg }

// Sign implements cose.Signer.
func (s sameBytes) Sign(_ io.Reader, content []byte) ([]byte, error) {
	if s.alg == cose.AlgorithmEdDSA {
		return s.key.Sign(nil, content, crypto.Hash(0))
	}
	digest := sha256.Sum256(content)
	der, err := s.key.Sign(nil, digest[:], crypto.SHA256)
	if err != nil {
		return nil, err
	}
	var pair struct{ R, S *big.Int }
	if _, err := asn1.Unmarshal(der, &pair); err != nil {
		return nil, err
	}
	out := make([]byte, 64)
	pair.R.FillBytes(out[:32])
	pair.S.FillBytes(out[32:])
	return out, nil
}

// The headers for a time stamp, and for padding that makes the length of a signature independent of the length of its time
// stamp (C2PA 2.2, sections 10.3.2.5 and 13.2).
const (
	stampHeader   = "sigTst2"
	paddingHeader = "pad"
	// stampRoom is the length of both together. Paddings of 256 to 65,535 bytes have headers of the same length.
	stampRoom = timestamp.MaxToken + 512
)

// stamps is the value of the time stamp header.
type stamps struct {
	Tokens []stampToken `cbor:"tstTokens"`
}

type stampToken struct {
	Value []byte `cbor:"val"`
}

// stamped returns the message of a time stamp for a signature: a countersignature (RFC 9052, section 4.4).
func stamped(protected cose.ProtectedHeader, signature []byte) ([]byte, error) {
	head, err := protected.MarshalCBOR()
	if err != nil {
		return nil, err
	}
	payload, err := encoding.Marshal(signature)
	if err != nil {
		return nil, err
	}
	return encoding.Marshal([]any{"CounterSignature", cbor.RawMessage(head), []byte{}, payload})
}

// addStamp adds a time stamp to a signature, and a padding that makes all signatures of this signer equally long. With blank it
// adds only the padding.
func (s *Signer) addStamp(m *cose.Sign1Message, blank bool) error {
	m.Headers.Unprotected[paddingHeader] = make([]byte, stampRoom)
	if blank {
		return nil
	}
	wanted, err := m.MarshalCBOR()
	if err != nil {
		return err
	}
	message, err := stamped(m.Headers.Protected, m.Signature)
	if err != nil {
		return err
	}
	token, err := s.stamp(message)
	if err != nil {
		return err
	}
	if len(token) > timestamp.MaxToken {
		return fmt.Errorf("the time stamp has %d bytes, more than %d", len(token), timestamp.MaxToken)
	}
	m.Headers.Unprotected[stampHeader] = stamps{[]stampToken{{token}}}
	long, err := m.MarshalCBOR()
	if err != nil {
		return err
	}
	m.Headers.Unprotected[paddingHeader] = make([]byte, stampRoom-(len(long)-len(wanted)))
	return nil
}

// sign returns the detached COSE_Sign1 of a claim. With blank it omits the time stamp but keeps the length.
func (s *Signer) sign(claim []byte, blank bool) ([]byte, error) {
	m := cose.NewSign1Message()
	m.Headers.Protected.SetAlgorithm(s.alg)
	m.Headers.Protected[cose.HeaderLabelX5Chain] = s.chain[0]
	if len(s.chain) > 1 {
		chain := make([]any, len(s.chain))
		for i, c := range s.chain {
			chain[i] = c
		}
		m.Headers.Protected[cose.HeaderLabelX5Chain] = chain
	}
	m.Payload = claim
	if err := m.Sign(nil, nil, sameBytes{s.key, s.alg}); err != nil {
		return nil, fmt.Errorf("sign the claim: %w", err)
	}
	if s.stamp != nil {
		if err := s.addStamp(m, blank); err != nil {
			return nil, fmt.Errorf("time stamp: %w", err)
		}
	}
	m.Payload = nil
	return m.MarshalCBOR()
}

// readStamp reads the time stamp of a signature for claims v2; found is false if there is none.
func readStamp(m *cose.Sign1Message) (t timestamp.Token, found bool, err error) {
	raw, found := m.Headers.Unprotected[stampHeader]
	if !found {
		return t, false, nil
	}
	text, err := encoding.Marshal(raw)
	if err != nil {
		return t, true, err
	}
	var value stamps
	if err := decoding.Unmarshal(text, &value); err != nil || len(value.Tokens) != 1 {
		return t, true, errors.New("the header for time stamps has no time stamp")
	}
	message, err := stamped(m.Headers.Protected, m.Signature)
	if err != nil {
		return t, true, err
	}
	t, err = timestamp.Read(value.Tokens[0].Value, message)
	return t, true, err
}

// verify checks a signature of a claim and returns the certificate chain.
func verify(m *cose.Sign1Message, claim []byte) (chain []*x509.Certificate, err error) {
	var ders [][]byte
	for _, h := range []map[any]any{m.Headers.Protected, m.Headers.Unprotected} {
		raw := h[cose.HeaderLabelX5Chain]
		if raw == nil {
			raw = h["x5chain"] // in claims v1
		}
		if one, ok := raw.([]byte); ok {
			ders = append(ders, one)
		}
		if several, ok := raw.([]any); ok {
			for _, c := range several {
				one, _ := c.([]byte)
				ders = append(ders, one)
			}
		}
	}
	for _, der := range ders {
		c, err := x509.ParseCertificate(der)
		if err != nil {
			return chain, fmt.Errorf("a certificate of the signature: %w", err)
		}
		chain = append(chain, c)
	}
	if len(chain) == 0 {
		return nil, errors.New("the signature has no certificate")
	}
	alg, err := m.Headers.Protected.Algorithm()
	if err != nil {
		return chain, err
	}
	v, err := cose.NewVerifier(alg, chain[0].PublicKey)
	if err != nil {
		return chain, err
	}
	m.Payload = claim
	return chain, m.Verify(nil, v)
}

// selfSigned reports whether a certificate is its own issuer.
func selfSigned(c *x509.Certificate) bool { return bytes.Equal(c.RawIssuer, c.RawSubject) }
