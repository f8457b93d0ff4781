// Package timestamp requests tokens from a time stamp authority (RFC 3161), and reads tokens from any authority. A token says
// that bytes existed at a time; the authority signs it. The package does not decide whether the authority can be trusted,
// because that depends on the certificates that the reader trusts.
package timestamp

import (
	"bytes"
	"context"
	"crypto"
	"crypto/rand"
	"crypto/sha1" //nolint:gosec // the attribute of RFC 2634 has no other; the signature over it does not use it
	"crypto/sha256"
	_ "crypto/sha512" // for tokens that use it
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/digitorus/pkcs7"
	rfc3161 "github.com/digitorus/timestamp"

	"latentbeam/schemas/fault"
)

// MaxToken limits a token in bytes. Public authorities return 2 to 7 kB, with their certificates.
const MaxToken = 16 << 10

// Token is the content of a token.
type Token struct {
	Time      time.Time
	Authority string // name in the certificate of the authority
}

// Read reads a token for a message. It returns an error if the authority's signature is invalid, its certificate was not valid
// at that time, or the token is for another message.
func Read(token, message []byte) (Token, error) {
	t, _, err := read(token, message)
	return t, err
}

func read(token, message []byte) (Token, *rfc3161.Timestamp, error) {
	if len(token) > MaxToken {
		return Token{}, nil, fmt.Errorf("the time stamp has %d bytes, more than %d", len(token), MaxToken)
	}
	stamp, err := rfc3161.Parse(token) // it checks the signature if there are certificates
	if err != nil {
		return Token{}, nil, fmt.Errorf("the time stamp cannot be read: %w", err)
	}
	signed, err := pkcs7.Parse(token)
	if err != nil {
		return Token{}, nil, fmt.Errorf("the time stamp cannot be read: %w", err)
	}
	authority := signed.GetOnlySigner()
	if authority == nil {
		return Token{}, nil, errors.New("the time stamp does not have the certificate of one authority")
	}
	t := Token{Time: stamp.Time.UTC(), Authority: authority.Subject.String()}
	switch {
	case !named(signed, authority):
		err = errors.New("it does not name its certificate")
	case !slices.Contains(authority.ExtKeyUsage, x509.ExtKeyUsageTimeStamping):
		err = errors.New("its certificate is not for time stamps")
	case t.Time.Before(authority.NotBefore) || t.Time.After(authority.NotAfter):
		err = fmt.Errorf("its certificate is not valid at %s", t.Time.Format(time.RFC3339))
	case !stamp.HashAlgorithm.Available():
		err = errors.New("its digest is of an unknown kind")
	default:
		h := stamp.HashAlgorithm.New()
		h.Write(message)
		if !bytes.Equal(h.Sum(nil), stamp.HashedMessage) {
			err = errors.New("it is for something else than this signature")
		}
	}
	if err != nil {
		return t, nil, fmt.Errorf("the time stamp of %s is invalid: %w", t.Authority, err)
	}
	return t, stamp, nil
}

// The signed attributes that name the certificate of a signature, by SHA-1 (RFC 2634, section 5.4) or by any hash (RFC 5035).
var (
	certificateBySHA1 = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 9, 16, 2, 12}
	certificateByHash = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 9, 16, 2, 47}
)

// named reports whether a token names a certificate as its signature's, by digest. Tokens must (RFC 3161, section 2.4.2).
func named(token *pkcs7.PKCS7, certificate *x509.Certificate) bool {
	var byHash struct {
		Certificates []struct {
			Algorithm pkix.AlgorithmIdentifier `asn1:"optional"`
			Hash      []byte
			Issuer    asn1.RawValue `asn1:"optional"`
		}
		Policies asn1.RawValue `asn1:"optional"`
	}
	if token.UnmarshalSignedAttribute(certificateByHash, &byHash) == nil && len(byHash.Certificates) > 0 {
		hash := crypto.SHA256 // the default
		switch oid := byHash.Certificates[0].Algorithm.Algorithm; {
		case oid.Equal(pkcs7.OIDDigestAlgorithmSHA384):
			hash = crypto.SHA384
		case oid.Equal(pkcs7.OIDDigestAlgorithmSHA512):
			hash = crypto.SHA512
		case len(oid) > 0 && !oid.Equal(pkcs7.OIDDigestAlgorithmSHA256):
			return false
		}
		h := hash.New()
		h.Write(certificate.Raw)
		return bytes.Equal(h.Sum(nil), byHash.Certificates[0].Hash)
	}
	var bySHA1 struct {
		Certificates []struct {
			Hash   []byte
			Issuer asn1.RawValue `asn1:"optional"`
		}
		Policies asn1.RawValue `asn1:"optional"`
	}
	if token.UnmarshalSignedAttribute(certificateBySHA1, &bySHA1) != nil || len(bySHA1.Certificates) == 0 {
		return false
	}
	sum := sha1.Sum(certificate.Raw)
	return bytes.Equal(sum[:], bySHA1.Certificates[0].Hash)
}

