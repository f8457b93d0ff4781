// Package gputest provides fake machines for tests of code that uses GPUs: eight A100 on an NVSwitch, four T4 without
// peer access, mixed and divided ones. Tests can make devices fail. Only tests import the package.
package gputest
