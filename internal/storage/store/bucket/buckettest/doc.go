// Package buckettest has bucket services in this process for tests, and a proxy in front of them that simulates network failures.
// Only tests import it.
package buckettest