// Authority is a time stamp authority that is requested over HTTP.
type Authority struct {
	url    string
	client *http.Client
	// wait waits before another attempt, until ctx ends.
	wait func(ctx context.Context, d time.Duration) error
}

// The number of attempts and the first wait between them, which doubles: 15 seconds in total, besides the time of the requests.
const (
	tries     = 5
	firstWait = time.Second
	answerIn  = 30 * time.Second
)

// CheckURL returns an error for an invalid address of an authority.
func CheckURL(address string) error {
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return fmt.Errorf("%q is no address such as http://timestamp.example.com", address)
	case u.User != nil:
		return errors.New("the address has a user name or a password, which the output would record; authorities that need one are not " +
			"supported")
	}
	return nil
}

// New returns the authority at an address, see CheckURL.
func New(address string) *Authority {
	return &Authority{url: address, client: &http.Client{Timeout: answerIn}, wait: sleep}
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Stamp returns a token for a message, in DER. It sends only the SHA-256 of the message. An authority that does not answer is
// tried five times. If it still does not answer, or its answer is invalid, the error ends the run with exit code 75; if it
// refuses the request, with 2.
func (a *Authority) Stamp(ctx context.Context, message []byte) ([]byte, error) {
	nonce, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 64))
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(message)
	request, err := (&rfc3161.Request{HashAlgorithm: crypto.SHA256, HashedMessage: sum[:], Certificates: true, Nonce: nonce}).Marshal()
	if err != nil {
		return nil, err
	}
	var answer []byte
	for i, d := 1, firstWait; ; i, d = i+1, 2*d {
		var again bool
		if answer, again, err = a.ask(ctx, request); err == nil {
			break
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		err = fmt.Errorf("the time stamp authority %s: %w", a.url, err)
		if !again {
			return nil, fault.Usage(err)
		}
		if i == tries {
			return nil, fault.TryAgain(fmt.Errorf("%w (asked %d times)", err, tries))
		}
		if err := a.wait(ctx, d); err != nil {
			return nil, err
		}
	}
	stamp, err := rfc3161.ParseResponse(answer)
	if err != nil {
		return nil, fault.TryAgain(fmt.Errorf("the time stamp authority %s: %w", a.url, err))
	}
	_, read, err := read(stamp.RawToken, message)
	if err == nil && (read.Nonce == nil || read.Nonce.Cmp(nonce) != 0) {
		err = errors.New("the time stamp was made for another request")
	}
	if err != nil {
		return nil, fault.TryAgain(fmt.Errorf("the time stamp authority %s: %w", a.url, err))
	}
	return stamp.RawToken, nil
}

// ask sends a request once; again says that another attempt may help.
func (a *Authority) ask(ctx context.Context, request []byte) (answer []byte, again bool, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, a.url, bytes.NewReader(request))
	if err != nil {
		return nil, false, err
	}
	r.Header.Set("Content-Type", "application/timestamp-query")
	r.Header.Set("Accept", "application/timestamp-reply")
	reply, err := a.client.Do(r)
	if err != nil {
		var of *url.Error
		if errors.As(err, &of) { // it repeats the address
			err = of.Err
		}
		return nil, true, err
	}
	defer reply.Body.Close()
	answer, err = io.ReadAll(io.LimitReader(reply.Body, 2*MaxToken+1))
	switch {
	case err != nil:
		return nil, true, err
	case reply.StatusCode >= 500 || reply.StatusCode == http.StatusTooManyRequests:
		return nil, true, fmt.Errorf("it answers %s", reply.Status)
	case reply.StatusCode != http.StatusOK:
		return nil, false, fmt.Errorf("it answers %s", reply.Status)
	case len(answer) > 2*MaxToken:
		return nil, false, fmt.Errorf("its answer has more than %d bytes", 2*MaxToken)
	}
	return answer, true, nil
}
