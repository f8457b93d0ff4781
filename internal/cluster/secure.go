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

// keepAlive finds a host that vanished without a word within half a minute.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 10 * time.Second, Interval: 5 * time.Second, Count: 4}

// dial connects to a process that listens at addr, answers within a time (0: that of ctx) and knows the token. What
// passes is encrypted (TLS 1.3); who is there is known by the token alone, so certificates mean nothing and are made
// for the day.
func dial(ctx context.Context, addr string, within time.Duration, token Token) (net.Conn, error) {
	d := net.Dialer{Timeout: within, KeepAliveConfig: keepAlive}
	raw, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("connect to worker: %w", err)
	}
	c := tls.Client(raw, &tls.Config{
		MinVersion:         tls.VersionTLS13,
		InsecureSkipVerify: true, // identity is the token's matter: prove and check
	})
	stop := context.AfterFunc(ctx, func() { raw.Close() })
	defer stop()
	err = shake(raw, func() error {
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

// shake runs a handshake on raw within its time; raw is closed if it fails.
func shake(raw net.Conn, hands func() error) error {
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

// accept is the other end of dial, on a connection just taken.
func accept(raw net.Conn, token Token, cert tls.Certificate) (net.Conn, error) {
	c := tls.Server(raw, &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{cert}, SessionTicketsDisabled: true,
	})
	return c, shake(raw, func() error {
		if err := c.Handshake(); err != nil {
			return err
		}
		if err := token.check(c, dialer); err != nil {
			return err
		}
		return token.prove(c, listener)
	})
}

// newCertificate makes the certificate of one process; see dial.
func newCertificate() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().AddDate(1, 0, 0)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
}
