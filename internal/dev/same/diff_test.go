package same

import (
	"fmt"
	"strings"
)

// maxDiff is the largest number of lines that diff returns.
const maxDiff = 60

// diff returns the lines in which two texts differ, found by their longest common subsequence.
func diff(want, got string) string {
	a, b := strings.Split(want, "\n"), strings.Split(got, "\n")
	common := make([][]int, len(a)+1) // length of the longest common subsequence of a[i:] and b[j:]
	for i := range common {
		common[i] = make([]int, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			common[i][j] = max(common[i+1][j], common[i][j+1])
			if a[i] == b[j] {
				common[i][j] = common[i+1][j+1] + 1
			}
		}
	}
	var out []string
	for i, j := 0, 0; i < len(a) || j < len(b); {
		switch {
		case i < len(a) && j < len(b) && a[i] == b[j]:
			i, j = i+1, j+1
		case j == len(b) || i < len(a) && common[i+1][j] >= common[i][j+1]:
			out = append(out, fmt.Sprintf("%4d - %s", i+1, a[i]))
			i++
		default:
			out = append(out, fmt.Sprintf("%4d + %s", i+1, b[j]))
			j++
		}
	}
	if len(out) > maxDiff {
		out = append(out[:maxDiff], fmt.Sprintf("and %d lines more", len(out)-maxDiff))
	}
	return strings.Join(out, "\n")
}
