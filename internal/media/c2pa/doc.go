// Package c2pa makes and reads manifests of content credentials (C2PA Technical Specification 2.2: claim v2, JUMBF of ISO/IEC 19566-5,
// signatures COSE_Sign1 of RFC 9052): what a file is, signed with a key. It knows nothing of files: internal/media/marks puts a
// manifest into one and tells what of the file it is bound to.
//
// Equal arguments give equal bytes: signatures are ES256 with the nonce of RFC 6979, or Ed25519; there is no time and no network,
// but for signers with time stamps.
package c2pa
