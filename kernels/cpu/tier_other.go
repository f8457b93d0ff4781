//go:build !amd64

package cpu

// nativeTiers returns nil: there is assembly for amd64 only.
func nativeTiers() []*tier { return nil }

// describeRates returns "": nothing is measured.
func describeRates(*tier) string { return "" }

// fastestFirst returns tiers unchanged.
func fastestFirst(tiers []*tier) []*tier { return tiers }
