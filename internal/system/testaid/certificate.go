package testaid

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"math/big"
	"testing"
	"time"
)

// Certificate returns an untrusted certificate that may sign C2PA claims, followed by the certificate of its authority, and its key,
// both as PEM. The key is Ed25519 if edwards is true, else P-256.
func Certificate(t testing.TB, edwards bool) (chain, key []byte) {
	t.Helper()
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	authority, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(err)
	var own crypto.Signer
	if edwards {
		_, own, err = ed25519.GenerateKey(rand.Reader)
	} else {
		own, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	}
	must(err)
	now := time.Now()
	root := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "Test Authority", Organization: []string{"Test"}},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign, SubjectKeyId: []byte{1, 2, 3, 4}}
	rootDER, err := x509.CreateCertificate(rand.Reader, root, root, authority.Public(), authority)
	must(err)
	leaf := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "Test Signer", Organization: []string{"Test"}},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour), KeyUsage: x509.KeyUsageDigitalSignature, BasicConstraintsValid: true,
		ExtKeyUsage:        []x509.ExtKeyUsage{x509.ExtKeyUsageEmailProtection},
		UnknownExtKeyUsage: []asn1.ObjectIdentifier{{1, 3, 6, 1, 5, 5, 7, 3, 36}}, AuthorityKeyId: root.SubjectKeyId}
	leafDER, err := x509.CreateCertificate(rand.Reader, leaf, root, own.Public(), authority)
	must(err)
	keyDER, err := x509.MarshalPKCS8PrivateKey(own)
	must(err)
	chain = append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: leafDER}),
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: rootDER})...)
	return chain, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})
}
