package t5
import "testing"
func TestBig(t *testing.T){ checkCleaned(t, readCleaned(t, "/tmp/tok/big.json").Pairs) }
