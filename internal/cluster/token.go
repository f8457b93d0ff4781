package cluster

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"runtime"
)

// Token is the secret that the processes of a job share.
type Token []byte

// ReadToken reads a token from a file, without white space at its ends.
func ReadToken(file string) (Token, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("read token: %w; make one with: head -c 32 /dev/urandom | base64 > %s", err, file)
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Mode().Perm()&0o044 != 0 && runtime.GOOS != "windows" {
		slog.Warn("the token can be read by other users of this host: take that right away", "fix", "chmod 600 "+file)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxToken+1))
	if err != nil {
		return nil, fmt.Errorf("read token: %w", err)
	}
	token := bytes.TrimSpace(text)
	if len(token) < minToken || len(text) > maxToken {
		return nil, fmt.Errorf("read token %s: %d bytes, must be %d to %d; "+
			"make one with: head -c 32 /dev/urandom | base64 > %s", file, len(token), minToken, maxToken, file)
	}
	return token, nil
}

// proof returns the bytes with which a side of a connection proves that it knows the token. The proof is bound to the
// keys of this connection (RFC 9266, RFC 8446 section 7.5), so a man in the middle cannot forward it. The token
// itself is never sent.
func (t Token) proof(c *tls.Conn, side string) ([]byte, error) {
	state := c.ConnectionState()
	key, err := state.ExportKeyingMaterial("EXPORTER-latentbeam-token", nil, sha256.Size)
	if err != nil {
		return nil, err
	}
	mac := hmac.New(sha256.New, t)
	mac.Write([]byte(side))
	mac.Write(key)
	return mac.Sum(nil), nil
}

// The sides of a connection.
const (
	dialer   = "dialer"
	listener = "listener"
)

// ErrToken is the error of both sides if the tokens differ. More detail would only help an attacker.
var ErrToken = fmt.Errorf("the tokens differ: give both processes the same token file")

// prove sends the proof of this side.
func (t Token) prove(c *tls.Conn, side string) error {
	p, err := t.proof(c, side)
	if err != nil {
		return err
	}
	_, err = c.Write(p)
	return err
}

// check receives and checks the proof of the peer, which is the given side.
func (t Token) check(c *tls.Conn, side string) error {
	want, err := t.proof(c, side)
	if err != nil {
		return err
	}
	got := make([]byte, len(want))
	if _, err := io.ReadFull(c, got); err != nil {
		if err == io.EOF {
			return ErrToken // the peer rejected our proof
		}
		return err
	}
	if !hmac.Equal(got, want) { // in constant time
		return ErrToken
	}
	return nil
}

// IsLoopback reports whether only this machine can reach an address to listen on.
func IsLoopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
