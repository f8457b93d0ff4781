package cluster

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"math/big"
	"net"
	"time"
)

// keepAlive detects a host that vanished, within half a minute.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 10 * time.Second, Interval: 5 * time.Second, Count: 4}

// dial connects to a process that listens at addr and knows the token. The process must answer within a time; 0: until ctx
// ends. The connection is encrypted (TLS 1.3). Only the token proves the identity of a peer; certificates are
// created by each process and are not checked.
func dial(ctx context.Context, addr string, within time.Duration, token Token) (net.Conn, error) {
	d := net.Dialer{Timeout: within, KeepAliveConfig: keepAlive}
	raw, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("connect to worker: %w", err)
	}
	c := tls.Client(raw, &tls.Config{
		MinVersion:         tls.VersionTLS13,
		InsecureSkipVerify: true, // the token proves identity: prove and check
	})
	stop := context.AfterFunc(ctx, func() { raw.Close() })
	defer stop()
	err = handshake(raw, func() error {
		if err := c.Handshake(); err != nil {
			return err
		}
		if err := token.prove(c, dialer); err != nil {
			return err
		}
		return token.check(c, listener)
	})
	if err != nil {
		return nil, fmt.Errorf("connect to worker %s: %w", addr, err)
	}
	return c, nil
}

// handshake runs hands on raw within handshakeTime, and closes raw if it fails.
func handshake(raw net.Conn, hands func() error) error {
	err := raw.SetDeadline(time.Now().Add(handshakeTime))
	if err == nil {
		err = hands()
	}
	if err == nil {
		err = raw.SetDeadline(time.Time{})
	}
	if err != nil {
		raw.Close()
	}
	return err
}

// accept is the listening side of dial, for an accepted connection.
func accept(raw net.Conn, token Token, cert tls.Certificate) (net.Conn, error) {
	c := tls.Server(raw, &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{cert}, SessionTicketsDisabled: true,
	})
	return c, handshake(raw, func() error {
		if err := c.Handshake(); err != nil {
			return err
		}
		if err := token.check(c, dialer); err != nil {
			return err
		}
		return token.prove(c, listener)
	})
}

// newCertificate creates the certificate of this process; see dial.
func newCertificate() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().AddDate(1, 0, 0)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
}
