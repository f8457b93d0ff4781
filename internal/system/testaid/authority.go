package testaid

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	rfc3161 "github.com/digitorus/timestamp"
)

// Authority is a time stamp authority on a loopback address. Its certificate is not trusted.
type Authority struct {
	*httptest.Server
	Asked atomic.Int64 // requests so far
	// Lie changes a stamp before it is signed. Answer returns true if it has answered instead of the authority. Both may be nil.
	Lie    func(*rfc3161.Timestamp)
	Answer func(w http.ResponseWriter) bool
}

// NewAuthority starts an authority that is closed when the test ends. uses are the extended key usages of its certificate, by
// default time stamps.
func NewAuthority(t testing.TB, uses ...x509.ExtKeyUsage) *Authority {
	t.Helper()
	if uses == nil {
		uses = []x509.ExtKeyUsage{x509.ExtKeyUsageTimeStamping}
	}
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(err)
	now := time.Now()
	root := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "Test Time Root", Organization: []string{"Test"}},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign, SubjectKeyId: []byte{5, 6, 7, 8}}
	rootDER, err := x509.CreateCertificate(rand.Reader, root, root, key.Public(), key)
	must(err)
	rootCertificate, err := x509.ParseCertificate(rootDER)
	must(err)
	own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(err)
	leaf := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "Test Time Stamps", Organization: []string{"Test"}},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour), KeyUsage: x509.KeyUsageDigitalSignature, BasicConstraintsValid: true,
		ExtKeyUsage: uses, AuthorityKeyId: root.SubjectKeyId}
	leafDER, err := x509.CreateCertificate(rand.Reader, leaf, root, own.Public(), key)
	must(err)
	certificate, err := x509.ParseCertificate(leafDER)
	must(err)
	a := &Authority{}
	a.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.Asked.Add(1)
		if a.Answer != nil && a.Answer(w) {
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		asked, err := rfc3161.ParseRequest(body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		stamp := &rfc3161.Timestamp{HashAlgorithm: asked.HashAlgorithm, HashedMessage: asked.HashedMessage, Time: time.Now().UTC(),
			Nonce: asked.Nonce, Policy: asn1.ObjectIdentifier{1, 2, 3, 4}, AddTSACertificate: asked.Certificates,
			Certificates: []*x509.Certificate{rootCertificate}}
		if a.Lie != nil {
			a.Lie(stamp)
		}
		answer, err := stamp.CreateResponseWithOpts(certificate, own, crypto.SHA256)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/timestamp-reply")
		_, _ = w.Write(answer)
	}))
	t.Cleanup(a.Close)
	return a
}
