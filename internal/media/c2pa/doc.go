// Package c2pa creates and reads manifests of content credentials (C2PA Technical Specification 2.2: claim v2, JUMBF of ISO/IEC
// 19566-5, signatures COSE_Sign1 of RFC 9052). A manifest says what a file is, and is signed with a key. The package does not
// handle files: internal/media/marks inserts a manifest into a file and computes what it is bound to.
//
// Equal arguments give equal bytes: signatures are ES256 with the nonce of RFC 6979, or Ed25519. The package uses no clock and
// no network, except for signers with time stamps.
package c2pa
