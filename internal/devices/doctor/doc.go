// Package doctor inspects the machine that the program runs on. Collect gathers facts; Examine says what they
// mean for a job and what each missing piece costs. Examine is pure, so a test can describe any machine.
//
// The package changes nothing on the machine and opens no model. To inspect one thing more, add a field to HostFacts, a line to
// Collect and a function to Examine.
package doctor
