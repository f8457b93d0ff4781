package weights

import "fmt"

// Within returns an error if a number of a config.json is not between 1 and most. name is the number's key.
func Within(name string, value, most int) error {
	if value < 1 || value > most {
		return fmt.Errorf("%s is %d: give 1 to %d", name, value, most)
	}
	return nil
}
